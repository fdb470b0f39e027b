package main

import (
	"slices"
	"strings"
	"testing"
)

// TestEveryCommandKnowsAgents runs every command in the process of an agent. What changes something,
// or spends money, is for people. A new command must be added here: to the first list, unless agents
// may use it, or it reads.
func TestEveryCommandKnowsAgents(t *testing.T) {
	refuses := map[string][]string{
		"run":                {"plan.md"},
		"demo":               nil,
		"worker":             nil,
		"add":                {"x"},
		"answer":             {"Q-1", "yes"},
		"pause":              nil,
		"resume":             nil,
		"cancel":             {"A"},
		"retry":              nil,
		"approve":            {"A"},
		"reject":             {"A", "x"},
		"rework":             {"A", "x"},
		"tell":               {"A", "x"},
		"waive":              {"A/F1", "x"},
		"clean":              nil,
		"plan update":        {"plan.md"},
		"plan add-notes":     nil,
		"work open":          {"t1"},
		"work claim":         {"t1", "--role", "developer"},
		"work unblock":       {"t1", "--note", "x"},
		"ledger checkpoint":  nil,
		"ledger migrate":     {"--to", "sqlite"},
		"ledger grant":       {"reader", "--read-only"},
		"ledger repair":      nil,
		"ledger accept-loss": nil,
		"blob redact":        {strings.Repeat("0", 64), "--reason", "x"},
		"backup":             {"x.tar"},
		"restore":            {"x.tar"},
		"init":               nil,
		"invite":             nil,
		"join":               {"sbx1"},
		"trust":              {"--yes"},
		"notify test":        nil,
		"token create":       {"x", "--scope", "read"},
		"token link":         nil,
		"token list":         nil,
		"token revoke":       {"x"},
		"oracle":             {"hello"},
		"tree run":           {"tree.lua"},
		"serve":              nil,
	}
	allowed := map[string]string{
		"work renew": "its own session", "work release": "its own session",
		"work exit": "its own session", "agent": "its own session", "mcp": "as its session",
		"plan new": "writes a file", "plan import": "writes a file",
		"portfolio init": "writes files", "portfolio import": "writes files",
		"watch": "decides nothing then",
	}
	reads := []string{"questions", "status", "logs", "diff", "explain", "stats", "plan", "prompt",
		"work list", "work show", "scan", "strip", "exit check", "ledger", "blob get", "config",
		"sandbox", "doctor", "tree", "rehearse", "portfolio", "completion", "manual", "help",
		"version"}
	w := newTerminalWorld(t)
	for _, path := range commandPaths(t) {
		args, must := refuses[path]
		if !must {
			group, _, _ := strings.Cut(path, " ")
			if allowed[path] == "" && !slices.Contains(reads, path) &&
				!slices.Contains(reads, group) {
				t.Errorf("signalbox %s: say here whether an agent may use it", path)
			}
			continue
		}
		cmd := w.command("", append(append([]string{"signalbox"}, strings.Fields(path)...),
			args...)...)
		cmd.Env = append(cmd.Env, "SIGNALBOX_SESSION=w-x.1")
		out, err := cmd.CombinedOutput()
		if err == nil || !strings.Contains(string(out), "session 'w-x.1' may not ") {
			t.Errorf("signalbox %s %q: %v: %s", path, args, err, out)
		}
	}
}
