package rules

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"signalbox"
)

// found returns what a critic or a developer says about findings. "F1 fixed", "F1" and
// "F1 disputed" name an earlier one; "note: x" is a note; "x!" is new and has a basis.
func found(said ...string) func(*ReportSignal) {
	return func(c *ReportSignal) {
		c.Fields.Summary = strings.Join(said, "; ")
		for _, text := range said {
			f := SaidFinding{Text: text, Place: "a.go:1"}
			id, says, _ := strings.Cut(text, " ")
			switch {
			case strings.HasPrefix(id, "F") && len(id) < 4:
				f.ID, f.Says = id, Said(says)
			case strings.HasPrefix(text, "note: "):
				f.Says = SaidNote
			case strings.HasSuffix(text, "!"):
				f.Basis = BasisShown
			}
			c.Fields.Findings = append(c.Fields.Findings, f)
		}
	}
}

// again has the work developed and checked once more. change is a digest of what it changes.
func (b *box) again(change byte, replies ...string) {
	b.t.Helper()
	b.sayMore(b.wantDispatch(signalbox.RoleDeveloper, "t1"), "ready_for_review", found(replies...))
	b.checkedAs(b.wantDispatch(signalbox.RoleCI, "t1"), func(c *ReportChecks) {
		c.Change, c.Commit = signalbox.Hash{change}, sha(fmt.Sprint("c", change))
	})
}

func (b *box) critic(said ...string) Decision {
	b.t.Helper()
	return b.sayMore(b.wantDispatch(signalbox.RoleCritic, "t1"), "review_failed", found(said...))
}

func (b *box) auditor(said ...string) Decision {
	b.t.Helper()
	return b.sayMore(b.wantDispatch(signalbox.RoleAuditor, "t1"), "audit_failed", found(said...))
}

// wantFindings compares the states of all findings.
func (b *box) wantFindings(want ...string) {
	b.t.Helper()
	var got []string
	for _, f := range b.work("t1").Task.Raised {
		state := string(f.State)
		if f.Upheld {
			state += ", upheld"
		}
		got = append(got, f.ID+" "+state)
	}
	if !slices.Equal(got, want) {
		b.t.Fatalf("findings are %q, want %q", got, want)
	}
}

// A critic that finds something new each time is heard twice with notes only; then the auditor
// decides.
func TestNitsEachRound(t *testing.T) {
	for _, review := range []Review{ReviewFull, ReviewCritic} {
		b := deliver(t, policy(), withReview(todo("t1"), review))
		b.again(1)
		b.critic("it panics")
		b.again(2, "F1 fixed")
		b.wantFindings("F1 claimed fixed")
		b.critic("a nit", "another nit")
		b.wantFindings("F1 claimed fixed", "F2 note", "F3 note")
		b.critic("a third nit", "a nit")
		w := b.wantPhase("t1", signalbox.PhaseReadyForMerge)
		if w.Task.Reviewed || w.Task.Audited {
			t.Errorf("it has passed %+v", w.Task.Gates)
		}
		b.wantFindings("F1 claimed fixed", "F2 note", "F3 note", "F4 note")
		b.say(b.wantDispatch(signalbox.RoleAuditor, "t1"), "audit_passed")
		b.wantFindings("F1 resolved", "F2 note", "F3 note", "F4 note")
		b.merged(b.wantDispatch(signalbox.RoleMerger, "t1"))
		b.wantPhase("t1", signalbox.PhaseCompleted)
	}
}

// If the auditor sends the work back too, its next attempt begins without what was decided.
func TestAuditorSendsNotesBack(t *testing.T) {
	b := deliver(t, policy(), todo("t1"))
	b.again(1)
	b.critic("it panics")
	b.again(2)
	b.critic("a nit")
	b.critic("a nit")
	b.auditor("criterion 1 is not met")
	b.wantPhase("t1", signalbox.PhaseImplementation)
	b.wantFindings("F1 open", "F2 note", "F3 open")
	b.again(3, "F3 fixed")
	b.critic("another nit") // one more critic looks before an auditor decides again
	b.wantPhase("t1", signalbox.PhaseReview)
}

