package process

import "testing"

// waitUntilGone waits until a process has ended. It need not be a child.
func waitUntilGone(t *testing.T, id ID) {
	t.Helper()
	if id.Alive() {
		waitForExit(id.PID)
	}
}
