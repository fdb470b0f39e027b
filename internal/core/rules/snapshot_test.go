package rules

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"reflect"
	"runtime"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"signalbox"
	"signalbox/internal/testkit/must"
)

// filled returns a value of a type with every field set, each to something else.
func filled(t *testing.T, typ reflect.Type, n *int) reflect.Value {
	*n++
	v := reflect.New(typ).Elem()
	switch {
	case typ == reflect.TypeFor[time.Time]():
		v.Set(reflect.ValueOf(t0.Add(time.Duration(*n))))
	case typ == reflect.TypeFor[signalbox.Hash]():
		v.Set(reflect.ValueOf(signalbox.Hash{byte(*n), byte(*n >> 8)}))
	case typ == reflect.TypeFor[signalbox.Phase]():
		v.SetString(string(phases[*n%len(phases)]))
	case typ.Kind() == reflect.String:
		v.SetString(fmt.Sprintf("text %d", *n))
	case typ.Kind() == reflect.Uint64:
		v.SetUint(uint64(*n) << 40)
	case typ.Kind() == reflect.Bool:
		v.SetBool(true)
	case typ.Kind() == reflect.Map:
		v.Set(reflect.MakeMap(typ))
		v.SetMapIndex(filled(t, typ.Key(), n), filled(t, typ.Elem(), n))
	case typ.Kind() == reflect.Int, typ.Kind() == reflect.Int64:
		v.SetInt(int64(*n))
	case typ.Kind() == reflect.Pointer:
		v.Set(reflect.New(typ.Elem()))
		v.Elem().Set(filled(t, typ.Elem(), n))
	case typ.Kind() == reflect.Slice:
		for range 2 {
			v.Set(reflect.Append(v, filled(t, typ.Elem(), n)))
		}
	case typ.Kind() == reflect.Struct:
		for i := range typ.NumField() {
			v.Field(i).Set(filled(t, typ.Field(i).Type, n))
		}
	default:
		t.Fatalf("no value for type %s", typ)
	}
	return v
}

// A snapshot that forgets a field would give another state after a restart.
func TestSnapshotHasEveryField(t *testing.T) {
	n := 0
	s := &State{seq: 1 << 50, time: t0, box: "box-1", rules: 1, upgraded: 1 << 40,
		moved: Move{"sqlite", "desk", "m-1", "op", t0, 7}}
	s.works = filled(t, reflect.TypeFor[[]*Work](), &n).Interface().([]*Work)
	s.sessions = filled(t, reflect.TypeFor[[]*Session](), &n).Interface().([]*Session)
	s.redactions = filled(t, reflect.TypeFor[[]Redaction](), &n).Interface().([]Redaction)
	s.run = filled(t, reflect.TypeFor[runState](), &n).Interface().(runState)
	s.turns = filled(t, reflect.TypeFor[[]turnRun](), &n).Interface().([]turnRun)
	for i, session := range s.sessions { // which must be true of each other
		work := s.works[i]
		session.Live = []uint64{work.Lease.Epoch}
		work.Lease.Session = session.ID
		for j := range session.Held {
			session.Held[j].Work = work.ID
		}
	}
	read, err := FromSnapshot(s.Snapshot())
	must.Succeed(t, err)
	contents := func(s *State) []any {
		return []any{s.seq, s.time, s.box, s.rules, s.upgraded, s.moved, s.works, s.sessions,
			s.redactions, s.run, s.turns}
	}
	if diff := cmp.Diff(contents(s), contents(read), cmp.AllowUnexported(turnRun{})); diff != "" {
		t.Errorf("after a snapshot (-want +got):\n%s", diff)
	}
	fields := reflect.TypeFor[State]().NumField() + reflect.TypeFor[register]().NumField() + reflect.TypeFor[delivery]().NumField()
	if want := 26; fields != want {
		t.Errorf("State has %d fields, this test knows %d: does the snapshot have the new ones?",
			fields, want)
	}
}

