// Package workspace gives every task a git worktree and a branch of its own, and merges branches into base.
//
// It uses the git program, 2.39 or later, without hooks and signatures. All work of a task is on the branch signalbox/TASK,
// checked out in FOLDER/TASK. Different tasks may be used by different goroutines and processes at once; for one task, and for
// its agent, the caller makes sure (by a lease) that there is one user at a time.
//
// Nothing half-merged is ever left. A merge is made, and looked at by the checks, where nobody else looks; then the ref of base
// is moved by compare-and-swap, which is the instant at which it counts; then the checkout of base, if there is one, is
// brought along. That last step is announced in a file, FOLDER/.landing, before the ref moves: whoever comes after a kill
// finishes it. While it lasts we hold index.lock in that checkout, as git does, so nobody can commit a half-moved index there.
// A file that somebody edited there meanwhile is left as it is and named in a warning. In the same way a tree that is being
// moved has the file signalbox-moving in its git folder, and Open finishes the move.
//
// Locks that a killed git left on refs and on our trees are removed, see abandoned; an index.lock that others left in their own
// checkout is not ours to judge: it is an error with a hint.
//
// What it does not do: submodules are not fetched. Their folders are empty in a task's tree, and the commit that is recorded for
// them stays unless an agent changes it. Objects are as durable as git's core.fsync makes them.
//
// Worktrees share refs, so an agent can move base itself, with git update-ref or by checking it out where nobody has it. A merge
// under way notices, and starts over from what it finds; what an agent put on base without asking is not taken back.
package workspace

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"time"

	"signalbox"
	"signalbox/internal/durable"
)

// Repo is the git repository that the work happens in.
type Repo struct {
	// Root is the worktree that Find was asked for.
	Root string
	// Base is the branch that work is merged into, such as main.
	Base string

	folder    string   // where the trees are
	common    string   // the git folder that all worktrees share
	program   string   // git
	identity  []string // settings for a repository that has none
	patience  time.Duration
	processes atomic.Int64      // how many gits were started
	step      func(name string) // tells tests how far it is
}

const branchPrefix = "signalbox/"

// Find looks at the repository around dir and refuses one that cannot be worked in, saying what to do. Trees will be kept in
// folder, which Find makes. What a killed merge left undone in the checkout of base it finishes first.
func Find(ctx context.Context, dir, folder string) (*Repo, error) {
	program, err := exec.LookPath("git")
	if err != nil {
		return nil, refusal(signalbox.CodeFailed, "install git, or write workspace: shared in signalbox.yaml", "git is not installed")
	}
	r := &Repo{program: program, patience: 5 * time.Second, step: func(string) {}}
	if r.folder, err = filepath.Abs(folder); err != nil {
		return nil, err
	}
	gitDir, err := r.locate(ctx, dir)
	if err != nil {
		return nil, err
	}
	if err := r.readIdentity(ctx); err != nil {
		return nil, err
	}
	landing := (*hold)(nil)
	if _, err := os.Stat(r.folder); err == nil { // otherwise nothing was ever merged
		r.resolveFolder()
		if landing, err = r.lock(ctx, landingLock); err != nil {
			return nil, err
		}
		defer landing.release()
		if _, err := r.recover(ctx, landing); err != nil {
			return nil, err
		}
	}
	if err := r.inspect(ctx, gitDir); err != nil {
		return nil, err
	}
	return r, r.makeFolder()
}

func refusal(code signalbox.Code, hint, format string, args ...any) error {
	return &signalbox.Error{Code: code, Err: fmt.Errorf(format, args...), Hint: hint}
}

