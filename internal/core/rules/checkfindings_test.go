package rules

import (
	"fmt"
	"testing"

	"signalbox"
)

// survivor is what a check finds in a line of a file.
func survivor(line int, text string) CheckFinding {
	return CheckFinding{Row: "bite|local", Place: fmt.Sprintf("a.go:%d", line), Text: text}
}

// bite reports a check that failed because of what it found, or passed with notes.
func (b *box) bite(change byte, passed bool, found ...CheckFinding) {
	b.t.Helper()
	b.say(b.wantDispatch(signalbox.RoleDeveloper, "t1"), "ready_for_review")
	for i := range found {
		for _, f := range b.work("t1").Task.CheckFindings() {
			if place, text := found[i].AsRecorded(); found[i].Known == "" && f.Place == place &&
				f.Text == text {
				found[i].Known = f.ID
			}
		}
	}
	b.checkedAs(b.wantDispatch(signalbox.RoleCI, "t1"), func(c *ReportChecks) {
		c.Change, c.Commit = signalbox.Hash{change}, sha(fmt.Sprint("c", change))
		c.Rows = []CheckRow{{Check: "bite", Environment: "local", Passed: passed}}
		c.Findings = found
	})
}

// What a check finds is a finding of its own, keeps its id, and is resolved when it is not found.
func TestFindingsOfChecks(t *testing.T) {
	b := deliver(t, policy(), todo("t1"))
	note := CheckFinding{Row: "bite|local", Text: "no test fails on the base", Note: true}
	b.bite(1, false, survivor(1, "a"), survivor(2, "F1 is a name in b"), note)
	b.wantFindings("F1 open", "F2 open", "F3 note") // and none that says only that it failed
	if f := b.work("t1").Task.Raised[1]; f.Place != "a.go:2" || f.Cause != ReworkChecks {
		t.Errorf("%+v", f)
	}
	b.bite(2, false, survivor(2, "F1 is a name in b"), survivor(2, "c"), note)
	b.wantFindings("F1 resolved", "F2 open", "F3 note", "F4 open")
	if n := b.work("t1").Task.Raised[1].Times; n != 1 {
		t.Errorf("found again %d times", n)
	}
	b.bite(3, false, survivor(1, "a")) // it is back
	b.wantFindings("F1 open", "F2 resolved", "F3 note", "F4 resolved")
	moved := survivor(5, "c")
	moved.Known = "F4" // it was resolved, and does not send the work back any more
	b.bite(4, true, survivor(9, "d"), moved)
	b.wantFindings("F1 resolved", "F2 resolved", "F3 note", "F4 resolved", "F5 note")
	b.wantPhase("t1", signalbox.PhaseReadyForReview)
	if f := b.work("t1").Task.Raised[4]; f.Commit != sha("c4") {
		t.Errorf("%s is about %q", f.ID, f.Commit)
	}
}

// A check that fails and explains nothing is a finding itself, beside what another one found.
func TestFailureWithoutFindings(t *testing.T) {
	b := deliver(t, policy(), todo("t1"))
	b.bite(1, false, CheckFinding{Row: "other|local", Text: "x"}, CheckFinding{Row: "bite|local",
		Text: "y", Note: true})
	b.wantFindings("F1 open", "F2 note", "F3 note")
	if f := b.work("t1").Task.Raised[0]; f.Text != "the check bite on local fails" {
		t.Errorf("%q", f.Text)
	}
}

// A finding whose line has moved stays the same one, and has its new place in the new commit. An
// equal line is another finding.
func TestMovedFindingOfCheck(t *testing.T) {
	b := deliver(t, policy(), todo("t1"))
	b.bite(1, false, survivor(1, "a"))
	equal, moved := survivor(1, "a"), survivor(7, "a")
	equal.Known, moved.Known = "none", "F1"
	b.bite(2, false, equal, moved)
	b.wantFindings("F1 open", "F2 open")
	f := b.work("t1").Task.Raised[0]
	if f.Place != "a.go:7" || f.Commit != sha("c2") || f.Times != 1 {
		t.Errorf("%+v", f)
	}
	b.bite(3, false, survivor(9, "c"))
	b.wantFindings("F1 resolved", "F2 resolved", "F3 open")
}

// What a check found in a task that was changed since is not what it finds now.
func TestSupersededFindingOfCheck(t *testing.T) {
	b := deliver(t, policy(), todo("t1"))
	b.bite(1, false, survivor(1, "a"))
	changed := todo("t1")
	changed.Text = signalbox.Hash{42}
	b.do(plan(2, changed))
	if known := b.work("t1").Task.CheckFindings(); len(known) != 0 {
		t.Errorf("%+v", known)
	}
	same := survivor(1, "a")
	same.Known = "F1"
	b.bite(2, false, same)
	b.wantFindings("F1 superseded", "F2 open")
}

// What a human lets stand is not raised again.
func TestWaivedFindingOfCheck(t *testing.T) {
	b := deliver(t, policy(), todo("t1"))
	b.bite(1, false, survivor(1, "a"), survivor(2, "b"))
	b.do(Waive{Work: "t1", Finding: "F1", Reason: "the same result", Actor: "ann"})
	b.bite(2, false, survivor(1, "a"), survivor(2, "b"))
	b.wantFindings("F1 waived", "F2 open")
	if known := b.work("t1").Task.CheckFindings(); len(known) != 2 ||
		known[0].State != FindingWaived {
		t.Errorf("%+v", known)
	}
}
