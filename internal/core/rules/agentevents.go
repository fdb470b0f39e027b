package rules

import (
	"fmt"
	"slices"
	"time"

	"signalbox"
)

// The types of events about agents and roles that cannot work.
const (
	TypeRoleLimited      = "RoleLimited"
	TypeAgentUnavailable = "AgentUnavailable"
	TypeAgentRestored    = "AgentRestored"
)

// RoleLimited delays the start of agents of a role until a time. It is recorded only if the policy
// names no agents.
type RoleLimited struct {
	Role  signalbox.Role `json:"role"`
	Until time.Time      `json:"until"`
}

func (b RoleLimited) fault(*State, *signalbox.Event) string {
	if roleNumber(b.Role) < 0 {
		return fmt.Sprintf("there is no role %q", b.Role)
	}
	return ""
}

func (b RoleLimited) apply(s *State, _ *signalbox.Event) {
	same := func(l RoleLimit) bool { return l.Role == b.Role }
	limited := slices.DeleteFunc(slices.Clone(s.run.Limited), same)
	s.run.Limited = append(limited, RoleLimit{b.Role, b.Until.UTC()})
}

func (b RoleLimited) describe(d *Describer, _ *signalbox.Event) (text, detail string) {
	return WaitsLine(string(b.Role), b.Until.In(d.Zone)), ""
}

// WaitsLine says that an agent, or a role, waits for the end of a rate limit.
func WaitsLine(who string, until time.Time) string {
	return fmt.Sprintf("rate limit: %s waits until %s", who, until.Format(time.TimeOnly))
}

// AgentUnavailable records that an agent cannot work, and why. It is tried again at a time, or
// without one only after a human has done something.
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
	// Next is the agent that takes over in the role in which this was noticed, absent if there is
	// none.
	Next string `json:"next,omitempty"`
}

func (b AgentUnavailable) fault(*State, *signalbox.Event) string {
	if b.Agent == "" || b.Role != "" && b.Until.IsZero() {
		return "an agent without a name, or an outage in one role without an end"
	}
	return ""
}

func (b AgentUnavailable) apply(s *State, _ *signalbox.Event) {
	s.changeAgent(b.Agent, func(a *AgentState) {
		switch {
		case b.Role != "":
			a.changeRole(b.Role, func(r *AgentCrashes) { r.Crashes, r.Until = 0, b.Until.UTC() })
		case b.Cause.ofAgent():
			a.Down, a.Detail, a.Advice, a.Trying = b.Cause, b.Detail, b.Advice, false
			if a.Until = (time.Time{}); !b.Until.IsZero() {
				a.Until, a.Outages = b.Until.UTC(), a.Outages+1
			}
		case !b.Until.IsZero():
			a.Limited = b.Until.UTC()
		default:
			a.Down, a.Detail, a.Advice, a.Trying = b.Cause, b.Detail, b.Advice, false
		}
	})
}

// describe also names the agent that takes over.
func (b AgentUnavailable) describe(d *Describer, _ *signalbox.Event) (text, detail string) {
	why, until, role := b.Cause.InWords(), "", ""
	if !b.Until.IsZero() {
		until = " until " + b.Until.In(d.Zone).Format("15:04")
	}
	if b.Role != "" {
		role = " as " + string(b.Role)
	}
	switch {
	case b.Next != "":
		return fmt.Sprintf("%s takes over from %s%s%s (%s)", b.Next, b.Agent, role, until, why),
			b.Detail
	case !b.Until.IsZero():
		until = " until " + b.Until.In(d.Zone).Format(time.TimeOnly)
	}
	return fmt.Sprintf("%s is not available%s (%s)", b.Agent, until, why), b.Detail
}

// AgentRestored records that an agent may work again, because a human has done something or its
// pause is over. If it could not work at all, one session is tried first.
type AgentRestored struct {
	Agent  string `json:"agent"`
	Reason string `json:"reason,omitempty"`
	// Waited means that no answer caused it: the pause after a failure of its server is over.
	Waited bool `json:"waited,omitempty"`
}

func (b AgentRestored) fault(*State, *signalbox.Event) string {
	if b.Agent == "" {
		return "the agent has no name"
	}
	return ""
}

func (b AgentRestored) apply(s *State, e *signalbox.Event) {
	s.changeAgent(b.Agent, func(a *AgentState) {
		trying := a.Trying || a.Down != ""
		restored := AgentState{Agent: a.Agent, Trying: trying, Restored: a.Restored}
		if b.Waited {
			restored.Outages, restored.Roles = a.Outages, a.Roles
		}
		if *a = restored; a.Trying {
			a.Restored = e.Seq
		}
	})
}

func (b AgentRestored) describe(*Describer, *signalbox.Event) (text, detail string) {
	return b.Agent + " is tried again", b.Reason
}
