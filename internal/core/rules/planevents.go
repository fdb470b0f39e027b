package rules

import "signalbox"

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

func (PolicySet) eventType() string { return TypePolicySet }

// PlanOpened starts loading a plan. Nothing is dispatched until PlanLoaded.
type PlanOpened struct {
	Plan  signalbox.Hash `json:"plan"`
	Name  string         `json:"name,omitempty"`
	Tasks int            `json:"tasks"`
	// ID identifies the plan in this box, and Source outside of it. Both are empty for the only plan of a box before rules version 3.
	ID     string `json:"id,omitempty"`
	Source string `json:"source,omitempty"`
	// Adopts means that the tasks without a plan belong to this one.
	Adopts bool `json:"adopts,omitempty"`
}

func (PlanOpened) eventType() string { return TypePlanOpened }

// TaskPlanned adds a work item for the delivery loop: a task or sub-task, a remediation, a request to an expert, or a
// baseline.
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
	Plan     string          `json:"plan,omitempty"`
	// Name is the id of the task in its plan, if the work has another because another plan uses it too.
	Name   string `json:"name,omitempty"`
	Asker  string `json:"asker,omitempty"`
	Asked  uint64 `json:"asked,omitempty"`
	Expert string `json:"expert,omitempty"`
}

func (TaskPlanned) eventType() string { return TypeTaskPlanned }

// TaskReplanned records that an updated plan describes a task differently.
type TaskReplanned struct {
	Title    string         `json:"title,omitempty"`
	Order    int            `json:"order"`
	Priority int            `json:"priority,omitempty"`
	Blockers []string       `json:"blocked_by,omitempty"`
	Files    []string       `json:"files,omitempty"`
	Text     signalbox.Hash `json:"text,omitzero"`
	Budget   Budget         `json:"budget,omitzero"`
}

func (TaskReplanned) eventType() string { return TypeTaskReplanned }

// PlanLoaded finishes loading a plan.
type PlanLoaded struct {
	Plan signalbox.Hash `json:"plan"`
}

func (PlanLoaded) eventType() string { return TypePlanLoaded }

// BlockerAdded records that a task waits for others which the plan does not name.
type BlockerAdded struct {
	On    []string `json:"on"`
	Count int      `json:"count"`
}

func (BlockerAdded) eventType() string { return TypeBlockerAdded }

// TaskExpanded attaches a business analyst's specification.
type TaskExpanded struct {
	Confidence string         `json:"confidence"`
	Body       signalbox.Hash `json:"body,omitzero"`
	SubTasks   []string       `json:"sub_tasks,omitempty"`
}

func (TaskExpanded) eventType() string { return TypeTaskExpanded }
