package inspect

import (
	"math"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"signalbox"
	"signalbox/internal/core/rules"
	"signalbox/internal/testkit/must"
)

// TestCosts adds up what agents used by role, agent and day, with a turn that reports while it
// runs, one whose end is never recorded, and an estimate. Every list adds up to what the status
// has, at any time.
func TestCosts(t *testing.T) {
	h := begin(t, nil, task("T1"), task("T2"))
	var reader CostReader
	check := func() Costs {
		t.Helper()
		costs, err := reader.Read(t.Context(), h, h.s.Seq())
		must.Succeed(t, err)
		want := NewStatus(h.s, h.now).Spending.Usage
		for name, rows := range map[string][]CostRow{"roles": costs.Roles, "agents": costs.Agents,
			"days": costs.Days} {
			var sum Usage
			for _, row := range rows {
				sum.Add(row.Usage)
			}
			if math.Abs(sum.Seconds-want.Seconds) > 1e-6 {
				t.Errorf("%s: %f seconds, want %f", name, sum.Seconds, want.Seconds)
			}
			if sum.Seconds = want.Seconds; sum != want {
				t.Errorf("%s add up to %+v, want %+v", name, sum, want)
			}
		}
		var fresh CostReader
		if again, err := fresh.Read(t.Context(), h, h.s.Seq()); err != nil ||
			!cmp.Equal(again, costs) {
			t.Errorf("read at once, it differs (%v):\n%s", err, cmp.Diff(again, costs))
		}
		return costs
	}
	check()
	h.check("B-1", rules.CheckRow{Check: "test", Environment: "linux", Passed: true})
	begun := func(work string) (string, uint64) {
		h.start(signalbox.RoleDeveloper, work)
		return h.held[work].Session, h.held[work].Lease.Epoch
	}
	session, epoch := begun("T1")
	h.do(rules.ReportUsage{Session: session, Epoch: epoch,
		Spent: rules.Spent{Tokens: 100, CostMicros: 10, Time: time.Second}})
	check()
	h.do(rules.ReportUsage{Session: session, Epoch: epoch,
		Spent: rules.Spent{Tokens: 300, CostMicros: 30, Time: 2 * time.Second}, Estimated: true})
	check()
	h.now = h.now.Add(24 * time.Hour) // the lease expires, and with it the turn has no end
	h.do(rules.Expire{})
	h.start(signalbox.RoleDeveloper, "T1")
	h.do(rules.ReportSignal{Session: h.held["T1"].Session, Epoch: h.held["T1"].Lease.Epoch,
		Signal: "ready_for_review", Named: "T1",
		Turn: &rules.Turn{Spent: rules.Spent{Tokens: 1000, CostMicros: 500, Time: time.Minute}}})
	h.check("T1", rules.CheckRow{Check: "test", Environment: "linux", Passed: true})
	h.start(signalbox.RoleCritic, "T1")
	h.do(rules.ReportSignal{Session: h.held["T1"].Session, Epoch: h.held["T1"].Lease.Epoch,
		Signal: "review_passed", Named: "T1",
		Turn: &rules.Turn{Spent: rules.Spent{Tokens: 50, CostMicros: 900, Time: time.Second}}})
	costs := check()
	want := []CostRow{{Name: "critic", Turns: 1, Usage: Usage{Tokens: 50, CostMicros: 900, Seconds: 1}},
		{Name: "developer", Turns: 2, Usage: Usage{Tokens: 1300,
			EstimatedTokens: 300, CostMicros: 530, Seconds: 62}}}
	if diff := cmp.Diff(want, costs.Roles); diff != "" {
		t.Errorf("roles (-want +got):\n%s", diff)
	}
	if len(costs.Days) != 2 || costs.Days[0].Name != "2026-03-02" ||
		costs.Days[1].Name != "2026-03-01" || costs.Days[1].CostMicros != 30 {
		t.Errorf("days %+v", costs.Days)
	}
}
