// Package forecast says what a run of a plan would do, without doing it: which tasks it would start
// together, with which agents and prompts, and which commands it would run.
package forecast

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"signalbox"
	"signalbox/internal/config"
	"signalbox/internal/core/box"
	"signalbox/internal/core/rules"
	"signalbox/internal/run/history"
	"signalbox/internal/run/plan"
	"signalbox/internal/run/turnprompt"
	"signalbox/internal/show"
	"signalbox/internal/text"
)

// Forecast is what a run would do. Its JSON is the answer of signalbox run --dry-run --json.
type Forecast struct {
	// OK reports whether the run could start: nothing is missing.
	OK   bool   `json:"ok"`
	Plan string `json:"plan"`
	Name string `json:"name"`
	// Tasks counts the tasks of the plan, and Completed those that are completed already.
	Tasks     int `json:"tasks"`
	Completed int `json:"completed"`
	// Slots is how many developers can work at the same time.
	Slots int `json:"slots"`
	// Waves are the tasks that are not completed, in the order in which they would start if all
	// took the same time. The tasks of a wave are developed at the same time.
	Waves [][]Task `json:"waves"`
	Roles []Role   `json:"roles"`
	// Setup are the names of the commands that make each worktree ready, and SetupCommands the
	// commands. Copy are the ignored files that are copied into it, and Ports is how many ports it
	// gets.
	Setup         []string `json:"setup"`
	SetupCommands []Setup  `json:"setup_commands"`
	Copy          []string `json:"copy"`
	Ports         int      `json:"ports,omitempty"`
	Checks        []Check  `json:"checks"`
	// Approval reports whether every merge waits for the human.
	Approval bool `json:"approval"`
	// Deliver is what happens with finished work, one of the values of config.Deliver.As.
	Deliver string   `json:"deliver"`
	Budgets []string `json:"budgets"`
	// Next is what a task will take, from the tasks that were completed in this box.
	Next history.Estimates `json:"next"`
	// Branch is the branch that is merged into, "" in a shared folder. Base is what is known about
	// the checks on it.
	Branch string `json:"branch,omitempty"`
	Base   Base   `json:"base"`
	// Missing is why the run could not start. Notes are what else the user should know.
	Missing []Missing `json:"missing"`
	Notes   []string  `json:"notes"`
}

// Task is a task that the run would do.
type Task struct {
	ID        string   `json:"id"`
	Title     string   `json:"title"`
	BlockedBy []string `json:"blocked_by"`
	// Phase is where it is now, and WaitsFor what it waits for first that the run does not do: an
	// answer or an approval, or the end of a pause.
	Phase    signalbox.Phase `json:"phase"`
	WaitsFor string          `json:"waits_for,omitempty"`
	// Agents are the agents that it would get from now on, in this order.
	Agents []Agent `json:"agents"`
}

// Agent is an agent of a task, with the size of its first prompt.
type Agent struct {
	Role        signalbox.Role `json:"role"`
	Agent       string         `json:"agent"`
	PromptBytes int            `json:"prompt_bytes"`
}

// Role is how a role is filled.
type Role struct {
	Role    signalbox.Role `json:"role"`
	Agent   string         `json:"agent"`
	Program string         `json:"program"`
	// Others are the agents that take over while the first one is not available.
	Others  []Substitute `json:"others,omitempty"`
	Slots   int          `json:"slots"`
	Timeout string       `json:"timeout"`
}

// Substitute is an agent that takes over from another.
type Substitute struct {
	Agent   string `json:"agent"`
	Program string `json:"program"`
}

// Setup is a command that makes a worktree ready.
type Setup struct {
	Name    string `json:"name"`
	Command string `json:"command"`
	// Files are the files after whose change it runs again.
	Files   []string `json:"files,omitempty"`
	Timeout string   `json:"timeout"`
}

// Check is a check that must pass.
type Check struct {
	Name         string   `json:"name"`
	Command      string   `json:"command"`
	Environments []string `json:"environments"`
	Timeout      string   `json:"timeout"`
}

// Base is what is known about the checks on the base.
type Base string

const (
	BaseUnknown Base = "unknown" // they have not run on it
	BaseGreen   Base = "green"
	BaseRed     Base = "red"
)

