package transcript

import (
	"fmt"
	"slices"

	"signalbox"
	"signalbox/transcript/internal/lines"
	"signalbox/transcript/internal/payload"
)

// trailer looks for text after the last verdict that passes work. An agent that continues to write may take the
// verdict back, so such a verdict must be the last thing that a reviewer writes. Its labelled fields belong to
// it, and so does an exit signal.
type trailer struct {
	looking bool  // for text after a verdict
	verdict int64 // its offset
	// turnOver means that the turn of the verdict has ended, so that the verdict has been reported. Until
	// then it waits for what follows.
	turnOver bool
	fields   payload.Labelled
	bodyOver bool // no more fields can follow
	blank    bool // what the line has so far

	// undecided is where text starts that may be an exit signal, or the fence around one; 0 if there is none.
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

// heard takes an accepted line signal and reports whether it is a verdict about the same as the last one, so
// that its line is not text.
func (t *trailer) heard(s *signalbox.Signal) bool {
	row, _ := signalbox.LineSignalNamed(s.Name)
	switch row.Family {
	case signalbox.FamilyReview, signalbox.FamilyAudit, signalbox.FamilyHealth, signalbox.FamilyEvery:
		*t = trailer{verdict: s.Offset, looking: mustBeLast(s) && s.Title == ""}
		s.Followed = mustBeLast(s) && s.Title != ""
		return true
	}
	return false
}

// heardExit takes an exit signal, valid or not. It is not text.
func (t *trailer) heardExit(s *signalbox.Signal) {
	t.undecided, t.bodyOver = 0, true
	if !t.looking && s.Taken() && mustBeLast(s) {
		*t = trailer{looking: true, verdict: s.Offset, bodyOver: true}
	}
}

// lineContext is what a trailer must know about a line.
type lineContext struct {
	at         int64
	number     int
	fenced     bool // it is in a fence, or limits one
	fenceOpens bool
	inExit     bool // the text before it may be the start of an exit signal
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
	switch {
	case t.blank && len(line) == decidingPrefix: // lineBytes tells
	case t.blank:
		t.fields.Take("")
	case !t.bodyOver && c.fenced && t.fields.TakeFenced():
	case !t.bodyOver && !c.fenced && t.fields.Take(string(line)):
	case c.fenceOpens || !c.fenced && line[0] == '{':
		t.undecided, t.undecidedLine = c.at, c.number
	default:
		t.looking = false
		return c.at, c.number, true
	}
	return 0, 0, false
}

// lineBytes takes a part of a line and reports whether it is text after the verdict that startLine could not
// see.
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

// endBody is called where the body of a signal ends: with its message, or when the agent uses a tool.
func (t *trailer) endBody() { t.bodyOver = true }

// textAfter returns the remark that text follows a verdict of an earlier turn.
func textAfter(at int64, line int) signalbox.Signal {
	return signalbox.Signal{Offset: at, Line: line, Refused: signalbox.ReasonTextAfter,
		Detail: "a verdict that passes work counts only as the last thing of a turn"}
}

// isTakenBack reports whether text follows a verdict that must be the last thing of its turn.
func isTakenBack(won *signalbox.Signal, signals []signalbox.Signal) bool {
	return mustBeLast(won) && (won.Followed || slices.ContainsFunc(signals, func(s signalbox.Signal) bool {
		return s.Refused == signalbox.ReasonTextAfter && s.Dialect == "" && s.Offset > won.Offset
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
