package rules

import (
	"time"

	"signalbox"
)

// The events of the delivery loop. What event.go says of events holds for these too.

// PolicySet records how plans are delivered from here on.
type PolicySet struct {
	Policy Policy `json:"policy"`
}

// PlanOpened begins the loading of a plan: until PlanLoaded nothing of it is dispatched.
type PlanOpened struct {
	Plan  signalbox.Hash `json:"plan"`
	Name  string         `json:"name,omitempty"`
	Tasks int            `json:"tasks"`
}

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
	Asker    string          `json:"asker,omitempty"`
	Asked    uint64          `json:"asked,omitempty"`
	Expert   string          `json:"expert,omitempty"`
}

// TaskReplanned records that the plan says something else about a task.
type TaskReplanned struct {
	Title    string         `json:"title,omitempty"`
	Order    int            `json:"order"`
	Priority int            `json:"priority,omitempty"`
	Blockers []string       `json:"blocked_by,omitempty"`
	Files    []string       `json:"files,omitempty"`
	Text     signalbox.Hash `json:"text,omitzero"`
	Budget   Budget         `json:"budget,omitzero"`
}

// PlanLoaded ends the loading of a plan.
type PlanLoaded struct {
	Plan signalbox.Hash `json:"plan"`
}

// AgentStarted records that an agent is about to be started under a lease, with which prompt.
type AgentStarted struct {
	Epoch uint64 `json:"epoch"`
	// Attempt is the how-many-eth agent of this role it is for this work.
	Attempt int            `json:"attempt"`
	Agent   string         `json:"agent,omitempty"`
	Prompt  signalbox.Hash `json:"prompt,omitzero"`
}

// AgentTurnEnded records what a turn of an agent left behind and what it cost.
type AgentTurnEnded struct {
	Epoch  uint64         `json:"epoch"`
	Exit   int            `json:"exit"`
	Output signalbox.Hash `json:"output,omitzero"`
	Bytes  int64          `json:"bytes,omitempty"`
	Spent  Spent          `json:"spent,omitzero"`
}

// ProgressReported records a checkpoint.
type ProgressReported struct {
	Epoch    uint64 `json:"epoch"`
	Activity string `json:"activity,omitempty"`
	Percent  int    `json:"percent,omitempty"`
}

// ReworkOrdered sends work back with what is to be mended. Cause is review, audit, checks or merge.
type ReworkOrdered struct {
	Cause   string         `json:"cause"`
	Count   int            `json:"count"`
	Summary string         `json:"summary,omitempty"`
	Body    signalbox.Hash `json:"body,omitzero"`
}

// IncompleteLogged records that a developer could not finish, and why as far as that can be told.
type IncompleteLogged struct {
	Cause   Cause          `json:"cause"`
	Count   int            `json:"count"`
	Summary string         `json:"summary,omitempty"`
	Body    signalbox.Hash `json:"body,omitzero"`
}

// BlockerAdded records that a task waits for others that the plan does not name.
type BlockerAdded struct {
	On    []string `json:"on"`
	Count int      `json:"count"`
}

// TaskExpanded attaches a business analyst's specification.
type TaskExpanded struct {
	Confidence string         `json:"confidence"`
	Body       signalbox.Hash `json:"body,omitzero"`
	SubTasks   []string       `json:"sub_tasks,omitempty"`
}

// ChecksRan records the matrix of checks and environments on a commit.
type ChecksRan struct {
	Epoch  uint64     `json:"epoch"`
	Commit string     `json:"commit,omitempty"`
	Rows   []CheckRow `json:"rows"`
	// Differs are the checks about which the agent said something else, and Protected the files that it must not edit and did.
	Differs   []string `json:"differs,omitempty"`
	Protected []string `json:"protected,omitempty"`
}

// CheckRow is one check in one environment.
type CheckRow struct {
	Check       string         `json:"check"`
	Environment string         `json:"environment"`
	Exit        int            `json:"exit"`
	Passed      bool           `json:"passed"`
	Millis      int64          `json:"ms"`
	Output      signalbox.Hash `json:"output,omitzero"`
}

