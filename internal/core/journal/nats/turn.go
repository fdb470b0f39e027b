package nats

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	natsgo "github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"signalbox"
	"signalbox/internal/core/journal"
	"signalbox/internal/core/journal/driver"
)

// Processes that append to one log at the same time would mostly be refused, because each must
// have read what the others have stored, and the one that stored something last is always ahead. So
// a process that was refused asks the node that leads the stream for a turn. The node answers one
// process after the other, each with the events that it has missed, and answers the next when an
// event was stored. A turn is a courtesy, which saves round trips: what may be stored is decided by
// the sequence number that an append expects, whether or not it has a turn.

const (
	// turnTime is how long a turn lasts if nothing is stored in it.
	turnTime = 20 * time.Millisecond
	// turnPatience is how long a process waits for its turn.
	turnPatience = 500 * time.Millisecond
	// contendedFor is how long a process takes turns after it has last missed something.
	contendedFor = time.Second
)

// turnSubject returns the subject at which the process that runs a node is asked for a turn.
func turnSubject(box, node string) string { return "signalbox." + box + ".turn." + node }

// turnRequest asks for a turn and for the events after an event, for these events at once, or gives
// a turn back.
type turnRequest struct {
	After uint64 `json:"after"`
	Now   bool   `json:"now,omitempty"`
	Done  bool   `json:"done,omitempty"`
}

// turns are the turns of one box that this node gives.
type turns struct {
	// answer sends a process the events that it asks for. It returns the last event, and whether
	// this node is the leader.
	answer func(waiting) (head uint64, leads bool)

	mu      sync.Mutex
	waiting []waiting // guarded by mu
	given   uint64    // how many turns were given; guarded by mu
	// after is the last event when the present turn was given; guarded by mu
	after uint64
	taken bool // somebody has a turn; guarded by mu
}

// waiting is a process that waits for its turn.
type waiting struct {
	turnRequest
	reply *natsgo.Msg
	since time.Time
}

// ask adds a process to those that wait, or ends the turn of one that needs it no more.
func (t *turns) ask(w waiting) {
	if w.Now {
		t.answer(w)
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if w.Done {
		t.taken = false
	} else {
		w.since = time.Now()
		t.waiting = append(t.waiting, w)
	}
	t.next()
}

// stored ends the present turn if an event was stored in it.
func (t *turns) stored(seq uint64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.taken && seq > t.after {
		t.taken = false
		t.next()
	}
}

// next gives the turn to the process that has waited longest, unless another one has it. The caller
// holds mu.
func (t *turns) next() {
	for !t.taken && len(t.waiting) > 0 {
		first := t.waiting[0]
		t.waiting = t.waiting[1:]
		if time.Since(first.since) > turnPatience {
			continue // it does without
		}
		if t.after, t.taken = t.answer(first); !t.taken {
			continue
		}
		t.given++
		given := t.given
		time.AfterFunc(turnTime, func() { t.expire(given) })
	}
}

// expire ends a turn in which nothing was stored.
func (t *turns) expire(given uint64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.given == given && t.taken {
		t.taken = false
		t.next()
	}
}

// giveTurns makes this process give turns for all boxes of its server.
func (n *node) giveTurns(s *server.Server, conn *natsgo.Conn) error {
	var mu sync.Mutex
	boxes := map[string]*turns{} // guarded by mu
	turnsOf := func(box string) *turns {
		mu.Lock()
		defer mu.Unlock()
		if boxes[box] == nil {
			boxes[box] = &turns{answer: func(w waiting) (uint64, bool) {
				state := n.state(s, question{Stream: box, After: w.After, Count: maxRead})
				text, err := json.Marshal(state)
				if err == nil {
					err = w.reply.Respond(text)
				}
				return state.Head, err == nil && state.Leader
			}}
		}
		return boxes[box]
	}
	_, err := conn.Subscribe(turnSubject("*", n.cluster.Node), func(m *natsgo.Msg) {
		var r turnRequest
		if json.Unmarshal(m.Data, &r) == nil {
			turnsOf(boxOf(m.Subject)).ask(waiting{turnRequest: r, reply: m})
		}
	})
	if err != nil {
		return err
	}
	_, err = conn.Subscribe("signalbox.*.wake", func(m *natsgo.Msg) {
		seq, err := strconv.ParseUint(m.Header.Get(jetstream.SequenceHeader), 10, 64)
		if err == nil {
			turnsOf(boxOf(m.Subject)).stored(seq)
		}
	})
	return err
}

// boxOf returns the name of the box in a subject.
func boxOf(subject string) string { return strings.Split(subject, ".")[1] }

// contention is what a process knows about others that append to the same log.
type contention struct {
	mu     sync.Mutex
	missed time.Time // when this process has last missed an event; guarded by mu
	node   string    // that has led the stream, "" if it is not known; guarded by mu
	turn   bool      // this process has a turn that it has not used; guarded by mu
}

// needsTurn reports whether this process should wait for a turn before it appends.
func (c *contention) needsTurn() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return !c.turn && time.Since(c.missed) < contendedFor
}

