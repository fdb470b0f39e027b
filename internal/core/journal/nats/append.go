package nats

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"time"

	natsgo "github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"signalbox"
	"signalbox/internal/core/journal/driver"
)

// Headers of atomic batches.
const (
	batchID       = "Nats-Batch-Id"
	batchSequence = "Nats-Batch-Sequence"
	batchCommit   = "Nats-Batch-Commit"
)

// append stores the events as one message or one atomic batch. It returns when a majority of the
// servers has stored them.
func (j *Journal) append(ctx context.Context, expected uint64,
	events []signalbox.Event) (unknown bool, err error) {
	return j.appendAfter(ctx, expected, events, j.checkTime)
}

// appendAfter is append with another check of the time.
func (j *Journal) appendAfter(ctx context.Context, expected uint64, events []signalbox.Event,
	checkTime func(context.Context, []signalbox.Event) error) (unknown bool, err error) {
	start := time.Now()
	a := &attempts{journal: j, expected: expected, id: appendID(rand.Uint64())}
	for i := range events {
		a.messages = append(a.messages, encodeEvent(a.id, &events[i]))
	}
	if len(events) > 0 && j.contention.needsTurn() {
		began := time.Now()
		if found, err := j.takeTurn(ctx, expected); err == nil && len(found.messages) > 0 {
			return false, a.compare(found, began)
		}
	}
	err = j.retry(ctx, func() error {
		// Before every attempt: the log may have lost events, and got others, while the servers
		// were away.
		seq, hash, err := j.previous(ctx, expected, len(events) == 0)
		if err == nil {
			err = driver.CheckNext(seq, hash, expected, events)
		}
		if err != nil || len(events) == 0 {
			return err
		}
		if err := checkTime(ctx, events); err != nil {
			return err
		}
		return a.try(ctx)
	})
	if n := len(events); err == nil && n > 0 {
		j.remember(&events[n-1], start)
		j.raiseKnown(events[n-1].Seq)
	}
	return a.unknown, err
}

// MayRemove returns an error: the servers do not let anybody remove events.
func (*Journal) MayRemove() error {
	return signalbox.CodeFailed.Errorf(
		"move the ledger to another place without them: signalbox ledger migrate --repair --to sqlite; docs/explanation/scaling.md has a runbook",
		"events cannot be removed from a ledger in NATS")
}

// ReplaceTail appends events of any time, for a log whose last event was written with a clock that
// was ahead.
func (j *Journal) ReplaceTail(ctx context.Context, last signalbox.Hash, after uint64,
	events []signalbox.Event) error {
	return j.Do(ctx, func(ctx context.Context) error {
		switch head, err := j.readHead(ctx); {
		case err != nil:
			return err
		case head != after:
			return j.MayRemove()
		case len(events) > 0 && events[0].Prev != last:
			return driver.UsageError("event %d does not continue the log", events[0].Seq)
		}
		_, err := j.appendAfter(ctx, after, events,
			func(context.Context, []signalbox.Event) error { return nil })
		return err
	}, "append after %d", after)
}

// ReadStored returns some events after an event as they are stored.
func (j *Journal) ReadStored(ctx context.Context, after uint64) (events []signalbox.Event,
	err error) {
	const atOnce = 100
	err = j.Do(ctx, func(ctx context.Context) error {
		a, err := j.ask(ctx, question{Stream: j.name, After: after, Count: atOnce})
		if err != nil {
			return err
		}
		events = make([]signalbox.Event, len(a.messages))
		for i := range events {
			seq, data := after+1+uint64(i), a.messages[i].Data
			if events[i], _, err = decodeEvent(seq, data); err != nil {
				events[i] = signalbox.Event{Seq: seq, Data: data}
			}
		}
		if len(events) == 0 && a.head > after {
			return a.missing(after + 1)
		}
		return nil
	}, "read what is stored after %d", after)
	return events, err
}

