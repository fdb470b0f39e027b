package crew

import (
	"errors"
	"strings"
	"testing"

	"signalbox"
	"signalbox/internal/core/rules"
)

// clash is a scene in which T1 is merged after T2 has started and before it is ready, and both
// change same.txt. first is what the first developer of T2 does.
func clash(first, script string) scene {
	return scene{
		git:      true,
		plan:     task("T1") + task("T2"),
		files:    map[string]string{"same.txt": "one\n"},
		settings: "checks:\n  - {name: unit, command: '! grep -rq \"^<<<<<<<\" . && echo $SIGNALBOX_WORK >> \"$(git rev-parse --git-common-dir)/checked\"'}\n",
		script: `
on developer T1:
    write same.txt first
    signal READY_FOR_REVIEW: {task}
on auditor T1:
    wait for ../../../T2-has-started
    signal AUDIT_PASSED: {task}
on developer T2 attempt 1:
    touch ../../../T2-has-started
    write same.txt second
    write new.txt second
    ` + first + `
    wait for ../../../T1-is-merged
    signal READY_FOR_REVIEW: {task}
` + script}
}

// start runs the scene until T1 is merged and T2 is ready.
func (s *stage) start() *running {
	s.t.Helper()
	r := s.begin()
	s.until("T1 is merged", func() bool { return len(all[rules.Merged](s, "T1")) > 0 })
	s.write("project/T1-is-merged", "")
	return r
}

// finish waits until all work is completed.
func (s *stage) finish(r *running) {
	s.t.Helper()
	if o := r.end(); o.Standing != rules.StandingComplete {
		s.t.Fatalf("the run ended %s: %v", o.Standing, o.Reasons)
	}
	s.wantCompleted("T1", "T2")
	if failed := all[rules.AgentFailed](s, ""); len(failed) > 0 {
		s.t.Errorf("failures: %+v", failed)
	}
}

// wantResolved checks that the last conflict of T2 was resolved with a merge commit, which was checked, reviewed and merged, without
// the draft in its history.
func (s *stage) wantResolved() {
	s.t.Helper()
	conflicts, checks, merged := all[rules.ConflictFound](s, "T2"), all[rules.ChecksRan](s, "T2"),
		only[rules.Merged](s, "T2").Body
	last := conflicts[len(conflicts)-1].Body
	checked := checks[len(checks)-1].Body
	if parents := s.git("show", "-s", "--format=%P", checked.Commit); parents != last.Commit+" "+
		last.Base {
		s.t.Errorf("the parents of the checked commit are %s, want %s %s", parents, last.Commit,
			last.Base)
	}
	if merged.Tip != checked.Commit || s.git("rev-parse", merged.Commit+"^2") != checked.Commit {
		s.t.Errorf("checked %s, merged %+v", checked.Commit, merged)
	}
	for _, c := range conflicts {
		if history := s.git("rev-list", "main"); c.Body.Draft != "" &&
			strings.Contains(history, c.Body.Draft) {
			s.t.Error("the draft was merged")
		}
	}
}

// A conflict is found before the checks, with the latest base: nothing is checked, reviewed and
// audited that cannot be merged.
func TestConflictIsFoundBeforeTheChecks(t *testing.T) {
	s := set(t, clash("", `
on developer T2 attempt 2:
    expect "left the conflicts to you in these files: same.txt."
    expect "same.txt: both sides changed it"
    expect "T1: The task T1"
    expect "Do not run git merge, git rebase or git commit."
    run grep -q '^<<<<<<< ' same.txt && grep -q first same.txt && grep -q second same.txt && test -z "$(git status --porcelain)"
    write same.txt both
    signal READY_FOR_REVIEW: {task}
`))
	r := s.start()
	s.finish(r)
	s.wantResolved()
	conflicts := all[rules.ConflictFound](s, "T2")
	if len(conflicts) != 2 || conflicts[0].Body.Count != 1 || conflicts[0].Body.Draft != "" ||
		conflicts[1].Body.Draft == "" || conflicts[1].Body.Count != 1 {
		t.Errorf("conflicts: %+v", conflicts)
	}
	if checks := only[rules.ChecksRan](s, "T2"); checks.Seq < conflicts[1].Seq {
		t.Error("it was checked before the conflict was resolved")
	}
	for _, role := range []string{"critic", "auditor"} {
		if n := len(s.prompts("T2", role)); n != 1 {
			t.Errorf("%d prompts for the %s, want one", n, role)
		}
	}
	if rework := all[rules.ReworkOrdered](s, "T2"); len(rework) > 0 {
		t.Errorf("rework: %+v", rework)
	}
	if got := s.file("same.txt") + s.file("new.txt"); got != "both\nsecond\n" {
		t.Errorf("the files have %q", got)
	}
}

