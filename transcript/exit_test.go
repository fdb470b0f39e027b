package transcript_test

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"signalbox"
	"signalbox/internal/testkit/must"
	"signalbox/internal/testkit/property"
	"signalbox/transcript"
)

// seedExits are the examples in the specification of the agent exit protocol.
var seedExits = []struct {
	name string
	json string
	want signalbox.ExitSignal
	next signalbox.Phase
}{
	{"schema", `{
  "protocol": "apm2_agent_exit",
  "version": "1.0.0",
  "phase_completed": "IMPLEMENTATION",
  "exit_reason": "completed",
  "pr_url": "https://github.com/org/repo/pull/123",
  "evidence_bundle_ref": "evidence/work/W-00042/phase_implementation.yaml",
  "notes": "Implementation complete, ready for CI"
}`, signalbox.ExitSignal{
		Protocol: "apm2_agent_exit", Version: "1.0.0", PhaseCompleted: "IMPLEMENTATION",
		ExitReason:        "completed",
		PRURL:             new("https://github.com/org/repo/pull/123"),
		EvidenceBundleRef: new("evidence/work/W-00042/phase_implementation.yaml"),
		Notes:             new("Implementation complete, ready for CI"),
	}, signalbox.PhaseCIPending},

	{"implementation complete", `{
  "protocol": "apm2_agent_exit",
  "version": "1.0.0",
  "phase_completed": "IMPLEMENTATION",
  "exit_reason": "completed",
  "pr_url": "https://github.com/org/repo/pull/123",
  "notes": "Implemented feature X, all tests passing locally"
}`, signalbox.ExitSignal{
		Protocol: "apm2_agent_exit", Version: "1.0.0", PhaseCompleted: "IMPLEMENTATION",
		ExitReason: "completed",
		PRURL:      new("https://github.com/org/repo/pull/123"),
		Notes:      new("Implemented feature X, all tests passing locally"),
	}, signalbox.PhaseCIPending},

	{"review complete", `{
  "protocol": "apm2_agent_exit",
  "version": "1.0.0",
  "phase_completed": "REVIEW",
  "exit_reason": "completed",
  "evidence_bundle_ref": "evidence/work/W-00042/review.yaml",
  "notes": "Code review approved, no issues found"
}`, signalbox.ExitSignal{
		Protocol: "apm2_agent_exit", Version: "1.0.0", PhaseCompleted: "REVIEW",
		ExitReason:        "completed",
		EvidenceBundleRef: new("evidence/work/W-00042/review.yaml"),
		Notes:             new("Code review approved, no issues found"),
	}, signalbox.PhaseReadyForMerge},

	{"blocked by external dependency", `{
  "protocol": "apm2_agent_exit",
  "version": "1.0.0",
  "phase_completed": "IMPLEMENTATION",
  "exit_reason": "blocked",
  "notes": "Blocked: Waiting for API credentials from infra team"
}`, signalbox.ExitSignal{
		Protocol: "apm2_agent_exit", Version: "1.0.0", PhaseCompleted: "IMPLEMENTATION",
		ExitReason: "blocked",
		Notes:      new("Blocked: Waiting for API credentials from infra team"),
	}, signalbox.PhaseBlocked},

	{"error exit", `{
  "protocol": "apm2_agent_exit",
  "version": "1.0.0",
  "phase_completed": "IMPLEMENTATION",
  "exit_reason": "error",
  "notes": "Error: Build system configuration issue prevents compilation"
}`, signalbox.ExitSignal{
		Protocol: "apm2_agent_exit", Version: "1.0.0", PhaseCompleted: "IMPLEMENTATION",
		ExitReason: "error",
		Notes:      new("Error: Build system configuration issue prevents compilation"),
	}, signalbox.PhaseBlocked},
}

func TestParseExitSeedExamples(t *testing.T) {
	for _, c := range seedExits {
		t.Run(c.name, func(t *testing.T) {
			got, err := transcript.ParseExit([]byte(c.json))
			must.Succeed(t, err)
			if diff := cmp.Diff(&c.want, got); diff != "" {
				t.Errorf("signal (-want +got):\n%s", diff)
			}
			if next, ok := got.NextPhase(); next != c.next || !ok {
				t.Errorf("next phase %q, %t; want %q", next, ok, c.next)
			}
		})
	}
}

