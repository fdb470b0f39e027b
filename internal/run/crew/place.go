package crew

import (
	"context"

	"signalbox"
	"signalbox/internal/run/workspace"
)

// place is where a session works, and what is done with what it left there.
type place struct {
	dir string
	// conflicts are files in which the task and the base exclude each other.
	conflicts []string
	// disorder says what an agent before left so that only an agent can bring it into order; "" if it is in order.
	disorder string
	// after keeps what an author changed.
	after func(ctx context.Context, message string) error
}

func nothing(context.Context, string) error { return nil }

// inPlace calls a function with the place that the session's work is done in.
func (s *session) inPlace(ctx context.Context, do func(place) error) error {
	repo := s.crew.place.Repo
	if repo == nil {
		return do(place{dir: s.crew.place.Root, after: nothing})
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
	repo := s.crew.place.Repo
	open, first := repo.Open, s.view().Task.Starts[s.role] == 0
	if first { // whatever has its name is another box's
		open = repo.OpenNew
	}
	tree, err := open(ctx, s.work)
	if err != nil {
		return err
	}
	p := place{dir: tree.Dir, after: func(ctx context.Context, message string) error {
		_, _, err := tree.Keep(ctx, message)
		return err
	}}
	if !first {
		_, _, err = tree.Keep(ctx, s.work+": left by an agent that was ended") // else it is in the way of the base's latest
		if err == nil {
			p.conflicts, err = tree.Refresh(ctx)
		}
	}
	if workspace.Disorderly(err) {
		p.disorder, err = "The folder is not in order, as an agent before you left it: "+detail(err)+". Bring it into order first.", nil
	}
	if err != nil {
		return err
	}
	return do(p)
}

// asReviewer looks at the commit that was checked, in a tree of its own: what is in the author's, and what git was told about it
// there, does not count, nor does what the reviewer does to the files.
func (s *session) asReviewer(ctx context.Context, do func(place) error) error {
	commit, err := s.view().Task.Commit, error(nil)
	if commit == "" { // checked where all work in one folder
		commit, err = s.crew.place.Repo.BranchCommit(ctx, s.work)
	}
	if err != nil {
		return err
	}
	return s.inCopy(ctx, commit, do)
}

// asGuest works in a copy: of what who asks has kept, or of the base.
func (s *session) asGuest(ctx context.Context, do func(place) error) error {
	repo := s.crew.place.Repo
	commit, err := "", error(nil)
	if asker := s.view().Task.Asker; asker != "" {
		commit, err = repo.BranchCommit(ctx, asker) // its tree is its own
	}
	if err == nil && commit == "" {
		commit, err = repo.BaseCommit(ctx)
	}
	if err != nil {
		return err
	}
	return s.inCopy(ctx, commit, do)
}

// inCopy works in a tree of a commit that is thrown away.
func (s *session) inCopy(ctx context.Context, commit string, do func(place) error) error {
	return s.crew.place.Repo.Scratch(ctx, s.work, commit, func(dir string) error { return do(place{dir: dir, after: nothing}) })
}

// tidy removes the tree of work that is done.
func (s *session) tidy(ctx context.Context) {
	if err := s.crew.place.Repo.Close(ctx, s.work); err != nil {
		s.crew.log.Warn("cannot remove a tree that is no longer needed", "work", s.work, "error", err)
	}
}
