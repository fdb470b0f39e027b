package decide_test

import (
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"signalbox"
	"signalbox/internal/oracle/decide"
	"signalbox/internal/testkit/property"
)

func signal(name string, confidence float64, fields ...string) *decide.Signal {
	s := &decide.Signal{Type: name, Confidence: confidence, Fields: map[string]any{}}
	for i := 0; i < len(fields); i += 2 {
		s.Fields[fields[i]] = fields[i+1]
	}
	return s
}

func TestEveryRow(t *testing.T) {
	type situation = decide.Situation
	type limits = decide.Resources
	capability := signal("need_capability", 0.9, "capability", " a shell\n")
	workaround := signal("need_capability", 0.9, "capability", "a shell", "workaround",
		"read the file")
	delegation := signal("delegation_recommended", 0.9, "subagent_type", "researcher")
	for _, tt := range []struct {
		name string
		in   situation
		want decide.Decision
	}{
		{"cancelled", situation{Cancelled: true, Text: true},
			decide.Decision{Action: "stop", Reason: "cancelled", Level: "error"}},

		{"tokens", situation{Spent: limits{Tokens: 100}, Limit: limits{Tokens: 100}},
			decide.Decision{Action: "ask_final", Reason: "budget_spent", Level: "warning",
				Detail: "tokens"}},
		{"tokens left", situation{Spent: limits{Tokens: 99}, Limit: limits{Tokens: 100},
			Text: true}, decide.Decision{Action: "final", Reason: "answered"}},
		{"cost", situation{Spent: limits{CostUSD: 0.25}, Limit: limits{CostUSD: 0.25}},
			decide.Decision{Action: "ask_final", Reason: "budget_spent", Level: "warning",
				Detail: "cost"}},
		{"cost left", situation{Spent: limits{CostUSD: 0.24}, Limit: limits{CostUSD: 0.25},
			Text: true}, decide.Decision{Action: "final", Reason: "answered"}},
		{"time", situation{Spent: limits{Time: time.Minute}, Limit: limits{Time: time.Minute}},
			decide.Decision{Action: "ask_final", Reason: "budget_spent", Level: "warning",
				Detail: "time"}},
		{"time left", situation{Spent: limits{Time: time.Minute - 1},
			Limit: limits{Time: time.Minute}, Text: true},
			decide.Decision{Action: "final", Reason: "answered"}},
		{"no limits", situation{Spent: limits{1 << 40, 1e9, time.Hour}, Text: true},
			decide.Decision{Action: "final", Reason: "answered"}},
		{"budget, asked", situation{Asked: "budget_spent", Spent: limits{Tokens: 120},
			Limit: limits{Tokens: 100}, Text: true},
			decide.Decision{Action: "stop", Reason: "budget_spent", Level: "warning",
				Detail: "tokens"}},

		{"turn 29", situation{Turn: 29, Text: true},
			decide.Decision{Action: "final", Reason: "answered"}},
		{"turn 30", situation{Turn: 30, Text: true},
			decide.Decision{Action: "ask_final", Reason: "max_turns_exceeded", Level: "warning"}},
		{"turn 4 of 5", situation{Turn: 4, TurnLimit: 5, Text: true},
			decide.Decision{Action: "final", Reason: "answered"}},
		{"turn 5 of 5", situation{Turn: 5, TurnLimit: 5, Text: true},
			decide.Decision{Action: "ask_final", Reason: "max_turns_exceeded", Level: "warning"}},
		{"turn 31, asked", situation{Turn: 31, Asked: "max_turns_exceeded", PendingToolCalls: 1},
			decide.Decision{Action: "stop", Reason: "max_turns_exceeded", Level: "warning"}},
		{"turns, asked, then the budget", situation{Turn: 31, Asked: "max_turns_exceeded",
			Spent: limits{Tokens: 1}, Limit: limits{Tokens: 1}},
			decide.Decision{Action: "stop", Reason: "max_turns_exceeded", Level: "warning"}},

		{"context_sufficient", situation{Signal: signal("context_sufficient", 0), Text: true},
			decide.Decision{Action: "final", Reason: "context_sufficient"}},
		{"context_sufficient without text", situation{Signal: signal("context_sufficient", 1)},
			decide.Decision{Action: "ask_final", Reason: "context_sufficient"}},
		{"the word after it", situation{Asked: "context_sufficient", Text: true},
			decide.Decision{Action: "final", Reason: "context_sufficient"}},
		{"still no word", situation{Asked: "context_sufficient"},
			decide.Decision{Action: "stop", Reason: "no_answer", Level: "warning",
				Detail: "context_sufficient"}},
		{"partial_answer", situation{Signal: signal("partial_answer", 0.1, "missing", "the tests"),
			Text: true}, decide.Decision{Action: "final", Reason: "partial_answer",
			Detail: "the tests"}},

		{"stuck", situation{Signal: signal("stuck", 0.1, "blocker", "no index"), Text: true},
			decide.Decision{Action: "other_strategy", Reason: "stuck", Detail: "no index"}},
		{"stuck again", situation{Signal: signal("stuck", 0.1), StrategiesTried: 1, Text: true},
			decide.Decision{Action: "acknowledge", Reason: "stuck", Level: "warning"}},
		{"acknowledged", situation{Asked: "stuck", Signal: signal("stuck", 0.9), StrategiesTried: 1,
			Text: true}, decide.Decision{Action: "final", Reason: "stuck", Level: "warning"}},
		{"same reason twice", situation{Signal: signal("need_turn", 0.9, "reason", "r"),
			SameReason: 2}, decide.Decision{Action: "go_on", Reason: "need_turn"}},
		{"same reason 3 times", situation{Signal: signal("need_turn", 0.9, "reason", "r"),
			SameReason: 3}, decide.Decision{Action: "other_strategy", Reason: "same_reason",
			Detail: "r"}},
		{"same reason 4 times", situation{Signal: signal("need_turn", 0.9), SameReason: 4,
			StrategiesTried: 1}, decide.Decision{Action: "acknowledge", Reason: "same_reason",
			Level: "warning"}},
		{"same reason some turns ago", situation{SameReason: 3, PendingToolCalls: 1},
			decide.Decision{Action: "go_on", Reason: "tool_calls"}},

		{"need_capability", situation{Signal: capability, Text: true},
			decide.Decision{Action: "final", Reason: "need_capability", Level: "warning",
				Detail: "a shell"}},
		{"need_capability without text", situation{Signal: capability, PendingToolCalls: 1},
			decide.Decision{Action: "ask_final", Reason: "need_capability", Level: "warning",
				Detail: "a shell"}},
		{"need_capability, its workaround", situation{Signal: workaround, Text: true},
			decide.Decision{Action: "go_on", Reason: "need_capability", Level: "warning",
				Detail: "a shell"}},
		{"need_capability, our workaround", situation{Signal: capability, Workaround: true,
			Text: true}, decide.Decision{Action: "go_on", Reason: "need_capability",
			Level: "warning", Detail: "a shell"}},

		{"delegation", situation{Signal: delegation, SubAgent: true, Text: true},
			decide.Decision{Action: "delegate", Reason: "delegation_recommended",
				Detail: "researcher"}},
		{"delegation without sub-agent", situation{Signal: delegation, Text: true},
			decide.Decision{Action: "go_on", Reason: "delegation_recommended",
				Detail: "researcher"}},

		{"need_turn 0.5", situation{Signal: signal("need_turn", 0.5), SameReason: 1, Text: true},
			decide.Decision{Action: "go_on", Reason: "need_turn"}},
		{"need_turn 0.49", situation{Signal: signal("need_turn", 0.49), Text: true},
			decide.Decision{Action: "final", Reason: "answered"}},
		{"need_turn 0.49 without text", situation{Signal: signal("need_turn", 0.49)},
			decide.Decision{Action: "go_on", Reason: "nothing_said"}},
		{"tool calls", situation{PendingToolCalls: 1, Text: true},
			decide.Decision{Action: "go_on", Reason: "tool_calls"}},

		{"2 turns without a signal", situation{TurnsWithoutSignal: 2},
			decide.Decision{Action: "go_on", Reason: "nothing_said"}},
		{"3 turns without a signal", situation{TurnsWithoutSignal: 3},
			decide.Decision{Action: "hint", Reason: "turns_without_signal"}},
		{"4 turns, hinted", situation{TurnsWithoutSignal: 4, HintsGiven: 1},
			decide.Decision{Action: "force_answer", Reason: "turns_without_signal",
				Level: "warning"}},
		{"3 turns, and text", situation{TurnsWithoutSignal: 3, Text: true},
			decide.Decision{Action: "final", Reason: "turns_without_signal"}},
		{"confidence 0.3", situation{Signal: signal("need_turn", 0.3), Text: true},
			decide.Decision{Action: "final", Reason: "answered"}},
		{"confidence 0.29", situation{Signal: signal("need_turn", 0.29), Text: true},
			decide.Decision{Action: "final", Reason: "low_confidence", Level: "warning"}},
		{"confidence 0.29 without text", situation{Signal: signal("need_turn", 0.29)},
			decide.Decision{Action: "hint", Reason: "low_confidence"}},
		{"confidence 0.29 without text, hinted", situation{Signal: signal("need_turn", 0.29),
			HintsGiven: 1}, decide.Decision{Action: "force_answer", Reason: "low_confidence",
			Level: "warning"}},
		{"forced", situation{Asked: "low_confidence", Signal: signal("need_turn", 0.9), Text: true},
			decide.Decision{Action: "final", Reason: "low_confidence", Level: "warning"}},

		{"text", situation{Text: true}, decide.Decision{Action: "final", Reason: "answered"}},
		{"nothing", situation{}, decide.Decision{Action: "go_on", Reason: "nothing_said"}},
	} {
		if diff := cmp.Diff(tt.want, decide.Decide(tt.in)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", tt.name, diff)
		}
	}
}

