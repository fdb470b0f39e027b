package runner

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"signalbox/internal/tree"
)

// jobs is a registry of jobs by name.
func jobs(all map[string]tree.Job) *tree.Registry {
	r := &tree.Registry{}
	for name, job := range all {
		r.Add(tree.Action, name, tree.Leaf{Job: job})
	}
	return r
}

func endless(ctx context.Context, _ tree.Request) tree.Result {
	<-ctx.Done()
	return tree.Result{Status: tree.Failure, Err: "cancelled"}
}

func quick(context.Context, tree.Request) tree.Result { return tree.Result{Status: tree.Success} }

// stubborn is a job that ignores its context and ends when it is released.
func stubborn(release <-chan struct{}) tree.Job {
	return func(context.Context, tree.Request) tree.Result {
		<-release
		return tree.Result{Status: tree.Success}
	}
}

// lasting returns a job that takes some time.
func lasting(d time.Duration) tree.Job {
	return func(ctx context.Context, _ tree.Request) tree.Result {
		select {
		case <-time.After(d):
			return tree.Result{Status: tree.Success}
		case <-ctx.Done():
			return tree.Result{Status: tree.Failure}
		}
	}
}

func leafJob(name string) *tree.Node { return action(name, name, nil) }

func withJobs(t testing.TB, root *tree.Node, all map[string]tree.Job) *tree.Tree {
	t.Helper()
	return compile(t, &tree.Definition{Name: "test", Keys: keys("n"), Root: root}, jobs(all))
}

// wantTook fails unless the given time has passed.
func wantTook(t testing.TB, since time.Time, want time.Duration) {
	t.Helper()
	if took := time.Since(since); took != want {
		t.Errorf("it took %s, want %s", took, want)
	}
}

func TestTickBudget(t *testing.T) {
	name := journalName(t)
	inBubble(t, func(t *testing.T) {
		w := newWorld()
		counting := inner(tree.Repeat, action("", "count", nil))
		counting.Times = 80
		root := inner(tree.Parallel, work("slow", 5), counting)
		o := &Options{Journal: name, MaxTicks: 50, Emitted: w.emitted}
		run, err := Do(t.Context(), single(t, w, root, "slow", "n"), o)
		wantError(t, err, ErrTickBudget, "50 ticks", "parallel/slow")
		if run.Ticks() != 50 || run.Status() != tree.Running {
			t.Errorf("%d ticks, %s", run.Ticks(), run.Status())
		}
		if got := ending(t, name); got != Failed {
			t.Errorf("the journal ends with %q", got)
		}
		_, err = Do(t.Context(), single(t, w, root, "slow", "n"), o)
		wantError(t, err, ErrTickBudget)
		o.MaxTicks = 0
		run, err = Do(t.Context(), single(t, w, root, "slow", "n"), o)
		wantDone(t, run, err)
		if n := run.Board().Snapshot()["n"]; n != int64(80) {
			t.Errorf("it was counted to %v", n)
		}
		for i, e := range w.emits[:50] {
			if e.Seq != i+1 {
				t.Fatalf("value %d is number %d", i+1, e.Seq)
			}
		}
		if got := ending(t, name); got != "SUCCESS" {
			t.Errorf("the journal ends with %q", got)
		}
	})
}

func TestDefaultTickBudget(t *testing.T) {
	w := newWorld()
	forever := inner(tree.Repeat, inner(tree.AlwaysSucceed, is("n", 1)))
	forever.Until = tree.UntilFailure
	run, err := Do(t.Context(), single(t, w, forever, "n"), &Options{})
	wantError(t, err, ErrTickBudget, "100000 ticks", "repeat")
	if run.Ticks() != 100_000 {
		t.Errorf("%d ticks", run.Ticks())
	}
}

