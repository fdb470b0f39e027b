package rules

import (
	"slices"

	"signalbox"
)

// Begin starts recording changes, so that Rollback can undo them. Callers need it if they decide
// several commands before any of the resulting events are durable.
func (s *State) Begin() {
	seq, time, box, rules, upgraded, moved, run := s.seq, s.time, s.box, s.rules, s.upgraded,
		s.moved, s.run
	s.recording = true
	s.undo = append(s.undo[:0], func() {
		changed := s.run.Policy != run.Policy
		s.seq, s.time, s.box, s.rules, s.upgraded, s.moved, s.run = seq, time, box, rules, upgraded,
			moved, run
		if changed {
			s.refreshAll()
		}
	})
}

// Commit keeps the changes since Begin.
func (s *State) Commit() { s.recording, s.undo = false, s.undo[:0] }

// Rollback undoes the changes since Begin.
func (s *State) Rollback() {
	s.recording = false
	for _, undo := range slices.Backward(s.undo) {
		undo()
	}
	s.undo = s.undo[:0]
}

func (s *register) onRollback(undo func()) {
	if s.recording {
		s.undo = append(s.undo, undo)
	}
}

func (s *State) addWork(w *Work) {
	i := len(s.works)
	s.works = append(s.works, w)
	s.workIndex = put(s.workIndex, w.ID, i)
	s.reindex(i, nil, w)
	s.onRollback(func() {
		s.reindex(i, w, nil)
		delete(s.workIndex, w.ID)
		s.works = s.works[:i]
	})
}

// changeWork replaces a work item with a changed copy.
func (s *State) changeWork(id string, change func(*Work)) {
	i := s.workIndex[id]
	old := s.works[i]
	changed := *old
	change(&changed)
	s.works[i] = &changed
	s.reindex(i, old, &changed)
	s.onRollback(func() {
		s.works[i] = old
		s.reindex(i, &changed, old)
	})
}

// reindex updates the indexes for a work item that changed. old is nil if it was added, changed is
// nil if it was removed.
func (s *State) reindex(i int, old, changed *Work) {
	if old != nil && old.Lease != nil {
		delete(s.leased, old.Lease.Epoch)
	} else if old != nil && old.Task == nil {
		s.free[phaseNumber(old.Phase)].remove(i)
	}
	if changed != nil && changed.Lease != nil {
		s.leased = put(s.leased, changed.Lease.Epoch, i)
	} else if changed != nil && changed.Task == nil {
		s.free[phaseNumber(changed.Phase)].add(i)
	}
	if old != nil && old.Task != nil || changed != nil && changed.Task != nil {
		s.reindexTask(i, old, changed)
	}
}

// changeSession replaces a session with a changed copy, or adds a new one.
func (s *register) changeSession(id string, change func(*Session)) {
	i, known := s.sessionIndex[id]
	if !known {
		i = len(s.sessions)
		added := &Session{ID: id}
		change(added)
		s.sessions = append(s.sessions, added)
		s.sessionIndex = put(s.sessionIndex, id, i)
		s.onRollback(func() {
			delete(s.sessionIndex, id)
			s.sessions = s.sessions[:i]
		})
		return
	}
	old := s.sessions[i]
	changed := *old
	change(&changed)
	s.sessions[i] = &changed
	s.onRollback(func() { s.sessions[i] = old })
}

func (s *register) addRedaction(r Redaction) {
	i := len(s.redactions)
	s.redactions = append(s.redactions, r)
	s.redacted = put(s.redacted, r.Blob, i)
	s.onRollback(func() {
		delete(s.redacted, r.Blob)
		s.redactions = s.redactions[:i]
	})
}

func put[K comparable, V any](m map[K]V, key K, value V) map[K]V {
	if m == nil {
		m = map[K]V{}
	}
	m[key] = value
	return m
}

var phases = signalbox.Phases()

func phaseNumber(p signalbox.Phase) int { return slices.Index(phases, p) }
