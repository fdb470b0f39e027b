package rules

import (
	"bytes"
	"fmt"
	"maps"
	"slices"
	"time"

	"signalbox"
)

// brokenInvariant returns what does not hold, though it always must, in the fold of a log; "" if
// all is well.
func brokenInvariant(s *State, log []signalbox.Event) string {
	for _, check := range []func(*State, []signalbox.Event) string{
		brokenLog, brokenOrderOfPhases, brokenCompletion, brokenWork, brokenSession, brokenIndex,
		brokenSnapshot, brokenDelivery, brokenTurns,
	} {
		if fault := check(s, log); fault != "" {
			return fault
		}
	}
	return ""
}

func brokenLog(s *State, log []signalbox.Event) string {
	last := time.Time{}
	for i, e := range log {
		if e.Seq != uint64(i+1) || e.Time.Before(last) {
			return fmt.Sprintf("event %d at %s follows event %d at %s", e.Seq, e.Time, i, last)
		}
		last = e.Time
		if body, _ := decode(&e); e.Type == TypeClockCorrected {
			last = body.(ClockCorrected).To
		}
	}
	if s.Seq() != uint64(len(log)) || !s.Time().Equal(last) {
		return fmt.Sprintf("the state is at event %d, %s; the log at %d, %s", s.Seq(), s.Time(),
			len(log), last)
	}
	return ""
}

// brokenOrderOfPhases holds that work goes from phase to phase in their order or back from checks
// that failed, that BLOCKED is left only for where it was entered from, and that only the holder of
// the live lease moves work that is not BLOCKED.
func brokenOrderOfPhases(s *State, log []signalbox.Event) string {
	type course struct {
		phase, before, holder string
		failed                bool // the checks, under the live lease
	}
	works := map[string]*course{}
	after := map[string]string{}
	all := signalbox.Phases()
	for i, phase := range all[:len(all)-2] {
		after[string(phase)] = string(all[i+1])
	}
	for _, e := range log {
		w := works[e.Work]
		if w == nil && e.Type != TypeWorkOpened {
			continue // planned work has its own order, which brokenDelivery holds
		}
		switch b := mustDecode(&e).(type) {
		case WorkOpened:
			works[e.Work] = &course{phase: string(b.Phase)}
		case LeaseGranted:
			if w.holder != "" {
				return fmt.Sprintf("event %d gives a second live lease on %s", e.Seq, e.Work)
			}
			w.holder = e.Session
		case LeaseReleased, LeaseExpired:
			w.holder, w.failed = "", false
		case ChecksRan:
			w.failed = len(b.Rows) == 0 || len(failing(b.Rows)) > 0 || len(b.Protected) > 0
		case PhaseChanged:
			to := string(b.To)
			switch {
			case w.phase == "BLOCKED" && to == w.before && w.holder == "":
			case w.phase != "BLOCKED" && to == "BLOCKED" && w.holder == e.Session && w.holder != "":
				w.before = w.phase
			case w.failed && w.phase == "CI_PENDING" && to == "IMPLEMENTATION" &&
				w.holder == e.Session && w.holder != "":
			case !w.failed && w.phase != "BLOCKED" && to == after[w.phase] &&
				w.holder == e.Session && w.holder != "":
			default:
				return fmt.Sprintf("event %d moves %s from %s to %s, held by %q", e.Seq, e.Work,
					w.phase, to, w.holder)
			}
			w.phase = to
		}
	}
	for w := range s.Works() {
		if w.Task == nil && works[w.ID] == nil || w.Task == nil &&
			works[w.ID].phase != string(w.Phase) {
			return fmt.Sprintf("%s is in %s; by the log it is %+v", w.ID, w.Phase, works[w.ID])
		}
	}
	return ""
}

// brokenCompletion holds that the four events of an accepted exit signal stand together.
func brokenCompletion(s *State, log []signalbox.Event) string {
	for i, e := range log {
		if w, known := s.Work(e.Work); e.Type != TypeAgentSessionCompleted || known &&
			w.Task != nil {
			continue
		}
		for offset, want := range map[int]string{-1: "SignalHeard", 1: "PhaseChanged",
			2: "LeaseReleased"} {
			if i+offset >= len(log) {
				return fmt.Sprintf("event %d is not followed by %s", e.Seq, want)
			}
			other := log[i+offset]
			if other.Type != want || other.Work != e.Work || other.Session != e.Session ||
				other.Actor != e.Actor || !other.Time.Equal(e.Time) {
				return fmt.Sprintf("event %d, %s, is next to event %d, %s", e.Seq, e.Type,
					other.Seq, other.Type)
			}
		}
	}
	return ""
}

