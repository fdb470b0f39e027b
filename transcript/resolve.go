package transcript

import (
	"fmt"
	"reflect"
	"slices"

	"signalbox"
)

// Resolve returns the signal that an agent's whole turn amounts to. signals are all that a Scanner
// returned for the turn; refused ones matter, because a broken or dropped exit signal makes others
// ambiguous. An empty role or work is not checked. Resolve sets Refused on every accepted signal
// that does not win, and names the work in the Detail of near misses.
//
// If no signal wins, the result is named signalbox.NameUnknown. Its Refused is ReasonAmbiguous if
// the turn contradicts itself, ReasonTextAfter if text follows a verdict that passes work, and
// ReasonMixedFormats if a passing signal would win and the stream is mixed. Its Detail is advice
// for the agent.
func Resolve(signals []signalbox.Signal, role signalbox.Role, work string) signalbox.Signal {
	for i := range signals {
		if s := &signals[i]; s.Taken() {
			s.Refused = RefusalReason(*s, role, work)
		} else if s.Refused == signalbox.ReasonNearMiss {
			nameWork(s, work)
		}
	}
	refuseThoughts(signals)
	exit, broken := exitCandidate(signals)
	line := lineCandidate(signals, exit >= 0)
	turn := lastTaken(signals, signalbox.DialectTurn)

	winner := -1
	var confirmed *signalbox.ExitSignal
	switch {
	case slices.ContainsFunc(signals, isDropped):
		return refuseAll(signals, signalbox.ReasonAmbiguous, "too many signals: some were not kept")
	case exit < 0 && line >= 0:
		winner = line
	case exit >= 0 && line < 0:
		winner = exit
	case exit >= 0:
		if next, ok := signals[exit].Exit.NextPhase(); !ok ||
			verdictPhase(signals[line].Name) != next {
			return refuseAll(signals, signalbox.ReasonAmbiguous,
				"the line signal and the exit signal imply different phases")
		}
		winner, confirmed = line, signals[exit].Exit
	case turn >= 0 && !broken:
		winner = turn
	}
	if winner < 0 {
		return unknown("", advice(signals, role))
	}
	won := signals[winner]
	if confirmed != nil {
		won.Exit = confirmed
	}
	if mixed := slices.IndexFunc(signals, isMixed); mixed >= 0 && won.Passing() {
		return refuseAll(signals, signalbox.ReasonMixedFormats, signals[mixed].Detail)
	}
	if isTakenBack(&won, signals) {
		return refuseAll(signals, signalbox.ReasonTextAfter, askToConfirm(won))
	}
	supersede(signals, winner)
	return won
}

// RefusalReason returns why a session with the given role and work may not send an accepted signal,
// "" if it may. An empty role or work is not checked.
func RefusalReason(s signalbox.Signal, role signalbox.Role, work string) signalbox.Reason {
	row, ok := signalbox.LineSignalNamed(s.Name)
	switch {
	case s.Dialect != signalbox.DialectLine || !ok:
		return ""
	case role != "" && !role.MaySend(s.Name):
		return signalbox.ReasonOutOfRole
	case work != "" && row.Argument == signalbox.TaskArgument && s.TaskID != work:
		return signalbox.ReasonWrongWork
	}
	return ""
}

// Authorize refuses an accepted signal that a session with the given role and work may not send,
// with a detail for the agent. It leaves other signals unchanged. An empty role or work is not
// checked.
func Authorize(s *signalbox.Signal, role signalbox.Role, work string) {
	if !s.Taken() {
		return
	}
	switch s.Refused = RefusalReason(*s, role, work); s.Refused {
	case signalbox.ReasonOutOfRole:
		row, _ := signalbox.LineSignalNamed(s.Name)
		s.Detail = fmt.Sprintf("the role %s may not send %s", role, row.Text)
	case signalbox.ReasonWrongWork:
		s.Detail = fmt.Sprintf("about %s, not %s", s.TaskID, work)
	}
}

// lineCandidate returns the index of the line signal that wins over the others, or -1. Of each
// family the last signal counts, and of the families the first in table order. Next to an exit
// signal only verdicts count: it ends the turn, and urgent signals only interrupt one.
func lineCandidate(signals []signalbox.Signal, verdictsOnly bool) int {
	last := map[string]int{}
	for i, s := range signals {
		row, ok := signalbox.LineSignalNamed(s.Name)
		if ok && s.Taken() && s.Dialect == signalbox.DialectLine && !(verdictsOnly && row.Urgent) {
			last[row.Family] = i
		}
	}
	every, asks := last[signalbox.FamilyEvery]
	for _, family := range []string{signalbox.FamilyDelivery, signalbox.FamilyReview,
		signalbox.FamilyAudit, signalbox.FamilyHealth} {
		if i, ok := last[family]; ok && asks && every > i {
			delete(last, family)
		}
	}
	for _, row := range lineRows {
		if i, ok := last[row.Family]; ok && signals[i].Name == row.Name {
			return i
		}
	}
	return -1
}

