package render

import (
	"bytes"
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"signalbox"
	"signalbox/internal/core/rules"
	"signalbox/internal/run/inspect"
	"signalbox/internal/run/questions"
	"signalbox/internal/run/stored"
	"signalbox/internal/show"
	"signalbox/internal/text"
)

// detailsPrinter prints work items and questions.
type detailsPrinter struct {
	out io.Writer
	o   Options
}

// Details prints what is known about a work item.
func Details(out io.Writer, w *inspect.Details, o Options) error {
	p := detailsPrinter{out, o}
	p.rows([2]string{"work", w.ID}, [2]string{"title", w.Title})
	p.text(w)
	rows := [][2]string{{"phase", string(w.Phase)}}
	if w.BlockedFrom != nil {
		rows = append(rows, [2]string{"blocked from", string(*w.BlockedFrom)},
			[2]string{"because", *w.Notes})
		if w.NotesBlob != (signalbox.Hash{}) {
			rows = append(rows, [2]string{"notes", "signalbox blob get " + w.NotesBlob.String()})
		}
	}
	rows = append(rows, [2]string{"ref", w.Ref}, [2]string{"checked", describeChecks(w.Checks)})
	rows = append(rows, describeTask(w)...)
	describe := func(l *signalbox.Lease, end string) string {
		return fmt.Sprintf("%s %s (%s), epoch %d, %s %s", l.Role, l.Session, l.Actor, l.Epoch, end,
			l.Expires.In(p.o.zone()).Format(time.DateTime))
	}
	if w.Lease != nil {
		rows = append(rows, [2]string{"held by", describe(w.Lease, "until")})
	}
	if w.Expired != nil {
		rows = append(rows, [2]string{"was held by", describe(w.Expired, "expired at")})
	}
	p.rows(rows...)
	if len(w.Sessions) > 0 {
		fmt.Fprintln(p.out)
		if err := p.sessions(w.Sessions); err != nil {
			return err
		}
		p.logins(w.Sessions)
	}
	if err := p.matrix(w); err != nil {
		return err
	}
	if err := p.findings(w.FindingHistory); err != nil {
		return err
	}
	return p.troubles(w.Troubles)
}

// findings prints all findings ever, each with what became of it and what the developer said.
func (p *detailsPrinter) findings(list []rules.TaskFinding) error {
	if len(list) == 0 {
		return nil
	}
	rows := [][]string{{"FINDING", "PLACE", "FROM", "STATE"}}
	for i := range list {
		f := &list[i]
		rows = append(rows, []string{f.ID, text.Printable(cmp.Or(f.Place, "-")),
			f.Source() + criterion(f), f.Standing()})
	}
	fmt.Fprintln(p.out)
	lines, fits := show.Columns(rows, p.o.Width)
	for i, f := range append([]rules.TaskFinding{{}}, list...) {
		if fits {
			fmt.Fprintln(p.out, lines[i])
		} else {
			fmt.Fprintln(p.out, strings.Join(rows[i], "  "))
		}
		if i > 0 {
			p.indented(text.OneLine(f.Text))
		}
		if f.Reply != "" {
			p.indented("developer: " + text.OneLine(f.Reply))
		}
		if f.Waived != "" {
			p.indented("waived by " + text.OneLine(f.Waived))
		}
	}
	return nil
}

// criterion returns which acceptance criterion a finding names, for people.
func criterion(f *rules.TaskFinding) string {
	if f.Criterion == 0 {
		return ""
	}
	return fmt.Sprintf(", criterion %d", f.Criterion)
}

// rows prints names with their values. Those without a value are left out.
func (p *detailsPrinter) rows(rows ...[2]string) {
	for _, row := range rows {
		p.wrapped(text.Printable(row[1]), fmt.Sprintf("%-13s ", row[0]), strings.Repeat(" ", 14))
	}
}

// maxTextLines is how many lines of the text of a task are shown.
const maxTextLines = 30

// text prints what the plan asks for, between empty lines.
func (p *detailsPrinter) text(w *inspect.Details) {
	if w.Text == "" {
		return
	}
	var printed bytes.Buffer
	inner := detailsPrinter{&printed, p.o}
	inner.indented(strings.ReplaceAll(w.Text, "\t", "    "))
	lines := strings.Split(strings.TrimRight(printed.String(), "\n"), "\n")
	if more := len(lines) - maxTextLines; more > 0 {
		lines = append(lines[:maxTextLines],
			fmt.Sprintf("    … (%s: signalbox work show %s --json)", text.Count(more, "more line"),
				w.ID))
	}
	fmt.Fprintf(p.out, "\n%s\n\n", strings.Join(lines, "\n"))
}

