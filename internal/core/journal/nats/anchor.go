package nats

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"time"

	natsgo "github.com/nats-io/nats.go"
)

// answer is what the leader of a stream said to a question.
type answer struct {
	head     uint64 // its last sequence number
	messages []message
	// proven reports whether a message that the leader does not have does not exist: everything
	// that was acknowledged before the question is in the answer, as far as it was asked for.
	proven bool
}

// first returns the first message, nil if there is none.
func (a *answer) first() *message {
	if len(a.messages) == 0 {
		return nil
	}
	return &a.messages[0]
}

// missing returns the error for an event that the leader should have.
func (a *answer) missing(seq uint64) error {
	if !a.proven {
		return fmt.Errorf("%w: event %d is missing", errUnproven, seq)
	}
	return fmt.Errorf("%w: event %d, and the log ends at %d", errMissing, seq, a.head)
}

// ask asks the leader of a stream. It does not try again.
//
// A server that was replaced as the leader may not know it for a long time: messages between the
// servers may be late. So all servers that have the stream are asked, and the answer of a leader
// counts if a majority of them, itself included, answers that it is in the leader's term. That
// takes one round trip. Every event that was acknowledged before the question is in the store of
// such a leader X, which leads in the term T and reads its store after the question:
//
//   - An event that a leader of a later term acknowledged: that leader was elected before the
//     question, by a majority that knew its term from then on. One of these nodes is also in the
//     majority that answered after the question, and would have said so. There is no such event.
//   - An event of the term T: only X leads in that term, and it stores an event before it
//     acknowledges it.
//   - An event of an earlier term: a majority had received it, so X, which was elected by one that
//     overlaps, had received it too. X says that it leads only when it has stored all that it had
//     received when it was elected; see nodeState.Leader.
//
// Two servers can be accepted as the leader only by different questions, and what the earlier one
// said was true when it was asked.
func (c *client) ask(ctx context.Context, q question) (a answer, err error) {
	if c.embedded {
		a, err = c.askNodes(ctx, q)
	} else {
		a, err = c.askServers(ctx, q)
	}
	if err != nil || q.Stream != c.name {
		return a, err
	}
	if known := c.known.Load(); !a.proven && a.head < known {
		return a, fmt.Errorf("%w: the log ends at event %d, but event %d was stored", errUnproven,
			a.head, known)
	}
	c.raiseKnown(a.head)
	return a, nil
}

// streamHead asks for the last sequence number of the events. It does not try again.
func (c *client) streamHead(ctx context.Context) (uint64, error) {
	a, err := c.ask(ctx, question{Stream: c.name})
	return a.head, err
}

// leaderOf returns the leader in whose term a majority of the servers with the stream is, nil if
// there is none, and whether a majority has answered. A server in an earlier term does not count:
// it may have lost its data, and with it the term. How many servers have the stream is what they
// say: while that changes, by one at a time, a majority of the larger number overlaps with all
// others.
func leaderOf(states []nodeState) (leader *nodeState, majority bool) {
	size, copies, terms := 0, 0, map[uint64]int{}
	for i := range states {
		if s := &states[i]; s.Copy {
			size = max(size, s.Size)
			copies++
			terms[s.Term]++
		}
	}
	for i := range states {
		if s := &states[i]; s.Leader && terms[s.Term] > size/2 {
			leader = s
		}
	}
	return leader, copies > size/2
}

// leaderLate is how long a question waits for the leader at least, when a majority has answered.
const leaderLate = 250 * time.Millisecond