func brokenWork(s *State, log []signalbox.Event) string {
	for w := range s.Works() {
		switch blocked := w.Phase == signalbox.PhaseBlocked; {
		case phaseNumber(w.Phase) < 0:
			return fmt.Sprintf("%s is in phase %q", w.ID, w.Phase)
		case blocked != (w.BlockedFrom != ""), blocked && w.BlockedFrom.ClaimableBy() == "":
			return fmt.Sprintf("%s is in %s and was blocked in %q", w.ID, w.Phase, w.BlockedFrom)
		case !blocked && w.Notes != "":
			return fmt.Sprintf("%s is in %s and has notes %q", w.ID, w.Phase, w.Notes)
		case w.Lease != nil && w.claimableBy() != w.Lease.Role:
			return fmt.Sprintf("%s in %s is held by %s", w.ID, w.Phase, w.Lease.Role)
		case w.Lease != nil && w.Lease.Expires.Location() != time.UTC:
			return fmt.Sprintf("the lease of %s expires in %s", w.ID, w.Lease.Expires.Location())
		}
		if fault := brokenTenures(w, log); fault != "" {
			return w.ID + ": " + fault
		}
	}
	return ""
}

func brokenTenures(w *Work, log []signalbox.Event) string {
	end := uint64(0)
	for i, t := range w.Tenures() {
		live := w.Lease != nil && i == len(w.Past)
		switch granting := log[t.Epoch-1]; {
		case granting.Type != TypeLeaseGranted || granting.Work != w.ID ||
			granting.Session != t.Session || granting.Actor != t.Actor:
			return fmt.Sprintf("epoch %d was not granted to session %q", t.Epoch, t.Session)
		case t.Epoch <= end:
			return fmt.Sprintf("epoch %d begins before event %d ended the one before", t.Epoch, end)
		case live != (t.Ended == ""), live != t.To.IsZero(), live != (t.End == 0):
			return fmt.Sprintf("the tenure %+v is or is not over", t)
		case live && (w.Lease.Epoch != t.Epoch || w.Lease.Session != t.Session ||
			w.Lease.Actor != t.Actor || w.Lease.Role != t.Role):
			return fmt.Sprintf("the lease %+v is not of the tenure %+v", w.Lease, t)
		case !live && (t.End <= t.Epoch || t.To.Before(t.From) || !log[t.End-1].Time.Equal(t.To)):
			return fmt.Sprintf("the tenure %+v ends before it begins", t)
		}
		end = t.End
	}
	if (w.Lease != nil) != (w.Present != nil) {
		return "there is a lease and no tenure, or a tenure and no lease"
	}
	return ""
}

func brokenSession(s *State, log []signalbox.Event) string {
	live := map[uint64]string{}
	for w := range s.Works() {
		if w.Lease != nil {
			live[w.Lease.Epoch] = w.Lease.Session
		}
	}
	for _, session := range s.sessions {
		held := map[uint64]string{}
		for _, h := range session.Held {
			held[h.Epoch] = h.Work
		}
		if len(held) == 0 || len(held) != len(session.Held) || !slices.IsSorted(session.Live) {
			return fmt.Sprintf("session %s held %v, holds %v", session.ID, session.Held,
				session.Live)
		}
		for _, epoch := range session.Live {
			if live[epoch] != session.ID || held[epoch] == "" {
				return fmt.Sprintf("session %s holds epoch %d, which is %q's", session.ID, epoch,
					live[epoch])
			}
			delete(live, epoch)
		}
		for _, exit := range session.Exits {
			if e := log[exit.Seq-1]; held[exit.Epoch] == "" || e.Session != session.ID ||
				e.Type != TypeSignalHeard &&
					(e.Type != TypeAgentSessionCompleted ||
						slices.Contains(session.Live, exit.Epoch)) {
				return fmt.Sprintf("session %s sent exit %+v, which is event %+v", session.ID, exit,
					e)
			}
		}
		reasons := map[string]bool{}
		for _, r := range session.Refused {
			if e := log[r.Seq-1]; reasons[r.Said+string(r.Reason)] || r.Count < 1 ||
				e.Type != TypeSignalRefused || e.Session != session.ID {
				return fmt.Sprintf("session %s was refused %+v, which is event %+v", session.ID,
					session.Refused, e)
			}
			reasons[r.Said+string(r.Reason)] = true
		}
	}
	if len(live) > 0 {
		return fmt.Sprintf("sessions do not know of their leases %v", live)
	}
	return ""
}