func (r CheckRow) name() string { return r.Check + "|" + r.Environment }

// MergeRequested asks the merger to bring the work into the base.
type MergeRequested struct{}

// MergeApproved is a human's yes to a merge.
type MergeApproved struct{}

// Merged records that the work is in the base. Unblocked are the tasks that waited for nothing else.
type Merged struct {
	Epoch     uint64   `json:"epoch,omitempty"`
	Commit    string   `json:"commit,omitempty"`
	Before    string   `json:"before,omitempty"`
	Unblocked []string `json:"unblocked,omitempty"`
	// Rows are what the checks gave on the merged result, before the base took it.
	Rows []CheckRow `json:"rows,omitempty"`
}

// RemediationNeeded holds a task back until a remediation is over.
type RemediationNeeded struct {
	Remediation string         `json:"remediation"`
	Issue       string         `json:"issue,omitempty"`
	Body        signalbox.Hash `json:"body,omitzero"`
}

// HealthAudited records a health auditor's answer. A contradiction is a healthy one beside failing checks.
type HealthAudited struct {
	Healthy       bool   `json:"healthy"`
	Contradiction bool   `json:"contradiction,omitempty"`
	Reason        string `json:"reason,omitempty"`
}

// RemediationRetried begins another attempt.
type RemediationRetried struct {
	Attempt int    `json:"attempt"`
	Reason  string `json:"reason,omitempty"`
}

// RemediationEnded lets a task that waited for a remediation go on.
type RemediationEnded struct {
	Remediation string `json:"remediation"`
}

// ExpertRequested records that the holder of a task asks an expert.
type ExpertRequested struct {
	Request string         `json:"request"`
	Expert  string         `json:"expert"`
	Type    string         `json:"type,omitempty"`
	Count   int            `json:"count"`
	Body    signalbox.Hash `json:"body,omitzero"`
}

// ExpertAdvised gives an expert's advice to the task that asked.
type ExpertAdvised struct {
	Request string         `json:"request"`
	Expert  string         `json:"expert"`
	Body    signalbox.Hash `json:"body,omitzero"`
	Blob    signalbox.Hash `json:"blob,omitzero"`
}

// ExpertRegistered adds an expert to those of the configuration.
type ExpertRegistered struct {
	Expert Expert `json:"expert"`
}

// SessionParked frees the slot of a holder that waits for an expert or a file.
type SessionParked struct {
	Epoch uint64    `json:"epoch"`
	For   string    `json:"for"`
	File  bool      `json:"file,omitempty"`
	Until time.Time `json:"until,omitzero"`
}

// SessionResumed takes a slot again.
type SessionResumed struct {
	Epoch uint64 `json:"epoch"`
}

// UnknownSignalRecovery records that an agent's turn said nothing that counts, and that it is asked again.
type UnknownSignalRecovery struct {
	Attempt int    `json:"attempt"`
	Level   string `json:"level"`
	Preview string `json:"output_preview"`
	Advice  string `json:"advice,omitempty"`
}

// AgentSignalFailure records that an agent said nothing that counts too often.
type AgentSignalFailure struct {
	Reason string `json:"reason"`
}

// AgentFailed records that an agent ended without a word: a timeout, a crash, a stall, or it could not be started.
type AgentFailed struct {
	Epoch  uint64         `json:"epoch"`
	Cause  string         `json:"cause"`
	Role   signalbox.Role `json:"role"`
	Count  int            `json:"count"`
	Detail string         `json:"detail,omitempty"`
}

// RoleLimited keeps agents of a role from being started before a time.
type RoleLimited struct {
	Role  signalbox.Role `json:"role"`
	Until time.Time      `json:"until"`
}

// QuestionAsked puts a question to the human.
type QuestionAsked struct {
	Question string         `json:"question"`
	Kind     QuestionKind   `json:"kind"`
	Text     string         `json:"text"`
	Body     signalbox.Hash `json:"body,omitzero"`
}

