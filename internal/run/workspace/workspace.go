// Package workspace gives every task a git worktree and a branch of its own, and merges branches
// into the base branch.
//
// It runs the git program, 2.39 or later, through package git, which keeps git from running
// commands that an agent named somewhere in the repository. Git must not look into submodules and
// nested repositories, because it would start another git there.
//
// The work of a task is on the branch signalbox/TASK, checked out in FOLDER/TASK. Several
// goroutines and processes may use different tasks at once. For one task the caller makes sure,
// with a lease, that there is only one user at a time.
//
// Worktrees share refs, so an agent, or a process that it left behind, can move any branch at any
// time. Therefore what matters is named by commit: callers record the commit that Save returns, and
// pass it to Combine, Changed, OpenScratch and Merge. Branches are read only to begin work and to
// report that somebody moved them, and are never written through a symbolic ref.
//
// A merge takes three steps, and is never left half done:
//
//  1. The merge commit of two named commits is created, and checked in a worktree of its own.
//  2. The files in the checkout of the base branch, if there is one, are updated.
//  3. The ref of the base branch moves to it by compare-and-swap. From then on the merge counts.
//
// If a person has edited one of the files, the base moves ahead of its branch instead; see
// behind.go.
//
// Before step 2 the merge is recorded in FOLDER/.landing, so that after a kill the next process can
// move the files back, or finish the index. Until then index.lock is held in that checkout, as git
// does, so that half-updated files cannot be committed. In the same way a worktree that is being
// moved has the file signalbox-moving in its git folder, and Open finishes the move.
//
// Locks that a killed git left on refs and in our worktrees are removed (see isAbandoned). An
// index.lock in a person's own checkout is never removed; it is an error with a hint.
//
// Limits: submodules have the files of their commits, but are not repositories in a task's
// worktree, and the recorded commit stays unless an agent changes it (see submodule.go). Objects
// are as durable as git's core.fsync makes them. If an agent moves the base branch itself, Merge
// refuses until the caller names the new commit; the agent's change is not undone.
package workspace

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"signalbox"
	"signalbox/internal/durable"
	"signalbox/internal/git"
)

// Repo is the git repository of a project. Its parts answer one kind of question each.
type Repo struct {
	*runner
	commits
	edits
	conflicts
	worktrees
	merging
	sharing
	remotes
}

// commits reads commits and creates new ones. It moves the branches of tasks only.
type commits struct{ *runner }

// edits finds out what a commit changes, and whether a task may change it.
type edits struct{ commits }

// conflicts has authors resolve conflicts.
type conflicts struct{ commits }

// worktrees manages the worktrees of tasks and of checks, their branches, and what is noted about
// them.
type worktrees struct{ edits }

// merging moves the base branch and its checkout.
type merging struct{ worktrees }

// sharing exchanges commits with the clones of other machines.
type sharing struct{ commits }

// remotes exchanges branches with repositories that people use.
type remotes struct{ commits }

func newParts(r *runner) *Repo {
	c := commits{r}
	e := edits{c}
	w := worktrees{e}
	return &Repo{r, c, e, conflicts{c}, w, merging{w}, sharing{c}, remotes{c}}
}

// TreesFolder is the folder in a box that contains the worktrees of its tasks.
const TreesFolder = "trees"

const branchPrefix = "signalbox/"

// Branch returns the name of the branch of a task.
func Branch(task string) string { return branchPrefix + task }

// Find returns the repository around dir. If work is not possible in it, the error says what to do.
// Worktrees are kept in folder, which Find creates. If a merge was killed while it updated the
// checkout of the base branch, Find repairs that first.
//
// If files are changed and not committed, other than those in except, which are relative to Root,
// the error is an *UncommittedError.
func Find(ctx context.Context, dir, folder string, except ...string) (*Repo, error) {
	r, err := newRepo(ctx, dir)
	if err != nil {
		return nil, err
	}
	if r.folder, err = filepath.Abs(folder); err != nil {
		return nil, err
	}
	if r.shallow, err = r.readShallow(); err != nil {
		return nil, err
	}
	if _, err := os.Stat(r.folder); err == nil { // otherwise nothing was merged yet
		if err := r.finishLast(ctx); err != nil {
			return nil, err
		}
	} else {
		remove, err := r.useTemporary()
		if err != nil {
			return nil, err
		}
		defer remove()
	}
	if err := r.inspect(ctx, except); err != nil {
		return nil, err
	}
	return r, r.createFolder()
}

