package box

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"slices"
	"time"

	"signalbox"
)

// Filter selects events. A field that is not set selects all.
type Filter struct {
	// Works, Types, Sessions and Actors are lists; one entry must be that of the event.
	Works, Types, Sessions, Actors []string
	// Text is a text in the data, in upper or lower case.
	Text string
}

// IsZero reports whether the filter selects all events.
func (f *Filter) IsZero() bool {
	return len(f.Works)+len(f.Types)+len(f.Sessions)+len(f.Actors) == 0 && f.Text == ""
}

// Matcher returns a function that reports whether an event is selected.
func (f *Filter) Matcher() func(*signalbox.Event) bool {
	// Data is JSON, in which quotation marks and line feeds of a text are escaped.
	text := bytes.ToLower([]byte(f.Text))
	escaped := bytes.ToLower(jsonText(f.Text))
	is := func(wanted []string,
		value string) bool {
		return len(wanted) == 0 || slices.Contains(wanted, value)
	}
	return func(e *signalbox.Event) bool {
		if !is(f.Works, e.Work) || !is(f.Types, e.Type) || !is(f.Sessions, e.Session) ||
			!is(f.Actors, e.Actor) {
			return false
		}
		if len(text) == 0 {
			return true
		}
		data := bytes.ToLower(e.Data)
		return bytes.Contains(data, escaped) || bytes.Contains(data, text)
	}
}

// jsonText returns a text as it is in JSON, without quotation marks.
func jsonText(text string) []byte {
	var encoded bytes.Buffer
	encoder := json.NewEncoder(&encoded)
	encoder.SetEscapeHTML(false)
	encoder.Encode(text) // a string has no error
	return bytes.TrimSuffix(bytes.TrimPrefix(bytes.TrimSpace(encoded.Bytes()), []byte(`"`)),
		[]byte(`"`))
}

// Query is a search in a part of the ledger. It is for requests that others wait behind, so it
// looks at a limited number of events; Next of the result continues it.
type Query struct {
	Filter
	// First and Last are the first and the last event of the part; a Last of 0 means that of the
	// ledger.
	First, Last uint64
	// Since and Until limit the part to the events from a time on, and before a time. Zero means no
	// limit.
	Since, Until time.Time
	// Backward searches from the last event to the first.
	Backward bool
	// Limit is how many events are returned at most. It must be positive.
	Limit int
	// MaxEvents is how many events are looked at; 0 means 200,000. It is fewer if they are large,
	// or if reading them takes long.
	MaxEvents int
}

// Limits of a search. A search that reaches one of them ends, after at least one event.
const (
	searchEvents = 200_000
	searchBytes  = 128 << 20 // of the data of all events
	// so that an answer takes less than a second on a slow machine
	searchTime = 400 * time.Millisecond
	foundBytes = 8 << 20 // of the data of the events that match
)

// Found is the result of a search.
type Found struct {
	// Events are those that match, in the order of the search.
	Events []signalbox.Event
	// First and Last are the part that was searched, both 0 if there was nothing to search.
	First, Last uint64
	// Next is the event to continue from, as First of the next query, or as Last of one that
	// searches backward. 0 means that the search is complete.
	Next uint64
}

// Search looks for events.
func (r *Reader) Search(ctx context.Context, q Query) (Found, error) {
	first, last, err := r.part(ctx, &q)
	if err != nil || first > last {
		return Found{}, err
	}
	found := Found{First: first, Last: last}
	events := r.between(ctx, first, last)
	if q.Backward {
		events = r.Backward(ctx, first, last)
	}
	matches, effort := q.Matcher(), newEffort(&q)
	for e, err := range events {
		if err != nil {
			return found, err
		}
		match := matches(e)
		if match {
			found.Events = append(found.Events, *e)
		}
		if !effort.spend(e, match) {
			continue
		}
		switch {
		case q.Backward && e.Seq > first:
			found.First, found.Next = e.Seq, e.Seq-1
			return found, nil
		case !q.Backward && e.Seq < last:
			found.Last, found.Next = e.Seq, e.Seq+1
			return found, nil
		}
	}
	return found, nil
}

// effort is what a search may still do.
type effort struct {
	found, events, bytes, foundBytes int
	until                            time.Time
}

func newEffort(q *Query) *effort {
	return &effort{q.Limit, cmp.Or(q.MaxEvents, searchEvents), searchBytes, foundBytes,
		time.Now().Add(searchTime)}
}

// spend reports whether the search must end after an event.
func (left *effort) spend(e *signalbox.Event, match bool) bool {
	left.events--
	left.bytes -= len(e.Data)
	if match {
		left.found--
		left.foundBytes -= len(e.Data)
	}
	return min(left.found, left.events, left.bytes, left.foundBytes) <= 0 || left.events%64 == 0 &&
		time.Now().After(left.until)
}

// part returns the first and the last event that a query is about.
func (r *Reader) part(ctx context.Context, q *Query) (first, last uint64, err error) {
	head, err := r.Journal.Head(ctx)
	if err != nil {
		return 0, 0, err
	}
	first, last = max(q.First, 1), head
	if q.Last > 0 {
		last = min(q.Last, head)
	}
	if !q.Since.IsZero() {
		from, err := r.firstAt(ctx, q.Since, head)
		if err != nil {
			return 0, 0, err
		}
		first = max(first, from)
	}
	if !q.Until.IsZero() {
		end, err := r.firstAt(ctx, q.Until, head)
		if err != nil {
			return 0, 0, err
		}
		last = min(last, end-1)
	}
	return first, last, nil
}
