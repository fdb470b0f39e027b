package rules

import (
	"strings"
	"time"

	"signalbox"
)

// The events of the delivery loop. The rules for event types in event.go apply to them too.

// PolicySet records how plans are delivered from now on.
type PolicySet struct {
	Policy Policy `json:"policy"`
}

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

// PlanLoaded finishes loading a plan.
type PlanLoaded struct {
	Plan signalbox.Hash `json:"plan"`
}

// AgentStarted records that an agent is about to start under a lease, and its prompt.
type AgentStarted struct {
	Epoch uint64 `json:"epoch"`
	// Attempt is the attempt number of this role on this work, from 1.
	Attempt int            `json:"attempt"`
	Agent   string         `json:"agent,omitempty"`
	Prompt  signalbox.Hash `json:"prompt,omitzero"`
	Sandbox Sandbox        `json:"sandbox,omitzero"`
	// Resumes is the session of the agent program that continues, absent if a new one starts.
	Resumes string `json:"resumes,omitempty"`
	// Format is the format of the agent's output, absent if it was not recorded.
	Format signalbox.Format `json:"format,omitempty"`
}

// Sandbox is what a program was allowed to do on the machine that it ran on.
type Sandbox struct {
	Mode    string `json:"mode"`
	Network string `json:"network,omitempty"`
	// Layers are the parts of the system that enforced it, such as "landlock 7, seccomp".
	Layers string `json:"layers,omitempty"`
	// Processes is "watch" if the system could not make sure that everything which the program started ends with it.
	Processes string `json:"processes,omitempty"`
	// Policy is the whole policy, as JSON.
	Policy signalbox.Hash `json:"policy,omitzero"`
}

// AgentTurnEnded records the output of an agent's turn, and what it cost.
type AgentTurnEnded struct {
	Epoch  uint64         `json:"epoch"`
	Exit   int            `json:"exit"`
	Output signalbox.Hash `json:"output,omitzero"`
	Bytes  int64          `json:"bytes,omitempty"`
	Spent  Spent          `json:"spent,omitzero"`
	// Commit is the commit with everything that the agent changed, if it works on a branch. It is what is checked if the turn
	// reports the work as ready, wherever the branch is by then.
	Commit string `json:"commit,omitempty"`
	// Interrupted means that signalbox ended the agent because the run was stopped, or because of Cap.
	Interrupted bool `json:"interrupted,omitempty"`
	// Cap is the limit of spending that made signalbox end the agent.
	Cap Cap `json:"cap,omitempty"`
	// Estimated means that the tokens, and a cost that follows from them, are an estimate.
	Estimated bool   `json:"estimated,omitempty"`
	Model     string `json:"model,omitempty"`
	// Thread is the program's own session and what it has used in all turns, if the program reports only that.
	Thread *Thread `json:"thread,omitempty"`
	// InputTokens is how many of the tokens were read by the model.
	InputTokens int64 `json:"input_tokens,omitempty"`
	// OutputTokens is how many of the tokens were written by the model.
	OutputTokens int64 `json:"output_tokens,omitempty"`
	// LoginRefused is what the program changed in its copy of your login and signalbox did not copy back: the file,
	// the field, and why. It never contains a value.
	LoginRefused []string `json:"login_refused,omitempty"`
}

// Thread is a session of an agent program, and what it has used in all of its turns.
type Thread struct {
	ID     string `json:"id"`
	Input  int64  `json:"input"`
	Cached int64  `json:"cached,omitempty"`
	Output int64  `json:"output"`
}

// AgentSpent records what the running turn of an agent has used so far, if that is limited. The turn's end replaces it.
type AgentSpent struct {
	Epoch     uint64 `json:"epoch"`
	Spent     Spent  `json:"spent"`
	Estimated bool   `json:"estimated,omitempty"`
}

// ProgressReported records a checkpoint.
type ProgressReported struct {
	Epoch    uint64 `json:"epoch"`
	Activity string `json:"activity,omitempty"`
	Percent  int    `json:"percent,omitempty"`
}

// ReworkOrdered sends work back with what must be fixed. Cause is review, audit, checks, merge, unchanged, file size, plan, human or pull request.
type ReworkOrdered struct {
	Cause   string         `json:"cause"`
	Count   int            `json:"count"`
	Summary string         `json:"summary,omitempty"`
	Body    signalbox.Hash `json:"body,omitzero"`
	// Commit is the commit whose merge the human rejected.
	Commit string `json:"commit,omitempty"`
	// Seen is the list of ids of what came back about a pull request.
	Seen []string `json:"seen,omitempty"`
}

