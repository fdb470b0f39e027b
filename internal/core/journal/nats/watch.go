package nats

import (
	"context"
	"iter"
	"strconv"
	"time"

	natsgo "github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"signalbox"
)

// Watch yields the events that follow the event after, and waits for more. It also waits while the
// servers are away.
func (j *Journal) Watch(ctx context.Context, after uint64) iter.Seq2[signalbox.Event, error] {
	return func(yield func(signalbox.Event, error) bool) {
		j.startWatching()
		j.head.Watch(ctx, j.calls, after, j.read)(yield)
	}
}

// startWatching starts watchOthers, once.
func (j *Journal) startWatching() {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.watching || j.calls.Enter(context.Background()) != nil {
		return
	}
	j.watching = true
	go j.watchOthers()
}

// watchOthers wakes the watches until the journal is closed. The leader of the stream republishes
// the headers of each event that it stored; such a message may be lost with its connection, so the
// head is also read after each reconnection, and from time to time.
func (j *Journal) watchOthers() {
	defer j.calls.Leave()
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	hints, err := j.conn.Subscribe(j.wakeSubject(), func(m *natsgo.Msg) {
		if seq, err := strconv.ParseUint(m.Header.Get(jetstream.SequenceHeader), 10,
			64); err == nil {
			j.raiseKnown(seq)
			j.head.Set(seq)
		}
	})
	if err != nil {
		j.log.Warn("cannot receive notifications of the journal: events of other processes are seen late", "delay", j.opts.poll, "error", err)
	} else {
		defer hints.Unsubscribe()
	}
	go func() {
		select {
		case <-j.calls.Closing:
			cancel()
		case <-ctx.Done():
		}
	}()
	for ctx.Err() == nil {
		pause := j.opts.poll
		if head, err := j.streamHead(ctx); err == nil {
			j.head.Set(head)
		} else {
			pause = min(pause, maxPause) // what was missed is still not known
		}
		select {
		case <-ctx.Done():
		case <-j.back:
		case <-time.After(pause):
		}
	}
}
