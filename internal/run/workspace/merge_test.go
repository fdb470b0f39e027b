package workspace

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestMerge(t *testing.T) {
	t.Parallel()
	k := newKit(t, map[string]string{"a": "1\n", "gone": "x\n", "dir/file": "x\n"})
	before := k.base()
	if err := os.RemoveAll(filepath.Join(k.open("T1").Dir, "dir")); err != nil {
		t.Fatal(err)
	}
	k.work("T1", map[string]string{"a": "2\n", "gone": "", "dir": "now a file\n", "new/deep": "x\n"})
	want := map[string]string{"a": "2\n", "dir": "now a file\n", "new/deep": "x\n"}
	merged, err := k.Merge(t.Context(), "T1", "Add it\n\nAt length.", func(_ context.Context, dir string) error {
		wantFiles(t, dir, want)
		write(t, dir, map[string]string{"a": "what a check does does not count"})
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(Merged{Commit: k.base(), Before: before}, merged); diff != "" {
		t.Errorf("merged (-want +got):\n%s", diff)
	}
	wantFiles(t, k.dir, want)
	k.sound()
	tip := gitRun(t, k.dir, "rev-parse", "signalbox/T1")
	wantText := "Add it\n\nAt length.\n\nSignalbox-Task: T1\nSignalbox-Tip: " + tip
	if got := gitRun(t, k.dir, "log", "-1", "--format=%B"); got != wantText {
		t.Errorf("message %q, want %q", got, wantText)
	}
	if diff := cmp.Diff([]string{"T1"}, k.trees()); diff != "" {
		t.Errorf("trees (-want +got):\n%s", diff)
	}
	again, landed, err := k.Landed(t.Context(), "T1")
	if diff := cmp.Diff(merged, again); err != nil || !landed || diff != "" {
		t.Errorf("landed %v %v %s", landed, err, diff)
	}
	if again, err := k.Merge(t.Context(), "T1", "", noCheck); err != nil || !again.UpToDate || again.Commit != merged.Commit {
		t.Errorf("merged again: %+v, %v", again, err)
	}
	tree := k.open("T1")
	if _, err := tree.Refresh(t.Context()); err != nil {
		t.Fatal(err)
	}
	k.work("T1", map[string]string{"a": "3\n"})
	if _, landed, err := k.Landed(t.Context(), "T1"); landed || err != nil {
		t.Errorf("new work on a merged task is reported as landed: %v, %v", landed, err)
	}
	if _, err := k.Merge(t.Context(), "T1", "", nil); err != nil {
		t.Fatal(err)
	}
	if err := tree.Discard(t.Context(), merged.Commit); err != nil {
		t.Fatal(err)
	}
	if _, landed, err := k.Landed(t.Context(), "T1"); landed || err != nil {
		t.Errorf("a task that was never merged is reported as landed: %v, %v", landed, err)
	}
}

func TestMergeConflict(t *testing.T) {
	t.Parallel()
	k := newKit(t, map[string]string{"a": "1\n", "b": "1\n"})
	k.work("T1", map[string]string{"a": "2\n", "b": "2\n", "c": "2\n"})
	write(t, k.dir, map[string]string{"a": "3\n", "c": "3\n"})
	before := k.commit("meanwhile")
	_, err := k.Merge(t.Context(), "T1", "", noCheck)
	conflict := (*ConflictError)(nil)
	if !errors.As(err, &conflict) {
		t.Fatal(err)
	}
	if diff := cmp.Diff(&ConflictError{Branch: "signalbox/T1", Base: "main", Files: []string{"a", "c"}}, conflict); diff != "" {
		t.Errorf("conflict (-want +got):\n%s", diff)
	}
	if k.base() != before {
		t.Error("base moved")
	}
	k.sound()
}

func TestMergeCheckFails(t *testing.T) {
	t.Parallel()
	k := newKit(t, map[string]string{"a": "1\n"})
	before := k.base()
	k.work("T1", map[string]string{"a": "2\n"})
	red := errors.New("red")
	if _, err := k.Merge(t.Context(), "T1", "", func(context.Context, string) error { return red }); !errors.Is(err, red) {
		t.Error(err)
	}
	if _, landed, err := k.Landed(t.Context(), "T1"); k.base() != before || landed || err != nil {
		t.Errorf("base moved, or landed: %v, %v", landed, err)
	}
	if diff := cmp.Diff([]string{"T1"}, k.trees()); diff != "" {
		t.Errorf("trees (-want +got):\n%s", diff)
	}
	k.sound()
}

func TestMergeStartsOver(t *testing.T) {
	t.Parallel()
	k := newKit(t, map[string]string{"a": "1\n", "b": "1\n"})
	k.work("T1", map[string]string{"a": "2\n"})
	var seen []map[string]string
	other := ""
	merged, err := k.Merge(t.Context(), "T1", "", func(_ context.Context, dir string) error {
		seen = append(seen, read(t, dir))
		if other == "" {
			write(t, k.dir, map[string]string{"b": "2\n"})
			other = k.commit("meanwhile")
		}
		return nil
	})
	if err != nil || merged.Before != other {
		t.Fatal(merged, err)
	}
	want := []map[string]string{{"a": "2\n", "b": "1\n"}, {"a": "2\n", "b": "2\n"}}
	if diff := cmp.Diff(want, seen); diff != "" {
		t.Errorf("checked (-want +got):\n%s", diff)
	}
	wantFiles(t, k.dir, want[1])
	k.sound()
}

// If the base branch moves after the last check, the compare-and-swap notices.
func TestMergeRace(t *testing.T) {
	t.Parallel()
	k := newKit(t, map[string]string{"a": "1\n"})
	k.work("T1", map[string]string{"a": "2\n"})
	other := ""
	k.step = func(name string) {
		if name == "index locked" && other == "" {
			other = gitRun(t, k.dir, "commit-tree", "-p", "main", "-m", "by hand", "main^{tree}")
			gitRun(t, k.dir, "update-ref", "refs/heads/main", other)
		}
	}
	merged, err := k.Merge(t.Context(), "T1", "", nil)
	if err != nil || merged.Before != other || other == "" {
		t.Fatal(merged, other, err)
	}
	k.sound()
}

func TestMergeKeepsEdits(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name    string
		edits   map[string]string
		stage   bool
		warning string // up to ": see"
		status  string
	}{
		{"elsewhere", map[string]string{"own": "mine\n"}, false, "", " M own"},
		{"staged elsewhere", map[string]string{"own": "mine\n"}, true, "", "M  own"},
		{"in the way", map[string]string{"a": "mine\n"}, false, "a", " M a"},
		{"staged in the way", map[string]string{"a": "mine\n"}, true, "a", "M  a"},
		{"untracked in the way", map[string]string{"new": "mine\n"}, false, "new", " M new"},
		{"the same already", map[string]string{"new": "2\n"}, false, "", ""},
		{"a file for a folder", map[string]string{"deep": "mine\n"}, false, "deep/er", " D deep/er\n?? deep"},
		{"a folder for a file", map[string]string{"new/mine": "mine\n"}, false, "new", " D new"},
		{"edited and to be deleted", map[string]string{"gone": "mine\n"}, false, "gone", "?? gone"},
		{"edited, and another deleted", map[string]string{"own": "mine\n", "a": ""}, false, "", " M own"}, // as git does
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			k := newKit(t, map[string]string{"a": "1\n", "gone": "1\n", "own": "1\n"})
			k.work("T1", map[string]string{"a": "2\n", "gone": "", "new": "2\n", "deep/er": "2\n"})
			write(t, k.dir, tt.edits)
			if tt.stage {
				gitRun(t, k.dir, "add", "-A")
			}
			merged, err := k.Merge(t.Context(), "T1", "", noCheck)
			if err != nil || merged.Commit != k.base() || merged.Commit == merged.Before {
				t.Fatal(merged, err)
			}
			want := ""
			if tt.warning != "" {
				want = "T1 is merged; " + k.dir + " has local changes in " + tt.warning + ", which were not touched: see git diff there"
			}
			if merged.Warning != want {
				t.Errorf("warning %q, want %q", merged.Warning, want)
			}
			files := read(t, k.dir)
			for name, text := range tt.edits {
				if text != "" && files[name] != text {
					t.Errorf("%s has %q, the edit was %q", name, files[name], text)
				}
			}
			cmd := gitRun(t, k.dir, "-c", "alias.raw=!git status --porcelain | sed 's/^/|/'", "raw")
			if got := unbar(cmd); got != tt.status {
				t.Errorf("status %q, want %q", got, tt.status)
			}
			if _, err := os.Stat(filepath.Join(k.dir, ".git", indexLock)); err == nil {
				t.Error("the index is still locked")
			}
		})
	}
}

