package crew

import (
	"strings"
	"testing"

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
	await[rules.Merged](s, "T1", 1)
	s.write("project/T1-is-merged", "")
	return r
}

// finish waits until all work is completed.
func (s *stage) finish(r *running) {
	s.t.Helper()
	r.complete("T1", "T2")
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
	none[rules.ReworkOrdered](s, "T2")
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
	await[rules.ChecksRan](s, "T2", 1)
	s.write("project/T2-is-checked", "")
	await[rules.Merged](s, "T1", 1)
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
	s.git("commit", "-qam", "by hand")
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
