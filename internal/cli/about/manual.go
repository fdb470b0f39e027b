package about

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/alecthomas/kong"

	"signalbox/internal/cli"
	"signalbox/internal/cli/about/manual"
)

type ManualCommand struct {
	Folder string `arg:"" help:"The folder for the pages; it is created if needed."`
}

func (ManualCommand) Help() string {
	return `Writes the manual pages, signalbox.1 and one for each command, into a folder. Packages install them; you can read one with man -l.

Examples:

    signalbox manual share/man/man1
    man -l share/man/man1/signalbox-run.1`
}

func (c *ManualCommand) Run(p *cli.Program, app *kong.Kong) error {
	if err := os.MkdirAll(c.Folder, 0o755); err != nil {
		return err
	}
	pages := manual.Pages(app.Model, p.Build().Version)
	for _, page := range pages {
		if err := os.WriteFile(filepath.Join(c.Folder, page.Name), page.Text, 0o644); err != nil {
			return err
		}
	}
	_, err := fmt.Fprintf(p.Out, "wrote %d manual pages to %s\n", len(pages), c.Folder)
	return err
}