// The causes of rework.
const (
	ReworkReview = "review"
	ReworkAudit  = "audit"
	ReworkChecks = "checks"
	ReworkMerge  = "merge"
	ReworkPlan   = "plan"
	// ReworkUnchanged means that the branch changes nothing.
	ReworkUnchanged = "unchanged"
	// ReworkFileSize means that the work adds large files.
	ReworkFileSize = "file size"
	// ReworkRequest means that a check of the pull request failed, or that somebody commented on it.
	ReworkRequest = "pull request"
)

// IncompleteLogged records that a developer could not finish, and why, if known.
type IncompleteLogged struct {
	Cause   Cause          `json:"cause"`
	Count   int            `json:"count"`
	Summary string         `json:"summary,omitempty"`
	Body    signalbox.Hash `json:"body,omitzero"`
}

// BlockerAdded records that a task waits for others which the plan does not name.
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
	// Differs is the list of checks for which the agent reported another result.
	Differs []string `json:"differs,omitempty"`
	// Protected is the list of protected files that the agent edited.
	Protected []string `json:"protected,omitempty"`
	// Base is the commit of the base at that time. The work is what Commit changes relative to it.
	Base string `json:"base,omitempty"`
	// Unchanged is true if the work changes nothing.
	Unchanged bool `json:"unchanged,omitempty"`
	// Ref is the branch, tag or commit that work opened by hand names. Commit is the commit that it was.
	Ref string `json:"ref,omitempty"`
	// OnBase is true if work opened by hand names no branch, tag or commit. Commit is the head of the base then.
	OnBase bool `json:"on_base,omitempty"`
	// Problem is the reason why no checks could run on work opened by hand, absent if they ran.
	Problem string `json:"problem,omitempty"`
	// Large is the list of files that the work adds and that are larger than allowed, with their sizes.
	Large []string `json:"large,omitempty"`
	// Steering is the list of files with which the work changes what steers agents: their settings, hooks and instructions.
	Steering []string `json:"steering,omitempty"`
}

// CheckRow is one check in one environment.
type CheckRow struct {
	Check       string         `json:"check"`
	Environment string         `json:"environment"`
	Exit        int            `json:"exit"`
	Passed      bool           `json:"passed"`
	Millis      int64          `json:"ms"`
	Output      signalbox.Hash `json:"output,omitzero"`
	Sandbox     Sandbox        `json:"sandbox,omitzero"`
	// Cause is why the check failed on the base, if it is something that no commit repairs, such as a program that is not installed.
	Cause string `json:"cause,omitempty"`
}

// Name returns the check and the environment, as check|environment.
func (r CheckRow) Name() string { return r.Check + "|" + r.Environment }

// ChecksInWords returns names of checks, as check|environment, for people: "unit tests on linux".
func ChecksInWords(names []string) []string {
	words := make([]string, len(names))
	for i, name := range names {
		words[i] = name
		if at := strings.LastIndex(name, "|"); at >= 0 {
			words[i] = name[:at] + " on " + name[at+1:]
		}
	}
	return words
}

// SetupRan records that a command ran that makes a worktree ready to work in, or that something else that a worktree needs failed.
type SetupRan struct {
	Epoch uint64 `json:"epoch"`
	// Command is the name of the command.
	Command string `json:"command"`
	// Commit is the commit of the worktree.
	Commit   string         `json:"commit,omitempty"`
	Exit     int            `json:"exit"`
	Passed   bool           `json:"passed"`
	TimedOut bool           `json:"timed_out,omitempty"`
	Millis   int64          `json:"ms"`
	Output   signalbox.Hash `json:"output,omitzero"`
	Sandbox  Sandbox        `json:"sandbox,omitzero"`
	// Restored is the list of tracked files that the command changed and that were put back.
	Restored []string `json:"restored,omitempty"`
	// OfTask is true if it failed because of what the task changed: it passes on the base.
	OfTask bool `json:"of_task,omitempty"`
}

// MergeRequested asks the merger to merge the work into the base.
type MergeRequested struct {
	// Commit is the commit that was checked, reviewed and audited.
	Commit string `json:"commit,omitempty"`
}

// MergeApproved records that a human approved a merge.
type MergeApproved struct {
	// Commit is the commit that may be merged.
	Commit string `json:"commit,omitempty"`
}

