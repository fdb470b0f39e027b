package forge

import (
	"context"
	"errors"
	"testing"
)

// A log is read once, also if that failed, but not if it was interrupted.
func TestLogsAreReadOnce(t *testing.T) {
	l, reads := newLogs(), 0
	read := func(context.Context) (string, error) {
		reads++
		return "half", errors.New("no such log")
	}
	over, cancel := context.WithCancel(t.Context())
	cancel()
	for _, ctx := range []context.Context{over, t.Context(), t.Context()} {
		if got := l.end(ctx, "job", read); got != "" {
			t.Errorf("the log is %q", got)
		}
	}
	if reads != 2 {
		t.Errorf("%d reads", reads)
	}
}
