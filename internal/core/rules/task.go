package rules

import (
	"slices"
	"time"

	"signalbox"
)

// Kind is the kind of a planned work item.
type Kind string

const (
	KindTask        Kind = "task"        // a task of the plan, or a sub-task
	KindRemediation Kind = "remediation" // …: repairs the base
	KindExpert      Kind = "expert"      // …: a request to an expert
	KindBaseline    Kind = "baseline"    // B-1, B-2, …: runs the checks on the base
)

// Task is the part of a work item that the delivery loop uses. Work that was opened by hand has
// none. Like Work, it is never changed after State returned it.
type Task struct {
	Kind Kind `json:"kind"`
	TaskPlan
	Gates
	CheckResult
	BranchState
	Counts Counts `json:"counts"`
	TaskUsage
	Briefing
	Stops
	AgentAtWork
	ExpertRequest
	Remediation
}

// TaskPlan is how the plan describes a task, and what was added to that.
type TaskPlan struct {
	// Order is the position in the plan. A higher priority goes first.
	Order    int      `json:"order"`
	Priority int      `json:"priority,omitempty"`
	Blockers []string `json:"blocked_by,omitempty"`
	// Blockers come from the plan; Waits are further blockers that an agent named.
	Waits  []string       `json:"waits,omitempty"`
	Files  []string       `json:"files,omitempty"`
	Text   signalbox.Hash `json:"text,omitzero"`
	Parent string         `json:"parent,omitempty"`
	Budget Budget         `json:"budget,omitzero"`
	Review Review         `json:"review,omitempty"`
	// Plan is the id of the plan that the task belongs to, and Name its id there if the work has
	// another. See Work.Name.
	Plan string `json:"plan,omitempty"`
	Name string `json:"name,omitempty"`
	// Added means that a human added the task to the plan. LoadPlan leaves it alone.
	Added bool `json:"added,omitempty"`
	// Specification is the business analyst's specification of the task.
	Specification signalbox.Hash `json:"specification,omitzero"`
}

// Gates are what the current implementation has passed.
type Gates struct {
	Checked  bool `json:"checked,omitempty"`
	Reviewed bool `json:"reviewed,omitempty"`
	Audited  bool `json:"audited,omitempty"`
	// Skipped are the gates that it passed without a verdict, because the plan says so.
	Skipped []string `json:"skipped,omitempty"`
	// Judgement is what followed from a failed review that did not send the work back.
	Judgement Judgement `json:"judgement,omitempty"`
	// Approved means that a human approved the merge.
	Approved bool `json:"approved,omitempty"`
}

// reviewed reports whether the review is over: it passed, or the auditor decides instead.
func (g *Gates) reviewed() bool { return g.Reviewed || g.Judgement == JudgeAudit }

// CheckResult is what the checks last found.
type CheckResult struct {
	// Claimed is the blob with the check results that the developer reported.
	Claimed signalbox.Hash `json:"claimed,omitzero"`
	// Checks is the sequence of the last ChecksRan. Failing lists the checks that failed in it, and
	// Differs those for which the developer reported another result.
	Checks uint64 `json:"checks,omitempty"`
	// Commit is the commit that was checked, and Base that of the base at that time. The same
	// commit is reviewed, audited, approved and merged.
	Commit  string   `json:"commit,omitempty"`
	Base    string   `json:"base,omitempty"`
	Failing []string `json:"failing,omitempty"`
	Differs []string `json:"differs,omitempty"`
}

// BranchState is what is known about the branch of a task, and where its work is.
type BranchState struct {
	// Saved is what the author last saved, nil if that is not known: then the branch says what to
	// check.
	Saved *SavedWork `json:"saved,omitempty"`
	// Delivered is where the work was delivered, nil if it was not. It stays when the work comes
	// back.
	Delivered *DeliveredTask `json:"delivered,omitempty"`
	// Stored are its commits that are in bundles, for other machines.
	Stored []StoredCommit `json:"stored,omitempty"`
	// Merge is the merge that was about to take place.
	Merge *PreparedMerge `json:"merge,omitempty"`
	// Conflict is the conflict with the base that the author must resolve, nil if there is none.
	Conflict *Conflict `json:"conflict,omitempty"`
	// Unchanged means that the task was sent back because its branch changes nothing.
	Unchanged bool `json:"unchanged,omitempty"`
	// Change is a digest of what the work changes, and Rejected what it changed when somebody who
	// judged it sent it back.
	Change   signalbox.Hash `json:"change,omitzero"`
	Rejected signalbox.Hash `json:"rejected,omitzero"`
	// KeepLarge means that the human allowed the task to add large files.
	KeepLarge bool `json:"keep_large,omitempty"`
	// Steering are the files with which Commit changes what steers agents.
	Steering []string `json:"steering,omitempty"`
	// EditsPlan means that Commit changes a plan file.
	EditsPlan bool `json:"edits_plan,omitempty"`
}

