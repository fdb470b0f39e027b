package oracle_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"signalbox/internal/oracle"
	"signalbox/internal/oracle/chunk"
	"signalbox/internal/oracle/decide"
	"signalbox/internal/oracle/model"
	"signalbox/internal/oracle/toolbox"
	"signalbox/internal/rehearsal/modelserver"
	"signalbox/internal/testkit/must"
	"signalbox/internal/tree"
)

// wants returns a reply that asks for another turn, each time for another reason.
func wants(n int) string {
	return fmt.Sprintf("Hm.\n<signal type=\"need_turn\"><reason>reason %d</reason><confidence>0.9</confidence></signal>", n)
}

// wantsMore returns a model that always asks for another turn. Every second of the first replies fails.
func wantsMore(tokens int64, dollars float64, fails int) *speaker {
	return &speaker{reply: func(_ context.Context, n int, tell func(string)) (*model.Reply, error) {
		if n <= fails && n%2 == 0 {
			return nil, &model.Error{Kind: model.ErrorBusy, Err: errors.New("429")}
		}
		tell(wants(n))
		return &model.Reply{Text: wants(n), Stop: model.StopEnd,
			Usage: model.Usage{Input: tokens - 10, Output: 10, CostUSD: dollars, Known: true}}, nil
	}}
}

// TestLimitsOnTheBlackboard checks that a tree sees the limits of the question, and no key without
// a limit.
func TestLimitsOnTheBlackboard(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		limit                decide.Resources
		tokens, cost, millis any
	}{
		"none": {},
		"all": {decide.Resources{Tokens: 1000, CostUSD: 0.5, Time: time.Minute}, int64(1000),
			0.5, int64(60000)},
		"a little": {decide.Resources{Tokens: 1000, Time: time.Microsecond}, int64(1000), nil,
			int64(1)},
		"negative": {decide.Resources{Tokens: -1, CostUSD: -1, Time: -1}, nil, nil, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newSession(t)
			m := speaks(said("Well." + enough))
			if _, err := newOracle(t, oracle.Options{Model: m, Limit: c.limit}).Ask(t.Context(), s,
				question, (&heard{}).take); err != nil {
				t.Fatal(err)
			}
			replay(t, s, "", "", func(run *tree.Run) {
				for key, want := range map[string]any{"_limit_tokens": c.tokens,
					"_limit_cost_usd": c.cost, "_limit_millis": c.millis} {
					if got, _ := run.Board().Get(key); got != want {
						t.Errorf("%s is %v, want %v", key, got, want)
					}
				}
			})
		})
	}
}

// TestBudgetOfSubAgents checks that a sub-agent gets the rest of the question's budget, not a
// budget of its own.
func TestBudgetOfSubAgents(t *testing.T) {
	t.Parallel()
	hand := func(n int) string {
		return fmt.Sprintf("Read it.\n<signal type=\"delegation_recommended\"><reason>r%d</reason><scope>s</scope><subagent_type>reader</subagent_type></signal>", n)
	}
	for name, c := range map[string]struct {
		limit         decide.Resources
		main, subTurn model.Usage
		// turns are those of the sub-agent's model, the last for the answer.
		turns int
	}{
		"tokens": {decide.Resources{Tokens: 1000}, model.Usage{Input: 700, Known: true},
			model.Usage{Input: 100, Known: true}, 3 + 1},
		"cost": {decide.Resources{CostUSD: 1}, model.Usage{CostUSD: 0.75, Known: true},
			model.Usage{CostUSD: 0.125, Known: true}, 2 + 1},
		// The rest is never zero, because zero means no limit.
		"a little": {decide.Resources{Tokens: 1000}, model.Usage{Input: 999, Known: true},
			model.Usage{Input: 100, Known: true}, 1 + 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			sub := &speaker{reply: func(_ context.Context, n int,
				_ func(string)) (*model.Reply, error) {
				return &model.Reply{Text: wants(n), Stop: model.StopEnd, Usage: c.subTurn}, nil
			}}
			m := &speaker{reply: func(_ context.Context, n int,
				_ func(string)) (*model.Reply, error) {
				return &model.Reply{Text: hand(n), Stop: model.StopEnd, Usage: c.main}, nil
			}}
			reader := newOracle(t, oracle.Options{Model: sub, Limit: c.limit})
			o := newOracle(t, oracle.Options{Model: m, Limit: c.limit,
				SubAgents: map[string]*oracle.Oracle{"reader": reader}})
			answer, _ := asks(t, o, newSession(t), question, "budget_spent")
			if len(sub.asked) != c.turns || len(m.asked) != 3 {
				t.Errorf("the sub-agent's model was asked %d times, want %d, the other %d",
					len(sub.asked), c.turns, len(m.asked))
			}
			if want := 3*c.main.Input + int64(c.turns)*c.subTurn.Input; answer.Done.Tokens != want {
				t.Errorf("%d tokens are told, %d were spent", answer.Done.Tokens, want)
			}
		})
	}
}

