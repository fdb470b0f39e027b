package rules

import (
	"strings"
	"testing"

	"signalbox"
)

func TestConversationIDs(t *testing.T) {
	for id, want := range map[string]bool{
		"0191c3a2-7f33-853e-bea2-4983c5ae0000": true, "ses_e235d2ed9ffekz0u0PAueBxVl9": true,
		"a": true, strings.Repeat("a", 128): true,
		"": false, "-p": false, "--resume": false, "_a": false, "../x": false, "a/b": false,
		"a b": false, "a\n": false, "a.b": false, "é": false,
		strings.Repeat("a", 129): false, "a;b": false, "latest\x00": false,
	} {
		if IsConversation(id) != want {
			t.Errorf("%q: %v", id, !want)
		}
	}
}

// A conversation can be resumed after an interruption, also if its end was not recorded, and is
// forgotten when its turn has ended.
func TestConversationOutlivesAnInterruption(t *testing.T) {
	const id = "0191-a"
	turn := func(interrupted bool) func(b *box, a Answer) {
		return func(b *box, a Answer) {
			b.do(by(a, EndTurn{Turn: Turn{Interrupted: interrupted, Commit: sha("c1")}}))
			b.do(by(a, Release{Work: a.Work}))
		}
	}
	for name, tt := range map[string]struct {
		then   func(b *box, a Answer)
		kept   bool
		commit string
	}{
		"interrupted": {turn(true), true, sha("c1")},
		"ended":       {turn(false), false, ""},
		"killed": {func(b *box,
			a Answer) {
			b.do(Release{Work: a.Work, Reason: "its process is gone", Actor: "op"})
		},
			true, ""},
		"expired": {func(b *box,
			a Answer) {
			b.pass(signalbox.DefaultLeaseTTL)
			b.try(b.dispatchOf(signalbox.RoleCritic))
		}, true, ""},
		"crashed": {func(b *box, a Answer) {
			b.do(by(a, ReportFailure{Cause: FailCrash, Turn: &Turn{Exit: 1}}))
		}, false, ""},
		"limited": {func(b *box, a Answer) {
			b.do(by(a, ReportFailure{Cause: FailRateLimit, Turn: &Turn{Exit: 1}}))
		}, false, ""},
		"retried": {func(b *box,
			a Answer) {
			b.do(orderOf(OrderRetry, a.Work))
		}, false, ""},
	} {
		t.Run(name, func(t *testing.T) {
			b := deliver(t, withAgents(policy()), todo("t1"))
			a := b.starts(signalbox.RoleDeveloper)
			b.do(by(a, ReportConversation{ID: id}))
			if again := b.try(by(a, ReportConversation{ID: id})); len(again.Events) > 0 ||
				!again.Answer.Repeated {
				t.Errorf("it is recorded twice: %+v", again)
			}
			if bad := b.try(by(a, ReportConversation{ID: "--resume"})); len(bad.Events) > 0 {
				t.Errorf("a bad id is recorded: %+v", bad)
			}
			tt.then(b, a)
			c := b.work("t1").Task.Conversation
			if (c != nil) != tt.kept || c != nil &&
				(c.ID != id || c.Agent != "claude" || c.Role != signalbox.RoleDeveloper ||
					c.Commit != tt.commit) {
				t.Fatalf("conversation %+v", c)
			}
			if tt.kept && b.work("t1").Task.Context != interruptedContext {
				t.Errorf("context %q", b.work("t1").Task.Context)
			}
			a = b.dispatch(signalbox.RoleDeveloper)
			d := b.try(by(a, StartAgent{Agent: "claude", Resumes: id}))
			if (d.Err == nil) != tt.kept {
				t.Errorf("resume: %v", d.Err)
			}
			b.do(by(a, StartAgent{Agent: "claude"}))
			if c := b.work("t1").Task.Conversation; c != nil {
				t.Errorf("a new session of the program leaves %+v", c)
			}
		})
	}
}

