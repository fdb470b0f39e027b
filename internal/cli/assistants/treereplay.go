package assistants

import (
	"context"
	"fmt"
	"time"

	"signalbox/internal/cli"
	"signalbox/internal/text"
	"signalbox/internal/tree"
	"signalbox/internal/tree/draw"
	"signalbox/internal/tree/report"
	"signalbox/internal/tree/runner"
)

type treeReplayCommand struct {
	Journal string `arg:"" help:"The journal of a run."`
	Steps   bool   `help:"Print what changed in each tick."`
	JSON    bool   `name:"json" help:"Print a JSON object for each tick and one for the end."`
}

func (treeReplayCommand) Help() string {
	return `Repeats a recorded run. The leaves return and write what was recorded, and every other node must reach the recorded status. No function, tool or model is called. It also checks the hash of every line. The exit status is 5 if anything differs.

Examples:

    signalbox tree run examples/trees/turn.lua --replies examples/trees/turn.replies --journal turn.journal
    signalbox tree replay turn.journal
    signalbox tree replay --steps turn.journal`
}

func (c *treeReplayCommand) Run(p *cli.Program) error {
	p.Quiet = c.JSON
	r, err := replay(context.Background(), c.Journal, 0, func(run *tree.Run) error {
		switch {
		case c.JSON:
			printTick(p, run)
		case c.Steps:
			for _, line := range report.Lines(run) {
				fmt.Fprintln(p.Out, line)
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	defer r.close()
	if c.JSON {
		return p.PrintJSON(report.NewEnd(r.run, r.journal.Ending), "")
	}
	colors := p.Colors(p.Stdout)
	fmt.Fprint(p.Styled(colors),
		draw.Text(r.run.Tree(), &draw.Options{Views: r.run.Views(), Color: colors}))
	_, err = fmt.Fprintf(p.Out, "replayed %s of run %s: all statuses as recorded; %s\n",
		text.Count(r.run.Ticks(), "tick"), r.run.ID(), endingText(r.journal))
	return err
}

func endingText(j *runner.Journal) string {
	switch {
	case j.Ended():
		return "it ended with " + j.Ending.End
	case j.Ending != nil && j.Ending.Error != "":
		return fmt.Sprintf("it was stopped on %s: %s", j.Ending.At.Format(time.RFC3339),
			j.Ending.Error)
	case j.Ending != nil:
		return "it was interrupted on " + j.Ending.At.Format(time.RFC3339) + " and can be resumed"
	}
	return "it has not ended and can be resumed"
}
