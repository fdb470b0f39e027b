package nats

import (
	"bufio"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nats-io/nats-server/v2/server"

	"signalbox"
	"signalbox/internal/core/journal"
	"signalbox/internal/core/journal/journaltest"
	"signalbox/internal/testkit/loopback"
	"signalbox/internal/testkit/must"
)

// testCluster is a cluster whose nodes are processes.
type testCluster struct {
	Cluster
	dir       string
	processes map[string]*process
}

// process is a process that runs a node.
type process struct {
	cmd   *exec.Cmd
	stdin io.Closer
	out   *bufio.Reader
}

// newCluster returns a cluster of n nodes that do not run yet.
func newCluster(t testing.TB, n int) *testCluster {
	t.Helper()
	c := &testCluster{Cluster{Nodes: map[string]string{}, Secret: NewSecret()}, t.TempDir(),
		map[string]*process{}}
	for i := range n {
		c.Nodes[string(rune('a'+i))] = loopback.Address(t)
	}
	return c
}

// of returns the cluster as a machine has it.
func (c *testCluster) of(node string, host bool) Cluster {
	return Cluster{Dir: filepath.Join(c.dir, node), Node: node, Nodes: c.Nodes, Secret: c.Secret,
		Host: host, Await: host}
}

// start starts the process of a node. It does not wait until it is ready.
func (c *testCluster) start(t testing.TB, node string) {
	t.Helper()
	cmd := child{Cluster: c.of(node, true)}.command(t)
	cmd.Stderr = os.Stderr
	stdin, err := cmd.StdinPipe()
	must.Succeed(t, err)
	out, err := cmd.StdoutPipe()
	must.Succeed(t, err)
	must.Succeed(t, cmd.Start())
	p := &process{cmd, stdin, bufio.NewReader(out)}
	c.processes[node] = p
	t.Cleanup(func() {
		_ = p.cmd.Process.Kill()
		_ = p.cmd.Wait()
	})
}

// startAll starts all nodes and waits until they are ready.
func (c *testCluster) startAll(t testing.TB) {
	t.Helper()
	for node := range c.Nodes {
		c.start(t, node)
	}
	for node := range c.Nodes {
		c.ready(t, node)
	}
}

// ready waits until the process of a node has opened its journal.
func (c *testCluster) ready(t testing.TB, node string) {
	t.Helper()
	if line, err := c.processes[node].out.ReadString('\n'); line != "ready\n" {
		t.Fatalf("node %s: %q, %v", node, line, err)
	}
}

// stop ends the process of a node, and kill kills it.
func (c *testCluster) stop(t testing.TB, node string) {
	t.Helper()
	c.processes[node].stdin.Close()
	if err := c.processes[node].cmd.Wait(); err != nil {
		t.Errorf("node %s: %v", node, err)
	}
}

func (c *testCluster) kill(t testing.TB, node string) {
	t.Helper()
	must.Succeed(t, c.processes[node].cmd.Process.Kill())
	_ = c.processes[node].cmd.Wait()
}

// open opens a journal in the cluster, which waits for slow nodes and elections.
func (c *testCluster) open(t testing.TB, node, name string) *Journal {
	t.Helper()
	j, err := OpenCluster(t.Context(), c.of(node, false),
		Options{Create: true, name: name, patience: 2 * time.Minute})
	must.Succeed(t, err)
	return j
}

// awaitReplicas waits until all nodes have everything.
func (c *testCluster) awaitReplicas(t *testing.T, j *Journal) {
	t.Helper()
	for end := time.Now().Add(2 * time.Minute); ; {
		findings, err := j.Inspect(t.Context())
		good := 0
		for _, f := range findings {
			if (f.Name == "replicas" || f.Name == "lag") && f.Level == journal.OK {
				good++
			}
		}
		if good == 2 {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("%v, %v", findings, err)
		}
	}
}

