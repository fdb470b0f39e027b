package crew

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"testing"
	"time"

	"pgregory.net/rapid"

	"signalbox"
	"signalbox/internal/core/rules"
	"signalbox/internal/testkit/property"
)

// errKilled is what a step returns at which a crew is killed.
var errKilled = errors.New("killed")

// deadly is a transport of a crew that is killed before or after a commit is published.
type deadly struct {
	transport
	before, after bool
}

func (d *deadly) publish(ctx context.Context, work, commit string) error {
	if d.before {
		return errKilled
	}
	if err := d.transport.publish(ctx, work, commit); err != nil {
		return err
	}
	if d.after {
		return errKilled
	}
	return nil
}

// crewOf returns a crew that only looks at the base, as a process that was just started.
func (s *stage) crewOf() *Crew {
	c := &Crew{box: s.box, project: s.project, branch: "main", log: slog.New(slog.NewTextHandler(s.log, nil)), told: map[string]bool{}}
	c.opts.Actor = "crew"
	c.transport = &bundles{box: s.box, repo: s.project.Repo, actor: "crew", max: rules.MaxBundle}
	return c
}

// person commits a change of a file, as a person would, and returns the commit.
func (s *stage) person(file, text string) string {
	s.t.Helper()
	if err := os.WriteFile(filepath.Join(s.root, file), []byte(text), 0o600); err != nil {
		s.t.Fatal(err)
	}
	s.git("add", file)
	s.git("-c", "user.name=me", "-c", "user.email=me@localhost", "commit", "-q", "--allow-empty", "-m", text)
	return s.git("rev-parse", "main")
}

// A crew that does not know yet what another one in the same clone has merged leaves the branch where it is.
func TestSyncWithAnOldView(t *testing.T) {
	a := setUp(t, scene{git: true, plan: task("T1")})
	a.fill([]signalbox.Role{signalbox.RoleCI}).pauseWhen(func() bool { return a.crewOf().knownBase() != "" })
	b := *a
	b.join() // reads the ledger as it is now
	merged := a.recordMerge(t, 1)
	a.look(t, a.crewOf())
	b.look(t, b.crewOf())
	if at, known := a.git("rev-parse", "main"), b.crewOf().knownBase(); at != merged || known != merged {
		t.Errorf("the branch is at %s, and the base at %s, want %s", at, known, merged)
	}
	only[rules.BaseMoved](a, "") // that is how recordMerge records it
}

