// Package prompts renders the prompt of an agent. A prompt is a function of a template and of Data:
// nothing here reads the ledger, the configuration or a file, so a prompt can be rendered again
// from what was recorded.
//
// There is one built-in template for each role, and parts that they share. Data contains text that
// agents, checks and people wrote; the templates indent it, so that no line of it can pass for a
// heading of the prompt or for a signal.
package prompts

import (
	"bytes"
	"embed"
	"fmt"
	"slices"
	"strings"
	"text/template"

	"signalbox"
	"signalbox/internal/core/rules"
	"signalbox/internal/run/plan"
	"signalbox/internal/text"
)

//go:embed templates/*.md
var templates embed.FS

// Data is what a template can use. docs/reference/prompts.md describes each field.
type Data struct {
	Role signalbox.Role
	// Work is the id that signals must name, and Dir the folder that the agent works in.
	Work, Title, Phase, Dir string
	// Task is the task of the plan: the work itself, or the task that an expert is asked about.
	Task plan.Task
	// Plan is the title of the plan, and Introduction its text before the first phase or task.
	Plan, Introduction string
	// Specification is what a business analyst wrote about the task, or "".
	Specification string
	Checks        []Check
	Environments  []string
	Protected     []string
	// ProtectedExisting are patterns of files that may be added, but not edited.
	ProtectedExisting []string
	Experts           []rules.Expert
	Findings          Findings
	Answers           []Answer
	Advice            []Advice
	Overlaps          []string
	// Corrections are what the human sent the work back with, the newest first: all of it, for
	// authors without what is among the findings. Messages are words of the human for this agent.
	Corrections Findings
	Messages    []Message
	// Conflicts are the files in which the work conflicts with the base. ConflictNotes says what
	// both sides did, and Unresolved lists the files in which an earlier author left conflict
	// markers.
	Conflicts, Unresolved []string
	ConflictNotes         string
	// Open are the findings that are open, with their ids, without those that the author finds
	// elsewhere in its prompt. Settled are those that reviewers should not raise again.
	Open, Settled []Point
	// Judged is the commit that an agent of this role judged before, "" if none did. OnlyNotes
	// means that another critic has rejected this commit, for notes only. Decides is why the
	// auditor decides instead of the critic: notes or dispute; "" if the work passed its review.
	Judged    string
	OnlyNotes bool
	Decides   string
	// Context is what went wrong with the previous agent.
	Context string
	// Commit is the commit to review, and Base the commit of the base that it is compared with.
	// Diff is a file with what changed. All are "" for authors.
	Commit, Base, Diff string
	// Hidden is a notice about invisible characters in what the commit changes, "" if there are
	// none.
	Hidden string
	// Steering are the files in Dir that are as on the base, because the work changes them and they
	// steer agents. There are none for authors.
	Steering []string
	// BaseBranch is the branch that work is merged into, "" if there is none.
	BaseBranch string
	// Results are the failing checks. Differs lists the developer's claims about the checks that
	// are false, for reviewers.
	Results, Differs []string
	// Accepted are the checks that may fail, because they fail on the base and the human accepted
	// that.
	Accepted []string
	// Issues are the problems that a remediation must fix.
	Issues Findings
	// Request is the question to an expert, and Asker the task that asks it.
	Request, Asker, Expert, Instructions string
	// Signals are the signals that this role may send, with the work and the key filled in.
	Signals []Signal
	// Key is the key that every signal must have, or "" if they need none.
	Key string
	// Exit is the exit signal with which the agent can end its phase, "" if it cannot send one.
	Exit string
	// Resumed is what the agent must know about the conversation that it continues; nil if it
	// starts a new one.
	Resumed *Resumption
	// Again reports that the previous turn had no result. Progressed reports that it had valid
	// signals nevertheless: it reported progress, or asked for files. Output is the end of that
	// turn, and Wrong the mistake.
	Again, Progressed bool
	Output, Wrong     string
}

