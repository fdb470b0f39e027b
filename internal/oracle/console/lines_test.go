package console_test

import (
	"context"
	"errors"
	"io"
	"strings"
	"testing"

	"signalbox/internal/oracle/console"
)

func TestLineReader(t *testing.T) {
	r := console.NewLineReader(strings.NewReader("one\n\nthree"), 100)
	for _, want := range []string{"one", "", "three"} {
		if got, err := r.Next(t.Context()); got != want || err != nil {
			t.Errorf("%q, %v; want %q", got, err, want)
		}
	}
	if got, err := r.Next(t.Context()); !errors.Is(err, io.EOF) {
		t.Errorf("after the last line: %q, %v", got, err)
	}
}

func TestLineReaderLimit(t *testing.T) {
	r := console.NewLineReader(strings.NewReader(strings.Repeat("x", 200)), 100)
	if got, err := r.Next(t.Context()); err == nil || errors.Is(err, io.EOF) {
		t.Errorf("%d bytes, %v; want an error", len(got), err)
	}
}

// A caller can stop waiting while the reader blocks.
func TestLineReaderCancelled(t *testing.T) {
	blocked, w := io.Pipe()
	defer w.Close()
	ctx, cancel := context.WithCancel(t.Context())
	r := console.NewLineReader(blocked, 100)
	cancel()
	if got, err := r.Next(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("%q, %v", got, err)
	}
}
