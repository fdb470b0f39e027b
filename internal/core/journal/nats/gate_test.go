package nats

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	natsgo "github.com/nats-io/nats.go"

	"signalbox"
	"signalbox/internal/testkit/must"
)

// poison is a message that stops a stream of nats-server 2.14.0 to 2.15.2.
func poison(stream string) *natsgo.Msg {
	m := natsgo.NewMsg("signalbox." + stream + ".event")
	m.Header.Set("Nats-Expected-Last-Msg-Id", "x")
	return m
}

// localNode is a node that runs in the process of the test.
type localNode struct {
	*node
	server *nodeServer
}

// startLocal starts the nodes of a cluster in the process of the test. Those that fail are stopped,
// as their processes do.
func (c *testCluster) startLocal(t testing.TB) map[string]*localNode {
	t.Helper()
	nodes := map[string]*localNode{}
	for name := range c.Nodes {
		nodes[name] = c.startOne(t, name)
	}
	return nodes
}

func (c *testCluster) startOne(t testing.TB, name string) *localNode {
	t.Helper()
	config, err := nodeTLS(c.Secret, c.hosts())
	must.Succeed(t, err)
	of := c.of(name, true)
	must.Succeed(t, os.MkdirAll(of.Dir, 0o700))
	lock, err := os.Create(filepath.Join(of.Dir, "lock"))
	must.Succeed(t, err)
	log := slog.New(slog.DiscardHandler)
	n := &node{cluster: of, tls: config, log: log, lock: lock,
		copy: ownCopy{cluster: of, stream: defaultName, tls: config, log: log},
		quit: make(chan struct{}), done: make(chan struct{})}
	s, err := n.start(nil)
	must.Succeed(t, err)
	go n.run(s)
	t.Cleanup(func() { n.stop() })
	return &localNode{n, s}
}

// A client cannot send the message that stops a stream. The journal continues.
func TestGateKeepsStreamAlive(t *testing.T) {
	t.Parallel()
	for _, nodes := range []int{1, 3} {
		c := newCluster(t, nodes)
		c.startAll(t)
		j := c.open(t, "a", "")
		defer j.Close()
		must.Succeed(t, j.Append(t.Context(), 0, testEvents(0, 2)))
		config, err := nodeTLS(c.Secret, c.hosts())
		must.Succeed(t, err)
		conn, err := natsgo.Connect("tls://"+c.Nodes["a"], natsgo.Secure(config),
			natsgo.TLSHandshakeFirst(), natsgo.NoReconnect())
		must.Succeed(t, err)
		defer conn.Close()
		must.Succeed(t, conn.PublishMsg(poison(defaultName)))
		if err := conn.FlushTimeout(time.Minute); err == nil {
			t.Error("the message was passed on")
		}
		must.Succeed(t, j.Append(t.Context(), 2, testEvents(2, 2)))
	}
}

// A message that stopped the stream before there was a gate, or that a node sent, is recognised.
// The nodes are not restarted, because they would find it again.
func TestPoisonedStream(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 3)
	nodes := c.startLocal(t)
	j := c.open(t, "a", "")
	must.Succeed(t, j.Append(t.Context(), 0, testEvents(0, 3)))
	c.awaitReplicas(t, j)
	conn, err := natsgo.Connect("", natsgo.InProcessServer(nodes["a"].server))
	must.Succeed(t, err)
	defer conn.Close()
	must.Succeed(t, conn.PublishMsg(poison(defaultName)))
	// A node that was not among those that agreed on the message may never hear of it.
	wantPoisoned := func() {
		t.Helper()
		for stopped := 0; stopped < 2; time.Sleep(time.Millisecond) {
			stopped = 0
			for name, n := range nodes {
				err := n.failure()
				if err == nil {
					continue
				}
				if stopped++; !errors.Is(err, errPoisoned) ||
					!strings.Contains(signalbox.HintOf(err), "no event is lost") {
					t.Fatalf("node %s: %v (%s)", name, err, signalbox.HintOf(err))
				}
			}
		}
	}
	wantPoisoned()
	j.Close()
	for _, n := range nodes {
		must.Succeed(t, n.stop())
	}

	nodes = c.startLocal(t)
	wantPoisoned()
}

