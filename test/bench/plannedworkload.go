package main

import (
	"errors"
	"fmt"
	"time"

	"signalbox"
	"signalbox/internal/core/rules"
)

// plannedWorkload makes the log of a plan that agents carry out, one task after the other: each is
// developed, with reports of what it uses, checked, reviewed, sent back every third time, audited
// and done. The rules decide, and the log is always the same.
type plannedWorkload struct {
	state *rules.State
	now   time.Time
	next  int
	add   func([]signalbox.Event) error
	batch []signalbox.Event
}

// eventsPerPlanned is about how many events a task has.
const eventsPerPlanned = 30

// writePlanned makes a box with about n events of planned tasks.
func writePlanned(place string, n int) error {
	add, stop, err := openJournalStore(place)
	if err != nil {
		return err
	}
	w := &plannedWorkload{state: &rules.State{}, now: time.Date(2026, 1, 5, 8, 0, 0, 0, time.UTC),
		add: add}
	err = w.write(n)
	// an engine saves a snapshot when it is closed
	return errors.Join(err, w.flush(), stop(), openAndClose(place))
}

func (w *plannedWorkload) write(n int) error {
	policy := rules.Policy{Slots: 3, Shared: true, Limits: rules.DefaultLimits()}
	for _, role := range rules.DispatchRoles() {
		policy.Roles = append(policy.Roles, rules.RoleSlots{Role: role, Slots: 3})
	}
	load := rules.LoadPlan{Plan: signalbox.Hash{1}, Name: "bench", ID: "bench",
		Source: "bench.md", Actor: "bench"}
	for i := range n / eventsPerPlanned {
		load.Tasks = append(load.Tasks, rules.PlanTask{ID: fmt.Sprintf("T%d", i+1),
			Title: fmt.Sprintf("Show the total of order %d on its page", i+1),
			Text:  signalbox.Hash{2}})
	}
	_, err := w.do(rules.OpenBox{Box: "bench", Actor: "bench"})
	if err == nil {
		_, err = w.do(rules.Configure{Policy: policy, Actor: "bench"})
	}
	for loaded := false; err == nil && !loaded; {
		var a rules.Answer
		if a, err = w.do(load); err == nil {
			loaded = a.Plan.Loaded
		}
	}
	if err == nil {
		err = w.check() // of the base
	}
	for i := 0; err == nil && i < len(load.Tasks) && int(w.state.Seq()) < n; i++ {
		err = w.task(i%3 == 0)
	}
	return err
}

// task carries out the next task of the plan.
func (w *plannedWorkload) task(sendBack bool) error {
	verdicts := []string{signalbox.NameReviewPassed}
	if sendBack {
		verdicts = []string{signalbox.NameReviewFailed, signalbox.NameReviewPassed}
	}
	for _, verdict := range verdicts {
		if err := errors.Join(w.turn(signalbox.RoleDeveloper, signalbox.NameReadyForReview),
			w.check(), w.turn(signalbox.RoleCritic, verdict)); err != nil {
			return err
		}
	}
	return w.turn(signalbox.RoleAuditor, signalbox.NameAuditPassed)
}

// turn has an agent of a role say something about the next work.
func (w *plannedWorkload) turn(role signalbox.Role, signal string) error {
	a, err := w.dispatch(role)
	if err != nil {
		return err
	}
	_, err = w.do(rules.StartAgent{Session: a.Session, Epoch: a.Lease.Epoch, Agent: "claude"})
	spent := rules.Spent{Tokens: 40_000, CostMicros: 300_000, Time: time.Minute}
	for range 3 {
		if err == nil {
			_, err = w.do(rules.ReportUsage{Session: a.Session, Epoch: a.Lease.Epoch, Spent: spent})
			spent = spent.Plus(spent)
		}
	}
	if err != nil {
		return err
	}
	_, err = w.do(rules.ReportSignal{Session: a.Session, Epoch: a.Lease.Epoch, Signal: signal,
		Named: a.Work, Fields: rules.SignalFields{Summary: "the total is wrong",
			Findings: findingsOf(signal)},
		Turn: &rules.Turn{Output: signalbox.Hash{3}, Bytes: 90_000, Model: "claude-opus",
			Commit: fmt.Sprintf("%040d", w.next), Spent: spent}})
	return err
}

// findingsOf returns what a verdict finds.
func findingsOf(signal string) []rules.SaidFinding {
	if signal != signalbox.NameReviewFailed {
		return nil
	}
	return []rules.SaidFinding{{Place: "total.go:12", Text: "an empty order has no total"},
		{Place: "total.go:40", Text: "the test does not fail without the change"}}
}

func (w *plannedWorkload) check() error {
	a, err := w.dispatch(signalbox.RoleCI)
	if err != nil {
		return err
	}
	_, err = w.do(rules.ReportChecks{Session: a.Session, Epoch: a.Lease.Epoch,
		Commit: fmt.Sprintf("%040d", w.next),
		Rows:   []rules.CheckRow{{Check: "test", Environment: "linux", Passed: true, Millis: 9000}}})
	return err
}

func (w *plannedWorkload) dispatch(role signalbox.Role) (rules.Answer, error) {
	w.next++
	return w.do(rules.Dispatch{Roles: []signalbox.Role{role}, Actor: "bench",
		Session: fmt.Sprintf("w-1.%d", w.next), Lease: fmt.Sprintf("l-%d", w.next)})
}

// do carries out a command.
func (w *plannedWorkload) do(c rules.Command) (rules.Answer, error) {
	w.now = w.now.Add(7 * time.Second)
	d := rules.Decide(w.state, w.now, c)
	if d.Err != nil {
		return d.Answer, fmt.Errorf("command %#v: %w", c, d.Err)
	}
	for i := range d.Events {
		d.Events[i].Seq = w.state.Seq() + 1
		if err := w.state.Apply(&d.Events[i]); err != nil {
			return d.Answer, err
		}
	}
	if w.batch = append(w.batch, d.Events...); len(w.batch) >= 500 {
		return d.Answer, w.flush()
	}
	return d.Answer, nil
}

func (w *plannedWorkload) flush() error {
	events := w.batch
	w.batch = nil
	for len(events) > 0 {
		n := min(len(events), 1000)
		if err := w.add(events[:n]); err != nil {
			return err
		}
		events = events[n:]
	}
	return nil
}
