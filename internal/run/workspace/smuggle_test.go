package workspace

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"signalbox/internal/testkit/must"
)

// smuggling is something that a process does to a repository that it shares with signalbox. It
// wants the file smuggled to reach main.
type smuggling struct {
	name string
	do   func(k *kit, evil, tip string)
}

// smugglings use the branch of T1. evil is a commit on top of tip that adds the file smuggled, and
// the branch evil is at it.
var smugglings = []smuggling{
	{"the branch is moved and packed, and other refs have its name",
		func(k *kit, evil, tip string) {
			k.setRef("heads/signalbox/T1", "")
			write(k.t, k.dir, map[string]string{".git/packed-refs": "# pack-refs with: peeled fully-peeled sorted \n" +
				evil + " refs/heads/signalbox/T1\n"})
			for _, name := range []string{"tags/signalbox/T1", "heads/" + tip, "tags/" + tip,
				"replace/" + tip} {
				k.setRef(name, evil)
			}
		}},
	{"the branch is a symbolic ref to another", func(k *kit, evil, tip string) {
		k.setRef("heads/signalbox/T1", "ref: refs/heads/evil")
	}},
	{"the branch is a symbolic ref to main", func(k *kit, evil, tip string) {
		k.setRef("heads/signalbox/T1", "ref: refs/heads/main")
	}},
	{"the worktree is on another commit", func(k *kit, evil, tip string) {
		gitRun(k.t, filepath.Join(k.folder, "T1"), "checkout", "--quiet", "--force", "--detach",
			evil)
	}},
	{"the worktree is on main", func(k *kit, evil, tip string) {
		write(k.t, k.dir, map[string]string{".git/worktrees/T1/HEAD": "ref: refs/heads/main\n"})
	}},
	{"the branch is gone", func(k *kit, evil, tip string) { k.setRef("heads/signalbox/T1", "") }},
}

// setRef writes a ref; "" removes it.
func (k *kit) setRef(name, text string) {
	k.t.Helper()
	if text != "" {
		text += "\n"
	}
	write(k.t, k.dir, map[string]string{".git/refs/" + name: text})
}

// smuggleKit returns a repository with the task T1, and the commits tip and evil of smugglings.
func smuggleKit(t *testing.T) (k *kit, evil, tip string) {
	t.Helper()
	k = newKit(t, map[string]string{"a": "1\n", "b": "1\n"})
	k.work("T1", map[string]string{"a": "2\n"})
	tip = k.tip("T1")
	stream := "commit refs/heads/evil\ncommitter x <x@localhost> 0 +0000\ndata 0\nfrom " + tip +
		"\nM 644 inline smuggled\ndata 1\nx\n"
	if out, err := gitInput(k.dir, stream, "fast-import", "--quiet"); err != nil {
		t.Fatal(out, err)
	}
	return k, gitRun(t, k.dir, "rev-parse", "evil"), tip
}

// TestMergeIsOfTheNamedCommit attacks the task's branch at each step of a merge.
func TestMergeIsOfTheNamedCommit(t *testing.T) {
	t.Parallel()
	first, evil, tip := smuggleKit(t)
	for _, a := range smugglings {
		for _, at := range []string{"", "creating worktree", "worktree created", "merged",
			"checked", "landing", "index locked", "ref moved"} {
			t.Run(a.name+" at "+at, func(t *testing.T) {
				t.Parallel()
				k := first.copied(t)
				before := k.base()
				done := false
				k.step = func(name string) {
					if name == at && !done {
						done = true
						a.do(k, evil, tip)
					}
				}
				k.step("")
				want := map[string]string{"a": "2\n", "b": "1\n"}
				merged, err := k.Repo.Merge(t.Context(),
					MergeRequest{Task: "T1", Commit: tip, Base: before,
						Check: func(_ context.Context, dir string) error {
							wantFiles(t, dir, want)
							return nil
						}})
				if err != nil || !done {
					t.Fatal(err, done)
				}
				wantFiles(t, k.dir, want)
				if got := gitRun(t, k.dir, "--no-replace-objects", "log", "-1", "--format=%H %P",
					"refs/heads/main"); got != merged.Commit+" "+before+" "+tip {
					t.Errorf("main is %s, want a merge of %s and %s", got, before, tip)
				}
			})
		}
	}
}

