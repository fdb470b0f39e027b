package workspace

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// The base has moved since the work began; only what the work changes counts.
func TestStat(t *testing.T) {
	long := strings.Repeat("the same line\n", 20)
	k := newKit(t, map[string]string{"a.txt": "1\n2\n3\n", "old.txt": long, "gone.txt": "away\n"})
	start := strings.TrimSpace(gitRun(t, k.dir, "rev-parse", "HEAD"))
	gitRun(t, k.dir, "switch", "--quiet", "-c", "work")
	gitRun(t, k.dir, "mv", "old.txt", "new name.txt")
	gitRun(t, k.dir, "rm", "--quiet", "gone.txt")
	write(t, k.dir, map[string]string{"a.txt": "1\ntwo\n3\n4\n", "image.bin": "\x00\x01", "dir/\"quoted\".txt": "x\n"})
	k.commit("work")
	work := strings.TrimSpace(gitRun(t, k.dir, "rev-parse", "HEAD"))
	gitRun(t, k.dir, "switch", "--quiet", "main")
	write(t, k.dir, map[string]string{"other.txt": "x\n"})
	k.commit("other")
	base := strings.TrimSpace(gitRun(t, k.dir, "rev-parse", "HEAD"))
	want := []FileStat{{Path: "a.txt", Insertions: 2, Deletions: 1}, {Path: "dir/\"quoted\".txt", Insertions: 1}, {Path: "gone.txt", Deletions: 1},
		{Path: "image.bin", Binary: true}, {Path: "new name.txt", From: "old.txt"}}
	for _, from := range []string{start, base} {
		got, err := Stat(t.Context(), k.dir, from, work)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	}
	if got, err := Stat(t.Context(), k.dir, work, work); err != nil || got != nil {
		t.Errorf("no change: %v, %v", got, err)
	}
	if _, err := Stat(t.Context(), k.dir, "0123456789012345678901234567890123456789", work); err == nil {
		t.Error("a commit that does not exist is accepted")
	}
}
