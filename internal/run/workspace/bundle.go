package workspace

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"signalbox"
)

// Bundle writes the commits of the branch that are not on the base branch as a git bundle, to move the work to another machine.
func (t *Tree) Bundle(ctx context.Context, w io.Writer) error {
	branch, notBase := headsPrefix+t.Branch, "^"+headsPrefix+t.repo.Base
	out, err := t.repo.git(ctx, t.repo.Root, "rev-list", "--max-count=1", branch, notBase)
	if err != nil {
		return err
	}
	if out == "" { // git creates no empty bundles; the last commit shows where the branch is
		notBase = "--max-count=1"
	}
	_, err = t.repo.run(ctx, call{dir: t.repo.Root, stdout: w, helpers: true, args: []string{"bundle", "create", "--quiet", "-", branch, notBase}})
	return err
}

// Unbundle moves the task's branch and worktree to the commit in a bundle. Local commits and changes that the bundle does not contain
// are kept under refs/signalbox/left/.
func (r *Repo) Unbundle(ctx context.Context, task string, bundle io.Reader) (*Tree, error) {
	tip, err := r.unpack(ctx, task, bundle)
	if err != nil {
		return nil, err
	}
	found, err := r.refs(ctx, branchPrefix+task)
	if err != nil {
		return nil, err
	}
	if found[branchPrefix+task].commit == "" {
		if err := r.moveRef(ctx, nil, branchPrefix+task, tip, "", "signalbox: from a bundle"); err != nil {
			return nil, err
		}
	}
	t, err := r.Open(ctx, task)
	if err != nil {
		return nil, err
	}
	here, _, err := t.Save(ctx, "Changes left when the work moved to another machine")
	if err != nil { // the changes cannot be committed; keep the commits
		if here, err = t.Commit(ctx); err != nil {
			return nil, err
		}
	}
	if here == tip {
		return t, nil
	}
	known, err := r.isAncestor(ctx, here, tip)
	if err == nil && !known {
		err = r.keepCommit(ctx, task, here)
	}
	if err != nil {
		return nil, err
	}
	return t, t.Discard(ctx, tip)
}

// unpack adds the objects of a bundle to the repository, and returns its commit for the task's branch.
func (r *Repo) unpack(ctx context.Context, task string, bundle io.Reader) (tip string, err error) {
	if err := signalbox.CheckID(task); err != nil {
		return "", err
	}
	file, err := os.CreateTemp("", "signalbox-bundle-") // git reads bundles only from files
	if err != nil {
		return "", err
	}
	defer os.Remove(file.Name())
	_, err = io.Copy(file, bundle)
	if err = errors.Join(err, file.Close()); err != nil {
		return "", err
	}
	out, err := r.run(ctx, call{dir: r.Root, helpers: true, args: []string{"bundle", "unbundle", file.Name()}})
	if stderrHas(err, "lacks these prerequisite commits") {
		return "", refusal(signalbox.CodeConflict, "fetch "+r.Base+" from the machine that did the work, then try again",
			"the bundle of %s needs commits that this repository does not have: %w", task, err)
	}
	if err != nil {
		return "", err
	}
	for line := range strings.Lines(out) {
		if commit, name, _ := strings.Cut(strings.TrimSpace(line), " "); name == headsPrefix+branchPrefix+task {
			return commit, nil
		}
	}
	return "", fmt.Errorf("the bundle does not contain the branch %s%s", branchPrefix, task)
}
