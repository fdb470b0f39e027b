package dashboard

import (
	"context"
	"fmt"
	"html"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"signalbox"
	"signalbox/internal/core/rules"
	"signalbox/internal/serve/access"
	"signalbox/internal/serve/transfer"
	"signalbox/internal/testkit/must"
)

var (
	listed   = regexp.MustCompile(`<td class="number"><a href="/ledger/(\d+)">`)
	olderTag = regexp.MustCompile(`href="(/ledger\?[^"]*)" rel="next"`)
)

// listedEvents returns the events that a page of the ledger lists, and the address of the next
// part, "" if there is none.
func (s *stage) listedEvents(path string) (seqs []uint64, older, page string) {
	s.t.Helper()
	status, _, page := s.get(s.viewer(), path)
	if status != http.StatusOK {
		s.t.Fatalf("%s: %d %s", path, status, page)
	}
	for _, match := range listed.FindAllStringSubmatch(page, -1) {
		seq, err := strconv.ParseUint(match[1], 10, 64)
		must.Succeed(s.t, err)
		seqs = append(seqs, seq)
	}
	if match := olderTag.FindStringSubmatch(page); match != nil {
		older = html.UnescapeString(match[1])
	}
	return seqs, older, page
}

func (s *stage) events() (events []signalbox.Event) {
	s.t.Helper()
	for e, err := range s.box.Events(s.t.Context(), 0) {
		must.Succeed(s.t, err)
		events = append(events, *e)
	}
	return events
}

// TestLedgerSearch searches with each field of the form, and compares the answer with all events.
func TestLedgerSearch(t *testing.T) {
	s := newStage(t)
	events := s.events()
	middle := events[len(events)/2]
	session := events[slices.IndexFunc(events,
		func(e signalbox.Event) bool { return e.Session != "" && e.Work == "T2" })].Session
	utc := middle.Time.UTC()
	whole := utc.Truncate(time.Second)
	for _, want := range []struct {
		query url.Values
		match func(*signalbox.Event) bool
	}{
		{url.Values{"work": {"T2"}}, func(e *signalbox.Event) bool { return e.Work == "T2" }},
		{url.Values{"work": {"counter/T2"}},
			func(e *signalbox.Event) bool { return e.Work == "T2" }},
		{url.Values{"type": {rules.TypeSignalHeard}},
			func(e *signalbox.Event) bool { return e.Type == rules.TypeSignalHeard }},
		{url.Values{"session": {session}},
			func(e *signalbox.Event) bool { return e.Session == session }},
		{url.Values{"actor": {"op"}}, func(e *signalbox.Event) bool { return e.Actor == "op" }},
		{url.Values{"text": {"PWNED <script>"}},
			func(e *signalbox.Event) bool { return strings.Contains(string(e.Data), "pwned <script>") }},
		{url.Values{"from": {"7"}, "to": {"19"}},
			func(e *signalbox.Event) bool { return e.Seq >= 7 && e.Seq <= 19 }},
		{url.Values{"since": {utc.Format(time.RFC3339Nano)}},
			func(e *signalbox.Event) bool { return !e.Time.Before(utc) }},
		{url.Values{"until": {utc.Format(time.RFC3339Nano)}},
			func(e *signalbox.Event) bool { return e.Time.Before(utc) }},
		{url.Values{"since": {whole.Format("2006-01-02T15:04:05")}},
			func(e *signalbox.Event) bool { return !e.Time.Before(whole) }},
		{url.Values{"since": {whole.Truncate(time.Minute).Format("2006-01-02T15:04")}},
			func(e *signalbox.Event) bool { return !e.Time.Before(whole.Truncate(time.Minute)) }},
		{url.Values{"work": {"T1"}, "type": {rules.TypeSignalHeard}, "to": {"30"}},
			func(e *signalbox.Event) bool {
				return e.Work == "T1" && e.Type == rules.TypeSignalHeard && e.Seq <= 30
			}},
	} {
		var expected []uint64
		for i := range events {
			if want.match(&events[i]) {
				expected = append(expected, events[i].Seq)
			}
		}
		slices.Reverse(expected)
		if len(expected) == 0 {
			t.Fatalf("%s: nothing matches, so this shows nothing", want.query.Encode())
		}
		got, older, page := s.listedEvents("/ledger?" + want.query.Encode())
		if !slices.Equal(got, expected) || older != "" {
			t.Errorf("%s: %d, then %q, want %d", want.query.Encode(), got, older, expected)
		}
		if strings.Contains(page, `id="events" data-live`) ||
			!strings.Contains(page, "<details class=\"search\" open>") {
			t.Errorf("%s: the result is live, or its form is closed", want.query.Encode())
		}
	}
	for _, wrong := range []string{"from=x", "to=0", "to=-1", "since=yesterday", "until=2026-13-01",
		"event=x", "event=0"} {
		if status, _, page := s.get(s.viewer(), "/ledger?"+
			wrong); status != http.StatusBadRequest || !strings.Contains(page, "is not") {
			t.Errorf("%s: %d", wrong, status)
		}
	}
	if _, _, page := s.listedEvents("/ledger?text=nowhere"); !strings.Contains(page,
		"Nothing found") {
		t.Error("the page does not say that nothing was found")
	}
	if _, _, page := s.listedEvents("/ledger?from=999999"); !strings.Contains(page,
		"no events in this range") {
		t.Error("the page does not say that there is no such event")
	}
}

