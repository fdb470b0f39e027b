package fault

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"signalbox/internal/testkit/pgserver"
	"signalbox/internal/testkit/proxy"
)

// databaseCluster is a PostgreSQL server and its synchronous replica, each behind a proxy.
type databaseCluster struct {
	primary, standby *pgserver.Server
	// front are the proxies. The first leads to the primary until the first failover.
	front   [2]*proxy.Proxy
	leading int // the proxy of the primary
}

func startCluster(t *testing.T) *databaseCluster {
	t.Helper()
	pgserver.Need(t)
	// A replica looks for its primary every few seconds unless it is told otherwise.
	primary, err := pgserver.StartWith(
		pgserver.Options{Settings: []string{"wal_retrieve_retry_interval = '100ms'"}})
	check(t, err)
	c := &databaseCluster{primary: primary}
	t.Cleanup(func() { c.primary.Stop() })
	c.standby, err = primary.Standby()
	check(t, err)
	t.Cleanup(func() { c.standby.Stop() })
	for i, s := range []*pgserver.Server{c.primary, c.standby} {
		c.front[i], err = proxy.Start("unix", s.Socket())
		check(t, err)
		t.Cleanup(func() { c.front[i].Close() })
	}
	return c
}

// address names both servers.
func (c *databaseCluster) address() string {
	return fmt.Sprintf("postgres://signalbox@127.0.0.1:%d,127.0.0.1:%d/postgres?sslmode=disable",
		c.front[0].Addr().Port, c.front[1].Addr().Port)
}

// fail makes the standby the primary, as an operator or a program that gave up the old
// one, and starts a new standby. Before that the standby is away for some time, in which the
// primary must acknowledge nothing.
func (c *databaseCluster) fail(t *testing.T, away func()) {
	t.Helper()
	check(t, c.standby.Kill())
	away()
	check(t, c.primary.Kill())
	check(t, c.standby.Restart())
	check(t, c.standby.Promote())
	check(t, c.primary.Stop())
	old := c.leading
	c.primary, c.leading = c.standby, 1-c.leading
	var err error
	c.standby, err = c.primary.Standby()
	check(t, err)
	c.front[old].Target("unix", c.standby.Socket())
}

// databaseFault is something that happens to a cluster, or to the processes that use it.
type databaseFault struct {
	name string
	do   func(t *testing.T, l *databaseLoad)
}

// databaseLoad is a box in a cluster, with clients that work on it.
type databaseLoad struct {
	cluster *databaseCluster
	site    *site
	random  *rand.Rand
	works   []string
	clients []*stormClient
	ended   []*stormClient // they were killed
}

// pauseFor lets a fault last for some time. In the full form of the test this may be longer than
// the journal waits for an answer.
func (l *databaseLoad) pauseFor(longest time.Duration) {
	time.Sleep(longest/2 + time.Duration(l.random.Int64N(int64(longest/2))))
}

// start starts a client, and waits until it works: opening a box is not repeated.
func (l *databaseLoad) start(t *testing.T) {
	t.Helper()
	number := len(l.clients) + len(l.ended)
	c := &stormClient{done: make(chan struct{}), child: startChild(t, "history", l.site.box,
		l.site.keyFile, fmt.Sprint(number), fmt.Sprint(l.random.IntN(1<<30)),
		"0", strings.Join(l.works, ","), fmt.Sprint(number%2 == 0), "0s")}
	go c.read()
	l.clients = append(l.clients, c)
	l.awaitAnswers(t, "start a client", c)
}

// awaitAnswers waits until clients get answers again.
func (l *databaseLoad) awaitAnswers(t *testing.T, after string, clients ...*stormClient) {
	t.Helper()
	before := map[*stormClient]int{}
	for _, c := range clients {
		before[c] = c.answers()
	}
	waits := func(c *stormClient) bool { return c.answers() < before[c]+10 }
	for end := time.Now().Add(patience); slices.ContainsFunc(clients,
		waits); time.Sleep(10 * time.Millisecond) {
		for _, c := range clients {
			if isClosed(c.done) {
				t.Fatalf("after %s: a client ended: %v\n%s", after, c.cmd.Wait(), &c.stderr)
			}
		}
		if time.Now().After(end) {
			t.Fatalf("after %s: the clients get no answers any more", after)
		}
	}
}

// appended is a text in what a process sends to append events.
const appended = `{"epoch":`

