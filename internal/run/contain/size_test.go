package contain

import "testing"

func TestExceeds(t *testing.T) {
	m := newMachine(t, "")
	m.write("tree/a", "12345")
	m.write("tree/b/c", "67890")
	m.write("tree/box/ledger", "1234567890")
	for limit, want := range map[int64]bool{9: true, 10: false, 11: false} {
		if got := Exceeds(m.path("tree"), limit, m.path("tree/box")); got != want {
			t.Errorf("limit %d: %v", limit, got)
		}
	}
	if Exceeds(m.path("missing"), 0) {
		t.Error("a missing folder is too large")
	}
}
