package workspace

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"signalbox"
)

// Keep commits all changes in the tree, untracked files too, but not ignored ones. It returns the commit that the branch is at
// then, and whether there was anything to commit or to bring onto the branch; what an agent committed on the branch itself is
// told by comparing commits.
//
// If the agent left the tree on no branch or another one, its commits are brought onto the task's branch. What cannot be
// brought into order without a choice (a conflict that is not solved, an unfinished rebase, a repository inside the tree) is an
// error that says so, and nothing is lost; Discard brings such a tree back.
func (t *Tree) Keep(ctx context.Context, message string) (commit string, changed bool, err error) {
	if err := t.unhide(ctx); err != nil {
		return "", false, err
	}
	state, err := t.repo.status(ctx, t.Dir, "--untracked-files=all")
	if err != nil {
		return "", false, err
	}
	if err := t.inOrder(state); err != nil {
		return "", false, err
	}
	astray := state.branch != t.Branch
	if astray && state.branch != "" { // what is committed now is not to move another branch
		if _, err := t.repo.git(ctx, t.Dir, "checkout", "--quiet", "--detach"); err != nil {
			return "", false, err
		}
	}
	commit = state.commit
	operation, _ := unfinished(t.gitDir)
	if len(state.files) > 0 || operation != "" {
		changed = true
		if commit, err = t.commitAll(ctx, message); err != nil {
			return "", false, err
		}
	}
	if !astray {
		return commit, changed, nil
	}
	return t.bringBack(ctx, commit)
}

// unhide takes back that files in the tree do not count: an agent may have told git to assume that they are unchanged, or to skip
// them. Those that were skipped and are not there come back.
func (t *Tree) unhide(ctx context.Context) error {
	out, err := t.repo.git(ctx, t.Dir, "ls-files", "-v", "-z")
	if err != nil {
		return err
	}
	var hidden, missing []string
	for entry := range strings.SplitSeq(out, "\x00") {
		mark, name, _ := strings.Cut(entry, " ")
		if mark == "" || mark != "S" && mark == strings.ToUpper(mark) { // a small letter is assumed to be unchanged
			continue
		}
		hidden = append(hidden, name)
		if _, err := os.Lstat(filepath.Join(t.Dir, filepath.FromSlash(name))); err != nil && strings.ToUpper(mark) == "S" {
			missing = append(missing, name)
		}
	}
	if hidden == nil {
		return nil
	}
	list := func(names []string) []byte { return []byte(strings.Join(names, "\x00") + "\x00") }
	if missing != nil {
		_, err := t.repo.run(ctx, call{dir: t.Dir, stdin: list(missing), args: []string{"checkout-index", "--ignore-skip-worktree-bits", "--quiet", "-z", "--stdin"}})
		if err != nil {
			return err
		}
	}
	for _, flag := range []string{"--no-skip-worktree", "--no-assume-unchanged"} { // git takes one at a time
		if _, err := t.repo.run(ctx, call{dir: t.Dir, stdin: list(hidden), args: []string{"update-index", flag, "-z", "--stdin"}}); err != nil {
			return err
		}
	}
	return nil
}

// inOrder refuses a tree that only its agent could bring into order.
func (t *Tree) inOrder(state treeState) error {
	operation, undo := unfinished(t.gitDir)
	inner := slices.IndexFunc(state.files, func(name string) bool { return strings.HasSuffix(name, "/") }) // git looks into other folders
	switch {
	case inner >= 0:
		return refusal(signalbox.CodeConflict, "remove the .git in it, or have it ignored", "the tree of %s has another git repository in it: %s", t.Task, state.files[inner])
	case len(state.unmerged) > 0:
		return refusal(signalbox.CodeConflict, "solve it and commit, or undo it", "the tree of %s has conflicts that are not solved in %s", t.Task, listed(state.unmerged))
	case operation == "rebase":
		return refusal(signalbox.CodeConflict, "finish it, or undo it: "+undo, "the tree of %s is in the middle of a rebase", t.Task)
	case state.commit == "":
		return branchGone(t.Branch)
	}
	return nil
}

// commitAll commits what is there where the head is.
func (t *Tree) commitAll(ctx context.Context, message string) (string, error) {
	if strings.TrimSpace(message) == "" {
		message = "Work on " + t.Task
	}
	if _, err := t.repo.git(ctx, t.Dir, "add", "--all"); err != nil {
		return "", err
	}
	t.repo.step("added")
	// Empty, as when a merge brought nothing new, or when only the time of a file had changed.
	if _, err := t.repo.run(ctx, call{dir: t.Dir, args: []string{"commit", "--quiet", "--no-verify", "--allow-empty", "--cleanup=whitespace", "--file=-"}, stdin: []byte(message)}); err != nil {
		return "", err
	}
	t.repo.step("committed")
	out, err := t.repo.git(ctx, t.Dir, "rev-parse", "HEAD")
	return strings.TrimSpace(out), err
}

// bringBack brings what was committed elsewhere onto the branch, and the tree to it.
func (t *Tree) bringBack(ctx context.Context, commit string) (string, bool, error) {
	found, err := t.repo.refs(ctx, t.Branch)
	if err != nil {
		return "", false, err
	}
	tip := found[t.Branch].commit
	to := commit
	if tip != "" && tip != commit {
		if to, err = t.join(ctx, tip, commit); err != nil {
			return "", false, err
		}
	}
	return to, to != tip, t.move(ctx, moving{From: commit, Branch: tip, To: to})
}

// join returns a commit that has two others in it.
func (t *Tree) join(ctx context.Context, tip, commit string) (string, error) {
	if newer, err := t.repo.ancestor(ctx, tip, commit); newer || err != nil {
		return commit, err
	}
	if older, err := t.repo.ancestor(ctx, commit, tip); older || err != nil {
		return tip, err
	}
	return t.repo.mergeCommit(ctx, tip, commit, "Bring together what was done for "+t.Task+"\n", t.Branch, commit)
}