// TaskUsage is how often agents were started and failed, and what they have used.
type TaskUsage struct {
	Timeouts map[signalbox.Role]int `json:"timeouts,omitempty"`
	Starts   map[signalbox.Role]int `json:"starts,omitempty"`
	Spent    Spent                  `json:"spent,omitzero"`
	// Granted is what was already spent when the human last extended the budget.
	Granted Spent `json:"granted,omitzero"`
	// Running is the part of Spent that the current turn has reported.
	Running Spent `json:"running,omitzero"`
	// Thread is the last session of an agent program whose usage continues from turn to turn.
	Thread *Thread `json:"thread,omitempty"`
}

// Briefing is what the next agents are told.
type Briefing struct {
	// Findings are the problems that the next developer must fix, Answers the ids of answered
	// questions, Advice the answers of experts, Overlaps the files that other tasks change too, and
	// Context the problem of the previous agent.
	Findings []Finding `json:"findings,omitempty"`
	Answers  []string  `json:"answers,omitempty"`
	Advice   []Advice  `json:"advice,omitempty"`
	Overlaps []string  `json:"overlaps,omitempty"`
	Context  string    `json:"context,omitempty"`
	// Raised are all findings ever, with what became of them. ReviewedAt and AuditedAt are the
	// commits that a critic and an auditor last did not pass, Blocking is how many findings of the
	// critic that was for, and Disputing means that the developer disputes some of them.
	Raised     []TaskFinding `json:"raised,omitempty"`
	ReviewedAt string        `json:"reviewed_at,omitempty"`
	AuditedAt  string        `json:"audited_at,omitempty"`
	Blocking   int           `json:"blocking,omitempty"`
	Disputing  bool          `json:"disputing,omitempty"`
	// Corrections are all findings with which the human sent the work back, and Messages the words
	// of the human that no agent has got yet.
	Corrections []Finding `json:"corrections,omitempty"`
	Messages    []Message `json:"messages,omitempty"`
	// Output is the output of the last agent.
	Output signalbox.Hash `json:"output,omitzero"`
}

// Stops are what keeps a task from being dispatched, apart from its blockers.
type Stops struct {
	// Questions are the open questions about the task, and Remedy is the remediation that it waits
	// for.
	Questions []string `json:"questions,omitempty"`
	Remedy    string   `json:"remedy,omitempty"`
	Paused    bool     `json:"paused,omitempty"`
	// NoBudget means that it is paused because the human refused to extend its budget.
	NoBudget bool `json:"no_budget,omitempty"`
	// Cancelled says why the task was cancelled, "" if it was not.
	Cancelled string `json:"cancelled,omitempty"`
}

// AgentAtWork is what is known about the agent that works on a task, or did last.
type AgentAtWork struct {
	// Agent is the agent that the holder of the lease runs, if the policy names agents.
	Agent string `json:"agent,omitempty"`
	// DoneBy are the agents that wrote and judged the work, the last one last. Writing is an author
	// whose turn has not ended.
	DoneBy  []DoneBy    `json:"done_by,omitempty"`
	Writing *AgentModel `json:"writing,omitempty"`
	// Conversation is the last session of an agent program, if it can be resumed after an
	// interruption.
	Conversation *Conversation `json:"conversation,omitempty"`
	// AuthorConversation is the session of the last author's program, which continues when the work
	// comes back with something new.
	AuthorConversation *Conversation `json:"author_conversation,omitempty"`
	// Locks are the files that the task has locked in a shared workspace.
	Locks    []string  `json:"locks,omitempty"`
	Parked   *Park     `json:"parked,omitempty"`
	Progress *Progress `json:"progress,omitempty"`
}

