package rules

import (
	"slices"
	"time"

	"signalbox"
)

// Kind is what a planned work item is for.
type Kind string

const (
	KindTask        Kind = "task"        // of the plan, or a sub-task of one
	KindRemediation Kind = "remediation" // …: something is wrong with what all work stands on
	KindExpert      Kind = "expert"      // …: a request to an expert
	KindBaseline    Kind = "baseline"    // B-1, B-2, …: the checks on the base
)

// Task is what the delivery loop knows of a work item. Work that was opened by hand has none. Like Work it is
// never changed once it is handed out.
type Task struct {
	Kind Kind `json:"kind"`
	// Order is the place in the plan, or where it was added to it. Priority comes before it.
	Order    int      `json:"order"`
	Priority int      `json:"priority,omitempty"`
	Blockers []string `json:"blocked_by,omitempty"`
	// Waits are blockers that an agent met.
	Waits  []string       `json:"waits,omitempty"`
	Files  []string       `json:"files,omitempty"`
	Text   signalbox.Hash `json:"text,omitzero"`
	Parent string         `json:"parent,omitempty"`
	Budget Budget         `json:"budget,omitzero"`
	// Specification is what a business analyst made of the task.
	Specification signalbox.Hash `json:"specification,omitzero"`

	// Checked, Reviewed and Audited are the gates that the present implementation has passed.
	Checked  bool `json:"checked,omitempty"`
	Reviewed bool `json:"reviewed,omitempty"`
	Audited  bool `json:"audited,omitempty"`
	// Approved is a human's yes to the merge.
	Approved bool `json:"approved,omitempty"`
	// Claimed is what the developer said that the checks gave.
	Claimed signalbox.Hash `json:"claimed,omitzero"`
	// Checks is the sequence of the last ChecksRan, Failing what failed in it, and Differs what the developer said otherwise.
	Checks uint64 `json:"checks,omitempty"`
	// Commit is what was checked: that is what is reviewed, audited and merged.
	Commit  string   `json:"commit,omitempty"`
	Failing []string `json:"failing,omitempty"`
	Differs []string `json:"differs,omitempty"`

	Counts   Counts                 `json:"counts"`
	Timeouts map[signalbox.Role]int `json:"timeouts,omitempty"`
	Starts   map[signalbox.Role]int `json:"starts,omitempty"`
	Spent    Spent                  `json:"spent,omitzero"`
	// Granted is what was spent when the human allowed the budget to be spent again.
	Granted Spent `json:"granted,omitzero"`

	// Findings are what the next developer has to mend, Answers the questions that were answered, Advice what experts said,
	// Overlaps what other tasks want to change too, and Context what went wrong with the last agent.
	Findings []Finding `json:"findings,omitempty"`
	Answers  []string  `json:"answers,omitempty"`
	Advice   []Advice  `json:"advice,omitempty"`
	Overlaps []string  `json:"overlaps,omitempty"`
	Context  string    `json:"context,omitempty"`
	// Output is what the last agent wrote.
	Output signalbox.Hash `json:"output,omitzero"`

	// Questions are open, and Remedy is the remediation that the task waits for. Either holds it back.
	Questions []string `json:"questions,omitempty"`
	Remedy    string   `json:"remedy,omitempty"`
	Paused    bool     `json:"paused,omitempty"`
	// Cancelled says why nobody is to work on it any more.
	Cancelled string `json:"cancelled,omitempty"`

	// Locks are the files that the task holds in a shared workspace.
	Locks    []string  `json:"locks,omitempty"`
	Parked   *Park     `json:"parked,omitempty"`
	Progress *Progress `json:"progress,omitempty"`

	// Asker is the task that a request to an expert came from, under the lease Asked; Expert is "" while one is to be made.
	Asker  string `json:"asker,omitempty"`
	Asked  uint64 `json:"asked,omitempty"`
	Expert string `json:"expert,omitempty"`

	// Issues are what a remediation is about and Attempts how often it was tried since a human last looked.
	Issues   []Finding `json:"issues,omitempty"`
	Attempts int       `json:"attempts,omitempty"`
}

// Counts is how often something went wrong since a human last looked.
type Counts struct {
	Reviews        int `json:"reviews,omitempty"`
	Audits         int `json:"audits,omitempty"`
	Checks         int `json:"checks,omitempty"`
	Merges         int `json:"merges,omitempty"`
	Incompletes    int `json:"incompletes,omitempty"`
	Unknown        int `json:"unknown,omitempty"`
	Waits          int `json:"waits,omitempty"`
	FileWaits      int `json:"file_waits,omitempty"`
	ExpertRequests int `json:"expert_requests,omitempty"`
	Remedies       int `json:"remedies,omitempty"`
}