// collect sends a question to all servers and returns what the leader answers. All is how many
// servers answer, 0 if that is not known.
func (c *client) collect(ctx context.Context, subject string, body []byte, all int,
	decode func([]byte) (nodeState, error)) (*nodeState, error) {
	attempt, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	timeout := time.AfterFunc(c.opts.attempt, func() { cancel(errNoLeader) })
	defer func() { timeout.Stop() }()
	attempt, remove := c.requests.add(attempt, subject)
	defer remove()
	asked := time.Now()
	reply, answers, forget, err := c.inbox.open(c.conn, func(m *natsgo.Msg) {
		if state, err := decode(m.Data); err == nil {
			c.clocks.add(state.Node, state.Time, asked)
		}
	})
	if err != nil {
		return nil, sendError(err)
	}
	defer forget()
	if err := c.conn.PublishRequest(subject, reply, body); err != nil {
		return nil, sendError(err)
	}
	var states []nodeState
	for waits := false; ; {
		var m *natsgo.Msg
		select {
		case m = <-answers:
		case <-attempt.Done():
			return nil, context.Cause(attempt)
		}
		if m.Header.Get("Status") == "503" {
			return nil, natsgo.ErrNoResponders
		}
		state, err := decode(m.Data)
		if err != nil {
			return nil, fmt.Errorf("a server answered something unexpected: %w", err)
		}
		c.clocks.add(state.Node, state.Time, asked)
		states = append(slices.DeleteFunc(states, func(s nodeState) bool {
			return s.Node == state.Node // it was started again
		}), state)
		leader, majority := leaderOf(states)
		switch {
		case leader != nil:
			return leader, nil
		case len(states) == all:
			return nil, errNoLeader
		case len(states)+len(notAnswering(states)) == all:
			return nil, errOlder
		case majority && !waits:
			waits = true
			timeout.Reset(max(leaderLate, 2*time.Since(asked)))
		}
	}
}

// notAnswering returns the nodes that cannot answer.
func notAnswering(states []nodeState) map[string]bool {
	nodes := map[string]bool{}
	for i := range states {
		for _, node := range states[i].Older {
			nodes[node] = true
		}
	}
	for i := range states {
		delete(nodes, states[i].Node)
	}
	return nodes
}

// inbox receives the answers to all questions of a client in one subscription: servers tell each
// other about every subscription.
type inbox struct {
	mu     sync.Mutex
	prefix string // of the subjects of the answers, "" without a subscription; guarded by mu
	asked  uint64 // how many questions were asked; guarded by mu
	// waiting are the questions whose answers are awaited, by their subject; guarded by mu
	waiting map[string]chan<- *natsgo.Msg
	// late is called with answers to the last question that are no longer awaited; guarded by mu
	late func(*natsgo.Msg)
}

// maxAnswers is how many answers to a question can wait to be read. More are lost.
const maxAnswers = 32

// open returns a new subject for the answers to a question. The caller calls forget at the end;
// then late is called with answers that were not read, and with those that arrive before the next
// question.
func (i *inbox) open(conn *natsgo.Conn, late func(*natsgo.Msg)) (subject string,
	answers <-chan *natsgo.Msg, forget func(), err error) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.prefix == "" {
		prefix := conn.NewInbox()
		if _, err := conn.Subscribe(prefix+".*", i.receive); err != nil {
			return "", nil, nil, err
		}
		i.prefix, i.waiting = prefix, map[string]chan<- *natsgo.Msg{}
	}
	i.asked++
	subject = i.subject(i.asked)
	channel := make(chan *natsgo.Msg, maxAnswers)
	i.waiting[subject], i.late = channel, late
	return subject, channel, func() {
		i.mu.Lock()
		defer i.mu.Unlock()
		delete(i.waiting, subject)
		for len(channel) > 0 {
			late(<-channel)
		}
	}, nil
}

func (i *inbox) subject(question uint64) string {
	return i.prefix + "." + strconv.FormatUint(question, 36)
}

func (i *inbox) receive(m *natsgo.Msg) {
	i.mu.Lock()
	defer i.mu.Unlock()
	channel, waits := i.waiting[m.Subject]
	switch {
	case !waits && m.Subject == i.subject(i.asked):
		i.late(m)
	case waits:
		select {
		case channel <- m:
		default:
		}
	}
}

// askNodes asks the nodes of a cluster. While too many of them run a version of signalbox that does
// not answer questions, because they are upgraded one after the other, nothing is proven.
func (c *client) askNodes(ctx context.Context, q question) (answer, error) {
	if err := c.checkServer(); err != nil {
		return answer{}, err
	}
	q.Older = !c.answered.Load()
	body, err := json.Marshal(q)
	if err != nil {
		return answer{}, err
	}
	leader, err := c.collect(ctx, nodeSubject(c.name), body, len(c.nodes),
		decodeNode)
	c.answered.Store(err == nil)
	if errors.Is(err, errOlder) || errors.Is(err, natsgo.ErrNoResponders) {
		return c.askServers(ctx, q)
	}
	if err != nil {
		return answer{}, err
	}
	c.contention.change(func(k *contention) { k.node = leader.Node })
	return answer{leader.Head, leader.Messages, true}, nil
}

func decodeNode(data []byte) (s nodeState, err error) { return s, json.Unmarshal(data, &s) }