// TestNeedTurnIsMonotonic checks that a model that is more certain that it needs another turn never
// gets none where a less certain one does.
func TestNeedTurnIsMonotonic(t *testing.T) {
	for name, s := range map[string]decide.Situation{
		"text":              {Text: true},
		"text, hinted":      {Text: true, HintsGiven: 1},
		"text, other ways":  {Text: true, StrategiesTried: 1},
		"text, cut":         {Text: true, Cut: decide.ReasonTokenLimit},
		"text and calls":    {Text: true, PendingToolCalls: 1},
		"nothing":           {},
		"nothing, hinted":   {HintsGiven: 1},
		"text, last turn":   {Text: true, Turn: 30},
		"text, same reason": {Text: true, SameReason: 3},
	} {
		another, since := false, 0
		for n := 0; n <= 100; n++ {
			s.Signal = signal("need_turn", float64(n)/100)
			d := decide.Decide(s)
			if another && d.Action.Ends() {
				t.Errorf("%s: confidence %d %% gets another turn, and %d %% gets %+v", name, since,
					n, d)
			}
			if !another && !d.Action.Ends() {
				another, since = true, n
			}
		}
	}
}

// TestIncompleteTurnIsNoAnswer checks that text that was cut off is never accepted as the answer,
// whatever the model signals.
func TestIncompleteTurnIsNoAnswer(t *testing.T) {
	for _, cut := range []decide.Reason{decide.ReasonTokenLimit, decide.ReasonRefused,
		decide.ReasonTimeLimit} {
		want := decide.Decision{Action: "stop", Reason: cut, Level: "warning"}
		for name, s := range map[string]decide.Situation{
			"text":               {},
			"context_sufficient": {Signal: signal("context_sufficient", 0.9)},
			"partial_answer":     {Signal: signal("partial_answer", 0.9)},
			"need_turn 0.4":      {Signal: signal("need_turn", 0.4)},
			"silent":             {TurnsWithoutSignal: 3},
			"last turn":          {Asked: "max_turns_exceeded"},
			"last turn, budget":  {Asked: "budget_spent"},
			"last turn, stuck":   {Asked: "stuck"},
		} {
			s.Text, s.Cut = true, cut
			if diff := cmp.Diff(want, decide.Decide(s)); diff != "" {
				t.Errorf("%s, cut by %s (-want +got):\n%s", name, cut, diff)
			}
			if !cut.Incomplete() {
				t.Errorf("%s is complete", cut)
			}
		}
	}
	// What follows a cut reply with tool calls, or one that asks for another turn, is as usual; a
	// refusal ends the conversation.
	for _, tt := range []struct {
		s    decide.Situation
		want decide.Action
	}{
		{decide.Situation{Cut: decide.ReasonTokenLimit, PendingToolCalls: 1, Text: true},
			decide.Continue},
		{decide.Situation{Cut: decide.ReasonRefused, PendingToolCalls: 1, Text: true},
			decide.Continue},
		{decide.Situation{Cut: decide.ReasonTokenLimit, Signal: signal("need_turn", 0.9),
			Text: true}, decide.Continue},
		{decide.Situation{Cut: decide.ReasonTokenLimit}, decide.Continue},
		{decide.Situation{Cut: decide.ReasonRefused}, decide.Stop},
	} {
		if d := decide.Decide(tt.s); d.Action != tt.want {
			t.Errorf("%+v: %+v, want %s", tt.s, d, tt.want)
		}
	}
	if d := decide.Decide(decide.Situation{Cancelled: true,
		Cut: decide.ReasonRefused}); d.Reason != decide.ReasonCancelled {
		t.Errorf("cancelled: %+v", d)
	}
}

