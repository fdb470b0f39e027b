package crew

import (
	"bytes"
	"context"
	"slices"

	"signalbox"
	"signalbox/internal/config"
	"signalbox/internal/core/box"
	"signalbox/internal/core/rules"
	"signalbox/internal/run/transport"
	"signalbox/internal/run/workspace"
	"signalbox/internal/text"
)

// Rework sends work back to its author with what the human wants. It stores a long text, so leave Body out.
func Rework(ctx context.Context, b *box.Box, c rules.Rework) (answer rules.Answer, err error) {
	if c.Body, err = storeText(ctx, b, c.Text); err != nil {
		return answer, err
	}
	return b.Engine.Do(ctx, c)
}

// Tell gives words of the human to the next agent on a work item, or to the one at work if it listens. It stores a long text, so leave Body
// out.
func Tell(ctx context.Context, b *box.Box, c rules.Tell) (answer rules.Answer, err error) {
	if c.Body, err = storeText(ctx, b, c.Text); err != nil {
		return answer, err
	}
	return b.Engine.Do(ctx, c)
}

// Retry restarts a task. It stores a long note, so leave Body out.
func Retry(ctx context.Context, b *box.Box, c rules.Order) (answer rules.Answer, err error) {
	c.What = rules.OrderRetry
	if c.Body, err = storeText(ctx, b, c.Note); err != nil {
		return answer, err
	}
	return b.Engine.Do(ctx, c)
}

// storeText stores a text of the human that is too long for an event, and returns its digest.
func storeText(ctx context.Context, b *box.Box, text string) (signalbox.Hash, error) {
	blob, _ := rules.LongText(text)
	if blob == nil {
		return signalbox.Hash{}, nil
	}
	return b.Engine.PutBlob(ctx, bytes.NewReader(blob))
}

// Listens reports whether an agent that works on a work item in a role reads messages while it works.
func Listens(b *box.Box, role signalbox.Role, work string) bool {
	expert, name := "", ""
	b.Engine.View(func(s *rules.State) {
		if w, known := s.Work(work); known && w.Task != nil {
			expert, name = w.Task.Expert, w.Task.Agent
		}
	})
	if name == "" { // none works on it
		name = b.Config.AgentsFor(role, expert)[0]
	}
	command, err := CommandOf(b.Config.AgentNamed(name))
	return err == nil && command.Interactive && slices.Contains(config.AgentRoles(), role)
}

// Change is what a work item changes: the commit that was checked, relative to the base.
type Change struct {
	Work, Title, Commit, Base string
	// Known reports whether Files are known. They are not in a shared workspace, which has no commits, or if git cannot read them.
	Known                 bool
	Files                 []workspace.FileStat
	Insertions, Deletions int
	// Hidden is a notice about invisible characters in what it changes, "" if there are none.
	Hidden string
	// Steering are the files with which it changes what steers agents.
	Steering []string
}

// AboutSteering says which files that steer agents are changed; "" if none is.
func (c *Change) AboutSteering() string {
	if len(c.Steering) == 0 {
		return ""
	}
	return steeringIntro + text.JoinSome(c.Steering, maxNamed)
}

// ChangeOf returns what a work item changes. root is the folder of the project. Commits that only other machines have are obtained. With an error, what the ledger says
// is returned without the files.
func ChangeOf(ctx context.Context, b *box.Box, root, work string) (Change, error) {
	c := Change{Work: work}
	b.Engine.View(func(s *rules.State) {
		if w, known := s.Work(work); known && w.Task != nil {
			c.Title, c.Commit, c.Base, c.Steering = w.Title, w.Task.Commit, w.Task.Base, w.Task.Steering
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
