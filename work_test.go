package signalbox_test

import (
	"strings"
	"testing"

	"signalbox"
)

func TestCheckID(t *testing.T) {
	for _, id := range []string{"a", "7", "task-1", "A.b_c-d", "x.locks", strings.Repeat("a", 64),
		"a-"} {
		if err := signalbox.CheckID(id); err != nil {
			t.Errorf("%q: %v", id, err)
		}
	}
	for id, want := range map[string]string{
		"":                      "must not be empty",
		strings.Repeat("a", 65): "65 bytes, limit 64",
		"a..b":                  "must not contain '..'",
		"a.lock":                "must not end in '.lock'",
		"a.":                    "must not end in '.lock' or '.'",
		".a":                    "begin with a letter or a digit",
		"-a":                    "begin with a letter or a digit",
		"a b":                   "must be letters, digits",
		"a/b":                   "must be letters, digits",
		"ä":                     "must be letters, digits",
		"a\x00":                 "must be letters, digits",
	} {
		if err := signalbox.CheckID(id); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", id, err, want)
		}
	}
}

// TestClaimableBy holds the table of the protocol, and that every phase that work can be claimed in
// leads on.
func TestClaimableBy(t *testing.T) {
	want := map[signalbox.Phase]signalbox.Role{
		"DRAFT": "business-analyst", "IMPLEMENTATION": "developer", "CI_PENDING": "ci",
		"READY_FOR_REVIEW": "critic",
		"REVIEW":           "critic", "READY_FOR_MERGE": "auditor", "COMPLETED": "", "BLOCKED": "",
	}
	for _, phase := range signalbox.Phases() {
		role, listed := want[phase]
		if got := phase.ClaimableBy(); !listed || got != role {
			t.Errorf("%s: %q, want %q", phase, got, role)
		}
		completed := signalbox.ExitSignal{PhaseCompleted: phase, ExitReason: signalbox.ExitCompleted}
		if _, leads := completed.NextPhase(); leads != (role != "") {
			t.Errorf("%s: leads on %t, claimable %t", phase, leads, role != "")
		}
	}
	if signalbox.Phase("draft").ClaimableBy() != "" {
		t.Error("a phase that does not exist can be claimed")
	}
}