// row is a situation that matches a row of the table.
type row struct {
	reason decide.Reason
	signal string // the required signal; "" for none, "any" for any
	make   func(*decide.Situation)
}

func rows() []row {
	none := func(*decide.Situation) {}
	return []row{
		{"cancelled", "", func(s *decide.Situation) { s.Cancelled = true }},
		{"no_answer", "", func(s *decide.Situation) { s.Asked = "stuck" }},
		{"budget_spent", "", func(s *decide.Situation) { s.Spent.Tokens, s.Limit.Tokens = 2, 1 }},
		{"max_turns_exceeded", "", func(s *decide.Situation) { s.Turn = 30 }},
		{"context_sufficient", "context_sufficient", none},
		{"partial_answer", "partial_answer", none},
		{"stuck", "stuck", none},
		{"same_reason", "need_turn", func(s *decide.Situation) { s.SameReason = 3 }},
		{"need_capability", "need_capability", none},
		{"delegation_recommended", "delegation_recommended", none},
		{"need_turn", "need_turn", func(s *decide.Situation) { s.Signal.Confidence = 0.5 }},
		{"tool_calls", "", func(s *decide.Situation) { s.PendingToolCalls = 2 }},
		{"turns_without_signal", "", func(s *decide.Situation) { s.TurnsWithoutSignal = 3 }},
		{"low_confidence", "any", func(s *decide.Situation) { s.Signal.Confidence = 0.2 }},
		{"answered", "", func(s *decide.Situation) { s.Text = true }},
	}
}

