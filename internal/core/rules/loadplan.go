package rules

import (
	"cmp"
	"errors"
	"path"
	"slices"
	"strings"

	"signalbox/internal/text"

	"signalbox"
)

// PlanTask is a task as a plan describes it.
type PlanTask struct {
	ID, Title string
	Priority  int
	BlockedBy []string
	Files     []string
	// Draft means that a business analyst must specify the task first.
	Draft bool
	// Text is the blob with the full text of the task.
	Text   signalbox.Hash
	Budget Budget
	Review Review
}

// LoadPlan loads a plan into the box: it adds, changes and cancels tasks. Completed tasks stay
// completed, and those of AddTask stay as they are. A large plan takes several commands: repeat the
// command until Answer.Plan.Loaded.
type LoadPlan struct {
	Plan  signalbox.Hash
	Name  string
	Tasks []PlanTask
	Actor string
	// Source identifies the plan: the id in the file, or its path. Loading a plan with the same
	// source changes that plan.
	Source string
	// File is the path of the file if Source is something else, so that people can be told how to
	// run the plan again. "" means that it is not known.
	File string
	// ID is the preferred id of a plan that is new in the box. If another plan has it, a number is
	// appended.
	ID string
	// Replace allows a plan while another is not finished, or one that has no task in common with
	// its unfinished tasks. The unfinished tasks are cancelled.
	Replace bool
	// Finished says what to do if the source is a finished plan that now has other tasks.
	Finished FinishedPlan
}

// FinishedPlan is what LoadPlan does with a finished plan that now has other tasks.
type FinishedPlan string

const (
	FinishedRefuse FinishedPlan = ""     // return ErrPlanFinished
	FinishedUpdate FinishedPlan = "same" // it is the same plan: completed tasks stay completed
	FinishedRenew  FinishedPlan = "new"  // it is a new plan with the same source
)

// ErrPlanFinished means that a plan is finished, and that its file now describes other tasks: it is
// not clear whether those are to be done too. Ask, and set LoadPlan.Finished.
var ErrPlanFinished = errors.New("the plan is finished, and its file now has other tasks")

// PlanChange is what loading a plan changed.
type PlanChange struct {
	Loaded bool
	// ID is the plan. New means that it was not in the box before.
	ID  string
	New bool
	// Stale are completed tasks that the plan now describes differently. They are not done again.
	Added, Changed, Removed, Stale []string
}

// maxLoaded is how many tasks one command adds, changes or removes, and maxLoadEvents about how
// many events it causes, because the size of an append is limited.
const (
	maxLoaded     = 400
	maxLoadEvents = 800
)

// CheckPlanName returns the error of LoadPlan about the name of a plan, nil if it accepts it.
func CheckPlanName(name string) error { return checkText("name of the plan", name) }

// CheckPlanSource returns the error of LoadPlan about the source of a plan, nil if it accepts it.
func CheckPlanSource(source string) error { return checkText("source of the plan", source) }

// CheckText returns the error of LoadPlan about the title, the blockers and the files of a task,
// nil if it accepts them.
func (t PlanTask) CheckText() error {
	if err := checkText("title", t.Title); err != nil {
		return err
	}
	if size := len(marshal(TaskReplanned{Title: t.Title, Blockers: t.BlockedBy,
		Files: lockOrder(t.Files)})); size > maxTaskBytes {
		return refusef(signalbox.CodeUsage, "name folders instead of files, or split the task",
			"the blockers and target files of the task have %d bytes, limit %d", size, maxTaskBytes)
	}
	return nil
}

// maxTaskBytes leaves room in an event, whose size is limited, for the ids that blockers have in
// the box.
const maxTaskBytes = 128 << 10

