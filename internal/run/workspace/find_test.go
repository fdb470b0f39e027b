package workspace

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"signalbox/internal/testkit/must"
)

func TestFindRefuses(t *testing.T) {
	initial := func(t *testing.T, dir string) { gitRun(t, dir, "init", "--quiet", "-b", "main") }
	committed := func(t *testing.T, dir string) {
		initial(t, dir)
		write(t, dir, map[string]string{"a": "1\n", "b": "1\n"})
		gitRun(t, dir, "add", "-A")
		gitRun(t, dir, "commit", "--quiet", "-m", "start")
	}
	diverged := func(t *testing.T, dir string) {
		committed(t, dir)
		gitRun(t, dir, "switch", "--quiet", "-c", "other")
		write(t, dir, map[string]string{"a": "2\n"})
		gitRun(t, dir, "commit", "--quiet", "-a", "-m", "two")
		gitRun(t, dir, "switch", "--quiet", "main")
		write(t, dir, map[string]string{"a": "3\n"})
		gitRun(t, dir, "commit", "--quiet", "-a", "-m", "three")
	}
	for _, tt := range []struct {
		name       string
		prepare    func(t *testing.T, dir string)
		text, hint string
	}{
		{"no git", func(t *testing.T, dir string) { t.Setenv("PATH", dir) },
			"git is not installed", "install git, or set workspace: shared in signalbox.yaml"},
		{"no repository", func(*testing.T, string) {},
			"DIR is not in a git repository",
			"run git init and make a first commit, or set workspace: shared in signalbox.yaml"},
		{"bare", func(t *testing.T, dir string) { gitRun(t, dir, "init", "--quiet", "--bare") },
			"DIR is a bare git repository: it has no files to work on",
			"clone it, and work in the clone"},
		{"no commit", initial,
			"the git repository DIR has no commit yet",
			"make a first commit: git commit --allow-empty -m start"},
		{"detached", func(t *testing.T,
			dir string) {
			committed(t, dir)
			gitRun(t, dir, "checkout", "--quiet", "--detach")
		},
			"the git repository DIR is not on a branch (detached head)",
			"switch to the branch to merge into: git switch main"},
		{"merge", func(t *testing.T,
			dir string) {
			diverged(t, dir)
			gitTry(t, dir, "merge", "other")
		},
			"a merge is in progress in DIR", "finish it, or abort it: git merge --abort"},
		{"rebase", func(t *testing.T,
			dir string) {
			diverged(t, dir)
			gitTry(t, dir, "rebase", "other")
		},
			"a rebase is in progress in DIR", "finish it, or abort it: git rebase --abort"},
		{"cherry-pick", func(t *testing.T,
			dir string) {
			diverged(t, dir)
			gitTry(t, dir, "cherry-pick", "other")
		},
			"a cherry-pick is in progress in DIR",
			"finish it, or abort it: git cherry-pick --abort"},
		{"revert", func(t *testing.T, dir string) {
			diverged(t, dir)
			gitTry(t, dir, "revert", "--no-edit", "HEAD^", "HEAD")
		},
			"a revert is in progress in DIR", "finish it, or abort it: git revert --abort"},
		{"changed", func(t *testing.T, dir string) {
			committed(t, dir)
			write(t, dir, map[string]string{"a": "2", "new": "x"})
		},
			"there are uncommitted changes in DIR: a", "commit them: agents start from the last commit, and do not see them"},
		{"staged", func(t *testing.T, dir string) {
			committed(t, dir)
			write(t, dir, map[string]string{"1": "x", "2 x": "x", "3": "x", "4": "x", "5": "x",
				"6": "x", "b": ""})
			gitRun(t, dir, "add", "-A")
		}, "there are uncommitted changes in DIR: 1, 2 x, 3, 4, 5 and 2 more",
			"commit them: agents start from the last commit, and do not see them"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if tt.name != "no git" { // that case changes the environment
				t.Parallel()
			}
			dir := newDir(t)
			tt.prepare(t, dir)
			_, err := Find(t.Context(), dir, filepath.Join(dir, "trees"))
			mustRefuse(t, err, strings.ReplaceAll(tt.text, "DIR", dir),
				strings.ReplaceAll(tt.hint, "DIR", dir))
			if _, err := os.Stat(filepath.Join(dir, "trees")); err == nil {
				t.Error("the folder was created anyway")
			}
		})
	}
}

