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

	"github.com/nats-io/nats-server/v2/server"
	natsgo "github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
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
// counts if a majority of them, itself included, answers that it is in the leader's term. That takes one round trip. Every event that was acknowledged before the question is in
// the store of such a leader X, which leads in the term T and reads its store after the question:
//
//   - An event that a leader of a later term acknowledged: that leader was elected before the
//     question, by a majority that knew its term from then on. One of them is also in the majority
//     that answered after the question, and would have said so. There is no such event.
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
// there is none, and whether a majority has answered. A server in an earlier term does not count: it
// may have lost its data, and with it the term. How many servers have the stream is what they say:
// while that changes, by one at a time, a majority of the larger number overlaps with all others.
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
	// late is called with answers to the last question that nobody awaits any more; guarded by mu
	late func(*natsgo.Msg)
}

// maxAnswers is how many answers to a question can wait to be read. More are lost.
const maxAnswers = 32

// open returns a new subject for the answers to a question. The caller calls forget at the end; then
// late is called with answers that were not read, and with those that arrive before the next
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

// raftSubject is where all servers that somebody else runs are asked for the state of a Raft group,
// and userSubject where the account of this user is asked for. The first one belongs to the system
// account, which must permit the account of the user to use it.
const (
	raftSubject = "$SYS.REQ.SERVER.PING.RAFTZ"
	userSubject = "$SYS.REQ.USER.INFO"
)

// raftGroups is what is known about the Raft groups of servers that somebody else runs.
type raftGroups struct {
	mu      sync.Mutex
	groups  map[string]string // by the name of their stream, "" for one replica; guarded by mu
	account string            // of this user, "" if it is not known yet; guarded by mu
	denied  bool              // the user has no right to ask for them; guarded by mu
}

func (g *raftGroups) add(stream string, cluster *jetstream.ClusterInfo) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.groups == nil {
		g.groups = map[string]string{}
	}
	g.groups[stream] = ""
	if cluster != nil && len(cluster.Replicas) > 0 {
		g.groups[stream] = cluster.RaftGroup
	}
}

// get returns how to ask for the group of a stream. It is not ok if that is not known, if the stream
// has one replica, or if the user has no right to ask.
func (g *raftGroups) get(stream string) (account, group string, ok bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	group = g.groups[stream]
	return g.account, group, group != "" && !g.denied
}

func (g *raftGroups) set(account string, denied bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.account, g.denied = account, denied
}

// askServers asks servers that somebody else runs. Those say in one answer who leads a group, and in
// another one what the leader has, and both say since when it leads: if that is the same, it has
// led from before the first of them was given until after the last. So both are asked at once. If
// the user has no right to ask for the first one, nothing is proven.
//
// A message may still come from a server that was replaced as the leader, since no server says that
// it has sent one. Its hash, or its absence, then contradicts what the next one says.
func (c *client) askServers(ctx context.Context, q question) (a answer, err error) {
	var (
		wait         sync.WaitGroup
		leader       *nodeState
		m            message
		found        bool
		raft, getErr error
	)
	account, group, ok := c.raft.get(q.Stream)
	if ok {
		wait.Go(func() { leader, raft = c.askRaft(ctx, account, group) })
	}
	get := func() { m, found, getErr = c.getMessage(ctx, q.Stream, q.request()) }
	if q.Count > 0 {
		wait.Go(get)
	}
	asked := time.Now()
	info, err := c.streamInfo(ctx, q.Stream)
	wait.Wait()
	if err == nil {
		err = raft
	}
	if err != nil {
		return a, err
	}
	a.head = info.State.LastSeq
	if leader == nil { // otherwise all servers have shown their clocks
		c.clocks.add("", info.TimeStamp, asked)
	}
	switch cluster := info.Cluster; {
	case cluster == nil || len(cluster.Replicas) == 0 && cluster.Leader != "":
		a.proven = true // no other server has it
	case cluster.Leader == "":
		return a, errNoLeader
	case leader != nil:
		if cluster.Leader != leader.Node || cluster.LeaderSince == nil ||
			!cluster.LeaderSince.Equal(leader.since) {
			return a, errNoLeader
		}
		a.proven = true
	}
	if getErr == nil && !found && (q.Last != "" || q.Count > 0 && a.head > q.After) {
		get() // it may have been stored after it was asked for
	}
	if found {
		a.messages = []message{m}
	}
	return a, getErr
}

// askRaft asks all servers for a Raft group, and returns what its leader says. It returns nil if the
// user has no right to do that.
func (c *client) askRaft(ctx context.Context, account, group string) (*nodeState, error) {
	if account == "" {
		m, err := c.request(ctx, &natsgo.Msg{Subject: userSubject})
		if errors.Is(err, natsgo.ErrNoResponders) || isDenied(err) {
			c.raft.set("", true)
			return nil, nil
		}
		var user struct{ Data server.UserInfo }
		if err == nil {
			err = json.Unmarshal(m.Data, &user)
		}
		if err != nil {
			return nil, err
		}
		account = user.Data.Account
		c.raft.set(account, false)
	}
	body, err := json.Marshal(server.RaftzOptions{AccountFilter: account, GroupFilter: group})
	if err != nil {
		return nil, err
	}
	leader, err := c.collect(ctx, raftSubject, body, 0, func(data []byte) (nodeState, error) {
		return decodeRaft(data, account, group)
	})
	if errors.Is(err, natsgo.ErrNoResponders) || isDenied(err) {
		c.raft.set(account, true)
		return nil, nil
	}
	return leader, err
}

// decodeRaft decodes what a server says about a Raft group.
func decodeRaft(data []byte, account, group string) (s nodeState, err error) {
	var raft struct {
		Server server.ServerInfo
		Data   map[string]map[string]server.RaftzGroup
	}
	if err := json.Unmarshal(data, &raft); err != nil {
		return s, err
	}
	s.Node, s.Time = raft.Server.Name, raft.Server.Time
	g, ok := raft.Data[account][group]
	if !ok {
		return s, nil
	}
	s.Copy, s.Term, s.Size = true, g.Term, g.Size
	if g.LeaderSince != nil {
		s.Leader, s.since = true, *g.LeaderSince
	}
	return s, nil
}
