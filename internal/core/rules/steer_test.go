package rules

import (
	"fmt"
	"strings"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"

	"signalbox"
)

// inPhases has a way to bring t1 into each state in which it can be sent back. Each returns who
// holds it; the lease is nil if it is not held.
var inPhases = map[string]func(b *box) Answer{
	"waiting for a developer": func(b *box) Answer { return Answer{} },
	"developed": func(
		b *box) Answer {
		return b.wantDispatch(signalbox.RoleDeveloper, "t1")
	},
	"waiting for checks": func(
		b *box) Answer {
		b.bring("t1", signalbox.PhaseCIPending)
		return Answer{}
	},
	"checked": func(b *box) Answer {
		b.bring("t1", signalbox.PhaseCIPending)
		return b.wantDispatch(signalbox.RoleCI, "t1")
	},
	"waiting for review": func(
		b *box) Answer {
		b.bring("t1", signalbox.PhaseReadyForReview)
		return Answer{}
	},
	"reviewed": func(b *box) Answer {
		b.bring("t1", signalbox.PhaseReadyForReview)
		return b.wantDispatch(signalbox.RoleCritic, "t1")
	},
	"audited": func(b *box) Answer {
		b.bring("t1", signalbox.PhaseReadyForMerge)
		return b.wantDispatch(signalbox.RoleAuditor, "t1")
	},
	"waiting for approval": func(b *box) Answer { b.toApproval("t1"); return Answer{} },
	"waiting for the merge": func(b *box) Answer {
		b.toApproval("t1")
		b.do(orderOf(OrderApprove, "t1"))
		return Answer{}
	},
	"with the merger": func(b *box) Answer {
		b.toApproval("t1")
		b.do(orderOf(OrderApprove, "t1"))
		return b.wantDispatch(signalbox.RoleMerger, "t1")
	},
	"blocked on a question of the developer": func(b *box) Answer {
		b.say(b.wantDispatch(signalbox.RoleDeveloper, "t1"), "divine_clarification")
		return Answer{}
	},
	"blocked on a question of the critic": func(b *box) Answer {
		b.bring("t1", signalbox.PhaseReadyForReview)
		b.say(b.wantDispatch(signalbox.RoleCritic, "t1"), "divine_clarification")
		return Answer{}
	},
	"waiting for a remediation": func(b *box) Answer {
		b.bring("t1", signalbox.PhaseReadyForMerge)
		b.say(b.wantDispatch(signalbox.RoleAuditor, "t1"), "audit_blocked")
		return Answer{}
	},
	"parked": func(b *box) Answer {
		a := b.wantDispatch(signalbox.RoleDeveloper, "t1")
		b.askExpert(a, "sql")
		return a
	},
}

func (b *box) toApproval(work string) {
	b.t.Helper()
	b.bring(work, signalbox.PhaseReadyForMerge)
	b.say(b.wantDispatch(signalbox.RoleAuditor, work), "audit_passed")
}

func approving() Policy {
	p := policy()
	p.ApproveMerge = true
	return p
}

