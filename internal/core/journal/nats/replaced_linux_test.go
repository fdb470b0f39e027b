package nats

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"signalbox/internal/core/journal"
	"signalbox/internal/testkit/loopback"
	"signalbox/internal/testkit/must"
)

// network is between the nodes of a cluster. What one node sends to another arrives late, or not
// until the network is repaired.
type network struct {
	mu     sync.Mutex
	delays map[string]time.Duration // by "FROM TO"; guarded by mu
	gates  map[string]chan struct{} // closed when the network is repaired; guarded by mu
}

// delay makes what a node sends to another arrive later.
func (n *network) delay(from, to string, d time.Duration) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.delays[from+" "+to] = d
}

// cut makes what a node sends to another not arrive, and repair ends that.
func (n *network) cut(from, to string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.gates[from+" "+to] = make(chan struct{})
}

func (n *network) repair() {
	n.mu.Lock()
	defer n.mu.Unlock()
	for pair, gate := range n.gates {
		close(gate)
		delete(n.gates, pair)
	}
	clear(n.delays)
}

func (n *network) read(pair string) (time.Duration, <-chan struct{}) {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.delays[pair], n.gates[pair]
}

// listen forwards the connections that a node makes to another.
func (n *network) listen(t *testing.T, from, to, address, target string) {
	listener, err := net.Listen("tcp", address)
	must.Succeed(t, err)
	t.Cleanup(func() { listener.Close() })
	go func() {
		for {
			a, err := listener.Accept()
			if err != nil {
				return
			}
			b, err := net.Dial("tcp", target)
			if err != nil {
				a.Close()
				continue
			}
			go n.forward(from+" "+to, a, b)
			go n.forward(to+" "+from, b, a)
		}
	}()
}

// forward forwards what one side of a connection sends.
func (n *network) forward(pair string, from io.ReadCloser, to io.WriteCloser) {
	type part struct {
		data []byte
		due  time.Time
	}
	parts := make(chan part, 1<<16)
	go func() {
		defer from.Close()
		defer to.Close()
		for p := range parts {
			time.Sleep(time.Until(p.due)) // what the test is about
			if _, gate := n.read(pair); gate != nil {
				<-gate
			}
			if _, err := to.Write(p.data); err != nil {
				return
			}
		}
	}()
	defer close(parts)
	for {
		data := make([]byte, 32<<10)
		k, err := from.Read(data)
		if err != nil {
			return
		}
		delay, _ := n.read(pair)
		parts <- part{data[:k], time.Now().Add(delay)}
	}
}

// distantNodes is a cluster whose nodes, all in this process, reach each other through a network.
type distantNodes struct {
	*testCluster
	network
	maps    map[string]map[string]string // the addresses as each node has them
	servers map[string]*nodeServer
	clocks  map[string]*atomic.Int64 // how far the clock of each node is ahead
}

func startDistant(t *testing.T) *distantNodes {
	t.Helper()
	host, _, err := net.SplitHostPort(loopback.Address(t))
	must.Succeed(t, err)
	c := &distantNodes{newCluster(t, 3), network{delays: map[string]time.Duration{},
		gates: map[string]chan struct{}{}}, map[string]map[string]string{},
		map[string]*nodeServer{}, map[string]*atomic.Int64{}}
	port := 7000
	address := func(offset int) string { return fmt.Sprintf("%s:%d", host, port+offset) }
	for name := range c.Nodes {
		port += 10
		c.Nodes[name] = address(0)
	}
	for from := range c.Nodes {
		c.maps[from] = map[string]string{from: c.Nodes[from]}
		for to, target := range c.Nodes {
			if to == from {
				continue
			}
			port += 10
			c.maps[from][to] = address(0)
			_, targetPort, err := splitAddress(target)
			must.Succeed(t, err)
			c.listen(t, from, to, address(1), fmt.Sprintf("%s:%d", host, targetPort+1))
		}
	}
	for name := range c.Nodes {
		cluster := c.of(name, true)
		cluster.Nodes = c.maps[name]
		config, err := nodeTLS(c.Secret, []string{host})
		must.Succeed(t, err)
		must.Succeed(t, os.MkdirAll(cluster.Dir, 0o700))
		lock, err := os.Create(filepath.Join(cluster.Dir, "lock"))
		must.Succeed(t, err)
		n := &node{cluster: cluster, tls: config, log: slog.New(slog.DiscardHandler), lock: lock,
			quit: make(chan struct{}), done: make(chan struct{})}
		ahead := &atomic.Int64{}
		c.clocks[name] = ahead
		n.clock = func() time.Time { return time.Now().Add(time.Duration(ahead.Load())) }
		s, err := n.start(nil)
		must.Succeed(t, err)
		go n.run(s)
		t.Cleanup(func() {
			c.repair()
			s.Shutdown()
			n.stop()
		})
		c.servers[name] = s
	}
	return c
}

