package workspace

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"signalbox"

	"github.com/google/go-cmp/cmp"

	"signalbox/internal/testkit/must"
)

// left returns the kept commits of a task.
func (k *kit) left(task string) []string {
	k.t.Helper()
	return strings.Fields(gitRun(k.t, k.dir, "for-each-ref", "--format=%(objectname)",
		leftPrefix+task))
}

// A new task does not use what another box left under its name: a branch, or a worktree in any
// state.
func TestOpenNew(t *testing.T) {
	t.Parallel()
	first := newKit(t, map[string]string{"a": "1\n"})
	for name, test := range map[string]struct {
		leave func(*kit)
		aside []string // subjects of the kept commits
		file  string   // in the last one
	}{
		"nothing":         {func(*kit) {}, nil, ""},
		"an empty branch": {func(k *kit) { gitRun(k.t, k.dir, "branch", "signalbox/T1") }, nil, ""},
		"a branch": {func(k *kit) {
			k.work("T1", map[string]string{"old": "1\n"})
			gitRun(k.t, k.dir, "worktree", "remove", "--force", filepath.Join(k.folder, "T1"))
		}, []string{"work on T1"}, "old"},
		"a tree": {func(k *kit) { k.work("T1", map[string]string{"old": "1\n"}) },
			[]string{"work on T1"}, "old"},
		"an edit": {func(k *kit) { write(k.t, k.open("T1").Dir, map[string]string{"old": "1\n"}) },
			[]string{"Changes of an earlier box"}, "old"},
		"a tree in disorder": {func(k *kit) {
			write(k.t, k.work("T1", map[string]string{"old": "1\n"}).Dir,
				map[string]string{"inner/.git/HEAD": "ref: refs/heads/x\n",
					"inner/.git/objects/x": "x", "inner/.git/refs/x": "x", "inner/file": "x"})
		}, []string{"work on T1"}, "old"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			k := first.copied(t)
			test.leave(k)
			write(t, k.dir, map[string]string{"b": "2\n"})
			base := k.commit("meanwhile")
			for range 2 { // the second time as after a kill
				tree, err := k.OpenNew(t.Context(), "T1")
				must.Succeed(t, err)
				wantFiles(t, tree.Dir, map[string]string{"a": "1\n", "b": "2\n"})
				if commit, err := tree.Commit(t.Context()); commit != base || err != nil {
					t.Errorf("the worktree starts at %s, want the base branch: %v", commit, err)
				}
			}
			var aside []string
			for _, commit := range k.left("T1") {
				aside = append(aside, gitRun(t, k.dir, "log", "-1", "--format=%s", commit))
				gitRun(t, k.dir, "show", commit+":"+test.file)
			}
			if diff := cmp.Diff(test.aside, aside); diff != "" {
				t.Errorf("kept (-want +got):\n%s", diff)
			}
			k.sound()
		})
	}
}

func TestTasksAndBranches(t *testing.T) {
	t.Parallel()
	k := newKit(t, map[string]string{"a": "1\n"})
	one := k.work("T1", map[string]string{"a": "2\n"})
	gitRun(t, k.dir, "branch", "signalbox/T2")
	gitRun(t, k.dir, "branch", "signalbox/in/a/folder")
	write(t, k.folder, map[string]string{".scratch-T9/x": "x"})
	tasks, err := k.Tasks(t.Context())
	if diff := cmp.Diff([]string{"T1", "T2"}, tasks); diff != "" || err != nil {
		t.Errorf("tasks (-want +got):\n%s%v", diff, err)
	}
	want, err := one.Commit(t.Context())
	must.Succeed(t, err)
	must.Succeed(t, os.WriteFile(filepath.Join(one.gitDir, movingFile), []byte("its own business"),
		0o600))
	if got, err := k.BranchCommit(t.Context(), "T1"); got != want || err != nil {
		t.Errorf("commit %s, %v", got, err)
	}
	if got, err := k.BranchCommit(t.Context(), "T3"); got != "" || err != nil {
		t.Errorf("commit %q, %v", got, err)
	}
}

