package rules

import (
	"time"

	"signalbox"
)

// The types of events about agents and roles that cannot work.
const (
	TypeRoleLimited      = "RoleLimited"
	TypeAgentUnavailable = "AgentUnavailable"
	TypeAgentRestored    = "AgentRestored"
)

// RoleLimited delays the start of agents of a role until a time. It is recorded only if the policy names no agents.
type RoleLimited struct {
	Role  signalbox.Role `json:"role"`
	Until time.Time      `json:"until"`
}

func (RoleLimited) eventType() string { return TypeRoleLimited }

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

func (AgentUnavailable) eventType() string { return TypeAgentUnavailable }

// AgentRestored records that an agent may work again, because a human has done something or its pause is over. If it could not work at all, one
// session is tried first.
type AgentRestored struct {
	Agent  string `json:"agent"`
	Reason string `json:"reason,omitempty"`
	// Waited means that no answer caused it: the pause after a failure of its server is over.
	Waited bool `json:"waited,omitempty"`
}

func (AgentRestored) eventType() string { return TypeAgentRestored }
