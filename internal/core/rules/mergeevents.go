package rules

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"signalbox"
)

// The types of events about merging and delivering work.
const (
	TypeMergeRequested = "MergeRequested"
	TypeMergeApproved  = "MergeApproved"
	TypeMergePrepared  = "MergePrepared"
	TypeMerged         = "Merged"
	TypeDelivered      = "Delivered"
	TypeBranchMoved    = "BranchMoved"
	TypeConflictFound  = "ConflictFound"
)

// MergeRequested asks the merger to merge the work into the base.
type MergeRequested struct {
	// Commit is the commit that was checked, reviewed and audited.
	Commit string `json:"commit,omitempty"`
}

func (b MergeRequested) fault(s *State, e *signalbox.Event) string {
	return s.taskFault(e, func(w *Work) string {
		if w.Phase != signalbox.PhaseReadyForMerge || w.Task.Audited {
			return "a merge is requested once, in READY_FOR_MERGE"
		}
		return cmp.Or(commitFault(w, b.Commit), auditorFault(w))
	})
}

func (MergeRequested) apply(s *State, e *signalbox.Event) {
	s.changeTask(e.Work, func(_ *Work, t *Task) { t.Audited = true })
}

func (MergeRequested) describe(d *Describer, e *signalbox.Event) (text, detail string) {
	if w, known := d.State.Work(e.Work); known && d.State.NeedsApproval(w) {
		more, commands := d.Approval(w)
		return "ready to merge, needs your approval" + more, commands
	}
	return "", ""
}

// MergeApproved records that a human approved a merge.
type MergeApproved struct {
	// Commit is the commit that may be merged.
	Commit string `json:"commit,omitempty"`
}

func (b MergeApproved) fault(s *State, e *signalbox.Event) string {
	return s.taskFault(e, func(w *Work) string { return commitFault(w, b.Commit) })
}

func (MergeApproved) apply(s *State, e *signalbox.Event) {
	s.changeTask(e.Work, func(_ *Work, t *Task) { t.Approved = true })
}

func (b MergeApproved) describe(_ *Describer, e *signalbox.Event) (text, detail string) {
	if b.Commit != "" {
		return "merge of " + shortCommit(b.Commit) + " approved by " + e.Actor, ""
	}
	return "merge approved by " + e.Actor, ""
}

// MergePrepared records the merge commit that is about to become the base. After a crash, the base
// contains exactly this commit if the merge took place.
type MergePrepared struct {
	Epoch  uint64 `json:"epoch"`
	Commit string `json:"commit"`
	// Before is the commit of the base that it is made for.
	Before string `json:"before"`
	// Tip is the commit of the work that it merges.
	Tip string `json:"tip"`
	// Train is the train that the merge belongs to, absent if the work is merged alone.
	Train *Train `json:"train,omitempty"`
}

func (b MergePrepared) fault(s *State, e *signalbox.Event) string {
	return s.taskFault(e, func(w *Work) string {
		return cmp.Or(b.Train.fault(), mergerFault(e, w, b.Tip, b.Epoch))
	})
}

func (b MergePrepared) apply(s *State, e *signalbox.Event) {
	s.changeTask(e.Work, func(_ *Work, t *Task) { t.Merge = &PreparedMerge{b.Commit, b.Before, b.Train} })
}

// Merged records that the work is in the base. Unblocked lists the tasks that waited only for it.
type Merged struct {
	Epoch     uint64   `json:"epoch,omitempty"`
	Commit    string   `json:"commit,omitempty"`
	Before    string   `json:"before,omitempty"`
	Unblocked []string `json:"unblocked,omitempty"`
	// Rows is the list of check results on the merge commit, or on the last one of the train, before
	// the base moved to it.
	Rows []CheckRow `json:"rows,omitempty"`
	// Tip is the commit of the work that was merged.
	Tip string `json:"tip,omitempty"`
	// Train is the train that the merge belongs to, absent if the work was merged alone.
	Train *Train `json:"train,omitempty"`
}

