//go:build unix

package workspace

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"signalbox/internal/testkit/must"
)

// submoduleKit is a repository with the submodule lib, which has the submodule deep.
type submoduleKit struct {
	*kit
	lib      string // its repository elsewhere
	warnings []string
}

func newSubmoduleKit(t *testing.T) *submoduleKit {
	t.Helper()
	top := newDir(t)
	repository := func(name string, files map[string]string) string {
		dir := filepath.Join(top, name)
		gitRun(t, top, "init", "--quiet", "--template=", "-b", "main", dir)
		write(t, dir, files)
		gitRun(t, dir, "add", "-A")
		gitRun(t, dir, "commit", "--quiet", "-m", "start")
		return dir
	}
	deep := repository("deep", map[string]string{"deep.txt": "deep\n"})
	lib := repository("lib", map[string]string{"lib.txt": "1\n", "run.sh": "#!/bin/sh\n"})
	addSubmodule(t, lib, deep, "deep")
	k := &submoduleKit{kit: newKit(t, map[string]string{"a": "1\n"}), lib: lib}
	addSubmodule(t, k.dir, lib, "vendor/lib")
	gitRun(t, k.dir, "-c", "protocol.file.allow=always", "submodule", "--quiet", "update", "--init",
		"--recursive")
	k.Warn = func(text string) { k.warnings = append(k.warnings, text) }
	return k
}

// addSubmodule adds a submodule under a name that is not its path.
func addSubmodule(t *testing.T, dir, from, path string) {
	t.Helper()
	gitRun(t, dir, "-c", "protocol.file.allow=always", "submodule", "--quiet", "add", "--name",
		"the-"+filepath.Base(path), from, path)
	gitRun(t, dir, "commit", "--quiet", "-m", "add "+path)
}

// bump commits in the repository of lib, and in the project that it uses that commit. fetch brings
// it into the clone of the project.
func (k *submoduleKit) bump(text string, fetch bool) {
	k.t.Helper()
	write(k.t, k.lib, map[string]string{"lib.txt": text, "new.txt": "new\n"})
	gitRun(k.t, k.lib, "add", "-A")
	gitRun(k.t, k.lib, "commit", "--quiet", "-m", "more")
	commit := gitRun(k.t, k.lib, "rev-parse", "HEAD")
	if fetch {
		gitRun(k.t, filepath.Join(k.dir, "vendor/lib"), "-c", "protocol.file.allow=always", "fetch",
			"--quiet")
		gitRun(k.t, filepath.Join(k.dir, "vendor/lib"), "checkout", "--quiet", commit)
	}
	gitRun(k.t, k.dir, "update-index", "--cacheinfo", "160000,"+commit+",vendor/lib")
	gitRun(k.t, k.dir, "commit", "--quiet", "-m", "newer lib")
}

