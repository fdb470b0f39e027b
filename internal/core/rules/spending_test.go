package rules

import (
	"bytes"
	"cmp"
	"strings"
	"testing"
	"time"

	"signalbox"
)

// starts dispatches work to a role and starts its agent.
func (b *box) starts(role signalbox.Role) Answer {
	b.t.Helper()
	a := b.dispatch(role)
	b.do(by(a, StartAgent{Agent: cmp.Or(a.Agent, "claude")}))
	return a
}

// uses reports what a running turn has used so far.
func (b *box) uses(a Answer, spent Spent) Decision {
	b.t.Helper()
	return b.decide(by(a, ReportUsage{Spent: spent}))
}

// capped ends a turn because of a cap, which must be the one that the rules name.
func (b *box) capped(a Answer, spent Spent, want Cap) Decision {
	b.t.Helper()
	if got := b.overspent(a); got != want {
		b.t.Fatalf("the cap is %q, want %q", got, want)
	}
	return b.decide(by(a, EndTurn{Turn: Turn{Spent: spent, Interrupted: true, Cap: want}}))
}

func (b *box) overspent(a Answer) Cap { return b.s.Overspent(a.Work, a.Lease.Role, b.now) }

// A budget is spent within a turn: the human is asked at once, the agent is ended, and an answer
// means what it means between turns.
func TestCapsWithinATurn(t *testing.T) {
	const dev = signalbox.RoleDeveloper
	for _, tt := range []struct {
		cap     Cap
		work    string // of the question
		set     func(*Policy, Budget)
		setting string
		// others means that another agent must end too, new that a new agent may start.
		others, new bool
	}{
		{CapTurn, "t1", func(p *Policy, b Budget) { p.Turn = b }, "budget.turn in signalbox.yaml",
			false, true},
		{CapTask, "t1", func(p *Policy, b Budget) { p.Task = b }, "budget.task in signalbox.yaml",
			false, true},
		{CapRole, "", func(p *Policy, b Budget) { p.RoleBudgets = []RoleBudget{{dev, b}} },
			"roles.developer.budget in signalbox.yaml", true, false},
		{CapRun, "", func(p *Policy, b Budget) { p.Run = b }, "budget.run in signalbox.yaml", true,
			false},
	} {
		for _, unit := range []struct {
			limit Budget
			spent func(n int64) Spent
			says  string
		}{
			{Budget{Tokens: 1000}, func(n int64) Spent { return Spent{Tokens: n} },
				"1000 of 1000 tokens"},
			{Budget{CostMicros: 1000}, func(n int64) Spent { return Spent{CostMicros: n} },
				"cost $0.001000 of $0.001000"},
			{Budget{Time: 1000}, func(n int64) Spent { return Spent{Time: time.Duration(n)} },
				"time"},
		} {
			start := func(t *testing.T) (b *box, p Policy, one, two Answer) {
				p = policy()
				tt.set(&p, unit.limit)
				b = deliver(t, p, todo("t1"), todo("t2"), todo("t3"))
				one, two = b.starts(dev), b.starts(dev)
				wantTypes(t, b.uses(one, unit.spent(999)), "AgentSpent t1")
				if cap := b.overspent(one); cap != "" {
					t.Fatalf("below the limit: %s", cap)
				}
				d := b.uses(one, unit.spent(1000))
				wantTypes(t, d, "AgentSpent t1", "QuestionAsked "+tt.work)
				if d.Answer.Cap != tt.cap {
					t.Errorf("the answer is %q", d.Answer.Cap)
				}
				if q := b.question(tt.work, AskedBudget); !strings.Contains(q.Text, unit.says) ||
					!strings.Contains(q.Text, "("+tt.setting+")") {
					t.Errorf("the question is %q", q.Text)
				}
				if other := b.overspent(two); (other != "") != tt.others {
					t.Errorf("the other agent: %q", other)
				}
				d = b.capped(one, unit.spent(1001), tt.cap)
				wantTypes(t, d, "AgentTurnEnded t1", "LeaseReleased t1")
				if w := b.work("t1"); w.Task.Spent != unit.spent(1001) ||
					w.Task.Context != interruptedContext || b.s.Spent() != unit.spent(1001) {
					t.Errorf("task %+v, run %+v", w.Task, b.s.Spent())
				}
				if tt.new {
					b.wantDispatch(dev, "t3")
				} else {
					b.wantNothing(dev)
				}
				return b, p, one, two
			}
			t.Run(string(tt.cap)+" "+unit.says, func(t *testing.T) {
				b, _, _, _ := start(t)
				b.answer(tt.work, AskedBudget, "yes")
				one := b.wantDispatch(dev, "t1")
				b.do(by(one, StartAgent{}))
				wantTypes(t, b.uses(one, unit.spent(998)), "AgentSpent t1")
				if n := len(b.uses(one, unit.spent(1000)).Events); n != 2 {
					t.Errorf("the same amount again gives %d events", n)
				}

				b, _, _, _ = start(t)
				if d := b.answer(tt.work, AskedBudget, "no"); !d.Answer.Paused {
					t.Error("it is not paused")
				}
				if tt.work == "" {
					b.wantNothing(dev)
				}
				b.do(orderOf(OrderResume, tt.work))
				if tt.cap == CapTurn { // another turn has its own budget
					b.wantDispatch(dev, "t1")
				} else {
					b.question(tt.work, AskedBudget)
				}

				for _, answer := range []string{"", "no"} {
					b, p, _, _ := start(t)
					if answer != "" {
						b.answer(tt.work, AskedBudget, answer)
					}
					raised := unit.limit
					raised.Tokens, raised.CostMicros, raised.Time = raised.Tokens*2,
						raised.CostMicros*2, raised.Time*2
					other := p
					other.Slots++
					b.do(Configure{other, "op"}) // not raised
					if cap := b.overspent(Answer{Work: "t1",
						Lease: &signalbox.Lease{Role: dev}}); answer == "" && cap != tt.cap {
						t.Errorf("another policy raises it")
					}
					tt.set(&p, raised)
					b.do(Configure{p, "op"})
					b.wantDispatch(dev, "t1")
				}
			})
		}
	}
}

