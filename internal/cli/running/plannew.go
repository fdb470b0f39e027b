package running

import (
	"errors"
	"fmt"
	"io/fs"
	"os"

	"signalbox"
	"signalbox/internal/cli"
	"signalbox/internal/run/plan"
)

type planNewCommand struct {
	File  string `arg:"" optional:"" default:"plan.md" help:"The file to write; - prints the plan."`
	Title string `default:"A new plan" help:"The name of the plan."`
}

func (planNewCommand) Help() string {
	return `Writes a plan with two tasks and comments that explain it, for you to edit. It passes signalbox plan check. A file that exists is never overwritten.

Examples:

    signalbox plan new
    signalbox plan new sprint2.md --title 'Sprint 2'
    signalbox plan new - | less`
}

func (c *planNewCommand) Run(p *cli.Program) error {
	text, err := plan.Skeleton(c.Title)
	if err != nil {
		return err
	}
	if c.File == "-" {
		_, err = p.Out.Write(text)
		return err
	}
	if err := writeNew(c.File, text); err != nil {
		return err
	}
	_, err = fmt.Fprintf(p.Out, "wrote %s; edit it, then run signalbox plan check %s\n", c.File,
		c.File)
	return err
}

// writeNew writes a file that must not exist.
func writeNew(name string, text []byte) error {
	f, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	switch {
	case errors.Is(err, fs.ErrExist):
		return signalbox.CodeConflict.Errorf("name another file, or remove it first",
			"%s exists, and is not overwritten", name)
	case err != nil:
		return &signalbox.Error{Code: signalbox.CodeFailed, Err: err,
			Hint: "check that the folder exists and that you may write to it"}
	}
	_, err = f.Write(text)
	if err = errors.Join(err, f.Close()); err != nil {
		os.Remove(name)
		return &signalbox.Error{Code: signalbox.CodeFailed, Err: err,
			Hint: "free disk space, and try again"}
	}
	return nil
}
