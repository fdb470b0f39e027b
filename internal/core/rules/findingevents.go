package rules

import (
	"fmt"
	"slices"
	"strings"

	"signalbox"
	"signalbox/internal/text"
)

// TypeFindingsRecorded is the type of the event about what becomes of findings.
const TypeFindingsRecorded = "FindingsRecorded"

// FindingsRecorded records what becomes of the findings of a task when somebody judges it, or when
// its developer replies to them.
type FindingsRecorded struct {
	// Cause is who says it: review, audit, checks, merge, human, pull request, or reply for the
	// developer.
	Cause string `json:"cause"`
	// Commit is the commit that was judged.
	Commit string `json:"commit,omitempty"`
	// Raised is the list of new findings.
	Raised []RaisedFinding `json:"raised,omitempty"`
	// Again is the list of earlier findings that were found again.
	Again []FoundAgain `json:"again,omitempty"`
	// Resolved is the list of earlier findings that are resolved.
	Resolved []string `json:"resolved,omitempty"`
	// Replies is what the developer, or a human who waives some, says about findings.
	Replies []FindingReply `json:"replies,omitempty"`
	// Round is how often the review has failed since the human last intervened.
	Round int `json:"round,omitempty"`
	// Outcome is what follows if the review failed and the work does not go back: again if only
	// notes are left, so that another critic looks at it; audit if the auditor decides.
	Outcome Judgement `json:"outcome,omitempty"`
}

// RaisedFinding is a new finding, as it was raised.
type RaisedFinding struct {
	ID string `json:"id"`
	// Place is the file, or file:line, that it names.
	Place string `json:"place,omitempty"`
	Text  string `json:"text"`
	// Note is true if it does not send the work back.
	Note bool `json:"note,omitempty"`
	// Basis is why it may send back work that was reviewed before, absent in the first round.
	Basis Basis `json:"basis,omitempty"`
	// Criterion is the number of the acceptance criterion that it names, from 1.
	Criterion int `json:"criterion,omitempty"`
}

// FoundAgain is an earlier finding that was raised again, with the new text about it.
type FoundAgain struct {
	ID   string `json:"id"`
	Text string `json:"text,omitempty"`
	// Place is where it is in Commit, absent if that has not changed.
	Place string `json:"place,omitempty"`
}

// FindingReply is what the developer, or a human who waives it, says about a finding.
type FindingReply struct {
	ID    string       `json:"id"`
	State FindingState `json:"state"`
	Text  string       `json:"text,omitempty"`
}

func (b FindingsRecorded) fault(s *State, e *signalbox.Event) string {
	return s.taskFault(e, func(w *Work) string {
		for i, f := range b.Raised {
			if want := findingID(len(w.Task.Raised) + i + 1); f.ID != want {
				return fmt.Sprintf("the next finding is %s, not %q", want, f.ID)
			}
		}
		for _, a := range b.Again {
			f := w.Task.finding(a.ID)
			if f == nil || f.State == FindingWaived || slices.Contains(b.Resolved, a.ID) {
				return fmt.Sprintf("%q cannot be found again", a.ID)
			}
		}
		named := slices.Clone(b.Resolved)
		for _, r := range b.Replies {
			named = append(named, r.ID)
			if (b.Cause != FindingHuman || r.State != FindingWaived) && r.State != FindingFixed &&
				r.State != FindingDisputed {
				return fmt.Sprintf("there is no reply %q", r.State)
			}
		}
		for _, id := range named {
			if f := w.Task.finding(id); f == nil || !f.Open() {
				return fmt.Sprintf("%q is not an open finding", id)
			}
		}
		return b.outcomeFault(w)
	})
}

func (b FindingsRecorded) outcomeFault(w *Work) string {
	switch {
	case b.Outcome == "":
		return ""
	case b.Outcome != JudgeAgain && b.Outcome != JudgeAudit:
		return fmt.Sprintf("there is no outcome %q", b.Outcome)
	case b.Cause != ReworkReview || w.Task.Kind != KindTask || w.Lease == nil ||
		w.Phase != signalbox.PhaseReview && w.Phase != signalbox.PhaseReadyForReview:
		return "only the verdict of a critic has an outcome"
	}
	return roleFault(w, signalbox.RoleCritic)
}

