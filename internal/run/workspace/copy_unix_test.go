//go:build unix

package workspace

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"signalbox/internal/testkit/must"
)

// copyKit returns a repository with ignored files in its checkout.
func copyKit(t *testing.T) *kit {
	k := newKit(t, map[string]string{".gitignore": "/.env*\n/.venv/\n/secret\n/pipe\n/.git-like\n/nested\n/link-*\n/sub/.git\n", "a": "1\n", "tracked.env": "x\n"})
	write(t, k.dir, map[string]string{".env": "KEY=1\n", ".env.test": "T=1\n", "secret": "s\n",
		".venv/bin/tool": "#!/bin/sh\n", ".venv/lib/x/y.py": "y\n", "not-ignored": "n\n",
		"nested/file": "f\n", ".git/info/exclude": "local.cfg\n", "local.cfg": "l\n"})
	must.Succeed(t, os.Chmod(filepath.Join(k.dir, ".venv/bin/tool"), 0o755))
	gitRun(t, k.dir, "init", "--quiet", "nested")
	for name, target := range map[string]string{".venv/bin/tool3": "tool",
		".venv/out": "/etc/passwd", "link-up": "../outside", "link-in": ".venv/lib",
		"link-root": k.dir + "/secret"} {
		link(t, k.dir, target, name)
	}
	must.Succeed(t, syscall.Mkfifo(filepath.Join(k.dir, "pipe"), 0o600))
	return k
}

func (k *kit) copyInto(dir string, o CopyOptions) (copied, notes []string) {
	k.t.Helper()
	copied, notes, err := k.CopyIgnored(k.t.Context(), dir, o)
	must.Succeed(k.t, err)
	return copied, notes
}

func everything(string) bool { return true }

func TestCopyIgnored(t *testing.T) {
	k := copyKit(t)
	tree := k.open("T1")
	copied, notes := k.copyInto(tree.Dir, CopyOptions{Match: everything})
	want := []string{".env", ".env.test", ".venv/bin/tool", ".venv/bin/tool3", ".venv/lib/x/y.py",
		"link-in", "local.cfg", "secret"}
	if diff := cmp.Diff(want, copied); diff != "" {
		t.Errorf("copied (-want +got):\n%s", diff)
	}
	for _, out := range []string{".venv/out: a link to /etc/passwd, which is outside,", "link-up: ",
		"link-root: "} {
		if !slices.ContainsFunc(notes,
			func(note string) bool { return strings.HasPrefix(note, out) }) {
			t.Errorf("%q is not in %q", out, notes)
		}
	}
	info, err := os.Lstat(filepath.Join(tree.Dir, ".venv/bin/tool"))
	if err != nil || info.Mode().Perm() != 0o755 {
		t.Errorf("the mode is %v, %v", info, err)
	}
	for _, name := range []string{"not-ignored", "nested", "pipe", ".venv/out", "link-up",
		"link-root"} {
		if !isMissing(tree.Dir, name) {
			t.Errorf("%s was copied", name)
		}
	}
	if text, err := os.ReadFile(filepath.Join(tree.Dir, ".git")); err != nil ||
		!strings.HasPrefix(string(text), "gitdir: ") {
		t.Errorf(".git has %q, %v", text, err)
	}
}

// TestCopyKeepsFiles copies twice: what is in the worktree stays, and what a killed process left
// half done does not.
func TestCopyKeepsFiles(t *testing.T) {
	k := copyKit(t)
	tree := k.open("T1")
	write(t, tree.Dir, map[string]string{".env": "mine\n", ".env.test" + copySuffix: "half"})
	k.copyInto(tree.Dir, CopyOptions{Match: everything})
	if got := textOf(t, tree.Dir, ".env") + textOf(t, tree.Dir,
		".env.test"); got != "mine\nT=1\n" || !isMissing(tree.Dir, ".env.test"+copySuffix) {
		t.Errorf("the files have %q", got)
	}
}

