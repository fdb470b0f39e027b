package rules

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"signalbox"
)

// A snapshot is the state in binary: every field in the order of the types, numbers as varints, texts with their
// length before them. One walk over the state both writes and reads it, so the two cannot disagree. Equal states have
// equal snapshots. It is a cache for one version of the program and no format for others.
const (
	snapshotFormat = 2
	// turnsFormat has the runs of trees as well. A state without any has the format of before, so that each state has
	// one snapshot and those of before are still read.
	turnsFormat = 3
)

// ErrSnapshot means that bytes are no snapshot of this version: fold the log instead.
var ErrSnapshot = errors.New("not a snapshot of this version")

// Snapshot returns the state in binary.
func (s *State) Snapshot() []byte {
	w := walker{writing: true}
	w.state(s)
	return w.out
}

// ForSnapshot returns a copy of the state as it is, for Snapshot alone. Taking it is quick, and it may be used beside
// further changes of the state.
func (s *State) ForSnapshot() *State {
	return &State{
		seq: s.seq, time: s.time, box: s.box, rules: s.rules,
		works: slices.Clone(s.works), sessions: slices.Clone(s.sessions), redactions: slices.Clone(s.redactions),
		turns: slices.Clone(s.turns), delivery: s.delivery,
	}
}

// FromSnapshot returns the state that Snapshot wrote.
func FromSnapshot(data []byte) (*State, error) {
	// One string holds all texts of the state: they are cut out of it without being copied.
	w := walker{in: string(data)}
	s := &State{}
	w.state(s)
	if w.err == nil && w.in != "" {
		w.err = fmt.Errorf("%w: %d bytes too many", ErrSnapshot, len(w.in))
	}
	if w.err != nil {
		return nil, w.err
	}
	return s, nil
}

func (w *walker) state(s *State) {
	format, rules := uint64(snapshotFormat), uint64(s.rules)
	if len(s.turns) > 0 {
		format = turnsFormat
	}
	w.number(&format)
	if format != snapshotFormat && format != turnsFormat {
		w.fail("format")
	}
	w.number(&rules)
	s.rules = int(rules)
	w.number(&s.seq)
	w.time(&s.time)
	text(w, &s.box)
	list(w, &s.works, func(p **Work) { w.work(allocate(p)) })
	list(w, &s.sessions, func(p **Session) { w.session(allocate(p)) })
	list(w, &s.redactions, w.redaction)
	jsonText(w, &s.delivery)
	if format == turnsFormat {
		list(w, &s.turns, w.turnRun)
		if len(s.turns) == 0 {
			w.fail("turns")
		}
	}
	if !w.writing && w.err == nil {
		s.index(w)
	}
}

// index makes anew what follows from the rest, and refuses what no fold can have made: the checksum of a snapshot shows that
// it is whole, not that it is true.
func (s *State) index(w *walker) {
	s.workIndex = make(map[string]int, len(s.works))
	s.sessionIndex = make(map[string]int, len(s.sessions))
	for i, work := range s.works {
		if phaseNumber(work.Phase) < 0 {
			w.fail("phase")
			return
		}
		s.workIndex[work.ID] = i
	}
	for i, work := range s.works { // now that each can be found
		s.reindex(i, nil, work)
	}
	live := 0
	for i, session := range s.sessions {
		s.sessionIndex[session.ID] = i
		if !s.validSession(session) {
			w.fail("session")
			return
		}
		live += len(session.Live)
	}
	if live != len(s.leased) || len(s.workIndex) != len(s.works) || len(s.sessionIndex) != len(s.sessions) {
		w.fail("index")
	}
	for i, r := range s.redactions {
		s.redacted = put(s.redacted, r.Blob, i)
	}
	s.indexTurns(w)
}

// consistent says whether a session has had leases of works that there are, and holds those that it says it holds.
func (s *State) validSession(session *Session) bool {
	for _, held := range session.Held {
		if _, known := s.workIndex[held.Work]; !known {
			return false
		}
	}
	for _, epoch := range session.Live {
		i, live := s.leased[epoch]
		if !live || s.works[i].Lease.Session != session.ID {
			return false
		}
	}
	return len(session.Held) > 0
}

func (w *walker) work(x *Work) {
	text(w, &x.ID)
	text(w, &x.Title)
	text(w, &x.Phase)
	text(w, &x.BlockedFrom)
	text(w, &x.Notes)
	w.time(&x.Opened)
	leased := x.Lease != nil
	w.flag(&leased)
	if leased {
		lease := allocate(&x.Lease)
		text(w, &lease.ID)
		w.number(&lease.Epoch)
		text(w, &lease.Session)
		text(w, &lease.Actor)
		text(w, &lease.Role)
		w.time(&lease.Expires)
		w.tenure(allocate(&x.Present))
	}
	list(w, &x.Past, w.tenure)
	planned := x.Task != nil
	w.flag(&planned)
	if planned {
		jsonText(w, allocate(&x.Task))
	}
}

