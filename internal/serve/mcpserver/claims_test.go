package mcpserver

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"signalbox"
	"signalbox/internal/core/rules"
	"signalbox/internal/testkit/must"
)

// mine returns the work items that, according to get_status, the caller holds.
func (a *response) mine() (work []string) {
	list, _ := a.Snapshot["mine"].([]any)
	for _, held := range list {
		work = append(work, held.(map[string]any)["work"].(string))
	}
	return work
}

// Two agents on one operator's server each see only what they claimed themselves.
func TestClaimsPerConnection(t *testing.T) {
	dir := newBox(t)
	s := newServer(t, dir, nil)
	ann, bob := newCaller(t, s), newCaller(t, s)
	for _, work := range []string{"w1", "w2"} {
		ann.ok("open_work", args{"work": work})
	}
	claimed := ann.ok("claim_work", args{"work": "w1", "role": "developer"})
	session := claimed.string("session")
	a := ann.ok("get_status", nil)
	for _, want := range []string{"You hold w1", session, fmt.Sprintf("epoch %d", epochOf(claimed)),
		"renew the lease in time", "submit_exit"} {
		if !strings.Contains(a.string("verdict"), want) {
			t.Errorf("the verdict does not say %q: %s", want, a.string("verdict"))
		}
	}
	if got := a.mine(); len(got) != 1 || got[0] != "w1" || a.Snapshot["session"] != nil {
		t.Errorf("mine: %s", a.text)
	}
	if a := ann.ok("get_work", args{"work": "w1"}); !strings.Contains(a.string("verdict"),
		"You hold w1") {
		t.Errorf("get_work: %s", a.text)
	}

	if a := bob.ok("get_status", nil); len(a.mine()) != 0 ||
		!strings.Contains(a.string("verdict"), "can be claimed") {
		t.Errorf("another connection: %s", a.text)
	}
	if a := bob.ok("get_work", args{"work": "w1"}); !strings.Contains(a.string("verdict"),
		"leave it") {
		t.Errorf("another connection: %s", a.text)
	}
	// After reconnecting, a client passes its session.
	if a := bob.ok("get_status", args{"session": session}); len(a.mine()) != 1 ||
		a.string("session") != session || !strings.Contains(a.string("verdict"), "You hold w1") {
		t.Errorf("named: %s", a.text)
	}
	if a := bob.ok("get_work",
		args{"work": "w1", "session": session}); !strings.Contains(a.string("verdict"),
		"You hold w1") {
		t.Errorf("named: %s", a.text)
	}
	bob.fails("get_status", "unknown_session", args{"session": "s-unknown"})
	bob.fails("get_work", "unknown_session", args{"work": "w1", "session": "s-unknown"})

	ann.ok("claim_work", args{"work": "w2", "role": "developer", "ttl_seconds": 60})
	if a := ann.ok("get_status", nil); len(a.mine()) != 2 ||
		!strings.Contains(a.string("verdict"), "You hold w2") ||
		!strings.Contains(a.string("verdict"), "and 1 more") {
		t.Errorf("what expires first is not first: %s", a.text)
	}
	ann.fails("submit_exit", "malformed", args{"session": session, "protocol": "other",
		"phase_completed": "IMPLEMENTATION", "exit_reason": "completed"})
	// The JSON of an exit signal, unchanged, with the session.
	ann.ok("submit_exit", args{"session": session, "protocol": "apm2_agent_exit",
		"version": "1.0.0", "phase_completed": "IMPLEMENTATION",
		"exit_reason": "completed", "ref": "fix/counter", "pr_url": "https://example.org/pr/1",
		"evidence_bundle_ref": nil, "notes": nil})
	if a := ann.ok("get_status", args{"session": session}); len(a.mine()) != 0 ||
		!strings.Contains(a.string("verdict"), "holds no work") {
		t.Errorf("after submit_exit: %s", a.text)
	}
}

// TestFindingsOfWorkByHand shows an agent why work outside a plan came back from its checks.
func TestFindingsOfWorkByHand(t *testing.T) {
	dir := newBox(t)
	c := newCaller(t, newServer(t, dir, nil))
	order(t, dir, rules.OpenWork{Work: "w", Actor: "ann"},
		rules.Claim{Work: "w", Role: signalbox.RoleDeveloper, Session: "s-1", Actor: "bob",
			Lease: "l"})
	c.fails("submit_exit", "invalid_arguments",
		args{"session": "s-1", "phase_completed": "IMPLEMENTATION", "exit_reason": "completed",
			"ref": "main~1"})
	c.ok("submit_exit", args{"session": "s-1", "phase_completed": "IMPLEMENTATION",
		"exit_reason": "completed", "ref": "fix/counter"})
	granted := order(t, dir, rules.Dispatch{Roles: []signalbox.Role{signalbox.RoleCI},
		Session: "ci-1", Actor: "crew", Lease: "l-2", ByHand: 1})
	order(t, dir, rules.ReportChecks{Session: "ci-1", Epoch: granted.Lease.Epoch,
		Ref: "fix/counter", Problem: "it names 'fix/counter', which is not there"})
	if a := c.ok("get_work", args{"work": "w"}); !strings.Contains(a.text,
		"it names 'fix/counter', which is not there") ||
		!strings.Contains(a.text, "claim it as developer") {
		t.Errorf("after the checks: %s", a.text)
	}
}

