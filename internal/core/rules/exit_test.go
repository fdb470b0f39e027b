package rules

import (
	"crypto/sha256"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"signalbox"
	"signalbox/internal/testkit/must"
)

// inOrder are the phases that work goes through, as the specification lists them.
var inOrder = []signalbox.Phase{"DRAFT", "IMPLEMENTATION", "CI_PENDING", "READY_FOR_REVIEW",
	"REVIEW", "READY_FOR_MERGE", "COMPLETED"}

func TestExitByPhaseAndReason(t *testing.T) {
	for i, phase := range inOrder[:len(inOrder)-1] {
		for reason, next := range map[signalbox.ExitReason]signalbox.Phase{
			"completed": inOrder[i+1], "blocked": "BLOCKED", "error": "BLOCKED",
		} {
			t.Run(string(phase)+"/"+string(reason), func(t *testing.T) {
				b, epoch := heldBox(t, phase)
				b.now = b.now.Add(time.Minute)
				d := b.decide(Exit{Session: "S", Epoch: epoch,
					Signal: withNotes(exit(phase, reason), "all of it"),
					Blob:   signalbox.Hash{0xab}, Offset: 7})
				wantCompletion(t, b, d, epoch, phase, next, reason)
				wantEnded(t, b, epoch, phase, next, reason)
			})
		}
	}
}

// wantCompletion checks the four events of an accepted exit signal and the answer.
func wantCompletion(t *testing.T, b *box, d Decision, epoch uint64, phase, next signalbox.Phase,
	reason signalbox.ExitReason) {
	t.Helper()
	wantEvents(t, d,
		fmt.Sprintf(`SignalHeard {"dialect":"exit","signal":"agent_exit","epoch":%d,"blob":"ab%s","offset":7}`, epoch, strings.Repeat("0", 62)),
		fmt.Sprintf(`AgentSessionCompleted {"session_id":"S","actor_id":"a-S","work_id":"w","lease_epoch":%d,"phase_completed":"%s",`+
			`"exit_reason":"%s","next_phase":"%s","pr_url":null,"evidence_bundle_ref":null,"notes":"all of it"}`, epoch, phase, reason, next),
		fmt.Sprintf(`PhaseChanged {"from":"%s","to":"%s"}`, phase, next),
		fmt.Sprintf(`LeaseReleased {"epoch":%d,"reason":"exit"}`, epoch))
	for _, e := range d.Events {
		if e.Work != "w" || e.Session != "S" || e.Actor != "a-S" || !e.Time.Equal(b.now) {
			t.Errorf("%s is of work %q, session %q, actor %q, at %s", e.Type, e.Work, e.Session,
				e.Actor, e.Time)
		}
	}
	notes := "all of it"
	wantAnswer(t, Answer{At: b.now, Seq: epoch + 2, Work: "w", Phase: next, Session: "S",
		Completed: &signalbox.AgentSessionCompleted{SessionID: "S", ActorID: "a-S", WorkID: "w",
			LeaseEpoch:     epoch,
			PhaseCompleted: phase, ExitReason: reason, NextPhase: &next, Notes: &notes}}, d.Answer)
}

// wantEnded checks the work and the session after an accepted exit signal.
func wantEnded(t *testing.T, b *box, epoch uint64, phase, next signalbox.Phase,
	reason signalbox.ExitReason) {
	t.Helper()
	role := phase.ClaimableBy()
	want := &Work{ID: "w", Phase: next, Opened: t0,
		Past: []Tenure{{Epoch: epoch, Session: "S", Actor: "a-S", Role: role,
			Phase: phase, From: t0, To: b.now, Ended: Ending(reason), End: b.s.Seq()}}}
	if next == signalbox.PhaseBlocked {
		want.BlockedFrom, want.Notes = phase, "all of it"
	}
	if diff := cmp.Diff(want, b.work("w")); diff != "" {
		t.Errorf("work (-want +got):\n%s", diff)
	}
	session := b.session("S")
	if len(session.Live) != 0 || len(session.Exits) != 1 || session.Exits[0].Next != next ||
		session.Exits[0].Seq != epoch+2 {
		t.Errorf("session: %+v", session)
	}
}

