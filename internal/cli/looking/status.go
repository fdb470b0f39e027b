// Package looking has the commands that show what a run does and did, and change nothing: status,
// logs, diff, explain and stats.
package looking

import (
	"context"
	"time"

	"signalbox/internal/cli"
	"signalbox/internal/core/box"
	"signalbox/internal/run/inspect"
	"signalbox/internal/run/inspect/render"
)

type StatusCommand struct {
	cli.BoxFlag
	JSON bool `name:"json" help:"Print one JSON object."`
}

func (StatusCommand) Help() string {
	return `Shows on one screen what is going on: the progress of the plan, which tasks are worked on and by whom, what waits for you and the command that answers it, what was spent, and whether a run is active on this machine. It changes nothing, and works during a run and without one.

Exit status: 0, also if the run is stuck or waits for you.

Examples:

    signalbox status
    signalbox status --json | jq -r '.requests[].command'
    watch -n 5 signalbox status`
}

func (c *StatusCommand) Run(p *cli.Program) error {
	return p.WithReadOnlyBox(c.BoxFlag, func(ctx context.Context, b *box.Box) error {
		st, err := inspect.ReadStatus(ctx, b, time.Now())
		if err != nil {
			return err
		}
		st.FindBehind(ctx, b, p.ProjectRoot(c.BoxFlag, b.Dir))
		st.FindLeft(b)
		if c.JSON {
			return p.PrintJSON(st, "")
		}
		o := p.RenderOptions()
		return render.Status(p.Styled(p.Colors(p.Stdout)), st, o)
	})
}
