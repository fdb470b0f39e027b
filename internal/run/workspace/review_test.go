package workspace

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"signalbox/internal/testkit/must"
)

func (k *kit) review() *Review {
	k.t.Helper()
	v, err := OpenReview(k.t.Context(), k.dir, k.folder)
	must.Succeed(k.t, err)
	k.t.Cleanup(v.Close)
	return v
}

func TestReviewShowsWhatATaskChanges(t *testing.T) {
	k := newKit(t, map[string]string{"a.txt": "one\n", "b.txt": "two\n",
		".gitattributes": "* -diff\n"})
	k.work("T1", map[string]string{"a.txt": "one more\n"})
	commit := k.tip("T1")
	write(t, k.dir, map[string]string{"b.txt": "meanwhile\n"}) // the base moves
	k.commit("base")
	v := k.review()
	base, err := v.Head(t.Context())
	must.Succeed(t, err)
	from, err := v.MergeBase(t.Context(), base, commit)
	must.Succeed(t, err)
	var diff, stat strings.Builder
	must.Succeed(t, errors.Join(v.Diff(t.Context(), &diff, from, commit, DiffOptions{}),
		v.Diff(t.Context(), &stat, from, commit, DiffOptions{Stat: true, Width: 80})))
	if got := diff.String(); !strings.HasPrefix(got, "diff --git a/a.txt b/a.txt\n") ||
		!strings.Contains(got, "\n-one\n+one more\n") || strings.Contains(got, "b.txt") {
		t.Errorf("the diff is\n%s", got)
	}
	if got := stat.String(); !strings.Contains(got, " a.txt | 2 +-\n") {
		t.Errorf("the list is\n%s", got)
	}
	if _, err := v.MergeBase(t.Context(), base, strings.Repeat("1", 40)); err == nil ||
		!strings.Contains(err.Error(), "is not in this repository") {
		t.Errorf("an unknown commit: %v", err)
	}
}

// What is not saved is shown with new files, and looking changes nothing.
func TestReviewShowsWhatIsNotSaved(t *testing.T) {
	k := newKit(t, map[string]string{"a.txt": "one\n", ".gitignore": "*.log\n"})
	tree := k.open("T1")
	v := k.review()
	head, err := v.TreeHead(t.Context(), "T1")
	if err != nil || head != k.base() {
		t.Fatalf("%s, %v", head, err)
	}
	if files, err := v.Uncommitted(t.Context(), "T1"); err != nil || len(files) != 0 {
		t.Errorf("before a change: %v, %v", files, err)
	}
	write(t, tree.Dir, map[string]string{"a.txt": "changed\n", "new/file.txt": "new\n",
		"x.log": "ignored\n"})
	before := gitRun(t, k.dir, "count-objects", "-v")
	files, err := v.Uncommitted(t.Context(), "T1")
	slices.Sort(files)
	if err != nil || !slices.Equal(files, []string{"a.txt", "new/file.txt"}) {
		t.Errorf("after it: %v, %v", files, err)
	}
	var diff strings.Builder
	must.Succeed(t, v.DiffWorking(t.Context(), &diff, "T1", head, DiffOptions{}))
	if got := diff.String(); !strings.Contains(got, "\n-one\n+changed\n") ||
		!strings.Contains(got, "+++ b/new/file.txt\n@@ -0,0 +1 @@\n+new\n") ||
		strings.Contains(got, "ignored") {
		t.Errorf("the diff is\n%s", got)
	}
	if after := gitRun(t, k.dir, "count-objects", "-v"); after != before {
		t.Errorf("objects before:\n%s\nand after:\n%s", before, after)
	}
	if _, err := v.Uncommitted(t.Context(), "T2"); !errors.Is(err, ErrNoTree) {
		t.Errorf("without a worktree: %v", err)
	}
	if err := v.DiffWorking(t.Context(), &diff, "../../etc", head, DiffOptions{}); err == nil {
		t.Error("it leaves the folder")
	}
}

