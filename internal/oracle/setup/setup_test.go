package setup_test

import (
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"signalbox"
	"signalbox/internal/config"
	"signalbox/internal/oracle/chunk"
	"signalbox/internal/oracle/session"
	"signalbox/internal/oracle/setup"
	"signalbox/internal/rehearsal/modelserver"
	"signalbox/internal/testkit/must"
)

// opened opens the setup of a project with a box and the given settings, in which MODEL stands for
// a server that plays the script.
func opened(t *testing.T, settings, script string, edit func(*setup.Options),
	files map[string]string) (*setup.Setup, error) {
	t.Helper()
	project := t.TempDir()
	dir := filepath.Join(project, ".signalbox")
	files[".signalbox/"+config.FileName] = settings
	if script != "" {
		parsed, err := modelserver.ParseScript("model.json", []byte(script))
		must.Succeed(t, err)
		handler, err := modelserver.New(parsed, nil)
		must.Succeed(t, err)
		server := httptest.NewServer(handler)
		t.Cleanup(server.Close)
		files[".signalbox/"+config.FileName] = strings.ReplaceAll(settings, "MODEL", server.URL)
	}
	for name, text := range files {
		name = filepath.Join(project, filepath.FromSlash(name))
		must.Succeed(t, os.MkdirAll(filepath.Dir(name), 0o700))
		must.Succeed(t, os.WriteFile(name, []byte(text), 0o600))
	}
	c, err := config.Load(dir)
	must.Succeed(t, err)
	o := &setup.Options{Lookup: func(string) (string, bool) { return "", false }, Project: project,
		Logs: filepath.Join(dir, "logs")}
	if edit != nil {
		edit(o)
	}
	s, err := setup.Open(t.Context(), c, o)
	if err == nil {
		t.Cleanup(func() {
			if err := s.Close(); err != nil {
				t.Error(err)
			}
		})
	}
	return s, err
}

const priced = "models:\n  main: {provider: openai, model: m, base_url: 'http://127.0.0.1:1/v1', price: {input: 1, output: 2}}\n"

const plainTree = `return BT.tree("mine", {root = BT.llm_call("think", {})})`

const local = "models: {main: {provider: openai, model: m, base_url: 'http://127.0.0.1:1/v1'}}\n"

func TestBuiltInTools(t *testing.T) {
	for name, test := range map[string]struct {
		settings string
		want     []string
	}{
		"nothing": {"", []string{"read_file", "search_code"}},
		"notes": {"oracle: {notes: notes}",
			[]string{"read_file", "search_code", "search_notes"}},
		"portfolio": {"oracle: {portfolio: money}", []string{"check_exit_signals", "read_file",
			"search_code", "suggest_tax_loss_harvest"}},
		"commands": {"oracle: {tools: {test: {command: make, description: Tests.}}}",
			[]string{"read_file", "search_code", "test"}},
	} {
		t.Run(name, func(t *testing.T) {
			s, err := opened(t, local+test.settings, "", nil,
				map[string]string{"notes/a.md": "# A", "money/portfolio.yaml": ""})
			must.Succeed(t, err)
			var got []string
			for _, tool := range s.Tools {
				got = append(got, tool.Name)
			}
			if slices.Sort(got); !slices.Equal(got, test.want) {
				t.Errorf("tools %v, want %v", got, test.want)
			}
		})
	}
}

func TestErrors(t *testing.T) {
	official := "models: {main: {provider: anthropic, model: m}}\n"
	for name, test := range map[string]struct {
		settings, want, hint string
		files                map[string]string
		edit                 func(*setup.Options)
	}{
		"no model": {settings: "", want: "no model is configured", hint: "models:"},
		"no key":   {settings: official, want: "ANTHROPIC_API_KEY", hint: "ANTHROPIC_API_KEY"},
		"no price": {settings: local, edit: func(o *setup.Options) { o.Limits.CostMicros = 1 },
			want: "the price of model 'main' is unknown", hint: "price"},
		"no price of a sub-agent's": {settings: priced +
			"  other: {provider: openai, model: m, base_url: 'http://127.0.0.1:1/v1'}\noracle: {model: main, subagents: {r: {tree: t.lua, model: other}}}",
			edit:  func(o *setup.Options) { o.Limits.CostMicros = 1 },
			files: map[string]string{".signalbox/t.lua": plainTree},
			want:  "the price of model 'other' is unknown", hint: "models.other.price"},
		"no price of one that a tree may name": {settings: priced +
			"  other: {provider: openai, model: m, base_url: 'http://127.0.0.1:1/v1'}\noracle: {model: main, tree: t.lua}",
			edit:  func(o *setup.Options) { o.Limits.CostMicros = 1 },
			files: map[string]string{".signalbox/t.lua": plainTree},
			want:  "the price of model 'other' is unknown", hint: "models.other.price"},
		"no such tool": {settings: local,
			edit: func(o *setup.Options) { o.Tools = []string{"read_flie"} },
			want: "there is no tool 'read_flie'; did you mean read_file?",
			hint: "use one of read_file, search_code"},
		"no such server's tools": {settings: local +
			"oracle: {servers: {gone: {command: [no-such-program-anywhere]}}}",
			edit: func(o *setup.Options) { o.Tools = []string{"gnoe__*"} },
			want: "there is no tool 'gnoe__*'"},
		"variable": {settings: local +
			"oracle: {servers: {s: {url: 'http://127.0.0.1:1', headers: {Authorization: '${NO_SUCH}'}}}}",
			want: "NO_SUCH", hint: "set the variable"},
		"taken": {settings: local + "oracle: {tools: {read_file: {command: x, description: y}}}",
			want: "read_file", hint: "rename"},
		"segment": {settings: local + "oracle: {prompts: p}",
			files: map[string]string{".signalbox/p/nonsense.md": "x"}, want: "nonsense",
			hint: "oracle.prompts"},
		"words": {settings: local + "oracle: {words: w.txt}",
			files: map[string]string{".signalbox/w.txt": "code x y"}, want: "line 1",
			hint: "oracle.words"},
		"tree": {settings: local + "oracle: {tree: t.lua}",
			files: map[string]string{".signalbox/t.lua": "return 1"}, want: "t.lua"},
		"sub-agent": {settings: local + "oracle: {subagents: {r: {tree: t.lua}}}",
			files: map[string]string{".signalbox/t.lua": "return 1"},
			want:  "sub-agent 'r'"},
	} {
		t.Run(name, func(t *testing.T) {
			files := test.files
			if files == nil {
				files = map[string]string{}
			}
			_, err := opened(t, test.settings, "", test.edit, files)
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Fatalf("error %v, want %q", err, test.want)
			}
			if classed := (*signalbox.Error)(nil); test.hint != "" &&
				(!errors.As(err, &classed) || !strings.Contains(classed.Hint, test.hint)) {
				t.Errorf("hint %q, want %q", classed.Hint, test.hint)
			}
		})
	}
}