func TestReworkInEveryPhase(t *testing.T) {
	for name, bring := range inPhases {
		t.Run(name, func(t *testing.T) {
			b := deliver(t, approving(), todo("t1"))
			holder := bring(b)
			b.pass(time.Minute)
			a := b.do(Rework{Work: "t1", Text: "use the new parser", Actor: "ann"})
			w := b.wantPhase("t1", signalbox.PhaseImplementation)
			if a.Work != "t1" || a.Phase != signalbox.PhaseImplementation || a.Seq == 0 {
				t.Errorf("answer %+v", a)
			}
			if w.Lease != nil || len(w.Task.Questions) > 0 || w.Task.Remedy != "" ||
				w.Task.Counts != (Counts{}) || w.Task.Checked || w.Task.Approved {
				t.Errorf("work %+v, task %+v", w, w.Task)
			}
			want := Finding{Cause: FindingHuman, Summary: "use the new parser", Actor: "ann",
				Seq: a.Seq}
			if diff := gocmp.Diff([]Finding{want}, w.Task.Findings); diff != "" {
				t.Errorf("findings (-want +got):\n%s", diff)
			}
			if diff := gocmp.Diff([]Finding{want}, w.Task.Corrections); diff != "" {
				t.Errorf("corrections (-want +got):\n%s", diff)
			}
			if holder.Lease != nil { // whoever worked on it works in vain
				b.refuses(by(holder, EndTurn{}), signalbox.CodeConflict)
				if dev := holder.Lease.Role == signalbox.RoleDeveloper; (w.Task.Context == interruptedContext) != dev {
					t.Errorf("context %q", w.Task.Context)
				}
			}
			if name == "waiting for a remediation" {
				b.wantNothing(signalbox.RoleDeveloper)
				b.say(b.remedied(), "health_healthy")
				b.do(orderOf(OrderApprove, "R-1"))
				b.merged(b.wantDispatch(signalbox.RoleMerger, "R-1"))
				b.baseline()
			}
			b.bring("t1", signalbox.PhaseReadyForReview)
			if task := b.work("t1").Task; task.Findings != nil || len(task.Corrections) != 1 {
				t.Errorf("delivered: findings %+v, corrections %+v", task.Findings,
					task.Corrections)
			}
		})
	}
}

// What a developer has not delivered yet stays, and failed checks are not a delivery.
func TestReworkStaysUntilDelivered(t *testing.T) {
	b := deliver(t, policy(), todo("t1"))
	b.do(Rework{Work: "t1", Text: "first", Actor: "ann"})
	b.ready("t1")
	b.checked(b.wantDispatch(signalbox.RoleCI, "t1"), "test")
	b.do(Rework{Work: "t1", Text: "second", Actor: "bob"})
	var got []string
	for _, f := range b.work("t1").Task.Findings {
		got = append(got, f.Cause+" "+f.Actor+" "+f.Summary)
	}
	if diff := gocmp.Diff([]string{"human ann first", "checks  failing: test on local",
		"human bob second"}, got); diff != "" {
		t.Errorf("findings (-want +got):\n%s", diff)
	}
}

func TestReworkKeepsPauseAndDraft(t *testing.T) {
	b := deliver(t, policy(), unspecified("t1"))
	b.wantDispatch(signalbox.RoleBusinessAnalyst, "t1")
	b.do(orderOf(OrderPause, "t1"))
	if a := b.do(Rework{Work: "t1", Text: "only the English one", Actor: "ann"}); !a.Paused ||
		a.Phase != signalbox.PhaseDraft {
		t.Errorf("answer %+v", a)
	}
	if w := b.wantPhase("t1", signalbox.PhaseDraft); !w.Task.Paused || w.Lease != nil ||
		len(w.Task.Findings) != 1 {
		t.Errorf("work %+v, task %+v", w, w.Task)
	}
}

// A spent budget stays spent.
func TestReworkAsksForBudgetAgain(t *testing.T) {
	p := policy()
	p.Task = Budget{Tokens: 100}
	b := deliver(t, p, todo("t1"))
	b.sayMore(b.wantDispatch(signalbox.RoleDeveloper, "t1"), "ready_for_review",
		withTurn(Turn{Spent: Spent{Tokens: 150}}))
	first := b.question("t1", AskedBudget)
	b.do(Rework{Work: "t1", Text: "again", Actor: "ann"})
	if second := b.question("t1", AskedBudget); second.ID == first.ID {
		t.Errorf("question %s is still open", first.ID)
	}
	b.wantNothing(signalbox.RoleDeveloper)
}

func TestReworkOfRemediation(t *testing.T) {
	b := deliver(t, approving(), todo("t1"))
	b.say(b.wantDispatch(signalbox.RoleDeveloper, "t1"), "infra_blocked")
	b.say(b.remedied(), "health_healthy")
	b.do(Rework{Work: "R-1", Text: "pin the version", Actor: "ann", Reject: true})
	if w := b.wantPhase("R-1", signalbox.PhaseImplementation); len(w.Task.Findings) != 1 ||
		w.Task.Findings[0].Cause != FindingHuman {
		t.Errorf("findings %+v", w.Task.Findings)
	}
	health := b.remedied()
	if w := b.work("R-1"); w.Task.Findings != nil || len(w.Task.Corrections) != 1 {
		t.Errorf("delivered: findings %+v, corrections %+v", w.Task.Findings, w.Task.Corrections)
	}
	b.say(health, "health_healthy")
}