func (k *submoduleKit) wantFiles(dir string, want map[string]string) {
	k.t.Helper()
	got := map[string]string{}
	for name := range want {
		if text, err := os.ReadFile(filepath.Join(dir, name)); err == nil {
			got[name] = string(text)
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		k.t.Errorf("%s (-want +got):\n%s", dir, diff)
	}
}

var submoduleFiles = map[string]string{"vendor/lib/lib.txt": "1\n",
	"vendor/lib/run.sh": "#!/bin/sh\n", "vendor/lib/deep/deep.txt": "deep\n"}

func TestSubmodules(t *testing.T) {
	k := newSubmoduleKit(t)
	ctx := t.Context()
	ran := k.plantInClone()
	tree := k.open("T1")
	k.wantFiles(tree.Dir, submoduleFiles)
	if !isMissing(tree.Dir, "vendor/lib/.git") {
		t.Error("the submodule is a repository")
	}
	link := gitRun(t, k.dir, "rev-parse", "main:vendor/lib")
	// Work in the project can be saved, checked, merged and removed.
	write(t, tree.Dir, map[string]string{"b": "work\n"})
	commit, changed, err := tree.Save(ctx, "work")
	if err != nil || !changed {
		t.Fatal(changed, err)
	}
	if got := gitRun(t, tree.Dir, "diff", "--name-only", "main", commit); got != "b" {
		t.Errorf("the work changes %q", got)
	}
	if out := gitRun(t, tree.Dir, "status", "--porcelain"); out != "" {
		t.Errorf("git status says %q", out)
	}
	scratch, err := k.OpenScratch(ctx, "T1", commit)
	must.Succeed(t, err)
	k.wantFiles(scratch.Dir, submoduleFiles)
	must.Succeed(t, scratch.Close())
	must.Succeed(t, tree.Discard(ctx, commit))
	k.wantFiles(tree.Dir, submoduleFiles)
	merged, err := k.Repo.Merge(ctx, MergeRequest{Task: "T1", Commit: commit, Base: k.base()})
	must.Succeed(t, err)
	if got := gitRun(t, k.dir, "rev-parse", merged.Commit+":vendor/lib"); got != link {
		t.Errorf("the merge names %s, want %s", got, link)
	}
	if err := k.Close(ctx, "T1"); err != nil || !isMissing(k.folder, "T1") {
		t.Errorf("cannot remove the worktree: %v", err)
	}
	if len(k.warnings) > 0 {
		t.Errorf("warnings: %q", k.warnings)
	}
	if _, err := os.Lstat(ran); err == nil {
		t.Error("a command of the submodule ran")
	}
	k.changeSubmodule("T2")
}

// plantInClone plants commands in the clone of the submodule. They create the file ran.
func (k *submoduleKit) plantInClone() (ran string) {
	t := k.t
	t.Helper()
	ran = filepath.Join(newDir(t), "ran")
	script := filepath.Join(newDir(t), "script")
	clone := filepath.Join(k.dir, ".git/modules/the-lib")
	must.Succeed(t, errors.Join(
		os.WriteFile(script, []byte("#!/bin/sh\ntouch "+ran+"\ncat\n"), 0o755),
		os.MkdirAll(filepath.Join(clone, "hooks"), 0o755)))
	for _, hook := range []string{"post-checkout", "post-index-change"} {
		link(t, clone, script, "hooks/"+hook)
	}
	write(t, clone, map[string]string{"info/attributes": "* filter=evil\n"})
	appendTo(t, filepath.Join(clone, "config"), "[core]\nfsmonitor = "+script+"\nsshCommand = "+
		script+"\n[filter \"evil\"]\nsmudge = "+script+"\nclean = "+script+"\n")
	return ran
}

// changeSubmodule checks that what an agent does in a submodule, which cannot be saved, is refused
// and stays in the worktree.
func (k *submoduleKit) changeSubmodule(task string) {
	t := k.t
	t.Helper()
	tree := k.open(task)
	lib := filepath.Join(tree.Dir, "vendor/lib")
	refused := func(want string) {
		t.Helper()
		if _, _, err := tree.Save(t.Context(), "work"); !NeedsAgent(err) || err.Error() != want {
			t.Errorf("saved: %v, want %s", err, want)
		}
	}
	write(t, tree.Dir, map[string]string{"c": "work\n"})
	for name, text := range map[string]string{"lib.txt": "mine\n", "new.txt": "mine\n",
		"deep/deep.txt": "mine\n"} {
		before, _ := os.ReadFile(filepath.Join(lib, name))
		write(t, lib, map[string]string{name: text})
		refused("the work on " + task + " changes files in a submodule, which cannot be saved: " +
			"vendor/lib/" + name)
		write(t, lib, map[string]string{name: string(before)})
	}
	gitRun(t, lib, "init", "--quiet")
	gitRun(t, lib, "commit", "--quiet", "--allow-empty", "-m", "mine")
	refused("the worktree of " + task + " has a repository in the submodule vendor/lib, and " +
		"commits in submodules are not supported")
	must.Succeed(t, os.RemoveAll(filepath.Join(lib, ".git")))
	commit, _, err := tree.Save(t.Context(), "work")
	if err != nil || gitRun(t, tree.Dir, "diff", "--name-only", "main", commit) != "c" {
		t.Errorf("saved %s, %v", commit, err)
	}
	// What a setup command leaves there is no work of the agent.
	before, err := k.Observe(t.Context(), tree.Dir)
	must.Succeed(t, err)
	write(t, lib, map[string]string{"built.o": "x", "lib.txt": "built\n"})
	restored, left, err := k.Undo(t.Context(), before)
	if err != nil || cmp.Diff([][]string{{"vendor/lib/lib.txt"}, {"vendor/lib/built.o"}},
		[][]string{restored, left}) != "" {
		t.Errorf("restored %q, left %q: %v", restored, left, err)
	}
	p, err := tree.Preparation()
	must.Succeed(t, err)
	p.Leave(tree.Dir, left)
	must.Succeed(t, p.Save())
	if _, _, err := tree.Save(t.Context(), "work"); err != nil {
		t.Error(err)
	}
}

// TestSubmoduleFollowsTheBase merges a base into a worktree that names another commit of the
// submodule, then opens one whose commit of it was not fetched, and merges a base that has none.
func TestSubmoduleFollowsTheBase(t *testing.T) {
	k := newSubmoduleKit(t)
	ctx := t.Context()
	tree := k.work("T1", map[string]string{"b": "work\n"})
	k.bump("2\n", true)
	if conflict, err := tree.Refresh(ctx, k.base()); conflict != nil || err != nil {
		t.Fatal(conflict, err)
	}
	k.wantFiles(tree.Dir, map[string]string{"vendor/lib/lib.txt": "2\n",
		"vendor/lib/new.txt": "new\n", "vendor/lib/deep/deep.txt": "deep\n", "b": "work\n"})
	if _, changed, err := tree.Save(ctx, "nothing"); changed || err != nil {
		t.Errorf("changed %t, %v", changed, err)
	}
	k.bump("3\n", false)
	other := k.open("T2")
	if entries, err := os.ReadDir(filepath.Join(other.Dir, "vendor/lib")); err != nil ||
		len(entries) > 0 {
		t.Errorf("the folder has %v, %v", entries, err)
	}
	want := "run git submodule update --init --recursive in " + k.dir
	if len(k.warnings) != 1 ||
		!strings.HasPrefix(k.warnings[0], "the submodule vendor/lib is not in worktrees") ||
		!strings.HasSuffix(k.warnings[0], want) {
		t.Errorf("warnings: %q", k.warnings)
	}
	if _, changed, err := other.Save(ctx, "nothing"); changed || err != nil {
		t.Errorf("changed %t, %v", changed, err)
	}
	write(t, other.Dir, map[string]string{"vendor/lib/mine.txt": "mine\n"})
	if _, _, err := other.Save(ctx, "mine"); !NeedsAgent(err) ||
		!strings.HasSuffix(err.Error(), "which cannot be saved: vendor/lib/mine.txt") {
		t.Errorf("a file in an empty submodule: %v", err)
	}
	gitRun(t, k.dir, "rm", "--quiet", "--force", "vendor/lib")
	gitRun(t, k.dir, "commit", "--quiet", "-m", "no lib")
	if conflict, err := tree.Refresh(ctx, k.base()); conflict != nil || err != nil {
		t.Fatal(conflict, err)
	}
	if !isMissing(tree.Dir, "vendor/lib/lib.txt") {
		t.Error("the files of the submodule are still there")
	}
	if _, changed, err := tree.Save(ctx, "nothing"); changed || err != nil {
		t.Errorf("changed %t, %v", changed, err)
	}
}

// TestSubmoduleInTheCheckout has the clone of a submodule in the checkout, as old versions of git
// did, and not in the git folder.
func TestSubmoduleInTheCheckout(t *testing.T) {
	k := newSubmoduleKit(t)
	lib := filepath.Join(k.dir, "vendor/lib")
	gitRun(t, k.dir, "config", "--file", ".git/modules/the-lib/config", "--unset", "core.worktree")
	write(t, lib, map[string]string{".git": ""})
	must.Succeed(t, os.Rename(filepath.Join(k.dir, ".git/modules/the-lib"),
		filepath.Join(lib, ".git")))
	tree := k.open("T1")
	k.wantFiles(tree.Dir, submoduleFiles)
}
