package rules

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"signalbox"
)

// RoleAgents is which agents work in a role. The first is preferred, and the others take over while
// it is not available.
type RoleAgents struct {
	Role signalbox.Role `json:"role"`
	// Expert is the expert that the agents are for, if they are not for all of them.
	Expert string   `json:"expert,omitempty"`
	Agents []string `json:"agents"`
	// Named means that the user has named them for the role, so that they need not be independent.
	Named bool `json:"named,omitempty"`
}

// AgentSettings is the digest of the settings of an agent. If it changes, the agent is tried again.
// Vendor and Model are what it works with as far as the configuration says.
type AgentSettings struct {
	Agent    string         `json:"agent"`
	Settings signalbox.Hash `json:"settings" blob:"-"`
	Vendor   string         `json:"vendor,omitempty"`
	Model    string         `json:"model,omitempty"`
}

// agents returns the agents for a role, the preferred one first. Policies that were recorded before
// agents were have none.
func (p *Policy) agents(role signalbox.Role, expert string) (list []string) {
	for _, r := range p.Agents {
		switch {
		case r.Role != role:
		case r.Expert == expert:
			return r.Agents
		case r.Expert == "":
			list = r.Agents
		}
	}
	return list
}

func (p *Policy) settings(agent string) signalbox.Hash {
	for _, a := range p.AgentSettings {
		if a.Agent == agent {
			return a.Settings
		}
	}
	return signalbox.Hash{}
}

func agentsFault(p *Policy) string {
	for _, r := range p.Agents {
		if r.Role == "" || len(r.Agents) == 0 || slices.Contains(r.Agents, "") {
			return "a list of agents must have a role, and agents with names"
		}
	}
	for _, a := range p.AgentSettings {
		if a.Agent == "" {
			return "the agent of settings must have a name"
		}
	}
	if p.Independence != IndependenceNone && p.Independence != IndependenceVendor &&
		p.Independence != IndependenceModel {
		return fmt.Sprintf("there is no independence %q", p.Independence)
	}
	return ""
}

// AgentState is what keeps an agent from working, if anything does.
type AgentState struct {
	Agent string `json:"agent"`
	// Limited is when a rate limit ends; zero if there is none.
	Limited time.Time `json:"limited,omitzero"`
	// Down is why it cannot work at all, "" if it can. Detail and Advice are those of the event.
	Down   FailCause `json:"down,omitempty"`
	Detail string    `json:"detail,omitempty"`
	Advice string    `json:"advice,omitempty"`
	// Until is when it is tried again by itself; zero if it stays down until a human has done
	// something. Outages is how many such pauses it had in a row.
	Until   time.Time `json:"until,omitzero"`
	Outages int       `json:"outages,omitempty"`
	// Trying means that one session at a time is started, until one of them has heard from the
	// agent. Restored is the sequence of the event since when.
	Trying   bool   `json:"trying,omitempty"`
	Restored uint64 `json:"restored,omitempty"`
	// Roles are the roles in which it crashed last.
	Roles []AgentCrashes `json:"roles,omitempty"`
}

// AgentCrashes is how often an agent crashed in a role in a row, and until when others take over.
type AgentCrashes struct {
	Role    signalbox.Role `json:"role"`
	Crashes int            `json:"crashes,omitempty"`
	Until   time.Time      `json:"until,omitzero"`
}

const (
	// crashesInARow is after how many crashes of an agent in a role the next agent takes over.
	crashesInARow = 2
	// crashPause is for how long it takes over, also after a stall.
	crashPause = 30 * time.Minute
	// firstOutage is how long an agent waits before it is tried again after its server did not
	// answer. Each further pause is twice as long, up to longestOutage. Then only a human can help.
	firstOutage   = 5 * time.Minute
	longestOutage = 60 * time.Minute
)

