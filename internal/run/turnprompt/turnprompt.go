// Package turnprompt builds the prompt for a turn of an agent: it collects what the ledger knows
// about the work, and package prompts renders it. It changes nothing.
package turnprompt

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"signalbox"
	"signalbox/internal/config"
	"signalbox/internal/core/box"
	"signalbox/internal/core/rules"
	"signalbox/internal/run/plan"
	"signalbox/internal/run/prompts"
	"signalbox/internal/run/stored"
	"signalbox/internal/run/workspace"
	"signalbox/internal/text"
)

// KeyPlaceholder stands for a key where the key itself must not be shown.
const KeyPlaceholder = "<key>"

// Builder builds prompts. Its methods may be called concurrently.
type Builder struct {
	box  *box.Box
	opts Options

	mu    sync.Mutex
	plans map[string]loadedPlan // by id; guarded by mu
}

// Options configure a Builder.
type Options struct {
	// Branch is the base branch, "" if there is none.
	Branch string
	// Root is a folder of the repository, which has the commits of the work. With "" the prompt is
	// only shown: the folder of the box may lie in the repository, and may lack the commits.
	Root string
	// ExitSignals enables the agent exit protocol.
	ExitSignals bool
}

// New returns a builder for the work of a box.
func New(b *box.Box, opts Options) *Builder {
	return &Builder{box: b, opts: opts, plans: map[string]loadedPlan{}}
}

// Turn is what a prompt says besides what the ledger knows about the work.
type Turn struct {
	Role signalbox.Role
	Work string
	// Key is the key that the agent's signals must have, "" if they need none.
	Key string
	// Dir is the folder that the agent works in, and Diff a file with the change that it judges.
	Dir, Diff string
	// Steering are the files of the folder that are as on the base, and not as in the commit.
	Steering []string
	// CleanupNote says what a previous agent left that the agent must clean up.
	CleanupNote string
	// Again means that the turn before it had no result, Output is the end of its output, and
	// Advice what was wrong with it. Progressed means that it had signals.
	Again, Progressed bool
	Output, Advice    string
	// Resumed means that the agent remembers what it did before, and gets a short prompt. It is nil
	// if a new session starts.
	Resumed *prompts.Resumption
}

// Build returns the prompt for a turn, and the sequences of the messages in it. A custom template
// is read for every turn, so that edits take effect.
func (p *Builder) Build(ctx context.Context, t Turn) (text []byte, messages []uint64, err error) {
	data, err := p.collect(ctx, t.Role, t.Work)
	if err != nil {
		return nil, nil, err
	}
	for _, m := range data.Messages {
		messages = append(messages, m.Seq)
	}
	data.Context = strings.TrimPrefix(data.Context+"\n\n"+t.CleanupNote, "\n\n")
	data.Signals = p.signalsFor(t.Role, t.Work, t.Key, data.Experts)
	data.Key, data.Exit = t.Key, p.exitFor(t.Role, t.Key)
	data.Steering = prompts.Lines(t.Steering)
	data.Dir, data.Diff = t.Dir, t.Diff
	data.Again, data.Progressed = t.Again, t.Progressed
	data.Output, data.Wrong = t.Output, t.Advice
	if data.Resumed = t.Resumed; data.Resumed != nil {
		if !t.Resumed.Waited { // it is about itself
			data.Context = t.CleanupNote
		}
		text, err = prompts.RenderResumed(data)
		return text, messages, err
	}
	custom, err := customTemplate(p.box.Config, p.box.Dir, t.Role)
	if err != nil {
		return nil, nil, err
	}
	text, err = prompts.Render(t.Role, custom, data)
	return text, messages, err
}

// Show returns the prompt that an agent of a role would get for a work item now. branch is the base
// branch, "" if there is none, and exits means that exit signals are enabled.
func Show(ctx context.Context, b *box.Box, branch string, role signalbox.Role, work string,
	exits bool) ([]byte, error) {
	if err := checkRole(b, role, work); err != nil {
		return nil, err
	}
	t := Turn{Role: role, Work: work, Dir: filepath.Join(b.Dir, workspace.TreesFolder, work)}
	if b.Config.Workspace.Shared() {
		t.Dir = filepath.Dir(b.Dir)
	} else if !role.IsAuthor() {
		t.Dir = "a copy of " + t.Dir // its name is different each time
	}
	if b.Config.Keyed {
		t.Key = KeyPlaceholder // each turn has its own
	}
	text, _, err := New(b, Options{Branch: branch, ExitSignals: exits}).Build(ctx, t)
	return text, err
}