func TestReject(t *testing.T) {
	b := deliver(t, approving(), todo("t1"))
	b.toApproval("t1")
	d := b.try(Rework{Work: "t1", Text: "wrong colour", Actor: "ann", Reject: true})
	wantTypes(t, d, "ReworkOrdered t1", "FindingsRecorded t1", "PhaseChanged t1")
	wantBody(t, d, ReworkOrdered{Cause: FindingHuman, Count: 1, Summary: "wrong colour",
		Commit: sha("c0ffee")})
	if d.Answer.Commit != sha("c0ffee") || d.Events[0].Actor != "ann" {
		t.Errorf("answer %+v, actor %s", d.Answer, d.Events[0].Actor)
	}
	wantRefused(t, b.try(Rework{Work: "t1", Text: "again", Actor: "ann", Reject: true}),
		refused{Code: signalbox.CodeFailed,
			Msg: "work 't1' is in IMPLEMENTATION and does not wait for approval"})
	b.bring("t1", signalbox.PhaseReadyForMerge)
	b.say(b.dispatch(signalbox.RoleAuditor), "audit_passed")
	b.do(orderOf(OrderApprove, "t1"))
	b.refuses(Rework{Work: "t1", Text: "again", Actor: "ann", Reject: true}, signalbox.CodeFailed)
}

func TestRefusedRework(t *testing.T) {
	b := deliver(t, policy(), todo("done"), todo("gone"), todo("t1"))
	b.bring("done", signalbox.PhaseCompleted)
	b.do(Order{What: OrderCancel, Work: "gone", Actor: "op", Reason: "unwanted"})
	b.open("hand", signalbox.PhaseReview)
	b.askExpert(b.wantDispatch(signalbox.RoleDeveloper, "t1"), "sql")
	for _, tt := range []struct {
		c    Rework
		want refused
	}{
		{Rework{Work: "done"},
			refused{Code: signalbox.CodeFailed,
				Msg: "work 'done' is completed and cannot be sent back"}},
		{Rework{Work: "gone"},
			refused{Code: signalbox.CodeFailed, Msg: "work 'gone' is cancelled (unwanted)"}},
		{Rework{Work: "hand"},
			refused{Code: signalbox.CodeFailed, Msg: "work 'hand' does not belong to a plan"}},
		{Rework{Work: "B-1"},
			refused{Code: signalbox.CodeFailed,
				Msg: "'B-1' runs the checks on the base and has no developer"}},
		{Rework{Work: "X-1"},
			refused{Code: signalbox.CodeFailed,
				Msg: "'X-1' is a request to an expert and has no developer"}},
		{Rework{Work: "none"},
			refused{Code: signalbox.CodeNotFound, Msg: "there is no work 'none'"}},
		{Rework{Work: "t1", Text: " \n"},
			refused{Code: signalbox.CodeUsage, Msg: "the text is empty"}},
		{Rework{Work: "t1", Text: "\x1b[2J"},
			refused{Code: signalbox.CodeUsage,
				Msg: "invalid text: must not contain control characters"}},
		{Rework{Work: "t1", Text: strings.Repeat("x", maxLongText+1)},
			refused{Code: signalbox.CodeUsage, Msg: "invalid text: 65537 bytes, limit 65536"}},
		{Rework{Work: "t1", Text: strings.Repeat("x", maxText+1)},
			refused{Code: signalbox.CodeUsage, Msg: "the blob is not that of the text"}},
	} {
		if tt.c.Text == "" {
			tt.c.Text = "fix it"
		}
		tt.c.Actor = "ann"
		wantRefused(t, b.try(tt.c), tt.want)
	}
}

