package dashboard

import (
	"strings"
	"testing"

	"signalbox/internal/core/rules"
	"signalbox/internal/run/inspect"
	"signalbox/internal/show"
)

// TestCostPage has the same numbers as the status, by task, role, agent and day, and every limit of
// every budget.
func TestCostPage(t *testing.T) {
	s := newStage(t)
	var policy rules.Policy
	s.box.Engine.View(func(state *rules.State) { policy, _ = state.Policy() })
	policy.Run, policy.Task = rules.Budget{CostMicros: 4_000_000, Tokens: 90_000,
		Time: 3_600_000_000_000}, rules.Budget{CostMicros: 300_000}
	policy.RoleBudgets = []rules.RoleBudget{{Role: "critic",
		Budget: rules.Budget{CostMicros: 2_000_000}}}
	policy.Window = rules.TokenWindow{Tokens: 50_000, Every: 3_600_000_000_000}
	s.do(rules.Configure{Policy: policy, Actor: "op"})
	var spending inspect.Spending
	s.box.Engine.View(func(
		state *rules.State) {
		spending = inspect.NewStatus(state, s.dashboard.opts.Now()).Spending
	})
	_, _, page := s.get(s.viewer(), "/cost")
	for _, want := range []string{show.Dollars(spending.CostMicros) + ` <span`, "of $4.00",
		"of 90.0k tokens", "of 1h00m", "<strong>critic</strong>", "of $2.00", "of 50.0k tokens",
		"of $0.30",
		"By role", "By agent", "By day", "<bdi>developer</bdi>", "<bdi>claude</bdi>", "$0.21"} {
		if !strings.Contains(page, want) {
			t.Errorf("the page does not have %q", want)
		}
	}
	if strings.Count(page, `class="share"`) != 3+3+1+1 {
		t.Errorf("%d bars:\n%s", strings.Count(page, `class="share"`), page)
	}
}

// TestCostPageIsBounded lists the most expensive tasks, and counts the others.
func TestCostPageIsBounded(t *testing.T) {
	list, more := firstOf(make([]int, maxCostTasks+7), maxCostTasks)
	if len(list) != maxCostTasks || more != 7 {
		t.Errorf("%d and %d more", len(list), more)
	}
	if list, more := firstOf([]int{1}, maxCostTasks); len(list) != 1 || more != 0 {
		t.Errorf("%d and %d more", len(list), more)
	}
}

// What is unknown is not zero.
func TestUnknownCosts(t *testing.T) {
	for _, tt := range []struct {
		usage        inspect.Usage
		cost, tokens string
	}{
		{inspect.Usage{}, "$0.00", "0"},
		{inspect.Usage{UnknownCost: 1, UnknownTokens: 1}, "unknown", "unknown"},
		{inspect.Usage{Tokens: 20, UnknownCost: 1}, "unknown", "20"},
		{inspect.Usage{CostMicros: 1_200_000, Tokens: 20, UnknownCost: 1, UnknownTokens: 1},
			"$1.20 + unknown", "20 + unknown"},
	} {
		if got := cost(tt.usage); got != tt.cost {
			t.Errorf("the cost of %+v is %q", tt.usage, got)
		}
		if got := used(tt.usage); got != tt.tokens {
			t.Errorf("the tokens of %+v are %q", tt.usage, got)
		}
	}
}
