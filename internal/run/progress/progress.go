// Package progress shows a run while a crew works on it, and how it ended. A display that fails or
// is closed does not affect the work. There are three displays: JSON events for programs, lines for
// logs and pipes, and a screen for terminals, which is restored however the run ends. On a screen
// the user can also read what agents write and change, and decide what waits for a decision; what
// is decided is carried out by the same functions as the commands.
//
// Text that agents wrote is hostile. It is escaped here, so that it cannot control the terminal.
package progress

import (
	"bytes"
	"context"
	"errors"
	"io"

	"signalbox"
	"signalbox/internal/core/box"
	"signalbox/internal/run/agent"
	"signalbox/internal/text"
)

// Display shows a run while it is in progress.
type Display interface {
	// Live receives what an agent just wrote. It returns quickly and is safe for concurrent use,
	// also before and after Show.
	Live(agent.Activity)
	// Show shows the run until ctx is done, then restores the terminal. A screen also ends when the
	// run is being stopped. It returns ErrInterrupted if the user wants to stop the run, or the
	// error that keeps it from showing anything. Call it once.
	Show(ctx context.Context) error
}

// ErrInterrupted means that the user pressed the keys that stop a run. The caller stops it.
var ErrInterrupted = errors.New("interrupted")

// Options controls what is shown, and where.
type Options struct {
	// Title is the name of the plan. Empty, lines show none, and a screen shows the name in the
	// ledger.
	Title string
	// JSON streams every event as a JSON object on its own line, and nothing else.
	JSON bool
	// Plain shows lines even on a terminal. JSON takes precedence.
	Plain bool
	// Watch shows a run of another process. The keys that stop a run leave the screen at once.
	Watch bool
	// Stopping is closed when the run is being stopped, by a signal for example. A screen then
	// gives the terminal back at once, because a second signal would kill the program before it
	// could. Nil never is.
	Stopping <-chan struct{}
	// Actor is the name of the user on the ledger. With it, the user can answer questions, approve
	// merges and so on, on a screen. Empty only shows the run.
	Actor string
	// Root is the folder of the project, for what tasks change.
	Root string
	// Recent is how many of the events up to From lines and a screen begin with.
	Recent uint64
	// From is the sequence of the last event to skip; 0 shows all. A screen shows the current state
	// instead.
	From uint64

	// Out receives JSON and lines. It must not be nil. Show returns its errors.
	Out io.Writer
	// Terminal is where a screen is drawn: standard output, if it is a terminal. Nil shows lines.
	Terminal io.Writer
	// Keys is where a screen reads keys: standard input, if it is a terminal. Nil reads none.
	Keys io.Reader
	// Stderr is where everything else writes while the run is shown. Nil discards it.
	Stderr *DeferredWriter
	// Getenv looks up settings of the terminal: CI and TERM=dumb show lines, NO_COLOR turns colours
	// off. Nil means an empty environment.
	Getenv func(name string) string
}

// New returns the display that fits the options and the terminal. It shows nothing before Show.
func New(b *box.Box, o Options) Display {
	if o.Stderr == nil {
		o.Stderr = NewDeferredWriter(io.Discard)
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

// jsonDisplay writes events for programs.
type jsonDisplay struct {
	b    *box.Box
	out  io.Writer
	from uint64
}

func (*jsonDisplay) Live(agent.Activity) {}

func (j *jsonDisplay) Show(ctx context.Context) error {
	return j.b.Follow(ctx, j.from, func(events []signalbox.Event) error {
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