// describeTask returns what is known only of planned work.
func describeTask(w *inspect.Details) (rows [][2]string) {
	if w.Task == nil {
		return nil
	}
	row := func(name, value string) { rows = append(rows, [2]string{name, value}) }
	row("branch", w.Branch)
	row("commit", w.Commit)
	if d := w.Delivered; d != nil {
		row("delivered", d.Commit)
		if d.Remote != "" {
			row("pushed to", d.Branch+" of "+d.Remote)
		}
		row("pull request", d.Request)
	}
	for _, by := range w.Task.DoneBy {
		if by.Known() {
			row(string(by.Role), by.String())
		}
	}
	if len(w.Task.Skipped) > 0 {
		row("skipped", strings.Join(w.Task.Skipped, ", ")+", as the plan says")
	}
	if w.Merged != nil {
		row("merged as", w.Merged.Commit)
	}
	if u := w.Task.Usage; u.Tokens > 0 || u.CostMicros > 0 {
		cost := show.Sum(show.Tokens(u.Tokens)+" tokens", u.UnknownTokens)
		if u.EstimatedTokens > 0 {
			cost += " (partly estimated)"
		}
		if u.CostMicros > 0 {
			cost = show.Sum(show.Dollars(u.CostMicros), u.UnknownCost) + ", " + cost
		}
		row("cost", fmt.Sprintf("%s, %s", cost, text.Count(w.Task.Attempts, "agent run")))
	}
	if w.Budget != nil {
		row("budget", Budget(*w.Budget))
	}
	return rows
}

// matrix prints the results of the checks, one line for each check and one column for each
// environment.
func (p *detailsPrinter) matrix(w *inspect.Details) error {
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
		took := show.Took(time.Duration(r.Millis) * time.Millisecond)
		results[[2]string{r.Check, r.Environment}] = fmt.Sprintf("✘ exit status %d in %s", r.Exit,
			took)
		if r.Passed {
			results[[2]string{r.Check, r.Environment}] = "✔ " + took
		}
	}
	fmt.Fprintln(p.out)
	head := "CHECK"
	if w.Checked != "" {
		head = fmt.Sprintf("CHECK at %.7s", w.Checked)
	}
	rows := [][]string{{head}}
	for _, environment := range environments {
		rows[0] = append(rows[0], text.Printable(environment))
	}
	for _, check := range checks {
		row := []string{text.Printable(check)}
		for _, environment := range environments {
			row = append(row, cmp.Or(results[[2]string{check, environment}], "-"))
		}
		rows = append(rows, row)
	}
	if lines, fits := show.Columns(rows, p.o.Width); fits {
		return p.lines(lines)
	}
	// There are too many environments for the terminal, so each result has a line of its own.
	fmt.Fprintln(p.out, head)
	for _, r := range w.Matrix {
		p.wrapped(fmt.Sprintf("%s on %s: %s", r.Check, r.Environment,
			results[[2]string{r.Check, r.Environment}]), "", "  ")
	}
	return nil
}

// lines prints lines as they are.
func (p *detailsPrinter) lines(lines []string) error {
	_, err := fmt.Fprintln(p.out, strings.Join(lines, "\n"))
	return err
}

// describeChecks says on what the checks of work opened by hand last ran, and whether they passed;
// "" if they have not run.
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
		return fmt.Sprintf("%s, on the base branch at %s, because the work names no ref", result,
			c.Commit)
	case c.Commit != "":
		return fmt.Sprintf("%s, on %s at %s", result, c.Ref, c.Commit)
	case c.Ref != "":
		return "no, because of its ref"
	}
	return result
}

// maxEnding is how many characters of the outcome of a session the table has.
const maxEnding = 40

// sessions prints the sessions, with the agents and what they cost if agents ran.
func (p *detailsPrinter) sessions(sessions []inspect.Session) error {
	agents := slices.ContainsFunc(sessions,
		func(s inspect.Session) bool { return len(s.Turns) > 0 })
	rows := [][]string{{"EPOCH", "SESSION", "ROLE", "PHASE", "FROM", "TO", "ENDED"}}
	if agents {
		rows[0] = append(rows[0], "AGENT", "TOKENS", "COST")
	}
	machines := slices.ContainsFunc(sessions,
		func(s inspect.Session) bool { return s.Machine != "" })
	if machines {
		rows[0] = append(rows[0], "MACHINE")
	}
	for _, s := range sessions {
		to, ended := "-", "-"
		if s.To != nil {
			to, ended = s.To.In(p.o.zone()).Format(time.DateTime), string(*s.Ended)
		}
		if s.To != nil && *s.Ended == rules.EndedReleased && s.Outcome != "" {
			ended = text.Shorten(show.OnScreen(s.Outcome), maxEnding)
		}
		row := []string{fmt.Sprint(s.Epoch), s.Session, string(s.Role), string(s.Phase), s.From.In(p.o.zone()).Format(time.DateTime), to, ended}
		if agents {
			tokens, cost := "-", "-"
			if s.Usage.Tokens > 0 {
				tokens = show.Sum(show.Tokens(s.Usage.Tokens), s.Usage.UnknownTokens)
			}
			if s.Usage.CostMicros > 0 {
				cost = show.Sum(show.Dollars(s.Usage.CostMicros), s.Usage.UnknownCost)
			}
			row = append(row, cmp.Or(text.Printable(s.Agent()), "-"), tokens, cost)
		}
		if machines {
			row = append(row, cmp.Or(machine(s.Machine), "-"))
		}
		rows = append(rows, row)
	}
	lines, _ := show.Columns(rows, p.o.Width, "EPOCH", "PHASE", "TO", "TOKENS", "FROM", "COST",
		"AGENT", "MACHINE", "ENDED")
	return p.lines(lines)
}

