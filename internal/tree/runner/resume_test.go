package runner

import (
	"context"
	"os"
	"runtime"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"signalbox/internal/testkit/must"
	"signalbox/internal/tree"
)

// counted is a job that counts its starts, and those with a context that is already done.
type counted struct{ begun, cleared []string }

func (c *counted) do(ctx context.Context, r tree.Request) tree.Result {
	if ctx.Err() != nil {
		c.cleared = append(c.cleared, r.Key)
		return tree.Result{Status: tree.Failure}
	}
	c.begun = append(c.begun, r.Key)
	<-ctx.Done()
	return tree.Result{Status: tree.Failure}
}

// interruptedAfter runs a tree for some time and returns its journal.
func interruptedAfter(t *testing.T, compiled *tree.Tree, name string, d time.Duration) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), d)
	defer cancel()
	if _, err := Do(ctx, compiled,
		&Options{Journal: name, Run: tree.RunOptions{ID: "r"}}); err == nil {
		t.Fatal("it ended")
	}
}

// If a timeout ended while no process ran the tree, its job is not started just to be cancelled.
func TestTimeoutEndsBeforeResume(t *testing.T) {
	name := journalName(t)
	inBubble(t, func(t *testing.T) {
		c := &counted{}
		root := inner(tree.Selector, after(tree.Timeout, time.Minute, leafJob("counted")),
			inner(tree.AlwaysFail, leafJob("next")))
		compiled := withJobs(t, root, map[string]tree.Job{"counted": c.do, "next": quick})
		interruptedAfter(t, compiled, name, time.Second)
		time.Sleep(time.Hour)
		run, err := Do(t.Context(), compiled, &Options{Journal: name})
		if err != nil || run.Status() != tree.Failure {
			t.Fatalf("%v, %v", run, err)
		}
		if diff := cmp.Diff(counted{begun: []string{"r/2/1"}, cleared: []string{"r/2/1"}}, *c,
			cmp.AllowUnexported(counted{})); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	})
}

// A process that was killed after it recorded a tick that halts a job may have left programs of the
// job running. The next process has the job stop them.
func TestHaltedJobIsReaped(t *testing.T) {
	for kind, leaf := range map[string]*tree.Node{"action": leafJob("counted"),
		"tool": {Kind: tree.Tool, Fn: "counted"}} {
		name := journalName(t)
		inBubble(t, func(t *testing.T) {
			c := &counted{}
			root := inner(tree.Selector, after(tree.Timeout, time.Minute, leaf),
				after(tree.Wait, time.Minute))
			compiled := withJobs(t, root, map[string]tree.Job{"counted": c.do})
			o := &Options{Journal: name, Run: tree.RunOptions{ID: "r", Services: &tree.Registry{}}}
			o.Run.Services.Add(tree.Tool, "counted", tree.Leaf{Job: c.do})
			ctx, cancel := context.WithTimeout(t.Context(), 90*time.Second)
			defer cancel()
			_, err := Do(ctx, compiled, o)
			wantError(t, err, context.DeadlineExceeded)
			journal, err := os.ReadFile(name)
			must.Succeed(t, err)
			writeFile(t, name, join(lines(journal)[:3])) // up to the tick after the timeout
			*c = counted{}
			run, err := Do(t.Context(), compiled, o)
			wantDone(t, run, err)
			if diff := cmp.Diff(counted{cleared: []string{"r/2/1"}}, *c,
				cmp.AllowUnexported(counted{})); diff != "" {
				t.Errorf("%s (-want +got):\n%s", kind, diff)
			}
		})
	}
}

// A run that has used all its ticks starts no job.
func TestSpentBudgetStartsNothing(t *testing.T) {
	name := journalName(t)
	inBubble(t, func(t *testing.T) {
		c := &counted{}
		compiled := withJobs(t, sequence(leafJob("counted")), map[string]tree.Job{"counted": c.do})
		for range 3 {
			_, err := Do(t.Context(), compiled, &Options{Journal: name, MaxTicks: 1})
			wantError(t, err, ErrTickBudget)
		}
		if len(c.begun) > 0 {
			t.Errorf("started: %q", c.begun)
		}
	})
}

// A clock that was set back does not delay a run: its time continues from the last tick.
func TestClockSetBack(t *testing.T) {
	name := journalName(t)
	root := sequence(after(tree.Wait, 10*time.Second), after(tree.Wait, 10*time.Second))
	inBubble(t, func(t *testing.T) {
		time.Sleep(24 * time.Hour)
		interruptedAfter(t, withJobs(t, root, nil), name, 15*time.Second)
	})
	inBubble(t, func(t *testing.T) { // it starts a day earlier
		begun := time.Now()
		run, err := Do(t.Context(), withJobs(t, root, nil), &Options{Journal: name})
		wantDone(t, run, err)
		wantTook(t, begun, 10*time.Second)
		if !run.Now().After(begun.Add(23 * time.Hour)) {
			t.Errorf("the last tick was at %s", run.Now())
		}
	})
}

// Opened is called with a resumed run before its next tick.
func TestOpened(t *testing.T) {
	name := journalName(t)
	inBubble(t, func(t *testing.T) {
		compiled := withJobs(t, after(tree.Wait, time.Minute), nil)
		interruptedAfter(t, compiled, name, time.Second)
		var seen []int
		run, err := Do(t.Context(), compiled,
			&Options{Journal: name,
				Opened: func(r *tree.Run) { seen = append(seen, r.Ticks(), int(r.Status())) }})
		wantDone(t, run, err)
		if diff := cmp.Diff([]int{1, int(tree.Running)}, seen); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	})
}

// A job may call runtime.Goexit.
func TestJobCallsGoexit(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		compiled := withJobs(t, sequence(leafJob("gone")),
			map[string]tree.Job{"gone": func(context.Context, tree.Request) tree.Result {
				runtime.Goexit()
				return tree.Result{}
			}})
		run, err := Do(t.Context(), compiled, &Options{})
		if err != nil || run.Status() != tree.Failure ||
			run.View(1).Err != "the job ended without a result" {
			t.Errorf("%v: %s", err, run.View(1).Err)
		}
	})
}

// Two runs without an ID get different IDs.
func TestRunsHaveDifferentIDs(t *testing.T) {
	compiled := withJobs(t, after(tree.Wait, 0), nil)
	one, err := Do(t.Context(), compiled, &Options{})
	wantDone(t, one, err)
	two, err := Do(t.Context(), compiled, &Options{})
	wantDone(t, two, err)
	if one.ID() == two.ID() || one.ID() == "" {
		t.Errorf("both are %q", one.ID())
	}
}
