package dashboard

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"signalbox"
	"signalbox/internal/config"
	"signalbox/internal/core/box"
	"signalbox/internal/core/journal"
	"signalbox/internal/core/rules"
	"signalbox/internal/portfolio"
	"signalbox/internal/run/inspect"
	"signalbox/internal/run/turnprompt"
	"signalbox/internal/run/workspace"
	"signalbox/internal/serve/access"
	"signalbox/internal/serve/ask"
	"signalbox/internal/testkit/must"
)

// hostile is text that tries to become markup, to command a terminal, and to turn the direction of
// the text around it.
const hostile = "pwned <script>alert(1)</script><img src=x onerror=alert(2)>\"' onmouseover=x \x1b[31m\u202e\u3164\ufe0f\u2800</pre></title></textarea><svg onload=alert(3)> {{.}}"

// onlyText is hostile without control characters, which the rules do not accept in a title.
const onlyText = "pwned <script>alert(1)</script><img src=x onerror=alert(2)>\"' onmouseover=x \u202e\u3164\ufe0f\u2800</pre></title></textarea>"

// stage is a dashboard on a real box with a plan: T1 waits for approval, T2 asks a question, T3 was
// sent back by the critic.
type stage struct {
	t     testing.TB
	box   *box.Box
	store *access.Store
	url   string
	held  map[string]rules.Answer
	// commit is that of every task.
	base   string
	commit string
	// desk is that of the portfolio; nil means that there is none.
	desk *portfolio.Desk

	// reads is the client that viewer returns.
	reads *http.Client

	dashboard *Dashboard
	// config is that of the oracle.
	config *config.Config
	mux    *http.ServeMux
}

func newStage(t testing.TB) *stage {
	t.Helper()
	return newStageIn(t, t.TempDir(), "", "3f2a91c0"+strings.Repeat("0", 32))
}

// newStageIn returns a stage in a folder, where the tasks have a commit. base is that of the base,
// "" if it is not known.
func newStageIn(t testing.TB, folder, base, commit string) *stage {
	t.Helper()
	dir := filepath.Join(folder, box.FolderName)
	opts := &box.Options{KeyFile: filepath.Join(filepath.Dir(dir), "box.key")}
	if _, err := box.Init(t.Context(), dir, "ann", opts); err != nil {
		t.Fatal(err)
	}
	b, err := box.Open(t.Context(), dir, opts)
	must.Succeed(t, err)
	t.Cleanup(func() { b.Close() })
	s := &stage{t: t, box: b, store: access.NewStore(dir), held: map[string]rules.Answer{},
		base: base, commit: commit, config: b.Config}
	s.perform()
	oracle := ask.New(b,
		ask.Options{Config: func(context.Context) (*config.Config, error) { return s.config, nil }})
	t.Cleanup(oracle.Close)
	d, err := New(b, access.NewGuard(s.store, nil), Options{Root: filepath.Dir(dir), Name: onlyText,
		Oracle: oracle, Portfolio: func() *portfolio.Desk { return s.desk }})
	must.Succeed(t, err)
	s.dashboard, s.mux = d, http.NewServeMux()
	d.Register(s.mux)
	server := httptest.NewServer(s.mux)
	t.Cleanup(server.Close)
	s.url = server.URL
	return s
}

// allowAnonymousReads makes the server one that was started with --anonymous-read.
func (s *stage) allowAnonymousReads() {
	s.dashboard.guard = access.NewGuard(s.store, &access.Options{AnonymousReads: true})
}

func (s *stage) do(c rules.Command) rules.Answer {
	s.t.Helper()
	answer, err := s.box.Engine.Do(s.t.Context(), c)
	if err != nil {
		s.t.Fatalf("%#v: %v", c, err)
	}
	return answer
}

func (s *stage) blob(text string) signalbox.Hash {
	s.t.Helper()
	digest, err := s.box.Engine.PutBlob(s.t.Context(), strings.NewReader(text))
	must.Succeed(s.t, err)
	return digest
}

func (s *stage) start(role signalbox.Role, work string) {
	s.t.Helper()
	session := fmt.Sprintf("w-1.%d", s.box.Engine.Tail().Seq)
	a := s.do(rules.Dispatch{Roles: []signalbox.Role{role}, Session: session, Actor: "crew",
		Lease: "l-" + session})
	if a.Work != work {
		s.t.Fatalf("dispatched %s for %s, not %s", role, a.Work, work)
	}
	s.held[work] = a
	if role != signalbox.RoleCI && role != signalbox.RoleMerger {
		s.do(rules.StartAgent{Session: session, Epoch: a.Lease.Epoch, Agent: "claude"})
	}
}

func (s *stage) say(work, signal, summary string) {
	s.t.Helper()
	a := s.held[work]
	s.do(rules.ReportSignal{Session: a.Session, Epoch: a.Lease.Epoch, Signal: signal, Named: work,
		Fields: rules.SignalFields{Summary: summary},
		Turn: &rules.Turn{Output: s.blob("claude says: " + hostile + "\n"),
			Spent: rules.Spent{Tokens: 2100, CostMicros: 70_000, Time: time.Second}}})
}

func (s *stage) check(work string, passed bool) {
	s.t.Helper()
	s.start(signalbox.RoleCI, work)
	a := s.held[work]
	row := rules.CheckRow{Check: "test", Environment: "linux", Passed: passed}
	if !passed {
		row.Exit, row.Output = 1, s.blob(hostile)
	}
	report := rules.ReportChecks{Session: a.Session, Epoch: a.Lease.Epoch, Commit: s.commit, Base: s.base, Rows: []rules.CheckRow{row}}
	if work == "T1" { // agents choose the names of files
		report.Steering = []string{".claude/" + onlyText}
	}
	s.do(report)
}

