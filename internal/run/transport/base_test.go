package transport

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"signalbox/internal/core/rules"
	"signalbox/internal/testkit/must"
	"signalbox/internal/testkit/property"
)

// errKilled is what a step returns at which a crew is killed.
var errKilled = errors.New("killed")

// deadly is the carrier of a crew that is killed before or after a commit is published.
type deadly struct {
	carrier
	before, after bool
}

func (d *deadly) publish(ctx context.Context, work, commit string) error {
	if d.before {
		return errKilled
	}
	if err := d.carrier.publish(ctx, work, commit); err != nil {
		return err
	}
	if d.after {
		return errKilled
	}
	return nil
}

// A crew that does not know yet what another one in the same clone has merged leaves the branch
// where it is.
func TestSyncWithAnOldView(t *testing.T) {
	a := setUp(t, "")
	a.checkBase()
	b := *a
	b.join() // reads the ledger as it is now
	merged := a.recordMerge(t, 1)
	a.look(t, a.follower())
	b.look(t, b.follower())
	if at, known := a.git("rev-parse", "main"), b.exchange().KnownBase(); at != merged ||
		known != merged {
		t.Errorf("the branch is at %s, and the base at %s, want %s", at, known, merged)
	}
	if moves := all[rules.BaseMoved](a); len(moves) != 1 { // that is how recordMerge records it
		t.Errorf("moves %+v", moves)
	}
}

// TestSyncModel has persons commit on three machines, merges be recorded by any of them, and crews
// be killed at every step. In the end all clones are where the ledger is, and no commit is lost.
func TestSyncModel(t *testing.T) {
	runs, failed := 0, false
	property.Check(t, func(rt *rapid.T) {
		if runs++; runs > syncRuns && !failed {
			return // each run starts hundreds of gits
		}
		failed = true // until it is over; rapid shrinks a failure
		var steps []syncStep
		for i := range rapid.IntRange(3, 12).Draw(rt, "steps") {
			step := syncStep{machine: rapid.IntRange(0, 2).Draw(rt, "machine"),
				do: rapid.SampledFrom([]string{"person", "person", "merge", "merge", "sync",
					"kill"}).Draw(rt, "do")}
			switch step.do {
			case "person":
				step.how = rapid.SampledFrom([]string{"f", fmt.Sprint("p", i)}).Draw(rt, "file")
			case "kill":
				step.how = rapid.SampledFrom([]string{"before", "after", "follow", "note"}).Draw(rt,
					"when")
			}
			steps = append(steps, step)
		}
		t.Run("run", func(t *testing.T) {
			t.Logf("steps %v", steps)
			a := setUp(t, "")
			machines := []*stage{a, a.machine("b"), a.machine("c")}
			a.checkBase()
			var commits []string
			for i, step := range steps {
				m := machines[step.machine]
				must.Succeed(t, m.box.Engine.Refresh(t.Context()))
				switch step.do {
				case "person":
					commits = append(commits, m.person(step.how, fmt.Sprintln("person", i)))
				case "merge":
					if commit := m.recordMerge(t, i); commit != "" {
						commits = append(commits, commit)
					}
				case "sync":
					m.look(t, m.follower())
				case "kill":
					m.lookAndDie(t, step.how)
				}
			}
			a.converge(t, machines)
			for _, commit := range commits {
				for _, m := range machines {
					m.git("merge-base", "--is-ancestor", commit, "main")
				}
			}
			failed = t.Failed()
		})
		if failed {
			rt.FailNow()
		}
	})
}

// syncStep is something that happens on a machine.
type syncStep struct {
	machine int
	do, how string
}

// lookAndDie looks at the base, and is killed.
func (s *stage) lookAndDie(t *testing.T, when string) {
	t.Helper()
	f := s.follower()
	last, err := s.repo.Synced()
	must.Succeed(t, err)
	switch when {
	case "before":
		f.exchange.carrier = &deadly{carrier: f.exchange.carrier, before: true}
	case "after":
		f.exchange.carrier = &deadly{carrier: f.exchange.carrier, after: true}
	case "follow": // after the record
		f.noFollow = farFuture
	}
	s.look(t, f)
	if when == "note" { // after the branch has moved
		must.Succeed(t, s.repo.SetSynced(last))
	}
}

const syncRuns = 4

var farFuture = time.Unix(1<<33, 0)

// look brings the base branch and the ledger together.
func (s *stage) look(t *testing.T, f *Follower) {
	t.Helper()
	f.mu.Lock()
	defer f.mu.Unlock()
	if err := f.sync(t.Context(), rules.ObserveBase{}); err != nil && !errors.Is(err, errKilled) {
		t.Fatal(err)
	}
}

