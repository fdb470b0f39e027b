package signalbox_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"signalbox"
)

func TestNextPhase(t *testing.T) {
	const none = signalbox.Phase("")
	afterCompleted := map[signalbox.Phase]signalbox.Phase{
		signalbox.PhaseDraft:          signalbox.PhaseImplementation,
		signalbox.PhaseImplementation: signalbox.PhaseCIPending,
		signalbox.PhaseCIPending:      signalbox.PhaseReadyForReview,
		signalbox.PhaseReadyForReview: signalbox.PhaseReview,
		signalbox.PhaseReview:         signalbox.PhaseReadyForMerge,
		signalbox.PhaseReadyForMerge:  signalbox.PhaseCompleted,
		signalbox.PhaseCompleted:      none,
		signalbox.PhaseBlocked:        none,
	}
	if got, want := len(signalbox.Phases()), len(afterCompleted); got != want {
		t.Fatalf("%d phases, want %d", got, want)
	}
	for _, phase := range signalbox.Phases() {
		for reason, want := range map[signalbox.ExitReason]signalbox.Phase{
			signalbox.ExitCompleted: afterCompleted[phase],
			signalbox.ExitBlocked:   signalbox.PhaseBlocked,
			signalbox.ExitError:     signalbox.PhaseBlocked,
		} {
			s := signalbox.ExitSignal{PhaseCompleted: phase, ExitReason: reason}
			got, ok := s.NextPhase()
			if got != want || ok != (want != none) {
				t.Errorf("%s + %s: next phase %q, %t; want %q, %t", phase, reason, got, ok, want,
					want != none)
			}
		}
	}
}

func TestExitVocabulary(t *testing.T) {
	phases := []signalbox.Phase{"DRAFT", "IMPLEMENTATION", "CI_PENDING", "READY_FOR_REVIEW",
		"REVIEW",
		"READY_FOR_MERGE", "COMPLETED", "BLOCKED"}
	if diff := cmp.Diff(phases, signalbox.Phases()); diff != "" {
		t.Errorf("phases (-want +got):\n%s", diff)
	}
	reasons := []signalbox.ExitReason{"completed", "blocked", "error"}
	if diff := cmp.Diff(reasons, signalbox.ExitReasons()); diff != "" {
		t.Errorf("exit reasons (-want +got):\n%s", diff)
	}
}
