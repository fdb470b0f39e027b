package crew

import (
	"bytes"
	"context"
	"embed"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"text/template"

	"signalbox"
	"signalbox/internal/core/rules"
	"signalbox/internal/run/plan"
)

// The prompts: one for each role, and parts that they share. A file of the configuration can take the place of a role's.
//
//go:embed prompts/*.md
var prompts embed.FS

// Brief is what a prompt's template is given.
type Brief struct {
	Role signalbox.Role
	// Work is the id that the signals have to name, and Dir the folder that the agent works in.
	Work, Title, Phase, Dir string
	// Task is the task of the plan: the one that the work is, or that an expert is asked about.
	Task plan.Task
	// Specification is what a business analyst made of the task, "" if there is none.
	Specification string
	Checks        []BriefCheck
	Environments  []string
	Protected     []string
	Experts       []rules.Expert
	Findings      []BriefFinding
	Answers       []BriefAnswer
	Advice        []BriefAdvice
	Overlaps      []string
	Conflicts     []string
	// Context is what went wrong with the agent before.
	Context string
	// Results are the checks that fail, and Differs what the developer said about the checks that is not so, for those who
	// review.
	Results, Differs []string
	// Issues are what a remediation is about.
	Issues []BriefFinding
	// Request is what an expert is asked, by the task Asker.
	Request, Asker, Expert, Instructions string
	// Signals are the exact signals that this role may send, with the work filled in.
	Signals []BriefSignal
	// Again is set when the turn before said nothing that counts: Output is the end of it, and Wrong what was wrong.
	Again         bool
	Output, Wrong string
}

// Parts of a Brief.
type (
	BriefCheck   struct{ Name, Command string }
	BriefFinding struct{ Cause, Work, Summary, Text string }
	BriefAnswer  struct{ Question, Answer string }
	BriefAdvice  struct{ Expert, Text string }
	BriefSignal  struct {
		Line, When string
		Labels     []string
	}
)

// Prompt builds the prompt for a role about work.
func (c *Crew) Prompt(ctx context.Context, role signalbox.Role, work, dir string, last lastTurn) ([]byte, error) {
	return c.prompter().prompt(ctx, role, work, dir, last)
}

func (p *prompter) prompt(ctx context.Context, role signalbox.Role, work, dir string, last lastTurn) ([]byte, error) {
	brief, err := p.brief(ctx, role, work)
	if err != nil {
		return nil, err
	}
	brief.Context = strings.TrimPrefix(brief.Context+"\n\n"+last.disorder, "\n\n")
	brief.Dir, brief.Conflicts, brief.Again, brief.Output, brief.Wrong = dir, lines(last.conflicts), last.again, last.output, last.advice
	return p.render(role, brief)
}

func (p *prompter) render(role signalbox.Role, brief *Brief) ([]byte, error) {
	t, err := p.template(role)
	if err != nil {
		return nil, err
	}
	var text bytes.Buffer
	if err := t.Execute(&text, brief); err != nil {
		return nil, &signalbox.Error{Code: signalbox.CodeUsage, Err: fmt.Errorf("the prompt of %s: %w", role, err),
			Hint: "mend the template that the configuration names; docs/prompts.md has the fields"}
	}
	return text.Bytes(), nil
}

func (p *prompter) template(role signalbox.Role) (*template.Template, error) {
	t := template.New("prompt").Funcs(template.FuncMap{"indent": indent, "line": line, "join": strings.Join})
	t, err := t.ParseFS(prompts, "prompts/_*.md")
	if err != nil {
		return nil, err
	}
	name := p.config.RoleOf(role).Prompt
	var text []byte
	if name == "" {
		text, err = prompts.ReadFile("prompts/" + string(role) + ".md")
	} else {
		if !filepath.IsAbs(name) {
			name = filepath.Join(p.dir, name)
		}
		text, err = os.ReadFile(name)
	}
	if err != nil {
		return nil, &signalbox.Error{Code: signalbox.CodeUsage, Err: fmt.Errorf("the prompt of %s: %w", role, err), Hint: "name a file that is there, or none for the prompt that is built in"}
	}
	t, err = t.Parse(string(text))
	if err != nil {
		return nil, &signalbox.Error{Code: signalbox.CodeUsage, Err: fmt.Errorf("the prompt of %s: %w", role, err), Hint: "mend the template; docs/prompts.md says how they are written"}
	}
	return t, nil
}

// line makes one line of a text.
func line(text string) string { return strings.Join(strings.Fields(text), " ") }

var lineEnds = strings.NewReplacer("\r\n", "\n", "\r", "\n")

// indent makes a block of a text that nothing in it can end.
func indent(text string) string {
	lines := strings.Split(strings.TrimRight(lineEnds.Replace(text), "\n"), "\n")
	for i, line := range lines {
		if line != "" {
			lines[i] = "    " + line
		}
	}
	return strings.Join(lines, "\n")
}

