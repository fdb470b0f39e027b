package agent

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"signalbox/internal/testkit/must"
)

func TestPresets(t *testing.T) {
	want := map[string]string{
		"claude": "claude -p --output-format stream-json --verbose --permission-mode bypassPermissions --model M",
		"codex": "codex exec --json --skip-git-repo-check --dangerously-bypass-approvals-and-sandbox -c analytics.enabled=false " +
			"-c check_for_update_on_startup=false -m M -",
		"gemini":   "gemini --output-format stream-json --yolo --skip-trust -m M",
		"opencode": "opencode run --format json -m M",
	}
	for _, name := range Presets() {
		c, ok := Preset(name)
		if !ok {
			t.Fatalf("there is no preset %s", name)
		}
		with := build(t, c, Values{Prompt: []byte("do it"), Model: "M"})
		without := build(t, c, Values{})
		if got := strings.Join(with.Argv, " "); got != want[name] {
			t.Errorf("%s: %s", name, got)
		}
		plain := strings.NewReplacer(" --model M", "", " -m M", "").Replace(want[name])
		if got := strings.Join(without.Argv, " "); got != plain {
			t.Errorf("%s without a model: %s", name, got)
		}
		if string(with.Stdin) != "do it" || without.Stdin == nil || with.Interactive {
			t.Errorf("%s: input %q and %v", name, with.Stdin, without.Stdin)
		}
		if string(c.Format) != name || c.Linger == 0 || InstallCommand(name) == "" {
			t.Errorf("%s: %+v", name, c)
		}
		// Without a base URL nothing about servers is set.
		same, err := PresetAt(name, "", "M")
		if diff := cmp.Diff(c, same); diff != "" || err != nil {
			t.Errorf("%s without a server: %v\n%s", name, err, diff)
		}
	}
	if _, ok := Preset("gone"); ok || len(want) != len(Presets()) {
		t.Error("there is a preset called gone")
	}
	if _, err := PresetAt("gone", "http://127.0.0.1:1", ""); err == nil {
		t.Error("there is a preset called gone")
	}
}

// noKeys unsets all API keys and sets the home folder to one of the test.
func noKeys(t *testing.T) {
	t.Helper()
	for _, name := range []string{"ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "OPENAI_API_KEY",
		"GEMINI_API_KEY"} {
		t.Setenv(name, "")
	}
	home := t.TempDir()
	for _, name := range []string{"HOME", "XDG_CACHE_HOME", "LocalAppData"} {
		t.Setenv(name, home)
	}
}

func TestPresetsAtAnotherServer(t *testing.T) {
	noKeys(t)
	cache, err := os.UserCacheDir()
	must.Succeed(t, err)
	const server = "http://127.0.0.1:7/v1"
	for name, want := range map[string]struct {
		argv string
		env  map[string]string
	}{
		"claude": {"claude -p --output-format stream-json --verbose --permission-mode bypassPermissions --model M",
			map[string]string{"CLAUDECODE": "", "DISABLE_TELEMETRY": "1",
				"DISABLE_ERROR_REPORTING": "1", "DISABLE_AUTOUPDATER": "1",
				"CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1", "ANTHROPIC_BASE_URL": server,
				"ANTHROPIC_API_KEY": "none"}},
		"codex": {"codex exec --json --skip-git-repo-check --dangerously-bypass-approvals-and-sandbox -c analytics.enabled=false " +
			"-c check_for_update_on_startup=false -c model_provider=signalbox -c " +
			`model_providers.signalbox={name="signalbox",base_url="http://127.0.0.1:7/v1",wire_api="responses",env_key="OPENAI_API_KEY"} ` +
			"-c features.plugins=false -m M -",
			map[string]string{"OPENAI_API_KEY": "none"}},
		"gemini": {"gemini --output-format stream-json --yolo --skip-trust -m M",
			map[string]string{"GEMINI_TELEMETRY_ENABLED": "false", "GOOGLE_GEMINI_BASE_URL": server,
				"GEMINI_API_KEY":  "none",
				"GEMINI_CLI_HOME": filepath.Join(cache, "signalbox", "gemini")}},
		"opencode": {"opencode run --format json -m signalbox/M",
			map[string]string{"OPENCODE_DISABLE_AUTOUPDATE": "1",
				"OPENCODE_DISABLE_MODELS_FETCH": "1", "OPENCODE_DISABLE_DEFAULT_PLUGINS": "1",
				"OPENAI_API_KEY": "none", "OPENCODE_CONFIG_CONTENT": opencodeConfig(server, "M")}},
	} {
		c, err := PresetAt(name, server, "M")
		must.Succeed(t, err)
		if got := strings.Join(build(t, c, Values{Model: "M"}).Argv, " "); got != want.argv {
			t.Errorf("%s: %s", name, got)
		}
		if diff := cmp.Diff(want.env, c.Env); diff != "" {
			t.Errorf("%s: environment (-want +got):\n%s", name, diff)
		}
	}
}

