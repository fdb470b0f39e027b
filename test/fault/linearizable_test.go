package fault

import (
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"signalbox"
	"signalbox/internal/core/rules"
)

// TestLinearizable lets many processes work on a few items, with leases that really run out, and checks that nobody was
// told anything that one process alone would not have said.
func TestLinearizable(t *testing.T) {
	clients, commands, works := sized(6, 16), sized(200, 800), sized(3, 6)
	random := newRand(t)
	s := newSite(t)
	b := s.open(t)
	for i := range works {
		if _, err := b.Engine.Do(t.Context(), rules.OpenWork{Work: fmt.Sprintf("task-%d", i), Actor: "tester"}); err != nil {
			t.Fatal(err)
		}
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
		t.Errorf("%d commands were noted, want %d", len(history), clients*commands)
	}
	events := s.mustVerify(t)
	countKinds(t, events, history)
	checkAnswers(t, events, history)
	for _, wrong := range checkLinear(factsOf(t, events), history) {
		t.Errorf("no order of what happened explains the answers about %s", wrong)
	}
}

// countKinds fails if something never happened that the test is there for.
func countKinds(t *testing.T, events []signalbox.Event, history []operation) {
	t.Helper()
	happened := map[string]int{}
	for _, e := range events {
		happened[e.Type]++
	}
	for _, op := range history {
		happened[fmt.Sprintf("%s %d", op.Do, op.Code)]++
	}
	t.Logf("what happened: %v", happened)
	for _, kind := range []string{"LeaseGranted", "LeaseExpired", "LeaseRenewed", "LeaseReleased", "AgentSessionCompleted", "WorkUnblocked",
		"SignalRefused", "claim 0", "claim 4", "renew 0", "renew 4", "release 0", "release 4", "exit 0", "exit 4", "unblock 0", "expire 0", "look 0"} {
		if happened[kind] == 0 {
			t.Errorf("this never happened: %s", kind)
		}
	}
}

// checkAnswers checks that the ledger has what was answered and nothing else: each change was answered to one command.
func checkAnswers(t *testing.T, events []signalbox.Event, history []operation) {
	t.Helper()
	types := map[string]string{"claim": "LeaseGranted", "renew": "LeaseRenewed", "release": "LeaseReleased", "take": "LeaseReleased",
		"exit": "AgentSessionCompleted", "unblock": "PhaseChanged"}
	answered := map[uint64]bool{}
	for _, op := range history {
		recorded, writes := types[op.Do]
		if !writes || op.Code != 0 || op.Repeated || op.Do == "renew" && op.Seq == op.Epoch {
			continue
		}
		if op.Seq == 0 || op.Seq > uint64(len(events)) {
			t.Errorf("%s of %s was answered with event %d, which is not there", op.Do, op.Work, op.Seq)
			continue
		}
		e := events[op.Seq-1]
		if e.Type != recorded || e.Work != op.Work || !e.Time.Equal(op.At) || answered[op.Seq] {
			t.Errorf("%s of %s at %s was answered with event %d, a %s of %s at %s, answered before: %v",
				op.Do, op.Work, op.At, e.Seq, e.Type, e.Work, e.Time, answered[op.Seq])
		}
		answered[op.Seq] = true
		if op.Do == "exit" { // with the change of phase and the end of the lease
			answered[op.Seq+1], answered[op.Seq+2] = true, true
		}
	}
	for _, e := range events {
		switch e.Type {
		case "LeaseGranted", "LeaseRenewed", "LeaseReleased", "AgentSessionCompleted", "PhaseChanged":
			if !answered[e.Seq] {
				t.Errorf("event %d, a %s of %s, was answered to nobody", e.Seq, e.Type, e.Work)
			}
		}
	}
}

// TestWrongHistoryIsFound shows that the check of histories finds what it is there to find.
func TestWrongHistoryIsFound(t *testing.T) {
	at := func(second int) time.Time { return time.Unix(int64(1000+second), 0) }
	lease := func(session string, epoch uint64, until int) *signalbox.Lease {
		return &signalbox.Lease{ID: "l-" + session, Epoch: epoch, Session: session, Expires: at(until)}
	}
	// op is done at a second, from just before to just after it.
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
		{"one after the other", true, []operation{claim(1, "a", 3), held(2, "b", lease("a", 3, 11)), look(3, implementation, lease("a", 3, 11)),
			under(4, "renew", "a", 3, 4), under(5, "exit", "a", 3, 6), look(6, pending, nil), stale(under(7, "renew", "a", 3, 0))}},
		{"a lease that ran out", true, []operation{claim(1, "a", 3), claim(12, "b", 5), stale(under(13, "exit", "a", 3, 0))}},
		{"given back", true, []operation{claim(1, "a", 3), under(2, "release", "a", 3, 4), claim(3, "b", 5)}},
		{"two grants", false, []operation{claim(1, "a", 3), claim(2, "b", 4)}},
		{"two grants at once", false, []operation{claim(1, "a", 3), claim(1, "b", 4)}},
		{"a grant before the lease runs out", false, []operation{claim(1, "a", 3), claim(10, "b", 4)}},
		{"an exit under a stale lease", false, []operation{claim(1, "a", 3), claim(12, "b", 5), under(13, "exit", "a", 3, 7)}},
		{"a renewal after the lease ran out", false, []operation{claim(1, "a", 3), under(12, "renew", "a", 3, 4)}},
		{"held by nobody", false, []operation{claim(1, "a", 3), under(2, "release", "a", 3, 4), held(3, "b", lease("a", 3, 11))}},
		{"stale while it is live", false, []operation{claim(1, "a", 3), stale(under(2, "exit", "a", 3, 0))}},
		{"an old view", false, []operation{claim(1, "a", 3), look(2, implementation, nil)}},
		{"an old phase", false, []operation{claim(1, "a", 3), under(2, "exit", "a", 3, 5), look(3, implementation, nil)}},
		{"an epoch that does not grow", false, []operation{claim(1, "a", 9), claim(12, "b", 5)}},
		{"a time that runs backwards", false, []operation{claim(5, "a", 3), under(6, "release", "a", 3, 4), func() operation {
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
