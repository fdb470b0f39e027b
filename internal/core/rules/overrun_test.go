package rules

import "testing"

func TestOverrun(t *testing.T) {
	for _, tt := range []struct {
		budget      Budget
		spent, last Spent
		want        string
	}{
		{Budget{CostMicros: 1_000_000}, Spent{CostMicros: 1_230_000}, Spent{CostMicros: 400_000},
			"It was overrun by $0.23: the last answer used $0.40, and $0.17 were left. "},
		{Budget{Tokens: 50_000}, Spent{Tokens: 70_000}, Spent{Tokens: 70_000},
			"It was overrun by 20000 tokens: the last answer used 70000 tokens, and 50000 tokens were left. "},
		{Budget{Tokens: 100, CostMicros: 10_000}, Spent{Tokens: 90, CostMicros: 20_000},
			Spent{Tokens: 10, CostMicros: 15_000},
			"It was overrun by $0.01: the last answer used $0.015000, and $0.005000 were left. "},
		{Budget{Tokens: 100}, Spent{Tokens: 100}, Spent{Tokens: 10}, ""},
		{Budget{Tokens: 100}, Spent{Tokens: 120}, Spent{Tokens: 10}, ""}, // it was spent before
		{Budget{Time: 10}, Spent{Time: 20}, Spent{Time: 15}, ""},
	} {
		if got := tt.budget.overrun(tt.spent, tt.last); got != tt.want {
			t.Errorf("%+v of %+v: %q, want %q", tt.spent, tt.budget, got, tt.want)
		}
	}
}