// databaseFaults are all faults. None of them loses what the database has acknowledged.
var databaseFaults = []databaseFault{
	{"the server is killed and restarted", func(t *testing.T, l *databaseLoad) {
		check(t, l.cluster.primary.Kill())
		check(t, l.cluster.primary.Restart())
		// A transaction that the replica did not have when the server was killed can be seen after
		// its restart. A failover before the replica has it would lose something that processes
		// have seen, although it was never acknowledged; they would refuse the ledger then.
		check(t, l.cluster.primary.AwaitStandby())
	}},
	{"the server is stopped and restarted", func(t *testing.T, l *databaseLoad) {
		check(t, l.cluster.primary.ShutDown())
		check(t, l.cluster.primary.Restart())
		check(t, l.cluster.primary.AwaitStandby())
	}},
	{"the server is paused", func(t *testing.T, l *databaseLoad) {
		check(t, l.cluster.primary.Pause())
		l.pauseFor(sized(2*time.Second, 30*time.Second))
		check(t, l.cluster.primary.Resume())
	}},
	{"the replica is paused", func(t *testing.T, l *databaseLoad) {
		check(t, l.cluster.standby.Pause())
		l.pauseFor(sized(2*time.Second, 30*time.Second))
		check(t, l.cluster.standby.Resume())
	}},
	{"the network is silent", func(t *testing.T, l *databaseLoad) {
		p := l.cluster.front[l.cluster.leading]
		p.Pause()
		l.pauseFor(sized(2*time.Second, 30*time.Second))
		p.Resume()
	}},
	{"the network refuses", func(t *testing.T, l *databaseLoad) {
		p := l.cluster.front[l.cluster.leading]
		p.Refuse()
		l.pauseFor(time.Second)
		p.Accept()
	}},
	{"connections are reset", func(t *testing.T, l *databaseLoad) {
		for range 5 {
			l.cluster.front[l.cluster.leading].Reset()
			l.pauseFor(20 * time.Millisecond)
		}
	}},
	{"answers are lost", func(t *testing.T, l *databaseLoad) {
		for range 10 {
			<-l.cluster.front[l.cluster.leading].LoseAnswer(appended)
		}
	}},
	{"requests are cut", func(t *testing.T, l *databaseLoad) {
		for range 10 {
			<-l.cluster.front[l.cluster.leading].CutRequest(appended)
		}
	}},
	{"the primary fails",
		func(t *testing.T, l *databaseLoad) { l.cluster.fail(t, func() { l.pauseFor(time.Second) }) }},
	{"clients are killed", func(t *testing.T, l *databaseLoad) {
		for range 3 {
			i := l.random.IntN(len(l.clients))
			c := l.clients[i]
			for !c.waits() { // so that it is unknown whether its command is executed
				time.Sleep(100 * time.Microsecond)
			}
			check(t, c.cmd.Process.Kill())
			<-c.done
			c.cmd.Wait()
			l.clients, l.ended = slices.Delete(l.clients, i, i+1), append(l.ended, c)
			l.start(t)
		}
	}},
}

// waits reports whether a client waits for an answer.
func (c *stormClient) waits() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.printed) > 0 && strings.Contains(c.printed[len(c.printed)-1], `"return":0,`)
}

// TestDatabaseFaults lets processes work on a ledger in PostgreSQL while the server, its replica,
// the network and the processes fail. Nothing that was acknowledged is lost, nothing happens twice,
// no work has two leases, and all answers could have come from a single sequential process.
func TestDatabaseFaults(t *testing.T) {
	t.Parallel()
	random := newRand(t)
	cluster := startCluster(t)
	rounds := 0
	for end := time.Now().Add(sized(0, 10*time.Minute)); rounds == 0 ||
		time.Now().Before(end); rounds++ {
		databaseRound(t, cluster, random)
	}
	t.Logf("%d rounds", rounds)
}

// databaseRound does everything to a new box.
func databaseRound(t *testing.T, cluster *databaseCluster, random *rand.Rand) {
	t.Helper()
	l := startLoad(t, cluster.address(), random)
	l.cluster = cluster
	for _, i := range random.Perm(len(databaseFaults)) {
		f := databaseFaults[i]
		began := time.Now()
		f.do(t, l)
		l.awaitAnswers(t, f.name, l.clients...)
		t.Logf("%s: answers again after %v", f.name, time.Since(began).Round(time.Millisecond))
	}
	l.end(t)
}

// startLoad starts clients that work on a new box in the database with an address.
func startLoad(t *testing.T, address string, random *rand.Rand) *databaseLoad {
	t.Helper()
	s := emptySite(t)
	s.configureWith(t, fmt.Sprintf("journal: %q\n", withSchema(address)))
	s.init(t)
	l := &databaseLoad{site: s, random: random}
	b := s.open(t)
	for i := range 3 {
		l.works = append(l.works, fmt.Sprintf("task-%d", i))
		openWork(t, b, l.works[i])
	}
	for range sized(3, 5) {
		l.start(t)
	}
	return l
}

// end ends all clients and checks what they have done.
func (l *databaseLoad) end(t *testing.T) {
	t.Helper()
	for _, c := range l.clients {
		c.stdin.Close()
	}
	for _, c := range l.clients {
		<-c.done
		if err := c.cmd.Wait(); err != nil {
			t.Errorf("%s: %v\n%s", c.name, err, &c.stderr)
		}
	}
	var history, unanswered []operation
	for _, c := range append(l.clients, l.ended...) {
		answered, last := parseOperations(t, c.printed)
		history = append(history,
			slices.DeleteFunc(answered, func(op operation) bool { return op.Failed })...)
		if last != nil {
			unanswered = append(unanswered, *last)
		}
	}
	events := l.site.mustVerify(t)
	stored := resolve(events, history, unanswered)
	t.Logf("%d answers, %d commands without an answer (%d stored); the ledger has %d events", len(history), len(unanswered), len(stored), len(events))
	history = append(history, stored...)
	checkOneLease(t, events)
	checkAnswers(t, events, history)
	for _, wrong := range checkLinear(factsOf(t, events), history) {
		t.Errorf("no sequential order explains the answers about %s", wrong)
	}
}