// Missing is something without which the run could not start, and what to do about it.
type Missing struct {
	What string `json:"what"`
	Fix  string `json:"fix,omitempty"`
}

// Of returns the forecast for a plan that is loaded in a box with the given id. Branch is the base
// branch. The caller adds what is missing.
func Of(ctx context.Context, b *box.Box, p *plan.Plan, id, branch string) (*Forecast, error) {
	c := b.Config
	f := &Forecast{Plan: id, Name: p.Name, Tasks: len(p.Tasks),
		Slots: min(c.Slots, c.RoleOf(signalbox.RoleDeveloper).Slots), Waves: [][]Task{},
		Approval: c.Approve == config.ApproveMerge, Deliver: c.Deliver.Way(),
		Setup: []string{}, SetupCommands: []Setup{}, Copy: append([]string{}, c.Copy...),
		Ports: c.Ports, Checks: []Check{}, Budgets: budgets(c), Branch: branch,
		Missing: []Missing{}, Notes: []string{}}
	works := map[string]*rules.Work{}
	var added []string
	b.Engine.View(func(s *rules.State) {
		for w := range s.Works() {
			if w.Task != nil && w.Task.Added && !w.Done() {
				added = append(added, w.ID)
			}
			if w.Task != nil && w.Task.Kind == rules.KindTask && w.Task.Plan == id {
				works[w.Name()] = w
			}
		}
		f.Base = baseOf(s)
	})
	if len(added) > 0 {
		f.Notes = append(f.Notes, "tasks that were added run too: "+text.JoinSome(added, 10))
	}
	for _, s := range c.Setup {
		f.Setup = append(f.Setup, s.Name)
		f.SetupCommands = append(f.SetupCommands,
			Setup{s.Name, s.Command, s.Files, text.Duration(s.Timeout)})
	}
	for _, check := range c.Checks {
		environments := check.Environments
		if len(environments) == 0 {
			for _, e := range c.Environments {
				environments = append(environments, e.Name)
			}
		}
		command := check.Command
		if check.IsMutation() {
			environments = environments[:1]
			command = fmt.Sprintf("breaks what a task changes, in %s: %s",
				text.Count(check.Mutants, "place"), command)
		}
		f.Checks = append(f.Checks, Check{check.Name, command, environments,
			text.Duration(check.Timeout)})
	}
	drafts := slices.ContainsFunc(p.Tasks, func(t plan.Task) bool { return t.Draft })
	for _, role := range rolesOf(drafts) {
		set := c.RoleOf(role)
		names := c.AgentsFor(role, "")
		r := Role{Role: role, Agent: names[0], Program: programOf(c.AgentNamed(names[0])),
			Slots: set.Slots, Timeout: text.Duration(set.Timeout)}
		for _, name := range names[1:] {
			r.Others = append(r.Others, Substitute{name, programOf(c.AgentNamed(name))})
		}
		f.Roles = append(f.Roles, r)
	}
	return f, f.addWaves(ctx, b, p, works, branch)
}

// rolesFrom returns the roles that still work on a task.
func rolesFrom(w *rules.Work) []signalbox.Role {
	at := w.Phase
	if at == signalbox.PhaseBlocked {
		at = w.BlockedFrom
	}
	switch {
	case at == signalbox.PhaseReadyForMerge && w.Task.Audited:
		return nil
	case at == signalbox.PhaseReadyForMerge:
		return []signalbox.Role{signalbox.RoleAuditor}
	case at == signalbox.PhaseCIPending, at == signalbox.PhaseReadyForReview,
		at == signalbox.PhaseReview:
		return []signalbox.Role{signalbox.RoleCritic, signalbox.RoleAuditor}
	}
	return rolesOf(at == signalbox.PhaseDraft)
}

// waitsFor returns what a task waits for first that the run does not do, "" if nothing.
func waitsFor(s *rules.State, w *rules.Work) string {
	switch {
	case len(w.Task.Questions) > 0:
		return "your answer to " + strings.Join(w.Task.Questions, ", ")
	case w.Task.Paused:
		return "signalbox resume " + w.ID
	case s.WaitsForApproval(w):
		return "your approval"
	}
	return ""
}

