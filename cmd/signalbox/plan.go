package main

import (
	"errors"
	"fmt"
	"io"

	"signalbox"
	"signalbox/internal/run/plan"
)

type planCommands struct {
	Check planCheckCommand `cmd:"" help:"Say whether a plan can be run, and what is wrong with it."`
	Show  planShowCommand  `cmd:"" help:"Show which task waits for which."`
}

func (planCommands) Help() string {
	return `A plan is a Markdown file with the tasks that agents are to do. "### Phase 1: name" begins a phase, "#### Task T1: title" a task. Below it stand **Work**, **Acceptance Criteria** (a list), **Blocked By** (ids, or none), and, where needed, **Required Reading**, **Environments**, **Target Files**, **Priority** (high, medium, low or a number) and **Budget** (such as 200000 tokens, $5, 30m), each with a colon after it.

Examples:

    signalbox plan check plan.md
    signalbox plan show plan.md
    signalbox plan show --svg plan.md > plan.svg`
}

// planFile is what both commands read.
type planFile struct {
	File   string `arg:"" help:"The plan; - is standard input."`
	Drafts bool   `help:"Allow tasks without acceptance criteria, for a business analyst to expand."`
}

// read parses the file; errors speak of it by its name.
func (f *planFile) read(p *program) (*plan.Plan, error) {
	in, err := p.open(&f.File)
	if err != nil {
		return nil, err
	}
	defer in.Close()
	text, err := io.ReadAll(io.LimitReader(in, plan.MaxBytes+1)) // one byte over the limit is enough to refuse it
	if err != nil {
		return nil, err
	}
	return plan.Parse(in.name, text, &plan.Options{Drafts: f.Drafts})
}

// planError says all that is wrong with a plan, one fault after the other, and returns what is left to say.
func (p *program) planError(err error) error {
	wrong := (*plan.Error)(nil)
	if !errors.As(err, &wrong) || len(wrong.Faults) < 2 {
		return err
	}
	for i, fault := range wrong.Faults {
		p.say("signalbox", wrong.Describe(i))
		p.say("hint", fault.Hint)
	}
	return &signalbox.Error{Code: signalbox.CodeUsage, Err: fmt.Errorf("%s has %d faults", wrong.File, len(wrong.Faults)),
		Hint: "correct them, and check the plan again with signalbox plan check"}
}

type planCheckCommand struct {
	planFile
	JSON bool `name:"json" help:"Print one JSON object, also when the plan is refused."`
}

func (planCheckCommand) Help() string {
	return `Reads a plan and says how many tasks it has, how many can start at once, and how many follow each other on the longest chain. If something is wrong, everything that is wrong is listed on standard error, with the line and what to write instead, and the exit status is 2. A task without acceptance criteria is wrong, unless --drafts says that a business analyst will expand it.

Examples:

    signalbox plan check plan.md
    signalbox plan check --drafts plan.md
    cat plan.md | signalbox plan check --json -`
}

// checkedPlan is the answer for programs.
type checkedPlan struct {
	OK           bool         `json:"ok"`
	Tasks        int          `json:"tasks"`
	Phases       int          `json:"phases"`
	Startable    int          `json:"startable"`
	LongestChain int          `json:"longest_chain"`
	Faults       []plan.Fault `json:"faults"`
}

func (c *planCheckCommand) Run(p *program) error {
	checked, err := c.read(p)
	if c.JSON {
		return p.planError(errors.Join(p.printCheckedPlan(checked, err), err))
	}
	if err != nil {
		return p.planError(err)
	}
	_, err = fmt.Fprintf(p.out, "ok: %s\n", checked.Summary())
	return err
}

func (p *program) printCheckedPlan(checked *plan.Plan, err error) error {
	answer := checkedPlan{OK: err == nil, Faults: []plan.Fault{}}
	wrong := (*plan.Error)(nil)
	switch {
	case err == nil:
		answer.Tasks, answer.Phases = len(checked.Tasks), len(checked.Phases())
		answer.Startable, answer.LongestChain = len(checked.Startable()), len(checked.LongestChain())
	case errors.As(err, &wrong):
		answer.Faults = wrong.Faults
	default:
		return nil // the file could not be read; that is no answer about a plan
	}
	return p.printJSON(answer, "")
}

type planShowCommand struct {
	planFile
	SVG  bool `name:"svg" xor:"form" help:"Print a picture in SVG."`
	JSON bool `name:"json" xor:"form" help:"Print one JSON object with all that was read."`
}

func (planShowCommand) Help() string {
	return `Shows the graph of a plan: the tasks of each phase, what each waits for and what it unblocks, the longest chain, and the order in which one agent would do them. --svg makes a picture that stands alone, readable in light and dark; --json prints the plan as signalbox understood it.

Examples:

    signalbox plan show plan.md
    signalbox plan show --svg plan.md > plan.svg
    signalbox plan show --json plan.md`
}

func (c *planShowCommand) Run(p *program) error {
	shown, err := c.read(p)
	switch {
	case err != nil:
		return p.planError(err)
	case c.JSON:
		return p.printJSON(shown, "")
	case c.SVG:
		_, err = p.out.Write(shown.SVG())
	default:
		_, err = p.out.WriteString(shown.Text())
	}
	return err
}
