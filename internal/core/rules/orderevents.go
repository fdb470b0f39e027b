package rules

import (
	"fmt"
	"slices"
	"time"

	"signalbox"
)

// The types of events of the operator.
const (
	TypePaused           = "Paused"
	TypeResumed          = "Resumed"
	TypeCancelled        = "Cancelled"
	TypeRetried          = "Retried"
	TypeMessageSent      = "MessageSent"
	TypeMessageDelivered = "MessageDelivered"
)

// Paused stops the dispatch of a task, or of the whole run if the event names no work.
type Paused struct {
	Reason string `json:"reason,omitempty"`
	// Budget means that the human refused to extend a budget. A higher budget in the configuration
	// or the plan ends the pause.
	Budget bool `json:"budget,omitempty"`
	// Role is the role that is paused, if only that is.
	Role signalbox.Role `json:"role,omitempty"`
}

func (Paused) fault(s *State, e *signalbox.Event) string { return s.runOrTaskFault(e, nil) }

func (b Paused) apply(s *State, e *signalbox.Event) { s.setPaused(e, b.Role, true, b.Budget) }

func (b Paused) describe(_ *Describer, e *signalbox.Event) (text, detail string) {
	return ordered(e, b.Role) + "paused by " + e.Actor, b.Reason
}

// setPaused starts or ends the pause of the task that an event names; without one, that of the
// role, or of the whole run.
func (s *State) setPaused(e *signalbox.Event, role signalbox.Role, paused, noBudget bool) {
	switch {
	case e.Work != "":
		s.changeTask(e.Work, func(_ *Work, t *Task) { t.Paused, t.NoBudget = paused, noBudget })
	case role != "":
		s.changeRole(role, func(r *RoleSpent) { r.Paused = paused })
	default:
		s.run.Paused, s.run.NoBudget = paused, noBudget
	}
}

// Resumed ends a pause.
type Resumed struct {
	Role signalbox.Role `json:"role,omitempty"`
}

func (Resumed) fault(s *State, e *signalbox.Event) string { return s.runOrTaskFault(e, nil) }

func (b Resumed) apply(s *State, e *signalbox.Event) { s.setPaused(e, b.Role, false, false) }

func (b Resumed) describe(_ *Describer, e *signalbox.Event) (text, detail string) {
	return ordered(e, b.Role) + "resumed by " + e.Actor, ""
}

// Cancelled ends the work on a task, or on the whole run if the event names no work. Retried undoes
// it.
type Cancelled struct {
	Reason string `json:"reason"`
}

func (Cancelled) fault(s *State, e *signalbox.Event) string { return s.runOrTaskFault(e, nil) }

func (b Cancelled) apply(s *State, e *signalbox.Event) {
	if e.Work == "" {
		s.run.Cancelled = b.Reason
		return
	}
	w, _ := s.Work(e.Work)
	s.changeTask(e.Work, func(_ *Work, t *Task) {
		t.Cancelled, t.Locks, t.Merge = b.Reason, nil, nil
		t.forgetConversations()
	})
	s.grantFiles(w.Task.Locks)
	if w.Task.Asker != "" { // a cancelled request ends the wait of the task that made it
		s.changeTask(w.Task.Asker, func(_ *Work, t *Task) { t.markReady(e.Work) })
	}
}

func (b Cancelled) describe(_ *Describer, e *signalbox.Event) (text, detail string) {
	return ordered(e, "") + "cancelled by " + e.Actor, b.Reason
}

// Retried restarts a task, or continues a cancelled run: earlier failures no longer count.
type Retried struct {
	Note string `json:"note,omitempty"`
	// From is the phase in which a task restarts, if the operator named one. What it passed in that
	// phase and after it counts no more.
	From signalbox.Phase `json:"from,omitempty"`
}

func (b Retried) fault(s *State, e *signalbox.Event) string {
	return s.runOrTaskFault(e, func(w *Work) string {
		switch {
		case b.From == "":
		case w == nil:
			return "a run has no phase"
		case !slices.Contains(w.RetryPhases(), retryStep(b.From)):
			return fmt.Sprintf("it cannot restart in %s", b.From)
		}
		return ""
	})
}