// MergePrepared records the merge commit that is about to become the base. After a crash, the base contains exactly this commit
// if the merge took place.
type MergePrepared struct {
	Epoch  uint64 `json:"epoch"`
	Commit string `json:"commit"`
	// Before is the commit of the base that it is made for.
	Before string `json:"before"`
	// Tip is the commit of the work that it merges.
	Tip string `json:"tip"`
}

// BranchMoved records that the branch of a task was moved by something other than signalbox. What it was moved to does not count.
type BranchMoved struct {
	Epoch uint64 `json:"epoch"`
	// Expected is the commit that counts.
	Expected string `json:"expected"`
	Found    string `json:"found"`
}

// BaseMoved records that the base was moved by something other than a merge of signalbox. The checks run on it before anything else is merged.
type BaseMoved struct {
	// From is the last known commit of the base, absent if none is known.
	From string `json:"from,omitempty"`
	To   string `json:"to"`
	// Added is the list of commits that the base has now and had not before, as short id and subject; the first 20 of them.
	Added []string `json:"added,omitempty"`
	// Dropped is the list of commits that the base had before and has no more.
	Dropped []string `json:"dropped,omitempty"`
	// Between is true if it was found at the start of a run, while no session was active.
	Between bool `json:"between,omitempty"`
	// Fetched is true if signalbox itself moved it, to the commit of the remote repository in which a pull request was merged.
	Fetched bool `json:"fetched,omitempty"`
}

// CommitsStored records that a commit is in a git bundle in the blobs, with everything that it needs and that the commits in needs do not
// contain. Without a task it belongs to the base.
type CommitsStored struct {
	StoredCommit
	// Replaces is the list of stored commits of the base, or of the task, that the bundle contains too, so that their own bundles are not needed any more. The commit
	// itself is among them if its bundle was rejected.
	Replaces []string `json:"replaces,omitempty"`
}

// BundleRejected records that a machine could not use the bundle of a stored commit. A machine that has the commit stores it again. Without a task the commit belongs
// to the base.
type BundleRejected struct {
	Commit string         `json:"commit"`
	Bundle signalbox.Hash `json:"bundle"`
	// Fault is what is wrong with the bundle.
	Fault string `json:"fault"`
}

// ConflictFound records that the work conflicts with the base. If an author records it, the author is about to resolve it. One without
// files means that there is no conflict any more.
type ConflictFound struct {
	Epoch uint64 `json:"epoch"`
	// Commit is the commit of the work, and Base that of the base.
	Commit string `json:"commit"`
	Base   string `json:"base"`
	// Draft is the commit with both, and with conflict markers, that the author gets. Its parents are Commit and Base.
	Draft string `json:"draft,omitempty"`
	// Files is the list of files that conflict; the first 50 of them.
	Files []string `json:"files,omitempty"`
	// Submodules is the list of those that are submodules. The human decides about them.
	Submodules []string `json:"submodules,omitempty"`
	// Unresolved is the list of files in which the author left conflict markers.
	Unresolved []string `json:"unresolved,omitempty"`
	// Count is how often the work was sent back because of conflicts.
	Count int `json:"count,omitempty"`
	// Body is the blob with a description of the conflict.
	Body signalbox.Hash `json:"body,omitzero"`
}

// Merged records that the work is in the base. Unblocked lists the tasks that waited only for it.
type Merged struct {
	Epoch     uint64   `json:"epoch,omitempty"`
	Commit    string   `json:"commit,omitempty"`
	Before    string   `json:"before,omitempty"`
	Unblocked []string `json:"unblocked,omitempty"`
	// Rows is the list of check results on the merge commit, before the base moved to it.
	Rows []CheckRow `json:"rows,omitempty"`
	// Tip is the commit of the work that was merged.
	Tip string `json:"tip,omitempty"`
}

// Delivered records that the work is on a branch, which was perhaps pushed, and for which a pull request was perhaps opened. Unblocked lists
// the tasks that waited only for it.
type Delivered struct {
	Epoch uint64 `json:"epoch"`
	Delivery
	Unblocked []string `json:"unblocked,omitempty"`
}

// RemediationNeeded makes a task wait for a remediation.
type RemediationNeeded struct {
	Remediation string         `json:"remediation"`
	Issue       string         `json:"issue,omitempty"`
	Body        signalbox.Hash `json:"body,omitzero"`
}

// BaselineAccepted records that the human accepts the checks that fail on the base. They do not stop tasks, as long as the base is this
// commit or what signalbox merged into it.
type BaselineAccepted struct {
	// Commit is the commit of the base, absent in a shared workspace.
	Commit string `json:"commit,omitempty"`
	// Failing is the list of checks that may fail, as check|environment.
	Failing []string `json:"failing"`
}

