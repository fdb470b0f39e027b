package rules

import (
	"cmp"
	"fmt"
	"strings"

	"signalbox"
)

// ReportSetup reports how a worktree was made ready for an agent or for the checks. A failure is
// one of the machine and not of the work, unless OfTask is set: it is not counted, and the lease
// ends. The human is asked, once for the whole run, and nothing starts before the answer.
type ReportSetup struct {
	Session string
	Epoch   uint64
	// Ran is what ran. Its Epoch is set.
	Ran SetupRan
	// Cause is why it failed, on one line, and Body has the end of its output.
	Cause string
	Body  signalbox.Hash
	// OfTask means that the work is the cause: it does not fail on the base. The holder of the
	// lease continues.
	OfTask bool
}

func (c ReportSetup) decide(d *decider) error {
	h, err := d.anyHolderReport(c.Session, c.Epoch, "setup")
	if err != nil {
		return err
	}
	if err := checkCommits(c.Ran.Commit); err != nil {
		return err
	}
	ran := c.Ran
	ran.Epoch, ran.Command, ran.Restored, ran.OfTask = c.Epoch, sanitize(ran.Command, 200),
		sanitizeFirst(ran.Restored, maxBaseCommits, 200), c.OfTask && !ran.Passed
	d.answer.Seq = h.note(ran)
	if ran.Passed || ran.OfTask {
		return nil
	}
	if d.s.setupQuestion() == nil {
		cause := strings.TrimRight(sanitize(c.Cause, 500), ". \n")
		d.ask("", h.session, h.actor, AskedSetup, c.Body,
			"setup '%s' failed in a worktree of %s: %s. Nothing starts before you answer: fix the cause, and answer \"again\" to try again",
			ran.Command, h.w.ID, cmp.Or(cause, fmt.Sprintf("exit status %d", ran.Exit)))
	}
	h.release("setup")
	return nil
}

// setupQuestion returns the open question about worktrees that could not be made ready, nil if
// there is none.
func (s *delivery) setupQuestion() *Question {
	for _, q := range s.run.Questions {
		if q.Open() && q.Kind == AskedSetup {
			return q
		}
	}
	return nil
}

// withdrawSetup closes the open question about worktrees, because it is tried again anyway.
func (d *decider) withdrawSetup(actor string) {
	if q := d.s.setupQuestion(); q != nil {
		d.record("", "", actor, QuestionAnswered{Question: q.ID, Withdrawn: true})
	}
}
