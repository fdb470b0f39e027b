package api

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/jsonschema-go/jsonschema"

	"signalbox"
	"signalbox/internal/config"
	"signalbox/internal/core/box"
	"signalbox/internal/core/rules"
	"signalbox/internal/portfolio"
	"signalbox/internal/portfolio/example"
	"signalbox/internal/run/history"
	"signalbox/internal/run/inspect"
	"signalbox/internal/run/workspace"
	"signalbox/internal/serve/access"
	"signalbox/internal/serve/ask"
	"signalbox/internal/serve/stream"
	"signalbox/internal/testkit/must"
)

// world is an API on a real box, with a token of every scope.
type world struct {
	t      testing.TB
	box    *box.Box
	api    *API
	store  *access.Store
	url    string
	tokens map[access.Scope]string
	// config is that of the oracle.
	config *config.Config
	// desk is that of the example portfolio.
	desk *portfolio.Desk
}

func newWorld(t testing.TB, anonymousReads bool) *world {
	t.Helper()
	dir := filepath.Join(t.TempDir(), box.FolderName)
	opts := &box.Options{KeyFile: filepath.Join(filepath.Dir(dir), "box.key")}
	if _, err := box.Init(t.Context(), dir, "ann", opts); err != nil {
		t.Fatal(err)
	}
	b, err := box.Open(t.Context(), dir, opts)
	must.Succeed(t, err)
	t.Cleanup(func() { b.Close() })
	store := access.NewStore(dir)
	w := &world{t: t, box: b, store: store, config: b.Config, tokens: map[access.Scope]string{}}
	for _, scope := range []access.Scope{access.Read, access.Answer, access.Operate,
		access.Session("s-1")} {
		name := strings.ReplaceAll(string(scope), ":", "-")
		if w.tokens[scope], err = store.Create(t.Context(),
			access.Token{Name: name, Kind: access.KindToken, Scope: scope,
				Created: time.Now()}); err != nil {
			t.Fatal(err)
		}
	}
	hub := stream.NewHub(b.Journal, b.Engine.Tail().Seq)
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() { defer close(ended); hub.Run(ctx) }()
	t.Cleanup(func() { stop(); <-ended })
	oracle := ask.New(b,
		ask.Options{Config: func(context.Context) (*config.Config, error) { return w.config, nil }})
	t.Cleanup(oracle.Close)
	folder := t.TempDir()
	if _, err := example.Write(folder); err != nil {
		t.Fatal(err)
	}
	w.desk = portfolio.NewDesk(folder,
		&portfolio.Options{Now: func() time.Time {
			return time.Date(2026, 7, 1, 12, 0, 0, 0, time.UTC)
		}})
	if w.api, err = New(b, access.NewGuard(store, &access.Options{AnonymousReads: anonymousReads}),
		hub, &Options{ExitFlag: "true", Version: "test", Oracle: oracle,
			Portfolio: func() *portfolio.Desk { return w.desk }}); err != nil {
		t.Fatal(err)
	}
	mux := http.NewServeMux()
	w.api.Register(mux)
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	w.url = server.URL
	return w
}

func (w *world) do(c rules.Command) rules.Answer {
	w.t.Helper()
	answer, err := w.box.Engine.Do(w.t.Context(), c)
	if err != nil {
		w.t.Fatalf("%#v: %v", c, err)
	}
	return answer
}

// request sends a request and returns its status and body. Headers are pairs of a name and a value.
func (w *world) request(method, path, token string, body any, headers ...string) (int, []byte) {
	w.t.Helper()
	var reader io.Reader
	if body != nil {
		data, ok := body.(string)
		if !ok {
			encoded, err := json.Marshal(body)
			must.Succeed(w.t, err)
			data = string(encoded)
		}
		reader = strings.NewReader(data)
	}
	ctx, cancel := context.WithCancel(w.t.Context())
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, method, w.url+path, reader)
	must.Succeed(w.t, err)
	if body != nil {
		r.Header.Set("Content-Type", "application/json")
	}
	if token != "" {
		r.Header.Set("Authorization", "Bearer "+token)
	}
	for i := 0; i < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	answer, err := http.DefaultClient.Do(r)
	must.Succeed(w.t, err)
	defer answer.Body.Close()
	if strings.HasPrefix(answer.Header.Get("Content-Type"), mediaStream) {
		return answer.StatusCode, nil // it does not end
	}
	data, err := io.ReadAll(answer.Body)
	must.Succeed(w.t, err)
	return answer.StatusCode, data
}

