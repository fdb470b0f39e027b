package render

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"charm.land/lipgloss/v2"
	"github.com/google/go-cmp/cmp"

	"signalbox"
	"signalbox/internal/core/rules"
	"signalbox/internal/run/inspect"
	"signalbox/internal/show"
	"signalbox/internal/testkit/must"
)

var update = flag.Bool("update", false, "rewrite the golden files")

// compareGolden compares text with a file of testdata.
func compareGolden(t *testing.T, name, got string) {
	t.Helper()
	file := filepath.Join("testdata", name+".txt")
	if *update {
		must.Succeed(t, os.WriteFile(file, []byte(got), 0o644))
	}
	want, err := os.ReadFile(file)
	must.Succeed(t, err)
	if diff := cmp.Diff(strings.ReplaceAll(string(want), "\r\n", "\n"), got); diff != "" {
		t.Errorf("%s (-want +got):\n%s", file, diff)
	}
}

var noon = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// busy is a status with something of everything.
func busy() *inspect.Status {
	ends := noon.Add(40 * time.Minute)
	worker := func(role signalbox.Role, agent string, ago time.Duration,
		attempt int) *inspect.Worker {
		return &inspect.Worker{Role: role, Agent: agent, Since: noon.Add(-ago), Attempt: attempt,
			Session: "w-1.4"}
	}
	return &inspect.Status{
		Box: "box-1", At: noon, Standing: rules.StandingWorking,
		Crews: []inspect.Crew{{ID: "w-1", Alive: true, Agents: 2}},
		Plans: []inspect.Plan{{ID: "old", Title: "finished", Tasks: 2, Completed: 2},
			{ID: "calc", Title: "A calculator in shell", Tasks: 9, Completed: 3, Current: true}},
		Counts: inspect.Counts{Tasks: 9, Completed: 3, Working: 2, Asking: 2, Ready: 1, Waiting: 1,
			Cancelled: 1},
		Tasks: []inspect.Task{
			{ID: "T4", Title: "Recognise numbers with decimals and exponents", Kind: rules.KindTask,
				Step: signalbox.PhaseImplementation, Condition: inspect.Working,
				Worker: worker(signalbox.RoleDeveloper, "claude", 98*time.Second, 2),
				Effort: inspect.Effort{Attempts: 5}, Usage: inspect.Usage{CostMicros: 812_000}},
			{ID: "T5", Title: "Divide", Kind: rules.KindTask, Step: signalbox.PhaseCIPending,
				Condition: inspect.Working, Worker: worker(signalbox.RoleCI, "", 3*time.Second, 0),
				Effort: inspect.Effort{Attempts: 1}},
			{ID: "T6", Title: "Round", Kind: rules.KindTask, Step: signalbox.PhaseImplementation,
				Condition: inspect.Asking, WaitsFor: "Q-1", Effort: inspect.Effort{Attempts: 1}},
			{ID: "T7", Title: "Print", Kind: rules.KindTask, Step: signalbox.PhaseReadyForMerge,
				Audited: true, Condition: inspect.NeedsApproval,
				Effort: inspect.Effort{Attempts: 3}, Usage: inspect.Usage{CostMicros: 300_000}},
		},
		Requests: []inspect.Request{
			{Kind: inspect.RequestQuestion, ID: "Q-1", Work: "T6",
				Text: "Should 0.5 round to 0, which is half to even, or to 1, which is what most people expect of a calculator?", Command: "signalbox answer Q-1 TEXT"},
			{Kind: inspect.RequestApproval, Work: "T7",
				Text:    "is ready to merge and needs your approval of commit ddb349c",
				Command: "signalbox approve T7",
				Also:    []string{"signalbox diff T7", "signalbox reject T7 TEXT"}},
			{Kind: inspect.RequestBudget, ID: "Q-2", Text: "the role critic has spent its budget",
				Command: "signalbox answer Q-2 TEXT", Answers: []string{"yes", "no"}},
		},
		Spending: inspect.Spending{Usage: inspect.Usage{Tokens: 1_234_567, CostMicros: 4_120_000},
			Budgets: []inspect.BudgetUse{{Of: rules.CapRun,
				Used:  inspect.Usage{CostMicros: 4_120_000},
				Limit: inspect.Usage{CostMicros: 10_000_000}}},
			Window: &inspect.Window{Tokens: 80_000, Limit: 200_000, Ends: &ends}},
		Base: inspect.Base{Accepted: []string{"lint|local"}},
		RateLimits: []inspect.RateLimit{{Role: signalbox.RoleAuditor,
			Until: noon.Add(5 * time.Minute)}},
	}
}

