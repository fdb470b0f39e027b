package workspace

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"signalbox"
	"signalbox/internal/git"
)

// The base is the commit that tasks start from and are merged into. Usually that is the base
// branch. But the branch must not move while a person edits files that the new commit changes: the
// next git commit -a would undo the change. Then the base moves ahead in a ref of its own, and the
// branch waits behind it.
//
// Settle makes the branch follow once nothing is in the way. If people have made commits on it
// meanwhile, it joins them to the base first.
const (
	// aheadPrefix is the prefix of the refs of bases whose branches wait.
	aheadPrefix = ownPrefix + "base/"
	// waitPrefix is the prefix of refs that keep the last commit of the branch that the base took
	// into account. If the branch is elsewhere, a person has moved it since.
	waitPrefix = ownPrefix + "waits/"
)

// Behind is why the base branch waits behind the base.
type Behind struct {
	// Branch is the base branch, Ref the ref of the base, and Commit its commit.
	Branch string `json:"branch"`
	Ref    string `json:"ref"`
	Commit string `json:"commit"`
	// Checkout is where a person works on the branch, and Files are those in the way: not
	// committed or, if Conflict is true, in conflict with the base.
	Checkout string   `json:"checkout,omitempty"`
	Files    []string `json:"files,omitempty"`
	Conflict bool     `json:"conflict,omitempty"`
	// Text says all of it: Problem, and Fix, what to do.
	Text    string `json:"text"`
	Problem string `json:"-"`
	Fix     string `json:"-"`

	why, do string
	// first is what must run before git merge, "" if nothing must.
	first string
}

func whileEdited(files []string, dir string) *Behind {
	if len(files) == 0 {
		return nil
	}
	return &Behind{Checkout: dir, Files: files,
		why: fmt.Sprintf("%s in %s has changes that are not committed", listFiles(files), dir),
		do: "commit them (git add, git commit), or put them aside (git stash -u; git stash pop gets " +
			"them back)"}
}

func duringOperation(operation, undo, dir string) *Behind {
	return &Behind{Checkout: dir, why: fmt.Sprintf("a %s is in progress in %s", operation, dir),
		do: "finish it, or abort it: " + undo}
}

func whileLocked(err error) *Behind {
	return &Behind{why: err.Error(),
		do: "wait until that git is done; if no git is running there, remove the file"}
}

// describe sets the texts about a branch that waits.
func (b *Behind) describe(branch, ahead string) {
	b.Branch, b.Ref, b.Commit = branch, aheadPrefix+branch, ahead
	b.Problem = fmt.Sprintf("the branch %s waits, because %s", branch, b.why)
	b.Fix = fmt.Sprintf("%s. Merged work is in %s; then %s follows it at the next step of a run, "+
		"or with: %sgit merge %s", b.do, b.Ref, branch, b.first, b.Ref)
	b.Text = b.Problem + ": " + b.Fix
	if b.Conflict {
		b.Problem = fmt.Sprintf("commits on %s conflict with merged work in %s; nothing is lost, and "+
			"the work continues without your commits", branch, listFiles(b.Files))
		b.Fix = fmt.Sprintf("Merge the two: git merge %s, on %s", b.Ref, branch)
		b.Text = b.Problem + ". " + b.Fix
	}
}

// position is where a branch and its base are.
type position struct {
	ref           // of the branch
	ahead  string // the base if the branch waits, otherwise ""
	from   string // see waitPrefix; "" if git was killed before it moved that ref
	branch string
}

// base returns the commit of the base.
func (p position) base() string { return cmp.Or(p.ahead, p.commit) }

func (r *commits) position(ctx context.Context, branch string) (position, error) {
	found, err := r.refs(ctx, branch, aheadPrefix+branch, waitPrefix+branch)
	return positionIn(found, branch), err
}

func positionIn(found map[string]ref, branch string) position {
	p := position{found[branch], found[aheadPrefix+branch].commit,
		found[waitPrefix+branch].commit, branch}
	if p.ahead == "" {
		p.from = p.commit
	}
	return p
}

// baseRefs returns the names for refs from which baseOf finds the base.
func (r *runner) baseRefs() []string {
	return []string{r.Base, aheadPrefix + r.Base, waitPrefix + r.Base}
}

// BaseCommit returns the commit of the base.
func (r *commits) BaseCommit(ctx context.Context) (string, error) {
	found, err := r.refs(ctx, r.baseRefs()...)
	if err != nil {
		return "", err
	}
	return r.baseOf(ctx, found)
}

