package looking

import (
	"context"
	"errors"
	"io"
	"time"

	"signalbox"
	"signalbox/internal/cli"
	"signalbox/internal/core/box"
	"signalbox/internal/core/rules"
	"signalbox/internal/run/inspect"
	"signalbox/internal/run/inspect/render"
	"signalbox/internal/text"
)

type LogsCommand struct {
	cli.BoxFlag
	cli.PagerFlag
	Task    string       `arg:"" help:"The task, or PLAN/TASK if several plans have it."`
	Follow  bool         `short:"f" help:"Keep printing what agents write, and the next sessions, until the task is done or you press Ctrl-C."`
	All     bool         `help:"Print all sessions, oldest first." xor:"sessions"`
	Session cli.NonEmpty `placeholder:"S" help:"Print only this session; see signalbox work show." xor:"sessions"`
	Full    bool         `help:"Print results of tools, calls and long lines whole, not only their start."`
	Raw     bool         `help:"Print the exact bytes that the agents wrote, also to a terminal."`
}

func (LogsCommand) Help() string {
	return `Shows what the agents of a task wrote and did: their words, their tool calls with the start of each result (--full: all of it), and their signals. A signal that counts has the mark ✔; one that was refused has ✘ and the reason. Each turn ends with what it came to and what it used. Without --all or --session it shows the last session of an agent.

On a terminal the text goes through the program that PAGER names, or less.

Examples:

    signalbox logs T1
    signalbox logs T1 -f
    signalbox logs T1 --full
    signalbox logs T1 --all --no-pager
    signalbox logs T1 --session w-1f2e3d4c5b6a.2 --raw > transcript.jsonl`
}

func (c *LogsCommand) Run(p *cli.Program) error {
	return p.WithReadOnlyBox(c.BoxFlag, func(ctx context.Context, b *box.Box) error {
		var w *rules.Work
		var err error
		b.Engine.View(func(s *rules.State) { w, err = s.Find(c.Task) })
		if err != nil {
			return err
		}
		indexes, err := c.choose(w)
		if err != nil {
			return err
		}
		if c.Follow {
			return c.follow(p, b, w, indexes)
		}
		if c.Raw {
			return render.NewLog(p.Direct, b, w.ID, render.LogOptions{Raw: true}).Print(ctx,
				indexes)
		}
		err = p.Page(c.PagerFlag, func(out io.Writer) error {
			o := render.LogOptions{Options: p.RenderOptions(), Full: c.Full,
				Flush: func() error { return cli.Flush(out) }}
			return render.NewLog(out, b, w.ID, o).Print(ctx, indexes)
		})
		if earlier := inspect.AgentSessions(w) - 1; !c.All && c.Session == "" && earlier > 0 {
			p.Notef("%s before this one: signalbox logs %s --all", text.Count(earlier, "session"),
				w.ID)
		}
		return err
	})
}

func (c *LogsCommand) follow(p *cli.Program, b *box.Box, w *rules.Work, indexes []int) error {
	ctx, stop := cli.UntilInterrupted()
	defer stop()
	from := 0
	if len(indexes) > 0 {
		from = indexes[0]
	}
	var out io.Writer = p.Direct
	if !c.Raw {
		out = p.Styled(p.Colors(p.Stdout))
	}
	o := render.LogOptions{Options: p.RenderOptions(), Raw: c.Raw, Full: c.Full, Flush: func() error { return cli.Flush(out) }}
	err := render.NewLog(out, b, w.ID, o).Follow(ctx, from)
	if errors.Is(err, context.Canceled) {
		return nil // an interrupt is the normal end
	}
	return err
}

// choose returns the indexes of the sessions to print.
func (c *LogsCommand) choose(w *rules.Work) (indexes []int, err error) {
	sessions := w.View(time.Now()).Sessions
	for i, s := range sessions {
		if c.Session == "" || s.Session == string(c.Session) {
			indexes = append(indexes, i)
		}
	}
	switch {
	case c.Session != "" && len(indexes) == 0:
		return nil, signalbox.CodeNotFound.Errorf("list its sessions with signalbox work show "+
			w.ID, "%s had no session '%s'", w.ID, c.Session)
	case c.All || c.Session != "":
		return indexes, nil
	}
	last := inspect.LastAgentSession(w)
	switch {
	case last >= 0:
		return []int{last}, nil
	case c.Follow:
		return nil, nil
	}
	return nil, signalbox.CodeNotFound.Errorf("wait for one with signalbox logs "+w.ID+" -f",
		"no agent has worked on %s yet", w.ID)
}