func print(t *testing.T, st *inspect.Status, o Options) string {
	t.Helper()
	var out strings.Builder
	o.Zone = time.UTC
	must.Succeed(t, Status(&out, st, o))
	return out.String()
}

func TestStatusFitsTheTerminal(t *testing.T) {
	for _, size := range [][2]int{{200, 50}, {80, 24}, {40, 12}} {
		got := print(t, busy(), Options{Width: size[0], Height: size[1]})
		for line := range strings.Lines(got) {
			if width := lipgloss.Width(strings.TrimRight(line, "\n")); width > size[0] {
				t.Errorf("a line is %d columns wide on a terminal of %d: %s", width, size[0], line)
			}
		}
		if lines := strings.Count(got, "\n"); size[1] >= 24 && lines >= size[1] {
			t.Errorf("%d lines on a terminal of %d", lines, size[1])
		}
		compareGolden(t, fmt.Sprintf("status-%dx%d", size[0], size[1]), got)
	}
	compareGolden(t, "status-pipe", print(t, busy(), Options{}))
}

// A status without a run explains how to continue once, and fits narrow terminals.
func TestStatusOfAStoppedRunFitsTheTerminal(t *testing.T) {
	for _, width := range []int{200, 80, 40, 20} {
		st := busy()
		st.Crews, st.Continue = nil, "signalbox run plan.md"
		st.Requests = append(st.Requests, inspect.Request{Kind: inspect.RequestFault,
			Text: "no run is active", Command: st.Continue})
		got := print(t, st, Options{Width: width, Height: 50})
		for line := range strings.Lines(got) {
			if lipgloss.Width(strings.TrimRight(line, "\n")) > width {
				t.Errorf("a line is too wide for %d columns: %s", width, line)
			}
		}
		if words := strings.Join(strings.Fields(got), " "); strings.Count(words,
			"signalbox run plan.md") != 1 {
			t.Errorf("%d columns:\n%s", width, got)
		}
	}
}

// With many tasks at work the screen shows what waits for somebody first.
func TestStatusOfManyTasks(t *testing.T) {
	st := busy()
	for i := range 60 {
		st.Tasks = append([]inspect.Task{{ID: fmt.Sprintf("U%d", i), Kind: rules.KindTask,
			Step: signalbox.PhaseReview, Condition: inspect.Working}}, st.Tasks...)
	}
	got := print(t, st, Options{Width: 80, Height: 24})
	if lines := strings.Count(got, "\n"); lines >= 24+minTasks {
		t.Errorf("%d lines:\n%s", lines, got)
	}
	if !strings.Contains(got, "\nT6 ") || !strings.Contains(got, "more like these") {
		t.Errorf("the question is missing, or the rest is not counted:\n%s", got)
	}
	if all := print(t, st, Options{}); !strings.Contains(all, "\nU59 ") ||
		strings.Contains(all, "more like these") {
		t.Errorf("a pipe does not get everything:\n%s", all)
	}
}

// Colours change nothing but colours, and text of agents cannot control the terminal.
func TestStatusIsSafeForTerminals(t *testing.T) {
	st := busy()
	st.Requests[0].Text, st.Tasks[0].Title = "\x1b]0;title\x07 red\x1b[31m", "a\nb\x1b[2J"
	plain := print(t, st, Options{Width: 80, Height: 24})
	if strings.Contains(plain, "\x1b") {
		t.Errorf("escape sequences reach the terminal: %q", plain)
	}
	coloured := print(t, st, Options{Width: 80, Height: 24, Paint: show.AnyBackground()})
	if !strings.Contains(coloured, "\x1b[") || stripStyles(coloured) != plain {
		t.Errorf("colours change the text (-plain +coloured):\n%s",
			cmp.Diff(plain, stripStyles(coloured)))
	}
}

