package api

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"signalbox/internal/config"
	"signalbox/internal/oracle/chunk"
	"signalbox/internal/oracle/session"
	"signalbox/internal/rehearsal/modelserver"
	"signalbox/internal/serve/access"
	"signalbox/internal/testkit/must"
)

// thinker is a model that waits between the pieces of its answers for the test, or until its client
// leaves.
type thinker struct {
	waits, next, left chan struct{}
}

// newThinker makes a scripted model that of the oracle.
func (w *world) newThinker() *thinker {
	w.t.Helper()
	m := &thinker{make(chan struct{}, 10), make(chan struct{}), make(chan struct{}, 10)}
	script, err := modelserver.ParseScript("model.yaml", []byte(`
conversations:
  - turns:
      - {match: {user: slow}, parts: [{pieces: [one, ", two"]}], every: 1s}
      - {match: {user: holdings}, parts: [{text: "Well.\n<signal type=\"partial_answer\"><answered>365 SLV</answered><missing>365 SLV</missing><reason>365 SLV</reason><confidence>0.9</confidence></signal>"}]}
      - {parts: [{text: Hello.}], times: 9}
`))
	must.Succeed(w.t, err)
	handler, err := modelserver.New(script,
		&modelserver.Options{Sleep: func(ctx context.Context, _ time.Duration) error {
			m.waits <- struct{}{}
			select {
			case <-m.next:
				return nil
			case <-ctx.Done():
				m.left <- struct{}{}
				return ctx.Err()
			}
		}})
	must.Succeed(w.t, err)
	server := httptest.NewServer(handler)
	w.t.Cleanup(server.Close)
	if w.config, err = config.Parse(fmt.Appendf(nil,
		"models: {main: {provider: openai, model: m, base_url: %q, tries: 1}}", server.URL+
			"/v1")); err != nil {
		w.t.Fatal(err)
	}
	return m
}

// answering is the answer to a question, which is being read.
type answering struct {
	t     testing.TB
	lines *bufio.Scanner
	// session is the header with the conversation.
	session string
	leave   func()
}

func (w *world) ask(token string, in askInput) *answering {
	w.t.Helper()
	body, err := json.Marshal(in)
	must.Succeed(w.t, err)
	ctx, leave := context.WithCancel(w.t.Context())
	w.t.Cleanup(leave)
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, w.url+Prefix+"/oracle",
		strings.NewReader(string(body)))
	must.Succeed(w.t, err)
	r.Header.Set("Content-Type", mediaJSON)
	r.Header.Set("Authorization", "Bearer "+token)
	answer, err := http.DefaultClient.Do(r)
	must.Succeed(w.t, err)
	w.t.Cleanup(func() { answer.Body.Close() })
	if answer.StatusCode != http.StatusOK || answer.Header.Get("Content-Type") != mediaLines {
		w.t.Fatalf("%d %s", answer.StatusCode, answer.Header)
	}
	return &answering{w.t, bufio.NewScanner(answer.Body), answer.Header.Get(sessionHeader), leave}
}

// next returns the next chunk, nil at the end.
func (a *answering) next() chunk.Chunk {
	a.t.Helper()
	if !a.lines.Scan() {
		return nil
	}
	c, err := chunk.Parse(a.lines.Bytes())
	must.Succeed(a.t, err)
	return c
}

// rest reads to the end, and returns the kinds of the chunks and the last one.
func (a *answering) rest() (kinds string, last chunk.Chunk) {
	a.t.Helper()
	for c := a.next(); c != nil; c = a.next() {
		kinds, last = kinds+string(c.Kind())+" ", c
	}
	return kinds, last
}

// TestOracleStreams reads the first chunk while the model still thinks, then the rest, and then the
// record.
func TestOracleStreams(t *testing.T) {
	w := newWorld(t, false)
	m := w.newThinker()
	operate := w.tokens[access.Operate]
	a := w.ask(operate, askInput{Question: "slow"})
	if first := a.next(); first != (chunk.Content{Turn: 1, Text: "one"}) {
		t.Errorf("the first chunk is %#v", first)
	}
	<-m.waits // there was nothing else to send yet
	m.next <- struct{}{}
	if second := a.next(); second != (chunk.Content{Turn: 1, Text: ", two"}) {
		t.Errorf("the second chunk is %#v", second)
	}
	_, last := a.rest()
	if done, ok := last.(chunk.Done); !ok || done.Answer != "one, two" ||
		done.Session != a.session || done.Question != 1 {
		t.Errorf("the last chunk is %#v, the session %s", last, a.session)
	}
	b := w.ask(operate, askInput{Question: "hello", Session: a.session})
	if _, last := b.rest(); last.(chunk.Done).Question != 2 || b.session != a.session {
		t.Errorf("continued: %#v", last)
	}
	var all list[session.Summary]
	status, data := w.request(http.MethodGet, Prefix+"/oracle/conversations", operate, nil)
	if err := json.Unmarshal(data, &all); err != nil || status != 200 || len(all.Items) != 1 ||
		all.Items[0].ID != a.session || all.Items[0].Questions != 2 {
		t.Errorf("the list: %d %s, %v", status, data, err)
	}
	status, data = w.request(http.MethodGet, Prefix+"/oracle/conversations/"+a.session, operate,
		nil)
	if lines := strings.Split(string(data), "\n"); status != 200 ||
		lines[0] != `{"type":"question","question":1,"text":"slow"}` ||
		!strings.Contains(lines[1], "one, two") {
		t.Errorf("the record: %d %s", status, data)
	}
	for path, method := range map[string]string{"/oracle/conversations/O-9": http.MethodGet,
		"/oracle/conversations/O-9/stop": http.MethodPost,
		"/oracle/conversations/..%2F..":  http.MethodGet} {
		if status, data := w.request(method, Prefix+path, operate,
			nil); status != http.StatusNotFound {
			t.Errorf("%s: %d %s", path, status, data)
		}
	}
}