func TestFirstMatchingRowDecides(t *testing.T) {
	pairs := 0
	all := rows()
	for i, first := range all {
		for _, second := range all[i:] {
			name := first.signal
			switch {
			case name == "" || name == "any":
				name = max(second.signal, first.signal)
			case second.signal != "" && second.signal != "any" && second.signal != name:
				continue // a reply cannot have both
			}
			if first.reason == "need_turn" && second.reason == "low_confidence" {
				continue // a signal cannot be both
			}
			var s decide.Situation
			if name == "any" {
				name = "need_turn"
			}
			if name != "" {
				s.Signal = signal(name, 0.4)
			}
			second.make(&s)
			first.make(&s)
			want := first.reason
			if want == "no_answer" && s.Text {
				want = "stuck" // the last turn, which had to answer
			}
			if got := decide.Decide(s); got.Reason != want {
				t.Errorf("%s and %s: %+v", first.reason, second.reason, got)
			}
			pairs++
		}
	}
	if pairs < 80 {
		t.Errorf("only %d pairs were tried", pairs)
	}
}

func drawSignal(t *rapid.T) *decide.Signal {
	name := rapid.SampledFrom(append(signalbox.TurnTypes(), "", "unheard_of")).Draw(t, "type")
	if name == "" {
		return nil
	}
	s := signal(name, rapid.OneOf(rapid.Float64Range(0, 1),
		rapid.SampledFrom([]float64{0, 0.3, 0.5, 1, -1, math.NaN(), math.Inf(1)})).Draw(t,
		"confidence"))
	if rapid.Bool().Draw(t, "workaround named") {
		s.Fields["workaround"] = rapid.SampledFrom([]any{"w", " ", []any{"w"}, 1, nil}).Draw(t,
			"workaround")
	}
	if rapid.Bool().Draw(t, "no fields") {
		s.Fields = nil
	}
	return s
}

