package boxes

import (
	"context"
	"fmt"

	"signalbox/internal/cli"
	"signalbox/internal/config"
	"signalbox/internal/team"
)

type ConfigCommands struct {
	Show configShowCommand `cmd:"" help:"Print each setting with its origin."`
}

func (ConfigCommands) Help() string {
	return `The configuration is made of the defaults, the team's signalbox.yaml at the top of the repository, and .signalbox/signalbox.yaml. docs/reference/configuration.md describes every setting.

Examples:

    signalbox config show`
}

type configShowCommand struct {
	cli.BoxFlag
	JSON bool `name:"json" help:"Print one JSON object."`
}

func (configShowCommand) Help() string {
	return `Prints the settings that count, one per line: where each comes from (default, team or local), its name and its value as JSON. Local is .signalbox/signalbox.yaml. Settings without a value are omitted.

Examples:

    signalbox config show
    signalbox config show --json | jq -r '.settings[] | select(.origin == "team").name'`
}

// shownConfig is the JSON answer.
type shownConfig struct {
	Commit   string           `json:"commit,omitempty"` // of the team's configuration
	Settings []config.Setting `json:"settings"`
}

func (c *configShowCommand) Run(p *cli.Program) error {
	dir, err := p.FindBox(c.BoxFlag)
	if err != nil {
		return err
	}
	shared, err := team.Read(context.Background(), p.ProjectRoot(c.BoxFlag, dir), dir)
	if err != nil {
		return err
	}
	settings, err := shared.Show(team.Store{}, dir)
	if err != nil {
		return err
	}
	if c.JSON {
		answer := shownConfig{Settings: settings}
		if shared.Files != nil {
			answer.Commit = shared.Commit
		}
		return p.PrintJSON(answer, "")
	}
	for _, s := range settings {
		if _, err := fmt.Fprintf(p.Out, "%-8s %s: %s\n", s.Origin, cli.Printable(s.Name),
			cli.Printable(s.Value)); err != nil {
			return err
		}
	}
	return nil
}
