package rules

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"signalbox"
)

// PlanRecord is a plan that was loaded into the box.
type PlanRecord struct {
	// ID identifies the plan in this box.
	ID string `json:"id"`
	// Source identifies it outside: the id in its file, or the path of the file. Of several plans
	// with one source, the last counts.
	Source string `json:"source"`
	Name   string `json:"name,omitempty"`
	// File is the path of its file if Source has an id, "" if it is not known.
	File string `json:"file,omitempty"`
}

// fileOf returns the file of a plan as far as PlanRecord has it.
func (s *State) fileOf(id string) string {
	for _, p := range s.run.Plans {
		if p.ID == id {
			return p.File
		}
	}
	return ""
}

// loadTarget is the plan that a LoadPlan changes.
type loadTarget struct {
	id string
	// isNew means that the box does not have the plan yet. adopts means that it takes over the
	// tasks without a plan.
	isNew, adopts bool
}

// has reports whether a task belongs to the plan, as its file describes it.
func (t loadTarget) has(w *Work) bool {
	switch {
	case w.Task == nil || w.Task.Kind != KindTask || w.Task.Added:
		return false
	case t.adopts:
		return w.Task.Plan == ""
	}
	return !t.isNew && w.Task.Plan == t.id
}

// target returns the plan that the command is about, or an error if the plan must not be loaded
// now.
func (c LoadPlan) target(s *State) (loadTarget, error) {
	target := loadTarget{isNew: true}
	known := slices.Clone(s.run.Plans)
	slices.Reverse(known)
	switch i := slices.IndexFunc(known, func(p PlanRecord) bool { return p.Source == c.Source }); {
	case i >= 0:
		target = loadTarget{id: known[i].ID}
	case c.Source == "" && s.run.PlanID == "":
		target = loadTarget{}
	case s.isUnnamedPlan(c):
		target.adopts = true
	}
	if finished, same := s.finished(target, c.Tasks); finished && same < len(c.Tasks) {
		switch {
		case c.Finished == FinishedRenew:
			target = loadTarget{isNew: true}
		case c.Finished == FinishedRefuse && same == 0: // otherwise the plan has only changed
			return target, &signalbox.Error{Code: signalbox.CodeConflict, Err: ErrPlanFinished,
				Hint: "run it with --new-plan if the tasks are new work, or with --same-plan to leave completed tasks as they are"}
		}
	}
	if target.isNew {
		target.id = s.unusedPlanID(c.ID)
	}
	return target, cmp.Or(s.addedFault(target.id, c.Tasks), c.checkUnfinished(s, target))
}

// isUnnamedPlan reports whether c is a plan that was loaded when plans had no ids: it has the name
// or the text of the last one, or one of its tasks as it was. The id of a task is not enough,
// because every plan has a T1.
func (s *State) isUnnamedPlan(c LoadPlan) bool {
	last := s.run.PlanID == "" && s.run.Plan != signalbox.Hash{}
	if last && (s.run.Plan == c.Plan || s.run.PlanName == c.Name) {
		return true
	}
	return slices.ContainsFunc(c.Tasks, func(t PlanTask) bool {
		w, known := s.Work(t.ID)
		return known && loadTarget{adopts: true}.has(w) && w.Task.Text == t.Text
	})
}

// finished reports whether a plan is finished, and how many of the tasks it has completed as they
// are described.
func (s *register) finished(plan loadTarget, tasks []PlanTask) (finished bool, same int) {
	texts := map[string]signalbox.Hash{}
	for _, t := range tasks {
		texts[t.ID] = t.Text
	}
	for _, w := range s.works {
		if !plan.has(w) || w.Task.Parent != "" {
			continue
		}
		text, wanted := texts[w.Name()]
		switch {
		case w.Phase == signalbox.PhaseCompleted:
			finished = true
			if wanted && text == w.Task.Text {
				same++
			}
		case !w.Done() || wanted:
			return false, 0
		}
	}
	return finished, same
}

// checkUnfinished refuses a plan that would cancel the unfinished tasks of another, or all of its
// own.
func (c LoadPlan) checkUnfinished(s *State, target loadTarget) error {
	var own, others []string
	common, wanted := false, map[string]bool{}
	for _, t := range c.Tasks {
		wanted[t.ID] = true
	}
	for _, w := range s.works {
		switch {
		case w.Task == nil || w.Task.Kind != KindTask || w.Task.Added || w.Done():
		case target.has(w):
			own = append(own, w.ID)
			common = common || wanted[w.Name()]
		default:
			others = append(others, w.ID)
		}
	}
	const hint = "finish that plan first, use another box, or add --replace to cancel it"
	switch {
	case c.Replace:
	case len(others) > 0:
		return refusef(signalbox.CodeConflict, hint, "another plan is not finished: %s",
			joinSome(others))
	case len(own) > 0 && !common:
		return refusef(signalbox.CodeConflict, hint,
			"another plan is not finished (%s), and this one has no task in common with it",
			joinSome(own))
	}
	return nil
}

