package progress

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"signalbox"
	"signalbox/internal/core/box"
	"signalbox/internal/core/rules"
	"signalbox/internal/testkit/must"
)

// Lines begin with the last events, and then the current state.
func TestWatchBeginsWithTheLastEvents(t *testing.T) {
	o := operate(t)
	tail := o.b.Engine.Tail().Seq
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	shown := map[uint64]string{}
	for _, recent := range []uint64{0, 20} {
		var out strings.Builder
		if err := New(o.b, Options{Plain: true, Watch: true, Recent: recent, From: tail,
			Out: &out}).Show(ctx); err != nil {
			t.Fatal(err)
		}
		shown[recent] = out.String()
	}
	before, after, found := strings.Cut(shown[20], "2 tasks, 0 done")
	if !found || !strings.Contains(before, "audit passed") ||
		strings.Contains(before, "waiting for you") || !strings.Contains(after, "waiting for you") ||
		strings.Contains(shown[0], "audit passed") {
		t.Errorf("before the state:\n%s\nthe state and after it:\n%s", before, after)
	}
}

// The screen begins with them, too, without a line about how the run stands, which it shows itself.
func TestWatchedScreenBeginsWithTheLastEvents(t *testing.T) {
	o := operate(t)
	s := newScreen(o.b, Options{Watch: true, Recent: 20, From: o.b.Engine.Tail().Seq,
		Getenv: func(string) string { return "" }})
	must.Succeed(t, s.catchUp(t.Context()))
	story := fmt.Sprint(s.story)
	if !strings.Contains(story, "audit passed") || strings.Contains(story, "waiting for you") {
		t.Error(story)
	}
}

// A box that is open only for reading shows what another process records, and records nothing
// itself.
func TestWatchingAnotherProcess(t *testing.T) {
	dir := filepath.Join(t.TempDir(), box.FolderName)
	opts := &box.Options{KeyFile: filepath.Join(t.TempDir(), "key")}
	later := *opts
	later.Now = func() time.Time { return time.Now().Add(time.Hour) }
	if _, err := box.Init(t.Context(), dir, "ann", opts); err != nil {
		t.Fatal(err)
	}
	open := func(open func(context.Context, string, *box.Options) (*box.Box, error),
		opts *box.Options) *box.Box {
		b, err := open(t.Context(), dir, opts)
		must.Succeed(t, err)
		t.Cleanup(func() { b.Close() })
		return b
	}
	run := open(box.Open, opts)
	for _, c := range []rules.Command{rules.OpenWork{Work: "w0", Actor: "ann"},
		rules.Claim{Work: "w0", Role: signalbox.RoleDeveloper, Session: "s1", Actor: "ann",
			Lease: "l1"}} {
		if _, err := run.Engine.Do(t.Context(), c); err != nil {
			t.Fatal(err)
		}
	}
	watched := open(box.OpenReadOnly, &later) // for it the lease has expired
	ctx, cancel := context.WithCancel(t.Context())
	r, w := io.Pipe()
	ended := make(chan error, 2)
	view := New(watched, Options{JSON: true, Watch: true, From: watched.Engine.Tail().Seq, Out: w})
	go func() {
		err := watched.Engine.Observe(ctx)
		cancel()
		ended <- err
	}()
	go func() {
		err := view.Show(ctx)
		w.Close()
		ended <- err
	}()
	if _, err := run.Engine.Do(t.Context(), rules.OpenWork{Work: "w1", Title: "first",
		Actor: "ann"}); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(r)
	if !lines.Scan() || !strings.Contains(lines.Text(), `"type":"WorkOpened","work":"w1"`) {
		t.Fatalf("the first event is %q", lines.Text())
	}
	cancel()
	if lines.Scan() {
		t.Errorf("another event: %s", lines.Text())
	}
	for range 2 {
		if err := <-ended; err != nil && !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
	}
	if err := run.Engine.Refresh(t.Context()); err != nil || run.Engine.Tail().Seq != 4 {
		t.Errorf("the ledger has %d events: %v", run.Engine.Tail().Seq, err)
	}
}
