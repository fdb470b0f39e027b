package crew

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"signalbox"
	"signalbox/internal/config"
	"signalbox/internal/core/box"
	"signalbox/internal/core/rules"
	"signalbox/internal/run/plan"
	"signalbox/internal/run/prompts"
	"signalbox/internal/run/workspace"
	"signalbox/internal/text"
)

// Prompt returns the prompt that an agent of a role would get for a work item now. branch is the base branch, "" if there is none, and exits
// means that exit signals are enabled. Prompt changes nothing.
func Prompt(ctx context.Context, b *box.Box, branch string, role signalbox.Role, work string, exits bool) ([]byte, error) {
	c := &Crew{box: b, branch: branch, opts: Options{ExitSignals: exits}}
	if err := c.checkRole(role, work); err != nil {
		return nil, err
	}
	dir := filepath.Join(b.Dir, workspace.TreesFolder, work)
	if b.Config.Workspace.Shared() {
		dir = filepath.Dir(b.Dir)
	} else if !role.IsAuthor() {
		dir = "a copy of " + dir // its name is different each time
	}
	key := ""
	if c.keyed() {
		key = keyPlaceholder // each turn has its own
	}
	text, _, err := c.turnPrompt(ctx, role, work, newWorkspace(dir), key, lastTurn{}, false)
	return text, err
}

// checkRole refuses a role that never works on this kind of work. Unknown work is refused later.
func (c *Crew) checkRole(role signalbox.Role, work string) error {
	var w *rules.Work
	c.box.Engine.View(func(s *rules.State) { w, _ = s.Work(work) })
	if w == nil || w.Task == nil {
		return nil
	}
	roles := map[rules.Kind][]signalbox.Role{
		rules.KindTask:        {signalbox.RoleDeveloper, signalbox.RoleCritic, signalbox.RoleAuditor, signalbox.RoleBusinessAnalyst},
		rules.KindRemediation: {signalbox.RoleRemediation, signalbox.RoleHealthAuditor},
		rules.KindExpert:      {signalbox.RoleExpert, signalbox.RoleExpertCreator},
	}[w.Task.Kind]
	if slices.Contains(roles, role) {
		return nil
	}
	hint := "no agent works on it"
	if len(roles) > 0 {
		hint = fmt.Sprintf("the roles that work on it are: %s", strings.Trim(fmt.Sprint(roles), "[]"))
	}
	return &signalbox.Error{Code: signalbox.CodeUsage, Err: fmt.Errorf("no %s works on '%s', which is a %s", role, work, w.Task.Kind), Hint: hint}
}

// turnPrompt renders the prompt for a turn, or the short prompt of a conversation that continues, and returns the sequences of the
// messages in it. A custom template is read for every turn, so that edits take effect.
func (c *Crew) turnPrompt(ctx context.Context, role signalbox.Role, work string, ws *sessionWorkspace, key string, last lastTurn, resumed bool) (text []byte, messages []uint64, err error) {
	data, err := c.promptData(ctx, role, work)
	if err != nil {
		return nil, nil, err
	}
	for _, m := range data.Messages {
		messages = append(messages, m.Seq)
	}
	data.Context = strings.TrimPrefix(data.Context+"\n\n"+last.cleanupNote, "\n\n")
	data.Signals, data.Key = c.signalsFor(role, work, key, data.Experts), key
	data.Exit = c.exitFor(role, key)
	data.Steering = prompts.Lines(firstSteering(last.steering))
	data.Dir, data.Diff, data.Again, data.Output, data.Wrong = ws.dir, ws.diff, last.again, last.output, showKey(last.advice, key)
	data.Progressed = last.progressed
	if resumed {
		if !last.parked { // it is about itself
			data.Context = last.cleanupNote
		}
		data.Interrupted = !last.parked
		text, err = prompts.RenderResumed(data)
		return text, messages, err
	}
	custom, err := customTemplate(c.box.Config, c.box.Dir, role)
	if err != nil {
		return nil, nil, err
	}
	text, err = prompts.Render(role, custom, data)
	return text, messages, err
}