// A critic that passes the work the second time ends it.
func TestSecondCriticPasses(t *testing.T) {
	// without the nits it would need no audit
	b := deliver(t, policy(), withReview(todo("t1"), ReviewCritic))
	b.again(1)
	b.critic("it panics")
	b.again(2)
	b.critic("a nit")
	b.critic("F2 fixed", "F2") // which is a note, so that there is nothing to settle
	b.wantPhase("t1", signalbox.PhaseReadyForMerge)
	b = deliver(t, policy(), withReview(todo("t1"), ReviewCritic))
	b.again(1)
	b.critic("it panics")
	b.again(2)
	b.critic("a nit")
	d := b.say(b.wantDispatch(signalbox.RoleCritic, "t1"), "review_passed")
	if got := skippedIn(t, d); got != nil {
		t.Errorf("skipped %v", got)
	}
	if g := b.wantPhase("t1", signalbox.PhaseReadyForMerge).Task.Gates; !g.Reviewed {
		t.Errorf("gates %+v", g)
	}
}

// A critic that says the same each time: nothing gets better, so the human is asked, with what is
// open and since when.
func TestCriticRepeatsItself(t *testing.T) {
	b := deliver(t, policy(), todo("t1"))
	for n := range byte(3) {
		b.again(n + 1)
		if n == 1 {
			b.critic("it panics", "F2") // by its text, or by its id
			continue
		}
		b.critic("it panics", "use tabs")
	}
	b.wantFindings("F1 open", "F2 open")
	if q := b.question("t1", AskedReview); !strings.Contains(q.Text,
		"review failed 3 times. Open findings: F1 (a.go:1): it panics [found 3 times]; F2 (a.go:1): use tabs [found 3 times]") {
		t.Errorf("asked %q", q.Text)
	}
}

// A text that names and lists nothing says that what is open is not fixed.
func TestVagueVerdict(t *testing.T) {
	vague := func(c *ReportSignal) {
		c.Fields.Summary = "still not"
		c.Fields.Findings = []SaidFinding{{Text: "still not", Says: SaidVaguely}}
	}
	b := deliver(t, policy(), todo("t1"))
	b.again(1)
	b.critic("it panics")
	b.again(2)
	b.sayMore(b.wantDispatch(signalbox.RoleCritic, "t1"), "review_failed", vague)
	b.wantFindings("F1 open")
	b.wantPhase("t1", signalbox.PhaseImplementation)
	b.again(3)
	b.critic("a nit")
	b.sayMore(b.wantDispatch(signalbox.RoleCritic, "t1"), "review_failed", vague)
	b.wantFindings("F1 open", "F2 note")
	b.answer("t1", AskedReview, "do it")
	b.again(4)
	b.critic("F1 fixed", "a nit")
	b.sayMore(b.wantDispatch(signalbox.RoleCritic, "t1"), "review_failed", vague)
	b.wantFindings("F1 resolved", "F2 note", "F3 note")
	b.wantPhase("t1", signalbox.PhaseReadyForMerge)
}

// A later verdict that lists nothing sends the work back with what it says, if nothing is open.
func TestUnlistedVerdict(t *testing.T) {
	b := deliver(t, policy(), todo("t1"))
	b.again(1)
	b.critic("it panics")
	b.do(Waive{Work: "t1", Finding: "F1", Reason: "never", Actor: "ann"})
	b.again(2)
	b.sayMore(b.wantDispatch(signalbox.RoleCritic, "t1"), "review_failed", func(c *ReportSignal) {
		c.Fields.Summary = "it leaks"
	})
	b.wantFindings("F1 waived", "F2 open")
	b.wantPhase("t1", signalbox.PhaseImplementation)
}

// Of too many notes, the first ones are kept.
func TestManyNotes(t *testing.T) {
	var b FindingsRecorded
	for i := range maxFindings + 1 {
		b.raise(RaisedFinding{ID: findingID(i + 1), Text: fmt.Sprint(i), Note: true})
	}
	if len(b.Raised) != maxFindings || b.Raised[0].Text != "0" {
		t.Errorf("%+v", b.Raised)
	}
}

