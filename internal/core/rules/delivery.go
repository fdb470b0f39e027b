package rules

import (
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"signalbox"
)

// delivery is how plans are carried out: what is known about the run, and indexes of the tasks in
// the register, which State keeps up to date.
type delivery struct {
	run runState

	ready [len(dispatchOrder)]bitset // for each role, the tasks that can start
	// dependents maps an id to the work items that have, or had, it as a blocker.
	dependents map[string][]int
	// downstream is how many tasks wait for each work; nil if it must be counted again.
	downstream []int
	// locks maps a file of a shared workspace to the task that has locked it.
	locks map[string]string
	open  map[Kind]int // how many planned work items are not done
}

// runState is the state of the run as a whole: its plans, questions and budgets. Its slices and
// pointers are replaced, never written into, so that Rollback only puts the old value back.
type runState struct {
	Policy   *Policy        `json:"policy,omitempty"`
	Plan     signalbox.Hash `json:"plan,omitzero"`
	PlanName string         `json:"plan_name,omitempty"`
	// PlanID is the id of the plan that was loaded last, and Plans lists all of them in the order
	// of their first load.
	PlanID    string       `json:"plan_id,omitempty"`
	Plans     []PlanRecord `json:"plans,omitempty"`
	Loading   bool         `json:"loading,omitempty"`
	Questions []*Question  `json:"questions,omitempty"`
	// Experts are the registered experts. Those of the policy come before them.
	Experts []Expert    `json:"experts,omitempty"`
	Limited []RoleLimit `json:"limited,omitempty"`
	// Agents are the agents that something keeps from working, or that crashed last.
	Agents []AgentState `json:"agents,omitempty"`
	// Models is what agents last worked with, if that is not what the policy says.
	Models []AgentModel `json:"models,omitempty"`
	// Failing are the checks that failed on the base in the last baseline.
	Failing []string `json:"failing,omitempty"`
	// Accepted is the last base whose failing checks the human accepted.
	Accepted *AcceptedBase `json:"accepted,omitempty"`
	// Remediations, Requests and Baselines are the numbers of the last remediation, request to an
	// expert and baseline.
	Remediations int `json:"remediations,omitempty"`
	Requests     int `json:"requests,omitempty"`
	Baselines    int `json:"baselines,omitempty"`
	// Orders is the Order of the next task that is added.
	Orders int   `json:"orders,omitempty"`
	Spent  Spent `json:"spent,omitzero"`
	// Granted is what was already spent when the human last extended the budget of the run.
	Granted Spent `json:"granted,omitzero"`
	// Roles has the roles that have a budget, and Window the use of the token window.
	Roles  []RoleSpent `json:"roles,omitempty"`
	Window *WindowUse  `json:"window,omitempty"`
	Paused bool        `json:"paused,omitempty"`
	// NoBudget means that the run is paused because the human refused to extend its budget.
	NoBudget  bool   `json:"no_budget,omitempty"`
	Cancelled string `json:"cancelled,omitempty"`
	// Base is the last known commit of the base, and BaseMoves what moved it other than merges and,
	// between runs, people.
	Base      string     `json:"base,omitempty"`
	BaseMoves []BaseMove `json:"base_moves,omitempty"`
	// Stored are the commits of the base that are in bundles, for other machines.
	Stored []StoredCommit `json:"stored,omitempty"`
	// Rejected are the bundles, also of tasks, that a machine could not use.
	Rejected []RejectedBundle `json:"rejected,omitempty"`
}

// RoleLimit is the time before which agents of a role must not start.
type RoleLimit struct {
	Role  signalbox.Role `json:"role"`
	Until time.Time      `json:"until"`
}

// Policy returns how plans are delivered; ok is false before the first Configure.
func (s *delivery) Policy() (p Policy, ok bool) {
	if s.run.Policy == nil {
		return Policy{}, false
	}
	return *s.run.Policy, true
}

// Plan returns the digest and the name of the plan, and whether it is completely loaded.
func (s *delivery) Plan() (digest signalbox.Hash, name string, loaded bool) {
	return s.run.Plan, s.run.PlanName, s.run.Plan != signalbox.Hash{} && !s.run.Loading
}

// Spent returns what all agents have used.
func (s *delivery) Spent() Spent { return s.run.Spent }

// Paused reports whether the whole run is paused.
func (s *delivery) Paused() bool { return s.run.Paused }

// Cancelled returns why the run is cancelled, "" if it is not.
func (s *delivery) Cancelled() string { return s.run.Cancelled }

// Experts returns the experts that agents can ask.
func (s *delivery) Experts() []Expert {
	if s.run.Policy == nil {
		return s.run.Experts
	}
	return append(slices.Clone(s.run.Policy.Experts), s.run.Experts...)
}

// expert finds an expert by name.
func (s *delivery) expert(name string) (Expert, bool) {
	for _, e := range s.Experts() {
		if e.Name == name {
			return e, true
		}
	}
	return Expert{}, false
}

// Limited returns the time before which agents of a role must not start, zero if there is none.
// Agent returns the limits of an agent.
func (s *delivery) Limited(role signalbox.Role) time.Time {
	for _, l := range s.run.Limited {
		if l.Role == role {
			return l.Until
		}
	}
	return time.Time{}
}

// NextWake returns when the next rate limit, pause of an agent or used-up token window ends; ok is
// false if there is none.
func (s *delivery) NextWake(now time.Time) (at time.Time, ok bool) {
	earlier := func(t time.Time) {
		if t.After(now) && (!ok || t.Before(at)) {
			at, ok = t, true
		}
	}
	for _, l := range s.run.Limited {
		earlier(l.Until)
	}
	for _, a := range s.run.Agents {
		earlier(a.Limited)
		earlier(a.Until)
	}
	earlier(s.WindowEnd(now))
	return at, ok
}

// marshal returns a value of one of our types as JSON. Equal values give equal text.
func marshal(v any) []byte {
	text, err := json.Marshal(v)
	if err != nil {
		panic(fmt.Sprintf("rules: %T does not encode: %v", v, err))
	}
	return text
}
