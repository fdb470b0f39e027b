package workspace

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"signalbox/internal/testkit/must"
)

// If git fails because another git is creating a worktree, it is retried until the worktree is
// complete or gone.
func TestPartialWorktree(t *testing.T) {
	t.Parallel()
	k := newKit(t, map[string]string{"a": "1\n"})
	half := filepath.Join(k.dir, ".git", "worktrees", "half")
	must.Succeed(t, os.MkdirAll(half, 0o777))
	for name, text := range map[string]string{"commondir": "",
		"gitdir": filepath.Join(k.folder, "half", ".git") + "\n", "HEAD": ""} {
		must.Succeed(t, os.WriteFile(filepath.Join(half, name), []byte(text), 0o666))
	}
	list := call{dir: k.dir, args: []string{"for-each-ref", "--format=%(refname) %(worktreepath)"}}
	_, stderr, err := k.runOnce(t.Context(), list)
	if err == nil || !readPartialWorktree(stderr) {
		t.Fatalf("git printed %q, %v", stderr, err)
	}
	k.lockWait = time.Millisecond
	if _, err := k.run(t.Context(), list); err == nil {
		t.Error("there is no error after the wait")
	}
	k.lockWait = time.Minute
	gone := make(chan error, 1)
	go func() { gone <- os.RemoveAll(half) }()
	if _, err := k.run(t.Context(), list); err != nil {
		t.Error(err)
	}
	if err := <-gone; err != nil {
		t.Error(err)
	}
}

// A lock is not abandoned while a git that is older than the lock is running, unless the lock is
// very old.
func TestLockOfARunningGit(t *testing.T) {
	t.Parallel()
	k := newKit(t, map[string]string{"a": "1\n"})
	git := exec.Command("git", "cat-file", "--batch")
	git.Dir = k.dir
	stdin, err := git.StdinPipe()
	if err == nil {
		err = git.Start()
	}
	must.Succeed(t, err)
	defer git.Wait()
	defer stdin.Close()
	lock := filepath.Join(k.dir, ".git", "refs", "heads", "main.lock")
	write(t, k.dir, map[string]string{".git/refs/heads/main.lock": "x"})
	info, err := os.Stat(lock)
	must.Succeed(t, err)
	for age, want := range map[time.Duration]bool{0: false, youngLock: false, oldLock - 1: false,
		oldLock: true} {
		if got := isAbandoned(lock, info.ModTime().Add(age)); got != want {
			t.Errorf("after %s: abandoned is %v", age, got)
		}
	}
	must.Succeed(t, os.Remove(lock))
}

func TestReadPartialWorktree(t *testing.T) {
	for stderr, want := range map[string]bool{
		"fatal: failed to read /p/.git/worktrees/A/commondir: No such file or directory\n": true,
		"fatal: Invalid path '/p/.git/worktrees/A': No such file or directory\n":           true,
		"fatal: failed to read /p/.git/config\n":                                           false,
		"fatal: not a git repository: /p/.git/worktrees/A\n":                               false,
	} {
		if got := readPartialWorktree(stderr); got != want {
			t.Errorf("%q: %v", stderr, got)
		}
	}
}