// logins prints what programs changed in their copies of the user's logins.
func (p *detailsPrinter) logins(sessions []inspect.Session) {
	for _, s := range sessions {
		for _, turn := range s.Turns {
			if len(turn.LoginRefused) > 0 {
				fmt.Fprintf(p.out, "\n%s, from the %s in epoch %d\n", loginRefused, s.Role, s.Epoch)
				p.indented(strings.Join(turn.LoginRefused, "\n"))
			}
		}
	}
}

// headOf returns what a finding comes from.
func headOf(f questions.Finding) string {
	head := "finding of the " + rules.FindingSource(f.Cause)
	if f.Cause == rules.FindingHuman {
		head = "sent back by " + f.Actor
	}
	if f.Older {
		head += ", earlier"
	}
	return head
}

// troubles prints findings, failed checks, messages and open questions.
func (p *detailsPrinter) troubles(t questions.Troubles) error {
	for _, f := range t.Findings {
		fmt.Fprintf(p.out, "\n%s\n", headOf(f))
		p.indented(f.Summary)
		// otherwise the failed checks below say the same
		if len(t.FailedChecks) == 0 || !f.FromChecks() {
			p.indented(LastLines(f.Text))
		}
	}
	for _, c := range t.FailedChecks {
		fmt.Fprintln(p.out)
		p.wrapped(fmt.Sprintf("check %s failed on %s with exit status %d", c.Check, c.Environment,
			c.Exit), "", "  ")
		p.indented(c.Cause)
		lines := strings.Split(strings.TrimRight(c.Output, "\r\n"), "\n")
		if more := len(lines) - maxOutputLines; more > 0 {
			lines = append([]string{"…"}, lines[more:]...)
		}
		p.indented(strings.Join(lines, "\n"))
	}
	for _, m := range t.Messages {
		fmt.Fprintf(p.out, "\n%s\n", m.Waits())
		p.indented(m.Text)
	}
	if len(t.Questions) == 0 {
		return nil
	}
	fmt.Fprintln(p.out)
	return p.questions(t.Questions)
}

// maxOutputLines is how many lines of a check's output are shown to people.
const maxOutputLines = 20

// LastLines shortens every block of indented lines in a text, which is the output of a check, to
// its last lines.
func LastLines(words string) string {
	var kept, block []string
	endBlock := func() {
		if more := len(block) - maxOutputLines; more > 0 {
			block = append([]string{"    …"}, block[more:]...)
		}
		kept, block = append(kept, block...), nil
	}
	for line := range strings.Lines(strings.TrimSpace(words)) {
		line = strings.TrimRight(line, "\r\n")
		if output := strings.HasPrefix(line, "    ") || line == "" && len(block) > 0; output {
			block = append(block, line)
			continue
		}
		endBlock()
		kept = append(kept, line)
	}
	endBlock()
	return strings.Join(kept, "\n")
}

// indented prints text that agents or checks wrote, indented by four columns.
func (p *detailsPrinter) indented(words string) { p.wrapped(words, "    ", "    ") }

// wrapped prints text with first before its first line and rest before all others. On a terminal,
// long lines are broken, and the parts of an indented line are indented like it.
func (p *detailsPrinter) wrapped(words, first, rest string) {
	lead := first
	for line := range strings.Lines(words) {
		line = text.Printable(strings.TrimRight(line, "\r\n"))
		content := strings.TrimLeft(line, " ")
		indent := line[:len(line)-len(content)]
		parts := []string{content}
		if p.o.Width > 0 {
			parts = show.Wrap(content, max(p.o.Width-len(rest)-len(indent), 20), len(content)+1)
		}
		for _, part := range parts {
			fmt.Fprintln(p.out, strings.TrimRight(lead+indent+part, " "))
			lead = rest
		}
	}
}

// Questions prints what waits for the user.
func Questions(out io.Writer, list []questions.Pending, o Options) error {
	p := detailsPrinter{out, o}
	return p.questions(list)
}

func (p *detailsPrinter) questions(list []questions.Pending) error {
	if len(list) == 0 {
		_, err := fmt.Fprintln(p.out, "there are no open questions")
		return err
	}
	for _, q := range list {
		if q.Kind == questions.Approval {
			p.wrapped(q.Work+" "+q.Text, "", "  ")
			p.indented(questions.ApprovalCommands(q.Work))
			continue
		}
		p.wrapped(fmt.Sprintf("%s  %s  %s, asked %s", q.ID, cmp.Or(q.Work, "the run"), q.Kind,
			q.Asked.In(p.o.zone()).Format("2006-01-02 15:04")), "", "  ")
		p.indented(show.OneLine(q.Text))
		p.indented(stored.FieldsText(q.Fields))
		p.indented(LastLines(q.Output))
		if q.Open() {
			p.indented("answer with: signalbox answer " + q.ID + " TEXT")
		} else {
			p.indented("answered by " + q.Actor + ": " + text.Printable(q.Answer))
		}
	}
	return nil
}
