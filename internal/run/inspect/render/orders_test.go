package render

import (
	"testing"

	"signalbox"
	"signalbox/internal/core/rules"
)

func TestAnswered(t *testing.T) {
	for _, test := range []struct {
		answer rules.Answer
		want   string
	}{
		{rules.Answer{Work: "T2"}, "answered Q-1; T2 continues"},
		{rules.Answer{}, "answered Q-1; the run continues"},
		{rules.Answer{Role: "developer", Paused: true},
			"answered Q-1; the role developer is paused"},
		{rules.Answer{Work: "B-1", Understood: "running the checks again"},
			"answered Q-1; running the checks again"},
	} {
		if got := Answered("Q-1", test.answer); got != test.want {
			t.Errorf("%+v: %q, want %q", test.answer, got, test.want)
		}
	}
}

func TestTold(t *testing.T) {
	const next, later = "the developer gets it at the start of its next turn",
		"the developer gets it if the task comes back; signalbox rework sends it back now"
	for phase, want := range map[signalbox.Phase]string{
		signalbox.PhaseDraft: next, signalbox.PhaseImplementation: next,
		signalbox.PhaseBlocked: next, signalbox.PhaseCIPending: later,
		signalbox.PhaseReview: later, signalbox.PhaseReadyForMerge: later,
	} {
		answer := rules.Answer{Role: signalbox.RoleDeveloper, Phase: phase}
		if got := Told(nil, answer); got != want {
			t.Errorf("%s: %q, want %q", phase, got, want)
		}
	}
}
