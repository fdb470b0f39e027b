package main

import (
	"fmt"
	"reflect"

	"github.com/alecthomas/kong"

	"signalbox"
	"signalbox/cmd/signalbox/completion"
)

type completionCommand struct {
	Shell completion.Shell `arg:"" enum:"bash,zsh,fish" help:"bash, zsh or fish."`
	Words []string         `arg:"" optional:"" hidden:"" help:"The words typed so far, after --. The script passes them."`
}

func (completionCommand) Help() string {
	return `Prints a script that completes commands, flags and their values when you press Tab. Load it in the start-up file of your shell.

Examples:

    source <(signalbox completion bash)
    source <(signalbox completion zsh)
    signalbox completion fish | source`
}

func (c *completionCommand) Run(p *program, app *kong.Kong) error {
	answer := c.Shell.Script()
	if len(c.Words) > 0 {
		values := completion.Values{
			reflect.TypeFor[signalbox.Role]():   names(signalbox.Roles()),
			reflect.TypeFor[signalbox.Format](): names(signalbox.Formats()),
		}
		answer = c.Shell.Format(completion.Candidates(app.Model.Node, values, c.Words))
	}
	_, err := fmt.Fprint(p.out, answer)
	return err
}

func names[T ~string](values []T) []string {
	words := make([]string, len(values))
	for i, v := range values {
		words[i] = string(v)
	}
	return words
}