func (s *stage) develop(work string) {
	s.t.Helper()
	s.start(signalbox.RoleDeveloper, work)
	s.say(work, "ready_for_review", onlyText)
	s.check(work, true)
}

func (s *stage) perform() {
	s.t.Helper()
	policy := rules.Policy{Slots: 5, Limits: rules.DefaultLimits(), ApproveMerge: true}
	for _, role := range rules.DispatchRoles() {
		policy.Roles = append(policy.Roles, rules.RoleSlots{Role: role, Slots: 3})
	}
	s.do(rules.Configure{Policy: policy, Actor: "op"})
	var tasks []rules.PlanTask
	for _, id := range []string{"T1", "T2", "T3"} {
		tasks = append(tasks, rules.PlanTask{ID: id, Title: id + " " + onlyText, Text: s.blob(id)})
	}
	for !s.do(rules.LoadPlan{Plan: s.blob("# A plan"), Name: onlyText, ID: "counter",
		Source: "counter.md", Tasks: tasks, Actor: "op"}).Plan.Loaded {
	}
	s.check("B-1", true)
	s.develop("T1")
	s.start(signalbox.RoleCritic, "T1")
	s.say("T1", "review_passed", "")
	s.start(signalbox.RoleAuditor, "T1")
	s.say("T1", "audit_passed", "")
	s.start(signalbox.RoleDeveloper, "T2")
	s.say("T2", "divine_clarification", hostile)
	s.start(signalbox.RoleDeveloper, "T3")
	s.say("T3", "ready_for_review", onlyText)
	s.check("T3", false)
}

// logIn returns a client of a browser that has logged in with a scope.
func (s *stage) logIn(scope access.Scope) *http.Client {
	s.t.Helper()
	link, err := s.store.NewLink(s.t.Context(), box.NewID("browser"), scope, time.Now())
	must.Succeed(s.t, err)
	client := &http.Client{CheckRedirect: func(*http.Request,
		[]*http.Request) error {
		return http.ErrUseLastResponse
	}}
	answer, err := client.PostForm(s.url+"/login", url.Values{"link": {link}})
	must.Succeed(s.t, err)
	answer.Body.Close()
	if answer.StatusCode != http.StatusSeeOther || len(answer.Cookies()) != 1 {
		s.t.Fatalf("logging in: %d, %v", answer.StatusCode, answer.Cookies())
	}
	cookie := answer.Cookies()[0]
	client.Transport = addsCookie{cookie}
	return client
}

type addsCookie struct{ cookie *http.Cookie }

func (a addsCookie) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.AddCookie(a.cookie)
	return http.DefaultTransport.RoundTrip(r)
}

func (s *stage) get(client *http.Client, path string) (int, http.Header, string) {
	s.t.Helper()
	answer, err := client.Get(s.url + path)
	must.Succeed(s.t, err)
	defer answer.Body.Close()
	body, err := io.ReadAll(answer.Body)
	must.Succeed(s.t, err)
	return answer.StatusCode, answer.Header, string(body)
}

func (s *stage) post(client *http.Client, path string, form url.Values,
	headers ...string) (int, string) {
	s.t.Helper()
	r, err := http.NewRequestWithContext(s.t.Context(), http.MethodPost, s.url+path,
		strings.NewReader(form.Encode()))
	must.Succeed(s.t, err)
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	for i := 0; i < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	answer, err := client.Do(r)
	must.Succeed(s.t, err)
	defer answer.Body.Close()
	body, err := io.ReadAll(answer.Body)
	must.Succeed(s.t, err)
	return answer.StatusCode, string(body)
}

// pages are all pages, and whether each shows text of agents.
func (s *stage) pages() map[string]bool {
	return map[string]bool{
		"/": true, "/board": true, "/run": true, "/crew": false, "/oracle": false, "/cost": true,
		"/ledger": true, "/ledger/3": true, "/ledger?text=pwned": true,
		"/ledger?work=%3Cscript%3E&type=%3Cimg": false, "/ledger/verify": false,
		"/work/T1": true, "/work/T2": true,
		"/work/T3": true, "/work/T2/log": true, "/work/T2/log?session=0": true,
		"/work/T2/log?raw=1&find=%3Cb%3E": true, "/login": false,
		"/login?link=%3Cscript%3E": false, "/work/none": false, "/none%3Cscript%3E": false,
		"/verify": false,
	}
}

var (
	inlineScript = regexp.MustCompile(`(?i)<script(>| [^>]*>[^<])`)
	handler      = regexp.MustCompile(`(?i)<[a-z]+[^<>"]*("[^"]*"[^<>"]*)*\son[a-z]+\s*=`)
	inlineStyle  = regexp.MustCompile(`(?i)<[a-z]+[^<>"]*("[^"]*"[^<>"]*)*\sstyle\s*=|<style`)
)

