package contain

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"runtime"

	"signalbox/internal/config"
	"signalbox/internal/durable"
	"signalbox/internal/process"
)

// loginVariables are the variables with which the program of a preset needs no login.
var loginVariables = map[string][]string{
	config.PresetClaude: {"ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "CLAUDE_CODE_OAUTH_TOKEN",
		"CLAUDE_CODE_USE_BEDROCK", "CLAUDE_CODE_USE_VERTEX", "CLAUDE_CODE_USE_FOUNDRY"},
	config.PresetCodex: {"OPENAI_API_KEY", "CODEX_API_KEY"},
	config.PresetGemini: {"GEMINI_API_KEY", "GOOGLE_API_KEY", "GOOGLE_APPLICATION_CREDENTIALS",
		"GOOGLE_GENAI_USE_VERTEXAI", "GOOGLE_GENAI_USE_GCA"},
}

// MissingLogin returns what to do if the program of a preset has neither a login nor a key, as far
// as that can be seen. Empty means that it may have one: only the program itself knows.
func (h Host) MissingLogin(a config.Agent) string {
	variables := loginVariables[a.Preset]
	// on macOS the login may be in the keychain
	if len(variables) == 0 || a.BaseURL != "" || runtime.GOOS == "darwin" {
		return ""
	}
	for _, name := range variables {
		if process.Getenv(h.Environ, name) != "" || a.Env[name] != "" {
			return ""
		}
	}
	for _, p := range presets[a.Preset] {
		folder := p.folderOf(h.Home, h.Environ)
		for _, name := range p.logins {
			if info, err := os.Stat(filepath.Join(folder, name)); err == nil && info.Size() > 0 {
				return ""
			}
		}
		for _, name := range p.settings { // they may name a program or a variable that has a key
			text, err := durable.ReadRegular(filepath.Join(folder, name), maxSettings)
			if err == nil && filepath.Ext(name) != ".md" &&
				bytes.Contains(bytes.ToLower(text), []byte("key")) {
				return ""
			}
		}
	}
	return fmt.Sprintf("run %s once and log in, or set %s", a.Preset, variables[0])
}