func TestClusterJournal(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 3)
	c.startAll(t)
	j := c.open(t, "a", "shop")
	c.awaitReplicas(t, j)
	wantFinding(t, j, "replicas", journal.OK, "3 replicas of the ledger, leader ")
	wantFinding(t, j, "fsync", journal.OK, "sync every append")
	wantFinding(t, j, "rights", journal.OK, "may append")
	j.Close()
	journaltest.Run(t, func(t *testing.T) journaltest.Log {
		name := newName()
		next := 0
		log := testLog(t, func(t testing.TB) *Journal {
			next++
			return c.open(t, string(rune('a'+next%3)), name)
		}, child{Cluster: c.of("b", false), Name: name, Append: true})
		log.ChangeLeader = func(t testing.TB) {
			t.Helper()
			j := c.open(t, "a", name)
			defer j.Close()
			must.Succeed(t, j.retry(t.Context(),
				func() error { return j.api(t.Context(), "STREAM.LEADER.STEPDOWN."+name, nil, nil) }))
		}
		return log
	},
		// those in which handles at several nodes meet; TestJournal runs all
		"ReadAcrossHandles", "ReadOwnAppends", "ReadNeverStepsBack", "ConcurrentWriters",
		"ConcurrentConflicts", "DurableAfterReopen", "DurableAfterKill", "WatchAcrossHandles",
		"WatchWhileAppending", "AppendLimits", "BlobOfManyMegabytes", "BlobPutGetDelete",
		"BlobConcurrentPuts")
}

// A cluster continues while one of three nodes is down, refuses to append without a majority, and
// continues when the nodes are back.
func TestNodesAreKilled(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 3)
	c.startAll(t)
	j := c.open(t, "b", "shop")
	defer j.Close()
	seq := uint64(0)
	grow := func(n int) {
		t.Helper()
		must.Succeed(t, j.Append(t.Context(), seq, testEvents(seq, n)))
		seq += uint64(n)
		if head, err := j.Head(t.Context()); head != seq || err != nil {
			t.Fatalf("head is %d, %v, want %d", head, err, seq)
		}
	}
	grow(2)
	c.kill(t, "a")
	grow(1)
	grow(3)
	c.start(t, "a")
	c.ready(t, "a")
	c.kill(t, "b") // that j is connected to
	grow(1)
	c.kill(t, "c")
	impatient, err := OpenCluster(t.Context(), c.of("a", false),
		Options{name: "shop", patience: time.Second, attempt: time.Second})
	if err == nil {
		err = impatient.Append(t.Context(), seq, testEvents(seq, 1))
		impatient.Close()
	}
	if !errors.Is(err, journal.ErrUnavailable) || signalbox.HintOf(err) == "" {
		t.Errorf("append without a majority: %v, want %q with a hint", err, journal.ErrUnavailable)
	}
	c.start(t, "b")
	c.start(t, "c")
	c.ready(t, "b")
	c.ready(t, "c")
	// The attempt without a majority may have been stored, or not.
	if head, err := j.Head(t.Context()); err != nil || head != seq && head != seq+1 {
		t.Fatalf("head is %d, %v, want %d", head, err, seq)
	} else {
		seq = head
	}
	grow(2)
	c.stop(t, "a")
	grow(1)
	events, err := j.Read(t.Context(), 0, 100)
	if err != nil || uint64(len(events)) != seq {
		t.Errorf("%d events, %v, want %d", len(events), err, seq)
	}
}

// Two processes of one machine: the second takes over the node when the first has ended.
func TestTakeOver(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 1)
	c.startAll(t)
	j := c.open(t, "a", "")
	defer j.Close()
	must.Succeed(t, j.Append(t.Context(), 0, testEvents(0, 1)))
	c.kill(t, "a")
	must.Succeed(t, j.Append(t.Context(), 1, testEvents(1, 1)))
	c.start(t, "a")
	c.ready(t, "a")
	j.Close()
	// The process that remains runs the node now.
	again := c.open(t, "a", "")
	defer again.Close()
	if head, err := again.Head(t.Context()); head != 2 || err != nil {
		t.Errorf("head is %d, %v, want 2", head, err)
	}
	c.stop(t, "a")
	must.Succeed(t, again.Append(t.Context(), 2, testEvents(2, 1)))
}

// A node that cannot read its data says why at once, and does not outlast the context of its
// caller.
func TestNodeDoesNotStart(t *testing.T) {
	c := newCluster(t, 1)
	bad := c.of("a", true)
	must.Succeed(t, os.MkdirAll(bad.Dir, 0o700))
	must.Succeed(t, os.WriteFile(filepath.Join(bad.Dir, "jetstream"), nil, 0o600))
	_, err := OpenCluster(t.Context(), bad, Options{Create: true})
	if signalbox.CodeOf(err) != signalbox.CodeFailed ||
		!strings.Contains(fmt.Sprint(err), "the node of this machine") ||
		!strings.Contains(signalbox.HintOf(err), bad.Dir) {
		t.Errorf("%v (%s)", err, signalbox.HintOf(err))
	}
	config, err := nodeTLS(c.Secret, c.hosts())
	must.Succeed(t, err)
	n := &node{cluster: bad, tls: config, log: slog.New(slog.DiscardHandler)}
	s, err := server.NewServer(&server.Options{NoLog: true, NoSigs: true}) // it is never started
	must.Succeed(t, err)
	log := newServerLog(n.log)
	log.Fatalf("Can't start JetStream: %v", "it is a file")
	if err := n.waitUntilReady(s, log, nil); !strings.Contains(fmt.Sprint(err),
		"the node of this machine does not start: Can't start JetStream: it is a file") ||
		!strings.Contains(signalbox.HintOf(err), bad.Dir) {
		t.Errorf("%v (%s)", err, signalbox.HintOf(err))
	}
	stop := make(chan struct{})
	close(stop)
	if err := n.waitUntilReady(s, newServerLog(n.log), stop); err == nil {
		t.Error("a server that was not started is ready")
	}
}

