package main

import (
	"strings"
	"testing"
)

// TestEveryCommandNeedsTrust runs every command with a configuration of a team that is not trusted.
// A command that would use it refuses. A new command must be added here: to the first list, unless
// nothing that it does depends on the configuration.
func TestEveryCommandNeedsTrust(t *testing.T) {
	refuses := map[string][]string{
		"run":               {"plan.md"},
		"add":               {"x"},
		"worker":            nil,
		"answer":            {"Q-1", "yes"},
		"resume":            nil,
		"retry":             nil,
		"approve":           {"A"},
		"reject":            {"A", "x"},
		"rework":            {"A", "x"},
		"tell":              {"A", "x"},
		"waive":             {"A/F1", "x"},
		"plan update":       {"plan.md"},
		"plan add-notes":    nil,
		"prompt":            {"developer", "A"},
		"work open":         {"t1"},
		"work claim":        {"t1", "--role", "developer"},
		"work renew":        {"t1", "--session", "s", "--epoch", "1"},
		"work release":      {"t1", "--session", "s", "--epoch", "1"},
		"work exit":         {"--session", "s", "exit.json"},
		"work unblock":      {"t1", "--note", "x"},
		"ledger checkpoint": nil,
		"blob redact":       {strings.Repeat("0", 64), "--reason", "x"},
		"notify test":       nil,
		"sandbox explain":   nil,
		"agent":             nil,
		"oracle":            {"hello"},
		"tree run":          {"tree.lua", "--tool", "x=true"},
		"mcp":               nil,
		"serve":             {"--listen", "127.0.0.1:0"},
		"doctor":            nil,
		"config show":       nil,
	}
	ignores := map[string]string{
		"pause":  "stops work, with a warning",
		"cancel": "stops work, with a warning",
		"clean":  "keeps all commits, and runs nothing",
		"trust":  "decides", "init": "creates", "invite": "no configuration but journal",
		"join": "creates", "demo": "has a repository of its own",
		"backup": "reads the ledger", "restore": "writes another box",
		"questions": "reads", "status": "reads", "logs": "reads", "watch": "reads", "diff": "reads",
		"explain": "reads", "stats": "reads",
		"token create": "no configuration", "token link": "no configuration",
		"token list": "no configuration", "token revoke": "no configuration",
		"work list": "reads", "work show": "reads", "blob get": "reads",
		"plan check": "no box", "plan new": "no box", "plan import": "no box",
		"plan show": "no box", "scan": "no box", "strip": "no box", "exit check": "no box",
		"completion": "no box", "help": "no box", "version": "no box", "manual": "no box",
		"portfolio": "no configuration",
	}
	w := newTerminalWorld(t)
	w.shareHostileSettings()
	for _, path := range commandPaths(t) {
		args, must := refuses[path]
		if !must {
			group, _, _ := strings.Cut(path, " ")
			if _, known := ignores[path]; !known && group != "ledger" && group != "tree" &&
				group != "rehearse" && group != "portfolio" {
				t.Errorf("signalbox %s: say here whether it refuses to work with a configuration that is not trusted", path)
			}
			continue
		}
		out, err := w.command("hello",
			append(append([]string{"signalbox"}, strings.Fields(path)...),
				args...)...).CombinedOutput()
		if err == nil || !strings.Contains(string(out),
			"the team's configuration is not trusted yet") {
			t.Errorf("signalbox %s %q: %v: %s", path, args, err, out)
		}
	}
}