// grow adds events until the ledger has a number of them.
func (s *stage) grow(to uint64) {
	s.t.Helper()
	for n := 0; s.box.Engine.Tail().Seq < to; n++ {
		s.do(rules.OpenWork{Work: fmt.Sprint("more-", n), Title: "more", Actor: "ann"})
	}
}

// TestLedgerPages pages through the ledger and through what was found, to the first event and to
// any other.
func TestLedgerPages(t *testing.T) {
	s := newStage(t)
	s.grow(2*eventsOnPage + 40)
	head := s.box.Engine.Tail().Seq
	for _, start := range []string{"/ledger", "/ledger?from=1"} {
		var all []uint64
		for path := start; path != ""; {
			var part []uint64
			part, path, _ = s.listedEvents(path)
			all = append(all, part...)
		}
		if uint64(len(all)) != head || all[0] != head || all[head-1] != 1 ||
			!slices.IsSortedFunc(all, func(a, b uint64) int { return int(b) - int(a) }) {
			t.Errorf("from %s: %d events of %d", start, len(all), head)
		}
	}
	seqs, _, page := s.listedEvents("/ledger")
	if seqs[0] != head || !strings.Contains(page, `id="events" data-live`) {
		t.Errorf("the page begins with event %d of %d, or is not live", seqs[0], head)
	}
	for _, event := range []uint64{1, 57, head, head + 1000} {
		seqs, _, page := s.listedEvents(fmt.Sprint("/ledger?event=", event))
		if seqs[0] != min(event, head) {
			t.Errorf("event %d: the page begins with %d", event, seqs[0])
		}
		if event < head && (!strings.Contains(page, ">newer<") ||
			strings.Contains(page, `id="events" data-live`)) {
			t.Errorf("event %d: no way to newer events, or live", event)
		}
	}
	if seqs, _, _ := s.listedEvents("/ledger?before=1"); len(seqs) != 0 {
		t.Errorf("before the first event: %d", seqs)
	}
}

// TestSearchesWaitForASlot takes all slots: searches are refused, and pages are not.
func TestSearchesWaitForASlot(t *testing.T) {
	s := newStage(t)
	*s.dashboard.searches = *transfer.NewSlots(maxSearches, time.Nanosecond)
	for range maxSearches {
		must.Succeed(t, s.dashboard.searches.Enter(t.Context()))
	}
	for path, want := range map[string]int{"/ledger?text=x": http.StatusServiceUnavailable,
		"/ledger": http.StatusOK, "/ledger?event=3": http.StatusOK, "/ledger/3": http.StatusOK,
		"/board": http.StatusOK} {
		if status, _, _ := s.get(s.viewer(), path); status != want {
			t.Errorf("%s without a slot: %d, want %d", path, status, want)
		}
	}
	s.dashboard.searches.Leave()
	for range 2 { // the first gives its slot back
		if status, _, _ := s.get(s.viewer(), "/ledger?text=x"); status != http.StatusOK {
			t.Errorf("with a slot: %d", status)
		}
	}
}

func TestExcerpt(t *testing.T) {
	long := strings.Repeat("ä", 200)
	for _, want := range []struct{ data, text, excerpt string }{
		{"{}", "", "{}"},
		{"", "x", ""},
		{"short", "nowhere", "short"},
		{long, "", strings.Repeat("ä", maxExcerpt/2) + " …"},
		{long + "Needle", "needle", "… " + strings.Repeat("ä", beforeMatch/2) + "Needle"},
		{"\xff\xfe", "", "\ufffd"},
	} {
		if got := excerpt([]byte(want.data), want.text); got != want.excerpt {
			t.Errorf("excerpt(%.20q, %q) = %q, want %q", want.data, want.text, got, want.excerpt)
		}
	}
}

