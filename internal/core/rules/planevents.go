package rules

import (
	"fmt"
	"slices"
	"strings"

	"signalbox"
)

// The types of events about plans and their tasks.
const (
	TypePolicySet     = "PolicySet"
	TypePlanOpened    = "PlanOpened"
	TypeTaskPlanned   = "TaskPlanned"
	TypeTaskReplanned = "TaskReplanned"
	TypePlanLoaded    = "PlanLoaded"
	TypeBlockerAdded  = "BlockerAdded"
	TypeTaskExpanded  = "TaskExpanded"
)

// PolicySet records how plans are delivered from now on.
type PolicySet struct {
	Policy Policy `json:"policy"`
}

func (b PolicySet) fault(*State, *signalbox.Event) string { return policyFault(&b.Policy) }

func (b PolicySet) apply(s *State, _ *signalbox.Event) {
	if p := s.run.Policy; p != nil && p.CheckSet != b.Policy.CheckSet {
		s.run.Accepted = nil // it was about other checks
	}
	s.forgetModels(&b.Policy)
	s.run.Policy = &b.Policy
	s.refreshAll()
}

// PlanOpened starts loading a plan. Nothing is dispatched until PlanLoaded.
type PlanOpened struct {
	Plan  signalbox.Hash `json:"plan"`
	Name  string         `json:"name,omitempty"`
	Tasks int            `json:"tasks"`
	// ID identifies the plan in this box, and Source outside of it. Both are empty for the only
	// plan of a box before rules version 3.
	ID     string `json:"id,omitempty"`
	Source string `json:"source,omitempty"`
	// File is the path of its file if Source has only an id. It is absent in older logs.
	File string `json:"file,omitempty"`
	// Adopts means that the tasks without a plan belong to this one. Added tasks that are not done
	// always do.
	Adopts bool `json:"adopts,omitempty"`
}

func (b PlanOpened) fault(s *State, _ *signalbox.Event) string {
	switch {
	case s.run.Policy == nil:
		return "the box has no policy"
	case b.ID == "" && (b.Source != "" || b.Adopts || s.run.PlanID != ""):
		return "the plan has no id"
	case b.ID != "":
		return idFault(b.ID)
	}
	return ""
}

func (b PlanOpened) apply(s *State, _ *signalbox.Event) {
	d := &s.run
	d.Plan, d.PlanName, d.PlanID, d.Loading = b.Plan, b.Name, b.ID, true
	record := PlanRecord{b.ID, b.Source, b.Name, b.File}
	i := slices.IndexFunc(d.Plans, func(p PlanRecord) bool { return p.ID == b.ID })
	switch {
	case b.ID == "":
	case i >= 0:
		d.Plans = slices.Clone(d.Plans)
		d.Plans[i] = record
	default:
		d.Plans = append(slices.Clip(d.Plans), record)
		if !b.Adopts {
			d.Granted = d.Spent // the budgets of the run and its roles are for this plan
			for _, r := range d.Roles {
				s.changeRole(r.Role, func(r *RoleSpent) { r.Granted = r.Spent })
			}
		}
	}
	for _, w := range s.works {
		if w.Task == nil || w.Task.Kind != KindTask {
			continue
		}
		if b.Adopts && w.Task.Plan == "" || w.Task.Added && !w.Done() && w.Task.Plan != b.ID {
			s.changeTask(w.ID, func(_ *Work, t *Task) { t.Plan = b.ID })
		}
	}
}

// TaskPlanned adds a work item for the delivery loop: a task or sub-task, a remediation, a request
// to an expert, or a baseline.
type TaskPlanned struct {
	Kind     Kind            `json:"kind"`
	Title    string          `json:"title,omitempty"`
	Phase    signalbox.Phase `json:"phase"`
	Order    int             `json:"order"`
	Priority int             `json:"priority,omitempty"`
	Blockers []string        `json:"blocked_by,omitempty"`
	Files    []string        `json:"files,omitempty"`
	Text     signalbox.Hash  `json:"text,omitzero"`
	Parent   string          `json:"parent,omitempty"`
	Budget   Budget          `json:"budget,omitzero"`
	// Review is absent in older logs, whose work needs a full review.
	Review Review `json:"review,omitempty"`
	Plan   string `json:"plan,omitempty"`
	// Name is the id of the task in its plan, if the work has another because another plan uses it
	// too.
	Name string `json:"name,omitempty"`
	// Added means that a human added the task to the plan, whose file does not have it.
	Added bool `json:"added,omitempty"`
	ExpertRequest
}

func (b TaskPlanned) fault(s *State, e *signalbox.Event) string {
	if _, exists := s.Work(e.Work); exists {
		return "the work already exists"
	}
	if fault := b.kindFault(s, e); fault != "" {
		return fault
	}
	if s.run.Policy == nil {
		return "the box has no policy"
	}
	return idFault(e.Work)
}

// kindFault validates what depends on the kind of the work: its id, and the phase in which it
// starts.
func (b TaskPlanned) kindFault(s *State, e *signalbox.Event) string {
	var next string
	first := signalbox.PhaseImplementation
	if b.Added && (b.Kind != KindTask || b.Parent != "" || b.Phase != first) {
		return "only a task that starts in IMPLEMENTATION can be added"
	}
	switch b.Kind {
	case KindTask:
		if b.Phase != signalbox.PhaseDraft && b.Phase != first || isReservedID(e.Work) {
			return "a task starts in DRAFT or IMPLEMENTATION and must not have a reserved id"
		}
		if b.Plan != s.run.PlanID && b.Parent == "" {
			return fmt.Sprintf("plan %q is not being loaded", b.Plan)
		}
		return ""
	case KindRemediation:
		next = fmt.Sprintf("R-%d", s.run.Remediations+1)
	case KindExpert:
		next = fmt.Sprintf("X-%d", s.run.Requests+1)
	case KindBaseline:
		next, first = fmt.Sprintf("B-%d", s.run.Baselines+1), signalbox.PhaseCIPending
	default:
		return fmt.Sprintf("there is no kind %q", b.Kind)
	}
	if e.Work != next || b.Phase != first {
		return fmt.Sprintf("the next %s is %s and starts in %s", b.Kind, next, first)
	}
	if asker, known := s.Work(b.Asker); b.Kind == KindExpert && (!known || asker.Task == nil) {
		return "there is no task that asked for it"
	}
	return ""
}