func (c LoadPlan) decide(d *decider) error {
	if err := cmp.Or(checkIDs("actor", c.Actor), CheckPlanName(c.Name), CheckPlanSource(c.Source),
		checkText("file of the plan", c.File), c.check(d.s)); err != nil {
		return err
	}
	target, err := c.target(d.s)
	if err != nil {
		return err
	}
	change := &PlanChange{ID: target.id, New: target.isNew && !target.adopts}
	d.answer.Plan = change
	opened := !target.isNew && d.s.run.PlanID == target.id && d.s.run.Plan == c.Plan &&
		(c.File == "" || c.File == d.s.fileOf(target.id))
	if opened && !d.s.run.Loading {
		change.Loaded = true
		d.answer.Repeated = d.s.open[KindTask] == 0 || !d.checkRedBase(c.Actor)
		return nil
	}
	if !opened {
		d.answer.Seq = d.record("", "", c.Actor,
			PlanOpened{Plan: c.Plan, Name: c.Name, Tasks: len(c.Tasks), ID: target.id,
				Source: c.Source, File: c.File,
				Adopts: target.adopts})
	}
	ids := d.s.workIDs(target, c.Tasks)
	wanted := map[string]bool{}
	for order, t := range c.Tasks {
		wanted[ids[t.ID]] = true
		if !d.loadFull(change) {
			c.load(d, change, order, target.id, t, ids)
		}
	}
	for w := range d.s.Works() {
		if t := w.Task; t == nil || t.Kind != KindTask || t.Added || wanted[w.ID] ||
			d.loadFull(change) {
			continue
		}
		switch in := d.s.belongsTo(w, wanted); {
		case !in && !w.Done():
			d.cancel(w, c.Actor, RemovedFromPlan)
			change.Removed = append(change.Removed, w.ID)
		case in && w.Task.Cancelled == RemovedFromPlan:
			d.retry(w, c.Actor, backInPlan, "")
			change.Changed = append(change.Changed, w.ID)
		}
	}
	if d.loadFull(change) {
		return nil
	}
	change.Loaded = true
	if d.s.run.Baselines == 0 {
		d.openBaseline(c.Actor)
	} else if d.s.open[KindTask] > 0 || len(change.Added)+len(change.Changed) > 0 {
		d.checkRedBase(c.Actor)
	}
	d.answer.Seq = d.record("", "", c.Actor, PlanLoaded{c.Plan})
	return nil
}

const (
	// RemovedFromPlan is why a task is cancelled that a new version of its plan does not have.
	RemovedFromPlan = "removed from the plan"
	backInPlan      = "added to the plan again"
)

func (d *decider) loadFull(change *PlanChange) bool {
	return len(change.Added)+len(change.Changed)+len(change.Removed) >= maxLoaded ||
		len(d.events) >= maxLoadEvents
}

// belongsTo reports whether w is a sub-task, directly or not, of a wanted task.
func (s *register) belongsTo(w *Work, wanted map[string]bool) bool {
	for w.Task.Parent != "" {
		if wanted[w.Task.Parent] {
			return true
		}
		w, _ = s.Work(w.Task.Parent)
	}
	return false
}

// load adds a task, or changes it if the plan describes it differently.
func (c LoadPlan) load(d *decider, change *PlanChange, order int, plan string, t PlanTask,
	ids map[string]string) {
	id, name := ids[t.ID], t.ID
	if id == name {
		name = ""
	}
	var blockers []string
	for _, blocker := range t.BlockedBy {
		blockers = append(blockers, cmp.Or(ids[blocker], blocker))
	}
	w, exists := d.s.Work(id)
	phase := signalbox.PhaseImplementation
	if t.Draft {
		phase = signalbox.PhaseDraft
	}
	if !exists {
		d.record(id, "", c.Actor, TaskPlanned{Kind: KindTask, Title: t.Title, Phase: phase,
			Order: order, Priority: t.Priority,
			Blockers: blockers, Files: lockOrder(t.Files), Text: t.Text, Budget: t.Budget,
			Review: t.Review, Plan: plan, Name: name})
		change.Added = append(change.Added, id)
		return
	}
	replanned := TaskReplanned{t.Title, order, t.Priority, blockers, lockOrder(t.Files), t.Text,
		t.Budget, t.Review}
	now := TaskReplanned{w.Title, w.Task.Order, w.Task.Priority, w.Task.Blockers, w.Task.Files,
		w.Task.Text, w.Task.Budget, w.Task.Review}
	same := string(marshal(replanned)) == string(marshal(now))
	now.Order = order
	sameButOrder := string(marshal(replanned)) == string(marshal(now))
	readded := w.Task.Cancelled == RemovedFromPlan
	switch {
	case w.Phase == signalbox.PhaseCompleted && w.Task.Text != t.Text:
		change.Stale = append(change.Stale, id)
		return
	case w.Phase == signalbox.PhaseCompleted || same && !readded:
		return
	}
	if readded {
		d.retry(w, c.Actor, backInPlan, "")
	}
	d.record(w.ID, "", c.Actor, replanned)
	raised := *w.Task
	raised.Budget = t.Budget
	if p := d.s.run.Policy; !raised.isBudgetSpent(p) && !d.s.isTurnSpent(w.ID, p) {
		d.answerBudget(w.ID, "", w.Task.NoBudget, c.Actor)
	}
	// Work that passed a gate without a verdict may need one now.
	if w.Task.Text != t.Text || len(w.Task.Skipped) > 0 && w.Task.Review != t.Review {
		d.restart(w, c.Actor)
	}
	if !sameButOrder || readded { // a new position alone is not reported as a change
		change.Changed = append(change.Changed, id)
	}
}