func TestExitFieldsAreKept(t *testing.T) {
	b, _ := heldBox(t, signalbox.PhaseReview)
	signal := withNotes(exit(signalbox.PhaseReview, signalbox.ExitCompleted), "<b> & \u2028 \"q\"")
	url, ref := "https://example.org/pull/1?a=1&b=2", "evidence/review.yaml"
	signal.PRURL, signal.EvidenceBundleRef = &url, &ref
	b.do(Exit{Session: "S", Signal: signal})
	completed := b.log[len(b.log)-3]
	if !strings.Contains(string(completed.Data),
		`"pr_url":"https://example.org/pull/1?a=1&b=2","evidence_bundle_ref":"evidence/review.yaml","notes":"<b> & \u2028 \"q\""`) {
		t.Errorf("recorded as %s", completed.Data)
	}
	if heard := string(b.log[len(b.log)-4].Data); strings.Contains(heard, "blob") {
		t.Errorf("a signal from nowhere is recorded with a blob: %s", heard)
	}
}

func TestExitRefusals(t *testing.T) {
	good := exit(signalbox.PhaseImplementation, signalbox.ExitCompleted)
	for _, tt := range []struct {
		name string
		exit Exit
		want refused
	}{
		{"no such session", Exit{Session: "X", Signal: good},
			refused{Code: signalbox.CodeNotFound, Msg: "there is no session 'X'"}},
		{"no session", Exit{Signal: good},
			refused{Code: signalbox.CodeNotFound, Msg: "there is no session ''"}},
		{"two leases and no epoch", Exit{Session: "S", Signal: good},
			refused{Code: signalbox.CodeUsage, Msg: "session 'S' holds 2 leases: [4 5]"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			b := newBox(t)
			b.open("w", signalbox.PhaseImplementation)
			b.open("w2", signalbox.PhaseImplementation)
			b.claim("w", "S")
			b.claim("w2", "S")
			wantRefused(t, b.try(tt.exit), tt.want)
		})
	}
}

func TestMalformedExit(t *testing.T) {
	good := exit(signalbox.PhaseImplementation, signalbox.ExitCompleted)
	wrong := good
	wrong.Protocol = "x"
	for _, tt := range []struct {
		name   string
		exit   Exit
		detail string
		work   string
	}{
		{"not valid", Exit{Session: "S", Signal: wrong},
			"unknown protocol: expected 'apm2_agent_exit', got 'x'", "w"},
		{"could not be read", Exit{Session: "S", Signal: good, Fault: "invalid JSON"},
			"invalid JSON", "w"},
		{"not UTF-8", Exit{Session: "S", Fault: "a\xffb"}, "a\ufffdb", "w"},
		{"under a lease of somebody else", Exit{Session: "S", Epoch: 1, Fault: "invalid JSON"},
			"invalid JSON", ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			b, epoch := heldBox(t, signalbox.PhaseImplementation)
			if tt.exit.Epoch != 0 {
				epoch = tt.exit.Epoch
			}
			d := b.try(tt.exit)
			wantRefused(t, d, refused{Code: signalbox.CodeFailed, Msg: tt.detail,
				Reason: "malformed"},
				fmt.Sprintf(`SignalRefused {"said":"agent_exit","reason":"malformed","detail":"%s","epoch":%d,"count":1}`, tt.detail, epoch))
			if e := d.Events[0]; e.Work != tt.work || e.Session != "S" || d.Answer.Seq != e.Seq {
				t.Errorf("recorded of work %q, session %q, as event %d; answered %d", e.Work,
					e.Session, e.Seq, d.Answer.Seq)
			}
			if w := b.work("w"); w.Phase != signalbox.PhaseImplementation || w.Lease == nil {
				t.Errorf("the work is now %+v", w)
			}
		})
	}
}

func TestPhaseMismatch(t *testing.T) {
	for _, phase := range inOrder[:len(inOrder)-1] {
		for _, said := range signalbox.Phases() {
			for _, reason := range signalbox.ExitReasons() {
				if said == phase {
					continue
				}
				b, epoch := heldBox(t, phase)
				msg := fmt.Sprintf("phase mismatch: signal says '%s', work is in '%s'", said, phase)
				d := b.try(Exit{Session: "S", Signal: exit(said, reason)})
				wantRefused(t, d, refused{Code: signalbox.CodeFailed, Msg: msg,
					Reason: "phase_mismatch"},
					fmt.Sprintf(`SignalRefused {"said":"agent_exit","reason":"phase_mismatch","detail":"%s","epoch":%d,"count":1}`, msg, epoch))
				wantAnswer(t, Answer{At: t0, Seq: epoch + 1, Work: "w", Phase: phase, Session: "S"},
					d.Answer)
				if w := b.work("w"); w.Phase != phase || w.Lease == nil || w.Lease.Epoch != epoch {
					t.Errorf("%s said in %s: the work is now %+v", said, phase, w)
				}
			}
		}
	}
}

