package dashboard

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"signalbox"
	"signalbox/internal/core/rules"
	"signalbox/internal/process"
	"signalbox/internal/run/agent"
	"signalbox/internal/sandbox"
	"signalbox/internal/testkit/must"
)

// TestCrewPage shows an agent at work: what it does now, its slot, and its sandbox with what that
// leaves open.
func TestCrewPage(t *testing.T) {
	s := newStage(t)
	policy, err := json.Marshal(sandbox.Policy{Mode: sandbox.Warn})
	must.Succeed(t, err)
	a := s.do(rules.Dispatch{Roles: []signalbox.Role{signalbox.RoleDeveloper}, Session: "w-1.900",
		Actor: "crew", Lease: "l-900"})
	box := rules.Sandbox{Mode: string(sandbox.Warn), Network: "open",
		Layers: process.Support().String(), Policy: s.blob(string(policy))}
	s.do(rules.StartAgent{Session: a.Session, Epoch: a.Lease.Epoch, Agent: "claude", Sandbox: box})
	live := agent.LiveTranscript(s.box.Dir, a.Session)
	must.Succeed(t, os.MkdirAll(filepath.Dir(live), 0o700))
	must.Succeed(t, os.WriteFile(live, []byte("first\n"+hostile+"\n"), 0o600))
	_, _, page := s.get(s.viewer(), "/crew")
	for _, want := range []string{"1 of 5 slots is in use", "developer 1 of 3", `id="holder-T3"`,
		"pwned &lt;script&gt;alert(1)", "sandbox warn", "attempt 2", "Nobody"} {
		if found := strings.Contains(page, want); found != (want != "Nobody") {
			t.Errorf("%q: %t\n%s", want, found, page)
		}
	}
	for _, open := range process.Support().Open(&sandbox.Policy{Mode: sandbox.Warn}) {
		if !strings.Contains(page, open) {
			t.Errorf("the page does not say %q", open)
		}
	}
	if process.Support().String() != "" &&
		!strings.Contains(page, "enforced by "+process.Support().String()) {
		t.Error("the page does not say what enforces the sandbox")
	}
	if strings.Contains(page, "<script>alert") || strings.Contains(page, "\x1b") {
		t.Error("hostile text is not escaped")
	}
}

// TestCrewPageOfAnotherMachine does not say what a sandbox leaves open that other layers enforce.
func TestCrewPageOfAnotherMachine(t *testing.T) {
	s := newStage(t)
	a := s.do(rules.Dispatch{Roles: []signalbox.Role{signalbox.RoleDeveloper}, Session: "w-1.900",
		Actor: "crew", Lease: "l-900", Machine: "alpha <b>\x1b"})
	s.do(rules.StartAgent{Session: a.Session, Epoch: a.Lease.Epoch, Agent: "claude",
		Sandbox: rules.Sandbox{Mode: string(sandbox.Enforce), Layers: "another kernel"}})
	if _, _, page := s.get(s.viewer(), "/crew"); !strings.Contains(page,
		"enforced by another kernel") || !strings.Contains(page, "It runs on another machine.") ||
		strings.Contains(page, "alpha") {
		t.Errorf("the page is:\n%s", page)
	}
	s.box.Config.Journal = "postgres://db/x" // machines share the ledger
	_, _, page := s.get(s.viewer(), "/crew")
	for _, want := range []string{"on <bdi>alpha &lt;b&gt;", "Machines at work", "with 1 task"} {
		if !strings.Contains(page, want) {
			t.Errorf("the page lacks %q:\n%s", want, page)
		}
	}
}

// TestAgentStates names everything that can keep an agent from working.
func TestAgentStates(t *testing.T) {
	now := time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)
	later := now.Add(time.Hour)
	for want, state := range map[string]rules.AgentState{
		"good can work":  {Agent: "a", Limited: now.Add(-time.Hour)},
		"ask rate limit": {Agent: "a", Limited: later},
		"bad cannot work: login refused": {Agent: "a", Down: rules.FailLogin,
			Detail: "401", Advice: "log in"},
		"bad cannot work: no answer from its server": {Agent: "a", Down: rules.FailServer,
			Until: later},
		"bad cannot work: its program does not start": {Agent: "a", Down: rules.FailProgram},
		"ask one session is tried first":              {Agent: "a", Trying: true},
		"ask crashed as critic: others take over": {Agent: "a",
			Roles: []rules.AgentCrashes{{Role: "developer", Crashes: 1},
				{Role: "critic", Crashes: 2, Until: later}}},
	} {
		list := agentStates([]string{"a", "b"}, []rules.AgentState{state, {Agent: "c"}}, now)
		if len(list) != 3 || list[0].Lamp+" "+list[0].State != want ||
			list[0].Detail != state.Detail || list[1].State != "can work" || list[2].Name != "c" {
			t.Errorf("%+v, want %q", list, want)
		}
	}
}
