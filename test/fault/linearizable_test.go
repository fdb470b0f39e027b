package fault

import (
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"signalbox"
	"signalbox/internal/core/rules"
)

// TestLinearizable lets many processes work on a few items, with leases that really expire, and checks that all answers
// could have come from a single sequential process.
func TestLinearizable(t *testing.T) {
	clients, commands, works := sized(6, 16), sized(200, 800), sized(3, 6)
	random := newRand(t)
	s := newSite(t)
	b := s.open(t)
	for i := range works {
		openWork(t, b, fmt.Sprintf("task-%d", i))
	}
	var processes []*child
	for i := range clients {
		processes = append(processes, startChild(t, "history", s.box, s.keyFile, fmt.Sprint(i), fmt.Sprint(random.IntN(1<<30)),
			fmt.Sprint(commands), fmt.Sprint(works), fmt.Sprint(i%2 == 0)))
	}
	var history []operation
	for _, c := range processes {
		for _, line := range c.end(t) {
			var op operation
			check(t, json.Unmarshal([]byte(line), &op))
			history = append(history, op)
		}
	}
	if len(history) != clients*commands {
		t.Errorf("%d commands were recorded, want %d", len(history), clients*commands)
	}
	events := s.mustVerify(t)
	checkCoverage(t, events, history)
	checkAnswers(t, events, history)
	for _, wrong := range checkLinear(factsOf(t, events), history) {
		t.Errorf("no sequential order explains the answers about %s", wrong)
	}
}

// checkCoverage checks that every kind of event and answer occurred.
func checkCoverage(t *testing.T, events []signalbox.Event, history []operation) {
	t.Helper()
	happened := map[string]int{}
	for _, e := range events {
		happened[e.Type]++
	}
	for _, op := range history {
		happened[fmt.Sprintf("%s %d", op.Do, op.Code)]++
	}
	t.Logf("events and answers: %v", happened)
	for _, kind := range []string{rules.TypeLeaseGranted, rules.TypeLeaseExpired, rules.TypeLeaseRenewed, rules.TypeLeaseReleased, rules.TypeAgentSessionCompleted, rules.TypeWorkUnblocked,
		rules.TypeSignalRefused, "claim 0", "claim 4", "renew 0", "renew 4", "release 0", "release 4", "exit 0", "exit 4", "unblock 0", "expire 0", "look 0"} {
		if happened[kind] == 0 {
			t.Errorf("never occurred: %s", kind)
		}
	}
}

// checkAnswers checks that the events in the ledger are exactly those in the answers, and that each belongs to one command.
func checkAnswers(t *testing.T, events []signalbox.Event, history []operation) {
	t.Helper()
	types := map[string]string{"claim": rules.TypeLeaseGranted, "renew": rules.TypeLeaseRenewed, "release": rules.TypeLeaseReleased, "revoke": rules.TypeLeaseReleased,
		"exit": rules.TypeAgentSessionCompleted, "unblock": rules.TypePhaseChanged}
	answered := map[uint64]bool{}
	for _, op := range history {
		recorded, writes := types[op.Do]
		if !writes || op.Code != 0 || op.Repeated || op.Do == "renew" && op.Seq == op.Epoch {
			continue
		}
		if op.Seq == 0 || op.Seq > uint64(len(events)) {
			t.Errorf("%s of %s was answered with event %d, which does not exist", op.Do, op.Work, op.Seq)
			continue
		}
		e := events[op.Seq-1]
		if e.Type != recorded || e.Work != op.Work || !e.Time.Equal(op.At) || answered[op.Seq] {
			t.Errorf("%s of %s at %s was answered with event %d, a %s of %s at %s, answered before: %v",
				op.Do, op.Work, op.At, e.Seq, e.Type, e.Work, e.Time, answered[op.Seq])
		}
		answered[op.Seq] = true
		if op.Do == "exit" { // the next two events are the change of phase and the end of the lease
			answered[op.Seq+1], answered[op.Seq+2] = true, true
		}
	}
	for _, e := range events {
		switch e.Type {
		case rules.TypeLeaseGranted, rules.TypeLeaseRenewed, rules.TypeLeaseReleased, rules.TypeAgentSessionCompleted, rules.TypePhaseChanged:
			if !answered[e.Seq] {
				t.Errorf("event %d, a %s of %s, is in no answer", e.Seq, e.Type, e.Work)
			}
		}
	}
}