// TestHostileTextStaysText shows hostile text in every field that an agent or a plan controls, on
// every page.
func TestHostileTextStaysText(t *testing.T) {
	s := newStage(t)
	s.allowAnonymousReads()
	for _, client := range []*http.Client{http.DefaultClient, s.logIn(access.Operate)} {
		for path, shows := range s.pages() {
			status, header, body := s.get(client, path)
			if want := map[bool]int{true: 200, false: 404}[!strings.Contains(path,
				"/none")]; status != want {
				t.Errorf("%s: status %d, want %d", path, status, want)
			}
			if got := header.Get("Content-Security-Policy"); got != policy ||
				strings.Contains(got, "unsafe") {
				t.Errorf("%s: policy %q", path, got)
			}
			if shows && strings.Count(body, "pwned") < 3 { // the title of the page has it twice
				t.Errorf("%s does not show the hostile text, so this proves nothing", path)
			}
			for name, pattern := range map[string]*regexp.Regexp{"an inline script": inlineScript,
				"an inline handler": handler, "an inline style": inlineStyle} {
				if found := pattern.FindString(strings.ReplaceAll(body,
					`<script src="/static/live.js" defer></script>`, "")); found != "" {
					t.Errorf("%s has %s: %q", path, name, found)
				}
			}
			for _, raw := range []string{"<script>alert", "<img", "<svg onload", "\x1b", "\u202e",
				"\u3164", "\ufe0f", "\u2800"} {
				if strings.Contains(body, raw) {
					t.Errorf("%s contains %q", path, raw)
				}
			}
		}
	}
}

func TestAnswerReachesTheAgent(t *testing.T) {
	s := newStage(t)
	client := s.logIn(access.Answer)
	if _, _, page := s.get(client, "/"); !strings.Contains(page, `action="/questions/Q-1/answer"`) {
		t.Fatal("the inbox has no form for the question")
	}
	if _, _, page := s.get(s.viewer(), "/"); strings.Contains(page, "<textarea") {
		t.Error("the inbox has a form for somebody who may only read")
	}
	if status, body := s.post(client, "/questions/Q-1/answer",
		url.Values{"text": {"two\r\ndecimals"}, "back": {"/"}}); status != http.StatusSeeOther {
		t.Fatalf("answer: %d %s", status, body)
	}
	s.box.Engine.View(func(state *rules.State) {
		if q, _ := state.Question("Q-1"); q.Answer != "two\ndecimals" {
			t.Errorf("the answer is %q", q.Answer)
		}
	})
	if status, body := s.post(client, "/questions/Q-1/answer",
		url.Values{"text": {"again"}}); status < 400 || !strings.Contains(body, "Q-1") {
		t.Errorf("answered twice: %d %s", status, body)
	}
}

// TestHeaderSaysThatNoRunIsActive: the answer lets T2 continue, and no process carries the plan
// out.
func TestHeaderSaysThatNoRunIsActive(t *testing.T) {
	s := newStage(t)
	s.do(rules.AnswerQuestion{Question: "Q-1", Answer: "two", Actor: "ann"})
	if _, _, page := s.get(s.viewer(), "/board"); !strings.Contains(page, "stopped") ||
		strings.Contains(page, "running") {
		t.Errorf("the header of a run that has no process:\n%s", page[:min(len(page), 3000)])
	}
}

// TestRetryFromAPhaseWithANote: the page offers the phases that the task has reached, and the note
// is the first section of the next prompt.
func TestRetryFromAPhaseWithANote(t *testing.T) {
	s := newStage(t)
	client := s.logIn(access.Operate)
	_, _, page := s.get(client, "/work/T1")
	for _, want := range []string{`<option value="IMPLEMENTATION">developer<`,
		`<option value="CI_PENDING">checks<`, `<option value="REVIEW">critic<`,
		`<option value="READY_FOR_MERGE" selected>auditor<`} {
		if !strings.Contains(page, want) {
			t.Errorf("the page of T1 does not have %s", want)
		}
	}
	if _, _, page := s.get(client, "/work/T3"); !strings.Contains(page,
		`value="IMPLEMENTATION" selected`) || strings.Contains(page, `value="REVIEW"`) {
		t.Error("the page of T3 offers other phases than the one that it has reached")
	}
	if _, _, page := s.get(s.logIn(access.Answer), "/work/T1"); strings.Contains(page,
		"retry-from") {
		t.Error("the page has a form that would be refused")
	}
	form := url.Values{"what": {"retry"}, "from": {"REVIEW"},
		"text": {"look at\r\nthe error paths"}, "back": {"/work/T1"}}
	if status, body := s.post(client, "/work/T3/order",
		form); status != http.StatusUnprocessableEntity ||
		!strings.Contains(body, "cannot restart in REVIEW") {
		t.Errorf("restarted in a phase that it has not reached: %d %s", status, body)
	}
	if status, body := s.post(client, "/work/T1/order", form); status != http.StatusSeeOther {
		t.Fatalf("retry: %d %s", status, body)
	}
	prompt, err := turnprompt.Show(t.Context(), s.box, "main", signalbox.RoleCritic, "T1", false)
	must.Succeed(t, err)
	if sections := strings.SplitN(string(prompt), "\n## ", 3); len(sections) < 3 ||
		!strings.Contains(sections[1], "    look at\n    the error paths") {
		t.Errorf("the prompt is:\n%s", prompt)
	}
}

// What has a form of its own, with another scope or another text, is not carried out as an order.
func TestOrderFormHasOnlyOrders(t *testing.T) {
	s := newStage(t)
	client, before := s.logIn(access.Operate), s.box.Engine.Tail().Seq
	for _, what := range []string{"approve", "answer", "reject", "rework", "tell", "nothing"} {
		form := url.Values{"what": {what}, "text": {"words"}, "back": {"/work/T1"}}
		status, body := s.post(client, "/work/T1/order", form)
		if status < 400 || status >= 500 || !strings.Contains(body, what) {
			t.Errorf("%s: %d %s", what, status, body)
		}
	}
	if after := s.box.Engine.Tail().Seq; after != before {
		t.Errorf("%d events were recorded", after-before)
	}
}

