package nats

import (
	"bytes"
	"encoding/json"
	"maps"
	"reflect"
	"slices"
	"time"
	"unsafe" // for go:linkname

	"github.com/nats-io/nats-server/v2/server"
	natsgo "github.com/nats-io/nats.go"
)

// Clients ask all nodes at once, at the subject nodeSubject, what each of them has: a request to
// JetStream is answered by any server that believes to be the leader, or by any server at all, and
// its answer does not say what the others know. Each node answers from its own server, through a
// connection inside its process. See client.ask for what a client concludes from the answers.

// nodeSubject returns the subject at which all nodes are asked about the streams of a box.
func nodeSubject(box string) string { return "signalbox." + box + ".node" }

// question is a question to all nodes about one stream. The leader answers with its messages that
// follow After, as many as Count allows and as fit in an answer, or with the last message of the
// subject Last.
type question struct {
	Stream string `json:"stream"`
	After  uint64 `json:"after,omitempty"`
	Count  int    `json:"count,omitempty"`
	Last   string `json:"last,omitempty"`
	// Older asks each node for the nodes that do not answer questions.
	Older bool `json:"older,omitempty"`
}

// nodeState is what a node says about itself and about its own copy of a stream.
type nodeState struct {
	Node string    `json:"node"`
	Time time.Time `json:"time"` // of its clock
	// Copy reports whether it has a copy. Otherwise the fields below are zero.
	Copy bool `json:"copy"`
	// Term is the newest term that it knows, and Size how many servers vote.
	Term uint64 `json:"term"`
	Size int    `json:"size"`
	// Leader reports whether it leads the stream in that term, and has stored all events that
	// earlier leaders acknowledged.
	Leader bool `json:"leader"`
	// Head is its last sequence number, read after everything above.
	Head     uint64    `json:"head"`
	Messages []message `json:"messages,omitempty"`
	// Older are the nodes that it reaches and that do not answer questions: they run a version of
	// signalbox without them.
	Older []string `json:"older,omitempty"`

	since time.Time // since when it leads, if that is known
}

// request returns a request to JetStream for the first message of the answer.
func (q *question) request() messageRequest {
	if q.Last != "" {
		return messageRequest{Last: q.Last}
	}
	return messageRequest{Seq: q.After + 1}
}

// maxAnswer bounds the bytes of the messages in an answer, except for the first one. An answer must
// be smaller than the maximum size of a message, which is 1 MiB.
const maxAnswer = 256 << 10

// respond makes the server of this process answer questions, and watches its clock. It does so
// until the server ends.
func (n *node) respond(s *server.Server) error {
	closed := make(chan struct{})
	conn, err := natsgo.Connect("", natsgo.InProcessServer(s), natsgo.NoReconnect(),
		natsgo.Name("signalbox node"), natsgo.Timeout(tlsSeconds*time.Second),
		natsgo.ClosedHandler(func(*natsgo.Conn) { close(closed) }))
	if err != nil {
		return err
	}
	_, err = conn.Subscribe(nodeSubject("*"), func(m *natsgo.Msg) {
		var q question
		if json.Unmarshal(m.Data, &q) != nil {
			return
		}
		answer, err := json.Marshal(n.state(s, q))
		if err == nil {
			err = m.Respond(answer)
		}
		if err != nil {
			n.log.Debug("cannot answer a question about this node", "error", err)
		}
	})
	if err == nil {
		err = n.giveTurns(s, conn)
	}
	if err == nil {
		err = conn.Flush()
	}
	if err != nil {
		conn.Close()
		return err
	}
	if len(n.cluster.Nodes) > 1 {
		go n.watchClock(s, conn, closed)
	}
	return nil
}

