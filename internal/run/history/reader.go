// Package history says, from the events of a ledger alone, where the time and the money of a task
// went, and what the ledger has learned about agents: how often their work passes its first review,
// what it costs, and in which range the next task will be. It only reads, and decides nothing.
//
// Text in the answers may come from agents. Whoever shows it escapes it.
package history

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"slices"
	"strings"
	"sync"
	"time"

	"signalbox"
	"signalbox/internal/core/box"
	"signalbox/internal/core/rules"
	"signalbox/internal/run/inspect"
)

// Reader reads a ledger once, and continues there when it is asked again. It keeps which events
// belong to which work item, and the few that can change what others wait for. It is safe for
// concurrent use. The zero value has read nothing.
type Reader struct {
	mu    sync.Mutex          // guards all below; no events are read while it is held
	seq   uint64              // up to which own and marks are read
	own   map[string][]uint64 // the events of each work item
	marks []mark
	live  int // how many sessions hold work
	// offered is the work whose pull request is open.
	offered map[string]bool
	// policy is the last one, and windowEnd is when the token window ends that used is about. meter
	// follows the tokens, if there is a window.
	policy    rules.Policy
	meter     inspect.Meter
	windowEnd time.Time
	used      int64

	stats learned
}

// mark is an event that can change what work waits for to which it does not belong.
type mark struct {
	kind  markKind
	seq   uint64
	at    time.Time
	work  string           // of marks about a work item
	until time.Time        // of markFull
	event *signalbox.Event // of markEvent
}

type markKind byte

const (
	markBusy    markKind = iota // a session works again
	markIdle                    // none does
	markDone                    // a work item is completed
	markOffered                 // its pull request is open, so that others may build on it
	markRemoved                 // it is cancelled
	markDropped                 // it is cancelled because the plan has it no more
	markBack                    // it is restarted, or its pull request was sent back
	markFull                    // the token window is used up
	markEvent
)

// readAtOnce is how many events are read at once, and readsAhead how many times while earlier ones
// are handled. Two of the same work item that are less than readGap apart are read together, with
// what is between them.
const (
	readAtOnce = 2048
	readsAhead = 1
	readGap    = 64
)

// read returns the data of an event.
func read[B any](e *signalbox.Event) (b B) {
	json.Unmarshal(e.Data, &b) // it was valid when it was appended
	return b
}

// kindOf returns the kind of a work item that an event plans. It decodes nothing else.
func kindOf(e *signalbox.Event) rules.Kind {
	return read[struct {
		Kind rules.Kind `json:"kind"`
	}](e).Kind
}

// batch is events that were read, or why none could be.
type batch struct {
	events []signalbox.Event
	err    error
}

// readRange reads the events after a sequence, up to another.
func readRange(ctx context.Context, j inspect.Journal, after, upTo uint64) (b batch) {
	for after < upTo {
		events, err := j.Read(ctx, after, int(upTo-after))
		if err != nil || len(events) == 0 {
			b.err = err
			break
		}
		b.events = append(b.events, events...)
		after = events[len(events)-1].Seq
	}
	return b
}

// follow calls add with the events after seq, up to a sequence, and sets seq to the last one. It
// reads several ranges at the same time, because reading takes longer than what is done with them.
// It holds the lock only while it calls add, so that a slow journal stops nobody who needs no new
// events. Of several callers that read the same event, one adds it.
func (r *Reader) follow(ctx context.Context, j inspect.Journal, seq *uint64, upTo uint64,
	add func(*signalbox.Event)) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	r.mu.Lock()
	after := *seq
	r.mu.Unlock()
	queue := make(chan chan batch, readsAhead)
	go func() {
		defer close(queue)
		for from := after; from < upTo; from += readAtOnce {
			one := make(chan batch, 1)
			select {
			case queue <- one:
			case <-ctx.Done():
				return
			}
			go func() { one <- readRange(ctx, j, from, min(from+readAtOnce, upTo)) }()
		}
	}()
	for one := range queue {
		b := <-one
		if b.err != nil {
			return b.err
		}
		r.mu.Lock()
		for i := range b.events {
			if e := &b.events[i]; e.Seq == *seq+1 {
				add(e)
				*seq = e.Seq
			}
		}
		r.mu.Unlock()
	}
	return ctx.Err()
}