// TestCancelIsConfirmed: a click on the row of buttons does not cancel a task.
func TestCancelIsConfirmed(t *testing.T) {
	s := newStage(t)
	_, _, page := s.get(s.logIn(access.Operate), "/work/T2")
	row := page[strings.Index(page, `value="retry"`):]
	if end := strings.Index(row, "</form>"); strings.Contains(row[:end], "cancel") ||
		!strings.Contains(row, "Yes, cancel T2") || strings.Contains(page, `value="resume"`) {
		t.Errorf("the buttons of a task:\n%s", row[:min(len(row), 1000)])
	}
}

func TestOnlyTheCommitOnThePageIsApproved(t *testing.T) {
	s := newStage(t)
	client := s.logIn(access.Answer)
	if status, _ := s.post(client, "/work/T1/approve",
		url.Values{"commit": {"0000000"}}); status != http.StatusConflict {
		t.Errorf("approved another commit: %d", status)
	}
	if status, _ := s.post(client, "/work/T1/approve", nil); status < 400 {
		t.Errorf("approved without a commit: %d", status)
	}
	if status, body := s.post(client, "/work/T1/approve",
		url.Values{"commit": {s.commit}}); status != http.StatusSeeOther {
		t.Errorf("approve: %d %s", status, body)
	}
	s.box.Engine.View(func(state *rules.State) {
		if w, _ := state.Work("T1"); !w.Task.Approved {
			t.Error("T1 is not approved")
		}
	})
}

// TestCommentsBecomeFindings sends a task back with a comment on a line.
func TestCommentsBecomeFindings(t *testing.T) {
	s := newStage(t)
	client := s.logIn(access.Answer)
	if status, body := s.post(client, "/work/T1/reject",
		url.Values{"text": {"not yet"},
			"comment": {"lib/a.go:7: say why", " ",
				"lib/b.go:1: remove"}}); status != http.StatusSeeOther {
		t.Fatalf("reject: %d %s", status, body)
	}
	s.box.Engine.View(func(state *rules.State) {
		w, _ := state.Work("T1")
		if len(w.Task.Findings) != 1 ||
			w.Task.Findings[0].Summary != "not yet\n\nlib/a.go:7: say why\n\nlib/b.go:1: remove" {
			t.Errorf("findings %+v", w.Task.Findings)
		}
	})
}

// TestFormsCheckAccess posts every form with every scope, and from pages of other origins.
func TestFormsCheckAccess(t *testing.T) {
	s := newStage(t)
	forms := map[string]access.Scope{"/questions/Q-9/answer": access.Answer,
		"/work/T9/approve": access.Answer, "/work/T9/reject": access.Answer,
		"/work/T9/rework": access.Answer, "/work/T9/findings/F1/waive": access.Answer, "/work/T9/tell": access.Answer,
		"/work/T9/order": access.Operate, "/ledger/verify": access.Read,
		"/oracle": access.Operate}
	s.allowAnonymousReads()
	clients := map[access.Scope]*http.Client{access.Public: http.DefaultClient}
	for _, scope := range []access.Scope{access.Read, access.Answer, access.Operate} {
		clients[scope] = s.logIn(scope)
	}
	before := s.box.Engine.Tail().Seq
	for path, needed := range forms {
		for has, client := range clients {
			for _, origin := range []string{"", s.url, "http://evil.example", "null"} {
				var headers []string
				if origin != "" {
					headers = []string{"Origin", origin}
				}
				status, _ := s.post(client, path, url.Values{"text": {"x"}}, headers...)
				denied := status == http.StatusUnauthorized || status == http.StatusForbidden
				if allowed := has != access.Public && has.Allows(needed) &&
					(origin == "" || origin == s.url); denied == allowed {
					t.Errorf("%s with scope %q from %q: %d", path, has, origin, status)
				}
			}
		}
	}
	if after := s.box.Engine.Tail().Seq; after != before {
		t.Errorf("%d events were written", after-before)
	}
}

