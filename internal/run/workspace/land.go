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

// landWithRetry lands, and retries while another git holds the index of the checkout, for example
// because a commit message is being edited. Between the tries the landing lock is free.
func (r *merging) landWithRetry(ctx context.Context, l landing) (warning string, err error) {
	for range landAttempts {
		if warning, err = r.land(ctx, l); !errors.Is(err, ErrLocked) {
			break
		}
	}
	return warning, err
}

// landAttempts is how often a merge whose checks have passed waits for r.lockWait: a minute in
// total.
const landAttempts = 5

// land moves the base branch and updates its checkout. It returns errMoved, and does nothing, if
// the base branch has moved since the merge commit was created. A warning concerns only the
// checkout; the merge is done.
func (r *merging) land(ctx context.Context, l landing) (warning string, err error) {
	held, err := r.lock(ctx, landingLock)
	if err != nil {
		return "", err
	}
	defer held.release()
	if _, err := r.finishLanding(ctx, held); err != nil {
		return "", err
	}
	found, err := r.refs(ctx, l.Base)
	if err != nil {
		return "", err
	}
	if found[l.Base].commit != l.Before {
		return "", errMoved
	}
	l.Checkout = r.personsCheckout(found[l.Base].checkout)
	gitDir, err := r.repository.DirOf(l.Checkout)
	if err != nil {
		l.Checkout = "" // a person deleted the worktree
	}
	r.step("landing")
	if err := r.recordLanding(l); err != nil {
		return "", err
	}
	r.step("recorded")
	if l.Checkout != "" {
		if err := r.lockIndex(ctx, gitDir); err != nil {
			return "", errors.Join(err, r.clearLanding())
		}
		defer os.Remove(filepath.Join(gitDir, indexLock))
		r.step("index locked")
	}
	if err := r.moveBase(ctx, held, l); err != nil {
		return "", errors.Join(err, r.clearLanding())
	}
	r.step("ref moved")
	// From here on the merge counts, so a cancelled ctx must not keep the files from being updated.
	return r.updateCheckout(context.WithoutCancel(ctx), held, l, false)
}

// personsCheckout returns the checkout of the base branch to update. Git names one worktree that is
// on the branch. If that is one of ours, an agent has put it there, and the one that a person uses
// is to be updated nevertheless.
func (r *merging) personsCheckout(dir string) string {
	if dir == "" || filepath.Dir(dir) != r.folder {
		return dir
	}
	gitDir, err := r.repository.DirOf(r.Root)
	if err != nil {
		return ""
	}
	head, err := os.ReadFile(filepath.Join(gitDir, "HEAD"))
	if err != nil || strings.TrimSpace(string(head)) != "ref: "+headsPrefix+r.Base {
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
// so no living process is at it.
func (r *merging) finishLanding(ctx context.Context, held *heldLock) (warning string, err error) {
	var l landing
	if found, err := readJSON(filepath.Join(r.folder, landingFile), &l); err != nil {
		return "", fmt.Errorf("read %s: %w", landingFile, err)
	} else if !found {
		return "", nil
	}
	found, err := r.refs(ctx, l.Base)
	if err != nil {
		return "", err
	}
	base := found[l.Base]
	gitDir, err := r.repository.DirOf(l.Checkout)
	if err == nil {
		err = unlockIndex(gitDir)
	}
	if err != nil || base.commit != l.After || r.personsCheckout(base.checkout) != l.Checkout {
		// The ref did not move, or a person has moved it since. In both cases the checkout must not
		// be touched.
		return "", r.clearLanding()
	}
	if err := r.lockIndex(ctx, gitDir); err != nil {
		return "", err
	}
	defer os.Remove(filepath.Join(gitDir, indexLock))
	return r.updateCheckout(context.WithoutCancel(ctx), held, l, true)
}

// updateCheckout updates the checkout of the base branch to its new commit. killed reports that an
// earlier update was interrupted.
func (r *merging) updateCheckout(ctx context.Context, held *heldLock, l landing,
	killed bool) (warning string, err error) {
	if l.Checkout == "" {
		return "", r.clearLanding()
	}
	left, err := r.moveCheckout(ctx, held, l, killed)
	if err != nil { // the record stays, so that the next process tries again
		return fmt.Sprintf("%s is merged, but the checkout in %s could not be updated: %v", l.Task,
			l.Checkout, err), nil
	}
	if len(left) > 0 {
		warning = fmt.Sprintf(
			"%s is merged; %s has local changes in %s, which were not touched: see git diff there",
			l.Task, l.Checkout, listFiles(left))
	}
	r.step("checkout moved")
	return warning, r.clearLanding()
}

// moveCheckout works on a copy of the index, because the index itself is locked, and then replaces
// the index with the copy.
func (r *merging) moveCheckout(ctx context.Context, held *heldLock, l landing,
	killed bool) (left []string, err error) {
	gitDir, err := r.repository.DirOf(l.Checkout)
	if err != nil {
		return nil, err
	}
	c := checkout{&r.commits, l.Checkout, filepath.Join(gitDir, indexCopy), held}
	if err := os.Remove(c.index + ".lock"); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	if err := copyIndex(filepath.Join(gitDir, "index"), c.index); err != nil {
		return nil, err
	}
	defer os.Remove(c.index) // does nothing once it is renamed
	r.step("index copied")
	if !killed {
		refused, err := c.readTree(ctx, l.Before, l.After)
		killed = err != nil && !refused
		if err == nil {
			r.step("files moved")
			return nil, os.Rename(c.index, filepath.Join(gitDir, "index"))
		}
	}
	if left, err = c.moveFiles(ctx, l.Before, l.After, killed); err != nil {
		return nil, err
	}
	r.step("files moved")
	return left, os.Rename(c.index, filepath.Join(gitDir, "index"))
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