// An exit signal beside a verdict is recorded as completion, and the verdict decides what follows.
func TestExitBesideAVerdict(t *testing.T) {
	b := deliver(t, policy(), todo("t1"))
	say := func(a Answer, signal string, exit Exit, reason signalbox.Reason,
		want ...string) Decision {
		t.Helper()
		d := b.sayMore(a, signal, func(h *ReportSignal) { h.Exit = &exit })
		wantTypes(t, d, want...)
		if reason != "" {
			if got := d.bodies[1].(SignalRefused); got.Reason != reason ||
				got.Said != signalbox.NameExit {
				t.Errorf("refused %+v", got)
			}
		}
		if d.Answer.Seq != d.Events[0].Seq {
			t.Errorf("the answer names event %d, not the verdict", d.Answer.Seq)
		}
		return d
	}
	done := func(phase signalbox.Phase) Exit {
		return Exit{Signal: withNotes(exit(phase, signalbox.ExitCompleted), "done"),
			Blob: signalbox.Hash{4}, Offset: 7}
	}
	a := b.dispatch(signalbox.RoleDeveloper)
	wantTypes(t, b.sayMore(a, "checkpoint",
		func(h *ReportSignal) { e := done(signalbox.PhaseImplementation); h.Exit = &e }),
		"SignalHeard t1", "ProgressReported t1")
	d := say(a, "ready_for_review", done(signalbox.PhaseImplementation), "",
		"SignalHeard t1", "SignalHeard t1", "AgentSessionCompleted t1", "PhaseChanged t1",
		"LeaseReleased t1")
	heard := SignalHeard{Dialect: signalbox.DialectExit, Signal: signalbox.NameExit,
		Epoch: a.Lease.Epoch, Blob: signalbox.Hash{4}, Offset: 7}
	if d.bodies[1] != heard {
		t.Errorf("heard %+v", d.bodies[1])
	}
	completed := d.bodies[2].(AgentSessionCompleted)
	if completed.SessionID != a.Session || completed.WorkID != "t1" ||
		*completed.NextPhase != signalbox.PhaseCIPending || *completed.Notes != "done" {
		t.Errorf("completed %+v", completed)
	}
	again := done(signalbox.PhaseImplementation)
	again.Session, again.Epoch = a.Session, a.Lease.Epoch
	if got := b.do(again); !got.Repeated || got.Seq != d.Events[2].Seq {
		t.Errorf("submitted again: %+v", got)
	}
	b.checked(b.dispatch(signalbox.RoleCI))

	long := done(signalbox.PhaseReview)
	text := strings.Repeat("x", maxNotes+1)
	long.Signal.Notes = &text
	// its notes are not stored
	say(b.dispatch(signalbox.RoleCritic), "review_failed", long, signalbox.ReasonMalformed,
		"SignalHeard t1", "SignalRefused t1", "FindingsRecorded t1", "ReworkOrdered t1", "PhaseChanged t1",
		"LeaseReleased t1")
	say(b.dispatch(signalbox.RoleDeveloper), "ready_for_review", done(signalbox.PhaseReview),
		signalbox.ReasonPhaseMismatch,
		"SignalHeard t1", "SignalRefused t1", "PhaseChanged t1", "LeaseReleased t1")
	b.checked(b.dispatch(signalbox.RoleCI))
	b.say(b.dispatch(signalbox.RoleCritic), "review_passed")
	d = say(b.dispatch(signalbox.RoleAuditor), "audit_passed", done(signalbox.PhaseReadyForMerge),
		"",
		"SignalHeard t1", "SignalHeard t1", "AgentSessionCompleted t1", "MergeRequested t1",
		"LeaseReleased t1")
	if next := *d.bodies[2].(AgentSessionCompleted).NextPhase; next != signalbox.PhaseReadyForMerge {
		t.Errorf("the work waits for its merge, and is recorded in %s", next)
	}
}

