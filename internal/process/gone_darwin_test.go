package process

import "testing"

// awaitGone waits for the end of a process that need not be a child.
func awaitGone(t *testing.T, id ID) {
	t.Helper()
	if id.Alive() {
		awaitEnd(id.PID)
	}
}
