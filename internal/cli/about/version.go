package about

import (
	"fmt"

	"signalbox/internal/cli"
)

type VersionCommand struct {
	JSON bool `name:"json" help:"Print one JSON object."`
}

func (VersionCommand) Help() string {
	return `Prints the version, the commit, and the Go release of this build. Values that the build did not record are "unknown".

Examples:

    signalbox version
    signalbox version --json`
}

func (c *VersionCommand) Run(p *cli.Program) error {
	b := p.Build()
	if c.JSON {
		return p.PrintJSON(b, "")
	}
	modified := ""
	if b.Modified {
		modified = ", modified"
	}
	_, err := fmt.Fprintf(p.Out, "signalbox %s\ncommit %s%s\n%s %s\n", b.Version, b.Commit,
		modified, b.Go, b.Platform)
	return err
}