func TestParseExitSeedErrors(t *testing.T) {
	const good = `{"protocol": "apm2_agent_exit", "version": "1.0.0", "phase_completed": "REVIEW", "exit_reason": "completed"}`
	for _, c := range []struct{ name, data, flag, want string }{
		{"invalid protocol", strings.Replace(good, "apm2_agent_exit", "wrong_protocol", 1), "true",
			"unknown protocol: expected 'apm2_agent_exit', got 'wrong_protocol'"},
		{"unsupported version", strings.Replace(good, "1.0.0", "2.0.0", 1), "true",
			"unsupported version: expected '1.x', got '2.0.0'"},
		{"invalid JSON", "{\n    \"protocol\": \"apm2_agent_exit\",\n    version: \"1.0.0\"\n}",
			"true",
			"invalid JSON: expected `\"` at line 3 column 5"},
		{"validation disabled", good, "false",
			"exit signal validation is disabled (AGENT_EXIT_PROTOCOL_ENABLED=false)"},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := transcript.ParseExitIfEnabled([]byte(c.data), c.flag)
			if got != nil || err == nil || err.Error() != c.want {
				t.Errorf("%v, %v; want the error %s", got, err, c.want)
			}
		})
	}
}

func TestExitFlag(t *testing.T) {
	data := []byte(seedExits[0].json)
	for _, flag := range []string{"true", "1", "yes", "TRUE", "True", "YES", "yEs"} {
		if !transcript.ExitEnabled(flag) {
			t.Errorf("flag %q is off, want on", flag)
		}
		if got, err := transcript.ParseExitIfEnabled(data, flag); got == nil || err != nil {
			t.Errorf("flag %q: %v, want a signal", flag, err)
		}
	}
	for _, flag := range []string{"", "false", "0", "no", "on", "enabled", "2", "01", "y", "t",
		" true", "true\n", "yeſ"} {
		if transcript.ExitEnabled(flag) {
			t.Errorf("flag %q is on, want off", flag)
		}
		// The flag is checked first, so the data makes no difference.
		for _, d := range [][]byte{data, nil, make([]byte, transcript.MaxExitBytes+1)} {
			if got, err := transcript.ParseExitIfEnabled(d, flag); got != nil ||
				!errors.Is(err, transcript.ErrExitDisabled) {
				t.Errorf("flag %q: %v, %v; want ErrExitDisabled", flag, got, err)
			}
		}
	}
}

func TestParseExitSize(t *testing.T) {
	signal := seedExits[0].json
	fits := signal + strings.Repeat(" ", 65536-len(signal))
	if _, err := transcript.ParseExit([]byte(fits)); err != nil {
		t.Errorf("65536 bytes: %v", err)
	}
	// The size is checked before the JSON, which is invalid too.
	_, err := transcript.ParseExit([]byte(fits + "x"))
	const want = "invalid exit signal: more than 65536 bytes"
	if err == nil || err.Error() != want {
		t.Errorf("65537 bytes: %v, want %s", err, want)
	}
}

// The syntax is checked before the values, and those in a fixed order.
func TestParseExitOrder(t *testing.T) {
	for _, c := range []struct{ data, want string }{
		{`{"protocol":"x","version":"2","phase_completed":"REVIEW","exit_reason":"completed","extra":1}`,
			"invalid JSON: unknown field `extra`"},
		{`{"protocol":"x","version":"2","phase_completed":"REVIEW","exit_reason":"done"}`,
			"invalid JSON: unknown variant `done`"},
		{`{"protocol":"x","version":"2","phase_completed":"REVIEW"}`,
			"invalid JSON: missing field `exit_reason`"},
		{`{"protocol":"x","version":"2","phase_completed":"REVIEW","exit_reason":"completed"}}`,
			"invalid JSON: trailing characters"},
		{`{"notes":"","pr_url":"","version":"2","protocol":"x","phase_completed":"REVIEW","exit_reason":"completed"}`, "unknown protocol"},
		{`{"evidence_bundle_ref":"","pr_url":"","version":"1.0.0","protocol":"apm2_agent_exit","phase_completed":"REVIEW","exit_reason":"completed"}`,
			"invalid pr_url: must start with 'https://'"},
	} {
		if got, err := transcript.ParseExit([]byte(c.data)); got != nil || err == nil ||
			!strings.HasPrefix(err.Error(), c.want) {
			t.Errorf("%s: %v; want %s", c.data, err, c.want)
		}
	}
}