func TestFind(t *testing.T) {
	t.Parallel()
	k := newKit(t, map[string]string{"a": "1\n", "sub/b": "1\n"})
	write(t, k.dir, map[string]string{"untracked": "x"})
	repo, err := Find(t.Context(), filepath.Join(k.dir, "sub"),
		filepath.Join(k.dir, ".box", "trees"))
	must.Succeed(t, err)
	if repo.Root != k.dir || repo.Base != "main" {
		t.Errorf("found %s on %s", repo.Root, repo.Base)
	}
	if _, err := repo.Open(t.Context(), "T1"); err != nil {
		t.Error(err)
	}
	if out := gitRun(t, k.dir, "status", "--porcelain"); out != "?? untracked" {
		t.Errorf("git does not ignore the worktrees: %s", out)
	}
}

// Variables that point git to another repository, hooks and signatures are ignored.
func TestGitEnvironmentIsIgnored(t *testing.T) {
	k := newKit(t, map[string]string{"a": "1\n"})
	gitRun(t, k.dir, "config", "--remove-section", "user")
	t.Setenv("HOME", t.TempDir())
	t.Setenv("XDG_CONFIG_HOME", t.TempDir())
	t.Setenv("GIT_DIR", filepath.Join(t.TempDir(), "gone"))
	t.Setenv("GIT_INDEX_FILE", filepath.Join(t.TempDir(), "gone"))
	k.find()
	os.Unsetenv("GIT_DIR")
	os.Unsetenv("GIT_INDEX_FILE")
	gitRun(t, k.dir, "config", "commit.gpgsign", "true")
	write(t, k.dir, map[string]string{".git/hooks/pre-commit": "#!/bin/sh\nexit 1\n",
		".git/hooks/reference-transaction": "#!/bin/sh\nexit 1\n"})
	for _, hook := range []string{"pre-commit", "reference-transaction"} {
		must.Succeed(t, os.Chmod(filepath.Join(k.dir, ".git/hooks", hook), 0o700))
	}
	tree := k.work("T1", map[string]string{"a": "2\n"})
	if got := gitRun(t, tree.Dir, "log", "-1",
		"--format=%an <%ae>"); got != "signalbox <signalbox@localhost>" {
		t.Errorf("committed by %s", got)
	}
	gitRun(t, k.dir, "config", "user.name", "Ada")
	gitRun(t, k.dir, "config", "user.email", "ada@localhost")
	k.find()
	k.work("T1", map[string]string{"a": "3\n"})
	if got := gitRun(t, tree.Dir, "log", "-1", "--format=%an <%ae>"); got != "Ada <ada@localhost>" {
		t.Errorf("committed by %s", got)
	}
}

// The project may be reached through a symbolic link.
func TestFindThroughALink(t *testing.T) {
	t.Parallel()
	k := newKit(t, map[string]string{"a": "1\n"})
	link := filepath.Join(filepath.Dir(k.dir), "link")
	if err := os.Symlink(k.dir, link); err != nil {
		t.Skip(err)
	}
	k.dir, k.folder = link, filepath.Join(link, ".box", "trees")
	k.find()
	k.work("T1", map[string]string{"a": "2\n"})
	before := k.processes.Load()
	k.open("T1")
	if n := k.processes.Load() - before; n > 0 {
		t.Errorf("opening a complete worktree ran git %d times", n)
	}
	if _, err := k.Merge(t.Context(), "T1", "", noCheck); err != nil {
		t.Error(err)
	}
	if out := gitRun(t, k.dir, "status", "--porcelain", "--untracked-files=no"); out != "" {
		t.Error(out)
	}
	if err := k.Close(t.Context(), "T1"); err != nil {
		t.Error(err)
	}
}
