package rules

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"

	"signalbox"
	"signalbox/internal/testkit/must"
)

// turnOf is a turn signal that a run may log.
func turnOf(run string, turn uint64) ReportTurnSignal {
	return ReportTurnSignal{Run: run, Tree: "oracle", Node: "main/turn/log_signal", Turn: turn,
		Signal: "need_turn", Confidence: 0.8,
		Reason: "the code search failed", Body: signalbox.Hash{7}, Actor: "oracle"}
}

func TestTurnIsHeard(t *testing.T) {
	b := newBox(t)
	if last, ok := b.s.TurnSignals("run-1"); ok || last != 0 {
		t.Errorf("before: %d, %t", last, ok)
	}
	d := b.try(turnOf("run-1", 1))
	wantAnswer(t, Answer{At: t0, Seq: 2}, d.Answer)
	wantEvents(t, d, `TurnSignalHeard {"run":"run-1","tree":"oracle","node":"main/turn/log_signal","turn":1,"signal":"need_turn","confidence":0.8,`+
		`"reason":"the code search failed","body":"07`+strings.Repeat("00", 31)+`"}`)
	if e := b.log[1]; e.Work != "" || e.Session != "" || e.Actor != "oracle" {
		t.Errorf("it is about %q, of %q, by %q", e.Work, e.Session, e.Actor)
	}
	if last, ok := b.s.TurnSignals("run-1"); !ok || last != 1 {
		t.Errorf("after: %d, %t", last, ok)
	}
	for i, signal := range signalbox.TurnTypes() {
		c := ReportTurnSignal{Run: "run-2", Tree: "t", Node: "n", Turn: uint64(i + 1),
			Signal: signal, Confidence: float64(i % 2), Actor: "op"}
		wantEvents(t, b.try(c),
			fmt.Sprintf(`TurnSignalHeard {"run":"run-2","tree":"t","node":"n","turn":%d,"signal":"%s","confidence":%d}`, i+1, signal, i%2))
	}
}

func TestTurnTextsAreClipped(t *testing.T) {
	b := newBox(t)
	c := turnOf("run-1", 1)
	long := "\x1b<ä>\xff" + strings.Repeat("x", 2*maxText)
	c.Tree, c.Node, c.Reason = long, long, long
	b.do(c)
	got := mustDecode(&b.log[1]).(TurnSignalHeard)
	for limit, text := range map[int]string{200: got.Tree, maxText: got.Node, 1000: got.Reason} {
		if len(text) != limit || !strings.HasPrefix(text, " <ä>\ufffdxxx") {
			t.Errorf("%d bytes, limit %d: %.20q", len(text), limit, text)
		}
	}
}

func TestTurnRefused(t *testing.T) {
	usage := func(msg string) refused { return refused{Code: signalbox.CodeUsage, Msg: msg} }
	const badID = `id "a/b": must be letters, digits, '.', '_' and '-', and begin with a letter or a digit`
	for name, tt := range map[string]struct {
		change func(*ReportTurnSignal)
		want   refused
	}{
		"no run": {func(c *ReportTurnSignal) { c.Run = "" },
			usage("run: an id must not be empty")},
		"a path as run": {func(c *ReportTurnSignal) { c.Run = "a/b" }, usage("run: " + badID)},
		"no actor": {func(c *ReportTurnSignal) { c.Actor = "" },
			usage("actor: an id must not be empty")},
		"no tree": {func(c *ReportTurnSignal) { c.Tree = " " },
			usage("the tree or the node is empty")},
		"no node": {func(c *ReportTurnSignal) { c.Node = "" },
			usage("the tree or the node is empty")},
		"no signal": {func(c *ReportTurnSignal) { c.Signal = "" },
			usage("there is no turn signal ''")},
		"a line signal": {func(c *ReportTurnSignal) { c.Signal = "ready_for_review" },
			usage("there is no turn signal 'ready_for_review'")},
		"another case": {func(c *ReportTurnSignal) { c.Signal = "STUCK\x1b" },
			usage("there is no turn signal 'STUCK '")},
		"too sure": {func(c *ReportTurnSignal) { c.Confidence = math.Nextafter(1, 2) },
			usage("invalid confidence 1.0000000000000002")},
		"less than not sure": {func(c *ReportTurnSignal) { c.Confidence = -0.1 },
			usage("invalid confidence -0.1")},
		"no number": {func(c *ReportTurnSignal) { c.Confidence = math.NaN() },
			usage("invalid confidence NaN")},
		"infinite": {func(c *ReportTurnSignal) { c.Confidence = math.Inf(1) },
			usage("invalid confidence +Inf")},
		"turn 0": {func(c *ReportTurnSignal) { c.Turn = 0 },
			usage("there is no turn 0")},
		"a gap": {func(c *ReportTurnSignal) { c.Turn = 4 },
			refused{Code: signalbox.CodeConflict,
				Msg: "turn 4 of run 'run-1' does not follow turn 2"}},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBox(t)
			b.do(turnOf("run-1", 1))
			b.do(turnOf("run-1", 2))
			c := turnOf("run-1", 3)
			tt.change(&c)
			wantRefused(t, b.try(c), tt.want)
		})
	}
}

// A run that nothing is known of may be one that was forgotten, so it may begin with any turn.
func TestTurnOfAnUnknownRun(t *testing.T) {
	b := newBox(t)
	b.do(turnOf("run-1", 41))
	wantRefused(t, b.try(turnOf("run-1", 43)),
		refused{Code: signalbox.CodeConflict,
			Msg: "turn 43 of run 'run-1' does not follow turn 41"})
	b.do(turnOf("run-1", 42))
	b.do(turnOf("run-2", math.MaxUint64))
	if d := b.try(turnOf("run-2", math.MaxUint64)); d.Err != nil || !d.Answer.Repeated {
		t.Errorf("the last turn there can be: %v", d.Err)
	}
}