func TestParseExitWithoutNextPhase(t *testing.T) {
	for _, phase := range []string{"COMPLETED", "BLOCKED"} {
		data := strings.Replace(seedExits[0].json, "IMPLEMENTATION", phase, 1)
		got, err := transcript.ParseExit([]byte(data))
		if err != nil {
			t.Fatalf("%s: %v", phase, err)
		}
		if next, ok := got.NextPhase(); ok {
			t.Errorf("%s: next phase %q, want none", phase, next)
		}
	}
}

func TestSessionCompletedFrom(t *testing.T) {
	for _, c := range []struct {
		signal signalbox.ExitSignal
		want   string
	}{
		{seedExits[0].want, `{"session_id":"session-123","actor_id":"actor-456","work_id":"","lease_epoch":0,` +
			`"phase_completed":"IMPLEMENTATION","exit_reason":"completed","next_phase":"CI_PENDING",` +
			`"pr_url":"https://github.com/org/repo/pull/123",` +
			`"evidence_bundle_ref":"evidence/work/W-00042/phase_implementation.yaml",` +
			`"notes":"Implementation complete, ready for CI"}`},
		{signalbox.ExitSignal{PhaseCompleted: signalbox.PhaseCompleted,
			ExitReason: signalbox.ExitCompleted},
			`{"session_id":"session-123","actor_id":"actor-456","work_id":"","lease_epoch":0,` +
				`"phase_completed":"COMPLETED","exit_reason":"completed","next_phase":null,` +
				`"pr_url":null,"evidence_bundle_ref":null,"notes":null}`},
	} {
		got, err := json.Marshal(signalbox.SessionCompletedFrom("session-123", "actor-456",
			&c.signal))
		must.Succeed(t, err)
		if diff := cmp.Diff(c.want, string(got)); diff != "" {
			t.Errorf("event (-want +got):\n%s", diff)
		}
	}
}

func TestExitRoundTrip(t *testing.T) {
	version := rapid.StringMatching(`1\.(0|[1-9][0-9]{0,3})\.(0|[1-9][0-9]{0,3})`)
	address := rapid.StringMatching(
		`https://[a-z][a-z0-9.-]{0,20}(:[0-9]{1,5})?(/[^;|$\x60\pC]{0,40})?`)
	path := rapid.StringMatching(`[^/\\:.\pC][^/\\:\pC]{0,10}(/[^/\\.\pC][^/\\\pC]{0,10}){0,3}`)
	property.Check(t, func(t *rapid.T) {
		want := &signalbox.ExitSignal{
			Protocol:          signalbox.ExitProtocol,
			Version:           version.Draw(t, "version"),
			PhaseCompleted:    rapid.SampledFrom(signalbox.Phases()).Draw(t, "phase"),
			ExitReason:        rapid.SampledFrom(signalbox.ExitReasons()).Draw(t, "reason"),
			PRURL:             rapid.Ptr(address, true).Draw(t, "pr_url"),
			EvidenceBundleRef: rapid.Ptr(path, true).Draw(t, "evidence_bundle_ref"),
			Notes:             rapid.Ptr(rapid.String(), true).Draw(t, "notes"),
		}
		if err := want.Validate(); err != nil {
			t.Fatalf("the generator made an invalid signal: %v", err)
		}
		for _, marshal := range []func(any) ([]byte,
			error){json.Marshal, func(v any) ([]byte, error) {
			return json.MarshalIndent(v, "\t", "\r\n ")
		}} {
			data, err := marshal(want)
			must.Succeed(t, err)
			got, err := transcript.ParseExit(data)
			if err != nil {
				t.Fatalf("%s: %v", data, err)
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Fatalf("%s (-want +got):\n%s", data, diff)
			}
		}
	})
}