// TestEventPage looks at every event: it has links to its neighbours, its work, its session, and
// its blobs, which all work.
func TestEventPage(t *testing.T) {
	s := newStage(t)
	follows := *s.viewer()
	follows.CheckRedirect = nil
	if _, err := s.box.Sign(t.Context()); err != nil {
		t.Fatal(err)
	}
	s.do(rules.OpenWork{Work: "late", Title: "not signed yet", Actor: "ann"})
	events := s.events()
	link := regexp.MustCompile(`href="(/(?:ledger|work)[^"]*)"`)
	seen := map[string]bool{}
	for i := range events {
		e := &events[i]
		status, _, page := s.get(s.viewer(), fmt.Sprint("/ledger/", e.Seq))
		if status != http.StatusOK {
			t.Fatalf("event %d: %d", e.Seq, status)
		}
		for what, want := range map[string]bool{
			"the hash":          strings.Contains(page, e.Hash.String()),
			"the previous hash": strings.Contains(page, e.Prev.String()),
			"the time":          strings.Contains(page, e.Time.UTC().Format(signalbox.EventTime)),
			"the previous event": (e.Seq > 1) == strings.Contains(page,
				fmt.Sprintf(`href="/ledger/%d" rel="prev"`, e.Seq-1)),
			"the next event": (i+1 < len(events)) == strings.Contains(page,
				fmt.Sprintf(`href="/ledger/%d" rel="next"`, e.Seq+1)),
			"the proof": (e.Seq < uint64(len(events))) == strings.Contains(page,
				fmt.Sprintf(`href="/api/v1/ledger/events/%d/proof"`, e.Seq)),
		} {
			if !want {
				t.Errorf("event %d (%s): wrong about %s:\n%s", e.Seq, e.Type, what, page)
			}
		}
		for _, match := range link.FindAllStringSubmatch(page, -1) {
			path := html.UnescapeString(match[1])
			if seen[path] {
				continue
			}
			seen[path] = true
			if status, _, _ := s.get(&follows, path); status != http.StatusOK {
				t.Errorf("event %d leads to %s: %d", e.Seq, path, status)
			}
		}
	}
	for _, want := range []string{"/work/T1", "/work/T2/log?session=0", "/ledger?type=SignalHeard",
		"/ledger?actor=op"} {
		if !seen[want] {
			t.Errorf("no event leads to %s", want)
		}
	}
}

// TestEventPageNamesBlobs shows the blobs of an event, the place of a signal, and that a blob was
// redacted.
func TestEventPageNamesBlobs(t *testing.T) {
	s := newStage(t)
	events := s.events()
	ended := events[slices.IndexFunc(events,
		func(e signalbox.Event) bool { return e.Type == rules.TypeAgentTurnEnded })]
	path := fmt.Sprint("/ledger/", ended.Seq)
	digest := regexp.MustCompile(`<dt><bdi>output</bdi></dt><dd><a href="/blob/([0-9a-f]{64})"`)
	_, _, page := s.get(s.viewer(), path)
	match := digest.FindStringSubmatch(page)
	if match == nil {
		t.Fatalf("no link to the output:\n%s", page)
	}
	heard := events[slices.IndexFunc(events,
		func(e signalbox.Event) bool { return e.Type == rules.TypeSignalHeard })]
	if _, _, page := s.get(s.viewer(), fmt.Sprint("/ledger/", heard.Seq)); !strings.Contains(page,
		" of what the agent wrote") {
		t.Errorf("the page of a signal does not say where it is:\n%s", page)
	}
	var blob signalbox.Hash
	must.Succeed(t, blob.UnmarshalText([]byte(match[1])))
	if _, err := s.box.Redact(t.Context(), rules.RedactBlob{Blob: blob, Reason: "secret",
		Actor: "ann"}); err != nil {
		t.Fatal(err)
	}
	if _, _, page := s.get(s.viewer(), path); digest.MatchString(page) ||
		!strings.Contains(page, fmt.Sprintf(`redacted by <a href="/ledger/%d">`,
			s.box.Engine.Tail().Seq)) {
		t.Errorf("the page does not say that the blob was redacted:\n%s", page)
	}
}

// finished runs what users have started, and returns the page of the verification when it has
// ended.
func (s *stage) finished() string {
	s.t.Helper()
	ctx, cancel := context.WithCancel(s.t.Context())
	ended := make(chan struct{})
	go func() { defer close(ended); s.dashboard.Run(ctx) }()
	defer func() { cancel(); <-ended }()
	for {
		if _, _, page := s.get(s.viewer(), "/ledger/verify"); !strings.Contains(page,
			"data-running") {
			return page
		}
	}
}

