package workspace

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"signalbox/internal/durable"
)

// landing is a merge whose ref is about to move, or has moved, and whose checkout is still to be
// updated.
type landing struct {
	Task, Base    string
	Before, After string
	// Checkout is the worktree that has the base branch checked out, or "".
	Checkout string
}

const landingFile = ".landing"

// land moves the base to a new commit. It returns errMoved, and does nothing, if the base has moved
// since the merge commit was created. If the base branch cannot follow now, the base moves without
// it; Settle says why.
func (r *merging) land(ctx context.Context, l landing) error {
	held, err := r.lock(ctx, landingLock)
	if err != nil {
		return err
	}
	defer held.release()
	if err := r.finishLanding(ctx, held); err != nil {
		return err
	}
	at, err := r.position(ctx, l.Base)
	if err != nil {
		return err
	}
	if settled, err := r.isSettled(ctx, at); err != nil {
		return err
	} else if settled && at.ahead != "" { // by a person
		if err := r.settled(ctx, held, at); err != nil {
			return err
		}
		at.ahead = ""
	}
	if at.base() != l.Before {
		return errMoved
	}
	if at.ahead == "" {
		behind, err := r.advance(ctx, held, l, at.checkout)
		if behind == nil || err != nil {
			return err
		}
	}
	return r.moveAhead(ctx, held, at, l.After, at.from)
}

// advance moves the base branch and its checkout from l.Before to l.After. If something is in the
// way, it changes nothing and returns that.
//
// The files move before the branch does, with the index locked. So at no moment can a person, or a
// crash, leave files that lack what the branch has: committing such files would undo a merge. Until
// the branch has moved, everything can be moved back.
func (r *merging) advance(ctx context.Context, held *heldLock, l landing, checkedOut string) (
	*Behind, error,
) {
	if behind := r.rebasing(l.Base); behind != nil {
		return behind, nil
	}
	if _, err := os.Lstat(filepath.Join(r.folder, landingFile)); err == nil { // see finishLanding
		return &Behind{why: "its checkout is half updated", do: "look at the warnings of the run"}, nil
	}
	l.Checkout = r.personsCheckout(l.Base, checkedOut)
	gitDir, err := r.repository.DirOf(l.Checkout)
	if err != nil {
		l.Checkout = "" // a person deleted the worktree
	}
	if operation, undo := unfinishedOperation(gitDir); l.Checkout != "" && operation != "" {
		return duringOperation(operation, undo, l.Checkout), nil
	}
	r.step("landing")
	if err := r.recordLanding(l); err != nil {
		return nil, err
	}
	r.step("recorded")
	if l.Checkout == "" {
		return nil, errors.Join(r.moveBase(ctx, held, l), r.clearLanding())
	}
	if err := r.lockIndex(ctx, gitDir); errors.Is(err, ErrLocked) {
		return whileLocked(err), r.clearLanding()
	} else if err != nil {
		return nil, errors.Join(err, r.clearLanding())
	}
	defer os.Remove(filepath.Join(gitDir, indexLock))
	r.step("index locked")
	if on, err := r.isOn(ctx, l.Checkout, l.Base); !on || err != nil {
		return &Behind{Checkout: l.Checkout, do: "wait until that is done",
			why: "another branch is being checked out in " + l.Checkout}, errors.Join(err, r.clearLanding())
	}
	return r.moveCheckout(ctx, held, l, gitDir)
}

// isOn reports whether a branch is checked out in a folder. While the index is locked, no git
// can begin to check out another one.
func (r *merging) isOn(ctx context.Context, dir, branch string) (bool, error) {
	head, err := r.gitIn(ctx, dir, "symbolic-ref", "--quiet", "HEAD")
	if status(err) == 1 { // detached
		return false, nil
	}
	return strings.TrimSpace(head) == headsPrefix+branch, err
}

// moveCheckout works on a copy of the index, because the index itself is locked, and then replaces
// the index with the copy.
func (r *merging) moveCheckout(ctx context.Context, held *heldLock, l landing, gitDir string) (
	*Behind, error,
) {
	c, remove, err := r.openCheckout(held, l.Checkout, gitDir)
	if err != nil {
		return nil, errors.Join(err, r.clearLanding())
	}
	defer remove() // does nothing once it is renamed
	r.step("index copied")
	// A cancelled ctx must not stop it halfway.
	ctx = context.WithoutCancel(ctx)
	edited, touched, failed := c.move(ctx, l.Before, l.After)
	if failed == nil && len(edited) == 0 {
		r.step("files moved")
		if failed = r.moveBase(ctx, held, l); failed == nil {
			r.step("ref moved")
			if err := os.Rename(c.index, filepath.Join(gitDir, "index")); err != nil {
				r.warn(halfUpdated(l.Checkout, err))
				return nil, nil
			}
			r.step("checkout moved")
			return nil, r.clearLanding()
		}
	}
	if touched {
		err = r.finishFiles(ctx, held, l.Checkout, gitDir, l.After, l.Before)
	}
	if err != nil {
		r.warn(halfUpdated(l.Checkout, err))
	} else if err := r.clearLanding(); err != nil {
		return nil, err
	}
	switch {
	case len(edited) > 0:
		return whileEdited(edited, l.Checkout), nil
	case errors.Is(failed, errMoved):
		return nil, failed
	}
	return &Behind{Checkout: l.Checkout, do: "repair that",
		why: fmt.Sprintf("the checkout in %s cannot be updated: %v", l.Checkout, failed)}, nil
}

func halfUpdated(dir string, err error) string {
	return fmt.Sprintf("the checkout in %s is half updated; trying again: %v", dir, err)
}

