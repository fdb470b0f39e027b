package crew

import (
	"context"

	"signalbox"
)

// place is where a session works, and what is done with what it left there.
type place struct {
	dir string
	// conflicts are files in which the task and the base exclude each other.
	conflicts []string
	// after keeps what an author changed, or throws away what a reviewer did.
	after func(ctx context.Context, message string) error
}

// inPlace calls a function with the place that the session's work is done in.
func (s *session) inPlace(ctx context.Context, do func(place) error) error {
	repo := s.crew.place.Repo
	if repo == nil {
		return do(place{dir: s.crew.place.Root, after: func(context.Context, string) error { return nil }})
	}
	switch s.role {
	case signalbox.RoleDeveloper, signalbox.RoleRemediation:
		return s.asAuthor(ctx, do)
	case signalbox.RoleExpert, signalbox.RoleExpertCreator, signalbox.RoleBusinessAnalyst:
		return s.asGuest(ctx, do)
	}
	return s.asReviewer(ctx, do)
}

// asAuthor works in the task's own tree, with the base's latest in it, and keeps what was changed.
func (s *session) asAuthor(ctx context.Context, do func(place) error) error {
	tree, err := s.crew.place.Repo.Open(ctx, s.work)
	if err != nil {
		return err
	}
	conflicts, err := tree.Refresh(ctx)
	if err != nil {
		return err
	}
	return do(place{tree.Dir, conflicts, func(ctx context.Context, message string) error {
		_, _, err := tree.Keep(ctx, message)
		return err
	}})
}

// asReviewer looks at the commit that was checked, in the task's tree. What it does to the files does not count.
func (s *session) asReviewer(ctx context.Context, do func(place) error) error {
	tree, err := s.crew.place.Repo.Open(ctx, s.work)
	if err != nil {
		return err
	}
	commit := s.view().Task.Commit
	if err := tree.Discard(ctx, commit); err != nil { // what a killed session left, or one whose lease was taken away
		return err
	}
	return do(place{tree.Dir, nil, func(ctx context.Context, _ string) error { return tree.Discard(ctx, commit) }})
}

// asGuest works in a copy: of the tree of who asks, or of the base.
func (s *session) asGuest(ctx context.Context, do func(place) error) error {
	repo := s.crew.place.Repo
	commit, err := repo.BaseCommit(ctx)
	if err != nil {
		return err
	}
	if asker := s.view().Task.Asker; asker != "" {
		tree, err := repo.Open(ctx, asker)
		if err != nil {
			return err
		}
		if commit, err = tree.Commit(ctx); err != nil {
			return err
		}
	}
	return repo.Scratch(ctx, s.work, commit, func(dir string) error {
		return do(place{dir, nil, func(context.Context, string) error { return nil }})
	})
}

// tidy removes the tree of work that is done.
func (s *session) tidy(ctx context.Context) {
	if err := s.crew.place.Repo.Close(ctx, s.work); err != nil {
		s.crew.log.Warn("cannot remove a tree that is no longer needed", "work", s.work, "error", err)
	}
}
