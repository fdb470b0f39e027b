package runner

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"signalbox/internal/testkit/must"
	"signalbox/internal/tree"
)

// A job is cancelled by the tick that halts it.
func TestTimeoutCancels(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		begun := time.Now()
		var cancelled time.Duration
		root := inner(tree.Selector, after(tree.Timeout, 5*time.Second, leafJob("endless")),
			leafJob("next"))
		run, err := Do(t.Context(), withJobs(t, root, map[string]tree.Job{
			"endless": func(ctx context.Context, r tree.Request) tree.Result {
				<-ctx.Done()
				cancelled = time.Since(begun)
				time.Sleep(2 * time.Second)
				return tree.Result{Status: tree.Success, Writes: args{"n": "late"}}
			},
			"next": func(context.Context, tree.Request) tree.Result {
				// no job keeps running
				return tree.Result{Status: tree.Success,
					Writes: args{"n": time.Since(begun).String()}}
			}}), &Options{})
		wantDone(t, run, err)
		if cancelled != 5*time.Second {
			t.Errorf("it was cancelled after %s", cancelled)
		}
		if got := run.Board().Snapshot()["n"]; got != "7s" {
			t.Errorf("the next job was started after %v, want 7s, when the one before was over",
				got)
		}
	})
}

// A job that is halted and started again is other work, and the result of the first one is ignored.
func TestHaltedJobIsRestarted(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		w := newWorld()
		functions := w.functions()
		var seen []string
		functions.Add(tree.Action, "halted",
			tree.Leaf{Job: func(ctx context.Context, r tree.Request) tree.Result {
				seen = append(seen, r.Key)
				if len(seen) == 1 {
					<-ctx.Done()
				}
				return tree.Result{Status: tree.Success, Writes: args{"a": r.Key}}
			}})
		again := after(tree.Retry, time.Second,
			after(tree.Timeout, 5*time.Second, action("", "halted", nil)))
		again.Times = 2
		run, err := Do(t.Context(),
			compile(t, &tree.Definition{Name: "test", Keys: keys("a"), Root: again}, functions),
			&Options{})
		wantDone(t, run, err)
		if len(seen) != 2 || seen[0] == seen[1] {
			t.Fatalf("the job was started as %v", seen)
		}
		if got := run.Board().Snapshot()["a"]; got != seen[1] {
			t.Errorf("what counts was brought by %v, want %s", got, seen[1])
		}
	})
}

// When a child decides, the others are cancelled at the same moment, even if one of them takes long
// to stop.
func TestParallelCancelsTheRest(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		begun := time.Now()
		var mu sync.Mutex
		ended := map[string]time.Duration{}
		slow := func(ctx context.Context, r tree.Request) tree.Result {
			<-ctx.Done()
			mu.Lock()
			ended[r.Path] = time.Since(begun)
			mu.Unlock()
			time.Sleep(4 * time.Second)
			return tree.Result{Status: tree.Failure}
		}
		root := inner(tree.Parallel, leafJob("slow"), leafJob("winner"), leafJob("slow"))
		root.Require = 1
		run, err := Do(t.Context(),
			withJobs(t, root, map[string]tree.Job{"slow": slow, "winner": lasting(time.Minute)}),
			&Options{})
		wantDone(t, run, err)
		want := map[string]time.Duration{"parallel/slow": time.Minute,
			"parallel/slow#2": time.Minute}
		if diff := cmp.Diff(want, ended); diff != "" {
			t.Errorf("when jobs were cancelled (-want +got):\n%s", diff)
		}
		wantTook(t, begun, 64*time.Second)
	})
}

func emitTree(t testing.TB, w *world) *tree.Tree {
	return single(t, w, sequence(work("a", 1), action("", "count", nil), action("", "count", nil),
		work("b", 1), action("", "count", nil)), "a", "b", "n")
}

func seqs(emits []tree.Emit) (all []int) {
	for _, e := range emits {
		all = append(all, e.Seq)
	}
	return all
}