// A conflict that appears at the last moment, after the audit, goes the same way.
func TestConflictOfTheMerge(t *testing.T) {
	s := set(t, scene{
		git:   true,
		plan:  task("T1") + task("T2"),
		files: map[string]string{"same.txt": "one\n"},
		script: `
on developer T1:
    write same.txt first
    signal READY_FOR_REVIEW: {task}
on developer T2 attempt 1:
    write same.txt second
    signal READY_FOR_REVIEW: {task}
on auditor T1:
    wait for ../../../T2-is-checked
    signal AUDIT_PASSED: {task}
on auditor T2 attempt 1:
    wait for ../../../T1-is-merged
    signal AUDIT_PASSED: {task}
on developer T2:
    expect "left the conflicts to you in these files: same.txt."
    run grep -q '^<<<<<<< ' same.txt
    write same.txt both
    signal READY_FOR_REVIEW: {task}
`})
	r := s.begin()
	s.until("T2 is checked", func() bool { return len(all[rules.ChecksRan](s, "T2")) > 0 })
	s.write("project/T2-is-checked", "")
	s.until("T1 is merged", func() bool { return len(all[rules.Merged](s, "T1")) > 0 })
	s.write("project/T1-is-merged", "")
	s.finish(r)
	s.wantResolved()
	if got := s.file("same.txt"); got != "both\n" {
		t.Errorf("same.txt has %q", got)
	}
	if task := s.work("T2").Task; task.Counts.Merges != 0 || task.Counts.Conflicts != 1 {
		t.Errorf("counts %+v", task.Counts)
	}
}

// A resolution with conflict markers is refused, and the next developer is told which files.
func TestConflictMarkersAreLeft(t *testing.T) {
	s := set(t, clash("", `
on developer T2 attempt 2:
    run echo more >> same.txt
    signal READY_FOR_REVIEW: {task}
on developer T2 attempt 3:
    expect "Your last resolution was refused"
    expect "are left: same.txt."
    run grep -q more same.txt
    write same.txt both
    signal READY_FOR_REVIEW: {task}
`))
	r := s.start()
	s.finish(r)
	conflicts := all[rules.ConflictFound](s, "T2")
	if len(conflicts) != 3 || strings.Join(conflicts[2].Body.Unresolved, " ") != "same.txt" ||
		conflicts[2].Body.Count != 2 {
		t.Errorf("conflicts: %+v", conflicts)
	}
	s.wantResolved()
	only[rules.ChecksRan](s, "T2")
}

// The human is asked when conflicts do not end.
func TestConflictsWithoutEnd(t *testing.T) {
	s := set(t, clash("", `
on developer T2 attempt 7:
    expect "take the first"
    write same.txt first
    signal READY_FOR_REVIEW: {task}
on developer T2:
    signal READY_FOR_REVIEW: {task}
`))
	r := s.start()
	if q := s.answer("take the first"); q.Kind != rules.AskedConflict || q.Work != "T2" ||
		!strings.Contains(q.Text, "conflict markers are left in same.txt") {
		t.Errorf("question: %+v", q)
	}
	s.finish(r)
	s.wantResolved()
}

// After a crash, in whatever state it left the worktree, the next developer gets the conflict, and
// nothing is lost.
func TestConflictAfterACrash(t *testing.T) {
	const tree = ".signalbox/trees/T2"
	for name, crash := range map[string]string{
		"everything is there":  ":",
		"the worktree is gone": "rm -r " + tree,
		"the branch is gone": "rm -r " + tree +
			"; git worktree prune; git branch -q -D signalbox/T2",
		"the branch is elsewhere":   "cd " + tree + "; git reset -q --hard WORK; rm same.txt",
		"the work is on the branch": "cd " + tree + "; git reset -q --soft WORK",
	} {
		t.Run(name, func(t *testing.T) {
			s := set(t, clash("", `
on developer T2 attempt 2:
    write half.txt mine
    signal CHECKPOINT: {task}
    hang
on developer T2 attempt 3:
    expect "left the conflicts to you in these files: same.txt."
    run cat new.txt half.txt > "$SIGNALBOX_BOX/saw"
    write same.txt both
    signal READY_FOR_REVIEW: {task}
`))
			r := s.start()
			s.until("the second developer works",
				func() bool { return s.work("T2").Task.Progress != nil })
			r.stop(errors.New("enough"))
			<-r.over
			s.shell(s.root, strings.ReplaceAll(crash, "WORK", s.work("T2").Task.Conflict.Commit))
			s.finish(s.begin())
			if got := s.file(".signalbox/saw"); got != "second\nmine\n" {
				t.Errorf("the next developer saw %q", got)
			}
			if got := s.file("same.txt") + s.file("new.txt"); got != "both\nsecond\n" {
				t.Errorf("the files have %q", got)
			}
		})
	}
}