// post calls an operation and decodes its answer.
func (w *world) post(path, token string, body, answer any) {
	w.t.Helper()
	status, data := w.request(http.MethodPost, Prefix+path, token, body)
	if status != http.StatusOK {
		w.t.Fatalf("POST %s: %d %s", path, status, data)
	}
	if answer != nil {
		must.Succeed(w.t, json.Unmarshal(data, answer))
	}
}

// scopes is what each operation needs. It repeats the table on purpose: a change of who may do what
// must be made twice.
var scopes = map[string]access.Scope{
	"getStatus": access.Read, "listWork": access.Read, "getWork": access.Read,
	"explainWork": access.Read, "getStats": access.Read,
	"listQuestions": access.Read, "getDiff": access.Read, "getLog": access.Read,
	"verifyLedger": access.Private, "getKey": access.Read, "proveEvent": access.Read,
	"getBlob": access.Read, "listEvents": access.Read, "streamEvents": access.Read,
	"addTask":        access.Operate,
	"answerQuestion": access.Answer, "approveWork": access.Answer, "rejectWork": access.Answer,
	"reworkWork": access.Answer, "waiveFinding": access.Answer, "tellWork": access.Answer,
	"pauseWork": access.Operate, "resumeWork": access.Operate, "cancelWork": access.Operate,
	"retryWork": access.Operate,
	"pauseRun":  access.Operate, "resumeRun": access.Operate, "cancelRun": access.Operate,
	"retryRun": access.Operate,
	"openWork": access.Operate, "claimWork": access.Operate, "revokeLease": access.Operate,
	"unblockWork":    access.Operate,
	"suggestHarvest": access.Private, "checkExits": access.Private, "listLots": access.Private,
	"renewLease": access.Session("s-1"), "releaseLease": access.Session("s-1"),
	"submitExit": access.Session("s-1"),
	"askOracle":  access.Operate, "listConversations": access.Operate,
	"getConversation": access.Operate, "stopOracle": access.Operate,
}

// TestEveryOperationChecksAccess calls every operation with every scope, from several origins and
// with other methods. A request that is allowed may fail for other reasons.
func TestEveryOperationChecksAccess(t *testing.T) {
	values := strings.NewReplacer("{task}", "T1", "{question}", "Q-1", "{session}", "s-1", "{seq}",
		"1", "{digest}", strings.Repeat("0", 64), "{ticker}", "SLV")
	for _, anonymous := range []bool{true, false} {
		w := newWorld(t, anonymous)
		w.do(rules.OpenWork{Work: "held", Actor: "ann"})
		w.do(rules.Claim{Work: "held", Role: signalbox.RoleDeveloper, Session: "s-1", Actor: "ann",
			Lease: "l-1"})
		if len(w.api.operations) != len(scopes) {
			t.Errorf("%d operations, and %d in the table of this test", len(w.api.operations),
				len(scopes))
		}
		for _, o := range w.api.operations {
			needed, known := scopes[o.name]
			if !known {
				t.Errorf("%s is not in the table of this test", o.name)
				continue
			}
			path := Prefix + values.Replace(o.path)
			for _, has := range []access.Scope{access.Public, access.Read, access.Answer,
				access.Operate, access.Session("s-1")} {
				allowed := has.Allows(needed) && has != access.Public || needed == access.Read &&
					anonymous && has == access.Public
				for _, origin := range []string{"", w.url, "http://evil.example", "null"} {
					headers := []string{}
					if origin != "" {
						headers = append(headers, "Origin", origin)
					}
					status, body := w.request(o.method, path, w.tokens[has], nil, headers...)
					denied := status == http.StatusUnauthorized || status == http.StatusForbidden
					if want := allowed && (origin == "" || origin == w.url); denied == want {
						t.Errorf("%s with scope %q from origin %q, anonymous reads %t: %d %s",
							o.name, has, origin, anonymous, status, body)
					}
					if has == access.Public && denied {
						w.checkDenied(o.name, status, body, origin == "" || origin == w.url)
					}
				}
			}
			if status, body := w.request(o.method, path, w.tokens[access.Operate], nil,
				"Sec-Fetch-Site", "cross-site"); status != http.StatusForbidden {
				t.Errorf("%s from another site: %d %s", o.name, status, body)
			}
			for _, method := range []string{http.MethodPut, http.MethodDelete, http.MethodPatch} {
				if status, _ := w.request(method, path, w.tokens[access.Operate],
					nil); status < 400 {
					t.Errorf("%s %s: %d", method, path, status)
				}
			}
		}
		for has, want := range map[access.Scope]int{access.Public: http.StatusUnauthorized,
			access.Read: http.StatusOK, access.Session("s-1"): http.StatusForbidden} {
			if has == access.Public && anonymous {
				want = http.StatusOK
			}
			if status, body := w.request(http.MethodGet, Prefix+"/openapi.json", w.tokens[has],
				nil); status != want {
				t.Errorf("the document with scope %q, anonymous reads %t: %d %s", has, anonymous,
					status, body)
			}
		}
	}
}

