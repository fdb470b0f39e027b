package mcp_test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
)

// calls has one call of each tool, in an order in which each finds the data it needs. SECRET is the
// secret that claim_work returned. The flag is that of the answer; "" means success.
var calls = []struct {
	tool string
	args []string
	flag string
}{
	{"get_status", nil, ""},
	{"open_work", []string{"work=task-1", "title=guard the counter"}, ""},
	{"list_work", []string{"claimable_by=developer"}, ""},
	{"claim_work", []string{"work=task-1", "role=developer", "session=s-1", "ttl_seconds=600"}, ""},
	{"get_work", []string{"work=task-1"}, ""},
	{"renew_lease", []string{"work=task-1", "session=s-1", "secret=SECRET", "epoch=3",
		"ttl_seconds=3600"}, ""},
	{"emit_signal", []string{"session=s-1", "signal=checkpoint", "percent=50"}, "not_planned"},
	{"ask_human", []string{"session=s-1", "question=Red or green?"}, "not_planned"},
	{"submit_exit", []string{"session=s-1", "secret=SECRET", "phase_completed=IMPLEMENTATION",
		"exit_reason=completed"}, ""},
	{"scan_transcript", []string{"text=READY_FOR_REVIEW: task-1"}, ""},
	{"verify_ledger", nil, ""},
	{"prove_event", []string{"seq=1"}, ""},
	{"check_exit_signals", []string{"ticker=SLV"}, ""},
	{"suggest_tax_loss_harvest", []string{"min_loss=100", "format=agent"}, ""},
	{"realized_gains", []string{"year=2026"}, ""},
	{"simulate_sale", []string{"ticker=SLV"}, ""},
	{"reconcile_positions", nil, "reconcile_error"},
}

// calledOverStdio are the tools that the inspector also calls over stdio, where each call starts a server:
// a session must survive that.
var calledOverStdio = []string{"get_status", "open_work", "claim_work", "submit_exit"}

func TestInspector(t *testing.T) {
	k := needKit(t)
	for _, transport := range []string{"http", "stdio"} {
		t.Run(transport, func(t *testing.T) {
			t.Parallel()
			dir := newBox(t)
			var target []string
			if transport == "http" {
				target = []string{startHTTP(t, dir), "--transport", "http", "--header",
					"Authorization: Bearer " + token}
			} else {
				// The inspector does not pass its own environment on.
				command, env := server(t, dir)
				target = command
				for _, variable := range env {
					if !strings.HasSuffix(variable, "=") {
						target = append(target, "-e", variable)
					}
				}
			}
			inspect := func(into any, args ...string) {
				t.Helper()
				out, stderr, err := k.Run(t, nil, append(append([]string{inspector}, target...),
					args...)...)
				if jsonErr := json.Unmarshal([]byte(out), into); jsonErr != nil {
					t.Fatalf("%v: %v, %v\n%s\n%s", args, err, jsonErr, out, stderr)
				}
			}
			var listed struct{ Tools []struct{ Name string } }
			inspect(&listed, "--method", "tools/list")
			if transport == "http" {
				// In strict mode the inspector fails if a schema has something that clients are
				// known to refuse.
				if _, stderr, err := k.Run(t, nil, append(append([]string{inspector}, target...),
					"--method", "tools/list", "--strict")...); err != nil {
					t.Errorf("the strict mode of the inspector: %v\n%s", err, stderr)
				}
			}
			if len(listed.Tools) != len(calls) {
				t.Errorf("%d tools are listed, %d are called", len(listed.Tools), len(calls))
			}
			secret := ""
			for _, call := range calls {
				if transport == "stdio" && !slices.Contains(calledOverStdio, call.tool) {
					continue
				}
				args := []string{"--method", "tools/call", "--tool-name", call.tool}
				for _, arg := range call.args {
					args = append(args, "--tool-arg", strings.Replace(arg, "SECRET", secret, 1))
				}
				var result struct {
					IsError           bool
					StructuredContent struct {
						Status   string
						Snapshot struct{ Secret string }
						Flags    []struct{ Flag string }
					}
				}
				inspect(&result, args...)
				if call.tool == "claim_work" {
					secret = result.StructuredContent.Snapshot.Secret
				}
				got := ""
				if answer := result.StructuredContent; answer.Status != "success" &&
					len(answer.Flags) > 0 {
					got = answer.Flags[0].Flag
				}
				if got != call.flag || result.IsError != (call.flag != "") ||
					result.StructuredContent.Status == "" {
					t.Errorf("%s %s: %+v, want the flag %q", call.tool,
						strings.Join(call.args, " "), result, call.flag)
				}
			}
		})
	}
}