// QuestionAnswered is the human's answer. Withdrawn means that the question no longer matters.
type QuestionAnswered struct {
	Question  string `json:"question"`
	Answer    string `json:"answer,omitempty"`
	Withdrawn bool   `json:"withdrawn,omitempty"`
}

// FilesLocked gives files of a shared workspace to a task.
type FilesLocked struct {
	Files []string `json:"files"`
}

// LocksYielded takes a task's files away from it.
type LocksYielded struct {
	Reason string `json:"reason,omitempty"`
}

// FileWaited records that a task asked for a file that another has.
type FileWaited struct {
	File   string `json:"file"`
	Holder string `json:"holder"`
	Count  int    `json:"count"`
}

// OverlapNoted records that two tasks, each in its own workspace, change the same file.
type OverlapNoted struct {
	File string `json:"file"`
	With string `json:"with"`
}

// Paused keeps a task, or without one the whole run, from being dispatched; Resumed ends that.
type Paused struct {
	Reason string `json:"reason,omitempty"`
}

// Resumed ends a pause.
type Resumed struct{}

// Cancelled says that nobody is to work on a task any more, or without one on anything; Retried takes it back.
type Cancelled struct {
	Reason string `json:"reason"`
}

// Retried begins anew: what went wrong before no longer counts.
type Retried struct {
	Note string `json:"note,omitempty"`
}

func (PolicySet) eventType() string             { return TypePolicySet }
func (PlanOpened) eventType() string            { return TypePlanOpened }
func (TaskPlanned) eventType() string           { return TypeTaskPlanned }
func (TaskReplanned) eventType() string         { return TypeTaskReplanned }
func (PlanLoaded) eventType() string            { return TypePlanLoaded }
func (AgentStarted) eventType() string          { return TypeAgentStarted }
func (AgentTurnEnded) eventType() string        { return TypeAgentTurnEnded }
func (ProgressReported) eventType() string      { return TypeProgressReported }
func (ReworkOrdered) eventType() string         { return TypeReworkOrdered }
func (IncompleteLogged) eventType() string      { return TypeIncompleteLogged }
func (BlockerAdded) eventType() string          { return TypeBlockerAdded }
func (TaskExpanded) eventType() string          { return TypeTaskExpanded }
func (ChecksRan) eventType() string             { return TypeChecksRan }
func (MergeRequested) eventType() string        { return TypeMergeRequested }
func (MergeApproved) eventType() string         { return TypeMergeApproved }
func (Merged) eventType() string                { return TypeMerged }
func (RemediationNeeded) eventType() string     { return TypeRemediationNeeded }
func (HealthAudited) eventType() string         { return TypeHealthAudited }
func (RemediationRetried) eventType() string    { return TypeRemediationRetried }
func (RemediationEnded) eventType() string      { return TypeRemediationEnded }
func (ExpertRequested) eventType() string       { return TypeExpertRequested }
func (ExpertAdvised) eventType() string         { return TypeExpertAdvised }
func (ExpertRegistered) eventType() string      { return TypeExpertRegistered }
func (SessionParked) eventType() string         { return TypeSessionParked }
func (SessionResumed) eventType() string        { return TypeSessionResumed }
func (UnknownSignalRecovery) eventType() string { return TypeUnknownSignalRecovery }
func (AgentSignalFailure) eventType() string    { return TypeAgentSignalFailure }
func (AgentFailed) eventType() string           { return TypeAgentFailed }
func (RoleLimited) eventType() string           { return TypeRoleLimited }
func (QuestionAsked) eventType() string         { return TypeQuestionAsked }
func (QuestionAnswered) eventType() string      { return TypeQuestionAnswered }
func (FilesLocked) eventType() string           { return TypeFilesLocked }
func (LocksYielded) eventType() string          { return TypeLocksYielded }
func (FileWaited) eventType() string            { return TypeFileWaited }
func (OverlapNoted) eventType() string          { return TypeOverlapNoted }
func (Paused) eventType() string                { return TypePaused }
func (Resumed) eventType() string               { return TypeResumed }
func (Cancelled) eventType() string             { return TypeCancelled }
func (Retried) eventType() string               { return TypeRetried }