// Once the base branch has moved, the checkout is updated even if the context is cancelled.
func TestMergeCancelledAfterTheRefMoved(t *testing.T) {
	t.Parallel()
	k := newKit(t, map[string]string{"a": "1\n"})
	k.work("T1", map[string]string{"a": "2\n"})
	ctx, cancel := context.WithCancel(t.Context())
	k.step = func(name string) {
		if name == "ref moved" {
			cancel()
		}
	}
	if merged, err := k.Merge(ctx, "T1", "", nil); err != nil || merged.Warning != "" {
		t.Errorf("%+v, %v", merged, err)
	}
	wantFiles(t, k.dir, map[string]string{"a": "2\n"})
	k.sound()
}

func TestMergeWithoutCheckout(t *testing.T) {
	t.Parallel()
	k := newKit(t, map[string]string{"a": "1\n"})
	k.work("T1", map[string]string{"a": "2\n"})
	gitRun(t, k.dir, "switch", "--quiet", "-c", "elsewhere")
	if merged, err := k.Merge(t.Context(), "T1", "", noCheck); err != nil || merged.Warning != "" {
		t.Fatal(merged, err)
	}
	wantFiles(t, k.dir, map[string]string{"a": "1\n"})
	k.sound()
	// And with a checkout in another worktree of the user.
	own := filepath.Join(filepath.Dir(k.dir), "own")
	gitRun(t, k.dir, "worktree", "add", "--quiet", own, "main")
	k.work("T1", map[string]string{"a": "3\n"})
	if merged, err := k.Merge(t.Context(), "T1", "", noCheck); err != nil || merged.Warning != "" {
		t.Fatal(merged, err)
	}
	wantFiles(t, own, map[string]string{"a": "3\n"})
	if out := gitRun(t, own, "status", "--porcelain"); out != "" {
		t.Error(out)
	}
}