func TestSnapshotOfNothing(t *testing.T) {
	read, err := FromSnapshot((&State{}).Snapshot())
	must.Succeed(t, err)
	if diff := cmp.Diff(&State{}, read, cmp.AllowUnexported(State{}, register{}, delivery{}),
		cmp.FilterPath(func(p cmp.Path) bool {
			return p.Last().String() == ".workIndex" || p.Last().String() == ".sessionIndex"
		}, cmp.Comparer(func(a, b map[string]int) bool { return len(a) == len(b) }))); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// A truncated or extended snapshot is rejected with ErrSnapshot.
func TestNotASnapshot(t *testing.T) {
	whole := lived(t).s.Snapshot()
	bad := map[string][]byte{
		"other format":      append([]byte{snapshotFormat + 1}, whole[1:]...),
		"one byte more":     append(bytes.Clone(whole), 0),
		"a number too long": append([]byte{snapshotFormat, 0x81, 0x00}, whole[2:]...),
		"many works":        {snapshotFormat, 1, 0, 1, 1, 0, 0xff, 0xff, 0xff, 0xff, 0x0f},
		"a number too big": {snapshotFormat, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff,
			0x02},
		"no phase": bytes.Replace(whole, []byte("IMPLEMENTATION"),
			[]byte("IMPLEMENTATIOM"), 1),
		"no yes and no no": {snapshotFormat, 1, 0, 1, 1, 0, 1, 1, 'w', 0, 5, 'D', 'R', 'A', 'F',
			'T', 0, 0, 0, 2, 0, 0, 0},
	}
	forged := lived(t).s
	forged.sessions = append(forged.sessions, &Session{ID: "missing"})
	bad["a session without a lease"] = forged.Snapshot()
	forged = lived(t).s
	forged.sessions[0].Held[0].Work = "nothing"
	bad["a lease of no work"] = forged.Snapshot()
	forged = lived(t).s
	forged.sessions[0].Live = append(forged.sessions[0].Live, 999)
	bad["a live lease that no work has"] = forged.Snapshot()
	for i := range whole {
		bad[fmt.Sprintf("the first %d bytes", i)] = whole[:i]
	}
	for name, data := range bad {
		if s, err := FromSnapshot(data); !errors.Is(err, ErrSnapshot) || s != nil {
			t.Errorf("%s: %v, %v", name, s, err)
		}
	}
}

// A list that lies about its length costs no more than its items would, had the bytes been theirs.
func TestSnapshotThatLiesAboutLengths(t *testing.T) {
	rest := make([]byte, 1<<16)
	number := func(n uint64) []byte { return binary.AppendUvarint(nil, n) }
	head := []byte{snapshotFormat, 1, 0, 1, 1, 0}
	work := append(bytes.Clone(head), 1, 1, 'w', 0, 5, 'D', 'R', 'A', 'F', 'T', 0, 0, 0, 0)
	session := append(bytes.Clone(head), 0, 1, 1, 's', 0, 0)
	for name, start := range map[string][]byte{"works": head, "tenures": work, "leases": session,
		"redactions": append(head, 0, 0),
		"runs":       append(bytes.Clone(head), 0, 0, 0, 2, '{', '}')} {
		for _, n := range []uint64{1 << 16, 1<<16 - 10, 1 << 40, 1<<64 - 1} {
			data := slices.Concat(start, number(n), rest)
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			_, err := FromSnapshot(data)
			runtime.ReadMemStats(&after)
			if err == nil {
				t.Errorf("%d %s are accepted", n, name)
			}
			if used := after.TotalAlloc - before.TotalAlloc; used > 16<<20 {
				t.Errorf("%d %s took %d bytes of memory", n, name, used)
			}
		}
	}
}

// A Work or Session that a State returned never changes.
func TestWhatIsHandedOutStays(t *testing.T) {
	b := newBox(t)
	type handed struct {
		what   any
		before string
	}
	var all []handed
	keep := func() {
		for w := range b.s.Works() {
			all = append(all, handed{w, fmt.Sprintf("%+v %+v", *w, w.Lease)})
		}
		for _, session := range b.s.sessions {
			all = append(all, handed{session, fmt.Sprintf("%+v %+v", *session, "")})
		}
	}
	for i, c := range append(life("w", func(p signalbox.Phase) string { return "S-" + string(p) }),
		life("w2", func(p signalbox.Phase) string { return "S-" + string(p) })...) {
		if i%3 == 2 { // taken back, then done
			b.s.Begin()
			length := len(b.log)
			b.do(c)
			b.s.Rollback()
			b.log = b.log[:length]
		}
		b.do(c)
		keep()
	}
	for _, h := range all {
		after := ""
		switch x := h.what.(type) {
		case *Work:
			after = fmt.Sprintf("%+v %+v", *x, x.Lease)
		case *Session:
			after = fmt.Sprintf("%+v %+v", *x, "")
		}
		if after != h.before {
			t.Errorf("returned as %s\nis now      %s", h.before, after)
		}
	}
}

func TestRollbackWithoutBegin(t *testing.T) {
	b := lived(t)
	wantUnchanged(t, b.s, func() { b.s.Rollback() })
	wantUnchanged(t, b.s, func() { b.s.Commit() })
	b.s.Begin()
	b.open("kept", signalbox.PhaseDraft)
	b.s.Commit()
	wantUnchanged(t, b.s, func() { b.s.Rollback() })
	b.s.Begin()
	b.s.Rollback()
	b.open("kept-too", signalbox.PhaseDraft)
	wantUnchanged(t, b.s, func() { b.s.Rollback() })
}

// An event that is not accepted takes part in no batch, and the batch can still be taken back.
func TestRollbackAfterAnError(t *testing.T) {
	b := lived(t)
	wantUnchanged(t, b.s, func() {
		b.s.Begin()
		for _, e := range []*signalbox.Event{b.granted("free", "C", "critic", b.now.Add(time.Hour)),
			b.event("", "", BlobRedacted{signalbox.Hash{9}, "r"})} {
			e.Seq = b.s.Seq() + 1
			must.Succeed(t, b.s.Apply(e))
		}
		for _, tt := range append(impossibleGrants(b), impossibleMoves(b)...) {
			if err := b.s.Apply(tt.event); err == nil {
				t.Errorf("%s is accepted", tt.name)
			}
		}
		b.s.Rollback()
	})
}

func TestFirstOfABitset(t *testing.T) {
	var b bitset
	if got := b.first(); got != -1 {
		t.Errorf("of an empty set: %d", got)
	}
	for _, i := range []int{200, 64, 63, 0} {
		b.add(i)
		if got := b.first(); got != i {
			t.Errorf("after %d was added: %d", i, got)
		}
	}
	for _, step := range [][2]int{{0, 63}, {64, 63}, {63, 200}, {200, -1}} {
		b.remove(step[0])
		if got := b.first(); got != step[1] {
			t.Errorf("after %d was removed: %d, want %d", step[0], got, step[1])
		}
	}
}

// Each phase has its own set of free work.
func TestEveryPhaseHasASet(t *testing.T) {
	if got, want := len((&State{}).free), len(signalbox.Phases()); got != want {
		t.Errorf("%d sets for %d phases", got, want)
	}
}
