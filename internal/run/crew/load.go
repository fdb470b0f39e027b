package crew

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"path/filepath"
	"strings"
	"unicode"
	"unicode/utf8"

	"signalbox"
	"signalbox/internal/config"
	"signalbox/internal/core/box"
	"signalbox/internal/core/rules"
	"signalbox/internal/run/plan"
)

// LoadOptions configure Load.
type LoadOptions struct {
	Actor string
	// Source and ID identify the plan; see Identify.
	Source, ID string
	// Shared means that all tasks work in one folder.
	Shared bool
	// Replace and Finished are those of rules.LoadPlan.
	Replace  bool
	Finished rules.FinishedPlan
}

// Identify returns what identifies a plan: its own id, or else the path of its file below the root of the project. The id is the
// preferred one for the box. A plan from standard input, "-", is identified by its name.
func Identify(p *plan.Plan, file, root string) (source, id string) {
	if p.ID != "" {
		return "id:" + p.ID, p.ID
	}
	if file == "-" {
		return "stdin:" + p.Name, idFrom(p.Name)
	}
	source = realPath(file)
	if below, err := filepath.Rel(realPath(root), source); err == nil && filepath.IsLocal(below) {
		source = filepath.ToSlash(below)
	}
	base := filepath.Base(file)
	return source, idFrom(strings.TrimSuffix(base, filepath.Ext(base)))
}

// realPath returns a path without symbolic links, so that a file has one path.
func realPath(path string) string {
	abs, err := filepath.Abs(path)
	if err != nil {
		return path
	}
	if real, err := filepath.EvalSymlinks(abs); err == nil {
		return real
	}
	return abs
}

// maxPlanID leaves room for the id of a task after it.
const maxPlanID = 24

// idFrom makes an id of a name.
func idFrom(name string) string {
	id := strings.Map(func(r rune) rune {
		if r < utf8.RuneSelf && (unicode.IsLetter(r) || unicode.IsDigit(r) || r == '_') {
			return r
		}
		return '-'
	}, name)
	id = strings.Trim(id[:min(len(id), maxPlanID)], "-_")
	if id == "" {
		return "plan"
	}
	return id
}

// Load replaces the tasks of a plan in the box, under the box's configuration. It may be called again at any time.
func Load(ctx context.Context, b *box.Box, p *plan.Plan, text []byte, o LoadOptions) (rules.PlanChange, error) {
	var all rules.PlanChange
	if _, err := b.Engine.Do(ctx, rules.Configure{Policy: PolicyOf(b.Config, o.Shared), Actor: o.Actor}); err != nil {
		return all, err
	}
	digest, err := b.Engine.PutBlob(ctx, bytes.NewReader(text))
	if err != nil {
		return all, err
	}
	tasks, err := storeTasks(ctx, b, p)
	if err != nil {
		return all, err
	}
	for !all.Loaded {
		answer, err := b.Engine.Do(ctx, rules.LoadPlan{Plan: digest, Name: p.Name, Tasks: tasks, Actor: o.Actor,
			Source: o.Source, ID: o.ID, Replace: o.Replace, Finished: o.Finished})
		if err != nil {
			return all, err
		}
		part := answer.Plan
		all.Loaded, all.Stale, all.ID, all.New = part.Loaded, part.Stale, part.ID, all.New || part.New
		all.Added, all.Changed, all.Removed = append(all.Added, part.Added...), append(all.Changed, part.Changed...), append(all.Removed, part.Removed...)
		o.Replace = true // the first part was accepted
	}
	return all, nil
}

// Preview returns a box in memory in which a plan is loaded as a run would load it, and the id of the plan. Where a run would ask the user
// first, because the box has another plan, it assumes that the plan replaces that one. The caller closes the box before b.
func Preview(ctx context.Context, b *box.Box, p *plan.Plan, text []byte, o LoadOptions) (preview *box.Box, id string, err error) {
	if preview, err = b.Fork(ctx); err != nil {
		return nil, "", err
	}
	o.Replace = true
	change, err := Load(ctx, preview, p, text, o)
	if errors.Is(err, rules.ErrPlanFinished) {
		o.Finished = rules.FinishedRenew
		change, err = Load(ctx, preview, p, text, o)
	}
	if err != nil {
		preview.Close()
		return nil, "", err
	}
	return preview, change.ID, nil
}

// storeTasks stores the text of each task.
func storeTasks(ctx context.Context, b *box.Box, p *plan.Plan) (tasks []rules.PlanTask, err error) {
	for _, t := range p.Tasks {
		text, err := json.Marshal(t)
		if err != nil {
			return nil, err
		}
		digest, err := b.Engine.PutBlob(ctx, bytes.NewReader(text))
		if err != nil {
			return nil, err
		}
		task := rules.PlanTask{ID: t.ID, Title: t.Title, Priority: t.Priority, BlockedBy: t.BlockedBy, Files: t.Files, Draft: t.Draft, Text: digest}
		if t.Budget != nil {
			task.Budget = rules.Budget{Tokens: t.Budget.Tokens, CostMicros: t.Budget.CostMicros, Time: t.Budget.Time}
		}
		tasks = append(tasks, task)
	}
	return tasks, nil
}

