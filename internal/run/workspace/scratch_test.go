package workspace

import (
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"signalbox/internal/testkit/must"
)

func TestScratch(t *testing.T) {
	t.Parallel()
	k := newKit(t, map[string]string{"a": "1\n"})
	old := k.base()
	write(t, k.dir, map[string]string{"a": "2\n"})
	k.commit("two")
	scratch, err := k.OpenScratch(t.Context(), "baseline", old)
	must.Succeed(t, err)
	wantFiles(t, scratch.Dir, map[string]string{"a": "1\n"})
	write(t, scratch.Dir, map[string]string{"a": "3\n", "b": "3\n"})
	if err := k.Prune(t.Context()); err != nil { // as another process does when it starts
		t.Error(err)
	}
	wantFiles(t, scratch.Dir, map[string]string{"a": "3\n", "b": "3\n"})
	if held, err := k.tryLock(scratchPrefix + "baseline.lock"); held != nil || err != nil {
		t.Errorf("the name is free while the worktree is in use: %v", err)
	}
	if err := scratch.Close(); err != nil {
		t.Error(err)
	}
	held, err := k.tryLock(scratchPrefix + "baseline.lock")
	if held == nil || err != nil {
		t.Errorf("the name is not free after Close: %v", err)
	}
	held.release()
	runtime.KeepAlive(scratch) // a finalizer would release the lock too
	if left := k.trees(); len(left) > 0 {
		t.Errorf("not removed: %v", left)
	}
	k.sound()
}

func TestClose(t *testing.T) {
	t.Parallel()
	k := newKit(t, map[string]string{"a": "1\n"})
	k.open("empty")
	k.work("open", map[string]string{"a": "2\n"})
	k.work("merged", map[string]string{"b": "2\n"})
	if _, err := k.Merge(t.Context(), "merged", "", nil); err != nil {
		t.Fatal(err)
	}
	for _, task := range []string{"empty", "open", "merged", "merged", "never"} {
		if err := k.Close(t.Context(), task); err != nil {
			t.Error(err)
		}
	}
	branches := strings.Fields(gitRun(t, k.dir, "for-each-ref", "--format=%(refname:short)",
		"refs/heads"))
	if diff := cmp.Diff([]string{"main"}, branches); diff != "" {
		t.Errorf("branches (-want +got):\n%s", diff)
	}
	if left := k.trees(); len(left) > 0 {
		t.Errorf("not removed: %v", left)
	}
	if left := k.left("open"); len(left) != 1 || gitRun(t, k.dir, "show", left[0]+":a") != "2" {
		t.Errorf("the commit that was not merged is lost: %v", left)
	}
}

// Prune removes what processes leave when they are killed between two steps, and keeps worktrees of
// tasks.
func TestPrune(t *testing.T) {
	t.Parallel()
	k := newKit(t, map[string]string{"a": "1\n"})
	k.work("T1", map[string]string{"a": "2\n"})
	gone := k.open("T2")
	unborn, young := filepath.Join(k.dir, ".git/worktrees/T3"),
		filepath.Join(k.dir, ".git/worktrees/T4")
	write(t, unborn, map[string]string{"locked": "initializing"})
	write(t, young, map[string]string{"locked": "initializing"})
	write(t, k.folder, map[string]string{".trash-1/tree/a": "x"})
	write(t, k.dir, map[string]string{".git/" + forgottenPrefix + "1/tree/HEAD": "x"})
	// young however slow this machine is
	old, now := time.Now().Add(-2*oldLock), time.Now().Add(time.Hour)
	must.Succeed(t, errors.Join(os.RemoveAll(gone.Dir), os.Chtimes(unborn, old, old),
		os.Chtimes(young, now, now)))
	must.Succeed(t, k.Prune(t.Context()))
	if diff := cmp.Diff([]string{"T1"}, k.trees()); diff != "" {
		t.Errorf("trees (-want +got):\n%s", diff)
	}
	names, _ := filepath.Glob(filepath.Join(k.dir, ".git/worktrees/*"))
	if diff := cmp.Diff([]string{filepath.Join(k.dir, ".git/worktrees/T1"), young},
		names); diff != "" {
		t.Errorf("git's list (-want +got):\n%s", diff)
	}
	for _, pattern := range []string{filepath.Join(k.folder, trashPrefix+"*"),
		filepath.Join(k.dir, ".git", forgottenPrefix+"*")} {
		if left, _ := filepath.Glob(pattern); len(left) > 0 {
			t.Errorf("not removed: %v", left)
		}
	}
}

// Each operation starts few git processes, because a run may have a thousand tasks.
func TestProcesses(t *testing.T) {
	t.Parallel()
	k := newKit(t, map[string]string{"a": "1\n"})
	count := func(name string, limit int64, f func() error) {
		t.Helper()
		before := k.processes.Load()
		if err := f(); err != nil {
			t.Fatal(name, err)
		}
		if n := k.processes.Load() - before; n > limit {
			t.Errorf("%s: %d git processes, want at most %d", name, n, limit)
		}
	}
	var tree *Tree
	open := func() (err error) { tree, err = k.Open(t.Context(), "T1"); return err }
	save := func() error { _, _, err := tree.Save(t.Context(), "x"); return err }
	base := k.base()
	refresh := func() error { _, err := tree.Refresh(t.Context(), base); return err }
	count("create", 3, open)
	count("open", 0, open)
	count("save nothing", 2, save)
	count("refresh nothing", 2, refresh)
	write(t, tree.Dir, map[string]string{"a": "2\n"})
	count("save", 7, save)
	write(t, k.dir, map[string]string{"b": "2\n"})
	base = k.commit("meanwhile")
	count("refresh", 6, refresh)
	head := gitRun(t, tree.Dir, "rev-parse", "HEAD")
	count("discard", 4, func() error { return tree.Discard(t.Context(), head) })
	count("scratch", 2, func() error {
		scratch, err := k.OpenScratch(t.Context(), "T1", head)
		if err != nil {
			return err
		}
		return scratch.Close()
	})
	count("changed", 2, func() error { _, err := tree.changed(t.Context()); return err })
	count("merge", 13, func() error {
		_, err := k.Repo.Merge(t.Context(), MergeRequest{Task: "T1", Commit: head, Base: base,
			Check: noCheck})
		return err
	})
	count("landed", 3, func() error { _, err := k.Landed(t.Context(), head); return err })
	count("close", 3, func() error { return k.Close(t.Context(), "T1") })
}