// checkDenied checks an answer to somebody without a token: it says what to do if that is a token,
// and nothing about the box.
func (w *world) checkDenied(name string, status int, body []byte, needsToken bool) {
	w.t.Helper()
	var p Problem
	if err := json.Unmarshal(body, &p); err != nil || p.Error == "" {
		w.t.Errorf("%s: the answer is not a problem: %s", name, body)
	}
	if needsToken && (status != http.StatusUnauthorized ||
		!strings.Contains(p.Error, "Authorization: Bearer TOKEN")) {
		w.t.Errorf("%s does not say that a token is needed: %d %s", name, status, body)
	}
	for _, secret := range []string{w.box.ID(), "held", "ann"} {
		if strings.Contains(string(body), secret) {
			w.t.Errorf("%s tells %q: %s", name, secret, body)
		}
	}
}

// TestExitProtocol opens, claims, renews and completes work over HTTP, as an agent with the secret
// of its lease.
func TestExitProtocol(t *testing.T) {
	w := newWorld(t, false)
	operate := w.tokens[access.Operate]
	var opened moved
	w.post("/work", operate, map[string]any{"work": "task-1", "title": "guard the counter"},
		&opened)
	if opened.Phase != "IMPLEMENTATION" {
		t.Errorf("opened in %s", opened.Phase)
	}
	var lease claimed
	w.post("/claims", operate, map[string]any{"role": "developer", "ttl_seconds": 60}, &lease)
	if lease.Work != "task-1" || lease.Secret == "" {
		t.Fatalf("claimed %+v", lease)
	}
	session := "/sessions/" + lease.Session
	wrong := lease.Secret + "x"
	if status, body := w.request(http.MethodPost, Prefix+session+"/renew", wrong,
		map[string]any{"work": "task-1", "epoch": lease.Lease.Epoch}); status < 400 {
		t.Errorf("renewed with a wrong secret: %d %s", status, body)
	}
	var renewed claimed
	w.post(session+"/renew", lease.Secret,
		map[string]any{"work": "task-1", "epoch": lease.Lease.Epoch, "ttl_seconds": 3600}, &renewed)
	if !renewed.Lease.Expires.After(lease.Lease.Expires) {
		t.Errorf("renewed until %s, was %s", renewed.Lease.Expires, lease.Lease.Expires)
	}
	signal := map[string]any{"protocol": "apm2_agent_exit", "version": "1.0.0", "phase_completed": "IMPLEMENTATION", "exit_reason": "completed", "notes": "done"}
	body := map[string]any{"signal": signal}
	if status, data := w.request(http.MethodPost, Prefix+session+"/exit", wrong,
		body); status < 400 {
		t.Errorf("exited with a wrong secret: %d %s", status, data)
	}
	status, data := w.request(http.MethodPost, Prefix+session+"/exit", lease.Secret, body)
	if status != http.StatusOK {
		t.Fatalf("exit: %d %s", status, data)
	}
	var done exited
	if err := json.Unmarshal(data, &done); err != nil || done.NextPhase == nil ||
		*done.NextPhase != "CI_PENDING" {
		t.Errorf("exit: %s, %v", data, err)
	}
	status, data = w.request(http.MethodPost, Prefix+session+"/renew", lease.Secret,
		map[string]any{"work": "task-1", "epoch": lease.Lease.Epoch})
	if status != http.StatusConflict {
		t.Errorf("renewed a lease that has ended: %d %s", status, data)
	}
	w.box.Engine.View(func(s *rules.State) {
		if work, _ := s.Work("task-1"); work.Phase != "CI_PENDING" {
			t.Errorf("the work is in %s", work.Phase)
		}
	})
}

