package workspace

import (
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"signalbox/internal/testkit/must"
)

// The contents of all files that differ are read, whatever they are called, and of nothing else.
func TestChangedFiles(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("names and links that Windows does not have")
	}
	k := newKit(t, map[string]string{"edited": "a\n", "same": "s\n", "deleted": "d\n",
		"moved": "m\n", "grown": "g\n", "link": "l\n"})
	start := k.base()
	for _, name := range []string{"deleted", "moved", "link"} {
		must.Succeed(t, os.Remove(filepath.Join(k.dir, name)))
	}
	must.Succeed(t, os.Symlink("/etc/passwd", filepath.Join(k.dir, "link")))
	must.Succeed(t, os.Symlink("same", filepath.Join(k.dir, "other")))
	must.Succeed(t, os.Chmod(filepath.Join(k.dir, "same"), 0o755))
	must.Succeed(t, os.WriteFile(filepath.Join(k.dir, "empty"), nil, 0o644))
	write(t, k.dir, map[string]string{"edited": "b\n", "to/moved": "m\n",
		"grown": strings.Repeat("x", 11), "-o \"a\"\n$(b)\t\xff": "\x00", ":(top)x": "y"})
	files, err := k.ChangedFiles(t.Context(), start, k.commit("work"), 10)
	must.Succeed(t, err)
	want := []ChangedFile{
		{"-o \"a\"\n$(b)\t\xff", nil, []byte("\x00"), false}, {":(top)x", nil, []byte("y"), false},
		{"deleted", []byte("d\n"), nil, false}, {"edited", []byte("a\n"), []byte("b\n"), false},
		{"empty", nil, []byte{}, false}, {"grown", []byte("g\n"), nil, true},
		{"link", []byte("l\n"), nil, false}, {"moved", []byte("m\n"), nil, false}}
	if diff := cmp.Diff(want, files); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
