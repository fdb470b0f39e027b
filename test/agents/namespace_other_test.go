//go:build !linux

package agents_test

import (
	"os/exec"
	"testing"
)

func runInNamespace(t *testing.T, _ func() *exec.Cmd) error {
	t.Skip("network namespaces exist only on Linux")
	return nil
}

func onlyLoopback(*testing.T) {}