// TestVisitorsSeeNothing opens every page as somebody without a login, such as another user
// of the machine, or an agent. Each shows how to log in and nothing about the box, whether what it
// is about exists or not.
func TestVisitorsSeeNothing(t *testing.T) {
	s := newStage(t)
	s.desk = exampleDesk(t)
	s.noteRun(t, "T-1")
	source, err := os.ReadFile("dashboard.go")
	must.Succeed(t, err)
	open := map[string]bool{"/login": true, "/verify": true, "/static/{file}": true,
		"/static/tree-picture.css": true}
	values := strings.NewReplacer("{$}", "", "{task}", "T2", "{digest}", s.blob("T2").String(),
		"{seq}", "3", "{ticker}", "SLV", "{session}", "O-1", "{name}", "worker", "{run}", "T-1",
		"{file}", "verify.js")
	paths := []string{"/none", "/work/none", "/work/T2/log?session=0", "/ledger?text=pwned"}
	for _, route := range regexp.MustCompile(`"(?:GET )?(/[^" ]*)"`).FindAllStringSubmatch(
		string(source), -1) {
		paths = append(paths, route[1])
	}
	if len(paths) < 25 {
		t.Fatalf("only %d pages were found in the source", len(paths))
	}
	for _, path := range paths {
		status, header, page := s.get(http.DefaultClient, values.Replace(path))
		switch {
		case open[path] && status != http.StatusOK:
			t.Errorf("%s: %d, want a page that everybody can open", path, status)
		case !open[path] && status != http.StatusUnauthorized:
			t.Errorf("%s: %d", path, status)
		}
		if status == http.StatusUnauthorized && (!strings.Contains(page, "<h1>Log in</h1>") ||
			!strings.Contains(page, "signalbox token link")) {
			t.Errorf("%s does not explain how to log in:\n%s", path, page)
		}
		if header.Get("Content-Security-Policy") == "" {
			t.Errorf("%s has no content policy", path)
		}
		// the project and its titles, the box, work, a position, logins, the plan
		for _, secret := range []string{"pwned", s.box.ID(), "T2", "SLV", "browser-", "counter"} {
			if !open[path] && strings.Contains(page, secret) {
				t.Errorf("%s tells %q:\n%s", path, secret, page)
			}
		}
	}
	if status, _ := s.post(http.DefaultClient, "/ledger/verify",
		nil); status != http.StatusUnauthorized {
		t.Errorf("verify: %d", status)
	}
}

func TestFormsNeverLeadElsewhere(t *testing.T) {
	for path, want := range map[string]string{"/board": "/board", "": "/", "//evil.example": "/",
		"https://evil.example": "/", "/\\evil.example": "/", "/a\r\nX: y": "/",
		"/\t/evil.example/": "/", "/\x00/evil.example": "/", "/a\x1f": "/", "/a\\b": "/",
		"\t//evil.example": "/", "/work/T1/log?session=2": "/work/T1/log?session=2"} {
		if got := backTo(path); got != want {
			t.Errorf("backTo(%q) = %q, want %q", path, got, want)
		}
	}
}

func TestParseDiff(t *testing.T) {
	const diff = `diff --git a/old.go b/new.go
similarity index 90%
rename from old.go
rename to new.go
--- a/old.go
+++ b/new.go
@@ -1,3 +1,4 @@ func f
 same
-gone
+diff --git a/x b/x
++++ b/x
 end
\ No newline at end of file
diff --git a/added.txt b/added.txt
new file mode 100644
--- /dev/null
+++ b/added.txt
@@ -0,0 +1 @@
+one
diff --git a/p.png b/p.png
Binary files a/p.png and b/p.png differ: 3 bytes, SHA-256 aa, became 4 bytes, SHA-256 bb
`
	parsed, err := parseDiff(strings.NewReader(diff))
	files := parsed.Files
	if err != nil || parsed.Incomplete || len(files) != 3 || len(parsed.Notes) != 0 {
		t.Fatalf("%+v, %v", parsed, err)
	}
	first := files[0]
	if first.Name != "new.go" || first.Note != "renamed from old.go" || first.Added != 2 ||
		first.Removed != 1 || len(first.Lines) != 6 {
		t.Errorf("first file %+v", first)
	}
	if l := first.Lines[4]; l.Kind != "add" || l.New != 3 || l.Text != "+++ b/x" {
		t.Errorf("a line that looks like a header: %+v", l)
	}
	if l := first.Lines[5]; l.Kind != "same" || l.Old != 3 || l.New != 4 {
		t.Errorf("the last line: %+v", l)
	}
	if files[1].Name != "added.txt" || files[1].Note != "new" || files[1].Added != 1 ||
		!files[2].Binary || files[2].Note != "3 bytes, SHA-256 aa, became 4 bytes, SHA-256 bb" {
		t.Errorf("the other files: %+v", files[1:])
	}
}

// TestParseDiffIsBounded parses diffs that are too large in every way. What is left out is counted.
func TestParseDiffIsBounded(t *testing.T) {
	file := func(lines int, line string) string {
		return fmt.Sprintf("diff --git a/x b/x\nnew file mode 100644\n--- /dev/null\n+++ b/x\n@@ -0,0 +1,%d @@\n", lines) + strings.Repeat("+"+line+"\n", lines)
	}
	for name, diff := range map[string]string{
		"many lines":  file(maxDiffLines+10, "x"),
		"many bytes":  file(20_500, strings.Repeat(`"`, 1990)),
		"a long line": file(1, strings.Repeat("é", maxLineBytes)),
		"many files":  strings.Repeat(file(1, "x"), maxDiffFiles+7),
		"large files": strings.Repeat(file(1000, strings.Repeat("x", 1000)), 5),
		"a long name": "diff --git a/x b/" + strings.Repeat("x", maxLineBytes) +
			"\nBinary files differ\n",
		"many notes": strings.Repeat(strings.Repeat("n", 100)+"\n", maxDiffLines),
		"a long hunk": "diff --git a/x b/x\n@@ -0,0 +1 @@ " + strings.Repeat("x", maxLineBytes) +
			"\n+x\n",
		"no line ends": strings.Repeat("x", 1<<20),
	} {
		t.Run(name, func(t *testing.T) {
			parsed, err := parseDiff(strings.NewReader(diff))
			if err != nil || !parsed.Incomplete {
				t.Errorf("incomplete: %t, %v", parsed.Incomplete, err)
			}
			files, lines, size, added := len(parsed.Files)+parsed.MoreFiles, 0, 0, 0
			for _, f := range parsed.Files {
				for _, l := range f.Lines {
					lines, size = lines+1, size+len(l.Text)
					if l.Kind == "add" {
						added++
					}
				}
				if f.MoreLines > 0 {
					added += f.MoreLines
				}
				if f.Added > 0 && added < f.Added {
					t.Errorf("%d lines of a file with %d are shown or counted", added, f.Added)
				}
				added = 0
			}
			for _, n := range parsed.Notes {
				size += len(n)
			}
			if len(parsed.Files) > maxDiffFiles || lines > maxDiffLines || size > maxDiffBytes {
				t.Errorf("%d files, %d lines, %d bytes", len(parsed.Files), lines, size)
			}
			if want := strings.Count(diff, "diff --git "); files != want {
				t.Errorf("%d files are shown or counted, want %d", files, want)
			}
		})
	}
}

