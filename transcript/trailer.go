package transcript

import (
	"fmt"
	"slices"

	"signalbox"
	"signalbox/transcript/internal/lines"
	"signalbox/transcript/internal/payload"
)

// trailer looks for text after verdicts that pass work. An agent that continues to write may take a
// verdict back, so such a verdict must be the last thing that a reviewer writes. Its labelled
// fields belong to it, and so does an exit signal.
type trailer struct {
	looking bool // for text after a verdict
	// line and exit are the offsets of the verdicts that nothing has followed so far, -1 if there
	// is none.
	line, exit int64
	// turnOver means that the turn of the verdicts has ended, so that they have been reported.
	// Until then they wait for what follows.
	turnOver bool
	fields   payload.Labelled
	bodyOver bool // no more fields can follow
	blank    bool // what the line has so far, or has after an exit signal

	// undecided is where text starts that may be an exit signal, or the fence around one; 0 if
	// there is none.
	undecided     int64
	undecidedLine int
}

// mustBeLast reports whether a signal passes work that a reviewer judges.
func mustBeLast(s *signalbox.Signal) bool {
	if !s.Passing() {
		return false
	}
	if s.Dialect == signalbox.DialectExit {
		phase := s.Exit.PhaseCompleted
		return phase == signalbox.PhaseReview || phase == signalbox.PhaseReadyForMerge
	}
	row, _ := signalbox.LineSignalNamed(s.Name)
	switch row.Family {
	case signalbox.FamilyReview, signalbox.FamilyAudit, signalbox.FamilyHealth:
		return true
	}
	return false
}

// heard takes an accepted line signal, whose line startLine has taken as text after what came
// before.
func (t *trailer) heard(s *signalbox.Signal) {
	if !mustBeLast(s) {
		return
	}
	*t = trailer{line: s.Offset, exit: -1, looking: s.Title == ""}
	s.Followed = s.Title != ""
}

// heardExit takes a valid exit signal that starts at an offset, or whose fence does. It is not
// text.
func (t *trailer) heardExit(s *signalbox.Signal, from int64) {
	if t.undecided == from {
		t.undecided = 0
	}
	t.bodyOver, t.blank = true, true
	switch {
	case !mustBeLast(s):
	case !t.looking:
		*t = trailer{line: -1, exit: s.Offset, looking: true, bodyOver: true, blank: true}
	default:
		t.exit = s.Offset
	}
}

// lineContext is what a trailer must know about a line.
type lineContext struct {
	at         int64
	number     int
	fenced     bool // it is in a fence, or limits one
	fenceOpens bool
	inExit     bool // the text before it may be the start of an exit signal
	alien      bool // it has what no field has: a tag, or something that resembles a signal
}

// startLine takes the start of a line. It returns where text after the verdict is, if there is any.
func (t *trailer) startLine(line []byte, c lineContext) (at int64, number int, found bool) {
	switch {
	case !t.looking:
		return 0, 0, false
	case t.undecided != 0 && c.inExit:
		return 0, 0, false
	case t.undecided != 0:
		return t.decide()
	}
	line = line[:min(len(line), decidingPrefix)] // the rest may not be here yet
	t.blank = !c.fenced && lines.Blank(line)
	field := !t.bodyOver && !c.alien
	switch {
	case t.blank && len(line) == decidingPrefix: // lineBytes tells
	case t.blank:
		t.fields.Take("")
	case field && c.fenced && t.fields.TakeFenced():
	case field && !c.fenced && t.fields.Take(string(line)):
	case c.fenceOpens || !c.fenced && line[0] == '{':
		t.undecided, t.undecidedLine = c.at, c.number
	default:
		t.looking = false
		return c.at, c.number, true
	}
	return 0, 0, false
}

// lineBytes takes a part of a line and reports whether it is text after the verdict that startLine
// could not see.
func (t *trailer) lineBytes(part []byte) bool {
	if !t.looking || !t.blank || lines.Blank(part) {
		return false
	}
	t.looking = false
	return true
}

// decide takes what is undecided for text. It returns where that is, if there is any.
func (t *trailer) decide() (at int64, number int, found bool) {
	at, found = t.undecided, t.undecided != 0
	t.looking, t.undecided = t.looking && !found, 0
	return at, t.undecidedLine, found
}

// first returns the offset of the first verdict that is looked after.
func (t *trailer) first() int64 {
	if t.line < 0 || t.exit >= 0 && t.exit < t.line {
		return t.exit
	}
	return t.line
}

// endInFence is called if a message ends in a fence. It reports whether that is text after a
// verdict: what is in a fence without an end may be anything.
func (t *trailer) endInFence() bool {
	found := t.looking && t.undecided == 0
	t.looking = t.looking && !found
	return found
}

// endBody is called where the body of a signal ends: with its message, or when the agent uses a
// tool.
func (t *trailer) endBody() { t.bodyOver = true }

// textAfter returns the remark that text follows a verdict of an earlier turn.
func textAfter(at int64, line int) signalbox.Signal {
	return signalbox.Signal{Offset: at, Line: line, Refused: signalbox.ReasonTextAfter,
		Detail: "a verdict that passes work counts only as the last thing of a turn"}
}

// isTakenBack reports whether text follows a verdict that must be the last thing of its turn.
// Another signal is text, too, whoever may send it.
func isTakenBack(won *signalbox.Signal, signals []signalbox.Signal) bool {
	return mustBeLast(won) &&
		(won.Followed || slices.ContainsFunc(signals, func(s signalbox.Signal) bool {
			sent := s.Dialect == signalbox.DialectLine && (s.Taken() ||
				s.Refused == signalbox.ReasonWrongWork || s.Refused == signalbox.ReasonOutOfRole)
			return s.Offset > won.Offset && (sent || s.Refused == signalbox.ReasonTextAfter &&
				s.Dialect == "")
		}))
}

// askToConfirm returns what to tell a reviewer who wrote more after a verdict.
func askToConfirm(won signalbox.Signal) string {
	said := "The exit signal"
	if row, known := signalbox.LineSignalNamed(won.Name); known {
		said = row.Text
		if won.TaskID != "" {
			said += ": " + won.TaskID
		}
	}
	return fmt.Sprintf("%s was not the last thing that you wrote, so it may have been taken back. If it is your "+
		"verdict, send it again, alone; if it is not, send the verdict that is.", said)
}