func (w *walker) tenure(t *Tenure) {
	w.number(&t.Epoch)
	text(w, &t.Session)
	text(w, &t.Actor)
	text(w, &t.Role)
	text(w, &t.Phase)
	w.time(&t.From)
	w.time(&t.To)
	text(w, &t.Ended)
	w.number(&t.End)
}

func (w *walker) session(s *Session) {
	text(w, &s.ID)
	text(w, &s.Actor)
	text(w, &s.Role)
	list(w, &s.Held, func(h *LeaseRef) {
		w.number(&h.Epoch)
		text(w, &h.Work)
	})
	list(w, &s.Live, w.number)
	list(w, &s.Exits, func(e *ExitRecord) {
		w.number(&e.Epoch)
		w.hash(&e.Digest)
		w.number(&e.Seq)
		text(w, &e.Next)
	})
	list(w, &s.Refused, func(r *RefusalRecord) {
		text(w, &r.Reason)
		text(w, &r.Said)
		w.number(&r.Seq)
		count := uint64(r.Count)
		w.number(&count)
		if !w.writing { // others may be reading what is written out
			r.Count = int(count)
		}
	})
}

func (w *walker) redaction(r *Redaction) {
	w.hash(&r.Blob)
	text(w, &r.Reason)
	text(w, &r.Actor)
	w.time(&r.At)
	w.number(&r.Seq)
}

// walker writes what it is shown, or reads it.
type walker struct {
	writing bool
	out     []byte
	in      string
	err     error
}

func (w *walker) fail(what string) {
	if w.err == nil {
		w.err = fmt.Errorf("%w: bad %s", ErrSnapshot, what)
	}
}

// take returns the next n bytes, or "" after a failure.
func (w *walker) take(n uint64) string {
	if w.err != nil || n > uint64(len(w.in)) {
		w.fail("length")
		return ""
	}
	taken := w.in[:n]
	w.in = w.in[n:]
	return taken
}

func (w *walker) number(n *uint64) {
	if w.writing {
		w.out = binary.AppendUvarint(w.out, *n)
		return
	}
	head := w.in[:min(len(w.in), binary.MaxVarintLen64)]
	value, size := binary.Uvarint([]byte(head))
	if w.err != nil || size <= 0 || size > 1 && head[size-1] == 0 { // the shortest form and no other
		w.fail("number")
		return
	}
	*n, w.in = value, w.in[size:]
}

func (w *walker) flag(b *bool) {
	n := uint64(0)
	if *b {
		n = 1
	}
	w.number(&n)
	if n > 1 {
		w.fail("flag")
	}
	*b = n == 1
}

// time writes 0 for the zero time, else nanoseconds since 1970 and 1.
func (w *walker) time(t *time.Time) {
	n := uint64(0)
	if !t.IsZero() {
		n = uint64(t.UnixNano()) + 1
	}
	w.number(&n)
	if !w.writing && n != 0 {
		*t = time.Unix(0, int64(n-1)).UTC()
	}
}

func (w *walker) hash(h *signalbox.Hash) {
	if w.writing {
		w.out = append(w.out, h[:]...)
		return
	}
	copy(h[:], w.take(uint64(len(h))))
}

func text[T ~string](w *walker, s *T) {
	n := uint64(len(*s))
	w.number(&n)
	if w.writing {
		w.out = append(w.out, *s...)
		return
	}
	*s = T(w.take(n))
}

func list[T any](w *walker, items *[]T, walk func(*T)) {
	n := uint64(len(*items))
	w.number(&n)
	if !w.writing {
		if n > uint64(len(w.in)) { // every item has at least one byte
			w.fail("length")
			return
		}
		if n > 0 {
			*items = make([]T, n)
		}
	}
	for i := range *items {
		if w.err != nil {
			return
		}
		walk(&(*items)[i])
	}
}

// jsonText writes a value as JSON with its length. What is read must be what would be written.
func jsonText[T any](w *walker, v *T) {
	var doc string
	if w.writing {
		doc = string(marshal(v))
	}
	text(w, &doc)
	if w.writing || w.err != nil {
		return
	}
	var read T // the zero value, since reading leaves what the text does not name
	if err := json.Unmarshal([]byte(doc), &read); err != nil || string(marshal(&read)) != doc {
		w.fail("document")
		return
	}
	*v = read
}

func allocate[T any](p **T) *T {
	if *p == nil {
		*p = new(T)
	}
	return *p
}
