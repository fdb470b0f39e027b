package rules

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	"signalbox"
)

// The types of events about the turns of an agent on a task.
const (
	TypeAgentStarted       = "AgentStarted"
	TypeAgentTurnEnded     = "AgentTurnEnded"
	TypeAgentSpent         = "AgentSpent"
	TypeProgressReported   = "ProgressReported"
	TypeConversationOpened = "ConversationOpened"
	TypeIncompleteLogged   = "IncompleteLogged"
	TypeAgentFailed        = "AgentFailed"
	TypeSessionParked      = "SessionParked"
	TypeSessionResumed     = "SessionResumed"
)

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

func (b AgentStarted) fault(s *State, e *signalbox.Event) string { return s.heldFault(e, b.Epoch) }

func (b AgentStarted) apply(s *State, e *signalbox.Event) {
	s.openWindow(e.Time)
	s.noteAuthor(e.Work)
	s.changeTask(e.Work, func(w *Work, t *Task) {
		t.Starts, t.Running = incremented(t.Starts, w.Lease.Role), Spent{}
		if t.Agent != "" {
			t.Agent = b.Agent
		}
		if b.Resumes == "" {
			t.Conversation = nil
			if w.Lease.Role.IsAuthor() {
				t.AuthorConversation = nil
			}
		}
	})
}

func (b AgentStarted) describe(d *Describer, e *signalbox.Event) (text, detail string) {
	text = d.role(e) + " started" + nthAttempt(b.Attempt)
	if b.Resumes != "" {
		text += ", resuming its session"
	}
	return text, d.title(e.Work)
}

// Sandbox is what a program was allowed to do on the machine that it ran on.
type Sandbox struct {
	Mode    string `json:"mode"`
	Network string `json:"network,omitempty"`
	// Layers are the parts of the system that enforced it, such as "landlock 7, seccomp".
	Layers string `json:"layers,omitempty"`
	// Processes is "watch" if the system could not make sure that everything which the program
	// started ends with it.
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
	// Commit is the commit with everything that the agent changed, if it works on a branch. It is
	// what is checked if the turn reports the work as ready, wherever the branch is by then.
	Commit string `json:"commit,omitempty"`
	// Interrupted means that signalbox ended the agent because the run was stopped, or because of
	// Cap, or that its service refused to serve it.
	Interrupted bool `json:"interrupted,omitempty"`
	// Cap is the limit of spending that made signalbox end the agent.
	Cap Cap `json:"cap,omitempty"`
	// Estimated means that the tokens, and a cost that follows from them, are an estimate.
	Estimated bool   `json:"estimated,omitempty"`
	Model     string `json:"model,omitempty"`
	// Thread is the program's own session and what it has used in all turns, if the program reports
	// only that.
	Thread *Thread `json:"thread,omitempty"`
	// InputTokens is how many of the tokens were read by the model.
	InputTokens int64 `json:"input_tokens,omitempty"`
	// OutputTokens is how many of the tokens were written by the model.
	OutputTokens int64 `json:"output_tokens,omitempty"`
	// LoginRefused is what the program changed in its copy of your login and signalbox did not copy
	// back: the file, the field, and why. It never contains a value.
	LoginRefused []string `json:"login_refused,omitempty"`
	// Continues is true if the session of the program can be resumed when the work comes back to
	// its author.
	Continues bool `json:"continues,omitempty"`
	// Vendor is the vendor of the model, absent if it is not known.
	Vendor string `json:"vendor,omitempty"`
	// Wrote is true if the agent is an author of the work: it changed files, or handed them in.
	Wrote bool `json:"wrote,omitempty"`
}

func (b AgentTurnEnded) fault(s *State, e *signalbox.Event) string {
	return s.heldFault(e, b.Epoch)
}