// add notes to which work an event belongs, and what it can change for other work. Most events are
// not decoded: that would take longer than to read them.
func (r *Reader) add(e *signalbox.Event) {
	if r.own == nil {
		r.own, r.offered = map[string][]uint64{}, map[string]bool{}
	}
	if e.Work != "" {
		r.own[e.Work] = append(r.own[e.Work], e.Seq)
	}
	if r.policy.Window.Tokens > 0 {
		r.addWindow(e)
	}
	switch e.Type {
	case rules.TypeLeaseGranted:
		if r.live++; r.live == 1 {
			r.mark(e, markBusy)
		}
	case rules.TypeLeaseReleased, rules.TypeLeaseExpired:
		if r.live--; r.live == 0 {
			r.mark(e, markIdle)
		}
	case rules.TypePhaseChanged:
		switch {
		case bytes.Contains(e.Data, []byte(signalbox.PhaseCompleted)) &&
			read[rules.PhaseChanged](e).To == signalbox.PhaseCompleted:
			r.mark(e, markDone)
		case r.offered[e.Work]:
			delete(r.offered, e.Work)
			r.mark(e, markBack)
		}
	case rules.TypeDelivered:
		if read[rules.Delivered](e).Request != "" {
			r.offered[e.Work] = true
			r.mark(e, markOffered)
		}
	case rules.TypeTaskPlanned:
		if k := kindOf(e); k == rules.KindBaseline ||
			k == rules.KindRemediation {
			r.keep(e)
		}
	case rules.TypeCancelled, rules.TypeRetried:
		switch {
		case e.Work == "":
			r.keep(e)
		case e.Type == rules.TypeRetried:
			r.mark(e, markBack)
		case read[rules.Cancelled](e).Reason == rules.RemovedFromPlan:
			r.mark(e, markDropped)
		default:
			r.mark(e, markRemoved)
		}
	case rules.TypePolicySet:
		r.policy = read[rules.PolicySet](e).Policy
		r.keep(e)
	case rules.TypePaused, rules.TypeResumed, rules.TypeQuestionAsked,
		rules.TypeQuestionAnswered:
		if e.Work == "" {
			r.keep(e)
		}
	case rules.TypeRoleLimited, rules.TypeAgentUnavailable, rules.TypeAgentRestored,
		rules.TypeClockCorrected:
		r.keep(e)
	}
}

func (r *Reader) mark(e *signalbox.Event, kind markKind) {
	r.marks = append(r.marks, mark{kind: kind, seq: e.Seq, at: e.Time, work: e.Work})
}

func (r *Reader) keep(e *signalbox.Event) {
	event := *e
	r.marks = append(r.marks, mark{kind: markEvent, seq: e.Seq, at: e.Time, event: &event})
}

// addWindow follows the use of the token window as the rules do.
func (r *Reader) addWindow(e *signalbox.Event) {
	window := r.policy.Window
	session, more, turns := r.meter.Add(e)
	if session == nil || turns == 0 && more == (inspect.Usage{}) {
		return
	}
	if !e.Time.Before(r.windowEnd) {
		r.windowEnd, r.used = e.Time.Add(window.Every), 0
	}
	before := r.used
	if r.used = max(0, r.used+more.Tokens); before < window.Tokens && r.used >= window.Tokens {
		r.marks = append(r.marks,
			mark{kind: markFull, seq: e.Seq, at: e.Time, until: r.windowEnd})
	}
}