func TestRepeatedExit(t *testing.T) {
	b, epoch := heldBox(t, signalbox.PhaseImplementation)
	signal := withNotes(exit(signalbox.PhaseImplementation, signalbox.ExitCompleted), "done")
	first := b.do(Exit{Session: "S", Epoch: epoch, Signal: signal})
	first.Repeated = true
	again := func(when string, c Exit) {
		t.Helper()
		d := b.try(c)
		if d.Err != nil || len(d.Events) > 0 {
			t.Errorf("%s: %d events, %v", when, len(d.Events), d.Err)
		}
		first.At = d.Answer.At
		wantAnswer(t, first, d.Answer)
	}
	again("at once", Exit{Session: "S", Epoch: epoch, Signal: signal})
	again("without an epoch", Exit{Session: "S", Signal: signal})
	again("read elsewhere", Exit{Session: "S", Signal: signal, Blob: signalbox.Hash{1}, Offset: 3,
		Times: 100})

	b.claim("w", "CI")
	b.now = b.now.Add(time.Minute)
	again("while another holds the work", Exit{Session: "S", Epoch: epoch, Signal: signal})
	b.do(Exit{Session: "CI", Signal: exit(signalbox.PhaseCIPending, signalbox.ExitBlocked)})
	again("after another moved the work on", Exit{Session: "S", Epoch: epoch, Signal: signal})

	other := withNotes(signal, "done again")
	wantRefused(t, b.try(Exit{Session: "S", Epoch: epoch, Signal: other}),
		refused{Code: signalbox.CodeConflict, Reason: "stale_lease",
			Msg: "stale lease: epoch 3 of work 'w' is over, and no session holds the work"},
		`SignalRefused {"said":"agent_exit","reason":"stale_lease","detail":"stale lease: epoch 3 of work 'w' is over, and no session holds the work","epoch":3,"count":1}`)
}

// Long notes are a blob, and the event has only their beginning. They are not accepted before they
// are stored.
func TestLongNotes(t *testing.T) {
	b, _ := heldBox(t, signalbox.PhaseImplementation)
	notes := strings.Repeat("x", 199) + "\u00fc" + strings.Repeat("y", maxNotes)
	c := Exit{Session: "S",
		Signal: withNotes(exit(signalbox.PhaseImplementation, signalbox.ExitBlocked), notes)}
	if d := b.try(c); len(d.Events) > 0 || signalbox.CodeOf(d.Err) != signalbox.CodeConflict {
		t.Errorf("not stored: %d events, %v", len(d.Events), d.Err)
	}
	_, c.Notes = LongNotes(&c.Signal)
	answer := b.do(c)
	preview := strings.Repeat("x", 199) + "\u2026"
	if got := answer.Completed; *got.Notes != preview ||
		got.NotesBlob != sha256.Sum256([]byte(notes)) {
		t.Errorf("recorded %q, %s", *got.Notes, got.NotesBlob)
	}
	if w := b.work("w"); w.Notes != preview || w.NotesBlob != c.Notes ||
		w.View(b.now).NotesBlob != c.Notes {
		t.Errorf("the work has %q, %s", w.Notes, w.NotesBlob)
	}
	if again := b.do(c); !again.Repeated || again.Seq != answer.Seq {
		t.Errorf("again: %+v", again)
	}
	c.Signal = withNotes(c.Signal, notes[:len(notes)-1]+"z") // with the same beginning
	if d := b.try(c); refusedBy(d.Err) == nil {
		t.Errorf("other notes: %+v, %v", d.Answer, d.Err)
	}
	b.do(Unblock{Work: "w", Note: "continue", Actor: "op"})
	if w := b.work("w"); w.Notes != "" || w.NotesBlob != (signalbox.Hash{}) {
		t.Errorf("unblocked work has %q, %s", w.Notes, w.NotesBlob)
	}
	b.claim("w", "S2")
	short := strings.Repeat("z", maxNotes)
	if got := b.do(Exit{Session: "S2",
		Signal: withNotes(c.Signal, short)}).Completed; *got.Notes != short ||
		got.NotesBlob != (signalbox.Hash{}) {
		t.Errorf("notes of %d bytes: blob %s", maxNotes, got.NotesBlob)
	}
}

