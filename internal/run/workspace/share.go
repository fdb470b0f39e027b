package workspace

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"signalbox"
	"signalbox/internal/durable"
	"signalbox/internal/git"
)

// What clones on several machines need. The ledger says what the commits of tasks and of the base
// are; here are the means to follow it.

// OpenAt opens the task's worktree and puts its branch on a commit that another machine made.
// Commits and changes that are only here are kept under refs/signalbox/left/.
func (r *Repo) OpenAt(ctx context.Context, task, commit string) (*Tree, error) {
	if err := cmp.Or(signalbox.CheckID(task), checkCommits(commit)); err != nil {
		return nil, err
	}
	t, err := r.open(ctx, task, false, commit)
	if err != nil {
		return nil, err
	}
	here, err := t.saveOrKeep(ctx, "Changes left when the work continued on another machine")
	if err != nil || here == commit {
		return t, err
	}
	known, err := r.isAncestor(ctx, here, commit)
	if err == nil && !known {
		err = r.keepCommit(ctx, task, here)
	}
	if err != nil {
		return nil, err
	}
	return t, t.Discard(ctx, commit)
}

// AddBranch creates the branch of a task at a commit, unless there is one.
func (r *worktrees) AddBranch(ctx context.Context, task, commit string) error {
	if err := cmp.Or(signalbox.CheckID(task), checkCommits(commit)); err != nil {
		return err
	}
	if err := r.moveRef(ctx, nil, branchPrefix+task, commit, "",
		"signalbox: deliver"); !errors.Is(err, errMoved) {
		return err
	}
	return nil
}

// HasTree reports whether there is a worktree of a task here.
func (r *worktrees) HasTree(task string) bool {
	_, err := os.Stat(filepath.Join(r.folder, task))
	return err == nil
}

// authorPrefix is the prefix of files with the epoch of the last lease under which an author worked
// in the worktree of a task here.
const authorPrefix = ".author-"

// LastAuthor returns the epoch that SetLastAuthor recorded for a task, 0 if it recorded none.
func (r *worktrees) LastAuthor(task string) uint64 {
	text, _ := os.ReadFile(r.note(authorPrefix, task))
	epoch, _ := strconv.ParseUint(strings.TrimSpace(string(text)), 10, 64)
	return epoch
}

// SetLastAuthor records that an author works here in the worktree of a task, and the epoch of its
// lease.
func (r *worktrees) SetLastAuthor(task string, epoch uint64) error {
	return durable.Replace(r.note(authorPrefix, task), []byte(strconv.FormatUint(epoch, 10)+"\n"), 0o600)
}

const syncedFile = ".synced"

// Synced returns the commit of the base branch when it was last the same as that of the ledger, ""
// if it never was.
func (r *worktrees) Synced() (string, error) {
	text, err := os.ReadFile(filepath.Join(r.folder, syncedFile))
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	return strings.TrimSpace(string(text)), err
}

// SetSynced records that the base branch here is the same as that of the ledger.
func (r *worktrees) SetSynced(commit string) error {
	return durable.Replace(filepath.Join(r.folder, syncedFile), []byte(commit+"\n"), 0o600)
}

// Join returns a commit that contains two commits of the base branch: that of the ledger, and the
// one here. It moves no branch. If they conflict, the error is a *ConflictError.
func (r *commits) Join(ctx context.Context, ledger, here string) (string, error) {
	if err := cmp.Or(checkCommits(ledger, here), r.checkHistory()); err != nil {
		return "", err
	}
	return r.mergeCommit(ctx, ledger, here, fmt.Sprintf("Merge %s of another machine\n", r.Base),
		r.Base, r.Base)
}

// others is what the base branch gets from the ledger, for people.
const others = "the work of other machines"