// A critic that asks for one thing and for its opposite makes no progress either.
func TestCriticOscillates(t *testing.T) {
	b := deliver(t, policy(), todo("t1"))
	for n, said := range []string{"use tabs", "use spaces!", "use tabs!"} {
		b.again(byte(n) + 1)
		b.critic(said)
	}
	b.wantFindings("F1 open", "F2 open", "F3 open")
	b.question("t1", AskedReview)
}

// Rounds with fewer findings each time are not counted, a defect in round 5 blocks, and what is
// claimed to be fixed and is not stays open.
func TestReviewsThatConverge(t *testing.T) {
	b := deliver(t, policy(), todo("t1"))
	b.again(1)
	b.critic("one", "two", "three", "four")
	b.again(2, "F1 fixed", "F2 fixed", "F3 fixed", "F4 fixed")
	b.critic("F1", "F2", "F3")
	b.wantFindings("F1 open", "F2 open", "F3 open", "F4 claimed fixed")
	b.again(3)
	b.critic("F1", "F2", "F3 fixed", "F4 fixed")
	b.again(4)
	b.critic("F1")
	b.again(5)
	b.critic("F1 fixed", "F2 fixed", "it panics now!")
	w := b.wantPhase("t1", signalbox.PhaseImplementation)
	if c := w.Task.Counts; c.Reviews != 2 || c.Rounds != 5 {
		t.Errorf("counts %+v", c)
	}
	b.wantFindings("F1 resolved", "F2 resolved", "F3 resolved", "F4 resolved", "F5 open")
	if f := w.Task.Raised[4]; f.Basis != BasisShown || f.Commit != sha("c5") || f.Place != "a.go:1" {
		t.Errorf("the last finding is %+v", f)
	}
}

// However few findings there are each time, the human is asked in the end.
func TestRoundsAreBounded(t *testing.T) {
	b := deliver(t, policy(), todo("t1"))
	var said []string
	for n := range 12 {
		said = append(said, fmt.Sprint("fault ", n))
	}
	for n := range maxRounds {
		b.again(byte(n) + 1)
		b.critic(said[:12-n]...)
	}
	if q := b.question("t1", AskedReview); !strings.Contains(q.Text, "failed 10 times") {
		t.Errorf("asked %q", q.Text)
	}
	if c := b.work("t1").Task.Counts; c.Reviews != 1 {
		t.Errorf("counts %+v", c)
	}
}

// A developer that disputes a finding without a change reaches the critic, who answers once.
func TestDispute(t *testing.T) {
	disputed := func(t *testing.T) *box {
		b := deliver(t, policy(), todo("t1"))
		b.again(1)
		b.critic("use tabs")
		b.again(1, "F1 disputed")
		b.wantFindings("F1 disputed")
		b.wantPhase("t1", signalbox.PhaseReadyForReview)
		return b
	}
	t.Run("critic yields", func(t *testing.T) {
		b := disputed(t)
		b.say(b.wantDispatch(signalbox.RoleCritic, "t1"), "review_passed")
		b.wantFindings("F1 resolved")
	})
	t.Run("auditor sides with the developer", func(t *testing.T) {
		b := disputed(t)
		b.critic("F1")
		b.wantFindings("F1 disputed, upheld")
		b.wantPhase("t1", signalbox.PhaseReadyForMerge)
		b.say(b.wantDispatch(signalbox.RoleAuditor, "t1"), "audit_passed")
		b.wantFindings("F1 resolved")
	})
	t.Run("auditor sides with the critic", func(t *testing.T) {
		b := disputed(t)
		b.critic("F1")
		b.auditor("F1")
		q := b.question("t1", AskedDispute)
		for _, part := range []string{"F1 (a.go:1), from the review: use tabs", "The developer: F1 disputed"} {
			if !strings.Contains(q.Text, part) {
				t.Errorf("%q is not in the question %q", part, q.Text)
			}
		}
		b.answer("t1", AskedDispute, "the critic is right")
		b.again(1, "F1 disputed") // and once more, although the human has decided
		b.critic("F1")
		b.wantPhase("t1", signalbox.PhaseReadyForMerge)
	})
	t.Run("something else is open", func(t *testing.T) {
		b := disputed(t)
		b.critic("F1", "it panics!")
		b.wantPhase("t1", signalbox.PhaseImplementation)
		b.wantFindings("F1 disputed, upheld", "F2 open")
		b.again(1) // neither a change nor a new dispute
		b.wantPhase("t1", signalbox.PhaseImplementation)
	})
	t.Run("auditor's own finding", func(t *testing.T) {
		b := deliver(t, policy(), todo("t1"))
		b.again(1)
		b.say(b.wantDispatch(signalbox.RoleCritic, "t1"), "review_passed")
		b.auditor("criterion 2")
		b.again(1, "F1 disputed")
		b.say(b.wantDispatch(signalbox.RoleCritic, "t1"), "review_passed")
		b.auditor("F1")
		b.question("t1", AskedDispute)
	})
}

