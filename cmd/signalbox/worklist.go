package main

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"signalbox"
	"signalbox/internal/core/box"
	"signalbox/internal/core/rules"
	"signalbox/internal/run/agentsocket"
	"signalbox/internal/run/crew"
	"signalbox/internal/run/inspect"
	"signalbox/internal/run/inspect/render"
	"signalbox/internal/run/show"
	"signalbox/internal/text"
)

type workListCommand struct {
	boxFlag
	JSON bool `name:"json" help:"Print a JSON array."`
}

func (workListCommand) Help() string {
	return `Lists all work items in the order in which they were opened, with phase, holder, expiry of the lease, and title.

Examples:

    signalbox work list
    signalbox work list --json`
}

type workShowCommand struct {
	boxFlag
	ID   string `arg:"" help:"The work item."`
	JSON bool   `name:"json" help:"Print one JSON object."`
}

func (workShowCommand) Help() string {
	return `Shows a work item: its phase, why it is blocked, who holds it, and all sessions that held it. It also shows the findings that must be fixed, and the checks that failed with the end of their output. For a task of a plan it shows the open questions, the agents, what they cost, the results of all checks, the branch and the commit too. signalbox logs shows what the agents wrote, and signalbox diff what they changed.

Examples:

    signalbox work show task-1
    signalbox work show task-1 --json`
}

func (c *workListCommand) Run(p *program) error {
	return p.withReadOnlyBox(c.boxFlag, func(_ context.Context, b *box.Box) error {
		list, now := []rules.WorkView{}, time.Now()
		b.Engine.View(func(s *rules.State) {
			for w := range s.Works() {
				list = append(list, w.View(now))
			}
		})
		if c.JSON {
			return p.printJSON(list, "")
		}
		if len(list) == 0 {
			p.notef("there is no work yet; add a work item with signalbox work open")
			return nil
		}
		return p.printWorkList(list)
	})
}

func (p *program) printWorkList(list []rules.WorkView) error {
	t := tabwriter.NewWriter(p.out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "WORK\tPHASE\tHELD BY\tUNTIL\tTITLE")
	for _, w := range list {
		holder, until := "-", "-"
		if w.Lease != nil {
			holder = string(w.Lease.Role) + " " + w.Lease.Session
			until = w.Lease.Expires.Local().Format(time.DateTime)
		}
		phase := string(w.Phase)
		if w.BlockedFrom != nil {
			phase += " from " + string(*w.BlockedFrom)
		}
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s\n", w.ID, phase, holder, until, printable(w.Title))
	}
	return t.Flush()
}

func (c *workShowCommand) Run(p *program) error {
	if p.socket() != "" {
		return c.askRun(p)
	}
	return p.withReadOnlyBox(c.boxFlag, func(ctx context.Context, b *box.Box) error {
		var w *rules.Work
		var err error
		b.Engine.View(func(s *rules.State) { w, err = s.Find(c.ID) })
		if err != nil {
			return err
		}
		details, err := inspect.ReadDetails(ctx, b, w, time.Now())
		if err != nil {
			return err
		}
		if c.JSON {
			return p.printJSON(details, "")
		}
		return p.printDetails(details)
	})
}

// askRun shows the work item of an agent of a run, which asks the run for it.
func (c *workShowCommand) askRun(p *program) error {
	request := p.request(agentsocket.CallShow, p.getenv(sessionVariable), 0)
	request.Work = c.ID
	var details crew.WorkDetails
	if err := agentsocket.Invoke(context.Background(), p.socket(), request, &details); err != nil {
		return err
	}
	if c.JSON {
		return p.printJSON(details, "")
	}
	return p.printWorkItem(details)
}

// printWorkItem prints what an agent may know of a work item.
func (p *program) printWorkItem(w crew.WorkDetails) error {
	return p.printDetails(inspect.NewDetails(w))
}

func (p *program) printDetails(w inspect.Details) error {
	rows := [][2]string{{"work", w.ID}, {"title", w.Title}, {"phase", string(w.Phase)}}
	if w.BlockedFrom != nil {
		rows = append(rows, [2]string{"blocked from", string(*w.BlockedFrom)}, [2]string{"because", *w.Notes})
		if w.NotesBlob != (signalbox.Hash{}) {
			rows = append(rows, [2]string{"notes", "signalbox blob get " + w.NotesBlob.String()})
		}
	}
	rows = append(rows, [2]string{"ref", w.Ref}, [2]string{"checked", describeChecks(w.Checks)})
	rows = append(rows, describeTask(&w)...)
	describe := func(l *signalbox.Lease, end string) string {
		return fmt.Sprintf("%s %s (%s), epoch %d, %s %s", l.Role, l.Session, l.Actor, l.Epoch, end, l.Expires.Local().Format(time.DateTime))
	}
	if w.Lease != nil {
		rows = append(rows, [2]string{"held by", describe(w.Lease, "until")})
	}
	if w.Expired != nil {
		rows = append(rows, [2]string{"was held by", describe(w.Expired, "expired at")})
	}
	rows = slices.DeleteFunc(rows, func(row [2]string) bool { return row[1] == "" })
	for _, row := range rows {
		fmt.Fprintf(p.out, "%-13s %s\n", row[0], printable(row[1]))
	}
	if len(w.Sessions) > 0 {
		fmt.Fprintln(p.out)
		if err := p.printSessions(w.Sessions); err != nil {
			return err
		}
	}
	if err := p.printMatrix(&w); err != nil {
		return err
	}
	return p.printTroubles(w.Troubles)
}

