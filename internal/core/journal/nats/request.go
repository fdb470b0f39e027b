package nats

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	natsgo "github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"signalbox"
	"signalbox/internal/core/journal/driver"
)

// connect connects to one of the servers.
func (c *client) connect(ctx context.Context, servers []string, options []natsgo.Option) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	options = append(slices.Clip(options),
		natsgo.Name("signalbox "+c.name),
		natsgo.Timeout(c.opts.attempt),
		natsgo.MaxReconnects(-1),
		natsgo.ReconnectWait(200*time.Millisecond),
		natsgo.ReconnectJitter(100*time.Millisecond, 100*time.Millisecond),
		// What cannot be sent now fails now: sent later it would be stored long after its caller
		// has given up.
		natsgo.ReconnectBufSize(-1),
		// A server that does not answer is left after about 4 seconds.
		natsgo.PingInterval(2*time.Second),
		natsgo.MaxPingsOutstanding(2),
		// Credentials may be renewed while a process runs.
		natsgo.IgnoreAuthErrorAbort(),
		natsgo.ErrorHandler(func(_ *natsgo.Conn, _ *natsgo.Subscription, err error) {
			if errors.Is(err, natsgo.ErrPermissionViolation) {
				c.requests.deny(err)
			}
			c.log.Debug("the connection to the journal reports an error", "error", err)
		}),
		natsgo.DisconnectErrHandler(func(_ *natsgo.Conn, err error) {
			c.forgetLast()
			c.requests.fail("", natsgo.ErrDisconnected)
			c.log.Debug("the connection to the journal was lost", "error", err)
		}),
		natsgo.ReconnectHandler(func(*natsgo.Conn) {
			select {
			case c.back <- struct{}{}:
			default:
			}
		}),
	)
	type result struct {
		conn *natsgo.Conn
		err  error
	}
	connected := make(chan result, 1)
	go func() {
		conn, err := natsgo.Connect(strings.Join(servers, ","), options...)
		connected <- result{conn, err}
	}()
	select {
	case r := <-connected:
		if r.err != nil {
			return c.explainConnect(r.err)
		}
		c.conn = r.conn
		return nil
	case <-ctx.Done():
		go func() {
			if r := <-connected; r.err == nil {
				r.conn.Close()
			}
		}()
		return ctx.Err()
	}
}

// checkServer returns ErrOtherKind if the connection is to a node with other settings: one that
// runs alone where several are listed, or the other way around. What it stores would be lost with
// it.
func (c *client) checkServer() error {
	if !c.embedded || c.conn.IsClosed() {
		return nil
	}
	reconnects := c.conn.Stats().Reconnects
	several := c.conn.ConnectedClusterName() != ""
	// then it is not known which server has the name
	if !c.conn.IsConnected() || c.conn.Stats().Reconnects != reconnects {
		return fmt.Errorf("%w: %w", errNotSent, natsgo.ErrDisconnected)
	}
	if several != c.alone {
		return nil
	}
	runs := "runs alone"
	if several {
		runs = "is one of several"
	}
	return signalbox.CodeFailed.Errorf("end the process that runs the node with the old settings",
		"%w: the node at %s %s, and cluster.nodes lists %d", ErrOtherKind,
		c.conn.ConnectedAddr(), runs, len(c.nodes))
}

// request sends a message and returns the answer. It waits for at most the duration of an attempt.
func (c *client) request(ctx context.Context, m *natsgo.Msg) (*natsgo.Msg, error) {
	if err := c.checkServer(); err != nil {
		return nil, err
	}
	attempt, cancel := context.WithTimeoutCause(ctx, c.opts.attempt, errAttemptTimeout)
	defer cancel()
	attempt, remove := c.requests.add(attempt, m.Subject)
	defer remove()
	answer, err := c.conn.RequestMsgWithContext(attempt, m)
	err = sendError(err)
	switch {
	case err == nil:
		return answer, nil
	case errors.Is(err, errNotSent), ctx.Err() != nil, attempt.Err() == nil:
		return nil, err
	}
	return nil, context.Cause(attempt)
}

// sendError marks errors that mean that nothing was sent.
func sendError(err error) error {
	if errors.Is(err, natsgo.ErrReconnectBufExceeded) || errors.Is(err, natsgo.ErrMaxPayload) ||
		errors.Is(err, natsgo.ErrConnectionClosed) {
		return fmt.Errorf("%w: %w", errNotSent, err)
	}
	return err
}

// api sends a request to JetStream and decodes its answer.
func (c *client) api(ctx context.Context, subject string, request, response any) error {
	var body []byte
	if request != nil {
		var err error
		if body, err = json.Marshal(request); err != nil {
			return err
		}
	}
	answer, err := c.request(ctx, &natsgo.Msg{Subject: "$JS.API." + subject, Data: body})
	if err != nil {
		return err
	}
	return decodeAnswer(answer, response)
}

// decodeAnswer decodes an answer of JetStream, which may be an error.
func decodeAnswer(answer *natsgo.Msg, response any) error {
	var failure struct {
		Error *jetstream.APIError `json:"error"`
	}
	if err := json.Unmarshal(answer.Data, &failure); err != nil {
		return fmt.Errorf("the server answered something unexpected: %w", err)
	}
	if failure.Error != nil {
		return failure.Error
	}
	if response == nil {
		return nil
	}
	return json.Unmarshal(answer.Data, response)
}

