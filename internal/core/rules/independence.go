package rules

import (
	"cmp"
	"fmt"
	"slices"

	"signalbox"
)

// Independence is how much an agent that judges work must differ from the agents that wrote it. A
// role whose agents the user names is exempt.
type Independence string

const (
	IndependenceNone   Independence = ""
	IndependenceVendor Independence = "vendor" // another vendor
	IndependenceModel  Independence = "model"  // another model
)

// AgentModel is an agent with what it works with. An empty Vendor or Model is not known.
type AgentModel struct {
	Agent  string `json:"agent,omitempty"`
	Vendor string `json:"vendor,omitempty"`
	Model  string `json:"model,omitempty"`
}

// Known reports whether the vendor or the model is known.
func (m AgentModel) Known() bool { return m.Vendor != "" || m.Model != "" }

// String returns the agent with its vendor and its model, for people.
func (m AgentModel) String() string {
	vendor := cmp.Or(m.Vendor, "unknown vendor")
	if m.Model != "" {
		vendor += ", " + m.Model
	}
	return m.Agent + " (" + vendor + ")"
}

// DoneBy is an agent that did a part of a task.
type DoneBy struct {
	Role signalbox.Role `json:"role"`
	AgentModel
}

// Between reports whether two agents are independent of each other. What is not known is never
// independent.
func (i Independence) Between(a, b AgentModel) bool {
	if same, known := signalbox.SameModel(a.Model, b.Model); i == IndependenceModel && known {
		return !same
	}
	return a.Vendor != "" && b.Vendor != "" && a.Vendor != b.Vendor
}

// judges reports whether a role judges the work of others on a task.
func judges(role signalbox.Role) bool {
	return role == signalbox.RoleCritic || role == signalbox.RoleAuditor
}

func (p *Policy) independence() Independence {
	if p == nil {
		return IndependenceNone
	}
	return p.Independence
}

// isExempt reports whether agents work in a role whoever wrote what they judge: the policy asks for
// no independence, or the user has named them for the role.
func (p *Policy) isExempt(role signalbox.Role) bool {
	return p.Independence == IndependenceNone || slices.ContainsFunc(p.Agents,
		func(r RoleAgents) bool { return r.Role == role && r.Named })
}

// agentModel returns what an agent works with: what it last reported, or what the policy says.
func (s *delivery) agentModel(name string) AgentModel {
	for _, m := range s.run.Models {
		if m.Agent == name {
			return m
		}
	}
	return s.run.Policy.agentModel(name)
}

func (p *Policy) agentModel(name string) AgentModel {
	if p == nil {
		return AgentModel{Agent: name}
	}
	for _, a := range p.AgentSettings {
		if a.Agent == name {
			return AgentModel{name, a.Vendor, a.Model}
		}
	}
	return AgentModel{Agent: name}
}

// authors returns the agents that wrote the work. One whose turn has not ended is among them.
func (t *Task) authors() (list []AgentModel) {
	for _, by := range t.DoneBy {
		if by.Role.IsAuthor() {
			list = append(list, by.AgentModel)
		}
	}
	if t.Writing != nil {
		list = append(list, *t.Writing)
	}
	return list
}

// candidates returns the agents of a role that may work on a task, the preferred one first.
func (s *State) candidates(role signalbox.Role, w *Work) []string {
	p := s.run.Policy
	list := p.agents(role, w.Task.Expert)
	if p.Independence == IndependenceNone || w.Task.Kind != KindTask {
		return list
	}
	authors := w.Task.authors()
	if judges(role) {
		return s.judgesOf(list, role, authors, w.Task)
	}
	// A developer must not take over if then no agent could judge the work.
	keep := slices.DeleteFunc(slices.Clone(list), func(name string) bool {
		all := append(slices.Clip(authors), s.agentModel(name))
		return role == signalbox.RoleDeveloper && (s.lacksJudge(signalbox.RoleCritic, all) ||
			s.lacksJudge(signalbox.RoleAuditor, all))
	})
	if len(keep) == 0 {
		return list
	}
	return keep
}

// sameAgents reports whether a role has the same agents for all work.
func (s *delivery) sameAgents(role signalbox.Role) bool {
	return role != signalbox.RoleExpert && s.run.Policy.Independence == IndependenceNone
}

// judgesOf returns the agents of a list that are independent of all authors. An auditor is
// independent of the critic, too, if the list has such an agent that does not need help: a spare
// agent whose login was refused does not stop all work.
func (s *State) judgesOf(list []string, role signalbox.Role, authors []AgentModel,
	t *Task) []string {
	p := s.run.Policy
	if p.isExempt(role) {
		return list
	}
	except := func(list []string, others []AgentModel) []string {
		return slices.DeleteFunc(slices.Clone(list), func(name string) bool {
			return !p.Independence.ofAll(s.agentModel(name), others)
		})
	}
	may := except(list, authors)
	if role != signalbox.RoleAuditor {
		return may
	}
	var critics []AgentModel
	for _, by := range t.DoneBy {
		if by.Role == signalbox.RoleCritic {
			critics = []AgentModel{by.AgentModel} // the last one counts
		}
	}
	best := except(may, critics)
	if slices.ContainsFunc(best, func(name string) bool { return !s.needsHelp(name) }) {
		return best
	}
	return may
}

// needsHelp reports whether an agent cannot work until a human has done something.
func (s *State) needsHelp(name string) bool {
	a := s.Agent(name)
	return a.Down != "" && a.Until.IsZero()
}