// ExpertRequest is the part of a Task that only requests to experts have.
type ExpertRequest struct {
	// Asker is the task that made the request, and Asked the epoch of its lease. Expert is "" until
	// an expert creator has created the expert.
	Asker  string `json:"asker,omitempty"`
	Asked  uint64 `json:"asked,omitempty"`
	Expert string `json:"expert,omitempty"`
}

// Remediation is the part of a Task that only remediations have: the problems to fix, and how often
// it failed since the human last intervened.
type Remediation struct {
	Issues   []Finding `json:"issues,omitempty"`
	Attempts int       `json:"attempts,omitempty"`
}

// SavedWork is a commit with everything that an author changed in a turn, and the epoch of the
// author's lease.
type SavedWork struct {
	Commit string `json:"commit"`
	Epoch  uint64 `json:"epoch"`
}

// Counts is how often something went wrong since the human last intervened.
type Counts struct {
	Reviews        int `json:"reviews,omitempty"`
	Rounds         int `json:"rounds,omitempty"`
	Audits         int `json:"audits,omitempty"`
	Checks         int `json:"checks,omitempty"`
	Merges         int `json:"merges,omitempty"`
	Incompletes    int `json:"incompletes,omitempty"`
	Unknown        int `json:"unknown,omitempty"`
	Confirms       int `json:"confirms,omitempty"`
	Waits          int `json:"waits,omitempty"`
	FileWaits      int `json:"file_waits,omitempty"`
	ExpertRequests int `json:"expert_requests,omitempty"`
	Remedies       int `json:"remedies,omitempty"`
	Unchanged      int `json:"unchanged,omitempty"`
	Repeated       int `json:"repeated,omitempty"`
	Conflicts      int `json:"conflicts,omitempty"`
	Large          int `json:"large,omitempty"`
	Requests       int `json:"requests,omitempty"`
}

// Finding is a problem to fix. Body is the full text.
type Finding struct {
	Cause   string         `json:"cause"`
	Summary string         `json:"summary,omitempty"`
	Body    signalbox.Hash `json:"body,omitzero"`
	Work    string         `json:"work,omitempty"`
	Seq     uint64         `json:"seq"`
	// Actor is the human who sent the work back; "" if no human did.
	Actor string `json:"actor,omitempty"`
}

// findingHealth is the cause of the finding of a health auditor.
const findingHealth = "health"

// FindingSource returns what findings with a cause come from, for people.
func FindingSource(cause string) string {
	switch cause {
	case ReworkUnchanged:
		return "unchanged branch"
	case ReworkRepeated:
		return "comparison with the rejected work"
	case findingHealth:
		return "health audit"
	}
	return cause
}

// Advice is an expert's answer.
type Advice struct {
	Expert string         `json:"expert"`
	Work   string         `json:"work"`
	Body   signalbox.Hash `json:"body,omitzero"`
	Blob   signalbox.Hash `json:"blob,omitzero"`
}

// Park describes what a parked session waits for. It uses no slot, and its time limits do not run.
type Park struct {
	// For is the work item of the expert, or the file, that the session waits for.
	For string `json:"for"`
	// Until is when the session continues in any case; zero means never.
	Until time.Time `json:"until,omitzero"`
	// Ready means that the wait is over.
	Ready bool `json:"ready,omitempty"`
	File  bool `json:"file,omitempty"`
}

// Progress is the last checkpoint of an agent.
type Progress struct {
	Activity string    `json:"activity,omitempty"`
	Percent  int       `json:"percent,omitempty"`
	At       time.Time `json:"at"`
}

