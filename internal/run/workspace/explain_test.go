package workspace

import (
	"errors"
	"fmt"
	"os"
	"syscall"
	"testing"

	"signalbox"
)

func TestExplain(t *testing.T) {
	for want, err := range map[string]error{
		"broken": errors.New("broken"),
		"git add: a b (fix it)": fmt.Errorf("git add: %w",
			&signalbox.Error{Err: errors.New("a\n  b"), Hint: "fix\nit"}),
		"no space left on device: git commit: error: unable to write file: No space left on device": errors.New("git commit: error: unable to write file:\nNo space left on device"),
		"no space left on device: write x: no space left on device":                                 &os.PathError{Op: "write", Path: "x", Err: syscall.ENOSPC},
	} {
		if got := Explain(err); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