func (b Retried) apply(s *State, e *signalbox.Event) {
	if e.Work == "" {
		b.applyRun(s)
		return
	}
	s.changeTask(e.Work, func(_ *Work, t *Task) {
		t.Cancelled, t.Paused, t.NoBudget, t.Rejected = "", false, false, signalbox.Hash{}
		t.forgetJudgements()
		t.forgetConversations()
		t.reopenRequest(false)
		t.resetCounts()
		if b.From != "" {
			// Whatever the phase is, another audit follows. The task waits for a remediation in
			// progress like all tasks.
			t.Audited, t.Approved, t.Remedy = false, false, ""
		}
	})
}

func (b Retried) describe(_ *Describer, e *signalbox.Event) (text, detail string) {
	phase := ""
	if b.From != "" {
		phase = "in " + string(b.From) + " "
	}
	return ordered(e, "") + "restarted " + phase + "by " + e.Actor, b.Note
}

// ordered begins the description of an order about a role, or about the whole run. One about a task
// needs no beginning.
func ordered(e *signalbox.Event, role signalbox.Role) string {
	switch {
	case role != "":
		return "the role " + string(role) + " is "
	case e.Work == "":
		return "the run is "
	}
	return ""
}

func (Retried) applyRun(s *State) {
	for _, r := range s.run.Roles {
		if r.Paused {
			s.changeRole(r.Role, func(r *RoleSpent) { r.Paused = false })
		}
	}
	d := &s.run
	d.Cancelled, d.Paused, d.NoBudget, d.Limited = "", false, false, nil
	for _, a := range d.Agents {
		s.changeAgent(a.Agent, func(a *AgentState) {
			a.Limited, a.Roles, a.Outages = time.Time{}, nil, 0
		})
	}
}

// MessageSent records words of the human for the next agent of a role, or for the one at work if it
// listens.
type MessageSent struct {
	Text string `json:"text"`
	// Body is the blob with the text if it is long. Text is only its beginning then.
	Body signalbox.Hash `json:"body,omitzero"`
	// Role is whose agents it is for; absent for the next agent, whatever its role.
	Role signalbox.Role `json:"role,omitempty"`
	// Now is true if the agent at work is interrupted to read it.
	Now bool `json:"now,omitempty"`
}

func (MessageSent) fault(s *State, e *signalbox.Event) string {
	return s.taskFault(e, func(w *Work) string {
		if w.Done() {
			return "it is done"
		}
		return ""
	})
}

func (b MessageSent) apply(s *State, e *signalbox.Event) {
	s.changeTask(e.Work, func(_ *Work, t *Task) {
		t.Messages = append(slices.Clip(t.Messages), Message{b.Text, b.Body, e.Actor, e.Seq,
			b.Role, b.Now})
	})
}

func (b MessageSent) describe(_ *Describer, e *signalbox.Event) (text, detail string) {
	text = "message from " + e.Actor
	if b.Role != "" {
		text += " to the " + string(b.Role)
	}
	return text, b.Text
}

// MessageDelivered records that an agent has got words of the human, while it worked or in the
// prompt of the turn that ends.
type MessageDelivered struct {
	Epoch uint64 `json:"epoch"`
	// Messages is the list of sequences of the MessageSent events.
	Messages []uint64 `json:"messages"`
}

func (b MessageDelivered) fault(s *State, e *signalbox.Event) string {
	return s.taskFault(e, func(w *Work) string {
		for _, seq := range b.Messages {
			if !slices.ContainsFunc(w.Task.Messages, func(m Message) bool { return m.Seq == seq }) {
				return fmt.Sprintf("event %d is not a message that waits for an agent", seq)
			}
		}
		return liveFault(e, w, b.Epoch)
	})
}

func (b MessageDelivered) apply(s *State, e *signalbox.Event) {
	s.changeTask(e.Work, func(_ *Work, t *Task) {
		got := func(m Message) bool { return slices.Contains(b.Messages, m.Seq) }
		if t.Messages = slices.DeleteFunc(slices.Clone(t.Messages), got); len(t.Messages) == 0 {
			t.Messages = nil
		}
	})
}

func (b MessageDelivered) describe(d *Describer, e *signalbox.Event) (text, detail string) {
	return d.role(e) + " got your " + messages(len(b.Messages)), ""
}