// Locate returns the repository around dir, only to ask for its GitFolders. Unlike Find it changes
// nothing, and does not check whether work is possible.
func Locate(ctx context.Context, dir string) (*Repo, error) { return newRepo(ctx, dir) }

// Borrow returns the repository around dir, to read it or to add commits of other machines to it.
// Unlike Find it does not check whether work is possible. The caller calls done after use.
func Borrow(ctx context.Context, dir string) (r *Repo, done func(), err error) {
	if r, err = newRepo(ctx, dir); err == nil {
		done, err = r.useTemporary()
	}
	return r, done, err
}

// BaseBranch returns the Base of the repository around dir. Unlike Find it changes nothing, and
// does not check whether work is possible.
func BaseBranch(ctx context.Context, dir string) (string, error) {
	r, done, err := Borrow(ctx, dir)
	if err != nil {
		return "", err
	}
	defer done()
	return r.branchHere(ctx)
}

// branchHere returns the branch that is checked out.
func (r *runner) branchHere(ctx context.Context) (string, error) {
	branch, err := r.line(ctx, "", "symbolic-ref", "--quiet", "--short", "HEAD")
	if status(err) == 1 {
		return "", r.detached()
	}
	return branch, err
}

// Inspect returns the Base of the repository around dir, or the error that Find returns if work is
// not possible there. Unlike Find it changes nothing.
func Inspect(ctx context.Context, dir string) (base string, err error) {
	r, done, err := Borrow(ctx, dir)
	if err != nil {
		return "", err
	}
	defer done()
	if _, err := r.readShallow(); err != nil {
		return "", err
	}
	err = r.inspect(ctx, nil)
	return r.Base, err
}

// UseBase makes another branch the one that work is made for.
func (r *Repo) UseBase(ctx context.Context, branch string) error {
	found, err := r.refs(ctx, branch)
	if err == nil && found[branch].commit == "" {
		err = signalbox.CodeNotFound.Errorf(
			fmt.Sprintf("create it: git branch %s origin/%s, or set deliver.target to another branch", branch, branch), "there is no branch %s", branch)
	}
	if err == nil {
		r.Base = branch
	}
	return err
}

// newRepo returns the repository around dir, which has no view and no folder yet.
func newRepo(ctx context.Context, dir string) (*Repo, error) {
	r := newParts(&runner{lockWait: oldLock + 2*time.Second, step: func(string) {},
		started: func([]string) {}})
	return r, r.locate(ctx, dir)
}

// useTemporary keeps the view in a temporary folder, which the caller removes.
func (r *runner) useTemporary() (remove func(), err error) {
	dir, err := os.MkdirTemp("", "signalbox-git-")
	if err != nil {
		return nil, err
	}
	remove = func() { os.RemoveAll(dir) }
	if err := r.repository.UseView(dir); err != nil {
		remove()
		return nil, err
	}
	return remove, nil
}

func (r *runner) warn(text string) {
	if r.Warn != nil {
		r.Warn(text)
	}
}

// GitFolders returns the folders of git that the worktrees need: the one that they share, and those
// that it borrows objects from.
func (r *runner) GitFolders() []string {
	folders := []string{r.common}
	for i := 0; i < len(folders) && len(folders) < maxAlternates; i++ {
		objects := folders[i]
		if i == 0 {
			objects = filepath.Join(r.common, "objects")
		}
		// usually there is none
		text, _ := os.ReadFile(filepath.Join(objects, "info", "alternates"))
		for line := range strings.Lines(string(text)) {
			line = strings.TrimSpace(line)
			if line == "" || strings.HasPrefix(line, "#") {
				continue
			}
			if !filepath.IsAbs(line) {
				line = filepath.Join(objects, line)
			}
			if !slices.Contains(folders, line) {
				folders = append(folders, line)
			}
		}
	}
	return folders
}

// maxAlternates bounds how many folders objects are borrowed from.
const maxAlternates = 20

// finishLast repairs the checkout of the base branch if a merge was killed while it updated it.
func (r *Repo) finishLast(ctx context.Context) error {
	if err := r.useFolder(); err != nil {
		return err
	}
	held, err := r.lock(ctx, landingLock)
	if err != nil {
		return err
	}
	defer held.release()
	return r.finishLanding(ctx, held)
}

