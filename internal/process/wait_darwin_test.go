package process

import "testing"

// waitUntilGone waits for the end of a process that need not be a child.
func waitUntilGone(t *testing.T, id ID) {
	t.Helper()
	if id.Alive() {
		waitForExit(id.PID)
	}
}