// previous returns the event that an append is to follow. If that is not the last one known, or if
// the end must be current, it asks the leader. It does not try again.
func (j *Journal) previous(ctx context.Context, expected uint64, current bool) (seq uint64,
	hash signalbox.Hash, err error) {
	if current {
		seq, err = j.streamHead(ctx)
		return seq, hash, err
	}
	if expected == 0 {
		return 0, hash, nil
	}
	if last := j.lastKnown(); last.seq == expected {
		return expected, last.hash, nil
	}
	a, err := j.ask(ctx, question{Stream: j.name, After: expected - 1, Count: 1})
	switch {
	case err != nil || a.head < expected:
		return a.head, hash, err
	case len(a.messages) == 0:
		return 0, hash, a.missing(expected)
	}
	e, _, err := decodeEvent(expected, a.messages[0].Data)
	return expected, e.Hash, err
}

// attempts are the attempts to store one append.
type attempts struct {
	journal  *Journal
	expected uint64
	id       appendID
	messages [][]byte
	unknown  bool // the outcome of an attempt is not known
}

// try sends the messages once.
func (a *attempts) try(ctx context.Context) error {
	a.journal.contention.change(func(k *contention) { k.turn = false }) // it is used now
	ack, err := a.send(ctx)
	switch {
	case err == nil:
		if want := a.expected + uint64(len(a.messages)); ack.Stream != a.journal.name ||
			ack.Seq != want || ack.Duplicate {
			a.unknown = true
			return driver.Damaged(
				fmt.Errorf("the events were stored up to %d of stream %q, want %d",
					ack.Seq, ack.Stream, want))
		}
		return nil
	case isWrongSequence(err):
		return a.resolve(ctx)
	case !a.journal.rejected(err):
		a.unknown = true
	}
	return err
}

// resolve finds out why a server does not let the events in. They may be the reason themselves: an
// earlier attempt was stored, or the messages reached a server that was replaced as the leader and
// does not know it yet, and also its successor.
func (a *attempts) resolve(ctx context.Context) error {
	j, began := a.journal, time.Now()
	found, err := j.takeTurn(ctx, a.expected)
	if errors.Is(err, errNoTurn) {
		found, err = j.ask(ctx, question{Stream: j.name, After: a.expected, Count: maxRead})
	}
	switch {
	case err != nil:
	case len(found.messages) > 0:
		return a.compare(found, began)
	case found.head > a.expected:
		err = found.missing(a.expected + 1)
	default: // the leader has others in its queue, and they may still fail
		err = errPending
	}
	a.unknown = a.unknown || j.replicated.Load()
	return err
}

const (
	// A large batch waits for the server from time to time, whose queue is limited.
	batchMessages = 250
	batchBytes    = 4 << 20
)

// send sends the messages, and returns the acknowledgement.
func (a *attempts) send(ctx context.Context) (ack pubAck, err error) {
	j := a.journal
	batch := make([]byte, 16)
	for i := range batch {
		batch[i] = byte(rand.Uint32())
	}
	id, unacknowledged, bytes := hex.EncodeToString(batch), 0, 0
	for i, data := range a.messages {
		m := natsgo.NewMsg(j.eventSubject())
		m.Data = data
		if i == 0 {
			m.Header.Set(jetstream.ExpectedStreamHeader, j.name)
			m.Header.Set(jetstream.ExpectedLastSeqHeader, strconv.FormatUint(a.expected, 10))
		}
		last := i == len(a.messages)-1
		if len(a.messages) > 1 {
			m.Header.Set(batchID, id)
			m.Header.Set(batchSequence, strconv.Itoa(i+1))
			if last {
				m.Header.Set(batchCommit, "1")
			}
		}
		unacknowledged, bytes = unacknowledged+1, bytes+len(data)
		if !last && unacknowledged < batchMessages && bytes < batchBytes {
			if err := j.conn.PublishMsg(m); err != nil {
				// without its last message a batch is never stored
				return ack, fmt.Errorf("%w: %w", errNotSent, err)
			}
			continue
		}
		answer, err := j.request(ctx, m)
		if err == nil && (last || len(answer.Data) > 0) {
			err = decodeAnswer(answer, &ack)
		}
		if err != nil && !last {
			err = fmt.Errorf("%w: %w", errNotSent, err)
		}
		if err != nil || last {
			return ack, err
		}
		unacknowledged, bytes = 0, 0
	}
	return ack, nil
}
