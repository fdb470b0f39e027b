package rules

import (
	"cmp"
	"slices"
	"time"

	"signalbox"
)

// RepairLedger records that invalid events at the end of the ledger were removed.
type RepairLedger struct {
	// First, Last, Fault, Kept and Host are those of LedgerRepaired.
	First, Last uint64
	Fault       string
	Kept        signalbox.Hash
	Host, Actor string
}

func (c RepairLedger) decide(d *decider) error {
	if err := cmp.Or(checkIDs("actor", c.Actor), requireText("fault", c.Fault),
		checkText("host", c.Host)); err != nil {
		return err
	}
	d.answer.Seq = d.record("", "", c.Actor, LedgerRepaired{c.First, c.Last, c.Fault, c.Kept,
		c.Host})
	return nil
}

// CorrectClock sets the time of the ledger back, after events were written with a clock that was
// ahead. The sender makes sure that To is the time, and that the actor may do it.
type CorrectClock struct {
	To            time.Time
	Reason, Actor string
}

func (c CorrectClock) decide(d *decider) error {
	if err := cmp.Or(checkIDs("actor", c.Actor), requireText("reason", c.Reason)); err != nil {
		return err
	}
	to := c.To.UTC().Round(0)
	if !to.Before(d.s.time) {
		return refusef(signalbox.CodeConflict, "nothing needs to be done",
			"the time of the ledger is not ahead")
	}
	d.at = d.s.time // what the clock of this machine says does not matter
	d.answer.Seq = d.record("", "", c.Actor, ClockCorrected{to, c.Reason})
	return nil
}

// setBack moves the time of the ledger from one that was ahead to the right one. An end after the
// wrong time, or a start after the right time, was set with the wrong clock: it moves back by the
// same amount, so that durations stay the same.
func (s *State) setBack(from, to time.Time) {
	s.time = to
	ahead := from.Sub(to)
	end := func(t time.Time) time.Time {
		if t.After(from) {
			return t.Add(-ahead)
		}
		return t
	}
	begin := func(t time.Time) time.Time {
		if t.After(to) {
			return t.Add(-ahead)
		}
		return t
	}
	for i := range s.works {
		w := s.works[i]
		if w.Lease == nil {
			continue
		}
		s.changeWork(w.ID, func(w *Work) {
			lease, present := *w.Lease, *w.Present
			lease.Expires, present.From = end(lease.Expires), begin(present.From)
			w.Lease, w.Present = &lease, &present
			if w.Task == nil || w.Task.Progress == nil && w.Task.Parked == nil {
				return
			}
			task := *w.Task
			if task.Progress != nil {
				progress := *task.Progress
				progress.At = begin(progress.At)
				task.Progress = &progress
			}
			if task.Parked != nil {
				park := *task.Parked
				park.Until = end(park.Until)
				task.Parked = &park
			}
			w.Task = &task
		})
	}
	s.run.Limited = slices.Clone(s.run.Limited)
	for i := range s.run.Limited {
		s.run.Limited[i].Until = end(s.run.Limited[i].Until)
	}
	s.run.Agents = slices.Clone(s.run.Agents)
	for i := range s.run.Agents {
		a := &s.run.Agents[i]
		a.Limited, a.Until, a.Roles = end(a.Limited), end(a.Until), slices.Clone(a.Roles)
		for j := range a.Roles {
			a.Roles[j].Until = end(a.Roles[j].Until)
		}
	}
	if w := s.run.Window; w != nil {
		s.run.Window = &WindowUse{begin(w.Start), w.Tokens}
	}
}
