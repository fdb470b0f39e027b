// Package changes says what a work item changes, for people who decide about it.
package changes

import (
	"context"

	"signalbox/internal/core/box"
	"signalbox/internal/core/rules"
	"signalbox/internal/run/questions"
	"signalbox/internal/run/transport"
	"signalbox/internal/run/workspace"
)

// Change is what a work item changes: the commit that was checked, relative to the base.
type Change struct {
	Work, Title, Commit, Base string
	// Known reports whether Files are known. They are not in a shared workspace, which has no
	// commits, or if git cannot read them.
	Known                 bool
	Files                 []workspace.FileStat
	Insertions, Deletions int
	// Hidden is a notice about invisible characters in what it changes, "" if there are none.
	Hidden string
	// Steering are the files with which it changes what steers agents.
	Steering []string
}

// AboutSteering names the changed files that steer agents; "" if none is.
func (c *Change) AboutSteering() string {
	return questions.AboutSteering(c.Steering)
}

// Of returns what a work item changes. root is the folder of the project. Commits that only other
// machines have are obtained. With an error, what the ledger says is returned without the files.
func Of(ctx context.Context, b *box.Box, root, work string) (Change, error) {
	c := Change{Work: work}
	b.Engine.View(func(s *rules.State) {
		if w, known := s.Work(work); known && w.Task != nil {
			c.Title, c.Commit, c.Base, c.Steering = w.Title, w.Task.Commit, w.Task.Base,
				w.Task.Steering
		}
	})
	if c.Commit == "" || c.Base == "" {
		return c, nil
	}
	err := transport.Obtain(ctx, b, root, work, c.Commit, c.Base)
	if err == nil {
		c.Files, err = workspace.Stat(ctx, root, c.Base, c.Commit)
	}
	if err == nil {
		c.Hidden, err = workspace.Hidden(ctx, root, c.Base, c.Commit)
	}
	c.Known = err == nil
	for _, f := range c.Files {
		c.Insertions, c.Deletions = c.Insertions+f.Insertions, c.Deletions+f.Deletions
	}
	return c, err
}
