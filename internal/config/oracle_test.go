package config

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"signalbox"
	"signalbox/internal/testkit/must"
)

func TestModels(t *testing.T) {
	c := mustParse(t, `
models:
  claude: {provider: anthropic, model: claude-x}
  local:
    provider: openai
    model: 3.10
    base_url: http://127.0.0.1:11434/v1
    key_env: LOCAL_KEY
    max_tokens: 4_096
    timeout: 30s
    tries: 1
    price: {input: 0, output: 15.000001}
oracle: {model: local}
`)
	want := map[string]Model{
		"claude": {Provider: ProviderAnthropic, Model: "claude-x", KeyEnv: "ANTHROPIC_API_KEY",
			MaxTokens: 8192, Timeout: 2 * time.Minute, Tries: 5},
		"local": {Provider: ProviderOpenAI, Model: "3.10", BaseURL: "http://127.0.0.1:11434/v1",
			KeyEnv: "LOCAL_KEY", MaxTokens: 4096,
			Timeout: 30 * time.Second, Tries: 1, Price: &Price{OutputMicros: 15_000_001}},
	}
	if diff := cmp.Diff(want, c.Models); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	// the longest valid name
	mustParse(t, "oracle: {servers: {abcdefghijklmnopqrstuvwxyz-01234: {command: [x]}}}")
	if got := mustParse(t,
		"models: {a: {provider: openai, model: m}}").Models["a"].KeyEnv; got != "OPENAI_API_KEY" {
		t.Errorf("key_env %q", got)
	}
}

// TestReferenceModelDefaults checks the defaults of models in the reference.
func TestReferenceModelDefaults(t *testing.T) {
	for name, standard := range map[string]string{
		"max_tokens": fmt.Sprint(DefaultMaxTokens), "timeout": short(DefaultModelTimeout),
		"tries": fmt.Sprint(DefaultTries),
	} {
		if row := "| `models.NAME." + name + "` | `" + standard +
			"` |"; !strings.Contains(document(t), row) {
			t.Errorf("no row %s", row)
		}
	}
}

