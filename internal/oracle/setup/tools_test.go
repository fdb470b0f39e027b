package setup_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"

	"signalbox/internal/oracle/setup"
	"signalbox/internal/oracle/toolbox"
)

// mcpServer starts a server with tools in JSON. If wait is not nil, it waits for that channel before every answer.
func mcpServer(t *testing.T, wait <-chan struct{}, tools ...string) (url string, asked *atomic.Int64) {
	t.Helper()
	asked = &atomic.Int64{}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked.Add(1)
		if wait != nil {
			<-wait
		}
		var request struct {
			ID     json.RawMessage
			Method string
		}
		if r.Method != http.MethodPost || json.NewDecoder(r.Body).Decode(&request) != nil {
			w.WriteHeader(http.StatusMethodNotAllowed)
			return
		}
		answer := map[string]string{
			"initialize": `{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"s","version":"1"}}`,
			"tools/list": `{"tools":[` + strings.Join(tools, ",") + `]}`,
		}[request.Method]
		if answer == "" {
			w.WriteHeader(http.StatusAccepted)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":%s}`, request.ID, answer)
	}))
	t.Cleanup(server.Close)
	return server.URL, asked
}

func listed(name, schema string) string {
	return fmt.Sprintf(`{"name":%q,"inputSchema":%s}`, name, schema)
}

func toolNames(s *setup.Setup) (names []string) {
	for _, tool := range s.Tools {
		names = append(names, tool.Name)
	}
	slices.Sort(names)
	return names
}

const object = `{"type":"object"}`

// TestServerProblemsAreNotes checks that problems with servers and their tools are notes, not errors.
func TestServerProblemsAreNotes(t *testing.T) {
	one, _ := mcpServer(t, nil, listed("b__c", object), listed("empty", `{"type":"object","properties":[]}`), listed("bad", `{"type":"object","properties":7}`))
	two, _ := mcpServer(t, nil, listed("c", object), listed("fine", object))
	settings := local + fmt.Sprintf(`oracle:
  tools: {a__fine: {command: x, description: y}}
  servers:
    a: {url: %q}
    a__b: {url: %q, tools: [c, fine, missing]}
    gone: {url: 'http://127.0.0.1:1/'}
    lost: {command: [no-such-program-anywhere]}
`, one, two)
	s, err := opened(t, settings, "", nil, map[string]string{})
	if err != nil {
		t.Fatal(err)
	}
	want := []string{"a__b__c", "a__b__fine", "a__empty", "a__fine", "read_file", "search_code"}
	if diff := cmp.Diff(want, toolNames(s)); diff != "" {
		t.Errorf("tools (-want +got):\n%s", diff)
	}
	notes := strings.Join(s.Notes, "\n")
	for _, part := range []string{"mcp server a: tool bad is left out: ", "mcp server a__b: it has no tool missing", "tool a__b__c of an mcp server is left out because another tool has its name",
		"mcp server gone: ", "its tools are missing (check its address", "mcp server lost: "} {
		if !strings.Contains(notes, part) {
			t.Errorf("no %q in the notes:\n%s", part, notes)
		}
	}
	if len(s.Notes) != 5 {
		t.Errorf("notes:\n%s", notes)
	}
	many := make([]string, 20)
	for i := range many {
		many[i] = listed(fmt.Sprint("bad", i), `{"type":"array"}`)
	}
	url, _ := mcpServer(t, nil, many...)
	if s, err = opened(t, local+fmt.Sprintf("oracle: {servers: {m: {url: %q}}}", url), "", nil, map[string]string{}); err != nil {
		t.Fatal(err)
	}
	if n := len(s.Notes); n != 6 || s.Notes[5] != "mcp server m: and 15 more like these" {
		t.Errorf("notes:\n%s", strings.Join(s.Notes, "\n"))
	}
}

