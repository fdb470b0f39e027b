package fault

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"

	"signalbox"
	"signalbox/internal/core/rules"
)

// workModel is the state of one work item in the sequential specification.
type workModel struct {
	phase, blockedFrom signalbox.Phase
	// epoch is that of the live lease; 0 means that the work is free or that the expiry of its
	// lease was recorded.
	epoch   uint64
	session string
	expires int64
	// seq and at belong to the last command that changed something.
	seq uint64
	at  int64
}

// facts are entries of the ledger that never change once they are written.
type facts struct {
	released map[uint64]uint64 // epoch to event, for leases that were released or revoked
	exits    map[exitKey]uint64
}

// exitKey identifies an exit signal: two signals with the same key are repetitions.
type exitKey struct {
	session string
	epoch   uint64
	phase   signalbox.Phase
	reason  signalbox.ExitReason
}

func (op *operation) exitKey() exitKey { return exitKey{op.As, op.Epoch, op.Phase, op.Reason} }

// factsOf collects the facts in events. A lease that ended with an exit signal does not count as
// released.
func factsOf(t testing.TB, events []signalbox.Event) facts {
	t.Helper()
	f := facts{map[uint64]uint64{}, map[exitKey]uint64{}}
	exited := map[uint64]bool{}
	for _, e := range events {
		switch e.Type {
		case rules.TypeAgentSessionCompleted:
			var b rules.AgentSessionCompleted
			check(t, json.Unmarshal(e.Data, &b))
			exited[b.LeaseEpoch] = true
			f.exits[exitKey{b.SessionID, b.LeaseEpoch, b.PhaseCompleted, b.ExitReason}] = e.Seq
		case rules.TypeLeaseReleased:
			var b rules.LeaseReleased
			check(t, json.Unmarshal(e.Data, &b))
			if !exited[b.Epoch] {
				f.released[b.Epoch] = e.Seq
			}
		}
	}
	return f
}

// model returns the sequential specification of one work item.
func (f facts) model() porcupine.Model {
	return porcupine.Model{
		Init: func() any { return workModel{phase: signalbox.PhaseImplementation} },
		Step: func(state, _, output any) (bool, any) {
			op := output.(operation)
			next, ok := f.step(state.(workModel), &op)
			return ok, next
		},
		DescribeOperation: func(_, output any) string { return fmt.Sprintf("%+v", output) },
	}
}

// step reports whether a work item in state w may give the answer in op, and returns its next
// state.
func (f facts) step(w workModel, op *operation) (workModel, bool) {
	if op.Do == "look" {
		return w, w.looksLike(op)
	}
	at := op.At.UnixNano()
	if w.epoch != 0 && at >= w.expires { // every command records the expiry first
		w.epoch = 0
	}
	switch op.Do {
	case "claim":
		return w.claim(op, at)
	case "renew":
		return w.renew(op, at)
	case "release", "revoke":
		return f.release(w, op, at)
	case "exit":
		return f.exit(w, op, at)
	case "unblock":
		return w.unblock(op, at)
	}
	return w, op.Code == 0 // expire
}

// looksLike reports whether op shows the state w. The expiry of the lease may already have been
// recorded.
func (w workModel) looksLike(op *operation) bool {
	if op.Code != 0 || op.Now != w.phase {
		return false
	}
	if op.Lease == nil {
		return w.epoch == 0 || op.At.UnixNano() >= w.expires
	}
	return w.hasLease(op.Lease)
}

func (w workModel) hasLease(l *signalbox.Lease) bool {
	return l != nil && w.epoch == l.Epoch && w.session == l.Session &&
		w.expires == l.Expires.UnixNano()
}

// holds reports whether op uses the live lease.
func (w workModel) holds(op *operation) bool {
	return w.epoch != 0 && w.epoch == op.Epoch && w.session == op.As
}

// happened reports whether the event seq of this work is in the past.
func (w workModel) happened(seq uint64) bool { return seq != 0 && seq <= w.seq }

// wrote advances the state past a command whose last event is given. It reports whether sequence
// number and time increase.
func (w workModel) wrote(op *operation, last uint64, at int64) (workModel, bool) {
	ok := op.Code == 0 && !op.Repeated && op.Seq > w.seq && at >= w.at
	w.seq, w.at = last, at
	return w, ok
}