// HealthAudited records a health auditor's verdict. A contradiction is a healthy verdict although checks fail.
type HealthAudited struct {
	Healthy       bool   `json:"healthy"`
	Contradiction bool   `json:"contradiction,omitempty"`
	Reason        string `json:"reason,omitempty"`
}

// RemediationRetried starts another attempt.
type RemediationRetried struct {
	Attempt int    `json:"attempt"`
	Reason  string `json:"reason,omitempty"`
}

// RemediationEnded lets a task continue that waited for a remediation.
type RemediationEnded struct {
	Remediation string `json:"remediation"`
}

// ExpertRequested records that the holder of a task asked an expert.
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

// ExpertRegistered adds an expert to the configured ones.
type ExpertRegistered struct {
	Expert Expert `json:"expert"`
}

// SessionParked frees the slot of a session that waits for an expert or a file.
type SessionParked struct {
	Epoch uint64    `json:"epoch"`
	For   string    `json:"for"`
	File  bool      `json:"file,omitempty"`
	Until time.Time `json:"until,omitzero"`
}

// SessionResumed gives a parked session a slot again.
type SessionResumed struct {
	Epoch uint64 `json:"epoch"`
	// Agent is the agent that takes over from that of the session.
	Agent string `json:"agent,omitempty"`
}

// UnknownSignalRecovery records that an agent's turn contained no valid signal, and that the agent is prompted again. Its level is
// question if a reviewer wrote more after a verdict and is asked whether that is its verdict; this counts as no attempt.
type UnknownSignalRecovery struct {
	Attempt int    `json:"attempt"`
	Level   string `json:"level"`
	Preview string `json:"output_preview"`
	Advice  string `json:"advice,omitempty"`
}

// AgentSignalFailure records that an agent failed to send a valid signal too often.
type AgentSignalFailure struct {
	Reason string `json:"reason"`
}

// AgentFailed records that an agent ended without a signal that counts: a timeout, a crash, a stall, or a failed start.
type AgentFailed struct {
	Epoch  uint64         `json:"epoch"`
	Cause  string         `json:"cause"`
	Role   signalbox.Role `json:"role"`
	Count  int            `json:"count"`
	Detail string         `json:"detail,omitempty"`
}

// RoleLimited delays the start of agents of a role until a time. It is recorded only if the policy names no agents.
type RoleLimited struct {
	Role  signalbox.Role `json:"role"`
	Until time.Time      `json:"until"`
}

// AgentUnavailable records that an agent cannot work, and why. It is tried again at a time, or without one only after a human has done something.
type AgentUnavailable struct {
	Agent string    `json:"agent"`
	Cause FailCause `json:"cause"`
	Until time.Time `json:"until,omitzero"`
	// Role is the only role in which it does not work.
	Role signalbox.Role `json:"role,omitempty"`
	// Detail is what the agent's program said.
	Detail string `json:"detail,omitempty"`
	// Advice is what to do about it.
	Advice string `json:"advice,omitempty"`
	// Next is the agent that takes over in the role in which this was noticed, absent if there is none.
	Next string `json:"next,omitempty"`
}

// AgentRestored records that an agent may work again, because a human has done something or its pause is over. If it could not work at all, one
// session is tried first.
type AgentRestored struct {
	Agent  string `json:"agent"`
	Reason string `json:"reason,omitempty"`
	// Waited means that no answer caused it: the pause after a failure of its server is over.
	Waited bool `json:"waited,omitempty"`
}

// ConversationOpened records the id that an agent program gave its own session, so that the session can be resumed after an interruption.
type ConversationOpened struct {
	Epoch uint64 `json:"epoch"`
	ID    string `json:"id"`
}

// QuestionAsked asks the human a question.
type QuestionAsked struct {
	Question string         `json:"question"`
	Kind     QuestionKind   `json:"kind"`
	Text     string         `json:"text"`
	Body     signalbox.Hash `json:"body,omitzero"`
	// Cap is which budget is spent, if it is not that of the task or the run. Role is the role if that is CapRole, and Spent what
	// the turn has used if it is CapTurn.
	Cap   Cap            `json:"cap,omitempty"`
	Role  signalbox.Role `json:"role,omitempty"`
	Spent Spent          `json:"spent,omitzero"`
	// Agents is the list of agents that cannot work, if the question is about them.
	Agents []string `json:"agents,omitempty"`
}

