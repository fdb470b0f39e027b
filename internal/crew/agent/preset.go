package agent

import (
	"path/filepath"
	"slices"
	"time"

	"signalbox"
)

// linger is ample for a program to end after its last word, and short for those that hang there.
const linger = 15 * time.Second

// Preset returns the command of a known agent program: without questions, since nobody is there to answer them, and with
// its prompt on standard input, which has no limit of length. The user's settings of these programs apply.
func Preset(name string) (Command, bool) {
	c := Command{Prompt: DeliverStdin, Linger: linger}
	switch name {
	case "claude":
		c.Argv = []string{"claude", "-p", "--output-format", "stream-json", "--verbose", "--permission-mode", "bypassPermissions",
			"--model", "{model}"}
		c.Format = signalbox.FormatClaude
		// It refuses to run inside another of its sessions, and signalbox may have been started from one.
		c.Env = map[string]string{"CLAUDECODE": ""}
	case "codex":
		c.Argv = []string{"codex", "exec", "--json", "--skip-git-repo-check", "--dangerously-bypass-approvals-and-sandbox",
			"-m", "{model}", "-"}
		c.Format = signalbox.FormatCodex
	case "gemini":
		c.Argv = []string{"gemini", "--output-format", "stream-json", "--yolo", "--skip-trust", "-m", "{model}"}
		c.Format = signalbox.FormatGemini
	case "opencode":
		// It takes its message from standard input if that is no terminal. As an argument it would put it in quotes.
		c.Argv = []string{"opencode", "run", "--format", "json", "-m", "{model}"}
		c.Format = signalbox.FormatOpencode
	default:
		return Command{}, false
	}
	return c, true
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
