package rules

import (
	"fmt"
	"slices"
	"strings"

	"signalbox"
)

// The types of events about questions to the human.
const (
	TypeQuestionAsked    = "QuestionAsked"
	TypeQuestionAnswered = "QuestionAnswered"
)

// QuestionAsked asks the human a question.
type QuestionAsked struct {
	Question string         `json:"question"`
	Kind     QuestionKind   `json:"kind"`
	Text     string         `json:"text"`
	Body     signalbox.Hash `json:"body,omitzero"`
	// Cap is which budget is spent, if it is not that of the task or the run. Role is the role if
	// that is CapRole, and Spent what the turn has used if it is CapTurn.
	Cap   Cap            `json:"cap,omitempty"`
	Role  signalbox.Role `json:"role,omitempty"`
	Spent Spent          `json:"spent,omitzero"`
	// Agents is the list of agents that cannot work, if the question is about them.
	Agents []string `json:"agents,omitempty"`
}

func (b QuestionAsked) fault(s *State, e *signalbox.Event) string {
	return s.runOrTaskFault(e, func(*Work) string {
		if next := fmt.Sprintf("Q-%d", len(s.run.Questions)+1); b.Question != next {
			return "the next question is " + next
		}
		return ""
	})
}

func (b QuestionAsked) apply(s *State, e *signalbox.Event) {
	q := &Question{ID: b.Question, Kind: b.Kind, Work: e.Work, Session: e.Session, Text: b.Text,
		Body: b.Body, Asked: e.Time, Seq: e.Seq, Cap: b.Cap, Role: b.Role, Spent: b.Spent,
		Agents: b.Agents}
	s.run.Questions = append(slices.Clip(s.run.Questions), q)
	if e.Work != "" {
		s.changeTask(e.Work, func(_ *Work, t *Task) {
			t.Questions = appendUnique(t.Questions, b.Question)
		})
	}
}

func (b QuestionAsked) describe(*Describer, *signalbox.Event) (text, detail string) {
	what, answer := b.Text, "answer with: signalbox answer "+b.Question+" TEXT"
	if b.Kind == AskedBaseline { // ChecksRan already reported which checks fail, and why
		what, _, _ = strings.Cut(b.Text, ": ")
		answer = "see signalbox questions; " + answer
	}
	return fmt.Sprintf("asks you (%s): %s", b.Question, what), answer
}

// QuestionAnswered records the human's answer. Withdrawn means that the question no longer matters.
type QuestionAnswered struct {
	Question  string `json:"question"`
	Answer    string `json:"answer,omitempty"`
	Withdrawn bool   `json:"withdrawn,omitempty"`
	// NoGrant means that the answer to a question about a budget does not extend the budget: it was
	// no, or the limit was raised.
	NoGrant bool `json:"no_grant,omitempty"`
	// Keep means that the human allows the large files of the task.
	Keep bool `json:"keep,omitempty"`
}

func (b QuestionAnswered) fault(s *State, e *signalbox.Event) string {
	return s.runOrTaskFault(e, func(*Work) string {
		q, known := s.Question(b.Question)
		if !known || !q.Open() || q.Work != e.Work {
			return fmt.Sprintf("%s is not an open question about it", b.Question)
		}
		return ""
	})
}

func (b QuestionAnswered) apply(s *State, e *signalbox.Event) {
	i := slices.IndexFunc(s.run.Questions, func(q *Question) bool { return q.ID == b.Question })
	q := *s.run.Questions[i]
	q.Answer, q.Actor, q.Answered, q.Withdrawn = b.Answer, e.Actor, e.Time, b.Withdrawn
	s.run.Questions = slices.Clone(s.run.Questions)
	s.run.Questions[i] = &q
	if e.Work == "" {
		b.applyRun(s, &q)
		return
	}
	s.changeTask(e.Work, func(w *Work, t *Task) {
		t.Questions = remove(t.Questions, b.Question)
		if !b.Withdrawn {
			b.applyTask(&q, w, t)
		}
	})
}

func (b QuestionAnswered) describe(_ *Describer, e *signalbox.Event) (text, detail string) {
	if b.Withdrawn {
		return b.Question + " withdrawn", ""
	}
	return fmt.Sprintf("%s answered by %s", b.Question, e.Actor), b.Answer
}

// applyRun extends the budget that a question about the whole run was about.
func (b QuestionAnswered) applyRun(s *State, q *Question) {
	switch {
	case b.NoGrant || q.Kind == AskedAgent || q.Kind == AskedSetup:
	case q.Role != "":
		s.changeRole(q.Role, func(r *RoleSpent) { r.Granted = r.Spent })
	default: // other questions without work and role are about the budget of the run
		s.run.Granted = s.run.Spent
	}
	s.refreshAll()
}

func (b QuestionAnswered) applyTask(q *Question, w *Work, t *Task) {
	t.Answers = appendUnique(t.Answers, b.Question)
	t.resetCounts()
	if q.Kind == AskedBudget && !b.NoGrant {
		t.Granted = t.Spent
	}
	if q.Kind == AskedRequest && w.BlockedFrom == signalbox.PhaseReadyForMerge {
		t.reopenRequest(true)
	}
	if q.Kind == AskedRepeated || q.Kind == AskedDispute {
		t.Rejected = signalbox.Hash{}
	}
	if b.Keep {
		t.KeepLarge = true
		t.dropFindings(ReworkFileSize)
	}
}