func (b FindingsRecorded) apply(s *State, e *signalbox.Event) {
	s.changeTask(e.Work, func(_ *Work, t *Task) {
		t.Raised = slices.Clone(t.Raised)
		for i := range t.Raised {
			b.change(e, &t.Raised[i])
		}
		for _, f := range b.Raised {
			state := FindingOpen
			if f.Note {
				state = FindingNote
			}
			t.Raised = append(t.Raised, TaskFinding{RaisedFinding: f, Cause: b.Cause,
				Commit: b.Commit, Seq: e.Seq, State: state})
		}
		switch {
		case b.Cause == FindingHuman && len(b.Replies) > 0:
			t.Rejected = signalbox.Hash{}
		case b.Cause == causeReply:
			t.Disputing = slices.ContainsFunc(b.Replies,
				func(r FindingReply) bool { return r.State == FindingDisputed })
		case b.Cause == ReworkReview && b.failed():
			t.ReviewedAt, t.Counts.Rounds, t.Blocking = b.Commit, b.Round, b.blocking()
		case b.Cause == ReworkAudit && b.failed():
			t.AuditedAt = b.Commit
		}
		if b.Outcome != "" {
			t.Judgement, t.Conversation = b.Outcome, nil
		}
	})
}

// failed reports whether the verdict does not pass the work. One with nothing but notes leaves that
// to another critic first, who may look at everything.
func (b FindingsRecorded) failed() bool { return b.blocking() > 0 || b.Outcome == JudgeAudit }

// change applies the event to an earlier finding.
func (b FindingsRecorded) change(e *signalbox.Event, f *TaskFinding) {
	if slices.Contains(b.Resolved, f.ID) {
		f.State, f.Upheld = FindingResolved, false
	}
	for _, again := range b.Again {
		if again.ID == f.ID {
			f.Times++
			f.Answer = again.Text
			if again.Place != "" {
				f.Place, f.Commit = again.Place, b.Commit
			}
			if f.Upheld = f.State == FindingDisputed; !f.Upheld {
				f.State = FindingOpen
			}
		}
	}
	for _, r := range b.Replies {
		switch {
		case r.ID != f.ID:
		case r.State == FindingWaived:
			f.State, f.Waived, f.Upheld = r.State, e.Actor+": "+r.Text, false
		default:
			f.State, f.Reply, f.Upheld = r.State, r.Text, false
		}
	}
}

func (b FindingsRecorded) describe(_ *Describer, e *signalbox.Event) (text, detail string) {
	var parts, disputed []string
	for _, r := range b.Replies {
		switch r.State {
		case FindingDisputed:
			disputed = append(disputed, r.ID)
		case FindingWaived:
			parts = append(parts, r.ID+" waived by "+e.Actor)
		}
	}
	if len(disputed) > 0 {
		parts = append(parts, strings.Join(disputed, ", ")+" disputed by the developer")
	}
	switch b.Outcome {
	case JudgeAgain:
		parts = append(parts, "only notes are left; another critic looks at it")
	case JudgeAudit:
		parts = append(parts, "the auditor decides, because "+b.reason())
	}
	if len(parts) == 0 {
		return "", ""
	}
	return strings.Join(parts, "; "), b.first()
}

// reason is why the auditor decides.
func (b FindingsRecorded) reason() string {
	if len(b.Again) > 0 {
		var ids []string
		for _, a := range b.Again {
			ids = append(ids, a.ID)
		}
		return "critic and developer disagree about " + strings.Join(ids, ", ")
	}
	return "only notes are left"
}

// first is the first text in the event, for one line.
func (b FindingsRecorded) first() string {
	switch {
	case len(b.Raised) > 0:
		return text.OneLine(b.Raised[0].Text)
	case len(b.Replies) > 0:
		return text.OneLine(b.Replies[0].Text)
	}
	return ""
}
