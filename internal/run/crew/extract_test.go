package crew

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"signalbox"
	"signalbox/internal/core/rules"
	"signalbox/internal/run/plan"
	"signalbox/internal/testkit/must"
	"signalbox/transcript"
)

// parseSignal returns the single signal in a text.
func parseSignal(t *testing.T, text string) signalbox.Signal {
	t.Helper()
	scanner := transcript.NewScanner(&transcript.Options{Format: signalbox.FormatPlain})
	signals := slices.Concat(scanner.Push([]byte(text)), scanner.Close())
	if len(signals) != 1 || !signals[0].Taken() {
		t.Fatalf("%q has the signals %+v", text, signals)
	}
	return signals[0]
}

func TestExtract(t *testing.T) {
	covered := map[string]bool{}
	for _, test := range []struct {
		text string
		want rules.SignalFields
	}{
		{"READY_FOR_REVIEW: T1\nSummary: it counts\n", rules.SignalFields{Summary: "it counts"}},
		{"READY_FOR_REVIEW: T1 all done\n", rules.SignalFields{Summary: "all done"}},
		{"TASK_INCOMPLETE: T1\nBlocker: I am tired\nNeeded: sleep\nProgress: half\n",
			rules.SignalFields{Summary: "I am tired; sleep; half", Cause: rules.CauseOther}},
		{"TASK_INCOMPLETE: T1\nBlocked By: T2, T3\n",
			rules.SignalFields{Summary: "Blocked By: T2, T3", Cause: rules.CauseWaiting,
				BlockedBy: []string{"T2", "T3"}}},
		{"INFRA_BLOCKED: T1\nIssue: no compiler\nCommand: cc x.c\n",
			rules.SignalFields{Summary: "no compiler; cc x.c"}},
		{"REVIEW_PASSED: T1\nQuality Assessment: fine\n", rules.SignalFields{}},
		{"REVIEW_FAILED: T1\nIssues Found:\n- a.go:1: bad\n- b.go:2: worse\nRequired Fixes: fix\n",
			rules.SignalFields{Summary: "a.go:1: bad\nb.go:2: worse; fix"}},
		{"AUDIT_PASSED: T1\n", rules.SignalFields{}},
		{"AUDIT_FAILED: T1\nFailed Criteria: the second\n",
			rules.SignalFields{Summary: "the second"}},
		{"AUDIT_BLOCKED: T1\nPre-existing Failures: the tests\n",
			rules.SignalFields{Summary: "the tests"}},
		{"EXPANDED_TASK_SPECIFICATION: T1\nConfidence: HIGH (sure)\nExpanded Specification: do it\n", rules.SignalFields{Summary: "do it", Confidence: "HIGH"}},
		{"REMEDIATION_COMPLETE\nIssues Fixed: all\n", rules.SignalFields{}},
		{"HEALTH_AUDIT: HEALTHY\n", rules.SignalFields{}},
		{"HEALTH_AUDIT: UNHEALTHY\nFailed Checks: unit\nIssues Found: it rots\n",
			rules.SignalFields{Summary: "unit; it rots"}},
		{"SEEKING_DIVINE_CLARIFICATION\nTask: T1\nQuestion: why?\nContext: life\n",
			rules.SignalFields{Summary: "why?"}},
		{"EXPERT_REQUEST\nTarget Agent: database\nRequest Type: advice\nContext Snapshot: a query\n", rules.SignalFields{Expert: "database", Request: "advice", Summary: "a query"}},
		{"EXPERT_ADVICE: X-1\nSummary: an index\n", rules.SignalFields{Summary: "an index"}},
		{"EXPERT_UNSUCCESSFUL: X-1\nSummary: no idea\n", rules.SignalFields{Summary: "no idea"}},
		{"EXPERT_UNSUCCESSFUL: X-1\nReason: only birds\n",
			rules.SignalFields{Summary: "Reason: only birds"}},
		{"EXPERT_REQUEST\nTarget Agent: database\nProblem: slow\n",
			rules.SignalFields{Expert: "database",
				Summary: "Problem: slow Target Agent: database"}},
		{"EXPERT_CREATED: poet\nGap: rhymes\nKeywords: verse, ode\n",
			rules.SignalFields{Expert: "poet", Gap: "rhymes", Keywords: []string{"verse", "ode"}}},
		{"FILE CONFLICT: src/a.go\n", rules.SignalFields{File: "src/a.go"}},
		{"CHECKPOINT: T1\nCurrent Activity: reading\nEstimated Progress: 40%\n",
			rules.SignalFields{Summary: "reading", Percent: 40}},
	} {
		sig := parseSignal(t, test.text)
		covered[sig.Name] = true
		got, err := extract(sig, nil)
		must.Succeed(t, err)
		if diff := cmp.Diff(test.want, got); diff != "" {
			t.Errorf("%q (-want +got):\n%s", test.text, diff)
		}
	}
	for _, row := range signalbox.LineSignals() {
		if !covered[row.Name] {
			t.Errorf("no test of %s", row.Name)
		}
	}
}