// Findings of checks, a merge, a human and a pull request have ids too, and are resolved when what
// they are about has passed.
func TestFindingsOfOthers(t *testing.T) {
	b := deliver(t, policy(), todo("t1"))
	b.ready("t1")
	b.checked(b.wantDispatch(signalbox.RoleCI, "t1"), "test", "lint")
	b.wantFindings("F1 open", "F2 open")
	b.ready("t1")
	b.checked(b.wantDispatch(signalbox.RoleCI, "t1"), "test")
	b.wantFindings("F1 resolved", "F2 resolved", "F3 open")
	b.again(2)
	b.wantFindings("F1 resolved", "F2 resolved", "F3 resolved")
	b.do(Rework{Work: "t1", Text: "use tabs", Actor: "ann"})
	b.again(3, "F4 fixed")
	b.wantFindings("F1 resolved", "F2 resolved", "F3 resolved", "F4 claimed fixed")
	b.say(b.wantDispatch(signalbox.RoleCritic, "t1"), "review_passed")
	b.say(b.wantDispatch(signalbox.RoleAuditor, "t1"), "audit_passed")
	b.wantFindings("F1 resolved", "F2 resolved", "F3 resolved", "F4 resolved")
}

// A human can waive what is open. Then the same changes are reviewed again, and nothing else is
// waived.
func TestWaive(t *testing.T) {
	b := deliver(t, policy(), todo("t1"))
	b.again(1)
	b.critic("use tabs", "note: a nit")
	waive := func(finding string) Waive {
		return Waive{Work: "t1", Finding: finding, Reason: "spaces are fine", Actor: "ann"}
	}
	wantRefusedAs(t, b.try(waive("F2")), signalbox.CodeFailed) // a note
	wantRefusedAs(t, b.try(waive("F3")), signalbox.CodeNotFound)
	wantRefusedAs(t, b.try(Waive{Work: "t1", Finding: "F1", Actor: "ann"}), signalbox.CodeUsage)
	b.do(waive("F1"))
	if !b.do(waive("F1")).Repeated {
		t.Error("it is waived twice")
	}
	b.wantFindings("F1 waived", "F2 note")
	if f := b.work("t1").Task.Raised[0]; f.Waived != "ann: spaces are fine" {
		t.Errorf("waived %q", f.Waived)
	}
	b.again(1)
	b.wantPhase("t1", signalbox.PhaseReadyForReview)
	b.critic("use tabs") // which is waived
	b.wantFindings("F1 waived", "F2 note")
	b.wantPhase("t1", signalbox.PhaseReview)
}

// A task that is described in another way has nothing left to fix.
func TestReplannedFindings(t *testing.T) {
	b := deliver(t, policy(), todo("t1"))
	b.again(1)
	b.critic("use tabs")
	changed := todo("t1")
	changed.Text = signalbox.Hash{42}
	b.do(plan(2, changed))
	b.wantFindings("F1 superseded")
}