// An error of Emitted stops the run before the tick's jobs are started, and the value is delivered
// again on resume.
func TestEmittedFails(t *testing.T) {
	name := journalName(t)
	inBubble(t, func(t *testing.T) {
		w := newWorld()
		full := errors.New("the shelf is full")
		_, err := Do(t.Context(), emitTree(t, w),
			&Options{Journal: name, Emitted: func(_ context.Context, _ *tree.Run,
				e tree.Emit) error {
				if e.Seq == 2 {
					return full
				}
				return w.emitted(t.Context(), nil, e)
			}})
		wantError(t, err, full, "sequence/action#2")
		if got := ending(t, name); got != Failed {
			t.Errorf("the journal ends with %q", got)
		}
		if len(w.started) != 1 {
			t.Errorf("%d jobs were started", len(w.started))
		}
		run, err := Do(t.Context(), emitTree(t, w), &Options{Journal: name, Emitted: w.emitted})
		wantDone(t, run, err)
		if diff := cmp.Diff([]int{1, 1, 2, 3}, seqs(w.emits)); diff != "" {
			t.Errorf("delivered (-want +got):\n%s", diff)
		}
		if len(w.started) != 2 {
			t.Errorf("%d jobs were started", len(w.started))
		}
	})
}

// When a value is delivered or a job is started, the tick is in the journal and synced. This also
// applies to lines of another process, which may have been killed before it synced them.
func TestRecordedBeforeEffects(t *testing.T) {
	name := journalName(t)
	inBubble(t, func(t *testing.T) {
		w := newWorld()
		checked := 0
		var r *execution
		check := func(what string) {
			checked++
			all := lines(readFile(t, name))
			if last := all[len(all)-1]; !bytes.HasSuffix(last, []byte("\"}\n")) ||
				!bytes.Contains(last, []byte(what)) {
				t.Errorf("the journal does not end with the tick that has %s:\n%s", what, last)
			}
			if r.journal.dirty {
				t.Errorf("%s is not on stable storage", what)
			}
		}
		functions := w.functions()
		functions.Add(tree.Action, "work",
			tree.Leaf{Job: func(ctx context.Context, req tree.Request) tree.Result {
				// the run waits for this job only, so the test may read its writer
				check(fmt.Sprintf(`"jobs":[[%s,{"takes":`, strings.Split(req.Key, "/")[1]))
				return w.work(ctx, req)
			}})
		stop := errors.New("stop")
		root := sequence(work("a", 1), action("", "count", nil), after(tree.Wait, time.Second),
			action("", "count", nil), work("b", 1), action("", "count", nil))
		compiled := compile(t, &tree.Definition{Name: "test", Keys: keys("a", "b", "n"),
			Root: root}, functions)
		for _, end := range []int{1, 3, 0} {
			r = &execution{Options: Options{Journal: name, MaxTicks: 1000, Grace: time.Second,
				Watchdog: time.Hour}, jobs: map[int]*job{}, queued: map[int]tree.Start{},
				ended: make(chan struct{}, 1)}
			r.Emitted = func(_ context.Context, _ *tree.Run, e tree.Emit) error {
				check(fmt.Sprintf(`"count",%d]`, e.Seq))
				if e.Seq == end {
					return stop
				}
				return nil
			}
			must.Succeed(t, r.open(compiled))
			if r.run.Ticks() > 0 && !r.journal.dirty {
				t.Error("what another process wrote is taken for synced")
			}
			err := r.loop(t.Context())
			if end > 0 && !errors.Is(err, stop) || end == 0 && err != nil {
				t.Fatal(err)
			}
			// as if it were killed: no ending, and nothing more is synced
			must.Succeed(t, r.journal.file.Close())
		}
		// a 1 | 1 2 b 3 | 3
		if checked != 7 {
			t.Errorf("it was looked at %d times", checked)
		}
	})
}

// A run without a journal has the same effects.
func TestWithoutJournal(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		w := newWorld()
		var ticks []int
		run, err := Do(t.Context(), emitTree(t, w),
			&Options{Emitted: w.emitted,
				Ticked: func(r *tree.Run) { ticks = append(ticks, r.Ticks()) }})
		wantDone(t, run, err)
		if diff := cmp.Diff([]int{1, 2, 3}, seqs(w.emits)); diff != "" {
			t.Errorf("delivered (-want +got):\n%s", diff)
		}
		if diff := cmp.Diff([]int{1, 2, 3}, ticks); diff != "" {
			t.Errorf("ticks (-want +got):\n%s", diff)
		}
	})
}
