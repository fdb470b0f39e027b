package workspace

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"signalbox/internal/testkit/must"
)

func TestOpen(t *testing.T) {
	t.Parallel()
	k := newKit(t, map[string]string{"a": "1\n"})
	tree := k.open("T1")
	if diff := cmp.Diff([]string{filepath.Join(k.folder, "T1"), "signalbox/T1", "T1"},
		[]string{tree.Dir, tree.Branch, tree.Task}); diff != "" {
		t.Error(diff)
	}
	wantFiles(t, tree.Dir, map[string]string{"a": "1\n"})
	write(t, tree.Dir, map[string]string{"a": "2\n"})
	wantFiles(t, k.open("T1").Dir, map[string]string{"a": "2\n"}) // its files stay
	if _, err := k.Open(t.Context(), "../T1"); err == nil {
		t.Error("a path was accepted as a task")
	}
}

// Open repairs a worktree that a killed process or a person has damaged.
func TestOpenRepairs(t *testing.T) {
	t.Parallel()
	remove := func(t *testing.T, names ...string) {
		must.Succeed(t, os.RemoveAll(filepath.Join(names...)))
	}
	first := newKit(t, map[string]string{"a": "1\n"})
	first.work("T1", map[string]string{"a": "2\n"})
	write(t, first.folder, map[string]string{"T1/b": "mine\n"})
	for _, tt := range []struct {
		name string
		hurt func(t *testing.T, k *kit, tree *Tree)
		want string // content of the file that is not committed
	}{
		{"deleted", func(t *testing.T, k *kit, tree *Tree) { remove(t, tree.Dir) }, ""},
		{"emptied", func(t *testing.T, k *kit, tree *Tree) {
			remove(t, tree.Dir)
			must.Succeed(t, os.Mkdir(tree.Dir, 0o700))
		}, ""},
		{"half-made", func(t *testing.T, k *kit, tree *Tree) {
			write(t, tree.gitDir, map[string]string{"locked": "initializing"})
		}, ""},
		{"half-made and no link", func(t *testing.T, k *kit, tree *Tree) {
			write(t, tree.gitDir, map[string]string{"locked": "initializing"})
			remove(t, tree.Dir, ".git")
		}, ""},
		{"half-made and no folder", func(t *testing.T, k *kit, tree *Tree) {
			write(t, tree.gitDir, map[string]string{"locked": "initializing"})
			remove(t, tree.Dir)
		}, ""},
		{"cut off", func(t *testing.T, k *kit, tree *Tree) { remove(t, tree.Dir, ".git") },
			"mine\n"},
		{"forgotten by git", func(t *testing.T, k *kit, tree *Tree) { remove(t, tree.gitDir) }, ""},
		{"project moved", func(t *testing.T, k *kit, tree *Tree) {
			top := filepath.Dir(k.dir) + "/moved"
			must.Succeed(t, errors.Join(os.Mkdir(top, 0o700), os.Rename(k.dir, top+"/project"),
				os.Rename(k.folder, top+"/trees")))
			k.dir, k.folder = top+"/project", top+"/trees"
			k.find()
		}, "mine\n"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			k := first.copied(t)
			tt.hurt(t, k, k.open("T1"))
			again := k.open("T1")
			want := map[string]string{"a": "2\n"}
			if tt.want != "" {
				want["b"] = tt.want
			}
			wantFiles(t, again.Dir, want)
			if _, _, err := again.Save(t.Context(), ""); err != nil {
				t.Error(err)
			}
			if _, err := k.Merge(t.Context(), "T1", "", noCheck); err != nil {
				t.Error(err)
			}
			if err := errors.Join(k.Close(t.Context(), "T1"), k.Prune(t.Context())); err != nil {
				t.Error(err)
			}
			if left := k.trees(); len(left) > 0 {
				t.Errorf("not removed: %v", left)
			}
			k.sound()
		})
	}
}