// Finding is something to mend. Body is where it is said in full.
type Finding struct {
	Cause   string         `json:"cause"`
	Summary string         `json:"summary,omitempty"`
	Body    signalbox.Hash `json:"body,omitzero"`
	Work    string         `json:"work,omitempty"`
	Seq     uint64         `json:"seq"`
}

// Advice is what an expert said.
type Advice struct {
	Expert string         `json:"expert"`
	Work   string         `json:"work"`
	Body   signalbox.Hash `json:"body,omitzero"`
	Blob   signalbox.Hash `json:"blob,omitzero"`
}

// Park is why the holder of a task is not at work. Its slot is free and its clocks stand still.
type Park struct {
	// For is the work item of the expert, or the file, that it waits for.
	For string `json:"for"`
	// Until is when it goes on in any case, zero for never.
	Until time.Time `json:"until,omitzero"`
	// Ready means that what it waited for is there.
	Ready bool `json:"ready,omitempty"`
	File  bool `json:"file,omitempty"`
}

// Progress is what an agent said in a checkpoint.
type Progress struct {
	Activity string    `json:"activity,omitempty"`
	Percent  int       `json:"percent,omitempty"`
	At       time.Time `json:"at"`
}

// claimant returns the role that may claim the work as it is, "" when nobody may.
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

// Done tells whether nothing remains to be done for a task: it is completed, or nobody wants it any more.
func (w *Work) Done() bool {
	return w.Phase == signalbox.PhaseCompleted || w.Task != nil && w.Task.Cancelled != ""
}

// blockers are all that a task waits for.
func (t *Task) blockers() []string {
	if len(t.Waits) == 0 {
		return t.Blockers
	}
	return append(slices.Clone(t.Blockers), t.Waits...)
}

// held tells whether something other than its blockers keeps a task from being dispatched.
func (w *Work) onHold() bool {
	t := w.Task
	return len(t.Questions) > 0 || t.Remedy != "" || t.Paused || t.Cancelled != "" || w.Phase == signalbox.PhaseBlocked
}

// startable tells whether the work could be given to its claimant, as far as the work itself goes.
func (s *State) canStart(w *Work) bool {
	return w.Lease == nil && !w.onHold() && w.claimableBy() != "" && len(s.OpenBlockers(w)) == 0 && !s.waitsForApproval(w)
}

// OpenBlockers returns the work that must be completed before a task can start. A blocker that was removed from the plan no
// longer counts: the plan that asked for it is gone, and waiting for it would never end. One that the operator cancelled
// counts, unless only an agent named it: the operator has to say what becomes of the tasks that depend on it.
func (s *State) OpenBlockers(w *Work) []string {
	var open []string
	for _, id := range w.Task.Blockers {
		b, known := s.Work(id)
		if !known || b.Phase != signalbox.PhaseCompleted && (b.Task == nil || b.Task.Cancelled != removedFromPlan) {
			open = append(open, id)
		}
	}
	for _, id := range w.Task.Waits {
		if b, known := s.Work(id); known && !b.Done() && !slices.Contains(open, id) {
			open = append(open, id)
		}
	}
	return open
}

// changeTask replaces a task by a changed copy. The change must not write into the slices and maps it finds.
func (s *State) changeTask(id string, change func(*Work, *Task)) {
	s.changeWork(id, func(w *Work) {
		task := *w.Task
		w.Task = &task
		change(w, &task)
	})
}

// increased returns a copy of a count by role with one more.
func incremented(counts map[signalbox.Role]int, role signalbox.Role) map[signalbox.Role]int {
	more := make(map[signalbox.Role]int, len(counts)+1)
	for r, n := range counts {
		more[r] = n
	}
	more[role]++
	return more
}

// excluding returns a copy of a list that lacks an item.
func without(list []string, item string) []string {
	kept := slices.DeleteFunc(slices.Clone(list), func(s string) bool { return s == item })
	if len(kept) == 0 {
		return nil
	}
	return kept
}

// including returns a copy of a list that has an item.
func with(list []string, item string) []string {
	if slices.Contains(list, item) {
		return list
	}
	return append(slices.Clip(list), item)
}