// manyRuns returns a state that remembers as many runs as it can, and the log of it.
func manyRuns(t testing.TB) (*State, []signalbox.Event) {
	t.Helper()
	s := &State{}
	commands := []Command{OpenBox{Box: "box-1", Actor: "op"}}
	for i := range maxTurnRuns {
		commands = append(commands, turnOf(fmt.Sprintf("run-%d", i), 1))
	}
	return s, carryOut(t, s, t0, commands)
}

func TestRunsAreForgotten(t *testing.T) {
	s, log := manyRuns(t)
	wantKnown := func(run string, want bool) {
		t.Helper()
		if _, known := s.TurnSignals(run); known != want {
			t.Errorf("%s is known: %t", run, known)
		}
	}
	wantKnown("run-0", true)
	half := s.Snapshot()
	log = append(log, carryOut(t, s, t0, []Command{turnOf("run-0", 2), turnOf("new-1", 1)})...)
	wantKnown("run-0", true) // it was heard of after run-1
	wantKnown("run-1", false)
	log = append(log, carryOut(t, s, t0, []Command{turnOf("run-1", 1), turnOf("new-2", 9)})...)
	wantKnown("run-1", true) // as new, in the place of run-2
	wantKnown("run-2", false)
	wantKnown("run-3", false)
	wantKnown("run-4", true)
	if len(s.turns) != maxTurnRuns || len(s.turnIndex) != maxTurnRuns {
		t.Errorf("%d runs are remembered, %d can be found", len(s.turns), len(s.turnIndex))
	}
	if fault := brokenIndex(s, nil) + brokenSnapshot(s, nil) + brokenTurns(s, log); fault != "" {
		t.Error(fault)
	}

	whole := foldFrom(t, log, len(log)/2)
	resumed, err := FromSnapshot(half)
	must.Succeed(t, err)
	for i := range log[maxTurnRuns+1:] {
		must.Succeed(t, resumed.Apply(&log[maxTurnRuns+1+i]))
	}
	for what, other := range map[string]*State{"folded from a snapshot": resumed,
		"folded again": whole} {
		if !bytes.Equal(s.Snapshot(), other.Snapshot()) || !s.indexes().equal(other.indexes()) {
			t.Errorf("%s it is another state", what)
		}
	}
}

func TestForgottenRunsComeBackOnRollback(t *testing.T) {
	s, _ := manyRuns(t)
	wantUnchanged(t, s, func() {
		s.Begin()
		carryOut(t, s, t0, []Command{turnOf("run-0", 2), turnOf("new-1", 1), turnOf("run-1", 3),
			turnOf("new-1", 2)})
		s.Rollback()
	})
}

func TestImpossibleTurns(t *testing.T) {
	b := newBox(t)
	b.do(turnOf("run-1", 1))
	for fault, heard := range map[string]TurnSignalHeard{
		"turn 1 does not follow turn 1":               {Run: "run-1", Turn: 1},
		"turn 3 does not follow turn 1":               {Run: "run-1", Turn: 3},
		"turn 0 does not follow turn 0":               {Run: "run-2"},
		"invalid confidence 1.5":                      {Run: "run-1", Turn: 2, Confidence: 1.5},
		"invalid confidence -1":                       {Run: "run-1", Turn: 2, Confidence: -1},
		"an id must not be empty":                     {Turn: 1},
		`id "run..1": must not contain '..'`:          {Run: "run..1", Turn: 1},
		`id "run-1.": must not end in '.lock' or '.'`: {Run: "run-1.", Turn: 1},
	} {
		wantUnchanged(t, b.s, func() {
			err := b.s.Apply(b.event("", "", heard))
			if got := (*HistoryError)(nil); !errors.As(err, &got) || got.Fault != fault {
				t.Errorf("%v, want %s", err, fault)
			}
		})
	}
	// What later rules may take for a signal moves nothing here.
	if err := b.s.Apply(b.event("", "",
		TurnSignalHeard{Run: "run-1", Turn: 2, Signal: "of_later"})); err != nil {
		t.Error(err)
	}
}

func TestSnapshotOfTurns(t *testing.T) {
	b := lived(t)
	b.do(turnOf("run-1", 1))
	b.do(turnOf("run-2", 5))
	whole := b.s.Snapshot()
	still := b.s.ForSnapshot()
	b.do(turnOf("run-1", 2))
	if !bytes.Equal(whole, still.Snapshot()) {
		t.Error("what was taken of the state changed with it")
	}
	for i := range whole {
		if _, err := FromSnapshot(whole[:i]); !errors.Is(err, ErrSnapshot) {
			t.Errorf("the first %d bytes: %v", i, err)
		}
	}
	forge := func(turns ...turnRun) []byte {
		s := lived(t).s
		s.turns = turns
		return s.Snapshot()
	}
	if _, err := FromSnapshot(forge(turnRun{"a", 1, 2}, turnRun{"b", 1, 3})); err != nil {
		t.Errorf("of two runs: %v", err)
	}
	var many []turnRun
	for i := range uint64(maxTurnRuns + 1) {
		many = append(many, turnRun{fmt.Sprint(i), 1, i})
	}
	if _, err := FromSnapshot(forge(many[1:]...)); err != nil {
		t.Errorf("of as many runs as there can be: %v", err)
	}
	for name, data := range map[string][]byte{
		"a run twice":      forge(turnRun{"a", 1, 2}, turnRun{"a", 1, 3}),
		"a run of no turn": forge(turnRun{"a", 0, 2}),
		"too many runs":    forge(many...),
	} {
		if _, err := FromSnapshot(data); !errors.Is(err, ErrSnapshot) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
