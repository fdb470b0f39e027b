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
		r = &reading{journal: j, after: after, limit: min(limit, maxRead), bytes: bytes,
			known: j.known.Load()}
		began time.Time
	)
	err = j.retry(ctx, func() error {
		began = time.Now()
		return r.toKnown(ctx)
	})
	if n := len(r.events); err == nil && n > 0 {
		j.remember(&r.events[n-1], began)
		j.raiseKnown(r.events[n-1].Seq)
	}
	return r.events, !r.full && len(r.events) < r.limit, err
}

func (j *Journal) readHead(ctx context.Context) (head uint64, err error) {
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
	known        uint64 // the events up to this one must not be left out; see Journal.known
	events       []signalbox.Event
	size         int  // of the messages with the events
	full         bool // more would be too large
}

// last returns the sequence number of the last event that was read.
func (r *reading) last() uint64 { return r.after + uint64(len(r.events)) }

// toKnown reads on until there are enough events, or all that are known to be stored: a server that
// is behind the others has only some of them. It returns fewer only if the leader proves that the
// log is shorter.
func (r *reading) toKnown(ctx context.Context) error {
	for {
		before := r.last()
		if err := r.next(ctx); err != nil {
			if errors.Is(err, errAttemptTimeout) {
				r.bytes = max(r.bytes/2, minReadBytes) // the network may be slow
			}
			return err
		}
		if last := r.last(); last == before || r.full || len(r.events) == r.limit ||
			last >= r.known {
			return nil
		}
	}
}

// next reads more events: at least one, unless the log has no more.
func (r *reading) next(ctx context.Context) error {
	j, after := r.journal, r.last()
	// Events that any server has are events of the log. Only the leader can say that there are no
	// more.
	if known := j.known.Load(); known != after+1 {
		if err := r.readAnywhere(ctx); err != nil || r.last() > after {
			return err
		}
		if known <= after {
			if head, err := j.streamHead(ctx); err != nil || head <= after {
				return err
			}
		}
	}
	// One event, or a server that does not have them yet: the leader has them.
	m, found, err := j.getMessage(ctx, j.name, messageRequest{Seq: after + 1})
	if err != nil {
		return err
	}
	if !found {
		head, err := j.streamHead(ctx)
		if err == nil && head > after {
			err = fmt.Errorf("%w: event %d, and the log ends at %d", errMissing, after+1, head)
		}
		return err
	}
	return r.add(m.Data)
}

// add adds the message with the next event.
func (r *reading) add(data []byte) error {
	e, _, err := decodeEvent(r.last()+1, data)
	if err != nil {
		return err
	}
	if n := len(r.events); n > 0 && r.events[n-1].Hash != e.Prev {
		return driver.Damaged(fmt.Errorf("event %d does not continue event %d", e.Seq, r.events[n-1].Seq))
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