// recordMerge records a merge on the base of the ledger, whatever the branch here is, and returns
// it. It returns "" if another machine was faster.
func (s *stage) recordMerge(t *testing.T, i int) string {
	t.Helper()
	x := s.exchange()
	known, err := x.Base(t.Context())
	must.Succeed(t, err)
	tree := s.git("rev-parse", known+"^{tree}")
	commit := s.git("-c", "user.name=me", "-c", "user.email=me@localhost", "commit-tree", "-p",
		known, "-m", fmt.Sprint("merge ", i), tree)
	must.Succeed(t, x.Publish(t.Context(), "", commit))
	if _, err := s.box.Engine.Do(t.Context(), rules.ObserveBase{Known: known, Commit: commit,
		Actor: "crew"}); err != nil {
		t.Fatal(err)
	}
	if x.KnownBase() != commit {
		return ""
	}
	return commit
}

// converge looks at the base on all machines until nothing changes, and resolves conflicts as a
// person would.
func (s *stage) converge(t *testing.T, machines []*stage) {
	t.Helper()
	for range 20 {
		var at []string
		for _, m := range machines {
			must.Succeed(t, m.box.Engine.Refresh(t.Context()))
			f := m.follower()
			m.look(t, f)
			known := f.exchange.KnownBase()
			if here := m.git("rev-parse", "main"); here != known {
				m.git("-c", "user.name=me", "-c", "user.email=me@localhost", "merge", "-q", "-X",
					"ours", "-m", "resolved", known)
				m.look(t, f)
			}
			at = append(at, m.git("rev-parse", "main"))
		}
		if at[0] == at[1] && at[1] == at[2] && at[0] == s.exchange().KnownBase() {
			for _, m := range machines {
				if status := m.git("status", "--porcelain"); status != "" {
					t.Errorf("%s has changes:\n%s", m.root, status)
				}
				m.git("fsck", "--no-dangling", "--no-progress")
			}
			return
		}
	}
	t.Error("the machines do not converge")
}

// A look at the base branch does not warn of a ledger that was moved: the run ends with that.
func TestObserveBaseOfMovedLedger(t *testing.T) {
	for name, prepare := range map[string]func(*Exchange){
		"one machine":   func(x *Exchange) { x.carrier = nil },
		"many machines": func(*Exchange) {},
	} {
		t.Run(name, func(t *testing.T) {
			s := set(t, "")
			f := s.follower()
			prepare(f.exchange)
			s.person("f", "a commit that is to be recorded")
			s.do(rules.MoveLedger{Journal: "postgres://db.example.com/shop", Host: "desk",
				Move: "m-1", Actor: "me"})
			f.Observe(t.Context(), false)
			if s.log.String() != "" {
				t.Errorf("log: %s", s.log)
			}
		})
	}
}

// While a person edits a file on one machine that was changed on another, the base there moves
// without its branch. What the person commits is joined to it.
func TestSyncBesideAPerson(t *testing.T) {
	a := set(t, "")
	b := a.machine("b")
	a.checkBase()
	must.Succeed(t, b.box.Engine.Refresh(t.Context()))
	f := b.follower()
	f.Observe(t.Context(), false)
	before := b.git("rev-parse", "main")
	merged := a.person("f", "start\nmerged\n")
	a.look(t, a.follower())
	mine := filepath.Join(b.root, "f")
	must.Succeed(t, os.WriteFile(mine, []byte("edited\n"), 0o600))
	for range 3 {
		must.Succeed(t, b.box.Engine.Refresh(t.Context()))
		f.Observe(t.Context(), false)
	}
	if at := b.git("rev-parse", "main"); at != before || f.exchange.KnownBase() != merged ||
		b.git("rev-parse", "refs/signalbox/base/main") != merged {
		t.Errorf("the branch is at %s, the base at %s", at, f.exchange.KnownBase())
	}
	if n := strings.Count(b.log.String(), "waits, because f in "); n != 1 || f.Behind() == "" {
		t.Errorf("said %d times: %s", n, f.Behind())
	}
	b.git("checkout", "-q", "--", "f")
	own := b.person("g", "own\n")
	f.Observe(t.Context(), false)
	if f.Behind() != "" {
		t.Error(f.Behind())
	}
	a.converge(t, []*stage{a, b, b})
	for _, commit := range []string{merged, own} {
		a.git("merge-base", "--is-ancestor", commit, "main")
	}
}
