package api

import (
	"cmp"
	"math"
	"net/http"
	"strconv"
	"time"

	"signalbox"
	"signalbox/internal/core/box"
	"signalbox/internal/serve/access"
	"signalbox/internal/serve/stream"
)

type eventsInput struct {
	After uint64 `query:"after" json:"-" jsonschema:"the events after this one"`
	Limit int    `query:"limit" json:"-" jsonschema:"at most this many; the default is 100, the maximum 1000"`

	Work    string `query:"work" json:"-" jsonschema:"only events about this work item"`
	Type    string `query:"type" json:"-" jsonschema:"only events of this type"`
	Session string `query:"session" json:"-" jsonschema:"only events of this session"`
	Actor   string `query:"actor" json:"-" jsonschema:"only events that this actor caused"`
	Text    string `query:"text" json:"-" jsonschema:"only events with this text in their data, in upper or lower case"`
	Since   string `query:"since" json:"-" jsonschema:"only events from this time on, such as 2026-02-28T12:00:00Z"`
	Until   string `query:"until" json:"-" jsonschema:"only events before this time"`
}

// foundEvents are events, in order.
type foundEvents struct {
	Items []signalbox.Event `json:"items"`
	// Next is the value of after with which to continue, nil at the end of the ledger.
	Next *uint64 `json:"next"`
}

type streamInput struct {
	After string `query:"after" json:"-" jsonschema:"the events after this one; the default is Last-Event-ID, or else the last event"`
	Work  string `query:"work" json:"-" jsonschema:"only events about this work item"`
	Type  string `query:"type" json:"-" jsonschema:"only events of this type"`
}

const (
	defaultEvents = 100
	maxEvents     = 1000
)

func (a *API) addEvents() {
	const group = "events"
	add(a, operation{method: http.MethodGet, path: "/ledger/events", name: "listEvents",
		group: group, scope: access.Read,
		summary: "Returns events of the ledger, in order. A filter looks at a limited number of events: if next is not null, pass it as after to continue, even if there are no items."},
		a.listEvents)
	addRaw(a, operation{method: http.MethodGet, path: "/events", name: "streamEvents", group: group,
		scope: access.Read, media: mediaStream,
		summary: "Streams the events of the ledger as they happen, as server-sent events. The id of each is its sequence number, so a client that reconnects with Last-Event-ID misses nothing and gets nothing twice."},
		a.streamEvents)
}

func (a *API) listEvents(c call, in eventsInput) (foundEvents, error) {
	q := box.Query{First: min(in.After, math.MaxUint64-1) + 1,
		Limit: min(cmp.Or(in.Limit, defaultEvents), maxEvents)}
	for _, field := range []struct {
		value string
		into  *[]string
	}{{in.Type, &q.Types}, {in.Session, &q.Sessions}, {in.Actor, &q.Actors}} {
		if field.value != "" {
			*field.into = []string{field.value}
		}
	}
	q.Text = in.Text
	if in.Work != "" {
		found, err := a.find(c, in.Work)
		if err != nil {
			return foundEvents{}, err
		}
		q.Works = []string{found.ID}
	}
	for _, field := range []struct {
		name, value string
		into        *time.Time
	}{{"since", in.Since, &q.Since}, {"until", in.Until, &q.Until}} {
		if field.value == "" {
			continue
		}
		at, err := time.Parse(time.RFC3339, field.value)
		if err != nil {
			return foundEvents{},
				usage("invalid %s '%.64s': it is a time such as 2026-02-28T12:00:00Z", field.name,
					field.value)
		}
		*field.into = at
	}
	found, err := a.box.Search(c.ctx, q)
	if err != nil {
		return foundEvents{}, err
	}
	answer := foundEvents{Items: listOf(found.Events).Items}
	if found.Next > 0 {
		next := found.Next - 1
		answer.Next = &next
	}
	return answer, nil
}

func (a *API) streamEvents(c call, in streamInput, w http.ResponseWriter, r *http.Request) error {
	after := a.hub.Last()
	// A browser that reconnects sends the header, and still has the parameter in its address.
	for _, text := range []string{in.After, r.Header.Get("Last-Event-ID")} {
		if text == "" {
			continue
		}
		seq, err := strconv.ParseUint(text, 10, 64)
		if err != nil {
			return usage("invalid Last-Event-ID or after: '%.64s' is not a sequence number", text)
		}
		after = seq
	}
	if err := a.refresh(c.ctx); err != nil {
		return err
	}
	if last := a.box.Engine.Tail().Seq; after > last {
		return signalbox.CodeConflict.Errorf(
			"the ledger was restored from a backup, perhaps: start from its first event",
			"there is no event %d: the ledger has %d", after, last)
	}
	streams := a.streams
	if !c.caller.HasToken() {
		streams = a.publicStreams
	}
	select {
	case streams <- struct{}{}:
		defer func() { <-streams }()
	default:
		w.Header().Set("Retry-After", "10")
		return &access.DeniedError{Status: http.StatusServiceUnavailable,
			Message: "too many streams are open: try again later"}
	}
	work := in.Work
	if work != "" {
		found, err := a.find(c, work)
		if err != nil {
			return err
		}
		work = found.ID
	}
	// the stream may outlast the time for reading a request
	http.NewResponseController(w).SetReadDeadline(time.Time{})
	a.hub.Serve(c.ctx, w, after, stream.Filter{Work: work, Type: in.Type}, func() error {
		_, err := a.guard.Check(r, access.Read, false) // the token may have been revoked
		return err
	})
	return nil // the answer has started, so there is no other way to report an error
}
