package forecast

import (
	"fmt"
	"strconv"
	"strings"

	"signalbox"
	"signalbox/internal/config"
	"signalbox/internal/show"
	"signalbox/internal/text"
)

// Text returns the forecast for people. file is the plan, and width that of the terminal, 0 if it
// is not known.
func (f *Forecast) Text(file string, width int) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s: %s, %d done; %s at a time\n\n", show.OnScreen(f.Name),
		text.Count(f.Tasks, "task"), f.Completed, text.Count(f.Slots, "developer"))
	rows := [][]string{{"WAVE", "TASK", "PHASE", "AFTER", "PROMPT", "TITLE"}}
	for n, wave := range f.Waves {
		for _, t := range wave {
			after := "-"
			if len(t.BlockedBy) > 0 {
				after = strings.Join(t.BlockedBy, ", ")
			}
			if t.WaitsFor != "" {
				after = strings.TrimPrefix(after+", ", "-, ") + t.WaitsFor
			}
			rows = append(rows, []string{strconv.Itoa(n + 1), t.ID, string(t.Phase), after,
				t.promptSize(), show.OnScreen(t.Title)})
		}
	}
	if len(rows) > 1 {
		writeTable(&b, rows, width)
	}
	rows = [][]string{{"ROLE", "AGENT", "SLOTS", "TIMEOUT", "PROGRAM"}}
	for _, r := range f.Roles {
		agents, programs := r.Agent, r.Program
		for _, other := range r.Others {
			agents, programs = agents+", then "+other.Agent, programs+", then "+other.Program
		}
		rows = append(rows, []string{string(r.Role), show.OnScreen(agents), strconv.Itoa(r.Slots),
			r.Timeout, show.OnScreen(programs)})
	}
	writeTable(&b, rows, width)
	f.writeSettings(&b)
	if len(f.Waves) > 0 && len(f.Waves[0][0].Agents) > 0 {
		fmt.Fprintf(&b, "\nsee a prompt with: signalbox prompt %s %s --plan %s\n",
			f.Waves[0][0].Agents[0].Role, f.Waves[0][0].ID, show.OnScreen(file))
	}
	for _, note := range f.Notes {
		fmt.Fprintf(&b, "\nnote: %s\n", show.OnScreen(note))
	}
	for _, m := range f.Missing {
		fmt.Fprintf(&b, "\nmissing: %s\n", show.OnScreen(m.What))
		if m.Fix != "" {
			fmt.Fprintf(&b, "    %s\n", show.OnScreen(m.Fix))
		}
	}
	return b.String()
}

// promptSize returns the size of the prompt of the first agent.
func (t Task) promptSize() string {
	if len(t.Agents) == 0 {
		return "-"
	}
	return fmt.Sprintf("%.1f KB", float64(t.Agents[0].PromptBytes)/1000)
}

func writeTable(b *strings.Builder, rows [][]string, width int) {
	for _, line := range show.Table(rows, width) {
		b.WriteString(strings.TrimRight(line, " ") + "\n")
	}
	b.WriteString("\n")
}

// writeSettings describes what the run would check, merge and spend.
func (f *Forecast) writeSettings(b *strings.Builder) {
	setting := func(name, value string) { fmt.Fprintf(b, "%-9s %s\n", name, show.OnScreen(value)) }
	if f.Branch != "" {
		state := map[Base]string{BaseUnknown: "its checks run first",
			BaseGreen: "its checks passed or were accepted", BaseRed: "its checks fail"}[f.Base]
		if len(f.Checks) == 0 {
			state = "there are no checks"
		}
		setting("base", f.Branch+"; "+state)
	}
	if len(f.Copy) > 0 {
		setting("copy", strings.Join(f.Copy, ", "))
	}
	if f.Ports > 0 {
		setting("ports", fmt.Sprintf("%d for each worktree", f.Ports))
	}
	for _, s := range f.SetupCommands {
		how := s.Command
		if s.Name != s.Command {
			how = s.Name + ": " + how
		}
		if len(s.Files) > 0 {
			how += "; again after a change to " + strings.Join(s.Files, ", ")
		}
		setting("setup", fmt.Sprintf("%s (at most %s)", how, s.Timeout))
	}
	if len(f.Checks) == 0 {
		setting("checks", "none")
	}
	for _, c := range f.Checks {
		setting("check", fmt.Sprintf("%s on %s: %s (at most %s)", c.Name,
			strings.Join(c.Environments, ", "), c.Command, c.Timeout))
	}
	approval := "by signalbox, without asking"
	if f.Approval {
		approval = "after your approval"
	}
	if f.Branch != "" {
		if f.Deliver == config.DeliverMerge {
			setting("merge", approval)
		} else {
			setting("deliver", "as "+f.Deliver+" "+approval)
		}
	}
	if len(f.Budgets) == 0 {
		setting("budget", "none")
	}
	for _, budget := range f.Budgets {
		setting("budget", budget)
	}
	if left := f.Tasks - f.Completed; left > 0 {
		setting("cost", f.Next.CostOf(left))
		setting("work", f.Next.WorkOf(left, len(f.Waves)))
	}
}

// Error returns the error of a run that could not start, nil if it could.
func (f *Forecast) Error() error {
	if len(f.Missing) == 0 {
		return nil
	}
	return signalbox.CodeFailed.Errorf("",
		"the run could not start: %s", missing(len(f.Missing)))
}

func missing(n int) string {
	if n == 1 {
		return "something is missing"
	}
	return fmt.Sprintf("%d things are missing", n)
}
