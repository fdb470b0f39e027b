package dashboard

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"signalbox"
	"signalbox/internal/core/box"
	"signalbox/internal/core/rules"
	"signalbox/internal/run/inspect"
)

const (
	eventsOnPage = 100
	// maxSearches is how many searches in the ledger run at the same time.
	maxSearches = 2
	// maxExcerpt is how much of the data of an event is in a list, in bytes.
	maxExcerpt = 120
	// beforeMatch is how much is shown before the text that was searched for, in bytes.
	beforeMatch = 30
)

// ledgerPage is a part of the ledger, from the newest event to the oldest.
type ledgerPage struct {
	Search ledgerSearch
	Types  []string
	Rows   []ledgerRow
	Head   uint64
	Signed uint64
	// First and Last are the part that was searched.
	First, Last uint64
	// Newer and Older are the addresses of the parts after and before it, "" if there are none.
	Newer, Older string
	// Continue means that Older continues a search that is not complete.
	Continue bool
	// Live means that the page shows the end of the ledger, so that new events are added.
	Live bool
}

// ledgerRow is an event in a list.
type ledgerRow struct {
	signalbox.Event
	Excerpt string
}

// ledgerSearch is the form of a search, as it was sent.
type ledgerSearch struct{ Work, Type, Session, Actor, Text, From, To, Since, Until string }

// fields returns the fields of the form by name.
func (s *ledgerSearch) fields() map[string]*string {
	return map[string]*string{"work": &s.Work, "type": &s.Type, "session": &s.Session,
		"actor": &s.Actor, "text": &s.Text,
		"from": &s.From, "to": &s.To, "since": &s.Since, "until": &s.Until}
}

// Active reports whether the form selects something.
func (s ledgerSearch) Active() bool { return s != ledgerSearch{} }

// address returns the address of the part of the search that ends before an event.
func (s *ledgerSearch) address(before uint64) string {
	values := url.Values{"before": {strconv.FormatUint(before, 10)}}
	for name, value := range s.fields() {
		if *value != "" {
			values.Set(name, *value)
		}
	}
	return "/ledger?" + values.Encode()
}

func readSearch(r *http.Request) (s ledgerSearch) {
	for name, value := range s.fields() {
		*value = strings.TrimSpace(r.URL.Query().Get(name))
	}
	return s
}

// query returns the search that the form asks for.
func (d *Dashboard) query(s *ledgerSearch) (q box.Query, err error) {
	q = box.Query{Backward: true, Limit: eventsOnPage, Filter: box.Filter{Text: s.Text}}
	if s.Work != "" {
		q.Works = []string{s.Work}
		// it may have another id than its name, and the ledger may have events about other things
		if w, err := d.find(s.Work); err == nil {
			q.Works = []string{w.ID}
		}
	}
	if s.Type != "" {
		q.Types = []string{s.Type}
	}
	if s.Session != "" {
		q.Sessions = []string{s.Session}
	}
	if s.Actor != "" {
		q.Actors = []string{s.Actor}
	}
	if q.First, err = eventNumber(s.From); err == nil {
		q.Last, err = eventNumber(s.To)
	}
	if err == nil {
		q.Since, err = moment(s.Since)
	}
	if err == nil {
		q.Until, err = moment(s.Until)
	}
	return q, err
}

// eventNumber parses the number of an event, 0 if there is none.
func eventNumber(text string) (uint64, error) {
	if text == "" {
		return 0, nil
	}
	n, err := strconv.ParseUint(text, 10, 64)
	if err != nil || n == 0 {
		return 0, usage("'%.64s' is not the number of an event", text)
	}
	return n, nil
}

// moment parses a time in UTC as browsers send it, or as people write it. It returns the zero time
// if there is none.
func moment(text string) (time.Time, error) {
	if text == "" {
		return time.Time{}, nil
	}
	for _, layout := range []string{"2006-01-02T15:04", "2006-01-02T15:04:05", time.RFC3339,
		time.DateTime, "2006-01-02 15:04", time.DateOnly} {
		if at, err := time.Parse(layout, text); err == nil {
			return at, nil
		}
	}
	return time.Time{}, usage("'%.64s' is not a time: write it like 2026-02-28 12:00", text)
}

func (d *Dashboard) ledger(ctx context.Context, r *http.Request) (view, error) {
	page := ledgerPage{Search: readSearch(r), Head: d.box.Engine.Tail().Seq,
		Signed: d.box.SignedLength(), Types: rules.EventTypes()}
	slices.Sort(page.Types)
	q, err := d.query(&page.Search)
	if err != nil {
		return view{}, err
	}
	before, err := startOf(r, page.Head)
	if err != nil {
		return view{}, err
	}
	page.Live = before > page.Head && !page.Search.Active()
	if q.Last == 0 || q.Last >= before {
		q.Last = before - 1
	}
	var found box.Found
	if q.Last > 0 {
		if found, err = d.search(ctx, q, page.Search.Active()); err != nil {
			return view{}, err
		}
	}
	page.First, page.Last = found.First, found.Last
	for _, e := range found.Events {
		row := ledgerRow{e, excerpt(e.Data, page.Search.Text)}
		row.Data = nil // it may be large
		page.Rows = append(page.Rows, row)
	}
	if found.Next > 0 {
		page.Older = page.Search.address(found.Next + 1)
		page.Continue = len(page.Rows) < eventsOnPage && page.Search.Active()
	}
	if before <= page.Head && !page.Search.Active() {
		page.Newer = page.Search.address(min(before+eventsOnPage, page.Head+1))
	}
	return view{template: "ledger", title: "Ledger", data: page}, nil
}