// loadPlan loads a plan with the task T1.
func (w *world) loadPlan() {
	w.t.Helper()
	policy := rules.Policy{Slots: 5, Limits: rules.DefaultLimits()}
	for _, role := range rules.DispatchRoles() {
		policy.Roles = append(policy.Roles, rules.RoleSlots{Role: role, Slots: 3})
	}
	w.do(rules.Configure{Policy: policy, Actor: "op"})
	load := rules.LoadPlan{Plan: signalbox.Hash{1}, Name: "p", ID: "p", Source: "p.md", Actor: "op",
		Tasks: []rules.PlanTask{{ID: "T1", Title: "x", Text: signalbox.Hash{2}}}}
	for !w.do(load).Plan.Loaded {
	}
}

// TestSessionsOfARun: an agent of a run, and the programs that it starts, have the secret of its
// lease. It must not move the work of the run.
func TestSessionsOfARun(t *testing.T) {
	w := newWorld(t, false)
	w.loadPlan()
	baseline := w.do(rules.Dispatch{Roles: []signalbox.Role{signalbox.RoleCI}, Session: "w.1",
		Actor: "crew", Lease: "l-1"})
	w.do(rules.ReportChecks{Session: "w.1", Epoch: baseline.Lease.Epoch,
		Commit: "c000000000000000000000000000000000000000"})
	const secret = "secret-of-the-agent"
	held := w.do(rules.Dispatch{Roles: []signalbox.Role{signalbox.RoleDeveloper}, Session: "w.2",
		Actor: "crew", Lease: "l-2", Secret: rules.HashSecret(secret)})
	before := w.box.Engine.Tail().Seq
	lease := map[string]any{"work": "T1", "epoch": held.Lease.Epoch}
	signal := map[string]any{"signal": map[string]any{"protocol": "apm2_agent_exit",
		"version": "1.0.0", "phase_completed": "IMPLEMENTATION", "exit_reason": "completed"}}
	for path, body := range map[string]any{"/renew": lease, "/release": lease, "/exit": signal} {
		for _, session := range []string{"w.2", "nobody"} {
			if status, data := w.request(http.MethodPost, Prefix+"/sessions/"+session+path, secret,
				body); status != http.StatusUnauthorized {
				t.Errorf("%s of %s: %d %s", path, session, status, data)
			}
		}
	}
	if after := w.box.Engine.Tail().Seq; after != before {
		t.Errorf("%d events were written", after-before)
	}
}

// TestRevokedTokensEndStreams revokes the token of an open stream.
func TestRevokedTokensEndStreams(t *testing.T) {
	w := newWorld(t, false)
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, w.url+Prefix+
		"/events?after=0", nil)
	must.Succeed(t, err)
	r.Header.Set("Authorization", "Bearer "+w.tokens[access.Read])
	answer, err := http.DefaultClient.Do(r)
	must.Succeed(t, err)
	defer answer.Body.Close()
	lines := bufio.NewReader(answer.Body)
	for line := ""; !strings.HasPrefix(line, "data: "); {
		if line, err = lines.ReadString('\n'); err != nil {
			t.Fatal(err)
		}
	}
	must.Succeed(t, access.NewStore(w.box.Dir).Revoke(t.Context(), "read"))
	w.do(rules.OpenWork{Work: "later", Actor: "ann"})
	rest, err := io.ReadAll(lines) // until the server ends it
	if err != nil || strings.Contains(string(rest), "later") {
		t.Errorf("after the token was revoked: %q, %v", rest, err)
	}
}

func TestActorsAreTheNamesOfTokens(t *testing.T) {
	w := newWorld(t, false)
	w.post("/work", w.tokens[access.Operate], map[string]any{"work": "t1"}, nil)
	events, err := w.box.Journal.Read(t.Context(), 1, 1)
	if err != nil || len(events) != 1 || events[0].Actor != "operate" {
		t.Errorf("events %+v, %v", events, err)
	}
}