// indexes is what a State keeps beside its lists, in a form that can be compared.
type indexes struct {
	Works, Sessions, Turns map[string]int
	Redacted               map[signalbox.Hash]int
	Leased                 map[uint64]int
	Free                   map[signalbox.Phase][]int
}

func (s *State) indexes() indexes {
	x := indexes{maps.Clone(s.workIndex), maps.Clone(s.sessionIndex), maps.Clone(s.turnIndex),
		maps.Clone(s.redacted), maps.Clone(s.leased), map[signalbox.Phase][]int{}}
	for n, phase := range phases {
		for i := range s.works {
			if i/64 < len(s.free[n]) && s.free[n][i/64]&(1<<(i%64)) != 0 {
				x.Free[phase] = append(x.Free[phase], i)
			}
		}
	}
	return x
}

// scannedIndexes finds the same by looking at everything.
func (s *State) scannedIndexes() indexes {
	x := indexes{map[string]int{}, map[string]int{}, map[string]int{}, map[signalbox.Hash]int{},
		map[uint64]int{}, map[signalbox.Phase][]int{}}
	for i, w := range s.works {
		x.Works[w.ID] = i
		if w.Lease != nil {
			x.Leased[w.Lease.Epoch] = i
		} else if w.Task == nil {
			x.Free[w.Phase] = append(x.Free[w.Phase], i)
		}
	}
	for i, session := range s.sessions {
		x.Sessions[session.ID] = i
	}
	for i, r := range s.redactions {
		x.Redacted[r.Blob] = i
	}
	for i, run := range s.turns {
		x.Turns[run.Run] = i
	}
	return x
}

func (x indexes) equal(y indexes) bool {
	return maps.Equal(x.Works, y.Works) && maps.Equal(x.Sessions, y.Sessions) &&
		maps.Equal(x.Turns, y.Turns) && maps.Equal(x.Redacted, y.Redacted) &&
		maps.Equal(x.Leased, y.Leased) && maps.EqualFunc(x.Free, y.Free, slices.Equal)
}

func brokenIndex(s *State, _ []signalbox.Event) string {
	if got, want := s.indexes(), s.scannedIndexes(); !got.equal(want) {
		return fmt.Sprintf("the indexes are %+v; a scan finds %+v", got, want)
	}
	for n := range s.free {
		for i := len(s.works); i < 64*len(s.free[n]); i++ {
			if s.free[n][i/64]&(1<<(i%64)) != 0 {
				return fmt.Sprintf("work %d of %d is free", i, len(s.works))
			}
		}
	}
	first, any := time.Time{}, false
	for w := range s.Works() {
		if w.Lease != nil && (!any || w.Lease.Expires.Before(first)) {
			first, any = w.Lease.Expires, true
		}
	}
	if at, ok := s.NextExpiry(); ok != any || !at.Equal(first) {
		return fmt.Sprintf("the next expiry is %s, %t; a scan finds %s, %t", at, ok, first, any)
	}
	return ""
}

// brokenTurns holds that of each run that is remembered the last signal is, and that those are the
// runs heard of last.
func brokenTurns(s *State, log []signalbox.Event) string {
	last := map[string]turnRun{}
	for _, e := range log {
		if e.Type == TypeTurnSignalHeard {
			b := mustDecode(&e).(TurnSignalHeard)
			last[b.Run] = turnRun{b.Run, b.Turn, e.Seq}
		}
	}
	kept := slices.SortedFunc(maps.Values(last),
		func(a, b turnRun) int { return int(b.Seq) - int(a.Seq) })
	kept = kept[:min(len(kept), maxTurnRuns)]
	if len(kept) != len(s.turns) {
		return fmt.Sprintf("%d runs are remembered of %d", len(s.turns), len(kept))
	}
	for _, want := range kept {
		if turn, ok := s.TurnSignals(want.Run); !ok || turn != want.Last ||
			s.turns[s.turnIndex[want.Run]] != want {
			return fmt.Sprintf("run %s is at turn %d, by the log at %+v", want.Run, turn, want)
		}
	}
	return ""
}

func brokenSnapshot(s *State, _ []signalbox.Event) string {
	data := s.Snapshot()
	read, err := FromSnapshot(data)
	if err != nil {
		return err.Error()
	}
	if !bytes.Equal(data, read.Snapshot()) {
		return "a snapshot of a snapshot is another"
	}
	return brokenIndex(read, nil)
}

func mustDecode(e *signalbox.Event) body {
	b, err := decode(e)
	if err != nil {
		panic(err)
	}
	return b
}