const (
	firstPause = 5 * time.Millisecond
	maxPause   = 400 * time.Millisecond
	// unknownFor is how long a server that has just become the leader may not know a stream that
	// was created a moment ago, or fail to read an event. If it only seems to, retry warns.
	unknownFor = 3 * time.Second
)

// retry calls f, with increasing pauses, until it succeeds, fails for good, or patience ends.
func (c *client) retry(ctx context.Context, f func() error) error {
	end := time.Now().Add(c.opts.patience)
	var missing time.Time // since when an event is, or the stream, or seems to be
	warned := false
	for pause := firstPause; ; pause = min(2*pause, maxPause) {
		err := f()
		unknown := errors.Is(err, errMissing) || apiCode(err) == jetstream.JSErrCodeStreamNotFound
		unproven := errors.Is(err, errUnproven)
		if !unknown && !unproven {
			missing = time.Time{}
		} else if missing.IsZero() {
			missing = time.Now()
		}
		lasts := !missing.IsZero() && time.Since(missing) > min(unknownFor, c.opts.patience/2)
		if unproven && lasts && !warned {
			warned = true
			c.log.Warn("the ledger seems to have lost something: waiting for servers that prove it",
				"error", err)
		}
		switch {
		case err == nil || !temporary(err) && !unknown:
			return explain(err)
		case ctx.Err() != nil:
			return fmt.Errorf("%w: %w", ctx.Err(), err)
		case unknown && lasts:
			if errors.Is(err, errMissing) {
				err = driver.Damaged(err)
			}
			return explain(err)
		case time.Now().After(end):
			return c.unavailable(err)
		case !errors.Is(err, errPending):
			c.forgetLast()
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%w: %w", ctx.Err(), err)
		case <-time.After(pause/2 + rand.N(pause)):
		}
	}
}

// message is a stored message as the leader of its stream returns it.
type message struct {
	Subject string    `json:"subject"`
	Seq     uint64    `json:"seq"`
	Data    []byte    `json:"data"`
	Time    time.Time `json:"time"`
}

// messageRequest asks for a message by its sequence number, or for the last one of a subject.
type messageRequest struct {
	Seq  uint64 `json:"seq,omitempty"`
	Last string `json:"last_by_subj,omitempty"`
}

// getMessage asks the leader of a stream for a message. The second result is false if there is
// none. It does not try again.
func (c *client) getMessage(ctx context.Context, stream string, request messageRequest) (message,
	bool, error) {
	var response struct {
		Message *message `json:"message"`
	}
	err := c.api(ctx, "STREAM.MSG.GET."+stream, request, &response)
	switch {
	case apiCode(err) == jetstream.JSErrCodeMessageNotFound:
		return message{}, false, nil
	case err != nil:
		return message{}, false, err
	case response.Message == nil:
		return message{}, false, errors.New("the server answered without a message")
	}
	return *response.Message, true, nil
}

// pubAck is the acknowledgement of a stored message or batch.
type pubAck struct {
	Stream    string `json:"stream"`
	Seq       uint64 `json:"seq"`
	Duplicate bool   `json:"duplicate"`
}

func (c *client) streamInfo(ctx context.Context, stream string) (*jetstream.StreamInfo, error) {
	info := &jetstream.StreamInfo{}
	if err := c.api(ctx, "STREAM.INFO."+stream, nil, info); err != nil {
		return nil, err
	}
	c.raft.add(stream, info.Cluster)
	if stream == c.name {
		c.replicated.Store(info.Cluster != nil && len(info.Cluster.Replicas) > 0)
	}
	return info, nil
}

// Expect makes the journal not say that the log is shorter unless that is proven.
func (j *Journal) Expect(seq uint64) { j.raiseKnown(seq) }

// raiseKnown remembers that the events up to seq are stored.
func (c *client) raiseKnown(seq uint64) { raise(&c.known, seq) }

// raise sets a number that only grows.
func raise(n *atomic.Uint64, to uint64) {
	for {
		if now := n.Load(); to <= now || n.CompareAndSwap(now, to) {
			return
		}
	}
}

// remember keeps the last event that was read or appended, by a call that began at some time.
func (c *client) remember(e *signalbox.Event, began time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !began.Before(c.forgotten) && (e.Seq >= c.last.seq || c.last.old()) {
		c.last = lastEvent{e.Seq, e.Hash, began}
	}
}

// lastKnown returns the last event that was read or appended, if the log certainly still has it:
// servers compare only sequence numbers, and an append after an event that was lost and replaced by
// another would break the chain of hashes forever.
func (c *client) lastKnown() lastEvent {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.last.old() {
		return lastEvent{}
	}
	return c.last
}

// forgetLast makes the next append read the event that it follows. It is called when servers may
// have been started again, perhaps with other data.
func (c *client) forgetLast() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.last, c.forgotten = lastEvent{}, time.Now()
}

// trustLast is how long an event is known to be in the log without looking: a server that does not
// hear of the leader becomes one after 4 seconds at the earliest.
const trustLast = 3 * time.Second

// old reports whether other servers may have become the majority since the event was seen.
func (l lastEvent) old() bool { return time.Since(l.seen) > trustLast }
