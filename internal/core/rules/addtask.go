package rules

import (
	"cmp"
	"fmt"

	"signalbox"
)

// AddTask adds a task to the plan that was loaded last, whether that is finished or not. A box
// without a plan gets one for such tasks. LoadPlan does not change an added task: the file of the
// plan does not have it. If it is not finished when another plan is loaded, it becomes part of that
// one.
//
// Answer.Work is the id of the task, which is new, and so on.
type AddTask struct {
	// Task is as a plan would describe it, without an id. It is not a draft. Its blockers are named as
	// for State.Find.
	Task PlanTask
	// Plan is the blob with the text of the plan that a box without one gets.
	Plan  signalbox.Hash
	Actor string
}

// AddedSource is the source of the plan that a box gets with its first task if it has none.
const AddedSource = "signalbox:added"

// The id and the name of that plan.
const (
	addedPlanID   = "added"
	addedPlanName = "Added tasks"
)

// CheckWords returns the error about a text of the human for agents that is empty, too long, or not
// plain text; nil if it is accepted.
func CheckWords(what, text string) error { return requireTextUpTo(what, text, maxLongText) }

func (c AddTask) decide(d *decider) error {
	run := &d.s.run
	if err := cmp.Or(checkIDs("actor", c.Actor), requireText("title", c.Task.Title),
		c.Task.CheckText()); err != nil {
		return err
	}
	if run.Policy == nil || c.Plan == (signalbox.Hash{}) || c.Task.Text == (signalbox.Hash{}) ||
		c.Task.Draft {
		return refusef(signalbox.CodeUsage, "send Configure first, and the digests of the texts",
			"the box has no policy, or the task has no text")
	}
	blockers, err := d.s.addedBlockers(c.Task.BlockedBy)
	if err != nil {
		return err
	}
	plan, isNew := run.PlanID, run.Plan == signalbox.Hash{}
	if isNew {
		plan = d.s.unusedPlanID(addedPlanID)
		d.record("", "", c.Actor,
			PlanOpened{Plan: c.Plan, Name: addedPlanName, ID: plan, Source: AddedSource})
	}
	d.answer.Work, d.answer.Phase = d.s.unusedAddedID(), signalbox.PhaseImplementation
	d.answer.Seq = d.record(d.answer.Work, "", c.Actor, TaskPlanned{Kind: KindTask,
		Title: c.Task.Title, Phase: d.answer.Phase, Order: run.Orders, Priority: c.Task.Priority,
		Blockers: blockers, Files: lockOrder(c.Task.Files), Text: c.Task.Text,
		Budget: c.Task.Budget, Review: c.Task.Review, Plan: plan, Added: true})
	switch {
	case run.Loading: // LoadPlan does it at its end
	case run.Baselines == 0:
		d.openBaseline(c.Actor)
	default:
		d.checkRedBase(c.Actor)
	}
	if isNew {
		d.record("", "", c.Actor, PlanLoaded{c.Plan})
	}
	return nil
}

// addedBlockers returns the ids of the tasks that an added task waits for. Nothing waits for the
// new task yet, so they cannot wait for each other.
func (s *register) addedBlockers(names []string) (ids []string, err error) {
	for _, name := range names {
		w, err := s.Find(name)
		switch {
		case err != nil:
			return nil, err
		case w.Task == nil || w.Task.Kind != KindTask:
			return nil, refusef(signalbox.CodeUsage, "name a task of the plan",
				"'%s' is not a task of a plan, so no task can wait for it", w.ID)
		case w.Task.Cancelled != "":
			return nil, refusef(signalbox.CodeFailed, "undo that first with signalbox retry "+w.ID,
				"work '%s' is cancelled (%s), so a task would wait for it forever", w.ID,
				w.Task.Cancelled)
		}
		ids = appendUnique(ids, w.ID)
	}
	return ids, nil
}

// unusedAddedID returns the id of the next added task.
func (s *register) unusedAddedID() string {
	n := 1
	for _, w := range s.works {
		if w.Task != nil && w.Task.Added {
			n++
		}
	}
	for ; ; n++ {
		if id := fmt.Sprintf("A-%d", n); !s.differsInCase(id) {
			return id
		}
	}
}

// addedFault refuses a task of a plan that has the id of an added task which is part of that plan,
// or would become so: both would have the same name.
func (s *register) addedFault(plan string, tasks []PlanTask) error {
	for _, t := range tasks {
		w, known := s.Work(t.ID)
		if known && w.Task != nil && w.Task.Added && (!w.Done() || w.Task.Plan == plan) {
			return refusef(signalbox.CodeConflict, "give the task in the plan another id",
				"'%s' is already a task that was added with signalbox add", t.ID)
		}
	}
	return nil
}
