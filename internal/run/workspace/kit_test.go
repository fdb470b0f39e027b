package workspace

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"signalbox"
	"signalbox/internal/testkit/memory"
	"signalbox/internal/testkit/must"
)

func TestMain(m *testing.M) {
	memory.UseForTempFiles()
	os.Exit(m.Run())
}

// kit is a repository in its own folder, without any user's configuration.
type kit struct {
	t      *testing.T
	dir    string // the main worktree
	folder string
	*Repo
}

func newDir(t *testing.T) string {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	must.Succeed(t, err)
	return dir
}

func newKit(t *testing.T, files map[string]string) *kit {
	t.Helper()
	top := newDir(t)
	k := &kit{t: t, dir: filepath.Join(top, "project"), folder: filepath.Join(top, "trees")}
	gitRun(t, top, "init", "--quiet", "--template=", "-b", "main", k.dir)
	config, err := os.OpenFile(filepath.Join(k.dir, ".git", "config"), os.O_APPEND|os.O_WRONLY, 0)
	must.Succeed(t, err)
	_, err = config.WriteString("[core]\nautocrlf = false\nexcludesFile = " + os.DevNull +
		"\n[user]\nname = somebody\nemail = somebody@localhost\n")
	must.Succeed(t, errors.Join(err, config.Close()))
	write(t, k.dir, files)
	k.commit("start")
	k.find()
	return k
}

func (k *kit) find() {
	k.t.Helper()
	repo, err := Find(k.t.Context(), k.dir, k.folder)
	must.Succeed(k.t, err)
	k.Repo = repo
}

// copied returns a copy of the repository and its worktrees for one case of a table. That takes
// fewer gits than making them again.
func (k *kit) copied(t *testing.T) *kit {
	t.Helper()
	from, to := filepath.Dir(k.dir), newDir(t)
	must.Succeed(t, os.CopyFS(to, os.DirFS(from)))
	c := &kit{t: t, dir: filepath.Join(to, "project"), folder: filepath.Join(to, "trees")}
	worktrees, _ := filepath.Glob(filepath.Join(c.folder, "*", ".git"))
	gitDirs, _ := filepath.Glob(filepath.Join(c.dir, ".git", "worktrees", "*", "gitdir"))
	for _, link := range append(worktrees, gitDirs...) {
		write(t, "", map[string]string{link: strings.ReplaceAll(textOf(t, "", link), from, to)})
	}
	for _, dotGit := range append(worktrees, filepath.Join(c.dir, ".git")) {
		// a worktree may have changes
		gitTry(t, filepath.Dir(dotGit), "update-index", "-q", "--refresh")
	}
	repository := *k.repository
	repository.Root, repository.Dir = c.dir, filepath.Join(c.dir, ".git")
	repository.Common = repository.Dir
	c.Repo = newParts(&runner{Root: c.dir, Base: k.Base, folder: c.folder,
		common: repository.Common, repository: &repository, lockWait: k.lockWait, step: k.step,
		started: k.started})
	must.Succeed(t, c.useFolder())
	return c
}

func (k *kit) commit(message string) string {
	k.t.Helper()
	gitRun(k.t, k.dir, "add", "-A")
	gitRun(k.t, k.dir, "commit", "--quiet", "--allow-empty", "-m", message)
	commit, err := os.ReadFile(filepath.Join(k.dir, ".git", "refs", "heads", "main"))
	must.Succeed(k.t, err)
	return strings.TrimSpace(string(commit))
}

func (k *kit) open(task string) *Tree {
	k.t.Helper()
	tree, err := k.Open(k.t.Context(), task)
	must.Succeed(k.t, err)
	return tree
}

// work opens a task's worktree, writes files there, and saves them.
func (k *kit) work(task string, files map[string]string) *Tree {
	k.t.Helper()
	tree := k.open(task)
	write(k.t, tree.Dir, files)
	if _, changed, err := tree.Save(k.t.Context(), "work on "+task); err != nil || !changed {
		k.t.Fatal(changed, err)
	}
	return tree
}

func (k *kit) base() string {
	k.t.Helper()
	commit, err := k.BaseCommit(k.t.Context())
	must.Succeed(k.t, err)
	return commit
}

// sound checks the invariants between two operations.
func (k *kit) sound() {
	k.t.Helper()
	gitRun(k.t, k.dir, "fsck", "--no-dangling", "--no-progress")
	if out := gitRun(k.t, k.dir, "status", "--porcelain"); out != "" {
		k.t.Errorf("the checkout of base is not clean:\n%s", out)
	}
	for _, name := range []string{indexLock, indexCopy, indexCopy + ".lock"} {
		if _, err := os.Lstat(filepath.Join(k.dir, ".git", name)); err == nil {
			k.t.Errorf("%s was not removed", name)
		}
	}
	if _, err := os.Lstat(filepath.Join(k.folder, landingFile)); err == nil {
		k.t.Error("the landing file was not removed")
	}
}