func TestImpossibleFindings(t *testing.T) {
	b := deliver(t, policy(), todo("t1"))
	b.again(1)
	b.critic("use tabs")
	for want, data := range map[string]FindingsRecorded{
		`the next finding is F2, not "F1"`:            {Cause: ReworkReview, Raised: []RaisedFinding{{ID: "F1"}}},
		`"F2" cannot be found again`:                  {Cause: ReworkReview, Again: []FoundAgain{{ID: "F2"}}},
		`"F9" is not an open finding`:                 {Cause: causeReply, Replies: []FindingReply{{ID: "F9", State: FindingFixed}}},
		`there is no reply "resolved"`:                {Cause: causeReply, Replies: []FindingReply{{ID: "F1", State: FindingResolved}}},
		`only the verdict of a critic has an outcome`: {Cause: ReworkReview, Outcome: JudgeAudit},
	} {
		if got := data.fault(b.s, b.event("t1", "", data)); got != want {
			t.Errorf("%+v: got %q, want %q", data, got, want)
		}
	}
}

// A developer cannot dispute what the human or a check says.
func TestOnlyVerdictsAreDisputed(t *testing.T) {
	b := deliver(t, policy(), todo("t1"))
	b.again(1)
	b.do(Rework{Work: "t1", Text: "use tabs", Actor: "ann"})
	b.again(1, "F1 disputed")
	b.wantFindings("F1 open")
	b.wantPhase("t1", signalbox.PhaseImplementation)
}

// A dispute lets the same changes through once, for the turn that had it.
func TestDisputesAreNotKept(t *testing.T) {
	b := deliver(t, policy(), todo("t1"))
	b.again(1)
	b.say(b.wantDispatch(signalbox.RoleCritic, "t1"), "review_passed")
	b.auditor("criterion 1")
	b.again(1, "F1 disputed")
	b.critic("it panics")
	b.again(1)
	b.wantPhase("t1", signalbox.PhaseImplementation)
}

// What was fixed can break again: its finding is open again, with the new text.
func TestResolvedFindingReturns(t *testing.T) {
	b := deliver(t, policy(), todo("t1"))
	b.again(1)
	b.critic("it panics", "use tabs")
	b.again(2)
	b.critic("F1 fixed", "F2")
	b.wantFindings("F1 resolved", "F2 open")
	b.again(3)
	b.critic("F1", "F2 fixed")
	b.wantFindings("F1 open", "F2 resolved")
	if f := b.work("t1").Task.Raised[0]; f.Times != 1 || f.Answer != "F1" {
		t.Errorf("it is %+v", f)
	}
	b.wantPhase("t1", signalbox.PhaseImplementation)
}

// A text that names an open finding is about it, however it begins.
func TestFindingIsNamedInText(t *testing.T) {
	b := deliver(t, policy(), todo("t1"))
	b.again(1)
	b.critic("it panics")
	b.again(2, "F1 fixed")
	b.critic("the finding (F1) is still there")
	b.wantFindings("F1 open")
}

// The second critic of a commit is as free as the first.
func TestSecondCriticComparesWithTheSame(t *testing.T) {
	b := deliver(t, policy(), todo("t1"))
	b.again(1)
	b.critic("it panics")
	b.again(2)
	b.critic("a nit")
	if got := b.work("t1").Task.ReviewedAt; got != sha("c1") {
		t.Errorf("compared with %s", got)
	}
	b = deliver(t, policy(), todo("t1"))
	b.again(1)
	b.critic("note: a nit")
	b.critic("it panics") // which no critic has seen before
	b.wantFindings("F1 note", "F2 open")
}

// However many findings a verdict settles, what is new counts.
func TestManyFindings(t *testing.T) {
	b := deliver(t, policy(), todo("t1"))
	b.again(1)
	var first, second []string
	for n := range maxFindings + 2 {
		first = append(first, fmt.Sprint("fault ", n))
		second = append(second, fmt.Sprintf("F%d fixed", n+1))
	}
	b.critic(first...)
	if n := len(b.work("t1").Task.Raised); n != maxFindings {
		t.Errorf("%d findings", n)
	}
	b.again(2)
	b.critic(append(second, "it deletes the database!")...)
	b.wantPhase("t1", signalbox.PhaseImplementation)
	notes := make([]string, maxFindings)
	for n := range notes {
		notes[n] = fmt.Sprint("note: nit ", n)
	}
	b.again(3)
	b.critic(append(notes, "it deletes everything!")...)
	b.wantPhase("t1", signalbox.PhaseImplementation)
}

