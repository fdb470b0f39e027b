package workspace

import (
	"cmp"
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"signalbox"
)

// Save commits all changes in the worktree, including untracked files but not ignored ones. It
// returns the commit of the branch, and whether Save itself committed something or moved the
// branch. (To find what an agent committed on the branch, compare commits.)
//
// If the agent left the worktree on another branch or on none, its commits are merged into the
// task's branch. Some states need a decision: an unresolved conflict, an unfinished rebase, a
// repository inside the worktree. They are errors (see NeedsAgent), and nothing is lost. Discard
// resets such a worktree.
func (t *Tree) Save(ctx context.Context, message string) (commit string, changed bool, err error) {
	submodules, err := t.unhideFiles(ctx)
	if err != nil {
		return "", false, err
	}
	// Git must not look into submodules: it would start another git there, with settings that an
	// agent may have written.
	state, err := t.repo.status(ctx, t.Dir, "--untracked-files=all", "--ignore-submodules=dirty")
	if err != nil {
		return "", false, err
	}
	if err := t.leaveOut(&state); err != nil {
		return "", false, err
	}
	if err := cmp.Or(t.checkState(state),
		t.checkSubmodules(ctx, submodules)); err != nil {
		return "", false, err
	}
	elsewhere := state.branch != t.Branch
	if elsewhere && state.branch != "" { // the commit below must not move another branch
		if _, err := t.repo.gitIn(ctx, t.Dir, "checkout", "--quiet", "--detach"); err != nil {
			return "", false, err
		}
	}
	commit = state.commit
	operation, _ := unfinishedOperation(t.gitDir)
	if len(state.files) > 0 || operation != "" {
		changed = true
		if commit, err = t.commitAll(ctx, state, message); err != nil {
			return "", false, err
		}
		// by compare-and-swap, so that Save fails if another process has moved the branch
		if !elsewhere {
			if err := t.repo.moveRef(ctx, nil, t.Branch, commit, state.commit,
				"signalbox: save"); err != nil {
				return "", false, err
			}
		}
		if err := t.clearOperations(); err != nil {
			return "", false, err
		}
	}
	if !elsewhere {
		return commit, changed, nil
	}
	return t.mergeBack(ctx, commit)
}

// leaveOut removes from the state what was put into the worktree to make it ready, and is not the
// work of an agent.
func (t *Tree) leaveOut(state *treeState) error {
	p, err := t.Preparation()
	if err != nil {
		return err
	}
	leftOut := map[string]bool{}
	for _, name := range state.untracked {
		leftOut[name] = p.excludes(t.Dir, name)
	}
	state.files = slices.DeleteFunc(state.files, func(name string) bool { return leftOut[name] })
	state.untracked = slices.DeleteFunc(state.untracked,
		func(name string) bool { return leftOut[name] })
	return nil
}

// unhideFiles clears the index flags skip-worktree and assume-unchanged, which an agent may have
// set to hide changes from git. Skipped files that are missing are restored. It returns the
// submodules in the index, which the same listing has.
func (t *Tree) unhideFiles(ctx context.Context) (submodules []submodule, err error) {
	out, err := t.repo.gitIn(ctx, t.Dir, "ls-files", "-v", "--stage", "-z")
	if err != nil {
		return nil, err
	}
	var hidden, missing []string
	for entry := range strings.SplitSeq(out, "\x00") {
		about, name, _ := strings.Cut(entry, "\t")
		mark, about, _ := strings.Cut(about, " ")
		if fields := strings.Fields(about); len(fields) == 3 && fields[0] == modeSubmodule {
			submodules = append(submodules, submodule{Path: name, Commit: fields[1]})
		}
		if !isHidden(mark) {
			continue
		}
		hidden = append(hidden, name)
		if _, err := os.Lstat(filepath.Join(t.Dir, filepath.FromSlash(name))); err != nil &&
			strings.ToUpper(mark) == "S" {
			missing = append(missing, name)
		}
	}
	if missing != nil {
		_, err := t.repo.run(ctx, call{dir: t.Dir, stdin: nulTerminated(missing),
			args: []string{"checkout-index", "--ignore-skip-worktree-bits", "--quiet", "-z",
				"--stdin"}})
		if err != nil {
			return nil, err
		}
	}
	return submodules, t.repo.unhide(ctx, t.Dir, nil, hidden)
}

// unhide clears the flags of files in an index.
func (r *runner) unhide(ctx context.Context, dir string, env, files []string) error {
	if files == nil {
		return nil
	}
	// git accepts only one at a time
	for _, flag := range []string{"--no-skip-worktree", "--no-assume-unchanged"} {
		if _, err := r.run(ctx, call{dir: dir, stdin: nulTerminated(files), env: env,
			args: []string{"update-index", flag, "-z", "--stdin"}}); err != nil {
			return err
		}
	}
	return nil
}

// isHidden reports whether a mark of git ls-files -v means that changes to a file are hidden: S
// means skip-worktree, and a lower-case letter assume-unchanged.
func isHidden(mark string) bool {
	return mark != "" && (mark == "S" || mark != strings.ToUpper(mark))
}

// nulTerminated formats names for the option -z of git.
func nulTerminated(names []string) []byte {
	var text []byte
	for _, name := range names {
		text = append(append(text, name...), 0)
	}
	return text
}