// locate finds the repository around a folder.
func (r *Repo) locate(ctx context.Context, dir string) error {
	found, err := git.Locate(ctx, dir)
	switch {
	case errors.Is(err, git.ErrNotInstalled):
		return signalbox.CodeFailed.Errorf(
			"install git, or set workspace: shared in signalbox.yaml", "git is not installed")
	case errors.Is(err, git.ErrOwner):
		return signalbox.CodeFailed.Errorf(
			"if you trust it: git config --global --add safe.directory "+dir,
			"the git repository around %s belongs to another user", dir)
	case errors.Is(err, git.ErrBare):
		return signalbox.CodeFailed.Errorf("clone it, and work in the clone",
			"%s is a bare git repository: it has no files to work on", dir)
	case errors.Is(err, git.ErrNotRepository):
		return signalbox.CodeFailed.Errorf(
			"run git init and make a first commit, or set workspace: shared in signalbox.yaml",
			"%s is not in a git repository", dir)
	case errors.Is(err, git.ErrInside):
		return signalbox.CodeFailed.Errorf("work in the folder that contains it",
			"%s is inside git's own folder", dir)
	case err != nil:
		return err
	}
	if !found.Identity {
		found.Settings = append(found.Settings, "user.name=signalbox",
			"user.email=signalbox@localhost")
	}
	r.repository, r.Root, r.common = found, found.Root, found.Common
	return nil
}

// operations are the files in a git folder that mark an unfinished operation.
var operations = []struct{ file, name, undo string }{
	{"rebase-merge", "rebase", "git rebase --abort"},
	{"rebase-apply", "rebase", "git rebase --abort"},
	{"MERGE_HEAD", "merge", "git merge --abort"},
	{"CHERRY_PICK_HEAD", "cherry-pick", "git cherry-pick --abort"},
	{"REVERT_HEAD", "revert", "git revert --abort"},
}

// unfinishedOperation returns the operation in progress in a git folder and the command that aborts
// it, or "".
func unfinishedOperation(gitDir string) (name, undo string) {
	for _, o := range operations {
		if _, err := os.Lstat(filepath.Join(gitDir, o.file)); err == nil {
			return o.name, o.undo
		}
	}
	return "", ""
}

// UncommittedError is an error of Find and Inspect: files are changed and not committed, and
// otherwise work is possible.
type UncommittedError struct {
	Root string
	// Files are relative to Root.
	Files []string
}

func (e *UncommittedError) Error() string {
	return fmt.Sprintf("there are uncommitted changes in %s: %s", e.Root, listFiles(e.Files))
}

// maxListed bounds the files that a message lists.
const maxListed = 5

// inspect refuses a worktree that is not ready for work, and sets Base.
func (r *Repo) inspect(ctx context.Context, except []string) error {
	state, err := r.status(ctx, r.Root, "--untracked-files=no", "--ignore-submodules=all")
	if err != nil {
		return err
	}
	changed := slices.DeleteFunc(state.files,
		func(name string) bool { return slices.Contains(except, name) })
	operation, undo := unfinishedOperation(r.repository.Dir)
	rebasing := operation == "rebase" // a rebase detaches the head
	switch {
	case state.commit == "":
		return signalbox.CodeFailed.Errorf(
			"make a first commit: git commit --allow-empty -m start",
			"the git repository %s has no commit yet", r.Root)
	case state.branch == "" && !rebasing:
		return r.detached()
	case operation != "":
		return signalbox.CodeFailed.Errorf("finish it, or abort it: "+undo,
			"a %s is in progress in %s", operation, r.Root)
	}
	r.Base = state.branch
	if len(changed) > 0 {
		return signalbox.CodeFailed.Errorf(
			"commit them: agents start from the last commit, and do not see them",
			"%w", &UncommittedError{r.Root, changed})
	}
	return r.checkFilters(ctx)
}

func (r *runner) detached() error {
	return signalbox.CodeFailed.Errorf("switch to the branch to merge into: git switch main",
		"the git repository %s is not on a branch (detached head)", r.Root)
}

