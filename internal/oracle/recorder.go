package oracle

import (
	"context"
	"strings"
	"sync"

	"signalbox/internal/oracle/session"
	"signalbox/internal/tree/turnlog"
	"signalbox/internal/tree/turnsignal"
)

// recorder appends signals to the ledger in the background and in order, so that the model does not
// wait for the disk. The session has them first, so that a resumed conversation can append what is
// missing. A question does not end before all are appended.
type recorder struct {
	put func(context.Context, turnlog.Signal) error
	// failed is called with the first error of put, which is not called again.
	failed func(error)

	mu      sync.Mutex // guards the fields below
	waiting []turnlog.Signal
	busy    chan struct{} // closed when all are appended; nil if none are waiting
	err     error
}

// add queues a signal. It does not wait.
func (r *recorder) add(ctx context.Context, s turnlog.Signal) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.err != nil {
		return
	}
	r.waiting = append(r.waiting, s)
	if r.busy == nil {
		r.busy = make(chan struct{})
		// record the signal even if the conversation is cancelled
		go r.work(context.WithoutCancel(ctx))
	}
}

func (r *recorder) work(ctx context.Context) {
	for {
		r.mu.Lock()
		if len(r.waiting) == 0 || r.err != nil {
			close(r.busy)
			r.busy = nil
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

// wait waits until the signals that were added are appended. It returns the error of put, or that
// of ctx.
func (r *recorder) wait(ctx context.Context) error {
	r.mu.Lock()
	busy := r.busy
	r.mu.Unlock()
	if busy != nil {
		select {
		case <-busy:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.err
}

func (v *conversation) newRecorder() *recorder {
	return &recorder{failed: func(err error) { v.abort(err) },
		put: func(ctx context.Context, s turnlog.Signal) error {
			if v.Record == nil {
				return nil
			}
			return v.Record(ctx, s)
		}}
}

// rerecordSignals queues the signals of an interrupted run again, because the last ones may be
// missing on the ledger. The ledger ignores those that it has.
func (v *conversation) rerecordSignals(ctx context.Context, run string) {
	for _, e := range v.session.Entries() {
		if e.Kind == session.Signal && strings.HasPrefix(e.Key, run+"#") {
			v.ledger.add(ctx, turnlog.Signal{Run: run, Tree: v.tree.Tree().Name(), Node: e.Node,
				Nth: e.Nth, Signal: turnsignal.Signal{
					Type: e.Signal.Name, Confidence: e.Signal.Confidence, Fields: e.Signal.Fields,
					RawXML: e.Signal.Raw, Timestamp: e.Text}})
		}
	}
}