// outagePause returns the pause after a number of pauses; ok is false if one of them was the
// longest already.
func outagePause(before int) (pause time.Duration, ok bool) {
	pause = firstOutage
	for range before {
		if pause >= longestOutage {
			return 0, false
		}
		pause = min(2*pause, longestOutage)
	}
	return pause, true
}

// ofAgent reports whether the cause is that an agent cannot work at all, whatever the task.
func (c FailCause) ofAgent() bool {
	return c == FailLogin || c == FailCredit || c == FailServer || c == FailProgram
}

// inWords describes the cause for people.
func (c FailCause) inWords() string {
	switch c {
	case FailLogin:
		return "its login or key was refused"
	case FailCredit:
		return "its account has no credit left"
	case FailServer:
		return "its server does not answer"
	case FailProgram:
		return "its program cannot be started"
	}
	return string(c)
}

// Agent returns what keeps an agent from working.
func (s *delivery) Agent(name string) AgentState {
	for _, a := range s.run.Agents {
		if a.Agent == name {
			return a
		}
	}
	return AgentState{Agent: name}
}

// Agents returns the agents that something keeps from working, or that crashed last.
func (s *delivery) Agents() []AgentState { return s.run.Agents }

// changeAgent replaces the state of an agent. An agent that nothing keeps from working has none.
func (s *delivery) changeAgent(name string, change func(*AgentState)) {
	if name == "" {
		return
	}
	changed := s.Agent(name)
	change(&changed)
	changed.Roles = slices.DeleteFunc(slices.Clone(changed.Roles),
		func(r AgentCrashes) bool { return r.Crashes == 0 && r.Until.IsZero() })
	if len(changed.Roles) == 0 {
		changed.Roles = nil
	}
	agents := slices.Clone(s.run.Agents)
	i := slices.IndexFunc(agents, func(a AgentState) bool { return a.Agent == name })
	healthy := changed.Limited.IsZero() && changed.Down == "" && !changed.Trying &&
		changed.Roles == nil && changed.Restored == 0 && changed.Outages == 0
	switch {
	case healthy && i >= 0:
		agents = slices.Delete(agents, i, i+1)
	case healthy:
	case i >= 0:
		agents[i] = changed
	default:
		agents = append(agents, changed)
	}
	if len(agents) == 0 {
		agents = nil
	}
	s.run.Agents = agents
}

// changeRole replaces what is known about an agent's crashes in a role.
func (a *AgentState) changeRole(role signalbox.Role, change func(*AgentCrashes)) {
	roles := slices.Clone(a.Roles)
	i := slices.IndexFunc(roles, func(r AgentCrashes) bool { return r.Role == role })
	if i < 0 {
		roles, i = append(roles, AgentCrashes{Role: role}), len(roles)
	}
	change(&roles[i])
	a.Roles = roles
}

func (a AgentState) crashes(role signalbox.Role) AgentCrashes {
	for _, r := range a.Roles {
		if r.Role == role {
			return r
		}
	}
	return AgentCrashes{Role: role}
}

// agentFor returns the agent that a new session of a role would start for w; ok is false if none is
// available. The name is "" if the policy names no agents.
func (s *State) agentFor(role signalbox.Role, w *Work, now time.Time) (agent string, ok bool) {
	return s.agentExcept("", role, w, now)
}

// agentExcept is like agentFor, but never returns one of the agents.
func (s *State) agentExcept(except string, role signalbox.Role, w *Work,
	now time.Time) (agent string, ok bool) {
	if now.Before(s.Limited(role)) {
		return "", false
	}
	if !isAgent(role) || len(s.run.Policy.agents(role, w.Task.Expert)) == 0 {
		return "", true
	}
	spare := "" // it crashed, but is better than none
	for _, name := range s.candidates(role, w) {
		switch {
		case name == except || !s.isAvailable(name, now):
		case now.Before(s.Agent(name).crashes(role).Until):
			if spare == "" {
				spare = name
			}
		default:
			return name, true
		}
	}
	return spare, spare != ""
}

