package rules

import (
	"fmt"
	"time"

	"signalbox"
)

// fault returns why an event cannot be the next one, or "". Decide never returns such an event, so
// these rules did not write the log, and folding it would give a state that never existed.
func (s *State) fault(e *signalbox.Event, body body) string {
	_, opens := body.(BoxOpened)
	_, moved := s.LastMove()
	switch {
	case e.Seq != s.seq+1:
		return fmt.Sprintf("it follows event %d", s.seq)
	case e.Time.Before(s.time):
		return "it is earlier than the event before it"
	case timeFault(e.Time) != "":
		return timeFault(e.Time)
	case opens != (s.seq == 0):
		return "a log has BoxOpened once, as its first event"
	case moved && !continuesMoved(body):
		return "the ledger was moved by the event before it"
	}
	if b, ok := body.(validated); ok {
		return b.fault(s, e)
	}
	return s.taskFault(e, nil)
}

// continuesMoved reports whether an event can follow in a ledger that was moved: LedgerContinued,
// and the RulesUpgraded before it.
func continuesMoved(body body) bool {
	switch body.(type) {
	case LedgerContinued, RulesUpgraded:
		return true
	}
	return false
}

// workFault validates an event about work that exists, planned or opened by hand.
func (s *register) workFault(e *signalbox.Event, check func(*Work) string) string {
	w, known := s.Work(e.Work)
	if !known {
		return fmt.Sprintf("there is no work %q", e.Work)
	}
	return check(w)
}

// taskFault validates an event about planned work. A nil check accepts any.
func (s *register) taskFault(e *signalbox.Event, check func(*Work) string) string {
	return s.workFault(e, func(w *Work) string {
		switch {
		case w.Task == nil:
			return "the work does not belong to a plan"
		case check == nil:
			return ""
		}
		return check(w)
	})
}

// runOrTaskFault validates an event about planned work, or about the whole run if it names no work.
// Then check gets nil.
func (s *register) runOrTaskFault(e *signalbox.Event, check func(*Work) string) string {
	switch {
	case e.Work != "":
		return s.taskFault(e, check)
	case check == nil:
		return ""
	}
	return check(nil)
}

// heldFault validates an event about planned work that only the holder of its live lease can cause.
func (s *register) heldFault(e *signalbox.Event, epoch uint64) string {
	return s.taskFault(e, func(w *Work) string { return liveFault(e, w, epoch) })
}

func idFault(ids ...string) string {
	for _, id := range ids {
		if err := signalbox.CheckID(id); err != nil {
			return err.Error()
		}
	}
	return ""
}

// lastSecond is in the year 2242. Nanoseconds since 1970 fit in 64 bits until then, and a lease can
// still expire.
const lastSecond = 1 << 33

// timeFault returns why t cannot be the time of an event, or "".
func timeFault(t time.Time) string {
	if t.Unix() < 0 || t.Unix() >= lastSecond {
		return fmt.Sprintf("%s is not between 1970 and 2242", t.Format(time.DateOnly))
	}
	return ""
}

func leaseFault(e *signalbox.Event, w *Work, epoch uint64) string {
	if w.Lease == nil || w.Lease.Epoch != epoch || w.Lease.Session != e.Session {
		return fmt.Sprintf("lease %d is not live, or not the session's", epoch)
	}
	return ""
}

// liveFault validates an event that only the holder of a live lease can cause, or an operator on
// its behalf.
func liveFault(e *signalbox.Event, w *Work, epoch uint64) string {
	if w.Lease != nil && !e.Time.Before(w.Lease.Expires) {
		return "the lease has expired"
	}
	return leaseFault(e, w, epoch)
}

// roleFault validates the role of the holder. A missing lease is for liveFault to report.
func roleFault(w *Work, role signalbox.Role) string {
	if w.Lease != nil && w.Lease.Role != role {
		return fmt.Sprintf("the %s must not report it", w.Lease.Role)
	}
	return ""
}
