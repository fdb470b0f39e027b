package progress

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"signalbox"
	"signalbox/internal/core/box"
	"signalbox/internal/core/rules"
	"signalbox/internal/run/inspect"
	"signalbox/internal/run/questions"
	"signalbox/internal/show"
	"signalbox/internal/text"
)

// Outcome writes for people how a run ended: the state of each task, and what to do next. width is
// that of the terminal that w is; 0 means that w is not a terminal, and that nothing is shortened.
func Outcome(w io.Writer, b *box.Box, outcome rules.Status, began time.Time, width int) error {
	var out strings.Builder
	now := time.Now()
	// without an answer it is left out: the failure itself is on the ledger
	red, troubles, _ := questions.FindBaseTroubles(context.Background(), b)
	b.Engine.View(func(s *rules.State) {
		status := statusOf(s, outcome, now)
		if status.Standing == rules.StandingEmpty {
			out.WriteString("\n" + withoutPlan(s) + "\n")
			return
		}
		writeTasks(&out, s, width)
		writeTotals(&out, s, status, now.Sub(began))
		for _, move := range s.BaseMoves() {
			if !move.At.Before(began) {
				fmt.Fprintf(&out, "\nWarning: %s\n", show.OneLine(move.InWords()))
			}
		}
		for _, w := range worksOfPlan(s) {
			if missed := w.Undelivered(); w.Done() && missed != "" {
				fmt.Fprintf(&out, "\nWarning: %s: %s; see: signalbox work show %[1]s\n",
					w.ID, missed)
			}
		}
		writeFailed(&out, red, troubles)
		writeNext(&out, s, status)
	})
	_, err := io.WriteString(w, out.String())
	return err
}

// maxFailedLines is how many lines of the output of each failed check are shown at the end of a
// run.
const maxFailedLines = 10

// writeFailed writes why checks fail on the base. The causes that an open question names follow
// with the question.
func writeFailed(out *strings.Builder, baseline *rules.Work, t questions.Troubles) {
	for _, check := range t.FailedChecks {
		fmt.Fprintf(out, "\n%s  %s on %s fails on the base: exit status %d\n", baseline.ID,
			show.OneLine(check.Check), show.OneLine(check.Environment), check.Exit)
		asked := func(q questions.Pending) bool { return strings.Contains(q.Text, check.Cause) }
		if check.Cause != "" && !slices.ContainsFunc(t.Questions, asked) {
			fmt.Fprintf(out, "    %s\n", show.OneLine(check.Cause))
		}
		lines := strings.Split(strings.TrimSpace(check.Output), "\n")
		for _, line := range lines[max(0, len(lines)-maxFailedLines):] {
			if line = strings.TrimRight(show.OneLine(strings.TrimRight(line, "\r")),
				" "); line != "" {
				fmt.Fprintf(out, "    | %s\n", line)
			}
		}
	}
	if len(t.FailedChecks) > 0 {
		out.WriteString("If a check works in your shell, its sandbox may be the cause: signalbox sandbox explain check\n")
	}
}

// noPlan is shown for a box without a plan.
const noPlan = "there is no plan yet; load one with: signalbox run plan.md"

// withoutPlan returns what is shown for a box without a plan: what becomes of the work that was
// opened by hand, if there is any.
func withoutPlan(s *rules.State) string {
	open := 0
	for w := range s.Works() {
		if w.Task == nil && !w.Done() {
			open++
		}
	}
	if open == 0 {
		return noPlan
	}
	return fmt.Sprintf("no plan; %s opened by hand, %d waiting for checks",
		text.Count(open, "work item"), len(s.WaitingForChecks()))
}

// statusOf returns the status at the end of a run. A run that was interrupted early has none yet;
// it is taken from the state.
func statusOf(s *rules.State, outcome rules.Status, now time.Time) rules.Status {
	if outcome.Standing == "" {
		return s.Status(now)
	}
	return outcome
}

// OutcomeJSON writes how a run ended as one JSON object, after the last event of a JSON display.
func OutcomeJSON(w io.Writer, b *box.Box, outcome rules.Status, interrupted bool) error {
	var st rules.Status
	b.Engine.View(func(s *rules.State) { st = statusOf(s, outcome, time.Now()) })
	end := struct {
		Run       string   `json:"run"`
		Tasks     int      `json:"tasks"`
		Completed int      `json:"completed"`
		Questions []string `json:"questions"`
		Approvals []string `json:"approvals"`
		Reasons   []string `json:"reasons"`
	}{string(st.Standing), st.Tasks, st.Completed, orEmpty(st.Questions), orEmpty(st.Approvals), orEmpty(st.Reasons)}
	if interrupted && st.Standing != rules.StandingComplete {
		end.Run = "interrupted"
	}
	doc, err := json.Marshal(end)
	if err != nil {
		return err
	}
	_, err = w.Write(append(text.PrintableJSON(doc), '\n'))
	return err
}

// orEmpty returns a copy that encodes as [] rather than null.
func orEmpty(list []string) []string { return append([]string{}, list...) }

// maxTasksPrinted limits the table of tasks. In larger plans it lists only the tasks that are not
// done.
const maxTasksPrinted = 200