// Parts of Data.
type (
	Check struct {
		Name, Command string
		// Mutation means that the command must fail for a broken line.
		Mutation bool
	}
	// Finding is from the human if it has an Actor. Summary is everything then, and Older means
	// that the human sent the work back again after it: the newer one counts where they differ.
	Finding struct {
		Cause, Work, Summary, Text, Actor string
		Older                             bool
	}
	// Point is a finding with what became of it. Reply is what its developer says, and Upheld means
	// that the answer to that is that it stands.
	Point struct {
		ID, Place, Text, Source, State, Reply string
		Upheld                                bool
	}
	// Resumption is why an agent continues its conversation. If nothing else applies, it was
	// interrupted. Back means that its work has come back, or was not finished in time, as TimedOut
	// says; Waited that it had to wait; Told that a message of the human interrupted it; Merged
	// that the base branch was merged into its folder since; Again that its last turn had no
	// result, which Data.Again is about.
	Resumption struct{ Back, TimedOut, Waited, Told, Merged, Again bool }
	// Findings is a list of findings.
	Findings []Finding
	// Message is from the human. Seq is its event on the ledger.
	Message struct {
		Actor, Text string
		Seq         uint64
	}
	Answer struct{ Question, Answer string }
	// Advice is what an expert answered. Asked is the request of an earlier agent.
	Advice struct{ Expert, Text, Asked string }
	Signal struct {
		Name, Line, When string
		Labels           []string
	}
)

// Source is what the finding comes from.
func (f Finding) Source() string { return rules.FindingSource(f.Cause) }

// AnyOlder reports whether one of the findings is older than another one of the human.
func (list Findings) AnyOlder() bool {
	return slices.ContainsFunc(list, func(f Finding) bool { return f.Older })
}

// Author reports whether the agent's changes to files are kept.
func (d *Data) Author() bool {
	return d.Role.IsAuthor()
}

// Reviewer reports whether the agent judges work that signalbox has already run the checks on.
func (d *Data) Reviewer() bool {
	return d.Role == signalbox.RoleCritic || d.Role == signalbox.RoleAuditor ||
		d.Role == signalbox.RoleHealthAuditor
}

// HumanFindings returns the findings with which the human sent the work back.
func (d *Data) HumanFindings() Findings { return d.findings(true) }

// OtherFindings returns the findings that are not from the human.
func (d *Data) OtherFindings() Findings { return d.findings(false) }

func (d *Data) findings(human bool) (found Findings) {
	for _, f := range d.Findings {
		if (f.Cause == rules.FindingHuman) == human {
			found = append(found, f)
		}
	}
	return found
}

// Render executes a role's template. An empty custom means the built-in template; a custom one may
// use the shared parts. If it does not show what the human wrote for this agent, that comes before
// it, so that no words get lost.
func Render(role signalbox.Role, custom string, data *Data) ([]byte, error) {
	t, err := parse(role, custom)
	if err != nil {
		return nil, err
	}
	var b bytes.Buffer
	for _, part := range data.wordsMissingIn(custom) {
		if err := t.ExecuteTemplate(&b, part, data); err != nil {
			return nil, templateError(role, err)
		}
	}
	if b.Len() > 0 {
		b.WriteByte('\n')
	}
	if err := t.Execute(&b, data); err != nil {
		return nil, templateError(role, err)
	}
	return b.Bytes(), nil
}

// RenderResumed returns the prompt for an agent that continues its conversation: only what is new,
// and how to end.
func RenderResumed(data *Data) ([]byte, error) {
	t, err := parse(data.Role, "{{template \"resumed\" .}}")
	if err != nil {
		return nil, err
	}
	var b bytes.Buffer
	if err := t.Execute(&b, data); err != nil {
		return nil, templateError(data.Role, err)
	}
	return b.Bytes(), nil
}

// wordsMissingIn returns the parts with what the human wrote for this agent that a custom template
// does not show.
func (d *Data) wordsMissingIn(custom string) (parts []string) {
	for _, words := range []struct {
		part    string
		applies bool
		shown   []string
	}{
		{"human", d.Author(), []string{`"findings"`, `"human"`, ".Findings", ".HumanFindings"}},
		{"corrections", d.Reviewer(), []string{`"known"`, `"corrections"`, ".Corrections"}},
		{"messages", true, []string{`"messages"`, ".Messages"}},
	} {
		if custom != "" && words.applies &&
			!slices.ContainsFunc(words.shown,
				func(name string) bool { return strings.Contains(custom, name) }) {
			parts = append(parts, words.part)
		}
	}
	return parts
}