func TestNoProgress(t *testing.T) {
	for name, c := range map[string]struct {
		root *tree.Node
		took time.Duration
		leaf string
	}{
		"a job that never ends": {sequence(leafJob("endless")), 10 * time.Minute,
			"sequence/endless"},
		"a leaf that wakes itself": {sequence(do("restless", func(c *tree.Call) tree.Status {
			c.WakeAfter(8 * time.Second) // divides ten minutes
			return tree.Running
		})), 10 * time.Minute, "sequence/restless"},
		"a leaf that asks for more time than the watchdog has, in vain": {sequence(do("lazy",
			func(c *tree.Call) tree.Status {
				c.WakeAfter(time.Hour)
				return tree.Running
			})), time.Hour, "sequence/lazy"},
		"beside a wait": {inner(tree.Parallel, after(tree.Wait, time.Hour),
			leafJob("endless")), 70 * time.Minute, "parallel/endless"},
		"a leaf beside a job": {inner(tree.Parallel, leafJob("endless"),
			do("restless", restless)), 10 * time.Minute, "parallel/endless, parallel/restless"},
		"after some progress": {sequence(leafJob("lasting"), leafJob("lasting"),
			leafJob("endless")), 28 * time.Minute, "sequence/endless"},
		"after a timeout ended": {inner(tree.Selector,
			after(tree.Timeout, time.Hour, leafJob("endless")), leafJob("endless")),
			70 * time.Minute, "selector/endless"},
	} {
		t.Run(name, func(t *testing.T) {
			journal := journalName(t)
			inBubble(t, func(t *testing.T) {
				begun := time.Now()
				compiled := withJobs(t, c.root,
					map[string]tree.Job{"endless": endless, "lasting": lasting(9 * time.Minute)})
				run, err := Do(t.Context(), compiled, &Options{Journal: journal})
				wantError(t, err, ErrNoProgress, "for 10m0s: "+c.leaf)
				wantTook(t, begun, c.took)
				if run.Status() != tree.Running || ending(t, journal) != Failed {
					t.Errorf("the run is %s, the journal ends with %q", run.Status(),
						ending(t, journal))
				}
				begun = time.Now()
				if strings.Contains(name, "leaf") {
					// the leaf has not changed, and the watchdog starts again
					_, err := Do(t.Context(), compiled, &Options{Journal: journal})
					wantError(t, err, ErrNoProgress)
					wantTook(t, begun, c.took)
					return
				}
				run, err = Do(t.Context(),
					withJobs(t, c.root, map[string]tree.Job{"endless": quick, "lasting": quick}),
					&Options{Journal: journal})
				wantDone(t, run, err)
			})
		})
	}
}

func restless(c *tree.Call) tree.Status {
	c.WakeAfter(time.Second)
	return tree.Running
}

// A leaf that requests a tick at once keeps the run busy, so that no timer fires.
func TestNoProgressOfBusyTree(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		begun := time.Now()
		busy := func(c *tree.Call) tree.Status {
			time.Sleep(7 * time.Second)
			c.WakeAfter(0)
			return tree.Running
		}
		_, err := Do(t.Context(), withJobs(t, sequence(do("busy", busy)), nil),
			&Options{Watchdog: time.Minute})
		wantError(t, err, ErrNoProgress, "sequence/busy")
		// the first tick is progress, and the next one is after a minute
		wantTook(t, begun, 70*time.Second)
	})
}

// The watchdog does not stop waits, backoffs and timeouts.
func TestWatchdogWaitsForDeadlines(t *testing.T) {
	day := 24 * time.Hour
	retried := after(tree.Retry, time.Hour, inner(tree.Inverter, leafJob("quick")))
	retried.Times = 4
	// Ticks that change nothing, as of a leaf that polls, must not count while a wait is running.
	first := time.Time{}
	poll := do("poll", func(c *tree.Call) tree.Status {
		if first.IsZero() {
			first = c.Now()
		}
		if c.Now().Sub(first) >= time.Hour {
			return tree.Success
		}
		c.WakeAfter(20 * time.Second)
		return tree.Running
	})
	for name, c := range map[string]struct {
		root     *tree.Node
		watchdog time.Duration
		took     time.Duration
	}{
		"wait": {after(tree.Wait, 48*time.Hour), time.Minute, 48 * time.Hour},
		"timeout": {after(tree.Timeout, day, leafJob("long")), time.Minute,
			23 * time.Hour},
		"timeout that hit": {inner(tree.Inverter, after(tree.Timeout, day, leafJob("endless"))),
			time.Minute, day},
		"backoff": {inner(tree.Inverter, retried), time.Minute, 3 * time.Hour},
		"poll and wait": {inner(tree.Parallel, poll, after(tree.Wait, time.Hour)), time.Minute,
			time.Hour},
		"steady work": {sequence(leafJob("brief"), leafJob("brief"), leafJob("brief"),
			leafJob("brief")), time.Minute, 4 * 59 * time.Second},
		"no watchdog": {leafJob("long"), -1, 23 * time.Hour},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				begun := time.Now()
				run, err := Do(t.Context(), withJobs(t, c.root, map[string]tree.Job{
					"quick": quick, "endless": endless, "long": lasting(23 * time.Hour),
					"brief": lasting(59 * time.Second)}),
					&Options{Watchdog: c.watchdog})
				wantDone(t, run, err)
				wantTook(t, begun, c.took)
			})
		})
	}
}

