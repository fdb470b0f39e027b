package rules

import (
	"fmt"
	"strings"

	"signalbox"
)

// ReportTurnSignal records a turn signal that a tree heard. It needs no lease: a tree's run is no work item. A run that is
// resumed gives what it gave before once more, which is answered with Repeated and not recorded again.
type ReportTurnSignal struct {
	// Run is the id of the tree's run, and Node the path of the node that logs the signal.
	Run, Tree, Node string
	// Turn counts the signals that the run logs, from 1.
	Turn       uint64
	Signal     string
	Confidence float64
	// Reason is the field that says why, whatever it is called in a signal of this type.
	Reason string
	// Body is the blob with all fields and the block as it was written; zero is none.
	Body  signalbox.Hash
	Actor string
}

func (c ReportTurnSignal) decide(d *decider) error {
	if err := firstError(checkIDs("run", c.Run, "actor", c.Actor), c.check()); err != nil {
		return err
	}
	if i, known := d.s.turnIndex[c.Run]; known {
		switch run := d.s.turns[i]; {
		case c.Turn <= run.Last:
			d.answer.Seq, d.answer.Repeated = run.Seq, true
			return nil
		case c.Turn != run.Last+1:
			return refusef(signalbox.CodeConflict, fmt.Sprintf("give turn %d first", run.Last+1),
				"turn %d of run '%s' does not follow turn %d", c.Turn, c.Run, run.Last)
		}
	}
	d.answer.Seq = d.record("", "", c.Actor, TurnSignalHeard{
		c.Run, sanitize(c.Tree, 200), sanitize(c.Node, maxText), c.Turn, c.Signal, c.Confidence, sanitize(c.Reason, 1000), c.Body})
	return nil
}

func (c ReportTurnSignal) check() error {
	switch {
	case strings.TrimSpace(c.Tree) == "" || strings.TrimSpace(c.Node) == "":
		return refusef(signalbox.CodeUsage, "name the tree and the node that logs the signal", "the tree or the node is empty")
	case !signalbox.IsTurnType(c.Signal):
		return refusef(signalbox.CodeUsage, "the turn signals are "+strings.Join(signalbox.TurnTypes(), ", "),
			"there is no turn signal '%s'", sanitize(c.Signal, 100))
	case !isConfidence(c.Confidence):
		return refusef(signalbox.CodeUsage, "give a number from 0 to 1", "a confidence cannot be %v", c.Confidence)
	case c.Turn == 0:
		return refusef(signalbox.CodeUsage, "count the signals of a run from 1", "there is no turn 0")
	}
	return nil
}

// isConfidence is false for what is no number too.
func isConfidence(c float64) bool { return c >= 0 && c <= 1 }

// maxTurnRuns is how many runs of trees are remembered; then a new one takes the place of the one that was heard of
// longest ago. A run that was forgotten counts as new, and may begin with any turn. The number is a part of the rules:
// with a larger one a log could contradict itself that did not before.
const maxTurnRuns = 10_000

// turnRun is how far a tree's run has logged its signals, and the event of the last.
type turnRun struct {
	Run       string
	Last, Seq uint64
}

// TurnSignals returns the last turn that a tree's run logged. ok is false if it logged none, or too long ago.
func (s *State) TurnSignals(run string) (last uint64, ok bool) {
	i, ok := s.turnIndex[run]
	if !ok {
		return 0, false
	}
	return s.turns[i].Last, true
}

// turnFault does not ask whether the signal is known: it changes no state, and later rules may know more of them.
func (s *State) turnFault(b TurnSignalHeard) string {
	last, known := s.TurnSignals(b.Run)
	switch {
	case b.Turn == 0 || known && b.Turn != last+1:
		return fmt.Sprintf("turn %d does not follow turn %d", b.Turn, last)
	case !isConfidence(b.Confidence):
		return fmt.Sprintf("a confidence cannot be %v", b.Confidence)
	}
	return idFault(b.Run)
}

func (s *State) applyTurnSignal(e *signalbox.Event, b TurnSignalHeard) {
	heard := turnRun{b.Run, b.Turn, e.Seq}
	i, known := s.turnIndex[b.Run]
	if !known && len(s.turns) < maxTurnRuns {
		i = len(s.turns)
		s.turns = append(s.turns, heard)
		s.turnIndex = put(s.turnIndex, b.Run, i)
		s.onRollback(func() {
			delete(s.turnIndex, b.Run)
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

func (s *State) setTurnRun(i int, run turnRun) {
	delete(s.turnIndex, s.turns[i].Run)
	s.turns[i] = run
	s.turnIndex[run.Run] = i
}

func (s *State) oldestTurnRun() int {
	oldest := 0
	for i := range s.turns {
		if s.turns[i].Seq < s.turns[oldest].Seq {
			oldest = i
		}
	}
	return oldest
}

func (w *walker) turnRun(r *turnRun) {
	text(w, &r.Run)
	w.number(&r.Last)
	w.number(&r.Seq)
}

// indexTurns makes the index anew, and refuses what no fold can have made.
func (s *State) indexTurns(w *walker) {
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
