package crew

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"signalbox"
	"signalbox/internal/core/journal"
	"signalbox/internal/core/rules"
	"signalbox/internal/testkit/must"
)

// Checks, reviews and audits see exactly what will be merged, even if a developer hides files from
// git.
func TestReviewersSeeWhatIsMerged(t *testing.T) {
	s := set(t, scene{
		git:      true,
		plan:     task("T1"),
		files:    map[string]string{"f.txt": "start\n", ".gitignore": "ignored.txt\n"},
		settings: "checks:\n  - {name: committed, command: 'grep -q start f.txt || grep -q evil f.txt && ! test -e ignored.txt'}\n",
		script: `
on developer T1:
    write f.txt evil
    run git -c user.name=d -c user.email=d@localhost commit -qam mine
    run git update-index --skip-worktree f.txt && git config core.sparseCheckout true
    run git config --worktree core.checkStat minimal
    write ignored.txt mine
    signal READY_FOR_REVIEW: {task}
on critic T1:
    run cat f.txt > "$SIGNALBOX_BOX/critic-saw"; ls >> "$SIGNALBOX_BOX/critic-saw"
    signal REVIEW_PASSED: {task}
on auditor T1:
    run cat f.txt > "$SIGNALBOX_BOX/auditor-saw"; ls >> "$SIGNALBOX_BOX/auditor-saw"
    signal AUDIT_PASSED: {task}
`})
	s.run()
	s.wantCompleted("T1")
	for _, role := range []string{"critic", "auditor"} {
		if saw := s.file(".signalbox/" + role + "-saw"); saw != "evil\nf.txt\n" {
			t.Errorf("the %s saw %q", role, saw)
		}
	}
	if n := len(all[rules.ChecksRan](s, "T1")); n != 1 {
		t.Errorf("checked %d times", n)
	}
}

// The worktree of an interrupted developer goes to the next one, in any state.
func TestWorktreeOfAnInterruptedDeveloper(t *testing.T) {
	for name, test := range map[string]struct{ leave, expect, fix string }{
		"an edit in the way of the base": {
			"write f.txt mine", `expect "left the conflicts to you in these files: f.txt."`,
			"run grep '^<<<<<<< ' f.txt && echo both > f.txt"},
		"a detached head": {
			"run git checkout -q --detach", "write g.txt x", "run git symbolic-ref HEAD > on"},
		"an unfinished rebase": {
			"run echo mine > f.txt; git commit -qam mine; git checkout -q -b other HEAD~1; echo theirs > f.txt; git commit -qam theirs; git checkout -q signalbox/T1; git rebase -q other",
			`expect "you must clean up first: the worktree of T1 has unresolved conflicts in f.txt (remove the conflict markers, or abort)."`, "run git rebase --abort; git checkout -q signalbox/T1; git merge -q main; echo both > f.txt; git commit -qam both"},
	} {
		t.Run(name, func(t *testing.T) {
			s := set(t, scene{git: true, plan: task("T1"), files: map[string]string{"f.txt": "start\n"}, script: `
on developer T1 attempt 1:
    run git config user.name d; git config user.email d@localhost
    ` + test.leave + `
    signal CHECKPOINT: {task}
    hang
on developer T1 attempt 2:
    ` + test.expect + `
    ` + test.fix + `
    signal READY_FOR_REVIEW: {task}
`})
			r := s.begin()
			s.awaitCheckpoint("T1")
			r.halt()
			s.write("project/f.txt", "moved\n")
			s.git("commit", "-qam",
				"meanwhile")
			s.develop()
			none[rules.AgentFailed](s, "")
		})
	}
}

// A branch of an earlier box is not used.
func TestBranchOfAnEarlierBox(t *testing.T) {
	s := set(t, scene{git: true, plan: task("T1"), script: `
on developer T1 attempt 1:
    run ls > "$SIGNALBOX_BOX/saw"
    write mine.txt x
    signal TASK_INCOMPLETE: {task}
        Blocker: I ran out of breath
on developer T1 attempt 2:
    run ls > "$SIGNALBOX_BOX/saw-then"
    signal READY_FOR_REVIEW: {task}
`})
	tree, err := s.project.Repo.Open(t.Context(), "T1")
	must.Succeed(t, err)
	must.Succeed(t, os.WriteFile(filepath.Join(tree.Dir, "old.txt"), []byte("old\n"), 0o644))
	old, _, err := tree.Save(t.Context(), "old")
	must.Succeed(t, err)
	s.run()
	if saw, then := s.file(".signalbox/saw"), s.file(".signalbox/saw-then"); saw != "" ||
		then != "mine.txt\n" {
		t.Errorf("the developer found %q, the next %q", saw, then)
	}
	if got := s.git("for-each-ref", "--format=%(refname)",
		"refs/signalbox/left"); got != "refs/signalbox/left/T1/"+old {
		t.Errorf("kept: %q", got)
	}
	if got := s.git("ls-files"); got != "mine.txt" {
		t.Errorf("the base has %q", got)
	}
}