// Long notes were part of the event once. Such a signal is recognized when it is sent again.
func TestLongNotesOfEarlierVersions(t *testing.T) {
	b, epoch := heldBox(t, signalbox.PhaseImplementation)
	signal := withNotes(exit(signalbox.PhaseImplementation, signalbox.ExitBlocked),
		strings.Repeat("y", maxNotes+1))
	completed := signalbox.SessionCompletedFrom("S", b.work("w").Lease.Actor, &signal)
	completed.WorkID, completed.LeaseEpoch = "w", epoch
	for _, body := range []body{AgentSessionCompleted{completed},
		PhaseChanged{signalbox.PhaseImplementation, signalbox.PhaseBlocked},
		LeaseReleased{Epoch: epoch, Reason: "exit"}} {
		must.Succeed(t, b.s.Apply(b.event("w", "S", body)))
	}
	if w := b.work("w"); w.Notes != *signal.Notes || w.NotesBlob != (signalbox.Hash{}) {
		t.Errorf("the work has %d bytes of notes, and %s", len(w.Notes), w.NotesBlob)
	}
	if d := Decide(b.s, b.now,
		Exit{Session: "S", Epoch: epoch, Signal: signal}); !d.Answer.Repeated || len(d.Events) > 0 {
		t.Errorf("again: %+v, %v", d.Answer, d.Err)
	}
}

// A lease that has run out is not one of those among which an epoch must choose, recorded or not.
func TestExitUnderTheOnlyLeaseThatHasNotRunOut(t *testing.T) {
	b := newBox(t)
	b.open("w1", signalbox.PhaseImplementation)
	b.open("w2", signalbox.PhaseImplementation)
	b.claim("w1", "S")
	long := b.claimOf("w2", "S")
	long.TTL = time.Hour
	epoch := b.do(long).Lease.Epoch
	b.now = b.now.Add(30 * time.Minute)
	answer := b.do(Exit{Session: "S", Signal: exit(signalbox.PhaseImplementation,
		signalbox.ExitCompleted)})
	if answer.Work != "w2" || answer.Completed.LeaseEpoch != epoch {
		t.Errorf("the signal was taken for %s under epoch %d", answer.Work,
			answer.Completed.LeaseEpoch)
	}
}

// The recorded next phase is the one that the work is in right after the append, whatever the exit
// protocol says about the phase.
func TestNextPhaseIsTheOneThatFollows(t *testing.T) {
	for name, get := range map[string]func(*box) Answer{
		"business analyst": func(
			b *box) Answer {
			return b.wantDispatch(signalbox.RoleBusinessAnalyst, "t1")
		},
		"developer": func(
			b *box) Answer {
			return b.wantDispatch(signalbox.RoleDeveloper, "t2")
		},
		"ci by hand": func(b *box) Answer {
			b.bring("t2", signalbox.PhaseCIPending)
			return b.do(Claim{Work: "t2", Role: signalbox.RoleCI, Session: "s-ci", Actor: "op",
				Lease: "l-ci", TTL: time.Hour})
		},
		"critic by hand": func(b *box) Answer {
			b.bring("t2", signalbox.PhaseReadyForReview)
			return b.do(Claim{Work: "t2", Role: signalbox.RoleCritic, Session: "s-critic",
				Actor: "op", Lease: "l-critic", TTL: time.Hour})
		},
		"auditor": func(b *box) Answer {
			b.bring("t2", signalbox.PhaseReadyForMerge)
			return b.wantDispatch(signalbox.RoleAuditor, "t2")
		},
	} {
		for _, reason := range []signalbox.ExitReason{signalbox.ExitCompleted,
			signalbox.ExitBlocked, signalbox.ExitError} {
			t.Run(name+" "+string(reason), func(t *testing.T) {
				b := deliver(t, policy(), unspecified("t1"), todo("t2"))
				a := get(b)
				exit := by(a, Exit{Signal: signalbox.ExitSignal{Protocol: signalbox.ExitProtocol,
					Version:        "1.0.0",
					PhaseCompleted: b.work(a.Work).Phase, ExitReason: reason}})
				d := b.decide(exit)
				if next := *d.Answer.Completed.NextPhase; next != b.work(a.Work).Phase {
					t.Errorf("the record says %s, and the work is in %s", next,
						b.work(a.Work).Phase)
				}
				if again := b.try(exit); again.Err != nil || !again.Answer.Repeated ||
					*again.Answer.Completed.NextPhase != *d.Answer.Completed.NextPhase {
					t.Errorf("the same signal again: %+v, %v", again.Answer, again.Err)
				}
			})
		}
	}
}