func TestBadRequests(t *testing.T) {
	w := newWorld(t, false)
	operate := w.tokens[access.Operate]
	w.post("/work", operate, map[string]any{"work": "t1"}, nil)
	tests := []struct {
		name, method, path string
		body               any
		headers            []string
		status             int
		says               string
	}{
		{"unknown field", "POST", "/work", map[string]any{"work": "t2", "titel": "x"}, nil, 400,
			"titel"},
		{"not JSON", "POST", "/work", "{", nil, 400, "not valid"},
		{"two objects", "POST", "/work", `{"work":"t2"}{}`, nil, 400, "after the JSON object"},
		{"an array", "POST", "/work", `[]`, nil, 400, "not valid"},
		{"another content type", "POST", "/work", `{"work":"t2"}`,
			[]string{"Content-Type", "text/plain"}, 415, "Content-Type"},
		{"a form", "POST", "/work", `work=t2`,
			[]string{"Content-Type", "application/x-www-form-urlencoded"}, 415, "Content-Type"},
		{"too large", "POST", "/work", `{"title":"` + strings.Repeat("x", maxBody) + `"}`, nil, 413,
			"too large"},
		{"invalid id", "POST", "/work", map[string]any{"work": "../x"}, nil, 400,
			"must not contain"},
		{"exists", "POST", "/work", map[string]any{"work": "t1"}, nil, 409, "t1"},
		{"unknown parameter", "GET", "/status?x=1", nil, nil, 400, "unknown parameter"},
		{"unknown work", "GET", "/work/none", nil, nil, 404, "none"},
		{"escaped path", "GET", "/work/..%2F..%2Fetc", nil, nil, 404, ""},
		{"unknown question", "POST", "/questions/Q-9/answer", map[string]any{"answer": "x"}, nil,
			404, "Q-9"},
		{"nothing to claim", "POST", "/claims", map[string]any{"role": "auditor"}, nil, 404, ""},
		{"unknown role", "POST", "/claims", map[string]any{"role": "king"}, nil, 400, "king"},
		{"no such event", "GET", "/ledger/events/99/proof", nil, nil, 404, "99"},
		{"not a number", "GET", "/ledger/events/one/proof", nil, nil, 400, "whole number"},
		{"negative", "GET", "/ledger/events?limit=-1", nil, nil, 400, "whole number"},
		{"invalid digest", "GET", "/blobs/x", nil, nil, 400, "digest"},
		{"no such blob", "GET", "/blobs/" + strings.Repeat("0", 64), nil, nil, 404, ""},
		{"invalid sequence", "GET", "/events?after=x", nil, nil, 400, "sequence number"},
		{"beyond the end", "GET", "/events?after=99", nil, nil, 409, "99"},
		{"no such operation", "GET", "/nothing", nil, nil, 404, "openapi.json"},
	}
	before := w.box.Engine.Tail().Seq
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			status, body := w.request(test.method, Prefix+test.path, operate, test.body,
				test.headers...)
			var p Problem
			if err := json.Unmarshal(body, &p); err != nil || p.Error == "" {
				t.Errorf("the answer is not a problem: %s", body)
			}
			if status != test.status || !strings.Contains(p.Error, test.says) {
				t.Errorf("%d %s, want %d with %q", status, body, test.status, test.says)
			}
		})
	}
	if after := w.box.Engine.Tail().Seq; after != before {
		t.Errorf("%d events were written", after-before)
	}
}

// TestDocument checks the OpenAPI document against the handlers: every answer has the documented
// schema.
func TestDocument(t *testing.T) {
	w := newWorld(t, false)
	operate := w.tokens[access.Operate]
	w.post("/work", operate, map[string]any{"work": "T1", "title": "x"}, nil)
	w.post("/claims", operate, map[string]any{"work": "T1", "role": "developer", "session": "s-1"},
		nil)
	status, data := w.request(http.MethodGet, Prefix+"/openapi.json", w.tokens[access.Read], nil)
	if status != http.StatusOK {
		t.Fatal(status)
	}
	var doc struct {
		OpenAPI    string
		Components struct{ Schemas map[string]*jsonschema.Schema }
		Paths      map[string]map[string]struct {
			OperationID string `json:"operationId"`
			Security    []map[string][]string
			Parameters  []struct{ Name, In string }
			Responses   map[string]struct {
				Content map[string]struct{ Schema *jsonschema.Schema }
			}
		}
	}
	// Each schema gets the components as its own definitions, because it is resolved without the
	// document around it.
	data = bytes.ReplaceAll(data, []byte("#/components/schemas/"), []byte("#/$defs/"))
	must.Succeed(t, json.Unmarshal(data, &doc))
	seen := map[string]bool{}
	values := strings.NewReplacer("{task}", "T1", "{seq}", "1", "{ticker}", "SLV")
	for path, methods := range doc.Paths {
		for method, op := range methods {
			if seen[op.OperationID] || scopes[op.OperationID] == "" {
				t.Errorf("%s %s has the id %q", method, path, op.OperationID)
			}
			seen[op.OperationID] = true
			want := []map[string][]string{{"token": {string(scopes[op.OperationID].OfToken())}}, {"cookie": {string(scopes[op.OperationID].OfToken())}}}
			if strings.HasPrefix(path, "/sessions/") {
				want = []map[string][]string{{"token": {"session:ID"}}, {"token": {"operate"}},
					{"cookie": {"operate"}}}
			}
			if diff := cmp.Diff(want, op.Security); diff != "" {
				t.Errorf("%s says that another scope is needed (- want, + got):\n%s",
					op.OperationID, diff)
			}
			for _, name := range regexp.MustCompile(`\{(\w+)\}`).FindAllStringSubmatch(path, -1) {
				found := false
				for _, p := range op.Parameters {
					found = found || p.Name == name[1] && p.In == "path"
				}
				if !found {
					t.Errorf("%s %s does not describe the parameter %s", method, path, name[1])
				}
			}
			schema := op.Responses["200"].Content[mediaJSON].Schema
			if method != "get" || schema == nil {
				continue
			}
			status, body := w.request(http.MethodGet, Prefix+values.Replace(path), operate, nil)
			if status != http.StatusOK {
				t.Errorf("GET %s: %d %s", path, status, body)
				continue
			}
			schema.Defs = doc.Components.Schemas
			resolved, err := schema.Resolve(nil)
			must.Succeed(t, err)
			var answer any
			must.Succeed(t, json.Unmarshal(body, &answer))
			if err := resolved.Validate(answer); err != nil {
				t.Errorf("GET %s: %v\n%s", path, err, body)
			}
		}
	}
	if len(seen) != len(scopes) {
		t.Errorf("the document has %d operations, want %d", len(seen), len(scopes))
	}
}