// A node whose disk was full starts again when it can write. Until then errors say why it does not
// run.
func TestNodeStartsAgain(t *testing.T) {
	c := newCluster(t, 1).of("a", true)
	config, err := nodeTLS(c.Secret, c.hosts())
	must.Succeed(t, err)
	obstacle := filepath.Join(c.Dir, "writable", "file")
	must.Succeed(t, os.MkdirAll(obstacle, 0o700))
	lock, err := os.Create(filepath.Join(c.Dir, "lock"))
	must.Succeed(t, err)
	n := &node{cluster: c, tls: config, log: slog.New(slog.DiscardHandler), lock: lock,
		quit: make(chan struct{}), done: make(chan struct{})}
	s, err := n.start(nil)
	must.Succeed(t, err)
	go n.run(s)
	defer n.stop()
	s.log.Errorf("Filestore [signalbox] Critical write error: %v",
		errors.New("no space left on device"))
	s.WaitForShutdown()
	for !strings.Contains(fmt.Sprint(n.failure()), "is a directory") { // until it is tried again
		if err := n.failure(); !errors.Is(err, errCannotWrite) {
			t.Fatalf("the node runs: %v", err)
		}
		time.Sleep(time.Millisecond)
	}
	j := newJournal("shop", Options{})
	j.embedded, j.node = true, n
	for _, err := range []error{j.unavailable(errNoLeader),
		j.explainConnect(errors.New("refused"))} {
		if !errors.Is(err, journal.ErrUnavailable) ||
			!strings.Contains(err.Error(), "cannot write to its disk") ||
			!strings.Contains(signalbox.HintOf(err), "free space") {
			t.Errorf("%v (%s)", err, signalbox.HintOf(err))
		}
	}
	must.Succeed(t, os.RemoveAll(filepath.Dir(obstacle)))
	for n.failure() != nil {
		time.Sleep(time.Millisecond)
	}
	conn, err := tls.Dial("tcp", c.Nodes["a"], config)
	must.Succeed(t, err)
	conn.Close()
}

// A node that cannot be taken over is tried again with growing pauses, and each reason is logged
// once.
func TestNodeCannotBeTakenOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out strings.Builder
		dir := t.TempDir()
		lock, err := os.Create(filepath.Join(dir, "lock"))
		must.Succeed(t, err)
		n := &node{cluster: Cluster{Dir: dir, Node: "a",
			Nodes: map[string]string{"a": "no address"}},
			log: slog.New(slog.NewTextHandler(&out, nil)), lock: lock,
			quit: make(chan struct{}), done: make(chan struct{})}
		start := time.Now()
		go n.run(nil)
		time.Sleep(time.Hour)
		must.Succeed(t, n.stop())
		if n := strings.Count(out.String(), "cannot run the node"); n != 1 {
			t.Errorf("%d warnings in %v:\n%s", n, time.Since(start), out.String())
		}
	})
}

// A machine with another secret can neither read nor join.
func TestAnotherSecret(t *testing.T) {
	c := newCluster(t, 1)
	c.startAll(t)
	stranger := c.of("a", false)
	stranger.Dir, stranger.Secret = t.TempDir(), NewSecret()
	// A second process with another secret: it may not run the node, since another process has the
	// port.
	_, err := OpenCluster(t.Context(), stranger, Options{patience: time.Minute})
	if signalbox.CodeOf(err) != signalbox.CodeFailed || signalbox.HintOf(err) == "" ||
		!strings.Contains(fmt.Sprint(err), "cannot listen") {
		t.Errorf("%v", err)
	}
	stranger.Dir = c.of("a", false).Dir
	_, err = OpenCluster(t.Context(), stranger,
		Options{patience: time.Minute, attempt: time.Minute})
	if signalbox.CodeOf(err) != signalbox.CodeFailed ||
		!strings.Contains(fmt.Sprint(err), "do not trust each other") ||
		!strings.Contains(signalbox.HintOf(err), "secret") {
		t.Errorf("%v", err)
	}
	// Without a certificate.
	conn, err := tls.Dial("tcp", c.Nodes["a"], &tls.Config{InsecureSkipVerify: true})
	if err == nil {
		defer conn.Close()
		if n, err := conn.Read(make([]byte, 1)); n > 0 || err == nil {
			t.Errorf("the node answers without a certificate: %d bytes, %v", n, err)
		}
	}
}

