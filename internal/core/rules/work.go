package rules

import (
	"cmp"

	"signalbox"
)

func (c OpenBox) decide(d *decider) error {
	if err := cmp.Or(checkIDs("box", c.Box, "actor", c.Actor), checkText("key", c.Key)); err != nil {
		return err
	}
	if d.s.box != "" {
		return refusef(signalbox.CodeConflict, "use the existing box",
			"the box is already open as '%s'", d.s.box)
	}
	d.answer.Seq = d.record("", "", c.Actor, BoxOpened{c.Box, Version, c.Key})
	return nil
}

func (c OpenWork) decide(d *decider) error {
	if c.Phase == "" {
		c.Phase = signalbox.PhaseImplementation
	}
	if err := cmp.Or(checkIDs("work", c.Work, "actor", c.Actor), checkText("title", c.Title),
		checkRef(c.Ref)); err != nil {
		return err
	}
	if c.Phase.ClaimableBy() == "" {
		return refusef(signalbox.CodeUsage, "work starts in any phase but COMPLETED and BLOCKED",
			"work cannot start in phase '%s'", c.Phase)
	}
	if w, exists := d.s.Work(c.Work); exists {
		return refusef(signalbox.CodeConflict, "choose another id",
			"work '%s' already exists, in %s", w.ID, w.Phase)
	}
	d.answer.Work, d.answer.Phase = c.Work, c.Phase
	d.answer.Seq = d.record(c.Work, "", c.Actor, WorkOpened{c.Title, c.Phase, c.Ref})
	return nil
}

func (c Unblock) decide(d *decider) error {
	if err := cmp.Or(checkIDs("actor", c.Actor), requireText("note", c.Note)); err != nil {
		return err
	}
	w, err := d.work(c.Work)
	if err != nil {
		return err
	}
	if w.Task != nil {
		return refusef(signalbox.CodeFailed,
			"answer what is asked about it (signalbox questions), or signalbox retry "+w.ID,
			"work '%s' belongs to a plan: %s", w.ID, d.s.Reason(w))
	}
	if w.Phase != signalbox.PhaseBlocked {
		return refusef(signalbox.CodeFailed, "only BLOCKED work can be unblocked",
			"work '%s' is not blocked, it is in %s", w.ID, w.Phase)
	}
	d.record(w.ID, "", c.Actor, WorkUnblocked{c.Note})
	d.answer.Work, d.answer.Phase = w.ID, w.BlockedFrom
	d.answer.Seq = d.record(w.ID, "", c.Actor, PhaseChanged{w.Phase, w.BlockedFrom})
	return nil
}

func (c RedactBlob) decide(d *decider) error {
	if err := cmp.Or(checkIDs("actor", c.Actor), requireText("reason", c.Reason)); err != nil {
		return err
	}
	if r, done := d.s.Redaction(c.Blob); done {
		d.answer.Seq, d.answer.Repeated = r.Seq, true
		return nil
	}
	d.answer.Seq = d.record("", "", c.Actor, BlobRedacted{c.Blob, c.Reason})
	return nil
}