// checksAtOnce returns how many work items are checked at the same time. In a shared folder they would disturb each other.
func checksAtOnce(shared bool) int {
	if shared {
		return 1
	}
	return 2
}

// PolicyOf returns the part of a configuration that the rules need.
func PolicyOf(c *config.Config, shared bool) rules.Policy {
	l := c.Limits
	p := rules.Policy{
		Slots: c.Slots, Checks: checksAtOnce(shared), CheckSet: checkSet(c), Shared: shared, ApproveMerge: c.Approve == config.ApproveMerge, TrustSteering: c.Approve == config.ApproveNever,
		Run: budgetOf(c.Budget.Run), Task: budgetOf(c.Budget.Task), Turn: budgetOf(c.Budget.Turn),
		Window: rules.TokenWindow{Tokens: c.Budget.Window.Tokens, Every: c.Budget.Window.Every},
		Limits: rules.Limits{Reviews: l.Reviews, Audits: l.Audits, Checks: l.Checks, Merges: l.Merges, Incompletes: l.Incompletes,
			Timeouts: l.Timeouts, Unknown: l.Unknown, Waits: l.Waits, FileWaits: l.FileWaits, Remediations: l.Remediations,
			ExpertRequests: l.ExpertRequests, FileWait: l.FileWait},
	}
	if way := c.Deliver.Way(); way != config.DeliverMerge && !shared {
		p.Deliver, p.Stack = way, c.Deliver.Dependents == config.DependentsStack
	}
	for _, role := range config.AgentRoles() {
		set, configured := c.Roles[role]
		if budget := budgetOf(set.Budget); !budget.IsZero() {
			p.RoleBudgets = append(p.RoleBudgets, rules.RoleBudget{Role: role, Budget: budget})
		}
		switch role {
		case signalbox.RoleExpert: // each expert has its own slots
			continue
		case signalbox.RoleExpertCreator, signalbox.RoleBusinessAnalyst: // optional: only if configured
			if !configured {
				continue
			}
		}
		p.Roles = append(p.Roles, rules.RoleSlots{Role: role, Slots: c.RoleOf(role).Slots})
	}
	for _, e := range c.Experts {
		p.Experts = append(p.Experts, rules.Expert{Name: e.Name, Keywords: e.Keywords, Slots: e.Slots})
	}
	addAgents(&p, c)
	return p
}

// addAgents adds the agents of each role, and of the experts that have their own, to a policy.
func addAgents(p *rules.Policy, c *config.Config) {
	settings := map[string]bool{}
	add := func(role signalbox.Role, expert string, list config.AgentList) {
		p.Agents = append(p.Agents, rules.RoleAgents{Role: role, Expert: expert, Agents: list})
		for _, name := range list {
			if !settings[name] {
				settings[name] = true
				p.AgentSettings = append(p.AgentSettings, rules.AgentSettings{Agent: name, Settings: agentSettings(c, name)})
			}
		}
	}
	for _, r := range p.Roles {
		add(r.Role, "", c.AgentsFor(r.Role, ""))
	}
	add(signalbox.RoleExpert, "", c.AgentsFor(signalbox.RoleExpert, ""))
	for _, e := range c.Experts {
		if len(e.Agent) > 0 {
			add(signalbox.RoleExpert, e.Name, e.Agent)
		}
	}
}

// agentSettings returns a digest of everything that the configuration says about an agent.
func agentSettings(c *config.Config, name string) signalbox.Hash {
	a := c.AgentNamed(name)
	settings := []any{a}
	if a.Tree != "" {
		if _, m, err := c.OracleModel(a.Model); err == nil {
			settings = append(settings, m)
		}
	}
	text, err := json.Marshal(settings)
	if err != nil {
		panic("crew: an agent does not encode: " + err.Error()) // it is strings and numbers
	}
	return sha256.Sum256(text)
}

// checkSet returns a digest of the checks, their environments, and what prepares the worktrees that they run in.
func checkSet(c *config.Config) signalbox.Hash {
	parts := []any{c.Checks, c.Environments}
	if len(c.Setup) > 0 {
		parts = append(parts, c.Setup)
	}
	text, err := json.Marshal(parts)
	if err != nil {
		panic("crew: checks do not encode: " + err.Error()) // they are strings and numbers
	}
	return sha256.Sum256(text)
}

func budgetOf(b config.Budget) rules.Budget {
	return rules.Budget{Tokens: b.Tokens, CostMicros: b.CostMicros, Time: b.Time}
}
