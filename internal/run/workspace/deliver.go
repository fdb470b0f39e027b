package workspace

import (
	"cmp"
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"signalbox"
	"signalbox/internal/durable"
)

// deliveredPrefix is the prefix of refs that keep the commits that were delivered.
const deliveredPrefix = "refs/signalbox/delivered/"

// DeliveryCommit returns the commit to deliver for a task: its commit, or one commit with all its
// changes on top of base. It is the same commit each time, so that a delivery can be repeated. It
// stays reachable.
func (r *commits) DeliveryCommit(ctx context.Context, d Delivery) (commit string, err error) {
	if err := cmp.Or(signalbox.CheckID(d.Task), checkCommits(d.Commit)); err != nil {
		return "", err
	}
	commit = d.Commit
	if d.Squash {
		if commit, err = r.commitAt(ctx, d.Commit, withTrailers(d.Message, d.Task, d.Commit),
			d.Commit+"^{tree}", d.Base); err != nil {
			return "", err
		}
	}
	_, err = r.git(ctx, "update-ref", "--no-deref", deliveredPrefix+d.Task, commit)
	return commit, err
}

// Delivery names what to deliver.
type Delivery struct {
	Task string
	// Commit is the task's commit, and Base the one that it was made for.
	Commit, Base string
	// Squash makes one commit of it, with a Message.
	Squash  bool
	Message string
}

// CloseDelivered is Close for a task whose work was delivered on its branch, which stays. If the
// branch is at tip, it moves to the commit that was delivered. Otherwise somebody has moved it
// since, and it is left alone.
func (r *worktrees) CloseDelivered(ctx context.Context, task, tip, commit string) error {
	if err := cmp.Or(signalbox.CheckID(task), checkCommits(commit)); err != nil {
		return err
	}
	if err := r.removeTask(ctx, task); err != nil {
		return err
	}
	branch := branchPrefix + task
	found, err := r.refs(ctx, branch)
	if err != nil || tip == commit || found[branch].commit != tip || found[branch].checkout != "" {
		return err
	}
	if err := r.keepCommit(ctx, task, tip); err != nil {
		return err
	}
	if err := r.moveRef(ctx, nil, branch, commit, tip, "signalbox: deliver"); !errors.Is(err,
		errMoved) {
		return err
	}
	return nil
}

