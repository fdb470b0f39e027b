package history

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"signalbox"
	"signalbox/internal/core/rules"
	"signalbox/internal/run/inspect"
	"signalbox/internal/testkit/must"
)

// TestStats follows two tasks: one passes its first review, one does not and is found wanting by
// the auditor after the critic has passed it; one finding is waived, and one disputed.
func TestStats(t *testing.T) {
	p := begin(t, nil, task("T1"), task("T2", "T1"))
	p.check("B-1", true)
	judge := func(work string, role signalbox.Role, signal string, found ...rules.SaidFinding) {
		p.begins(role, work)
		p.after(time.Second).say(work, signal, 100_000, rules.SignalFields{Summary: "so",
			Findings: found})
	}
	develop := func(work string, replies ...rules.SaidFinding) {
		p.begins(signalbox.RoleDeveloper, work)
		p.after(time.Minute).say(work, "ready_for_review", 1_000_000,
			rules.SignalFields{Findings: replies})
		p.check(work, true)
	}
	develop("T1")
	judge("T1", signalbox.RoleCritic, "review_passed")
	judge("T1", signalbox.RoleAuditor, "audit_passed")
	p.merge("T1")
	develop("T2")
	judge("T2", signalbox.RoleCritic, "review_failed", rules.SaidFinding{Text: "one"},
		rules.SaidFinding{Text: "two"}, rules.SaidFinding{Text: "three"})
	p.must(rules.Waive{Work: "T2", Finding: "F3", Reason: "it may stay", Actor: "ann"})
	develop("T2", rules.SaidFinding{ID: "F1", Says: rules.SaidFixed},
		rules.SaidFinding{ID: "F2", Says: rules.SaidDisputed, Text: "it is right"})
	judge("T2", signalbox.RoleCritic, "review_passed")
	judge("T2", signalbox.RoleAuditor, "audit_failed", rules.SaidFinding{Text: "four"})

	st, err := new(Reader).Stats(t.Context(), p.log, uint64(len(p.log)))
	must.Succeed(t, err)
	if st.Tasks != 2 || st.Completed != 1 {
		t.Errorf("%d of %d tasks", st.Completed, st.Tasks)
	}
	got := map[signalbox.Role]AgentStats{}
	for _, a := range st.Agents {
		got[a.Role] = a
	}
	row := func(role signalbox.Role, turns int, cost int64) AgentStats {
		return AgentStats{Role: role, Kind: rules.KindTask, Agent: "claude", Model: "claude-large",
			Work: 2, Turns: turns, Usage: inspect.Usage{Tokens: cost / 10, CostMicros: cost,
				Seconds: float64(turns)}}
	}
	developer, critic := row(signalbox.RoleDeveloper, 3, 3_000_000), row(signalbox.RoleCritic, 3, 300_000)
	auditor := row(signalbox.RoleAuditor, 2, 200_000)
	developer.Reviewed, developer.FirstPassed, developer.Reviews = 2, 1, 3
	critic.Findings, critic.Accepted, critic.Waived, critic.Escaped = 3, 1, 1, 1
	auditor.Findings = 1
	for _, want := range []AgentStats{developer, critic, auditor} {
		if diff := cmp.Diff(want, got[want.Role]); diff != "" {
			t.Errorf("%s (-want +got):\n%s", want.Role, diff)
		}
	}

	// a ledger from before findings were recorded: their number is not known, and not zero
	older := slices.Clone(p.log)
	for i := range older {
		if older[i].Type == rules.TypeFindingsRecorded {
			older[i].Type = rules.TypeProgressReported
		}
	}
	st, err = new(Reader).Stats(t.Context(), older, uint64(len(older)))
	must.Succeed(t, err)
	for _, a := range st.Agents {
		if a.Judges() && (a.Unlisted == 0 || a.Count(a.Findings) != "unknown") {
			t.Errorf("%s: %d verdicts without findings, %s findings", a.Role, a.Unlisted,
				a.Count(a.Findings))
		}
	}
}

// TestBlame: who passed the work as it is has let escape what others find later, and nobody else.
func TestBlame(t *testing.T) {
	critic, auditor := &learnedRow{}, &learnedRow{}
	var l learned
	l.add(event(t, "Other", "", nil)) // makes it ready
	task := l.task("T1")
	task.passed = map[signalbox.Role]*learnedRow{signalbox.RoleCritic: critic,
		signalbox.RoleAuditor: auditor}
	for _, cause := range []string{rules.ReworkAudit, rules.ReworkChecks, rules.ReworkMerge} {
		task.escape(cause, func(r *learnedRow) { r.Escaped++ })
	}
	if critic.Escaped != 2 || auditor.Escaped != 1 {
		t.Errorf("%d, %d", critic.Escaped, auditor.Escaped)
	}
	// an order without listed findings counts, and each list is of one order
	task.listed = true
	for range 2 {
		l.sentBack(event(t, rules.TypeReworkOrdered, "T1", nil), rules.ReworkChecks)
	}
	if critic.Unlisted != 1 {
		t.Errorf("%d verdicts without findings", critic.Unlisted)
	}
	// new work has been passed by nobody, and the time of a session that expired is not known
	at := time.Date(2026, 3, 1, 9, 0, 0, 0, time.UTC)
	for epoch, timed := range map[uint64]bool{1: false, 2: true} {
		l.open[epoch] = &learnedSession{work: "T1", from: at, turns: 1,
			verdict: signalbox.NameReadyForReview}
		e := event(t, rules.TypeLeaseReleased, "T1", nil)
		e.Time = at.Add(time.Minute)
		l.end(e, epoch, timed)
	}
	if len(task.passed) != 0 || task.seconds != 60 {
		t.Errorf("passed by %d, after %v s", len(task.passed), task.seconds)
	}
}