func TestStuck(t *testing.T) {
	for name, root := range map[string]func(f tree.Func) *tree.Node{
		"alone": func(f tree.Func) *tree.Node { return sequence(do("mute", f)) },
		"beside a job": func(
			f tree.Func) *tree.Node {
			return inner(tree.Parallel, do("mute", f), leafJob("lasting"))
		},
		"beside a wait": func(f tree.Func) *tree.Node {
			return inner(tree.Parallel, after(tree.Wait, time.Minute), do("mute", f))
		},
		"after what was halted": func(f tree.Func) *tree.Node {
			return inner(tree.Selector, after(tree.Timeout, time.Minute, leafJob("endless")),
				do("mute", f))
		},
	} {
		t.Run(name, func(t *testing.T) {
			journal := journalName(t)
			all := map[string]tree.Job{"lasting": lasting(time.Minute), "endless": endless}
			inBubble(t, func(t *testing.T) {
				begun := time.Now()
				_, err := Do(t.Context(),
					withJobs(t, root(func(*tree.Call) tree.Status { return tree.Running }), all),
					&Options{Journal: journal})
				wantError(t, err, ErrStuck, "/mute")
				if name == "alone" {
					wantTook(t, begun, 0)
				} else {
					wantTook(t, begun, time.Minute)
				}
				if got := ending(t, journal); got != Failed {
					t.Errorf("the journal ends with %q", got)
				}
				// When the run is resumed, the leaf is called once more.
				_, err = Do(t.Context(),
					withJobs(t, root(func(*tree.Call) tree.Status { return tree.Running }), all),
					&Options{Journal: journal})
				wantError(t, err, ErrStuck, "/mute")
				run, err := Do(t.Context(),
					withJobs(t, root(func(*tree.Call) tree.Status { return tree.Success }), all),
					&Options{Journal: journal})
				wantDone(t, run, err)
			})
		})
	}
}

func TestManyLeavesAreCounted(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		root := inner(tree.Parallel, leafJob("endless"), leafJob("endless"), leafJob("endless"),
			leafJob("endless"), leafJob("endless"))
		_, err := Do(t.Context(), withJobs(t, root, map[string]tree.Job{"endless": endless}),
			&Options{Watchdog: time.Second})
		wantError(t, err, ErrNoProgress,
			"parallel/endless, parallel/endless#2, parallel/endless#3, 2 more")
	})
}

func TestStubbornJob(t *testing.T) {
	one := inner(tree.Parallel, leafJob("stubborn"), leafJob("lasting"), leafJob("stubborn"))
	one.Require = 1
	for name, c := range map[string]struct {
		root *tree.Node
		took time.Duration
		// cancel is the time at which the run is cancelled, 0 for never.
		cancel time.Duration
		says   []string
	}{
		"timeout": {after(tree.Timeout, time.Minute, leafJob("stubborn")),
			70 * time.Second, 0, []string{"timeout/stubborn, 10s after"}},
		"another one brings result": {inner(tree.Parallel,
			after(tree.Timeout, 58*time.Second, leafJob("stubborn")), leafJob("lasting")),
			68 * time.Second, 0, []string{"parallel/timeout/stubborn"}},
		"the rest of a parallel": {one, 70 * time.Second, 0,
			[]string{"parallel/stubborn,", "parallel/stubborn#2,"}},
		"cancelled": {inner(tree.Parallel, leafJob("stubborn"), leafJob("lasting"),
			leafJob("stubborn")), 40 * time.Second, 30 * time.Second,
			[]string{"parallel/stubborn,", "parallel/stubborn#2,"}},
	} {
		t.Run(name, func(t *testing.T) {
			journal := journalName(t)
			inBubble(t, func(t *testing.T) {
				release := make(chan struct{})
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				if c.cancel > 0 {
					time.AfterFunc(c.cancel, cancel)
				}
				begun := time.Now()
				_, err := Do(ctx, withJobs(t, c.root,
					map[string]tree.Job{"stubborn": stubborn(release),
						"lasting": lasting(time.Minute)}), &Options{Journal: journal})
				wantError(t, err, ErrJobStuck, c.says...)
				wantTook(t, begun, c.took)
				want := Failed
				if c.cancel > 0 {
					want = Interrupted
				}
				if got := ending(t, journal); got != want {
					t.Errorf("the journal ends with %q, want %s", got, want)
				}
				close(release)
				synctest.Wait()
				run, err := Do(t.Context(),
					withJobs(t, c.root, map[string]tree.Job{"stubborn": quick, "lasting": quick}),
					&Options{Journal: journal})
				if err != nil || !run.Status().Done() {
					t.Errorf("it cannot be resumed: %v, %v", run.Status(), err)
				}
			})
		})
	}
}

