package nats

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"time"

	natsgo "github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"signalbox"
	"signalbox/internal/core/journal"
	"signalbox/internal/core/journal/driver"
)

const (
	// maxRead is how many events one request reads.
	maxRead = 1000
	// minReadBytes is what a read asks for at least, on a slow network.
	minReadBytes = 64 << 10
)

func (j *Journal) read(ctx context.Context, after uint64, limit,
	bytes int) (events []signalbox.Event, end bool, err error) {
	var (
		r     = &reading{journal: j, after: after, limit: min(limit, maxRead), bytes: bytes}
		began time.Time
	)
	err = j.retry(ctx, func() error {
		began = time.Now()
		return r.readOn(ctx)
	})
	if n := len(r.events); err == nil && n > 0 {
		j.remember(&r.events[n-1], began)
	}
	if err != nil {
		r.events = r.events[:r.confirmed]
	}
	return r.events, r.end, err
}

func (j *Journal) readHead(ctx context.Context) (head uint64, err error) {
	j.endTurn() // what was decided in it stores nothing
	err = j.retry(ctx, func() (err error) {
		head, err = j.streamHead(ctx)
		return err
	})
	return head, err
}

// reading is a read in progress. What an attempt has read stays when the next one fails.
type reading struct {
	journal      *Journal
	after        uint64
	limit, bytes int
	events       []signalbox.Event
	confirmed    int  // how many of them the leader has, too
	distrust     bool // another server returned something else
	size         int  // of the messages with the events
	full         bool // more would be too large, or the next one is missing
	end          bool // the log has no more
}

// last returns the sequence number of the last event that was read.
func (r *reading) last() uint64 { return r.after + uint64(len(r.events)) }

// readOn reads until there are enough events, or no more. Many events are read from any server,
// which may be behind, or have a copy that has diverged: they count if the leader has the last one
// of them, whose hash covers the others. The leader is asked for that, for the last events of the
// log, and where the log ends, in one request.
func (r *reading) readOn(ctx context.Context) error {
	for {
		if r.journal.known.Load() > r.last()+r.journal.nearEnd() && !r.distrust {
			err := r.readAnywhere(ctx)
			if errors.Is(err, errAttemptTimeout) {
				r.bytes = max(r.bytes/2, minReadBytes) // the network may be slow
			}
			if err != nil && !errors.Is(err, journal.ErrDamaged) { // ask the leader what it has
				return err
			}
		}
		if err := r.askLeader(ctx); err != nil {
			return err
		}
		if r.end || r.full || len(r.events) == r.limit {
			return nil
		}
	}
}

// nearEnd is how many events before the end of the log are read from the leader.
func (j *Journal) nearEnd() uint64 {
	if j.embedded {
		return 100
	}
	return 1 // it answers with one message
}

// askLeader asks the leader for the last event that another server returned, and for those that
// follow.
func (r *reading) askLeader(ctx context.Context) error {
	q := question{Stream: r.journal.name, After: r.last(), Count: r.limit - len(r.events)}
	unconfirmed := len(r.events) > r.confirmed
	if unconfirmed {
		q.After, q.Count = q.After-1, q.Count+1
	}
	if known := r.journal.known.Load(); !unconfirmed && known > r.last() {
		if found, err := r.journal.askLeader(ctx, turnRequest{After: r.last(), Now: true}); err == nil &&
			len(found.messages) > 0 {
			err := r.addAll(found.messages)
			r.confirmed, r.end = len(r.events), r.last() >= known
			return err
		}
	}
	a, err := r.journal.ask(ctx, q)
	if err != nil {
		return err
	}
	if unconfirmed {
		if !r.confirms(&a) {
			r.events, r.distrust, r.full = r.events[:r.confirmed], true, false
			return nil
		}
		a.messages = a.messages[1:]
	}
	err = r.addAll(a.messages)
	if r.confirmed = len(r.events); err != nil {
		return err
	}
	if !unconfirmed && len(a.messages) == 0 && a.head > r.last() {
		if len(r.events) == 0 {
			return a.missing(r.last() + 1)
		}
		r.full = true // the next read finds out whether it stays missing
	}
	r.end = r.last() >= a.head
	return nil
}