func drawSituation(t *rapid.T) decide.Situation {
	small := rapid.IntRange(-1, 5)
	resources := func(name string) decide.Resources {
		return decide.Resources{Tokens: int64(small.Draw(t, name)),
			CostUSD: float64(small.Draw(t, name)), Time: time.Duration(small.Draw(t, name))}
	}
	return decide.Situation{
		Cancelled: rapid.Bool().Draw(t, "cancelled"), Spent: resources("spent"),
		Limit: resources("limit"),
		Turn:  rapid.IntRange(0, 32).Draw(t, "turn"), TurnLimit: small.Draw(t, "turn limit"),
		Signal:             drawSignal(t),
		SameReason:         small.Draw(t, "same reason"),
		TurnsWithoutSignal: small.Draw(t, "without signal"),
		PendingToolCalls:   rapid.IntRange(0, 2).Draw(t, "calls"), Text: rapid.Bool().Draw(t, "text"),
		StrategiesTried: rapid.IntRange(0, 2).Draw(t, "strategies"),
		HintsGiven:      rapid.IntRange(0, 2).Draw(t, "hints"),
		Workaround:      rapid.Bool().Draw(t, "our workaround"),
		SubAgent:        rapid.Bool().Draw(t, "sub-agent"),
		Asked: rapid.SampledFrom([]decide.Reason{"", "", "budget_spent", "max_turns_exceeded",
			"stuck", "what else"}).Draw(t, "asked"),
	}
}

func TestDecideIsTotalAndDeterministic(t *testing.T) {
	property.Check(t, func(t *rapid.T) {
		s := drawSituation(t)
		d := decide.Decide(s)
		if d.Action == "" || d.Reason == "" {
			t.Fatalf("no decision: %+v", d)
		}
		if again := decide.Decide(s); again != d {
			t.Fatalf("%+v, then %+v", d, again)
		}
		if s.Cancelled != (d.Reason == decide.ReasonCancelled) ||
			s.Cancelled != (d.Level == decide.Error) || s.Cancelled && d.Action != decide.Stop {
			t.Fatalf("cancelled is %v: %+v", s.Cancelled, d)
		}
		if s.Asked != "" && !d.Action.Ends() {
			t.Fatalf("asked for the answer, and then %+v", d)
		}
	})
}

// Every conversation ends, whatever the model says, if the caller maintains Situation as
// documented.
func TestEveryConversationEnds(t *testing.T) {
	longest := 0
	property.Check(t, func(t *rapid.T) {
		limit := rapid.IntRange(1, 31).Draw(t, "limit")
		s := decide.Situation{TurnLimit: limit}
		if limit == 31 {
			s.TurnLimit, limit = 0, decide.DefaultTurnLimit
		}
		stubborn := rapid.Bool().Draw(t, "stubborn")
		for s.Turn = 1; ; s.Turn++ {
			if s.Turn > limit+1 {
				t.Fatalf("turn %d of %d", s.Turn, limit)
			}
			s.Signal, s.SameReason, s.PendingToolCalls, s.Text = nil, 0, 1, false
			if !stubborn {
				s.Signal, s.SameReason = drawSignal(t), rapid.IntRange(1, 4).Draw(t, "same reason")
				s.PendingToolCalls, s.Text = rapid.IntRange(0, 1).Draw(t, "calls"),
					rapid.Bool().Draw(t, "text")
			}
			if s.TurnsWithoutSignal++; s.Signal != nil {
				s.TurnsWithoutSignal = 0
			}
			d := decide.Decide(s)
			if d.Action.Ends() {
				longest = max(longest, s.Turn)
				return
			}
			switch d.Action {
			case decide.Hint:
				s.HintsGiven++
			case decide.OtherStrategy:
				s.StrategiesTried++
			}
			if d.Action.AsksForAnswer() {
				s.Asked = d.Reason
			}
		}
	})
	if longest != decide.DefaultTurnLimit+1 {
		t.Errorf("the longest conversation had %d turns: limits were not tried", longest)
	}
}

func ExampleDecide() {
	d := decide.Decide(decide.Situation{Turn: 2,
		Signal: &decide.Signal{Type: "stuck", Confidence: 0.8}})
	fmt.Println(d.Action, d.Reason)
	// Output: other_strategy stuck
}