// Validate reports what is wrong with a custom template, before any agent is started. It renders
// the template with a value in every field, so that every branch is executed. If keyed is set, the
// prompt must contain the key.
func Validate(role signalbox.Role, custom string, keyed bool) error {
	data := sample(role)
	text, err := Render(role, custom, data)
	if err == nil && keyed && !bytes.Contains(text, []byte(data.Key)) {
		return signalbox.CodeUsage.Errorf(`use {{template "signals" .}}, .Signals or .Key in it`,
			"prompt template of %s: it does not show the key that signals need",
			role)
	}
	return err
}

func parse(role signalbox.Role, custom string) (*template.Template, error) {
	t := template.New("prompt").Funcs(template.FuncMap{"indent": Indent, "line": text.OneLine,
		"join": strings.Join})
	t, err := t.ParseFS(templates, "templates/_*.md")
	if err != nil {
		return nil, err
	}
	if custom == "" {
		builtIn, err := templates.ReadFile("templates/" + string(role) + ".md")
		if err != nil {
			return nil, fmt.Errorf("no built-in prompt for %s: %w", role, err)
		}
		custom = string(builtIn)
	}
	if t, err = t.Parse(custom); err != nil {
		return nil, templateError(role, err)
	}
	return t, nil
}

func templateError(role signalbox.Role, err error) error {
	return signalbox.CodeUsage.Errorf(
		"fix the template; docs/reference/prompts.md lists its fields and parts",
		"prompt template of %s: %w",
		role, err)
}

// sample returns data with a value in every field.
func sample(role signalbox.Role) *Data {
	text := []string{"text"}
	finding := Findings{{Cause: "review", Work: "T0", Summary: "text", Text: "text"}}
	human := Findings{{Cause: rules.FindingHuman, Summary: "text", Actor: "text", Older: true}}
	const key = "sample-key"
	points := []Point{{"F1", "text", "text", "text", "text", "text", true}}
	return &Data{Role: role, Work: "T1", Title: "text", Phase: "IMPLEMENTATION", Dir: ".",
		Task: plan.Task{ID: "T1", Title: "text", Phase: "text", Work: "text", Criteria: text,
			BlockedBy: text, Reading: text, Environments: text,
			Files: text, Budget: &plan.Budget{}, Notes: "text"},
		Plan: "text", Introduction: "text", BaseBranch: "main",
		Specification: "text", Checks: []Check{{Name: "text", Command: "text"}}, Environments: text,
		Protected: text, ProtectedExisting: text,
		Experts:  []rules.Expert{{Name: "text", Gap: "text", Keywords: text}},
		Findings: append(human, finding...), Corrections: human,
		Messages: []Message{{"text", "text", 1}}, Answers: []Answer{{"text", "text"}},
		Advice: []Advice{{"text", "text", "text"}}, Overlaps: text, Conflicts: text,
		Unresolved: text, ConflictNotes: "text", Context: "text", Steering: text,
		Open: points, Settled: points, Judged: "text", OnlyNotes: true, Decides: "notes",
		Commit: "text", Base: "text", Diff: "text", Hidden: "text", Results: text,
		Differs: text, Accepted: text, Issues: finding,
		Request: "text", Asker: "T0", Expert: "text", Instructions: "text",
		Signals: SignalsFor(role, "T1", key), Key: key, Exit: "text", Resumed: &Resumption{},
		Again: true, Progressed: true, Output: "text", Wrong: "text"}
}

var lineEnds = strings.NewReplacer("\r\n", "\n", "\r", "\n")

// Indent indents each line of s by four spaces, which makes it a code block that nothing in s can
// end.
func Indent(s string) string {
	lines := strings.Split(strings.TrimRight(lineEnds.Replace(s), "\n"), "\n")
	for i, line := range lines {
		if line != "" {
			lines[i] = "    " + line
		}
	}
	return strings.Join(lines, "\n")
}

// Lines puts each of the texts on a single line.
func Lines(texts []string) (lines []string) {
	for _, s := range texts {
		lines = append(lines, text.OneLine(s))
	}
	return lines
}

// Quote changes a task that an agent wrote so that no part of it can pass for a part of the prompt.
func Quote(t *plan.Task) {
	t.Title, t.Phase = text.OneLine(t.Title), text.OneLine(t.Phase)
	t.Criteria, t.Reading, t.Files, t.Environments = Lines(t.Criteria), Lines(t.Reading),
		Lines(t.Files), Lines(t.Environments)
	for _, s := range []*string{&t.Work, &t.Notes} {
		if *s != "" {
			*s = Indent(*s)
		}
	}
}