// describeTask returns what is known only of planned work.
func describeTask(w *inspect.Details) (rows [][2]string) {
	if w.Task == nil {
		return nil
	}
	row := func(name, value string) { rows = append(rows, [2]string{name, value}) }
	row("branch", w.Branch)
	row("commit", w.Commit)
	if w.Merged != nil {
		row("merged as", w.Merged.Commit)
	}
	if u := w.Task.Usage; u.Tokens > 0 || u.CostMicros > 0 {
		cost := show.Tokens(u.Tokens) + " tokens"
		if u.EstimatedTokens > 0 {
			cost += " (partly estimated)"
		}
		if u.CostMicros > 0 {
			cost = show.Dollars(u.CostMicros) + ", " + cost
		}
		row("cost", fmt.Sprintf("%s, %s", cost, text.Count(w.Task.Attempts, "agent run")))
	}
	if w.Budget != nil {
		row("budget", render.Budget(*w.Budget))
	}
	return rows
}

// printMatrix prints the results of the checks, one line for each check and one column for each environment.
func (p *program) printMatrix(w *inspect.Details) error {
	if len(w.Matrix) == 0 {
		return nil
	}
	var checks, environments []string
	results := map[[2]string]string{}
	for _, r := range w.Matrix {
		if !slices.Contains(checks, r.Check) {
			checks = append(checks, r.Check)
		}
		if !slices.Contains(environments, r.Environment) {
			environments = append(environments, r.Environment)
		}
		took := (time.Duration(r.Millis) * time.Millisecond).Round(100 * time.Millisecond).String()
		results[[2]string{r.Check, r.Environment}] = fmt.Sprintf("✘ exit status %d in %s", r.Exit, took)
		if r.Passed {
			results[[2]string{r.Check, r.Environment}] = "✔ " + took
		}
	}
	fmt.Fprintln(p.out)
	t := tabwriter.NewWriter(p.out, 0, 0, 2, ' ', 0)
	head := "CHECK"
	if w.Checked != "" {
		head = fmt.Sprintf("CHECK at %.7s", w.Checked)
	}
	for _, environment := range environments {
		head += "\t" + printable(environment)
	}
	fmt.Fprintln(t, head)
	for _, check := range checks {
		line := printable(check)
		for _, environment := range environments {
			line += "\t" + cmp.Or(results[[2]string{check, environment}], "-")
		}
		fmt.Fprintln(t, line)
	}
	return t.Flush()
}

// describeChecks says on what the checks of work opened by hand last ran, and whether they passed; "" if they have not run.
func describeChecks(c *rules.LastChecks) string {
	if c == nil {
		return ""
	}
	result := "failed"
	if c.Passed {
		result = "passed"
	}
	switch {
	case c.OnBase:
		return fmt.Sprintf("%s, on the base branch at %s, because the work names no ref", result, c.Commit)
	case c.Commit != "":
		return fmt.Sprintf("%s, on %s at %s", result, c.Ref, c.Commit)
	case c.Ref != "":
		return "no, because of its ref"
	}
	return result
}

// printSessions prints the sessions, with the agents and what they cost if agents ran.
func (p *program) printSessions(sessions []inspect.Session) error {
	agents := slices.ContainsFunc(sessions, func(s inspect.Session) bool { return len(s.Turns) > 0 })
	t := tabwriter.NewWriter(p.out, 0, 0, 2, ' ', 0)
	head := "EPOCH\tSESSION\tROLE\tPHASE\tFROM\tTO\tENDED"
	if agents {
		head += "\tAGENT\tTOKENS\tCOST"
	}
	fmt.Fprintln(t, head)
	for _, s := range sessions {
		to, ended := "-", "-"
		if s.To != nil {
			to, ended = s.To.Local().Format(time.DateTime), string(*s.Ended)
		}
		line := fmt.Sprintf("%d\t%s\t%s\t%s\t%s\t%s\t%s", s.Epoch, s.Session, s.Role, s.Phase,
			s.From.Local().Format(time.DateTime), to, ended)
		if agents {
			tokens, cost := "-", "-"
			if s.Usage.Tokens > 0 {
				tokens = show.Tokens(s.Usage.Tokens)
			}
			if s.Usage.CostMicros > 0 {
				cost = show.Dollars(s.Usage.CostMicros)
			}
			line += fmt.Sprintf("\t%s\t%s\t%s", cmp.Or(printable(s.Agent()), "-"), tokens, cost)
		}
		fmt.Fprintln(t, line)
	}
	return t.Flush()
}

// by names the human who wrote something, if one did.
func by(actor string) string {
	if actor == "" {
		return ""
	}
	return ", " + actor
}

// printTroubles prints findings, failed checks, messages and open questions.
func (p *program) printTroubles(t crew.Troubles) error {
	for _, f := range t.Findings {
		fmt.Fprintf(p.out, "\nfinding of the %s%s\n", rules.FindingSource(f.Cause), by(f.Actor))
		p.printIndented(f.Summary)
		if len(t.FailedChecks) == 0 || !f.FromChecks() { // otherwise the failed checks below say the same
			p.printIndented(lastLines(f.Text))
		}
	}
	for _, c := range t.FailedChecks {
		fmt.Fprintf(p.out, "\ncheck %s failed in %s with exit status %d\n", printable(c.Check), printable(c.Environment), c.Exit)
		p.printIndented(c.Cause)
		lines := strings.Split(strings.TrimRight(c.Output, "\r\n"), "\n")
		if more := len(lines) - maxOutputLines; more > 0 {
			lines = append([]string{"…"}, lines[more:]...)
		}
		p.printIndented(strings.Join(lines, "\n"))
	}
	for _, m := range t.Messages {
		fmt.Fprintf(p.out, "\nmessage%s, which no agent has got yet\n", by(m.Actor))
		p.printIndented(m.Text)
	}
	if len(t.Questions) == 0 {
		return nil
	}
	fmt.Fprintln(p.out)
	return p.printQuestions(t.Questions)
}
