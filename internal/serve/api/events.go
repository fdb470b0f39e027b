package api

import (
	"fmt"
	"net/http"
	"strconv"
	"time"

	"signalbox"
	"signalbox/internal/serve/access"
	"signalbox/internal/serve/stream"
)

type eventsInput struct {
	After uint64 `query:"after" json:"-" jsonschema:"the events after this one"`
	Limit int    `query:"limit" json:"-" jsonschema:"at most this many; the default is 100, the maximum 1000"`
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
	add(a, operation{method: http.MethodGet, path: "/ledger/events", name: "listEvents", group: group, scope: access.Read, summary: "Returns events of the ledger, in order."},
		func(c call, in eventsInput) (list[signalbox.Event], error) {
			if in.Limit == 0 {
				in.Limit = defaultEvents
			}
			events, err := a.box.Journal.Read(c.ctx, in.After, min(in.Limit, maxEvents))
			return listOf(events), err
		})
	addRaw(a, operation{method: http.MethodGet, path: "/events", name: "streamEvents", group: group, scope: access.Read, media: mediaStream,
		summary: "Streams the events of the ledger as they happen, as server-sent events. The id of each is its sequence number, so a client that reconnects with Last-Event-ID misses nothing and gets nothing twice."},
		a.streamEvents)
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
		return &signalbox.Error{Code: signalbox.CodeConflict, Err: fmt.Errorf("there is no event %d: the ledger has %d", after, last),
			Hint: "the ledger was restored from a backup, perhaps: start from its first event"}
	}
	select {
	case a.streams <- struct{}{}:
		defer func() { <-a.streams }()
	default:
		w.Header().Set("Retry-After", "10")
		return &access.DeniedError{Status: http.StatusServiceUnavailable, Message: "too many streams are open: try again later"}
	}
	work := in.Work
	if work != "" {
		found, err := a.find(c, work)
		if err != nil {
			return err
		}
		work = found.ID
	}
	http.NewResponseController(w).SetReadDeadline(time.Time{}) // the stream may outlast the time for reading a request
	a.hub.Serve(c.ctx, w, after, stream.Filter{Work: work, Type: in.Type}, func() error {
		_, err := a.guard.Check(r, access.Read, false) // the token may have been revoked
		return err
	})
	return nil // the answer has started, so there is no other way to report an error
}