// state answers a question from the server of this process alone.
func (n *node) state(s *server.Server, q question) nodeState {
	a := nodeState{Node: n.cluster.Node, Time: n.now()}
	if q.Older {
		a.Older = older(s)
	}
	stream, err := lookupStream(s.GlobalAccount(), q.Stream)
	if err != nil {
		return a
	}
	raft := streamRaft(stream)
	switch {
	case raft != nil:
		a.Copy, a.Size = true, raft.ClusterSize()
		// A server is elected first, and leads from LeaderSince on, when it has stored what it had
		// received from earlier leaders. It loses that when it learns of a newer term, so if it is
		// the same before and after, the term is the one in which it leads.
		since := raft.LeaderSince()
		a.Term = raft.Term()
		a.Leader = since != nil && raft.LeaderSince() == since
	case len(n.cluster.Nodes) == 1:
		a.Copy, a.Size, a.Leader = true, 1, true
	default: // a server that starts has not joined the other replicas yet
		return a
	}
	store := streamStore(stream)
	var state server.StreamState
	store.FastState(&state)
	a.Head = state.LastSeq
	if a.Leader {
		var err error
		a.Messages, err = load(store, &q, a.Head)
		if err != nil && q.Stream == n.copy.stream { // files are deleted, and events never
			// Its copy is damaged, and others may have the event.
			a.Leader, a.Messages = false, nil
			n.copy.suspect()
		}
	}
	return a
}

// stored returns the last event that the server of this process has stored, and the name of the
// group of servers that store them.
func (n *node) stored(s *server.Server) (last uint64, group string) {
	stream, err := lookupStream(s.GlobalAccount(), n.copy.stream)
	if err != nil {
		return 0, ""
	}
	if raft := streamRaft(stream); raft != nil {
		group = raft.Group()
	}
	var state server.StreamState
	streamStore(stream).FastState(&state)
	return state.LastSeq, group
}

// older returns the nodes that a server reaches and that do not answer questions.
func older(s *server.Server) []string {
	routes, err := s.Routez(&server.RoutezOptions{Subscriptions: true})
	if err != nil {
		return nil
	}
	answer := map[string]bool{} // a node has several routes
	for _, r := range routes.Routes {
		answer[r.RemoteName] = answer[r.RemoteName] || slices.Contains(r.Subs, nodeSubject("*"))
	}
	maps.DeleteFunc(answer, func(_ string, answers bool) bool { return answers })
	return slices.Collect(maps.Keys(answer))
}

// load loads the messages that a question asks for, up to one that is missing, for which it returns
// an error.
func load(store server.StreamStore, q *question, head uint64) (messages []message, err error) {
	if q.Last != "" {
		if m, err := store.LoadLastMsg(q.Last, nil); err == nil {
			messages = append(messages, stored(m))
		}
		return messages, nil
	}
	size := 0
	for seq := q.After + 1; seq <= head && len(messages) < q.Count && size < maxAnswer; seq++ {
		m, err := store.LoadMsg(seq, nil)
		if err != nil {
			return messages, err
		}
		messages = append(messages, stored(m))
		size += len(messages[len(messages)-1].Data)
	}
	return messages, nil
}

// stored returns a message of a store, whose fields are not exported.
func stored(m *server.StoreMsg) message {
	v := reflect.ValueOf(m).Elem()
	return message{Subject: v.FieldByName("subj").String(), Seq: v.FieldByName("seq").Uint(),
		Data: bytes.Clone(v.FieldByName("msg").Bytes()),
		Time: time.Unix(0, v.FieldByName("ts").Int()).UTC()}
}

// The server exports neither what it stores itself nor the state of one Raft group: requests to
// JetStream are answered by other servers too, and its monitoring lists all streams with all of
// their deleted messages. The linker refuses to build if one of these functions is no longer there.

//go:linkname lookupStream github.com/nats-io/nats-server/v2/server.(*Account).lookupStream
func lookupStream(account *server.Account, name string) (unsafe.Pointer, error)

//go:linkname streamStore github.com/nats-io/nats-server/v2/server.(*stream).Store
func streamStore(stream unsafe.Pointer) server.StreamStore

//go:linkname streamRaft github.com/nats-io/nats-server/v2/server.(*stream).raftNode
func streamRaft(stream unsafe.Pointer) server.RaftNode
