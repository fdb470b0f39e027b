package crew

import (
	"context"
	"errors"
	"fmt"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"signalbox"
	"signalbox/internal/core/rules"
	"signalbox/internal/process"
	"signalbox/internal/run/agent"
	"signalbox/internal/testkit/must"
)

func TestFalseClaims(t *testing.T) {
	s := set(t, scene{plan: task("T1")})
	c := &Crew{box: s.box}
	rows := []rules.CheckRow{
		{Check: "unit tests", Environment: "local", Exit: 0, Passed: true},
		{Check: "unit tests", Environment: "go 1.26", Exit: -1, Passed: false},
		{Check: "lint", Environment: "local", Exit: 2, Passed: false},
	}
	for _, test := range []struct {
		table string
		want  []string
	}{
		{"", nil},
		{"| Unit Tests | LOCAL | 0 | pass |\n| unit tests | go 1.26 | -1 | FAIL |\n| lint | local | 2 | FAIL |", nil},
		{"| lint | local | 0 | PASS |", []string{"lint in local: reported PASS (0), was FAIL (2)"}},
		{"| lint | local | 1 | FAIL |", []string{"lint in local: reported FAIL (1), was FAIL (2)"}},
		{"| lint | | 0 | PASS |", []string{"lint in local: reported PASS (0), was FAIL (2)"}},
		{"| unit tests | | 0 | PASS |",
			[]string{"unit tests in go 1.26: reported PASS (0), was FAIL (-1)"}},
		{"| something else | local | 0 | PASS |", nil},
	} {
		text := "READY_FOR_REVIEW: T1\n"
		if test.table != "" {
			text += "Environment Verification Matrix:\n| Check | Environment | Exit Code | Result |\n|---|---|---|---|\n" + test.table + "\n"
		}
		report := rules.ReportSignal{}
		must.Succeed(t, addBody(&report, parseSignal(t, text), (&session{crew: c}).put))
		if diff := cmp.Diff(test.want, c.falseClaims(t.Context(), report.Body, rows)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", test.table, diff)
		}
	}
	if got := c.falseClaims(t.Context(), signalbox.Hash{}, rows); got != nil {
		t.Errorf("no claims, but differences: %v", got)
	}
}

func TestParseRateLimit(t *testing.T) {
	now := time.Date(2026, 11, 15, 12, 0, 0, 0, time.UTC)
	for text, want := range map[string]time.Duration{
		"429 rate limit reached, resets at 2026-11-15T12:00:05Z":              5 * time.Second,
		"Rate limit reached for gpt. Please try again in 1.5s.":               1500 * time.Millisecond,
		"You've hit your usage limit. Try again in 2 days 3 hours 4 minutes.": 51*time.Hour + 4*time.Minute,
		"Quota exceeded. Please retry in 33s":                                 33 * time.Second,
		"too many requests: retry after 250 ms":                               250 * time.Millisecond,
		"exit status 1":                                                       -1,
		"rate limit reached":                                                  -1,
		"it failed at 2026-11-15T12:00:05Z":                                   -1,
		"HTTP 500, try again in 5s":                                           -1,
		"error 14290: try again in 5s":                                        -1,
	} {
		until, limited := parseRateLimit(text, now)
		if limited != (want >= 0) || limited && until.Sub(now) != want {
			t.Errorf("%q: %v, until %v later", text, limited, until.Sub(now))
		}
	}
}

// Starting a program is tried four times, unless the error is permanent or the session ends.
func TestStartIsRetried(t *testing.T) {
	owner, err := agent.Join(t.TempDir())
	must.Succeed(t, err)
	if err := owner.Leave(); err != nil { // so that Add fails
		t.Fatal(err)
	}
	c := &Crew{owner: owner, opts: Options{seams: seams{delays: &delays{start: []time.Duration{1, 1, 1}}}}}
	r := &turnRun{agentRun: &agentRun{session: &session{crew: c, id: "s-1"}}}
	spec := process.Spec{Argv: []string{"true"}}
	if _, err := r.startProgram(t.Context(), spec); err == nil {
		t.Error("the program was started")
	}
	c.opts.delays.start = []time.Duration{time.Hour}
	stopped, stop := context.WithCancelCause(t.Context())
	why := errors.New("enough")
	stop(why)
	if _, err := r.startProgram(stopped, spec); !errors.Is(err, why) {
		t.Errorf("error %v", err)
	}
	classed := (*signalbox.Error)(nil)
	if _, err := r.startProgram(t.Context(),
		process.Spec{Argv: []string{"no-such-program-anywhere"}}); !errors.As(err, &classed) {
		t.Errorf("error %v", err)
	}
	c.opts.delays.start = []time.Duration{1, 1, 1}
	for _, transient := range []error{syscall.EAGAIN, syscall.ENOMEM, syscall.EMFILE,
		syscall.ENFILE} {
		tries := 0
		c.opts.start = func(process.Spec, func(process.ID) error) (program, error) {
			if tries++; tries < 4 {
				return nil, &signalbox.Error{Code: signalbox.CodeFailed,
					Err: fmt.Errorf("start true: %w", transient), Hint: "run fewer"}
			}
			return nil, nil
		}
		if _, err := r.startProgram(t.Context(), spec); err != nil || tries != 4 {
			t.Errorf("%v: tried %d times: %v", transient, tries, err)
		}
	}
	if usual := defaultDelays(); !cmp.Equal(usual.start,
		[]time.Duration{time.Second, 2 * time.Second, 4 * time.Second}) {
		t.Errorf("delays: %v", usual.start)
	}
}

func TestIsFinished(t *testing.T) {
	const idle, busy = false, true
	for _, test := range []struct {
		opts     Options
		busy     bool
		standing rules.Standing
		want     bool
	}{
		{Options{}, idle, rules.StandingComplete, true},
		{Options{}, idle, rules.StandingStuck, true},
		{Options{}, busy, rules.StandingComplete, false}, // the session is still cleaning up
		{Options{Stay: true}, idle, rules.StandingComplete, false},
		{Options{}, idle, rules.StandingAsking, false},
		{Options{LeaveQuestions: true}, idle, rules.StandingAsking, true},
		{Options{LeaveQuestions: true}, idle, rules.StandingPaused, true},
		{Options{LeaveQuestions: true}, busy, rules.StandingAsking, false},
	} {
		c := &Crew{opts: test.opts}
		if got := c.isFinished(rules.Status{Standing: test.standing}, test.busy); got != test.want {
			t.Errorf("%s, busy %v, with %+v: %v", test.standing, test.busy, test.opts, got)
		}
	}
}
