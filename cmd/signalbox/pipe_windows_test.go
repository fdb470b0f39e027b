package main

import (
	"os"
	"syscall"
	"testing"
)

func TestClosedPipeOnWindows(t *testing.T) {
	for _, code := range []syscall.Errno{232, syscall.ERROR_BROKEN_PIPE} {
		p, _, stderr := start("version")
		p.Stdout = failing{&os.PathError{Op: "write", Path: "/dev/stdout", Err: code}}
		if status := execute(p); status != 0 || stderr.Len() > 0 {
			t.Errorf("error %d: status %d, stderr %q", code, status, stderr)
		}
	}
}
