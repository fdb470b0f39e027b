package agent

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	"signalbox"
	"signalbox/internal/config"
	"signalbox/internal/contain"
	"signalbox/internal/durable"
	"signalbox/internal/process"
)

// linger is long enough for a program to end after its turn, and short for one that hangs.
const linger = 15 * time.Second

// Preset returns the command of a known agent program: without permission prompts, because no one
// is there to answer them, without telemetry and update checks, and with its prompt on standard
// input, which has no length limit. The user's settings and login of the program apply.
func Preset(name string) (Command, bool) {
	c := Command{Prompt: DeliverStdin, Linger: linger}
	switch name {
	case "claude":
		c.Argv = []string{"claude", "-p", "--output-format", "stream-json", "--verbose",
			"--permission-mode", "bypassPermissions",
			"--model", "{model}"}
		c.Format = signalbox.FormatClaude
		c.CostFlag, c.CostFlagSince = "--max-budget-usd", "2.0.28"
		c.Resume = []string{"--resume", "{session}"}
		c.NoProject = []string{"--setting-sources", "user", "--strict-mcp-config"}
		// Without CLAUDECODE="" it refuses to run if signalbox was started from one of its
		// sessions.
		c.Env = map[string]string{"CLAUDECODE": "", "DISABLE_TELEMETRY": "1",
			"DISABLE_ERROR_REPORTING": "1", "DISABLE_AUTOUPDATER": "1"}
	case "codex":
		c.Argv = []string{"codex", "exec", "--json", "--skip-git-repo-check",
			"--dangerously-bypass-approvals-and-sandbox",
			"-c", "analytics.enabled=false", "-c", "check_for_update_on_startup=false", "-m",
			"{model}", "-"}
		c.Format = signalbox.FormatCodex
		c.Resume = []string{"resume", "{session}"}
		// Without the first it would trust the folder, because it runs without a sandbox of its
		// own.
		c.NoProject = []string{"-c", `projects={"{workspace}"={trust_level="untrusted"}}`, "-c",
			"project_doc_max_bytes=0"}
	case "gemini":
		c.Argv = []string{"gemini", "--output-format", "stream-json", "--yolo", "--skip-trust",
			"-m", "{model}"}
		c.Format = signalbox.FormatGemini
		c.Resume = []string{"--resume", "{session}"}
		// It has no switch for settings of the project: it would not run tools without asking in a
		// folder that it does not trust. Its usage statistics can only be turned off in its
		// settings. Without a terminal it does not check for updates.
		c.Env = map[string]string{"GEMINI_TELEMETRY_ENABLED": "false"}
	case "opencode":
		// It reads its message from standard input if that is not a terminal. It would quote an
		// argument.
		c.Argv = []string{"opencode", "run", "--format", "json", "-m", "{model}"}
		c.Format = signalbox.FormatOpencode
		c.Resume = []string{"--session", "{session}"}
		c.NoProjectEnv = map[string]string{"OPENCODE_DISABLE_PROJECT_CONFIG": "1"}
		// At its start it resolves modules as tsconfig.json, package.json and node_modules in its
		// folder say, and runs them.
		c.NoProject, c.Elsewhere = []string{"--dir", "{workspace}"}, true
		c.Env = map[string]string{"OPENCODE_DISABLE_AUTOUPDATE": "1"} // it has no telemetry
	default:
		return Command{}, false
	}
	return c, true
}

// PresetAt is like Preset, but the program talks only to the server at baseURL, in the protocol
// that docs/how-to/agents.md lists. Some programs must know the model in advance. An empty baseURL
// changes nothing.
//
// API keys come from the environment, under the names that each program documents. Without one a
// placeholder is set, because the programs do not start without a key. A stored login is not used,
// because it is for another server.
//
// If the error is not nil, the command is still valid, except for settings that could not be
// written.
func PresetAt(name, baseURL, model string) (Command, error) {
	c, ok := Preset(name)
	if !ok {
		return c, fmt.Errorf("unknown agent program %q", name)
	}
	if baseURL == "" {
		return c, nil
	}
	switch name {
	case "claude":
		c.Env["ANTHROPIC_BASE_URL"] = baseURL
		c.Env["CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC"] = "1"
		if os.Getenv("ANTHROPIC_AUTH_TOKEN") == "" {
			c.setPlaceholderKey("ANTHROPIC_API_KEY")
		}
	case "codex":
		provider := fmt.Sprintf(
			`{name="signalbox",base_url=%s,wire_api="responses",env_key="OPENAI_API_KEY"}`,
			strconv.Quote(baseURL))
		// With plugins it would fetch a list from its vendor's server before it ends, and wait for
		// it.
		c.Argv = slices.Insert(c.Argv, slices.Index(c.Argv, "-m"), "-c", "model_provider=signalbox",
			"-c", "model_providers.signalbox="+provider,
			"-c", "features.plugins=false")
		c.setPlaceholderKey("OPENAI_API_KEY")
	case "gemini":
		c.Env["GOOGLE_GEMINI_BASE_URL"] = baseURL
		c.setPlaceholderKey("GEMINI_API_KEY")
		home, err := geminiHome()
		c.Env["GEMINI_CLI_HOME"] = home
		return c, err
	case "opencode":
		if model == "" {
			model = "default"
		}
		c.Argv = append(slices.Clone(c.Argv[:slices.Index(c.Argv, "-m")]), "-m", opencodeProvider+
			"/"+model)
		c.Env["OPENCODE_CONFIG_CONTENT"] = opencodeConfig(baseURL, model)
		c.Env["OPENCODE_DISABLE_MODELS_FETCH"] = "1"
		c.Env["OPENCODE_DISABLE_DEFAULT_PLUGINS"] = "1"
		c.setPlaceholderKey("OPENAI_API_KEY")
	}
	return c, nil
}