// A list that git tracks came with the repository, and counts only if the user wants it.
func TestTrackedIncludeFile(t *testing.T) {
	for _, name := range []string{IncludeFile, ".WorktreeInclude"} {
		k := copyKit(t)
		write(t, k.dir, map[string]string{name: ".env\n"})
		gitRun(t, k.dir, "add", "-f", name)
		// on a system that ignores case it is the same
		write(t, k.dir, map[string]string{IncludeFile: ".env\n"})
		tree := k.open("T1")
		if copied, _ := k.copyInto(tree.Dir, CopyOptions{}); len(copied) > 0 {
			t.Errorf("%s: copied %q", name, copied)
		}
		if copied, _ := k.copyInto(tree.Dir, CopyOptions{Tracked: true}); !slices.Equal(copied,
			[]string{".env"}) {
			t.Errorf("%s: copied %q, want .env", name, copied)
		}
	}
}

func TestCopyChoosesFiles(t *testing.T) {
	k := copyKit(t)
	tree := k.open("T1")
	copied, _ := k.copyInto(tree.Dir, CopyOptions{})
	if len(copied) > 0 {
		t.Errorf("copied %q without being asked", copied)
	}
	write(t, k.dir, map[string]string{IncludeFile: "# comment\n.env*\n!.env.test\nnot-ignored\na\n"})
	copied, _ = k.copyInto(tree.Dir,
		CopyOptions{Match: func(
			name string) bool {
			return name == "secret" || name == "a" || name == "not-ignored"
		}})
	if diff := cmp.Diff([]string{".env", "secret"}, copied); diff != "" {
		t.Errorf("copied (-want +got):\n%s", diff)
	}
	// What a task writes has no effect.
	write(t, tree.Dir, map[string]string{IncludeFile: ".venv\n", ".gitignore": "*\n"})
	other := k.open("T2")
	if copied, _ = k.copyInto(other.Dir, CopyOptions{}); !slices.Equal(copied, []string{".env"}) {
		t.Errorf("copied %q", copied)
	}
	if copied, _ = k.copyInto(other.Dir,
		CopyOptions{Match: everything, Except: filepath.Join(k.dir, ".venv")}); slices.ContainsFunc(
		copied, func(name string) bool { return strings.HasPrefix(name, ".venv") }) {
		t.Errorf("copied %q", copied)
	}
	if _, _, err := k.CopyIgnored(t.Context(), other.Dir,
		CopyOptions{Match: everything, Limit: 10}); !errors.Is(err, ErrCopyTooLarge) {
		t.Errorf("more than the limit: %v", err)
	}
}

// TestCopiedFilesAreNotCommitted removes the lines from .gitignore that keep the files out, and
// puts in one that brings them back.
func TestCopiedFilesAreNotCommitted(t *testing.T) {
	k := copyKit(t)
	tree := k.open("T1")
	p, err := tree.Preparation()
	must.Succeed(t, err)
	p.Copied, _ = k.copyInto(tree.Dir, CopyOptions{Match: everything})
	p.HasCopied = true
	must.Succeed(t, p.Save())
	for _, ignore := range []string{"\n", "!.env\n!*\n"} {
		write(t, tree.Dir, map[string]string{".gitignore": ignore, "work": ignore})
		commit, _, err := tree.Save(t.Context(), "work")
		must.Succeed(t, err)
		if got := gitRun(t, tree.Dir, "ls-tree", "-r", "--name-only",
			commit); got != ".gitignore\na\ntracked.env\nwork" {
			t.Errorf("with %q the commit has %q", ignore, got)
		}
		must.Succeed(t, tree.Discard(t.Context(), commit))
		if textOf(t, tree.Dir, ".env") != "KEY=1\n" || isMissing(tree.Dir, ".venv/lib/x/y.py") {
			t.Errorf("with %q the files are gone", ignore)
		}
	}
	// and then they still are not the work of an agent
	write(t, tree.Dir, map[string]string{".env": "changed\n"})
	if _, changed, err := tree.Save(t.Context(), "work"); changed || err != nil {
		t.Errorf("changed %t, %v", changed, err)
	}
	must.Succeed(t, k.Close(t.Context(), "T1"))
	if p, err := k.open("T1").Preparation(); err != nil || p.HasCopied {
		t.Errorf("a new worktree has %+v, %v", p, err)
	}
}