// TestScratchIsOfTheNamedCommit: a scratch worktree has the files of its commit, and creating it
// moves no branch, even if its HEAD is changed meanwhile.
func TestScratchIsOfTheNamedCommit(t *testing.T) {
	t.Parallel()
	k, evil, tip := smuggleKit(t)
	before := k.base()
	for _, head := range []string{evil, "ref: refs/heads/evil", "ref: refs/heads/main"} {
		k.step = func(name string) {
			if name != "worktree registered" {
				return
			}
			gitDir, err := k.repository.DirOf(filepath.Join(k.folder, scratchPrefix+"T1"))
			must.Succeed(t, errors.Join(err, os.WriteFile(filepath.Join(gitDir, "HEAD"),
				[]byte(head+"\n"), 0o600)))
		}
		scratch, err := k.OpenScratch(t.Context(), "T1", tip)
		must.Succeed(t, err)
		wantFiles(t, scratch.Dir, map[string]string{"a": "2\n", "b": "1\n"})
		if err := scratch.Close(); err != nil || k.base() != before {
			t.Errorf("HEAD %s: %v, main is at %s", head, err, k.base())
		}
	}
}

// TestBranchesAreNotWrittenThrough: no operation on the task's worktree moves or removes a branch
// that the task's branch, or HEAD, names.
func TestBranchesAreNotWrittenThrough(t *testing.T) {
	t.Parallel()
	first, evil, tip := smuggleKit(t)
	write(t, first.dir, map[string]string{"b": "2\n"})
	before := first.commit("meanwhile")
	write(t, first.folder, map[string]string{"T1/a": "3\n"})
	for _, a := range smugglings {
		for name, operate := range map[string]func(k *kit, tree *Tree) error{
			"save": func(k *kit, tree *Tree) error {
				_, _, err := tree.Save(t.Context(), "")
				return err
			},
			"refresh": func(k *kit, tree *Tree) error {
				_, err := tree.Refresh(t.Context(), before)
				return err
			},
			"discard": func(k *kit, tree *Tree) error { return tree.Discard(t.Context(), tip) },
			"restore": func(k *kit, tree *Tree) error {
				_, err := tree.Restore(t.Context(), tip)
				return err
			},
			"close": func(k *kit, _ *Tree) error { return k.Close(t.Context(), "T1") },
			"new": func(k *kit, _ *Tree) error {
				_, err := k.OpenNew(t.Context(), "T1")
				return err
			},
		} {
			t.Run(name+", "+a.name, func(t *testing.T) {
				t.Parallel()
				k := first.copied(t)
				tree := k.open("T1")
				a.do(k, evil, tip)
				err := operate(k, tree) // it may fail
				if got := gitRun(t, k.dir, "rev-parse", "refs/heads/main"); got != before {
					t.Errorf("main is at %s, was at %s (%v)", got, before, err)
				}
				if a.name == "the branch is a symbolic ref to another" &&
					gitRun(t, k.dir, "rev-parse", "refs/heads/evil") != evil {
					t.Error("another branch was moved")
				}
			})
		}
	}
}

