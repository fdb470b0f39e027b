package transcript

import (
	"fmt"
	"reflect"
	"slices"

	"signalbox"
)

// Resolve picks what an agent's whole turn said, from all that a Scanner returned for it, refused ones included: a
// broken exit signal or a dropped one makes others doubtful. An empty role or work means that it is not known and
// does not restrict. Resolve sets Refused on the taken signals that do not stand. It returns a signal named unknown when nothing stands; Refused is then ambiguous if the turn
// contradicts itself, and Detail is the best advice there is for the agent.
func Resolve(signals []signalbox.Signal, role signalbox.Role, work string) signalbox.Signal {
	for i := range signals {
		if s := &signals[i]; s.Taken() {
			s.Refused = Restrict(*s, role, work)
		}
	}
	exit, broken := standingExit(signals)
	line := standingLine(signals, exit >= 0)
	turn := lastTaken(signals, signalbox.DialectTurn)

	winner := -1
	var confirmed *signalbox.ExitSignal
	switch {
	case slices.ContainsFunc(signals, isDropped):
		return ambiguous(signals, "too many signals: some were not kept")
	case exit < 0 && line >= 0:
		winner = line
	case exit >= 0 && line < 0:
		winner = exit
	case exit >= 0:
		if next, ok := signals[exit].Exit.NextPhase(); !ok || verdictPhase(signals[line].Name) != next {
			return ambiguous(signals, "the line signal and the exit signal imply different phases")
		}
		winner, confirmed = line, signals[exit].Exit
	case turn >= 0 && !broken:
		winner = turn
	}
	if winner < 0 {
		return signalbox.Signal{Name: signalbox.NameUnknown, Handler: signalbox.HandlerClarify, Detail: advice(signals)}
	}
	supersede(signals, winner)
	won := signals[winner]
	if confirmed != nil {
		won.Exit = confirmed
	}
	return won
}

// Restrict returns why a taken signal does not count for a session of that role on that work, "" if it does.
func Restrict(s signalbox.Signal, role signalbox.Role, work string) signalbox.Reason {
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

// Judge refuses a taken signal that does not count for a session of that role on that work, with the reason and what to
// say of it. Others stay as they are.
func Judge(s *signalbox.Signal, role signalbox.Role, work string) {
	if !s.Taken() {
		return
	}
	switch s.Refused = Restrict(*s, role, work); s.Refused {
	case signalbox.ReasonOutOfRole:
		row, _ := signalbox.LineSignalNamed(s.Name)
		s.Detail = fmt.Sprintf("the role %s may not send %s", role, row.Text)
	case signalbox.ReasonWrongWork:
		s.Detail = fmt.Sprintf("about %s, not %s", s.TaskID, work)
	}
}

// standingLine returns the index of the line signal that stands, -1 if there is none: the last of each family, and of
// those the first in the table's order. Beside an exit signal only verdicts count, since the others have acted already.
func standingLine(signals []signalbox.Signal, verdictsOnly bool) int {
	last := map[string]int{}
	for i, s := range signals {
		row, ok := signalbox.LineSignalNamed(s.Name)
		if ok && s.Taken() && s.Dialect == signalbox.DialectLine && !(verdictsOnly && row.Urgent) {
			last[row.Family] = i
		}
	}
	every, asks := last[signalbox.FamilyEvery]
	for _, family := range []string{signalbox.FamilyDelivery, signalbox.FamilyReview, signalbox.FamilyAudit, signalbox.FamilyHealth} {
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

// standingExit returns the index of the exit signal that stands, -1 if there is none, and whether that is because
// one of them was broken.
func standingExit(signals []signalbox.Signal) (index int, broken bool) {
	for i := range signals {
		s := &signals[i]
		if s.Dialect == signalbox.DialectExit && (s.Refused == signalbox.ReasonMalformed || s.Refused == signalbox.ReasonTooLarge) {
			broken = true
		}
	}
	index = lastTaken(signals, signalbox.DialectExit)
	if broken {
		for i := range signals {
			if s := &signals[i]; s.Dialect == signalbox.DialectExit && s.Taken() {
				s.Refused, s.Detail = signalbox.ReasonAmbiguous, "another exit signal of the turn is not valid"
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

// isDropped recognises the remark that signals were counted but not kept.
func isDropped(s signalbox.Signal) bool {
	return s.Refused == signalbox.ReasonTooLarge && s.Dialect == ""
}

// verdictPhase returns the phase a verdict brings its work to, "" if it brings it to none.
func verdictPhase(name string) signalbox.Phase {
	switch name {
	case signalbox.NameReadyForReview:
		return signalbox.PhaseCIPending
	case signalbox.NameReviewPassed:
		return signalbox.PhaseReadyForMerge
	case signalbox.NameAuditPassed:
		return signalbox.PhaseCompleted
	case signalbox.NameExpandedSpec, signalbox.NameTaskIncomplete, signalbox.NameReviewFailed, signalbox.NameAuditFailed:
		return signalbox.PhaseImplementation
	case signalbox.NameInfraBlocked, signalbox.NameAuditBlocked, signalbox.NameDivineClarification:
		return signalbox.PhaseBlocked
	}
	return ""
}

func ambiguous(signals []signalbox.Signal, detail string) signalbox.Signal {
	for i := range signals {
		if s := &signals[i]; s.Taken() {
			s.Refused, s.Detail = signalbox.ReasonAmbiguous, detail
		}
	}
	return signalbox.Signal{Name: signalbox.NameUnknown, Handler: signalbox.HandlerClarify,
		Refused: signalbox.ReasonAmbiguous, Detail: detail}
}

// advice is the last hint about something that was almost a signal.
func advice(signals []signalbox.Signal) string {
	for _, s := range slices.Backward(signals) {
		switch s.Refused {
		case signalbox.ReasonNearMiss, signalbox.ReasonMalformed, signalbox.ReasonUnknownType, signalbox.ReasonWrongKey,
			signalbox.ReasonTooLarge:
			if s.Dialect != "" {
				return s.Detail
			}
		}
	}
	return ""
}

func supersede(signals []signalbox.Signal, winner int) {
	for i := range signals {
		s := &signals[i]
		if i == winner || !s.Taken() {
			continue
		}
		if s.Refused = signalbox.ReasonSuperseded; saysTheSame(s, &signals[winner]) {
			s.Refused = signalbox.ReasonDuplicate
		}
	}
}

func saysTheSame(a, b *signalbox.Signal) bool {
	if a.Dialect != b.Dialect || a.Name != b.Name || a.TaskID != b.TaskID {
		return false
	}
	return reflect.DeepEqual(a.Exit, b.Exit) && (a.Turn == nil || b.Turn == nil || sameTurn(a, b))
}