// TestReplacements asks a question with everything replaced that the configuration can replace.
func TestReplacements(t *testing.T) {
	script := `{"conversations": [{"match": {"system": "Answer like a pirate"}, "turns": [{"parts": [{"text": "Arr."}]}]}]}`
	files := map[string]string{
		".signalbox/p/identity.md": "Answer like a pirate.",
		".signalbox/t.lua": `return BT.tree("mine", {root = BT.sequence({
			BT.llm_call("think", {}), BT.action("bye", {fn = "say", args = {text = "Bye."}})})})`,
	}
	s, err := opened(t, "models: {main: {provider: anthropic, model: m, base_url: 'MODEL'}}\noracle: {prompts: p, tree: t.lua}", script, nil, files)
	must.Succeed(t, err)
	record, err := session.Create(t.TempDir(), "O-1")
	must.Succeed(t, err)
	defer record.Close()
	said := map[int]string{} // by turn; text of the tree has turn 0
	answer, err := s.Ask(t.Context(), record, "Where are you?", func(c chunk.Chunk) error {
		if text, ok := c.(chunk.Content); ok {
			said[text.Turn] += text.Text
		}
		return nil
	})
	if err != nil || answer.Error != nil || answer.Text != "Arr.\nBye." || said[1] != "Arr." ||
		said[0] != "Bye." || answer.Done.Reason != "tree_ended" {
		t.Errorf("said %v, %+v, %v", said, answer, err)
	}
}

// TestAgent checks that an agent in a crew gets its identity and every tool, even if its task looks
// like small talk.
func TestAgent(t *testing.T) {
	script := `{"conversations": [{"match": {"system": "agent in a crew", "tool": "^read_file$"}, "turns": [{"parts": [{"text": "READY"}]}]}]}`
	s, err := opened(t, "models: {main: {provider: openai, model: m, base_url: 'MODEL/v1', tries: 1}}", script, func(o *setup.Options) { o.Agent = true }, map[string]string{})
	must.Succeed(t, err)
	record, err := session.Create(t.TempDir(), "A-1")
	must.Succeed(t, err)
	defer record.Close()
	answer, err := s.Ask(t.Context(), record, "thanks", func(chunk.Chunk) error { return nil })
	if err != nil || answer.Error != nil || answer.Text != "READY" {
		t.Errorf("%+v %+v, %v", answer, answer.Error, err)
	}
}

// TestSettingsOfRequests checks that the temperature of a tree's model call and the name of the
// token limit reach the server.
func TestSettingsOfRequests(t *testing.T) {
	bodies := make(chan string, 1)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body) // checked below
		bodies <- string(body)
		w.WriteHeader(http.StatusBadRequest)
	}))
	defer server.Close()
	files := map[string]string{".signalbox/t.lua": `return BT.tree("mine", {root = BT.llm_call("think", {temperature = 0.25})})`}
	s, err := opened(t, "models: {main: {provider: openai, model: m, base_url: '"+server.URL+
		"/v1', max_tokens: 99, max_tokens_name: max_completion_tokens}}\noracle: {tree: t.lua}",
		"", nil, files)
	must.Succeed(t, err)
	record, err := session.Create(t.TempDir(), "O-1")
	must.Succeed(t, err)
	defer record.Close()
	if _, err := s.Ask(t.Context(), record, "Where are you?",
		func(chunk.Chunk) error { return nil }); err != nil {
		t.Fatal(err)
	}
	body := <-bodies
	if !strings.Contains(body, `"temperature":0.25,`) ||
		!strings.Contains(body, `"max_completion_tokens":99,`) ||
		strings.Contains(body, `"max_tokens"`) {
		t.Errorf("request %s", body)
	}
}
