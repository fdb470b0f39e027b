package rules

import (
	"slices"
	"strings"

	"signalbox"
)

// queueOrCoordinate handles a request for a file that a task did not declare. In a shared workspace
// the task gets the file or waits for it. If each task has its own workspace, all tasks that change
// the file are told, and the merge shows whether they conflict.
func (h report) queueOrCoordinate() {
	file := cleanFile(h.Fields.File)
	if h.s.run.Policy.Shared {
		h.lockOrWait(file)
		return
	}
	others := h.s.overlapping(h.w, file)
	if len(others) == 0 {
		h.note(OverlapNoted{File: file})
	}
	for _, w := range others {
		h.note(OverlapNoted{file, w.ID})
		h.record(w.ID, "", h.actor, OverlapNoted{file, h.w.ID})
	}
}

// overlapping returns the other tasks that change a file and that the task has not been told of. A
// task that declared the file may change it while it is in hand. One that announced it may have
// changed it, also if no agent works on it now.
func (s *register) overlapping(task *Work, file string) (others []*Work) {
	for w := range s.Works() {
		told := slices.Contains(task.Task.Overlaps, OverlapNoted{file, w.ID}.note())
		if w.Task == nil || w.ID == task.ID || w.Done() || told {
			continue
		}
		inHand := w.Lease != nil || w.Phase != signalbox.PhaseImplementation
		declared, announced := slices.Contains(w.Task.Files, file),
			slices.Contains(w.Task.overlapFiles(), file)
		if inHand && declared || announced {
			others = append(others, w)
		}
	}
	return others
}

const alsoChangedBy = " (also "

// note returns what the agents of the task are told.
func (b OverlapNoted) note() string {
	if b.With == "" {
		return b.File
	}
	return b.File + alsoChangedBy + b.With + ")"
}

// overlapFiles returns the files of the task's overlaps, each once.
func (t *Task) overlapFiles() (files []string) {
	for _, note := range t.Overlaps {
		file, _, _ := strings.Cut(note, alsoChangedBy)
		files = appendUnique(files, file)
	}
	return files
}

// maxFileRequests is how many undeclared files a task can ask for.
const maxFileRequests = 50

// fileRequested reports whether a signal asks for a file that the task has, or asked for before
// with the same result, and whether the task has asked for too many files. Both limit what an agent
// can write to the ledger.
func (h report) fileRequested() (requested, tooMany bool) {
	if h.Signal != signalbox.NameFileConflict {
		return false, false
	}
	file, t := cleanFile(h.Fields.File), h.w.Task
	if h.s.run.Policy.Shared {
		return slices.Contains(t.Locks, file), len(t.Locks) >= maxFileRequests
	}
	noted := t.overlapFiles()
	requested = slices.Contains(noted, file)
	return requested && len(h.s.overlapping(h.w, file)) == 0, !requested &&
		len(noted) >= maxFileRequests
}

func (h report) lockOrWait(file string) {
	owner, held := h.s.locks[file]
	switch {
	case owner == h.w.ID:
		return
	case !held:
		h.note(FilesLocked{[]string{file}})
		return
	}
	if cycle := h.s.lockCycle(h.w.ID, owner); cycle != nil {
		h.breakCycle(file, cycle)
		return
	}
	count, limits := h.w.Task.Counts.FileWaits+1, h.s.run.Policy.Limits
	h.note(FileWaited{file, owner, count})
	if count >= limits.FileWaits {
		h.block(AskedFile, h.Body, "%s asks for %s for the %s time, and %s still has it", h.w.ID,
			file, ordinal(count), owner)
		h.release(h.Signal)
		return
	}
	h.note(SessionParked{Epoch: h.epoch, For: file, File: true,
		Until: h.at.Add(limits.FileWait)})
	h.answer.Parked = true
}

// lockCycle returns the tasks that would wait for each other in a cycle if asker waited for owner,
// nil if there is none.
func (s *State) lockCycle(asker, owner string) []*Work {
	first, _ := s.Work(asker)
	cycle := []*Work{first}
	for range s.works {
		w, _ := s.Work(owner)
		cycle = append(cycle, w)
		if w.Task.Parked == nil || !w.Task.Parked.File {
			return nil
		}
		next, held := s.locks[w.Task.Parked.For]
		if !held {
			return nil
		}
		if next == asker {
			return cycle
		}
		owner = next
	}
	return nil
}

// breakCycle makes the task of the cycle that comes last in the plan release its files and start
// again later.
func (h report) breakCycle(file string, cycle []*Work) {
	youngest := slices.MaxFunc(cycle, func(a, b *Work) int { return a.Task.Order - b.Task.Order })
	var ids []string
	for _, w := range cycle {
		ids = append(ids, w.ID)
	}
	why := "deadlock between " + strings.Join(ids, ", ")
	if youngest.ID == h.w.ID {
		h.record(youngest.ID, h.session, h.actor, LocksYielded{why})
		h.release(why)
		return
	}
	if lease := h.liveLease(youngest); lease != nil {
		h.record(youngest.ID, lease.Session, lease.Actor, LeaseReleased{lease.Epoch, why})
	}
	h.record(youngest.ID, h.session, h.actor, LocksYielded{why})
	if h.s.locks[file] == youngest.ID && h.s.firstWaiter(file, youngest.ID) == nil {
		h.note(FilesLocked{[]string{file}})
		return
	}
	h.note(SessionParked{Epoch: h.epoch, For: file, File: true,
		Until: h.at.Add(h.s.run.Policy.Limits.FileWait)})
	h.answer.Parked = true
}

// grantFiles gives each released file to the task that has waited longest for it.
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

// firstWaiter returns the task other than except whose session has waited longest for a file, nil
// if there is none.
func (s *register) firstWaiter(file, except string) *Work {
	var first *Work
	for _, i := range s.leased {
		w := s.works[i]
		if w.Task == nil || w.ID == except || w.Task.Parked == nil || !w.Task.Parked.File ||
			w.Task.Parked.Ready || w.Task.Parked.For != file {
			continue
		}
		if first == nil || w.Lease.Epoch < first.Lease.Epoch {
			first = w
		}
	}
	return first
}