// The conflict is recorded before the worktree moves: a crash in between is repaired from the
// ledger.
func TestConflictIsRecordedFirst(t *testing.T) {
	s := set(t, clash("", `
on developer T2 attempt 2:
    expect "left the conflicts to you in these files: same.txt."
    run grep -q '^<<<<<<< ' same.txt
    write same.txt both
    signal READY_FOR_REVIEW: {task}
`))
	r := s.begin()
	s.until("T1 is merged", func() bool { return len(all[rules.Merged](s, "T1")) > 0 })
	s.do(rules.Order{What: rules.OrderPause, Work: "T2", Actor: "me"})
	s.write("project/T1-is-merged", "")
	s.until("T2 is ready", func() bool { return s.work("T2").Phase == signalbox.PhaseCIPending })
	r.stop(errors.New("enough"))
	<-r.over
	s.do(rules.Order{What: rules.OrderResume, Work: "T2", Actor: "me"})
	r = s.beginIn(s.box, Options{Roles: []signalbox.Role{signalbox.RoleCI}, Stay: true})
	s.until("the conflict is found", func() bool { return s.work("T2").Task.Conflict != nil })
	r.stop(errors.New("enough"))
	<-r.over
	s.do(rules.Dispatch{Roles: []signalbox.Role{signalbox.RoleDeveloper}, Session: "killed",
		Actor: "me", Lease: "killed"})
	c, lease := *s.work("T2").Task.Conflict, s.work("T2").Lease
	c.Draft = strings.Repeat("1", 40)
	s.do(rules.ReportConflict{Session: lease.Session, Epoch: lease.Epoch, Conflict: c})
	s.do(rules.Release{Work: "T2", Session: lease.Session, Epoch: lease.Epoch})
	s.finish(s.begin())
	s.wantResolved()
}

// If the base moves while a developer resolves a conflict, the next one resolves only what is new.
func TestConflictAndTheBaseMovesAgain(t *testing.T) {
	s := set(t, clash("", `
on developer T2 attempt 2:
    write same.txt both
    signal CHECKPOINT: {task}
    wait for ../../../base-moved
    signal READY_FOR_REVIEW: {task}
on developer T2 attempt 3:
    expect "left the conflicts to you in these files: same.txt."
    run grep -q both same.txt && grep -q third same.txt && ! grep -q second same.txt
    write same.txt all
    signal READY_FOR_REVIEW: {task}
`))
	r := s.start()
	s.until("the second developer works", func() bool { return s.work("T2").Task.Progress != nil })
	s.write("project/same.txt", "third\n")
	s.git("-c", "user.name=me", "-c", "user.email=me@localhost", "commit", "-qam", "by hand")
	s.write("project/base-moved", "")
	s.finish(r)
	s.wantResolved()
	var found []rules.ConflictFound
	for _, c := range all[rules.ConflictFound](s, "T2") {
		found = append(found, c.Body)
	}
	if len(found) != 4 || s.git("show", "-s", "--format=%P", found[3].Commit) != found[0].Commit+
		" "+found[0].Base {
		t.Errorf("conflicts: %+v", found)
	}
	if got := s.file("same.txt"); got != "all\n" {
		t.Errorf("same.txt has %q", got)
	}
}

// A draft on which no agent has worked is made again with the latest base.
func TestConflictWithTheLatestBase(t *testing.T) {
	s := set(t, clash("", `
on developer T2 attempt 2:
    signal CHECKPOINT: {task}
    hang
on developer T2 attempt 3:
    run grep -q second same.txt && grep -q third same.txt && ! grep -q first same.txt
    write same.txt both
    signal READY_FOR_REVIEW: {task}
`))
	r := s.start()
	s.until("the second developer works", func() bool { return s.work("T2").Task.Progress != nil })
	r.stop(errors.New("enough"))
	<-r.over
	s.write("project/same.txt", "third\n")
	s.git("-c", "user.name=me", "-c", "user.email=me@localhost", "commit", "-qam", "by hand")
	s.finish(s.begin())
	s.wantResolved()
	if n := s.work("T2").Task.Counts.Conflicts; n != 1 {
		t.Errorf("it was sent back %d times", n)
	}
}