func TestOnlySomeTools(t *testing.T) {
	files, filesAsked := mcpServer(t, nil, `{"name":"get","inputSchema":{"type":"object"},"annotations":{"readOnlyHint":true}}`,
		`{"name":"set","inputSchema":{"type":"object"},"annotations":{"idempotentHint":true}}`)
	mail, mailAsked := mcpServer(t, nil, listed("send", object))
	settings := local + fmt.Sprintf(`oracle:
  tools: {write: {command: x, description: y}, test: {command: x, description: y, read_only: true}}
  servers: {files: {url: %q}, mail: {url: %q}, gone: {url: 'http://127.0.0.1:1/'}}
`, files, mail)
	for name, test := range map[string]struct {
		tools, want []string
		notes       int
		started     string
	}{
		"none":         {tools: []string{}},
		"some":         {tools: []string{"write", "read_file"}, want: []string{"read_file", "write"}},
		"of a server":  {tools: []string{"mail__*"}, want: []string{"mail__send"}, started: "mail"},
		"one of it":    {tools: []string{"files__get"}, want: []string{"files__get"}, started: "files"},
		"not there":    {tools: []string{"files__got"}, started: "files", notes: 1},
		"gone":         {tools: []string{"gone__x", "write"}, want: []string{"write"}, notes: 1},
		"read-only":    {tools: []string{setup.ReadOnly}, want: []string{"files__get", "read_file", "search_code", "test"}, started: "files mail", notes: 1},
		"and one more": {tools: []string{setup.ReadOnly, "write"}, want: []string{"files__get", "read_file", "search_code", "test", "write"}, started: "files mail", notes: 1},
	} {
		t.Run(name, func(t *testing.T) {
			filesAsked.Store(0)
			mailAsked.Store(0)
			s, err := opened(t, settings, "", func(o *setup.Options) { o.Tools = test.tools }, map[string]string{})
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(test.want, toolNames(s)); diff != "" {
				t.Errorf("tools (-want +got):\n%s", diff)
			}
			if len(s.Notes) != test.notes {
				t.Errorf("notes %q, want %d", s.Notes, test.notes)
			}
			var started []string
			for _, each := range []struct {
				name  string
				asked *atomic.Int64
			}{{"files", filesAsked}, {"mail", mailAsked}} {
				if each.asked.Load() > 0 {
					started = append(started, each.name)
				}
			}
			if got := strings.Join(started, " "); got != test.started {
				t.Errorf("started %q, want %q", got, test.started)
			}
		})
	}
}

func TestNoServerForSmallTalk(t *testing.T) {
	url, asked := mcpServer(t, nil, listed("x", object))
	servers := fmt.Sprintf("servers: {s: {url: %q}}", url)
	tree := map[string]string{".signalbox/t.lua": plainTree}
	for name, test := range map[string]struct {
		settings, question string
		agent, want        bool
	}{
		"small talk":             {settings: servers, question: "thanks"},
		"a question":             {settings: servers, question: "Where are retries configured?", want: true},
		"not known":              {settings: servers, want: true},
		"an agent":               {settings: servers, question: "thanks", agent: true, want: true},
		"a tree of its own":      {settings: servers + ", tree: t.lua", question: "thanks", want: true},
		"others that are handed": {settings: servers + ", subagents: {r: {tree: t.lua}}", question: "thanks", want: true},
	} {
		t.Run(name, func(t *testing.T) {
			asked.Store(0)
			if _, err := opened(t, local+"oracle: {"+test.settings+"}", "", func(o *setup.Options) { o.Question, o.Agent = test.question, test.agent }, tree); err != nil {
				t.Fatal(err)
			}
			if (asked.Load() > 0) != test.want {
				t.Errorf("the server was asked %d times", asked.Load())
			}
		})
	}
}

// TestSlowStart checks that a slow server is reported: the server answers only after the report.
func TestSlowStart(t *testing.T) {
	told := make(chan struct{})
	slow, _ := mcpServer(t, told, listed("x", object))
	quick, _ := mcpServer(t, nil, listed("x", object))
	s, err := opened(t, local+fmt.Sprintf("oracle: {servers: {slow: {url: %q}, quick: {url: %q}}}", slow, quick), "", func(o *setup.Options) {
		o.Starting = func(name string) {
			if name != "slow" {
				t.Errorf("told of %s", name)
				return
			}
			close(told)
		}
	}, map[string]string{})
	if err != nil || s.Notes != nil || !slices.Contains(toolNames(s), "slow__x") {
		t.Fatal(err, s)
	}
}

// TestSilentServer checks that a server that does not answer is abandoned after its timeout.
func TestSilentServer(t *testing.T) {
	never := make(chan struct{})
	url, _ := mcpServer(t, never)
	t.Cleanup(func() { close(never) }) // before the server is closed, which waits for its requests
	s, err := opened(t, local+fmt.Sprintf("oracle: {servers: {s: {url: %q, timeout: 1s}}}", url), "", nil, map[string]string{})
	if err != nil || len(s.Notes) != 1 || !strings.Contains(s.Notes[0], "did not answer within 1s") {
		t.Fatal(err, s)
	}
}

func TestCommandsHaveNoModelKeys(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("there are no commands")
	}
	t.Setenv("OPENAI_API_KEY", "secret")
	t.Setenv("MY_KEY", "secret")
	t.Setenv("HARMLESS", "seen")
	settings := `models: {main: {provider: openai, model: m, base_url: 'http://127.0.0.1:1/v1'}, other: {provider: anthropic, model: m, key_env: MY_KEY}}
oracle: {model: main, tools: {look: {command: 'echo ${OPENAI_API_KEY-unset} ${MY_KEY-unset} $HARMLESS', description: y}}}`
	s, err := opened(t, settings, "", nil, map[string]string{})
	if err != nil {
		t.Fatal(err)
	}
	tool := s.Tools[slices.IndexFunc(s.Tools, func(tool toolbox.Tool) bool { return tool.Name == "look" })]
	if out := toolbox.Run(t.Context(), tool, toolbox.Call{Key: "k"}); out.Text != "unset unset seen" {
		t.Errorf("it sees %q", out.Text)
	}
}
