package rules

import (
	"strings"
	"testing"
	"time"

	"signalbox"
)

func (b *box) wantAgent(role signalbox.Role, agent string) Answer {
	b.t.Helper()
	a := b.dispatch(role)
	if a.Agent != agent {
		b.t.Fatalf("the %s is %q, want %q", role, a.Agent, agent)
	}
	if w := b.work(a.Work); w.Task.Agent != agent {
		b.t.Fatalf("the task has %q", w.Task.Agent)
	}
	return a
}

// A rate limit is that of a login: it stops the agent in all roles, the next of the list takes
// over, and when the limit ends the first is used again.
func TestRateLimitOfAnAgent(t *testing.T) {
	b := deliver(t, withAgents(policy()), todo("t1"), todo("t2"))
	b.bring("t1", signalbox.PhaseReadyForReview)
	a := b.wantAgent(signalbox.RoleDeveloper, "claude")
	until := b.now.Add(time.Hour)
	d := b.try(by(a, ReportFailure{Cause: FailRateLimit, Until: until}))
	wantTypes(t, d, "AgentUnavailable ", "LeaseReleased t2")
	b.wantNothing(signalbox.RoleCritic)
	a = b.wantAgent(signalbox.RoleDeveloper, "codex")
	b.do(by(a, Release{Work: a.Work}))
	b.now = until
	b.wantAgent(signalbox.RoleCritic, "claude")
	b.wantAgent(signalbox.RoleDeveloper, "claude")
}

// A limit without a time does not end one that is known.
func TestUnknownRateLimitKeepsTheKnownOne(t *testing.T) {
	b := deliver(t, withAgents(policy()), todo("t1"), todo("t2"))
	one, two := b.dispatch(signalbox.RoleDeveloper), b.dispatch(signalbox.RoleDeveloper)
	until := b.now.Add(time.Hour)
	b.do(by(one, ReportFailure{Cause: FailRateLimit, Until: until}))
	b.do(by(two, ReportFailure{Cause: FailRateLimit}))
	if got := b.s.Agent("claude").Limited; !got.Equal(until) {
		t.Errorf("limited until %s, want %s", got, until)
	}
}

// Several sessions meet the same limit, and it is recorded once. Another limit is recorded.
func TestRateLimitIsRecordedOnce(t *testing.T) {
	b := deliver(t, withAgents(policy()), todo("t1"), todo("t2"), todo("t3"))
	var started []Answer
	for range 3 {
		started = append(started, b.wantAgent(signalbox.RoleDeveloper, "claude"))
	}
	fail := func(a Answer, until time.Time) Decision {
		b.now = b.now.Add(time.Second)
		return b.try(by(a, ReportFailure{Cause: FailRateLimit, Until: until}))
	}
	until := b.now.Add(time.Hour)
	wantTypes(t, fail(started[0], until), "AgentUnavailable ", "LeaseReleased t1")
	wantTypes(t, fail(started[1], until.Add(time.Second)), "LeaseReleased t2")
	wantTypes(t, fail(started[2], until.Add(time.Minute)), "AgentUnavailable ", "LeaseReleased t3")
}

// If all agents of a list are limited, work waits for the first limit that ends, also if another
// agent is down.
func TestAllAgentsLimited(t *testing.T) {
	b := deliver(t, withAgents(policy()), todo("t1"))
	a := b.wantAgent(signalbox.RoleDeveloper, "claude")
	b.fails(a, FailLogin, "401")
	b.answer("", AskedAgent, "later")
	a = b.wantAgent(signalbox.RoleDeveloper, "claude")
	b.fails(a, FailLogin, "401")
	a = b.wantAgent(signalbox.RoleDeveloper, "codex")
	until := b.now.Add(time.Hour)
	b.do(by(a, ReportFailure{Cause: FailRateLimit, Until: until}))
	b.wantNothing(signalbox.RoleDeveloper)
	if st := b.wantStanding(StandingLimited); !st.Wake.Equal(until) {
		t.Errorf("status %+v", st)
	}
	b.now = until
	b.wantAgent(signalbox.RoleDeveloper, "codex")
}