// lines makes one line of each text.
func lines(texts []string) (list []string) {
	for _, text := range texts {
		list = append(list, line(text))
	}
	return list
}

// fence makes of a task that an agent wrote one of which nothing can pass for a part of the prompt.
func fence(t *plan.Task) {
	t.Title, t.Phase = line(t.Title), line(t.Phase)
	t.Criteria, t.Reading, t.Files, t.Environments = lines(t.Criteria), lines(t.Reading), lines(t.Files), lines(t.Environments)
	for _, text := range []*string{&t.Work, &t.Notes} {
		if *text != "" {
			*text = indent(*text)
		}
	}
}

// brief collects what is known about the work.
func (p *prompter) brief(ctx context.Context, role signalbox.Role, work string) (*Brief, error) {
	var w, asker *rules.Work
	var questions []*rules.Question
	var experts []rules.Expert
	p.view(func(s *rules.State) {
		if w, _ = s.Work(work); w != nil && w.Task != nil && w.Task.Asker != "" {
			asker, _ = s.Work(w.Task.Asker)
		}
		questions, experts = s.Questions(), s.Experts()
	})
	if w == nil || w.Task == nil {
		return nil, &signalbox.Error{Code: signalbox.CodeNotFound, Err: fmt.Errorf("there is no planned work '%s'", work), Hint: "see what is there with signalbox work list"}
	}
	t := w.Task
	b := &Brief{Role: role, Work: work, Title: w.Title, Phase: string(w.Phase), Protected: p.config.Protected,
		Overlaps: lines(t.Overlaps), Context: t.Context, Differs: t.Differs, Signals: signalsFor(role, work), Asker: t.Asker, Expert: t.Expert}
	for _, check := range p.config.Checks {
		b.Checks = append(b.Checks, BriefCheck{check.Name, check.Command})
	}
	for _, e := range p.config.Environments {
		b.Environments = append(b.Environments, e.Name)
	}
	if len(t.Failing) > 0 {
		b.Results = t.Failing
	}
	if err := p.texts(ctx, b, w, asker); err != nil {
		return nil, err
	}
	for _, q := range questions {
		if !q.Open() && !q.Withdrawn && (q.Work == work || asker != nil && q.Work == asker.ID) {
			b.Answers = append(b.Answers, BriefAnswer{q.Text, q.Answer})
		}
	}
	b.Experts = matching(experts, b)
	if e, known := p.config.ExpertNamed(t.Expert); known {
		b.Instructions = e.Instructions
	}
	return b, nil
}

// texts fills in what is kept in blobs.
func (p *prompter) texts(ctx context.Context, b *Brief, w, asker *rules.Work) error {
	t := w.Task
	about := t
	if asker != nil {
		about = asker.Task
		request, err := p.signalText(ctx, t.Text)
		if err != nil {
			return err
		}
		b.Request = request
	}
	if about.Kind == rules.KindTask {
		text, err := p.blob(ctx, about.Text)
		if err != nil {
			return err
		}
		if json.Unmarshal(text, &b.Task) != nil {
			b.Task.Work = string(text)
		}
	}
	if about.Parent != "" { // an agent wrote it
		fence(&b.Task)
		b.Title = line(b.Title)
	}
	var err error
	if b.Specification, err = p.signalText(ctx, about.Specification); err != nil {
		return err
	}
	if b.Findings, err = p.findings(ctx, t.Findings); err != nil {
		return err
	}
	if b.Issues, err = p.findings(ctx, t.Issues); err != nil {
		return err
	}
	for _, a := range t.Advice {
		text, err := p.signalText(ctx, a.Body)
		if err != nil {
			return err
		}
		b.Advice = append(b.Advice, BriefAdvice{a.Expert, text})
	}
	return nil
}

func (p *prompter) findings(ctx context.Context, findings []rules.Finding) (list []BriefFinding, err error) {
	for _, f := range findings {
		text, err := p.signalText(ctx, f.Body)
		if err != nil {
			return nil, err
		}
		list = append(list, BriefFinding{f.Cause, f.Work, f.Summary, text})
	}
	return list, nil
}

// signalText is what a stored signal said, as it was written; other texts are as they are.
func (p *prompter) signalText(ctx context.Context, digest signalbox.Hash) (string, error) {
	text, err := p.blob(ctx, digest)
	if err != nil {
		return "", err
	}
	if fields := storedBody(text); fields != nil {
		return bodyText(fields), nil
	}
	return string(text), nil
}

// matching are the experts of whom a keyword is in the task.
func matching(experts []rules.Expert, b *Brief) (found []rules.Expert) {
	text := strings.ToLower(strings.Join([]string{b.Title, b.Task.Work, b.Task.Notes, b.Specification, strings.Join(b.Task.Criteria, " "), strings.Join(b.Task.Files, " ")}, " "))
	for _, e := range experts {
		for _, keyword := range e.Keywords {
			if strings.Contains(text, strings.ToLower(keyword)) {
				found = append(found, e)
				break
			}
		}
	}
	return found
}
