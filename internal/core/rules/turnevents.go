package rules

import (
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

func (AgentStarted) eventType() string { return TypeAgentStarted }

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

func (AgentTurnEnded) eventType() string { return TypeAgentTurnEnded }

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

func (AgentSpent) eventType() string { return TypeAgentSpent }

// ProgressReported records a checkpoint.
type ProgressReported struct {
	Epoch    uint64 `json:"epoch"`
	Activity string `json:"activity,omitempty"`
	Percent  int    `json:"percent,omitempty"`
}

func (ProgressReported) eventType() string { return TypeProgressReported }

// ConversationOpened records the id that an agent program gave its own session, so that the session can be resumed after an interruption.
type ConversationOpened struct {
	Epoch uint64 `json:"epoch"`
	ID    string `json:"id"`
}

func (ConversationOpened) eventType() string { return TypeConversationOpened }

// IncompleteLogged records that a developer could not finish, and why, if known.
type IncompleteLogged struct {
	Cause   Cause          `json:"cause"`
	Count   int            `json:"count"`
	Summary string         `json:"summary,omitempty"`
	Body    signalbox.Hash `json:"body,omitzero"`
}

func (IncompleteLogged) eventType() string { return TypeIncompleteLogged }

// AgentFailed records that an agent ended without a signal that counts: a timeout, a crash, a stall, or a failed start.
type AgentFailed struct {
	Epoch  uint64         `json:"epoch"`
	Cause  string         `json:"cause"`
	Role   signalbox.Role `json:"role"`
	Count  int            `json:"count"`
	Detail string         `json:"detail,omitempty"`
}

func (AgentFailed) eventType() string { return TypeAgentFailed }

// SessionParked frees the slot of a session that waits for an expert or a file.
type SessionParked struct {
	Epoch uint64    `json:"epoch"`
	For   string    `json:"for"`
	File  bool      `json:"file,omitempty"`
	Until time.Time `json:"until,omitzero"`
}

func (SessionParked) eventType() string { return TypeSessionParked }

// SessionResumed gives a parked session a slot again.
type SessionResumed struct {
	Epoch uint64 `json:"epoch"`
	// Agent is the agent that takes over from that of the session.
	Agent string `json:"agent,omitempty"`
}

func (SessionResumed) eventType() string { return TypeSessionResumed }