func writeTasks(out *strings.Builder, s *rules.State, width int) {
	done := 0
	works := slices.DeleteFunc(worksOfPlan(s),
		func(w *rules.Work) bool { return w.Task.Kind != rules.KindTask && w.Task.Kind != rules.KindRemediation })
	if len(works) > maxTasksPrinted {
		kept := works[:0]
		for _, w := range works {
			if w.Done() {
				done++
			} else if len(kept) < maxTasksPrinted {
				kept = append(kept, w)
			}
		}
		works = kept
	}
	table := [][]string{{"TASK", "NOW", "AGENTS", "REWORKS", "TIME", "COST", "TITLE"}}
	approvals := s.Approvals()
	for _, w := range works {
		effort, now := inspect.NewEffort(w), stateOf(w)
		if slices.Contains(approvals, w.ID) {
			now = "needs approval"
		}
		table = append(table, []string{w.ID, now, strconv.Itoa(effort.Attempts),
			strconv.Itoa(effort.Reworks),
			orDash(effort.AgentSeconds > 0,
				text.Duration(time.Duration(effort.AgentSeconds*float64(time.Second)))),
			orDash(w.Task.Spent.CostMicros > 0,
				show.Sum(show.Dollars(w.Task.Spent.CostMicros), w.Task.Spent.UnknownCost)),
			show.OneLine(w.Title)})
	}
	out.WriteString("\n")
	for _, row := range show.Table(table, width) {
		out.WriteString(row + "\n")
	}
	if done > 0 {
		fmt.Fprintf(out, "and %d done tasks\n", done)
	}
}

// worksOfPlan returns the work of the plan that was loaded last: its tasks, and the baselines,
// remediations and requests to experts since its first task. Those of an earlier plan belong to it
// only as long as they are open.
func worksOfPlan(s *rules.State) (works []*rules.Work) {
	var began time.Time
	for w := range s.Works() {
		if w.Task != nil && w.Task.Kind == rules.KindTask && w.Task.Plan == s.PlanID() &&
			(began.IsZero() || w.Opened.Before(began)) {
			began = w.Opened
		}
	}
	for w := range s.Works() {
		if s.InPlan(w) && (w.Task.Kind == rules.KindTask || !w.Done() || !w.Opened.Before(began)) {
			works = append(works, w)
		}
	}
	return works
}

func orDash(known bool, text string) string {
	if !known {
		return "-"
	}
	return text
}

// stateOf returns the state of a task in a word or two.
func stateOf(w *rules.Work) string {
	switch {
	case w.Phase == signalbox.PhaseCompleted:
		return "done"
	case w.Task.Cancelled != "":
		return "cancelled"
	case len(w.Task.Questions) > 0:
		return "asks " + strings.Join(w.Task.Questions, ", ")
	case w.Task.Remedy != "":
		return "waits for " + w.Task.Remedy
	case w.WaitsForRequest():
		return "pull request"
	case w.Task.Paused:
		return "paused"
	case len(w.Past) == 0 && w.Lease == nil:
		return "not started"
	}
	return strings.ToLower(strings.ReplaceAll(string(w.Phase), "_", " "))
}

func writeTotals(out *strings.Builder, s *rules.State, st rules.Status, elapsed time.Duration) {
	agents, reworks, spent := 0, 0, rules.Spent{}
	for _, w := range worksOfPlan(s) {
		effort := inspect.NewEffort(w)
		agents, reworks, spent = agents+effort.Attempts, reworks+effort.Reworks,
			spent.Plus(w.Task.Spent)
	}
	fmt.Fprintf(out, "\n%d of %s done in %s; %s, %s", st.Completed, text.Count(st.Tasks, "task"),
		text.Duration(elapsed), text.Count(agents, "agent run"), text.Count(reworks, "rework"))
	if spent.Tokens > 0 {
		fmt.Fprintf(out, "; %s",
			show.Sum(show.Tokens(spent.Tokens)+" tokens", spent.UnknownTokens))
	}
	if spent.EstimatedTokens > 0 {
		out.WriteString(" (partly estimated)")
	}
	if spent.CostMicros > 0 {
		fmt.Fprintf(out, ", %s", show.Sum(show.Dollars(spent.CostMicros), spent.UnknownCost))
	}
	out.WriteString("\n")
}

// writeNext lists open questions and what to do about them. The error that the run ends with
// explains why it is stuck.
func writeNext(out *strings.Builder, s *rules.State, st rules.Status) {
	for _, q := range s.Questions() {
		if q.Open() {
			fmt.Fprintf(out, "\n%s  %s%s\n    signalbox answer %s TEXT\n", q.ID, about(q.Work),
				show.OneLine(q.Text), q.ID)
		}
	}
	for _, id := range st.Approvals {
		fmt.Fprintf(out, "\n%s %s\n    %s\n", id, questions.ApprovalText(s, id),
			questions.ApprovalCommands(id))
	}
	for _, w := range s.Requests() {
		fmt.Fprintf(out, "\n%s waits until its pull request is merged: %s\n", w.ID,
			show.OneLine(w.Task.Delivered.Request))
	}
	switch st.Standing {
	case rules.StandingComplete:
		out.WriteString("\nSee what happened: signalbox ledger tail. Verify the record: signalbox ledger verify.\n")
	case rules.StandingLimited:
		ends := st.Wake.Local().Format(time.TimeOnly)
		switch {
		case st.Window:
			fmt.Fprintf(out, "\nThe token window ends at %s.", ends)
		case st.Outage != "":
			fmt.Fprintf(out, "\nThe server of %s did not answer. It is tried again from %s on.",
				onScreen(st.Outage), ends)
		default:
			fmt.Fprintf(out, "\nA rate limit ends at %s; signalbox retry ends it now, and restarts what is blocked.", ends)
		}
		if st.RunPaused {
			fmt.Fprintf(out, " The run is also paused: end the pause with %s.", st.ResumeCommand())
		}
		out.WriteString(" Run the same command again then.\n")
	}
}

func about(work string) string {
	if work == "" {
		return ""
	}
	return work + ": "
}
