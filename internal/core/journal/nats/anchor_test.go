package nats

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"

	"signalbox"
	"signalbox/internal/core/applied"
	"signalbox/internal/core/journal"
	"signalbox/internal/core/journal/driver"
	"signalbox/internal/testkit/loopback"
	"signalbox/internal/testkit/must"
	"signalbox/internal/testkit/natsserver"
)

// Only a leader that a majority does not contradict is believed.
func TestLeaderOf(t *testing.T) {
	member := func(node string, term uint64) nodeState {
		return nodeState{Node: node, Copy: true, Size: 3, Term: term}
	}
	leader := func(node string, term uint64) nodeState {
		s := member(node, term)
		s.Leader = true
		return s
	}
	five := func(states ...nodeState) []nodeState {
		for i := range states {
			states[i].Size = 5
		}
		return states
	}
	for name, test := range map[string]struct {
		states   []nodeState
		leader   string
		majority bool
	}{
		"no nodes": {nil, "", false},
		"a single node": {[]nodeState{{Node: "a", Copy: true, Size: 1, Leader: true}}, "a",
			true},
		"only the leader": {[]nodeState{leader("a", 4)}, "", false},
		"a majority":      {[]nodeState{leader("a", 4), member("b", 4)}, "a", true},
		"one has no term": {[]nodeState{leader("a", 4), member("b", 0)}, "", true},
		"it was replaced": {[]nodeState{leader("a", 4), member("b", 5)}, "", true},
		"a candidate": {[]nodeState{leader("a", 4), member("b", 4), member("c", 9)}, "a",
			true},
		"two leaders": {[]nodeState{leader("a", 4), leader("b", 5), member("c", 5)}, "b",
			true},
		"an election":      {[]nodeState{member("a", 4), member("b", 4), member("c", 4)}, "", true},
		"no copies":        {[]nodeState{leader("a", 4), {Node: "b"}, {Node: "c"}}, "", false},
		"two of five":      {five(leader("a", 4), member("b", 4)), "", false},
		"three of five":    {five(leader("a", 4), member("b", 4), member("c", 4)), "a", true},
		"a node was added": {append(five(member("b", 4)), leader("a", 4)), "", false},
	} {
		got := ""
		x, majority := leaderOf(test.states)
		if x != nil {
			got = x.Node
		}
		if got != test.leader || majority != test.majority {
			t.Errorf("%s: leader %q, majority %v, want %q, %v", name, got, majority, test.leader,
				test.majority)
		}
	}
}

// Without a proven leader a call waits, and then says that the journal is not available.
func TestNoProvenLeader(t *testing.T) {
	election := led(7)
	election[0].Leader = false
	for name, test := range map[string]struct {
		answers [][]nodeState
		want    error
	}{
		"it was replaced":            {[][]nodeState{replaced(7)}, journal.ErrUnavailable},
		"an election":                {[][]nodeState{election}, journal.ErrUnavailable},
		"only the leader answers":    {[][]nodeState{led(7)[:1]}, journal.ErrUnavailable},
		"the leader does not answer": {[][]nodeState{led(7)[1:]}, journal.ErrUnavailable},
		"a leader is elected":        {[][]nodeState{election, replaced(7), led(8)}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			patience := time.Second
			if test.want == nil {
				patience = time.Minute
			}
			j := fakeServer(t, Options{patience: patience, attempt: time.Second}, nil)
			fakeNodes(t, j, test.answers...)
			head, err := j.Head(t.Context())
			if !errors.Is(err, test.want) || err == nil && head != 8 {
				t.Errorf("head is %d, %v, want %v", head, err, test.want)
			}
		})
	}
}

// deniedAccounts is a part of the configuration of servers whose user worker may not ask for the
// state of Raft groups.
const deniedAccounts = `accounts { SYS {}, APP { jetstream: enabled, users: [{user: worker, password: pw}] } }
	system_account: SYS`