// Explain returns where the time and the money of a work item went, from the events up to a
// sequence. If it is not done, it is explained up to the time now.
func (r *Reader) Explain(ctx context.Context, j inspect.Journal, work string, upTo uint64,
	now time.Time) (*Explanation, error) {
	if err := r.follow(ctx, j, &r.seq, upTo, r.add); err != nil {
		return nil, err
	}
	r.mu.Lock()
	own, marks := r.own[work], r.marks // what they have is never changed
	r.mu.Unlock()
	n, _ := slices.BinarySearch(own, upTo+1)
	own = own[:n]
	n, _ = slices.BinarySearchFunc(marks, upTo+1,
		func(m mark, seq uint64) int { return cmp.Compare(m.seq, seq) })
	marks = marks[:n]
	f := newFold(work)
	for len(own) > 0 {
		n := 1
		for n < len(own) && own[n]-own[n-1] < readGap && own[n]-own[0] < readAtOnce {
			n++
		}
		for after := own[0] - 1; after < own[n-1]; {
			events, err := j.Read(ctx, after, int(own[n-1]-after))
			if err != nil {
				return nil, err
			}
			if len(events) == 0 {
				return nil, signalbox.CodeFailed.Errorf("run signalbox ledger verify",
					"the ledger does not return event %d", after+1)
			}
			for i := range events {
				e := &events[i]
				if after = e.Seq; e.Work != work {
					continue
				}
				for len(marks) > 0 && marks[0].seq < e.Seq {
					f.mark(&marks[0])
					marks = marks[1:]
				}
				f.own(e)
			}
		}
		own = own[n:]
	}
	for i := range marks {
		f.mark(&marks[i])
	}
	return f.finish(now), nil
}

// Of explains a work item of an open box.
func (r *Reader) Of(ctx context.Context, b *box.Box, w *rules.Work,
	now time.Time) (*Explanation, error) {
	x, err := r.explainWork(ctx, b.Journal, w, b.Engine.Tail().Seq, now)
	if err != nil || x.Done || w.Task == nil {
		return x, err
	}
	if n := len(x.Steps); n > 0 && x.Steps[n-1].Part.IsWait() {
		b.Engine.View(func(s *rules.State) { x.Now = s.Reason(w) })
	}
	return x, nil
}

// explainWork is Explain for work in a known state. Most work is done when its last session ends:
// then what comes later is not read.
func (r *Reader) explainWork(ctx context.Context, j inspect.Journal, w *rules.Work, upTo uint64,
	now time.Time) (*Explanation, error) {
	if past := w.Tenures(); w.Phase == signalbox.PhaseCompleted && len(past) > 0 {
		x, err := r.Explain(ctx, j, w.ID, past[len(past)-1].End, now)
		if err != nil || x.Done {
			return x, err
		}
	}
	return r.Explain(ctx, j, w.ID, upTo, now)
}

// mark applies an event that does not belong to the task.
func (f *fold) mark(m *mark) {
	f.advance(m.at, m.seq)
	if !f.x.From.IsZero() && !f.done {
		f.seq = m.seq
	}
	b := &f.box
	switch m.kind {
	case markBusy:
		b.busy = true
	case markIdle:
		b.busy, b.idleSince, b.idleAt = false, m.seq, m.at
	case markDone:
		b.done[m.work] = true
		b.endBase(m.work)
	case markOffered:
		b.offered[m.work] = true
	case markRemoved, markDropped:
		b.removed[m.work], b.dropped[m.work] = true, m.kind == markDropped
		b.endBase(m.work)
	case markBack:
		delete(b.removed, m.work)
		delete(b.dropped, m.work)
		delete(b.offered, m.work)
	case markFull:
		b.window = wait{WaitLimit, "the token window was used up", m.seq, m.until}
	case markEvent:
		f.other(m.event)
	}
}

func (b *boxwide) endBase(work string) {
	b.base = slices.DeleteFunc(b.base, func(w wait) bool {
		return strings.HasSuffix(w.what, " "+work)
	})
}

