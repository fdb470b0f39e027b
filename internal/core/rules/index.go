package rules

import (
	"cmp"
	"slices"

	"signalbox"
)

// reindexTask updates the indexes for planned work that changed. old is nil if it was added,
// changed is nil if it was removed.
func (s *State) reindexTask(i int, old, changed *Work) {
	var before, after Task
	if old != nil && old.Task != nil {
		before = *old.Task
		s.count(old, -1)
	}
	if changed != nil && changed.Task != nil {
		after = *changed.Task
		s.count(changed, 1)
	}
	for _, file := range before.Locks {
		delete(s.locks, file)
	}
	for _, file := range after.Locks {
		s.locks = put(s.locks, file, changed.ID)
	}
	if before.Kind != after.Kind || !slices.Equal(before.blockers(), after.blockers()) {
		s.downstream = nil
		for _, id := range after.blockers() {
			if !slices.Contains(s.dependents[id], i) {
				s.dependents = put(s.dependents, id, append(s.dependents[id], i))
			}
		}
	}
	s.refreshReady(i, changed)
	if progressOf(old) != progressOf(changed) {
		for _, dependent := range s.dependents[cmp.Or(old, changed).ID] {
			if dependent < len(s.works) {
				s.refreshReady(dependent, s.works[dependent])
			}
		}
	}
}

// progressOf returns what the dependents of work wait for: whether it is done, completed, or waits
// for its pull request. w is nil if there is no work.
func progressOf(w *Work) (progress [3]bool) {
	if w != nil {
		progress = [3]bool{w.Done(), w.Phase == signalbox.PhaseCompleted, w.WaitsForRequest()}
	}
	return progress
}

func (s *delivery) count(w *Work, n int) {
	if !w.Done() {
		s.open = put(s.open, w.Task.Kind, s.open[w.Task.Kind]+n)
	}
}

// refreshReady updates whether the work at index i can start. w is nil if it was removed.
func (s *State) refreshReady(i int, w *Work) {
	for n := range s.ready {
		s.ready[n].remove(i)
	}
	if w == nil || w.Task == nil || !s.canStart(w) {
		return
	}
	if n := roleNumber(w.claimableBy()); n >= 0 {
		s.ready[n].add(i)
	}
}

// refreshAll updates for all tasks whether they can start, because that can depend on the policy.
func (s *State) refreshAll() {
	for i, w := range s.works {
		if w.Task != nil {
			s.refreshReady(i, w)
		}
	}
}

// downstreamCounts returns for each work item how many tasks wait for it, directly or indirectly.
func (s *State) downstreamCounts() []int {
	if len(s.downstream) == len(s.works) {
		return s.downstream
	}
	below := make([]bitset, len(s.works))
	const (
		visiting = iota + 1
		visited
	)
	state := make([]byte, len(s.works))
	var visit func(i int)
	visit = func(i int) {
		state[i] = visiting
		for _, dependent := range s.dependents[s.works[i].ID] {
			if dependent >= len(s.works) || s.works[dependent].Task == nil ||
				!slices.Contains(s.works[dependent].Task.blockers(), s.works[i].ID) ||
				state[dependent] == visiting {
				continue
			}
			if state[dependent] == 0 {
				visit(dependent)
			}
			below[i].add(dependent)
			below[i].union(below[dependent])
		}
		state[i] = visited
	}
	s.downstream = make([]int, len(s.works))
	for i := range s.works {
		if state[i] == 0 {
			visit(i)
		}
	}
	for i := range below {
		s.downstream[i] = below[i].size()
	}
	return s.downstream
}
