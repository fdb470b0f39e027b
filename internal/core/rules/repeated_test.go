package rules

import (
	"slices"
	"strings"
	"testing"

	"signalbox"
)

// Work that comes back with the changes that were sent back is not judged again. Its developer is
// told twice; then the human is asked, and after an answer it is reviewed again.
func TestRejectedWorkComesBackUnchanged(t *testing.T) {
	change := func(n byte) func(*ReportChecks) {
		return func(c *ReportChecks) { c.Change = signalbox.Hash{n} }
	}
	for name, reject := range map[string]func(b *box){
		"critic": func(b *box) {
			b.sayMore(b.dispatch(signalbox.RoleCritic), "review_failed", saying("use tabs"))
		},
		"auditor": func(b *box) {
			b.say(b.dispatch(signalbox.RoleCritic), "review_passed")
			b.sayMore(b.dispatch(signalbox.RoleAuditor), "audit_failed", saying("use tabs"))
		},
		"human": func(b *box) { b.do(Rework{Work: "t1", Text: "use tabs", Actor: "ann"}) },
	} {
		t.Run(name, func(t *testing.T) {
			b := deliver(t, policy(), todo("t1"))
			develop := func(n byte) *Work {
				b.ready("t1")
				b.checkedAs(b.dispatch(signalbox.RoleCI), change(n))
				return b.work("t1")
			}
			develop(1)
			reject(b)
			for range maxRepeated {
				task := develop(1).Task
				b.wantPhase("t1", signalbox.PhaseImplementation)
				if n := len(task.Findings); n != 2 || task.Findings[0].Summary != "use tabs" ||
					task.Findings[1].Cause != ReworkRepeated {
					t.Fatalf("findings %+v", task.Findings)
				}
			}
			if w := develop(1); w.Phase != signalbox.PhaseBlocked {
				t.Fatalf("it is in %s", w.Phase)
			}
			if q := b.question("t1", AskedRepeated); !strings.Contains(q.Text, "(use tabs)") {
				t.Errorf("question %q", q.Text)
			}
			b.answer("t1", AskedRepeated, "it is right as it is")
			if w := develop(1); w.Phase != signalbox.PhaseReadyForReview {
				t.Errorf("after the answer it is in %s", w.Phase)
			}
			reject(b)
			if w := develop(2); w.Phase != signalbox.PhaseReadyForReview ||
				w.Task.Counts.Repeated != 0 {
				t.Errorf("with other changes it is in %s: %+v", w.Phase, w.Task.Counts)
			}
		})
	}
}

// A failed check does not make the work rejected: it may pass the next time.
func TestFailedChecksAreNoRejection(t *testing.T) {
	b := deliver(t, policy(), todo("t1"))
	for i, failing := range [][]string{{"test"}, nil} {
		b.ready("t1")
		b.checkedAs(b.dispatch(signalbox.RoleCI), func(c *ReportChecks) {
			c.Change = signalbox.Hash{1}
			for i := range c.Rows {
				c.Rows[i].Passed = !slices.Contains(failing, c.Rows[i].Check)
			}
		})
		if got := b.work("t1").Phase; (got == signalbox.PhaseReadyForReview) != (i == 1) {
			t.Errorf("round %d: it is in %s", i, got)
		}
	}
}