// A merge that may have happened already must be recorded first.
func TestReworkDuringMerge(t *testing.T) {
	b := deliver(t, policy(), todo("t1"))
	b.toApproval("t1")
	m := b.wantDispatch(signalbox.RoleMerger, "t1")
	b.do(by(m, PrepareMerge{Commit: sha("beef"), Before: b.s.Base()}))
	wantRefused(t, b.try(Rework{Work: "t1", Text: "stop", Actor: "ann"}),
		refused{Code: signalbox.CodeConflict, Msg: "work 't1' is being merged"})
	b.do(by(m, ReportMerge{Commit: sha("beef"), Before: b.s.Base()}))
	b.wantPhase("t1", signalbox.PhaseCompleted)
}

// Long texts are stored as blobs.
func TestLongWords(t *testing.T) {
	text := strings.Repeat("ä", maxText)
	blob, digest := LongText(text)
	if string(blob) != text {
		t.Fatalf("%d bytes to store", len(blob))
	}
	b := deliver(t, policy(), todo("t1"))
	want := strings.Repeat("ä", notesPreview/2) + "…"
	wantBody(t, b.try(Rework{Work: "t1", Text: text, Body: digest, Actor: "ann"}),
		ReworkOrdered{Cause: FindingHuman, Count: 1, Summary: want, Body: digest})
	d := b.try(Tell{Work: "t1", Text: text, Body: digest, Actor: "ann"})
	wantBody(t, d, MessageSent{want, digest, signalbox.RoleDeveloper, false})
	if blobs, err := Blobs(&d.Events[0]); err != nil || len(blobs) != 1 || blobs[0] != digest {
		t.Errorf("blobs %v, %v", blobs, err)
	}
	if blob, digest := LongText(text[:maxText]); blob != nil || digest != (signalbox.Hash{}) {
		t.Error("a short text is a blob")
	}
}

// A message waits until a turn that had it in its prompt counts, or until an agent that listens has
// got it. It is delivered once.
func TestMessages(t *testing.T) {
	b := deliver(t, policy(), todo("t1"))
	pending := func(want ...uint64) {
		t.Helper()
		var got []uint64
		for _, m := range b.work("t1").Task.Messages {
			got = append(got, m.Seq)
		}
		if diff := gocmp.Diff(want, got); diff != "" {
			t.Fatalf("pending (-want +got):\n%s", diff)
		}
	}
	tell := func() uint64 { return b.do(Tell{Work: "t1", Text: fmt.Sprint(len(b.log)), Actor: "ann"}).Seq }
	one := tell()
	dev := b.wantDispatch(signalbox.RoleDeveloper, "t1")
	two := tell()
	pending(one, two)
	b.do(by(dev, ReportFailure{Cause: FailCrash, Turn: &Turn{}}))
	pending(one, two)
	dev = b.wantDispatch(signalbox.RoleDeveloper, "t1")
	d := b.sayMore(dev, "unknown",
		withTurn(Turn{Messages: []uint64{one, two}}))
	wantBody(t, d, MessageDelivered{dev.Lease.Epoch, []uint64{one, two}})
	pending()
	three, four := tell(), tell()
	wantBody(t, b.try(DeliverMessages{dev.Session, dev.Lease.Epoch, []uint64{three}}),
		MessageDelivered{dev.Lease.Epoch, []uint64{three}})
	if a := b.do(DeliverMessages{dev.Session, dev.Lease.Epoch, []uint64{one, three}}); !a.Repeated {
		t.Error("delivered twice")
	}
	pending(four)
	if m := b.work("t1").Task.Messages[0]; m.Actor != "ann" || m.Text == "" {
		t.Errorf("message %+v", m)
	}
	b.do(Rework{Work: "t1", Text: "start over", Actor: "ann"})
	b.refuses(DeliverMessages{dev.Session, dev.Lease.Epoch, []uint64{four}}, signalbox.CodeConflict)
	pending(four)
}

