package workspace

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"signalbox/internal/testkit/must"
)

func TestUndoSetup(t *testing.T) {
	k := newKit(t, map[string]string{"a": "1\n", "b": "1\n", ".gitignore": "ignored\n"})
	tree := k.open("T1")
	write(t, tree.Dir, map[string]string{"before": "x\n"})
	o, err := k.Observe(t.Context(), tree.Dir)
	must.Succeed(t, err)
	write(t, tree.Dir, map[string]string{"a": "2\n", "b": "", "left": "x\n", "ignored": "x\n"})
	restored, left, err := k.Undo(t.Context(), o)
	must.Succeed(t, err)
	if diff := cmp.Diff([][]string{{"a", "b"}, {"left"}}, [][]string{restored, left}); diff != "" {
		t.Errorf("restored and left (-want +got):\n%s", diff)
	}
	want := map[string]string{"a": "1\n", "b": "1\n", ".gitignore": "ignored\n", "before": "x\n", "left": "x\n", "ignored": "x\n"}
	if diff := cmp.Diff(want, read(t, tree.Dir)); diff != "" {
		t.Errorf("files (-want +got):\n%s", diff)
	}
	write(t, tree.Dir, map[string]string{"a": "2\n"})
	if _, err := k.Observe(t.Context(), tree.Dir); !errors.Is(err, ErrNotClean) {
		t.Errorf("a changed file: %v", err)
	}
	gitRun(t, tree.Dir, "commit", "--quiet", "-a", "-m", "mine")
	if _, _, err := k.Undo(t.Context(), o); !errors.Is(err, ErrCommitted) {
		t.Errorf("a commit: %v", err)
	}
}

// TestKilledSetup leaves a worktree as a process that is killed while a setup command runs.
func TestKilledSetup(t *testing.T) {
	k := newKit(t, map[string]string{"a": "1\n", ".gitignore": "ignored\n"})
	tree := k.work("T1", map[string]string{"b": "work\n"})
	p, err := tree.Preparation()
	must.Succeed(t, err)
	write(t, tree.Dir, map[string]string{"kept": "of another command\n"})
	p.Leave(tree.Dir, []string{"kept"})
	p.Running = true
	must.Succeed(t, p.Save())
	write(t, tree.Dir, map[string]string{"a": "half\n", "half": "half\n", "ignored": "x\n"})
	tree = k.open("T1")
	want := map[string]string{"a": "1\n", "b": "work\n", ".gitignore": "ignored\n",
		"ignored": "x\n", "kept": "of another command\n"}
	if diff := cmp.Diff(want, read(t, tree.Dir)); diff != "" {
		t.Errorf("files (-want +got):\n%s", diff)
	}
	if p, err := tree.Preparation(); err != nil || p.Running {
		t.Errorf("%+v, %v", p, err)
	}
	write(t, tree.Dir, map[string]string{"a": "2\n"})
	if got := read(t, k.open("T1").Dir)["a"]; got != "2\n" {
		t.Errorf("later changes are lost: %q", got)
	}
}

// TestLeftFiles checks that what setup commands left is committed only after it was changed.
func TestLeftFiles(t *testing.T) {
	k := newKit(t, map[string]string{"a": "1\n"})
	tree := k.open("T1")
	write(t, tree.Dir, map[string]string{"left": "x\n", "taken": "x\n"})
	p, err := tree.Preparation()
	must.Succeed(t, err)
	p.Leave(tree.Dir, []string{"left", "taken", "repository/"})
	must.Succeed(t, p.Save())
	gitRun(t, tree.Dir, "init", "--quiet", "repository")
	write(t, tree.Dir, map[string]string{"taken": "y\n"})
	commit, _, err := tree.Save(t.Context(), "work")
	must.Succeed(t, err)
	if got := gitRun(t, tree.Dir, "ls-tree", "--name-only", commit); got != "a\ntaken" {
		t.Errorf("committed %q", got)
	}
}

func TestDigestFiles(t *testing.T) {
	dir := newDir(t)
	digests := map[string]string{}
	check := func(what string, names ...string) {
		t.Helper()
		digest := DigestFiles(dir, names)
		if other := digests[digest]; other != "" || digest == "" {
			t.Errorf("%s has the digest of %s", what, other)
		}
		digests[digest] = what
		if again := DigestFiles(dir, names); again != digest {
			t.Errorf("%s has two digests", what)
		}
	}
	check("nothing")
	check("missing", "a")
	check("another missing", "b")
	write(t, dir, map[string]string{"a": "1\n"})
	check("a file", "a")
	check("two files", "a", "b")
	write(t, dir, map[string]string{"a": "2\n"})
	check("a changed file", "a")
	must.Succeed(t, errors.Join(os.Symlink("a", filepath.Join(dir, "link")),
		os.Symlink(filepath.Join(dir, "a"), filepath.Join(dir, "other")),
		os.Mkdir(filepath.Join(dir, "folder"), 0o700)))
	check("a link", "link")
	check("another link", "other")
	check("a folder", "folder")
}

// A damaged note of how a worktree was prepared is an error: files that were copied into it would
// be committed.
func TestDamagedPreparation(t *testing.T) {
	k := newKit(t, nil)
	tree := k.open("T1")
	for _, text := range []string{"", "{", "[]", `{"copied": 1}`} {
		must.Succeed(t, os.WriteFile(k.note(preparedPrefix, "T1"), []byte(text), 0o600))
		if p, err := tree.Preparation(); err == nil {
			t.Errorf("%q: %+v", text, p)
		}
	}
}