func (b Merged) fault(s *State, e *signalbox.Event) string {
	return s.taskFault(e, func(w *Work) string {
		blocked := w.Phase == signalbox.PhaseBlocked
		switch {
		case b.Train.fault() != "":
			return b.Train.fault()
		case b.Epoch != 0:
		case w.Task.Kind == KindRemediation && blocked: // declared healthy
			return ""
		case w.Task.Unchanged && blocked && b.Commit == "": // declared done
			return ""
		case w.WaitsForRequest(): // merged elsewhere
			return commitFault(w, b.Tip)
		case s.run.Policy.Shared:
			return auditorFault(w)
		}
		return mergerFault(e, w, b.Tip, b.Epoch)
	})
}

func (b Merged) apply(s *State, e *signalbox.Event) {
	if d := &s.run; d.Base != "" && d.Base == b.Before {
		if a := d.Accepted; a != nil && a.Commit == b.Before {
			d.Accepted = &AcceptedBase{b.Commit, a.Failing}
		}
		d.Base = b.Commit
	}
	s.changeTask(e.Work, func(_ *Work, t *Task) { t.Audited, t.Merge = true, nil })
}

func (b Merged) describe(d *Describer, e *signalbox.Event) (text, detail string) {
	text = "done"
	if b.Commit != "" {
		text = "merged as " + shortCommit(b.Commit)
	}
	if b.Train != nil {
		text += fmt.Sprintf(", %d of %d merged together", b.Train.Position, b.Train.Size)
	}
	return text + canStart(b.Unblocked), d.undelivered(e.Work)
}

// Delivered records that the work is on a branch, which was perhaps pushed, and for which a pull
// request was perhaps opened. Unblocked lists the tasks that waited only for it.
type Delivered struct {
	Epoch uint64 `json:"epoch"`
	Delivery
	Unblocked []string `json:"unblocked,omitempty"`
}

func (b Delivered) fault(s *State, e *signalbox.Event) string {
	return s.taskFault(e, func(w *Work) string {
		how := s.run.Policy.Deliver
		requested := b.Request != ""
		switch {
		case how == DeliverMerge:
			return "the policy merges work"
		case b.Tip == "" || b.Commit == "" || b.Branch == "" ||
			requested != (how == DeliverRequest):
			return "it does not say what was delivered"
		}
		return mergerFault(e, w, b.Tip, b.Epoch)
	})
}

// apply keeps what came back about an earlier delivery.
func (b Delivered) apply(s *State, e *signalbox.Event) {
	s.changeTask(e.Work, func(_ *Work, t *Task) {
		var seen []string
		if t.Delivered != nil {
			seen = t.Delivered.Seen
		}
		t.Delivered = &DeliveredTask{Delivery: b.Delivery, Seen: seen}
	})
}

func (b Delivered) describe(d *Describer, e *signalbox.Event) (text, detail string) {
	switch {
	case b.Request != "": // its developer may still get messages
		text = "waits until its pull request is merged: " + b.Request
		return text + canStart(b.Unblocked), ""
	case b.Remote != "":
		text = "pushed as " + shortCommit(b.Commit) + " to " + b.Branch + " of " + b.Remote
	default:
		text = "delivered as " + shortCommit(b.Commit) + " on branch " + b.Branch
	}
	return text + canStart(b.Unblocked), d.undelivered(e.Work)
}

// canStart continues a line with the tasks that can start.
func canStart(unblocked []string) string {
	if len(unblocked) == 0 {
		return ""
	}
	return "; " + strings.Join(unblocked, ", ") + " can start"
}

// mergerFault validates an event that only the merger can cause, for a commit that was checked.
func mergerFault(e *signalbox.Event, w *Work, tip string, epoch uint64) string {
	merger := roleFault(w, signalbox.RoleMerger)
	return cmp.Or(commitFault(w, tip), liveFault(e, w, epoch), merger)
}