// TestNothingLeft checks that a sub-agent that a tree asks after the budget is spent has almost
// nothing, and not an unlimited budget.
func TestNothingLeft(t *testing.T) {
	t.Parallel()
	const delegatesAlways = `return BT.tree("own", {root = BT.sequence({BT.llm_call("think", {}), BT.action("hear", {fn = "parse_response_signal"}), BT.tool("delegate")})})`
	for name, limit := range map[string]decide.Resources{"tokens": {Tokens: 200},
		"cost": {CostUSD: 0.125}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			main := said(handOver)
			main.Usage = model.Usage{Input: 200, CostUSD: 0.125, Known: true}
			sub := wantsMore(200, 0.125, 0)
			o := newOracle(t, oracle.Options{Model: speaks(main), Limit: limit, File: "own.lua",
				Source: delegatesAlways,
				SubAgents: map[string]*oracle.Oracle{"reader": newOracle(t,
					oracle.Options{Model: sub})}})
			asks(t, o, newSession(t), question, oracle.ReasonTreeEnded)
			if len(sub.asked) != 2 { // once, and for the answer
				t.Errorf("the sub-agent's model was asked %d times", len(sub.asked))
			}
		})
	}
}

// TestBudgetOfRetries checks that all attempts to answer a question share one budget and one turn
// limit.
func TestBudgetOfRetries(t *testing.T) {
	t.Parallel()
	for reason, opts := range map[string]oracle.Options{
		"budget_spent":       {Limit: decide.Resources{Tokens: 1000}},
		"budget_spent ":      {Limit: decide.Resources{CostUSD: 0.625}},
		"max_turns_exceeded": {TurnLimit: 5},
	} {
		t.Run(reason, func(t *testing.T) {
			t.Parallel()
			m := wantsMore(200, 0.125, 8)
			opts.Model = m
			o := newOracle(t, opts)
			s := newSession(t)
			asks(t, o, s, question, oracle.ReasonModelFailed)
			for range 3 {
				asks(t, o, s, "", oracle.ReasonModelFailed)
			}
			// Four replies so far. One more follows, and the answer.
			answer, h := asks(t, o, s, "", strings.TrimSpace(reason))
			if len(m.asked) != 8+2 {
				t.Errorf("the model was asked %d times:\n%s", len(m.asked), lines(h.chunks))
			}
			if d := answer.Done; d.Tokens != 6*200 || d.CostUSD != 6*0.125 || d.Turns != 6 {
				t.Errorf("of 6 turns with 1200 tokens for 0.75 it tells %+v", d)
			}
		})
	}
}

// drips is a model that sends a word per second without end.
func drips() *speaker {
	return &speaker{reply: func(ctx context.Context, _ int,
		tell func(string)) (*model.Reply, error) {
		for {
			select {
			case <-ctx.Done():
				return nil, &model.Error{Kind: model.ErrorCancelled, Err: ctx.Err()}
			case <-time.After(time.Second):
				tell("word ")
			}
		}
	}}
}

