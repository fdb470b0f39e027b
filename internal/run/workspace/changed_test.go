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
	work := k.commit("work")
	limits := ReadLimits{Files: 100, File: 10, All: 100, Order: strings.Compare}
	files, err := k.ChangedFiles(t.Context(), start, work, limits)
	must.Succeed(t, err)
	want := []ChangedFile{
		{"-o \"a\"\n$(b)\t\xff", nil, []byte("\x00"), false}, {":(top)x", nil, []byte("y"), false},
		{"deleted", []byte("d\n"), nil, false}, {"edited", []byte("a\n"), []byte("b\n"), false},
		{"empty", nil, []byte{}, false}, {"grown", nil, nil, true},
		{"link", []byte("l\n"), nil, false}, {"moved", []byte("m\n"), nil, false}}
	if diff := cmp.Diff(want, files); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	// the first ones in the order are read, as long as there are not too many
	limits.Order = func(a, b string) int { return -strings.Compare(a, b) }
	limits.Wanted = func(name string) bool { return name[0] > 'a' }
	for _, tt := range []struct {
		files int
		all   int64
		want  string
	}{{100, 100, "deleted edited empty link moved"}, {2, 100, "link moved"},
		{100, 7, "deleted empty link moved"}, {100, 5, "empty link moved"}, {0, 100, ""}} {
		limits.Files, limits.All = tt.files, tt.all
		files, err := k.ChangedFiles(t.Context(), start, work, limits)
		must.Succeed(t, err)
		var read []string
		for _, f := range files {
			if !f.Unread {
				read = append(read, f.Path)
			} else if f.Old != nil || f.New != nil {
				t.Errorf("%+v", f)
			}
		}
		if got := strings.Join(read, " "); got != tt.want || len(files) != 6 {
			t.Errorf("%+v: read %q of %d files", tt, got, len(files))
		}
	}
}