// stripStyles removes the sequences that set styles.
func stripStyles(s string) string {
	var out strings.Builder
	for {
		before, after, found := strings.Cut(s, "\x1b[")
		out.WriteString(before)
		if !found {
			return out.String()
		}
		_, s, _ = strings.Cut(after, "m")
	}
}

func TestStatusSaysWhatStopsTheRun(t *testing.T) {
	for want, change := range map[string]func(*inspect.Status){
		"the run is paused; end the pause with: signalbox resume": func(
			st *inspect.Status) {
			st.Paused = true
		},
		"the run is cancelled (enough)": func(
			st *inspect.Status) {
			st.Cancelled = "enough"
		},
		"stuck: T1 waits for T2": func(
			st *inspect.Status) {
			st.Standing, st.Reasons = rules.StandingStuck, []string{"T1 waits for T2"}
		},
		"the base is red: test on linux; see: signalbox work show B-1": func(
			st *inspect.Status) {
			st.Base = inspect.Base{Red: "B-1", Failing: []string{"test|linux"}}
		},
		"a run was killed; the next one on this machine continues": func(
			st *inspect.Status) {
			st.Crews = []inspect.Crew{{ID: "w-1"}}
		},
		"the token window is used up until 12:40:00": func(
			st *inspect.Status) {
			st.Spending.Window.Tokens = 200_000
		},
		"there is no plan yet; load one with: signalbox run plan.md": func(
			st *inspect.Status) {
			*st = inspect.Status{Standing: rules.StandingEmpty}
		},
		"\npaused; agents finish their turns · 1 run active here": func(
			st *inspect.Status) {
			st.Paused = true
		},
		"\ncancelled; agents are being stopped · 1 run active here": func(
			st *inspect.Status) {
			st.Cancelled = "enough"
		},
		"\npaused, and waiting for you · 1 run active here": func(
			st *inspect.Status) {
			st.Paused, st.Standing = true, rules.StandingAsking
		},
		"\nworking elsewhere · no run is active here\n": func(
			st *inspect.Status) {
			st.Crews = nil
		},
		"\nstopped · no run is active here; continue with: signalbox run plan.md\n": func(
			st *inspect.Status) {
			st.Crews, st.Continue = nil, "signalbox run plan.md"
		},
		"\nwaiting for you · no run is active here; continue with: signalbox run plan.md\n": func(
			st *inspect.Status) {
			st.Crews, st.Continue, st.Standing = nil, "signalbox run plan.md", rules.StandingAsking
		},
		"\npaused · no run is active here; continue with: signalbox resume, then signalbox run plan.md\n": func(st *inspect.Status) {
			st.Crews, st.Continue, st.Standing, st.Paused = nil, "signalbox run plan.md",
				rules.StandingPaused, true
		},
		"\npaused, and waiting for a limit to end · no run is active here; continue with: signalbox resume, then signalbox run plan.md\n": func(st *inspect.Status) {
			st.Crews, st.Continue, st.Standing, st.Paused = nil, "signalbox run plan.md",
				rules.StandingLimited, true
		},
		"\npaused · no run is active here; continue with: signalbox resume T4, then signalbox run plan.md\n": func(st *inspect.Status) {
			st.Crews, st.Continue, st.Standing, st.Tasks[0].Condition = nil,
				"signalbox run plan.md", rules.StandingPaused, inspect.Paused
		},
		"\nT4 is paused; end the pause with: signalbox resume T4\n": func(st *inspect.Status) {
			st.Standing, st.Tasks[0].Condition = rules.StandingPaused, inspect.Paused
		},
		"\nT4, T5 are paused; end a pause with: signalbox resume TASK\n": func(st *inspect.Status) {
			st.Standing, st.Tasks[0].Condition, st.Tasks[1].Condition = rules.StandingPaused,
				inspect.Paused, inspect.Paused
		},
		"\nyour words on T4 wait for the next turn of the critic; see: signalbox work show T4\n" +
			"your words on T4 wait for the next agent; see: signalbox work show T4\n": func(
			st *inspect.Status) {
			st.Tasks[0].MessagesFor = []signalbox.Role{signalbox.RoleCritic, signalbox.RoleCritic, ""}
		},
		"no answer from the server of claude: it is tried again at 12:05:00": func(
			st *inspect.Status) {
			st.RateLimits = []inspect.RateLimit{{Agent: "claude", Until: noon.Add(5 * time.Minute),
				Cause: rules.FailServer}}
		},
		"rate limit: claude waits until 12:05:00\n": func(st *inspect.Status) { // retry would restart T6
			st.RateLimits = []inspect.RateLimit{{Agent: "claude", Until: noon.Add(5 * time.Minute)}}
		},
		"rate limit: claude waits until 12:05:00; to try it now: signalbox retry\n": func(
			st *inspect.Status) {
			st.Counts.Asking = 0
			st.RateLimits = []inspect.RateLimit{{Agent: "claude", Until: noon.Add(5 * time.Minute)}}
		},
		"working · 2 runs active here, 3 agents": func(st *inspect.Status) {
			st.Crews = []inspect.Crew{{Alive: true, Agents: 1}, {Alive: true, Agents: 2}}
		},
	} {
		st := busy()
		change(st)
		if got := print(t, st, Options{}); !strings.Contains(got, want) {
			t.Errorf("%q is missing in:\n%s", want, got)
		}
	}
}

