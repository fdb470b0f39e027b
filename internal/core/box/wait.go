package box

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"signalbox"
	"signalbox/internal/config"
	"signalbox/internal/core/journal"
	"signalbox/internal/core/rules"
)

const (
	// awaitPoll is how often a machine of a cluster checks whether the ledger was moved there.
	awaitPoll = 250 * time.Millisecond
	// emptyPatience is how long a machine that remembers events waits before it reports that an
	// empty ledger has lost them: a move first creates the ledger, and then marks it as incomplete,
	// which may take an election.
	emptyPatience = time.Minute
)

// waiter waits, in a process that runs a node of a cluster of several, while the ledger is not
// there, or lacks events.
type waiter struct {
	*Ledger
	awaited bool // a warning said that this process waits for the ledger
	// away is the error that says where the ledger in the cluster continues since the event awayAt;
	// it was logged.
	away   error
	awayAt uint64
}

// awaitLedger waits while the ledger is not in the cluster: until another machine has created it
// there, or moved it there or back. The node that this process runs is needed for that, and for
// moving the ledger away.
func (w *waiter) awaitLedger(ctx context.Context, j journal.Journal, address string) error {
	patience := cmp.Or(w.options.emptyPatience, emptyPatience)
	for started := time.Now(); ; {
		head, err := j.Head(ctx)
		if err == nil {
			err = checkComplete(ctx, j, address)
		}
		var moved error
		if err == nil && head > 0 {
			moved, err = w.movedAway(ctx, j, head)
		}
		empty := err == nil && head == 0
		if err == nil && !empty && moved == nil && w.away != nil {
			w.away = nil
			w.options.Log.Warn("the ledger is back in the cluster: continuing")
		}
		if !empty && moved == nil && !errors.Is(err, errIncomplete) || ctx.Err() != nil || empty &&
			time.Since(started) >= patience && w.remembers() {
			return err
		}
		if moved == nil && w.away == nil && !w.awaited {
			w.awaited = true
			w.options.Log.Warn("waiting until another machine has created the ledger in the cluster, or moved it there")
		}
		select {
		case <-ctx.Done():
			return cmp.Or(moved, ctx.Err())
		case <-time.After(awaitPoll):
		}
	}
}

// movedAway returns an error that matches rules.ErrMoved if the ledger in the cluster continues
// elsewhere, and says once that this process only runs the node.
func (w *waiter) movedAway(ctx context.Context, j journal.Journal, head uint64) (moved, err error) {
	if ended, err := endsWithMove(ctx, j, head); !ended {
		return nil, err
	}
	if w.away == nil || w.awayAt != head {
		away := w.checkNotMoved(ctx)
		if away != nil && !errors.Is(away, rules.ErrMoved) {
			return nil, away
		}
		if w.away = away; away != nil {
			w.awayAt = head
			w.options.Log.Warn(fmt.Sprintf(
				"only running the node of this machine: %v; press Ctrl-C to stop", w.away), "hint",
				signalbox.HintOf(w.away))
		}
	}
	return w.away, nil
}

// Resume is called after the ledger was moved away. In a process that runs a node of a cluster of
// several, it waits until the ledger is back, and opens the engine again: until then the machines
// that move the ledger need the node. Otherwise, and when ctx is done, it returns the error that
// says where the ledger continues.
func (b *Box) Resume(ctx context.Context, moved error) error {
	if !b.RunsNode() {
		return cmp.Or(b.movedTo(b.Engine), moved)
	}
	err := b.whenAvailable(ctx,
		func() error { return b.waiter.awaitLedger(ctx, b.Journal, config.JournalCluster) })
	if ctx.Err() != nil {
		return moved
	}
	if err != nil {
		return err
	}
	if err := errors.Join(b.Engine.Close(), closeMemory(b.memory)); err != nil {
		return err
	}
	b.memory = nil
	return b.whenAvailable(ctx, func() error {
		e, memory, err := b.openEngine(ctx)
		if err == nil {
			b.Engine, b.memory = e, memory
		}
		return err
	})
}

// missingPoll is how often a machine of a cluster looks whether a loss is settled.
const missingPoll = time.Second

// awaitMissing waits while the ledger lacks events that this machine applied or signed: until
// Loss.Accept has made it forget them, or they are back. Both need a majority of the nodes, and
// perhaps there is none without the one that this process runs.
func (w *waiter) awaitMissing(ctx context.Context) error {
	for last := error(nil); ; {
		var missing error
		err := w.whenAvailable(ctx, func() (err error) {
			missing, err = w.missing(ctx)
			return err
		})
		switch {
		case last != nil && ctx.Err() != nil:
			return last
		case err != nil || missing == nil:
			return err
		case last == nil:
			w.options.Log.Warn(fmt.Sprintf(
				"only running the node of this machine: %v; press Ctrl-C to stop", missing),
				"hint", "look for the events in the files of other nodes or in a backup; to continue without them, run signalbox ledger accept-loss on this machine, and this process continues, too")
		}
		last = missing
		select {
		case <-ctx.Done():
			return missing
		case <-time.After(missingPoll):
		}
	}
}

// missing returns an error with CodeUnverified, as missing, if the ledger lacks events that this
// machine applied or signed and Loss.Accept can settle that.
func (w *waiter) missing(ctx context.Context) (missing, err error) {
	if w.id == "" || w.checkNotMoved(ctx) != nil { // which Open reports
		return nil, nil
	}
	signed := w.SignedLength() // first, because other processes may append and sign meanwhile
	lost, err := w.Lost(ctx)
	switch {
	case err != nil:
		return nil, err
	case lost != nil:
		return lost.AsError(), nil
	}
	head, err := w.Journal.Head(ctx)
	if err != nil {
		return nil, err
	}
	return checkLength(signed, head), nil
}

// runOnlyNode keeps the node of this process running until ctx is done, if the ledger was changed,
// so that nothing can be done with it here: the machine that repairs it, or moves it to another
// place, needs a majority of the nodes.
func (w *waiter) runOnlyNode(ctx context.Context, err error) {
	if signalbox.CodeOf(err) != signalbox.CodeUnverified {
		return
	}
	w.options.Log.Warn(fmt.Sprintf(
		"only running the node of this machine: %v; press Ctrl-C to stop", err), "hint",
		signalbox.HintOf(err))
	<-ctx.Done()
}