// What was reported is not lost with the agent, and is not counted twice.
func TestReportedUsageStays(t *testing.T) {
	p := policy()
	p.Task = Budget{Tokens: 1000}
	b := deliver(t, p, todo("t1"))
	a := b.starts(signalbox.RoleDeveloper)
	b.uses(a, Spent{Tokens: 300})
	b.do(by(a, Release{Work: "t1", Reason: "killed"}))
	a = b.starts(signalbox.RoleDeveloper)
	b.uses(a, Spent{Tokens: 200})
	if d := b.uses(a, Spent{Tokens: 200}); !d.Answer.Repeated || len(d.Events) != 0 {
		t.Errorf("the same again: %+v", d)
	}
	b.sayMore(a, "task_incomplete",
		withTurn(Turn{Spent: Spent{Tokens: 250}}))
	if got := b.work("t1").Task.Spent; got.Tokens != 550 {
		t.Errorf("spent %+v, want 300 and 250", got)
	}
	// A program that starts again and one that reads a snapshot see the same.
	again, err := FromSnapshot(b.s.Snapshot())
	if err != nil || !bytes.Equal(again.Snapshot(), foldFrom(t, b.log, 0).Snapshot()) {
		t.Errorf("another state after a restart: %v", err)
	}
	a = b.starts(signalbox.RoleDeveloper)
	b.uses(a, Spent{Tokens: 450})
	b.capped(a, Spent{Tokens: 450}, CapTask)
}

// A final amount that is less than an estimate on the way counts.
func TestEstimatesAreMarkedAndReplaced(t *testing.T) {
	p := policy()
	p.Task = Budget{Tokens: 1000}
	b := deliver(t, p, todo("t1"))
	a := b.starts(signalbox.RoleDeveloper)
	b.do(by(a, ReportUsage{Spent: Spent{Tokens: 900}, Estimated: true}))
	b.sayMore(a, "task_incomplete",
		withTurn(Turn{Spent: Spent{Tokens: 500}}))
	if got := b.work("t1").Task.Spent; got != (Spent{Tokens: 500}) {
		t.Errorf("spent %+v", got)
	}
	a = b.starts(signalbox.RoleDeveloper)
	b.do(by(a, ReportUsage{Spent: Spent{Tokens: 600}, Estimated: true}))
	if q := b.question("t1", AskedBudget); !strings.Contains(q.Text,
		"1100 of 1000 tokens, estimated") {
		t.Errorf("the question is %q", q.Text)
	}
}

