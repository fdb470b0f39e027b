package rules

import (
	"slices"
	"strings"
	"testing"

	"signalbox"
)

// conflicting is a conflict of work1 with base1 in a.go.
func conflicting(draft string) Conflict {
	return Conflict{Commit: sha("work1"), Base: sha("base1"), Draft: draft, Files: []string{"a.go"},
		Body: signalbox.Hash{7}}
}

func (b *box) conflict(a Answer, c Conflict) Decision {
	b.t.Helper()
	return b.decide(ReportConflict{a.Session, a.Lease.Epoch, c})
}

// A conflict sends the work back before its checks, and counts as no failure of any kind.
func TestConflictBeforeTheChecks(t *testing.T) {
	b := deliver(t, policy(), todo("t1"))
	b.bring("t1", signalbox.PhaseCIPending)
	d := b.conflict(b.dispatch(signalbox.RoleCI), conflicting(""))
	wantTypes(t, d, "ConflictFound t1", "PhaseChanged t1", "LeaseReleased t1")
	b.wantPhase("t1", signalbox.PhaseImplementation)
	task := b.work("t1").Task
	if task.Counts != (Counts{Conflicts: 1}) || len(task.Timeouts) > 0 || task.Conflict == nil ||
		task.Conflict.Commit != sha("work1") {
		t.Errorf("task %+v", task)
	}
	if len(task.Findings) != 1 || task.Findings[0].Cause != FindingConflict ||
		task.Findings[0].Summary != "it conflicts with the base in a.go" {
		t.Errorf("findings %+v", task.Findings)
	}

	a := b.dispatch(signalbox.RoleDeveloper)
	d = b.conflict(a, conflicting(sha("draft1")))
	wantTypes(t, d, "ConflictFound t1")
	if task := b.work("t1").Task; task.Conflict.Draft != sha("draft1") ||
		task.Counts.Conflicts != 1 || len(task.Findings) != 1 {
		t.Errorf("task %+v", task)
	}
	b.say(a, "ready_for_review")
	left := conflicting(sha("draft1"))
	left.Unresolved = []string{"a.go"}
	b.conflict(b.dispatch(signalbox.RoleCI), left)
	if task := b.work("t1").Task; task.Counts.Conflicts != 2 || len(task.Findings) != 1 ||
		task.Findings[0].Summary != "conflict markers are left in a.go" {
		t.Errorf("task %+v", task)
	}
	b.ready("")
	b.checked(b.dispatch(signalbox.RoleCI))
	if task := b.work("t1").Task; task.Conflict != nil || len(task.Findings) > 0 {
		t.Errorf("the conflict is not over: %+v", task)
	}
	b.wantPhase("t1", signalbox.PhaseReadyForReview)
}

// A resolved conflict is over when the checks have run, whatever their result; what they found
// stays.
func TestConflictEndsWithTheChecks(t *testing.T) {
	b := deliver(t, policy(), todo("t1"))
	b.bring("t1", signalbox.PhaseCIPending)
	b.conflict(b.dispatch(signalbox.RoleCI), conflicting(""))
	b.ready("")
	b.checked(b.dispatch(signalbox.RoleCI), "test")
	if task := b.work("t1").Task; task.Conflict != nil || len(task.Findings) != 1 ||
		task.Findings[0].Cause != "checks" {
		t.Errorf("task %+v", task)
	}
}

// The human is asked when a task conflicts too often. An answer starts the count again.
func TestConflictLimit(t *testing.T) {
	b := deliver(t, policy(), todo("t1"))
	for i := range maxConflicts {
		if questions := b.work("t1").Task.Questions; len(questions) > 0 {
			t.Fatalf("asked after %d conflicts", i)
		}
		b.bring("t1", signalbox.PhaseCIPending)
		b.conflict(b.dispatch(signalbox.RoleCI), conflicting(""))
	}
	b.wantPhase("t1", signalbox.PhaseBlocked)
	b.answer("t1", AskedConflict, "keep the names of the base")
	b.wantPhase("t1", signalbox.PhaseImplementation)
	a := b.dispatch(signalbox.RoleDeveloper)
	b.conflict(a, conflicting(sha("draft"))) // the author's report does not count
	if task := b.work("t1").Task; task.Counts.Conflicts != 0 || len(task.Questions) > 0 {
		t.Errorf("task %+v", task)
	}
}