func TestOpenRefusesABranchInUse(t *testing.T) {
	t.Parallel()
	k := newKit(t, map[string]string{"a": "1\n"})
	gitRun(t, k.dir, "switch", "--quiet", "-c", "signalbox/T1")
	_, err := k.Open(t.Context(), "T1")
	mustRefuse(t, errors.Unwrap(err), "the branch signalbox/T1 is checked out in "+k.dir,
		"switch to another branch there")
}

func TestOpenConcurrently(t *testing.T) {
	t.Parallel()
	k := newKit(t, map[string]string{"a": "1\n"})
	second, err := Find(t.Context(), k.dir, k.folder) // as another process would
	must.Succeed(t, err)
	var all sync.WaitGroup
	for i, task := range strings.Fields("A B C D") {
		repo := []*Repo{k.Repo, second}[i%2]
		all.Go(func() {
			tree, err := repo.Open(t.Context(), task)
			if err != nil {
				t.Error(err)
				return
			}
			write(t, tree.Dir, map[string]string{"file-" + task: task})
			if _, _, err := tree.Save(t.Context(), ""); err != nil {
				t.Error(err)
			}
			if _, err := mergeBranch(t.Context(), repo, task, "", noCheck); err != nil {
				t.Error(err)
			}
			if err := repo.Close(t.Context(), task); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	if got := len(read(t, k.dir)); got != 5 {
		t.Errorf("%d files, want 5", got)
	}
	k.sound()
}

func TestSave(t *testing.T) {
	t.Parallel()
	k := newKit(t, map[string]string{"a": "1\n", ".gitignore": "*.o\n", "gone": "x\n"})
	tree := k.open("T1")
	if commit, changed, err := tree.Save(t.Context(), "x"); commit != k.base() || changed ||
		err != nil {
		t.Error(commit, changed, err)
	}
	write(t, tree.Dir, map[string]string{"a": "2\n", "gone": "", "new file": "x\n", "x.o": "x\n",
		"näme": "x\n"})
	commit, changed, err := tree.Save(t.Context(), "# done")
	if now, _ := tree.Commit(t.Context()); commit != now || !changed || err != nil {
		t.Error(commit, changed, err)
	}
	files, err := tree.changed(t.Context())
	if diff := cmp.Diff([]string{"a", "gone", "new file", "näme"}, files); diff != "" ||
		err != nil {
		t.Error(err, diff)
	}
	if got := gitRun(t, tree.Dir, "log", "-1", "--format=%B"); got != "# done" {
		t.Errorf("message %q", got)
	}
}

// A file can take the place of a folder, and the other way round.
func TestSaveFilesAndFolders(t *testing.T) {
	t.Parallel()
	k := newKit(t, map[string]string{"file": "1\n", "folder/a": "1\n", "folder/b/c": "1\n",
		"gone/a": "1\n"})
	tree := k.open("T1")
	must.Succeed(t, errors.Join(os.RemoveAll(filepath.Join(tree.Dir, "folder")),
		os.Remove(filepath.Join(tree.Dir, "file")),
		os.RemoveAll(filepath.Join(tree.Dir, "gone"))))
	want := map[string]string{"folder": "2\n", "file/a": "2\n", "file/b/c": "2\n"}
	write(t, tree.Dir, want)
	commit, _, err := tree.Save(t.Context(), "swapped")
	must.Succeed(t, err)
	k.wantScratch("T1", commit, want)
	if _, changed, err := tree.Save(t.Context(), "again"); changed || err != nil {
		t.Errorf("there is still something to commit: %v", err)
	}
}

// Save handles every state in which an agent can leave the worktree.
func TestSaveUnusualStates(t *testing.T) {
	t.Parallel()
	own := func(t *testing.T, dir, name, text string) {
		write(t, dir, map[string]string{name: text})
		gitRun(t, dir, "add", "-A")
		gitRun(t, dir, "commit", "--quiet", "-m", "own")
	}
	first := newKit(t, map[string]string{"a": "1\n"})
	first.work("T1", map[string]string{"a": "2\n"})
	for _, tt := range []struct {
		name  string
		leave func(t *testing.T, dir string)
		want  map[string]string
		err   string
	}{
		{"own commit", func(t *testing.T, dir string) { own(t, dir, "b", "own\n") },
			map[string]string{"a": "2\n", "b": "own\n"}, ""},
		{"detached", func(t *testing.T, dir string) {
			gitRun(t, dir, "checkout", "--quiet", "--detach")
			own(t, dir, "b", "own\n")
			write(t, dir, map[string]string{"c": "open\n"})
		}, map[string]string{"a": "2\n", "b": "own\n", "c": "open\n"}, ""},
		{"another branch", func(t *testing.T, dir string) {
			gitRun(t, dir, "switch", "--quiet", "-c", "feature")
			own(t, dir, "b", "own\n")
			write(t, dir, map[string]string{"c": "open\n"})
		}, map[string]string{"a": "2\n", "b": "own\n", "c": "open\n"}, ""},
		{"an older commit", func(t *testing.T,
			dir string) {
			gitRun(t, dir, "checkout", "--quiet", "HEAD^")
		},
			map[string]string{"a": "2\n"}, ""},
		{"on top of an older commit", func(t *testing.T, dir string) {
			gitRun(t, dir, "checkout", "--quiet", "HEAD^")
			write(t, dir, map[string]string{"c": "open\n"})
		}, map[string]string{"a": "2\n", "c": "open\n"}, ""},
		{"branch deleted", func(t *testing.T, dir string) {
			gitRun(t, dir, "checkout", "--quiet", "--detach")
			gitRun(t, dir, "branch", "--quiet", "-D", "signalbox/T1")
		}, map[string]string{"a": "2\n"}, ""},
		{"merge solved", func(t *testing.T, dir string) {
			gitRun(t, dir, "branch", "--quiet", "side", "HEAD^")
			own(t, dir, "b", "own\n")
			gitRun(t, dir, "checkout", "--quiet", "side")
			own(t, dir, "c", "side\n")
			gitRun(t, dir, "checkout", "--quiet", "signalbox/T1")
			gitRun(t, dir, "merge", "--quiet", "--no-commit", "side")
		}, map[string]string{"a": "2\n", "b": "own\n", "c": "side\n"}, ""},
		{"merge not solved", func(t *testing.T, dir string) {
			gitRun(t, dir, "checkout", "--quiet", "-b", "side", "HEAD^")
			own(t, dir, "a", "side\n")
			gitRun(t, dir, "checkout", "--quiet", "signalbox/T1")
			gitTry(t, dir, "merge", "side")
		}, nil, "the worktree of T1 has unresolved conflicts in a"},
		{"rebase", func(t *testing.T, dir string) {
			gitRun(t, dir, "checkout", "--quiet", "-b", "side", "HEAD^")
			own(t, dir, "a", "side\n")
			gitRun(t, dir, "checkout", "--quiet", "signalbox/T1")
			gitTry(t, dir, "rebase", "side")
			gitRun(t, dir, "add", "-A")
		}, nil, "the worktree of T1 is in the middle of a rebase"},
		{"diverged", func(t *testing.T, dir string) {
			gitRun(t, dir, "checkout", "--quiet", "-b", "side", "HEAD^")
			own(t, dir, "a", "side\n")
		}, nil, "signalbox/T1 conflicts with COMMIT in a"},
		{"a repository inside", func(t *testing.T, dir string) {
			gitRun(t, dir, "init", "--quiet", "sub/inner")
			own(t, filepath.Join(dir, "sub/inner"), "x", "x\n")
		}, nil, "the worktree of T1 contains another git repository: sub/inner/"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			k := first.copied(t)
			tree := k.open("T1")
			before, _ := tree.Commit(t.Context())
			tt.leave(t, tree.Dir)
			commit, _, err := tree.Save(t.Context(), "kept")
			if tt.err != "" {
				want := strings.ReplaceAll(tt.err, "COMMIT",
					gitRun(t, tree.Dir, "rev-parse", "HEAD"))
				if err == nil || err.Error() != want {
					t.Errorf("error %v, want %s", err, want)
				}
				must.Succeed(t, tree.Discard(t.Context(), before))
				tt.want = map[string]string{"a": "2\n"}
			} else if now := gitRun(t, tree.Dir, "rev-parse", "signalbox/T1"); err != nil ||
				commit != now {
				t.Errorf("saved %s, %v; the branch is at %s", commit, err, now)
			}
			wantFiles(t, tree.Dir, tt.want)
			if out := gitRun(t, tree.Dir, "status", "--porcelain",
				"--branch"); out != "## signalbox/T1" {
				t.Errorf("status %s", out)
			}
			if name, _ := unfinishedOperation(tree.gitDir); name != "" {
				t.Errorf("still in a %s", name)
			}
			gitRun(t, tree.Dir, "merge-base", "--is-ancestor", before, "signalbox/T1")
			if tt.name == "another branch" && gitRun(t, k.dir, "log", "-1", "--format=%s",
				"feature") != "own" {
				t.Error("another branch was moved")
			}
			if k.base() != gitRun(t, k.dir, "rev-parse", "HEAD") {
				t.Error("base moved")
			}
			k.sound()
		})
	}
}

func TestDiscard(t *testing.T) {
	t.Parallel()
	k := newKit(t, map[string]string{"a": "1\n", ".gitignore": "*.o\n"})
	tree := k.work("T1", map[string]string{"a": "2\n"})
	commit, _ := tree.Commit(t.Context())
	write(t, tree.Dir, map[string]string{"a": "critic\n", "b/c": "critic\n", ".gitignore": "*\n",
		"x.o": "x\n"})
	gitRun(t, tree.Dir, "commit", "--quiet", "-a", "-m", "critic")
	write(t, tree.Dir, map[string]string{"a": "again\n"})
	must.Succeed(t, tree.Discard(t.Context(), commit))
	wantFiles(t, tree.Dir, map[string]string{"a": "2\n", ".gitignore": "*.o\n", "x.o": "x\n"})
	if now, _ := tree.Commit(t.Context()); now != commit {
		t.Errorf("the branch is at %s", now)
	}
}

func TestRefresh(t *testing.T) {
	t.Parallel()
	k := newKit(t, map[string]string{"a": "1\n", "b": "1\n"})
	fresh := k.open("T0")
	tree := k.work("T1", map[string]string{"a": "2\n"})
	write(t, k.dir, map[string]string{"b": "2\n"})
	k.commit("meanwhile")
	// a file that is rewritten with the same content has not changed
	old := time.Now().Add(-time.Hour)
	must.Succeed(t, os.Chtimes(filepath.Join(tree.Dir, "b"), old, old))
	for _, tree := range []*Tree{fresh, tree, tree} {
		if conflict, err := tree.Refresh(t.Context(), k.base()); conflict != nil || err != nil {
			t.Fatal(conflict, err)
		}
	}
	wantFiles(t, tree.Dir, map[string]string{"a": "2\n", "b": "2\n"})
	if commit, changed, err := fresh.Save(t.Context(), ""); commit != k.base() || changed ||
		err != nil {
		t.Error(commit, changed, err)
	}
	if commit, changed, err := tree.Save(t.Context(), ""); changed || err != nil {
		t.Error(commit, changed, err)
	}
	files, err := tree.changed(t.Context())
	if diff := cmp.Diff([]string{"a"}, files); diff != "" || err != nil {
		t.Error(err, diff)
	}

	write(t, k.dir, map[string]string{"a": "3\n", "b": "3\n"})
	k.commit("conflict")
	before, _ := tree.Commit(t.Context())
	conflict, err := tree.Refresh(t.Context(), k.base())
	if err != nil || conflict == nil || !slices.Equal(conflict.Files, []string{"a"}) {
		t.Error(conflict, err)
	}
	wantFiles(t, tree.Dir, map[string]string{"a": "2\n", "b": "2\n"})
	if after, _ := tree.Commit(t.Context()); after != before {
		t.Error("the branch moved")
	}

	write(t, fresh.Dir, map[string]string{"a": "open\n"})
	if _, err := fresh.Refresh(t.Context(), k.base()); err == nil ||
		!strings.HasPrefix(err.Error(),
			"uncommitted changes in the worktree of T0 are in the way") {
		t.Errorf("Refresh with an edit in the way: %v", err)
	}
	wantFiles(t, k.open("T0").Dir, map[string]string{"a": "open\n", "b": "2\n"})
}

// Open finishes a move that was interrupted at any step.
func TestMoveIsFinished(t *testing.T) {
	t.Parallel()
	big := strings.Repeat("line\n", 1000)
	first := newKit(t, map[string]string{"a": "1\n", "b": "1\n", "c": "1\n", "d": "1\n"})
	first.work("T1", map[string]string{"a": "2\n"})
	write(t, first.folder, map[string]string{"T1/c": "open\n"})
	write(t, first.dir, map[string]string{"b": "2\n", "d": big, "e": "2\n"})
	first.commit("meanwhile")
	for _, at := range []string{"moving", "moved", "branch moved"} {
		t.Run(at, func(t *testing.T) {
			t.Parallel()
			k := first.copied(t)
			tree := k.open("T1")
			k.step = func(name string) {
				if name == at {
					panic(at)
				}
			}
			func() {
				defer func() { _ = recover() }()
				tree.Refresh(t.Context(), k.base())
			}()
			k.step = func(string) {}
			if at == "moving" { // as if git was killed while it wrote files
				write(t, tree.Dir, map[string]string{"b": "", "d": big[:100]})
			}
			tree = k.open("T1")
			wantFiles(t, tree.Dir, map[string]string{"a": "2\n", "b": "2\n", "c": "open\n",
				"d": big, "e": "2\n"})
			if out, err := gitTry(t, tree.Dir, "status", "--porcelain"); out != " M c\n" {
				t.Errorf("status %q, %v", out, err)
			}
			gitRun(t, tree.Dir, "merge-base", "--is-ancestor", "main", "HEAD")
		})
	}
}

func TestLocksOfAKilledGit(t *testing.T) {
	t.Parallel()
	k := newKit(t, map[string]string{"a": "1\n"})
	tree := k.open("T1")
	write(t, tree.Dir, map[string]string{"a": "2\n"})
	lock := filepath.Join(tree.gitDir, indexLock)
	young := time.Now().Add(time.Hour) // however slow this machine is
	must.Succeed(t, errors.Join(os.WriteFile(lock, nil, 0o600),
		os.Chtimes(lock, young, young)))
	k.lockWait = 0
	_, _, err := tree.Save(t.Context(), "")
	if err == nil || !strings.HasPrefix(err.Error(), "another git process holds a lock: "+lock) {
		t.Errorf("saved in spite of a lock: %v", err)
	}
	old := time.Now().Add(-oldLock)
	must.Succeed(t, os.Chtimes(lock, old, old))
	if _, _, err := tree.Save(t.Context(), ""); err != nil {
		t.Error(err)
	}
	ref := filepath.Join(k.dir, ".git", "refs", "heads", "main.lock")
	must.Succeed(t, errors.Join(os.WriteFile(ref, nil, 0o600), os.Chtimes(ref, old, old)))
	if _, err := k.Merge(t.Context(), "T1", "", noCheck); err != nil {
		t.Error(err)
	}
	k.sound()
}

func TestMayBeGitBefore(t *testing.T) {
	t.Parallel()
	boot := time.Now().Add(-time.Hour)
	line := func(name, state string) string {
		return "77 (" + name + ") " + state + strings.Repeat(" 0", 18) + " 100 0 0"
	}
	for _, tt := range []struct {
		stat string
		then time.Time
		want bool
	}{
		{line("git", "S"), boot.Add(2 * time.Second), true},
		{line("git", "S"), boot, false},
		{line("git", "Z"), boot.Add(2 * time.Second), false},
		{line("sh", "S"), boot.Add(2 * time.Second), false},
		{line("git) (x", "S"), boot.Add(2 * time.Second), true},
		{"77 (git) S", boot, true},
	} {
		if got := mayBeGitBefore(tt.stat, boot, tt.then); got != tt.want {
			t.Errorf("%s: %v", tt.stat, got)
		}
	}
}