// TestDiffLinesShowWhatIsCut hides code at the end of a line: once behind enough blanks to be cut
// off, and once behind fewer.
func TestDiffLinesShowWhatIsCut(t *testing.T) {
	hidden := strings.Repeat(" ", 2000) + "; evil()"
	parsed, err := parseDiff(strings.NewReader("diff --git a/x b/x\n@@ -0,0 +1 @@\n+x := 1" +
		hidden + "\n"))
	must.Succeed(t, err)
	line := parsed.Files[0].Lines[1]
	if !parsed.Incomplete || line.More == 0 || len(line.Text)+line.More != len("x := 1"+hidden) {
		t.Errorf("incomplete %t, %d bytes shown, %d cut", parsed.Incomplete, len(line.Text),
			line.More)
	}
	for text, want := range map[string][]piece{
		"":                                     {{}},
		"a  b":                                 {{Text: "a  b"}},
		"x" + strings.Repeat(" ", 80) + "y":    {{Text: "x" + strings.Repeat(" ", 80) + "y"}},
		"x" + strings.Repeat(" \t", 500) + "y": {{Text: "x"}, {Blanks: 1000}, {Text: "y"}},
		"é" + strings.Repeat(" ", 90) + "é" + strings.Repeat("\t", 81): {{Text: "é"}, {Blanks: 90},
			{Text: "é"}, {Blanks: 81}, {}},
	} {
		if got := (diffLine{Text: text}).Pieces(); !slices.Equal(got, want) {
			t.Errorf("%q: %+v, want %+v", text, got, want)
		}
	}
}

// repository returns a folder with a git repository, and a commit on a branch that has more files
// than its base.
func repository(t *testing.T, files map[string]string) (folder, commit string) {
	t.Helper()
	folder = t.TempDir()
	git(t, folder, "init", "-q", "-b", "main")
	git(t, folder, "commit", "-q", "--allow-empty", "-m", "base")
	git(t, folder, "checkout", "-q", "-b", "task")
	for name, text := range files {
		must.Succeed(t, os.WriteFile(filepath.Join(folder, name), []byte(text), 0o600))
	}
	git(t, folder, "add", "-A")
	git(t, folder, "commit", "-q", "--allow-empty", "-m", "change")
	commit = git(t, folder, "rev-parse", "HEAD")
	git(t, folder, "checkout", "-q", "main")
	return folder, commit
}