// finishFiles moves the files of a checkout from one commit to another, where some of them, and the
// index, may be at the second one already.
func (r *merging) finishFiles(ctx context.Context, held *heldLock, dir, gitDir, from,
	to string) error {
	c, remove, err := r.openCheckout(held, dir, gitDir)
	if err != nil {
		return err
	}
	defer remove()
	if _, err := c.moveFiles(ctx, from, to, true); err != nil {
		return err
	}
	r.step("files finished")
	return os.Rename(c.index, filepath.Join(gitDir, "index"))
}

// openCheckout returns a checkout with a copy of its index, which remove removes.
func (r *merging) openCheckout(held *heldLock, dir, gitDir string) (
	c checkout, remove func(), err error,
) {
	c = checkout{&r.commits, dir, filepath.Join(gitDir, indexCopy), held}
	if err := os.Remove(c.index + ".lock"); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return c, nil, err
	}
	return c, func() { os.Remove(c.index) }, copyIndex(filepath.Join(gitDir, "index"), c.index)
}

// personsCheckout returns the checkout of the base branch to update. Git names one worktree that is
// on the branch. If that is one of ours, an agent has put it there, and the one that a person uses
// is to be updated nevertheless.
func (r *merging) personsCheckout(branch, dir string) string {
	if dir == "" || filepath.Dir(dir) != r.folder {
		return dir
	}
	gitDir, err := r.repository.DirOf(r.Root)
	if err != nil {
		return ""
	}
	head, err := os.ReadFile(filepath.Join(gitDir, "HEAD"))
	if err != nil || strings.TrimSpace(string(head)) != "ref: "+headsPrefix+branch {
		return ""
	}
	return r.Root
}

// moveBase moves the ref. If git fails, it checks whether the ref has moved anyway: a signal may
// have ended git just afterwards.
func (r *merging) moveBase(ctx context.Context, held *heldLock, l landing) error {
	err := r.moveRef(ctx, held, l.Base, l.After, l.Before, "signalbox: merge "+l.Task)
	if err == nil || errors.Is(err, errMoved) {
		return err
	}
	found, lookErr := r.refs(context.WithoutCancel(ctx), l.Base)
	if lookErr == nil && found[l.Base].commit == l.After {
		return nil
	}
	return err
}

// recordLanding saves what is about to land, so that another process can finish it if this one is
// killed.
func (r *merging) recordLanding(l landing) error {
	return writeJSON(filepath.Join(r.folder, landingFile), l)
}

func (r *merging) clearLanding() error {
	return durable.Remove(filepath.Join(r.folder, landingFile))
}

// finishLanding finishes a landing that a killed process left. The caller holds the landing lock,
// so no living process is at it. If the branch had not moved, its files go back; the next process
// that looks at the branch tries again.
func (r *merging) finishLanding(ctx context.Context, held *heldLock) error {
	var l landing
	if found, err := readJSON(filepath.Join(r.folder, landingFile), &l); err != nil {
		return fmt.Errorf("read %s: %w", landingFile, err)
	} else if !found {
		return nil
	}
	found, err := r.refs(ctx, l.Base)
	if err != nil {
		return err
	}
	base := found[l.Base]
	gitDir, err := r.repository.DirOf(l.Checkout)
	if err == nil {
		err = unlockIndex(gitDir)
	}
	from, to := l.Before, l.After
	if base.commit == l.Before {
		from, to = to, from
	}
	if err != nil || base.commit != to || r.personsCheckout(l.Base, base.checkout) != l.Checkout {
		// A person has moved the branch since. Then the checkout must not be touched.
		return r.clearLanding()
	}
	if err := r.lockIndex(ctx, gitDir); err != nil {
		return err
	}
	defer os.Remove(filepath.Join(gitDir, indexLock))
	ctx = context.WithoutCancel(ctx)
	if err := r.finishFiles(ctx, held, l.Checkout, gitDir, from, to); err != nil {
		// The record stays, so that the next process tries again. The base can move without it.
		r.warn(halfUpdated(l.Checkout, err))
		return nil
	}
	return r.clearLanding()
}

const (
	indexLock = "index.lock" // git's own
	indexCopy = "index.signalbox"
	lockText  = "signalbox is merging\n" // distinguishes our lock from git's
)

// lockIndex locks the index of a checkout against every git. It waits for a lock of another git,
// and never removes it: that git may have an editor open.
func (r *merging) lockIndex(ctx context.Context, gitDir string) error {
	name := filepath.Join(gitDir, indexLock)
	deadline := time.Now().Add(r.lockWait)
	for {
		if err := unlockIndex(gitDir); err != nil {
			return err
		}
		err := durable.Create(name, []byte(lockText), 0o600)
		if !errors.Is(err, fs.ErrExist) {
			return err
		}
		if !time.Now().Before(deadline) {
			return lockError(name, err)
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// unlockIndex removes a lock that a killed signalbox process left. The caller holds the landing
// lock, so that process is gone.
func unlockIndex(gitDir string) error {
	name := filepath.Join(gitDir, indexLock)
	if text, err := os.ReadFile(name); err != nil || string(text) != lockText {
		return nil
	}
	return os.Remove(name)
}

// copyIndex copies an index with its modification time, which git compares with that of the files.
func copyIndex(from, to string) (err error) {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	info, err := in.Stat()
	if err != nil {
		return err
	}
	// it may be a link to another file
	if err := os.Remove(to); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	out, err := os.OpenFile(to, os.O_CREATE|os.O_EXCL|os.O_WRONLY, info.Mode().Perm())
	if err != nil {
		return err
	}
	_, err = io.Copy(out, in)
	return errors.Join(err, out.Close(), os.Chtimes(to, info.ModTime(), info.ModTime()))
}