// checkRole refuses a role that never works on this kind of work. Unknown work is refused later.
func checkRole(b *box.Box, role signalbox.Role, work string) error {
	var w *rules.Work
	b.Engine.View(func(s *rules.State) { w, _ = s.Work(work) })
	if w == nil || w.Task == nil {
		return nil
	}
	roles := map[rules.Kind][]signalbox.Role{
		rules.KindTask: {signalbox.RoleDeveloper, signalbox.RoleCritic,
			signalbox.RoleAuditor, signalbox.RoleBusinessAnalyst},
		rules.KindRemediation: {signalbox.RoleRemediation, signalbox.RoleHealthAuditor},
		rules.KindExpert:      {signalbox.RoleExpert, signalbox.RoleExpertCreator},
	}[w.Task.Kind]
	if slices.Contains(roles, role) {
		return nil
	}
	hint := "no agent works on it"
	if len(roles) > 0 {
		hint = fmt.Sprintf("the roles that work on it are: %s",
			strings.Trim(fmt.Sprint(roles), "[]"))
	}
	return signalbox.CodeUsage.Errorf(hint,
		"no %s works on '%s', which is a %s", role, work, w.Task.Kind)
}

// exitFor returns the exit signal that the prompt offers, "" if there is none: exit signals are
// disabled or need a key, or end no phase of the role.
func (p *Builder) exitFor(role signalbox.Role, key string) string {
	phase, ends := map[signalbox.Role]signalbox.Phase{
		signalbox.RoleBusinessAnalyst: signalbox.PhaseDraft,
		signalbox.RoleDeveloper:       signalbox.PhaseImplementation,
		signalbox.RoleCritic:          signalbox.PhaseReview,
		signalbox.RoleAuditor:         signalbox.PhaseReadyForMerge,
	}[role]
	if !p.opts.ExitSignals || key != "" || !ends {
		return ""
	}
	exit, _ := json.Marshal(signalbox.NewExit(phase, signalbox.ExitCompleted))
	return string(exit)
}

// signalsFor returns the signals that the prompt offers: EXPERT_REQUEST only if there is an expert
// to ask, or an agent that creates one.
func (p *Builder) signalsFor(role signalbox.Role, work, key string,
	experts []rules.Expert) []prompts.Signal {
	signals := prompts.SignalsFor(role, work, key)
	if _, creates := p.box.Config.Roles[signalbox.RoleExpertCreator]; creates || len(experts) > 0 {
		return signals
	}
	return slices.DeleteFunc(signals,
		func(sig prompts.Signal) bool { return sig.Name == signalbox.NameExpertRequest })
}

// customTemplate returns the template that the configuration names for a role, or "" if it names
// none. dir is the folder of the box.
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
		return "", signalbox.CodeUsage.Errorf(
			"name an existing file, or remove the setting to use the built-in prompt",
			"prompt template of %s: %w", role, err)
	}
	return string(template), nil
}

// CheckTemplate reports a mistake in the template that the configuration names for a role, if it
// names one. dir is the folder of the box. keyed means that agents get keys.
func CheckTemplate(c *config.Config, dir string, role signalbox.Role, keyed bool) error {
	custom, err := customTemplate(c, dir, role)
	if err != nil || custom == "" {
		return err
	}
	return prompts.Validate(role, custom, keyed)
}

// collect collects what is known about the work.
func (p *Builder) collect(ctx context.Context, role signalbox.Role, work string) (
	*prompts.Data, error) {
	var w, asker *rules.Work
	var questions []*rules.Question
	var experts []rules.Expert
	var accepted []string
	var current loadedPlan
	p.box.Engine.View(func(s *rules.State) {
		if w, _ = s.Work(work); w != nil && w.Task != nil && w.Task.Asker != "" {
			asker, _ = s.Work(w.Task.Asker)
		}
		questions, experts, accepted = s.Questions(), s.Experts(), s.AcceptedFailures()
		current.id = s.PlanID()
		current.text, current.name, _ = s.Plan()
	})
	if w == nil || w.Task == nil {
		return nil, signalbox.CodeNotFound.Errorf("list the work items with signalbox work list",
			"there is no planned work '%s'", work)
	}
	t := w.Task
	d := &prompts.Data{Role: role, Work: work, Title: w.Title, Phase: string(w.Phase),
		Protected:         p.box.Config.Protected,
		ProtectedExisting: p.box.Config.ProtectedExisting, BaseBranch: p.opts.Branch,
		Overlaps: prompts.Lines(t.Overlaps), Context: t.Context, Differs: t.Differs,
		Asker: t.Asker, Expert: t.Expert}
	switch role {
	case signalbox.RoleCritic, signalbox.RoleAuditor, signalbox.RoleHealthAuditor:
		d.Commit, d.Base = t.Commit, t.Base
	}
	for _, check := range p.box.Config.Checks {
		d.Checks = append(d.Checks, prompts.Check{Name: check.Name, Command: check.Command,
			Mutation: check.IsMutation()})
	}
	for _, e := range p.box.Config.Environments {
		d.Environments = append(d.Environments, e.Name)
	}
	if len(t.Failing) > 0 {
		d.Results = t.Failing
	}
	d.Accepted = accepted
	if err := p.loadHidden(ctx, d); err != nil {
		return nil, err
	}
	if err := p.loadTexts(ctx, d, w, asker); err != nil {
		return nil, err
	}
	about := t
	if asker != nil {
		about = asker.Task
	}
	if err := p.loadPlan(ctx, d, current, about.Plan); err != nil {
		return nil, err
	}
	for _, q := range questions {
		if !q.Open() && !q.Withdrawn && (q.Work == work || asker != nil && q.Work == asker.ID) {
			d.Answers = append(d.Answers, prompts.Answer{Question: q.Text, Answer: q.Answer})
		}
	}
	d.Experts = matchingExperts(experts, d)
	if e, known := p.box.Config.ExpertNamed(t.Expert); known {
		d.Instructions = e.Instructions
	}
	return d, nil
}

