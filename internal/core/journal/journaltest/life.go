package journaltest

import (
	"bytes"
	"context"
	"errors"
	"io"
	"testing"

	"signalbox"
	"signalbox/internal/core/journal"
)

var lifeTests = map[string]func(*testing.T, *log){
	"CancelledContext": testCancelled,
	"CancelledPut":     testCancelledPut,
	"Closed":           testClosed,
	"CloseWhileBusy":   testCloseWhileBusy,
}

// calls returns one call of each method.
func calls(ctx context.Context, j journal.Log, event []signalbox.Event) map[string]func() error {
	calls := map[string]func() error{
		"append": func() error { return j.Append(ctx, event[0].Seq-1, event) },
		"read":   func() error { _, err := j.Read(ctx, 0, 1); return err },
		"head":   func() error { _, err := j.Head(ctx); return err },
		"put blob": func() error {
			_, err := j.PutBlob(ctx, bytes.NewReader([]byte("b")))
			return err
		},
		"delete blob": func() error { return j.DeleteBlob(ctx, signalbox.Hash{}) },
		"get blob": func() error {
			r, err := j.GetBlob(ctx, signalbox.Hash{})
			if err == nil {
				r.Close()
			}
			return err
		},
		"open blob": func() error {
			r, err := j.OpenBlob(ctx, signalbox.Hash{})
			if err == nil {
				r.Close()
			}
			return err
		},
		"watch": func() error {
			for _, err := range j.Watch(ctx, 0) {
				return err
			}
			return nil
		},
	}
	if j, ok := j.(journal.Journal); ok {
		calls["save snapshot"] = func() error {
			return j.SaveSnapshot(ctx, journal.Snapshot{Seq: 1})
		}
		calls["load snapshot"] = func() error { _, err := j.LoadSnapshot(ctx); return err }
	}
	return calls
}

func testCancelled(t *testing.T, l *log) {
	j := l.open(t)
	l.grow(t, j, 1)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for name, call := range calls(ctx, j, l.chain.peek(1)) {
		wantError(t, name+" with a context that has ended", call(), context.Canceled)
	}
	wantError(t, "append with a context that has ended", j.Append(ctx, 1, l.chain.peek(1)),
		journal.ErrNotStored)
	wantHead(t, j, 1)
	if j, ok := j.(journal.Journal); ok {
		_, err := j.LoadSnapshot(testContext(t))
		wantError(t, "a snapshot that was not saved", err, journal.ErrNoSnapshot)
	}
	l.grow(t, j, 1)
}

// testCancelledPut cancels the context in the middle of a blob.
func testCancelledPut(t *testing.T, l *log) {
	j := l.open(t)
	ctx, cancel := context.WithCancel(t.Context())
	endless := readerFunc(func(p []byte) (int, error) {
		cancel()
		return len(p), nil
	})
	_, err := j.PutBlob(ctx, endless)
	wantError(t, "put of a blob whose context ended", err, context.Canceled)
}

type readerFunc func([]byte) (int, error)

func (f readerFunc) Read(p []byte) (int, error) { return f(p) }

func testClosed(t *testing.T, l *log) {
	j := l.Open(t)
	l.grow(t, j, 1)
	if err := j.Close(); err != nil {
		t.Fatalf("close: %v", err)
	}
	for name, call := range calls(t.Context(), j, l.chain.peek(1)) {
		if call() == nil {
			t.Errorf("%s after Close returned no error", name)
		}
	}
	wantError(t, "append after Close", j.Append(t.Context(), 1, l.chain.peek(1)),
		journal.ErrNotStored)
}

// testCloseWhileBusy closes a journal during a put and a watch; both must end.
func testCloseWhileBusy(t *testing.T, l *log) {
	j := l.Open(t)
	l.grow(t, j, 1)
	closed := make(chan error, 1)
	for range j.Watch(testContext(t), 0) {
		closed <- j.Close()
		break
	}
	if err := <-closed; err != nil {
		t.Fatalf("close: %v", err)
	}

	j = l.Open(t)
	content := []byte("slow")
	sent := false
	slow := readerFunc(func(p []byte) (int, error) {
		if sent {
			return 0, io.EOF
		}
		sent = true
		go func() { closed <- j.Close() }()
		return copy(p, content), nil
	})
	digest, err := j.PutBlob(testContext(t), slow)
	if err := <-closed; err != nil {
		t.Fatalf("close: %v", err)
	}
	j = l.open(t)
	if err == nil {
		wantBlob(t, j, digest, content)
	} else if errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("put and close wait for each other: %v", err)
	}
}