func (b TaskPlanned) apply(s *State, e *signalbox.Event) {
	switch b.Kind {
	case KindRemediation:
		s.run.Remediations++
	case KindExpert:
		s.run.Requests++
	case KindBaseline:
		s.run.Baselines++
	}
	s.run.Orders = max(s.run.Orders, b.Order+1)
	plan := TaskPlan{Order: b.Order, Priority: b.Priority, Blockers: b.Blockers, Files: b.Files,
		Text: b.Text, Parent: b.Parent, Budget: b.Budget, Review: b.Review, Plan: b.Plan, Name: b.Name,
		Added: b.Added}
	s.addWork(&Work{ID: e.Work, Title: b.Title, Phase: b.Phase, Opened: e.Time,
		Task: &Task{Kind: b.Kind, TaskPlan: plan, ExpertRequest: b.ExpertRequest}})
}

func (b TaskPlanned) describe(_ *Describer, e *signalbox.Event) (text, detail string) {
	if !b.Added {
		return "", ""
	}
	return "added by " + e.Actor, b.Title
}

// TaskReplanned records that an updated plan describes a task differently.
type TaskReplanned struct {
	Title    string         `json:"title,omitempty"`
	Order    int            `json:"order"`
	Priority int            `json:"priority,omitempty"`
	Blockers []string       `json:"blocked_by,omitempty"`
	Files    []string       `json:"files,omitempty"`
	Text     signalbox.Hash `json:"text,omitzero"`
	Budget   Budget         `json:"budget,omitzero"`
	Review   Review         `json:"review,omitempty"`
}

func (TaskReplanned) fault(s *State, e *signalbox.Event) string {
	return s.taskFault(e, func(w *Work) string {
		if w.Task.Kind != KindTask || w.Phase == signalbox.PhaseCompleted {
			return "only a task that is not completed can be replanned"
		}
		return ""
	})
}

func (b TaskReplanned) apply(s *State, e *signalbox.Event) {
	s.changeTask(e.Work, func(w *Work, t *Task) {
		if b.Text != t.Text {
			t.forgetConversations()
			t.Rejected = signalbox.Hash{}
			t.endFindings(FindingSuperseded)
			t.forgetJudgements()
		}
		w.Title, t.Order, t.Priority, t.Blockers = b.Title, b.Order, b.Priority, b.Blockers
		t.Files, t.Text, t.Budget, t.Review = b.Files, b.Text, b.Budget, b.Review
	})
}

// PlanLoaded finishes loading a plan.
type PlanLoaded struct {
	Plan signalbox.Hash `json:"plan"`
}

func (b PlanLoaded) fault(s *State, _ *signalbox.Event) string {
	if b.Plan != s.run.Plan || !s.run.Loading {
		return "that plan is not being loaded"
	}
	return ""
}

func (PlanLoaded) apply(s *State, _ *signalbox.Event) {
	s.run.Loading = false
	s.removeCircularWaits()
}

func (PlanLoaded) describe(d *Describer, _ *signalbox.Event) (text, detail string) {
	return "plan loaded", d.State.run.PlanName
}

// removeCircularWaits removes blockers that agents named and that, in the new plan, depend on the
// waiting task.
func (s *State) removeCircularWaits() {
	for _, w := range s.works {
		if w.Task == nil {
			continue
		}
		for _, id := range w.Task.Waits {
			if b, known := s.Work(id); known && s.waitsFor(b, w.ID) {
				s.changeTask(w.ID, func(_ *Work, t *Task) { t.Waits = remove(t.Waits, id) })
			}
		}
	}
}

// BlockerAdded records that a task waits for others which the plan does not name.
type BlockerAdded struct {
	On    []string `json:"on"`
	Count int      `json:"count"`
}

func (b BlockerAdded) apply(s *State, e *signalbox.Event) {
	s.changeTask(e.Work, func(_ *Work, t *Task) {
		t.Counts.Waits = b.Count
		for _, id := range b.On {
			t.Waits = appendUnique(t.Waits, id)
		}
	})
}

func (b BlockerAdded) describe(*Describer, *signalbox.Event) (text, detail string) {
	return "also blocked by " + strings.Join(b.On, ", "), ""
}

// TaskExpanded attaches a business analyst's specification.
type TaskExpanded struct {
	Confidence string         `json:"confidence"`
	Body       signalbox.Hash `json:"body,omitzero"`
	SubTasks   []string       `json:"sub_tasks,omitempty"`
}

func (b TaskExpanded) apply(s *State, e *signalbox.Event) {
	s.changeTask(e.Work, func(_ *Work, t *Task) {
		t.Specification = b.Body
		for _, id := range b.SubTasks {
			t.Waits = appendUnique(t.Waits, id)
		}
	})
}

func (b TaskExpanded) describe(*Describer, *signalbox.Event) (text, detail string) {
	if len(b.SubTasks) > 0 {
		detail = "with " + strings.Join(b.SubTasks, ", ")
	}
	return "specified, confidence " + b.Confidence, detail
}
