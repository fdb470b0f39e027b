package rules

import (
	"slices"
	"strings"
	"testing"
	"time"

	"signalbox"
)

// vendors is a policy in which every role has the same agents, each with its vendor.
func vendors(i Independence, agents ...string) Policy {
	p := policy()
	p.Independence = i
	for _, r := range p.Roles {
		p.Agents = append(p.Agents, RoleAgents{Role: r.Role, Agents: agents})
	}
	vendor := map[string]string{"claude": "anthropic", "big": "anthropic", "codex": "openai",
		"gemini": "google"}
	model := map[string]string{"big": "sonnet"}
	for n, name := range agents {
		p.AgentSettings = append(p.AgentSettings, AgentSettings{Agent: name,
			Settings: signalbox.Hash{byte(n + 1)}, Vendor: vendor[name], Model: model[name]})
	}
	return p
}

// ends says a signal at the end of a turn in which the agent worked with what the policy says, or
// with another model.
func (b *box) ends(a Answer, signal, model string) Decision {
	b.t.Helper()
	b.do(by(a, StartAgent{Agent: a.Agent}))
	m := b.s.run.Policy.agentModel(a.Agent)
	return b.sayMore(a, signal, func(c *ReportSignal) {
		c.Turn = &Turn{Vendor: m.Vendor, Model: model}
	})
}

// written has the task developed by an agent, and checked.
func (b *box) written(agent string) {
	b.t.Helper()
	b.ends(b.wantAgent(signalbox.RoleDeveloper, agent), "ready_for_review", "")
	b.checked(b.wantDispatch(signalbox.RoleCI, "t1"))
}

func (b *box) limits(agent string, pause time.Duration) {
	b.t.Helper()
	b.log = append(b.log, b.applied("", AgentUnavailable{Agent: agent, Cause: FailRateLimit,
		Until: b.now.Add(pause)}))
}

// applied applies an event that another machine could have recorded.
func (b *box) applied(work string, data body) signalbox.Event {
	b.t.Helper()
	e := *b.event(work, "", data)
	e.Seq, e.Time = b.s.Seq()+1, b.now
	if err := b.s.Apply(&e); err != nil {
		b.t.Fatalf("%v", err)
	}
	return e
}

func (b *box) wantReason(part string) {
	b.t.Helper()
	if reasons := strings.Join(b.wantStanding(StandingStuck).Reasons, "\n"); !strings.Contains(
		reasons, part) {
		b.t.Fatalf("%q is not in %q", part, reasons)
	}
}

// The critic comes from another vendor than the author, and the auditor from a third one if
// possible.
func TestIndependentVendors(t *testing.T) {
	b := deliver(t, vendors(IndependenceVendor, "claude", "big", "codex", "gemini"), todo("t1"))
	b.written("claude")
	b.ends(b.wantAgent(signalbox.RoleCritic, "codex"), "review_passed", "")
	a := b.wantAgent(signalbox.RoleAuditor, "gemini")
	b.ends(a, "audit_passed", "")
	var did []string
	for _, by := range b.work("t1").Task.DoneBy {
		did = append(did, string(by.Role)+" "+by.String())
	}
	if want := []string{"developer claude (anthropic)", "critic codex (openai)",
		"auditor gemini (google)"}; !slices.Equal(did, want) {
		t.Errorf("done by %q", did)
	}
	if len(b.s.run.Models) > 0 {
		t.Errorf("it keeps what the policy says: %v", b.s.run.Models)
	}
	// two vendors are enough
	b = deliver(t, vendors(IndependenceVendor, "claude", "codex"), todo("t1"))
	b.written("claude")
	b.ends(b.wantAgent(signalbox.RoleCritic, "codex"), "review_passed", "")
	b.wantAgent(signalbox.RoleAuditor, "codex")
}

// While the only independent agents are not available, no other agent judges the work: neither one
// that is free, nor the critic in place of an auditor from a third vendor.
func TestFailoverStaysIndependent(t *testing.T) {
	b := deliver(t, vendors(IndependenceVendor, "claude", "codex", "gemini"), todo("t1"))
	b.written("claude")
	b.limits("codex", time.Hour)
	b.limits("gemini", 2*time.Hour)
	b.wantNothing(signalbox.RoleCritic)
	if st := b.wantStanding(StandingLimited); !st.Wake.Equal(b.now.Add(time.Hour)) {
		t.Errorf("status %+v", st)
	}
	b.now = b.now.Add(time.Hour)
	b.ends(b.wantAgent(signalbox.RoleCritic, "codex"), "review_passed", "")
	b.wantNothing(signalbox.RoleAuditor)
	b.now = b.now.Add(time.Hour)
	b.wantAgent(signalbox.RoleAuditor, "gemini")
}