// The list of files is one list, with new files. A file that an agent hides from git is shown, and
// what was put into the worktree to make it ready is not.
func TestReviewListsWhatIsNotSaved(t *testing.T) {
	k := newKit(t, map[string]string{"a.txt": "one\n", "hidden.txt": "one\n",
		"skipped.txt": "one\n"})
	tree := k.open("T1")
	write(t, tree.Dir, map[string]string{"a.txt": "changed\n", "hidden.txt": "changed\n",
		"skipped.txt": "changed\n", "new.txt": "new\n", "*": "literal\n", "copied": "secret\n",
		"left": "by setup\n"})
	gitRun(t, tree.Dir, "update-index", "--assume-unchanged", "hidden.txt")
	gitRun(t, tree.Dir, "update-index", "--skip-worktree", "skipped.txt")
	p, err := tree.Preparation()
	must.Succeed(t, err)
	p.Copied = []string{"copied"}
	p.Leave(tree.Dir, []string{"left"})
	must.Succeed(t, p.Save())
	v := k.review()
	var list strings.Builder
	must.Succeed(t, v.DiffWorking(t.Context(), &list, "T1", k.base(),
		DiffOptions{Stat: true}))
	if got := list.String(); strings.Count(got, " changed, ") != 1 ||
		!strings.Contains(got, " 5 files changed, 5 insertions(+), 3 deletions(-)\n") ||
		strings.Contains(got, "copied") || strings.Contains(got, "left") {
		t.Errorf("the list is\n%s", got)
	}
	if files, err := v.Uncommitted(t.Context(), "T1"); err != nil ||
		slices.Contains(files, "left") || slices.Contains(files, "copied") {
		t.Errorf("%v, %v", files, err)
	}
}

// What came with the base is not what the agent has changed.
func TestReviewLeavesOutTheBase(t *testing.T) {
	k := newKit(t, map[string]string{"a.txt": "one\n", "b.txt": "one\n"})
	tree := k.work("T1", map[string]string{"a.txt": "saved\n"})
	saved := k.tip("T1")
	write(t, k.dir, map[string]string{"b.txt": "from the base\n"})
	k.commit("base")
	v := k.review()
	if from, err := v.WorkingBase(t.Context(), "T1", saved, k.base()); err != nil || from != saved {
		t.Errorf("before the merge: %s, %v", from, err)
	}
	gitRun(t, tree.Dir, "merge", "-q", "--no-edit",
		"main")
	write(t, tree.Dir, map[string]string{"a.txt": "by the agent\n"})
	gitRun(t, tree.Dir, "commit", "-q", "-a", "-m",
		"by the agent")
	from, err := v.WorkingBase(t.Context(), "T1", saved, k.base())
	must.Succeed(t, err)
	var diff strings.Builder
	must.Succeed(t, v.DiffWorking(t.Context(), &diff, "T1", from, DiffOptions{}))
	if got := diff.String(); strings.Contains(got, "from the base") ||
		!strings.Contains(got, "\n-saved\n+by the agent\n") {
		t.Errorf("the diff is\n%s", got)
	}
	// A merge of something else is the agent's own.
	gitRun(t, tree.Dir, "checkout", "-q", "-b", "other", saved)
	write(t, tree.Dir, map[string]string{"c.txt": "other\n"})
	gitRun(t, tree.Dir, "add", "c.txt")
	gitRun(t, tree.Dir, "commit", "-q", "-m", "other")
	gitRun(t, tree.Dir, "checkout", "-q", "--detach", saved)
	gitRun(t, tree.Dir, "merge", "-q", "--no-ff",
		"--no-edit", "other")
	if from, err := v.WorkingBase(t.Context(), "T1", saved, k.base()); err != nil || from != saved {
		t.Errorf("after a merge of another branch: %s, %v", from, err)
	}
}

// A folder that is not a worktree, or not yet, is none.
func TestReviewWithoutAWorktree(t *testing.T) {
	k := newKit(t, map[string]string{"a.txt": "one\n"})
	must.Succeed(t, os.MkdirAll(filepath.Join(k.folder, "T1"), 0o700))
	if err := k.review().DiffWorking(t.Context(), io.Discard, "T1", k.base(),
		DiffOptions{}); !errors.Is(err, ErrNoTree) {
		t.Error(err)
	}
}

// closedReader is a reader of a diff that has seen enough.
type closedReader struct{ read int }

var errClosed = errors.New("closed")

func (c *closedReader) Write(b []byte) (int, error) {
	if c.read++; c.read > 1 {
		return 0, errClosed
	}
	return len(b), nil
}

// A reader that closes a large diff is not a failure of git.
func TestReviewReportsAClosedReader(t *testing.T) {
	k := newKit(t, map[string]string{"a.txt": "one\n"})
	k.work("T1",
		map[string]string{"a.txt": strings.Repeat(
			"a line that is long enough for the pipe to fill up\n", 10_000)})
	if err := k.review().Diff(t.Context(), &closedReader{}, k.base(), k.tip("T1"),
		DiffOptions{}); !errors.Is(err, errClosed) {
		t.Errorf("%v", err)
	}
}
