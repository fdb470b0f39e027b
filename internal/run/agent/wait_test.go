//go:build linux || darwin

package agent

import (
	"os"
	"path/filepath"
	"testing"
)

func TestWaitForExit(t *testing.T) {
	dir := t.TempDir()
	WaitForExit(dir, "w-0123456789ab") // there is no such owner
	owner, err := Join(dir)
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan bool)
	go func() {
		WaitForExit(dir, owner.ID())
		_, err := os.Stat(filepath.Join(dir, "leaving"))
		ended <- err == nil
	}()
	if err := os.WriteFile(filepath.Join(dir, "leaving"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := owner.Leave(); err != nil {
		t.Fatal(err)
	}
	if !<-ended {
		t.Error("WaitForExit returned before the owner left")
	}
}