func TestMergeWithoutChanges(t *testing.T) {
	t.Parallel()
	k := newKit(t, map[string]string{"a": "1\n"})
	k.open("T1")
	merged, err := k.Merge(t.Context(), "T1", "", func(context.Context, string) error { return errors.New("nothing to check") })
	if diff := cmp.Diff(Merged{Commit: k.base(), Before: k.base(), UpToDate: true}, merged); err != nil || diff != "" {
		t.Error(err, diff)
	}
	_, err = k.Merge(t.Context(), "T2", "", noCheck)
	mustRefuse(t, err, "the branch signalbox/T2 is gone", "find its last commit with git reflog, then: git branch signalbox/T2 COMMIT")
	if _, landed, err := k.Landed(t.Context(), "T2"); landed || err != nil {
		t.Error(landed, err)
	}
	if _, err := k.Merge(t.Context(), "../x", "", noCheck); err == nil {
		t.Error("a path was accepted as a task")
	}
}

// A merge waits for another git that holds the index of the base checkout, and does not remove its lock.
func TestMergeWaitsForTheIndex(t *testing.T) {
	t.Parallel()
	k := newKit(t, map[string]string{"a": "1\n"})
	before := k.base()
	k.work("T1", map[string]string{"a": "2\n"})
	lock := filepath.Join(k.dir, ".git", indexLock)
	write(t, k.dir, map[string]string{".git/" + indexLock: "DIRC"})
	k.lockWait = 0
	_, err := k.Merge(t.Context(), "T1", "", noCheck)
	mustRefuse(t, err, "another git process holds a lock: "+lock+": link "+linkError(t, err), "wait until that git is done; if no git is running there, remove the file")
	if k.base() != before {
		t.Error("base moved")
	}
	if err := os.Remove(lock); err != nil {
		t.Fatal("the lock of another git was removed")
	}
	if _, err := k.Merge(t.Context(), "T1", "", noCheck); err != nil {
		t.Error(err)
	}
	k.sound()
}

func TestLandedOfAClosedTask(t *testing.T) {
	t.Parallel()
	k := newKit(t, map[string]string{"a": "1\n"})
	k.work("T1", map[string]string{"a": "2\n"})
	merged, err := k.Merge(t.Context(), "T1", "", nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := k.Close(t.Context(), "T1"); err != nil {
		t.Fatal(err)
	}
	again, landed, err := k.Landed(t.Context(), "T1")
	if diff := cmp.Diff(merged, again); err != nil || !landed || diff != "" {
		t.Errorf("landed %v %v %s", landed, err, diff)
	}
	if _, landed, err := k.Landed(t.Context(), "T"); err != nil || landed {
		t.Errorf("T is reported as landed, but only T1 is: %v", err)
	}
}

// A person's sparse checkout stays sparse.
func TestMergeIntoSparseCheckout(t *testing.T) {
	t.Parallel()
	k := newKit(t, map[string]string{"dir/a": "1\n", "other/b": "1\n"})
	gitRun(t, k.dir, "sparse-checkout", "set", "--cone", "dir")
	k.find()
	k.work("T1", map[string]string{"dir/a": "2\n", "other/b": "2\n", "other/c": "2\n"})
	merged, err := k.Merge(t.Context(), "T1", "", func(_ context.Context, dir string) error {
		wantFiles(t, dir, map[string]string{"dir/a": "2\n", "other/b": "2\n", "other/c": "2\n"})
		return nil
	})
	if err != nil || merged.Warning != "" {
		t.Fatal(merged, err)
	}
	wantFiles(t, k.dir, map[string]string{"dir/a": "2\n"})
	k.sound()
}
