package workspace

import (
	"io"
	"os"
	"path/filepath"
	"strconv"
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

// A line of a file can look like the beginning of a hunk, or of another file.
func TestChangedLines(t *testing.T) {
	lines := func(from, to int) (text string) {
		for n := from; n <= to; n++ {
			text += strconv.Itoa(n) + "\n"
		}
		return text
	}
	k := newKit(t, map[string]string{"a.txt": lines(1, 60), "one.txt": "x\n", "same.txt": "x\n"})
	start := k.base()
	write(t, k.dir, map[string]string{"one.txt": "y\n", "new.txt": "x\n",
		"a.txt": lines(1, 9) + "@@ -1,1 +1,99 @@\n" + lines(11, 39) + "-- a\n++ b\n" + lines(40, 60)})
	work := k.commit("work")
	for file, want := range map[string][]LineRange{
		"a.txt": {{7, 13}, {37, 44}}, "one.txt": {{1, 1}}, "new.txt": {{1, 1}}, "same.txt": nil,
		"missing.txt": nil} {
		got, err := k.ChangedLines(t.Context(), start, work, file)
		must.Succeed(t, err)
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", file, diff)
		}
	}
}
