package rules

import (
	"slices"
	"strings"

	"signalbox"
)

// queueOrCoordinate deals with a file that a task wants and did not declare. Where each task has its own workspace the merge
// decides, and both are told; in a shared one the file is granted or waited for.
func (d *decider) queueOrCoordinate(h report) {
	file := cleanFile(h.Fields.File)
	if d.s.delivery.Policy.Shared {
		d.lockOrWait(h, file)
		return
	}
	for w := range d.s.Works() {
		if w.Task != nil && w.ID != h.w.ID && !w.Done() && (w.Lease != nil || w.Phase != signalbox.PhaseImplementation) && slices.Contains(w.Task.Files, file) {
			d.record(h.w.ID, h.session, h.actor, OverlapNoted{file, w.ID})
			d.record(w.ID, "", h.actor, OverlapNoted{file, h.w.ID})
			return
		}
	}
	d.record(h.w.ID, h.session, h.actor, OverlapNoted{File: file})
}

// maxOverlaps is how many files a task may ask for that it did not declare.
const maxOverlaps = 50

// fileKnown tells whether a signal asks for a file that the task asked for before or has, and whether it asks for too many: an
// agent cannot flood the ledger.
func (s *State) fileRequested(h report) (known, many bool) {
	if h.Signal != signalbox.NameFileConflict {
		return false, false
	}
	file, t := cleanFile(h.Fields.File), h.w.Task
	if s.delivery.Policy.Shared {
		return slices.Contains(t.Locks, file), len(t.Locks) >= maxOverlaps
	}
	known = slices.ContainsFunc(t.Overlaps, func(note string) bool { return note == file || strings.HasPrefix(note, file+" (also ") })
	return known, len(t.Overlaps) >= maxOverlaps
}

func (d *decider) lockOrWait(h report, file string) {
	owner, held := d.s.locks[file]
	switch {
	case owner == h.w.ID:
		return
	case !held:
		d.record(h.w.ID, h.session, h.actor, FilesLocked{[]string{file}})
		return
	}
	if circle := d.s.lockCycle(h.w.ID, owner); circle != nil {
		d.breakCycle(h, file, circle)
		return
	}
	count, limits := h.w.Task.Counts.FileWaits+1, d.s.delivery.Policy.Limits
	d.record(h.w.ID, h.session, h.actor, FileWaited{file, owner, count})
	if count >= limits.FileWaits {
		d.block(h.w, h.w.Phase, h.holder, AskedFile, h.Body, "%s wants %s for the %s time, and %s has it", h.w.ID, file, ordinal(count), owner)
		d.release(h.w.ID, h.holder, h.Signal)
		return
	}
	d.record(h.w.ID, h.session, h.actor, SessionParked{Epoch: h.epoch, For: file, File: true, Until: d.at.Add(limits.FileWait)})
	d.answer.Parked = true
}

// lockCircle returns the tasks of the circle that would close if asker waited for owner, nil if none would.
func (s *State) lockCycle(asker, owner string) []*Work {
	first, _ := s.Work(asker)
	circle := []*Work{first}
	for range s.works {
		w, _ := s.Work(owner)
		circle = append(circle, w)
		if w.Task.Parked == nil || !w.Task.Parked.File {
			return nil
		}
		next, held := s.locks[w.Task.Parked.For]
		if !held {
			return nil
		}
		if next == asker {
			return circle
		}
		owner = next
	}
	return nil
}

// breakCircle has the youngest task of a circle give up its files and begin again later.
func (d *decider) breakCycle(h report, file string, circle []*Work) {
	youngest := slices.MaxFunc(circle, func(a, b *Work) int { return a.Task.Order - b.Task.Order })
	var ids []string
	for _, w := range circle {
		ids = append(ids, w.ID)
	}
	why := "a circle of waiting: " + strings.Join(ids, ", ")
	if youngest.ID == h.w.ID {
		d.record(youngest.ID, h.session, h.actor, LocksYielded{why})
		d.release(h.w.ID, h.holder, why)
		return
	}
	if lease := d.liveLease(youngest); lease != nil {
		d.record(youngest.ID, lease.Session, lease.Actor, LeaseReleased{lease.Epoch, why})
	}
	d.record(youngest.ID, h.session, h.actor, LocksYielded{why})
	if d.s.locks[file] == youngest.ID && d.s.firstWaiter(file, youngest.ID) == nil {
		d.record(h.w.ID, h.session, h.actor, FilesLocked{[]string{file}})
		return
	}
	d.record(h.w.ID, h.session, h.actor, SessionParked{Epoch: h.epoch, For: file, File: true, Until: d.at.Add(d.s.delivery.Policy.Limits.FileWait)})
	d.answer.Parked = true
}

func (s *State) applyFiles(e *signalbox.Event, body body) {
	switch b := body.(type) {
	case FilesLocked:
		s.changeTask(e.Work, func(_ *Work, t *Task) {
			t.Locks = lockOrder(append(slices.Clone(t.Locks), b.Files...))
		})
	case LocksYielded:
		freed := s.works[s.workIndex[e.Work]].Task.Locks
		s.changeTask(e.Work, func(_ *Work, t *Task) { t.Locks, t.Context = nil, strings.TrimPrefix(t.Context+"\n"+b.Reason, "\n") })
		s.grantFiles(freed)
	case FileWaited:
		s.changeTask(e.Work, func(_ *Work, t *Task) { t.Counts.FileWaits = b.Count })
	case OverlapNoted:
		note := b.File
		if b.With != "" {
			note += " (also " + b.With + ")"
		}
		s.changeTask(e.Work, func(_ *Work, t *Task) { t.Overlaps = with(t.Overlaps, note) })
	}
}

// freed gives files to those who wait for them, to each file who came first.
func (s *State) grantFiles(files []string) {
	for _, file := range files {
		if w := s.firstWaiter(file, ""); w != nil {
			s.changeTask(w.ID, func(_ *Work, t *Task) {
				t.Locks = lockOrder(append(slices.Clone(t.Locks), file))
				t.markReady(file)
			})
		}
	}
}

// waiter returns the task, other than one, whose holder has waited longest for a file, nil if nobody does.
func (s *State) firstWaiter(file, other string) *Work {
	var first *Work
	for _, i := range s.leased {
		w := s.works[i]
		if w.Task == nil || w.ID == other || w.Task.Parked == nil || !w.Task.Parked.File || w.Task.Parked.Ready || w.Task.Parked.For != file {
			continue
		}
		if first == nil || w.Lease.Epoch < first.Lease.Epoch {
			first = w
		}
	}
	return first
}