// TestTurnAtWork: a turn at work counts, and its task only once.
func TestTurnAtWork(t *testing.T) {
	p := begin(t, nil, task("T1"))
	p.check("B-1", true)
	p.begins(signalbox.RoleDeveloper, "T1")
	a := p.held["T1"]
	p.must(rules.ReportFailure{Session: a.Session, Epoch: a.Lease.Epoch, Cause: rules.FailCrash,
		Turn: &rules.Turn{Spent: rules.Spent{Tokens: 5}}})
	p.begins(signalbox.RoleDeveloper, "T1")
	a = p.held["T1"]
	p.must(rules.ReportUsage{Session: a.Session, Epoch: a.Lease.Epoch,
		Spent: rules.Spent{Tokens: 7}})
	for range 2 { // reading again changes nothing
		st, err := new(Reader).Stats(t.Context(), p.log, uint64(len(p.log)))
		must.Succeed(t, err)
		if len(st.Agents) != 1 || st.Agents[0].Work != 1 || st.Agents[0].Turns != 2 ||
			st.Agents[0].Usage.Tokens != 12 {
			t.Errorf("%+v", st.Agents)
		}
	}
}

// TestEstimate walks through amounts: a range of five, and how often it was right.
func TestEstimate(t *testing.T) {
	for _, c := range []struct {
		amounts []float64
		want    Estimate
		says    string
	}{
		{nil, Estimate{Needs: 5}, "too little history"},
		{[]float64{1, 2, 3, 4}, Estimate{Tasks: 4, Needs: 5}, "4 tasks with known times completed"},
		{[]float64{5, 1, 4, 2, 3}, Estimate{Tasks: 5, Needs: 5, Low: 1, High: 5},
			"is not known yet"},
		{[]float64{5, 1, 4, 2, 3, 2, 9, 6}, Estimate{Tasks: 8, Needs: 5, Low: 1, High: 9, Tried: 3,
			Right: 2}, "right for 2 of 3 tasks"},
		{[]float64{1, 2, 3, 4, 5, 6, 7, 8, 9, 10}, Estimate{Tasks: 10, Needs: 5, Low: 2, High: 9,
			Tried: 5}, "right for 0 of 5 tasks"},
	} {
		got := estimateFrom(c.amounts)
		if got != c.want {
			t.Errorf("%v: %+v, want %+v", c.amounts, got, c.want)
		}
		if line := got.line("it", "known times", Took); !strings.Contains(line, c.says) {
			t.Errorf("%v: %q, want %q", c.amounts, line, c.says)
		}
	}
	e := Estimates{Cost: estimateFrom([]float64{1e6, 2e6, 3e6, 4e6, 5e6}),
		Work: estimateFrom([]float64{60, 60, 60, 60, 120})}
	if got := e.CostOf(3); !strings.HasPrefix(got, "$3.00 to $15.00, at $1.00 to $5.00 a task; ") {
		t.Error(got)
	}
	if got := e.WorkOf(3, 2); !strings.HasPrefix(got, "2m00s to 4m00s, at 1m00s to 2m00s a task; ") {
		t.Error(got)
	}
}

// TestHostile: names and texts of agents are shown as text.
func TestHostile(t *testing.T) {
	const evil = "a\x1b[2J\nb"
	x := &Explanation{ID: "T1", Title: evil, Seconds: 9, Now: evil, Turns: 1,
		Parts: []PartSum{{Part: Review, Seconds: 9, Turns: 1}},
		Steps: []Step{{Part: Review, Agent: evil, Model: evil, Text: evil, Seconds: 9, Because: evil,
			Findings: []string{evil}}}, Events: []Remark{{Text: evil}}}
	st := &Stats{Agents: []AgentStats{{Role: signalbox.RoleCritic, Agent: evil, Model: evil},
		{Agent: evil, Model: evil, Kind: rules.KindTask}}}
	for _, lines := range [][]string{x.Lines(Options{}), st.Lines(Options{})} {
		for _, line := range lines {
			if strings.ContainsAny(line, "\x1b\n") {
				t.Errorf("%q", line)
			}
		}
	}
}