// locate finds the worktree and its git folder.
func (r *Repo) locate(ctx context.Context, dir string) (gitDir string, err error) {
	out, err := r.git(ctx, dir, "rev-parse", "--is-bare-repository", "--absolute-git-dir", "--git-common-dir", "--show-toplevel")
	lines := strings.Split(strings.TrimRight(out, "\n"), "\n")
	switch {
	case said(err, "dubious ownership"):
		return "", refusal(signalbox.CodeFailed, "if you trust it: git config --global --add safe.directory "+dir,
			"the git repository around %s belongs to another user", dir)
	case err == nil && len(lines) == 4:
		r.Root = filepath.FromSlash(lines[3])
		r.common = filepath.FromSlash(lines[2])
		if !filepath.IsAbs(r.common) {
			r.common = filepath.Join(dir, r.common)
		}
		if r.common, err = filepath.EvalSymlinks(r.common); err == nil { // as git names it in the trees
			r.common, err = filepath.Abs(r.common)
		}
		if err != nil {
			return "", err
		}
		return filepath.FromSlash(lines[1]), nil
	case lines[0] == "true":
		return "", refusal(signalbox.CodeFailed, "clone it, and work in the clone", "%s is a bare git repository, without files to work on", dir)
	case status(err) == 128 && lines[0] == "":
		return "", refusal(signalbox.CodeFailed,
			"run git init and make a first commit, or write workspace: shared in signalbox.yaml", "%s is not in a git repository", dir)
	case status(err) == 128:
		return "", refusal(signalbox.CodeFailed, "work in the folder that holds it", "%s is inside git's own folder", dir)
	default:
		return "", err
	}
}

func (r *Repo) readIdentity(ctx context.Context) error {
	out, err := r.git(ctx, r.Root, "config", "--get-regexp", `^user\.(name|email)$`)
	if err != nil && status(err) != 1 {
		return err
	}
	if !strings.Contains(out, "user.name ") || !strings.Contains(out, "user.email ") {
		r.identity = []string{"-c", "user.name=signalbox", "-c", "user.email=signalbox@localhost"}
	}
	return nil
}

// operations are the files in a git folder that tell of something unfinished.
var operations = []struct{ file, name, undo string }{
	{"rebase-merge", "rebase", "git rebase --abort"},
	{"rebase-apply", "rebase", "git rebase --abort"},
	{"MERGE_HEAD", "merge", "git merge --abort"},
	{"CHERRY_PICK_HEAD", "cherry-pick", "git cherry-pick --abort"},
	{"REVERT_HEAD", "revert", "git revert --abort"},
}

// unfinished returns what is under way in a git folder, "" if nothing is, and the command that ends it.
func unfinished(gitDir string) (name, undo string) {
	for _, o := range operations {
		if _, err := os.Lstat(filepath.Join(gitDir, o.file)); err == nil {
			return o.name, o.undo
		}
	}
	return "", ""
}

const filesNamed = 5

// inspect refuses a worktree that is not ready for work, and learns base.
func (r *Repo) inspect(ctx context.Context, gitDir string) error {
	state, err := r.status(ctx, r.Root, "--untracked-files=no", "--ignore-submodules=all")
	if err != nil {
		return err
	}
	operation, undo := unfinished(gitDir)
	rebasing := operation == "rebase" // which detaches the head
	switch {
	case state.commit == "":
		return refusal(signalbox.CodeFailed, "make a first commit: git commit --allow-empty -m start", "the git repository %s has no commit yet", r.Root)
	case state.branch == "" && !rebasing:
		return refusal(signalbox.CodeFailed, "switch to the branch that work is to be merged into: git switch main",
			"the git repository %s is on no branch (detached head)", r.Root)
	case operation != "":
		return refusal(signalbox.CodeFailed, "finish it, or undo it: "+undo, "a %s is in progress in %s", operation, r.Root)
	case len(state.files) > 0:
		return refusal(signalbox.CodeFailed, "commit them, or put them away: git stash", "there are uncommitted changes in %s: %s", r.Root, listed(state.files))
	}
	r.Base = state.branch
	return nil
}