// A node syncs every write, accepts only connections with a certificate, and opens no other ports.
func TestNodeOptions(t *testing.T) {
	for _, n := range []int{1, 3} {
		c := newCluster(t, n)
		config, err := nodeTLS(c.Secret, c.hosts())
		must.Succeed(t, err)
		o, err := (&node{cluster: c.of("a", true), tls: config}).options()
		must.Succeed(t, err)
		verify := tls.RequireAndVerifyClientCert
		if !o.SyncAlways || !o.TLSVerify || o.TLSConfig.ClientAuth != verify || n > 1 &&
			o.Cluster.TLSConfig.ClientAuth != verify {
			t.Errorf("%d nodes: %+v", n, o)
		}
		if o.HTTPPort != 0 || o.HTTPSPort != 0 || o.LeafNode.Port != 0 || o.Gateway.Port != 0 ||
			o.MQTT.Port != 0 || o.Websocket.Port != 0 || o.ProfPort != 0 ||
			(o.Cluster.Port != 0) != (n > 1) {
			t.Errorf("%d nodes: other ports are open: %+v", n, o)
		}
		if len(o.Routes) != n-1 {
			t.Errorf("%d routes to %d other nodes", len(o.Routes), n-1)
		}
	}
}

func TestClusterValidation(t *testing.T) {
	secret := NewSecret()
	nodes := func(addresses ...string) map[string]string {
		m := map[string]string{}
		for i, address := range addresses {
			m[string(rune('a'+i))] = address
		}
		return m
	}
	for name, test := range map[string]struct {
		cluster Cluster
		want    string
	}{
		"two nodes": {Cluster{Node: "a", Nodes: nodes("x:1", "y:1"), Secret: secret},
			"a cluster of 2 nodes needs all but 0 of them to work, like one of 1"},
		"four nodes": {Cluster{Node: "a", Nodes: nodes("x:1", "y:1", "z:1", "w:1"),
			Secret: secret}, "a cluster of 4 nodes needs all but 1 of them to work, like one of 3"},
		"six nodes": {Cluster{Node: "a", Nodes: nodes("x:1", "y:1", "z:1", "w:1", "v:1",
			"u:1"), Secret: secret}, "1, 3 or 5 nodes, not 6"},
		"none": {Cluster{Node: "a", Secret: secret}, "1, 3 or 5 nodes, not 0"},
		"not in it": {Cluster{Node: "z", Nodes: nodes("x:1"), Secret: secret},
			`the node "z" of this machine is not in the list of nodes: [a]`},
		"a short secret": {Cluster{Node: "a", Nodes: nodes("x:1"), Secret: []byte("secret")},
			"has 6 bytes, and must have at least 32"},
		"no port": {Cluster{Node: "a", Nodes: nodes("x"), Secret: secret},
			`node a: "x" is not an address HOST:PORT`},
		"a large port": {Cluster{Node: "a", Nodes: nodes("x:65535"), Secret: secret},
			"with a port up to 65534"},
		"a shared port": {Cluster{Node: "a", Nodes: nodes("x:7", "x:8", "x:20"), Secret: secret},
			"the nodes a and b both use port 8"},
		"a bad name": {Cluster{Node: "a.b", Nodes: map[string]string{"a.b": "x:1"},
			Secret: secret}, `"a.b" is not the name of a node`},
	} {
		err := test.cluster.Validate()
		if !strings.Contains(fmt.Sprint(err), test.want) ||
			signalbox.CodeOf(err) != signalbox.CodeUsage {
			t.Errorf("%s: %v, want %q", name, err, test.want)
		}
	}
	for _, n := range []int{1, 3, 5} {
		c := newCluster(t, n)
		valid := c.of("a", true)
		if err := valid.Validate(); err != nil {
			t.Errorf("%d nodes: %v", n, err)
		}
	}
	if a, b := NewSecret(), NewSecret(); slices.Equal(a, b) {
		t.Error("two secrets are the same")
	}
}
