package progress

import (
	"bytes"
	"context"
	"errors"
	"io"
	"strings"
	"time"

	tea "charm.land/bubbletea/v2"

	"signalbox"
	"signalbox/internal/core/rules"
	"signalbox/internal/run/inspect"
	"signalbox/internal/run/inspect/render"
	"signalbox/internal/run/workspace"
	"signalbox/internal/show"
	"signalbox/internal/text"
)

// source reads text in the background and passes it on in batches of lines.
type source struct {
	batches chan []string
	cancel  context.CancelFunc
	err     error // valid after batches is closed
}

// linesMsg has the next lines of a source, or says that it has ended.
type linesMsg struct {
	from  *source
	lines []string
	ended bool
}

// newSource starts reading at most a number of lines; 0 is no limit. read writes escaped text, and
// calls flush when nothing more is there yet.
func newSource(limit int, read func(ctx context.Context, w io.Writer,
	flush func() error) error) *source {
	ctx, cancel := context.WithCancel(context.Background())
	s := &source{batches: make(chan []string), cancel: cancel}
	go func() {
		defer close(s.batches)
		w := &batcher{ctx: ctx, to: s.batches, limit: limit}
		s.err = read(ctx, w, w.Flush)
		if err := w.Close(); s.err == nil {
			s.err = err
		}
		if limit > 0 && w.total >= limit { // whatever that made of read
			s.err = errTooLong
		}
	}()
	return s
}

// next waits for the next lines.
func (s *source) next() tea.Cmd {
	return func() tea.Msg {
		lines, more := <-s.batches
		return linesMsg{s, lines, !more}
	}
}

// close stops reading.
func (s *source) close() {
	s.cancel()
	go func() { // until the reader has noticed it
		for range s.batches {
		}
	}()
}

// maxBatch is how many lines are passed on at once.
const maxBatch = 1000

// errTooLong means that a text has more lines than a pane keeps.
var errTooLong = errors.New("the rest is too long for a screen")

// batcher passes on complete lines.
type batcher struct {
	ctx   context.Context
	to    chan<- []string
	part  []byte
	lines []string
	total int
	limit int // of lines; 0 is none
}

func (b *batcher) Write(p []byte) (int, error) {
	for line := range bytes.Lines(p) {
		b.part = append(b.part, line...)
		if !bytes.HasSuffix(line, []byte("\n")) {
			continue
		}
		b.lines, b.part, b.total = append(b.lines, strings.TrimRight(string(b.part), "\n")),
			b.part[:0], b.total+1
		if b.limit > 0 && b.total >= b.limit {
			return 0, errTooLong
		}
		if len(b.lines) >= maxBatch {
			if err := b.Flush(); err != nil {
				return 0, err
			}
		}
	}
	return len(p), b.ctx.Err()
}

// Flush passes on what there is.
func (b *batcher) Flush() error {
	if len(b.lines) == 0 {
		return b.ctx.Err()
	}
	select {
	case b.to <- b.lines:
		b.lines = nil
		return nil
	case <-b.ctx.Done():
		return b.ctx.Err()
	}
}

// Close passes on the rest.
func (b *batcher) Close() error {
	if len(b.part) > 0 {
		b.lines, b.part = append(b.lines, string(b.part)), nil
	}
	return b.Flush()
}

// transcriptTail is how much of a long transcript is read.
const transcriptTail = 1 << 20

// hasTranscript reports whether an agent has worked on a task.
func (s *screen) hasTranscript(work string) (has bool) {
	s.b.Engine.View(func(state *rules.State) {
		w, known := state.Work(work)
		has = known && inspect.LastAgentSession(w) >= 0
	})
	return has
}

// open starts reading a view of a task, as signalbox logs -f, diff and work show print it.
func (s *screen) open(work string, view paneView, o render.Options) *source {
	var w *rules.Work
	s.b.Engine.View(func(state *rules.State) { w, _ = state.Work(work) })
	if w == nil {
		return newSource(0, func(context.Context, io.Writer,
			func() error) error {
			return errors.New("there is no work " + work)
		})
	}
	switch view {
	case paneTranscript:
		return newSource(0, func(ctx context.Context, out io.Writer, flush func() error) error {
			if n := inspect.AgentSessions(w) - 1; n > 0 {
				io.WriteString(out, o.Paint.Faint(onScreen(text.Count(n, "earlier session")+
					": signalbox logs "+work+" --all"))+"\n")
			}
			log := render.LogOptions{Options: o, Flush: flush, Tail: transcriptTail}
			return render.NewLog(out, s.b, work, log).Follow(ctx,
				max(inspect.LastAgentSession(w), 0))
		})
	case paneDiff:
		return newSource(maxPaneLines, func(ctx context.Context, out io.Writer,
			_ func() error) error {
			return s.printDiff(ctx, out, w, o.Paint)
		})
	}
	return newSource(maxPaneLines, func(ctx context.Context, out io.Writer, _ func() error) error {
		details, err := inspect.ReadDetails(ctx, s.b, w, time.Now())
		if err != nil {
			return err
		}
		var printed bytes.Buffer
		if err := render.Details(&printed, &details, o); err != nil {
			return err
		}
		_, err = io.WriteString(out, text.PrintableLines(printed.String()))
		return err
	})
}

func (s *screen) printDiff(ctx context.Context, out io.Writer, w *rules.Work,
	paint show.Palette) error {
	saved := inspect.WorkCommit(w) != "" || w.Done()
	d, err := inspect.OpenDiff(ctx, s.b, s.o.Root, w, !saved)
	if err != nil {
		return err
	}
	defer d.Close()
	if note := d.NotSaved(ctx); note != "" {
		io.WriteString(out, paint.Warn(onScreen(note))+"\n")
	}
	if !saved {
		io.WriteString(out, paint.Warn("not saved yet: what the working copy has now")+"\n")
	}
	hidden, err := d.Hidden(ctx)
	if err != nil {
		return err
	}
	if hidden != "" {
		io.WriteString(out, paint.Warn(onScreen("warning: "+hidden))+"\n")
	}
	printed := render.NewDiff(out, paint)
	if err := d.Print(ctx, printed, workspace.DiffOptions{}); err != nil {
		return err
	}
	if printed.Empty() {
		_, err := io.WriteString(out, "it changes nothing\n")
		return err
	}
	return printed.Close()
}

// explained returns an error and its hint on one line.
func explained(err error) string {
	words := err.Error()
	if hint := signalbox.HintOf(err); hint != "" {
		words += " (" + hint + ")"
	}
	return onScreen(words)
}