// checkState refuses a state of the worktree that only an agent can clean up.
func (t *Tree) checkState(state treeState) error {
	operation, undo := unfinishedOperation(t.gitDir)
	// An author that ran git merge need not run git add: a conflict without markers is resolved.
	unresolved := slices.DeleteFunc(slices.Clone(state.unmerged),
		func(name string) bool { return !t.hasMarkers(name) })
	// git lists a folder only if it is a repository
	inner := slices.IndexFunc(state.files,
		func(name string) bool { return strings.HasSuffix(name, "/") })
	switch {
	case inner >= 0:
		return signalbox.CodeConflict.Errorf("remove the .git in it, or ignore it",
			"the worktree of %s contains another git repository: %s", t.Task, state.files[inner])
	case len(unresolved) > 0:
		return signalbox.CodeConflict.Errorf("remove the conflict markers, or abort",
			"the worktree of %s has unresolved conflicts in %s", t.Task, listFiles(unresolved))
	case operation == "rebase":
		return signalbox.CodeConflict.Errorf("finish it, or abort it: "+undo,
			"the worktree of %s is in the middle of a rebase", t.Task)
	case state.commit == "":
		return branchGone(t.Branch)
	}
	return nil
}

// hasMarkers reports whether a file in the worktree has conflict markers. One that cannot be read
// may have some.
func (t *Tree) hasMarkers(name string) bool {
	if isBehindLink(t.Dir, name) || isMissing(t.Dir, name) {
		return false
	}
	file := filepath.Join(t.Dir, filepath.FromSlash(name))
	if info, err := os.Lstat(file); err != nil || !info.Mode().IsRegular() {
		return err != nil
	}
	text, err := os.ReadFile(file)
	return err != nil || markerPattern().Match(text)
}

// commitAll creates a commit of the files that git status listed, on top of the commit that it
// named. It moves no branch: git commit would move whatever branch HEAD leads to at that moment,
// and the commit that HEAD leads to afterwards may be another one.
func (t *Tree) commitAll(ctx context.Context, state treeState, message string) (string, error) {
	if strings.TrimSpace(message) == "" {
		message = "Work on " + t.Task
	}
	if err := t.repo.stage(ctx, t.Dir, nil, state.files); err != nil {
		return "", err
	}
	t.repo.step("added")
	out, err := t.repo.gitIn(ctx, t.Dir, "write-tree")
	if err != nil {
		return "", err
	}
	args := []string{"commit-tree", "-F", "-", "-p", state.commit}
	if merging, err := os.ReadFile(filepath.Join(t.gitDir, "MERGE_HEAD")); err == nil {
		for _, parent := range strings.Fields(string(merging)) {
			args = append(args, "-p", parent)
		}
	}
	// The commit may be empty, for example if a merge brought nothing new or only the time of a
	// file had changed.
	out, err = t.repo.run(ctx, call{dir: t.Dir, args: append(args, strings.TrimSpace(out)),
		stdin: []byte(strings.TrimSpace(message) + "\n")})
	t.repo.step("committed")
	return strings.TrimSpace(out), err
}

// stage updates the index of a worktree to the files in the folder. It does not use git add, which
// looks into submodules.
func (r *runner) stage(ctx context.Context, dir string, env, files []string) error {
	there, gone := []string(nil), []string(nil)
	for _, name := range files {
		if isBehindLink(dir, name) || isMissing(dir, name) {
			gone = append(gone, name)
		} else {
			there = append(there, name)
		}
	}
	if len(gone) > 0 { // first, because a link may have taken the place of their folder
		args := []string{"update-index", "--force-remove", "-z", "--stdin"}
		if _, err := r.run(ctx, call{dir: dir, stdin: nulTerminated(gone), args: args,
			env: env}); err != nil {
			return err
		}
	}
	args := []string{"update-index", "--add", "--remove", "--replace", "-z", "--stdin"}
	_, err := r.run(ctx, call{dir: dir, stdin: nulTerminated(there), args: args, env: env})
	return err
}

// clearOperations ends unfinished operations, such as a merge, whose result was committed or is
// discarded.
func (t *Tree) clearOperations() error {
	for _, o := range operations {
		if err := os.RemoveAll(filepath.Join(t.gitDir, o.file)); err != nil {
			return err
		}
	}
	return nil
}

// mergeBack merges what was committed elsewhere into the task's branch, and moves the worktree to
// the branch.
func (t *Tree) mergeBack(ctx context.Context, commit string) (string, bool, error) {
	found, err := t.repo.refs(ctx, t.Branch)
	if err != nil {
		return "", false, err
	}
	tip := found[t.Branch].commit
	to := commit
	if tip != "" && tip != commit {
		if to, err = t.joinCommits(ctx, tip, commit); err != nil {
			return "", false, err
		}
	}
	return to, to != tip, t.move(ctx, moving{From: commit, Branch: tip, To: to})
}

// joinCommits returns a commit that contains both.
func (t *Tree) joinCommits(ctx context.Context, tip, commit string) (string, error) {
	if newer, err := t.repo.isAncestor(ctx, tip, commit); newer || err != nil {
		return commit, err
	}
	if older, err := t.repo.isAncestor(ctx, commit, tip); older || err != nil {
		return tip, err
	}
	return t.repo.mergeCommit(ctx, tip, commit, "Combine the work on "+t.Task+"\n", t.Branch,
		commit)
}