// A crew that is killed after a merge leaves a worktree and prompts. The next crew removes them.
func TestLeftoversAreRemoved(t *testing.T) {
	s := set(t, scene{git: true, plan: task("T1") + task("T2"),
		script: "on developer *:\n    write {task}.txt x\n    signal READY_FOR_REVIEW: {task}\n"})
	s.run()
	for _, name := range []string{"T1", "other"} {
		tree, err := s.project.Repo.Open(t.Context(), name)
		if err == nil {
			err = os.WriteFile(filepath.Join(tree.Dir, "more.txt"), []byte("x"), 0o644)
		}
		if err == nil {
			_, _, err = tree.Save(t.Context(), "more")
		}
		must.Succeed(t, err)
	}
	s.git("branch", "signalbox/T2", "main")
	s.write("project/.signalbox/tmp/prompt-1.md", "secret")
	s.write("project/.signalbox/tmp/prompt-2.md", "young")
	// young however slow this machine is
	old, young := time.Now().Add(-time.Minute), time.Now().Add(time.Hour)
	for name, modified := range map[string]time.Time{"prompt-1.md": old, "prompt-2.md": young} {
		must.Succeed(t, os.Chtimes(filepath.Join(s.root, ".signalbox/tmp", name), modified,
			modified))
	}
	next := func() {
		t.Helper()
		c, err := New(t.Context(), s.box, s.project, nil)
		if err == nil {
			err = c.Close()
		}
		must.Succeed(t, err)
	}
	running, err := New(t.Context(), s.box, s.project, nil)
	must.Succeed(t, err)
	if got := s.git("for-each-ref", "--format=%(refname:short)",
		"refs/heads"); got != "main\nsignalbox/other" {
		t.Errorf("branches: %q", got)
	}
	if got := s.git("for-each-ref", "--format=%(contents:subject)",
		"refs/signalbox/left"); got != "more" {
		t.Errorf("kept: %q", got)
	}
	prompts := func(want string) {
		t.Helper()
		names, _ := filepath.Glob(filepath.Join(s.root, ".signalbox/tmp/*"))
		for i := range names {
			names[i] = filepath.Base(names[i])
		}
		if got := strings.Join(names, " "); got != want {
			t.Errorf("tmp contains %q, want %q", got, want)
		}
	}
	prompts("prompt-2.md")
	must.Succeed(t, os.Chtimes(filepath.Join(s.root, ".signalbox/tmp/prompt-2.md"), old,
		old))
	next()
	prompts("prompt-2.md") // it may belong to the running crew
	must.Succeed(t, running.Close())
	next()
	prompts("")
}

// A temporary problem with the repository is not a failure.
func TestTemporaryWorkspaceFailure(t *testing.T) {
	delays := &delays{park: time.Second, quiet: time.Second, retry: make([]time.Duration, 10_000)}
	for i := range delays.retry {
		delays.retry[i] = time.Millisecond
	}
	s := set(t, scene{git: true, plan: task("T1"), options: Options{seams: seams{delays: delays}}})
	s.write("project/.git/worktrees", "in the way") // git needs a folder here
	r := s.begin()
	for deadline := time.Now().Add(patience); !strings.Contains(s.log.String(),
		"retrying"); runtime.Gosched() {
		if time.Now().After(deadline) {
			t.Fatal("it was not retried")
		}
	}
	must.Succeed(t, os.Remove(filepath.Join(s.root, ".git/worktrees")))
	r.complete("T1")
	none[rules.AgentFailed](s, "")
}

// A lasting problem with the repository is reported with a hint.
func TestLastingWorkspaceFailure(t *testing.T) {
	s := set(t, scene{git: true, plan: task("T1"), options: Options{LeaveQuestions: true}, script: `
on developer T1:
    run rm .git && mkdir .git && echo 'ref: refs/heads/x' > .git/HEAD
    signal READY_FOR_REVIEW: {task}
`})
	s.begin().end()
	failed := all[rules.AgentFailed](s, "T1")
	if len(failed) == 0 {
		t.Fatal("nothing failed")
	}
	wantIn(t, failed[0].Body.Detail,
		"was replaced, so git is not run there (inspect the folder and remove it")
	wantIn(t, s.log.String(), "retrying")
	sessions := map[string]bool{}
	for _, started := range all[rules.AgentStarted](s, "T1") {
		if sessions[started.Session] {
			t.Errorf("session %s started its agent twice", started.Session)
		}
		sessions[started.Session] = true
	}
}