// A conflict that a person has resolved in the worktree, or that the base no longer has, is over.
func TestConflictIsOver(t *testing.T) {
	for name, resolve := range map[string]string{
		"merged by hand":        "cd .signalbox/trees/T2; git reset -q --hard WORK; git merge -q main || :; echo both > same.txt; git commit -qam merged",
		"the base is as before": "git reset -q --hard HEAD~1; git commit -q --allow-empty -m empty",
	} {
		t.Run(name, func(t *testing.T) {
			s := set(t, clash("", `
on developer T2 attempt 2:
    signal SEEKING_DIVINE_CLARIFICATION
        Task: T2
        Question: what now?
on developer T2 attempt 3:
    run ! grep -q '^<<<<<<<' same.txt
    signal READY_FOR_REVIEW: {task}
`))
			s.scene.options.LeaveQuestions = true
			s.start().end()
			s.shell(s.root, "export GIT_AUTHOR_NAME=a GIT_AUTHOR_EMAIL=a@b GIT_COMMITTER_NAME=a GIT_COMMITTER_EMAIL=a@b; "+strings.ReplaceAll(resolve, "WORK", s.work("T2").Task.Conflict.Commit))
			s.answer("it is done")
			s.finish(s.begin())
			prompts := s.prompts("T2", "developer")
			if last := prompts[len(prompts)-1]; strings.Contains(last, "Conflicts with the base") {
				t.Errorf("the last prompt:\n%s", last)
			}
		})
	}
}

// What an author does with git does not matter.
func TestConflictIsResolvedWithGit(t *testing.T) {
	for name, resolve := range map[string]string{
		"commits":              "echo both > same.txt; git commit -qam mine; git merge -q main; git merge --abort || :",
		"merges by itself":     "git reset -q --hard HEAD~1; git merge -q main || :; echo both > same.txt; git commit -qam mine",
		"leaves its merge":     "git reset -q --hard HEAD~1; git merge -q main || :; echo both > same.txt",
		"on another branch":    "git checkout -q -b mine; echo both > same.txt; git commit -qam mine",
		"with a lying -s ours": "git reset -q --hard HEAD~1; git merge -q -s ours main; echo both > same.txt",
	} {
		t.Run(name, func(t *testing.T) {
			s := set(t, clash("", `
on developer T2 attempt 2:
    run export GIT_AUTHOR_NAME=a GIT_AUTHOR_EMAIL=a@b GIT_COMMITTER_NAME=a GIT_COMMITTER_EMAIL=a@b; `+resolve+`
    signal READY_FOR_REVIEW: {task}
`))
			s.finish(s.start())
			if got := s.file("same.txt") + s.file("new.txt"); got != "both\nsecond\n" {
				t.Errorf("the files have %q", got)
			}
			if n := s.work("T2").Task.Counts.Conflicts; n != 1 {
				t.Errorf("it was sent back %d times", n)
			}
		})
	}
}

// The human decides about a submodule. If the answer is all, the task keeps its version.
func TestConflictInASubmodule(t *testing.T) {
	set2 := func(digit string) string {
		return "run mkdir -p lib; git update-index --add --cacheinfo 160000," +
			strings.Repeat(digit, 40) + ",lib"
	}
	sc := clash(set2("2"), `
on developer T2 attempt 2:
    expect "lib: a submodule, at 2222222222222222222222222222222222222222 in signalbox/T2 and at 3333333333333333333333333333333333333333 in main"
    expect "keep ours"
    write same.txt both
    signal READY_FOR_REVIEW: {task}
`)
	sc.script = strings.Replace(sc.script, "    write same.txt first\n",
		"    write same.txt first\n    "+set2("3")+"\n", 1)
	// the submodules are not here, so they could have files that steer agents
	sc.settings += "approve: never\n"
	s := set(t, sc)
	r := s.start()
	if q := s.answer("keep ours"); q.Kind != rules.AskedConflict ||
		!strings.Contains(q.Text, "the submodule lib") {
		t.Errorf("question: %+v", q)
	}
	s.finish(r)
	s.wantResolved()
	if got := s.git("ls-tree", "main", "lib"); !strings.Contains(got, strings.Repeat("2", 40)) {
		t.Errorf("lib: %s", got)
	}
}

// In a protected file the base's version is in place, so that the developer need not edit it.
func TestConflictInAProtectedFile(t *testing.T) {
	sc := clash("write ci/run.sh task", `
on developer T2 attempt 2:
    expect "ci/run.sh: protected, so the version of main is in place."
    run grep -q base ci/run.sh
    write same.txt both
    signal READY_FOR_REVIEW: {task}
`)
	sc.files["ci/run.sh"] = "true\n"
	sc.settings += "protected: ['ci/**']\n"
	s := set(t, sc)
	r := s.begin()
	s.until("T1 is merged", func() bool { return len(all[rules.Merged](s, "T1")) > 0 })
	s.write("project/ci/run.sh", "base\n")
	s.git("-c", "user.name=me", "-c", "user.email=me@localhost", "commit", "-qam", "by hand")
	s.write("project/T1-is-merged", "")
	s.finish(r)
	if checks := only[rules.ChecksRan](s, "T2").Body; len(checks.Protected) > 0 {
		t.Errorf("protected edits: %v", checks.Protected)
	}
	if got := s.file("ci/run.sh"); got != "base\n" {
		t.Errorf("the base has %q", got)
	}
}
