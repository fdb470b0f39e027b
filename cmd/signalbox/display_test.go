package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"testing"

	"signalbox/internal/cli"
	"signalbox/internal/core/box"
	"signalbox/internal/run/progress"
)

func openTestBox(t *testing.T) *box.Box {
	t.Helper()
	tb := newTestBox(t)
	b, err := box.Open(t.Context(), tb.dir, &box.Options{KeyFile: tb.env[cli.KeyVariable]})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { b.Close() })
	return b
}

type closedPipe struct{}

func (closedPipe) Write([]byte) (int, error) { return 0, io.ErrClosedPipe }

func TestDisplayEndsWhenTheReaderCloses(t *testing.T) {
	b := openTestBox(t)
	for _, o := range []progress.Options{{JSON: true}, {Plain: true}} {
		p, _, _ := start()
		p.Stdout = closedPipe{}
		if err := newDisplay(p, b, o).Show(t.Context()); !errors.Is(err, cli.ErrReaderClosed) {
			t.Errorf("%+v: %v", o, err)
		}
	}
}

func TestScreenNeedsATerminal(t *testing.T) {
	p, _, _ := start()
	if got := fmt.Sprintf("%T", newDisplay(p, nil, progress.Options{})); got != "*progress.plainDisplay" {
		t.Errorf("%s for a buffer", got)
	}
	p.Stdout = new(fakeTerminal)
	if got := fmt.Sprintf("%T", newDisplay(p, nil, progress.Options{})); got != "*progress.screen" {
		t.Errorf("%s for a terminal", got)
	}
}

func TestNotesLeaveJSONAlone(t *testing.T) {
	for _, o := range []progress.Options{{JSON: true}, {}} {
		p, stdout, stderr := start()
		p.Out = bufio.NewWriter(stdout)
		newDisplay(p, nil, o)
		if _, shared := p.Stderr.(*progress.DeferredWriter); !shared {
			t.Error("a warning would be written over the screen")
		}
		p.Notef("that was all")
		if stderr.String() != "note: that was all\n" || stdout.String() != "" {
			t.Errorf("JSON %t: stdout %q, stderr %q", o.JSON, stdout, stderr)
		}
	}
}