func git(t *testing.T, folder string, args ...string) string {
	t.Helper()
	cmd := exec.Command("git",
		append([]string{"-c", "user.name=Ann", "-c", "user.email=ann@example.org", "-c",
			"commit.gpgSign=false"}, args...)...)
	cmd.Dir = folder
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("git %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return strings.TrimSpace(string(out))
}

// The pages tell a commit that changes no file from one whose files are not known.
func TestFilesOfAChange(t *testing.T) {
	const unknown, none, some = "the files that it changes are not known", "no file is changed",
		"1 file,"
	for name, test := range map[string]struct {
		files  map[string]string
		commit string // instead of that of the repository
		want   string
	}{
		"a file":            {files: map[string]string{"a.go": "x"}, want: some},
		"no file":           {want: none},
		"an unknown commit": {commit: strings.Repeat("1", 40), want: unknown},
	} {
		t.Run(name, func(t *testing.T) {
			folder, commit := repository(t, test.files)
			s := newStageIn(t, folder, git(t, folder, "rev-parse", "main"),
				cmp.Or(test.commit, commit))
			for _, path := range []string{"/", "/work/T1"} {
				page := s.mustGet(t, path)
				for _, text := range []string{unknown, none, some} {
					if strings.Contains(page, text) != (text == test.want) {
						t.Errorf("%s: %q is there: %t\n%s", path, text, text != test.want, page)
					}
				}
			}
		})
	}
}

// Whoever approves a change is told of the characters in it that no one sees.
func TestHiddenCharactersInAChange(t *testing.T) {
	const notice = "This diff has 1 line with invisible characters, which can hide what the code does: a.go:2 U&#43;3164."
	for text, hidden := range map[string]bool{"one\nconst { n,\u3164} = q\n": true,
		"one\nconst { n } = q\n": false} {
		folder, commit := repository(t, map[string]string{"a.go": text})
		s := newStageIn(t, folder, git(t, folder, "rev-parse", "main"), commit)
		for _, path := range []string{"/", "/work/T1", "/work/T1/diff"} {
			page := s.mustGet(t, path)
			if strings.Contains(page, notice) != hidden || strings.Contains(page, "\u3164") {
				t.Errorf("%s of %q: %s", path, text, page)
			}
		}
	}
}

// TestSteeringIsShownByItself looks for files that steer agents: on the pages on which a merge is
// approved, and first in the diff.
func TestSteeringIsShownByItself(t *testing.T) {
	folder, commit := repository(t, map[string]string{"A.go": "x := 1\n", "CLAUDE.md": "obey\n"})
	s := newStageIn(t, folder, "", commit)
	client := s.logIn(access.Answer)
	for _, path := range []string{"/", "/work/T1"} {
		if _, _, page := s.get(client, path); !strings.Contains(page,
			"it changes files that steer agents: .claude/") {
			t.Errorf("%s does not say it:\n%s", path, page)
		}
	}
	_, _, page := s.get(client, "/work/T1/diff")
	last := 0
	for _, text := range []string{"it changes files that steer agents: CLAUDE.md",
		"<bdi>CLAUDE.md</bdi>", "obey", "<bdi>A.go</bdi>", `action="/work/T1/approve"`} {
		at := strings.Index(page, text)
		if at < last {
			t.Fatalf("%q is at %d, after %d:\n%s", text, at, last, page)
		}
		last = at
	}
	if shown := strings.Count(page, "<bdi>CLAUDE.md</bdi>"); shown != 1 {
		t.Errorf("it is shown %d times", shown)
	}
}

// TestOnlyWholeDiffsAreApproved looks for the button that approves on diffs that a page shows in
// full and on others.
func TestOnlyWholeDiffsAreApproved(t *testing.T) {
	large := strings.Repeat(strings.Repeat(`"`, 1990)+"\n", 20_500)
	for name, test := range map[string]struct {
		text     string
		shows    []string
		approves bool
	}{
		"all of it": {text: "x := 1\n", shows: []string{"x := 1"}, approves: true},
		"many blanks": {text: "x := 1" + strings.Repeat(" ", 1000) + "; evil()\n",
			shows: []string{"x := 1", "1000 blanks", "; evil()"}, approves: true},
		"a long line": {text: "x := 1" + strings.Repeat(" ", 2000) + "; evil()\n",
			shows: []string{"… 15 more bytes", "signalbox diff T1"}},
		"a large one": {text: large, shows: []string{"more lines", "signalbox diff T1"}},
	} {
		t.Run(name, func(t *testing.T) {
			folder, commit := repository(t, map[string]string{"a.go": test.text})
			s := newStageIn(t, folder, "", commit)
			status, _, page := s.get(s.logIn(access.Answer), "/work/T1/diff")
			if status != http.StatusOK || len(page) > 16<<20 {
				t.Fatalf("status %d, %d bytes", status, len(page))
			}
			for _, text := range test.shows {
				if !strings.Contains(page, text) {
					t.Errorf("the page does not show %q", text)
				}
			}
			if got := strings.Contains(page, `action="/work/T1/approve"`); got != test.approves {
				t.Errorf("the page offers to approve: %t, want %t", got, test.approves)
			}
			if !strings.Contains(page, `action="/work/T1/reject"`) {
				t.Error("the page does not offer to reject")
			}
		})
	}
}

// TestWorkingDiffIsNotApproved looks at what is not saved, with more new files than git is asked
// for: it is not what would be approved.
func TestWorkingDiffIsNotApproved(t *testing.T) {
	folder, commit := repository(t, map[string]string{"a.go": "x := 1\n"})
	s := newStageIn(t, folder, "", commit)
	tree := filepath.Join(s.box.Dir, workspace.TreesFolder, "T1")
	git(t, folder, "worktree", "add", "-q", tree, "task")
	for i := range 205 {
		must.Succeed(t, os.WriteFile(filepath.Join(tree, fmt.Sprintf("new%d.go", i)),
			[]byte("package a\n"), 0o600))
	}
	status, _, page := s.get(s.logIn(access.Answer), "/work/T1/diff?working")
	if status != http.StatusOK || !strings.Contains(page, "new7.go") ||
		!strings.Contains(page, "… and 5 more new files") {
		t.Errorf("status %d, want the new files and how many are left out:\n%.2000s", status, page)
	}
	if strings.Contains(page, `action="/work/T1/approve"`) {
		t.Error("the page offers to approve a commit that it does not show")
	}
}

func FuzzParseDiff(f *testing.F) {
	f.Add([]byte("diff --git a/x b/x\n@@ -1 +1 @@\n-a\n+b\n"))
	f.Add([]byte("@@ -999999999999999999999 +1 @@\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		parsed, err := parseDiff(bytes.NewReader(data))
		must.Succeed(t, err)
		for _, file := range parsed.Files {
			for _, l := range file.Lines {
				if l.Old < 0 || l.New < 0 || strings.Contains(l.Text, "\n") {
					t.Errorf("%+v", l)
				}
			}
		}
	})
}

// TestTimelineFoldsIdleTime draws two sessions of a minute with a night between them: neither is
// squeezed.
func TestTimelineFoldsIdleTime(t *testing.T) {
	noon := time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)
	minute := func(row int,
		from time.Time) span {
		return span{Row: row, From: from, To: from.Add(time.Minute)}
	}
	line := newTimeline([]span{minute(0, noon), minute(1, noon.Add(12*time.Hour)),
		minute(1, noon.Add(12*time.Hour+70*time.Second))})
	if len(line.Folds) != 1 || line.Folds[0].Seconds != (12*time.Hour-time.Minute).Seconds() {
		t.Errorf("folds %+v", line.Folds)
	}
	for i, b := range line.Bars {
		if b.Width < timelineWidth/5 || b.X < 0 || b.X+b.Width > timelineWidth {
			t.Errorf("bar %d: %d wide at %d", i, b.Width, b.X)
		}
	}
	if gap := line.Bars[2].X - line.Bars[1].X - line.Bars[1].Width; gap <= 0 {
		t.Errorf("a short pause is %d wide", gap)
	}
	if empty := newTimeline(nil); len(empty.Bars) != 0 {
		t.Error("bars without sessions")
	}
	if moment := newTimeline([]span{{From: noon, To: noon}}); moment.Bars[0].Width != minBarWidth {
		t.Errorf("a session without a duration: %+v", moment.Bars[0])
	}
}