// setPlaceholderKey sets a placeholder key if the environment has none. The configuration's env can
// override it.
func (c *Command) setPlaceholderKey(variable string) {
	if os.Getenv(variable) != "" {
		return
	}
	if c.Env == nil {
		c.Env = map[string]string{}
	}
	c.Env[variable] = "none"
}

// opencodeProvider is the name of the server in the settings for opencode.
const opencodeProvider = "signalbox"

// opencodeConfig returns settings that opencode merges over the user's. Session titles
// (small_model) also come from this server.
func opencodeConfig(baseURL, model string) string {
	type object = map[string]any
	text, err := json.Marshal(object{
		"model": opencodeProvider + "/" + model, "small_model": opencodeProvider + "/" + model,
		"autoupdate": false, "share": "disabled",
		"provider": object{opencodeProvider: object{
			"npm": "@ai-sdk/openai-compatible", "name": opencodeProvider,
			"options": object{"baseURL": baseURL, "apiKey": "{env:OPENAI_API_KEY}"},
			"models":  object{model: object{"name": model}},
		}},
	})
	if err != nil {
		panic(err) // it consists of strings
	}
	return string(text)
}

// geminiSettings select an API key as the login. With another server and no selected login gemini
// refuses to start, and there is no flag or variable to select one.
const geminiSettings = `{
  "security": {"auth": {"selectedType": "gemini-api-key"}},
  "privacy": {"usageStatisticsEnabled": false},
  "telemetry": {"enabled": false},
  "general": {"enableAutoUpdate": false, "enableAutoUpdateNotification": false}
}
`

// geminiHome creates a home folder with settings for gemini. There is no other place for them: the
// user's settings must not be changed, and system-wide ones are ignored unless root owns every
// folder above them.
func geminiHome() (string, error) {
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", fmt.Errorf("find a folder for gemini's settings: %w", err)
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

// Installation is an agent program that is installed here.
type Installation struct {
	Name string
	// NoLogin is what to do about its missing login or key, "" if none is missing as far as can be
	// seen.
	NoLogin string
}

// Installed returns the agent programs that are installed here and can be started with the default
// configuration, which enforces the sandbox. It starts none of them. Those without a missing login
// come first.
func Installed() (found []Installation) {
	host, defaults := contain.ThisHost(), config.Default()
	for _, name := range Presets() {
		command, _ := Preset(name)
		preset := config.Agent{Preset: name}
		command = inSandbox(defaults, preset, command)
		env := command.environ(process.Environ())
		if _, err := process.Find(name, "", env); err != nil ||
			command.checkRoot(os.Geteuid(), env) != nil {
			continue
		}
		found = append(found, Installation{name, host.MissingLogin(preset)})
	}
	slices.SortStableFunc(found, func(a, b Installation) int {
		return cmp.Compare(min(len(a.NoLogin), 1), min(len(b.NoLogin), 1))
	})
	return found
}

// Instead returns what to write to use another agent program, one that is installed here, or "" if
// none is. A program with a login comes first.
func Instead(program string) string {
	for _, found := range Installed() {
		if found.Name != filepath.Base(program) {
			return fmt.Sprintf("write agent: %s in %s, because %[1]s is installed", found.Name,
				".signalbox/"+config.FileName)
		}
	}
	return ""
}

// InstallCommand returns the command that installs a known agent program, or "".
func InstallCommand(program string) string {
	name := filepath.Base(program)
	if !slices.Contains(Presets(), name) {
		return ""
	}
	return "npm install -g " + map[string]string{
		"claude": "@anthropic-ai/claude-code", "codex": "@openai/codex",
		"gemini": "@google/gemini-cli", "opencode": "opencode-ai",
	}[name]
}
