package transport

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"signalbox"
	"signalbox/internal/core/box"
	"signalbox/internal/core/rules"
	"signalbox/internal/run/workspace"
)

// joiningSuffix is added to the name of a folder that Join is filling. It is renamed when it is
// complete, and removed by the next attempt if that never happened.
const joiningSuffix = ".joining"

// Joined describes what Join made.
type Joined struct {
	Box string `json:"box"` // the folder
	ID  string `json:"id"`
	// Cloned reports that Join made the repository.
	Cloned bool `json:"cloned"`
	// Repository reports whether there is a repository.
	Repository bool `json:"repository"`
}

// Join makes a machine part of a box. The folder dir is a clone of the box's repository, or is
// created as one. If the box has no repository, it may be any folder. Join changes nothing unless
// it succeeds, and may be repeated after it was interrupted.
func Join(ctx context.Context, dir string, invitation *box.Invitation,
	opts *box.Options) (*Joined, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return nil, err
	}
	final := filepath.Join(dir, box.FolderName)
	if box.Exists(final) {
		return nil, signalbox.CodeFailed.Errorf("use that box, or join in another folder",
			"a box already exists in %s", final)
	}
	entries, err := os.ReadDir(dir)
	fresh := errors.Is(err, fs.ErrNotExist) || err == nil && len(entries) == 0
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, &signalbox.Error{Code: signalbox.CodeFailed, Err: err,
			Hint: "choose a folder that you may write to"}
	}
	staging := final + joiningSuffix
	if fresh {
		staging = dir + joiningSuffix
	}
	if err := os.RemoveAll(staging); err != nil {
		return nil, err
	}
	remove, err := makeParents(filepath.Dir(staging))
	if err != nil {
		return nil, &signalbox.Error{Code: signalbox.CodeFailed, Err: err,
			Hint: "choose a folder that you may write to"}
	}
	defer remove() // after the staging folder; what is in use stays
	defer os.RemoveAll(staging)
	staged := filepath.Join(staging, box.FolderName)
	joined, err := join(ctx, dir, staged, fresh, invitation, opts)
	if err != nil {
		return nil, err
	}
	joined.Box = final
	if joined.Cloned { // the repository has the box from the start
		project := filepath.Join(staging, clonedFolder)
		if err := os.Rename(staged, filepath.Join(project, box.FolderName)); err != nil {
			return nil, err
		}
		if err := os.Remove(dir); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, err
		}
		return joined, os.Rename(project, dir)
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}
	if err := os.Remove(final); err != nil && !errors.Is(err, fs.ErrNotExist) { // an empty folder
		return nil, err
	}
	return joined, os.Rename(staged, final)
}

// makeParents makes a folder and its parents, as git clone does, and returns a function that
// removes those that it has made and that are empty.
func makeParents(dir string) (remove func(), err error) {
	var made []string // the innermost first
	for d := dir; ; d = filepath.Dir(d) {
		if _, err := os.Lstat(d); !errors.Is(err, fs.ErrNotExist) {
			break
		}
		made = append(made, d)
	}
	remove = func() {
		for _, d := range made {
			if os.Remove(d) != nil {
				return
			}
		}
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		remove()
		return nil, err
	}
	return remove, nil
}

// clonedFolder is the folder in the staging folder in which the repository is made.
const clonedFolder = "project"

// join writes the box to the folder staged, checks that its ledger is the right one, and gets the
// repository.
func join(ctx context.Context, dir, staged string, fresh bool, invitation *box.Invitation,
	opts *box.Options) (*Joined, error) {
	if err := invitation.WriteBox(staged); err != nil {
		return nil, err
	}
	b, err := box.Open(ctx, staged, opts)
	if errors.Is(err, rules.ErrMoved) {
		return nil, &signalbox.Error{Code: signalbox.CodeOf(err), Err: err,
			Hint: "get a new token: run signalbox invite again on a machine that has the box"}
	}
	if err != nil {
		return nil, err
	}
	defer b.Close()
	if err := invitation.Recognise(ctx, b.Ledger); err != nil {
		return nil, err
	}
	joined := &Joined{ID: b.ID()}
	base := ""
	b.Engine.View(func(s *rules.State) {
		base = s.Base()
		if stored := s.StoredCommits(""); base == "" && len(stored) > 0 {
			base = stored[len(stored)-1].Commit
		}
	})
	if base == "" && invitation.NoRepository {
		repo, err := workspace.Locate(ctx, dir)
		joined.Repository = err == nil && repo != nil
		return joined, nil
	}
	joined.Repository = true
	if fresh {
		joined.Cloned = true
		if here, err := os.Getwd(); err == nil && here == dir {
			return nil, signalbox.CodeUsage.Errorf("name it: signalbox join TOKEN DIR",
				"the folder of the repository must be a new one, and not the current folder")
		}
		return joined, Clone(ctx, b, filepath.Join(filepath.Dir(staged), clonedFolder))
	}
	if _, err := workspace.Locate(ctx, dir); err != nil {
		return nil, notAClone(dir)
	}
	repo, err := workspace.Find(ctx, dir, filepath.Join(staged, workspace.TreesFolder))
	if err != nil {
		return nil, err
	}
	if base == "" { // there is nothing to compare with before the first run
		return joined, nil
	}
	related, err := repo.Has(ctx, base)
	if err != nil {
		return nil, err
	}
	if !related {
		return nil, signalbox.CodeFailed.Errorf(
			"update it with git pull if it is a clone of the same repository; otherwise join in a new folder",
			"the repository in %s does not have the commit %.12s of the box", dir,
			base)
	}
	return joined, nil
}

// Offer publishes the repository of a box for machines that join it, unless a machine has done
// that. The box may be one that had its ledger in a file until now.
func Offer(ctx context.Context, b *box.Box, repo *workspace.Repo, actor string) error {
	t, err := newCarrier(b, repo, actor)
	if err != nil {
		return err
	}
	branch, _, err := t.base(ctx)
	if err != nil || branch != "" {
		return err
	}
	base, err := (&Exchange{box: b, repo: repo}).Base(ctx)
	if err != nil {
		return err
	}
	if err := t.publish(ctx, "", base); err != nil {
		return failed("share the repository with other machines", err)
	}
	return nil
}

func notAClone(dir string) error {
	return signalbox.CodeFailed.Errorf("name a new folder, or a clone: signalbox join TOKEN DIR",
		"%s has files, but is not a clone of the box's repository", dir)
}