// TestTimelineWithManyIdleTimes draws a hundred sessions with idle time between them: the longest
// idle time is folded, and everything is in the picture and in order.
func TestTimelineWithManyIdleTimes(t *testing.T) {
	at := time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)
	var spans []span
	for i := range 101 {
		spans = append(spans, span{From: at, To: at.Add(time.Minute)})
		at = at.Add(time.Minute + time.Duration(i%10+1)*time.Hour)
	}
	line := newTimeline(spans)
	if len(line.Folds) == 0 || len(line.Folds)*foldWidth > timelineWidth/2 {
		t.Errorf("%d folds", len(line.Folds))
	}
	for i, b := range line.Bars {
		if b.X < 0 || b.Width < minBarWidth || b.X+b.Width > timelineWidth || i > 0 &&
			b.X < line.Bars[i-1].X {
			t.Errorf("bar %d: %d wide at %d", i, b.Width, b.X)
		}
	}
	for i, f := range line.Folds {
		if f.Seconds < 9*3600 || f.X < 0 || f.X > timelineWidth || i > 0 &&
			f.X <= line.Folds[i-1].X {
			t.Errorf("fold %d: %+v", i, f)
		}
	}
}

// shortReads is a journal with large events; a read returns a few of them.
type shortReads struct{ journal.Journal }

func (j shortReads) Read(ctx context.Context, after uint64, limit int) ([]signalbox.Event, error) {
	return j.Journal.Read(ctx, after, min(limit, 3))
}

func TestLedgerPageIsFull(t *testing.T) {
	s := newStage(t)
	s.box.Journal = shortReads{s.box.Journal}
	head := s.box.Engine.Tail().Seq
	_, _, page := s.get(s.viewer(), "/ledger")
	for seq := head; seq > 0 && seq+eventsOnPage > head; seq-- {
		if !strings.Contains(page, fmt.Sprintf(`"/ledger/%d"`, seq)) {
			t.Errorf("event %d of %d is missing", seq, head)
		}
	}
}

// TestTasksOfTwoPlans loads a second plan with a task T1: the links and forms of both lead to them.
func TestTasksOfTwoPlans(t *testing.T) {
	s := newStage(t)
	client := s.logIn(access.Answer)
	second := rules.LoadPlan{Plan: signalbox.Hash{2}, Name: "again", ID: "again",
		Source: "again.md", Actor: "op", Replace: true,
		Tasks: []rules.PlanTask{{ID: "T1", Title: "of the second plan", Text: s.blob("T1")}}}
	for !s.do(second).Plan.Loaded {
	}
	for path, want := range map[string]bool{"/work/T1": false, "/work/again.T1": true,
		"/work/again%2FT1": true, "/work/counter%2FT1": false} {
		if status, _, page := s.get(client, path); status != http.StatusOK ||
			strings.Contains(page, "of the second plan") != want {
			t.Errorf("%s: %d\n%s", path, status, page)
		}
	}
	for _, id := range []string{"T1", "again.T1"} {
		if _, body := s.post(client, "/work/"+id+"/tell",
			url.Values{"text": {"hurry"}}); strings.Contains(body, "several plans") {
			t.Errorf("tell %s: %s", id, body)
		}
	}
}

// TestWords checks that the pages name every standing and every condition in words.
func TestWords(t *testing.T) {
	standings := []rules.Standing{rules.StandingEmpty, rules.StandingWorking, rules.StandingAsking,
		rules.StandingLimited, rules.StandingWaiting, rules.StandingPaused,
		rules.StandingStuck, rules.StandingComplete, inspect.StandingByHand}
	for _, s := range standings {
		if got := standing(string(s)); got == "" || strings.Contains(got, "_") {
			t.Errorf("standing %s: %q", s, got)
		}
	}
	if got := condition(inspect.NeedsApproval); got != "needs approval" {
		t.Errorf("condition: %q", got)
	}
}

// TestBoardIsBounded: a box that has been used for years has more work than a page can show.
func TestBoardIsBounded(t *testing.T) {
	s := newStage(t)
	const tasks = maxCards + 7
	for i := range tasks {
		s.do(rules.OpenWork{Work: fmt.Sprintf("draft-%d", i), Phase: signalbox.PhaseDraft,
			Actor: "ann"})
	}
	_, _, page := s.get(s.viewer(), "/board")
	if got := strings.Count(page, `id="task-draft-`); got != maxCards {
		t.Errorf("%d cards, want %d", got, maxCards)
	}
	for _, want := range []string{fmt.Sprintf(`id="task-draft-%d"`, tasks-1),
		fmt.Sprintf(`<span class="faint">%d</span>`, tasks), ">7 more, opened earlier"} {
		if !strings.Contains(page, want) {
			t.Errorf("the board does not have %s", want)
		}
	}
}
