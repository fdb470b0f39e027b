package rules

import (
	"slices"
	"strings"

	"signalbox"
)

// processExpansion adds a business analyst's specification and sub-tasks to a task. The task itself
// starts after the sub-tasks. If the analyst is not confident, or the sub-tasks are not valid, the
// human is asked.
func (h report) processExpansion() {
	confidence := strings.ToUpper(h.Fields.Confidence)
	subTasks, fault := h.s.subTasks(h.w, h.Fields.SubTasks)
	if confidence != "HIGH" && confidence != "MEDIUM" {
		fault = "the analyst's confidence is low"
	}
	if fault != "" {
		h.block(AskedExpansion, h.Body, "the specification of %s was rejected: %s. %s", h.w.ID,
			fault, h.Fields.Summary)
		h.release(h.Signal)
		return
	}
	var ids []string
	for i, t := range subTasks {
		ids = append(ids, t.ID)
		h.record(t.ID, h.session, h.actor,
			TaskPlanned{Kind: KindTask, Title: sanitize(t.Title, 300),
				Phase: signalbox.PhaseImplementation,
				Order: h.s.run.Orders + i, Priority: h.w.Task.Priority, Blockers: t.BlockedBy,
				Files: lockOrder(t.Files), Text: t.Text, Parent: h.w.ID, Plan: h.w.Task.Plan})
	}
	h.note(TaskExpanded{confidence, h.Body, ids})
	h.move(signalbox.PhaseImplementation)
	h.release(h.Signal)
}

// subTasks returns the wanted sub-tasks with unused ids. If they are not valid, fault says why.
func (s *register) subTasks(from *Work, wanted []PlanTask) (tasks []PlanTask, fault string) {
	if len(wanted) > maxLoaded {
		return nil, "it has too many sub-tasks"
	}
	names, used := map[string]string{}, map[string]bool{}
	for _, t := range wanted {
		id := t.ID
		if _, taken := s.Work(id); taken || isReservedID(id) {
			id = from.ID + "." + t.ID
		}
		_, taken := s.Work(id)
		if signalbox.CheckID(id) != nil || taken || used[strings.ToLower(id)] ||
			names[t.ID] != "" || s.differsInCase(id) {
			return nil, "sub-task '" + sanitize(t.ID, 64) + "' has an invalid or duplicate id"
		}
		if t.Draft {
			return nil, "sub-task '" + sanitize(t.ID, 64) + "' has no acceptance criteria"
		}
		names[t.ID], used[strings.ToLower(id)] = id, true
	}
	for _, t := range wanted {
		sub := t
		sub.ID, sub.BlockedBy = names[t.ID], nil
		for _, blocker := range t.BlockedBy {
			w, known := s.taskNamed(from, blocker)
			switch {
			case names[blocker] != "":
				sub.BlockedBy = appendUnique(sub.BlockedBy, names[blocker])
			case known && w.Task != nil && w.Task.Kind == KindTask && w.Task.Cancelled == "" &&
				w.ID != from.ID && !s.waitsFor(w, from.ID):
				sub.BlockedBy = appendUnique(sub.BlockedBy, w.ID)
			default:
				return nil, "sub-task '" + sanitize(t.ID, 64) + "' cannot wait for '" +
					sanitize(blocker, 64) + "'"
			}
		}
		tasks = append(tasks, sub)
	}
	if hasCycle(tasks) {
		return nil, "its sub-tasks wait for each other"
	}
	return tasks, ""
}

// differsInCase reports whether the id of another work differs only in case: on some file systems
// they would share a directory.
func (s *register) differsInCase(id string) bool {
	return slices.ContainsFunc(s.works, func(w *Work) bool { return strings.EqualFold(w.ID, id) })
}

// hasCycle reports whether tasks wait for each other in a cycle.
func hasCycle(tasks []PlanTask) bool {
	left := slices.Clone(tasks)
	for len(left) > 0 {
		waiting := slices.DeleteFunc(slices.Clone(left), func(t PlanTask) bool {
			return !slices.ContainsFunc(t.BlockedBy, func(id string) bool {
				return slices.ContainsFunc(left, func(o PlanTask) bool { return o.ID == id })
			})
		})
		if len(waiting) == len(left) {
			return true
		}
		left = waiting
	}
	return false
}
