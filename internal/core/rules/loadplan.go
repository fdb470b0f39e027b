package rules

import (
	"fmt"
	"path"
	"slices"
	"strings"

	"signalbox"
)

// PlanTask is a task as a plan describes it.
type PlanTask struct {
	ID, Title string
	Priority  int
	BlockedBy []string
	Files     []string
	// Draft means that a business analyst has to say what is to be done.
	Draft bool
	// Text is the blob that has the task in full.
	Text   signalbox.Hash
	Budget Budget
}

// LoadPlan makes the box's tasks those of a plan. What is completed stays completed. One command loads a part of a
// large plan; until Answer.Plan.Loaded it is to be given again.
type LoadPlan struct {
	Plan  signalbox.Hash
	Name  string
	Tasks []PlanTask
	Actor string
	// Replace allows a plan that has nothing in common with one that is not finished.
	Replace bool
}

// PlanChange is what loading a plan changed.
type PlanChange struct {
	Loaded bool
	// Stale are completed tasks about which the plan says something else now. They are not done again.
	Added, Changed, Removed, Stale []string
}

// maxLoaded is how many tasks one command adds, changes or removes, and maxLoadEvents with about how many events: an append
// has its limits.
const (
	maxLoaded     = 400
	maxLoadEvents = 800
)

func (c LoadPlan) decide(d *decider) error {
	if err := firstError(checkIDs("actor", c.Actor), checkText("name of the plan", c.Name), c.check(d.s)); err != nil {
		return err
	}
	change := &PlanChange{}
	d.answer.Plan = change
	if d.s.delivery.Plan == c.Plan && !d.s.delivery.Loading {
		change.Loaded, d.answer.Repeated = true, true
		return nil
	}
	if d.s.delivery.Plan != c.Plan {
		d.answer.Seq = d.record("", "", c.Actor, PlanOpened{c.Plan, c.Name, len(c.Tasks)})
	}
	wanted := map[string]bool{}
	for order, t := range c.Tasks {
		wanted[t.ID] = true
		if !d.loadFull(change) {
			c.load(d, change, order, t)
		}
	}
	for w := range d.s.Works() {
		if t := w.Task; t == nil || t.Kind != KindTask || wanted[w.ID] || d.loadFull(change) {
			continue
		}
		switch in := d.s.belongsTo(w, wanted); {
		case !in && !w.Done():
			d.cancel(w, c.Actor, removedFromPlan)
			change.Removed = append(change.Removed, w.ID)
		case in && w.Task.Cancelled == removedFromPlan:
			d.retry(w, c.Actor, backInPlan)
			change.Changed = append(change.Changed, w.ID)
		}
	}
	if d.loadFull(change) {
		return nil
	}
	change.Loaded = true
	if d.s.delivery.Baselines == 0 {
		d.openBaseline(c.Actor)
	}
	d.answer.Seq = d.record("", "", c.Actor, PlanLoaded{c.Plan})
	return nil
}

const (
	removedFromPlan = "removed from the plan"
	backInPlan      = "it is in the plan again"
)

func (d *decider) loadFull(change *PlanChange) bool {
	return len(change.Added)+len(change.Changed)+len(change.Removed) >= maxLoaded || len(d.events) >= maxLoadEvents
}

// partOf tells whether a sub-task is of a task that is wanted.
func (s *State) belongsTo(w *Work, wanted map[string]bool) bool {
	for w.Task.Parent != "" {
		if wanted[w.Task.Parent] {
			return true
		}
		w, _ = s.Work(w.Task.Parent)
	}
	return false
}

// load adds or changes one task if need be.
func (c LoadPlan) load(d *decider, change *PlanChange, order int, t PlanTask) {
	w, exists := d.s.Work(t.ID)
	phase := signalbox.PhaseImplementation
	if t.Draft {
		phase = signalbox.PhaseDraft
	}
	if !exists {
		d.record(t.ID, "", c.Actor, TaskPlanned{Kind: KindTask, Title: t.Title, Phase: phase, Order: order, Priority: t.Priority,
			Blockers: t.BlockedBy, Files: lockOrder(t.Files), Text: t.Text, Budget: t.Budget})
		change.Added = append(change.Added, t.ID)
		return
	}
	replanned := TaskReplanned{t.Title, order, t.Priority, t.BlockedBy, lockOrder(t.Files), t.Text, t.Budget}
	now := TaskReplanned{w.Title, w.Task.Order, w.Task.Priority, w.Task.Blockers, w.Task.Files, w.Task.Text, w.Task.Budget}
	same := string(marshal(replanned)) == string(marshal(now))
	now.Order = order // to stand elsewhere in the plan is no change to tell of
	moved := string(marshal(replanned)) == string(marshal(now))
	back := w.Task.Cancelled == removedFromPlan
	switch {
	case w.Phase == signalbox.PhaseCompleted && w.Task.Text != t.Text:
		change.Stale = append(change.Stale, t.ID)
		return
	case w.Phase == signalbox.PhaseCompleted || same && !back:
		return
	}
	if back {
		d.retry(w, c.Actor, backInPlan)
	}
	d.record(w.ID, "", c.Actor, replanned)
	if w.Task.Text != t.Text {
		d.restart(w, c.Actor)
	}
	if !moved || back {
		change.Changed = append(change.Changed, t.ID)
	}
}

