package fault

import (
	"bytes"
	"cmp"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"signalbox"
	"signalbox/internal/core/rules"
	"signalbox/internal/testkit/must"
)

// TestLinearizable lets many processes work on a few items, with leases that really expire, and
// checks that all answers could have come from a single sequential process.
func TestLinearizable(t *testing.T) { onEachBackend(t, testLinearizable) }

// skews are by how much the clocks of machines are ahead.
var skews = []time.Duration{0, time.Second, -time.Second}

func testLinearizable(t *testing.T, on backend) {
	clients, commands, works := sized(6, 16), sized(200, 800), sized(3, 6)
	random := newRand(t)
	s := on.newSite(t)
	b := s.open(t)
	var names []string
	for i := range works {
		names = append(names, fmt.Sprintf("task-%d", i))
		openWork(t, b, names[i])
	}
	var processes []*child
	for i := range clients {
		processes = append(processes, startChild(t, "history", s.box, s.keyFile, fmt.Sprint(i),
			fmt.Sprint(random.IntN(1<<30)),
			fmt.Sprint(commands), strings.Join(names, ","), fmt.Sprint(i%2 == 0),
			fmt.Sprint(skews[i%len(skews)])))
	}
	var history []operation
	for _, c := range processes {
		operations, unanswered := parseOperations(t, c.end(t))
		if unanswered != nil {
			t.Errorf("a client ended before it had an answer: %+v", unanswered)
		}
		history = append(history, operations...)
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

// parseOperations parses what a client prints. The last operation may have no answer, if the client
// was killed.
func parseOperations(t testing.TB, lines []string) (answered []operation, unanswered *operation) {
	t.Helper()
	for i, line := range lines {
		var op operation
		if err := json.Unmarshal([]byte(line), &op); err != nil {
			if i == len(lines)-1 { // it was killed while it printed
				break
			}
			t.Fatalf("a client printed %q: %v", line, err)
		}
		if unanswered = &op; op.Return != 0 {
			answered, unanswered = append(answered, op), nil
		}
	}
	return answered, unanswered
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
	for _, kind := range []string{rules.TypeLeaseGranted, rules.TypeLeaseExpired,
		rules.TypeLeaseRenewed, rules.TypeLeaseReleased, rules.TypeAgentSessionCompleted,
		rules.TypeWorkUnblocked,
		rules.TypeSignalRefused, "claim 0", "claim 4", "renew 0", "renew 4", "release 0",
		"release 4", "exit 0", "exit 4", "unblock 0", "expire 0", "look 0"} {
		if happened[kind] == 0 {
			t.Errorf("never occurred: %s", kind)
		}
	}
}

// checkAnswers checks that the events in the ledger about the works of a history are exactly those
// in the answers, and that each belongs to one command.
func checkAnswers(t *testing.T, events []signalbox.Event, history []operation) {
	t.Helper()
	types := map[string]string{"claim": rules.TypeLeaseGranted, "renew": rules.TypeLeaseRenewed,
		"release": rules.TypeLeaseReleased, "revoke": rules.TypeLeaseReleased,
		"exit": rules.TypeAgentSessionCompleted, "unblock": rules.TypePhaseChanged}
	answered, works := map[uint64]bool{}, map[string]bool{}
	for _, op := range history {
		works[op.Work] = true
		recorded, writes := types[op.Do]
		if !writes || op.Code != 0 || op.Repeated || op.Do == "renew" && op.Seq == op.Epoch {
			continue
		}
		if op.Seq == 0 || op.Seq > uint64(len(events)) {
			t.Errorf("%s of %s was answered with event %d, which does not exist", op.Do, op.Work,
				op.Seq)
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
		case rules.TypeLeaseGranted, rules.TypeLeaseRenewed, rules.TypeLeaseReleased,
			rules.TypeAgentSessionCompleted, rules.TypePhaseChanged:
			if !answered[e.Seq] && works[e.Work] {
				t.Errorf("event %d, a %s of %s in session %s, is in no answer", e.Seq, e.Type,
					e.Work, cmp.Or(e.Session, "none"))
			}
		}
	}
}

// keepHistory writes the operations of a history, and the events about their works, into files that
// stay after the test, one in each line.
func keepHistory(t *testing.T, events []signalbox.Event, history []operation) (dir string) {
	t.Helper()
	works := map[string]bool{}
	var operations, about bytes.Buffer
	write := func(to *bytes.Buffer, v any) {
		line, err := json.Marshal(v)
		must.Succeed(t, err)
		to.Write(append(line, '\n'))
	}
	for _, op := range slices.SortedStableFunc(slices.Values(history), func(a, b operation) int {
		return cmp.Or(strings.Compare(a.Work, b.Work), cmp.Compare(a.Call, b.Call))
	}) {
		works[op.Work] = true
		write(&operations, op)
	}
	for i := range events {
		if works[events[i].Work] {
			write(&about, &events[i])
		}
	}
	dir, err := os.MkdirTemp(keptBelow(t), "history-")
	must.Succeed(t, err)
	for name, lines := range map[string]*bytes.Buffer{"operations.jsonl": &operations,
		"events.jsonl": &about} {
		must.Succeed(t, os.WriteFile(filepath.Join(dir, name), lines.Bytes(), 0o600))
	}
	t.Logf("the operations and the events are in %s", dir)
	return dir
}

// keptBelow returns a folder for files that stay after a failed test: with the flag -artifacts that
// of the test, otherwise the folder for temporary files, because go test removes the other one.
func keptBelow(t *testing.T) string {
	if f := flag.Lookup("test.artifacts"); f != nil && f.Value.String() == "true" {
		return t.ArtifactDir()
	}
	return os.TempDir()
}

// The history of a failed test can be read again.
func TestHistoryIsKept(t *testing.T) {
	history := []operation{{Do: "renew", Work: "b", Call: 2}, {Do: "claim", Work: "b", Call: 1},
		{Do: "look", Work: "a", Call: 3}}
	events := []signalbox.Event{{Seq: 1, Work: "b", Session: "x"}, {Seq: 2, Work: "other"}}
	dir := keepHistory(t, events, history)
	t.Cleanup(func() { os.RemoveAll(dir) })
	read := func(name string) []string {
		text, err := os.ReadFile(filepath.Join(dir, name))
		must.Succeed(t, err)
		return slices.Collect(strings.Lines(string(text)))
	}
	var got string
	for _, line := range read("operations.jsonl") {
		var op operation
		must.Succeed(t, json.Unmarshal([]byte(line), &op))
		got += op.Do + " "
	}
	if kept := read("events.jsonl"); got != "look claim renew " || len(kept) != 1 ||
		!strings.Contains(kept[0], `"x"`) {
		t.Errorf("operations %q, events %q", got, kept)
	}
}

// TestWrongHistoryIsFound checks that checkLinear detects histories that are not linearizable.
func TestWrongHistoryIsFound(t *testing.T) {
	at := func(second int) time.Time { return time.Unix(int64(1000+second), 0) }
	lease := func(session string, epoch uint64, until int) *signalbox.Lease {
		return &signalbox.Lease{ID: "l-" + session, Epoch: epoch, Session: session,
			Expires: at(until)}
	}
	// op completes an operation that runs from just before to just after the given second.
	op := func(second int, o operation) operation {
		o.Work, o.At, o.Call, o.Return = "task-1", at(second), int64(second)*10-1,
			int64(second)*10+1
		return o
	}
	claim := func(second int, session string, seq uint64) operation {
		return op(second, operation{Do: "claim", As: session, Role: signalbox.RoleDeveloper,
			TTL: 10 * time.Second, Seq: seq,
			Lease: lease(session, seq, second+10), Now: signalbox.PhaseImplementation})
	}
	under := func(second int, do, session string, epoch, seq uint64) operation {
		return op(second, operation{Do: do, As: session, Epoch: epoch, Seq: seq,
			TTL: 10 * time.Second, Phase: signalbox.PhaseImplementation,
			Reason: signalbox.ExitCompleted, Now: signalbox.PhaseCIPending,
			Lease: lease(session, epoch, second+10)})
	}
	stale := func(o operation) operation {
		o.Code, o.Seq, o.Lease = signalbox.CodeConflict, 99, nil
		return o
	}
	held := func(second int, session string, by *signalbox.Lease) operation {
		return op(second, operation{Do: "claim", As: session, Role: signalbox.RoleDeveloper,
			Code: signalbox.CodeConflict, Lease: by})
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
		{"sequential", true, []operation{claim(1, "a", 3), held(2, "b", lease("a", 3, 11)),
			look(3, implementation, lease("a", 3, 11)),
			under(4, "renew", "a", 3, 4), under(5, "exit", "a", 3, 6), look(6, pending, nil),
			stale(under(7, "renew", "a", 3, 0))}},
		{"an expired lease", true, []operation{claim(1, "a", 3), claim(12, "b", 5),
			stale(under(13, "exit", "a", 3, 0))}},
		{"a released lease", true, []operation{claim(1, "a", 3), under(2, "release", "a", 3, 4),
			claim(3, "b", 5)}},
		{"two grants", false, []operation{claim(1, "a", 3), claim(2, "b", 4)}},
		{"two grants at once", false, []operation{claim(1, "a", 3), claim(1, "b", 4)}},
		{"a grant before the lease expires", false,
			[]operation{claim(1, "a", 3), claim(10, "b", 4)}},
		{"an exit under a stale lease", false, []operation{claim(1, "a", 3), claim(12, "b", 5),
			under(13, "exit", "a", 3, 7)}},
		{"a renewal after the lease expired", false,
			[]operation{claim(1, "a", 3), under(12, "renew", "a", 3, 4)}},
		{"a conflict although the work is free", false,
			[]operation{claim(1, "a", 3), under(2, "release", "a", 3, 4),
				held(3, "b", lease("a", 3, 11))}},
		{"stale although the lease is live", false,
			[]operation{claim(1, "a", 3), stale(under(2, "exit", "a", 3, 0))}},
		{"an old view", false, []operation{claim(1, "a", 3), look(2, implementation, nil)}},
		{"an old phase", false, []operation{claim(1, "a", 3), under(2, "exit", "a", 3, 5),
			look(3, implementation, nil)}},
		{"an epoch that does not grow", false, []operation{claim(1, "a", 9), claim(12, "b", 5)}},
		{"time that goes backwards", false,
			[]operation{claim(5, "a", 3), under(6, "release", "a", 3, 4), func() operation {
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
