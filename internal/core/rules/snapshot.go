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

// A snapshot is the state in binary: every field in the order of the types, numbers as varints,
// strings after their length. The same walk over the state writes and reads it, so the two cannot
// disagree. Equal states have equal snapshots. A snapshot is a cache for one version of the
// program, not an exchange format.
//
// The number changes with the walk. What is JSON in a snapshot, such as the run with its tasks, may
// get an optional field without that.
const snapshotFormat = 7

// ErrSnapshot means that the data is not a snapshot of this version. Fold the log instead.
var ErrSnapshot = errors.New("not a snapshot of this version")

// Snapshot returns the state in binary.
func (s *State) Snapshot() []byte {
	w := walker{writing: true}
	w.state(s)
	return w.out
}

// ForSnapshot returns a copy of the state on which only Snapshot may be called. Copying is fast,
// and the copy may be used while the state changes.
func (s *State) ForSnapshot() *State {
	return &State{
		seq: s.seq, time: s.time, box: s.box, rules: s.rules, upgraded: s.upgraded, moved: s.moved,
		register: register{works: slices.Clone(s.works), sessions: slices.Clone(s.sessions),
			redactions: slices.Clone(s.redactions), turns: slices.Clone(s.turns)},
		delivery: delivery{run: s.run},
	}
}

// FromSnapshot returns the state that Snapshot wrote.
func FromSnapshot(data []byte) (*State, error) {
	// All strings of the state are substrings of this one, so they need not be copied.
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
	w.number(&format)
	if format != snapshotFormat {
		w.fail("format")
	}
	w.number(&rules)
	s.rules = int(rules)
	w.number(&s.upgraded)
	w.number(&s.seq)
	w.time(&s.time)
	str(w, &s.box)
	list(w, &s.works, func(p **Work) { w.work(allocate(p)) })
	list(w, &s.sessions, func(p **Session) { w.session(allocate(p)) })
	list(w, &s.redactions, w.redaction)
	jsonText(w, &s.run)
	list(w, &s.turns, w.turnRun)
	jsonText(w, &s.moved)
	if !w.writing && w.err == nil {
		s.index(w)
	}
}

// index rebuilds the indexes, and rejects a state that no log can give: the checksum of a snapshot
// shows only that it is complete.
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
	for i, work := range s.works { // after workIndex is complete
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
	if live != len(s.leased) || len(s.workIndex) != len(s.works) ||
		len(s.sessionIndex) != len(s.sessions) {
		w.fail("index")
	}
	for i, r := range s.redactions {
		s.redacted = put(s.redacted, r.Blob, i)
	}
	s.indexTurns(w)
}

// validSession reports whether all leases of a session are of existing work items, and its live
// leases are live.
func (s *register) validSession(session *Session) bool {
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
	str(w, &x.ID)
	str(w, &x.Title)
	str(w, &x.Phase)
	str(w, &x.BlockedFrom)
	str(w, &x.Notes)
	w.hash(&x.NotesBlob)
	w.time(&x.Opened)
	optional(w, &x.Lease, func(lease *signalbox.Lease) {
		str(w, &lease.ID)
		w.number(&lease.Epoch)
		str(w, &lease.Session)
		str(w, &lease.Actor)
		str(w, &lease.Role)
		w.time(&lease.Expires)
		w.tenure(allocate(&x.Present))
	})
	list(w, &x.Past, w.tenure)
	optional(w, &x.Task, func(t *Task) { jsonText(w, t) })
	str(w, &x.Ref)
	optional(w, &x.Checks, func(c *LastChecks) { jsonText(w, c) })
}

func (w *walker) tenure(t *Tenure) {
	w.number(&t.Epoch)
	str(w, &t.Session)
	str(w, &t.Actor)
	str(w, &t.Role)
	str(w, &t.Phase)
	w.time(&t.From)
	w.time(&t.To)
	str(w, &t.Ended)
	w.number(&t.End)
	w.hash(&t.Secret)
	str(w, &t.Identity)
	crew := t.Crew
	w.flag(&crew)
	if !w.writing { // while writing, other goroutines may read t
		t.Crew = crew
	}
}

func (w *walker) session(s *Session) {
	str(w, &s.ID)
	str(w, &s.Actor)
	str(w, &s.Role)
	list(w, &s.Held, func(h *LeaseRef) {
		w.number(&h.Epoch)
		str(w, &h.Work)
	})
	list(w, &s.Live, w.number)
	list(w, &s.Exits, func(e *ExitRecord) {
		w.number(&e.Epoch)
		w.hash(&e.Digest)
		w.number(&e.Seq)
		str(w, &e.Next)
	})
	list(w, &s.Refused, func(r *RefusalRecord) {
		str(w, &r.Reason)
		str(w, &r.Said)
		w.number(&r.Seq)
		count := uint64(r.Count)
		w.number(&count)
		if !w.writing { // while writing, other goroutines may read r
			r.Count = int(count)
		}
	})
}

func (w *walker) redaction(r *Redaction) {
	w.hash(&r.Blob)
	str(w, &r.Reason)
	str(w, &r.Actor)
	w.time(&r.At)
	w.number(&r.Seq)
}

// walker writes the values that it visits, or reads them.
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
	// only the shortest encoding is valid
	if w.err != nil || size <= 0 || size > 1 && head[size-1] == 0 {
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

// time writes 0 for the zero time, otherwise the nanoseconds since 1970 plus 1.
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

func str[T ~string](w *walker, s *T) {
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
		if n > uint64(len(w.in)) { // every item takes at least one byte
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

// jsonText writes a value as JSON after its length. Reading accepts only what writing would
// produce.
func jsonText[T any](w *walker, v *T) {
	var doc string
	if w.writing {
		doc = string(marshal(v))
	}
	str(w, &doc)
	if w.writing || w.err != nil {
		return
	}
	var read T // a zero value, because Unmarshal keeps fields that the text does not mention
	if err := json.Unmarshal([]byte(doc), &read); err != nil || string(marshal(&read)) != doc {
		w.fail("document")
		return
	}
	*v = read
}

// optional visits what p points to, if there is something.
func optional[T any](w *walker, p **T, walk func(*T)) {
	exists := *p != nil
	w.flag(&exists)
	if exists {
		walk(allocate(p))
	}
}

func allocate[T any](p **T) *T {
	if *p == nil {
		*p = new(T)
	}
	return *p
}