func TestRetry(t *testing.T) {
	s := &session{crew: &Crew{log: slog.New(slog.DiscardHandler),
		opts: Options{seams: seams{delays: &delays{retry: []time.Duration{1, 1, 1}}}}}}
	permanent := errors.New("permanent")
	over, stop := context.WithCancel(t.Context())
	stop()
	for _, test := range []struct {
		ctx   context.Context
		err   error
		tries int
	}{{t.Context(), errors.New("temporary"), 4}, {t.Context(), permanent, 1}, {t.Context(), nil, 1}, {over, errors.New("temporary"), 1}} {
		tries := 0
		err := s.retry(test.ctx, func(err error) bool { return errors.Is(err, permanent) },
			func() error { tries++; return test.err })
		if tries != test.tries || !errors.Is(err, test.err) {
			t.Errorf("%v: tried %d times, want %d: %v", test.err, tries, test.tries, err)
		}
	}
	if usual := defaultDelays().retry; len(usual) != 5 || usual[0] != time.Second ||
		usual[4] != 16*time.Second {
		t.Errorf("delays: %v", usual)
	}
}

// Only a decision of the rules is a refusal, not a clock that jumps or a ledger that cannot be
// written.
func TestIsRefusal(t *testing.T) {
	s := set(t, scene{plan: task("T1")})
	_, stale := s.box.Engine.Do(t.Context(), rules.Renew{Work: "T1", Session: "unknown", Epoch: 1,
		TTL: time.Minute})
	for _, err := range []error{
		stale, // an unknown session is a mistake of the caller
		&signalbox.Error{Code: signalbox.CodeFailed, Err: fmt.Errorf("%w: the clock jumped by 1h",
			journal.ErrClockSkew)},
		&signalbox.Error{Code: signalbox.CodeFailed, Err: errors.New("the ledger was removed")},
		nil,
	} {
		if isRefusal(err) {
			t.Errorf("isRefusal(%v) is true", err)
		}
	}
	if !isRefusal(fmt.Errorf("renew: %w", &signalbox.Error{Code: signalbox.CodeConflict,
		Err: &rules.RefusedError{Reason: signalbox.ReasonStaleLease}})) {
		t.Error("isRefusal of a refusal is false")
	}
}

// An expert gets a copy of what its asker has committed. The asker's worktree is not touched.
func TestExpertGetsACopy(t *testing.T) {
	s := set(t, scene{git: true, plan: task("T1"), settings: "experts: [{name: database}]\n", script: `
on developer T1 attempt 1:
    write new.txt x
    run echo '{"To":"main","Discard":true}' > "$(git rev-parse --git-dir)/signalbox-moving"
    signal EXPERT_REQUEST
        Target Agent: database
        Context Snapshot: a query
on expert *:
    run ls > "$SIGNALBOX_BOX/expert-saw"
    signal EXPERT_ADVICE: {task}
        Summary: use an index
on developer T1 attempt 2:
    run ls > "$SIGNALBOX_BOX/developer-saw"; rm "$(git rev-parse --git-dir)/signalbox-moving"
    signal READY_FOR_REVIEW: {task}
`})
	s.run()
	s.wantCompleted("T1")
	for _, role := range []string{"expert", "developer"} {
		if saw := s.file(".signalbox/" + role + "-saw"); saw != "new.txt\n" {
			t.Errorf("the %s saw %q", role, saw)
		}
	}
}

// A task that changes nothing goes back to a developer, and the second time the human decides.
func TestNothingIsChanged(t *testing.T) {
	for answer, want := range map[string]string{"done": "", "do it again, in new.txt": "x\n"} {
		t.Run(answer, func(t *testing.T) {
			s := set(t, scene{git: true, plan: task("T1"), script: `
on developer T1 attempt 2:
    expect "the branch changes nothing"
    signal READY_FOR_REVIEW: {task}
on developer T1 attempt 3:
    expect "do it again"
    write new.txt x
    signal READY_FOR_REVIEW: {task}
on developer T1:
    signal READY_FOR_REVIEW: {task}
`})
			r := s.begin()
			if asked := s.answer(answer); asked.Kind != rules.AskedUnchanged {
				t.Errorf("asked %+v", asked)
			}
			r.complete("T1")
			var unchanged []bool
			for _, ran := range all[rules.ChecksRan](s, "T1") {
				unchanged = append(unchanged, ran.Body.Unchanged)
			}
			merged := only[rules.Merged](s, "T1").Body
			if new, _ := os.ReadFile(filepath.Join(s.root, "new.txt")); string(new) != want ||
				(merged.Commit == "") != (want == "") || len(unchanged) < 2 || !unchanged[0] ||
				!unchanged[1] || len(unchanged) > 2 && unchanged[2] {
				t.Errorf("new.txt has %q, checked %v, merged %+v", new, unchanged, merged)
			}
		})
	}
}