func TestPresetAtKeepsTheUsersKeys(t *testing.T) {
	noKeys(t)
	for _, name := range []string{"ANTHROPIC_AUTH_TOKEN", "OPENAI_API_KEY", "GEMINI_API_KEY"} {
		t.Setenv(name, "mine")
	}
	for _, name := range Presets() {
		c, err := PresetAt(name, "http://127.0.0.1:7", "M")
		must.Succeed(t, err)
		for _, variable := range []string{"ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN",
			"OPENAI_API_KEY", "GEMINI_API_KEY"} {
			if value, set := c.Env[variable]; set {
				t.Errorf("%s: %s replaces the user's key with %q", name, variable, value)
			}
		}
	}
}

func TestOpencodeConfig(t *testing.T) {
	var config struct {
		Model      string `json:"model"`
		SmallModel string `json:"small_model"`
		Provider   map[string]struct {
			Options map[string]string
			Models  map[string]any
		}
	}
	// The name of a model may contain a slash, and a quote is escaped.
	const model = `org/a"b`
	c, err := PresetAt("opencode", "http://127.0.0.1:7/v1", model)
	must.Succeed(t, err)
	must.Succeed(t, json.Unmarshal([]byte(c.Env["OPENCODE_CONFIG_CONTENT"]), &config))
	provider := config.Provider["signalbox"]
	if config.Model != "signalbox/"+model || config.SmallModel != config.Model ||
		provider.Models[model] == nil ||
		provider.Options["baseURL"] != "http://127.0.0.1:7/v1" {
		t.Errorf("%+v", config)
	}
	// A model is required.
	c, _ = PresetAt("opencode", "http://127.0.0.1:7/v1", "")
	if got := strings.Join(build(t, c, Values{}).Argv,
		" "); got != "opencode run --format json -m signalbox/default" {
		t.Error(got)
	}
}

func TestGeminiHome(t *testing.T) {
	noKeys(t)
	c, err := PresetAt("gemini", "http://127.0.0.1:7", "")
	must.Succeed(t, err)
	name := filepath.Join(c.Env["GEMINI_CLI_HOME"], ".gemini", "settings.json")
	check := func() {
		t.Helper()
		var settings struct {
			Security struct{ Auth struct{ SelectedType string } }
			Privacy  struct{ UsageStatisticsEnabled *bool }
		}
		text, err := os.ReadFile(name)
		if err == nil {
			err = json.Unmarshal(text, &settings)
		}
		if err != nil || settings.Security.Auth.SelectedType != "gemini-api-key" ||
			settings.Privacy.UsageStatisticsEnabled == nil ||
			*settings.Privacy.UsageStatisticsEnabled {
			t.Errorf("%v: %s", err, text)
		}
	}
	check()
	before, err := os.Stat(name)
	must.Succeed(t, err)
	// Correct settings are not written again; others are replaced.
	if _, err := PresetAt("gemini", "http://127.0.0.1:7", ""); err != nil {
		t.Fatal(err)
	}
	if after, err := os.Stat(name); err != nil || !os.SameFile(before, after) {
		t.Errorf("written again: %v", err)
	}
	must.Succeed(t, os.WriteFile(name, []byte("{}"), 0o600))
	if _, err := PresetAt("gemini", "http://127.0.0.1:7", ""); err != nil {
		t.Fatal(err)
	}
	check()
	// If the settings cannot be written, the rest of the command is still valid.
	must.Succeed(t, os.RemoveAll(c.Env["GEMINI_CLI_HOME"]))
	must.Succeed(t, os.WriteFile(c.Env["GEMINI_CLI_HOME"], nil, 0o600))
	c, err = PresetAt("gemini", "http://127.0.0.1:7", "")
	if err == nil || c.Env["GOOGLE_GEMINI_BASE_URL"] == "" {
		t.Errorf("%v, %+v", err, c)
	}
}

func TestPresetsResume(t *testing.T) {
	for name, want := range map[string]string{
		"claude": "claude -p --output-format stream-json --verbose --permission-mode bypassPermissions --model M --resume 0191-a",
		"codex": "codex exec --json --skip-git-repo-check --dangerously-bypass-approvals-and-sandbox -c analytics.enabled=false " +
			"-c check_for_update_on_startup=false -m M resume 0191-a -",
		"gemini":   "gemini --output-format stream-json --yolo --skip-trust -m M --resume 0191-a",
		"opencode": "opencode run --format json -m M --session 0191-a",
	} {
		c, _ := Preset(name)
		if got := strings.Join(build(t, c,
			Values{Model: "M", Session: "w-1.1", Resume: "0191-a"}).Argv, " "); got != want {
			t.Errorf("%s: %s", name, got)
		}
		c.Resume = nil
		if got := strings.Join(build(t, c, Values{Model: "M", Resume: "0191-a"}).Argv,
			" "); strings.Contains(got, "0191-a") {
			t.Errorf("%s that cannot resume: %s", name, got)
		}
	}
	own := Command{Argv: []string{"mine", "{session}"}, Resume: []string{"--session={session}"}}
	if got := strings.Join(build(t, own, Values{Session: "w-1.1", Resume: "s-1"}).Argv,
		" "); got != "mine w-1.1 --session=s-1" {
		t.Errorf("a command: %s", got)
	}
}