// claimableBy returns the role that can claim the work in its phase, "" if none can.
func (w *Work) claimableBy() signalbox.Role {
	t := w.Task
	switch {
	case t == nil:
		return w.Phase.ClaimableBy()
	case t.Cancelled != "":
		return ""
	case w.Phase == signalbox.PhaseReadyForMerge && t.Audited:
		return signalbox.RoleMerger
	}
	switch t.Kind {
	case KindRemediation:
		switch w.Phase {
		case signalbox.PhaseImplementation:
			return signalbox.RoleRemediation
		case signalbox.PhaseReview:
			return signalbox.RoleHealthAuditor
		}
	case KindExpert:
		switch {
		case w.Phase == signalbox.PhaseImplementation && t.Expert == "":
			return signalbox.RoleExpertCreator
		case w.Phase == signalbox.PhaseImplementation:
			return signalbox.RoleExpert
		}
		return ""
	}
	return w.Phase.ClaimableBy()
}

// hasDeveloper reports whether a developer works on the task, to whom it can go back.
func (t *Task) hasDeveloper() bool { return t.Kind == KindTask || t.Kind == KindRemediation }

// Done reports whether the work is completed or cancelled.
func (w *Work) Done() bool {
	return w.Phase == signalbox.PhaseCompleted || w.Task != nil && w.Task.Cancelled != ""
}

// blockers returns all blockers of a task, open or not.
func (t *Task) blockers() []string {
	if len(t.Waits) == 0 {
		return t.Blockers
	}
	return append(slices.Clone(t.Blockers), t.Waits...)
}

// onHold reports whether something other than its blockers stops a task.
func (w *Work) onHold() bool {
	t := w.Task
	return len(t.Questions) > 0 || t.Remedy != "" || t.Paused || t.Cancelled != "" ||
		w.Phase == signalbox.PhaseBlocked
}

// canStart reports whether the work can be dispatched, apart from slots and from what other tasks
// are doing.
func (s *State) canStart(w *Work) bool {
	return w.Lease == nil && !w.onHold() && w.claimableBy() != "" && len(s.OpenBlockers(w)) == 0 &&
		!s.WaitsForApproval(w) && !w.WaitsForRequest()
}

// OpenBlockers returns the work that must be completed before a task can start. A blocker that was
// removed from the plan no longer counts: the plan that asked for it is gone, and waiting for it
// would never end. One that the operator cancelled counts, unless only an agent named it: the
// operator must say what becomes of the tasks that depend on it.
func (s *State) OpenBlockers(w *Work) []string {
	var open []string
	for _, id := range w.Task.Blockers {
		b, known := s.Work(id)
		if !known || b.Phase != signalbox.PhaseCompleted && !s.canStackOn(b) &&
			(b.Task == nil || b.Task.Cancelled != RemovedFromPlan) {
			open = append(open, id)
		}
	}
	for _, id := range w.Task.Waits {
		if b, known := s.Work(id); known && !b.Done() && !s.canStackOn(b) &&
			!slices.Contains(open, id) {
			open = append(open, id)
		}
	}
	return open
}

// canStackOn reports whether tasks may build on work whose pull request is not merged yet.
func (s *delivery) canStackOn(w *Work) bool {
	return s.run.Policy != nil && s.run.Policy.Stack && w.WaitsForRequest()
}

// changeTask replaces a task with a changed copy. The change must replace slices and maps, not
// write into them.
func (s *State) changeTask(id string, change func(*Work, *Task)) {
	s.changeWork(id, func(w *Work) {
		task := *w.Task
		w.Task = &task
		change(w, &task)
	})
}

// incremented returns a copy of counts with one more for the role.
func incremented(counts map[signalbox.Role]int, role signalbox.Role) map[signalbox.Role]int {
	more := cloneCounts(counts)
	more[role]++
	return more
}

// cloneCounts does what maps.Clone does; this package does not import maps, which has iterators in
// random order.
func cloneCounts(counts map[signalbox.Role]int) map[signalbox.Role]int {
	clone := make(map[signalbox.Role]int, len(counts)+1)
	for role, n := range counts {
		clone[role] = n
	}
	return clone
}

// remove returns a copy of list without item, nil if nothing is left.
func remove(list []string, item string) []string {
	kept := slices.DeleteFunc(slices.Clone(list), func(s string) bool { return s == item })
	if len(kept) == 0 {
		return nil
	}
	return kept
}

// appendUnique returns list with item appended, unless it contains it already.
func appendUnique(list []string, item string) []string {
	if slices.Contains(list, item) {
		return list
	}
	return append(slices.Clip(list), item)
}