func TestCauses(t *testing.T) {
	for text, want := range map[string]rules.Cause{
		"Cause: missing_information":                               rules.CauseInformation,
		"Cause: out_of_scope\nBlocker: docker":                     rules.CauseScope,
		"Cause: Missing information":                               rules.CauseInformation,
		"Cause: missing-information (the schema)":                  rules.CauseInformation,
		"Cause: **MISSING INFORMATION**, sorry":                    rules.CauseInformation,
		"Cause: `MissingInformation`":                              rules.CauseInformation,
		"Cause: Out of Scope: it is another task\nBlocked By: T7":  rules.CauseScope,
		"Cause: information is missing":                            rules.CauseOther,
		"Cause: missing":                                           rules.CauseOther,
		"Cause: Infrastructure.":                                   rules.CauseInfrastructure,
		"Cause: waiting\nBlocked By: T7":                           rules.CauseWaiting,
		"Cause: other\nBlocker: the service is down":               rules.CauseOther,
		"Cause: other\nBlocked By: T7":                             rules.CauseOther,
		"Cause: the network service, credentials\nBlocker: docker": rules.CauseOther,
		"Blocker: the docker daemon does not run":                  rules.CauseOther,
		"Blocker: the requirement is ambiguous":                    rules.CauseOther,
		"Blocker: not enough time\nBlocked By: none":               rules.CauseOther,
		"Blocker: too hard\nBlocked By: None (all is there)":       rules.CauseOther,
		"Blocker: the parser\nBlocked By: T7":                      rules.CauseWaiting,
		"Blocker: the docker image\nBlocked By:\n- T7":             rules.CauseWaiting,
	} {
		got, err := extract(parseSignal(t, "TASK_INCOMPLETE: T1\n"+text+"\n"), nil)
		if err != nil || got.Cause != want {
			t.Errorf("%q: cause %s, want %s (%v)", text, got.Cause, want, err)
		}
	}
}