func TestTokenWindow(t *testing.T) {
	p := policy()
	p.Window = TokenWindow{Tokens: 1000, Every: 5 * time.Hour}
	b := deliver(t, p, todo("t1"), todo("t2"), todo("t3"))
	began := b.now
	one, two := b.starts(signalbox.RoleDeveloper), b.starts(signalbox.RoleDeveloper)
	b.pass(10 * time.Minute)
	b.uses(one, Spent{Tokens: 600})
	if left, _ := b.s.Allowance("t2", signalbox.RoleDeveloper, b.now); left.Tokens != 400 {
		t.Errorf("left %+v", left)
	}
	d := b.uses(two, Spent{Tokens: 400})
	wantTypes(t, d, "AgentSpent t2") // no question
	if d.Answer.Cap != CapWindow {
		t.Errorf("the answer is %q", d.Answer.Cap)
	}
	b.capped(one, Spent{Tokens: 600}, CapWindow)
	b.wantNothing(signalbox.RoleDeveloper)
	b.capped(two, Spent{Tokens: 400}, CapWindow)
	end := began.Add(5 * time.Hour)
	if st := b.wantStanding(StandingLimited); !st.Wake.Equal(end) || !st.Window ||
		len(st.Questions) > 0 {
		t.Errorf("status %+v", st)
	}
	b.now = end.Add(-1)
	b.wantNothing(signalbox.RoleDeveloper)
	b.now = end
	a := b.wantDispatch(signalbox.RoleDeveloper, "t1")
	if left, _ := b.s.Allowance("t1", signalbox.RoleDeveloper, b.now); left.Tokens != 1000 {
		t.Errorf("left in the next window: %+v", left)
	}
	b.do(by(a, StartAgent{}))
	b.pass(10 * time.Minute)
	b.uses(a, Spent{Tokens: 1000})
	if got := b.s.WindowEnd(b.now); !got.Equal(end.Add(5 * time.Hour)) {
		t.Errorf("the next window ends %s", got)
	}
	// A larger window lets work continue.
	p.Window.Tokens = 2000
	b.do(Configure{p, "op"})
	if cap := b.overspent(a); cap != "" {
		t.Errorf("after raising the window: %s", cap)
	}
}

// A parked agent does not continue while its budget is spent.
func TestParkedAgentWaitsForBudget(t *testing.T) {
	p := policy()
	p.Task = Budget{Tokens: 100}
	b := deliver(t, p, todo("t1"))
	a := b.starts(signalbox.RoleDeveloper)
	b.askExpert(a, "sql")
	b.do(by(a, EndTurn{Turn: Turn{Spent: Spent{Tokens: 100}}}))
	b.say(b.dispatch(signalbox.RoleExpert), "expert_advice")
	if d := b.try(by(a, ResumeSession{})); d.Err == nil {
		t.Error("it continues")
	}
	b.answer("t1", AskedBudget, "yes")
	b.do(by(a, ResumeSession{}))
}

// Agents that share a budget report early enough that it is not exceeded by much.
func TestAllowance(t *testing.T) {
	p := policy()
	p.Run, p.Turn = Budget{Tokens: 1000, Time: time.Hour}, Budget{CostMicros: 40}
	b := deliver(t, p, todo("t1"), todo("t2"))
	one, _ := b.starts(signalbox.RoleDeveloper), b.starts(signalbox.RoleDeveloper)
	left, report := b.s.Allowance("t1", signalbox.RoleDeveloper, b.now)
	if left != (Budget{1000, 40, time.Hour}) || report != (Budget{50, 2, 30 * time.Minute}) {
		t.Errorf("left %+v, report after %+v", left, report)
	}
	b.uses(one, Spent{Tokens: 980, CostMicros: 39})
	if left, report = b.s.Allowance("t1", signalbox.RoleDeveloper, b.now); left.Tokens != 20 ||
		report.Tokens != 20 || report.CostMicros != 1 {
		t.Errorf("near the limit: left %+v, report after %+v", left, report)
	}
	if left, _ = b.s.Allowance("t2", signalbox.RoleDeveloper, b.now); left.Tokens != 20 ||
		left.CostMicros != 40 {
		t.Errorf("of the other: %+v", left)
	}
	unlimited := deliver(t, policy(), todo("t1"))
	unlimited.starts(signalbox.RoleDeveloper)
	if left, report := unlimited.s.Allowance("t1", signalbox.RoleDeveloper,
		b.now); !left.IsZero() || !report.IsZero() {
		t.Errorf("without limits: %+v, %+v", left, report)
	}
}