func (b AgentTurnEnded) apply(s *State, e *signalbox.Event) {
	s.addSpent(e, b.Spent.estimated(b.Estimated))
	s.changeTask(e.Work, func(w *Work, t *Task) {
		t.Running, t.Output = Spent{}, b.Output
		t.endConversationTurn(b)
		if b.Thread != nil {
			t.Thread = b.Thread
		}
		if b.Interrupted && w.Lease != nil && w.Lease.Role.IsAuthor() {
			t.Context = interruptedContext
		}
		if b.Commit != "" {
			t.Saved = &SavedWork{b.Commit, b.Epoch}
		}
	})
	s.noteModel(e.Work, b)
}

func (b AgentTurnEnded) describe(d *Describer, e *signalbox.Event) (text, detail string) {
	if len(b.LoginRefused) == 0 {
		return "", ""
	}
	text = "the " + d.role(e) + " changed its copy of your login; not copied back"
	return text, strings.Join(b.LoginRefused, ", ")
}

// interruptedContext is what the author after an interrupted one is told.
const interruptedContext = "An earlier agent was interrupted; its changes are in your working " +
	"copy. Look at them first, and continue from there."

// Thread is a session of an agent program, and what it has used in all of its turns.
type Thread struct {
	ID     string `json:"id"`
	Input  int64  `json:"input"`
	Cached int64  `json:"cached,omitempty"`
	Output int64  `json:"output"`
}

// AgentSpent records what the running turn of an agent has used so far. The turn's end replaces it.
type AgentSpent struct {
	Epoch     uint64 `json:"epoch"`
	Spent     Spent  `json:"spent"`
	Estimated bool   `json:"estimated,omitempty"`
}

func (b AgentSpent) fault(s *State, e *signalbox.Event) string { return s.heldFault(e, b.Epoch) }

func (b AgentSpent) apply(s *State, e *signalbox.Event) {
	s.addSpent(e, b.Spent.estimated(b.Estimated))
}

// ProgressReported records a checkpoint.
type ProgressReported struct {
	Epoch    uint64 `json:"epoch"`
	Activity string `json:"activity,omitempty"`
	Percent  int    `json:"percent,omitempty"`
}

func (b ProgressReported) fault(s *State, e *signalbox.Event) string {
	return s.heldFault(e, b.Epoch)
}

func (b ProgressReported) apply(s *State, e *signalbox.Event) {
	s.changeTask(e.Work, func(_ *Work, t *Task) {
		t.Progress = &Progress{b.Activity, b.Percent, e.Time}
	})
}

func (b ProgressReported) describe(*Describer, *signalbox.Event) (text, detail string) {
	if b.Percent == 0 {
		return "checkpoint", b.Activity
	}
	return fmt.Sprintf("checkpoint %d%%", b.Percent), b.Activity
}

// ConversationOpened records the id that an agent program gave its own session, so that the session
// can be resumed after an interruption.
type ConversationOpened struct {
	Epoch uint64 `json:"epoch"`
	ID    string `json:"id"`
}

func (b ConversationOpened) fault(s *State, e *signalbox.Event) string {
	return s.taskFault(e, func(w *Work) string {
		if !IsConversation(b.ID) {
			return "no agent program gives such an id"
		}
		return liveFault(e, w, b.Epoch)
	})
}

func (b ConversationOpened) apply(s *State, e *signalbox.Event) {
	s.changeTask(e.Work, func(w *Work, t *Task) {
		t.Conversation = &Conversation{Agent: t.Agent, ID: b.ID, Role: w.Lease.Role, Epoch: b.Epoch}
	})
}

// IncompleteLogged records that a developer could not finish, and why, if known.
type IncompleteLogged struct {
	Cause   Cause          `json:"cause"`
	Count   int            `json:"count"`
	Summary string         `json:"summary,omitempty"`
	Body    signalbox.Hash `json:"body,omitzero"`
}

func (b IncompleteLogged) apply(s *State, e *signalbox.Event) {
	s.changeTask(e.Work, func(_ *Work, t *Task) {
		t.Counts.Incompletes = b.Count
		t.Context = "The developer before you could not finish: " + b.Summary
	})
}

