package rules

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"signalbox"
)

// Ways to deliver finished work.
const (
	DeliverMerge   = ""             // merge it into the base
	DeliverBranch  = "branch"       // leave it on a branch
	DeliverPush    = "push"         // push the branch to a remote repository
	DeliverRequest = "pull-request" // ask there that the branch is merged
)

// Deliveries returns the ways to deliver finished work other than merging it.
func Deliveries() []string { return []string{DeliverBranch, DeliverPush, DeliverRequest} }

// Delivery is where finished work is that signalbox does not merge itself.
type Delivery struct {
	// Tip is the commit that was checked, reviewed and audited, and Commit that of the branch,
	// which is another one if it was squashed.
	Tip    string `json:"tip"`
	Commit string `json:"commit"`
	Branch string `json:"branch"`
	Remote string `json:"remote,omitempty"`
	// Request is the address of the pull request, "" if there is none.
	Request string `json:"request,omitempty"`
}

// DeliveredTask is the delivery of a task, and what came back.
type DeliveredTask struct {
	Delivery
	// Seen are the ids of the findings that came back and were sent to the developer, the last
	// maxSeen of them.
	Seen []string `json:"seen,omitempty"`
	// Reopen means that the human wants the pull request, which was perhaps closed, to be opened
	// again.
	Reopen bool `json:"reopen,omitempty"`
}

// maxSeen is how many findings of a pull request are remembered, and how many one report may have.
const maxSeen = 500

// ReportDelivery reports that work was delivered. Only the system role that merges may send it.
// Without a pull request the work is completed. With one it waits until that is merged.
type ReportDelivery struct {
	Session string
	Epoch   uint64
	Delivery
}

func (c ReportDelivery) decide(d *decider) error {
	h, err := d.holderReport(c.Session, c.Epoch, "delivery")
	if err != nil {
		return err
	}
	how := d.s.run.Policy.Deliver
	switch {
	case h.role != signalbox.RoleMerger:
		return refusef(signalbox.CodeFailed, "only "+string(signalbox.RoleMerger)+" delivers",
			"%s must not report a delivery", h.role)
	case how == DeliverMerge:
		return refusef(signalbox.CodeUsage, "merge it into the base",
			"the policy does not deliver '%s' in another way", h.w.ID)
	case d.s.WaitsForApproval(h.w):
		return refusef(signalbox.CodeConflict, "signalbox approve "+h.w.ID,
			"the delivery of '%s' is not approved", h.w.ID)
	case c.Tip == "" || c.Tip != h.w.Task.Commit:
		return refusef(signalbox.CodeConflict, "deliver the commit that was checked",
			"'%s' is not at that commit", h.w.ID)
	case c.Commit == "" || c.Branch == "" || (how == DeliverRequest) != (c.Request != ""):
		return refusef(signalbox.CodeUsage, "name the commit, the branch and the pull request",
			"the delivery of '%s' is incomplete", h.w.ID)
	}
	if err := cmp.Or(checkCommits(c.Commit), checkBranch(c.Branch)); err != nil {
		return err
	}
	delivered := Delivered{Epoch: c.Epoch, Delivery: c.Delivery}
	if how != DeliverRequest || d.s.run.Policy.Stack {
		delivered.Unblocked = d.s.unblockedBy(h.w.ID)
	}
	d.answer.Seq = h.note(delivered)
	if how != DeliverRequest {
		h.move(signalbox.PhaseCompleted)
	}
	h.release("delivered")
	if how != DeliverRequest && h.w.Task.Kind == KindRemediation {
		d.endRemediation(h.w, h.actor)
	}
	return nil
}

// WaitsForRequest reports whether work waits until its pull request is merged.
func (w *Work) WaitsForRequest() bool {
	return w.Task != nil && w.Task.Delivered != nil && w.Task.Delivered.Request != "" &&
		!w.Task.Delivered.Reopen && w.Task.Delivered.Tip == w.Task.Commit &&
		w.Phase == signalbox.PhaseReadyForMerge && w.Task.Audited && w.Task.Cancelled == ""
}

// Requests returns the work that waits until its pull request is merged.
func (s *register) Requests() []*Work {
	var waiting []*Work
	for _, w := range s.works {
		if w.WaitsForRequest() {
			waiting = append(waiting, w)
		}
	}
	return waiting
}

// RequestFinding is something that came back about a pull request: a failed check, or a comment.
// Its ID identifies it, also when it is reported again. Strangers may have written the text.
type RequestFinding struct{ ID, Summary string }

// ReportRequest reports what became of a pull request. What is known already changes nothing.
type ReportRequest struct {
	Work, Actor string
	// Request is the address of the pull request, and Commit the one of the branch that the report
	// is about.
	Request, Commit string
	// Merged is the commit by which it was merged, "" if it was not. Closed means that it was
	// closed without that.
	Merged   string
	Closed   bool
	Findings []RequestFinding
	// Body is the blob with the text of all findings.
	Body signalbox.Hash
}