// isAvailable reports whether a session may start an agent.
func (s *State) isAvailable(name string, now time.Time) bool {
	a := s.Agent(name)
	switch {
	case now.Before(a.Limited) || a.Down != "" && (a.Until.IsZero() || now.Before(a.Until)):
		return false
	case a.Trying || a.Down != "":
		return !s.isAtWork(name)
	}
	return true
}

// waits reports whether an agent is available again by itself at a later time.
func (a AgentState) waits(now time.Time) bool {
	return now.Before(a.Limited) && (a.Down == "" || !a.Until.IsZero()) || a.Down != "" &&
		now.Before(a.Until)
}

// isAtWork reports whether a session runs an agent. A parked one does not.
func (s *register) isAtWork(name string) bool {
	for _, i := range s.leased {
		if t := s.works[i].Task; t != nil && t.Agent == name && t.Parked == nil {
			return true
		}
	}
	return false
}

// waitsForLimit reports whether w would start if no rate limit and no pause kept an agent of the
// role from working.
func (s *State) waitsForLimit(role signalbox.Role, w *Work, now time.Time) bool {
	if _, ok := s.agentFor(role, w, now); ok {
		return false
	}
	return now.Before(s.Limited(role)) || slices.ContainsFunc(s.candidates(role, w),
		func(name string) bool {
			return s.Agent(name).waits(now)
		})
}

// limitAgent records a rate limit of an agent, or of a role if the policy names no agents.
func (h report) limitAgent(until time.Time) {
	agent, known := h.w.Task.Agent, h.s.Agent(h.w.Task.Agent).Limited
	switch {
	case until.IsZero() || until.Sub(h.at) > maxLimit:
		until = h.at.Add(defaultLimit)
		if agent != "" && known.After(h.at) { // another session knows better
			until = known
		}
	case until.Sub(h.at) < minLimit:
		until = h.at.Add(minLimit)
	}
	until = until.UTC().Round(0)
	if agent == "" {
		h.answer.Seq = h.record("", h.session, h.actor, RoleLimited{h.role, until})
		return
	}
	// another session has met the same limit
	if known.After(h.at) && until.Sub(known).Abs() < time.Minute {
		return
	}
	next, _ := h.s.agentExcept(agent, h.role, h.w, h.at)
	h.answer.Seq = h.record("", h.session, h.actor,
		AgentUnavailable{Agent: agent, Cause: FailRateLimit, Until: until, Next: next})
}

// breakAgent records that an agent cannot work, and asks the human once no other agent can take
// over in some role. It is not a failure of the task. If only its server does not answer, the agent
// is tried again after a pause; the question is how the human hurries that.
func (h report) breakAgent(c ReportFailure) {
	agent := h.w.Task.Agent
	known := h.s.Agent(agent)
	// it is recorded already, or was repaired after this session started
	if known.Down != "" || h.epoch < known.Restored {
		return
	}
	next, _ := h.s.agentExcept(agent, h.role, h.w, h.at)
	event := AgentUnavailable{Agent: agent, Cause: c.Cause, Detail: sanitize(c.Detail, 1000),
		Advice: sanitize(c.Advice, 500), Next: next}
	if pause, ok := outagePause(known.Outages); ok && c.Cause == FailServer {
		event.Until = h.at.Add(pause).UTC().Round(0)
	}
	h.answer.Seq = h.record("", h.session, h.actor, event)
	down := AgentState{Agent: agent, Down: event.Cause, Detail: event.Detail, Advice: event.Advice,
		Until: event.Until}
	f := h.s.fleet()
	f.changed = map[string]AgentState{agent: down}
	h.askAgents(f, h.session, h.actor)
}

// fleet is the agents as they will be after the decision.
type fleet struct {
	s       *State
	policy  *Policy
	experts int
	changed map[string]AgentState
}