func (b IncompleteLogged) describe(*Describer, *signalbox.Event) (text, detail string) {
	return fmt.Sprintf("incomplete (%s)", strings.ReplaceAll(string(b.Cause), "_", " ")), b.Summary
}

// AgentFailed records that an agent ended without a signal that counts: a timeout, a crash, a
// stall, or a failed start.
type AgentFailed struct {
	Epoch  uint64         `json:"epoch"`
	Cause  string         `json:"cause"`
	Role   signalbox.Role `json:"role"`
	Count  int            `json:"count"`
	Detail string         `json:"detail,omitempty"`
}

func (b AgentFailed) fault(s *State, e *signalbox.Event) string {
	return s.workFault(e, func(w *Work) string {
		if w.Task == nil {
			return checkerFault(e, w, b.Epoch)
		}
		return liveFault(e, w, b.Epoch)
	})
}

func (b AgentFailed) apply(s *State, e *signalbox.Event) {
	w, _ := s.Work(e.Work)
	if w.Task == nil {
		s.changeWork(e.Work, func(w *Work) { w.Notes = b.Detail })
		return
	}
	s.changeTask(e.Work, func(_ *Work, t *Task) {
		t.Timeouts, t.Context = incremented(t.Timeouts, b.Role), b.Detail
	})
	if FailCause(b.Cause) == FailCrash {
		s.changeAgent(w.Task.Agent, func(a *AgentState) {
			a.changeRole(b.Role, func(r *AgentCrashes) { r.Crashes++ })
		})
	}
}

func (b AgentFailed) describe(*Describer, *signalbox.Event) (text, detail string) {
	text = string(b.Role) + " " + FailCause(b.Cause).how() + nthTime(b.Count)
	return text, strings.ReplaceAll(b.Detail, "\n", "; ")
}

// how describes how an agent failed.
func (c FailCause) how() string {
	switch c {
	case FailTimeout:
		return "timed out"
	case FailCrash:
		return "crashed"
	case FailStall:
		return "stalled"
	case FailStart:
		return "could not start"
	case FailWorkspace:
		return "could not do its work"
	case FailSignals:
		return "sent no valid signal"
	case FailProcesses:
		return "left processes behind"
	}
	return "failed: " + string(c)
}

// SessionParked frees the slot of a session that waits for an expert or a file.
type SessionParked struct {
	Epoch uint64    `json:"epoch"`
	For   string    `json:"for"`
	File  bool      `json:"file,omitempty"`
	Until time.Time `json:"until,omitzero"`
}

func (b SessionParked) fault(s *State, e *signalbox.Event) string { return s.heldFault(e, b.Epoch) }

func (b SessionParked) apply(s *State, e *signalbox.Event) {
	s.changeTask(e.Work, func(_ *Work, t *Task) {
		t.Parked = &Park{For: b.For, File: b.File, Until: b.Until}
	})
}

// SessionResumed gives a parked session a slot again.
type SessionResumed struct {
	Epoch uint64 `json:"epoch"`
	// Agent is the agent that takes over from that of the session.
	Agent string `json:"agent,omitempty"`
}

func (b SessionResumed) fault(s *State, e *signalbox.Event) string {
	return s.taskFault(e, func(w *Work) string {
		if w.Task.Parked == nil {
			return "the session is not parked"
		}
		return liveFault(e, w, b.Epoch)
	})
}

func (b SessionResumed) apply(s *State, e *signalbox.Event) {
	s.changeTask(e.Work, func(_ *Work, t *Task) {
		if t.Parked.File && !t.Parked.Ready {
			t.Context = "You waited for " + t.Parked.For + " in vain: another task still has it. " +
				"Leave it alone and do what can be done without it, or ask for it again."
		}
		t.Parked, t.Agent = nil, cmp.Or(b.Agent, t.Agent)
	})
}

func (SessionResumed) describe(d *Describer, e *signalbox.Event) (text, detail string) {
	return d.role(e) + " resumed", ""
}