// join opens a journal that is connected to a node.
func (c *distantNodes) join(t *testing.T, node string, patience time.Duration) *Journal {
	t.Helper()
	cluster := c.of(node, false)
	cluster.Nodes = c.maps[node]
	j, err := OpenCluster(t.Context(), cluster, Options{Create: true, patience: 2 * time.Minute})
	must.Succeed(t, err)
	t.Cleanup(func() { j.Close() })
	j.opts.patience, j.opts.attempt = patience, min(patience, defaultAttempt)
	return j
}

// A leader that was replaced, and does not know it, is not believed when it says that the log ends
// where it ended before: the log has not lost what its successor has acknowledged.
func TestReplacedLeader(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		late    bool // what the others send to the leader arrives 8 seconds later
		natural bool // they elect its successor when they miss it
	}{
		"cut off":             {},
		"late, and then away": {late: true, natural: true},
	} {
		t.Run(name, func(t *testing.T) {
			if test.natural && os.Getenv("SIGNALBOX_FAULT") != "full" {
				t.Skip("takes half a minute: SIGNALBOX_FAULT=full")
			}
			t.Parallel()
			c := startDistant(t)
			j := c.join(t, "a", 2*time.Minute)
			must.Succeed(t, j.Append(t.Context(), 0, testEvents(0, 7)))
			c.awaitReplicas(t, j)
			info, err := j.streamInfo(t.Context(), j.name)
			must.Succeed(t, err)
			old := info.Cluster.Leader
			others := []string{info.Cluster.Replicas[0].Name, info.Cluster.Replicas[1].Name}
			deposed, next := c.join(t, old, 2*time.Minute), c.join(t, others[0], 2*time.Minute)
			if head, err := deposed.Head(t.Context()); head != 7 || err != nil {
				t.Fatalf("head is %d, %v, want 7", head, err)
			}
			if test.late {
				for _, other := range others {
					c.delay(other, old, 8*time.Second)
				}
				// until something that was sent since has arrived
				late := time.Now()
				for heard := false; !heard; {
					info, err := deposed.streamInfo(t.Context(), deposed.name)
					must.Succeed(t, err)
					heard = true
					for _, r := range info.Cluster.Replicas {
						heard = heard && time.Since(late) > 9*time.Second && r.Active < time.Second
					}
				}
			}
			for _, other := range others {
				c.cut(old, other)
				if !test.late {
					c.cut(other, old)
				}
			}
			if !test.natural {
				stream, err := lookupStream(c.servers[others[0]].GlobalAccount(), defaultName)
				must.Succeed(t, err)
				must.Succeed(t, streamRaft(stream).CampaignImmediately())
				for !streamRaft(stream).Leader() {
					time.Sleep(time.Millisecond)
				}
			}
			must.Succeed(t, next.Append(t.Context(), 7, testEvents(7, 10)))
			deposed.opts.patience, deposed.opts.attempt = time.Second, time.Second
			head, err := deposed.Head(t.Context())
			if err == nil && head < 17 {
				t.Errorf("head is %d after event 17 was acknowledged", head)
			} else if err != nil && !errors.Is(err, journal.ErrUnavailable) {
				t.Errorf("head: %v", err)
			}
			if events, err := deposed.Read(t.Context(), 7, 100); err == nil && len(events) == 0 {
				t.Error("no events after 7, although they were acknowledged")
			}
			c.repair()
			deposed.opts.patience, deposed.opts.attempt = 2*time.Minute, defaultAttempt
			if head, err := deposed.Head(t.Context()); head != 17 || err != nil {
				t.Errorf("head is %d, %v after the network was repaired, want 17", head, err)
			}
		})
	}
}

