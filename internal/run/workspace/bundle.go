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

// Bundle writes what the branch has and base has not as a git bundle.
func (t *Tree) Bundle(ctx context.Context, w io.Writer) error {
	branch, notBase := headsPrefix+t.Branch, "^"+headsPrefix+t.repo.Base
	out, err := t.repo.git(ctx, t.repo.Root, "rev-list", "--max-count=1", branch, notBase)
	if err != nil {
		return err
	}
	if out == "" { // git makes no empty bundles; the last commit will do to say where the branch is
		notBase = "--max-count=1"
	}
	_, err = t.repo.run(ctx, call{dir: t.repo.Root, to: w, args: []string{"bundle", "create", "--quiet", "-", branch, notBase}})
	return err
}

// Unbundle takes a branch from a bundle, which counts more than what is here: the branch and the tree are brought to it. Commits and
// changes here that the bundle does not know are kept under refs/signalbox/left/.
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
	here, _, err := t.Keep(ctx, "Left here when the work went on elsewhere")
	if err != nil { // in no state that could be committed; what was committed is kept
		if here, err = t.Commit(ctx); err != nil {
			return nil, err
		}
	}
	if here == tip {
		return t, nil
	}
	known, err := r.ancestor(ctx, here, tip)
	if err == nil && !known {
		err = r.putAside(ctx, task, here)
	}
	if err != nil {
		return nil, err
	}
	return t, t.Discard(ctx, tip)
}

// unpack takes the objects of a bundle in, and returns the commit that it has for the task's branch.
func (r *Repo) unpack(ctx context.Context, task string, bundle io.Reader) (tip string, err error) {
	if err := signalbox.CheckID(task); err != nil {
		return "", err
	}
	file, err := os.CreateTemp("", "signalbox-bundle-") // git reads bundles from files only
	if err != nil {
		return "", err
	}
	defer os.Remove(file.Name())
	_, err = io.Copy(file, bundle)
	if err = errors.Join(err, file.Close()); err != nil {
		return "", err
	}
	out, err := r.git(ctx, r.Root, "bundle", "unbundle", file.Name())
	if said(err, "lacks these prerequisite commits") {
		return "", refusal(signalbox.CodeConflict, "fetch "+r.Base+" from where the work was done, then try again",
			"the bundle of %s builds on commits that are not here: %w", task, err)
	}
	if err != nil {
		return "", err
	}
	for line := range strings.Lines(out) {
		if commit, name, _ := strings.Cut(strings.TrimSpace(line), " "); name == headsPrefix+branchPrefix+task {
			return commit, nil
		}
	}
	return "", fmt.Errorf("the bundle does not have the branch %s%s", branchPrefix, task)
}
