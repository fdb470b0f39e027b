package main

import (
	"crypto/sha256"
	"fmt"
	"math/rand/v2"
	"time"

	"signalbox"
	"signalbox/internal/core/rules"
)

// author makes the log of a box at which sixteen work items at a time go from DRAFT to COMPLETED, decided by the rules:
// each phase is claimed and ends with an exit signal, implementations are renewed once, and every eighth review is
// blocked once. That makes about 33 events for a work item. It is always the same log.
type author struct {
	state  *rules.State
	now    time.Time
	rng    *rand.Rand
	lives  [16]life
	opened int
}

// life is what the state of a work item does not tell.
type life struct {
	work, session    string
	renewed, blocked bool
}

// mostOfOne is the largest number of events that one command of the author leads to.
const mostOfOne = 4

func newAuthor() *author {
	return &author{
		state: &rules.State{},
		now:   time.Date(2026, 1, 5, 8, 0, 0, 0, time.UTC),
		rng:   rand.New(rand.NewPCG(seed, seed)),
	}
}

// write returns the events of the next commands, at most n and no command by half. They are not sealed.
func (a *author) write(n int, next func() rules.Command) []signalbox.Event {
	var events []signalbox.Event
	for len(events)+mostOfOne <= n {
		events = append(events, a.carryOut(next())...)
	}
	return events
}

func (a *author) carryOut(c rules.Command) []signalbox.Event {
	a.now = a.now.Add(time.Duration(1 + a.rng.IntN(int(200*time.Millisecond))))
	d := rules.Decide(a.state, a.now, c)
	if d.Err != nil {
		panic(fmt.Sprintf("the author gave %#v: %v", c, d.Err))
	}
	for i := range d.Events {
		d.Events[i].Seq = a.state.Seq() + 1
		if err := a.state.Apply(&d.Events[i]); err != nil {
			panic(err) // the rules do not take their own event
		}
	}
	return d.Events
}

// backlog opens work that nobody claims.
func (a *author) backlog() rules.Command { return a.open(signalbox.PhaseImplementation) }

// next is the next step of one of the lives.
func (a *author) next() rules.Command {
	if a.state.Seq() == 0 {
		return rules.OpenBox{Box: "bench", Actor: "operator"}
	}
	l := &a.lives[a.rng.IntN(len(a.lives))]
	w, ok := a.state.Work(l.work)
	switch {
	case !ok || w.Phase == signalbox.PhaseCompleted:
		c := a.open(signalbox.PhaseDraft)
		*l = life{work: c.Work}
		return c
	case w.Phase == signalbox.PhaseBlocked:
		return rules.Unblock{Work: l.work, Note: "the dependency was released", Actor: "operator"}
	case w.Lease == nil:
		l.session = a.id("s")
		role := w.Phase.ClaimableBy()
		return rules.Claim{Work: l.work, Role: role, Session: l.session, Actor: string(role) + "-1", Lease: a.id("l")}
	case w.Phase == signalbox.PhaseImplementation && !l.renewed:
		l.renewed = true
		return rules.Renew{Work: l.work, Session: l.session, Epoch: w.Lease.Epoch}
	case w.Phase == signalbox.PhaseReview && !l.blocked && a.rng.IntN(8) == 0:
		l.blocked = true
		return a.exit(l.session, w.Phase, signalbox.ExitBlocked)
	}
	return a.exit(l.session, w.Phase, signalbox.ExitCompleted)
}

func (a *author) open(phase signalbox.Phase) rules.OpenWork {
	a.opened++
	return rules.OpenWork{
		Work: fmt.Sprintf("task-%d", a.opened), Title: fmt.Sprintf("Show the total of order %d on its page", a.opened),
		Phase: phase, Actor: "operator",
	}
}

func (a *author) exit(session string, phase signalbox.Phase, reason signalbox.ExitReason) rules.Exit {
	number := a.rng.IntN(1000)
	pull := fmt.Sprintf("https://git.example.org/shop/orders/pull/%d", number)
	evidence := fmt.Sprintf("evidence/%s.json", session)
	notes := fmt.Sprintf("Did what the task says; %d tests pass, %d of them new.", 2000+number, number%10)
	return rules.Exit{
		Session: session,
		Signal: signalbox.ExitSignal{
			Protocol: signalbox.ExitProtocol, Version: "1.0.0", PhaseCompleted: phase, ExitReason: reason,
			PRURL: &pull, EvidenceBundleRef: &evidence, Notes: &notes,
		},
		Blob: sha256.Sum256([]byte(session)), Offset: int64(number),
	}
}

func (a *author) id(prefix string) string { return fmt.Sprintf("%s-%012x", prefix, a.rng.Uint64()>>16) }
