package mcpserver

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
	"github.com/google/jsonschema-go/jsonschema"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"signalbox"
	"signalbox/brief"
	"signalbox/internal/config"
	"signalbox/internal/core/box"
	"signalbox/internal/core/rules"
	"signalbox/internal/testkit/must"
)

// Environment variables that make this test binary a server over stdio, as another process.
const (
	childVariable   = "MCPSERVER_TEST_BOX"
	sessionVariable = "MCPSERVER_TEST_SESSION"
)

func TestMain(m *testing.M) {
	dir := os.Getenv(childVariable)
	if dir == "" {
		os.Exit(m.Run())
	}
	s, err := New(func() (string, error) { return dir, nil },
		&Options{Box: &box.Options{KeyFile: keyOf(dir)}, Session: os.Getenv(sessionVariable),
			Secret: testSecret, ExitFlag: "true"})
	if err == nil {
		err = s.ServeStdio(context.Background(), os.Stdin, os.Stdout)
		s.Close()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// testSecret is the secret of leases that the tests claim as operators.
const testSecret = "secret-of-tests"

func keyOf(dir string) string { return filepath.Join(filepath.Dir(dir), "box.key") }

// newBox creates a box, with its key next to it, and returns its folder.
func newBox(t testing.TB) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), box.FolderName)
	if _, err := box.Init(t.Context(), dir, "ann", &box.Options{KeyFile: keyOf(dir)}); err != nil {
		t.Fatal(err)
	}
	return dir
}

