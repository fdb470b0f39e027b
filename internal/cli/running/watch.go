package running

import (
	"context"
	"errors"
	"sync"

	"signalbox/internal/cli"
	"signalbox/internal/core/box"
	"signalbox/internal/run/progress"
	"signalbox/internal/team"
)

type WatchCommand struct {
	cli.BoxFlag
	runFlags
}

func (WatchCommand) Help() string {
	return `Shows a run of this box that was started elsewhere, such as in another terminal, on the same screen that signalbox run has. It has the same keys: select a task with the arrow keys, Enter reads its transcript, d its diff, i its findings and checks; a answers or approves, x rejects, r sends a task back, t tells its agent something, p pauses and resumes. q or Ctrl-C leaves, and the run continues. It begins with the last events. If no run is active, it waits for one.

Without a terminal, or with --plain, it prints a line for each event, and decides nothing; with --json it prints the events of the ledger from now on. An agent, and a user who does not trust the team's configuration, can only look.

Examples:

    signalbox watch
    signalbox watch --plain >>run.log
    signalbox watch --json | jq -c 'select(.type == "QuestionAsked")'`
}

// recentEvents is how many events a watch begins with.
const recentEvents = 20

func (c *WatchCommand) Run(p *cli.Program) error {
	ctx, stop := cli.UntilInterrupted()
	defer stop()
	if c.decides(p) {
		// Like other commands that decide, it needs the user's trust in the team's configuration.
		err := p.WithBoxOptions(ctx, c.BoxFlag, p.WorkOptions(c.BoxFlag),
			func(b *box.Box) error { return c.show(ctx, stop, p, b, p.ActorOf("")) })
		if !errors.Is(err, team.ErrUntrusted) {
			return err
		}
	}
	return cli.WithOpened(ctx, p, c.BoxFlag, box.OpenReadOnly, p.ReadOptions(c.BoxFlag),
		func(b *box.Box) error { return c.show(ctx, stop, p, b, "") })
}

// decides reports whether the user can decide something on a screen.
func (c *WatchCommand) decides(p *cli.Program) bool {
	return !c.JSON && !c.Plain && cli.IsTerminal(p.Stdin) && cli.IsTerminal(p.Stdout) &&
		p.OperatorOnly("decide") == nil
}

// show shows the run until ctx is done or the user leaves. Without an actor nothing can be decided.
func (c *WatchCommand) show(ctx context.Context, stop context.CancelFunc, p *cli.Program,
	b *box.Box, actor string) error {
	view := newDisplay(p, b, progress.Options{JSON: c.JSON, Plain: c.Plain, Watch: true,
		Actor: actor, Recent: recentEvents,
		Root: p.ProjectRoot(c.BoxFlag, b.Dir), From: b.Engine.Tail().Seq})
	var following sync.WaitGroup
	defer following.Wait()
	defer stop()
	var broken error
	following.Go(func() {
		// It records only what the user decides; expired leases are for the run.
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
}