// A conflict of a merge sends back a task, and a remediation too: it is not a failed attempt.
func TestConflictOfAMerge(t *testing.T) {
	t.Run("task", func(t *testing.T) {
		b := deliver(t, policy(), todo("t1"))
		b.bring("t1", signalbox.PhaseReadyForMerge)
		b.say(b.dispatch(signalbox.RoleAuditor), "audit_passed")
		b.conflict(b.dispatch(signalbox.RoleMerger), conflicting(""))
		b.wantPhase("t1", signalbox.PhaseImplementation)
		if task := b.work("t1").Task; task.Counts.Merges > 0 || task.Checked || task.Reviewed ||
			task.Audited {
			t.Errorf("task %+v", task)
		}
		b.bring("t1", signalbox.PhaseCompleted)
	})
	t.Run("remediation", func(t *testing.T) {
		b := ill(t, policy())
		b.say(b.dispatch(signalbox.RoleRemediation), "remediation_complete")
		b.conflict(b.dispatch(signalbox.RoleCI), conflicting(""))
		b.wantPhase("R-1", signalbox.PhaseImplementation)
		b.say(b.remedied(), "health_healthy")
		b.conflict(b.dispatch(signalbox.RoleMerger), conflicting(""))
		if task := b.work("R-1").Task; task.Attempts > 0 || task.Counts.Conflicts != 2 {
			t.Errorf("task %+v", task)
		}
		b.say(b.remedied(), "health_healthy")
		b.merged(b.dispatch(signalbox.RoleMerger))
		b.wantPhase("R-1", signalbox.PhaseCompleted)
	})
}

// The human is asked once about each submodule in conflict, whoever finds it.
func TestConflictInASubmodule(t *testing.T) {
	c := conflicting("")
	c.Files, c.Submodules = []string{"a.go", "lib"}, []string{"lib"}
	for _, role := range []signalbox.Role{signalbox.RoleCI, signalbox.RoleDeveloper} {
		t.Run(string(role), func(t *testing.T) {
			b := deliver(t, policy(), todo("t1"))
			c := c
			if role == signalbox.RoleCI {
				b.bring("t1", signalbox.PhaseCIPending)
			} else {
				c.Draft = sha("draft")
			}
			d := b.conflict(b.dispatch(role), c)
			if b.work("t1").Lease != nil ||
				!slices.ContainsFunc(d.Events, func(e signalbox.Event) bool {
					return e.Type == TypeQuestionAsked &&
						strings.Contains(string(e.Data), "submodule lib")
				}) {
				t.Errorf("events %+v", d.Events)
			}
			b.wantPhase("t1", signalbox.PhaseBlocked)
			b.answer("t1", AskedConflict, "keep it")
			a := b.dispatch(signalbox.RoleDeveloper)
			c.Draft = sha("draft2")
			b.conflict(a, c)
			b.wantPhase("t1", signalbox.PhaseImplementation)
			b.say(a, "ready_for_review")
		})
	}
}

// An author that gets no conflict any more says so.
func TestConflictIsGone(t *testing.T) {
	b := deliver(t, policy(), todo("t1"))
	b.bring("t1", signalbox.PhaseCIPending)
	b.conflict(b.dispatch(signalbox.RoleCI), conflicting(""))
	b.conflict(b.dispatch(signalbox.RoleDeveloper),
		Conflict{Commit: sha("work1"), Base: sha("base2")})
	if task := b.work("t1").Task; task.Conflict != nil || len(task.Findings) > 0 ||
		task.Counts.Conflicts != 1 {
		t.Errorf("task %+v", task)
	}
}

func TestConflictIsRefused(t *testing.T) {
	b := deliver(t, policy(), todo("t1"))
	a := b.dispatch(signalbox.RoleDeveloper)
	for _, c := range []Conflict{{Base: "b", Draft: "d", Files: []string{"f"}},
		{Commit: "c", Draft: "d", Files: []string{"f"}}, conflicting("")} {
		b.refuses(ReportConflict{a.Session, a.Lease.Epoch, c}, signalbox.CodeUsage)
	}
	b.say(a, "ready_for_review")
	b.refuses(ReportConflict{a.Session, a.Lease.Epoch, conflicting("d")}, signalbox.CodeConflict)
	ci := b.dispatch(signalbox.RoleCI)
	b.refuses(ReportConflict{ci.Session, ci.Lease.Epoch,
		Conflict{Commit: "c", Base: "b"}}, signalbox.CodeUsage)
	b.checked(ci)
	critic := b.dispatch(signalbox.RoleCritic)
	b.refuses(ReportConflict{critic.Session, critic.Lease.Epoch, conflicting("d")},
		signalbox.CodeFailed)
}

// Many files, and names that an agent chose, do not make an event large or unreadable.
func TestConflictListsSomeFiles(t *testing.T) {
	b := deliver(t, policy(), todo("t1"))
	b.bring("t1", signalbox.PhaseCIPending)
	c := conflicting("")
	c.Files = slices.Repeat([]string{"a\x1b[2J" + strings.Repeat("x", 5000)}, 1000)
	d := b.conflict(b.dispatch(signalbox.RoleCI), c)
	if n := len(d.Events[0].Data); n > 64<<10 {
		t.Errorf("the event has %d bytes", n)
	}
	if files := b.work("t1").Task.Conflict.Files; len(files) != maxConflictFiles ||
		strings.Contains(files[0], "\x1b") {
		t.Errorf("%d files", len(files))
	}
}