// exitFor returns the exit signal that the prompt offers, "" if there is none: exit signals are disabled or need a key, or end no phase of
// the role.
func (c *Crew) exitFor(role signalbox.Role, key string) string {
	phase, ends := map[signalbox.Role]signalbox.Phase{
		signalbox.RoleBusinessAnalyst: signalbox.PhaseDraft,
		signalbox.RoleDeveloper:       signalbox.PhaseImplementation,
		signalbox.RoleCritic:          signalbox.PhaseReview,
		signalbox.RoleAuditor:         signalbox.PhaseReadyForMerge,
	}[role]
	if !c.opts.ExitSignals || key != "" || !ends {
		return ""
	}
	exit, _ := json.Marshal(signalbox.NewExit(phase, signalbox.ExitCompleted))
	return string(exit)
}

// signalsFor returns the signals that the prompt offers: EXPERT_REQUEST only if there is an expert to ask, or an agent that creates one.
func (c *Crew) signalsFor(role signalbox.Role, work, key string, experts []rules.Expert) []prompts.Signal {
	signals := prompts.SignalsFor(role, work, key)
	if _, creates := c.box.Config.Roles[signalbox.RoleExpertCreator]; creates || len(experts) > 0 {
		return signals
	}
	return slices.DeleteFunc(signals, func(sig prompts.Signal) bool { return sig.Name == signalbox.NameExpertRequest })
}

// customTemplate returns the template that the configuration names for a role, or "" if it names none. dir is the folder of the box.
func customTemplate(c *config.Config, dir string, role signalbox.Role) (string, error) {
	name := c.RoleOf(role).Prompt
	if name == "" {
		return "", nil
	}
	if !filepath.IsAbs(name) {
		name = filepath.Join(dir, name)
	}
	template, err := os.ReadFile(name)
	if err != nil {
		return "", &signalbox.Error{Code: signalbox.CodeUsage, Err: fmt.Errorf("prompt template of %s: %w", role, err),
			Hint: "name an existing file, or remove the setting to use the built-in prompt"}
	}
	return string(template), nil
}

// CheckTemplate reports a mistake in the template that the configuration names for a role, if it names one. dir is the folder of the box.
// keyed means that agents get keys.
func CheckTemplate(c *config.Config, dir string, role signalbox.Role, keyed bool) error {
	custom, err := customTemplate(c, dir, role)
	if err != nil || custom == "" {
		return err
	}
	return prompts.Validate(role, custom, keyed)
}

// checkTemplates finds mistakes in the configured templates before any agent is started.
func (c *Crew) checkTemplates() error {
	for _, role := range config.AgentRoles() {
		if err := CheckTemplate(c.box.Config, c.box.Dir, role, c.keyed()); err != nil {
			return err
		}
	}
	return nil
}

// promptData collects what is known about the work.
func (c *Crew) promptData(ctx context.Context, role signalbox.Role, work string) (*prompts.Data, error) {
	var w, asker *rules.Work
	var questions []*rules.Question
	var experts []rules.Expert
	var accepted []string
	var current loadedPlan
	c.box.Engine.View(func(s *rules.State) {
		if w, _ = s.Work(work); w != nil && w.Task != nil && w.Task.Asker != "" {
			asker, _ = s.Work(w.Task.Asker)
		}
		questions, experts, accepted = s.Questions(), s.Experts(), s.AcceptedFailures()
		current.id = s.PlanID()
		current.text, current.name, _ = s.Plan()
	})
	if w == nil || w.Task == nil {
		return nil, &signalbox.Error{Code: signalbox.CodeNotFound, Err: fmt.Errorf("there is no planned work '%s'", work), Hint: "list the work items with signalbox work list"}
	}
	t := w.Task
	d := &prompts.Data{Role: role, Work: work, Title: w.Title, Phase: string(w.Phase), Protected: c.box.Config.Protected, BaseBranch: c.branch,
		Overlaps: prompts.Lines(t.Overlaps), Context: t.Context, Differs: t.Differs, Asker: t.Asker, Expert: t.Expert}
	switch role {
	case signalbox.RoleCritic, signalbox.RoleAuditor, signalbox.RoleHealthAuditor:
		d.Commit, d.Base = t.Commit, t.Base
	}
	for _, check := range c.box.Config.Checks {
		d.Checks = append(d.Checks, prompts.Check{Name: check.Name, Command: check.Command})
	}
	for _, e := range c.box.Config.Environments {
		d.Environments = append(d.Environments, e.Name)
	}
	if len(t.Failing) > 0 {
		d.Results = t.Failing
	}
	d.Accepted = accepted
	if err := c.loadHidden(ctx, d); err != nil {
		return nil, err
	}
	if err := c.loadTexts(ctx, d, w, asker); err != nil {
		return nil, err
	}
	about := t
	if asker != nil {
		about = asker.Task
	}
	if err := c.loadPlan(ctx, d, current, about.Plan); err != nil {
		return nil, err
	}
	for _, q := range questions {
		if !q.Open() && !q.Withdrawn && (q.Work == work || asker != nil && q.Work == asker.ID) {
			d.Answers = append(d.Answers, prompts.Answer{Question: q.Text, Answer: q.Answer})
		}
	}
	d.Experts = matchingExperts(experts, d)
	if e, known := c.box.Config.ExpertNamed(t.Expert); known {
		d.Instructions = e.Instructions
	}
	return d, nil
}