func (s *State) fleet() fleet {
	return fleet{s: s, policy: s.run.Policy, experts: len(s.Experts())}
}

func (f fleet) agent(name string) AgentState {
	if a, changed := f.changed[name]; changed {
		return a
	}
	return f.s.Agent(name)
}

func (f fleet) isUp(name string) bool { return f.agent(name).Down == "" }

// lacksIndependent reports whether the agents of a role could judge what some developer writes,
// but not with the agents that are left.
func (f fleet) lacksIndependent(r RoleAgents) bool {
	if !judges(r.Role) || f.policy.isExempt(r.Role) {
		return false
	}
	anyPair := func(usable func(string) bool) bool {
		for _, author := range f.policy.agents(signalbox.RoleDeveloper, "") {
			for _, judge := range r.Agents {
				if usable(author) && usable(judge) && f.policy.Independence.Between(
					f.policy.agentModel(author), f.policy.agentModel(judge)) {
					return true
				}
			}
		}
		return false
	}
	return anyPair(func(string) bool { return true }) && !anyPair(f.isUp)
}

// down returns the agents of the roles that have no agent left, in the order of the policy.
func (f fleet) down() (down []AgentState) {
	listed := map[string]bool{}
	for _, r := range f.policy.Agents {
		if r.Role == signalbox.RoleExpert && r.Expert == "" && f.experts == 0 ||
			slices.ContainsFunc(r.Agents, f.isUp) && !f.lacksIndependent(r) {
			continue
		}
		for _, name := range r.Agents {
			if !listed[name] && !f.isUp(name) {
				listed[name], down = true, append(down, f.agent(name))
			}
		}
	}
	return down
}

// askAgents asks the human about the agents of the roles that have no agent left, without those
// that a question is already about.
func (d *decider) askAgents(f fleet, session, actor string) {
	asked := map[string]bool{}
	for _, q := range d.s.run.Questions {
		for _, name := range q.Agents {
			asked[name] = asked[name] || q.Open()
		}
	}
	down := slices.DeleteFunc(f.down(), func(a AgentState) bool { return asked[a.Agent] })
	if len(down) > 0 {
		d.askQuestion("", session, actor,
			QuestionAsked{Kind: AskedAgent, Text: sanitize(describeDown(down), maxText),
				Agents: names(down)})
	}
}

// withdrawAgents withdraws the questions about agents that no role lacks any more.
func (d *decider) withdrawAgents(f fleet, actor, reason string) {
	down := names(f.down())
	for _, q := range d.s.run.Questions {
		if q.Open() && q.Kind == AskedAgent &&
			!slices.ContainsFunc(q.Agents,
				func(name string) bool { return slices.Contains(down, name) }) {
			d.record("", "", actor, QuestionAnswered{Question: q.ID, Answer: reason,
				Withdrawn: true})
		}
	}
}

// tryAgent records that a session is about to try an agent whose pause has ended.
func (d *decider) tryAgent(name, actor string) {
	if d.s.Agent(name).Down != "" { // it would not be available before that
		d.record("", "", actor, AgentRestored{Agent: name, Reason: "its pause is over",
			Waited: true})
	}
}

// heardFromAgent withdraws the question about an agent that was tried again by itself, and works.
func (h report) heardFromAgent() {
	if h.w.Task == nil || h.w.Task.Agent == "" {
		return
	}
	if a := h.s.Agent(h.w.Task.Agent); a.Trying && a.Outages > 0 {
		h.withdrawAgents(h.s.fleet(), h.actor, a.Agent+" works again")
	}
}

func names(agents []AgentState) (list []string) {
	for _, a := range agents {
		list = append(list, a.Agent)
	}
	return list
}

