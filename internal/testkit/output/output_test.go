package output

import "testing"

// A document shows how long something took on a fast machine.
func TestSteadyDurations(t *testing.T) {
	for _, took := range []string{"0s", "40ms", "1.2s", "38s", "2m05s"} {
		if got := Steady("3 of 3 tasks done in " + took +
			", 1 merge"); got != "3 of 3 tasks done in LONG, 1 merge" {
			t.Errorf("%s: %q", took, got)
		}
	}
}
