package oracle_test

import (
	"context"
	"errors"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"signalbox/internal/oracle"
	"signalbox/internal/oracle/decide"
	"signalbox/internal/oracle/model"
	"signalbox/internal/oracle/session"
	"signalbox/internal/oracle/toolbox"
	"signalbox/internal/testkit/must"
	"signalbox/internal/tree/turnlog"
)

// continued resumes a session and returns its answer.
func continued(t *testing.T, o *oracle.Oracle, s *session.Session) *oracle.Answer {
	t.Helper()
	a, err := o.Resume(t.Context(), s, (&heard{}).take)
	must.Succeed(t, err)
	return a
}

// TestResumeKeepsTheBudget resumes again and again while every second reply fails.
func TestResumeKeepsTheBudget(t *testing.T) {
	o := newOracle(t, oracle.Options{Model: wantsMore(900, 0, 1000),
		Limit: decide.Resources{Tokens: 1000}})
	s := newSession(t)
	asks(t, o, s, question, oracle.ReasonModelFailed)
	var a *oracle.Answer
	for range 8 {
		a = continued(t, o, s)
	}
	// the turn that spends it, and the one that answers
	if a.Done.Tokens > 2700 || a.Done.Reason != "budget_spent" {
		t.Errorf("of 1000 tokens %d were spent, %s", a.Done.Tokens, a.Done.Reason)
	}
}

func TestTimeOfAllRunsCounts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := &speaker{reply: func(_ context.Context, n int, _ func(string)) (*model.Reply, error) {
			if n%2 == 0 {
				return nil, &model.Error{Kind: model.ErrorBusy, Err: errors.New("429")}
			}
			time.Sleep(6 * time.Second)
			return said(wants(n)), nil
		}}
		o := newOracle(t, oracle.Options{Model: m, Limit: decide.Resources{Time: 10 * time.Second}})
		s := newSession(t)
		begun := time.Now()
		asks(t, o, s, question, oracle.ReasonModelFailed)
		for range 4 {
			continued(t, o, s)
		}
		if took := time.Since(begun); took > 18*time.Second {
			t.Errorf("of 10s it took %s", took)
		}
	})
}

// TestFailedTreeToolIsRetried checks that a tool call of the tree is repeated if it failed.
func TestFailedTreeToolIsRetried(t *testing.T) {
	n := 0
	fetch := tool("fetch", func(context.Context, toolbox.Call) (toolbox.Result, error) {
		if n++; n == 1 {
			return toolbox.Result{}, errors.New("no network")
		}
		return toolbox.Result{Text: "ok"}, nil
	})
	o := newOracle(t, oracle.Options{Model: speaks(nil, said("Yes.")), Tools: []toolbox.Tool{fetch},
		File:   "own.lua",
		Source: strings.ReplaceAll(deployFirst, "deploy", "fetch")})
	s := newSession(t)
	asks(t, o, s, question, oracle.ReasonTreeFailed)
	if a := continued(t, o, s); a.Done.Reason != oracle.ReasonModelFailed || n != 2 {
		t.Errorf("%s after %d tries", a.Done.Reason, n)
	}
	if a := continued(t, o, s); a.Error != nil || n != 2 {
		t.Errorf("%+v after %d tries", a, n)
	}
}

func TestCostOfSubAgentsCounts(t *testing.T) {
	reader := newOracle(t, oracle.Options{Model: speaks(costs(said("Long."+enough), 500))})
	m := speaks(costs(said(handOver), 100), nil, costs(said("Well."+enough), 100))
	o := newOracle(t, oracle.Options{Model: m,
		SubAgents: map[string]*oracle.Oracle{"reader": reader}})
	s := newSession(t)
	asks(t, o, s, question, oracle.ReasonModelFailed)
	if a := continued(t, o, s); a.Done.Tokens != 700 {
		t.Errorf("700 tokens were spent, it says %d", a.Done.Tokens)
	}
}

// TestNextQuestionRecordsSignals checks that a new question records the signals of the previous
// one, whose process was killed before.
func TestNextQuestionRecordsSignals(t *testing.T) {
	b := newBox(t)
	s := newSession(t)
	asks(t, newOracle(t, oracle.Options{Model: threeTurns()}), s, question, "context_sufficient")
	all := readFiles(t, s.Dir)
	folder := filepath.Join(t.TempDir(), "O-1")
	n := all.counts()
	n[session.RecordName]--
	place{lines: n}.cutTo(t, folder, all)
	again, err := session.Open(folder)
	must.Succeed(t, err)
	defer again.Close()
	asks(t, newOracle(t, oracle.Options{Model: speaks(said("Well.")),
		Record: turnlog.To(b.Engine, "ann")}), again, "thanks", "answered")
	if got := len(onLedger(t, b)); got != 3 {
		t.Errorf("%d of 3 signals are on the ledger", got)
	}
}

func TestNegativeUsageCountsNothing(t *testing.T) {
	o := newOracle(t, oracle.Options{Model: wantsMore(-900, 0, 0), TurnLimit: 3})
	a, err := o.Ask(t.Context(), newSession(t), question, (&heard{}).take)
	if err != nil || a.Done.Tokens < 0 {
		t.Errorf("%+v, %v", a, err)
	}
}

// TestManyCalls checks that results of calls that were made come first, and that names are cut.
func TestManyCalls(t *testing.T) {
	calls := append(manyCalls(200, 0), model.Call{ID: "long", Name: strings.Repeat("n", 2<<20),
		Arguments: "{}"})
	m := speaks(asksFor(calls...), said("Well."+enough))
	a, err := newOracle(t, oracle.Options{Model: m, Tools: []toolbox.Tool{finds("look", "x")}}).Ask(
		t.Context(), newSession(t), question, (&heard{}).take)
	if err != nil || a.Error != nil || a.Done.Reason != "context_sufficient" {
		t.Errorf("%+v, %v", a, err)
	}
}