func (c ReportRequest) decide(d *decider) error {
	if err := cmp.Or(checkIDs("actor", c.Actor), checkCommits(c.Merged)); err != nil {
		return err
	}
	w, err := d.work(c.Work)
	if err != nil {
		return err
	}
	if !w.WaitsForRequest() || d.liveLease(w) != nil || w.Task.Delivered.Request != c.Request ||
		w.Task.Delivered.Commit != c.Commit {
		d.answer.Repeated = true // it is about an earlier commit
		return nil
	}
	h := report{decider: d, w: w, holder: holder{actor: c.Actor}}
	switch {
	case c.Merged != "":
		d.answer.Seq = d.record(w.ID, "", c.Actor,
			Merged{Commit: c.Merged, Unblocked: d.s.unblockedBy(w.ID), Tip: w.Task.Commit})
		h.move(signalbox.PhaseCompleted)
		if w.Task.Kind == KindRemediation {
			d.endRemediation(w, c.Actor)
		}
	case c.Closed:
		h.block(AskedRequest, signalbox.Hash{},
			"the pull request %s of %s was closed without being merged. Answer \"again\" to open another one; "+
				"any other answer is guidance for the developer. signalbox cancel %s gives the task up",
			w.Task.Delivered.Request, w.ID, w.ID)
	default:
		c.rework(h)
	}
	return nil
}

// rework sends work back with what is new about its pull request.
func (c ReportRequest) rework(h report) {
	var ids, summaries []string
	for _, f := range c.Findings[:min(len(c.Findings), maxSeen)] {
		if id := sanitize(f.ID, 200); !slices.Contains(h.w.Task.Delivered.Seen, id) &&
			!slices.Contains(ids, id) {
			ids, summaries = append(ids, id), append(summaries, sanitize(f.Summary, 300))
		}
	}
	if h.answer.Repeated = len(ids) == 0; h.answer.Repeated {
		return
	}
	count, limit := h.w.Task.Counts.Requests+1, h.s.run.Policy.Limits.Reviews
	h.answer.Seq = h.record(h.w.ID, "", c.Actor, ReworkOrdered{Cause: ReworkRequest, Count: count,
		Summary: sanitize(strings.Join(summaries, "; "), maxText),
		Body:    c.Body, Seen: ids})
	h.raise(ReworkRequest, h.w.Task.Commit, summaries...)
	h.move(signalbox.PhaseImplementation)
	if count >= limit {
		h.w = withPhase(h.w, signalbox.PhaseImplementation)
		h.block(AskedRequest, c.Body,
			"%s came back from its pull request %d times, last: %s. What should happen next?",
			h.w.ID, count, sanitize(strings.Join(summaries, "; "), 1000))
	}
}

// answerRequest carries out the human's decision about a pull request that was closed, or that
// comes back again and again.
func (d *decider) answerRequest(w *Work, c AnswerQuestion) {
	if w.BlockedFrom == signalbox.PhaseReadyForMerge && firstWord(c.Answer) != "again" {
		d.unblockTo(w, c.Actor, c.Question, signalbox.PhaseImplementation)
		return
	}
	d.unblock(w, c.Actor, c.Question)
}

// reopenRequest makes the task be delivered again, also with the same commit. What was pushed and
// what came back is still known: the pull request may be open, and other tasks may build on it. If
// it was closed, the next one has findings of its own.
func (t *Task) reopenRequest(closed bool) {
	if t.Delivered == nil {
		return
	}
	delivered := *t.Delivered
	delivered.Reopen = true
	if closed {
		delivered.Seen = nil
	}
	t.Delivered = &delivered
}

// addSeen remembers the findings of a pull request that were sent back.
func (t *Task) addSeen(ids []string) {
	if t.Delivered == nil {
		return
	}
	delivered := *t.Delivered
	delivered.Seen = append(slices.Clone(delivered.Seen), ids...)
	delivered.Seen = delivered.Seen[max(0, len(delivered.Seen)-maxSeen):]
	t.Delivered = &delivered
}

// deliverFault validates the part of a policy about the delivery of work.
func deliverFault(p *Policy) string {
	switch {
	case p.Deliver != DeliverMerge && !slices.Contains(Deliveries(), p.Deliver):
		return fmt.Sprintf("there is no way %q to deliver work", p.Deliver)
	case p.Deliver != DeliverMerge && p.Shared:
		return "work in a shared workspace can only be merged"
	case p.Stack && p.Deliver != DeliverRequest:
		return "only work that waits for a pull request can be built upon before it is merged"
	}
	return ""
}