// TestReplyThatTakesTooLong checks that a reply is cut when a quarter of the time is left, which is
// for the last turn, and that the part received counts. If the last turn is cut too, its text is
// not an answer.
func TestReplyThatTakesTooLong(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		limit, want time.Duration
		second      *model.Reply // nil means that it takes too long too
		text        string
		cut         int
		reason      string
	}{
		"both": {10 * time.Second, 9800 * time.Millisecond, nil, "", 2, "time_limit"},
		"the answer": {10 * time.Second, 7500 * time.Millisecond,
			said("It lets everybody in." + enough), "It lets everybody in.", 1, "budget_spent"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				slow := drips()
				m := &speaker{reply: func(ctx context.Context, n int,
					tell func(string)) (*model.Reply, error) {
					if n == 2 && c.second != nil {
						return c.second, nil
					}
					return slow.Reply(ctx, model.Request{}, func(e model.Event) { tell(e.Text) })
				}}
				s := newSession(t)
				begun := time.Now()
				answer, h := asks(t,
					newOracle(t, oracle.Options{Model: m, Limit: decide.Resources{Time: c.limit}}),
					s, question, c.reason)
				if took := time.Since(begun); took != c.want || len(m.asked) != 2 ||
					answer.Error != nil {
					t.Errorf("it took %s, want %s, in %d turns: %+v", took, c.want, len(m.asked),
						answer.Error)
				}
				// The part received was shown and is in the next request.
				seven := "word word word word word word word "
				if got := h.text()[1]; got != strings.TrimSpace(seven) {
					t.Errorf("the first turn said %q", got)
				}
				if told := m.asked[1].Messages[1]; told.Role != model.Assistant ||
					told.Text != seven {
					t.Errorf("the model is told that it said %+v", told)
				}
				if c.text != "" && answer.Text != c.text || answer.Text == "" ||
					answer.Done.Tokens == 0 {
					t.Errorf("the answer is %q, %+v", answer.Text, answer.Done)
				}
				cut := 0
				for _, said := range of[chunk.System](h.chunks) {
					if said.Name == chunk.ReplyStopped(string(oracle.StopTime)) &&
						said.Level == chunk.Warning {
						cut++
					}
				}
				if cut != c.cut {
					t.Errorf("that a reply was cut is told %d times:\n%s", cut, lines(h.chunks))
				}
			})
		})
	}
}

// TestCancelWithTimeLimit checks that cancelling a conversation with a time limit is not taken for
// its deadline: it can be resumed.
func TestCancelWithTimeLimit(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 1500*time.Millisecond)
		defer cancel()
		m := drips()
		o := newOracle(t, oracle.Options{Model: m, Limit: decide.Resources{Time: time.Hour}})
		s := newSession(t)
		h := &heard{}
		answer, err := o.Ask(ctx, s, question, h.take)
		if err != nil || h.done(t, answer).Reason != "cancelled" {
			t.Fatalf("%+v, %v", answer, err)
		}
		m.reply = speaks(said("Well." + enough)).reply
		asks(t, o, s, "", "context_sufficient")
	})
}

// TestTimeOfTurnsCounts checks that the time of earlier turns reduces that of later ones.
func TestTimeOfTurnsCounts(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m := &speaker{reply: func(ctx context.Context, n int,
			_ func(string)) (*model.Reply, error) {
			select {
			case <-ctx.Done():
				return nil, ctx.Err()
			case <-time.After(4 * time.Second):
				return said(wants(n)), nil
			}
		}}
		begun := time.Now()
		asks(t, newOracle(t,
			oracle.Options{Model: m, Limit: decide.Resources{Time: 10 * time.Second}}),
			newSession(t), question, "time_limit")
		// One reply in time, one cut after three and a half seconds, and an answer that is cut too.
		if took := time.Since(begun); took != 9800*time.Millisecond || len(m.asked) != 3 {
			t.Errorf("it took %s in %d turns", took, len(m.asked))
		}
	})
}

// TestTimeOfSubAgents checks that a sub-agent has the remaining time.
func TestTimeOfSubAgents(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m := speaks(said(handOver), said("Well."+enough))
		limit := decide.Resources{Time: 10 * time.Second}
		sub := &speaker{reply: func(ctx context.Context, n int,
			tell func(string)) (*model.Reply, error) {
			if n == 1 {
				return drips().Reply(ctx, model.Request{}, func(e model.Event) { tell(e.Text) })
			}
			return said("It is long."), nil
		}}
		reader := newOracle(t, oracle.Options{Model: sub}) // without a limit of its own
		begun := time.Now()
		asks(t, newOracle(t,
			oracle.Options{Model: m, Limit: limit,
				SubAgents: map[string]*oracle.Oracle{"reader": reader}}), newSession(t), question,
			"context_sufficient")
		// The sub-agent has three quarters of the time, and works for three quarters of that.
		if took := time.Since(begun); took != 5625*time.Millisecond || len(sub.asked) != 2 {
			t.Errorf("it took %s, and the sub-agent was asked %d times", took, len(sub.asked))
		}
	})
}