// A developer takes over only if somebody is left who may judge the work of both.
func TestAuthorsLeaveAJudge(t *testing.T) {
	sentBack := func(agents ...string) *box {
		b := deliver(t, vendors(IndependenceVendor, agents...), todo("t1"))
		b.written("claude")
		b.ends(b.wantAgent(signalbox.RoleCritic, "codex"), "review_failed", "")
		b.limits("claude", time.Hour)
		return b
	}
	b := sentBack("claude", "codex")
	b.wantNothing(signalbox.RoleDeveloper)
	b.now = b.now.Add(time.Hour)
	b.wantAgent(signalbox.RoleDeveloper, "claude")

	b = sentBack("claude", "codex", "gemini")
	b.written("codex")
	b.wantAgent(signalbox.RoleCritic, "gemini")

	// if an agent of an unknown vendor took over, no agent could judge the work
	b = deliver(t, vendors(IndependenceVendor, "mine", "claude", "codex"), todo("t1"))
	b.written("claude")
}

// An agent that did nothing is not an author. One that was killed may be.
func TestWhoIsAnAuthor(t *testing.T) {
	b := deliver(t, vendors(IndependenceVendor, "claude", "codex"), todo("t1"))
	a := b.wantAgent(signalbox.RoleDeveloper, "claude")
	b.do(by(a, StartAgent{Agent: "claude"}))
	b.try(by(a, ReportFailure{Cause: FailRateLimit, Until: b.now.Add(time.Hour),
		Turn: &Turn{Vendor: "anthropic", Unchanged: true}}))
	b.written("codex")
	b.now = b.now.Add(time.Hour)
	b.wantAgent(signalbox.RoleCritic, "claude")

	b = deliver(t, vendors(IndependenceVendor, "claude", "codex", "gemini"), todo("t1"))
	a = b.wantAgent(signalbox.RoleDeveloper, "claude")
	b.do(by(a, StartAgent{Agent: "claude"}))
	b.do(by(a, Release{Work: "t1"})) // without the end of its turn
	b.limits("claude", time.Hour)
	b.written("codex")
	b.now = b.now.Add(time.Hour)
	b.wantAgent(signalbox.RoleCritic, "gemini")

	// it counts once, and already before the next agent begins, which may take away the only judge
	b = deliver(t, vendors(IndependenceVendor, "claude", "codex"), todo("t1"))
	for range 3 {
		a = b.wantAgent(signalbox.RoleDeveloper, "claude")
		b.do(by(a, StartAgent{Agent: "claude"}))
		b.do(by(a, Release{Work: "t1"}))
	}
	if did := b.work("t1").Task.DoneBy; len(did) != 1 {
		t.Errorf("done by %v", did)
	}
	b = deliver(t, vendors(IndependenceVendor, "claude", "codex"), todo("t1"))
	a = b.wantAgent(signalbox.RoleDeveloper, "claude")
	b.do(by(a, StartAgent{Agent: "claude"}))
	b.do(by(a, Release{Work: "t1"}))
	b.limits("claude", time.Hour)
	b.wantNothing(signalbox.RoleDeveloper)

	// an agent that submits the work without a change is an author too
	b = deliver(t, vendors(IndependenceVendor, "claude", "codex"), todo("t1"))
	a = b.wantAgent(signalbox.RoleDeveloper, "claude")
	b.sayMore(a, "ready_for_review", func(c *ReportSignal) {
		c.Turn = &Turn{Vendor: "anthropic", Unchanged: true}
	})
	b.checked(b.wantDispatch(signalbox.RoleCI, "t1"))
	b.wantAgent(signalbox.RoleCritic, "codex")
}

// Only tasks have authors of whom those who judge must be independent.
func TestIndependenceIsOfTasks(t *testing.T) {
	b := deliver(t, vendors(IndependenceVendor, "claude", "codex"), todo("t1"))
	author := AgentModel{"claude", "anthropic", ""}
	for kind, want := range map[Kind]bool{KindTask: true, KindRemediation: false} {
		task := &Task{Kind: kind}
		task.Agent, task.DoneBy = "claude", []DoneBy{{signalbox.RoleDeveloper, author}}
		h := report{decider: &decider{s: b.s}, holder: holder{role: signalbox.RoleCritic},
			ReportSignal: ReportSignal{Turn: &Turn{Vendor: "anthropic"}}, w: &Work{Task: task}}
		if got := h.isDependent(); got != want {
			t.Errorf("%s: %v", kind, got)
		}
	}
}