// loadHidden fills in what reviewers must know about invisible characters in the commit. Without a project, as for a prompt that is only
// shown, the commit may not be here.
func (c *Crew) loadHidden(ctx context.Context, d *prompts.Data) (err error) {
	if d.Commit == "" || d.Base == "" || c.box.Config.Workspace.Shared() {
		return nil
	}
	shown := c.project.Repo == nil
	root := c.project.Root
	if shown {
		root = filepath.Dir(c.box.Dir)
	}
	if d.Hidden, err = workspace.Hidden(ctx, root, d.Base, d.Commit); err != nil && shown {
		return nil
	}
	return err
}

// loadedPlan is a plan as it was loaded last.
type loadedPlan struct {
	id, name     string
	text         signalbox.Hash
	introduction string // once it is parsed
}

// loadPlan fills in the title and the introduction of the plan with an id. current is the plan that was loaded last. The state does not
// have the texts of the others, so they are looked up in the ledger, once: a plan that is loaded again becomes the current one.
func (c *Crew) loadPlan(ctx context.Context, d *prompts.Data, current loadedPlan, id string) error {
	c.plansMu.Lock()
	defer c.plansMu.Unlock()
	p, known := c.plans[id]
	if id == current.id && p.text != current.text {
		p, known = current, false
	}
	if !known {
		var err error
		if id != current.id {
			if p, err = c.findPlan(ctx, id); err != nil {
				return err
			}
		}
		source, err := c.blob(ctx, p.text)
		if err != nil {
			return err
		}
		// A plan that is not accepted any more, or was redacted, has no introduction.
		if parsed, err := plan.Parse(id, source, &plan.Options{Drafts: true}); err == nil {
			p.introduction = parsed.Introduction
		}
		if c.plans == nil {
			c.plans = map[string]loadedPlan{}
		}
		c.plans[id] = p
	}
	d.Plan, d.Introduction = text.OneLine(p.name), p.introduction
	return nil
}

// findPlan finds a plan in the ledger. The result has no text if there is none.
func (c *Crew) findPlan(ctx context.Context, id string) (found loadedPlan, err error) {
	for e, err := range c.box.Events(ctx, 0) {
		if err != nil {
			return found, err
		}
		var opened rules.PlanOpened
		if e.Type == rules.TypePlanOpened && json.Unmarshal(e.Data, &opened) == nil && opened.ID == id {
			found = loadedPlan{id: id, name: opened.Name, text: opened.Plan}
		}
	}
	return found, nil
}

// loadTexts fills in what is stored in blobs.
func (c *Crew) loadTexts(ctx context.Context, d *prompts.Data, w, asker *rules.Work) error {
	t := w.Task
	about := t
	if asker != nil {
		about = asker.Task
		request, err := c.signalText(ctx, t.Text)
		if err != nil {
			return err
		}
		d.Request = request
	}
	if about.Kind == rules.KindTask {
		text, err := c.blob(ctx, about.Text)
		if err != nil {
			return err
		}
		if json.Unmarshal(text, &d.Task) != nil {
			d.Task.Work = string(text)
		}
	}
	if about.Parent != "" { // an agent wrote it
		prompts.Quote(&d.Task)
		d.Title = text.OneLine(d.Title)
	}
	var err error
	if d.Specification, err = c.signalText(ctx, about.Specification); err != nil {
		return err
	}
	if d.Findings, err = c.promptFindings(ctx, t.Findings, newestCorrection(t)); err != nil {
		return err
	}
	if err := c.loadWords(ctx, d, t); err != nil {
		return err
	}
	if conflict := t.Conflict; conflict != nil && d.Author() {
		d.Conflicts, d.Unresolved = prompts.Lines(conflict.Files), prompts.Lines(conflict.Unresolved)
		if d.ConflictNotes, err = c.signalText(ctx, conflict.Body); err != nil {
			return err
		}
		d.Findings = slices.DeleteFunc(d.Findings, func(f prompts.Finding) bool { return f.Cause == rules.FindingConflict }) // it is in the notes
	}
	if d.Issues, err = c.promptFindings(ctx, t.Issues, 0); err != nil {
		return err
	}
	for _, a := range t.Advice {
		text, err := c.signalText(ctx, a.Body)
		if err != nil {
			return err
		}
		asked, err := c.requestText(ctx, a.Work)
		if err != nil {
			return err
		}
		d.Advice = append(d.Advice, prompts.Advice{Expert: a.Expert, Text: text, Asked: asked})
	}
	return nil
}