func (w workModel) claim(op *operation, at int64) (workModel, bool) {
	switch {
	case op.Code == signalbox.CodeConflict:
		return w, w.epoch != 0 && w.session != op.As && w.hasLease(op.Lease)
	case op.Code == signalbox.CodeFailed:
		return w, w.epoch == 0 && w.phase.ClaimableBy() != op.Role
	case op.Repeated:
		return w, op.Code == 0 && w.session == op.As && w.hasLease(op.Lease)
	}
	ok := w.epoch == 0 && w.phase.ClaimableBy() == op.Role && op.Lease != nil &&
		op.Lease.Epoch == op.Seq
	w.epoch, w.session, w.expires = op.Seq, op.As, at+int64(op.TTL)
	next, grown := w.wrote(op, op.Seq, at)
	return next, ok && grown && next.hasLease(op.Lease)
}

func (w workModel) renew(op *operation, at int64) (workModel, bool) {
	if op.Code == signalbox.CodeConflict {
		return w, !w.holds(op)
	}
	if expires := at + int64(op.TTL); expires > w.expires {
		held := w.holds(op)
		w.expires = expires
		next, grown := w.wrote(op, op.Seq, at)
		return next, held && grown && next.hasLease(op.Lease)
	}
	return w, op.Code == 0 && w.holds(op) && w.hasLease(op.Lease) && op.Seq == w.epoch
}

func (f facts) release(w workModel, op *operation, at int64) (workModel, bool) {
	released := f.released[op.Epoch]
	switch {
	case op.Do == "revoke" && op.Code == signalbox.CodeFailed:
		return w, w.epoch == 0
	case op.Code == signalbox.CodeConflict:
		return w, !w.holds(op) && !w.happened(released)
	case op.Repeated:
		return w, op.Code == 0 && op.Seq == released && w.happened(released)
	}
	ok := w.epoch != 0 && (op.Do == "revoke" || w.holds(op))
	w.epoch = 0
	next, grown := w.wrote(op, op.Seq, at)
	return next, ok && grown
}

func (f facts) exit(w workModel, op *operation, at int64) (workModel, bool) {
	first := f.exits[op.exitKey()]
	switch {
	case op.Code == signalbox.CodeConflict:
		return w, !w.holds(op) && !w.happened(first)
	case op.Code == signalbox.CodeFailed:
		return w, w.holds(op) && op.Phase != w.phase
	case op.Repeated:
		return w, op.Code == 0 && op.Seq == first && w.happened(first)
	}
	signal := signalOf(op.Phase, op.Reason)
	to, moves := signal.NextPhase()
	ok := w.holds(op) && op.Phase == w.phase && moves && op.Now == to
	if to == signalbox.PhaseBlocked {
		w.blockedFrom = w.phase
	}
	w.phase, w.epoch = to, 0
	// the answer's event is followed by those of the phase and the lease
	next, grown := w.wrote(op, op.Seq+2, at)
	return next, ok && grown
}

func (w workModel) unblock(op *operation, at int64) (workModel, bool) {
	if op.Code == signalbox.CodeFailed {
		return w, w.phase != signalbox.PhaseBlocked
	}
	ok := w.phase == signalbox.PhaseBlocked && op.Now == w.blockedFrom
	w.phase = w.blockedFrom
	next, grown := w.wrote(op, op.Seq, at)
	return next, ok && grown
}

// checkLinear checks that the answers about each work item are linearizable: a sequential process
// could have given them, each between its call and its return. It returns the work items for which
// this does not hold.
func checkLinear(f facts, history []operation) (wrong []string) {
	works := map[string][]porcupine.Operation{}
	for _, op := range history {
		if op.Work != "" {
			works[op.Work] = nil
		}
	}
	slices.SortFunc(history, func(a, b operation) int { return cmp.Compare(a.Call, b.Call) })
	for _, op := range history {
		for work := range works {
			if op.Work == work || op.Do == "expire" { // it concerns all work
				works[work] = append(works[work], porcupine.Operation{ClientId: op.Client,
					Output: op, Call: op.Call, Return: op.Return})
			}
		}
	}
	for work, operations := range works {
		if result := porcupine.CheckOperationsTimeout(f.model(), operations,
			5*time.Minute); result != porcupine.Ok {
			wrong = append(wrong, fmt.Sprintf("%s: %s", work, result))
		}
	}
	slices.Sort(wrong)
	return wrong
}