// If no agent may judge the work, it waits, and the reason says what to do. Nothing is lost: the
// work continues with another configuration.
func TestNobodyIsIndependent(t *testing.T) {
	for _, agents := range [][]string{{"claude", "big"}, {"mine", "other"}} {
		b := deliver(t, vendors(IndependenceVendor, agents...), todo("t1"))
		b.written(agents[0])
		b.wantNothing(signalbox.RoleCritic)
		b.wantReason("t1 waits for a critic of another vendor than " + agents[0] + " (")
		b.wantReason("name one under roles.critic.agent, or set independence: none")
		p := vendors(IndependenceNone, agents...)
		b.do(Configure{p, "op"})
		b.wantAgent(signalbox.RoleCritic, agents[0])
	}
	// agents that the user names for the role win
	p := vendors(IndependenceVendor, "claude", "big")
	for i := range p.Agents {
		p.Agents[i].Named = p.Agents[i].Role == signalbox.RoleCritic
	}
	b := deliver(t, p, todo("t1"))
	b.written("claude")
	b.ends(b.wantAgent(signalbox.RoleCritic, "claude"), "review_passed", "")
	b.wantNothing(signalbox.RoleAuditor)
	b.wantReason("an auditor of another vendor than claude (anthropic)")
}

// Independent models may be of one vendor, and what a program reports counts, not its settings: a
// verdict of the author's own model is none.
func TestIndependentModels(t *testing.T) {
	b := deliver(t, vendors(IndependenceModel, "claude", "big", "codex"), todo("t1"))
	b.ends(b.wantAgent(signalbox.RoleDeveloper, "claude"), "ready_for_review", "opus-1")
	b.checked(b.wantDispatch(signalbox.RoleCI, "t1"))
	a := b.wantAgent(signalbox.RoleCritic, "big") // its settings say sonnet
	wantTypes(t, b.ends(a, "review_passed", "opus-1"), "AgentTurnEnded t1", "SignalHeard t1",
		"LeaseReleased t1")
	if w := b.wantPhase("t1", signalbox.PhaseReview); w.Task.Reviewed {
		t.Error("it has passed")
	}
	a = b.wantAgent(signalbox.RoleCritic, "codex")
	b.ends(a, "review_passed", "")
	b.wantPhase("t1", signalbox.PhaseReadyForMerge)
	a = b.wantAgent(signalbox.RoleAuditor, "codex") // no agent is independent of the critic too
	b.do(by(a, Release{Work: "t1"}))
	// other settings may mean another model
	p := vendors(IndependenceModel, "claude", "big", "codex")
	p.AgentSettings[1].Settings = signalbox.Hash{9}
	b.do(Configure{p, "op"})
	a = b.wantAgent(signalbox.RoleAuditor, "big")
	b.ends(a, "audit_passed", "opus-1")
	if w := b.wantPhase("t1", signalbox.PhaseReadyForMerge); w.Task.Audited {
		t.Error("it has passed")
	}
	// who fails the work may be anybody
	b = deliver(t, vendors(IndependenceModel, "claude", "big"), todo("t1"))
	b.ends(b.wantAgent(signalbox.RoleDeveloper, "claude"), "ready_for_review", "opus-1")
	b.checked(b.wantDispatch(signalbox.RoleCI, "t1"))
	b.ends(b.wantAgent(signalbox.RoleCritic, "big"), "review_failed", "opus-1")
	b.wantPhase("t1", signalbox.PhaseImplementation)
}