// listed names a few files.
func listed(files []string) string {
	if len(files) <= filesNamed {
		return strings.Join(files, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(files[:filesNamed], ", "), len(files)-filesNamed)
}

// treeState is what git status says of a worktree.
type treeState struct {
	commit   string   // "" before the first
	branch   string   // "" if the head is detached
	files    []string // changed, staged, untracked
	unmerged []string // of files, those in conflict
}

func (r *Repo) status(ctx context.Context, dir string, args ...string) (treeState, error) {
	out, err := r.git(ctx, dir, append([]string{"status", "--porcelain=v2", "--branch", "--no-renames", "-z"}, args...)...)
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
		}
	}
	return s, err
}

// field returns what comes after n spaces.
func field(line string, n int) string {
	parts := strings.SplitN(line, " ", n+1)
	return parts[len(parts)-1]
}

func (r *Repo) resolveFolder() {
	if resolved, err := filepath.EvalSymlinks(r.folder); err == nil {
		r.folder = resolved // as git names it
	}
}

// makeFolder makes the folder for the trees, which git is to ignore if it is inside the repository.
func (r *Repo) makeFolder() error {
	if err := os.MkdirAll(r.folder, 0o700); err != nil {
		return err
	}
	r.resolveFolder()
	err := durable.Create(filepath.Join(r.folder, ".gitignore"), []byte("*\n"), 0o600)
	if errors.Is(err, fs.ErrExist) {
		return nil
	}
	return err
}

// ref is a branch as git knows it.
type ref struct {
	commit   string // "" if there is no such branch
	checkout string // the worktree that has it checked out, "" if none has
}

// refs looks branches up, at one instant.
func (r *Repo) refs(ctx context.Context, branches ...string) (map[string]ref, error) {
	args := []string{"for-each-ref", "--format=%(objectname) %(refname)%00%(worktreepath)%00"}
	for _, branch := range branches {
		args = append(args, headsPrefix+branch)
	}
	out, err := r.git(ctx, r.Root, args...)
	if err != nil {
		return nil, err
	}
	found := map[string]ref{}
	fields := strings.Split(out, "\x00")
	for i := 0; i+1 < len(fields); i += 2 {
		commit, name, _ := strings.Cut(strings.TrimSpace(fields[i]), " ")
		found[strings.TrimPrefix(name, headsPrefix)] = ref{commit, filepath.FromSlash(fields[i+1])}
	}
	return found, nil
}

const headsPrefix = "refs/heads/"

// BaseCommit returns the commit that base is at.
func (r *Repo) BaseCommit(ctx context.Context) (string, error) {
	found, err := r.refs(ctx, r.Base)
	if err != nil {
		return "", err
	}
	return r.baseOf(found)
}

func (r *Repo) baseOf(found map[string]ref) (string, error) {
	if found[r.Base].commit == "" {
		return "", refusal(signalbox.CodeNotFound, "make it again: git branch "+r.Base+" COMMIT", "the branch %s is gone", r.Base)
	}
	return found[r.Base].commit, nil
}

// ancestor tells whether everything in commit is in of too.
func (r *Repo) ancestor(ctx context.Context, commit, of string) (bool, error) {
	_, err := r.git(ctx, r.Root, "merge-base", "--is-ancestor", commit, of)
	if status(err) == 1 {
		return false, nil
	}
	return err == nil, err
}

// moveRef moves a branch from one commit to another, unless it is elsewhere by now: then it returns errMoved. An empty commit
// stands for no such branch.
func (r *Repo) moveRef(ctx context.Context, carry *hold, branch, to, from, reason string) error {
	old := from
	if old == "" {
		old = strings.Repeat("0", len(to))
	}
	_, err := r.run(ctx, call{dir: r.Root, args: []string{"update-ref", "-m", reason, headsPrefix + branch, to, old}, carry: carry})
	if said(err, "but expected", "reference already exists", "unable to resolve reference") {
		return errMoved
	}
	return err
}

var errMoved = errors.New("the branch was moved by somebody else")
