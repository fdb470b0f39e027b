package dashboard

import (
	"cmp"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"signalbox"
	"signalbox/internal/contain"
	"signalbox/internal/core/rules"
	"signalbox/internal/process"
	"signalbox/internal/run/agent"
	"signalbox/internal/run/inspect"
	"signalbox/internal/run/project"
	"signalbox/internal/sandbox"
)

// crewPage is who works now, and with what.
type crewPage struct {
	Status *inspect.Status
	// Slots is how many agents may work at the same time, and InUse how many do. Checks and merges
	// need no slot.
	Slots, InUse int
	Roles        []roleSlots
	Held         []heldTask
	Agents       []agentState
	Machine      machine
}

// roleSlots is the use of the slots of a role.
type roleSlots struct {
	Role         signalbox.Role
	InUse, Slots int
}

// heldTask is a task that somebody works on.
type heldTask struct {
	inspect.Task
	// Doing is the last words or tool call of its agent, or what it said in its last checkpoint.
	Doing string
	// Open is what remains possible for its agent although it is not allowed.
	Open []string
	// Elsewhere means that other layers enforce its sandbox than on this machine, so what they
	// leave open is not known here.
	Elsewhere bool
}

// agentState is whether an agent can work.
type agentState struct {
	Name string
	// Lamp is a class of the style sheet, and State says in words what is wrong.
	Lamp, State string
	// Until is when it is tried again by itself; zero if it can work, or stays as it is until a
	// human has done something.
	Until          time.Time
	Detail, Advice string
}

func (d *Dashboard) crew(ctx context.Context, _ *http.Request) (view, error) {
	now := d.opts.Now()
	st, err := inspect.ReadStatus(ctx, d.box, now)
	if err != nil {
		return view{}, err
	}
	page := crewPage{Status: st}
	if page.Machine, err = d.machine.look(ctx, d); err != nil {
		return view{}, err
	}
	d.box.Engine.View(func(s *rules.State) {
		policy, _ := s.Policy()
		page.Slots = policy.Slots
		for _, r := range policy.Roles {
			if r.Slots > 0 {
				page.Roles = append(page.Roles, roleSlots{Role: r.Role, Slots: r.Slots})
			}
		}
		page.Agents = agentStates(agent.Names(d.box.Config), s.Agents(), now)
	})
	for _, t := range st.Tasks {
		if t.Worker == nil {
			continue
		}
		held, err := d.heldTask(ctx, t, page.Machine.support)
		if err != nil {
			return view{}, err
		}
		page.Held = append(page.Held, held)
		page.count(t)
	}
	page.Roles = slices.DeleteFunc(page.Roles, func(r roleSlots) bool { return r.InUse == 0 })
	return view{template: "crew", title: "Crew", data: page, known: st}, nil
}

// count counts the slots that a task uses. An agent that waits for an expert or a file uses none.
func (p *crewPage) count(t inspect.Task) {
	if !inspect.RunsAgent(t.Worker.Role) || t.Condition == inspect.Parked || t.Kind == "" {
		return
	}
	p.InUse++
	for i := range p.Roles {
		if p.Roles[i].Role == t.Worker.Role {
			p.Roles[i].InUse++
		}
	}
}

// heldTask adds what the agent of a task is doing, and what its sandbox leaves open.
func (d *Dashboard) heldTask(ctx context.Context, t inspect.Task,
	support sandbox.Support) (held heldTask, err error) {
	held = heldTask{Task: t, Doing: t.Worker.Activity}
	if !inspect.RunsAgent(t.Worker.Role) {
		return held, nil
	}
	said, err := inspect.ReadActivity(d.box.Dir, t.Worker.Session)
	if err != nil {
		return held, err
	}
	held.Doing = cmp.Or(said, held.Doing)
	box := t.Worker.Sandbox
	if box == nil {
		return held, nil
	}
	policy := sandbox.Policy{Mode: sandbox.Mode(box.Mode)}
	if held.Elsewhere = policy.Restricted() && box.Layers != support.String(); held.Elsewhere {
		return held, nil
	}
	if box.Policy != (signalbox.Hash{}) {
		if err := d.readPolicy(ctx, box.Policy, &policy); err != nil {
			return held, err
		}
	}
	held.Open = append(support.Open(&policy), process.MissingLimits(policy.Limits)...)
	return held, nil
}

