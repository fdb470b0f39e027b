package workspace

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"signalbox/internal/testkit/must"
)

func TestMerge(t *testing.T) {
	t.Parallel()
	k := newKit(t, map[string]string{"a": "1\n", "gone": "x\n", "dir/file": "x\n"})
	before := k.base()
	must.Succeed(t, os.RemoveAll(filepath.Join(k.open("T1").Dir, "dir")))
	k.work("T1", map[string]string{"a": "2\n", "gone": "", "dir": "now a file\n",
		"new/deep": "x\n"})
	want := map[string]string{"a": "2\n", "dir": "now a file\n", "new/deep": "x\n"}
	merged, err := k.Merge(t.Context(), "T1", "Add it\n\nAt length.",
		func(_ context.Context, dir string) error {
			wantFiles(t, dir, want)
			// what a check does to the files, the index and HEAD does not count
			write(t, dir, map[string]string{"a": "3\n", "smuggled": "x\n"})
			gitRun(t, dir, "add", "-A")
			gitRun(t, dir, "commit", "--quiet", "--amend", "-m", "smuggled")
			return nil
		})
	must.Succeed(t, err)
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
	if again, err := k.Merge(t.Context(), "T1", "", noCheck); !errors.Is(err, ErrUnchanged) ||
		again != (Merged{}) {
		t.Errorf("merged again: %+v, %v", again, err)
	}
}

