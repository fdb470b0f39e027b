package running

import (
	"errors"
	"sync"

	"signalbox/internal/cli"
	"signalbox/internal/core/box"
	"signalbox/internal/run/progress"
)

type WatchCommand struct {
	cli.BoxFlag
	runFlags
}

func (WatchCommand) Help() string {
	return `Shows a run of this box that was started elsewhere, such as in another terminal, on the same screen that signalbox run has. It only reads: select a task with the arrow keys, Enter reads its transcript, d its diff, i its findings and checks; q or Ctrl-C leaves, and the run continues. If no run is active, it waits for one.

Without a terminal, or with --plain, it prints a line for each event from now on, and with --json the events of the ledger.

Examples:

    signalbox watch
    signalbox watch --plain >>run.log
    signalbox watch --json | jq -c 'select(.type == "QuestionAsked")'`
}

func (c *WatchCommand) Run(p *cli.Program) error {
	ctx, stop := cli.UntilInterrupted()
	defer stop()
	return cli.WithOpened(ctx, p, c.BoxFlag, box.OpenReadOnly, p.ReadOptions(c.BoxFlag),
		func(b *box.Box) error {
			view := newDisplay(p, b, progress.Options{JSON: c.JSON, Plain: c.Plain, Watch: true,
				Root: p.ProjectRoot(c.BoxFlag, b.Dir), From: b.Engine.Tail().Seq})
			var following sync.WaitGroup
			defer following.Wait()
			defer stop()
			var broken error
			following.Go(func() {
				if broken = b.Engine.Observe(ctx); ctx.Err() != nil {
					broken = nil
				}
				stop()
			})
			err := view.Show(ctx)
			stop()
			following.Wait()
			if errors.Is(err, progress.ErrInterrupted) {
				err = nil // leaving is the normal end
			}
			return errors.Join(err, broken)
		})
}
