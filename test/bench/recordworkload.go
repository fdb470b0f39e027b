package main

import (
	"crypto/sha256"
	"fmt"
	"math/rand/v2"
	"time"

	"signalbox"
	"signalbox/internal/core/rules"
)

// workload makes the log of a box in which sixteen work items at a time move from DRAFT to
// COMPLETED. The rules decide: each phase is claimed and ends with an exit signal, the leases of
// implementations are renewed once, and every eighth review is blocked once. This takes about 33
// events per work item. The log is always the same.
type workload struct {
	state  *rules.State
	now    time.Time
	rng    *rand.Rand
	items  [16]item
	opened int
}

// item is what the rules' state of a work item does not include.
type item struct {
	work, session    string
	renewed, blocked bool
}

// maxEventsPerCommand is the largest number of events of one command.
const maxEventsPerCommand = 4

func newWorkload() *workload {
	return &workload{
		state: &rules.State{},
		now:   time.Date(2026, 1, 5, 8, 0, 0, 0, time.UTC),
		rng:   rand.New(rand.NewPCG(seed, seed)),
	}
}

// write returns the events of the next commands, at most n and only complete commands. They are not
// sealed.
func (w *workload) write(n int, next func() rules.Command) []signalbox.Event {
	var events []signalbox.Event
	for len(events)+maxEventsPerCommand <= n {
		events = append(events, w.execute(next())...)
	}
	return events
}

func (w *workload) execute(c rules.Command) []signalbox.Event {
	w.now = w.now.Add(time.Duration(1 + w.rng.IntN(int(200*time.Millisecond))))
	d := rules.Decide(w.state, w.now, c)
	if d.Err != nil {
		panic(fmt.Sprintf("command %#v: %v", c, d.Err))
	}
	for i := range d.Events {
		d.Events[i].Seq = w.state.Seq() + 1
		if err := w.state.Apply(&d.Events[i]); err != nil {
			panic(err) // the rules reject their own event
		}
	}
	return d.Events
}

// backlog returns a command that opens work for developers.
func (w *workload) backlog() rules.Command { return w.open(signalbox.PhaseImplementation) }

// next returns the next command for one of the items.
func (w *workload) next() rules.Command {
	if w.state.Seq() == 0 {
		return rules.OpenBox{Box: "bench", Actor: "operator"}
	}
	i := &w.items[w.rng.IntN(len(w.items))]
	work, ok := w.state.Work(i.work)
	switch {
	case !ok || work.Phase == signalbox.PhaseCompleted:
		c := w.open(signalbox.PhaseDraft)
		*i = item{work: c.Work}
		return c
	case work.Phase == signalbox.PhaseBlocked:
		return rules.Unblock{Work: i.work, Note: "the dependency was released", Actor: "operator"}
	case work.Lease == nil:
		i.session = w.id("s")
		role := work.Phase.ClaimableBy()
		return rules.Claim{Work: i.work, Role: role, Session: i.session, Actor: string(role) + "-1",
			Lease: w.id("l")}
	case work.Phase == signalbox.PhaseImplementation && !i.renewed:
		i.renewed = true
		return rules.Renew{Work: i.work, Session: i.session, Epoch: work.Lease.Epoch}
	case work.Phase == signalbox.PhaseReview && !i.blocked && w.rng.IntN(8) == 0:
		i.blocked = true
		return w.exit(i.session, work.Phase, signalbox.ExitBlocked)
	}
	return w.exit(i.session, work.Phase, signalbox.ExitCompleted)
}

func (w *workload) open(phase signalbox.Phase) rules.OpenWork {
	w.opened++
	return rules.OpenWork{
		Work:  fmt.Sprintf("task-%d", w.opened),
		Title: fmt.Sprintf("Show the total of order %d on its page", w.opened),
		Phase: phase, Actor: "operator",
	}
}

func (w *workload) exit(session string, phase signalbox.Phase,
	reason signalbox.ExitReason) rules.Exit {
	number := w.rng.IntN(1000)
	pull := fmt.Sprintf("https://git.example.org/shop/orders/pull/%d", number)
	evidence := fmt.Sprintf("evidence/%s.json", session)
	notes := fmt.Sprintf("Did what the task says; %d tests pass, %d of them new.", 2000+number,
		number%10)
	return rules.Exit{
		Session: session,
		Signal: signalbox.ExitSignal{
			Protocol: signalbox.ExitProtocol, Version: "1.0.0", PhaseCompleted: phase,
			ExitReason: reason,
			PRURL:      &pull, EvidenceBundleRef: &evidence, Notes: &notes,
		},
		Blob: sha256.Sum256([]byte(session)), Offset: int64(number),
	}
}

func (w *workload) id(prefix string) string {
	return fmt.Sprintf("%s-%012x", prefix, w.rng.Uint64()>>16)
}