// TestWrongHistoryIsFound checks that checkLinear detects histories that are not linearizable.
func TestWrongHistoryIsFound(t *testing.T) {
	at := func(second int) time.Time { return time.Unix(int64(1000+second), 0) }
	lease := func(session string, epoch uint64, until int) *signalbox.Lease {
		return &signalbox.Lease{ID: "l-" + session, Epoch: epoch, Session: session, Expires: at(until)}
	}
	// op completes an operation that runs from just before to just after the given second.
	op := func(second int, o operation) operation {
		o.Work, o.At, o.Call, o.Return = "task-1", at(second), int64(second)*10-1, int64(second)*10+1
		return o
	}
	claim := func(second int, session string, seq uint64) operation {
		return op(second, operation{Do: "claim", As: session, Role: signalbox.RoleDeveloper, TTL: 10 * time.Second, Seq: seq,
			Lease: lease(session, seq, second+10), Now: signalbox.PhaseImplementation})
	}
	under := func(second int, do, session string, epoch, seq uint64) operation {
		return op(second, operation{Do: do, As: session, Epoch: epoch, Seq: seq, TTL: 10 * time.Second, Phase: signalbox.PhaseImplementation,
			Reason: signalbox.ExitCompleted, Now: signalbox.PhaseCIPending, Lease: lease(session, epoch, second+10)})
	}
	stale := func(o operation) operation {
		o.Code, o.Seq, o.Lease = signalbox.CodeConflict, 99, nil
		return o
	}
	held := func(second int, session string, by *signalbox.Lease) operation {
		return op(second, operation{Do: "claim", As: session, Role: signalbox.RoleDeveloper, Code: signalbox.CodeConflict, Lease: by})
	}
	look := func(second int, phase signalbox.Phase, l *signalbox.Lease) operation {
		return op(second, operation{Do: "look", Now: phase, Lease: l})
	}
	implementation, pending := signalbox.PhaseImplementation, signalbox.PhaseCIPending
	for _, tt := range []struct {
		name    string
		right   bool
		history []operation
	}{
		{"sequential", true, []operation{claim(1, "a", 3), held(2, "b", lease("a", 3, 11)), look(3, implementation, lease("a", 3, 11)),
			under(4, "renew", "a", 3, 4), under(5, "exit", "a", 3, 6), look(6, pending, nil), stale(under(7, "renew", "a", 3, 0))}},
		{"an expired lease", true, []operation{claim(1, "a", 3), claim(12, "b", 5), stale(under(13, "exit", "a", 3, 0))}},
		{"a released lease", true, []operation{claim(1, "a", 3), under(2, "release", "a", 3, 4), claim(3, "b", 5)}},
		{"two grants", false, []operation{claim(1, "a", 3), claim(2, "b", 4)}},
		{"two grants at once", false, []operation{claim(1, "a", 3), claim(1, "b", 4)}},
		{"a grant before the lease expires", false, []operation{claim(1, "a", 3), claim(10, "b", 4)}},
		{"an exit under a stale lease", false, []operation{claim(1, "a", 3), claim(12, "b", 5), under(13, "exit", "a", 3, 7)}},
		{"a renewal after the lease expired", false, []operation{claim(1, "a", 3), under(12, "renew", "a", 3, 4)}},
		{"a conflict although the work is free", false, []operation{claim(1, "a", 3), under(2, "release", "a", 3, 4), held(3, "b", lease("a", 3, 11))}},
		{"stale although the lease is live", false, []operation{claim(1, "a", 3), stale(under(2, "exit", "a", 3, 0))}},
		{"an old view", false, []operation{claim(1, "a", 3), look(2, implementation, nil)}},
		{"an old phase", false, []operation{claim(1, "a", 3), under(2, "exit", "a", 3, 5), look(3, implementation, nil)}},
		{"an epoch that does not grow", false, []operation{claim(1, "a", 9), claim(12, "b", 5)}},
		{"time that goes backwards", false, []operation{claim(5, "a", 3), under(6, "release", "a", 3, 4), func() operation {
			o := claim(2, "b", 5)
			o.Call, o.Return = 70, 71
			return o
		}()}},
	} {
		wrong := checkLinear(facts{released: map[uint64]uint64{3: 4}}, tt.history)
		if (len(wrong) == 0) != tt.right {
			t.Errorf("%s: found %q", tt.name, wrong)
		}
	}
}