// What signalbox sends passes the gate unchanged, however it is cut.
func TestPass(t *testing.T) {
	const headers = "NATS/1.0\r\nNats-Expected-Stream: shop\r\nNats-Expected-Last-Sequence: 7\r\n\r\n"
	said := "CONNECT {\"verbose\":false}\r\nPING\r\nSUB _INBOX.x.*  1\r\n" +
		"PUB $JS.API.INFO _INBOX.x.1 0\r\n\r\n" +
		"PUB a 4\r\na\r\nb\r\n" +
		fmt.Sprintf("HPUB signalbox.shop.event _INBOX.x.2 %d %d\r\n%s{}\r\n", len(headers),
			len(headers)+2, headers) +
		"UNSUB 1\r\nPONG\r\n"
	for name, in := range map[string]io.Reader{"at once": strings.NewReader(said),
		"in bytes": iotest.OneByteReader(strings.NewReader(said))} {
		var out bytes.Buffer
		if err := pass(&out, in); err != io.EOF || out.String() != said {
			t.Errorf("%s: %v\n%q, want\n%q", name, err, &out, said)
		}
	}
}

// What signalbox never sends does not pass, and nothing after it.
func TestPassRefuses(t *testing.T) {
	hpub := func(headers, data string) string {
		return fmt.Sprintf("HPUB s %d %d\r\n%s%s\r\n", len(headers), len(headers)+len(data),
			headers, data)
	}
	for name, said := range map[string]string{
		"the header": hpub("NATS/1.0\r\nNats-Expected-Last-Msg-Id: x\r\n\r\n", ""),
		"in the second line": hpub(
			"NATS/1.0\r\nNats-Msg-Id: a\r\nNats-Expected-Last-Msg-Id: x\r\n\r\n", ""),
		"another header":  hpub("NATS/1.0\r\nNats-Rollup: all\r\n\r\n", "{}"),
		"another case":    hpub("NATS/1.0\r\nnats-msg-id: a\r\n\r\n", ""),
		"a status":        hpub("NATS/1.0 100 Idle\r\nNats-Msg-Id: a\r\n\r\n", ""),
		"no version":      hpub("Nats-Msg-Id: a\r\n\r\n", ""),
		"no end":          hpub("NATS/1.0\r\nNats-Msg-Id: a", "\r\n\r\n"),
		"an empty line":   hpub("NATS/1.0\r\n\r\nNats-Expected-Last-Msg-Id: x\r\n\r\n", ""),
		"many headers":    hpub("NATS/1.0\r\n"+strings.Repeat("Nats-Msg-Id: a\r\n", 3000)+"\r\n", ""),
		"lower case":      "hpub s 12 12\r\nNATS/1.0\r\n\r\n\r\n",
		"tabs":            "HPUB\ts 12 12\r\nNATS/1.0\r\n\r\n\r\n",
		"a smaller total": "HPUB s 12 1\r\nNATS/1.0\r\n\r\n\r\n",
		"a negative size": "PUB s -1\r\n",
		"a signed size":   "PUB s +1\r\na\r\n",
		"no size":         "PUB s\r\n",
		"many fields":     "PUB s r q 1\r\na\r\n",
		"a route":         "RMSG $G s 1\r\na\r\n",
		"no subject":      "SUB \nPUB x 50\r\nHPUB s 40 40\r\n",
		"only spaces":     "UNSUB  \t\r\n",
		"a return":        "SUB a\rb 1\r\n",
		"a long line":     "SUB " + strings.Repeat("s", passBuffer) + " 1\r\n",
	} {
		var out bytes.Buffer
		err := pass(&out, strings.NewReader(said+"PING\r\n"))
		if !errors.Is(err, errForeign) || slices.Contains(strings.Fields(out.String()), "PING") {
			t.Errorf("%s: %v, passed %q", name, err, &out)
		}
	}
}

// FuzzPass checks that what passes has only headers of signalbox, as the server would read it.
func FuzzPass(f *testing.F) {
	f.Add("PUB s 2\r\nab\r\nHPUB s 12 12\r\nNATS/1.0\r\n\r\n\r\n")
	f.Add("HPUB s 28 28\r\nNATS/1.0\r\nNats-Msg-Id: a\r\n\r\n\r\nPING\r\n")
	f.Fuzz(func(t *testing.T, said string) {
		var out bytes.Buffer
		err := pass(&out, strings.NewReader(said))
		if err == nil {
			t.Fatal("it ended without an error")
		}
		// What passed is what would pass again.
		var again bytes.Buffer
		if err := pass(&again, bytes.NewReader(out.Bytes())); errors.Is(err, errForeign) ||
			!bytes.HasPrefix(out.Bytes(), again.Bytes()) {
			t.Errorf("%v: %q became %q", err, &out, &again)
		}
	})
}
