package crew

import (
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"signalbox"
	"signalbox/internal/core/rules"
	"signalbox/internal/run/workspace"
)

// smuggle is a shell command that moves the branch of T1 to a commit with the file smuggled and a
// changed protected file.
const smuggle = `export GIT_CONFIG_GLOBAL=/dev/null GIT_AUTHOR_NAME=a GIT_AUTHOR_EMAIL=a@b GIT_COMMITTER_NAME=a GIT_COMMITTER_EMAIL=a@b GIT_INDEX_FILE=$PWD/../evil.index; ` +
	`git read-tree signalbox/T1; blob=$(echo x | git hash-object -w --stdin); ` +
	`git update-index --add --cacheinfo 100644,$blob,smuggled --cacheinfo 100644,$blob,guarded; ` +
	`git update-ref --no-deref refs/heads/signalbox/T1 $(git commit-tree -p signalbox/T1 -m smuggled $(git write-tree))`

// unsmuggled checks that the base has the work of T1, and nothing of what smuggle added.
func (s *stage) unsmuggled() {
	s.t.Helper()
	if got := s.git("ls-tree", "-r", "--name-only", "main"); got != "T1.done\nguarded" {
		s.t.Errorf("main has %q", got)
	}
	if got := s.git("show", "main:guarded"); got != "as it was" {
		s.t.Errorf("the protected file has %q", got)
	}
	if got := s.git("log", "--format=%s", "main"); strings.Contains(got, "smuggled") {
		s.t.Errorf("the history of main has a smuggled commit:\n%s", got)
	}
	merged, checked := only[rules.Merged](s, "T1").Body, all[rules.ChecksRan](s, "T1")
	if tip := s.git("rev-parse", merged.Commit+"^2"); tip != checked[len(checked)-1].Body.Commit ||
		tip != merged.Tip || s.git("rev-parse", "main") != merged.Commit {
		s.t.Errorf("merged %+v, whose tip is %s; checked %s", merged, tip,
			checked[len(checked)-1].Body.Commit)
	}
}

// TestSmuggledCommit: a process that moves the task's branch, at any time after the work was saved,
// gets nothing merged, and the ledger says that the branch was moved.
func TestSmuggledCommit(t *testing.T) {
	agent := func(role, verdict string) string {
		return "on " + role + " T1:\n    run " + smuggle + "\n    signal " + verdict + ": {task}\n"
	}
	for _, tt := range []struct{ name, script, settings string }{
		{"by the checks", "", "checks: [{name: c, command: 'test $SIGNALBOX_WORK != T1 || { " +
			strings.ReplaceAll(smuggle, "'", "") + "; }'}]\n"},
		{"by the critic", agent("critic", "REVIEW_PASSED"), ""},
		{"by the auditor", agent("auditor", "AUDIT_PASSED"), ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := set(t, scene{git: true, plan: task("T1"),
				files:  map[string]string{"guarded": "as it was\n", ".gitignore": ""},
				script: tt.script, settings: "protected: [guarded]\n" + tt.settings})
			s.git("rm", "-q", ".gitignore")
			s.git("commit", "-q", "-m",
				"without")
			s.run()
			s.unsmuggled()
			moved := all[rules.BranchMoved](s, "T1")
			if len(moved) == 0 || moved[0].Body.Expected != only[rules.MergeRequested](s,
				"T1").Body.Commit {
				t.Errorf("recorded %+v", moved)
			}
		})
	}
	t.Run("after the approval", func(t *testing.T) {
		s := set(t, scene{git: true, plan: task("T1"),
			files:    map[string]string{"guarded": "as it was\n"},
			settings: "protected: [guarded]\napprove: merge\n",
			options:  Options{LeaveQuestions: true}})
		if o := s.begin().end(); o.Standing != rules.StandingAsking {
			t.Fatalf("the run ended %s", o.Standing)
		}
		s.do(rules.Order{What: rules.OrderApprove, Work: "T1", Actor: "me"})
		s.shell(filepath.Join(s.box.Dir, workspace.TreesFolder, "T1"), smuggle)
		s.run()
		s.unsmuggled()
		if approved := only[rules.MergeApproved](s,
			"T1").Body.Commit; approved != only[rules.Merged](s, "T1").Body.Tip {
			t.Errorf("approved %s", approved)
		}
		if len(all[rules.BranchMoved](s, "T1")) != 1 {
			t.Error("it is not recorded that the branch was moved")
		}
	})
	t.Run("after the work was saved", func(t *testing.T) {
		s := set(t, scene{git: true, plan: task("T1"),
			files: map[string]string{"guarded": "as it was\n"}, settings: "protected: [guarded]\n"})
		r := s.beginIn(s.box, Options{Roles: []signalbox.Role{signalbox.RoleCI}, Stay: true})
		s.until("the baseline is done",
			func() bool { return s.work("B-1").Phase == signalbox.PhaseCompleted })
		r.halt()
		r = s.beginIn(s.box, Options{Roles: []signalbox.Role{signalbox.RoleDeveloper}, Stay: true})
		s.until("the work is saved",
			func() bool { return s.work("T1").Phase == signalbox.PhaseCIPending })
		r.halt()
		s.shell(filepath.Join(s.box.Dir, workspace.TreesFolder, "T1"), smuggle)
		s.run()
		s.unsmuggled()
		if len(all[rules.BranchMoved](s, "T1")) != 1 {
			t.Error("it is not recorded that the branch was moved")
		}
	})
}