// Follow moves the base from one commit to another, which the ledger names. Commits that the new
// one does not contain are kept under refs/signalbox/left/. The error is a *MovedError if the base
// is not at from.
func (r *merging) Follow(ctx context.Context, from, to string) error {
	if err := checkCommits(from, to); err != nil {
		return err
	}
	behind, err := r.isAncestor(ctx, from, to)
	if err == nil && !behind {
		err = r.keepCommit(ctx, "base", from)
	}
	if err != nil {
		return err
	}
	return r.landMerge(ctx, landing{Task: others, Base: r.Base, Before: from, After: to})
}

// SharedRef is the name of a commit in a repository that the clones of a box share.
type SharedRef struct {
	// Remote is an address that Remote returned, and Box the id of the box.
	Remote, Box string
	// Work is the task that the commit belongs to, "" for the base.
	Work, Commit string
}

func (s SharedRef) prefix() string { return "refs/signalbox/" + s.Box + "/" }

func (s SharedRef) name() string {
	if s.Work == "" {
		return s.prefix() + "base/" + s.Commit
	}
	return s.prefix() + "work/" + s.Work + "/" + s.Commit
}

// check validates the parts of the name, which become a refspec.
func (s SharedRef) check() error {
	err := cmp.Or(signalbox.CheckID(s.Box), checkCommits(s.Commit))
	if err == nil && s.Work != "" {
		err = signalbox.CheckID(s.Work)
	}
	return err
}

// checkNotShallow refuses to share the commits of a shallow clone.
func (r *runner) checkNotShallow() error {
	if r.shallow == "" {
		return nil
	}
	return signalbox.CodeFailed.Errorf("get all of it: git fetch --unshallow",
		"%s is a shallow clone, and other machines need the whole history", r.Root)
}

// PushShared puts a commit into the shared repository. It may be repeated. With a commit of the
// base it notes which branch the base is.
func (r *sharing) PushShared(ctx context.Context, s SharedRef) error {
	if err := s.check(); err != nil {
		return err
	}
	if err := r.checkNotShallow(); err != nil {
		return err
	}
	args := []string{"push", "--quiet", "--no-verify", "--no-signed", "--end-of-options", s.Remote, s.Commit + ":" + s.name()}
	if s.Work == "" {
		args = append(args, "+"+s.Commit+":"+s.prefix()+branchPart+r.Base)
	}
	r.step("pushing")
	_, err := r.network(ctx, args...)
	r.step("pushed")
	return err
}

// branchPart is before the name of the base branch in a shared repository.
const branchPart = "branch/"

// Shared is what a shared repository has of a box.
type Shared struct {
	// Branch is the base branch, "" if no machine has published it, and Commit a commit of it.
	Branch, Commit string

	names map[string]string // of refs, with their commits
}

// Has reports whether a commit is there.
func (s *Shared) Has(ref SharedRef) bool { return s.names[ref.name()] == ref.Commit }

// ListShared returns what a shared repository has of a box.
func (r *sharing) ListShared(ctx context.Context, remote, box string) (*Shared, error) {
	if err := signalbox.CheckID(box); err != nil {
		return nil, err
	}
	prefix := SharedRef{Box: box}.prefix()
	out, err := r.network(ctx, "ls-remote", "--quiet", "--end-of-options",
		remote, prefix+"*")
	if err != nil {
		return nil, err
	}
	found := &Shared{names: map[string]string{}}
	for line := range strings.Lines(out) {
		commit, name, _ := strings.Cut(strings.TrimSpace(line), "\t")
		if !strings.HasPrefix(name, prefix) || signalbox.CheckCommit(commit) != nil {
			continue
		}
		if branch, ok := strings.CutPrefix(name, prefix+branchPart); ok {
			found.Branch, found.Commit = branch, commit
			continue
		}
		found.names[name] = commit
	}
	return found, nil
}