// TestVerificationPage verifies a ledger, also one that was changed. Several clicks start one
// verification.
func TestVerificationPage(t *testing.T) {
	s := newStage(t)
	s.allowAnonymousReads()
	client := s.logIn(access.Read)
	if _, _, page := s.get(http.DefaultClient, "/ledger/verify"); !strings.Contains(page,
		"Nobody has verified it") || strings.Contains(page, "<form") {
		t.Errorf("before, for a visitor:\n%s", page)
	}
	if _, _, page := s.get(client, "/ledger/verify"); !strings.Contains(page,
		`action="/ledger/verify"`) {
		t.Errorf("no button:\n%s", page)
	}
	for range 3 {
		if status, body := s.post(client, "/ledger/verify",
			url.Values{"back": {"/ledger/verify"}}); status != http.StatusSeeOther {
			t.Fatalf("verify: %d %s", status, body)
		}
	}
	if len(s.dashboard.verification.started) != 1 {
		t.Errorf("%d verifications were started", len(s.dashboard.verification.started))
	}
	head := s.box.Engine.Tail()
	if _, _, page := s.get(client, "/ledger/verify"); !strings.Contains(page,
		fmt.Sprintf("Verifying: 0 of %d events", head.Seq)) ||
		strings.Contains(page, "<button class=\"primary\"") ||
		!strings.Contains(page, `<noscript><meta http-equiv="refresh"`) {
		t.Errorf("while it is running:\n%s", page)
	}
	if page := s.finished(); !strings.Contains(page, fmt.Sprintf("Verified %d events", head.Seq)) ||
		!strings.Contains(page, "signs the events up to 1,") ||
		!strings.Contains(page, head.Hash.String()) ||
		strings.Contains(page, "http-equiv") {
		t.Errorf("with the first checkpoint:\n%s", page)
	}
	checkpoint, err := s.box.Sign(t.Context())
	must.Succeed(t, err)
	key, err := s.box.PublicKey()
	must.Succeed(t, err)
	s.post(client, "/ledger/verify", nil)
	page := s.finished()
	for _, want := range []string{fmt.Sprintf("Verified %d events", head.Seq), head.Hash.String(),
		checkpoint.Root.String(), checkpoint.Origin, "signs all events", html.EscapeString(key),
		"checked"} {
		if !strings.Contains(strings.ReplaceAll(page, "&#43;", "+"),
			strings.ReplaceAll(want, "&#43;", "+")) {
			t.Errorf("the page does not contain %q:\n%s", want, page)
		}
	}
	s.do(rules.OpenWork{Work: "late", Title: "not signed yet", Actor: "ann"})
	s.post(client, "/ledger/verify", nil)
	if page := s.finished(); !strings.Contains(page, fmt.Sprintf("signs the events up to %d,",
		head.Seq)) {
		t.Errorf("with an event after the checkpoint:\n%s", page)
	}
	blobs, err := filepath.Glob(filepath.Join(s.box.Dir, "blobs", "*", "*"))
	if err != nil || len(blobs) == 0 {
		t.Fatalf("%d blobs: %v", len(blobs), err)
	}
	must.Succeed(t, os.Remove(blobs[0]))
	s.post(client, "/ledger/verify", nil)
	if page := s.finished(); !strings.Contains(page, "Not verified") ||
		strings.Contains(page, "Verified ") || !strings.Contains(page, "1 missing") {
		t.Errorf("without a blob:\n%s", page)
	}
}

// TestProofCheckerIsPublic: the page that checks proofs needs no login, says nothing about the box,
// and says what its user trusts.
func TestProofCheckerIsPublic(t *testing.T) {
	s := newStage(t)
	if status, _, _ := s.get(http.DefaultClient, "/ledger"); status != http.StatusUnauthorized {
		t.Errorf("the ledger is public: %d", status)
	}
	status, _, page := s.get(http.DefaultClient, "/verify")
	if status != http.StatusOK || strings.Contains(page, "pwned") ||
		strings.Contains(page, s.box.ID()) {
		t.Errorf("%d:\n%s", status, page)
	}
	for _, want := range []string{"its script comes from the same server",
		"from a copy of signalbox that you trust", "signalbox ledger check"} {
		if !strings.Contains(page, want) {
			t.Errorf("the page does not say %q:\n%s", want, page)
		}
	}
}