// Save commits changes that an agent hid from git.
func TestHiddenChanges(t *testing.T) {
	t.Parallel()
	files := map[string]string{"f": "1\n", "other": "1\n", "dir/g": "1\n", "more/h": "1\n"}
	first := newKit(t, files)
	first.work("T1", map[string]string{"f": "evil\n"})
	want := maps.Clone(files)
	want["f"] = "good\n"
	for name, hide := range map[string][][]string{
		"skip-worktree":    {{"update-index", "--skip-worktree", "f"}},
		"assume-unchanged": {{"update-index", "--assume-unchanged", "f"}},
		"both": {{"update-index", "--skip-worktree", "f"},
			{"update-index", "--assume-unchanged", "f"}},
		"sparse checkout": {{"sparse-checkout", "set", "--no-cone", "/other"}},
		"sparse index":    {{"sparse-checkout", "set", "--cone", "--sparse-index", "dir"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			k := first.copied(t)
			tree := k.open("T1")
			for _, args := range hide {
				gitRun(t, tree.Dir, args...)
			}
			write(t, tree.Dir, map[string]string{"f": "good\n"})
			commit, changed, err := tree.Save(t.Context(), "hidden")
			if err != nil || !changed {
				t.Fatal(changed, err)
			}
			wantFiles(t, tree.Dir, want)
			k.wantScratch("T1", commit, want)
			if _, changed, err := tree.Save(t.Context(), "again"); changed || err != nil {
				t.Errorf("there is still something to commit: %v", err)
			}
			if out := gitRun(t, tree.Dir, "-c", "core.sparseCheckout=false", "ls-files",
				"-v"); strings.Contains(out, "S ") || strings.Contains(out, "h ") {
				t.Errorf("still hidden:\n%s", out)
			}
		})
	}
}

// wantScratch checks the files of a scratch worktree.
func (k *kit) wantScratch(name, commit string, want map[string]string) {
	k.t.Helper()
	scratch, err := k.OpenScratch(k.t.Context(), name, commit)
	must.Succeed(k.t, err)
	wantFiles(k.t, scratch.Dir, want)
	if err := scratch.Close(); err != nil {
		k.t.Error(err)
	}
}

func TestNeedsAgent(t *testing.T) {
	conflict, failure := signalbox.CodeConflict.Errorf("", "x"),
		signalbox.CodeFailed.Errorf("", "x")
	for want, errs := range map[bool][]error{
		true: {conflict, fmt.Errorf("save: %w", &ConflictError{}),
			fmt.Errorf("save: %w", conflict)},
		false: {nil, lockError("index.lock", os.ErrExist), failure, os.ErrExist},
	} {
		for _, err := range errs {
			if NeedsAgent(err) != want {
				t.Errorf("%v: %v", err, !want)
			}
		}
	}
}

// TestRetire removes what a task has, unless that cannot be saved.
func TestRetire(t *testing.T) {
	t.Parallel()
	k := newKit(t, map[string]string{"a": "1\n"})
	tree := k.work("T1", map[string]string{"a": "2\n"})
	write(t, tree.Dir, map[string]string{"b": "2\n"})
	gitRun(t, tree.Dir, "init", "--quiet", "inner")
	if kept, err := k.Retire(t.Context(), "T1"); !NeedsAgent(err) || kept != "" ||
		!k.HasTree("T1") {
		t.Errorf("with a repository inside: %q, %v", kept, err)
	}
	must.Succeed(t, os.RemoveAll(filepath.Join(tree.Dir, "inner")))
	kept, err := k.Retire(t.Context(), "T1")
	if err != nil || k.HasTree("T1") || gitRun(t, k.dir, "show", kept+":b") != "2" ||
		gitRun(t, k.dir, "show", kept+":a") != "2" {
		t.Errorf("%q, %v", kept, err)
	}
	k.open("T2") // nothing of its own
	if kept, err := k.Retire(t.Context(), "T2"); err != nil || kept != "" || k.HasTree("T2") {
		t.Errorf("%q, %v", kept, err)
	}
	k.sound()
}