// fsck makes git check what it fetches; see strict.
var fsck = []string{"GIT_CONFIG_COUNT=4", "GIT_CONFIG_KEY_0=fetch.fsckObjects",
	"GIT_CONFIG_VALUE_0=true", "GIT_CONFIG_KEY_1=fetch.fsck.badTimezone",
	"GIT_CONFIG_VALUE_1=ignore",
	"GIT_CONFIG_KEY_2=fetch.fsck.missingSpaceBeforeDate", "GIT_CONFIG_VALUE_2=ignore",
	"GIT_CONFIG_KEY_3=fetch.fsck.zeroPaddedFilemode", "GIT_CONFIG_VALUE_3=ignore"}

// FetchShared gets a commit from the shared repository.
func (r *sharing) FetchShared(ctx context.Context, s SharedRef) error {
	if err := s.check(); err != nil {
		return err
	}
	err := r.fetch(ctx, fsck, s.Remote, s.name())
	if stderrHas(err, "couldn't find remote ref") {
		return signalbox.CodeNotFound.Errorf("is workspace.remote the same on all machines?",
			"the commit %.12s is not in the shared repository", s.Commit)
	}
	if err != nil {
		return err
	}
	if has, err := r.Has(ctx, s.Commit); err != nil {
		return err
	} else if !has {
		return fmt.Errorf("the shared repository has another commit under the name of %.12s",
			s.Commit)
	}
	return r.KeepShared(ctx, s.Commit)
}

// PruneShared removes from the shared repository the commits of work that is completed, and those
// of the base that the commit base contains.
func (r *sharing) PruneShared(ctx context.Context, remote, box, base string,
	completed func(work string) bool) error {
	if err := checkCommits(base); err != nil {
		return err
	}
	found, err := r.ListShared(ctx, remote, box)
	if err != nil {
		return err
	}
	var old []string
	for name, commit := range found.names {
		rest := strings.TrimPrefix(name, SharedRef{Box: box}.prefix())
		if work, ok := strings.CutPrefix(rest, "work/"); ok {
			if work, _, _ = strings.Cut(work, "/"); completed(work) {
				old = append(old, ":"+name)
			}
			continue
		}
		if contained, err := r.Contains(ctx, base, commit); err != nil {
			return err
		} else if contained && commit != base {
			old = append(old, ":"+name)
		}
	}
	if len(old) == 0 {
		return nil
	}
	_, err = r.network(ctx, append([]string{"push", "--quiet", "--no-verify", "--no-signed",
		"--end-of-options", remote}, old...)...)
	return err
}

// NewClone creates an empty git repository in a new or empty folder, to be filled by ReadBundle or
// FetchShared. sha256 is the format of its commits. The caller calls CheckOut then, and removes the
// folder if that fails.
func NewClone(ctx context.Context, dir string, sha256 bool) (*Repo, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return nil, err
	}
	entries, err := os.ReadDir(dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	if len(entries) > 0 {
		return nil, signalbox.CodeConflict.Errorf("name a folder that does not exist",
			"the folder %s is not empty", dir)
	}
	if err := os.MkdirAll(dir, 0o777); err != nil {
		return nil, err
	}
	if err := git.Init(ctx, dir, sha256); err != nil {
		return nil, err
	}
	r, err := newRepo(ctx, dir)
	if err != nil {
		return nil, err
	}
	r.folder = filepath.Join(r.common, "signalbox-clone")
	return r, r.useFolder()
}

// CheckOut makes a branch of a commit in a repository that NewClone has created, and checks it out.
func (r *Repo) CheckOut(ctx context.Context, branch, commit string) error {
	if err := cmp.Or(checkCommits(commit), signalbox.CheckBranch(branch)); err != nil {
		return err
	}
	if _, err := r.git(ctx, "update-ref", "--no-deref", headsPrefix+branch,
		commit); err != nil {
		return err
	}
	if _, err := r.git(ctx, "symbolic-ref", "HEAD", headsPrefix+branch); err != nil {
		return err
	}
	if _, err := r.git(ctx, "read-tree", "-m", "-u", "--no-recurse-submodules",
		commit); err != nil {
		return err
	}
	return os.RemoveAll(r.folder)
}
