package running

import (
	"errors"
	"fmt"
	"io"

	"signalbox"
	"signalbox/internal/cli"
	"signalbox/internal/run/plan"
)

type PlanCommands struct {
	New    planNewCommand    `cmd:"" help:"Write a plan for you to edit."`
	Import planImportCommand `cmd:"" help:"Make a plan from GitHub issues."`
	Check  planCheckCommand  `cmd:"" help:"Check a plan for faults."`
	Show   planShowCommand   `cmd:"" help:"Show the tasks of a plan and their dependencies."`
	Update planUpdateCommand `cmd:"" help:"Load a changed plan while a run works on it."`

	AddNotes planAddNotesCommand `cmd:"" help:"Make tasks of what reviewers noted about merged work."`
}

func (PlanCommands) Help() string {
	return `A plan is a Markdown file with tasks for agents. "### Phase 1: name" starts a phase, and "#### Task T1: title" starts a task. A task has the fields **Work**, **Acceptance Criteria** (a list) and **Blocked By** (ids, or none), and optionally **Required Reading**, **Environments**, **Target Files**, **Priority** (high, medium, low or a number) and **Budget** (such as 200000 tokens, $5, 30m). Each field name is followed by a colon.

Examples:

    signalbox plan new plan.md
    signalbox plan check plan.md
    signalbox plan show plan.md
    signalbox plan show --svg plan.md > plan.svg`
}

// planFile has the arguments of both commands.
type planFile struct {
	File   string `arg:"" help:"The plan; - means standard input."`
	Drafts bool   `help:"Allow tasks without acceptance criteria, which a business analyst will expand."`
}

// read reads and parses the plan.
func (f *planFile) read(p *cli.Program) (*plan.Plan, error) {
	in, err := p.Open(&f.File)
	if err != nil {
		return nil, err
	}
	defer in.Close()
	// one byte over the limit is enough for Parse to refuse it
	text, err := io.ReadAll(io.LimitReader(in, plan.MaxBytes+1))
	if err != nil {
		return nil, err
	}
	return plan.Parse(in.Name, text, &plan.Options{Drafts: f.Drafts})
}

// planError prints the faults of a plan if there are several, and returns an error that summarizes
// them.
func planError(p *cli.Program, err error) error {
	wrong := (*plan.Error)(nil)
	if !errors.As(err, &wrong) || len(wrong.Faults) < 2 {
		return err
	}
	for i, fault := range wrong.Faults {
		p.Say("signalbox", wrong.Describe(i))
		p.Say("hint", fault.Hint)
	}
	return signalbox.CodeUsage.Errorf("correct them, then run signalbox plan check",
		"%s has %d faults", wrong.File, len(wrong.Faults))
}

type planCheckCommand struct {
	planFile
	JSON bool `name:"json" help:"Print one JSON object, even if the plan has faults."`
}

func (planCheckCommand) Help() string {
	return `Checks a plan and prints how many tasks it has, how many can start immediately, and the length of the longest chain of dependencies. All faults are listed on standard error, with the line and what to write instead, and the exit status is 2. A task without acceptance criteria is a fault, unless you allow drafts with --drafts.

Examples:

    signalbox plan check plan.md
    signalbox plan check --drafts plan.md
    cat plan.md | signalbox plan check --json -`
}

// checkedPlan is the JSON answer of plan check.
type checkedPlan struct {
	OK           bool         `json:"ok"`
	Tasks        int          `json:"tasks"`
	Phases       int          `json:"phases"`
	Startable    int          `json:"startable"`
	LongestChain int          `json:"longest_chain"`
	Faults       []plan.Fault `json:"faults"`
}

func (c *planCheckCommand) Run(p *cli.Program) error {
	checked, err := c.read(p)
	if c.JSON {
		return planError(p, errors.Join(printCheckedPlan(p, checked, err), err))
	}
	if err != nil {
		return planError(p, err)
	}
	_, err = fmt.Fprintf(p.Out, "ok: %s\n", checked.Summary())
	return err
}

func printCheckedPlan(p *cli.Program, checked *plan.Plan, err error) error {
	answer := checkedPlan{OK: err == nil, Faults: []plan.Fault{}}
	wrong := (*plan.Error)(nil)
	switch {
	case err == nil:
		answer.Tasks, answer.Phases = len(checked.Tasks), len(checked.Phases())
		answer.Startable, answer.LongestChain = len(checked.Startable()),
			len(checked.LongestChain())
	case errors.As(err, &wrong):
		answer.Faults = wrong.Faults
	default:
		return nil // the file could not be read, so there is no answer about a plan
	}
	return p.PrintJSON(answer, "")
}

type planShowCommand struct {
	planFile
	SVG  bool `name:"svg" xor:"form" help:"Print an SVG picture."`
	JSON bool `name:"json" xor:"form" help:"Print the parsed plan as one JSON object."`
}

func (planShowCommand) Help() string {
	return `Shows the graph of a plan: the tasks of each phase, which tasks each one waits for and unblocks, the longest chain, and the order in which a single agent would do them. --svg prints a picture that is readable on light and dark backgrounds. --json prints the plan as signalbox parsed it.

Examples:

    signalbox plan show plan.md
    signalbox plan show --svg plan.md > plan.svg
    signalbox plan show --json plan.md`
}

func (c *planShowCommand) Run(p *cli.Program) error {
	shown, err := c.read(p)
	switch {
	case err != nil:
		return planError(p, err)
	case c.JSON:
		return p.PrintJSON(shown, "")
	case c.SVG:
		_, err = p.Out.Write(shown.SVG())
	default:
		_, err = p.Out.WriteString(shown.Text())
	}
	return err
}
