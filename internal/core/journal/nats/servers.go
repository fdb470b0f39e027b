package nats

import (
	"context"
	"encoding/json"
	"errors"
	"sync"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	natsgo "github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

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

// get returns how to ask for the group of a stream. It is not ok if that is not known, if the
// stream has one replica, or if the user has no right to ask.
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

// askServers asks servers that somebody else runs. Those say in one answer who leads a group, and
// in another one what the leader has, and both say since when it leads: if that is the same, it has
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

// askRaft asks all servers for a Raft group, and returns what its leader says. It returns nil if
// the user has no right to do that.
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
		Data   map[string]map[string]struct {
			Term        uint64     `json:"term"`
			Size        int        `json:"size"`
			LeaderSince *time.Time `json:"leader_since"`
		}
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
