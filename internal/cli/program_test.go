package cli

import (
	"io"
	"testing"

	"signalbox"
)

func TestExitStatus(t *testing.T) {
	for want, code := range map[int]signalbox.Code{
		1: signalbox.CodeFailed, 2: signalbox.CodeUsage, 3: signalbox.CodeNotFound,
		4: signalbox.CodeConflict, 5: signalbox.CodeUnverified,
	} {
		if got := exitStatus(&signalbox.Error{Code: code, Err: io.ErrUnexpectedEOF}); got != want {
			t.Errorf("code %d: status %d, want %d", code, got, want)
		}
	}
	if got := exitStatus(io.ErrUnexpectedEOF); got != 1 {
		t.Errorf("an error without a code: status %d", got)
	}
}