// startOf returns the number after that of the first event that a request asks for. Event is for
// people, who type the number of an event, and before is in links.
func startOf(r *http.Request, head uint64) (uint64, error) {
	event, err := eventNumber(r.URL.Query().Get("event"))
	if err != nil {
		return 0, err
	}
	if event > 0 {
		return min(event, head) + 1, nil
	}
	before, err := strconv.ParseUint(r.URL.Query().Get("before"), 10, 64)
	if err != nil || before > head {
		before = head + 1
	}
	return max(before, 1), nil
}

// search searches the ledger. Few searches with a filter run at the same time.
func (d *Dashboard) search(ctx context.Context, q box.Query, filtered bool) (box.Found, error) {
	if filtered {
		if err := d.searches.Enter(ctx); err != nil {
			return box.Found{}, err
		}
		defer d.searches.Leave()
	}
	return d.box.Search(ctx, q)
}

// excerpt returns a part of the data of an event: that with a text, if it has it, or else the
// beginning.
func excerpt(data []byte, text string) string {
	start := 0
	if text != "" {
		start = max(0, bytes.Index(bytes.ToLower(data), bytes.ToLower([]byte(text)))-beforeMatch)
	}
	start = min(start, len(data))
	part, prefix, suffix := data[start:], "", ""
	if start > 0 {
		for len(part) > 0 && !utf8.RuneStart(part[0]) {
			part = part[1:]
		}
		prefix = "… "
	}
	if len(part) > maxExcerpt {
		end := maxExcerpt
		for end > 0 && !utf8.RuneStart(part[end]) {
			end--
		}
		part, suffix = part[:end], " …"
	}
	return prefix + strings.ToValidUTF8(string(part), "\ufffd") + suffix
}

// eventPage is one event.
type eventPage struct {
	signalbox.Event
	// Text is the data, with line ends and indentation, which are not part of it.
	Text string
	// Task is the id of the work item that the event is about, "" if it has no page.
	Task string
	// Log is the address of the log of its session, "" if it has none.
	Log   string
	Blobs []eventBlob
	// Transcript means that the event has a place in the transcript of its session.
	Transcript bool
	// Offset is where the event was read in the agent's text, nil if it was not.
	Offset         *int64
	Previous, Next uint64 // 0 means none
	Head, Signed   uint64
}

// eventBlob is a blob that an event refers to. Redacted is the event that records its redaction, 0
// if there is none.
type eventBlob struct {
	box.EventBlob
	Redacted uint64
}

func (d *Dashboard) event(ctx context.Context, r *http.Request) (view, error) {
	seq, err := strconv.ParseUint(r.PathValue("seq"), 10, 64)
	if err != nil || seq == 0 {
		return view{}, notFound("there is no event '%.64s'", r.PathValue("seq"))
	}
	head := d.box.Engine.Tail().Seq
	events, err := d.box.Journal.Read(ctx, seq-1, 1)
	if err != nil {
		return view{}, err
	}
	if len(events) == 0 {
		return view{}, notFound("there is no event %d: the ledger has %d", seq, head)
	}
	page := eventPage{Event: events[0], Previous: seq - 1, Head: head, Signed: d.box.SignedLength()}
	if seq < head {
		page.Next = seq + 1
	}
	page.Text = indented(page.Data)
	if w, err := d.find(page.Work); page.Work != "" && err == nil && w.ID == page.Work {
		page.Task, page.Log = w.ID, d.logOf(w, &page.Event)
	}
	page.Transcript = page.Task != "" &&
		slices.Contains([]string{rules.TypeSignalHeard, rules.TypeSignalRefused,
			rules.TypeAgentTurnEnded}, page.Type)
	d.box.Engine.View(func(s *rules.State) {
		for _, blob := range box.EventBlobs(&page.Event) {
			redaction, _ := s.Redaction(blob.Digest)
			page.Blobs = append(page.Blobs, eventBlob{blob, redaction.Seq})
		}
	})
	var heard struct {
		Offset *int64 `json:"offset"`
	}
	if page.Type == rules.TypeSignalHeard && json.Unmarshal(page.Data, &heard) == nil {
		page.Offset = heard.Offset
	}
	return view{template: "event", title: "Event " + strconv.FormatUint(seq, 10), data: page}, nil
}

// logOf returns the address of the log of the session that an event is of, "" if there is none.
func (d *Dashboard) logOf(w *rules.Work, e *signalbox.Event) string {
	for i, s := range slices.Backward(w.View(d.opts.Now()).Sessions) {
		if s.Session == e.Session && s.Epoch <= e.Seq && inspect.RunsAgent(s.Role) {
			return fmt.Sprintf("/work/%s/log?session=%d", url.PathEscape(w.ID), i)
		}
	}
	return ""
}

// indented returns JSON with line ends and indentation. Its numbers and texts stay as they are
// written.
func indented(data []byte) string {
	var out bytes.Buffer
	if err := json.Indent(&out, data, "", "  "); err != nil {
		return string(data)
	}
	return out.String()
}