// checkFilters refuses a repository with files that the user's git converts with a filter, such as
// those of Git LFS and git-crypt. Our git runs no filters, so it would commit such a file as it is
// in the folder: a large file, or a secret.
func (r *Repo) checkFilters(ctx context.Context) error {
	if len(r.repository.Filters) == 0 {
		return nil
	}
	files, err := r.git(ctx, "ls-files", "-z")
	if err != nil {
		return err
	}
	out, err := r.run(ctx,
		call{dir: r.Root, stdin: []byte(files), args: []string{"check-attr", "--cached", "--stdin",
			"-z", "filter"}})
	if err != nil {
		return err
	}
	// path, filter, value
	for fields := strings.Split(out, "\x00"); len(fields) > 3; fields = fields[3:] {
		if slices.Contains(r.repository.Filters, fields[2]) {
			return signalbox.CodeFailed.Errorf(
				"remove the filter from .gitattributes, or set workspace: shared in signalbox.yaml",
				"%s in %s needs the git filter %s; signalbox runs no filters, because an agent could replace them", fields[0], r.Root, fields[2])
		}
	}
	return nil
}

// listFiles formats a list of files, shortened if it is long.
func listFiles(files []string) string {
	if len(files) <= maxListed {
		return strings.Join(files, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(files[:maxListed], ", "),
		len(files)-maxListed)
}

// treeState is the result of git status in a worktree.
type treeState struct {
	commit    string   // "" before the first commit
	branch    string   // "" if the head is detached
	files     []string // changed, staged, untracked
	unmerged  []string // of files, those in conflict
	untracked []string // of files, those that git does not know
}

func (r *runner) status(ctx context.Context, dir string, args ...string) (treeState, error) {
	out, err := r.gitIn(ctx, dir,
		append([]string{"status", "--porcelain=v2", "--branch", "--no-renames", "-z"}, args...)...)
	var s treeState
	for line := range strings.SplitSeq(out, "\x00") {
		kind, rest, _ := strings.Cut(line, " ")
		switch kind {
		case "#":
			name, value, _ := strings.Cut(rest, " ")
			if name == "branch.oid" && value != "(initial)" {
				s.commit = value
			}
			if name == "branch.head" && value != "(detached)" {
				s.branch = value
			}
		case "1": // XY sub mH mI mW hH hI path
			s.files = append(s.files, field(rest, 7))
		case "u": // XY sub m1 m2 m3 mW h1 h2 h3 path
			s.files = append(s.files, field(rest, 9))
			s.unmerged = append(s.unmerged, field(rest, 9))
		case "?":
			s.files = append(s.files, rest)
			s.untracked = append(s.untracked, rest)
		}
	}
	return s, err
}

// field returns the rest of a line after n spaces.
func field(line string, n int) string {
	parts := strings.SplitN(line, " ", n+1)
	return parts[len(parts)-1]
}

// viewFolder is the folder of the view through which git sees the repository.
const viewFolder = ".repository"

// resolveFolder makes the folder of the worktrees what git writes: without links.
func (r *runner) resolveFolder() {
	if resolved, err := filepath.EvalSymlinks(r.folder); err == nil {
		r.folder = resolved
	}
}

// useFolder keeps the view in the folder of the worktrees.
func (r *runner) useFolder() error {
	r.resolveFolder()
	return r.repository.UseView(filepath.Join(r.folder, viewFolder))
}

// createFolder creates the folder for the worktrees. Git ignores it if it is inside the repository.
func (r *Repo) createFolder() error {
	if err := os.MkdirAll(r.folder, 0o700); err != nil {
		return err
	}
	if err := r.useFolder(); err != nil {
		return err
	}
	err := durable.Create(filepath.Join(r.folder, ".gitignore"), []byte("*\n"), 0o600)
	if errors.Is(err, fs.ErrExist) {
		return nil
	}
	return err
}

// ref is the state of a branch.
type ref struct {
	commit   string // "" if there is no such branch
	checkout string // the worktree that has it checked out, or ""
}

// refs looks up branches, and refs below ownPrefix, in one git call, so that the results are
// consistent.
func (r *commits) refs(ctx context.Context, branches ...string) (map[string]ref, error) {
	args := []string{"for-each-ref", "--format=%(objectname) %(refname)%00%(worktreepath)%00"}
	for _, branch := range branches {
		if !strings.HasPrefix(branch, ownPrefix) {
			branch = headsPrefix + branch
		}
		args = append(args, branch)
	}
	out, err := r.git(ctx, args...)
	if err != nil {
		return nil, err
	}
	found := map[string]ref{}
	fields := strings.Split(out, "\x00")
	for i := 0; i+1 < len(fields); i += 2 {
		commit, name, _ := strings.Cut(strings.TrimSpace(fields[i]), " ")
		found[strings.TrimPrefix(name, headsPrefix)] = ref{commit,
			r.repository.Worktree(fields[i+1])}
	}
	return found, nil
}

const (
	headsPrefix = "refs/heads/"
	ownPrefix   = "refs/signalbox/"
)

// ErrNoCommit means that a name is not that of a commit in the repository.
var ErrNoCommit = errors.New("there is no such branch, tag or commit")

// Resolve returns the commit that a branch, a tag, a remote branch such as origin/main, or the id
// of a commit stands for, looked up in this order. If there is none, the error matches ErrNoCommit.
func (r *commits) Resolve(ctx context.Context, name string) (string, error) {
	for _, prefix := range []string{headsPrefix, "refs/tags/", "refs/remotes/", ""} {
		if prefix == "" && !isCommitID(name) && !strings.HasPrefix(name, "refs/") {
			break
		}
		commit, err := r.line(ctx, "", "rev-parse", "--verify", "--quiet", "--end-of-options",
			prefix+name+"^{commit}")
		switch {
		case err == nil:
			return commit, nil
		case status(err) != 1: // not an answer
			return "", err
		}
	}
	return "", fmt.Errorf("%w: %s", ErrNoCommit, name)
}

// isCommitID reports whether a name can be the id of a commit, or enough of its beginning.
func isCommitID(name string) bool {
	return len(name) >= 4 && strings.Trim(strings.ToLower(name), "0123456789abcdef") == ""
}

// maxCommits is how many commits CommitsBetween lists.
const maxCommits = 20

// CommitsBetween returns the commits that to has and from has not, and the reverse, newest first,
// each as its short id and its subject. Lists are cut, and empty if one of the commits is gone.
func (r *commits) CommitsBetween(ctx context.Context, from, to string) (added, dropped []string) {
	list := func(not, of string) []string {
		out, err := r.git(ctx, "log", "--no-show-signature", "--format=%h %s",
			fmt.Sprint("--max-count=", maxCommits), "--end-of-options", "^"+not, of)
		if err != nil || out == "" {
			return nil
		}
		return strings.Split(strings.TrimSuffix(out, "\n"), "\n")
	}
	return list(from, to), list(to, from)
}

// readShallow returns the commits whose parents git ignores, because the repository is a shallow
// clone; "" if it is not.
func (r *runner) readShallow() (string, error) {
	text, err := os.ReadFile(filepath.Join(r.common, "shallow"))
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	return string(text), err
}

// checkHistory refuses to merge if the list of commits without parents has changed: an agent can
// add to it, and what git takes for the common history of two commits decides what a merge
// contains.
func (r *runner) checkHistory() error {
	now, err := r.readShallow()
	if err == nil && now != r.shallow {
		err = signalbox.CodeFailed.Errorf("if you fetched, start signalbox again",
			"%s has changed, so git may see another history",
			filepath.Join(r.common, "shallow"))
	}
	return err
}

// isAncestor reports whether ancestor is commit or an ancestor of it.
func (r *commits) isAncestor(ctx context.Context, ancestor, commit string) (bool, error) {
	_, err := r.git(ctx, "merge-base", "--is-ancestor", "--end-of-options", ancestor,
		commit)
	if status(err) == 1 {
		return false, nil
	}
	return err == nil, err
}

// Contains reports whether a commit has another in its history. It has none that is "" or that git
// has removed.
func (r *commits) Contains(ctx context.Context, commit, ancestor string) (bool, error) {
	if ancestor == "" {
		return false, nil
	}
	if err := checkCommits(commit, ancestor); err != nil {
		return false, err
	}
	if here, err := r.exists(ctx, ancestor, nil); !here {
		return false, err
	}
	return r.isAncestor(ctx, ancestor, commit)
}

// moveRef moves a branch from one commit to another. It returns errMoved if the branch is not at
// from. An empty from means that the branch does not exist. If the branch has become a symbolic
// ref, the branch itself is replaced, not the one that it names.
func (r *commits) moveRef(ctx context.Context, inherit *heldLock, branch, to, from,
	reason string) error {
	if err := checkCommits(to); err != nil {
		return err
	}
	old := from
	if old == "" {
		old = strings.Repeat("0", len(to))
	}
	_, err := r.run(ctx,
		call{dir: r.Root, args: []string{"update-ref", "--no-deref", "-m", reason,
			headsPrefix + branch, to, old}, inherit: inherit})
	if isMoved(err) {
		return errMoved
	}
	return err
}

var errMoved = errors.New("another process moved the branch")