// other applies an event about the whole box.
func (f *fold) other(e *signalbox.Event) {
	b := &f.box
	switch e.Type {
	case rules.TypeTaskPlanned:
		what := "the checks on the base, " + e.Work
		if read[rules.TaskPlanned](e).Kind == rules.KindRemediation {
			what = "remediation " + e.Work
		}
		b.base = append(b.base, wait{part: WaitBase, what: what, event: e.Seq})
	case rules.TypePolicySet:
		b.policy = read[rules.PolicySet](e).Policy
	case rules.TypePaused:
		w := wait{part: WaitHuman, what: "the run was paused by " + e.Actor, event: e.Seq}
		if role := read[rules.Paused](e).Role; role != "" {
			w.what = "the role " + string(role) + " was paused by " + e.Actor
			b.roles[role] = w
		} else {
			b.paused = &w
		}
	case rules.TypeResumed:
		if role := read[rules.Resumed](e).Role; role != "" {
			delete(b.roles, role)
		} else {
			b.paused = nil
		}
	case rules.TypeCancelled:
		b.cancelled = &wait{part: WaitHuman, what: "the run was cancelled by " + e.Actor,
			event: e.Seq}
	case rules.TypeRetried:
		b.cancelled, b.paused = nil, nil
		clear(b.roles)
		for who, w := range b.limits {
			if !w.until.IsZero() {
				delete(b.limits, who)
			}
		}
	case rules.TypeQuestionAsked:
		asked := read[rules.QuestionAsked](e)
		b.asked[asked.Question] = asked
		b.questions = append(b.questions, wait{part: WaitHuman, what: asked.Question, event: e.Seq})
	case rules.TypeQuestionAnswered:
		id := read[rules.QuestionAnswered](e).Question
		b.questions = slices.DeleteFunc(b.questions, func(w wait) bool { return w.what == id })
	case rules.TypeRoleLimited:
		l := read[rules.RoleLimited](e)
		b.limits["role "+string(l.Role)] = wait{WaitLimit, "a rate limit of the " +
			inWords(l.Role), e.Seq, l.Until}
	case rules.TypeAgentUnavailable:
		f.unavailable(e)
	case rules.TypeAgentRestored:
		delete(b.limits, "agent "+read[rules.AgentRestored](e).Agent)
	case rules.TypeClockCorrected:
		f.correct(read[rules.ClockCorrected](e).To)
	}
}

// unavailable records that an agent cannot work. If it is paused for a single role only, nothing
// waits for it: an agent that crashed is better than none.
func (f *fold) unavailable(e *signalbox.Event) {
	down := read[rules.AgentUnavailable](e)
	if down.Role == "" {
		w := wait{WaitLimit, down.Agent + ": " + down.Cause.InWords(), e.Seq, down.Until}
		if down.Until.IsZero() {
			w.part = WaitHuman
		}
		f.box.limits["agent "+down.Agent] = w
	}
	if f.session == nil || e.Session != f.session.Session.Session {
		return
	}
	what := down.Agent + " was not available"
	if down.Next != "" {
		what = down.Next + " took over from " + down.Agent
	}
	f.x.Events = append(f.x.Events, Remark{e.Seq, e.Time, what + ": " + down.Cause.InWords()})
}

// correct continues at an earlier time, because a clock was ahead.
func (f *fold) correct(to time.Time) {
	ahead := f.at.Sub(to)
	if f.x.From.IsZero() {
		return
	}
	end := func(t time.Time) time.Time {
		if t.After(f.at) {
			return t.Add(-ahead)
		}
		return t
	}
	if f.session != nil {
		f.session.expires = end(f.session.expires)
	}
	for who, w := range f.box.limits {
		w.until = end(w.until)
		f.box.limits[who] = w
	}
	f.box.window.until = end(f.box.window.until)
	f.at = to
}