// newServer returns a server for a box. By default exit signals are enabled, its client may have
// every role, and it knows testSecret if it has a session.
func newServer(t testing.TB, dir string, opts *Options) *Server {
	t.Helper()
	var o Options
	if opts != nil {
		o = *opts
	}
	o.Box = &box.Options{KeyFile: keyOf(dir)}
	if o.Session != "" && o.Secret == "" {
		o.Secret = testSecret
	}
	if o.Client.Roles == nil {
		o.Client.Roles = config.ClientRoles()
	}
	if o.ExitFlag == "" {
		o.ExitFlag = "true"
	}
	s, err := New(func() (string, error) { return box.Find(".", dir) }, &o)
	must.Succeed(t, err)
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// caller is a client that checks every answer.
type caller struct {
	t       testing.TB
	session *mcp.ClientSession
	tools   map[string]*mcp.Tool
	outputs map[string]*jsonschema.Resolved
	secrets map[string]string // that claims returned, by session
}

func newCaller(t testing.TB, s *Server) *caller {
	t.Helper()
	near, far := mcp.NewInMemoryTransports()
	if _, err := s.mcp.Connect(t.Context(), near, nil); err != nil {
		t.Fatal(err)
	}
	return callerOver(t, far)
}

func callerOver(t testing.TB, transport mcp.Transport) *caller {
	t.Helper()
	client := mcp.NewClient(&mcp.Implementation{Name: "test", Version: "1"}, nil)
	session, err := client.Connect(t.Context(), transport, nil)
	must.Succeed(t, err)
	t.Cleanup(func() { session.Close() })
	c := &caller{t: t, session: session, tools: map[string]*mcp.Tool{},
		outputs: map[string]*jsonschema.Resolved{}, secrets: map[string]string{}}
	for tool, err := range session.Tools(t.Context(), nil) {
		must.Succeed(t, err)
		c.tools[tool.Name], c.outputs[tool.Name] = tool, resolved(t, tool.OutputSchema)
	}
	return c
}

// resolved resolves a schema that a client received.
func resolved(t testing.TB, schema any) *jsonschema.Resolved {
	t.Helper()
	text, err := json.Marshal(schema)
	must.Succeed(t, err)
	var s jsonschema.Schema
	must.Succeed(t, json.Unmarshal(text, &s))
	r, err := s.Resolve(nil)
	must.Succeed(t, err)
	return r
}

// response is a brief that a client received.
type response struct {
	Status   brief.Status
	Format   brief.Format
	Snapshot map[string]any
	Flags    []brief.Flag
	FilePath *string `json:"file_path"`

	text       string
	structured int // bytes
	links      []*mcp.ResourceLink
	failed     bool
}

func (a *response) has(flag string) bool {
	for _, f := range a.Flags {
		if f.Flag == flag {
			return true
		}
	}
	return false
}

func (a *response) number(key string) int {
	n, _ := a.Snapshot[key].(float64)
	return int(n)
}

func (a *response) string(key string) string {
	s, _ := a.Snapshot[key].(string)
	return s
}

// call calls a tool and checks the invariants of all answers. It keeps the secrets that claims
// return, and sends the one of the session that the call names, unless the call has a secret of its
// own.
func (c *caller) call(tool string, arguments any) *response {
	c.t.Helper()
	if named, ok := arguments.(args); ok && named["session"] != nil && c.takes(tool, "secret") {
		session, _ := named["session"].(string)
		arguments = with(args{"secret": cmp.Or(c.secrets[session], testSecret)}, named)
	}
	result, err := c.session.CallTool(c.t.Context(),
		&mcp.CallToolParams{Name: tool, Arguments: arguments})
	if err != nil {
		c.t.Fatalf("%s: %v", tool, err)
	}
	a := c.checked(tool, result)
	if tool == "claim_work" && !a.failed && a.string("secret") != "" {
		c.secrets[a.string("session")] = a.string("secret")
	}
	return a
}

// takes reports whether a tool has an argument.
func (c *caller) takes(tool, argument string) bool {
	input, _ := c.tools[tool].InputSchema.(map[string]any)
	properties, _ := input["properties"].(map[string]any)
	return properties[argument] != nil
}

// with returns the arguments with more.
func with(arguments, more args) args {
	all := maps.Clone(arguments)
	maps.Copy(all, more)
	return all
}

func (c *caller) checked(tool string, result *mcp.CallToolResult) *response {
	c.t.Helper()
	a, err := readAnswer(result)
	if err != nil {
		c.t.Fatalf("%s: %v", tool, err)
	}
	if len(a.text) > brief.MaxAgentBytes && a.Format == brief.FormatAgent {
		c.t.Errorf("%s: the answer has %d bytes", tool, len(a.text))
	}
	if err := c.outputs[tool].Validate(result.StructuredContent); err != nil {
		c.t.Errorf("%s: the answer does not fit its schema: %v\n%s", tool, err, a.text)
	}
	if a.failed != (a.Status == brief.StatusError) {
		c.t.Errorf("%s: isError is %v: %s", tool, a.failed, a.text)
	}
	if a.Format == brief.FormatAgent && a.string("verdict") == "" {
		c.t.Errorf("%s: no verdict: %s", tool, a.text)
	}
	short := !json.Valid([]byte(a.text))
	if (len(a.links) == 1) != (a.FilePath != nil || short) {
		c.t.Errorf("%s: %d links, path %v", tool, len(a.links), a.FilePath)
	}
	if structured, err := json.Marshal(result.StructuredContent); !short &&
		(err != nil || !equalJSON(structured, []byte(a.text))) {
		c.t.Errorf("%s: the text %s is not the structured content %s", tool, a.text, structured)
	}
	return a
}

func equalJSON(a, b []byte) bool {
	var x, y any
	return json.Unmarshal(a, &x) == nil && json.Unmarshal(b, &y) == nil && gocmp.Equal(x, y)
}

func readAnswer(result *mcp.CallToolResult) (*response, error) {
	a := &response{failed: result.IsError}
	for _, content := range result.Content {
		switch content := content.(type) {
		case *mcp.TextContent:
			a.text += content.Text
		case *mcp.ResourceLink:
			a.links = append(a.links, content)
		default:
			return nil, fmt.Errorf("content of type %T", content)
		}
	}
	structured, err := json.Marshal(result.StructuredContent)
	if err != nil {
		return nil, err
	}
	if err := json.Unmarshal(structured, a); err != nil {
		return nil, fmt.Errorf("%w: %s", err, a.text)
	}
	a.structured = len(structured)
	return a, nil
}

// ok calls a tool that must succeed.
func (c *caller) ok(tool string, arguments any) *response {
	c.t.Helper()
	a := c.call(tool, arguments)
	if a.Status != brief.StatusSuccess {
		c.t.Fatalf("%s: %s", tool, a.text)
	}
	return a
}

func (c *caller) fails(tool, flag string, arguments any) *response {
	c.t.Helper()
	a := c.call(tool, arguments)
	// The portfolio's failures begin with their own flag.
	if a.Status != brief.StatusError || !a.has(flag) || a.Flags[0].Flag != flag &&
		a.Snapshot["error_kind"] != flag {
		c.t.Fatalf("%s: want the flag %s, got %s", tool, flag, a.text)
	}
	return a
}

// args are arguments of a call.
type args = map[string]any

// withBox opens the box besides the server and calls f.
func withBox(t testing.TB, dir string, f func(*box.Box)) {
	t.Helper()
	b, err := box.Open(t.Context(), dir, &box.Options{KeyFile: keyOf(dir)})
	must.Succeed(t, err)
	defer b.Close()
	f(b)
}

// order executes commands on the box. Leases that it claims have testSecret.
func order(t testing.TB, dir string, commands ...rules.Command) (last rules.Answer) {
	t.Helper()
	withBox(t, dir, func(b *box.Box) {
		for _, c := range commands {
			var err error
			if claim, ok := c.(rules.Claim); ok {
				claim.Secret = rules.HashSecret(testSecret)
				c = claim
			}
			if last, err = b.Engine.Do(t.Context(), c); err != nil {
				t.Fatal(err)
			}
		}
	})
	return last
}

// planned loads a plan with two tasks and claims the first for a session.
func planned(t testing.TB, dir, session string) rules.Answer {
	t.Helper()
	return order(t, dir,
		rules.Configure{Actor: "ann",
			Policy: rules.Policy{Slots: 4,
				Roles:  []rules.RoleSlots{{Role: signalbox.RoleDeveloper, Slots: 4}},
				Limits: rules.DefaultLimits()}},
		rules.LoadPlan{Plan: signalbox.Hash{1}, Name: "plan", Actor: "ann",
			Tasks: []rules.PlanTask{{ID: "T1", Title: "first"},
				{ID: "T2", Title: "second", BlockedBy: []string{"T1"}}}},
		rules.Claim{Work: "T1", Role: signalbox.RoleDeveloper, Session: session, Actor: "bob",
			Lease: "l-" + session},
	)
}
