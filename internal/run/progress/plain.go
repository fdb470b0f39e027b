package progress

import (
	"context"
	"fmt"
	"io"
	"strings"
	"time"

	"signalbox"
	"signalbox/internal/core/box"
	"signalbox/internal/core/rules"
	"signalbox/internal/run/agent"
	"signalbox/internal/show"
	"signalbox/internal/text"
)

// plainDisplay shows a run as lines, for CI logs, nohup and pipes.
type plainDisplay struct {
	reporter
	o   Options
	ids int // width of the column of ids
}

func newPlain(b *box.Box, o Options) *plainDisplay {
	return &plainDisplay{reporter: newReporter(b), o: o}
}

// Live does nothing: a log does not show what agents write.
func (*plainDisplay) Live(agent.Activity) {}

func (d *plainDisplay) Show(ctx context.Context) error {
	if err := d.recent(ctx); err != nil {
		return err
	}
	if err := d.show(nil); err != nil {
		return err
	}
	return d.b.Follow(ctx, d.o.From, d.show)
}

// recent writes the lines of the last events, as they are understood now.
func (d *plainDisplay) recent(ctx context.Context) error {
	after := d.o.From - min(d.o.From, d.o.Recent)
	return d.b.ReadTo(ctx, &after, d.o.From, func(events []signalbox.Event) error {
		begins := d.standing // begin writes the standing: do not repeat it
		d.b.Engine.View(func(s *rules.State) { d.standing = s.Status(d.began).Standing })
		err := d.show(events)
		d.standing = begins
		return err
	})
}

// show writes the lines of some events. Without events it writes the state at the start.
func (d *plainDisplay) show(events []signalbox.Event) error {
	var lines strings.Builder
	lastLines := d.lastLines(events)
	d.b.Engine.View(func(s *rules.State) { d.write(&lines, s, events, lastLines) })
	_, err := io.WriteString(d.o.Out, lines.String())
	return err
}

func (d *plainDisplay) write(lines *strings.Builder, s *rules.State, events []signalbox.Event,
	lastLines map[signalbox.Hash]string) {
	if len(events) == 0 {
		d.begin(lines, s)
		return
	}
	for _, t := range d.reports(s, events, lastLines) {
		d.ids = max(d.ids, min(len(t.work), maxIDs))
		d.line(lines, t)
	}
}

// maxIDs limits the width of the column of ids.
const maxIDs = 12

func (d *plainDisplay) begin(lines *strings.Builder, s *rules.State) {
	for w := range s.Works() {
		d.ids = max(d.ids, min(len(w.ID), maxIDs))
	}
	title := d.o.Title
	if title != "" {
		title += ": "
	}
	st := s.Status(d.began)
	text := fmt.Sprintf("%s, %d done", text.Count(st.Tasks, "task"), st.Completed)
	if st.Standing == rules.StandingEmpty {
		text = withoutPlan(s)
	}
	d.line(lines, report{at: d.began, text: title + text})
	switch st.Standing {
	case rules.StandingAsking, rules.StandingLimited, rules.StandingPaused,
		rules.StandingWaiting: // there may be no event for long
		d.standing = st.Standing
		d.line(lines, report{at: d.began, text: standingLine(st, 0, d.zone)})
	}
}

// textWidth is the width of the text before a detail.
const textWidth = 34

func (d *plainDisplay) line(lines *strings.Builder, t report) {
	line := fmt.Sprintf("%s  %-*s  ", t.at.In(d.zone).Format(time.TimeOnly), d.ids,
		text.Printable(t.work))
	if t.detail == "" {
		line += show.OneLine(t.text)
	} else {
		line += fmt.Sprintf("%-*s  %s", textWidth, show.OneLine(t.text), show.OneLine(t.detail))
	}
	lines.WriteString(strings.TrimRight(line, " ") + "\n")
}