// Remote returns the address of a remote repository that is given by its name or its address. The
// error is a *signalbox.Error.
func (r *remotes) Remote(name string) (string, error) {
	address, known := r.repository.Remotes[name]
	if !known && !strings.ContainsAny(name, `/:\`) {
		return "", signalbox.CodeUsage.Errorf("add it: git remote add "+name+" ADDRESS",
			"there is no remote repository named %s", name)
	}
	if !known {
		address = name
	}
	// ext::COMMAND would run a command
	if address == "" || strings.HasPrefix(address, "-") || strings.Contains(address, "::") {
		return "", signalbox.CodeUsage.Errorf(
			"use an address that begins with https:// or ssh://",
			"signalbox does not push to the address of %s", name)
	}
	// A push to a folder runs the hooks there. Agents may have written the name of a folder into
	// the repository's configuration, so only the configuration of signalbox may name one.
	if isFolder(address) && address != name {
		return "", signalbox.CodeUsage.Errorf(
			"if its hooks may run, set deliver.remote to the folder itself",
			"the remote repository %s is in the folder %s of this machine", name, address)
	}
	return address, nil
}

// isFolder reports whether git takes an address for that of a repository on this machine.
func isFolder(address string) bool {
	if scheme, _, found := strings.Cut(address, "://"); found {
		return strings.EqualFold(scheme, "file")
	}
	host, _, found := strings.Cut(address, ":") // as in git@example.org:shop.git
	return !found || strings.ContainsAny(host, `/\`) || filepath.VolumeName(address) != ""
}

// Push is a branch to push.
type Push struct {
	Task string
	// Remote is an address that Remote returned.
	Remote string
	// Commit is what the branch of the task should be at there, and Last what was pushed before; ""
	// means nothing.
	Commit, Last string
}

// Push moves the branch of a task in a remote repository. It may be repeated. It overwrites only
// what was pushed for this task before, or what the commit contains: if somebody else has moved the
// branch there, the error says so.
func (r *remotes) Push(ctx context.Context, p Push) error {
	if err := signalbox.CheckID(p.Task); err != nil {
		return err
	}
	branch := headsPrefix + branchPrefix + p.Task
	at, err := r.remoteRef(ctx, p.Remote, branch)
	if err != nil || at == p.Commit {
		return err
	}
	if allowed, err := r.mayReplace(ctx, p, at); err != nil {
		return err
	} else if !allowed {
		return movedThere(p.Task, at)
	}
	// If this process is killed, the next one knows what it may find there.
	if err := r.writePushed(p.Task, append(r.pushed(p.Task), at, p.Commit)); err != nil {
		return err
	}
	r.step("pushing")
	_, err = r.network(ctx, "push", "--quiet", "--no-verify", "--no-signed",
		"--force-with-lease="+branch+":"+at, "--end-of-options", p.Remote, p.Commit+":"+branch)
	r.step("pushed")
	if stderrHas(err, "stale info") {
		return movedThere(p.Task, at)
	}
	if err != nil { // perhaps it took place
		return err
	}
	return r.writePushed(p.Task, []string{p.Commit})
}

// mayReplace reports whether the branch of a task in a remote repository, which is at a commit, may
// be moved.
func (r *remotes) mayReplace(ctx context.Context, p Push, at string) (bool, error) {
	if at == "" || at == p.Last || slices.Contains(r.pushed(p.Task), at) {
		return true, nil
	}
	return r.Contains(ctx, p.Commit, at)
}

func movedThere(task, at string) error {
	return signalbox.CodeUsage.Errorf(
		"if it is not needed there, delete it: git push REMOTE --delete "+Branch(task),
		"the branch %s in the remote repository is at %.12s, which signalbox did not push",
		Branch(task), at)
}

// IsOutage reports whether git failed because it could not reach a remote repository.
func IsOutage(err error) bool {
	return stderrHas(err, "Could not resolve host", "Temporary failure in name resolution",
		"Network is unreachable", "No route to host", "Connection refused", "Connection reset",
		"Connection timed out", "Operation timed out", "Failed to connect to",
		"Couldn't connect to", "requested URL returned error: 5",
		"requested URL returned error: 429")
}

// pushedPrefix is the prefix of files with the commits that the branch of a task may be at in the
// remote repository, one on each line: the one that was pushed last, and those that were about to
// be.
const pushedPrefix = ".pushed-"

// pushed returns the commits in the file. Without it, only what Push.Last says is known.
func (r *remotes) pushed(task string) []string {
	text, _ := os.ReadFile(r.note(pushedPrefix, task))
	return strings.Fields(string(text))
}

func (r *remotes) writePushed(task string, commits []string) error {
	slices.Sort(commits)
	commits = slices.DeleteFunc(slices.Compact(commits),
		func(commit string) bool { return commit == "" })
	return durable.Replace(r.note(pushedPrefix, task), []byte(strings.Join(commits, "\n")+"\n"), 0o600)
}

// remoteRef returns the commit of a ref in a remote repository, "" if there is no such ref.
func (r *remotes) remoteRef(ctx context.Context, remote, name string) (string, error) {
	out, err := r.network(ctx, "ls-remote", "--quiet", "--end-of-options",
		remote, name)
	if err != nil {
		return "", err
	}
	for line := range strings.Lines(out) {
		if commit, found, _ := strings.Cut(strings.TrimSpace(line), "\t"); found == name &&
			isCommitID(commit) {
			return commit, nil
		}
	}
	return "", nil
}

// Fetch fetches the base branch of a remote repository, and returns its commit. No branch here
// moves.
func (r *remotes) Fetch(ctx context.Context, remote string) (string, error) {
	commit, err := r.remoteRef(ctx, remote, headsPrefix+r.Base)
	if err != nil {
		return "", err
	}
	if commit == "" {
		return "", signalbox.CodeNotFound.Errorf(
			"push it, or set deliver.target to another branch",
			"the remote repository has no branch %s", r.Base)
	}
	if known, err := r.Contains(ctx, commit, commit); known || err != nil {
		return commit, err
	}
	if err := r.fetch(ctx, nil, remote, headsPrefix+r.Base); err != nil {
		return "", err
	}
	// The branch may have moved in between, but not lost the commit. If it has, the next try finds
	// another one.
	_, err = r.git(ctx, "cat-file", "-e", commit+"^{commit}")
	return commit, err
}

// fetch fetches a ref of a remote repository. env is added to the environment of git.
func (r *runner) fetch(ctx context.Context, env []string, remote, ref string) error {
	_, err := r.run(ctx, call{dir: r.Root, network: true, env: env,
		args: []string{"fetch", "--quiet", "--no-tags", "--no-write-fetch-head",
			"--no-auto-maintenance", "--recurse-submodules=no", "--end-of-options", remote, ref}})
	return err
}

// ErrDiverged means that the base branch has commits that the remote one has not.
var ErrDiverged = errors.New("the branches have diverged")

// FastForward moves the base to a commit that contains it. It does nothing if the base already
// contains the commit. The error is ErrDiverged if neither
// contains the other.
func (r *merging) FastForward(ctx context.Context, task,
	commit string) error {
	held, err := r.lock(ctx, mergeLock)
	if err != nil {
		return err
	}
	defer held.release()
	base, err := r.BaseCommit(ctx)
	if err != nil {
		return err
	}
	if done, err := r.isAncestor(ctx, commit, base); done || err != nil {
		return err
	}
	if behind, err := r.isAncestor(ctx, base, commit); err != nil {
		return err
	} else if !behind {
		return ErrDiverged
	}
	return r.land(ctx, landing{Task: task, Base: r.Base, Before: base, After: commit})
}

// Stack returns a commit that contains the base and other commits, which tasks have delivered. It
// is the same commit each time. If they conflict, the error is a *ConflictError.
func (r *commits) Stack(ctx context.Context, base string, commits []string) (string, error) {
	stack := base
	for _, commit := range commits {
		if contained, err := r.isAncestor(ctx, commit, stack); err != nil {
			return "", err
		} else if contained {
			continue
		}
		if newer, err := r.isAncestor(ctx, stack, commit); err != nil {
			return "", err
		} else if newer {
			stack = commit
			continue
		}
		tree, err := r.mergeTrees(ctx, stack, commit, r.Base, commit)
		if err != nil {
			return "", err
		}
		if stack, err = r.commitAt(ctx, commit, "Combine work that was delivered\n", tree, stack,
			commit); err != nil {
			return "", err
		}
	}
	return stack, nil
}

// commitAt creates a commit with the time of another, so that it is the same commit each time.
func (r *commits) commitAt(ctx context.Context, other, message, tree string,
	parents ...string) (string, error) {
	when, err := r.line(ctx, "", "log", "-1", "--no-show-signature", "--format=@%ct +0000", other)
	if err != nil {
		return "", err
	}
	args := []string{"commit-tree", "-F", "-"}
	for _, parent := range parents {
		args = append(args, "-p", parent)
	}
	out, err := r.run(ctx, call{dir: r.Root, stdin: []byte(message), args: append(args, tree),
		env: []string{"GIT_AUTHOR_DATE=" + when, "GIT_COMMITTER_DATE=" + when}})
	return strings.TrimSpace(out), err
}
