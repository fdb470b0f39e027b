package workspace

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"signalbox/internal/testkit/must"
)

// An agent that replaces the file .git of its worktree cannot make git run commands.
func TestReplacedGitFile(t *testing.T) {
	k := newKit(t, map[string]string{"a.txt": "a\n"})
	tree := k.open("T1")
	stolen := filepath.Join(k.dir, "..", "stolen")
	evil := filepath.Join(tree.Dir, ".evil")
	gitRun(t, k.dir, "init", "--quiet", "--template=", "--bare", evil)
	settings, err := os.OpenFile(filepath.Join(evil, "config"), os.O_APPEND|os.O_WRONLY, 0)
	must.Succeed(t, err)
	settings.WriteString("[core]\nbare = false\n[filter \"x\"]\nclean = \"touch " + stolen +
		"; cat\"\n")
	settings.Close()
	write(t, tree.Dir, map[string]string{".gitattributes": "* filter=x\n", "b.txt": "b\n",
		".git": "gitdir: .evil\n"})
	_, _, err = tree.Save(t.Context(), "mine")
	if err == nil || !strings.Contains(err.Error(), "was replaced, so git is not run there") {
		t.Errorf("saved: %v", err)
	}
	if _, err := os.Stat(stolen); err == nil {
		t.Error("git ran the agent's command")
	}
	if again := k.open("T1"); again.Dir != tree.Dir { // the task can continue
		t.Errorf("opened in %s", again.Dir)
	}
}
