package sqlite

import (
	"bytes"
	"context"
	"errors"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"signalbox"
	"signalbox/internal/core/journal"
	"signalbox/internal/testkit/must"
	"signalbox/internal/testkit/property"
)

// TestModel does random things to a journal through several handles and compares it with a slice.
func TestModel(t *testing.T) {
	empty, err := os.ReadFile(filepath.Join(closedBox(t, 0), ledgerFile))
	must.Succeed(t, err)
	property.Check(t, func(t *rapid.T) {
		m := newModel(t, empty)
		defer m.close(t)
		steps := map[string]func(*rapid.T){
			"append":   m.append,
			"conflict": m.conflict,
			"read":     m.read,
			"reopen":   m.reopen,
			"snapshot": m.snapshot,
		}
		// Not Repeat: its thirty steps each time would take too long.
		for _, step := range rapid.SliceOfN(rapid.SampledFrom(slices.Sorted(maps.Keys(steps))), 1,
			7).Draw(t, "steps") {
			steps[step](t)
			m.check(t)
		}
	})
}

type model struct {
	dir      string
	handles  []*Journal
	events   []signalbox.Event
	saved    journal.Snapshot
	hasSaved bool
}

// newModel begins with a copy of an empty log, which is quicker than to make one.
func newModel(t *rapid.T, empty []byte) *model {
	dir, err := os.MkdirTemp("", "model")
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, ledgerFile), empty, 0o600)
	}
	must.Succeed(t, err)
	m := &model{dir: dir}
	for range 2 {
		m.handles = append(m.handles, m.open(t))
	}
	return m
}

func (m *model) open(t *rapid.T) *Journal {
	j, err := Open(context.Background(), m.dir, &Options{Create: true})
	must.Succeed(t, err)
	return j
}

func (m *model) close(t *rapid.T) {
	for _, j := range m.handles {
		if err := j.Close(); err != nil {
			t.Error(err)
		}
	}
	os.RemoveAll(m.dir)
}

func (m *model) any(t *rapid.T) *Journal { return rapid.SampledFrom(m.handles).Draw(t, "handle") }

func (m *model) next(t *rapid.T) []signalbox.Event {
	events := eventsAfter(uint64(len(m.events)), rapid.IntRange(1, 5).Draw(t, "events"), 0)
	for i := range events {
		events[i].Type = rapid.String().Draw(t, "type")
		events[i].Work = rapid.String().Draw(t, "work")
		events[i].Actor = string(rapid.SliceOf(rapid.Byte()).Draw(t, "actor"))
		events[i].Data = rapid.SliceOf(rapid.Byte()).Draw(t, "data")
	}
	return events
}

func (m *model) append(t *rapid.T) {
	events := m.next(t)
	must.Succeed(t, m.any(t).Append(context.Background(), uint64(len(m.events)), events))
	m.events = append(m.events, events...)
}

func (m *model) conflict(t *rapid.T) {
	at := uint64(rapid.IntRange(0, len(m.events)+3).Draw(t, "expected"))
	if at == uint64(len(m.events)) {
		return
	}
	err := m.any(t).Append(context.Background(), at, eventsAfter(at, 2, 10))
	if !errors.Is(err, journal.ErrConflict) {
		t.Fatalf("append after %d: %v", at, err)
	}
}

func (m *model) read(t *rapid.T) {
	after := rapid.IntRange(0, len(m.events)+2).Draw(t, "after")
	limit := rapid.IntRange(0, len(m.events)+2).Draw(t, "limit")
	got, err := m.any(t).Read(context.Background(), uint64(after), limit)
	from := min(after, len(m.events))
	m.compare(t, got, err, m.events[from:min(from+limit, len(m.events))])
}

func (m *model) compare(t *rapid.T, got []signalbox.Event, err error, want []signalbox.Event) {
	must.Succeed(t, err)
	if !slices.EqualFunc(want, got, same) { // which is quicker than Diff
		t.Fatalf("events (-want +got):\n%s", cmp.Diff(want, got))
	}
}

func same(a, b signalbox.Event) bool {
	data := bytes.Equal(a.Data, b.Data)
	a.Data, b.Data = nil, nil
	return data && reflect.DeepEqual(a, b)
}

func (m *model) reopen(t *rapid.T) {
	i := rapid.IntRange(0, len(m.handles)-1).Draw(t, "handle")
	must.Succeed(t, m.handles[i].Close())
	m.handles[i] = m.open(t)
}

func (m *model) snapshot(t *rapid.T) {
	s := journal.Snapshot{
		Seq:   rapid.Uint64Range(0, 5).Draw(t, "seq"),
		State: rapid.SliceOfN(rapid.Byte(), 1, 20).Draw(t, "state"),
	}
	must.Succeed(t, m.any(t).SaveSnapshot(context.Background(), s))
	if !m.hasSaved || s.Seq >= m.saved.Seq {
		m.saved, m.hasSaved = s, true
	}
}

// check compares the whole after each step.
func (m *model) check(t *rapid.T) {
	for _, j := range m.handles {
		got, err := j.Read(context.Background(), 0, 1<<20)
		m.compare(t, got, err, m.events)
		if head, err := j.Head(context.Background()); err != nil || head != uint64(len(m.events)) {
			t.Fatalf("head is %d, %v; want %d", head, err, len(m.events))
		}
		s, err := j.LoadSnapshot(context.Background())
		switch {
		case !m.hasSaved && !errors.Is(err, journal.ErrNoSnapshot):
			t.Fatalf("load: %v", err)
		case m.hasSaved && (err != nil || !cmp.Equal(s, m.saved)):
			t.Fatalf("loaded %+v, %v; want %+v", s, err, m.saved)
		}
	}
}