// requestText returns what a request to an expert asked.
func (c *Crew) requestText(ctx context.Context, request string) (string, error) {
	var w *rules.Work
	c.box.Engine.View(func(s *rules.State) { w, _ = s.Work(request) })
	if w == nil || w.Task == nil {
		return "", nil
	}
	return c.signalText(ctx, w.Task.Text)
}

// loadWords fills in what the human asked for when sending the work back, and the messages that no agent has got yet.
func (c *Crew) loadWords(ctx context.Context, d *prompts.Data, t *rules.Task) (err error) {
	corrections := t.Corrections
	if d.Author() { // the others are among the findings
		corrections = slices.DeleteFunc(slices.Clone(corrections), func(f rules.Finding) bool {
			return slices.ContainsFunc(t.Findings, func(open rules.Finding) bool { return open.Seq == f.Seq })
		})
	}
	if d.Corrections, err = c.promptFindings(ctx, corrections, newestCorrection(t)); err != nil {
		return err
	}
	for _, m := range t.Messages {
		text, err := c.words(ctx, m.Text, m.Body)
		if err != nil {
			return err
		}
		d.Messages = append(d.Messages, prompts.Message{Actor: m.Actor, Text: text, Seq: m.Seq})
	}
	return nil
}

// words returns a text of the human: short, or the blob if there is one.
func (c *Crew) words(ctx context.Context, short string, body signalbox.Hash) (string, error) {
	if body == (signalbox.Hash{}) {
		return short, nil
	}
	text, err := c.blob(ctx, body)
	return string(text), err
}

// newestCorrection returns the sequence of the event with which the human last sent a task back, 0 if there is none.
func newestCorrection(t *rules.Task) uint64 {
	if n := len(t.Corrections); n > 0 {
		return t.Corrections[n-1].Seq
	}
	return 0
}

// promptFindings returns findings with their texts: first those of the human, the newest first, then the others in the order in which they
// came. newest is the sequence of the newest one of the human.
func (c *Crew) promptFindings(ctx context.Context, findings []rules.Finding, newest uint64) (list prompts.Findings, err error) {
	var others prompts.Findings
	for _, f := range findings {
		if f.Cause == rules.FindingHuman {
			text, err := c.words(ctx, f.Summary, f.Body)
			if err != nil {
				return nil, err
			}
			list = slices.Insert(list, 0, prompts.Finding{Cause: f.Cause, Summary: text, Actor: f.Actor, Older: f.Seq < newest})
			continue
		}
		text, err := c.signalText(ctx, f.Body)
		if err != nil {
			return nil, err
		}
		others = append(others, prompts.Finding{Cause: f.Cause, Work: f.Work, Summary: f.Summary, Text: text})
	}
	return append(list, others...), nil
}

// signalText returns the body of a stored signal as text, and any other blob unchanged.
func (c *Crew) signalText(ctx context.Context, digest signalbox.Hash) (string, error) {
	text, err := c.blob(ctx, digest)
	if err != nil {
		return "", err
	}
	if fields := storedBody(text); fields != nil {
		return FieldsText(fields), nil
	}
	return string(text), nil
}

// matchingExperts returns the experts that have a keyword in the task, or no keywords at all: otherwise no agent would learn of them.
func matchingExperts(experts []rules.Expert, d *prompts.Data) (found []rules.Expert) {
	words := strings.ToLower(strings.Join([]string{d.Title, d.Task.Work, d.Task.Notes, d.Specification, strings.Join(d.Task.Criteria, " "), strings.Join(d.Task.Files, " ")}, " "))
	for _, e := range experts {
		if len(e.Keywords) == 0 || slices.ContainsFunc(e.Keywords, func(k string) bool { return strings.Contains(words, strings.ToLower(k)) }) {
			found = append(found, e)
		}
	}
	return found
}