// TestOracleSignalsOnLedger checks that the ledger, which everyone with the scope read can read,
// has the signals of a conversation but not what they say.
func TestOracleSignalsOnLedger(t *testing.T) {
	w := newWorld(t, false)
	w.newThinker()
	operate := w.tokens[access.Operate]
	a := w.ask(operate, askInput{Question: "holdings"})
	if kinds, last := a.rest(); last == nil || last.(chunk.Done).Reason != "partial_answer" {
		t.Fatalf("it ended with %s %#v", kinds, last)
	}
	if _, record := w.request(http.MethodGet, Prefix+"/oracle/conversations/"+a.session, operate,
		nil); !strings.Contains(string(record), "365 SLV") {
		t.Errorf("the conversation does not have the signal: %s", record)
	}
	status, events := w.request(http.MethodGet, Prefix+"/ledger/events", w.tokens[access.Read], nil)
	if status != 200 || !strings.Contains(string(events),
		`"signal":"partial_answer","confidence":0.9}`) || strings.Contains(string(events), "SLV") {
		t.Errorf("%d %s", status, events)
	}
}

// TestOracleEnds ends answers while the model thinks: by the operation, by leaving, and by revoking
// the token.
func TestOracleEnds(t *testing.T) {
	w := newWorld(t, false)
	m := w.newThinker()
	operate := w.tokens[access.Operate]
	begin := func(token string) *answering {
		a := w.ask(token, askInput{Question: "slow"})
		a.next()
		<-m.waits
		return a
	}
	a := begin(operate)
	if status, body := w.request(http.MethodPost, Prefix+"/oracle", operate,
		askInput{Question: "hello"}); status != http.StatusConflict {
		t.Errorf("a second question: %d %s", status, body)
	}
	w.post("/oracle/conversations/"+a.session+"/stop", operate, nil, nil)
	<-m.left
	if kinds, last := a.rest(); !strings.HasSuffix(kinds, "error done ") ||
		last.(chunk.Done).Reason != "cancelled" {
		t.Errorf("stopped: %s %#v", kinds, last)
	}

	a = begin(operate)
	a.leave()
	<-m.left

	token, err := w.store.Create(t.Context(), access.Token{Name: "robot", Kind: access.KindToken,
		Scope: access.Operate, Created: time.Now()})
	must.Succeed(t, err)
	a = begin(token)
	must.Succeed(t, w.store.Revoke(t.Context(), "robot"))
	m.next <- struct{}{}
	if kinds, last := a.rest(); last != nil {
		t.Errorf("after the token was revoked: %s %#v", kinds, last)
	}
}

// TestOracleRefuses says what to do in the answer, before the stream begins.
func TestOracleRefuses(t *testing.T) {
	w := newWorld(t, false)
	for name, test := range map[string]struct {
		in   string
		want int
		text string
	}{
		"no model": {`{"question":"hello"}`, http.StatusUnprocessableEntity,
			"no model is configured"},
		"no question": {`{}`, http.StatusBadRequest, "there is no question"},
		"unknown": {`{"question":"hello","session":"O-9"}`, http.StatusNotFound,
			"no conversation"},
		"unknown field": {`{"questoin":"hello"}`, http.StatusBadRequest, "questoin"},
		"too long": {`{"question":"` + strings.Repeat("x", 300<<10) + `"}`,
			http.StatusBadRequest, "longer than"},
		"larger": {`{"question":"` + strings.Repeat("x", 2<<20) + `"}`,
			http.StatusRequestEntityTooLarge, "too large"},
	} {
		status, body := w.request(http.MethodPost, Prefix+"/oracle", w.tokens[access.Operate],
			test.in)
		if status != test.want || !strings.Contains(string(body), test.text) {
			t.Errorf("%s: %d %.300s", name, status, body)
		}
		if name == "no model" && !strings.Contains(string(body), `"hint":"add models:`) {
			t.Errorf("%s: %s", name, body)
		}
	}
}

// deadlines is a client's connection, which records its deadline.
type deadlines struct {
	*httptest.ResponseRecorder
	writeBy time.Time
	set     int
}

func (d *deadlines) SetWriteDeadline(t time.Time) error {
	if d.writeBy = t; !t.IsZero() {
		d.set++
	}
	return nil
}

// TestOracleDeadlines checks that writing a chunk has a deadline, and that none is left while the
// model thinks: HTTP/2 would end the stream.
func TestOracleDeadlines(t *testing.T) {
	w := newWorld(t, false)
	w.newThinker()
	mux := http.NewServeMux()
	w.api.Register(mux)
	c := &deadlines{ResponseRecorder: httptest.NewRecorder()}
	r := httptest.NewRequest(http.MethodPost, Prefix+"/oracle",
		strings.NewReader(`{"question":"hello"}`))
	r.Host = "127.0.0.1"
	r.Header.Set("Content-Type", mediaJSON)
	r.Header.Set("Authorization", "Bearer "+w.tokens[access.Operate])
	mux.ServeHTTP(c, r)
	if lines := strings.Count(c.Body.String(), "\n"); c.Code != http.StatusOK || lines == 0 ||
		c.set < lines || !c.writeBy.IsZero() || !c.Flushed {
		t.Errorf("%d: %d lines, %d deadlines, %v at the end: %s", c.Code, lines, c.set, c.writeBy,
			c.Body)
	}
}