func TestCrashesOfAnAgent(t *testing.T) {
	b := deliver(t, withAgents(policy()), todo("t1"), todo("t2"))
	a := b.wantAgent(signalbox.RoleDeveloper, "claude")
	wantTypes(t, b.fails(a, FailCrash, "x"), "AgentFailed t1", "LeaseReleased t1")
	a = b.wantAgent(signalbox.RoleDeveloper, "claude")
	b.say(a, "checkpoint") // it works, so the crashes are not in a row
	wantTypes(t, b.fails(a, FailCrash, "x"), "AgentFailed t1", "LeaseReleased t1")
	a = b.wantAgent(signalbox.RoleDeveloper, "claude")
	b.fails(a, FailTimeout, "x") // the task asks the human now
	a = b.wantAgent(signalbox.RoleDeveloper, "claude")
	wantTypes(t, b.fails(a, FailCrash, "x"), "AgentFailed t2", "AgentUnavailable ",
		"LeaseReleased t2")
	a = b.wantAgent(signalbox.RoleDeveloper, "codex")
	b.fails(a, FailLogin, "401")
	a = b.wantAgent(signalbox.RoleDeveloper, "claude") // better than none
	b.do(by(a, Release{Work: a.Work}))
	b.do(orderOf(OrderRetry, ""))
	b.wantAgent(signalbox.RoleDeveloper, "claude")
}

// The next agent takes over after one stall, for a while and in this role only. What fails
// otherwise does not change who works.
func TestStallOfAnAgent(t *testing.T) {
	b := deliver(t, withAgents(policy()), todo("t1"), todo("t2"))
	wantTypes(t, b.fails(b.wantAgent(signalbox.RoleDeveloper, "claude"), FailTimeout, "x"),
		"AgentFailed t1", "LeaseReleased t1")
	wantTypes(t, b.fails(b.wantAgent(signalbox.RoleDeveloper, "claude"), FailStall, "x"),
		"AgentFailed t1", "AgentUnavailable ", "LeaseReleased t1")
	a := b.wantAgent(signalbox.RoleDeveloper, "codex")
	b.do(by(a, Release{Work: a.Work}))
	b.now = b.now.Add(crashPause)
	b.wantAgent(signalbox.RoleDeveloper, "claude")
}

// With one agent in the list nothing takes over after crashes and stalls, and work does not wait.
func TestFailuresOfTheOnlyAgent(t *testing.T) {
	p := withAgents(policy())
	p.Limits.Timeouts = 9
	b := deliver(t, p, todo("t1"))
	b.bring("t1", signalbox.PhaseReadyForReview)
	for _, cause := range []FailCause{FailCrash, FailCrash, FailCrash, FailStall, FailStall} {
		wantTypes(t, b.fails(b.wantAgent(signalbox.RoleCritic, "claude"), cause, "x"),
			"AgentFailed t1", "LeaseReleased t1")
	}
}

// An agent that is down gives one question, costs no attempts, and stops nothing else. After the
// answer one session is tried.
func TestBreaker(t *testing.T) {
	for _, cause := range []FailCause{FailLogin, FailCredit, FailServer, FailProgram} {
		t.Run(string(cause), func(t *testing.T) {
			b := deliver(t, withAgents(policy()), todo("t1"), todo("t2"), todo("t3"), todo("t4"))
			for _, id := range []string{"t1", "t2", "t3"} {
				b.bring(id, signalbox.PhaseReadyForReview)
			}
			one, two := b.wantAgent(signalbox.RoleCritic, "claude"),
				b.wantAgent(signalbox.RoleCritic, "claude")
			late := b.wantAgent(signalbox.RoleCritic, "claude")
			wantTypes(t, b.fails(one, cause, "said 401 Unauthorized."), "AgentUnavailable ",
				"QuestionAsked ", "LeaseReleased t1")
			wantTypes(t, b.fails(two, cause, "said 401"), "LeaseReleased t2")
			q := b.s.Questions()[0]
			for _, want := range []string{"claude", "said 401 Unauthorized",
				"log in with claude login", "retry"} {
				if q.Work != "" || !strings.Contains(q.Text, want) {
					t.Errorf("%+v lacks %q", q, want)
				}
			}
			if w := b.work("t1"); len(w.Task.Timeouts) > 0 || len(w.Task.Questions) > 0 ||
				w.Phase != signalbox.PhaseReview {
				t.Errorf("%s %+v", w.Phase, w.Task)
			}
			b.wantNothing(signalbox.RoleCritic)
			b.wantAgent(signalbox.RoleDeveloper, "codex") // others continue
			b.answer("", AskedAgent, "done")
			b.fails(late, cause, "said 401") // it was started before
			if n := len(b.s.Questions()); n != 1 {
				t.Fatalf("%d questions", n)
			}
			tried := b.wantAgent(signalbox.RoleCritic, "claude")
			b.wantNothing(signalbox.RoleCritic)
			b.fails(tried, FailTimeout, "slow") // that says nothing about the agent
			tried = b.wantAgent(signalbox.RoleCritic, "claude")
			b.wantNothing(signalbox.RoleCritic)
			b.say(tried, "review_passed")
			b.wantAgent(signalbox.RoleCritic, "claude")
			b.wantAgent(signalbox.RoleCritic, "claude")
		})
	}
}