// beginAnew sends work back to the developers that was done for another text: what was checked, reviewed or audited was that.
func (d *decider) restart(w *Work, actor string) {
	at, blocked := w.Phase, w.Phase == signalbox.PhaseBlocked
	if blocked {
		at = w.BlockedFrom
	}
	if at == signalbox.PhaseDraft || at == signalbox.PhaseImplementation {
		return
	}
	if lease := d.liveLease(w); lease != nil {
		d.revokeLease(w, actor, "the plan has changed")
	}
	d.record(w.ID, "", actor, ReworkOrdered{Cause: "plan", Summary: "the plan says something else about this task now; see that all of it holds"})
	if blocked {
		d.record(w.ID, "", actor, PhaseChanged{signalbox.PhaseBlocked, at})
	}
	d.record(w.ID, "", actor, PhaseChanged{at, signalbox.PhaseImplementation})
	if blocked {
		d.record(w.ID, "", actor, PhaseChanged{signalbox.PhaseImplementation, signalbox.PhaseBlocked})
	}
}

// lockOrder is the order in which files are locked, each once and by one name.
func lockOrder(files []string) []string {
	var clean []string
	for _, file := range files {
		clean = append(clean, cleanFile(file))
	}
	slices.Sort(clean)
	return slices.Compact(clean)
}

func cleanFile(file string) string { return path.Clean(sanitize(file, 1000)) }

// check refuses a plan that cannot be this box's.
func (c LoadPlan) check(s *State) error {
	if s.delivery.Policy == nil || c.Plan == (signalbox.Hash{}) {
		return refusef(signalbox.CodeUsage, "give Configure first, and the plan's digest", "no policy says how work is delivered, or the plan has no digest")
	}
	ids, common, unfinished := map[string]bool{}, false, []string(nil)
	for _, t := range c.Tasks {
		if err := firstError(checkIDs("task", t.ID), checkText("title", t.Title)); err != nil {
			return err
		}
		if ids[t.ID] || isReservedID(t.ID) {
			return refusef(signalbox.CodeUsage, "give each task an id of its own, other than R-1, X-1, B-1 or Q-1", "task '%s' cannot be in the plan, or not twice", t.ID)
		}
		ids[t.ID] = true
		w, exists := s.Work(t.ID)
		if exists && (w.Task == nil || w.Task.Kind != KindTask) {
			return refusef(signalbox.CodeConflict, "give the task another id in the plan", "work '%s' is there already, and not of a plan", t.ID)
		}
		common = common || exists && !w.Done()
	}
	for w := range s.Works() {
		if w.Task != nil && w.Task.Kind == KindTask && !w.Done() {
			unfinished = append(unfinished, w.ID)
		}
	}
	if len(unfinished) > 0 && !common && !c.Replace {
		return refusef(signalbox.CodeConflict, "finish that plan first, use another box, or add --replace to give it up",
			"another plan is not finished (%s), and this one has no task in common with it", joinSome(unfinished))
	}
	return nil
}

// ownID tells whether an id is of the form that signalbox gives to what it adds itself.
func isReservedID(id string) bool {
	return len(id) > 2 && strings.ContainsRune("RXBQ", rune(id[0])) && id[1] == '-' && strings.Trim(id[2:], "0123456789") == ""
}

func joinSome(ids []string) string {
	if len(ids) > 5 {
		return fmt.Sprintf("%s and %d more", strings.Join(ids[:5], ", "), len(ids)-5)
	}
	return strings.Join(ids, ", ")
}

// openBaseline asks for the checks to be run on the base.
func (d *decider) openBaseline(actor string) {
	d.baselines++
	n := d.s.delivery.Baselines + d.baselines
	d.record(fmt.Sprintf("B-%d", n), "", actor, TaskPlanned{Kind: KindBaseline, Title: "checks on the base", Phase: signalbox.PhaseCIPending, Order: n})
}

func (s *State) applyPlan(e *signalbox.Event, body body) {
	switch b := body.(type) {
	case PolicySet:
		s.delivery.Policy = &b.Policy
		s.refreshAll()
	case PlanOpened:
		s.delivery.Plan, s.delivery.PlanName, s.delivery.Loading = b.Plan, b.Name, true
	case PlanLoaded:
		s.delivery.Loading = false
		s.breakWaits()
	case TaskPlanned:
		s.addTask(e, b)
	case TaskReplanned:
		s.changeTask(e.Work, func(w *Work, t *Task) {
			w.Title, t.Order, t.Priority, t.Blockers, t.Files, t.Text, t.Budget = b.Title, b.Order, b.Priority, b.Blockers, b.Files, b.Text, b.Budget
		})
	}
}

// breakWaits forgets what agents wanted to wait for where the plan says now that it comes later.
func (s *State) breakWaits() {
	for _, w := range s.works {
		if w.Task == nil {
			continue
		}
		for _, id := range w.Task.Waits {
			if b, known := s.Work(id); known && s.waitsFor(b, w.ID) {
				s.changeTask(w.ID, func(_ *Work, t *Task) { t.Waits = without(t.Waits, id) })
			}
		}
	}
}

func (s *State) addTask(e *signalbox.Event, b TaskPlanned) {
	t := &Task{Kind: b.Kind, Order: b.Order, Priority: b.Priority, Blockers: b.Blockers, Files: b.Files, Text: b.Text, Parent: b.Parent,
		Budget: b.Budget, Asker: b.Asker, Asked: b.Asked, Expert: b.Expert}
	switch b.Kind {
	case KindRemediation:
		s.delivery.Remediations++
	case KindExpert:
		s.delivery.Requests++
	case KindBaseline:
		s.delivery.Baselines++
	}
	s.delivery.Orders = max(s.delivery.Orders, b.Order+1)
	s.addWork(&Work{ID: e.Work, Title: b.Title, Phase: b.Phase, Opened: e.Time, Task: t})
}

// refreshAll finds out anew which tasks are ready. What a policy says may matter to all of them.
func (s *State) refreshAll() {
	for i, w := range s.works {
		if w.Task != nil {
			s.refreshReady(i, w)
		}
	}
}
