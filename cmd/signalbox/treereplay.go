package main

import (
	"context"
	"fmt"
	"time"

	"signalbox/internal/tree"
	"signalbox/internal/tree/draw"
	"signalbox/internal/tree/runner"
)

type treeReplayCommand struct {
	Journal string `arg:"" help:"The journal of a run."`
	Steps   bool   `help:"Print what changed in each tick."`
	JSON    bool   `name:"json" help:"Print a JSON object for each tick and one for the end."`
}

func (treeReplayCommand) Help() string {
	return `Repeats a recorded run: the leaves answer and write what they did then, and all other nodes must come to the same statuses. No function, tool or model is called. It checks that no line of the journal was changed. If anything differs, the exit status is 5.

Examples:

    signalbox tree run examples/trees/turn.lua --replies examples/trees/turn.replies --journal turn.journal
    signalbox tree replay turn.journal
    signalbox tree replay --steps turn.journal`
}

func (c *treeReplayCommand) Run(p *program) error {
	p.quiet = c.JSON
	show := &treeTeller{p: p, json: c.JSON, to: p.out}
	run, closeFile, err := p.replayUpTo(context.Background(), c.Journal, 0, func(run *tree.Run) error {
		if c.Steps || c.JSON {
			show.tick(run, run.Transitions())
		}
		return nil
	})
	if err != nil {
		return err
	}
	defer closeFile()
	j, err := runner.ReadJournal(c.Journal, nil, nil)
	if err != nil {
		return journalError(err)
	}
	if c.JSON {
		return show.end(run, j.Ending)
	}
	fmt.Fprint(p.out, draw.Text(run.Tree(), &draw.Options{Views: run.Views(), Color: p.colored()}))
	_, err = fmt.Fprintf(p.out, "replayed %s of run %s: all statuses as recorded; %s\n", tickCount(run.Ticks()), run.ID(), endingText(run, j))
	return err
}

func endingText(run *tree.Run, j *runner.Journal) string {
	switch {
	case j.Ended():
		return "it ended with " + j.Ending.End
	case j.Ending != nil && j.Ending.Error != "":
		return fmt.Sprintf("it was stopped on %s: %s", j.Ending.At.Format(time.RFC3339), j.Ending.Error)
	case j.Ending != nil:
		return "it was interrupted on " + j.Ending.At.Format(time.RFC3339) + ", and can go on"
	}
	return "it has not ended, and can go on"
}
