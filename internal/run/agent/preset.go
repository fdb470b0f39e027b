package agent

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	"signalbox"
	"signalbox/internal/durable"
)

// linger is ample for a program to end after its last word, and short for those that hang there.
const linger = 15 * time.Second

// Preset returns the command of a known agent program: without questions, since nobody is there to answer them, without
// telemetry and checks for updates, since a run is no place for them, and with its prompt on standard input, which has no limit
// of length. The user's settings and login of these programs apply.
func Preset(name string) (Command, bool) {
	c := Command{Prompt: DeliverStdin, Linger: linger}
	switch name {
	case "claude":
		c.Argv = []string{"claude", "-p", "--output-format", "stream-json", "--verbose", "--permission-mode", "bypassPermissions",
			"--model", "{model}"}
		c.Format = signalbox.FormatClaude
		// It refuses to run inside another of its sessions, and signalbox may have been started from one.
		c.Env = map[string]string{"CLAUDECODE": "", "DISABLE_TELEMETRY": "1", "DISABLE_ERROR_REPORTING": "1", "DISABLE_AUTOUPDATER": "1"}
	case "codex":
		c.Argv = []string{"codex", "exec", "--json", "--skip-git-repo-check", "--dangerously-bypass-approvals-and-sandbox",
			"-c", "analytics.enabled=false", "-c", "check_for_update_on_startup=false", "-m", "{model}", "-"}
		c.Format = signalbox.FormatCodex
	case "gemini":
		c.Argv = []string{"gemini", "--output-format", "stream-json", "--yolo", "--skip-trust", "-m", "{model}"}
		c.Format = signalbox.FormatGemini
		// Its usage statistics can be turned off in its settings only. Without a terminal it does not look for updates.
		c.Env = map[string]string{"GEMINI_TELEMETRY_ENABLED": "false"}
	case "opencode":
		// It takes its message from standard input if that is no terminal. As an argument it would put it in quotes.
		c.Argv = []string{"opencode", "run", "--format", "json", "-m", "{model}"}
		c.Format = signalbox.FormatOpencode
		c.Env = map[string]string{"OPENCODE_DISABLE_AUTOUPDATE": "1"} // it has no telemetry
	default:
		return Command{}, false
	}
	return c, true
}

// PresetAt is Preset for a program that talks to the server at baseURL, in the form that docs/agents.md says for each, and
// to no other. The model is named here since some have to be told of it beforehand. An empty baseURL changes nothing.
//
// Keys are those of the environment, under the names that each program's users know; without one a word goes in
// its place, because the programs do not start without. A login that the program keeps is not used: it is for another server.
//
// The command is right also if there is an error, but for the settings that could not be written.
func PresetAt(name, baseURL, model string) (Command, error) {
	c, ok := Preset(name)
	if !ok {
		return c, fmt.Errorf("%q is no known agent program", name)
	}
	if baseURL == "" {
		return c, nil
	}
	switch name {
	case "claude":
		c.Env["ANTHROPIC_BASE_URL"] = baseURL
		c.Env["CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC"] = "1"
		if os.Getenv("ANTHROPIC_AUTH_TOKEN") == "" {
			c.needKey("ANTHROPIC_API_KEY")
		}
	case "codex":
		provider := fmt.Sprintf(`{name="signalbox",base_url=%s,wire_api="responses",env_key="OPENAI_API_KEY"}`, strconv.Quote(baseURL))
		// It fetches a list of plugins from its maker's server before it ends, and waits for it.
		c.Argv = slices.Insert(c.Argv, slices.Index(c.Argv, "-m"), "-c", "model_provider=signalbox", "-c", "model_providers.signalbox="+provider,
			"-c", "features.plugins=false")
		c.needKey("OPENAI_API_KEY")
	case "gemini":
		c.Env["GOOGLE_GEMINI_BASE_URL"] = baseURL
		c.needKey("GEMINI_API_KEY")
		home, err := geminiHome()
		c.Env["GEMINI_CLI_HOME"] = home
		return c, err
	case "opencode":
		if model == "" {
			model = "default"
		}
		c.Argv = append(slices.Clone(c.Argv[:slices.Index(c.Argv, "-m")]), "-m", opencodeProvider+"/"+model)
		c.Env["OPENCODE_CONFIG_CONTENT"] = opencodeConfig(baseURL, model)
		c.Env["OPENCODE_DISABLE_MODELS_FETCH"] = "1"
		c.Env["OPENCODE_DISABLE_DEFAULT_PLUGINS"] = "1"
		c.needKey("OPENAI_API_KEY")
	}
	return c, nil
}

// needKey puts a word where a key belongs if the environment has none. The configuration's env comes after it.
func (c *Command) needKey(variable string) {
	if os.Getenv(variable) != "" {
		return
	}
	if c.Env == nil {
		c.Env = map[string]string{}
	}
	c.Env[variable] = "none"
}

// opencodeProvider is what the server is called in the settings that opencode is given.
const opencodeProvider = "signalbox"

// opencodeConfig is laid over the user's settings by opencode. Titles of sessions, too, come from this server.
func opencodeConfig(baseURL, model string) string {
	type object = map[string]any
	text, err := json.Marshal(object{
		"model": opencodeProvider + "/" + model, "small_model": opencodeProvider + "/" + model, "autoupdate": false, "share": "disabled",
		"provider": object{opencodeProvider: object{
			"npm": "@ai-sdk/openai-compatible", "name": opencodeProvider,
			"options": object{"baseURL": baseURL, "apiKey": "{env:OPENAI_API_KEY}"},
			"models":  object{model: object{"name": model}},
		}},
	})
	if err != nil {
		panic(err) // it is made of texts
	}
	return string(text)
}

// geminiSettings say that it uses a key: if it is told of another server and not how to log in there, it refuses to start,
// and no flag or variable tells it.
const geminiSettings = `{
  "security": {"auth": {"selectedType": "gemini-api-key"}},
  "privacy": {"usageStatisticsEnabled": false},
  "telemetry": {"enabled": false},
  "general": {"enableAutoUpdate": false, "enableAutoUpdateNotification": false}
}
`

// geminiHome makes a home in which gemini finds its settings. They can be nowhere else: the user's are the user's, and
// those for the whole machine count only if root owns every folder above them.
func geminiHome() (string, error) {
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", fmt.Errorf("find a place for gemini's settings: %w", err)
	}
	home := filepath.Join(cache, "signalbox", "gemini")
	name := filepath.Join(home, ".gemini", "settings.json")
	if text, err := os.ReadFile(name); err == nil && bytes.Equal(text, []byte(geminiSettings)) {
		return home, nil
	}
	if err := os.MkdirAll(filepath.Dir(name), 0o700); err != nil {
		return home, fmt.Errorf("write gemini's settings: %w", err)
	}
	if err := durable.Replace(name, []byte(geminiSettings), 0o600); err != nil {
		return home, fmt.Errorf("write gemini's settings: %w", err)
	}
	return home, nil
}

// Presets returns the names of the known agent programs.
func Presets() []string { return []string{"claude", "codex", "gemini", "opencode"} }

// installs returns how a known agent program is installed.
func installs(program string) string {
	name := filepath.Base(program)
	if !slices.Contains(Presets(), name) {
		return ""
	}
	return "npm install -g " + map[string]string{
		"claude": "@anthropic-ai/claude-code", "codex": "@openai/codex", "gemini": "@google/gemini-cli", "opencode": "opencode-ai",
	}[name]
}
