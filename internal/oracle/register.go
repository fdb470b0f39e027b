package oracle

import (
	"context"
	"strings"
	"sync"

	"signalbox/internal/oracle/session"
	"signalbox/internal/tree/turnlog"
	"signalbox/internal/tree/turnsignal"
)

// register puts signals on the ledger, in order, while the conversation goes on: the model need not wait for the disk. The
// session has them before, so that whoever goes on with a conversation that was killed puts there what is missing. A
// question does not end before all are there.
type register struct {
	put func(context.Context, turnlog.Signal) error
	// failed is told why the ledger cannot be written; no more is put there.
	failed func(error)

	mu      sync.Mutex // guards all below
	waiting []turnlog.Signal
	busy    bool
	err     error
	idle    sync.WaitGroup // of one while busy
}

// add has a signal recorded. It does not wait.
func (r *register) add(ctx context.Context, s turnlog.Signal) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.err != nil {
		return
	}
	r.waiting = append(r.waiting, s)
	if !r.busy {
		r.busy = true
		r.idle.Add(1)
		go r.work(context.WithoutCancel(ctx)) // what was heard is recorded, also if the conversation is cancelled
	}
}

func (r *register) work(ctx context.Context) {
	defer r.idle.Done()
	for {
		r.mu.Lock()
		if len(r.waiting) == 0 || r.err != nil {
			r.busy = false
			r.mu.Unlock()
			return
		}
		s := r.waiting[0]
		r.waiting = r.waiting[1:]
		r.mu.Unlock()
		if err := r.put(ctx, s); err != nil {
			r.mu.Lock()
			r.err = err
			r.mu.Unlock()
			r.failed(err)
		}
	}
}

// wait returns when all are recorded, or why they are not. Nothing may be added meanwhile.
func (r *register) wait() error {
	r.idle.Wait()
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.err
}

// newRegister is that of a conversation.
func (v *conversation) newRegister() *register {
	return &register{failed: func(err error) { v.halt(err) }, put: func(ctx context.Context, s turnlog.Signal) error {
		if v.Engine == nil {
			return nil
		}
		return turnlog.Put(ctx, v.Engine, s, v.Actor)
	}}
}

// recordAgain has the signals of a run recorded that the session has: of the last ones nobody knows whether they are.
func (v *conversation) recordAgain(ctx context.Context, run string) {
	for _, e := range v.session.Entries() {
		if e.Kind == session.Signal && strings.HasPrefix(e.Key, run+"#") {
			v.ledger.add(ctx, turnlog.Signal{Run: run, Tree: v.tree.Tree().Name(), Node: e.Node, Nth: e.Nth, Heard: turnsignal.Heard{
				Type: e.Signal.Name, Confidence: e.Signal.Confidence, Fields: e.Signal.Fields, RawXML: e.Signal.Raw, Timestamp: e.Text}})
		}
	}
}
