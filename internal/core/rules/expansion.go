package rules

import (
	"slices"
	"strings"

	"signalbox"
)

// processExpansion attaches a business analyst's specification and adds the sub-tasks; the task itself comes after them. If
// the analyst is not sure, or what it wrote cannot be a plan, the human is asked.
func (d *decider) processExpansion(h report) {
	confidence := strings.ToUpper(h.Fields.Confidence)
	subTasks, fault := d.s.subTasks(h.w.ID, h.Fields.SubTasks)
	if confidence != "HIGH" && confidence != "MEDIUM" {
		fault = "the analyst's confidence is low"
	}
	if fault != "" {
		d.block(h.w, h.w.Phase, h.holder, AskedExpansion, h.Body, "the specification of %s is not used: %s. %s", h.w.ID, fault, h.Fields.Summary)
		d.release(h.w.ID, h.holder, h.Signal)
		return
	}
	var ids []string
	for i, t := range subTasks {
		ids = append(ids, t.ID)
		d.record(t.ID, h.session, h.actor, TaskPlanned{Kind: KindTask, Title: sanitize(t.Title, 300), Phase: signalbox.PhaseImplementation,
			Order: d.s.delivery.Orders + i, Priority: h.w.Task.Priority, Blockers: t.BlockedBy, Files: lockOrder(t.Files), Text: t.Text, Parent: h.w.ID})
	}
	d.record(h.w.ID, h.session, h.actor, TaskExpanded{confidence, h.Body, ids})
	d.move(h.w.ID, h.holder, h.w.Phase, signalbox.PhaseImplementation)
	d.release(h.w.ID, h.holder, h.Signal)
}

// subTasks gives sub-tasks ids that are free, and says what is wrong with them, "" if nothing is.
func (s *State) subTasks(parent string, wanted []PlanTask) (tasks []PlanTask, fault string) {
	if len(wanted) > maxLoaded {
		return nil, "it has too many sub-tasks"
	}
	names, used := map[string]string{}, map[string]bool{}
	for _, t := range wanted {
		id := t.ID
		if _, taken := s.Work(id); taken || isReservedID(id) {
			id = parent + "." + t.ID
		}
		_, taken := s.Work(id)
		if signalbox.CheckID(id) != nil || taken || used[strings.ToLower(id)] || names[t.ID] != "" || s.differsInCase(id) {
			return nil, "sub-task '" + sanitize(t.ID, 64) + "' has an id that cannot be used"
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
			w, known := s.Work(blocker)
			switch {
			case names[blocker] != "":
				sub.BlockedBy = with(sub.BlockedBy, names[blocker])
			case known && w.Task != nil && w.Task.Kind == KindTask && w.Task.Cancelled == "" && w.ID != parent && !s.waitsFor(w, parent):
				sub.BlockedBy = with(sub.BlockedBy, blocker)
			default:
				return nil, "sub-task '" + sanitize(t.ID, 64) + "' waits for '" + sanitize(blocker, 64) + "', which it cannot"
			}
		}
		tasks = append(tasks, sub)
	}
	if hasCycle(tasks) {
		return nil, "its sub-tasks wait for each other"
	}
	return tasks, ""
}

// differsInCase tells whether there is work whose id is the same but for upper and lower case: on some disks they would share a
// folder.
func (s *State) differsInCase(id string) bool {
	return slices.ContainsFunc(s.works, func(w *Work) bool { return strings.EqualFold(w.ID, id) })
}

// circular tells whether tasks wait for each other in a circle.
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