func TestBreakerFailsAgain(t *testing.T) {
	b := deliver(t, withAgents(policy()), todo("t1"))
	b.bring("t1", signalbox.PhaseReadyForReview)
	b.fails(b.dispatch(signalbox.RoleCritic), FailLogin, "401")
	b.answer("", AskedAgent, "retry")
	wantTypes(t, b.fails(b.dispatch(signalbox.RoleCritic), FailLogin, "401"), "AgentUnavailable ",
		"QuestionAsked ", "LeaseReleased t1")
	b.wantStanding(StandingAsking)
	b.do(orderOf(OrderRetry, ""))
	if q := b.s.Questions()[1]; q.Open() || !q.Withdrawn {
		t.Errorf("%+v", q)
	}
	b.wantAgent(signalbox.RoleCritic, "claude")
}

// The human is asked once all agents of a list are down, with one question about all of them.
func TestBreakerOfAList(t *testing.T) {
	p := withAgents(policy())
	p.Experts = nil
	for i := range p.Agents {
		p.Agents[i].Agents = []string{"codex", "gemini"}
	}
	b := deliver(t, p, todo("t1"), todo("t2"))
	wantTypes(t, b.fails(b.wantAgent(signalbox.RoleDeveloper, "codex"), FailLogin, "401"),
		"AgentUnavailable ", "LeaseReleased t1")
	wantTypes(t, b.fails(b.wantAgent(signalbox.RoleDeveloper, "gemini"), FailServer, "503"),
		"AgentUnavailable ", "QuestionAsked ", "LeaseReleased t1")
	if q := b.s.Questions()[0]; len(q.Agents) != 2 ||
		!strings.Contains(q.Text, "the agent codex") ||
		!strings.Contains(q.Text, "the agent gemini") {
		t.Errorf("%+v", q)
	}
	b.wantNothing(signalbox.RoleDeveloper)
	b.answer("", AskedAgent, "retry")
	b.wantAgent(signalbox.RoleDeveloper, "codex")
	b.wantAgent(signalbox.RoleDeveloper, "gemini") // both are tried, one session each
}

func TestChangedSettingsCloseTheBreaker(t *testing.T) {
	p := withAgents(policy())
	b := deliver(t, p, todo("t1"))
	b.bring("t1", signalbox.PhaseReadyForReview)
	b.fails(b.dispatch(signalbox.RoleCritic), FailLogin, "401")
	p.Slots++
	b.do(Configure{p, "op"})
	b.wantNothing(signalbox.RoleCritic)
	p.AgentSettings = append([]AgentSettings{{Agent: "claude", Settings: signalbox.Hash{9}}}, p.AgentSettings[1:]...)
	b.do(Configure{p, "op"})
	if q := b.s.Questions()[0]; q.Open() {
		t.Errorf("%+v", q)
	}
	b.wantAgent(signalbox.RoleCritic, "claude")
}

// Each expert can have its own agents, and a parked session continues with another agent if its own
// is not available.
func TestAgentsOfExperts(t *testing.T) {
	b := deliver(t, withAgents(policy()), todo("t1"), todo("t2"))
	a, other := b.wantAgent(signalbox.RoleDeveloper, "claude"),
		b.wantAgent(signalbox.RoleDeveloper, "claude")
	b.sayMore(a, "expert_request", func(h *ReportSignal) { h.Fields.Expert = "sql" })
	x := b.wantAgent(signalbox.RoleExpert, "gemini")
	b.fails(x, FailLogin, "401")
	x = b.wantAgent(signalbox.RoleExpert, "codex")
	b.say(x, "expert_advice")
	b.do(by(other, ReportFailure{Cause: FailRateLimit, Until: b.now.Add(time.Hour)}))
	d := b.try(by(a, ResumeSession{}))
	if d.Err != nil || d.Answer.Agent != "codex" || b.work("t1").Task.Agent != "codex" {
		t.Errorf("%+v, %v", d.Answer, d.Err)
	}
}

