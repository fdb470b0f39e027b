package rules

import (
	"fmt"
	"slices"
	"time"

	"signalbox"
)

// model is the rules once more, written as plainly as possible and without a look at how they are
// implemented: maps, scans, and the tables of the specification written out.
type model struct {
	seq      uint64
	at       time.Time
	works    map[string]*modelWork
	order    []string
	sessions map[string]*modelSession
	redacted map[signalbox.Hash]uint64
	// the events of the signals that a tree's run logged, from its turn 1 on
	runs map[string][]uint64

	turn verdict
}

type modelWork struct {
	Phase, From, Notes, Holder, Lease string
	Epoch                             uint64
	Expires                           time.Time
}

type modelSession struct {
	actor, role string
	leases      []uint64
	workOf      map[uint64]string
	exits       map[string]modelExit
	released    map[uint64]uint64       // epoch to the event that released it
	refused     map[string]modelRefusal // by signal and reason
}

type modelExit struct {
	seq   uint64
	phase string
}

type modelRefusal struct {
	seq   uint64
	count int
}

// verdict is what comes of a command.
type verdict struct {
	Events   []string
	Code     signalbox.Code
	Reason   signalbox.Reason
	Seq      uint64
	Work     string
	Phase    string
	Epoch    uint64
	Expires  time.Time
	Repeated bool
}

// verdictOf is the part of a decision that the model foretells.
func verdictOf(d Decision) verdict {
	v := verdict{Seq: d.Answer.Seq, Repeated: d.Answer.Repeated}
	for _, e := range d.Events {
		v.Events = append(v.Events, e.Type)
	}
	if r := refusedBy(d.Err); r != nil {
		v.Code, v.Reason = r.Code, r.Reason
		return v
	}
	v.Work, v.Phase = d.Answer.Work, string(d.Answer.Phase)
	if d.Answer.Lease != nil {
		v.Epoch, v.Expires = d.Answer.Lease.Epoch, d.Answer.Lease.Expires
	}
	return v
}

func newModel() *model {
	return &model{seq: 1, at: t0, works: map[string]*modelWork{},
		sessions: map[string]*modelSession{}, redacted: map[signalbox.Hash]uint64{},
		runs: map[string][]uint64{}}
}

// step carries out a command.
func (m *model) step(now time.Time, c Command) verdict {
	if now.Before(m.at) {
		now = m.at
	}
	m.turn = verdict{}
	switch c := c.(type) {
	case OpenWork:
		m.open(now, c)
	case Claim:
		m.claim(now, c)
	case Renew:
		m.renew(now, c)
	case Release:
		m.release(now, c)
	case Exit:
		m.exit(now, c)
	case Unblock:
		m.unblock(now, c)
	case Expire:
		m.expireAll(now)
	case ReportTurnSignal:
		m.hearTurn(now, c)
	case RedactBlob:
		if seq, done := m.redacted[c.Blob]; done {
			m.turn.Seq, m.turn.Repeated = seq, true
		} else {
			m.turn.Seq = m.event(now, "BlobRedacted")
			m.redacted[c.Blob] = m.seq
		}
	}
	return m.turn
}

func (m *model) hearTurn(now time.Time, c ReportTurnSignal) {
	switch heard := m.runs[c.Run]; {
	case c.Turn <= uint64(len(heard)):
		m.turn.Seq, m.turn.Repeated = heard[len(heard)-1], true
	case len(heard) > 0 && c.Turn > uint64(len(heard))+1:
		m.turn.Code = signalbox.CodeConflict
	default:
		m.turn.Seq = m.event(now, "TurnSignalHeard")
		for uint64(len(heard)) < c.Turn { // a run that is not known begins anywhere
			heard = append(heard, m.turn.Seq)
		}
		m.runs[c.Run] = heard
	}
}

func (m *model) event(now time.Time, eventType string) uint64 {
	m.seq++
	m.at = now
	m.turn.Events = append(m.turn.Events, eventType)
	return m.seq
}

func (m *model) open(now time.Time, c OpenWork) {
	if m.works[c.Work] != nil {
		m.turn.Code = signalbox.CodeConflict
		return
	}
	m.works[c.Work] = &modelWork{Phase: string(c.Phase)}
	m.order = append(m.order, c.Work)
	m.turn.Seq, m.turn.Work, m.turn.Phase = m.event(now, "WorkOpened"), c.Work, string(c.Phase)
}

func (m *model) expire(now time.Time, w *modelWork) {
	if w.Holder != "" && !w.Expires.After(now) {
		m.event(now, "LeaseExpired")
		w.Holder, w.Lease, w.Epoch, w.Expires = "", "", 0, time.Time{}
	}
}

