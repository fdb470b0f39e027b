package mcpserver

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"signalbox"
	"signalbox/brief"
	"signalbox/internal/core/box"
	"signalbox/internal/core/rules"
	"signalbox/internal/testkit/must"
	"signalbox/ledger"
)

func TestToolDefinitions(t *testing.T) {
	c := newCaller(t, newServer(t, newBox(t), nil))
	want := map[string]string{ // the hints: read-only, destructive, idempotent
		"get_status": "R-I", "list_work": "R-I", "get_work": "R-I", "scan_transcript": "R-I",
		"verify_ledger": "R-I", "prove_event": "R-I",
		"check_exit_signals": "R-I", "suggest_tax_loss_harvest": "R-I",
		"realized_gains": "R-I", "simulate_sale": "R-I", "reconcile_positions": "R-I",
		"open_work": "--I", "claim_work": "---", "renew_lease": "---", "submit_exit": "-DI",
		"emit_signal": "-D-", "ask_human": "-DI",
	}
	got := map[string]string{}
	for name, tool := range c.tools {
		hint := []byte("---")
		for i, on := range []bool{tool.Annotations.ReadOnlyHint,
			tool.Annotations.DestructiveHint != nil && *tool.Annotations.DestructiveHint,
			tool.Annotations.IdempotentHint} {
			if on {
				hint[i] = "RDI"[i]
			}
		}
		got[name] = string(hint)
		if *tool.Annotations.OpenWorldHint || tool.Title == "" || len(tool.Description) < 40 {
			t.Errorf("%s: %+v", name, tool.Annotations)
		}
		everyPropertyIsDescribed(t, name, tool.InputSchema)
		if tool.OutputSchema.(map[string]any)["type"] != "object" {
			t.Errorf("%s: the output is not an object", name)
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("tools and their hints (-want +got):\n%s", diff)
	}
	info := c.session.InitializeResult()
	if info.ServerInfo.Name != "signalbox" || info.ServerInfo.Version != "devel" ||
		!strings.Contains(info.Instructions, "get_status") {
		t.Errorf("server: %+v, %q", info.ServerInfo, info.Instructions)
	}
}

// everyPropertyIsDescribed checks that every property has a description, and every text and list a
// limit.
func everyPropertyIsDescribed(t *testing.T, name string, schema any) {
	t.Helper()
	object := schema.(map[string]any)
	properties, _ := object["properties"].(map[string]any)
	if object["additionalProperties"] == nil {
		t.Errorf("%s: takes what it does not know", name)
	}
	for property, schema := range properties {
		s := schema.(map[string]any)
		if s["description"] == "" || s["description"] == nil {
			t.Errorf("%s: %s has no description", name, property)
		}
		limited := map[string]string{"string": "maxLength", "array": "maxItems", "integer": "maximum", "number": "maximum"}
		if limit := limited[s["type"].(string)]; limit != "" && s[limit] == nil &&
			s["enum"] == nil {
			t.Errorf("%s: %s has no %s", name, property, limit)
		}
	}
}

func TestWorkByHand(t *testing.T) {
	dir := newBox(t)
	c := newCaller(t, newServer(t, dir, nil))

	if a := c.ok("get_status", nil); a.number("work") != 0 ||
		!strings.Contains(a.string("verdict"), "open_work") {
		t.Errorf("empty: %s", a.text)
	}
	if a := c.ok("open_work", args{"work": "task-1", "title": "guard <the> counter"}); a.string(
		"phase") != "IMPLEMENTATION" {
		t.Errorf("open: %s", a.text)
	}
	events := c.ok("get_status", nil).number("events")
	c.fails("open_work", "work_exists", args{"work": "task-1", "title": "guard <the> counter"})
	if again := c.ok("get_status", nil).number("events"); again != events {
		t.Errorf("opening it twice left %d events", again-events)
	}
	if a := c.ok("list_work", args{"claimable_by": "developer"}); a.number("shown") != 1 ||
		!strings.Contains(a.string("verdict"), "claim task-1 as developer") {
		t.Errorf("list: %s", a.text)
	}
	c.fails("claim_work", "refused", args{"work": "task-1", "role": "critic"})
	claim := args{"work": "task-1", "role": "developer", "session": "s-1", "ttl_seconds": 60}
	first := c.ok("claim_work", claim)
	again := c.ok("claim_work", claim)
	if epochOf(first) == 0 || epochOf(first) != epochOf(again) || !again.has("already_held") {
		t.Errorf("claimed twice: %s, then %s", first.text, again.text)
	}
	c.fails("claim_work", "held_by_another", args{"work": "task-1", "role": "developer"})
	c.fails("claim_work", "nothing_to_claim", args{"role": "developer"})
	if a := c.ok("renew_lease", args{"work": "task-1", "session": "s-1", "epoch": epochOf(first),
		"ttl_seconds": 3600}); expiryOf(a) <= expiryOf(first) {
		t.Errorf("renewed to %s from %s", expiryOf(a), expiryOf(first))
	}
	c.fails("submit_exit", "phase_mismatch", args{"session": "s-1", "phase_completed": "REVIEW",
		"exit_reason": "completed"})
	c.fails("submit_exit", "malformed", args{"session": "s-1", "phase_completed": "IMPLEMENTATION",
		"exit_reason": "completed", "pr_url": "http://x"})
	exit := args{"session": "s-1", "phase_completed": "IMPLEMENTATION", "exit_reason": "completed",
		"notes": "done"}
	done := c.ok("submit_exit", exit)
	repeated := c.ok("submit_exit", exit)
	if done.string("next_phase") != "CI_PENDING" || repeated.number("seq") != done.number("seq") ||
		!repeated.has("repeated") {
		t.Errorf("exit: %s, then %s", done.text, repeated.text)
	}
	c.fails("renew_lease", "stale_lease", args{"work": "task-1", "session": "s-1",
		"epoch": epochOf(first)})
	if a := c.ok("get_work", args{"work": "task-1"}); a.string("claimable_by") != "ci" ||
		a.number("sessions") != 1 {
		t.Errorf("work: %s", a.text)
	}
}

func epochOf(a *response) int {
	lease, _ := a.Snapshot["lease"].(map[string]any)
	epoch, _ := lease["epoch"].(float64)
	return int(epoch)
}

func expiryOf(a *response) string {
	lease, _ := a.Snapshot["lease"].(map[string]any)
	expires, _ := lease["expires"].(string)
	return expires
}

func TestUnknownIDs(t *testing.T) {
	c := newCaller(t, newServer(t, newBox(t), nil))
	c.ok("open_work", args{"work": "w"})
	c.fails("get_work", "unknown_work", args{"work": "nope"})
	c.fails("claim_work", "unknown_work", args{"work": "nope", "role": "developer"})
	c.fails("renew_lease", "unknown_work", args{"work": "nope", "session": "s", "epoch": 1})
	c.fails("renew_lease", "unknown_session", args{"work": "w", "session": "s", "epoch": 1})
	c.fails("submit_exit", "unknown_session", args{"session": "s", "phase_completed": "DRAFT",
		"exit_reason": "error"})
	c.fails("emit_signal", "unknown_session", args{"session": "s", "signal": "checkpoint"})
	c.fails("ask_human", "unknown_session", args{"session": "s", "question": "which?"})
	c.fails("prove_event", "unknown_event", args{"seq": 999})
	for _, tool := range []string{"submit_exit", "emit_signal", "ask_human", "renew_lease"} {
		in := map[string]args{
			"submit_exit": {"phase_completed": "DRAFT", "exit_reason": "error"},
			"emit_signal": {"signal": "checkpoint"},
			"ask_human":   {"question": "which?"}, "renew_lease": {"work": "w", "epoch": 1},
		}[tool]
		c.fails(tool, "session_needed", in)
	}
}

func TestNoBox(t *testing.T) {
	c := newCaller(t, newServer(t, t.TempDir()+"/nothing", nil))
	for _, call := range []struct {
		tool string
		in   args
	}{
		{"get_status", nil}, {"list_work", nil}, {"get_work", args{"work": "w"}},
		{"open_work", args{"work": "w"}},
		{"claim_work", args{"role": "developer"}},
		{"renew_lease", args{"work": "w", "session": "s", "epoch": 1}},
		{"submit_exit", args{"session": "s", "phase_completed": "DRAFT", "exit_reason": "error"}},
		{"emit_signal", args{"session": "s", "signal": "checkpoint"}},
		{"ask_human", args{"session": "s", "question": "q"}}, {"verify_ledger", nil},
		{"prove_event", args{"seq": 1}},
	} {
		if a := c.fails(call.tool, "no_box", call.in); !strings.Contains(a.text, "signalbox init") {
			t.Errorf("%s: does not say what to do: %s", call.tool, a.text)
		}
	}
	if a := c.ok("scan_transcript", args{"text": "READY_FOR_REVIEW: T1\nSummary: done\n"}); !a.has(
		"file_not_saved") {
		t.Errorf("scan: %s", a.text)
	}
}

// TestBoxCreatedLater creates the box while the server runs.
func TestBoxCreatedLater(t *testing.T) {
	dir := t.TempDir() + "/.signalbox"
	c := newCaller(t, newServer(t, dir, nil))
	c.fails("get_status", "no_box", nil)
	if _, err := box.Init(t.Context(), dir, "ann", &box.Options{KeyFile: keyOf(dir)}); err != nil {
		t.Fatal(err)
	}
	c.ok("get_status", nil)
}

func TestExitSignalsDisabled(t *testing.T) {
	dir := newBox(t)
	c := newCaller(t, newServer(t, dir, &Options{ExitFlag: "maybe"}))
	order(t, dir, rules.OpenWork{Work: "w", Actor: "ann"},
		rules.Claim{Work: "w", Role: signalbox.RoleDeveloper, Session: "s", Actor: "bob",
			Lease: "l"})
	a := c.fails("submit_exit", "exit_disabled",
		args{"session": "s", "phase_completed": "IMPLEMENTATION", "exit_reason": "completed"})
	if !strings.Contains(a.text, signalbox.ExitFlag) {
		t.Errorf("does not name the variable: %s", a.text)
	}
}

// By default exit signals are disabled, and agents are warned before they start work that they
// could not submit.
func TestExitSignalsDisabledByDefault(t *testing.T) {
	dir := newBox(t)
	s, err := New(func() (string, error) { return dir, nil },
		&Options{Box: &box.Options{KeyFile: keyOf(dir)}})
	must.Succeed(t, err)
	defer s.Close()
	c := newCaller(t, s)
	if a := c.ok("get_status", nil); a.has("exit_disabled") {
		t.Errorf("warns although there is no work: %s", a.text)
	}
	c.ok("open_work", args{"work": "w"})
	for _, a := range []*response{c.ok("get_status", nil),
		c.ok("claim_work", args{"work": "w", "role": "developer", "session": "s"}),
		c.ok("get_status", nil)} {
		if !a.has("exit_disabled") || !strings.Contains(a.text, signalbox.ExitFlag+"=true") {
			t.Errorf("does not warn: %s", a.text)
		}
	}
	a := c.fails("submit_exit", "exit_disabled",
		args{"session": "s", "phase_completed": "IMPLEMENTATION", "exit_reason": "completed"})
	if !strings.Contains(a.text, "xit signal validation is disabled ("+signalbox.ExitFlag+
		"=false)") {
		t.Errorf("other words than those of the protocol: %s", a.text)
	}
	for tool, in := range map[string]args{"emit_signal": {"session": "s",
		"signal": "ready_for_review"}, "ask_human": {"session": "s", "question": "which?"}} {
		if a := c.fails(tool, "not_planned", in); strings.Contains(a.text, "submit_exit") ||
			!strings.Contains(a.text, signalbox.ExitFlag) {
			t.Errorf("%s sends to what is off: %s", tool, a.text)
		}
	}
	// Work of a plan needs no exit signals, so that a session that holds only such work is not
	// warned.
	planned(t, dir, "s-1")
	if a := c.ok("get_status", args{"session": "s-1"}); a.has("exit_disabled") {
		t.Errorf("warns the holder of planned work: %s", a.text)
	}
}

// maxListing is the maximum size of the list of tools, which every agent reads when it connects.
const maxListing = 35 << 10

func TestToolListIsShort(t *testing.T) {
	c := newCaller(t, newServer(t, newBox(t), nil))
	listed, err := c.session.ListTools(t.Context(), nil)
	must.Succeed(t, err)
	text, err := brief.Encode(listed)
	if err != nil || len(text) > maxListing || len(listed.Tools) != 17 {
		t.Errorf("%d tools in %d bytes, more than %d; %v", len(listed.Tools), len(text), maxListing,
			err)
	}
	if info := c.session.InitializeResult(); !strings.Contains(info.Instructions,
		"check_exit_signals") || !strings.Contains(info.Instructions, "suggest_tax_loss_harvest") {
		t.Errorf("the instructions do not mention the portfolio: %s", info.Instructions)
	}
}

// The short schemas still reject answers with missing or additional keys.
func TestOutputSchemaRejects(t *testing.T) {
	c := newCaller(t, newServer(t, newBox(t), nil))
	a := c.ok("get_status", nil)
	whole := func() map[string]any {
		return map[string]any{"status": "success", "format": "agent", "flags": []any{},
			"file_path": nil, "snapshot": maps.Clone(a.Snapshot)}
	}
	must.Succeed(t, c.outputs["get_status"].Validate(whole()))
	for what, spoil := range map[string]func(map[string]any){
		"no verdict": func(
			s map[string]any) {
			delete(s["snapshot"].(map[string]any), "verdict")
		},
		"another key":      func(s map[string]any) { s["snapshot"].(map[string]any)["x"] = 1 },
		"a number as text": func(s map[string]any) { s["snapshot"].(map[string]any)["work"] = "3" },
		"a null list":      func(s map[string]any) { s["snapshot"].(map[string]any)["mine"] = nil },
		"no flags":         func(s map[string]any) { delete(s, "flags") },
		"half a flag": func(
			s map[string]any) {
			s["flags"] = []any{map[string]any{"flag": "x"}}
		},
	} {
		spoiled := whole()
		spoil(spoiled)
		if c.outputs["get_status"].Validate(spoiled) == nil {
			t.Errorf("the schema allows %s", what)
		}
	}
}

func TestSignalsOfAPlan(t *testing.T) {
	dir := newBox(t)
	c := newCaller(t, newServer(t, dir, nil))
	planned(t, dir, "s-1")
	if a := c.ok("emit_signal", args{"session": "s-1", "signal": "checkpoint",
		"summary": "half way", "percent": 50}); a.Snapshot["lease"] == nil {
		t.Errorf("checkpoint: %s", a.text)
	}
	c.fails("emit_signal", "out_of_role", args{"session": "s-1", "signal": "review_passed"})
	c.fails("emit_signal", "wrong_work", args{"session": "s-1", "signal": "ready_for_review",
		"work": "T2"})
	ready := args{"session": "s-1", "signal": "ready_for_review", "summary": "all done",
		"details": args{"Files Changed": "a.go"}}
	first, again := c.ok("emit_signal", ready), c.ok("emit_signal", ready)
	if first.string("next_phase") != "CI_PENDING" || !first.has("lease_over") ||
		!again.has("repeated") || again.number("seq") != first.number("seq") {
		t.Errorf("ready: %s, then %s", first.text, again.text)
	}
	c.fails("emit_signal", "stale_lease", args{"session": "s-1", "signal": "ready_for_review",
		"summary": "something else"})
	withBox(t, dir, func(b *box.Box) {
		b.Engine.View(func(s *rules.State) {
			if w, _ := s.Work("T1"); w.Phase != signalbox.PhaseCIPending {
				t.Errorf("T1 is in %s", w.Phase)
			}
		})
	})
	if a := c.ok("get_work", args{"work": "T2"}); a.string("waits_for") == "" ||
		!strings.Contains(a.string("verdict"), "T1") {
		t.Errorf("T2: %s", a.text)
	}
}

func TestAskHuman(t *testing.T) {
	dir := newBox(t)
	c := newCaller(t, newServer(t, dir, nil))
	planned(t, dir, "s-1")
	ask := args{"session": "s-1", "question": "Which of the two?\nRed or green",
		"options": []string{"red", "green"}, "context": "paint"}
	first, again := c.ok("ask_human", ask), c.ok("ask_human", ask)
	if first.string("phase") != "BLOCKED" || !strings.Contains(first.string("verdict"), "Q-1") ||
		!again.has("repeated") {
		t.Errorf("asked: %s, then %s", first.text, again.text)
	}
	if a := c.ok("get_status", nil); a.number("open_questions") != 1 || !a.has("human_needed") {
		t.Errorf("status: %s", a.text)
	}
	order(t, dir, rules.AnswerQuestion{Question: "Q-1", Answer: "green", Actor: "ann"})
	a := c.ok("get_work", args{"work": "T1"})
	questions := a.Snapshot["questions"].([]any)
	if len(questions) != 1 || questions[0].(map[string]any)["answer"] != "green" ||
		a.string("claimable_by") != "developer" {
		t.Errorf("answered: %s", a.text)
	}
	c.fails("ask_human", "invalid_arguments", args{"session": "s-1", "question": "  "})
}

// A task id that two plans use is not guessed.
func TestTasksOfTwoPlans(t *testing.T) {
	dir := newBox(t)
	c := newCaller(t, newServer(t, dir, nil))
	tasks := []rules.PlanTask{{ID: "T1", Title: "first", Text: signalbox.Hash{1}}}
	order(t, dir,
		rules.Configure{Actor: "ann",
			Policy: rules.Policy{Slots: 4,
				Roles:  []rules.RoleSlots{{Role: signalbox.RoleDeveloper, Slots: 4}},
				Limits: rules.DefaultLimits()}},
		rules.LoadPlan{Plan: signalbox.Hash{1}, Source: "a.md", ID: "a", Actor: "ann",
			Tasks: tasks},
		rules.LoadPlan{Plan: signalbox.Hash{2}, Source: "b.md", ID: "b", Actor: "ann", Tasks: tasks,
			Replace: true})
	for name, want := range map[string]string{"a/T1": "T1", "b/T1": "b.T1", "b.T1": "b.T1"} {
		if a := c.ok("get_work", args{"work": name}); a.string("id") != want {
			t.Errorf("%s: %s", name, a.text)
		}
	}
	for name, flag := range map[string]string{"T1": "ambiguous_work", "c/T1": "unknown_work"} {
		c.fails("get_work", flag, args{"work": name})
		c.fails("claim_work", flag, args{"work": name, "role": "developer"})
	}
	if a := c.ok("claim_work",
		args{"work": "b/T1", "role": "developer"}); a.string("work") != "b.T1" {
		t.Error(a.text)
	}
}

func TestLineSignalsOutsideAPlan(t *testing.T) {
	dir := newBox(t)
	c := newCaller(t, newServer(t, dir, nil))
	order(t, dir, rules.OpenWork{Work: "w", Actor: "ann"},
		rules.Claim{Work: "w", Role: signalbox.RoleDeveloper, Session: "s", Actor: "bob",
			Lease: "l"})
	c.fails("emit_signal", "not_planned", args{"session": "s", "signal": "ready_for_review"})
	c.fails("ask_human", "not_planned", args{"session": "s", "question": "which?"})
}

func TestSubTasks(t *testing.T) {
	dir := newBox(t)
	c := newCaller(t, newServer(t, dir, nil))
	order(t, dir,
		rules.Configure{Actor: "ann",
			Policy: rules.Policy{Slots: 4,
				Roles:  []rules.RoleSlots{{Role: signalbox.RoleBusinessAnalyst, Slots: 4}},
				Limits: rules.DefaultLimits()}},
		rules.LoadPlan{Plan: signalbox.Hash{1}, Actor: "ann",
			Tasks: []rules.PlanTask{{ID: "D1", Title: "draft", Draft: true}}},
		rules.Claim{Work: "D1", Role: signalbox.RoleBusinessAnalyst, Session: "s", Actor: "bob",
			Lease: "l"})
	c.ok("emit_signal", args{"session": "s", "signal": "expanded_spec", "summary": "two parts",
		"confidence": "HIGH",
		"sub_tasks": []args{{"id": "D1.1", "title": "one", "text": "do it",
			"acceptance_criteria": []string{"it is done"}},
			{"id": "D1.2", "acceptance_criteria": []string{"too"},
				"blocked_by": []string{"D1.1"}}}})
	withBox(t, dir, func(b *box.Box) {
		b.Engine.View(func(s *rules.State) {
			one, known := s.Work("D1.1")
			if !known || one.Phase != signalbox.PhaseImplementation {
				t.Fatalf("D1.1: %+v", one)
			}
			text, err := b.Blob(context.Background(), one.Task.Text)
			must.Succeed(t, err)
			defer text.Close()
			var stored struct{ Work string }
			if json.NewDecoder(text).Decode(&stored) != nil || stored.Work != "do it" {
				t.Errorf("stored: %+v", stored)
			}
			if two, _ := s.Work("D1.2"); two == nil || two.Phase != signalbox.PhaseImplementation ||
				!slices.Equal(two.Task.Blockers, []string{"D1.1"}) {
				t.Errorf("D1.2: %+v", two)
			}
		})
	})
}

func TestScan(t *testing.T) {
	c := newCaller(t, newServer(t, newBox(t), nil))
	text := "thinking\n```\nREVIEW_PASSED: T1\n```\nREADY_FOR_REVIEW: T1 done\nSummary: all of it\n"
	a := c.ok("scan_transcript", args{"text": text, "include_refused": true, "role": "developer",
		"work": "T1"})
	said := a.Snapshot["said"].(map[string]any)
	if said["signal"] != "ready_for_review" || a.number("taken") != 1 || a.number("refused") != 1 ||
		!a.has("signals_refused") {
		t.Errorf("scan: %s", a.text)
	}
	var full struct{ Signals []map[string]any }
	readJSON(t, *a.FilePath, &full)
	if len(full.Signals) != 2 ||
		full.Signals[1]["body"].(map[string]any)["Summary"] != "all of it" {
		t.Errorf("file: %v", full)
	}
	if a := c.ok("scan_transcript", args{"text": text, "role": "critic"}); !a.has("nothing_said") ||
		a.number("taken") != 0 {
		t.Errorf("as critic: %s", a.text)
	}
	if a := c.ok("scan_transcript",
		args{"text": text, "policy": "seed"}); a.Snapshot["said"].(map[string]any)["signal"] != "ready_for_review" {
		t.Errorf("seed: %s", a.text)
	}
	if a := c.ok("scan_transcript", args{"text": ""}); !a.has("nothing_said") || a.FilePath != nil {
		t.Errorf("nothing: %s", a.text)
	}
}

func readJSON(t *testing.T, path string, into any) {
	t.Helper()
	data, err := os.ReadFile(path)
	if err == nil {
		err = json.Unmarshal(data, into)
	}
	must.Succeed(t, err)
}

func TestVerifyAndProve(t *testing.T) {
	dir := newBox(t)
	s := newServer(t, dir, nil)
	c := newCaller(t, s)
	c.ok("open_work", args{"work": "w"})
	withBox(t, dir, func(b *box.Box) {
		if _, err := b.Sign(t.Context()); err != nil {
			t.Fatal(err)
		}
	})
	if a := c.ok("verify_ledger", nil); a.Snapshot["ok"] != true || a.number("events") != 2 ||
		a.number("signed") != 2 || !a.has("all_signed") {
		t.Errorf("verify: %s", a.text)
	}
	a := c.ok("prove_event", args{"seq": 2})
	data, err := os.ReadFile(*a.FilePath)
	must.Succeed(t, err)
	proof, err := ledger.ParseProof(data)
	must.Succeed(t, err)
	if _, err := proof.Check(a.string("key")); err != nil || proof.Event.Work != "w" {
		t.Errorf("the proof proves nothing: %v, %+v", err, proof.Event)
	}
	c.fails("verify_ledger", "not_verified", args{"checkpoint": "nonsense"})
	key := a.string("key")
	c.ok("verify_ledger", args{"key": " " + key + "\n"})
	// A mistyped key says nothing about the ledger.
	for _, mistyped := range []string{"abc", key[:len(key)-1],
		strings.Replace(key, "signalbox", "signalbex", 1), key + "x"} {
		c.fails("verify_ledger", "invalid_arguments", args{"key": mistyped})
	}
}

// TestNotSigned asks for the proof of an event that is not signed.
func TestNotSigned(t *testing.T) {
	dir := newBox(t)
	c := newCaller(t, newServer(t, dir, &Options{Session: "s"})) // it does not sign
	order(t, dir, rules.OpenWork{Work: "w", Actor: "ann"})
	c.fails("prove_event", "not_signed", args{"seq": 2})
	if a := c.ok("verify_ledger", nil); !a.has("partly_signed") && !a.has("no_checkpoint") {
		t.Errorf("verify: %s", a.text)
	}
}

// Close signs what the server wrote.
func TestWritesAreSigned(t *testing.T) {
	dir := newBox(t)
	s := newServer(t, dir, nil)
	newCaller(t, s).ok("open_work", args{"work": "w"})
	must.Succeed(t, s.Close())
	c := newCaller(t, newServer(t, dir, nil))
	if a := c.ok("verify_ledger", nil); !a.has("all_signed") {
		t.Errorf("after closing: %s", a.text)
	}
}

func TestBriefsAreSmall(t *testing.T) {
	dir := newBox(t)
	c := newCaller(t, newServer(t, dir, nil))
	title := strings.Repeat("<&\"é", 200)
	withBox(t, dir, func(b *box.Box) {
		done := make(chan error, 10_000)
		for i := range 10_000 {
			go func() {
				_, err := b.Engine.Do(context.Background(),
					rules.OpenWork{Work: fmt.Sprintf("%s%d", strings.Repeat("w", 58), i),
						Title: title, Actor: "ann"})
				done <- err
			}()
		}
		for range 10_000 {
			must.Succeed(t, <-done)
		}
	})
	a := c.ok("list_work", nil)
	if a.number("matching") != 10_000 || !a.has("list_shortened") || a.FilePath == nil {
		t.Errorf("list: %.300s", a.text)
	}
	var all []map[string]any
	readJSON(t, *a.FilePath, &all)
	if len(all) != 10_000 || all[7]["title"] != title {
		t.Errorf("the file has %d work items", len(all))
	}
	c.ok("get_status", nil)
	var long strings.Builder
	for i := range 3000 {
		fmt.Fprintf(&long, "READY_FOR_REVIEW: T%d %s\n\n", i, strings.Repeat("<", 100))
	}
	c.ok("scan_transcript", args{"text": long.String()})
}