// An agent whose server does not answer is tried again by itself, after pauses that double up to an
// hour. One question is open all the time, no task uses up an attempt, and in the end only the
// human can help.
func TestServerIsTriedAgain(t *testing.T) {
	b := deliver(t, withAgents(policy()), todo("t1"), todo("t2"))
	b.bring("t1", signalbox.PhaseReadyForReview)
	b.bring("t2", signalbox.PhaseReadyForReview)
	wantTypes(t, b.fails(b.wantAgent(signalbox.RoleCritic, "claude"), FailServer, "503"),
		"AgentUnavailable ", "QuestionAsked ", "LeaseReleased t1")
	if q := b.s.Questions()[0]; !strings.Contains(q.Text, "tried again by itself") ||
		!strings.Contains(q.Text, "Answer retry to try it now") {
		t.Errorf("%q", q.Text)
	}
	for _, minutes := range []time.Duration{5, 10, 20, 40, 60} {
		until := b.now.Add(minutes * time.Minute)
		b.now = until.Add(-1)
		b.wantNothing(signalbox.RoleCritic)
		if st := b.wantStanding(StandingLimited); !st.Wake.Equal(until) || st.Outage != "claude" {
			t.Fatalf("after %d minutes: %+v", minutes, st)
		}
		b.now = until
		d := b.try(b.dispatchOf(signalbox.RoleCritic))
		wantTypes(t, d, "AgentRestored ", "LeaseGranted t1")
		b.wantNothing(signalbox.RoleCritic) // one session is tried
		wantTypes(t, b.fails(d.Answer, FailServer, "503"), "AgentUnavailable ", "LeaseReleased t1")
	}
	b.now = b.now.Add(48 * time.Hour)
	b.wantNothing(signalbox.RoleCritic)
	b.wantStanding(StandingAsking)
	if w := b.work("t1"); len(w.Task.Timeouts) > 0 || len(w.Task.Questions) > 0 {
		t.Errorf("%+v", w.Task)
	}
	b.answer("", AskedAgent, "retry") // and the pauses are short again
	b.fails(b.wantAgent(signalbox.RoleCritic, "claude"), FailServer, "503")
	if st := b.wantStanding(StandingLimited); !st.Wake.Equal(b.now.Add(5*time.Minute)) ||
		len(st.Questions) != 1 {
		t.Errorf("%+v", st)
	}
}

// When the server answers again, the question is withdrawn, and the next pause is a short one.
func TestServerAnswersAgain(t *testing.T) {
	b := deliver(t, withAgents(policy()), todo("t1"), todo("t2"))
	b.bring("t1", signalbox.PhaseReadyForReview)
	b.bring("t2", signalbox.PhaseReadyForReview)
	b.fails(b.wantAgent(signalbox.RoleCritic, "claude"), FailServer, "503")
	b.now = b.now.Add(5 * time.Minute)
	b.fails(b.wantAgent(signalbox.RoleCritic, "claude"), FailServer, "503")
	b.now = b.now.Add(10 * time.Minute)
	a := b.wantAgent(signalbox.RoleCritic, "claude")
	wantTypes(t, b.say(a, "checkpoint"), "QuestionAnswered ", "SignalHeard t1",
		"ProgressReported t1")
	if q := b.s.Questions()[0]; q.Open() || !q.Withdrawn {
		t.Errorf("%+v", q)
	}
	other := b.wantAgent(signalbox.RoleCritic, "claude")
	b.fails(other, FailServer, "503")
	if st := b.wantStanding(StandingWorking); len(st.Questions) != 1 {
		t.Errorf("%+v", st)
	}
	if a := b.s.Agent("claude"); !a.Until.Equal(b.now.Add(5 * time.Minute)) {
		t.Errorf("%+v", a)
	}
}

// A parked session tries an agent again whose pause is over.
func TestParkedSessionTriesTheServer(t *testing.T) {
	p := withAgents(policy())
	for i := range p.Agents {
		if p.Agents[i].Role == signalbox.RoleDeveloper {
			p.Agents[i].Agents = []string{"claude"}
		}
	}
	b := deliver(t, p, todo("t1"), todo("t2"))
	a, other := b.wantAgent(signalbox.RoleDeveloper, "claude"),
		b.wantAgent(signalbox.RoleDeveloper, "claude")
	b.sayMore(a, "expert_request", func(h *ReportSignal) { h.Fields.Expert = "sql" })
	b.fails(other, FailServer, "503")
	b.say(b.wantAgent(signalbox.RoleExpert, "gemini"), "expert_advice")
	if d := b.try(by(a, ResumeSession{})); d.Err == nil {
		t.Errorf("resumed with %+v", d.Answer)
	}
	b.now = b.now.Add(5 * time.Minute)
	d := b.try(by(a, ResumeSession{}))
	wantTypes(t, d, "AgentRestored ", "SessionResumed t1")
	b.wantNothing(signalbox.RoleDeveloper)
}

