package workspace

import (
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"signalbox/internal/config"
	"signalbox/internal/testkit/must"
)

// The base has moved since the work began; only what the work changes counts.
func TestStat(t *testing.T) {
	long := strings.Repeat("the same line\n", 20)
	k := newKit(t, map[string]string{"a.txt": "1\n2\n3\n", "old.txt": long, "gone.txt": "away\n"})
	start := k.base()
	gitRun(t, k.dir, "switch", "--quiet", "-c", "work")
	gitRun(t, k.dir, "mv", "old.txt", "new name.txt")
	gitRun(t, k.dir, "rm", "--quiet", "gone.txt")
	write(t, k.dir, map[string]string{"a.txt": "1\ntwo\n3\n4\n", "image.bin": "\x00\x01",
		"dir/\"quoted\".txt": "x\n"})
	k.commit("work")
	work := gitRun(t, k.dir, "rev-parse", "HEAD")
	gitRun(t, k.dir, "switch", "--quiet", "main")
	write(t, k.dir, map[string]string{"other.txt": "x\n"})
	base := k.commit("other")
	want := []FileStat{{Path: "a.txt", Insertions: 2, Deletions: 1},
		{Path: "dir/\"quoted\".txt", Insertions: 1}, {Path: "gone.txt", Deletions: 1},
		{Path: "image.bin", Binary: true}, {Path: "new name.txt", From: "old.txt"}}
	for _, from := range []string{start, base} {
		got, err := Stat(t.Context(), k.dir, from, work)
		must.Succeed(t, err)
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	}
	if got, err := Stat(t.Context(), k.dir, work, work); err != nil || got != nil {
		t.Errorf("no change: %v, %v", got, err)
	}
	if _, err := Stat(t.Context(), k.dir, "0123456789012345678901234567890123456789",
		work); err == nil {
		t.Error("a commit that does not exist is accepted")
	}
}

// A ledger from elsewhere can name anything as a commit. Git never takes it for an option.
func TestHostileCommits(t *testing.T) {
	k := newKit(t, map[string]string{"a.txt": "1\n"})
	start := k.base()
	write(t, k.dir, map[string]string{"a.txt": "2\n"})
	work := k.commit("work")
	review := k.review()
	owned := filepath.Join(t.TempDir(), "owned")
	for _, name := range []string{"--output=" + owned, "--octopus", "--is-ancestor", "--all",
		"--stdin", "--no-index", "--", "", "a\x00b", ":/work", "no-such-branch"} {
		for _, pair := range [][2]string{{name, work}, {start, name}} {
			for what, f := range map[string]func() error{
				"Stat":      func() error { _, err := Stat(t.Context(), k.dir, pair[0], pair[1]); return err },
				"MergeBase": func() error { _, err := review.MergeBase(t.Context(), pair[0], pair[1]); return err },
				"Diff":      func() error { return review.Diff(t.Context(), io.Discard, pair[0], pair[1], DiffOptions{}) },
				"Changed":   func() error { _, err := k.Changed(t.Context(), pair[0], pair[1]); return err },
				"Differing": func() error { _, err := k.Differing(t.Context(), pair[0], pair[1]); return err },
				"Edits":     func() error { _, err := k.ProtectedEdits(t.Context(), pair[0], pair[1], config.Default()); return err },
				"Large":     func() error { _, err := k.LargeFiles(t.Context(), pair[0], pair[1], 1); return err },
			} {
				// which get no commits of a ledger that is only read
				known := name == ":/work" || name == "--" &&
					(what == "Differing" || what == "Large")
				if err := f(); err == nil && !known {
					t.Errorf("%s accepts %q", what, pair)
				}
			}
		}
	}
	if _, err := os.Lstat(owned); err == nil {
		t.Error("git wrote a file")
	}
}