func TestOracle(t *testing.T) {
	c := mustParse(t, `
oracle:
  limits: {tokens: 200_000, cost: 1.50, time: 10m}
  tool_timeout: 30s
  servers:
    files: {command: [npx, -y, 1.10], env: {A: "${A}$B"}, tools: [read, 2], limits: {tools: 7}, timeout: 5s}
    wiki: {url: https://example.org/mcp, headers: {Authorization: "Bearer ${TOKEN}"}}
  tools:
    bare: {command: make, description: makes}
    full:
      command: go test $PACKAGE
      description: tests
      parameters:
        type: object
        properties:
          package: {type: string, default: "1.10", maxLength: 1e2}
        required: [package]
      read_only: true
      timeout: 1h
  subagents:
    reviewer: {tree: reviewer.lua, description: reads}
  workarounds: {web search: use the notes}
`)
	want := Oracle{
		Limits: OracleLimits{Turns: 30, Tokens: 200_000, CostMicros: 1_500_000,
			Time: 10 * time.Minute},
		ToolTimeout: 30 * time.Second,
		Servers: map[string]Server{
			"files": {Command: []string{"npx", "-y", "1.10"}, Env: map[string]string{"A": "${A}$B"},
				Tools: []string{"read", "2"}, Limits: ServerLimits{7, 2048, 16384, 65536},
				Timeout: 5 * time.Second},
			"wiki": {URL: "https://example.org/mcp",
				Headers: map[string]string{"Authorization": "Bearer ${TOKEN}"},
				Limits:  ServerLimits{100, 2048, 16384, 65536}, Timeout: 30 * time.Second},
		},
		Tools: map[string]CommandTool{
			"bare": {Command: "make", Description: "makes",
				Parameters: json.RawMessage(`{"type":"object","properties":{}}`),
				Timeout:    30 * time.Second},
			"full": {Command: "go test $PACKAGE", Description: "tests", ReadOnly: true,
				Timeout: time.Hour, Parameters: json.RawMessage(
					`{"type":"object","properties":{"package":{"type":"string","default":"1.10","maxLength":1e2}},"required":["package"]}`)},
		},
		Subagents:   map[string]Subagent{"reviewer": {Tree: "reviewer.lua", Description: "reads"}},
		Workarounds: map[string]string{"web search": "use the notes"},
	}
	if diff := cmp.Diff(want, c.Oracle); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestAgentTree(t *testing.T) {
	c := mustParse(t, `
models: {main: {provider: openai, model: m}}
oracle: {tools: {write: {command: w, description: d}}, servers: {files: {command: [f]}}}
agents:
  careful: {tree: critic.lua, env: {A: b}}
  named: {tree: critic.lua, model: main, tools: [write, search_notes, files__*, files__read]}
  through: {preset: claude, base_url: http://127.0.0.1:8080}
`)
	want := map[string]Agent{
		"careful": {Tree: "critic.lua", Env: map[string]string{"A": "b"}},
		"named": {Tree: "critic.lua", Model: "main", Tools: []string{"write", "search_notes",
			"files__*", "files__read"}},
		"through": {Preset: PresetClaude, BaseURL: "http://127.0.0.1:8080"},
	}
	if diff := cmp.Diff(want, c.Agents); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestOracleModel(t *testing.T) {
	one := mustParse(t, "models: {main: {provider: openai, model: m}}")
	two := mustParse(t, "models: {main: {provider: openai, model: m}, small: {provider: anthropic, model: s}}\noracle: {model: small}")
	unnamed := mustParse(t,
		"models: {main: {provider: openai, model: m}, small: {provider: anthropic, model: s}}\nagents: {a: {tree: a.lua, model: small}}")
	for _, tt := range []struct {
		config            *Config
		name, want, model string
		fault, hint       string
	}{
		{config: one, want: "main", model: "m"},
		{config: one, name: "main", want: "main", model: "m"},
		{config: one, name: "mian", fault: `there is no model "mian"`, hint: "did you mean main?"},
		{config: two, want: "small", model: "s"},
		{config: two, name: "main", want: "main", model: "m"},
		{config: two, name: "zzz", fault: `there is no model "zzz"`,
			hint: "add it under models, or use one of main, small"},
		{config: two, name: "zzz\nzzz", fault: `there is no model "zzz\nzzz"`,
			hint: "add it under models, or use one of main, small"},
		{config: unnamed, name: "small", want: "small", model: "s"},
		{config: unnamed, fault: "there are 2 models, and oracle.model does not name one",
			hint: "add oracle: {model: main} to signalbox.yaml, or use --model; the models are main, small"},
		{config: Default(), fault: "no model is configured",
			hint: "add models: {main: {provider: openai, model: gpt-5}} to signalbox.yaml and set OPENAI_API_KEY; " +
				"for a local server, set base_url instead, such as http://127.0.0.1:11434/v1"},
	} {
		name, model, err := tt.config.OracleModel(tt.name)
		if tt.fault == "" {
			if err != nil || name != tt.want || model.Model != tt.model ||
				model.MaxTokens != DefaultMaxTokens {
				t.Errorf("%q: %s, %+v, %v, want %s", tt.name, name, model, err, tt.want)
			}
			continue
		}
		wrong := (*signalbox.Error)(nil)
		if !errors.As(err, &wrong) || wrong.Error() != tt.fault || wrong.Hint != tt.hint ||
			wrong.Code != signalbox.CodeUsage {
			t.Errorf("%q: %v, %+v, want %s", tt.name, err, wrong, tt.fault)
		}
	}
	// The example in the hint is a valid configuration.
	example := strings.TrimPrefix(strings.Split(mustFail(t, Default()).Hint,
		" to signalbox.yaml")[0], "add ")
	if name, _, err := mustParse(t, example).OracleModel(""); err != nil || name != "main" {
		t.Errorf("%s: %s, %v", example, name, err)
	}
}

func mustFail(t *testing.T, c *Config) *signalbox.Error {
	t.Helper()
	_, _, err := c.OracleModel("")
	wrong := (*signalbox.Error)(nil)
	if !errors.As(err, &wrong) {
		t.Fatalf("error %v", err)
	}
	return wrong
}

// TestKeysAreNotRepeated checks that errors do not contain what may be a key.
func TestKeysAreNotRepeated(t *testing.T) {
	for _, key := range []string{"sk-proj-a1B2c3D4e5", "sk_live_a1B2c3D4e5", "gsk_a1B2c3D4e5",
		"hf_a1B2c3D4e5", "xai-a1B2c3D4e5", "AIzaSyA1B2c3D4e5",
		"Bearer a1B2c3D4e5", "a1B2c3D4e5f6g7H8i9J0k1L2m3", "0123456789abcdef0123456789abcdef",
		"a1B2c3D4e5 and more", "a1B2c3D4e5==", "2ND_KEY"} {
		_, err := Parse([]byte("models: {main: {provider: openai, model: m, key_env: \"" + key +
			"\"}}"))
		wrong := (*signalbox.Error)(nil)
		if !errors.As(err, &wrong) || strings.Contains(strings.ToLower(wrong.Error()+wrong.Hint),
			"a1b2c3") || strings.Contains(wrong.Error(), "0123456789") {
			t.Errorf("%s: %v", key, err)
		}
	}
	for _, name := range []string{"OPENAI_API_KEY", "_", "my_key2",
		"COMPANY_2_GATEWAY_EUROPE_WEST_API_KEY", "the_gateway_of_team_2_in_europe"} {
		mustParse(t, "models: {main: {provider: openai, model: m, key_env: "+name+"}}")
	}
}

func TestServerResolved(t *testing.T) {
	environment := map[string]string{"TOKEN": "t", "EMPTY": "", "NESTED": "${TOKEN}"}
	lookup := func(name string) (string, bool) { value, ok := environment[name]; return value, ok }
	s := Server{Command: []string{"${TOKEN}"}, Env: map[string]string{"A": "${TOKEN}-${EMPTY}-$TOKEN-$-${NESTED}", "B": ""}}
	got, err := s.Resolved(lookup)
	want := Server{Command: []string{"${TOKEN}"},
		Env: map[string]string{"A": "t--$TOKEN-$-${TOKEN}", "B": ""}}
	if diff := cmp.Diff(want, got); err != nil || diff != "" {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
	if s.Env["A"] != "${TOKEN}-${EMPTY}-$TOKEN-$-${NESTED}" {
		t.Errorf("the receiver changed: %v", s.Env)
	}
	for want, s := range map[string]Server{
		"env.A: the environment variable GONE is not set":                 {Env: map[string]string{"A": "x${GONE}"}},
		"headers.Authorization: the environment variable GONE is not set": {Headers: map[string]string{"Authorization": "${TOKEN} ${GONE}"}},
	} {
		_, err := s.Resolved(lookup)
		wrong := (*signalbox.Error)(nil)
		if !errors.As(err, &wrong) || err.Error() != want ||
			wrong.Hint != "set GONE before you start signalbox" {
			t.Errorf("%v, %+v, want %s", err, wrong, want)
		}
	}
}

// TestLoadOracleFiles checks each path, first without and then with the file.
func TestLoadOracleFiles(t *testing.T) {
	project := t.TempDir()
	box := filepath.Join(project, ".signalbox")
	must.Succeed(t, os.Mkdir(box, 0o700))
	const models = "models: {main: {provider: openai, model: m}}\n"
	for _, tt := range []struct {
		name, text string
		from       string
		folder     bool
		get        func(*Config) string
	}{
		{"agents.a.tree", "agents: {a: {tree: %s}}", box, false,
			func(c *Config) string { return c.Agents["a"].Tree }},
		{"oracle.tree", "oracle: {tree: %s}", box, false,
			func(c *Config) string { return c.Oracle.Tree }},
		{"oracle.words", "oracle: {words: %s}", box, false,
			func(c *Config) string { return c.Oracle.Words }},
		{"oracle.subagents.a.tree", "oracle: {subagents: {a: {tree: %s}}}", box, false,
			func(c *Config) string { return c.Oracle.Subagents["a"].Tree }},
		{"oracle.prompts", "oracle: {prompts: %s}", box, true,
			func(c *Config) string { return c.Oracle.Prompts }},
		{"oracle.code", "oracle: {code: %s}", project, true,
			func(c *Config) string { return c.Oracle.Code }},
		{"oracle.notes", "oracle: {notes: %s}", project, true,
			func(c *Config) string { return c.Oracle.Notes }},
		{"oracle.portfolio", "oracle: {portfolio: %s}", project, true,
			func(c *Config) string { return c.Oracle.Portfolio }},
	} {
		text := models + fmt.Sprintf(tt.text, "of-"+tt.name) + "\n"
		must.Succeed(t, os.WriteFile(filepath.Join(box, FileName), []byte(text), 0o600))
		want := filepath.Join(tt.from, "of-"+tt.name)
		other, make, kind := os.Mkdir, writeEmpty, "file"
		if tt.folder {
			other, make, kind = writeEmpty, os.Mkdir, "folder"
		}
		missing := fmt.Sprintf(": %s: there is no %s %s", tt.name, kind, want)
		if _, err := Load(box); err == nil || !strings.Contains(err.Error(), ": line 2, column ") ||
			!strings.HasSuffix(err.Error(), missing) {
			t.Errorf("%s is missing: %v", tt.name, err)
		}
		must.Succeed(t, other(want, 0o700))
		if _, err := Load(box); err == nil || !strings.HasSuffix(err.Error(), missing) {
			t.Errorf("%s is not a %s: %v", tt.name, kind, err)
		}
		must.Succeed(t, errors.Join(os.Remove(want), make(want, 0o700)))
		if tt.name == "oracle.portfolio" {
			missing := ": oracle.portfolio: there is no portfolio.yaml in " + want
			if _, err := Load(box); err == nil || !strings.HasSuffix(err.Error(), missing) {
				t.Errorf("no portfolio.yaml: %v", err)
			}
			must.Succeed(t, writeEmpty(filepath.Join(want, PortfolioFile), 0o600))
		}
		if c, err := Load(box); err != nil || tt.get(c) != want {
			t.Errorf("%s: %v, %+v", tt.name, err, c)
		}
	}
	t.Chdir(box)
	must.Succeed(t, os.WriteFile(FileName, []byte("oracle: {code: of-oracle.code}\n"),
		0o600))
	if c, err := Load("."); err != nil || c.Oracle.Code != filepath.Join("..", "of-oracle.code") {
		t.Errorf("in the folder of the box: %v, %+v", err, c)
	}
}

func writeEmpty(name string, mode os.FileMode) error { return os.WriteFile(name, nil, mode) }