// loadHidden fills in what reviewers must know about invisible characters in the commit. For a
// prompt that is only shown, the commit may not be here.
func (p *Builder) loadHidden(ctx context.Context, d *prompts.Data) (err error) {
	if d.Commit == "" || d.Base == "" || p.box.Config.Workspace.Shared() {
		return nil
	}
	root := cmp.Or(p.opts.Root, filepath.Dir(p.box.Dir))
	d.Hidden, err = workspace.Hidden(ctx, root, d.Base, d.Commit)
	if p.opts.Root == "" {
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

// loadPlan fills in the title and the introduction of the plan with an id. current is the plan that
// was loaded last. The state does not have the texts of the others, so they are looked up in the
// ledger, once: a plan that is loaded again becomes the current one.
func (p *Builder) loadPlan(ctx context.Context, d *prompts.Data, current loadedPlan,
	id string) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	found, known := p.plans[id]
	if id == current.id && found.text != current.text {
		found, known = current, false
	}
	if !known {
		var err error
		if id != current.id {
			if found, err = p.findPlan(ctx, id); err != nil {
				return err
			}
		}
		source, err := stored.Blob(ctx, p.box, found.text)
		if err != nil {
			return err
		}
		// A plan that is not accepted any more, or was redacted, has no introduction.
		if parsed, err := plan.Parse(id, source, &plan.Options{Drafts: true}); err == nil {
			found.introduction = parsed.Introduction
		}
		p.plans[id] = found
	}
	d.Plan, d.Introduction = text.OneLine(found.name), found.introduction
	return nil
}

// findPlan finds a plan in the ledger. The result has no text if there is none.
func (p *Builder) findPlan(ctx context.Context, id string) (found loadedPlan, err error) {
	for e, err := range p.box.Events(ctx, 0) {
		if err != nil {
			return found, err
		}
		var opened rules.PlanOpened
		if e.Type == rules.TypePlanOpened && json.Unmarshal(e.Data, &opened) == nil &&
			opened.ID == id {
			found = loadedPlan{id: id, name: opened.Name, text: opened.Plan}
		}
	}
	return found, nil
}

// loadTexts fills in what is stored in blobs.
func (p *Builder) loadTexts(ctx context.Context, d *prompts.Data, w, asker *rules.Work) error {
	t := w.Task
	about, id := t, w.ID
	if asker != nil {
		about, id = asker.Task, asker.ID
		request, err := stored.SignalText(ctx, p.box, t.Text)
		if err != nil {
			return err
		}
		d.Request = request
	}
	if about.Kind == rules.KindTask {
		text, err := stored.Blob(ctx, p.box, about.Text)
		if err != nil {
			return err
		}
		if json.Unmarshal(text, &d.Task) != nil {
			d.Task.Work = string(text)
		}
		d.Task.ID = cmp.Or(d.Task.ID, id) // a task that was added has it from the ledger
	}
	if about.Parent != "" { // an agent wrote it
		prompts.Quote(&d.Task)
		d.Title = text.OneLine(d.Title)
	}
	var err error
	if d.Specification, err = stored.SignalText(ctx, p.box, about.Specification); err != nil {
		return err
	}
	if d.Findings, err = stored.Findings(ctx, p.box, t.Findings,
		stored.NewestCorrection(t)); err != nil {
		return err
	}
	addPoints(d, t)
	if err := p.loadWords(ctx, d, t); err != nil {
		return err
	}
	if conflict := t.Conflict; conflict != nil && d.Author() {
		d.Conflicts = prompts.Lines(conflict.Files)
		d.Unresolved = prompts.Lines(conflict.Unresolved)
		if d.ConflictNotes, err = stored.SignalText(ctx, p.box, conflict.Body); err != nil {
			return err
		}
		// it is in the notes
		d.Findings = slices.DeleteFunc(d.Findings,
			func(f prompts.Finding) bool { return f.Cause == rules.FindingConflict })
	}
	if d.Issues, err = stored.Findings(ctx, p.box, t.Issues, 0); err != nil {
		return err
	}
	for _, a := range t.Advice {
		text, err := stored.SignalText(ctx, p.box, a.Body)
		if err != nil {
			return err
		}
		asked, err := p.requestText(ctx, a.Work)
		if err != nil {
			return err
		}
		d.Advice = append(d.Advice, prompts.Advice{Expert: a.Expert, Text: text, Asked: asked})
	}
	return nil
}

// requestText returns what a request to an expert asked.
func (p *Builder) requestText(ctx context.Context, request string) (string, error) {
	var w *rules.Work
	p.box.Engine.View(func(s *rules.State) { w, _ = s.Work(request) })
	if w == nil || w.Task == nil {
		return "", nil
	}
	return stored.SignalText(ctx, p.box, w.Task.Text)
}

// loadWords fills in what the human asked for when sending the work back, and the messages that no
// agent has got yet.
func (p *Builder) loadWords(ctx context.Context, d *prompts.Data, t *rules.Task) (err error) {
	corrections := t.Corrections
	if d.Author() { // the others are among the findings
		corrections = slices.DeleteFunc(slices.Clone(corrections), func(f rules.Finding) bool {
			return slices.ContainsFunc(t.Findings,
				func(open rules.Finding) bool { return open.Seq == f.Seq })
		})
	}
	if d.Corrections, err = stored.Findings(ctx, p.box, corrections,
		stored.NewestCorrection(t)); err != nil {
		return err
	}
	for _, m := range t.Messages {
		if !m.IsFor(d.Role) {
			continue
		}
		text, err := stored.Words(ctx, p.box, m.Text, m.Body)
		if err != nil {
			return err
		}
		d.Messages = append(d.Messages, prompts.Message{Actor: m.Actor, Text: text, Seq: m.Seq})
	}
	return nil
}

// maxSettled is how many findings that are settled a reviewer gets: the last ones.
const maxSettled = 30

// addPoints fills in what is known about findings. Developers get those of checks and merges with
// their output, and what the human wants before everything else, so they need not answer these.
func addPoints(d *prompts.Data, t *rules.Task) {
	if !d.Author() && !d.Reviewer() {
		return
	}
	for i := range t.Raised {
		f := &t.Raised[i]
		point := prompts.Point{ID: f.ID, Place: f.PlaceBeside(), Text: f.Text, State: string(f.State),
			Source: f.Source(), Reply: f.Reply, Upheld: f.Upheld}
		switch {
		case f.Cause == rules.FindingHuman || f.Cause == rules.ReworkChecks ||
			f.Cause == rules.ReworkMerge:
		case f.Open() && (d.Reviewer() || f.State != rules.FindingFixed):
			d.Open = append(d.Open, point)
		case f.State == rules.FindingWaived, d.Reviewer() && f.State == rules.FindingNote:
			d.Settled = append(d.Settled, point)
		}
	}
	d.Settled = d.Settled[max(0, len(d.Settled)-maxSettled):]
	switch d.Role {
	case signalbox.RoleCritic:
		d.Judged, d.OnlyNotes = t.ReviewedAt, t.Judgement == rules.JudgeAgain
	case signalbox.RoleAuditor:
		if d.Judged = t.AuditedAt; t.Judgement == rules.JudgeAudit {
			d.Decides = "notes"
			if slices.ContainsFunc(d.Open, func(p prompts.Point) bool {
				return p.State == string(rules.FindingDisputed)
			}) {
				d.Decides = "dispute"
			}
		}
	}
}

// matchingExperts returns the experts that have a keyword in the task, or no keywords at all:
// otherwise no agent would learn of them.
func matchingExperts(experts []rules.Expert, d *prompts.Data) (found []rules.Expert) {
	words := strings.ToLower(strings.Join([]string{d.Title, d.Task.Work, d.Task.Notes,
		d.Specification, strings.Join(d.Task.Criteria, " "), strings.Join(d.Task.Files, " ")}, " "))
	for _, e := range experts {
		if len(e.Keywords) == 0 || slices.ContainsFunc(e.Keywords,
			func(k string) bool { return strings.Contains(words, strings.ToLower(k)) }) {
			found = append(found, e)
		}
	}
	return found
}