// exitCandidate returns the index of the last accepted exit signal, or -1. If any exit signal of
// the turn is broken, it refuses all of them and returns -1 and true.
func exitCandidate(signals []signalbox.Signal) (index int, broken bool) {
	for i := range signals {
		s := &signals[i]
		if s.Dialect == signalbox.DialectExit && (s.Refused == signalbox.ReasonMalformed ||
			s.Refused == signalbox.ReasonTooLarge) {
			broken = true
		}
	}
	index = lastTaken(signals, signalbox.DialectExit)
	if broken {
		for i := range signals {
			if s := &signals[i]; s.Dialect == signalbox.DialectExit && s.Taken() {
				s.Refused, s.Detail = signalbox.ReasonAmbiguous,
					"another exit signal of the turn is not valid"
			}
		}
		index = -1
	}
	return index, broken
}

func lastTaken(signals []signalbox.Signal, dialect signalbox.Dialect) int {
	for i, s := range slices.Backward(signals) {
		if s.Taken() && s.Dialect == dialect {
			return i
		}
	}
	return -1
}

// isDropped reports whether s is the remark that signals were dropped.
func isDropped(s signalbox.Signal) bool {
	return s.Refused == signalbox.ReasonTooLarge && s.Dialect == ""
}

// isMixed reports whether s is the remark that the stream is mixed.
func isMixed(s signalbox.Signal) bool {
	return s.Refused == signalbox.ReasonMixedFormats && s.Dialect == ""
}

// verdictPhase returns the phase that work enters after a verdict, "" if it does not change.
func verdictPhase(name string) signalbox.Phase {
	switch name {
	case signalbox.NameReadyForReview:
		return signalbox.PhaseCIPending
	case signalbox.NameReviewPassed:
		return signalbox.PhaseReadyForMerge
	case signalbox.NameAuditPassed:
		return signalbox.PhaseCompleted
	case signalbox.NameExpandedSpec, signalbox.NameTaskIncomplete, signalbox.NameReviewFailed,
		signalbox.NameAuditFailed:
		return signalbox.PhaseImplementation
	case signalbox.NameInfraBlocked, signalbox.NameAuditBlocked, signalbox.NameDivineClarification:
		return signalbox.PhaseBlocked
	}
	return ""
}

// refuseAll refuses all accepted signals and returns the unknown signal.
func refuseAll(signals []signalbox.Signal, reason signalbox.Reason,
	detail string) signalbox.Signal {
	for i := range signals {
		if s := &signals[i]; s.Taken() {
			s.Refused, s.Detail = reason, detail
		}
	}
	return unknown(reason, detail)
}

func unknown(reason signalbox.Reason, detail string) signalbox.Signal {
	return signalbox.Signal{Name: signalbox.NameUnknown, Handler: signalbox.HandlerClarify,
		Refused: reason, Detail: detail}
}

// advice returns the detail of the last text that was almost a signal which the role may send.
func advice(signals []signalbox.Signal, role signalbox.Role) string {
	for _, s := range slices.Backward(signals) {
		if s.Refused == signalbox.ReasonNearMiss && role != "" && !role.MaySend(s.Name) {
			continue
		}
		switch s.Refused {
		case signalbox.ReasonNearMiss, signalbox.ReasonMalformed, signalbox.ReasonUnknownType,
			signalbox.ReasonWrongKey,
			signalbox.ReasonTooLarge:
			if s.Dialect != "" {
				return s.Detail
			}
		}
	}
	return ""
}

// supersede refuses all accepted signals except the winner.
func supersede(signals []signalbox.Signal, winner int) {
	for i := range signals {
		s := &signals[i]
		if i == winner || !s.Taken() {
			continue
		}
		if s.Refused = signalbox.ReasonSuperseded; sameSignal(s, &signals[winner]) {
			s.Refused = signalbox.ReasonDuplicate
		}
	}
}

func sameSignal(a, b *signalbox.Signal) bool {
	if a.Dialect != b.Dialect || a.Name != b.Name || a.TaskID != b.TaskID {
		return false
	}
	return reflect.DeepEqual(a.Exit, b.Exit) && (a.Turn == nil || b.Turn == nil || sameTurn(a, b))
}
