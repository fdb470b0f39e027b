package nats

import (
	"context"
	"strconv"
	"time"

	natsgo "github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// watchOthers wakes the watches until the journal is closed. The leader of the stream republishes
// the headers of each event that it stored; such a message may be lost with its connection, so the
// head is also read after each reconnection, and from time to time.
func (j *Journal) watchOthers(ctx context.Context) {
	hints, err := j.conn.Subscribe(j.wakeSubject(), func(m *natsgo.Msg) {
		if seq, err := strconv.ParseUint(m.Header.Get(jetstream.SequenceHeader), 10,
			64); err == nil {
			j.raiseKnown(seq)
			j.Set(seq)
		}
	})
	if err != nil {
		j.log.Warn("cannot receive notifications of the journal: events of other processes are seen late", "delay", j.opts.poll, "error", err)
	} else {
		defer hints.Unsubscribe()
	}
	for ctx.Err() == nil {
		pause := j.opts.poll
		if head, err := j.streamHead(ctx); err == nil {
			j.Set(head)
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