// The claims of closed connections are forgotten, so that a long-running server does not grow.
func TestClaimsOfClosedConnections(t *testing.T) {
	s := newServer(t, newBox(t), nil)
	second := newCaller(t, s)
	second.ok("open_work", args{"work": "w0"})
	second.ok("open_work", args{"work": "w1"})
	near, far := mcp.NewInMemoryTransports()
	connection, err := s.mcp.Connect(t.Context(), near, nil)
	must.Succeed(t, err)
	first := callerOver(t, far)
	first.ok("claim_work", args{"work": "w0", "role": "developer"})
	first.session.Close()
	connection.Wait()
	second.ok("claim_work", args{"work": "w1", "role": "developer"})
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.claims) != 1 {
		t.Errorf("the claims of %d connections are kept", len(s.claims))
	}
}

// A server with its own session rejects other sessions.
func TestOwnSessionOnly(t *testing.T) {
	dir := newBox(t)
	planned(t, dir, "s-1")
	c := newCaller(t, newServer(t, dir, &Options{Session: "s-1"}))
	c.ok("get_status", args{"session": "s-1"})
	c.fails("get_status", "not_allowed", args{"session": "s-2"})
	c.fails("get_work", "not_allowed", args{"work": "T1", "session": "s-2"})
	// Its own session is accepted even if it has claimed nothing yet.
	newCaller(t, newServer(t, dir, &Options{Session: "s-new"})).ok("get_status", nil)
}

// TestClaimsOverHTTP makes calls with and without a protocol session.
func TestClaimsOverHTTP(t *testing.T) {
	address := served(t, nil)
	call := func(version, connection, tool, in string) string {
		t.Helper()
		meta := ""
		if connection == "" {
			meta = `,"_meta":{"io.modelcontextprotocol/protocolVersion":"` + version +
				`","io.modelcontextprotocol/clientInfo":{"name":"t","version":"1"},"io.modelcontextprotocol/clientCapabilities":{}}`
		}
		status, body, _ := post(t, address,
			fmt.Sprintf(`{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":%q,"arguments":%s%s}}`, tool, in, meta), func(r *http.Request) {
				r.Header.Set("Mcp-Protocol-Version", version)
				if connection != "" {
					r.Header.Set("Mcp-Session-Id", connection)
				} else {
					r.Header.Set("Mcp-Method", "tools/call")
					r.Header.Set("Mcp-Name", tool)
				}
			})
		if status != http.StatusOK || !strings.Contains(body, `"status":"success"`) {
			t.Fatalf("%s %s: %d %s", tool, in, status, body)
		}
		return body
	}
	hello, _, _ := strings.Cut(hello, "\n")
	_, _, header := post(t, address, hello, nil)
	connection := header.Get("Mcp-Session-Id")
	if connection == "" {
		t.Fatalf("no session: %v", header)
	}
	post(t, address, `{"jsonrpc":"2.0","method":"notifications/initialized"}`,
		func(r *http.Request) { r.Header.Set("Mcp-Session-Id", connection) })
	const old, single = "2025-06-18", "2026-07-28"
	call(old, connection, "open_work", `{"work":"w1"}`)
	call(old, connection, "claim_work", `{"work":"w1","role":"developer"}`)
	if body := call(old, connection, "get_status", `{}`); !strings.Contains(body, "You hold w1") {
		t.Errorf("a session: %s", body)
	}
	call(single, "", "open_work", `{"work":"w2"}`)
	call(single, "", "claim_work", `{"work":"w2","role":"developer","session":"s-2"}`)
	if body := call(single, "", "get_status", `{}`); strings.Contains(body, "You hold") {
		t.Errorf("no session: %s", body)
	}
	if body := call(single, "", "get_status", `{"session":"s-2"}`); !strings.Contains(body,
		"You hold w2") {
		t.Errorf("named: %s", body)
	}
}

// TestStatusOfWorkByHand has work but no plan.
func TestStatusOfWorkByHand(t *testing.T) {
	dir := newBox(t)
	c := newCaller(t, newServer(t, dir, nil))
	if a := c.ok("get_status", nil); a.string("standing") != "empty" || a.has("by_hand") {
		t.Errorf("empty: %s", a.text)
	}
	for i := range 14 {
		c.ok("open_work", args{"work": fmt.Sprintf("w%d", i)})
	}
	a := c.ok("get_status", nil)
	if a.string("standing") != "by_hand" || a.number("by_hand") != 14 ||
		strings.Contains(a.text, "no plan was loaded") ||
		!strings.Contains(a.text, "14 work items opened by hand") {
		t.Errorf("by hand: %s", a.text)
	}
	planned(t, dir, "s-1")
	if a := c.ok("get_status", nil); a.string("standing") != string(rules.StandingWorking) ||
		a.has("by_hand") || a.number("by_hand") != 14 {
		t.Errorf("with a plan: %s", a.text)
	}
	order(t, dir, rules.Claim{Work: "w0", Role: signalbox.RoleDeveloper, Session: "s", Actor: "bob",
		Lease: "l"})
	if a := c.ok("list_work", args{"held_by": "s"}); a.number("matching") != 1 {
		t.Errorf("held: %s", a.text)
	}
}