// TestLanded: a merge has landed if the base branch contains exactly the commit that Prepared
// named.
func TestLanded(t *testing.T) {
	t.Parallel()
	k := newKit(t, map[string]string{"a": "1\n"})
	tree := k.work("T1", map[string]string{"a": "2\n"})
	tip, before := gitRun(t, tree.Dir, "rev-parse", "HEAD"), k.base()
	prepared, stop := "", errors.New("stop")
	merge := func(result error) (Merged, error) {
		return k.Repo.Merge(t.Context(), MergeRequest{Task: "T1", Commit: tip, Base: before,
			Prepared: func(commit string) error {
				prepared = commit
				return result
			}})
	}
	wantLanded := func(commit string, want bool) {
		t.Helper()
		if landed, err := k.Landed(t.Context(), commit); landed != want || err != nil {
			t.Errorf("landed %v, %v", landed, err)
		}
	}
	if _, err := merge(stop); !errors.Is(err, stop) || k.base() != before {
		t.Fatalf("%v, the base branch is at %s", err, k.base())
	}
	wantLanded(prepared, false)
	// A commit that looks like the merge, with other content, is not the merge.
	forged := gitRun(t, k.dir, "commit-tree", "-p", before, "-p", tip, "-m",
		"T1\n\nSignalbox-Task: T1\nSignalbox-Tip: "+tip, before+"^{tree}")
	gitRun(t, k.dir, "update-ref", "refs/heads/main", forged)
	wantLanded(prepared, false)
	gitRun(t, k.dir, "update-ref", "refs/heads/main", before)
	merged, err := merge(nil)
	if err != nil || merged.Commit != prepared {
		t.Fatal(merged, prepared, err)
	}
	wantLanded(prepared, true)
	write(t, k.dir, map[string]string{"b": "by hand\n"})
	k.commit("on top")
	wantLanded(prepared, true)
	wantLanded(strings.Repeat("1", 40), false)
	k.sound()
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
	want := &ConflictError{Branch: "signalbox/T1", Base: "main", Files: []string{"a", "c"}, Ours: gitRun(t, k.dir, "rev-parse", "signalbox/T1"), Theirs: before,
		Notes: []string{"a: both sides changed it", "c: both sides added it"}}
	if diff := cmp.Diff(want, conflict, cmpopts.IgnoreUnexported(ConflictError{})); diff != "" {
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
	if _, err := k.Merge(t.Context(), "T1", "",
		func(context.Context, string) error { return red }); !errors.Is(err, red) {
		t.Error(err)
	}
	if k.base() != before {
		t.Error("base moved")
	}
	if diff := cmp.Diff([]string{"T1"}, k.trees()); diff != "" {
		t.Errorf("trees (-want +got):\n%s", diff)
	}
	k.sound()
}

// TestMergeRefusesAMovedBase: Merge merges into the commit that the caller named, or not at all,
// whenever the base branch moves.
func TestMergeRefusesAMovedBase(t *testing.T) {
	t.Parallel()
	first := newKit(t, map[string]string{"a": "1\n"})
	first.work("T1", map[string]string{"a": "2\n"})
	tip, before := first.tip("T1"), first.base()
	for _, at := range []string{"", "merged", "checked", "index locked"} {
		t.Run(at, func(t *testing.T) {
			t.Parallel()
			k, other := first.copied(t), ""
			k.step = func(name string) {
				if name == at && other == "" {
					other = gitRun(t, k.dir, "commit-tree", "-p", "main", "-m", "by hand",
						"main^{tree}")
					gitRun(t, k.dir, "update-ref", "refs/heads/main", other)
				}
			}
			k.step("")
			_, err := k.Repo.Merge(t.Context(), MergeRequest{Task: "T1", Commit: tip, Base: before})
			moved := (*MovedError)(nil)
			if !errors.As(err, &moved) || *moved != (MovedError{"main", before, other}) ||
				k.base() != other {
				t.Errorf("%v; the base branch is at %s, want %s", err, k.base(), other)
			}
			k.sound()
		})
	}
}

func TestMergeKeepsEdits(t *testing.T) {
	t.Parallel()
	first := newKit(t, map[string]string{"a": "1\n", "gone": "1\n", "own": "1\n"})
	first.work("T1", map[string]string{"a": "2\n", "gone": "", "new": "2\n", "deep/er": "2\n"})
	for _, tt := range []struct {
		name   string
		edits  map[string]string
		stage  bool
		behind string // the file that keeps the branch from moving
		status string
	}{
		{"elsewhere", map[string]string{"own": "mine\n"}, false, "", " M own"},
		{"staged elsewhere", map[string]string{"own": "mine\n"}, true, "", "M  own"},
		{"in the way", map[string]string{"a": "mine\n"}, false, "a", " M a"},
		{"staged in the way", map[string]string{"a": "mine\n"}, true, "a", "M  a"},
		{"untracked in the way", map[string]string{"new": "mine\n"}, false, "new", "?? new"},
		{"the same already", map[string]string{"new": "2\n"}, false, "", ""},
		{"the same, staged", map[string]string{"new": "2\n", "a": "2\n"}, true, "", ""},
		{"a file for a folder", map[string]string{"deep": "mine\n"}, false, "deep/er", "?? deep"},
		{"a folder for a file", map[string]string{"new/mine": "mine\n"}, false, "new", "?? new/"},
		{"edited and to be deleted", map[string]string{"gone": "mine\n"}, false, "gone", " M gone"},
		// as git does
		{"edited, and another deleted", map[string]string{"own": "mine\n", "a": ""}, false, "",
			" M own"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			k := first.copied(t)
			write(t, k.dir, tt.edits)
			if tt.stage {
				gitRun(t, k.dir, "add", "-A")
			}
			merged, err := k.Merge(t.Context(), "T1", "", noCheck)
			if err != nil || merged.Commit != k.base() || merged.Commit == merged.Before {
				t.Fatal(merged, err)
			}
			want, branch := "", merged.Commit
			if tt.behind != "" {
				branch = merged.Before
				want = "the branch main waits, because " + tt.behind + " in " + k.dir +
					" has changes that are not committed: commit them (git add, git commit), or put them " +
					"aside (git stash -u; git stash pop gets them back). Merged work is in " +
					"refs/signalbox/base/main; then main follows it at the next step of a run, or " +
					"with: git merge refs/signalbox/base/main"
			}
			text := ""
			behind, err := FindBehind(t.Context(), k.dir, "main")
			if behind != nil {
				text = behind.Text
			}
			if text != want || err != nil {
				t.Errorf("%q, %v, want %q", text, err, want)
			}
			if settled, err := k.Settle(t.Context()); err != nil || cmp.Diff(behind, settled,
				cmpopts.IgnoreUnexported(Behind{})) != "" {
				t.Errorf("settled %+v, %v, want %+v", settled, err, behind)
			}
			if got := gitRun(t, k.dir, "rev-parse", "main"); got != branch {
				t.Errorf("main is at %s, want %s", got, branch)
			}
			files := read(t, k.dir)
			for name, text := range tt.edits {
				if text != "" && files[name] != text {
					t.Errorf("%s has %q, the edit was %q", name, files[name], text)
				}
			}
			if got, err := gitTry(t, k.dir, "status", "--porcelain"); err != nil ||
				strings.TrimSuffix(got, "\n") != tt.status {
				t.Errorf("status %q, want %q: %v", got, tt.status, err)
			}
			if _, err := os.Stat(filepath.Join(k.dir, ".git", indexLock)); err == nil {
				t.Error("the index is still locked")
			}
		})
	}
}