func TestSubTasks(t *testing.T) {
	s := set(t, scene{plan: task("T1")})
	said, err := extract(parseSignal(t, `EXPANDED_TASK_SPECIFICATION: T1
Confidence: MEDIUM
SUB-TASK: T1-a Dig the hole
Expanded Specification: deep
Acceptance Criteria:
- it is deep
- it is round
Target Files: hole.go
SUB-TASK: T1-b Fill it
Blocked By: T1-a, T9
`), (&session{crew: &Crew{box: s.box}}).put)
	must.Succeed(t, err)
	if len(said.SubTasks) != 2 || said.Confidence != "MEDIUM" {
		t.Fatalf("fields: %+v", said)
	}
	var got plan.Task
	must.Succeed(t, json.Unmarshal([]byte(s.text(said.SubTasks[0].Text)), &got))
	want := plan.Task{ID: "T1-a", Title: "Dig the hole", Work: "deep",
		Criteria: []string{"it is deep", "it is round"}, Files: []string{"hole.go"}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if b := said.SubTasks[1]; b.ID != "T1-b" || strings.Join(b.BlockedBy, " ") != "T1-a T9" {
		t.Errorf("second: %+v", b)
	}
}

func TestPercent(t *testing.T) {
	for text, want := range map[string]int{"": 0, "40%": 40, "7": 7, "100%": 100, "400%": 100,
		"99999999999999999999%": 100, "about 40": 0} {
		if got := percent(text); got != want {
			t.Errorf("percent(%q) is %d, want %d", text, got, want)
		}
	}
}

func TestDotTerminated(t *testing.T) {
	for text, want := range map[string]string{
		"":             ".\n",
		"a":            "a\n.\n",
		"a\n":          "a\n.\n",
		".":            "..\n.\n",
		"a\n.\n.\nb":   "a\n..\n..\nb\n.\n",
		"a\n.":         "a\n..\n.\n",
		"a\r\n.\r\nb":  "a\r\n..\r\nb\n.\n",
		"...\n. .\n.x": "...\n. .\n.x\n.\n",
	} {
		if got := string(dotTerminated([]byte(text))); got != want {
			t.Errorf("dotTerminated(%q) is %q, want %q", text, got, want)
		}
	}
}

func TestRefusals(t *testing.T) {
	h := &claims{signals: []signalbox.Signal{
		{Name: signalbox.NameReadyForReview},
		{Name: signalbox.NameReadyForReview, Refused: signalbox.ReasonNearMiss, Detail: "bold"},
		{Name: signalbox.NameReadyForReview, Refused: signalbox.ReasonNearMiss, Detail: "a bullet"},
		{Name: signalbox.NameAuditPassed, TaskID: "T2", Refused: signalbox.ReasonWrongWork},
		{Refused: signalbox.ReasonMalformed, Detail: "no JSON"},
		{Name: signalbox.NameCheckpoint, Refused: signalbox.ReasonDuplicate},
		{Name: signalbox.NameCheckpoint, Refused: signalbox.ReasonSuperseded},
		{Name: signalbox.NameFileConflict, Refused: signalbox.ReasonAmbiguous},
		{Name: signalbox.NameCheckpoint, Refused: signalbox.ReasonMixedFormats},
		{Name: signalbox.NameExpertRequest, Refused: signalbox.ReasonSuperseded},
	}}
	want := []rules.RefusedSignal{
		{Signal: signalbox.NameReadyForReview, Reason: signalbox.ReasonNearMiss, Detail: "bold",
			Times: 2},
		{Signal: signalbox.NameAuditPassed, Reason: signalbox.ReasonWrongWork, Detail: "about T2",
			Times: 1},
		{Signal: "signal", Reason: signalbox.ReasonMalformed, Detail: "no JSON", Times: 1},
		{Signal: signalbox.NameExpertRequest, Reason: signalbox.ReasonSuperseded,
			Detail: "another signal of the turn counts", Times: 1},
	}
	if diff := cmp.Diff(want, h.refusals(signalbox.Signal{})); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	creator := &claims{signals: []signalbox.Signal{
		{Name: signalbox.NameExpertCreated, Refused: signalbox.ReasonSuperseded},
		{Name: signalbox.NameExpertRequest, Refused: signalbox.ReasonSuperseded},
		{Name: signalbox.NameCheckpoint, Refused: signalbox.ReasonSuperseded},
		{Name: signalbox.NameExpertRequest},
	}}
	want = []rules.RefusedSignal{{Signal: signalbox.NameExpertCreated,
		Reason: signalbox.ReasonSuperseded, Detail: "another signal of the turn counts", Times: 1}}
	if diff := cmp.Diff(want, creator.refusals(creator.signals[3])); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	for i := range 100 {
		h.signals = append(h.signals, signalbox.Signal{Name: strings.Repeat("x", i+1),
			Refused: signalbox.ReasonOutOfRole})
	}
	if n := len(h.refusals(signalbox.Signal{})); n != 50 {
		t.Errorf("%d refusals are recorded, want 50 at most", n)
	}
}