func (r *runner) baseGone() error {
	return signalbox.CodeNotFound.Errorf("restore it: git branch "+r.Base+" COMMIT",
		"the branch %s is gone", r.Base)
}

func (r *commits) baseOf(ctx context.Context, found map[string]ref) (string, error) {
	at := positionIn(found, r.Base)
	if at.commit == "" {
		return "", r.baseGone()
	}
	if settled, err := r.isSettled(ctx, at); settled || err != nil {
		return at.commit, err
	}
	return at.base(), nil
}

// isSettled reports whether a person has brought the branch to the base, or beyond it.
func (r *commits) isSettled(ctx context.Context, at position) (bool, error) {
	if at.ahead == "" || at.ahead == at.commit {
		return true, nil
	}
	if at.commit == at.from { // the base may have lost commits
		return false, nil
	}
	return r.Contains(ctx, at.commit, at.ahead)
}

// moveAhead moves the base without its branch. from is what the base takes into account of the
// branch, "" if that is not known.
func (r *merging) moveAhead(ctx context.Context, held *heldLock, at position, to,
	from string) error {
	r.step("moving ahead")
	if err := checkCommits(to); err != nil {
		return err
	}
	move := func(name, old, to string) string {
		if old == "" {
			return fmt.Sprintf("create %s %s\n", name, to)
		}
		return fmt.Sprintf("update %s %s %s\n", name, to, old)
	}
	changes := move(aheadPrefix+at.branch, at.ahead, to)
	if from != "" {
		changes += fmt.Sprintf("update %s %s\n", waitPrefix+at.branch, from)
	}
	err := r.updateRefs(ctx, held, changes)
	r.step("moved ahead")
	return err
}

// settled removes the refs of a base that the branch has reached.
func (r *merging) settled(ctx context.Context, held *heldLock, at position) error {
	return r.updateRefs(ctx, held, fmt.Sprintf("delete %s %s\ndelete %s\n",
		aheadPrefix+at.branch, at.ahead, waitPrefix+at.branch))
}

// updateRefs changes refs, all or none. It returns errMoved if a ref is not where it should be.
func (r *commits) updateRefs(ctx context.Context, held *heldLock, changes string) error {
	_, err := r.run(ctx, call{dir: r.Root, stdin: []byte(changes), inherit: held,
		args: []string{"update-ref", "--no-deref", "--stdin"}})
	if isMoved(err) {
		return errMoved
	}
	return err
}

// Settle makes the base branch follow the base, if it waits. Commits that people have made on it
// are joined to the base. The result is nil if the branch is the base now, otherwise what is in
// the way.
func (r *merging) Settle(ctx context.Context) (*Behind, error) {
	if at, err := r.position(ctx, r.Base); at.ahead == "" || err != nil {
		return nil, err
	}
	held, err := r.lock(ctx, landingLock)
	if err != nil {
		return nil, err
	}
	defer held.release()
	if err := r.finishLanding(ctx, held); err != nil {
		return nil, err
	}
	at, err := r.position(ctx, r.Base)
	if at.ahead == "" || err != nil {
		return nil, err
	}
	behind, err := r.settle(ctx, held, &at)
	if behind != nil {
		behind.describe(r.Base, at.ahead)
	}
	return behind, err
}

func (r *merging) settle(ctx context.Context, held *heldLock, at *position) (*Behind, error) {
	if at.commit == "" {
		return nil, r.baseGone()
	}
	if settled, err := r.isSettled(ctx, *at); err != nil {
		return nil, err
	} else if settled {
		return nil, r.settled(ctx, held, *at)
	}
	if behind, err := r.join(ctx, held, at); behind != nil || err != nil {
		return behind, err
	}
	if behind, err := r.obstacle(ctx, *at); behind != nil || err != nil {
		return behind, err // without locking the index of a person again and again
	}
	behind, err := r.advance(ctx, held, landing{Task: "earlier work", Base: r.Base,
		Before: at.commit, After: at.ahead}, at.checkout)
	if behind != nil || err != nil {
		return behind, err
	}
	return nil, r.settled(ctx, held, *at)
}