// maxPolicy is the largest policy that is read. A policy has some hundred paths.
const maxPolicy = 1 << 20

// readPolicy reads a policy that the ledger names. One that was redacted adds nothing.
func (d *Dashboard) readPolicy(ctx context.Context, digest signalbox.Hash,
	policy *sandbox.Policy) error {
	blob, err := d.box.Blob(ctx, digest)
	if signalbox.CodeOf(err) == signalbox.CodeNotFound {
		return nil
	}
	if err != nil {
		return err
	}
	defer blob.Close()
	text, err := io.ReadAll(io.LimitReader(blob, maxPolicy))
	if err != nil {
		return err
	}
	return json.Unmarshal(text, policy)
}

// agentStates returns whether the agents of the configuration, and those that something happened
// to, can work.
func agentStates(names []string, states []rules.AgentState, now time.Time) (list []agentState) {
	for _, s := range states {
		if !slices.Contains(names, s.Agent) {
			names = append(names, s.Agent)
		}
	}
	for _, name := range names {
		a := agentState{Name: name, Lamp: "good", State: "can work"}
		if i := slices.IndexFunc(states,
			func(s rules.AgentState) bool { return s.Agent == name }); i >= 0 {
			a.tell(&states[i], now)
		}
		list = append(list, a)
	}
	return list
}

// tell says what happened to an agent.
func (a *agentState) tell(s *rules.AgentState, now time.Time) {
	a.Detail, a.Advice = s.Detail, s.Advice
	switch {
	case s.Down != "":
		a.Lamp, a.State, a.Until = "bad", "cannot work: "+s.Down.InWords(), s.Until
	case s.Limited.After(now):
		a.Lamp, a.State, a.Until = "ask", rules.FailRateLimit.InWords(), s.Limited
	case s.Trying:
		a.Lamp, a.State = "ask", "one session is tried first"
	default:
		var roles []string
		for _, r := range s.Roles {
			if r.Until.After(now) {
				roles = append(roles, string(r.Role))
				a.Until = maxTime(a.Until, r.Until)
			}
		}
		if len(roles) > 0 {
			a.Lamp, a.State = "ask", "crashed as "+strings.Join(roles, ", ")+": others take over"
		}
	}
}

// machine is what the sandbox can enforce on the machine that serves the pages.
type machine struct {
	System, Layers, Why string
	// Agents is what the agents of the configuration may do here.
	Agents  []contain.Explanation
	support sandbox.Support
}

// machineReader finds that out once: neither the machine nor the configuration of an open box
// changes.
type machineReader struct {
	mu    sync.Mutex
	known *machine
}

func (r *machineReader) look(ctx context.Context, d *Dashboard) (machine, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.known != nil {
		return *r.known, nil
	}
	m := machine{support: process.Support()}
	m.System, m.Layers, m.Why = m.support.System, m.support.String(), m.support.Why
	in, err := project.Locate(ctx, d.box.Config, d.opts.Root)
	if err != nil {
		if ctx.Err() == nil { // otherwise the client has left
			d.opts.Log.Warn("what agents may do here is not known", "error", err)
		}
		return m, ctx.Err()
	}
	site, err := in.Site(d.box.Config, d.box.Dir)
	if err != nil {
		return m, err
	}
	for _, name := range agent.Names(d.box.Config) {
		explained, err := in.ExplainAgent(site, name, m.support)
		if err != nil {
			return m, err
		}
		m.Agents = append(m.Agents, explained...)
	}
	r.known = &m
	return m, nil
}