// Once files in the checkout move, the merge is finished even if the context is cancelled.
func TestMergeCancelledAfterFilesMoved(t *testing.T) {
	t.Parallel()
	k := newKit(t, map[string]string{"a": "1\n"})
	k.work("T1", map[string]string{"a": "2\n"})
	ctx, cancel := context.WithCancel(t.Context())
	k.step = func(name string) {
		if name == "files moved" {
			cancel()
		}
	}
	if merged, err := k.Merge(ctx, "T1", "", nil); err != nil {
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
	if merged, err := k.Merge(t.Context(), "T1", "", noCheck); err != nil {
		t.Fatal(merged, err)
	}
	wantFiles(t, k.dir, map[string]string{"a": "1\n"})
	k.sound()
	// And with a checkout in another worktree of the user.
	own := filepath.Join(filepath.Dir(k.dir), "own")
	gitRun(t, k.dir, "worktree", "add", "--quiet", own, "main")
	k.work("T1", map[string]string{"a": "3\n"})
	if merged, err := k.Merge(t.Context(), "T1", "", noCheck); err != nil {
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
	before := k.base()
	unchanged := func(task string) {
		t.Helper()
		_, err := k.Merge(t.Context(), task, "",
			func(context.Context, string) error { return errors.New("nothing to check") })
		if !errors.Is(err, ErrUnchanged) || k.base() != before {
			t.Errorf("merged %s: %v", task, err)
		}
	}
	unchanged("T1")
	// The same content by another way.
	k.work("T2", map[string]string{"a": "2\n"})
	write(t, k.dir, map[string]string{"a": "2\n"})
	before = k.commit("by hand")
	unchanged("T2")
	if _, err := k.Merge(t.Context(), "../x", "", noCheck); err == nil {
		t.Error("a path was accepted as a task")
	}
}

// A merge does not wait for another git that holds the index of the base checkout, as an open
// editor does, and does not remove its lock. The branch waits.
func TestMergeWhileTheIndexIsLocked(t *testing.T) {
	t.Parallel()
	k := newKit(t, map[string]string{"a": "1\n"})
	before := k.base()
	k.work("T1", map[string]string{"a": "2\n"})
	lock := filepath.Join(k.dir, ".git", indexLock)
	write(t, k.dir, map[string]string{".git/" + indexLock: "DIRC"})
	k.lockWait = 0
	merged, err := k.Merge(t.Context(), "T1", "", nil)
	if err != nil || k.base() != merged.Commit ||
		gitRun(t, k.dir, "rev-parse", "main") != before {
		t.Fatalf("%+v, %v", merged, err)
	}
	if behind, err := k.Settle(t.Context()); err != nil || behind == nil ||
		!strings.Contains(behind.Text, "another git process holds a lock: "+lock) {
		t.Errorf("%+v, %v", behind, err)
	}
	if err := os.Remove(lock); err != nil {
		t.Error("the lock of another git was removed")
	}
	k.settled()
	wantFiles(t, k.dir, map[string]string{"a": "2\n"})
	k.sound()
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
	if err != nil {
		t.Fatal(merged, err)
	}
	wantFiles(t, k.dir, map[string]string{"dir/a": "2\n"})
	k.sound()
}