func (m *model) expireAll(now time.Time) {
	held := slices.DeleteFunc(slices.Clone(m.order),
		func(id string) bool { return m.works[id].Holder == "" })
	slices.SortFunc(held,
		func(a, b string) int { return int(m.works[a].Epoch) - int(m.works[b].Epoch) })
	for _, id := range held {
		m.expire(now, m.works[id])
	}
}

func (m *model) claim(now time.Time, c Claim) {
	s := m.sessions[c.Session]
	if s != nil && (s.actor != c.Actor || s.role != string(c.Role)) {
		m.turn.Code = signalbox.CodeFailed
		return
	}
	if c.Work == "" {
		c.Work = m.granted(now, c)
	}
	if c.Work == "" {
		m.expireAll(now)
		if c.Work = m.next(string(c.Role)); c.Work == "" {
			m.turn.Code = signalbox.CodeNotFound
			return
		}
	}
	w := m.works[c.Work]
	if w == nil {
		m.turn.Code = signalbox.CodeNotFound
		return
	}
	m.expire(now, w)
	switch {
	case w.Holder == c.Session:
		m.turn.Seq, m.turn.Repeated = w.Epoch, true
	case w.Holder != "":
		m.turn.Code = signalbox.CodeConflict
		return
	case mayClaim[signalbox.Phase(w.Phase)] != c.Role:
		m.turn.Code = signalbox.CodeFailed
		return
	default:
		w.Holder, w.Lease, w.Epoch, w.Expires = c.Session, c.Lease, m.event(now, "LeaseGranted"),
			now.Add(c.TTL)
		m.turn.Seq = w.Epoch
		m.remember(c, w.Epoch)
	}
	m.turn.Work, m.turn.Phase, m.turn.Epoch, m.turn.Expires = c.Work, w.Phase, w.Epoch, w.Expires
}

// granted is the work that the session has under a lease of the claim's id.
func (m *model) granted(now time.Time, c Claim) (work string) {
	for id, w := range m.works {
		if w.Holder == c.Session && w.Lease == c.Lease && now.Before(w.Expires) &&
			(work == "" || w.Epoch < m.works[work].Epoch) {
			work = id
		}
	}
	return work
}

func (m *model) remember(c Claim, epoch uint64) {
	s := m.sessions[c.Session]
	if s == nil {
		s = &modelSession{actor: c.Actor, role: string(c.Role), workOf: map[uint64]string{},
			exits:    map[string]modelExit{},
			released: map[uint64]uint64{}, refused: map[string]modelRefusal{}}
		m.sessions[c.Session] = s
	}
	s.leases = append(s.leases, epoch)
	s.workOf[epoch] = c.Work
}

// next is the first free work of the role's last phase that has any.
func (m *model) next(role string) string {
	for _, phase := range slices.Backward(inOrder) {
		for _, id := range m.order {
			if w := m.works[id]; w.Phase == string(phase) && w.Holder == "" &&
				string(mayClaim[phase]) == role {
				return id
			}
		}
	}
	return ""
}

// find returns the work and the session that a command names.
func (m *model) find(now time.Time, work, session string) (*modelWork, *modelSession) {
	w, s := m.works[work], m.sessions[session]
	if w == nil || s == nil {
		m.turn.Code = signalbox.CodeNotFound
		return nil, nil
	}
	m.expire(now, w)
	return w, s
}

func (m *model) refuse(now time.Time, s *modelSession, said string, reason signalbox.Reason,
	code signalbox.Code, times int) {
	times = max(times, 1)
	key := said + " " + string(reason)
	r, before := s.refused[key]
	if !before || times >= 10*r.count {
		r = modelRefusal{m.event(now, "SignalRefused"), times}
		s.refused[key] = r
	}
	m.turn.Code, m.turn.Reason, m.turn.Seq = code, reason, r.seq
}

func (m *model) renew(now time.Time, c Renew) {
	w, s := m.find(now, c.Work, c.Session)
	switch {
	case w == nil:
	case w.Holder != c.Session || w.Epoch != c.Epoch:
		m.refuse(now, s, "renew", "stale_lease", signalbox.CodeConflict, 1)
	default:
		m.turn.Seq = w.Epoch
		if now.Add(c.TTL).After(w.Expires) {
			w.Expires = now.Add(c.TTL)
			m.turn.Seq = m.event(now, "LeaseRenewed")
		}
		m.turn.Work, m.turn.Phase, m.turn.Epoch, m.turn.Expires = c.Work, w.Phase, w.Epoch,
			w.Expires
	}
}