// rolesOf returns the roles that work on a task.
func rolesOf(draft bool) []signalbox.Role {
	roles := []signalbox.Role{signalbox.RoleDeveloper, signalbox.RoleCritic, signalbox.RoleAuditor}
	if draft {
		roles = append([]signalbox.Role{signalbox.RoleBusinessAnalyst}, roles...)
	}
	return roles
}

func programOf(a config.Agent) string {
	switch {
	case a.Tree != "":
		return "tree " + a.Tree
	case len(a.Command) > 0:
		return a.Command[0]
	}
	return a.Preset
}

// baseOf returns what is known about the checks on the base.
func baseOf(s *rules.State) Base {
	switch {
	case s.RedBaseline() != nil:
		return BaseRed
	case s.Baseline() != nil: // loading the plan has opened it
		return BaseUnknown
	}
	return BaseGreen
}

// addWaves simulates a run in which all tasks take the same time.
func (f *Forecast) addWaves(ctx context.Context, b *box.Box, p *plan.Plan,
	works map[string]*rules.Work, branch string) error {
	done := map[string]bool{}
	for name, w := range works {
		if w.Phase == signalbox.PhaseCompleted {
			done[name] = true
			f.Completed++
		}
	}
	tasks := map[string]*plan.Task{}
	for i := range p.Tasks {
		tasks[p.Tasks[i].ID] = &p.Tasks[i]
	}
	waiting := slices.DeleteFunc(p.Order(), func(id string) bool { return done[id] })
	for len(waiting) > 0 {
		var wave []Task
		var started []string
		for _, id := range waiting {
			if len(wave) < max(f.Slots, 1) && !slices.ContainsFunc(tasks[id].BlockedBy,
				func(blocker string) bool { return !done[blocker] }) {
				t, err := forecastTask(ctx, b, tasks[id], works[id], branch)
				if err != nil {
					return err
				}
				wave, started = append(wave, t), append(started, id)
			}
		}
		if len(wave) == 0 {
			return fmt.Errorf("no task of the plan can start") // Parse has refused such a plan
		}
		for _, id := range started {
			done[id] = true
		}
		waiting = slices.DeleteFunc(waiting, func(id string) bool { return done[id] })
		f.Waves = append(f.Waves, wave)
	}
	return nil
}

func forecastTask(ctx context.Context, b *box.Box, t *plan.Task, w *rules.Work,
	branch string) (Task, error) {
	found := Task{ID: t.ID, Title: t.Title, BlockedBy: append([]string{}, t.BlockedBy...),
		Agents: []Agent{}}
	if w == nil {
		return found, nil
	}
	found.ID, found.Phase = w.ID, w.Phase
	b.Engine.View(func(s *rules.State) { found.WaitsFor = waitsFor(s, w) })
	for _, role := range rolesFrom(w) {
		prompt, err := turnprompt.Show(ctx, b, branch, role, w.ID, false)
		if err != nil {
			return found, err
		}
		found.Agents = append(found.Agents, Agent{role, b.Config.AgentsFor(role, "")[0],
			len(prompt)})
	}
	return found, nil
}

// budgets describes the budgets of a configuration.
func budgets(c *config.Config) []string {
	list := []string{}
	add := func(name string, b config.Budget) {
		var limits []string
		if b.Tokens > 0 {
			limits = append(limits, show.Tokens(b.Tokens)+" tokens")
		}
		if b.CostMicros > 0 {
			limits = append(limits, show.Dollars(b.CostMicros))
		}
		if b.Time > 0 {
			limits = append(limits, text.Duration(b.Time))
		}
		if len(limits) > 0 {
			list = append(list, name+": "+strings.Join(limits, ", "))
		}
	}
	add("run", c.Budget.Run)
	add("each task", c.Budget.Task)
	add("each turn", c.Budget.Turn)
	for _, role := range config.AgentRoles() {
		add(string(role), c.Roles[role].Budget)
	}
	if w := c.Budget.Window; w.Tokens > 0 {
		list = append(list, fmt.Sprintf("window: %s tokens every %s", show.Tokens(w.Tokens),
			w.Every.Truncate(time.Second)))
	}
	return list
}
