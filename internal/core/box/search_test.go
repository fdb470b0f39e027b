package box

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"signalbox"
	"signalbox/internal/core/journal"
	"signalbox/internal/core/rules"
	"signalbox/internal/testkit/must"
)

// searched is a box with many events, and all of them.
func searched(t *testing.T) (*Box, []signalbox.Event) {
	t.Helper()
	b := newKit(t).open(t)
	for n := range 40 {
		title := fmt.Sprintf("Title %d", n)
		switch n % 10 {
		case 3:
			title = `A "quoted" <Ärger> & more`
		case 7:
			title = strings.Repeat("large ", 20)
		}
		if _, err := b.Engine.Do(t.Context(), rules.OpenWork{Work: fmt.Sprint("t", n), Title: title,
			Actor: []string{"ann", "ben"}[n%2]}); err != nil {
			t.Fatal(err)
		}
		if n%5 == 0 {
			if _, err := b.Engine.Do(t.Context(),
				rules.Claim{Work: fmt.Sprint("t", n), Role: signalbox.RoleDeveloper,
					Session: fmt.Sprint("s-", n), Actor: "ann",
					Lease: fmt.Sprint("l-", n)}); err != nil {
				t.Fatal(err)
			}
		}
	}
	var events []signalbox.Event
	for e, err := range b.Events(t.Context(), 0) {
		must.Succeed(t, err)
		events = append(events, *e)
	}
	return b, events
}

// searchAll continues a search until it is complete.
func searchAll(t *testing.T, b *Box, q Query) (found []uint64) {
	t.Helper()
	for {
		part, err := b.Search(t.Context(), q)
		must.Succeed(t, err)
		for _, e := range part.Events {
			found = append(found, e.Seq)
		}
		if part.Next == 0 {
			return found
		}
		if len(part.Events) > q.Limit || q.MaxEvents > 0 &&
			part.Last-part.First >= uint64(q.MaxEvents) {
			t.Fatalf("%+v searched %d to %d and returned %d", q, part.First, part.Last,
				len(part.Events))
		}
		if q.Backward {
			if part.Next != part.First-1 {
				t.Fatalf("%+v searched %d to %d, next %d", q, part.First, part.Last, part.Next)
			}
			q.Last = part.Next
		} else {
			if part.Next != part.Last+1 {
				t.Fatalf("%+v searched %d to %d, next %d", q, part.First, part.Last, part.Next)
			}
			q.First = part.Next
		}
	}
}

// TestSearch compares searches with looking at every event, in both directions, in parts of any
// size.
func TestSearch(t *testing.T) {
	b, events := searched(t)
	middle := events[len(events)/2].Time
	for name, want := range map[string]struct {
		query Query
		match func(*signalbox.Event) bool
	}{
		"all": {Query{}, func(*signalbox.Event) bool { return true }},
		"work": {Query{Filter: Filter{Works: []string{"t5", "t6"}}},
			func(e *signalbox.Event) bool { return e.Work == "t5" || e.Work == "t6" }},
		"type": {Query{Filter: Filter{Types: []string{rules.TypeWorkOpened}}},
			func(e *signalbox.Event) bool { return e.Type == rules.TypeWorkOpened }},
		"session": {Query{Filter: Filter{Sessions: []string{"s-10"}}},
			func(e *signalbox.Event) bool { return e.Session == "s-10" }},
		"actor": {Query{Filter: Filter{Actors: []string{"ben"}}},
			func(e *signalbox.Event) bool { return e.Actor == "ben" }},
		"text": {Query{Filter: Filter{Text: "title 1"}},
			func(e *signalbox.Event) bool { return strings.Contains(string(e.Data), "Title 1") }},
		"quoted": {Query{Filter: Filter{Text: `a "QUOTED" <ÄRGER> &`}},
			func(e *signalbox.Event) bool { return strings.Contains(string(e.Data), "quoted") }},
		"json": {Query{Filter: Filter{Text: `"title":"A `}},
			func(e *signalbox.Event) bool { return strings.Contains(string(e.Data), "quoted") }},
		"no text": {Query{Filter: Filter{Text: "nowhere"}},
			func(*signalbox.Event) bool { return false }},
		"several": {Query{Filter: Filter{Actors: []string{"ann"},
			Types: []string{rules.TypeWorkOpened}, Text: "large"}},
			func(*signalbox.Event) bool { return false }},
		"sequence": {Query{First: 7, Last: 21},
			func(e *signalbox.Event) bool { return e.Seq >= 7 && e.Seq <= 21 }},
		"since": {Query{Since: middle},
			func(e *signalbox.Event) bool { return !e.Time.Before(middle) }},
		"until": {Query{Until: middle},
			func(e *signalbox.Event) bool { return e.Time.Before(middle) }},
		"between": {Query{Since: events[4].Time, Until: middle, First: 9},
			func(e *signalbox.Event) bool { return e.Seq >= 9 && e.Time.Before(middle) }},
		"future": {Query{Since: events[len(events)-1].Time.Add(time.Hour)},
			func(*signalbox.Event) bool { return false }},
		"past":   {Query{Until: events[0].Time}, func(*signalbox.Event) bool { return false }},
		"beyond": {Query{First: 1 << 40}, func(*signalbox.Event) bool { return false }},
	} {
		t.Run(name, func(t *testing.T) {
			var expected []uint64
			for i := range events {
				if want.match(&events[i]) {
					expected = append(expected, events[i].Seq)
				}
			}
			if len(expected) == 0 &&
				!slices.Contains([]string{"no text", "several", "future", "past", "beyond"}, name) {
				t.Fatal("nothing matches, so this shows nothing")
			}
			for _, limit := range []int{1, 3, 1000} {
				for _, most := range []int{0, 1, 7} {
					q := want.query
					q.Limit, q.MaxEvents = limit, most
					if got := searchAll(t, b, q); !slices.Equal(got, expected) {
						t.Errorf("limit %d, at most %d events: %d, want %d", limit, most, got,
							expected)
					}
					q.Backward = true
					got := searchAll(t, b, q)
					slices.Reverse(got)
					if !slices.Equal(got, expected) {
						t.Errorf("backward, limit %d, at most %d events: %d, want %d", limit, most,
							got, expected)
					}
				}
			}
		})
	}
}

// shortReads is a journal with large events; a read returns a few of them.
type shortReads struct {
	journal.Journal
	most int
}

func (j shortReads) Read(ctx context.Context, after uint64, limit int) ([]signalbox.Event, error) {
	return j.Journal.Read(ctx, after, min(limit, j.most))
}

// TestBackward reads parts of a ledger backward, also if a read does not return all events that
// were requested.
func TestBackward(t *testing.T) {
	b, events := searched(t)
	head, full := uint64(len(events)), b.Journal
	for _, most := range []int{1, 2, 3, 7, 1000} {
		b.Journal = shortReads{full, most}
		for _, part := range [][2]uint64{{1, head}, {5, head - 3}, {head, head}, {1, 1}, {2, 1}} {
			next := part[1]
			for e, err := range b.Backward(t.Context(), part[0], part[1]) {
				must.Succeed(t, err)
				if e.Seq != next || e.Hash != events[e.Seq-1].Hash {
					t.Fatalf("%d to %d: got %d, want %d", part[0], part[1], e.Seq, next)
				}
				next--
			}
			if next != part[0]-1 {
				t.Errorf("%d to %d: ended before %d", part[0], part[1], next)
			}
		}
	}
}
