package dashboard

import (
	"fmt"
	"html"
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"strings"
	"testing"

	"signalbox/internal/config"
	"signalbox/internal/oracle/chunk"
	"signalbox/internal/oracle/console"
	"signalbox/internal/rehearsal/modelserver"
	"signalbox/internal/serve/access"
	"signalbox/internal/testkit/must"
)

// newModel makes a scripted model that of the oracle. It answers with hostile text.
func (s *stage) newModel() {
	s.t.Helper()
	handler, err := modelserver.New(
		&modelserver.Script{Conversations: []modelserver.Conversation{{Turns: []modelserver.Turn{
			{Match: &modelserver.Match{User: "fail"},
				Faults: []modelserver.Fault{{Kind: modelserver.FaultStatus, Status: 500}},
				Parts:  []modelserver.Part{{Text: "better"}}},
			{Match: &modelserver.Match{User: ".*"},
				Parts: []modelserver.Part{{Text: "# An answer\n\n" + hostile}}},
		}}}}, nil)
	must.Succeed(s.t, err)
	server := httptest.NewServer(handler)
	s.t.Cleanup(server.Close)
	if s.config, err = config.Parse(fmt.Appendf(nil,
		"models: {main: {provider: openai, model: m, base_url: %q, tries: 1}}", server.URL+
			"/v1")); err != nil {
		s.t.Fatal(err)
	}
}

var chunksOf = regexp.MustCompile(`data-chunks="([^"]*)"`)

// TestAskWithoutScripting asks by the form, which leads to the page with the whole answer, and
// continues the conversation there.
func TestAskWithoutScripting(t *testing.T) {
	s := newStage(t)
	s.newModel()
	browser := s.logIn(access.Operate)
	ask := func(form url.Values) string {
		t.Helper()
		r, err := browser.PostForm(s.url+"/oracle", form)
		must.Succeed(t, err)
		r.Body.Close()
		to := r.Header.Get("Location")
		if r.StatusCode != http.StatusSeeOther || !strings.HasPrefix(to, "/oracle/O-") {
			t.Fatalf("asked: %d %s", r.StatusCode, to)
		}
		return to
	}
	to := ask(url.Values{"question": {"What is this?\r\n" + hostile},
		"back": {"https://evil.example"}})
	status, _, page := s.get(browser, to)
	if status != http.StatusOK || strings.Count(page, "pwned") < 4 {
		t.Fatalf("%d %s", status, page)
	}
	for name, pattern := range map[string]*regexp.Regexp{"an inline script": inlineScript,
		"an inline handler": handler, "an inline style": inlineStyle} {
		if found := pattern.FindString(page); found != "" {
			t.Errorf("the page has %s: %q", name, found)
		}
	}
	for _, raw := range []string{"<script>alert", "<img", "<svg onload", "\x1b", "\u202e", "\u3164",
		"\ufe0f", "\u2800"} {
		if strings.Contains(page, raw) {
			t.Errorf("the page contains %q", raw)
		}
	}
	match := chunksOf.FindStringSubmatch(page)
	if match == nil {
		t.Fatalf("no chunks: %s", page)
	}
	var last chunk.Chunk
	for line := range strings.Lines(html.UnescapeString(match[1])) {
		c, err := chunk.Parse([]byte(line))
		must.Succeed(t, err)
		last = c
	}
	session := strings.TrimPrefix(to, "/oracle/")
	if done, ok := last.(chunk.Done); !ok || done.Session != session ||
		!strings.Contains(done.Answer, "<script>alert(1)") {
		t.Errorf("the last chunk is %#v", last)
	}
	if next := ask(url.Values{"question": {"fail"}, "session": {session}}); next != to {
		t.Errorf("the next question leads to %s", next)
	}
	if _, _, page := s.get(browser, to); !strings.Contains(page, "✗ ") ||
		strings.Contains(page, `action="/oracle" hidden`) {
		t.Errorf("the page does not say that it failed, or not how to resume: %s", page)
	}
	ask(url.Values{"resume": {"yes"}, "session": {session}})
	if _, _, page := s.get(browser, to); !strings.Contains(page, "better") ||
		!strings.Contains(page, `action="/oracle" hidden`) {
		t.Errorf("the answer was not resumed: %s", page)
	}
	if _, _, page := s.get(browser, "/oracle"); !strings.Contains(page, `href="`+to+`"`) {
		t.Errorf("the conversation is not in the list: %s", page)
	}
}