// restart sends work back to the developers because its text changed after it was implemented: its
// checks, review and audit no longer apply.
func (d *decider) restart(w *Work, actor string) {
	at, blocked := w.Phase, w.Phase == signalbox.PhaseBlocked
	if blocked {
		at = w.BlockedFrom
	}
	if at == signalbox.PhaseDraft || at == signalbox.PhaseImplementation {
		return
	}
	d.revokeLease(w, actor, "the plan changed")
	d.record(w.ID, "", actor,
		ReworkOrdered{Cause: ReworkPlan,
			Summary: "the plan now describes this task differently; make sure that the work matches all of it"})
	if blocked {
		d.record(w.ID, "", actor, PhaseChanged{signalbox.PhaseBlocked, at})
	}
	d.record(w.ID, "", actor, PhaseChanged{at, signalbox.PhaseImplementation})
	if blocked {
		d.record(w.ID, "", actor, PhaseChanged{signalbox.PhaseImplementation,
			signalbox.PhaseBlocked})
	}
}

// lockOrder returns files by their clean names, sorted and without duplicates.
func lockOrder(files []string) []string {
	var clean []string
	for _, file := range files {
		clean = append(clean, cleanFile(file))
	}
	slices.Sort(clean)
	return slices.Compact(clean)
}

func cleanFile(file string) string { return path.Clean(sanitize(file, 1000)) }

// check validates the plan.
func (c LoadPlan) check(s *State) error {
	if s.run.Policy == nil || c.Plan == (signalbox.Hash{}) {
		return refusef(signalbox.CodeUsage, "send Configure first, and the digest of the plan",
			"the box has no policy, or the plan has no digest")
	}
	ids := map[string]bool{}
	for _, t := range c.Tasks {
		if err := cmp.Or(checkIDs("task", t.ID), t.CheckText()); err != nil {
			return err
		}
		if ids[t.ID] || isReservedID(t.ID) {
			return refusef(signalbox.CodeUsage,
				"give each task a unique id, other than R-1, X-1, B-1 or Q-1",
				"task id '%s' is a duplicate or reserved", t.ID)
		}
		ids[t.ID] = true
		if w, exists := s.Work(t.ID); exists && (w.Task == nil || w.Task.Kind != KindTask) {
			return refusef(signalbox.CodeConflict, "give the task another id in the plan",
				"work '%s' already exists, and does not belong to a plan", t.ID)
		}
	}
	return nil
}

// isReservedID reports whether an id has a form that signalbox uses for work and questions that it
// adds itself.
func isReservedID(id string) bool {
	return len(id) > 2 && strings.ContainsRune("RXBQ", rune(id[0])) && id[1] == '-' &&
		strings.Trim(id[2:], "0123456789") == ""
}

func joinSome(ids []string) string { return text.JoinSome(ids, 5) }
