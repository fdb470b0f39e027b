//go:build !windows

package checkrun

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"signalbox/internal/testkit/must"
)

// What a check left in place of a file that explains its failure is not opened.
func TestDiagnosePipes(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for _, name := range []string{"test.sh", ".gitmodules"} {
		must.Succeed(t, syscall.Mkfifo(filepath.Join(dir, name), 0o700))
	}
	if found := DiagnoseFailure(os.DirFS(dir), Check{Command: "./test.sh"}, Environment{}, nil,
		Result{Exit: 1}); len(found) != 0 {
		t.Errorf("%v", found)
	}
}
