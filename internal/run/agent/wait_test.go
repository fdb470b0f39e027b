//go:build linux || darwin

package agent

import (
	"os"
	"path/filepath"
	"testing"

	"signalbox/internal/testkit/must"
)

func TestWaitForExit(t *testing.T) {
	dir := t.TempDir()
	WaitForExit(dir, "w-0123456789ab") // there is no such owner
	owner, err := Join(dir)
	must.Succeed(t, err)
	ended := make(chan bool)
	go func() {
		WaitForExit(dir, owner.ID())
		_, err := os.Stat(filepath.Join(dir, "leaving"))
		ended <- err == nil
	}()
	must.Succeed(t, os.WriteFile(filepath.Join(dir, "leaving"), nil, 0o600))
	must.Succeed(t, owner.Leave())
	if !<-ended {
		t.Error("WaitForExit returned before the owner left")
	}
}