// describeDown returns the question about agents that cannot work.
func describeDown(agents []AgentState) string {
	var b strings.Builder
	waits := true
	for _, a := range agents {
		b.WriteString("the agent " + a.Agent + " cannot work: " + a.Down.inWords())
		if a.Detail != "" {
			b.WriteString(" (it said: " + strings.TrimRight(sanitize(a.Detail, 500), ". ") + ")")
		}
		b.WriteString(". ")
		if a.Advice != "" {
			b.WriteString(strings.TrimRight(a.Advice, ". ") + ". ")
		}
		if !a.Until.IsZero() {
			b.WriteString("It is tried again by itself, the first time after 5 minutes, and for about two hours. ")
		}
		waits = waits && !a.Until.IsZero()
	}
	if waits {
		b.WriteString("Answer retry to try it now: one session is tried first. ")
	} else {
		b.WriteString("Then answer retry: one session is tried first. ")
	}
	b.WriteString("Its work waits until then, and other work continues.")
	return b.String()
}

// handOver lets the next agent of a role take over from one that has stalled, or has crashed too
// often in a row. One stall is enough: it takes long, and most often the program silently repeats a
// request that its service refuses.
func (h report) handOver(cause FailCause) {
	agent := h.w.Task.Agent
	crashes := h.s.Agent(agent).crashes(h.role)
	due := cause == FailStall || cause == FailCrash && crashes.Crashes+1 >= crashesInARow
	if agent == "" || !due || h.at.Before(crashes.Until) {
		return
	}
	if next, ok := h.s.agentExcept(agent, h.role, h.w, h.at); ok {
		h.record("", h.session, h.actor, AgentUnavailable{Agent: agent, Cause: cause,
			Until: h.at.Add(crashPause).UTC().Round(0), Role: h.role, Next: next})
	}
}

// restoreAgents lets agents work again that are down.
func (d *decider) restoreAgents(agents []string, actor, reason string) {
	for _, name := range agents {
		if d.s.Agent(name).Down != "" {
			d.record("", "", actor, AgentRestored{Agent: name, Reason: reason})
		}
	}
}

// retryAgents lets all agents work again, and withdraws the questions about them.
func (d *decider) retryAgents(actor, reason string) {
	for _, q := range d.s.run.Questions {
		if q.Open() && q.Kind == AskedAgent {
			d.record("", "", actor, QuestionAnswered{Question: q.ID, Answer: reason,
				Withdrawn: true})
		}
	}
	d.restoreAgents(names(d.s.run.Agents), actor, reason)
}

// reconfigureAgents lets the agents work again whose settings a new policy changes. It withdraws
// the questions about agents that no role lacks any more, and asks about roles that have lost the
// agents that could take over.
func (d *decider) reconfigureAgents(before, after *Policy, actor string) {
	const reason = "its settings were changed"
	f := fleet{s: d.s, policy: after, experts: len(after.Experts) + len(d.s.run.Experts),
		changed: map[string]AgentState{}}
	var restored []string
	for _, a := range d.s.run.Agents {
		if before.settings(a.Agent) != after.settings(a.Agent) {
			f.changed[a.Agent] = AgentState{Agent: a.Agent}
			restored = append(restored, a.Agent)
		}
	}
	d.withdrawAgents(f, actor, reason)
	for _, name := range restored {
		d.record("", "", actor, AgentRestored{Agent: name, Reason: reason})
	}
	d.askAgents(f, "", actor)
}

// noteAgentWorks records that an agent's program works: it has said something.
func (s *delivery) noteAgentWorks(w *Work) {
	if w.Task == nil || w.Task.Agent == "" || w.Lease == nil {
		return
	}
	a := s.Agent(w.Task.Agent)
	if !a.Trying && a.Outages == 0 && a.crashes(w.Lease.Role).Crashes == 0 {
		return
	}
	s.changeAgent(a.Agent, func(a *AgentState) {
		if a.Trying = false; a.Down == "" {
			a.Outages = 0
		}
		a.changeRole(w.Lease.Role, func(r *AgentCrashes) { r.Crashes = 0 })
	})
}