// ofAll reports whether an agent is independent of all others.
func (i Independence) ofAll(m AgentModel, others []AgentModel) bool {
	return !slices.ContainsFunc(others, func(o AgentModel) bool { return !i.Between(m, o) })
}

// lacksJudge reports whether no agent of a role may judge what the authors wrote.
func (s *State) lacksJudge(role signalbox.Role, authors []AgentModel) bool {
	list := s.run.Policy.agents(role, "")
	return len(list) > 0 && len(s.judgesOf(list, role, authors, &Task{})) == 0
}

// LackOfJudge returns what a task waits for if no agent may judge it, otherwise "".
func (s *State) LackOfJudge(w *Work) string {
	role := w.claimableBy()
	if s.run.Policy == nil || w.Task.Kind != KindTask || !judges(role) {
		return ""
	}
	if !s.lacksJudge(role, w.Task.authors()) {
		return s.judgesNeedHelp(role, w)
	}
	var wrote []string
	for _, a := range w.Task.authors() {
		wrote = append(wrote, a.String())
	}
	of := "vendor"
	if s.run.Policy.Independence == IndependenceModel {
		of = "model"
	}
	return fmt.Sprintf("%s of another %s than %s, and no agent of the role has one: add an agent, "+
		"name one under roles.%s.agent, or set independence: none",
		roleInWords(role), of, joinSome(wrote), role)
}

// judgesNeedHelp returns what a task waits for if all agents that may judge it need help, otherwise
// "".
func (s *State) judgesNeedHelp(role signalbox.Role, w *Work) string {
	may := s.candidates(role, w)
	if s.run.Policy.Independence == IndependenceNone || len(may) == 0 ||
		slices.ContainsFunc(may, func(name string) bool { return !s.needsHelp(name) }) {
		return ""
	}
	return fmt.Sprintf("%s that may judge it: %s cannot work (%s). When it can again, run signalbox "+
		"retry, or name another agent under roles.%s.agent",
		roleInWords(role), joinSome(may), s.Agent(may[0]).Down, role)
}

// isDependent reports whether the program that passes the work has reported that it is not
// independent of an author. Its verdict must not count then. The next dispatch knows.
func (h report) isDependent() bool {
	t := h.w.Task
	return h.Turn != nil && t.Kind == KindTask && t.Agent != "" &&
		!h.s.run.Policy.isExempt(h.role) &&
		!h.s.run.Policy.Independence.ofAll(h.turnModel(), t.authors())
}

// releasedDependent is why a lease was released whose agent was not independent.
const releasedDependent = "the model that it used is not independent of the author"

// turnModel returns what the agent of the turn worked with.
func (h report) turnModel() AgentModel {
	return AgentModel{h.w.Task.Agent, sanitize(h.Turn.Vendor, maxVendor),
		sanitize(h.Turn.Model, maxModel)}
}

const (
	maxVendor = 100
	maxModel  = 200
)

// noteModel records in the state who did a turn, and what the agent works with.
func (s *State) noteModel(work string, b AgentTurnEnded) {
	w, _ := s.Work(work)
	if w.Task.Agent == "" {
		return
	}
	known, role := AgentModel{w.Task.Agent, b.Vendor, b.Model}, w.Lease.Role
	// older versions recorded neither a vendor nor who wrote
	recorded := b.Vendor != "" || b.Wrote || s.run.Policy.independence() != IndependenceNone
	s.changeTask(work, func(_ *Work, t *Task) {
		if t.Writing = nil; b.Wrote || judges(role) && recorded {
			by := DoneBy{role, known}
			t.DoneBy = append(slices.DeleteFunc(slices.Clone(t.DoneBy),
				func(d DoneBy) bool { return d == by }), by)
		}
	})
	if !recorded {
		return
	}
	s.run.Models = slices.DeleteFunc(slices.Clone(s.run.Models),
		func(m AgentModel) bool { return m.Agent == known.Agent })
	if known != s.run.Policy.agentModel(known.Agent) {
		s.run.Models = append(s.run.Models, known)
	}
	if len(s.run.Models) == 0 {
		s.run.Models = nil
	}
}

// noteAuthor records in the state that an author is at work. If its turn never ends, because
// signalbox was killed, it counts as one of the authors.
func (s *State) noteAuthor(work string) {
	w, _ := s.Work(work)
	if w.Task.Agent == "" || !w.Lease.Role.IsAuthor() {
		return
	}
	s.changeTask(work, func(w *Work, t *Task) {
		if t.Writing != nil {
			by := DoneBy{w.Lease.Role, *t.Writing}
			if !slices.Contains(t.DoneBy, by) {
				t.DoneBy = append(slices.Clip(t.DoneBy), by)
			}
			t.Writing = nil
		}
		if m := s.agentModel(t.Agent); m.Known() {
			t.Writing = &m
		}
	})
}

// forgetModels forgets what the agents worked with whose settings a new policy changes.
func (s *State) forgetModels(after *Policy) {
	if len(s.run.Models) == 0 || s.run.Policy == nil {
		return
	}
	kept := slices.DeleteFunc(slices.Clone(s.run.Models), func(m AgentModel) bool {
		return s.run.Policy.settings(m.Agent) != after.settings(m.Agent)
	})
	if len(kept) == 0 {
		kept = nil
	}
	s.run.Models = kept
}