// Servers that somebody else runs prove who leads if the user may ask for the state of Raft groups.
// Otherwise a log that seems to have lost events is not available, and the error says what to
// permit.
func TestRaftStateOfServers(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../../../../docs/reference/configuration.md")
	must.Succeed(t, err)
	_, block, _ := strings.Cut(string(text), "```text\naccounts {")
	block, _, found := strings.Cut(block, "```")
	if !found {
		t.Fatal("the document has no accounts")
	}
	permitted := "accounts {" + strings.ReplaceAll(block, "PASSWORD", "pw")
	for name, accounts := range map[string]string{"permitted": permitted, "denied": deniedAccounts} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			address := startServers(t, accounts)
			j, err := Open(t.Context(), strings.Replace(address, "nats://", "nats://worker:pw@", 1)+
				"/shop",
				Options{Create: true, patience: time.Minute, attempt: time.Second})
			must.Succeed(t, err)
			defer j.Close()
			must.Succeed(t, j.Append(t.Context(), 0, testEvents(0, 150)))
			events, err := j.Read(t.Context(), 0, 200)
			if len(events) != 150 || err != nil {
				t.Errorf("%d events, %v", len(events), err)
			}
			a, err := j.ask(t.Context(), question{Stream: j.name, After: 149, Count: 1})
			if err != nil || a.proven != (name == "permitted") || a.head != 150 ||
				len(a.messages) != 1 {
				t.Errorf("%+v, %v", a, err)
			}
			if name == "denied" {
				wantFinding(t, j, "leader", journal.Warning, "may not ask which server leads")
			}
			if name == "denied" {
				j.opts.patience = time.Second
			}
			lost, err := applied.Compare(t.Context(),
				&driver.LocalSnapshot{Log: j}, []applied.Event{{Seq: 151}})
			if name == "permitted" && (err != nil || lost == nil || lost.First != 151) {
				t.Errorf("lost %+v, %v, want event 151", lost, err)
			}
			if name == "denied" && (!errors.Is(err, journal.ErrUnavailable) ||
				!strings.Contains(signalbox.HintOf(err), raftSubject)) {
				t.Errorf("lost %+v, %v (%s)", lost, err, signalbox.HintOf(err))
			}
		})
	}
}

// Machines can be upgraded one after the other: while nodes run a version that does not answer
// questions, the journal works, and only that it has lost something is not said.
func TestOlderNodes(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 3)
	config, err := nodeTLS(c.Secret, c.hosts())
	must.Succeed(t, err)
	servers := map[string]*server.Server{}
	nodes := map[string]*node{}
	for name := range c.Nodes {
		nodes[name] = &node{cluster: c.of(name, true), tls: config,
			log: slog.New(slog.DiscardHandler)}
		opts, err := nodes[name].options()
		must.Succeed(t, err)
		opts.Host, opts.Port, err = splitAddress(c.Nodes[name]) // they had no gate
		must.Succeed(t, err)
		opts.TLSConfig, opts.TLSHandshakeFirst = config.Clone(), true
		s, err := server.NewServer(opts)
		must.Succeed(t, err)
		s.Start()
		defer s.Shutdown()
		servers[name] = s
	}
	j := c.open(t, "a", "shop")
	defer j.Close()
	for seq, upgraded := range []string{"", "a", "b", "c"} {
		if upgraded != "" {
			must.Succeed(t, nodes[upgraded].respond(servers[upgraded]))
		}
		after := uint64(seq)
		must.Succeed(t, j.Append(t.Context(), after, testEvents(after, 1)))
		if events, err := j.Read(t.Context(), after, 10); len(events) != 1 || err != nil {
			t.Errorf("%d upgraded nodes: %d events, %v", seq, len(events), err)
		}
	}
	must.Succeed(t, j.retry(t.Context(), func() error {
		a, err := j.ask(t.Context(), question{Stream: j.name})
		if err == nil && !a.proven { // until all nodes have heard of the last one
			err = errPending
		}
		return err
	}))
}

// startServers starts a cluster of three servers with a part of a configuration, and returns the
// address of one.
func startServers(t *testing.T, configuration string) string {
	t.Helper()
	var routes []string
	addresses := map[string]string{}
	for _, name := range []string{"x", "y", "z"} {
		addresses[name] = loopback.Address(t)
		routes = append(routes, "nats-route://"+addresses[name])
	}
	client := ""
	for name, address := range addresses {
		file := filepath.Join(t.TempDir(), "server.conf")
		text := fmt.Sprintf(`server_name: %s
		cluster { name: outside, listen: %q, routes: [%q, %q, %q] }
		%s`, name, address, routes[0], routes[1], routes[2], configuration)
		must.Succeed(t, os.WriteFile(file, []byte(text), 0o600))
		client = natsserver.Start(t, func(o *server.Options) {
			must.Succeed(t, o.ProcessConfigFile(file))
		})
	}
	return client
}

// What a server says about a group counts although it says that it cannot write to its disk.
func TestServerWithWriteError(t *testing.T) {
	text := `{"server":{"name":"a"},"data":{"$G":{"S-1":{"term":7,"size":3,` +
		`"leader_since":"2026-01-02T03:04:05Z","wal_error":{"Op":"write"}}}}}`
	s, err := decodeRaft([]byte(text), "$G", "S-1")
	if err != nil || s.Term != 7 || s.Size != 3 || !s.Leader || !s.Copy {
		t.Errorf("%+v, %v", s, err)
	}
}