// TestSaveIsOfTheFiles: the commit that Save returns has the files of the worktree, even if another
// process moves the branch at each step.
func TestSaveIsOfTheFiles(t *testing.T) {
	t.Parallel()
	first, evil, tip := smuggleKit(t)
	write(t, first.folder, map[string]string{"T1/a": "3\n"})
	for _, a := range smugglings[:3] {
		for _, at := range []string{"", "added", "committed"} {
			t.Run(a.name+" at "+at, func(t *testing.T) {
				t.Parallel()
				k := first.copied(t)
				tree, before := k.open("T1"), k.base()
				k.step = func(name string) {
					if name == at {
						a.do(k, evil, tip)
					}
				}
				k.step("")
				commit, _, err := tree.Save(t.Context(), "")
				if k.base() != before {
					t.Fatalf("main is at %s", k.base())
				}
				if err != nil { // the caller saves again, or fails
					return
				}
				if got := gitRun(t, k.dir, "ls-tree", "-r", "--name-only", commit); got != "a\nb" {
					t.Errorf("saved %q", got)
				}
			})
		}
	}
}

// TestRestore: what is found on a branch instead of the recorded commit is kept aside and not used.
func TestRestore(t *testing.T) {
	t.Parallel()
	k, evil, tip := smuggleKit(t)
	tree := k.open("T1")
	if found, err := tree.Restore(t.Context(), tip); found != "" || err != nil {
		t.Errorf("found %s, %v", found, err)
	}
	k.setRef("heads/signalbox/T1", evil)
	found, err := tree.Restore(t.Context(), tip, k.base())
	if err != nil || gitRun(t, k.dir, "rev-parse", "refs/heads/signalbox/T1") != tip {
		t.Fatal(err)
	}
	// The worktree does not have the file, so saving it removed the file again, on top of the
	// commit that was found.
	gitRun(t, k.dir, "merge-base", "--is-ancestor", evil, found)
	if got := gitRun(t, k.dir, "rev-parse", leftPrefix+"T1/"+found); got != found {
		t.Errorf("kept %s, found %s", got, found)
	}
	wantFiles(t, tree.Dir, map[string]string{"a": "2\n", "b": "1\n"})
	if found, err := tree.Restore(t.Context(), k.base(), tip); found != "" || err != nil {
		t.Errorf("found %s, which was expected: %v", found, err)
	}
	wantFiles(t, tree.Dir, map[string]string{"a": "1\n", "b": "1\n"})
}

// TestGraftsAndShallow: what git takes for the history of a commit cannot be changed in files that
// agents can write. Otherwise a merge could undo what others merged: here it would take b from the
// task, which has the old one.
func TestGraftsAndShallow(t *testing.T) {
	t.Parallel()
	k := newKit(t, map[string]string{"a": "1\n", "b": "1\n"})
	tree := k.work("T1", map[string]string{"a": "2\n"})
	tip := gitRun(t, tree.Dir, "rev-parse", "HEAD")
	write(t, k.dir, map[string]string{"b": "2\n"})
	before := k.commit("meanwhile")
	write(t, k.dir, map[string]string{".git/info/grafts": tip + " " + before + "\n"})
	commit, err := k.Combine(t.Context(), "T1", tip, before)
	write(t, k.dir, map[string]string{".git/info/grafts": ""}) // the test's git would warn
	if err != nil || gitRun(t, k.dir, "show", commit+":b") != "2" {
		t.Errorf("combined as %s, %v", commit, err)
	}
	request := MergeRequest{Task: "T1", Commit: tip, Base: before}
	write(t, k.dir, map[string]string{".git/shallow": tip + "\n"})
	_, err = k.Combine(t.Context(), "T1", tip, before)
	mustRefuse(t, err, filepath.Join(k.dir, ".git", "shallow")+
		" has changed, so git may see another history", "if you fetched, start signalbox again")
	if _, err := k.Repo.Merge(t.Context(), request); err == nil || k.base() != before {
		t.Errorf("merged in spite of another history: %v", err)
	}
	write(t, k.dir, map[string]string{".git/shallow": ""})
	if _, err := k.Repo.Merge(t.Context(), request); err != nil {
		t.Error(err)
	}
	wantFiles(t, k.dir, map[string]string{"a": "2\n", "b": "2\n"})
}