// TestListIsCurrent asks for the list of work again after an event, with another filter, and after
// a lease has expired.
func TestListIsCurrent(t *testing.T) {
	w := newWorld(t, false)
	now := time.Now()
	w.api.opts.Now = func() time.Time { return now }
	list := func(query string) string {
		status, data := w.request(http.MethodGet, Prefix+"/work"+query, w.tokens[access.Read], nil)
		if status != http.StatusOK {
			t.Fatalf("%d %s", status, data)
		}
		return string(data)
	}
	if got := list(""); got != `{"items":[]}`+"\n" {
		t.Errorf("an empty box: %s", got)
	}
	w.do(rules.OpenWork{Work: "t1", Actor: "ann"})
	first := list("")
	if !strings.Contains(first, `"t1"`) || list("") != first {
		t.Errorf("after an event: %s", first)
	}
	if got := list("?phase=REVIEW"); strings.Contains(got, `"t1"`) {
		t.Errorf("another phase: %s", got)
	}
	if list("") != first {
		t.Error("the list without a filter is that with one")
	}
	w.do(rules.Claim{Work: "t1", Role: signalbox.RoleDeveloper, Session: "s-1", Actor: "ann",
		Lease: "l-1", TTL: time.Hour})
	if got := list(""); !strings.Contains(got, `"s-1"`) {
		t.Errorf("after a claim: %s", got)
	}
	now = now.Add(2 * time.Hour)
	if got := list(""); strings.Contains(got, `"s-1"`) {
		t.Errorf("after the lease has expired: %s", got)
	}
}

