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
	"signalbox/internal/run/crew"
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
func (*plainDisplay) Live(crew.Activity) {}

func (l *plainDisplay) Show(ctx context.Context) error {
	if err := l.show(nil); err != nil {
		return err
	}
	return followEvents(ctx, l.b, l.o.From, l.show)
}

// show writes the lines of some events. Without events it writes the state at the start.
func (l *plainDisplay) show(events []signalbox.Event) error {
	var lines strings.Builder
	printed := l.printed(events)
	l.b.Engine.View(func(s *rules.State) { l.write(&lines, s, events, printed) })
	_, err := io.WriteString(l.o.Out, lines.String())
	return err
}

func (l *plainDisplay) write(lines *strings.Builder, s *rules.State, events []signalbox.Event, printed map[signalbox.Hash]string) {
	if len(events) == 0 {
		l.begin(lines, s)
		return
	}
	for _, t := range l.reports(s, events, printed) {
		l.ids = max(l.ids, min(len(t.work), maxIDs))
		l.line(lines, t)
	}
}

// maxIDs limits the width of the column of ids.
const maxIDs = 12

func (l *plainDisplay) begin(lines *strings.Builder, s *rules.State) {
	for w := range s.Works() {
		l.ids = max(l.ids, min(len(w.ID), maxIDs))
	}
	title := l.o.Title
	if title != "" {
		title += ": "
	}
	st := s.Status(l.began)
	text := fmt.Sprintf("%s, %d done", count(st.Tasks, "task"), st.Completed)
	if st.Standing == rules.StandingEmpty {
		text = noPlan
	}
	l.line(lines, report{at: l.began, text: title + text})
}

// textWidth is the width of the text before a detail.
const textWidth = 34

func (l *plainDisplay) line(lines *strings.Builder, t report) {
	line := fmt.Sprintf("%s  %-*s  ", t.at.In(l.zone).Format(time.TimeOnly), l.ids, text.Printable(t.work))
	if t.detail == "" {
		line += oneLine(t.text)
	} else {
		line += fmt.Sprintf("%-*s  %s", textWidth, oneLine(t.text), oneLine(t.detail))
	}
	lines.WriteString(strings.TrimRight(line, " ") + "\n")
}
