package contain

import (
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"signalbox/internal/config"
	"signalbox/internal/testkit/must"
)

func TestMissingLogin(t *testing.T) {
	if runtime.GOOS == "darwin" {
		t.Skip("the login may be in the keychain")
	}
	home := t.TempDir()
	write := func(name, text string) {
		t.Helper()
		name = filepath.Join(home, name)
		must.Succeed(t, os.MkdirAll(filepath.Dir(name), 0o700))
		must.Succeed(t, os.WriteFile(name, []byte(text), 0o600))
	}
	claude := config.Agent{Preset: config.PresetClaude}
	h := Host{Home: home}
	if got := h.MissingLogin(
		claude); got != "run claude once and log in, or set ANTHROPIC_API_KEY" {
		t.Errorf("without a login: %q", got)
	}
	for name, agent := range map[string]config.Agent{
		"a command":      {Command: []string{"x"}},
		"another server": {Preset: config.PresetClaude, BaseURL: "http://127.0.0.1:1"},
		"its own key": {Preset: config.PresetClaude,
			Env: map[string]string{"ANTHROPIC_API_KEY": "x"}},
		"opencode": {Preset: config.PresetOpencode},
	} {
		if got := h.MissingLogin(agent); got != "" {
			t.Errorf("%s: %q", name, got)
		}
	}
	if got := (Host{Home: home, Environ: []string{"CLAUDE_CODE_OAUTH_TOKEN=x"}}).MissingLogin(
		claude); got != "" {
		t.Errorf("with a token: %q", got)
	}
	write(".claude/settings.json", `{"model": "x"}`)
	write(".codex/config.toml", `env_key = "MINE"`)
	if got := h.MissingLogin(claude); got == "" {
		t.Error("settings are not a login")
	}
	if got := h.MissingLogin(config.Agent{Preset: config.PresetCodex}); got != "" {
		t.Errorf("with a key in the settings: %q", got)
	}
	write(".claude/.credentials.json", `{}`)
	if got := h.MissingLogin(claude); got != "" {
		t.Errorf("with a login: %q", got)
	}
}