func (c *contention) change(f func(*contention)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	f(c)
}

// errNoTurn means that no node gives turns. The caller appends without one.
var errNoTurn = errors.New("no turn")

// takeTurn waits for the turn of this process, and returns the messages with the events after an
// event.
func (c *client) takeTurn(ctx context.Context, after uint64) (answer, error) {
	a, err := c.askLeader(ctx, turnRequest{After: after})
	if err == nil {
		c.contention.change(func(k *contention) { k.turn = true })
	}
	return a, err
}

// askLeader asks the node that has led the stream last. What it returns is in the log, even if the
// node was replaced as the leader: it stores only what a majority has accepted. But there may be
// more.
func (c *client) askLeader(ctx context.Context, r turnRequest) (answer, error) {
	var node string
	c.contention.change(func(k *contention) { node = k.node })
	if node == "" || c.checkServer() != nil {
		return answer{}, errNoTurn
	}
	body, err := json.Marshal(r)
	if err != nil {
		return answer{}, err
	}
	ctx, cancel := context.WithTimeout(ctx, turnPatience)
	defer cancel()
	m, err := c.conn.RequestWithContext(ctx, turnSubject(c.name, node), body)
	var state nodeState
	if err == nil {
		err = json.Unmarshal(m.Data, &state)
	}
	if err != nil || !state.Leader {
		c.contention.change(func(k *contention) { k.node = "" })
		return answer{}, errNoTurn
	}
	return answer{head: state.Head, messages: state.Messages}, nil
}

// endTurn gives a turn back that this process does not need.
func (c *client) endTurn() {
	var node string
	c.contention.change(func(k *contention) {
		if k.turn {
			node, k.turn = k.node, false
		}
	})
	if node == "" {
		return
	}
	if body, err := json.Marshal(turnRequest{Done: true}); err == nil {
		_ = c.conn.Publish(turnSubject(c.name, node), body) // the turn ends by itself otherwise
	}
}

// compare compares an append with the messages that the log has in its place. It returns nil if they
// are those of the append, whose events are stored all together, and otherwise journal.ErrConflict,
// if possible as *journal.Missed.
func (a *attempts) compare(found answer, began time.Time) error {
	j, events := a.journal, make([]signalbox.Event, len(found.messages))
	for i := range events {
		e, id, err := decodeEvent(a.expected+1+uint64(i), found.messages[i].Data)
		switch {
		case err != nil:
			return err
		case i == 0 && id == a.id && found.head < a.expected+uint64(len(a.messages)):
			return errPending // the rest is being stored
		case i == 0 && id == a.id:
			return nil
		case i > 0 && events[i-1].Hash != e.Prev:
			return driver.Damaged(fmt.Errorf("event %d does not continue event %d", e.Seq, e.Seq-1))
		}
		events[i] = e
	}
	last := &events[len(events)-1]
	if found.head > last.Seq { // too many for one answer
		return fmt.Errorf("%w: it ends at event %d", journal.ErrConflict, found.head)
	}
	j.contention.change(func(k *contention) { k.missed = time.Now() })
	j.remember(last, began)
	j.raiseKnown(last.Seq)
	return &journal.Missed{Events: events}
}