// The conversation of an author continues when the work comes back with something new, although a
// critic has worked on it since, and once after it ran out of time.
func TestConversationOfAnAuthor(t *testing.T) {
	const id = "0191-a"
	ready := func(b *box, a Answer) {
		b.sayMore(a, "ready_for_review", withTurn(Turn{Commit: sha("c1")}))
	}
	late := func(b *box, a Answer) {
		b.do(by(a, ReportFailure{Cause: FailTimeout, Turn: &Turn{Commit: sha("c1")}}))
	}
	for name, tt := range map[string]struct {
		then func(b *box, a Answer)
		kept bool
	}{
		"review": {func(b *box, a Answer) {
			ready(b, a)
			b.checked(b.dispatch(signalbox.RoleCI))
			critic := b.starts(signalbox.RoleCritic)
			b.do(by(critic, ReportConversation{ID: "0191-b"}))
			b.say(critic, "review_failed")
		}, true},
		"checks": {func(b *box, a Answer) {
			ready(b, a)
			b.checked(b.dispatch(signalbox.RoleCI), "test")
		}, true},
		"rework": {func(b *box, a Answer) {
			ready(b, a)
			b.do(Rework{Work: "t1", Text: "use the new parser", Actor: "ann"})
		}, true},
		"rework while it works": {func(b *box, _ Answer) {
			b.do(Rework{Work: "t1", Text: "use the new parser", Actor: "ann"})
		}, true},
		"timeout": {late, true},
		"second timeout": {func(b *box, a Answer) {
			late(b, a)
			a = b.dispatch(signalbox.RoleDeveloper)
			b.do(by(a, StartAgent{Agent: "claude", Resumes: id}))
			b.do(by(a, ReportConversation{ID: id}))
			late(b, a)
		}, false},
		"stall": {func(b *box, a Answer) {
			b.do(by(a, ReportFailure{Cause: FailStall, Turn: &Turn{Commit: sha("c1")}}))
		}, false},
		"incomplete": {func(b *box, a Answer) {
			b.sayMore(a, "task_incomplete", withTurn(Turn{Commit: sha("c1")}))
		}, false},
		"no signal": {func(b *box, a Answer) {
			b.sayMore(a, signalbox.NameUnknown, withTurn(Turn{Commit: sha("c1")}))
			b.do(by(a, Release{Work: "t1"}))
		}, false},
		"another session": {func(b *box, a Answer) {
			late(b, a)
			a = b.starts(signalbox.RoleDeveloper)
			b.do(by(a, Release{Work: "t1"}))
		}, false},
		"retry": {func(b *box, a Answer) {
			late(b, a)
			b.do(orderOf(OrderRetry, "t1"))
		}, false},
		"changed task": {func(b *box, a Answer) {
			late(b, a)
			changed := todo("t1")
			changed.Text = signalbox.Hash{77}
			b.do(plan(2, changed))
		}, false},
	} {
		t.Run(name, func(t *testing.T) {
			b := deliver(t, withAgents(policy()), todo("t1"))
			a := b.starts(signalbox.RoleDeveloper)
			b.do(by(a, ReportConversation{ID: id}))
			tt.then(b, a)
			c := b.work("t1").Task.AuthorConversation
			if (c != nil) != tt.kept || c != nil && (c.ID != id || c.Role != signalbox.RoleDeveloper ||
				c.Ended && c.Commit != sha("c1")) {
				t.Fatalf("conversation %+v", c)
			}
			a = b.dispatch(signalbox.RoleDeveloper)
			d := b.try(by(a, StartAgent{Agent: "claude", Resumes: id}))
			if (d.Err == nil) != tt.kept {
				t.Errorf("resume: %v", d.Err)
			}
		})
	}
}

// A parked session resumes its conversation, also under another lease.
func TestConversationOfAParkedSession(t *testing.T) {
	b := deliver(t, withAgents(policy()), todo("t1"))
	a := b.starts(signalbox.RoleDeveloper)
	b.do(by(a, ReportConversation{ID: "ses_1"}))
	b.sayMore(a, "expert_request",
		func(h *ReportSignal) { h.Fields.Expert, h.Turn = "sql", &Turn{Commit: sha("c1")} })
	b.do(Release{Work: "t1", Reason: "its process is gone", Actor: "op"})
	if c := b.work("t1").Task.Conversation; c == nil || c.Commit != sha("c1") {
		t.Errorf("conversation %+v", c)
	}
}

// Whoever judges begins a new conversation, also a session that was parked.
func TestReviewersDoNotResume(t *testing.T) {
	b := deliver(t, withAgents(policy()), todo("t1"))
	b.bring("t1", signalbox.PhaseReadyForReview)
	a := b.starts(signalbox.RoleCritic)
	b.do(by(a, ReportConversation{ID: "ses_1"}))
	if d := b.try(by(a, StartAgent{Agent: "claude", Resumes: "ses_1"})); d.Err == nil {
		t.Error("a critic resumes a conversation")
	}
	b.do(by(a, StartAgent{Agent: "claude"}))
}

// A task whose text changes is not continued in a conversation about the old one.
func TestConversationOfAChangedTask(t *testing.T) {
	b := deliver(t, withAgents(policy()), todo("t1"))
	a := b.starts(signalbox.RoleDeveloper)
	b.do(by(a, ReportConversation{ID: "ses_1"}))
	b.do(by(a, Release{Work: "t1"}))
	changed := todo("t1")
	changed.Text = signalbox.Hash{77}
	b.do(plan(2, changed))
	if c := b.work("t1").Task.Conversation; c != nil {
		t.Errorf("conversation %+v", c)
	}
}