func (m *model) release(now time.Time, c Release) {
	if c.Session == "" {
		m.takeAway(now, c)
		return
	}
	w, s := m.find(now, c.Work, c.Session)
	if w == nil {
		return
	}
	if w.Holder == c.Session && w.Epoch == c.Epoch {
		m.free(now, w)
	} else if s.workOf[c.Epoch] == c.Work && s.released[c.Epoch] != 0 {
		m.turn.Repeated = true
	} else {
		m.refuse(now, s, "release", "stale_lease", signalbox.CodeConflict, 1)
		return
	}
	m.turn.Seq, m.turn.Work, m.turn.Phase = s.released[c.Epoch], c.Work, w.Phase
}

func (m *model) takeAway(now time.Time, c Release) {
	w := m.works[c.Work]
	if w == nil {
		m.turn.Code = signalbox.CodeNotFound
		return
	}
	m.expire(now, w)
	if w.Holder == "" {
		m.turn.Code = signalbox.CodeFailed
		return
	}
	if c.Epoch != 0 && c.Epoch != w.Epoch {
		m.turn.Code = signalbox.CodeConflict
		return
	}
	m.turn.Seq, m.turn.Work, m.turn.Phase = m.free(now, w), c.Work, w.Phase
}

func (m *model) free(now time.Time, w *modelWork) uint64 {
	seq := m.event(now, "LeaseReleased")
	m.sessions[w.Holder].released[w.Epoch] = seq
	w.Holder, w.Lease, w.Epoch, w.Expires = "", "", 0, time.Time{}
	return seq
}

func (m *model) unblock(now time.Time, c Unblock) {
	w := m.works[c.Work]
	switch {
	case w == nil:
		m.turn.Code = signalbox.CodeNotFound
	case w.Phase != "BLOCKED":
		m.turn.Code = signalbox.CodeFailed
	default:
		m.event(now, "WorkUnblocked")
		m.turn.Seq = m.event(now, "PhaseChanged")
		w.Phase, w.From, w.Notes = w.From, "", ""
		m.turn.Work, m.turn.Phase = c.Work, w.Phase
	}
}

func (m *model) exit(now time.Time, c Exit) {
	s := m.sessions[c.Session]
	if s == nil {
		m.turn.Code = signalbox.CodeNotFound
		return
	}
	epoch, ok := m.meant(now, s, c)
	if !ok {
		m.turn.Code = signalbox.CodeUsage
		return
	}
	if c.Fault != "" {
		m.refuse(now, s, "exit", "malformed", signalbox.CodeFailed, c.Times)
		return
	}
	w := m.works[s.workOf[epoch]]
	if w == nil {
		m.refuse(now, s, "exit", "stale_lease", signalbox.CodeConflict, c.Times)
		return
	}
	m.expire(now, w)
	notes := ""
	if c.Signal.Notes != nil {
		notes = *c.Signal.Notes
	}
	said := fmt.Sprint(epoch, c.Signal.PhaseCompleted, c.Signal.ExitReason, c.Signal.Notes != nil,
		notes)
	first, before := s.exits[said]
	switch {
	case before:
		m.turn.Seq, m.turn.Repeated, m.turn.Work, m.turn.Phase = first.seq, true, s.workOf[epoch],
			first.phase
	case w.Epoch != epoch:
		m.refuse(now, s, "exit", "stale_lease", signalbox.CodeConflict, c.Times)
	case w.Phase != string(c.Signal.PhaseCompleted):
		m.refuse(now, s, "exit", "phase_mismatch", signalbox.CodeFailed, c.Times)
	default:
		m.complete(now, w, c, notes)
		s.exits[said] = modelExit{m.turn.Seq, w.Phase}
		m.turn.Work, m.turn.Phase = s.workOf[epoch], w.Phase
	}
}

func (m *model) complete(now time.Time, w *modelWork, c Exit, notes string) {
	m.event(now, "SignalHeard")
	m.turn.Seq = m.event(now, "AgentSessionCompleted")
	m.event(now, "PhaseChanged")
	m.event(now, "LeaseReleased")
	if c.Signal.ExitReason == "completed" {
		w.Phase = string(inOrder[slices.Index(inOrder, signalbox.Phase(w.Phase))+1])
	} else {
		w.From, w.Phase, w.Notes = w.Phase, "BLOCKED", notes
	}
	w.Holder, w.Lease, w.Epoch, w.Expires = "", "", 0, time.Time{}
}

// meant is the lease that an exit signal is about; false if it could be several.
func (m *model) meant(now time.Time, s *modelSession, c Exit) (uint64, bool) {
	if c.Epoch != 0 {
		return c.Epoch, true
	}
	var live []uint64
	for _, epoch := range s.leases {
		if w := m.works[s.workOf[epoch]]; w.Epoch == epoch && w.Expires.After(now) {
			live = append(live, epoch)
		}
	}
	switch len(live) {
	case 0:
		return s.leases[len(s.leases)-1], true
	case 1:
		return live[0], true
	}
	return 0, false
}
