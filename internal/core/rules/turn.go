package rules

import (
	"cmp"
	"fmt"
	"strings"

	"signalbox"
)

// ReportTurnSignal reports a turn signal that a behaviour tree received. It needs no lease, because
// the run of a tree is not a work item. A resumed run reports its earlier signals again: the answer
// is Repeated, and nothing is recorded.
type ReportTurnSignal struct {
	// Run is the id of the tree's run, and Node the path of the node that logs the signal.
	Run, Tree, Node string
	// Turn counts the signals that the run logs, from 1.
	Turn       uint64
	Signal     string
	Confidence float64
	// Reason is the explanation, whatever its field is called in a signal of this type.
	Reason string
	// Body is the blob with all fields and the block as the model wrote it; zero means none.
	Body  signalbox.Hash
	Actor string
}

func (c ReportTurnSignal) decide(d *decider) error {
	if err := cmp.Or(checkIDs("run", c.Run, "actor", c.Actor), c.check()); err != nil {
		return err
	}
	if i, known := d.s.turnIndex[c.Run]; known {
		switch run := d.s.turns[i]; {
		case c.Turn <= run.Last:
			d.answer.Seq, d.answer.Repeated = run.Seq, true
			return nil
		case c.Turn != run.Last+1:
			return refusef(signalbox.CodeConflict, fmt.Sprintf("report turn %d first", run.Last+1),
				"turn %d of run '%s' does not follow turn %d", c.Turn, c.Run, run.Last)
		}
	}
	d.answer.Seq = d.record("", "", c.Actor, TurnSignalHeard{
		c.Run, sanitize(c.Tree, 200), sanitize(c.Node, maxText), c.Turn, c.Signal, c.Confidence,
		sanitize(c.Reason, 1000), c.Body})
	return nil
}

func (c ReportTurnSignal) check() error {
	switch {
	case strings.TrimSpace(c.Tree) == "" || strings.TrimSpace(c.Node) == "":
		return refusef(signalbox.CodeUsage, "name the tree and the node that logs the signal",
			"the tree or the node is empty")
	case !signalbox.IsTurnType(c.Signal):
		return refusef(signalbox.CodeUsage, "the turn signals are "+
			strings.Join(signalbox.TurnTypes(), ", "),
			"there is no turn signal '%s'", sanitize(c.Signal, 100))
	case !isConfidence(c.Confidence):
		return refusef(signalbox.CodeUsage, "use a number from 0 to 1", "invalid confidence %v",
			c.Confidence)
	case c.Turn == 0:
		return refusef(signalbox.CodeUsage, "count the signals of a run from 1",
			"there is no turn 0")
	}
	return nil
}

// isConfidence reports whether c is from 0 to 1. It is false for NaN.
func isConfidence(c float64) bool { return c >= 0 && c <= 1 }

// maxTurnRuns is how many runs of trees the state remembers. A new run replaces the one that
// reported longest ago. A forgotten run counts as new and can start with any turn. The number is
// part of the rules: with a larger one, a log that was valid could become invalid.
const maxTurnRuns = 10_000

// turnRun is the last turn that the run of a tree reported, and the sequence of its event.
type turnRun struct {
	Run       string
	Last, Seq uint64
}

// TurnSignals returns the last turn that the run of a tree reported; ok is false if it is not
// remembered.
func (s *register) TurnSignals(run string) (last uint64, ok bool) {
	i, ok := s.turnIndex[run]
	if !ok {
		return 0, false
	}
	return s.turns[i].Last, true
}

// addTurn remembers the last turn of a run. If there are too many, it forgets the oldest.
func (s *register) addTurn(heard turnRun) {
	i, known := s.turnIndex[heard.Run]
	if !known && len(s.turns) < maxTurnRuns {
		i = len(s.turns)
		s.turns = append(s.turns, heard)
		s.turnIndex = put(s.turnIndex, heard.Run, i)
		s.onRollback(func() {
			delete(s.turnIndex, heard.Run)
			s.turns = s.turns[:i]
		})
		return
	}
	if !known {
		i = s.oldestTurnRun()
	}
	old := s.turns[i]
	s.setTurnRun(i, heard)
	s.onRollback(func() { s.setTurnRun(i, old) })
}

func (s *register) setTurnRun(i int, run turnRun) {
	delete(s.turnIndex, s.turns[i].Run)
	s.turns[i] = run
	s.turnIndex[run.Run] = i
}

func (s *register) oldestTurnRun() int {
	oldest := 0
	for i := range s.turns {
		if s.turns[i].Seq < s.turns[oldest].Seq {
			oldest = i
		}
	}
	return oldest
}

func (w *walker) turnRun(r *turnRun) {
	str(w, &r.Run)
	w.number(&r.Last)
	w.number(&r.Seq)
}

// indexTurns rebuilds the index of turns, and rejects what no log can give.
func (s *register) indexTurns(w *walker) {
	for i, run := range s.turns {
		if run.Last == 0 {
			w.fail("turn")
			return
		}
		s.turnIndex = put(s.turnIndex, run.Run, i)
	}
	if len(s.turnIndex) != len(s.turns) || len(s.turns) > maxTurnRuns {
		w.fail("turns")
	}
}
