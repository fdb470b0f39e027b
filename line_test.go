package signalbox_test

import (
	"slices"
	"testing"

	"signalbox"
)

// Every signal is either listed here or does not advance anything.
func TestPassing(t *testing.T) {
	passing := []string{
		signalbox.NameReadyForReview, signalbox.NameReviewPassed, signalbox.NameAuditPassed,
		signalbox.NameExpandedSpec,
		signalbox.NameRemediationComplete, signalbox.NameHealthHealthy, signalbox.NameExpertAdvice,
		signalbox.NameExpertCreated,
	}
	for _, row := range signalbox.LineSignals() {
		sig := signalbox.Signal{Dialect: signalbox.DialectLine, Name: row.Name}
		if got, want := sig.Passing(), slices.Contains(passing, row.Name); got != want {
			t.Errorf("%s: %v, want %v", row.Name, got, want)
		}
		if row.Passing && row.Urgent {
			t.Errorf("%s is passing and acts before the end of the turn", row.Name)
		}
	}
	for _, name := range signalbox.TurnTypes() {
		sig := signalbox.Signal{Dialect: signalbox.DialectTurn, Name: name}
		if got, want := sig.Passing(), name == signalbox.NameContextSufficient; got != want {
			t.Errorf("%s: %v, want %v", name, got, want)
		}
	}
	for _, reason := range []signalbox.ExitReason{signalbox.ExitCompleted, signalbox.ExitBlocked,
		signalbox.ExitError} {
		exit := &signalbox.ExitSignal{ExitReason: reason}
		for _, sig := range []signalbox.Signal{
			{Dialect: signalbox.DialectExit, Name: signalbox.NameExit, Exit: exit},
			{Dialect: signalbox.DialectLine, Name: signalbox.NameTaskIncomplete, Exit: exit},
		} {
			if got, want := sig.Passing(), reason == signalbox.ExitCompleted; got != want {
				t.Errorf("%s %s: %v, want %v", sig.Name, reason, got, want)
			}
		}
	}
	broken := signalbox.Signal{Dialect: signalbox.DialectExit, Name: signalbox.NameExit}
	if broken.Passing() || (&signalbox.Signal{Name: signalbox.NameUnknown}).Passing() {
		t.Error("a broken exit signal or no signal is passing")
	}
}