// onMain is a shell command that commits a file to main, from any worktree.
const onMain = `export GIT_CONFIG_GLOBAL=/dev/null GIT_AUTHOR_NAME=a GIT_AUTHOR_EMAIL=a@b GIT_COMMITTER_NAME=a GIT_COMMITTER_EMAIL=a@b GIT_INDEX_FILE=$PWD/../evil.index; ` +
	`git read-tree main; git update-index --add --cacheinfo 100644,$(echo x | git hash-object -w --stdin),direct; ` +
	`git update-ref refs/heads/main $(git commit-tree -p main -m direct $(git write-tree))`

// TestBaseIsMoved: an agent that commits to the base itself is reported, and the checks run on it
// before anything is merged.
func TestBaseIsMoved(t *testing.T) {
	for _, tt := range []struct{ name, script string }{
		{"by the developer", "on developer T1 attempt 1:\n    run " + onMain +
			"\n    signal READY_FOR_REVIEW: {task}\n"},
		{"by the auditor", "on auditor T1 attempt 1:\n    run " + onMain +
			"\n    signal AUDIT_PASSED: {task}\n"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := set(t, scene{git: true, plan: task("T1"), script: tt.script,
				files:    map[string]string{"a": "1\n"},
				settings: "checks: [{name: c, command: 'true'}]\n"})
			before := s.git("rev-parse", "main")
			s.run()
			moved := only[rules.BaseMoved](s, "")
			if moved.Body.From != before || moved.Body.Between || len(moved.Body.Added) != 1 ||
				!strings.HasSuffix(moved.Body.Added[0], " direct") {
				t.Errorf("recorded %+v", moved.Body)
			}
			checks, merged := only[rules.ChecksRan](s, "B-2"), only[rules.Merged](s, "T1")
			if checks.Body.Commit != moved.Body.To || checks.Seq > merged.Seq ||
				merged.Body.Before != moved.Body.To {
				t.Errorf("moved to %s, then checked %s at %d and merged into %s at %d",
					moved.Body.To, checks.Body.Commit, checks.Seq, merged.Body.Before, merged.Seq)
			}
			if strings.Contains(tt.name, "developer") {
				if first := all[rules.ChecksRan](s, "T1")[0]; moved.Seq > first.Seq ||
					!first.Body.Unchanged {
					t.Errorf("moved at %d, then checked %+v", moved.Seq, first)
				}
			}
		})
	}
	t.Run("by the checks of the merge", func(t *testing.T) {
		s := set(t, scene{git: true, plan: task("T1"), files: map[string]string{"a": "1\n"},
			settings: "checks: [{name: c, command: 'test ! -e ../../armed || { rm ../../armed; " +
				onMain + "; }'}]\n",
			script: "on auditor T1:\n    run touch \"$SIGNALBOX_BOX/armed\"\n    signal AUDIT_PASSED: {task}\n"})
		s.run()
		moved, merged := only[rules.BaseMoved](s, ""), only[rules.Merged](s, "T1")
		if moved.Seq > merged.Seq || merged.Body.Before != moved.Body.To ||
			only[rules.ChecksRan](s, "B-2").Body.Commit != moved.Body.To {
			t.Errorf("moved %+v, merged %+v", moved, merged)
		}
	})
	t.Run("by the last agent of the run", func(t *testing.T) {
		s := set(t, scene{git: true, plan: task("T1"), files: map[string]string{"a": "1\n"},
			options: Options{LeaveQuestions: true},
			script: "on developer T1:\n    run " + onMain +
				"\n    signal SEEKING_DIVINE_CLARIFICATION\n    say Question: why?\n"})
		s.begin().end()
		if moved := only[rules.BaseMoved](s, "").Body; moved.Between ||
			moved.To != s.git("rev-parse", "main") {
			t.Errorf("recorded %+v", moved)
		}
	})
	t.Run("between runs", func(t *testing.T) {
		s := set(t, scene{git: true, plan: task("T1"), files: map[string]string{"a": "1\n"},
			settings: "approve: merge\n", options: Options{LeaveQuestions: true}})
		s.begin().end()
		s.shell(s.root, onMain)
		s.git("reset", "-q", "--hard")
		s.do(rules.Order{What: rules.OrderApprove, Work: "T1", Actor: "me"})
		s.run()
		if moved := only[rules.BaseMoved](s, "").Body; !moved.Between ||
			only[rules.Merged](s, "T1").Body.Before != moved.To {
			t.Errorf("recorded %+v", moved)
		}
		only[rules.ChecksRan](s, "B-2")
	})
}