// addAll adds messages until there are enough.
func (r *reading) addAll(messages []message) error {
	for i := range messages {
		if r.full || len(r.events) == r.limit {
			break
		}
		if err := r.add(messages[i].Data); err != nil {
			return err
		}
	}
	return nil
}

// confirms reports whether the leader has the last event that was read.
func (r *reading) confirms(a *answer) bool {
	if len(a.messages) == 0 {
		return false
	}
	e, _, err := decodeEvent(r.last(), a.messages[0].Data)
	return err == nil && e.Hash == r.events[len(r.events)-1].Hash
}

// add adds the message with the next event.
func (r *reading) add(data []byte) error {
	e, _, err := decodeEvent(r.last()+1, data)
	if err != nil {
		return err
	}
	if n := len(r.events); n > 0 && r.events[n-1].Hash != e.Prev {
		return driver.Damaged(fmt.Errorf("event %d does not continue event %d", e.Seq,
			r.events[n-1].Seq))
	}
	r.events = append(r.events, e)
	r.size += len(data)
	r.full = r.full || r.size >= r.bytes
	return nil
}

// numPending is the header with the number of messages that a server has beyond those that it sent.
const numPending = "Nats-Num-Pending"

// directRequest asks any server for the messages from seq on.
type directRequest struct {
	Seq      uint64 `json:"seq"`
	Batch    int    `json:"batch"`
	MaxBytes int    `json:"max_bytes"`
}

// readAnywhere reads the next events from any server: none if that server does not have the first
// one, or not yet, and fewer if no more arrive in time.
func (r *reading) readAnywhere(ctx context.Context) error {
	j, first := r.journal, r.last()+1
	if err := j.checkServer(); err != nil {
		return err
	}
	attempt, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	// for each message
	timeout := time.AfterFunc(j.opts.attempt, func() { cancel(errAttemptTimeout) })
	defer timeout.Stop()
	subject := "$JS.API.DIRECT.GET." + j.name
	attempt, remove := j.requests.add(attempt, subject)
	defer remove()
	body, err := json.Marshal(directRequest{first, r.limit - len(r.events),
		r.bytes - min(r.size, r.bytes-1)})
	if err != nil {
		return err
	}
	answers, err := j.conn.SubscribeSync(j.conn.NewInbox())
	if err != nil {
		return sendError(err)
	}
	defer answers.Unsubscribe()
	if err := j.conn.PublishRequest(subject, answers.Subject, body); err != nil {
		return sendError(err)
	}
	for {
		m, err := answers.NextMsgWithContext(attempt)
		if err != nil {
			if ctx.Err() == nil && attempt.Err() != nil {
				if r.last() >= first {
					return nil
				}
				err = context.Cause(attempt)
			}
			return err
		}
		timeout.Reset(j.opts.attempt)
		switch status := m.Header.Get("Status"); {
		case status == "204" || status == "404":
			// The server counts the headers too, and has more events if there are too many bytes.
			r.full = r.full || status == "204" && cmp.Or(m.Header.Get(numPending), "0") != "0"
			return nil
		case status == "503":
			return natsgo.ErrNoResponders
		case status != "":
			return fmt.Errorf("the server answered %s %s", status, m.Header.Get("Description"))
		}
		seq, err := strconv.ParseUint(m.Header.Get(jetstream.SequenceHeader), 10, 64)
		if err != nil {
			return errors.New("the server answered without a sequence number")
		}
		if seq != r.last()+1 {
			return nil // the leader is asked for what is missing
		}
		if err := r.add(m.Data); err != nil || len(r.events) == r.limit {
			return err
		}
	}
}