// Words are for the role that is named, or else for whoever works on the task, or else for its
// author.
func TestWhomWordsAreFor(t *testing.T) {
	b := deliver(t, policy(), todo("t1"))
	tell := func(to, want signalbox.Role) {
		t.Helper()
		d := b.try(Tell{Work: "t1", Role: to, Text: "x", Actor: "ann"})
		wantBody(t, d, MessageSent{Text: "x", Role: want})
		if d.Answer.Role != want {
			t.Errorf("the answer names %q", d.Answer.Role)
		}
	}
	const developer, critic = signalbox.RoleDeveloper, signalbox.RoleCritic
	tell("", developer)
	tell(critic, critic)
	b.bring("t1", signalbox.PhaseCIPending)
	ci := b.wantDispatch(signalbox.RoleCI, "t1")
	tell("", developer)
	b.checked(ci)
	tell("", developer)
	b.wantDispatch(critic, "t1")
	tell("", critic)
	tell(developer, developer)
	wantRefused(t, b.try(Tell{Work: "t1", Role: signalbox.RoleExpert, Text: "x", Actor: "ann"}),
		refused{Code: signalbox.CodeUsage, Msg: "no expert works on this task"})
	for message, ok := range map[Message]bool{{Role: critic}: true, {}: true,
		{Role: developer}: false} {
		if message.IsFor(critic) != ok {
			t.Errorf("%+v is for a critic: %v", message, !ok)
		}
	}
}

func TestRefusedMessages(t *testing.T) {
	b := deliver(t, policy(), todo("done"), todo("gone"), todo("ready"))
	b.bring("done", signalbox.PhaseCompleted)
	b.do(Order{What: OrderCancel, Work: "gone", Actor: "op", Reason: "unwanted"})
	b.toApproval("ready")
	b.open("hand", signalbox.PhaseReview)
	for work, msg := range map[string]string{
		"done":  "work 'done' is completed, so no agent works on it any more",
		"gone":  "work 'gone' is cancelled (unwanted)",
		"ready": "work 'ready' is ready to merge, so no agent works on it any more",
		"hand":  "work 'hand' does not belong to a plan, so no agent gets a prompt for it",
		"B-1":   "'B-1' runs the checks on the base, and no agent works on it",
	} {
		wantRefused(t, b.try(Tell{Work: work, Text: "hello", Actor: "ann"}),
			refused{Code: signalbox.CodeFailed, Msg: msg})
	}
	b.refuses(Tell{Work: "ready", Text: "", Actor: "ann"}, signalbox.CodeUsage)
	b.refuses(Tell{Work: "ready", Text: "x", Actor: "an n"}, signalbox.CodeUsage)
}

// A cancelled task is not approved: after a retry it would be merged without a question.
func TestCancelledTaskIsNotApproved(t *testing.T) {
	p := policy()
	p.ApproveMerge = true
	b := deliver(t, p, todo("t1"))
	b.toApproval("t1")
	b.do(orderOf(OrderCancel, "t1"))
	if d := b.try(orderOf(OrderApprove, "t1")); d.Err == nil ||
		len(d.Events) > 0 {
		t.Errorf("it was approved: %+v", d)
	}
	b.do(orderOf(OrderRetry, "t1"))
	if !b.s.WaitsForApproval(b.work("t1")) {
		t.Error("after a retry it does not wait for approval")
	}
}

// Words that cannot wait interrupt only an agent that they are for.
func TestTellNow(t *testing.T) {
	b := deliver(t, policy(), todo("t1"))
	tell := func(role signalbox.Role) bool {
		b.pass(time.Second)
		a := b.do(Tell{Work: "t1", Role: role, Text: "now", Now: true, Actor: "ann"})
		messages := b.work("t1").Task.Messages
		if m := messages[len(messages)-1]; m.Now != a.Now {
			t.Errorf("answer %t, message %+v", a.Now, m)
		}
		return a.Now
	}
	if tell("") {
		t.Error("no agent is at work")
	}
	b.starts(signalbox.RoleDeveloper)
	if !tell("") || tell(signalbox.RoleCritic) {
		t.Error("the developer is at work, and no critic")
	}
}
