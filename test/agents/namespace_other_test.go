//go:build !linux

package agents_test

import (
	"os/exec"
	"testing"
)

func runApart(t *testing.T, _ func() *exec.Cmd) error {
	t.Skip("network namespaces are Linux's")
	return nil
}

func onlyLoopback(*testing.T) {}
