package turnsignal

import (
	"math"
	"strings"
	"testing"
	"time"

	"signalbox/internal/testkit/must"
	"signalbox/internal/tree"
)

var noon = time.Date(2026, 3, 1, 12, 0, 0, 5, time.UTC)

type values = map[string]any

func newBoard(t must.Test, set values) *tree.Board {
	b, err := tree.NewBoard(nil)
	must.Succeed(t, err)
	for key, v := range set {
		must.Succeed(t, b.Set(key, v))
	}
	return b
}

type conditionTest struct {
	name  string
	board values // nil means no blackboard
	args  values
	want  tree.Status
	err   string // part of the recorded error, "" for none
}

func testCondition(t *testing.T, do tree.Func, tests []conditionTest) {
	t.Helper()
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			var board *tree.Board
			if test.board != nil {
				board = newBoard(t, test.board)
			}
			c := tree.NewCall(board, test.args, noon)
			if got := do(c); got != test.want {
				t.Errorf("got %v, want %v", got, test.want)
			}
			if got := c.Err(); (got == "") != (test.err == "") || !strings.Contains(got, test.err) {
				t.Errorf("recorded %q, want %q", got, test.err)
			}
		})
	}
}

func signal(typ string, confidence any) values {
	return values{"last_signal": values{"type": typ, "confidence": confidence,
		"fields": values{"reason": "testing"}}}
}

// hostile holds malformed signals that the blackboard accepts.
func hostile(want tree.Status) []conditionTest {
	return []conditionTest{
		{name: "empty type", board: values{"last_signal": values{"type": ""}}, want: tree.Failure},
		{name: "fields are a list",
			board: values{"last_signal": values{"type": "stuck", "confidence": 1.0,
				"fields": []any{1}}}, want: want},
		{name: "all but the type mistyped",
			board: values{"last_signal": values{"type": "stuck", "confidence": 1, "fields": "x",
				"raw_xml": 1, "timestamp": true}}, want: want},
	}
}

func TestCheckSignal(t *testing.T) {
	testCondition(t, CheckSignal, append(hostile(tree.Success), []conditionTest{
		{name: "returns_success_when_signal_present", board: signal("need_turn", 0.85),
			want: tree.Success},
		{name: "returns_failure_when_no_signal", board: values{}, want: tree.Failure},
		{name: "returns_failure_when_blackboard_none", want: tree.Failure},
		{name: "only a type", board: values{"last_signal": values{"type": "x"}},
			want: tree.Success},
	}...))
}

func TestHasSignal(t *testing.T) {
	testCondition(t, HasSignal, append(hostile(tree.Success), []conditionTest{
		{name: "returns_success_with_any_signal", board: signal("stuck", 0.2), want: tree.Success},
		{name: "returns_success_with_matching_type", board: signal("need_turn", 0.85),
			args: values{"signal_type": "need_turn"}, want: tree.Success},
		{name: "returns_failure_with_wrong_type",
			board: values{"last_signal": values{"type": "context_sufficient"}},
			args:  values{"signal_type": "need_turn"}, want: tree.Failure},
		{name: "returns_failure_when_no_signal", board: values{}, want: tree.Failure},
		{name: "typed, no signal", board: values{}, args: values{"signal_type": "need_turn"},
			want: tree.Failure},
		{name: "no blackboard", want: tree.Failure},
		{name: "a nil argument is none", board: signal("stuck", 1.0),
			args: values{"signal_type": nil}, want: tree.Success},
		{name: "an empty type is one", board: signal("stuck", 1.0), args: values{"signal_type": ""},
			want: tree.Failure},
		{name: "mistyped argument", board: signal("stuck", 1.0), args: values{"signal_type": 3},
			want: tree.Failure, err: "signal_type takes a string"},
		{name: "argument by reference", board: values{"last_signal": values{"type": "stuck"},
			"_want": "stuck"},
			args: values{"signal_type": tree.Ref{Key: "_want"}}, want: tree.Success},
	}...))
}