func TestExcludePatterns(t *testing.T) {
	if diff := cmp.Diff([]string{`/\!a\ b`, `/c/\*`},
		excludePatterns([]string{"c/*", "!a b"})); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	var many []string
	for i := range 1000 {
		many = append(many, "d/"+strings.Repeat("x", i)+"/f")
	}
	if diff := cmp.Diff([]string{"/d/", "/e"}, excludePatterns(append(many, "e"))); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// An IncludeFile that came with the repository does not stop anything, whatever it is.
func TestTrackedIncludeFileThatIsNoFile(t *testing.T) {
	k := copyKit(t)
	link(t, k.dir, "/etc/passwd", IncludeFile)
	if _, _, err := k.CopyIgnored(t.Context(), k.open("T1").Dir, CopyOptions{}); err == nil {
		t.Error("a link of the user is followed, or ignored without a word")
	}
	gitRun(t, k.dir, "add", "--force", IncludeFile)
	k.commit("link")
	if copied, _, err := k.CopyIgnored(t.Context(), k.open("T2").Dir, CopyOptions{}); err != nil ||
		len(copied) > 0 {
		t.Errorf("copied %q, %v", copied, err)
	}
}

// Whatever a task has in the place of a file or its folders, the others are copied, and nothing is
// written through a link.
func TestCopyIntoHostileWorktree(t *testing.T) {
	k := copyKit(t)
	for _, test := range []struct {
		what    string            // the task has
		files   map[string]string // and
		links   map[string]string // to their targets
		blocked string            // what a note names; "" means that everything is copied
	}{
		{"a file in place of a folder", map[string]string{".venv": "x"}, nil, ".venv"},
		{"a file in place of a deep folder", map[string]string{".venv/lib": "x"}, nil, ".venv/lib"},
		{"a folder in place of a file", map[string]string{"secret/x": "x"}, nil, "secret"},
		{"a folder in place of a link", map[string]string{"link-in/x": "x"}, nil, "link-in"},
		{"a link in place of a folder", nil, map[string]string{".venv": "real"}, ".venv"},
		{"a link outside", nil, map[string]string{".venv": "/etc"}, ".venv"},
		{"a link to nothing", nil, map[string]string{".venv": "none"}, ".venv"},
		{"a link to itself", nil, map[string]string{".venv": ".venv"}, ".venv"},
		{"a link in place of a file", nil, map[string]string{"secret": "/etc/passwd"}, ""},
		{"a folder with the temporary name", map[string]string{"secret" + copySuffix + "/x": "x"},
			nil, "secret" + copySuffix},
		{"a link with the temporary name", nil,
			map[string]string{"secret" + copySuffix: "/etc/passwd"}, "secret" + copySuffix},
		{"a pipe in place of a folder", map[string]string{".venv": "pipe"}, nil, ".venv"},
	} {
		dir := newDir(t)
		write(t, dir, test.files)
		write(t, dir, map[string]string{"real/x": "x"})
		for name, target := range test.links {
			link(t, dir, target, name)
		}
		if test.files[".venv"] == "pipe" {
			name := filepath.Join(dir, ".venv")
			must.Succeed(t, errors.Join(os.Remove(name), syscall.Mkfifo(name, 0o600)))
		}
		copied, notes := k.copyInto(dir, CopyOptions{Match: everything})
		if !slices.Contains(copied, ".env") || textOf(t, dir, ".env") != "KEY=1\n" {
			t.Errorf("%s: copied %q", test.what, copied)
		}
		isBlocked := func(note string) bool {
			return strings.HasSuffix(note, "it is not copied into the worktree "+
				filepath.Base(dir)+", where "+test.blocked+" is in its place")
		}
		if got := slices.ContainsFunc(notes, isBlocked); got != (test.blocked != "") {
			t.Errorf("%s: notes %q", test.what, notes)
		}
		if found, err := os.ReadDir(filepath.Join(dir, "real")); err != nil || len(found) != 1 {
			t.Errorf("%s: something was written through a link: %v, %v", test.what, found, err)
		}
	}
}

func link(t *testing.T, dir, target, name string) {
	t.Helper()
	must.Succeed(t, os.Symlink(target, filepath.Join(dir, name)))
}
