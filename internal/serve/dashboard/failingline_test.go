package dashboard

import (
	"strings"
	"testing"

	"signalbox"
	"signalbox/internal/core/rules"
)

func TestFindFailure(t *testing.T) {
	for output, want := range map[string]string{
		"":             "",
		"\n\n":         "",
		"one\ntwo\n\n": "two",
		"ok a\n--- FAIL: TestB (0.00s)\n    b_test.go:7: 1, want 2\nFAIL\n": "--- FAIL: TestB (0.00s)",
		"running\nmain.go:3:2: undefined: x\nexit 2":                        "main.go:3:2: undefined: x",
		"0 errors\n2 passed, 0 failed\nsegfault\n":                          "segfault",
		"Traceback (most recent call last):\r\n  x\r\nValueError: no\r\n":   "Traceback (most recent call last):",
		"ValueError: no\n":        "ValueError: no",
		"not ok 3 - adds\n# end":  "not ok 3 - adds",
		"unfailing\nterror\ndone": "done",
	} {
		got := findFailure(output)
		if got.Line != want || got.Before+got.Line+got.After != output {
			t.Errorf("%q: %+v, want %q", output, got, want)
		}
	}
}

// TestFailedCheckLeadsToItsLine: the red cell of the check matrix links to the line of the output
// that says what is wrong, and every session has its cost.
func TestFailedCheckLeadsToItsLine(t *testing.T) {
	s := newStage(t)
	s.start(signalbox.RoleDeveloper, "T3")
	s.say("T3", "ready_for_review", onlyText)
	s.start(signalbox.RoleCI, "T3")
	a := s.held["T3"]
	s.do(rules.ReportChecks{Session: a.Session, Epoch: a.Lease.Epoch, Commit: s.commit,
		Rows: []rules.CheckRow{
			{Check: "lint", Environment: "linux", Passed: true},
			{Check: "test", Environment: "linux", Exit: 1,
				Output: s.blob("ok\nb_test.go:7: <b>1</b> failed\ndone\n")}}})
	_, _, page := s.get(s.viewer(), "/work/T3")
	for _, want := range []string{`<a href="#check-1-line">failed, exit 1</a>`,
		`<mark id="check-1-line" tabindex="-1">b_test.go:7: &lt;b&gt;1&lt;/b&gt; failed</mark>`} {
		if strings.Count(page, want) != 1 {
			t.Errorf("the page does not have %s:\n%s", want, page)
		}
	}
	if strings.Count(page, `<td class="number">$0.07</td><td>released</td>`) != 2 {
		t.Errorf("the page does not show what each of two sessions cost:\n%s", page)
	}
}