// TestSpendingOfSeveralPlans checks that a sum over several plans is not taken for that of the plan
// in the heading.
func TestSpendingOfSeveralPlans(t *testing.T) {
	for _, tt := range []struct {
		plans int
		usage inspect.Usage
		want  string
	}{
		{1, inspect.Usage{CostMicros: 1_360_000, Tokens: 2100}, "$1.36 spent · 2.1k tokens"},
		{2, inspect.Usage{CostMicros: 1_360_000, Tokens: 2100},
			"$1.36 spent in this box · 2.1k tokens"},
		{2, inspect.Usage{Tokens: 2100}, "2.1k tokens in this box"},
		{1, inspect.Usage{CostMicros: 1_200_000, Tokens: 2100, UnknownCost: 2, UnknownTokens: 1},
			"$1.20 + unknown spent · 2.1k tokens + unknown"},
	} {
		p := &statusPrinter{st: &inspect.Status{Spending: inspect.Spending{Usage: tt.usage,
			Plans: tt.plans}}}
		if got := strings.Join(p.money(), "\n"); got != "\n"+tt.want {
			t.Errorf("%d plans: %q, not %q", tt.plans, got, tt.want)
		}
	}
}

// TestSumsWithUnknown checks every other sum of this package: what is unknown is not zero.
func TestSumsWithUnknown(t *testing.T) {
	u := inspect.Usage{CostMicros: 1_200_000, Tokens: 2100, UnknownCost: 1, UnknownTokens: 1}
	p := &statusPrinter{st: &inspect.Status{}}
	for name, got := range map[string]string{
		"row": p.row(inspect.Task{Usage: u})[3],
		"outcome": strings.TrimPrefix(Outcome(&inspect.Turn{Usage: u}),
			"end of turn · 2.1k tokens + unknown · "),
		"budget": Budget(inspect.BudgetUse{Used: u,
			Limit: inspect.Usage{CostMicros: 5_000_000}}),
	} {
		if !strings.HasPrefix(got, "$1.20 + unknown") {
			t.Errorf("%s: %q", name, got)
		}
	}
}

// TestDocumentedStatus checks that the table in docs/how-to/watching.md is one that status prints.
func TestDocumentedStatus(t *testing.T) {
	document, err := os.ReadFile(filepath.Join("..", "..", "..", "..", "docs", "how-to", "watching.md"))
	must.Succeed(t, err)
	printed, err := os.ReadFile(filepath.Join("testdata", "status-200x50.txt"))
	must.Succeed(t, err)
	unix := strings.NewReplacer("\r\n", "\n")
	_, table, _ := strings.Cut(unix.Replace(string(printed)), "\n\n")
	table, _, _ = strings.Cut(table, "\n\n")
	if !strings.HasPrefix(table, "TASK ") || !strings.Contains(unix.Replace(string(document)), "\n"+
		table+"\n\n") {
		t.Errorf("the document does not have this table:\n%s", table)
	}
}