// A critic does not settle what an auditor or the human found, nor an auditor what the human did.
func TestWhoSettles(t *testing.T) {
	b := deliver(t, policy(), todo("t1"))
	b.again(1)
	b.say(b.wantDispatch(signalbox.RoleCritic, "t1"), "review_passed")
	b.auditor("criterion 1")
	b.do(Rework{Work: "t1", Text: "use tabs", Actor: "ann"})
	b.again(2)
	b.critic("F1 fixed", "F2 fixed", "it panics")
	b.wantFindings("F1 open", "F2 open", "F3 open")
	b.again(3)
	b.say(b.wantDispatch(signalbox.RoleCritic, "t1"), "review_passed")
	b.auditor("F1 fixed", "F2 fixed", "criterion 2")
	b.wantFindings("F1 resolved", "F2 open", "F3 resolved", "F4 open")
}

// After the human has answered a dispute, the same changes are reviewed again.
func TestAnsweredDispute(t *testing.T) {
	b := deliver(t, policy(), todo("t1"))
	b.again(1)
	b.critic("use tabs")
	b.again(1, "F1 disputed")
	b.critic("F1")
	b.auditor("F1")
	b.answer("t1", AskedDispute, "the developer is right")
	b.again(1)
	b.wantPhase("t1", signalbox.PhaseReadyForReview)
}

// A task that is restarted, or described in another way, is judged as if for the first time.
func TestJudgedAnew(t *testing.T) {
	b := deliver(t, policy(), todo("t1"))
	b.again(1)
	b.critic("it panics")
	b.again(2)
	b.critic("a nit")
	b.do(Order{What: OrderRetry, Work: "t1", Actor: "ann"})
	if task := b.work("t1").Task; task.ReviewedAt != "" || task.Judgement != "" {
		t.Errorf("after a retry: %q, %q", task.ReviewedAt, task.Judgement)
	}
	// what the auditor decided stays decided
	b = deliver(t, policy(), todo("t1"))
	b.again(1)
	b.critic("note: a nit")
	b.critic("note: a nit")
	b.say(b.wantDispatch(signalbox.RoleAuditor, "t1"), "audit_passed")
	b.do(Order{What: OrderRetry, Work: "t1", From: signalbox.PhaseReadyForMerge, Actor: "ann"})
	b.say(b.wantDispatch(signalbox.RoleAuditor, "t1"), "audit_passed")
	b.merged(b.wantDispatch(signalbox.RoleMerger, "t1"))
	b.wantPhase("t1", signalbox.PhaseCompleted)
}

// A task that needs no audit has nothing open when it is ready to merge.
func TestLightPathSettles(t *testing.T) {
	b := deliver(t, policy(), withReview(todo("t1"), ReviewChecks))
	b.do(Rework{Work: "t1", Text: "use tabs", Actor: "ann"})
	b.again(1)
	b.wantPhase("t1", signalbox.PhaseReadyForMerge)
	b.wantFindings("F1 resolved")
}

// An auditor's finding blocks also if a critic noted the same.
func TestAuditorSaysWhatWasNoted(t *testing.T) {
	b := deliver(t, policy(), todo("t1"))
	b.again(1)
	b.critic("it panics")
	b.again(2)
	b.critic("F1 fixed", "a nit")
	b.critic("a nit")
	b.auditor("a nit")
	b.wantFindings("F1 resolved", "F2 open")
}