func TestCancel(t *testing.T) {
	name := journalName(t)
	inBubble(t, func(t *testing.T) {
		w := newWorld()
		running := 0
		slow := func(ctx context.Context, r tree.Request) tree.Result {
			running++
			defer func() { running-- }()
			result := w.work(ctx, r)
			if ctx.Err() != nil {
				time.Sleep(3 * time.Second) // it cleans up
			}
			return result
		}
		compiled := func() *tree.Tree {
			root := sequence(action("job", "slow",
				args{"takes": int64(60_000), "writes": args{"n": 1}}))
			return withJobs(t, root, map[string]tree.Job{"slow": slow})
		}
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		begun := time.Now()
		run, err := Do(ctx, compiled(), &Options{Journal: name})
		wantError(t, err, context.DeadlineExceeded)
		wantTook(t, begun, 8*time.Second)
		if running != 0 || run.Status() != tree.Running {
			t.Errorf("%d jobs are running, the run is %s", running, run.Status())
		}
		if got := ending(t, name); got != Interrupted {
			t.Errorf("the journal ends with %q", got)
		}
		// If the context is already done, nothing is started.
		run, err = Do(ctx, compiled(), &Options{Journal: name})
		wantError(t, err, context.DeadlineExceeded)
		if len(w.started) != 1 || run.Ticks() != 1 {
			t.Errorf("%d jobs were started, %d ticks", len(w.started), run.Ticks())
		}
		run, err = Do(t.Context(), compiled(), &Options{Journal: name})
		wantDone(t, run, err)
		if len(w.started) != 2 || w.started[0].Key != w.started[1].Key {
			t.Errorf("the job was started as %v", w.started)
		}
		if got := ending(t, name); got != "SUCCESS" {
			t.Errorf("the journal ends with %q", got)
		}
	})
}

// A context that is cancelled in the last tick does not undo the tick.
func TestCancelledAtTheEnd(t *testing.T) {
	name := journalName(t)
	w := newWorld()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	root := action("", "count", nil)
	run, err := Do(ctx, single(t, w, root, "n"), &Options{Journal: name, Emitted: w.emitted,
		Ticked: func(*tree.Run) { cancel() }})
	wantError(t, err, context.Canceled)
	if len(w.emits) > 0 || run.Status() != tree.Success {
		t.Errorf("%d values were delivered, the run is %s", len(w.emits), run.Status())
	}
	run, err = Do(t.Context(), single(t, w, root, "n"), &Options{Journal: name, Emitted: w.emitted})
	wantDone(t, run, err)
	if len(w.emits) != 1 || run.Ticks() != 1 {
		t.Errorf("%d values were delivered, %d ticks", len(w.emits), run.Ticks())
	}
}

// A job that fails because the run is cancelled has no result, and is started again when the run is
// resumed. Here the job ends while a value is delivered, so that its failure is known before the
// run looks at the context.
func TestResultOfCancelledRunIsDropped(t *testing.T) {
	name := journalName(t)
	inBubble(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		publish := do("publish", func(c *tree.Call) tree.Status {
			if err := c.Emit("x", 1); err != nil {
				return c.Fail("%v", err)
			}
			return tree.Success
		})
		root := inner(tree.Parallel, leafJob("job"),
			sequence(after(tree.Wait, time.Second), publish))
		o := &Options{Journal: name, Emitted: func(context.Context, *tree.Run, tree.Emit) error {
			cancel()
			synctest.Wait() // until the job has failed
			return nil
		}}
		run, err := Do(ctx, withJobs(t, root, map[string]tree.Job{"job": endless}), o)
		wantError(t, err, context.Canceled)
		if run.Status() != tree.Running {
			t.Errorf("the run is %s", run.Status())
		}
		run, err = Do(t.Context(), withJobs(t, root, map[string]tree.Job{"job": quick}),
			&Options{Journal: name})
		wantDone(t, run, err)
	})
}