// TestTimeBoundsTheQuestion checks that a question ends at its time limit, whatever it does: also
// if the tree waits, tries again, or calls tools itself.
func TestTimeBoundsTheQuestion(t *testing.T) {
	t.Parallel()
	fails := func() *speaker {
		return &speaker{reply: func(ctx context.Context, _ int,
			_ func(string)) (*model.Reply, error) {
			select {
			case <-ctx.Done():
				return nil, &model.Error{Kind: model.ErrorCancelled, Err: ctx.Err()}
			case <-time.After(time.Second):
				return nil, &model.Error{Kind: model.ErrorServer, Err: errors.New("status 500")}
			}
		}}
	}
	slow := tool("slow", func(ctx context.Context, _ toolbox.Call) (toolbox.Result, error) {
		<-ctx.Done()
		return toolbox.Result{}, ctx.Err()
	})
	for name, c := range map[string]struct {
		m    *speaker
		tree string
		took time.Duration
	}{
		"a wait": {speaks(said("Well." + enough)),
			`BT.sequence({BT.llm_call("think", {}), BT.wait(1000)})`, 10 * time.Second},
		"a tree that retries": {fails(), `BT.retry({attempts = 1000}, BT.llm_call("think", {}))`,
			7500 * time.Millisecond},
		"a retry with backoff": {fails(),
			`BT.retry({attempts = 1000, backoff = 1}, BT.llm_call("think", {}))`, 10 * time.Second},
		"a tool of the tree": {speaks(),
			`BT.sequence({BT.always_succeed(BT.tool("slow")), BT.wait(1000)})`, 10 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				o := newOracle(t, oracle.Options{Model: c.m, Tools: []toolbox.Tool{slow},
					Limit: decide.Resources{Time: 10 * time.Second},
					File:  "own.lua", Source: `return BT.tree("own", {root = ` + c.tree + `})`})
				begun := time.Now()
				h := &heard{}
				answer, err := o.Ask(t.Context(), newSession(t), question, h.take)
				must.Succeed(t, err)
				if took := time.Since(begun); took != c.took {
					t.Errorf("it took %s, want %s", took, c.took)
				}
				if got := h.done(t, answer); got.Reason != "time_limit" {
					t.Errorf("it ended with %+v, %+v", got, answer.Error)
				}
			})
		})
	}
}

// TestLimitsCountDown checks that the prompt has the limits that remain, and not the initial ones.
func TestLimitsCountDown(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m := &speaker{reply: func(_ context.Context, n int, _ func(string)) (*model.Reply, error) {
			time.Sleep(10 * time.Second)
			r := said(wants(n))
			r.Usage = model.Usage{Input: 100, Output: 50, CostUSD: 0.25, Known: true}
			return r, nil
		}}
		asks(t, newOracle(t,
			oracle.Options{Model: m, TurnLimit: 2, Limit: decide.Resources{Tokens: 1000, CostUSD: 2,
				Time: time.Hour}}),
			newSession(t), question, "max_turns_exceeded")
		want := [][]string{
			{"Turns left: 2", "Tokens left: 1000", "Money left: 2.00 USD", "Time left: 1h0m0s"},
			{"Turns left: 1", "Tokens left: 850", "Money left: 1.75 USD", "Time left: 59m50s"},
			{"Turns left: 1", "Tokens left: 700", "Money left: 1.50 USD", "Time left: 59m40s"},
		}
		if len(m.asked) != len(want) {
			t.Fatalf("the model was asked %d times", len(m.asked))
		}
		for i, lines := range want {
			for _, line := range lines {
				if !strings.Contains(m.asked[i].System, "- "+line+"\n") {
					t.Errorf("the prompt of turn %d does not say %q:\n%s", i+1, line,
						m.asked[i].System)
				}
			}
		}
	})
}

// TestAbsurdUsage checks that impossible token counts of a server do not enlarge a budget.
func TestAbsurdUsage(t *testing.T) {
	t.Parallel()
	both(t, func(t *testing.T, p model.Provider) {
		t.Parallel()
		var turns []modelserver.Turn
		for n := range 12 {
			turn := says(wants(n))
			turn.Usage = &modelserver.Usage{Input: -90000, Output: -5}
			turns = append(turns, turn)
		}
		server, err := modelserver.New(script(turns...), nil)
		if err != nil {
			t.Skip("the scripted server tells no nonsense: ", err)
		}
		o := newOracle(t, oracle.Options{Model: client(t, p, http.Handler(server), nil),
			Limit: decide.Resources{Tokens: 3000}})
		answer, _ := asks(t, o, newSession(t), question, "budget_spent")
		if answer.Done.Tokens < 3000 || answer.Done.Turns > 10 {
			t.Errorf("it ended with %+v", answer.Done)
		}
	})
}