// TestConversationsAreForOperators shows visitors and readers neither the conversations nor the
// field for a question.
func TestConversationsAreForOperators(t *testing.T) {
	s := newStage(t)
	s.allowAnonymousReads()
	s.newModel()
	r, err := s.logIn(access.Operate).PostForm(s.url+"/oracle",
		url.Values{"question": {"my secret"}})
	must.Succeed(t, err)
	r.Body.Close()
	to := r.Header.Get("Location")
	for name, client := range map[string]*http.Client{"visitor": http.DefaultClient,
		"reader": s.logIn(access.Read), "answerer": s.logIn(access.Answer)} {
		status, _, page := s.get(client, "/oracle")
		if status != http.StatusOK ||
			!strings.Contains(page, "log in with a link whose scope is operate") ||
			strings.Contains(page, "secret") || strings.Contains(page, "<textarea") {
			t.Errorf("%s: %d %s", name, status, page)
		}
		if status, _, page := s.get(client, to); status != http.StatusUnauthorized &&
			status != http.StatusForbidden || strings.Contains(page, "secret") {
			t.Errorf("%s reads the conversation: %d %s", name, status, page)
		}
	}
}

// TestOracleWithoutModel checks that the page explains how to configure a model, and that the
// navigation does not lead to it.
func TestOracleWithoutModel(t *testing.T) {
	s := newStage(t)
	browser := s.logIn(access.Operate)
	status, _, page := s.get(browser, "/oracle")
	if status != http.StatusOK || !strings.Contains(page, "no model is configured") ||
		!strings.Contains(page, "add models:") || strings.Contains(page, "<textarea") {
		t.Errorf("%d %s", status, page)
	}
	if strings.Contains(page, `<a href="/oracle"`) {
		t.Error("the navigation leads to the oracle")
	}
	if status, page := s.post(browser, "/oracle",
		url.Values{"question": {"hello"}}); status != http.StatusUnprocessableEntity ||
		!strings.Contains(page, "add models:") {
		t.Errorf("asked: %d %s", status, page)
	}
	s.newModel()
	s.box.Config = s.config
	if _, _, page := s.get(browser, "/board"); !strings.Contains(page, `<a href="/oracle"`) {
		t.Error("the navigation does not lead to the oracle")
	}
	for _, form := range []url.Values{{}, {"question": {" \r\n"}}, {"session": {"O-1"}},
		{"question": {"x"}, "resume": {"yes"}}} {
		if status, page := s.post(browser, "/oracle", form); status != http.StatusBadRequest {
			t.Errorf("%v: %d %s", form, status, page)
		}
	}
	for _, path := range []string{"/oracle/O-1", "/oracle/..", "/oracle/%2e%2e%2f",
		"/oracle/history"} {
		if status, _, _ := s.get(browser, path); status != http.StatusNotFound &&
			status != http.StatusMovedPermanently && status != http.StatusTemporaryRedirect {
			t.Errorf("%s: %d", path, status)
		}
	}
}

// TestLongConversationsAreBounded shows the end of a conversation that is too long for a page, and
// the beginning of a long result.
func TestLongConversationsAreBounded(t *testing.T) {
	long := console.Question{Text: "why?",
		Chunks: []chunk.Chunk{chunk.ToolResult{Name: "read_file", OK: true,
			Text: strings.Repeat("ä", maxResult)},
			chunk.Content{Turn: 1, Text: strings.Repeat("x", 300<<10)}}}
	q, err := newQuestion(long)
	must.Succeed(t, err)
	if n := strings.Count(q.Chunks, "ä"); n != maxResult/2 || len(q.Chunks) > maxResult+301<<10 {
		t.Errorf("%d characters of the result, %d bytes", n, len(q.Chunks))
	}
	p := &oraclePage{}
	must.Succeed(t, p.show([]console.Question{long, long, long, long}))
	if p.Earlier == 0 || len(p.Questions) == 0 || p.Earlier+len(p.Questions) != 4 {
		t.Errorf("%d shown, %d earlier", len(p.Questions), p.Earlier)
	}
	long.Chunks = append(long.Chunks,
		chunk.Content{Turn: 1, Text: strings.Repeat("x", 2*maxConversation)})
	if p = new(oraclePage); p.show([]console.Question{long}) != nil || len(p.Questions) != 1 {
		t.Error("the last question is not shown")
	}
}