// settled makes the base branch follow the base. Nothing may be in the way.
func (k *kit) settled() {
	k.t.Helper()
	if behind, err := k.Settle(k.t.Context()); err != nil || behind != nil {
		k.t.Fatalf("the branch waits: %+v, %v", behind, err)
	}
	if left := gitRun(k.t, k.dir, "for-each-ref", aheadPrefix, waitPrefix); left != "" {
		k.t.Fatal(left)
	}
}

// gitRun runs git as a user would, not through the package.
func gitRun(t *testing.T, dir string, args ...string) string {
	t.Helper()
	out, err := gitTry(t, dir, args...)
	if err != nil {
		t.Fatalf("git %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return strings.TrimSpace(out)
}

// gitTry is gitRun for a command that may fail.
func gitTry(t *testing.T, dir string, args ...string) (string, error) {
	t.Helper()
	return gitInput(dir, "", args...)
}

// gitInput is gitTry with an input.
func gitInput(dir, input string, args ...string) (string, error) {
	cmd := exec.Command("git",
		append([]string{"-c", "user.name=somebody", "-c", "user.email=somebody@localhost"},
			args...)...)
	cmd.Dir, cmd.Stdin = dir, strings.NewReader(input)
	cmd.Env = append(os.Environ(), "GIT_CONFIG_NOSYSTEM=1", "GIT_CONFIG_GLOBAL="+os.DevNull)
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// runShell runs a shell command in a folder.
func runShell(t *testing.T, dir, command string) {
	t.Helper()
	cmd := exec.Command("sh", "-ec", command)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "GIT_AUTHOR_NAME=a", "GIT_AUTHOR_EMAIL=a@b",
		"GIT_COMMITTER_NAME=a", "GIT_COMMITTER_EMAIL=a@b")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%s: %v\n%s", command, err, out)
	}
}

// textOf returns the text of a file.
func textOf(t *testing.T, dir, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(dir, name))
	must.Succeed(t, err)
	return string(text)
}

// write writes files. An empty text removes a file.
func write(t *testing.T, dir string, files map[string]string) {
	t.Helper()
	for name, text := range files {
		name = filepath.Join(dir, filepath.FromSlash(name))
		if text == "" {
			must.Succeed(t, os.Remove(name))
			continue
		}
		must.Succeed(t, errors.Join(os.MkdirAll(filepath.Dir(name), 0o700),
			os.WriteFile(name, []byte(text), 0o600)))
	}
}

// read returns all files of a folder except git's.
func read(t *testing.T, dir string) map[string]string {
	t.Helper()
	files := map[string]string{}
	err := filepath.WalkDir(dir, func(name string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if entry.Name() == ".git" {
			if entry.IsDir() {
				return fs.SkipDir
			}
			return nil
		}
		if entry.IsDir() {
			return nil
		}
		text, err := os.ReadFile(name)
		relative, _ := filepath.Rel(dir, name)
		files[filepath.ToSlash(relative)] = string(text)
		return err
	})
	must.Succeed(t, err)
	return files
}

func wantFiles(t *testing.T, dir string, want map[string]string) {
	t.Helper()
	if diff := cmp.Diff(want, read(t, dir)); diff != "" {
		t.Errorf("files in %s (-want +got):\n%s", dir, diff)
	}
}

// trees returns the names of the linked worktrees that git lists.
func (k *kit) trees() (names []string) {
	k.t.Helper()
	for line := range strings.Lines(gitRun(k.t, k.dir, "worktree", "list", "--porcelain")) {
		if dir, found := strings.CutPrefix(strings.TrimSpace(line), "worktree "); found &&
			filepath.FromSlash(dir) != k.dir {
			names = append(names, filepath.Base(dir))
		}
	}
	return names
}

func mustRefuse(t *testing.T, err error, text, hint string) {
	t.Helper()
	refused := (*signalbox.Error)(nil)
	if !errors.As(err, &refused) {
		t.Fatalf("got %v, want a refusal", err)
	}
	if diff := cmp.Diff([]string{text, hint}, []string{refused.Error(), refused.Hint}); diff != "" {
		t.Errorf("refusal (-want +got):\n%s", diff)
	}
}

func noCheck(context.Context, string) error { return nil }

// Merge merges the task's branch as it is now, and starts again if the base branch moves.
func (k *kit) Merge(ctx context.Context, task, message string,
	check func(context.Context, string) error) (Merged, error) {
	return mergeBranch(ctx, k.Repo, task, message, check)
}

func mergeBranch(ctx context.Context, r *Repo, task, message string,
	check func(context.Context, string) error) (Merged, error) {
	for {
		tip, err := r.BranchCommit(ctx, task)
		if err != nil {
			return Merged{}, err
		}
		base, err := r.BaseCommit(ctx)
		if err != nil {
			return Merged{}, err
		}
		merged, err := r.Merge(ctx, MergeRequest{Task: task, Commit: tip, Base: base,
			Message: message, Check: check})
		if moved := (*MovedError)(nil); !errors.As(err, &moved) {
			return merged, err
		}
	}
}

// changed returns the files that the task's branch changes.
func (t *Tree) changed(ctx context.Context) ([]string, error) {
	return t.repo.Changed(ctx, headsPrefix+t.repo.Base, headsPrefix+t.Branch)
}
