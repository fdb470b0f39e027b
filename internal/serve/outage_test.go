package serve

import (
	"context"
	"fmt"
	"io"
	"iter"
	"net"
	"net/http"
	"path/filepath"
	"sync"
	"testing"

	"signalbox"
	"signalbox/internal/core/box"
	"signalbox/internal/core/engine"
	"signalbox/internal/core/journal"
	"signalbox/internal/core/rules"
	"signalbox/internal/serve/access"
	"signalbox/internal/testkit/must"
)

// brokenWatches is a journal that cannot be reached while its gate is closed. It counts the watches
// that failed.
type brokenWatches struct {
	journal.Journal
	mu     sync.Mutex
	closed bool
	failed chan struct{} // one for each watch
}

func (j *brokenWatches) check() error {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.closed {
		return fmt.Errorf("%w: %w: connection refused", journal.ErrNotStored,
			journal.ErrUnavailable)
	}
	return nil
}

func (j *brokenWatches) set(closed bool) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.closed = closed
}

func (j *brokenWatches) Watch(ctx context.Context, after uint64) iter.Seq2[signalbox.Event, error] {
	return func(yield func(signalbox.Event, error) bool) {
		for event, err := range j.Journal.Watch(ctx, after) {
			if failed := j.check(); failed != nil && ctx.Err() == nil {
				err = failed
				j.failed <- struct{}{}
			}
			if !yield(event, err) || err != nil {
				return
			}
		}
	}
}

func (j *brokenWatches) Append(ctx context.Context, expected uint64,
	events []signalbox.Event) error {
	if err := j.check(); err != nil {
		return err
	}
	return j.Journal.Append(ctx, expected, events)
}

func (j *brokenWatches) Head(ctx context.Context) (uint64, error) {
	if err := j.check(); err != nil {
		return 0, err
	}
	return j.Journal.Head(ctx)
}

func (j *brokenWatches) Read(ctx context.Context, after uint64,
	limit int) ([]signalbox.Event, error) {
	if err := j.check(); err != nil {
		return nil, err
	}
	return j.Journal.Read(ctx, after, limit)
}

// A server stays while the ledger cannot be reached, answers that it cannot, and continues
// afterwards.
func TestServerSurvivesAnOutage(t *testing.T) {
	dir := filepath.Join(t.TempDir(), box.FolderName)
	opts := &box.Options{KeyFile: filepath.Join(t.TempDir(), "key")}
	if _, err := box.Init(t.Context(), dir, "ann", opts); err != nil {
		t.Fatal(err)
	}
	b, err := box.Open(t.Context(), dir, opts)
	must.Succeed(t, err)
	defer b.Close()
	b.Engine.Close()
	broken := &brokenWatches{Journal: b.Journal, failed: make(chan struct{}, 100)}
	other, err := box.Open(t.Context(), dir, opts)
	must.Succeed(t, err)
	defer other.Close()
	b.Ledger.Journal = broken
	if b.Engine, err = engine.Open(t.Context(), broken, nil); err != nil {
		t.Fatal(err)
	}
	server, err := New(b, Options{})
	must.Succeed(t, err)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	must.Succeed(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	served := make(chan error, 1)
	go func() { served <- server.Serve(ctx, listener) }()
	get := func(path string) int {
		t.Helper()
		response, err := http.Get("http://" + listener.Addr().String() + path)
		must.Succeed(t, err)
		defer response.Body.Close()
		io.Copy(io.Discard, response.Body)
		return response.StatusCode
	}
	if got := get("/readyz"); got != http.StatusOK {
		t.Fatalf("at first: %d", got)
	}
	broken.set(true)
	// which both watches see, and fail
	if _, err := other.Engine.Do(t.Context(), rules.OpenWork{Work: "w", Actor: "me"}); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		<-broken.failed
	}
	for path, want := range map[string]int{"/readyz": http.StatusServiceUnavailable,
		"/healthz": http.StatusOK} {
		if got := get(path); got != want {
			t.Errorf("during the outage, %s: %d, want %d", path, got, want)
		}
	}
	_, err = b.Engine.Do(t.Context(), rules.OpenWork{Work: "x", Actor: "me"})
	if got := access.StatusOf(err); got != http.StatusServiceUnavailable {
		t.Errorf("the status of %v is %d", err, got)
	}
	broken.set(false)
	waiting, stop := context.WithTimeout(t.Context(), patience)
	defer stop()
	if err := b.Engine.Wait(waiting, other.Engine.Tail().Seq-1); err != nil {
		t.Error(err)
	}
	if _, err := server.hub.Next(waiting, other.Engine.Tail().Seq-1); err != nil {
		t.Error(err)
	}
	cancel()
	if err := <-served; err != nil {
		t.Error(err)
	}
}