// TestBlobsAreNeverPages checks that what agents wrote cannot run as a page of this server.
func TestBlobsAreNeverPages(t *testing.T) {
	w := newWorld(t, false)
	text := []byte("<html><script>alert(1)</script>")
	digest, err := w.box.Engine.PutBlob(t.Context(), bytes.NewReader(text))
	must.Succeed(t, err)
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, w.url+Prefix+"/blobs/"+
		digest.String(), nil)
	must.Succeed(t, err)
	r.Header.Set("Authorization", "Bearer "+w.tokens[access.Read])
	answer, err := http.DefaultClient.Do(r)
	must.Succeed(t, err)
	defer answer.Body.Close()
	got, _ := io.ReadAll(answer.Body)
	if !bytes.Equal(got, text) {
		t.Errorf("got %q", got)
	}
	for name, want := range map[string]string{"Content-Type": mediaBytes,
		"X-Content-Type-Options": "nosniff", "Content-Disposition": "attachment"} {
		if got := answer.Header.Get(name); got != want {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
}

// TestAddTask adds tasks to a box that never had a plan.
func TestAddTask(t *testing.T) {
	w := newWorld(t, false)
	token := w.tokens[access.Operate]
	var first, second taskAdded
	w.post("/tasks", token, map[string]string{"text": "fix the typo", "review": "checks"}, &first)
	w.post("/tasks", token, map[string]any{"text": "say it in the manual", "title": "manual",
		"blocked_by": []string{"A-1"}}, &second)
	if first.Work != "A-1" || first.Phase != signalbox.PhaseImplementation || second.Work != "A-2" ||
		second.Seq <= first.Seq {
		t.Errorf("answers %+v, %+v", first, second)
	}
	w.box.Engine.View(func(s *rules.State) {
		one, _ := s.Work("A-1")
		two, _ := s.Work("A-2")
		if one.Title != "fix the typo" || one.Task.Review != rules.ReviewChecks ||
			two.Title != "manual" || !slices.Equal(two.Task.Blockers, []string{"A-1"}) {
			t.Errorf("%+v, %+v", one, two)
		}
	})
	events, err := w.box.Journal.Read(t.Context(), first.Seq-1, 1)
	must.Succeed(t, err)
	if len(events) != 1 || events[0].Work != "A-1" || events[0].Actor != "operate" {
		t.Errorf("events %+v", events)
	}
	for body, want := range map[string]int{
		`{"text": ""}`:                             http.StatusBadRequest,
		`{"text": "x", "review": "none"}`:          http.StatusBadRequest,
		`{"text": "x", "blocked_by": ["T9"]}`:      http.StatusNotFound,
		`{"text": "x", "id": "mine"}`:              http.StatusBadRequest,
		`{"text": "a\u001b[2J", "title": "title"}`: http.StatusBadRequest,
	} {
		if status, answer := w.request(http.MethodPost, Prefix+"/tasks", token, body); status != want {
			t.Errorf("%s: %d %s", body, status, answer)
		}
	}
}

// TestRetryInAPhase restarts a task in a phase, with a note for the next agent, as the command line
// does.
func TestRetryInAPhase(t *testing.T) {
	w := newWorld(t, false)
	w.loadPlan()
	token := w.tokens[access.Operate]
	for path, want := range map[string]int{"/work/T1/retry": http.StatusUnprocessableEntity,
		"/work/T9/retry": http.StatusNotFound} {
		if status, body := w.request(http.MethodPost, Prefix+path, token,
			map[string]string{"from": "REVIEW", "note": "x"}); status != want {
			t.Errorf("%s: %d %s", path, status, body)
		}
	}
	var answer ordered
	w.post("/work/T1/retry", token, map[string]string{"from": "IMPLEMENTATION",
		"note": "begin with the tests", "reason": "stuck"}, &answer)
	if answer.Phase != signalbox.PhaseImplementation || answer.Work != "T1" {
		t.Errorf("answer %+v", answer)
	}
	w.box.Engine.View(func(s *rules.State) {
		if work, _ := s.Work("T1"); len(work.Task.Findings) == 0 ||
			work.Task.Findings[len(work.Task.Findings)-1].Summary != "begin with the tests" {
			t.Errorf("findings %+v", work.Task.Findings)
		}
	})
}

// TestListEventsWithFilters lists events with each filter, in parts, and compares them with all
// events.
func TestListEventsWithFilters(t *testing.T) {
	w := newWorld(t, false)
	for _, id := range []string{"one", "two", "three"} {
		w.do(rules.OpenWork{Work: id, Title: `The "title" of ` + id, Actor: "ann"})
		w.do(rules.Claim{Work: id, Role: signalbox.RoleDeveloper, Session: "s-" + id, Actor: "ben",
			Lease: "l-" + id})
	}
	list := func(query string) (seqs []uint64) {
		t.Helper()
		for after := uint64(0); ; {
			status, body := w.request(http.MethodGet, fmt.Sprintf("%s/ledger/events?after=%d&%s",
				Prefix, after, query), w.tokens[access.Read], nil)
			var answer foundEvents
			if err := json.Unmarshal(body, &answer); err != nil || status != http.StatusOK ||
				answer.Items == nil {
				t.Fatalf("%s: %d %s, %v", query, status, body, err)
			}
			for _, e := range answer.Items {
				seqs = append(seqs, e.Seq)
			}
			if answer.Next == nil {
				return seqs
			}
			after = *answer.Next
		}
	}
	all := []signalbox.Event{}
	for e, err := range w.box.Events(t.Context(), 0) {
		must.Succeed(t, err)
		all = append(all, *e)
	}
	middle := all[3].Time
	at := url.QueryEscape(middle.Format(time.RFC3339Nano))
	for query, match := range map[string]func(e *signalbox.Event) bool{
		"limit=2":          func(*signalbox.Event) bool { return true },
		"limit=1&work=two": func(e *signalbox.Event) bool { return e.Work == "two" },
		"type=WorkOpened":  func(e *signalbox.Event) bool { return e.Type == "WorkOpened" },
		"session=s-two":    func(e *signalbox.Event) bool { return e.Session == "s-two" },
		"actor=ben":        func(e *signalbox.Event) bool { return e.Actor == "ben" },
		"text=" + url.QueryEscape(`the "TITLE" of t`): func(e *signalbox.Event) bool {
			return e.Type == "WorkOpened" && strings.HasPrefix(e.Work, "t")
		},
		"since=" + at: func(e *signalbox.Event) bool { return !e.Time.Before(middle) },
		"until=" + at: func(e *signalbox.Event) bool { return e.Time.Before(middle) },
	} {
		var want []uint64
		for i := range all {
			if match(&all[i]) {
				want = append(want, all[i].Seq)
			}
		}
		if got := list(query); len(want) == 0 || !slices.Equal(got, want) {
			t.Errorf("%s: %d, want %d", query, got, want)
		}
	}
	for query, want := range map[string]int{"since=noon": http.StatusBadRequest,
		"work=none": http.StatusNotFound, "words=x": http.StatusBadRequest} {
		if status, body := w.request(http.MethodGet, Prefix+"/ledger/events?"+query,
			w.tokens[access.Read], nil); status != want {
			t.Errorf("%s: %d %s", query, status, body)
		}
	}
	if status, body := w.request(http.MethodGet, Prefix+"/ledger/events?after=18446744073709551615",
		w.tokens[access.Read], nil); status != http.StatusOK ||
		!strings.Contains(string(body), `"items":[]`) {
		t.Errorf("after the largest number: %d %s", status, body)
	}
}

// The status says why the base branch waits for the checkout.
func TestStatusSaysWhyTheBranchWaits(t *testing.T) {
	w := newWorld(t, false)
	w.api.opts.Root = t.TempDir()
	git := func(args ...string) {
		t.Helper()
		command := exec.Command("git", append([]string{"-C", w.api.opts.Root, "-c", "user.name=Ann",
			"-c", "user.email=ann@example.org", "-c", "commit.gpgSign=false"}, args...)...)
		if out, err := command.CombinedOutput(); err != nil {
			t.Fatalf("git %v: %v\n%s", args, err, out)
		}
	}
	status := func() *workspace.Behind {
		t.Helper()
		code, data := w.request(http.MethodGet, Prefix+"/status", w.tokens[access.Read], nil)
		var st inspect.Status
		if err := json.Unmarshal(data, &st); err != nil || code != http.StatusOK {
			t.Fatalf("%d %s: %v", code, data, err)
		}
		return st.Base.Behind
	}
	git("init", "-q", "-b", "main")
	git("commit", "-q", "--allow-empty", "-m", "first")
	if got := status(); got != nil {
		t.Errorf("it waits for nothing: %+v", got)
	}
	git("update-ref", "refs/signalbox/waits/main", "main")
	git("commit", "-q", "--allow-empty", "-m", "merged")
	git("update-ref", "refs/signalbox/base/main", "main")
	git("reset", "-q", "--hard", "main^")
	if got := status(); got == nil || got.Ref != "refs/signalbox/base/main" ||
		!strings.HasPrefix(got.Text, "the branch main waits, because ") {
		t.Errorf("%+v", got)
	}
}

// TestHistory explains work, and says what the ledger has learned, as events are added.
func TestHistory(t *testing.T) {
	w := newWorld(t, false)
	get := func(path string, answer any) {
		t.Helper()
		status, data := w.request(http.MethodGet, Prefix+path, w.tokens[access.Read], nil)
		if status != http.StatusOK {
			t.Fatalf("%s: %d %s", path, status, data)
		}
		must.Succeed(t, json.Unmarshal(data, answer))
	}
	w.do(rules.OpenWork{Work: "task-1", Title: "by hand", Actor: "ann"})
	var x history.Explanation
	get("/work/task-1/explanation", &x)
	if x.ID != "task-1" || x.Done || x.Turns != 0 {
		t.Errorf("%+v", x)
	}
	w.do(rules.Claim{Work: "task-1", Role: signalbox.RoleDeveloper, Session: "s-1", Actor: "ann",
		Lease: "l-1"})
	get("/work/task-1/explanation", &x)
	if n := len(x.Steps); n == 0 || x.Steps[n-1].Part != history.Development {
		t.Errorf("%+v", x.Steps)
	}
	var stats history.Stats
	get("/stats", &stats)
	if stats.Events != w.box.Engine.Tail().Seq || stats.Next.Cost.Known() {
		t.Errorf("%+v", stats)
	}
}