// A leader whose clock is the only one that is wrong gives up leadership, and doctor names it.
func TestLeaderWithWrongClock(t *testing.T) {
	t.Parallel()
	c := startDistant(t)
	j := c.join(t, "a", 2*time.Minute)
	must.Succeed(t, j.Append(t.Context(), 0, testEvents(0, 1)))
	c.awaitReplicas(t, j)
	info, err := j.streamInfo(t.Context(), j.name)
	must.Succeed(t, err)
	wrong := info.Cluster.Leader
	c.clocks[wrong].Store(int64(2 * time.Hour))
	for leader := wrong; leader == wrong || leader == ""; {
		time.Sleep(10 * time.Millisecond)
		info, err := j.streamInfo(t.Context(), j.name)
		if err == nil && info.Cluster != nil {
			leader = info.Cluster.Leader
		}
	}
	for {
		clocks, err := j.Clocks(t.Context())
		must.Succeed(t, err)
		if slices.ContainsFunc(clocks, func(c journal.MachineClock) bool {
			return c.Machine == wrong && c.Ahead.Round(time.Minute) == 2*time.Hour
		}) {
			break
		}
		if _, err := j.Head(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	now := testEvents(1, 1)
	now[0].Time = time.Now().UTC()
	must.Succeed(t, j.Append(t.Context(), 1, now))
	now = testEvents(2, 1)
	now[0].Time = time.Now().Add(time.Hour).UTC()
	if err := j.Append(t.Context(), 2, now); !errors.Is(err, journal.ErrClockSkew) {
		t.Errorf("an event that is as far ahead as one of three clocks: %v", err)
	}
}

// Whatever is late or lost between the nodes, and whoever leads them, no answer is older than what
// was acknowledged before the question, and nothing is reported as lost.
func TestLateMessages(t *testing.T) {
	if os.Getenv("SIGNALBOX_FAULT") != "full" {
		t.Skip("takes ten minutes: SIGNALBOX_FAULT=full")
	}
	t.Parallel()
	c := startDistant(t)
	must.Succeed(t, c.join(t, "a", 2*time.Minute).Append(t.Context(), 0, testEvents(0, 7)))
	var (
		acknowledged, accepted atomic.Uint64
		wait                   sync.WaitGroup
		names                  = slices.Sorted(maps.Keys(c.Nodes))
	)
	acknowledged.Store(7)
	stop := make(chan struct{})
	loop := func(do func()) {
		wait.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
					do()
				}
			}
		})
	}
	for _, name := range names {
		writer, reader := c.join(t, name, 5*time.Second), c.join(t, name, time.Second)
		loop(func() {
			head := acknowledged.Load()
			err := writer.Append(t.Context(), head, testEvents(head, 1))
			switch {
			case err == nil:
				raise(&acknowledged, head+1)
			case errors.Is(err, journal.ErrConflict):
				if now, err := writer.Head(t.Context()); err == nil {
					raise(&acknowledged, now)
				}
			case !errors.Is(err, journal.ErrUnavailable):
				t.Errorf("append event %d: %v", head+1, err)
			}
		})
		loop(func() {
			before := acknowledged.Load()
			head, err := reader.Head(t.Context())
			switch {
			case err == nil && head < before:
				t.Errorf("head is %d after event %d was acknowledged", head, before)
			case err == nil:
				accepted.Add(1)
			case !errors.Is(err, journal.ErrUnavailable):
				t.Errorf("head: %v", err)
			}
			events, err := reader.Read(t.Context(), before-1, 10)
			if err == nil && len(events) == 0 || err != nil && !errors.Is(err, journal.ErrUnavailable) {
				t.Errorf("%d events after %d, %v", len(events), before-1, err)
			}
		})
	}
	random := rand.New(rand.NewPCG(uint64(time.Now().UnixNano()), 0))
	for end := time.Now().Add(10 * time.Minute); time.Now().Before(end) && !t.Failed(); {
		i := random.IntN(3)
		from, to := names[i], names[(i+1+random.IntN(2))%3]
		switch random.IntN(5) {
		case 0:
			c.cut(from, to)
		case 1, 2:
			c.delay(from, to, time.Duration(1+random.IntN(8))*time.Second)
		case 3:
			if stream, err := lookupStream(c.servers[from].GlobalAccount(), defaultName); err == nil {
				_ = streamRaft(stream).CampaignImmediately() // it may lead already
			}
		case 4:
			c.repair()
		}
		time.Sleep(time.Duration(random.IntN(6000)) * time.Millisecond) // how long it lasts
	}
	close(stop)
	c.repair()
	wait.Wait()
	t.Logf("%d events were acknowledged, and %d heads accepted", acknowledged.Load(),
		accepted.Load())
}
