package workspace

import (
	"context"
	"encoding/json"
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

// landing is a merge whose ref is about to move, or has moved, with the checkout that is to be brought along.
type landing struct {
	Task, Base    string
	Before, After string
	// Checkout is the worktree that has base checked out; "" if none has.
	Checkout string
}

const landingFile = ".landing"

// landPatiently lands when the checkout of base is free: whoever holds its index may have an editor open. Others may look at the
// landing file meanwhile.
func (r *Repo) landPatiently(ctx context.Context, l landing) (warning string, err error) {
	for range landings {
		if warning, err = r.land(ctx, l); !errors.Is(err, ErrLocked) {
			break
		}
	}
	return warning, err
}

// landings is how often a merge whose checks have passed waits for r.patience: a minute in all.
const landings = 12

// land moves base and brings its checkout along. It returns errMoved, and nothing has happened, if base is no longer where the
// merge was made. A warning is about the checkout: base has moved all the same.
func (r *Repo) land(ctx context.Context, l landing) (warning string, err error) {
	held, err := r.lock(ctx, landingLock)
	if err != nil {
		return "", err
	}
	defer held.release()
	if _, err := r.recover(ctx, held); err != nil {
		return "", err
	}
	found, err := r.refs(ctx, l.Base)
	if err != nil {
		return "", err
	}
	if found[l.Base].commit != l.Before {
		return "", errMoved
	}
	l.Checkout = found[l.Base].checkout
	gitDir, err := gitDirOf(l.Checkout)
	if err != nil {
		l.Checkout = "" // a worktree that was deleted by hand
	}
	r.step("landing")
	if err := r.announce(l); err != nil {
		return "", err
	}
	r.step("announced")
	if l.Checkout != "" {
		if err := r.lockIndex(ctx, gitDir); err != nil {
			return "", errors.Join(err, r.unannounce())
		}
		defer os.Remove(filepath.Join(gitDir, indexLock))
		r.step("index locked")
	}
	if err := r.moveBase(ctx, held, l); err != nil {
		return "", errors.Join(err, r.unannounce())
	}
	r.step("ref moved")
	// From here on it counts: nobody's patience may end between the ref and the files.
	return r.bringAlong(context.WithoutCancel(ctx), held, l, false)
}

// moveBase moves the ref. A git that was ended by a signal may have moved it before.
func (r *Repo) moveBase(ctx context.Context, held *hold, l landing) error {
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

func (r *Repo) announce(l landing) error {
	text, err := json.Marshal(l)
	if err != nil {
		return err
	}
	return durable.Replace(filepath.Join(r.folder, landingFile), text, 0o600)
}

func (r *Repo) unannounce() error { return durable.Remove(filepath.Join(r.folder, landingFile)) }

// recover finishes what a killed process left of a landing. The caller holds the landing lock, so it is nobody's who lives.
func (r *Repo) recover(ctx context.Context, held *hold) (warning string, err error) {
	text, err := os.ReadFile(filepath.Join(r.folder, landingFile))
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	var l landing
	if err := json.Unmarshal(text, &l); err != nil {
		return "", fmt.Errorf("read %s: %w", landingFile, err)
	}
	found, err := r.refs(ctx, l.Base)
	if err != nil {
		return "", err
	}
	base := found[l.Base]
	gitDir, err := gitDirOf(l.Checkout)
	if err == nil {
		err = r.unlockIndex(gitDir)
	}
	if err != nil || base.commit != l.After || base.checkout != l.Checkout {
		// The ref did not move, or its owner has gone on by hand: in both cases the checkout is theirs.
		return "", r.unannounce()
	}
	if err := r.lockIndex(ctx, gitDir); err != nil {
		return "", err
	}
	defer os.Remove(filepath.Join(gitDir, indexLock))
	return r.bringAlong(context.WithoutCancel(ctx), held, l, true)
}

// bringAlong brings the checkout of base to the commit that base is at.
func (r *Repo) bringAlong(ctx context.Context, held *hold, l landing, killed bool) (warning string, err error) {
	if l.Checkout == "" {
		return "", r.unannounce()
	}
	left, err := r.moveCheckout(ctx, held, l, killed)
	if err != nil { // the announcement stays, for the next one who tries
		return fmt.Sprintf("%s is merged, but its checkout in %s could not be brought along: %v", l.Task, l.Checkout, err), nil
	}
	if len(left) > 0 {
		warning = fmt.Sprintf("%s is merged; %s has changes of its own in %s, which were left as they are: see git diff there", l.Task, l.Checkout, listed(left))
	}
	r.step("checkout moved")
	return warning, r.unannounce()
}

// moveCheckout works on a copy of the index, as the index itself is locked by us; the copy takes its place when all is done.
func (r *Repo) moveCheckout(ctx context.Context, held *hold, l landing, killed bool) (left []string, err error) {
	gitDir, err := gitDirOf(l.Checkout)
	if err != nil {
		return nil, err
	}
	c := checkout{l.Checkout, filepath.Join(gitDir, indexCopy), held}
	if err := os.Remove(c.index + ".lock"); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	if err := copyIndex(filepath.Join(gitDir, "index"), c.index); err != nil {
		return nil, err
	}
	defer os.Remove(c.index) // of no effect once it is renamed
	r.step("index copied")
	if !killed {
		refused, err := r.advance(ctx, c, l.Before, l.After)
		killed = err != nil && !refused
		if err == nil {
			r.step("files moved")
			return nil, os.Rename(c.index, filepath.Join(gitDir, "index"))
		}
	}
	if left, err = r.follow(ctx, c, l.Before, l.After, killed); err != nil {
		return nil, err
	}
	r.step("files moved")
	return left, os.Rename(c.index, filepath.Join(gitDir, "index"))
}

const (
	indexLock = "index.lock" // git's own
	indexCopy = "index.signalbox"
	lockText  = "signalbox is merging\n" // tells our lock from git's
)

// lockIndex locks the index of a checkout against every git. A lock that is there is another git's, which may have an editor
// open and take its time: it is waited for, not judged.
func (r *Repo) lockIndex(ctx context.Context, gitDir string) error {
	name := filepath.Join(gitDir, indexLock)
	deadline := time.Now().Add(r.patience)
	for {
		if err := r.unlockIndex(gitDir); err != nil {
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

// unlockIndex removes a lock that a killed process of ours left: the caller has the landing lock, so it lives no more.
func (r *Repo) unlockIndex(gitDir string) error {
	name := filepath.Join(gitDir, indexLock)
	if text, err := os.ReadFile(name); err != nil || string(text) != lockText {
		return nil
	}
	return os.Remove(name)
}

// copyIndex copies an index with its time, by which git tells files that may have changed since it was written.
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
	out, err := os.OpenFile(to, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, info.Mode().Perm())
	if err != nil {
		return err
	}
	_, err = io.Copy(out, in)
	return errors.Join(err, out.Close(), os.Chtimes(to, info.ModTime(), info.ModTime()))
}

// gitDirOf returns the git folder of a worktree.
func gitDirOf(dir string) (string, error) {
	if dir == "" {
		return "", fs.ErrNotExist
	}
	name := filepath.Join(dir, ".git")
	info, err := os.Stat(name)
	if err != nil {
		return "", err
	}
	if info.IsDir() {
		return name, nil
	}
	text, err := os.ReadFile(name)
	if err != nil {
		return "", err
	}
	target, found := strings.CutPrefix(strings.TrimSpace(string(text)), "gitdir: ")
	if !found {
		return "", fmt.Errorf("%s does not say where the git folder is", name)
	}
	target = filepath.FromSlash(target)
	if !filepath.IsAbs(target) {
		target = filepath.Join(dir, target)
	}
	return target, nil
}
