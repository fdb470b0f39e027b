package workspace

import (
	"os"
	"path/filepath"
	"testing"
	"time"
)

// What git says about a tree that another git has half made is known, and waited for: once it is whole or gone, all is well.
func TestHalfATree(t *testing.T) {
	t.Parallel()
	k := newKit(t, map[string]string{"a": "1\n"})
	half := filepath.Join(k.dir, ".git", "worktrees", "half")
	if err := os.MkdirAll(half, 0o777); err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{"commondir": "", "gitdir": filepath.Join(k.folder, "half", ".git") + "\n", "HEAD": ""} {
		if err := os.WriteFile(filepath.Join(half, name), []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	list := call{dir: k.dir, args: []string{"for-each-ref", "--format=%(refname) %(worktreepath)"}}
	_, stderr, err := k.once(t.Context(), list)
	if err == nil || !readPartialWorktree(stderr) {
		t.Fatalf("git says %q, %v", stderr, err)
	}
	k.lockWait = time.Millisecond
	if _, err := k.run(t.Context(), list); err == nil {
		t.Error("it was not waited for, but no error came")
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