// join adds the commits that a person has made on the branch to the base.
func (r *merging) join(ctx context.Context, held *heldLock, at *position) (*Behind, error) {
	if at.commit == at.from {
		return nil, nil
	}
	to := at.ahead
	if contained, err := r.Contains(ctx, at.ahead, at.commit); err != nil {
		return nil, err
	} else if !contained {
		to, err = r.mergeCommit(ctx, at.ahead, at.commit,
			fmt.Sprintf("Merge commits that were made on %s\n", r.Base), r.Base, r.Base)
		if conflict, found := asConflict(err); found {
			return &Behind{Files: conflict.Files, Checkout: at.checkout, Conflict: true}, nil
		} else if err != nil {
			return nil, err
		}
	}
	if err := r.moveAhead(ctx, held, *at, to, at.commit); err != nil {
		return nil, err
	}
	at.ahead, at.from = to, at.commit
	return nil, nil
}

// obstacle returns what keeps the branch from moving to the base. It changes nothing.
func (r *merging) obstacle(ctx context.Context, at position) (*Behind, error) {
	if behind := r.rebasing(at.branch); behind != nil {
		return behind, nil
	}
	dir := r.personsCheckout(at.branch, at.checkout)
	gitDir, err := r.repository.DirOf(dir)
	if dir == "" || err != nil {
		return nil, nil
	}
	if operation, undo := unfinishedOperation(gitDir); operation != "" {
		return duringOperation(operation, undo, dir), nil
	}
	lock := filepath.Join(gitDir, indexLock)
	if text, err := os.ReadFile(lock); err == nil && string(text) != lockText {
		return whileLocked(lockError(lock, os.ErrExist)), nil
	}
	edited, err := checkout{&r.commits, dir, "", nil}.inTheWay(ctx, at.commit, at.ahead)
	return whileEdited(edited, dir), err
}

// rebasing returns the rebase of a branch that is in progress, which has the head detached. Moving
// the branch would make it fail at its end.
func (r *merging) rebasing(branch string) *Behind {
	for _, gitDir := range append(r.registrations(), r.common) {
		dir := r.Root
		if gitDir != r.common {
			dir = git.WorktreeOf(gitDir)
		}
		if filepath.Dir(dir) == r.folder { // an agent's
			continue
		}
		for _, o := range operations {
			name, err := os.ReadFile(filepath.Join(gitDir, o.file, "head-name"))
			if err == nil && strings.TrimSpace(string(name)) == headsPrefix+branch {
				return duringOperation(o.name, o.undo, dir)
			}
		}
	}
	return nil
}

// FindBehind returns why a branch of the repository around dir waits, or nil. It changes nothing.
// "" means any branch: the one that waits need not be checked out, as during a rebase.
func FindBehind(ctx context.Context, dir, branch string) (*Behind, error) {
	r, done, err := Borrow(ctx, dir)
	if err != nil {
		return nil, err
	}
	defer done()
	branches := []string{branch}
	if branch == "" {
		ahead, err := r.refs(ctx, strings.TrimSuffix(aheadPrefix, "/"))
		if err != nil {
			return nil, err
		}
		branches = slices.Sorted(maps.Keys(ahead))
	}
	for _, branch := range branches {
		branch = strings.TrimPrefix(branch, aheadPrefix)
		if behind, err := r.findBehind(ctx, branch); behind != nil || err != nil {
			return behind, err
		}
	}
	return nil, nil
}

func (r *merging) findBehind(ctx context.Context, branch string) (*Behind, error) {
	at, err := r.position(ctx, branch)
	if err != nil || at.commit == "" {
		return nil, err
	}
	if settled, err := r.isSettled(ctx, at); settled || err != nil {
		return nil, err
	}
	behind, err := r.wait(ctx, at)
	if err == nil {
		behind.describe(branch, at.ahead)
	}
	return behind, err
}

// wait returns why the branch waits.
func (r *merging) wait(ctx context.Context, at position) (*Behind, error) {
	if at.commit != at.from {
		_, err := r.mergeTrees(ctx, at.ahead, at.commit, at.branch, at.branch)
		if conflict, found := asConflict(err); found {
			return &Behind{Files: conflict.Files, Checkout: at.checkout, Conflict: true}, nil
		} else if err != nil {
			return nil, err
		}
	}
	behind, err := r.obstacle(ctx, at)
	if behind == nil {
		behind = &Behind{why: "a run moves it at its next step",
			do: "continue the run if none is active"}
		if at.checkout == "" { // git merge would change another branch
			behind.first = "git switch " + at.branch + " && "
		}
	}
	return behind, err
}

// isMoved reports whether git failed because a ref was not where it should be.
func isMoved(err error) bool {
	return stderrHas(err, "but expected", "reference already exists",
		"unable to resolve reference")
}