// A finding is the same if its words are, wherever its line has moved to and however much of its
// path is written. Another line is another finding if the first is there, too, or is resolved.
func TestPlacesMove(t *testing.T) {
	at := func(places ...string) func(*ReportSignal) {
		return func(c *ReportSignal) {
			for _, place := range places {
				c.Fields.Findings = append(c.Fields.Findings, SaidFinding{Place: place,
					Text: "`" + place + "`: it Panics"})
			}
		}
	}
	fails := func(b *box, places ...string) {
		b.sayMore(b.wantDispatch(signalbox.RoleCritic, "t1"), "review_failed", at(places...))
	}
	begin := func() *box {
		b := deliver(t, policy(), todo("t1"))
		b.again(1)
		fails(b, "pkg/a.go:3")
		b.again(2, "F1 fixed")
		return b
	}
	for _, place := range []string{"pkg/a.go:9", "a.go:3", "/tmp/x/pkg/a.go:70-80"} {
		b := begin()
		fails(b, place)
		b.wantFindings("F1 open")
		b.wantPhase("t1", signalbox.PhaseImplementation)
	}
	for _, place := range []string{"pkg/b.go:3", "ba.go:3"} {
		b := begin()
		fails(b, place)
		b.wantFindings("F1 claimed fixed", "F2 note")
	}
	b := begin()
	fails(b, "pkg/a.go:3", "pkg/a.go:9")
	b.wantFindings("F1 open", "F2 note")
	b.again(3)
	fails(b, "pkg/a.go:20") // which of the two is not known
	b.wantFindings("F1 open", "F2 note", "F3 note")

	b = begin()
	b.critic("F1 fixed", "use tabs!")
	b.again(3)
	fails(b, "pkg/a.go:9")
	b.wantFindings("F1 resolved", "F2 open", "F3 note")

	b = begin()
	b.do(Waive{Work: "t1", Finding: "F1", Reason: "fine", Actor: "ann"})
	fails(b, "pkg/a.go:9")
	b.wantFindings("F1 waived")
	b.wantPhase("t1", signalbox.PhaseReview)
}

// A text of an agent is cut and has no control characters, however it is said, and the criterion that
// it names is kept.
func TestHostileFindings(t *testing.T) {
	b := deliver(t, policy(), todo("t1"))
	b.again(1)
	hostile := "\x1b[2J\x00" + strings.Repeat("a", 10_000)
	b.sayMore(b.wantDispatch(signalbox.RoleCritic, "t1"), "review_failed", func(c *ReportSignal) {
		c.Fields.Findings = []SaidFinding{{Place: hostile, Text: hostile, Criterion: 2}}
	})
	b.again(2)
	b.sayMore(b.wantDispatch(signalbox.RoleCritic, "t1"), "review_failed", func(c *ReportSignal) {
		c.Fields.Findings = []SaidFinding{{Place: hostile, Text: hostile}, {ID: "F1", Text: hostile}}
	})
	b.wantFindings("F1 open")
	f := b.work("t1").Task.Raised[0]
	for _, text := range []string{f.Place, f.Text, f.Answer} {
		if len(text) > maxFindingText || strings.ContainsAny(text, "\x00\x1b") {
			t.Errorf("%d bytes: %q", len(text), text)
		}
	}
	if f.Criterion != 2 || f.Times != 1 {
		t.Errorf("%+v", f)
	}
}

// Notes of whoever passes the work are recorded once, also if what follows is skipped, and what a
// verdict calls not fixed stays open until the auditor has looked.
func TestNotesOfPassedWork(t *testing.T) {
	for _, review := range []Review{ReviewChecks, ReviewCritic} {
		b := deliver(t, vendors(IndependenceNone, "claude"), withReview(todo("t1"), review))
		b.ends(b.wantAgent(signalbox.RoleDeveloper, "claude"), "ready_for_review", "")
		b.checkedAs(b.wantDispatch(signalbox.RoleCI, "t1"), func(c *ReportChecks) {
			c.Findings = append(c.Findings, CheckFinding{Place: "a.go:3", Text: "it is slow"})
		})
		want := 1
		if review == ReviewCritic {
			want = 2
			a := b.wantAgent(signalbox.RoleCritic, "claude")
			b.do(by(a, StartAgent{Agent: a.Agent}))
			b.sayMore(a, "review_passed", func(c *ReportSignal) {
				c.Fields.Findings = []SaidFinding{{Text: "rename x", Says: SaidNote}}
			})
		}
		w := b.work("t1")
		if w.Phase != signalbox.PhaseReadyForMerge || len(w.Task.Raised) != want {
			t.Errorf("%s: %s, %+v", review, w.Phase, w.Task.Raised)
		}
	}
}