// auditorFault validates an event that only an auditor can cause, unless the audit is skipped.
func auditorFault(w *Work) string {
	if slices.Contains(w.Task.Skipped, GateAudit) {
		return ""
	}
	if w.Lease == nil ||
		w.Lease.Role != signalbox.RoleAuditor && w.Lease.Role != signalbox.RoleHealthAuditor {
		return fmt.Sprintf("no %s holds the work", signalbox.RoleAuditor)
	}
	return ""
}

// commitFault validates the commit that an event names. Older events name none.
func commitFault(w *Work, commit string) string {
	if commit != "" && commit != w.Task.Commit {
		return fmt.Sprintf("the commit that was checked is %q", w.Task.Commit)
	}
	return ""
}

// BranchMoved records that the branch of a task was moved by something other than signalbox. What
// it was moved to does not count.
type BranchMoved struct {
	Epoch uint64 `json:"epoch"`
	// Expected is the commit that counts.
	Expected string `json:"expected"`
	Found    string `json:"found"`
}

func (b BranchMoved) fault(s *State, e *signalbox.Event) string { return s.heldFault(e, b.Epoch) }

func (BranchMoved) apply(*State, *signalbox.Event) {}

func (b BranchMoved) describe(*Describer, *signalbox.Event) (text, detail string) {
	return fmt.Sprintf("something else moved its branch to %s; only %s counts",
		shortCommit(b.Found), shortCommit(b.Expected)), ""
}

// ConflictFound records that the work conflicts with the base. If an author records it, the author
// is about to resolve it. One without files means that there is no conflict any more.
type ConflictFound struct {
	Epoch uint64 `json:"epoch"`
	// Commit is the commit of the work, and Base that of the base.
	Commit string `json:"commit"`
	Base   string `json:"base"`
	// Draft is the commit with both, and with conflict markers, that the author gets. Its parents
	// are Commit and Base.
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

func (b ConflictFound) fault(s *State, e *signalbox.Event) string {
	return s.taskFault(e, func(w *Work) string {
		if b.Commit == "" || b.Base == "" {
			return "the commits are missing"
		}
		if fault := liveFault(e, w, b.Epoch); fault != "" {
			return fault
		}
		role := w.Lease.Role
		if role != signalbox.RoleCI && role != signalbox.RoleMerger && !role.IsAuthor() {
			return fmt.Sprintf("the %s must not report it", role)
		}
		return ""
	})
}

// apply forgets what was found about an earlier conflict.
func (b ConflictFound) apply(s *State, e *signalbox.Event) {
	s.changeTask(e.Work, func(_ *Work, t *Task) {
		t.Counts.Conflicts = b.Count
		t.endConflict()
		if len(b.Files) == 0 {
			return
		}
		t.Conflict = b.conflict()
		t.Findings = append(slices.Clip(t.Findings),
			Finding{Cause: FindingConflict, Summary: t.Conflict.summary(), Body: b.Body,
				Seq: e.Seq})
	})
}

func (b ConflictFound) describe(d *Describer, e *signalbox.Event) (text, detail string) {
	session, known := d.State.Session(e.Session)
	judge := known && (session.Role == signalbox.RoleCI || session.Role == signalbox.RoleMerger)
	switch {
	case len(b.Files) == 0:
		return "", ""
	case len(b.Unresolved) > 0:
		return "sent back: conflict markers are left in " + joinSome(b.Unresolved), ""
	case judge:
		return "sent back: it conflicts with the base in " + joinSome(b.Files), ""
	}
	return d.role(e) + " gets conflicts with the base in " + joinSome(b.Files), ""
}

func (b ConflictFound) conflict() *Conflict {
	return &Conflict{b.Commit, b.Base, b.Draft, b.Files, b.Submodules, b.Unresolved, b.Body}
}
