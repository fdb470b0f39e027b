package crew

import (
	"time"

	"signalbox"
)

func (c *Crew) timeout(role signalbox.Role, expert string) time.Duration {
	if e, known := c.box.Config.ExpertNamed(expert); known && role == signalbox.RoleExpert &&
		e.Timeout > 0 {
		return e.Timeout
	}
	return c.box.Config.RoleOf(role).Timeout
}

// agentName returns the agent that the session runs. A policy of an older version does not name it,
// and that of another process may name one that this process does not have.
func (s *session) agentName() string {
	if c := s.crew.box.Config; s.agent == "" || !c.HasAgent(s.agent) {
		return c.AgentsFor(s.role, s.workItem().Task.Expert)[0]
	}
	return s.agent
}