// shell runs a shell command in a folder.
func (s *stage) shell(dir, command string) {
	s.t.Helper()
	cmd := exec.Command("sh", "-ec", command)
	cmd.Dir = dir
	if out, err := cmd.CombinedOutput(); err != nil {
		s.t.Fatalf("%v: %s", err, out)
	}
}

// A merge that took place, and that a crash kept from being recorded, is recorded by the next
// merger. It is not taken for a move of the base by somebody else, and nothing is merged a second
// time.
func TestMergeLandedBeforeACrash(t *testing.T) {
	s := set(t, scene{git: true, plan: task("T1"), settings: "approve: merge\n"})
	r := s.begin()
	s.until("T1 waits for approval", func() (waits bool) {
		s.box.Engine.View(func(state *rules.State) {
			w, _ := state.Work("T1")
			waits = state.WaitsForApproval(w)
		})
		return waits
	})
	r.halt()
	s.do(rules.Order{What: rules.OrderApprove, Work: "T1", Actor: "op"})

	p := s.startPeer()
	if p.held != "T1" {
		t.Fatalf("the merger holds %s", p.held)
	}
	base, commit := s.git("rev-parse", "main"), s.work("T1").Task.Commit
	merge := s.git("commit-tree", "-m", "T1",
		"-p", base, "-p", commit, commit+"^{tree}")
	s.do(rules.PrepareMerge{Session: p.owner.ID() + ".1", Epoch: p.epoch, Commit: merge,
		Before: base})
	s.git("merge", "-q", "--ff-only", merge)
	p.die()

	r = s.begin()
	s.until("T1 is merged, or given up", func() bool {
		return s.work("T1").Done() || slices.ContainsFunc(all[rules.LeaseReleased](s, "T1"),
			func(l recorded[rules.LeaseReleased]) bool {
				return l.Body.Reason == "the base has moved"
			})
	})
	if !s.work("T1").Done() {
		t.Fatal("the merge is taken for a move of the base by somebody else")
	}
	r.end()
	if merged := only[rules.Merged](s, "T1").Body; merged.Commit != merge || merged.Before != base {
		t.Errorf("merged %+v, want %s after %s", merged, merge, base)
	}
	if now := s.git("rev-parse", "main"); now != merge {
		t.Errorf("the base is %s, want %s", now, merge)
	}
	none[rules.BaseMoved](s, "")
}
