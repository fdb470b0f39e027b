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
	"signalbox/internal/testkit/must"
)

// mcpServer starts a server with tools in JSON. If wait is not nil, it waits for that channel
// before every answer.
func mcpServer(t *testing.T, wait <-chan struct{},
	tools ...string) (url string, asked *atomic.Int64) {
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

// TestServerProblemsAreNotes checks that problems with servers and their tools are notes, not
// errors.
func TestServerProblemsAreNotes(t *testing.T) {
	one, _ := mcpServer(t, nil, listed("b__c", object),
		listed("empty", `{"type":"object","properties":[]}`),
		listed("bad", `{"type":"object","properties":7}`))
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
	must.Succeed(t, err)
	want := []string{"a__b__c", "a__b__fine", "a__empty", "a__fine", "read_file", "search_code"}
	if diff := cmp.Diff(want, toolNames(s)); diff != "" {
		t.Errorf("tools (-want +got):\n%s", diff)
	}
	notes := strings.Join(s.Notes, "\n")
	for _, part := range []string{"mcp server a: tool bad is left out: ",
		"mcp server a__b: it has no tool missing",
		"mcp server a: tool a__b__c is left out: it would belong to server a__b",
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
	if s, err = opened(t, local+fmt.Sprintf("oracle: {servers: {m: {url: %q}}}", url), "", nil,
		map[string]string{}); err != nil {
		t.Fatal(err)
	}
	if n := len(s.Notes); n != 6 || s.Notes[5] != "mcp server m: and 15 more like these" {
		t.Errorf("notes:\n%s", strings.Join(s.Notes, "\n"))
	}
}

// TestServerLimits checks that a server cannot make every question expensive, and that the notes
// name what was cut.
func TestServerLimits(t *testing.T) {
	flood := make([]string, 300)
	for i := range flood {
		flood[i] = fmt.Sprintf(`{"name":"t%d","description":%q,"inputSchema":{"type":"object"}}`, i,
			strings.Repeat("useful ", 2000))
	}
	url, _ := mcpServer(t, nil, flood...)
	hidden, _ := mcpServer(t, nil,
		`{"name":"h\u001b[2J","description":"look\nhere\u202e\udb40\udc41\u0007","inputSchema":{"type":"object","properties":{"a":{"description":"\udb40\udc41"}}}}`,
		listed("big", `{"type":"object","description":"`+strings.Repeat("x", 20_000)+`"}`),
		listed(strings.Repeat("n", 300), object))
	for name, test := range map[string]struct {
		limits       string
		tools, bytes int
		notes        []string
	}{
		"default": {"", 31, 64 << 10, []string{
			"mcp server m: 269 tools (t31, t32, t33 and 266 more) left out, because the descriptions and schemas of its tools have more than 65,536 bytes together: name the tools that you need under tools, or raise limits.total",
			"mcp server m: 31 tools (t0 (14,000 bytes), t1 (14,000 bytes), t2 (14,000 bytes) and 28 more) with a description of more than 2,048 bytes, which is cut: limits.description allows more"}},
		"short": {"{description: 20}", 100, 64 << 10,
			[]string{"mcp server m: 200 tools (t100, t101, t102 and 197 more) left out, because a server may have 100 tools: name the tools that you need under tools, or raise limits.tools"}},
		"all": {"{tools: 300, total: 4194304, description: 13000}", 300, 4_194_304,
			[]string{"300 tools"}},
		"nothing": {"{total: 1}", 0, 0,
			[]string{"mcp server m: 300 tools (t0, t1, t2 and 297 more) left out"}},
	} {
		t.Run(name, func(t *testing.T) {
			limits := ""
			if test.limits != "" {
				limits = ", limits: " + test.limits
			}
			s, err := opened(t, local+fmt.Sprintf("oracle: {servers: {m: {url: %q%s}}}", url,
				limits), "", nil, map[string]string{})
			must.Succeed(t, err)
			tools, size := 0, 0
			for _, tool := range s.Tools {
				if strings.HasPrefix(tool.Name, "m__") {
					tools, size = tools+1,
						size+len(tool.Name)+len(tool.Description)+len(tool.Schema)
				}
			}
			if tools != test.tools || size > test.bytes {
				t.Errorf("%d tools with %d bytes, want %d with at most %d", tools, size, test.tools,
					test.bytes)
			}
			notes := strings.Join(s.Notes, "\n")
			for _, note := range test.notes {
				if !strings.Contains(notes, note) {
					t.Errorf("no %q in the notes:\n%s", note, notes)
				}
			}
		})
	}
	s, err := opened(t, local+fmt.Sprintf("oracle: {servers: {m: {url: %q}}}", hidden), "", nil,
		map[string]string{})
	must.Succeed(t, err)
	tool := s.Tools[slices.IndexFunc(s.Tools,
		func(t toolbox.Tool) bool { return strings.HasPrefix(t.Name, "m__h") })]
	if tool.Name != "m__h__2J" || tool.Description != "look\nhere\ufffd\ufffd\ufffd" ||
		strings.Contains(string(tool.Schema), "\U000e0041") {
		t.Errorf("hidden characters: %q %q %s", tool.Name, tool.Description, tool.Schema)
	}
	notes := strings.Join(s.Notes, "\n")
	if len(s.Notes) != 2 || !strings.Contains(notes, "tool big is left out: its schema has 20,0") ||
		!strings.Contains(notes, "nnn is left out: its name has 300 bytes") {
		t.Errorf("notes:\n%s", notes)
	}
}

func TestOnlySomeTools(t *testing.T) {
	files, filesAsked := mcpServer(t, nil,
		`{"name":"get","inputSchema":{"type":"object"},"annotations":{"readOnlyHint":true}}`,
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
		"none": {tools: []string{}},
		"some": {tools: []string{"write", "read_file"},
			want: []string{"read_file", "write"}},
		"of a server": {tools: []string{"mail__*"}, want: []string{"mail__send"}, started: "mail"},
		"one of it": {tools: []string{"files__get"}, want: []string{"files__get"},
			started: "files"},
		"not there": {tools: []string{"files__got"}, started: "files", notes: 1},
		"gone":      {tools: []string{"gone__x", "write"}, want: []string{"write"}, notes: 1},
		"read-only": {tools: []string{setup.ReadOnly}, want: []string{"files__get", "read_file",
			"search_code", "test"}, started: "files mail", notes: 1},
		"and one more": {tools: []string{setup.ReadOnly, "write"},
			want:    []string{"files__get", "read_file", "search_code", "test", "write"},
			started: "files mail", notes: 1},
	} {
		t.Run(name, func(t *testing.T) {
			filesAsked.Store(0)
			mailAsked.Store(0)
			s, err := opened(t, settings, "", func(o *setup.Options) { o.Tools = test.tools },
				map[string]string{})
			must.Succeed(t, err)
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
		"small talk": {settings: servers, question: "thanks"},
		"a question": {settings: servers, question: "Where are retries configured?",
			want: true},
		"not known": {settings: servers, want: true},
		"an agent":  {settings: servers, question: "thanks", agent: true, want: true},
		"a tree of its own": {settings: servers + ", tree: t.lua", question: "thanks",
			want: true},
		"others that are handed": {settings: servers + ", subagents: {r: {tree: t.lua}}",
			question: "thanks", want: true},
	} {
		t.Run(name, func(t *testing.T) {
			asked.Store(0)
			if _, err := opened(t, local+"oracle: {"+test.settings+"}", "",
				func(o *setup.Options) { o.Question, o.Agent = test.question, test.agent },
				tree); err != nil {
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
	s, err := opened(t, local+fmt.Sprintf("oracle: {servers: {slow: {url: %q}, quick: {url: %q}}}",
		slow, quick), "", func(o *setup.Options) {
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
	s, err := opened(t, local+fmt.Sprintf("oracle: {servers: {s: {url: %q, timeout: 1s}}}", url),
		"", nil, map[string]string{})
	if err != nil || len(s.Notes) != 1 ||
		!strings.Contains(s.Notes[0], "did not answer within 1s") {
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
oracle: {model: main, tools: {look: {command: 'echo ${OPENAI_API_KEY-unset} ${MY_KEY-unset} $HARMLESS', description: y, env_pass: [HARMLESS]}}}`
	s, err := opened(t, settings, "", nil, map[string]string{})
	must.Succeed(t, err)
	tool := s.Tools[slices.IndexFunc(s.Tools,
		func(tool toolbox.Tool) bool { return tool.Name == "look" })]
	if out := toolbox.Run(t.Context(), tool,
		toolbox.Call{Key: "k"}); out.Text != "unset unset seen" {
		t.Errorf("it sees %q", out.Text)
	}
}
