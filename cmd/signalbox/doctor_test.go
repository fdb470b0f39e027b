package main

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"signalbox/internal/box"
	"signalbox/internal/config"
)

// TestAgentCommands has a tree among the agents, which is no program that could be missing.
func TestAgentCommands(t *testing.T) {
	c, err := config.Parse([]byte(`
models: {main: {provider: openai, model: m}}
agents: {mine: {command: [my-agent, go]}, careful: {tree: critic.lua}}
agent: mine
roles: {critic: {agent: careful}, auditor: {agent: codex}}
`))
	if err != nil {
		t.Fatal(err)
	}
	want := []box.AgentCommand{{Name: "mine", Argv: []string{"my-agent", "go"}}, {Name: "codex", Argv: []string{"codex"}}}
	if diff := cmp.Diff(want, agentCommands(c)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