// unusedPlanID returns the preferred id for a new plan, with a number if another plan has it.
func (s *delivery) unusedPlanID(preferred string) string {
	return unused(preferred, func(id string) bool {
		return slices.ContainsFunc(s.run.Plans,
			func(p PlanRecord) bool { return strings.EqualFold(p.ID, id) })
	})
}

// workIDs returns the ids of the work items of a plan by the ids of its tasks. A task has the id
// that it has in the plan, unless another work has it already: then the id of the plan precedes it.
func (s *register) workIDs(plan loadTarget, tasks []PlanTask) map[string]string {
	ids, used := map[string]string{}, map[string]bool{}
	for _, w := range s.works {
		used[strings.ToLower(w.ID)] = true
		if plan.has(w) {
			ids[w.Name()] = w.ID
		}
	}
	for _, t := range tasks {
		if ids[t.ID] != "" {
			continue
		}
		id := t.ID
		if used[strings.ToLower(id)] {
			id = unused(plan.id+"."+t.ID, func(id string) bool { return used[strings.ToLower(id)] })
		}
		ids[t.ID], used[strings.ToLower(id)] = id, true
	}
	return ids
}

// unused returns id, shortened if it is too long, and with a number appended if it is in use.
func unused(id string, inUse func(string) bool) string {
	if len(id) <= signalbox.MaxID && !inUse(id) {
		return id
	}
	for n := 2; ; n++ {
		number := fmt.Sprintf("-%d", n)
		if numbered := id[:min(len(id), signalbox.MaxID-len(number))] + number; !inUse(numbered) {
			return numbered
		}
	}
}

// PlanID returns the id of the plan that was loaded last.
func (s *delivery) PlanID() string { return s.run.PlanID }

// Plans returns the plans that were loaded, in the order of their first load. Boxes of earlier
// versions have tasks without a plan.
func (s *delivery) Plans() []PlanRecord { return slices.Clone(s.run.Plans) }

// Name returns the id of a task in its plan. It is the id of the work unless another work had that
// id already.
func (w *Work) Name() string {
	if w.Task == nil || w.Task.Name == "" {
		return w.ID
	}
	return w.Task.Name
}

// names returns the ids by which an agent may call its planned work: its own and that in its plan.
// A request to an expert is also called like the task that asks, because the advice is for that
// task.
func (s *register) names(w *Work) []string {
	names := []string{w.ID}
	if w.Task.Name != "" {
		names = append(names, w.Task.Name)
	}
	if asker, known := s.Work(w.Task.Asker); known && w.Task.Kind == KindExpert {
		names = append(names, asker.ID, asker.Name())
	}
	return names
}

// InPlan reports whether a work item concerns the plan that was loaded last: it is part of it, or
// it is not done.
func (s *delivery) InPlan(w *Work) bool {
	return w.Task != nil && (w.Task.Kind != KindTask || w.Task.Plan == s.run.PlanID || !w.Done())
}

// taskNamed returns the task that an agent means that works on another task of the same plan.
func (s *register) taskNamed(from *Work, name string) (*Work, bool) {
	for _, w := range s.works {
		if w.Task != nil && w.Task.Kind == KindTask && w.Task.Plan == from.Task.Plan &&
			w.Name() == name {
			return w, true
		}
	}
	return s.Work(name)
}

// Find returns the work item that a person means: by its id, by the id of a task in its plan, or by
// "PLAN/TASK". It refuses an id that several plans use.
func (s *register) Find(name string) (*Work, error) {
	plan, task, qualified := strings.Cut(name, "/")
	if !qualified {
		task = name
	}
	var found []*Work
	for _, w := range s.works {
		matches := w.ID == task && !qualified || w.Name() == task
		if matches && (!qualified || w.Task != nil && w.Task.Plan == plan) {
			found = append(found, w)
		}
	}
	switch len(found) {
	case 0:
		return nil, refusef(signalbox.CodeNotFound, "list the work with signalbox work list",
			"there is no work '%s'", sanitize(name, 200))
	case 1:
		return found[0], nil
	}
	var names []string
	for _, w := range found {
		if w.Task == nil {
			names = append(names, w.ID)
			continue
		}
		// "/T1" for tasks of the time when plans had no ids
		names = append(names, w.Task.Plan+"/"+w.Name())
	}
	return nil, refusef(signalbox.CodeUsage, "write the plan too: "+strings.Join(names, " or "),
		"several plans have a task '%s'", sanitize(name, 200))
}
