// Package progress shows a run while a crew works on it, and says how it ended. It reads the box and writes nothing to it: a
// display that fails or is ended changes nothing about the work. There are three: events as JSON for programs, lines for logs
// and pipes, and a screen for terminals, which is given back to the user in order however the run ends.
//
// What agents wrote is hostile. All of it is escaped here, so that nothing of it steers a terminal; Printable and PrintableJSON
// do the same for whoever shows it elsewhere.
package progress

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"

	"signalbox"
	"signalbox/internal/core/box"
	"signalbox/internal/core/engine"
	"signalbox/internal/run/crew"
	"signalbox/internal/text"
)

// Display shows a run while it goes on.
type Display interface {
	// Live hears what an agent just wrote. It is quick, and may be called by any number of goroutines, also before Show and
	// after it.
	Live(crew.Activity)
	// Show shows the run until ctx ends, then leaves the terminal in order. It returns ErrInterrupted if the user wants the
	// run to end, and what keeps it from showing anything. It is called once.
	Show(ctx context.Context) error
}

// ErrInterrupted means that the user pressed the keys that end a run. The caller ends it.
var ErrInterrupted = errors.New("interrupted")

// Options says what to show, and where.
type Options struct {
	// Title is the plan's name; "" shows none in lines, and on a screen the name that the ledger has.
	Title string
	// JSON streams every event as one JSON object a line, and nothing else.
	JSON bool
	// Plain shows lines also on a terminal. JSON comes first.
	Plain bool
	// From is the sequence of the last event that is not to be shown; 0 shows all. A screen shows how things stand instead.
	From uint64

	// Out is where JSON and lines go: standard output. It must not be nil. Show returns its errors.
	Out io.Writer
	// Terminal is what a screen is drawn on: standard output itself, if it is a terminal. nil shows lines.
	Terminal io.Writer
	// Keys is where a screen reads keys: standard input, if it is a terminal. nil reads none.
	Keys io.Reader
	// Stderr is what all others write to while the run is shown; nil means that nobody does.
	Stderr *Sideline
	// Getenv looks up what the environment says about terminals: CI and TERM=dumb show lines, NO_COLOR no colours. nil is an
	// empty environment.
	Getenv func(name string) string
}

// New returns the display that the options and the terminal call for. Nothing is shown before Show.
func New(b *box.Box, o Options) Display {
	if o.Stderr == nil {
		o.Stderr = NewSideline(io.Discard)
	}
	if o.Getenv == nil {
		o.Getenv = func(string) string { return "" }
	}
	switch {
	case o.JSON:
		return &jsonDisplay{b, o.Out, o.From}
	case o.Plain || o.Terminal == nil || o.Getenv("TERM") == "dumb" || o.Getenv("CI") != "":
		return newPlain(b, o)
	}
	return newScreen(b, o)
}

// followEvents hands each batch of events after one to show, those already there first, until ctx ends; then also those that
// were written meanwhile. The engine's state knows of all that is handed out.
func followEvents(ctx context.Context, b *box.Box, after uint64, show func([]signalbox.Event) error) error {
	for {
		over := ctx.Err() != nil
		if err := readEvents(context.WithoutCancel(ctx), b, &after, b.Engine.Tail().Seq, show); err != nil {
			return err
		}
		if over {
			return nil
		}
		switch err := b.Engine.Wait(ctx, after); {
		case err == nil || ctx.Err() != nil:
		case errors.Is(err, engine.ErrClosed):
			return nil
		default:
			return err
		}
	}
}

// readEvents hands the events after one to show, as far as tail, and moves after on.
func readEvents(ctx context.Context, b *box.Box, after *uint64, tail uint64, show func([]signalbox.Event) error) error {
	for *after < tail {
		events, err := b.Journal.Read(ctx, *after, int(min(tail-*after, showAtOnce)))
		if err != nil {
			return err
		}
		if len(events) == 0 {
			return fmt.Errorf("the ledger ends after event %d, and had %d", *after, tail)
		}
		*after = events[len(events)-1].Seq
		if err := show(events); err != nil {
			return err
		}
	}
	return nil
}

// showAtOnce is how many events are shown in one write.
const showAtOnce = 256

// jsonDisplay is for programs.
type jsonDisplay struct {
	b    *box.Box
	out  io.Writer
	from uint64
}

func (*jsonDisplay) Live(crew.Activity) {}

func (j *jsonDisplay) Show(ctx context.Context) error {
	return followEvents(ctx, j.b, j.from, func(events []signalbox.Event) error {
		var lines bytes.Buffer
		for _, e := range events {
			doc, err := e.MarshalJSON()
			if err != nil {
				return err
			}
			lines.Write(text.PrintableJSON(doc))
			lines.WriteByte('\n')
		}
		_, err := j.out.Write(lines.Bytes())
		return err
	})
}