// An agent that is down does not matter as long as another can take over. If that is removed from
// the list, the human is asked; if one is added, the question is withdrawn.
func TestLastAgentIsRemoved(t *testing.T) {
	for _, cause := range []FailCause{FailLogin, FailServer} {
		t.Run(string(cause), func(t *testing.T) {
			list := func(agents ...string) Policy {
				p := withAgents(policy())
				for i := range p.Agents {
					p.Agents[i].Agents = []string{"gemini"}
					if p.Agents[i].Role == signalbox.RoleDeveloper {
						p.Agents[i].Agents = agents
					}
				}
				return p
			}
			b := deliver(t, list("claude", "codex"), todo("t1"))
			wantTypes(t, b.fails(b.wantAgent(signalbox.RoleDeveloper, "claude"), cause, "no"),
				"AgentUnavailable ", "LeaseReleased t1")
			wantTypes(t, b.try(Configure{list("claude"), "op"}), "PolicySet ", "QuestionAsked ")
			b.wantNothing(signalbox.RoleDeveloper)
			if q := b.s.Questions()[0]; q.Kind != AskedAgent || len(q.Agents) != 1 ||
				q.Agents[0] != "claude" {
				t.Errorf("%+v", q)
			}
			wantTypes(t, b.try(Configure{list("claude", "codex"), "op"}), "PolicySet ",
				"QuestionAnswered ")
			wantTypes(t, b.try(Configure{list("claude"), "op"}), "PolicySet ", "QuestionAsked ")
			b.answer("", AskedAgent, "retry")
			b.wantAgent(signalbox.RoleDeveloper, "claude")
		})
	}
}

// The agents of experts matter from the first expert on.
func TestAgentOfTheFirstExpert(t *testing.T) {
	p := withCreator(withAgents(policy()))
	p.Experts = nil
	p.Agents = []RoleAgents{{Role: signalbox.RoleDeveloper, Agents: []string{"claude", "codex"}},
		{Role: signalbox.RoleExpertCreator, Agents: []string{"codex"}},
		{Role: signalbox.RoleExpert, Agents: []string{"claude"}}}
	b := deliver(t, p, todo("t1"))
	wantTypes(t, b.fails(b.wantAgent(signalbox.RoleDeveloper, "claude"), FailLogin, "401"),
		"AgentUnavailable ", "LeaseReleased t1")
	a := b.wantAgent(signalbox.RoleDeveloper, "codex")
	b.sayMore(a, "expert_request", func(h *ReportSignal) { h.Fields.Expert = "sql" })
	x := b.wantAgent(signalbox.RoleExpertCreator, "codex")
	d := b.sayMore(x, "expert_created", func(h *ReportSignal) { h.Fields.Expert = "sql" })
	if q := b.s.Questions(); len(q) != 1 || q[0].Kind != AskedAgent {
		t.Errorf("%+v asks %+v", d, q)
	}
}

// What an old session says does not shorten the pauses of an agent that is down, but a retry by the
// human does.
func TestPausesOfAnAgentAreReset(t *testing.T) {
	b := deliver(t, withAgents(policy()), todo("t1"), todo("t2"))
	old, a := b.wantAgent(signalbox.RoleDeveloper, "claude"),
		b.wantAgent(signalbox.RoleDeveloper, "claude")
	b.fails(a, FailServer, "503")
	b.say(old, "checkpoint")
	if got := b.s.Agent("claude").Outages; got != 1 {
		t.Errorf("%d pauses after an old session", got)
	}
	b.now = b.now.Add(5 * time.Minute)
	b.do(by(old, Release{Work: old.Work}))
	b.wantAgent(signalbox.RoleDeveloper, "claude")
	if got := b.s.Agent("claude"); got.Outages != 1 || !got.Trying {
		t.Errorf("%+v", got)
	}
	b.do(orderOf(OrderRetry, ""))
	if got := b.s.Agent("claude").Outages; got != 0 {
		t.Errorf("%d pauses after a retry", got)
	}
}

// A rate limit does not hide that an agent stays down until a human has done something.
func TestLimitOfAnAgentThatIsDown(t *testing.T) {
	now := t0
	for _, tt := range []struct {
		a    AgentState
		want bool
	}{
		{AgentState{Limited: now.Add(1)}, true},
		{AgentState{Limited: now.Add(1), Down: FailLogin}, false},
		{AgentState{Limited: now.Add(1), Down: FailServer, Until: now}, true},
		{AgentState{Down: FailServer, Until: now.Add(1)}, true},
		{AgentState{Down: FailServer, Until: now}, false},
	} {
		if got := tt.a.waits(now); got != tt.want {
			t.Errorf("%+v waits: %t", tt.a, got)
		}
	}
}