// QuestionAnswered records the human's answer. Withdrawn means that the question no longer matters.
type QuestionAnswered struct {
	Question  string `json:"question"`
	Answer    string `json:"answer,omitempty"`
	Withdrawn bool   `json:"withdrawn,omitempty"`
	// NoGrant means that the answer to a question about a budget does not extend the budget: it was no, or the limit was raised.
	NoGrant bool `json:"no_grant,omitempty"`
	// Keep means that the human allows the large files of the task.
	Keep bool `json:"keep,omitempty"`
}

// FilesLocked locks files of a shared workspace for a task.
type FilesLocked struct {
	Files []string `json:"files"`
}

// LocksYielded releases all files that a task has locked.
type LocksYielded struct {
	Reason string `json:"reason,omitempty"`
}

// FileWaited records that a task asked for a file that another task has locked.
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

// Paused stops the dispatch of a task, or of the whole run if the event names no work.
type Paused struct {
	Reason string `json:"reason,omitempty"`
	// Budget means that the human refused to extend a budget. A higher budget in the configuration or the plan ends the pause.
	Budget bool `json:"budget,omitempty"`
	// Role is the role that is paused, if only that is.
	Role signalbox.Role `json:"role,omitempty"`
}

// Resumed ends a pause.
type Resumed struct {
	Role signalbox.Role `json:"role,omitempty"`
}

// Cancelled ends the work on a task, or on the whole run if the event names no work. Retried undoes it.
type Cancelled struct {
	Reason string `json:"reason"`
}

// Retried restarts a task, or continues a cancelled run: earlier failures no longer count.
type Retried struct {
	Note string `json:"note,omitempty"`
	// From is the phase in which a task restarts, if the operator named one. What it passed in that phase and after it counts no more.
	From signalbox.Phase `json:"from,omitempty"`
}

// MessageSent records words of the human for the agent whose turn on the work is next, or for the one at work if it listens.
type MessageSent struct {
	Text string `json:"text"`
	// Body is the blob with the text if it is long. Text is only its beginning then.
	Body signalbox.Hash `json:"body,omitzero"`
}

// MessageDelivered records that an agent has got words of the human, while it worked or in the prompt of the turn that ends.
type MessageDelivered struct {
	Epoch uint64 `json:"epoch"`
	// Messages is the list of sequences of the MessageSent events.
	Messages []uint64 `json:"messages"`
}

func (PolicySet) eventType() string             { return TypePolicySet }
func (PlanOpened) eventType() string            { return TypePlanOpened }
func (TaskPlanned) eventType() string           { return TypeTaskPlanned }
func (TaskReplanned) eventType() string         { return TypeTaskReplanned }
func (PlanLoaded) eventType() string            { return TypePlanLoaded }
func (AgentStarted) eventType() string          { return TypeAgentStarted }
func (AgentTurnEnded) eventType() string        { return TypeAgentTurnEnded }
func (AgentSpent) eventType() string            { return TypeAgentSpent }
func (ProgressReported) eventType() string      { return TypeProgressReported }
func (ReworkOrdered) eventType() string         { return TypeReworkOrdered }
func (IncompleteLogged) eventType() string      { return TypeIncompleteLogged }
func (BlockerAdded) eventType() string          { return TypeBlockerAdded }
func (TaskExpanded) eventType() string          { return TypeTaskExpanded }
func (ChecksRan) eventType() string             { return TypeChecksRan }
func (SetupRan) eventType() string              { return TypeSetupRan }
func (MergeRequested) eventType() string        { return TypeMergeRequested }
func (MergeApproved) eventType() string         { return TypeMergeApproved }
func (MergePrepared) eventType() string         { return TypeMergePrepared }
func (Merged) eventType() string                { return TypeMerged }
func (Delivered) eventType() string             { return TypeDelivered }
func (BranchMoved) eventType() string           { return TypeBranchMoved }
func (ConflictFound) eventType() string         { return TypeConflictFound }
func (BaseMoved) eventType() string             { return TypeBaseMoved }
func (CommitsStored) eventType() string         { return TypeCommitsStored }
func (BundleRejected) eventType() string        { return TypeBundleRejected }
func (RemediationNeeded) eventType() string     { return TypeRemediationNeeded }
func (BaselineAccepted) eventType() string      { return TypeBaselineAccepted }
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
func (AgentUnavailable) eventType() string      { return TypeAgentUnavailable }
func (ConversationOpened) eventType() string    { return TypeConversationOpened }
func (AgentRestored) eventType() string         { return TypeAgentRestored }
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
func (MessageSent) eventType() string           { return TypeMessageSent }
func (MessageDelivered) eventType() string      { return TypeMessageDelivered }