func TestSignalTypeIs(t *testing.T) {
	is := func(typ string) values { return values{"expected_type": typ} }
	testCondition(t, SignalTypeIs, []conditionTest{
		{name: "need_turn_match", board: signal("need_turn", 0.5), args: is("need_turn"),
			want: tree.Success},
		{name: "context_sufficient_match", board: signal("context_sufficient", 0.5),
			args: is("context_sufficient"), want: tree.Success},
		{name: "stuck_match", board: signal("stuck", 0.5), args: is("stuck"), want: tree.Success},
		{name: "mismatch_returns_failure", board: signal("stuck", 0.5), args: is("need_turn"),
			want: tree.Failure},
		{name: "strictly equal", board: signal("need_turn", 0.5), args: is("NEED_TURN"),
			want: tree.Failure},
		{name: "no signal", board: values{}, args: is("need_turn"), want: tree.Failure},
		{name: "no signal is of no type", board: values{}, args: is(""), want: tree.Failure},
		{name: "no blackboard", args: is("need_turn"), want: tree.Failure},
		{name: "argument missing", board: signal("stuck", 0.5), want: tree.Failure,
			err: "expected_type is missing"},
		{name: "argument mistyped", board: signal("stuck", 0.5),
			args: values{"expected_type": true}, want: tree.Failure,
			err: "expected_type takes a string"},
	})
}

func TestSignalConfidenceAbove(t *testing.T) {
	above := func(threshold any) values { return values{"threshold": threshold} }
	noConfidence := values{"last_signal": values{"type": "need_turn"}}
	testCondition(t, SignalConfidenceAbove, append(hostile(tree.Success), []conditionTest{
		{name: "confidence_above_threshold", board: signal("need_turn", 0.85), args: above(0.7),
			want: tree.Success},
		{name: "confidence_at_threshold", board: signal("need_turn", 0.7), args: above(0.7),
			want: tree.Success},
		{name: "confidence_below_threshold", board: signal("need_turn", 0.69), args: above(0.7),
			want: tree.Failure},
		{name: "default, at it", board: signal("need_turn", 0.5), want: tree.Success},
		{name: "default, below it", board: signal("need_turn", 0.49), args: above(nil),
			want: tree.Failure},
		{name: "whole numbers", board: signal("need_turn", 1), args: above(1), want: tree.Success},
		{name: "whole number of the blackboard", board: signal("need_turn", 1),
			args: above(int64(1)), want: tree.Success},
		{name: "no confidence", board: noConfidence, args: above(0.0), want: tree.Failure},
		{name: "confidence is a text", board: signal("need_turn", "0.9"), args: above(0.0),
			want: tree.Failure},
		{name: "confidence is a list", board: signal("need_turn", []any{0.9}), args: above(0.0),
			want: tree.Failure},
		{name: "no type", board: values{"last_signal": values{"type": "", "confidence": 0.9}},
			want: tree.Failure},
		{name: "no signal", board: values{}, args: above(0.0), want: tree.Failure},
		{name: "no blackboard", args: above(0.0), want: tree.Failure},
		{name: "no number reaches NaN", board: signal("need_turn", 1.0), args: above(math.NaN()),
			want: tree.Failure},
		{name: "mistyped argument", board: signal("need_turn", 1.0), args: above("0.1"),
			want: tree.Failure, err: "threshold takes a float"},
	}...))
}

func TestConsecutiveSameReasonGte(t *testing.T) {
	testCount(t, ConsecutiveSameReasonGTE, "consecutive_same_reason")
}

func TestTurnsWithoutSignalGte(t *testing.T) {
	testCount(t, TurnsWithoutSignalGTE, "turns_without_signal")
}

func testCount(t *testing.T, do tree.Func, key string) {
	t.Helper()
	count := func(n any) values { return values{"count": n} }
	testCondition(t, do, []conditionTest{
		{name: "at_threshold_returns_success", board: values{key: 3}, args: count(3),
			want: tree.Success},
		{name: "above_threshold_returns_success", board: values{key: 4}, args: count(int64(3)),
			want: tree.Success},
		{name: "below_threshold_returns_failure", board: values{key: 2}, args: count(3),
			want: tree.Failure},
		{name: "default, at it", board: values{key: 3}, want: tree.Success},
		{name: "default, below it", board: values{key: 2}, args: count(nil), want: tree.Failure},
		{name: "another count", board: values{key: 2}, args: count(2.0), want: tree.Success},
		{name: "at first", board: values{}, args: count(1), want: tree.Failure},
		{name: "at first none", board: values{}, args: count(0), want: tree.Success},
		{name: "absent key", board: values{key: nil}, args: count(0), want: tree.Failure},
		{name: "no blackboard", args: count(0), want: tree.Failure},
		{name: "mistyped argument", board: values{key: 9}, args: count("3"), want: tree.Failure,
			err: `count takes an int, not "3"`},
		{name: "broken argument", board: values{key: 9}, args: count(2.5), want: tree.Failure,
			err: "count takes an int, not 2.5"},
		{name: "huge argument", board: values{key: 9}, args: count(-1e300), want: tree.Failure,
			err: "count takes an int"},
	})
}