// TestSyncModel has persons commit on three machines, merges be recorded by any of them, and crews be killed at every step. In the end all clones are where the
// ledger is, and no commit is lost.
func TestSyncModel(t *testing.T) {
	runs, failed := 0, false
	property.Check(t, func(rt *rapid.T) {
		if runs++; runs > syncRuns && !failed {
			return // each run starts hundreds of gits
		}
		failed = true // until it is over; rapid shrinks a failure
		var steps []syncStep
		for i := range rapid.IntRange(3, 12).Draw(rt, "steps") {
			step := syncStep{machine: rapid.IntRange(0, 2).Draw(rt, "machine"), do: rapid.SampledFrom([]string{"person", "person", "merge", "merge", "sync", "kill"}).Draw(rt, "do")}
			switch step.do {
			case "person":
				step.how = rapid.SampledFrom([]string{"f", fmt.Sprint("p", i)}).Draw(rt, "file")
			case "kill":
				step.how = rapid.SampledFrom([]string{"before", "after", "follow", "note"}).Draw(rt, "when")
			}
			steps = append(steps, step)
		}
		t.Run("run", func(t *testing.T) {
			t.Logf("steps %v", steps)
			a := setUp(t, scene{git: true, plan: task("T1"), files: map[string]string{"f": "start\n"}})
			machines := []*stage{a, a.machine("b"), a.machine("c")}
			a.fill([]signalbox.Role{signalbox.RoleCI}).pauseWhen(func() bool { return a.crewOf().knownBase() != "" })
			var commits []string
			for i, step := range steps {
				m := machines[step.machine]
				if err := m.box.Engine.Refresh(t.Context()); err != nil {
					t.Fatal(err)
				}
				switch step.do {
				case "person":
					commits = append(commits, m.person(step.how, fmt.Sprintln("person", i)))
				case "merge":
					if commit := m.recordMerge(t, i); commit != "" {
						commits = append(commits, commit)
					}
				case "sync":
					m.look(t, m.crewOf())
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
	c := s.crewOf()
	last, err := s.project.Repo.Synced()
	if err != nil {
		t.Fatal(err)
	}
	switch when {
	case "before":
		c.transport = &deadly{transport: c.transport, before: true}
	case "after":
		c.transport = &deadly{transport: c.transport, after: true}
	case "follow": // after the record
		c.noFollow = farFuture
	}
	s.look(t, c)
	if when == "note" { // after the branch has moved
		if err := s.project.Repo.SetSynced(last); err != nil {
			t.Fatal(err)
		}
	}
}

const syncRuns = 4

var farFuture = time.Unix(1<<33, 0)

// look brings the base branch and the ledger together.
func (s *stage) look(t *testing.T, c *Crew) {
	t.Helper()
	c.baseMu.Lock()
	defer c.baseMu.Unlock()
	if err := c.sync(t.Context(), rules.ObserveBase{}); err != nil && !errors.Is(err, errKilled) {
		t.Fatal(err)
	}
}

// recordMerge records a merge on the base of the ledger, whatever the branch here is, and returns it. It returns "" if another machine was faster.
func (s *stage) recordMerge(t *testing.T, i int) string {
	t.Helper()
	c := s.crewOf()
	known, err := c.base(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	tree := s.git("rev-parse", known+"^{tree}")
	commit := s.git("-c", "user.name=me", "-c", "user.email=me@localhost", "commit-tree", "-p", known, "-m", fmt.Sprint("merge ", i), tree)
	if err := c.publish(t.Context(), "", commit); err != nil {
		t.Fatal(err)
	}
	if _, err := s.box.Engine.Do(t.Context(), rules.ObserveBase{Known: known, Commit: commit, Actor: "crew"}); err != nil {
		t.Fatal(err)
	}
	if c.knownBase() != commit {
		return ""
	}
	return commit
}

// converge looks at the base on all machines until nothing changes, and resolves conflicts as a person would.
func (s *stage) converge(t *testing.T, machines []*stage) {
	t.Helper()
	for range 20 {
		var at []string
		for _, m := range machines {
			if err := m.box.Engine.Refresh(t.Context()); err != nil {
				t.Fatal(err)
			}
			c := m.crewOf()
			m.look(t, c)
			if here := m.git("rev-parse", "main"); here != c.knownBase() {
				m.git("-c", "user.name=me", "-c", "user.email=me@localhost", "merge", "-q", "-X", "ours", "-m", "resolved", c.knownBase())
				m.look(t, c)
			}
			at = append(at, m.git("rev-parse", "main"))
		}
		if at[0] == at[1] && at[1] == at[2] && at[0] == s.crewOf().knownBase() {
			synced(t, nil, machines...)
			return
		}
	}
	t.Error("the machines do not converge")
}

// The chain stays short, and what is stored again is bounded.
func TestCombinedBundles(t *testing.T) {
	for name, size := range map[string]func(i int) int64{
		"equal":   func(int) int64 { return 1000 },
		"growing": func(i int) int64 { return int64(i + 1) },
		"mixed":   func(i int) int64 { return []int64{1, 100, 10_000, 7}[i%4] },
	} {
		t.Run(name, func(t *testing.T) {
			const first, steps = 1_000_000, 5000
			chain, written, added, longest := []rules.StoredCommit{{Size: first}}, int64(first), int64(first), 0
			for i := range steps {
				s, n := size(i), combined(chain)
				added += s
				for _, c := range chain[len(chain)-n:] {
					s += c.Size
				}
				chain = append(chain[:len(chain)-n], rules.StoredCommit{Size: s})
				written, longest = written+s, max(longest, len(chain))
			}
			if longest > 30 || written > 15*added {
				t.Errorf("%d bundles; %d bytes written for %d", longest, written, added)
			}
		})
	}
}