// The same model has many names. Two names that could mean the same model are not independent.
func TestNamesOfModels(t *testing.T) {
	for _, same := range [][]string{
		{"gpt-5", "GPT-5 ", "openai/gpt-5", "openai:gpt-5", "gateway:gpt-5", "openrouter/openai/gpt-5",
			"azure/openai:gpt-5", "gpt-5:free", "gpt-5-2025-08-07", "gpt-5-latest",
			"gpt-5-preview-05-06"},
		{"claude-opus-4-1", "claude-opus-4.1", "anthropic/claude-opus-4.1:thinking",
			"claude-opus-4-1-20250805", "claude-opus-4-1@20250805", "claude-opus-4-1[1m]",
			"us.anthropic.claude-opus-4-1-20250805-v1:0", "us.anthropic.claude-opus-4-1-v1", "opus",
			"claude-opus"},
		{"claude-opus-4", "claude-opus-4-0"}, {"gpt-4", "gpt-4-0613"}, {"grok-4", "grok-4-0709"},
		{"gemini-2.0-flash", "gemini-2.0-flash-001"}, {"deepseek-r1", "deepseek.r1-v1:0"},
		{"gpt-5", "openai/gpt-5:nitro", "openai/gpt-5:exacto"}, {"llama3", "llama3:instruct"},
		{"qwen3:8b", "qwen3", "ollama/qwen3:latest", "ollama:qwen3:8b"},
		{"gemini-2.5-pro", "models/gemini-2.5-pro-exp"},
	} {
		for _, a := range same {
			for _, b := range same {
				if IndependenceModel.Between(AgentModel{Model: a}, AgentModel{Model: b}) {
					t.Errorf("%q and %q are independent", a, b)
				}
			}
		}
	}
	different := []string{"gpt-5", "openai/gpt-5-mini", "openai:gpt-4.1", "openai/gpt-4o", "gpt-4-0613",
		"claude-opus-4-1", "anthropic/claude-opus-4-5", "sonnet", "haiku", "claude-3-5-sonnet",
		"gemini-2.5-pro", "qwen3:8b", "llama3:8b", "o3", "glm-4.6:2025"}
	for i, a := range different {
		for _, b := range different[:i] {
			subset := a == "claude-3-5-sonnet" && b == "sonnet"
			if IndependenceModel.Between(AgentModel{Model: a}, AgentModel{Model: b}) == subset {
				t.Errorf("%q and %q are independent: %v", a, b, subset)
			}
		}
	}
	// what names no model is not known, so that the vendors are compared
	for _, none := range []string{"", "default", " ", "openai/", "auto", "opusplan",
		"auto-gemini-2.5", "arn:aws:bedrock:us-east-1:1:application-inference-profile/abc123"} {
		for vendor, want := range map[string]bool{"": false, "openai": false, "google": true} {
			if got := IndependenceModel.Between(AgentModel{Vendor: vendor, Model: none},
				AgentModel{Vendor: "openai", Model: "gpt-5"}); got != want {
				t.Errorf("%q of %q is independent: %v", none, vendor, got)
			}
		}
	}
}

// If no independent pair of agents is left, the human is asked about those that are down.
func TestLastIndependentAgentIsDown(t *testing.T) {
	b := deliver(t, vendors(IndependenceVendor, "claude", "codex", "gemini"), todo("t1"), todo("t2"))
	b.fails(b.wantAgent(signalbox.RoleDeveloper, "claude"), FailLogin, "401")
	if q := b.s.Questions(); len(q) > 0 {
		t.Fatalf("asked %+v", q)
	}
	b.fails(b.wantAgent(signalbox.RoleDeveloper, "codex"), FailLogin, "401")
	if q := b.s.Questions(); len(q) != 1 || !slices.Equal(q[0].Agents, []string{"claude", "codex"}) {
		t.Fatalf("asked %+v", q)
	}
	b.do(orderOf(OrderRetry, ""))
	if b.s.Questions()[0].Open() {
		t.Error("the question is still open")
	}
}

func TestUnknownIndependence(t *testing.T) {
	b := newBox(t)
	wantRefusedAs(t, b.try(Configure{vendors("total", "claude"), "op"}), signalbox.CodeUsage)
}

// An agent that needs help does not stop work that another agent may judge. If there is no other,
// the reason names it.
func TestJudgeNeedsHelp(t *testing.T) {
	b := deliver(t, vendors(IndependenceVendor, "claude", "codex", "gemini"), todo("t1"))
	b.written("claude")
	b.ends(b.wantAgent(signalbox.RoleCritic, "codex"), "review_passed", "")
	b.fails(b.wantAgent(signalbox.RoleAuditor, "gemini"), FailLogin, "401")
	b.fails(b.wantAgent(signalbox.RoleAuditor, "codex"), FailLogin, "401")
	reasons := b.s.Status(b.now).Reasons
	const want = "codex, gemini cannot work (login)"
	if !strings.Contains(strings.Join(reasons, "\n"), want) || len(b.s.Questions()) != 1 {
		t.Errorf("%q, want %s and a question", reasons, want)
	}
}
