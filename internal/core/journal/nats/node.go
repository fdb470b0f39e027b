package nats

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	natsgo "github.com/nats-io/nats.go"

	"signalbox"
	"signalbox/internal/core/journal"
	"signalbox/internal/core/journal/driver"
	"signalbox/internal/durable"
)

// Cluster describes the servers that the processes of a box run themselves, one on each machine.
type Cluster struct {
	// Dir is where the node of this machine stores its data. It is created.
	Dir string
	// Node is the name of the node of this machine, and Nodes has the address HOST:PORT of each
	// node. Clients connect to that port, and nodes to each other at the next one. There are one,
	// three or five nodes.
	Node  string
	Nodes map[string]string
	// Secret is the same on every machine. Nodes and clients recognise each other by it. While it is
	// being changed, it has a line for the old one and one for the new one.
	Secret []byte
	// Host makes this process run the node of its machine whenever no other process of the machine
	// does. The processes of a cluster of one node always do that, except Guests, which never do.
	Host  bool
	Guest bool
	// Await makes a Host wait until the ledger was created on another machine, however long that
	// takes: its node is needed for that.
	Await bool
	// Replace moves aside the data of another kind of cluster, for a ledger that is moved into this
	// one. See ErrOtherKind.
	Replace bool
}

const (
	// hostPatience is how long opening waits for other machines, if this process runs a node. They
	// may be started by hand.
	hostPatience = 2 * time.Minute
	// awaitPatience is how long it waits with Cluster.Await.
	awaitPatience = 100 * 365 * 24 * time.Hour
	// waitingAfter is when it logs that it waits.
	waitingAfter = 3 * time.Second
	// connectPatience is how long a process that runs no node tries to connect to one: the process
	// that does may be restarting.
	connectPatience = 5 * time.Second
	// lockPoll is how often a process checks whether to take over the node of its machine.
	lockPoll = 250 * time.Millisecond
	// maxRestartPause bounds the pauses, which double, between attempts to start a node that fails.
	maxRestartPause = 30 * time.Second
	// startTimeout bounds the start of a node, which reads its data.
	startTimeout = 10 * time.Minute
)

// OpenCluster opens a journal in the nodes of a cluster.
func OpenCluster(ctx context.Context, c Cluster, opts Options) (*Journal, error) {
	j, err := openCluster(ctx, c, opts)
	if err != nil {
		return nil, fmt.Errorf("open the journal in the cluster: %w", err)
	}
	return j, nil
}

func openCluster(ctx context.Context, c Cluster, opts Options) (*Journal, error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	name := opts.name
	if name == "" {
		name = defaultName
	}
	if !c.Replace { // also in processes that do not run the node, for which it seems to be away
		if err := c.checkKind(); err != nil {
			return nil, err
		}
	}
	j := newJournal(name, opts)
	j.embedded, j.alone, j.nodes = true, len(c.Nodes) == 1, slices.Sorted(maps.Keys(c.Nodes))
	config, err := nodeTLS(c.Secret, c.hosts())
	if err != nil {
		return nil, err
	}
	patience := j.opts.patience
	if (c.Host || j.alone) && !c.Guest {
		if j.node, err = newNode(ctx, c, name, config, j.log); err != nil {
			return nil, err
		}
		switch {
		case opts.patience != 0:
		case c.Host && c.Await:
			patience = awaitPatience
		case c.Host:
			patience = hostPatience
		}
	}
	if err := j.openNodes(ctx, c, config, patience); err != nil {
		if j.conn != nil {
			j.conn.Close()
		}
		if j.node != nil {
			err = errors.Join(err, j.node.stop())
		}
		return nil, err
	}
	return j, nil
}

// openNodes connects to the nodes, and finds or creates the streams. It waits for a majority of the
// nodes.
func (j *Journal) openNodes(ctx context.Context, c Cluster, config *tls.Config,
	patience time.Duration) error {
	options := []natsgo.Option{natsgo.Secure(config), natsgo.DontRandomize(),
		natsgo.IgnoreDiscoveredServers(), natsgo.TLSHandshakeFirst()}
	start := time.Now()
	end := start.Add(patience)
	if c.Host && len(c.Nodes) > 1 {
		enough := "more than half"
		if j.opts.Create {
			enough = "all"
		}
		said := time.AfterFunc(waitingAfter, func() {
			j.log.Warn("waiting until signalbox run, worker or serve runs on " + enough +
				" of the machines of the cluster")
		})
		defer said.Stop()
	}
	for {
		if j.node != nil {
			err := j.node.failure()
			waits := errors.Is(err, errCannotWrite) || errors.Is(err, errDamagedCopy) && !j.alone
			if err != nil && !waits {
				return err
			}
		}
		err := j.openOnce(ctx, c, options)
		waits := errors.Is(err, journal.ErrUnavailable) || c.Host && c.Await && len(c.Nodes) > 1 &&
			signalbox.CodeOf(err) == signalbox.CodeNotFound
		if err == nil || !waits || time.Now().After(end) || ctx.Err() != nil {
			return err
		}
		if j.conn == nil && j.node == nil && time.Since(start) > connectPatience {
			return err
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%w: %w", ctx.Err(), err)
		case <-time.After(lockPoll):
		}
	}
}

func (j *Journal) openOnce(ctx context.Context, c Cluster, options []natsgo.Option) error {
	if j.conn == nil {
		if err := j.connect(ctx, c.urls(), options); err != nil {
			return err
		}
		if j.node != nil {
			if err := j.node.copy.answer(j.conn); err != nil {
				return err
			}
		}
	}
	return j.findOrCreate(ctx, len(c.Nodes))
}

// Validate returns an error unless the cluster can be run.
func (c *Cluster) Validate() error {
	switch n := len(c.Nodes); {
	case n == 2 || n == 4:
		return signalbox.CodeUsage.Errorf(fmt.Sprintf("list %d or %d nodes", n-1, n+1),
			"a cluster of %d nodes needs all but %d of them to work, like one of %d", n, n-n/2-1,
			n-1)
	case n != 1 && n != 3 && n != 5:
		return driver.UsageError("a cluster has 1, 3 or 5 nodes, not %d", n)
	case c.Nodes[c.Node] == "":
		return driver.UsageError("the node %q of this machine is not in the list of nodes: %v",
			c.Node, slices.Sorted(maps.Keys(c.Nodes)))
	}
	lines := secrets(c.Secret)
	if len(lines) == 0 {
		lines = [][]byte{nil}
	}
	for _, line := range lines {
		if len(line) < minSecret {
			return signalbox.CodeUsage.Errorf(
				"copy the file from a machine of the cluster; signalbox init makes a new one",
				"the secret of the cluster has %d bytes, and must have at least %d", len(line),
				minSecret)
		}
	}
	used := map[string]string{}
	for _, name := range slices.Sorted(maps.Keys(c.Nodes)) {
		if !names().MatchString(name) {
			return driver.UsageError(
				"%q is not the name of a node: letters, digits and hyphens, at most 63", name)
		}
		host, port, err := splitAddress(c.Nodes[name])
		if err != nil {
			return driver.UsageError("node %s: %w", name, err)
		}
		for _, p := range []int{port, port + 1} {
			address := net.JoinHostPort(host, strconv.Itoa(p))
			if other := used[address]; other != "" {
				return driver.UsageError(
					"the nodes %s and %s both use port %d; each uses its port and the next one",
					other, name, p)
			}
			used[address] = name
		}
	}
	return nil
}

func splitAddress(address string) (host string, port int, err error) {
	host, text, err := net.SplitHostPort(address)
	if err == nil {
		port, err = strconv.Atoi(text)
	}
	if err != nil || host == "" || port < 1 || port > 65534 {
		return "", 0, fmt.Errorf("%q is not an address HOST:PORT with a port up to 65534", address)
	}
	return host, port, nil
}

// hosts returns the hosts of all nodes.
func (c *Cluster) hosts() (hosts []string) {
	for _, name := range slices.Sorted(maps.Keys(c.Nodes)) {
		host, _, _ := splitAddress(c.Nodes[name])
		if !slices.Contains(hosts, host) {
			hosts = append(hosts, host)
		}
	}
	return hosts
}

// urls returns the URLs for clients, that of the node of this machine first.
func (c *Cluster) urls() []string {
	urls := []string{"tls://" + c.Nodes[c.Node]}
	for _, name := range slices.Sorted(maps.Keys(c.Nodes)) {
		if name != c.Node {
			urls = append(urls, "tls://"+c.Nodes[name])
		}
	}
	return urls
}

// node runs the server of this machine while it has the lock, and waits for the lock otherwise.
type node struct {
	cluster Cluster
	tls     *tls.Config
	log     *slog.Logger
	lock    *os.File
	copy    ownCopy
	quit    chan struct{}
	done    chan struct{}    // closed when the server has ended
	clock   func() time.Time // for tests; nil means the clock of this machine

	mu      sync.Mutex
	stopped bool  // guarded by mu
	failed  error // why the server does not run; guarded by mu
}

// newNode returns the node of this machine. If no other process runs it, its server has started.
func newNode(ctx context.Context, c Cluster, box string, config *tls.Config,
	log *slog.Logger) (*node, error) {
	if err := os.MkdirAll(c.Dir, 0o700); err != nil {
		return nil, err
	}
	lock, err := os.OpenFile(filepath.Join(c.Dir, "lock"), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	n := &node{cluster: c, tls: config, log: log, lock: lock,
		copy: ownCopy{cluster: c, stream: box, tls: config, log: log.With("node", c.Node),
			doubts: make(chan struct{}, 1)},
		quit: make(chan struct{}), done: make(chan struct{})}
	locked, err := durable.TryLockFile(lock)
	var s *nodeServer
	// not when the node is taken over: what it has by then may be in use
	if err == nil && locked && c.Replace {
		err = c.putAside(log)
	}
	if err == nil && locked {
		if s, err = n.start(ctx.Done()); errors.Is(err, errDamagedCopy) {
			n.setFailure(err)
			err = durable.UnlockFile(lock)
		}
	}
	if err != nil {
		lock.Close()
		return nil, err
	}
	go n.run(s)
	return n, nil
}

// nodeServer is a server that was started.
type nodeServer struct {
	*server.Server
	log      *serverLog
	gate     *gate
	watching sync.WaitGroup // of its copy
	copy     *ownCopy
}

// stop ends the server, by Shutdown, or by LameDuckShutdown, which hands over what it leads.
func (s *nodeServer) stop(end func()) {
	s.gate.close()
	end()
	s.WaitForShutdown()
	s.watching.Wait()
	s.copy.finish()
}

// run keeps the server, and starts it when the process that ran it has ended, and when it can store
// nothing more.
func (n *node) run(s *nodeServer) {
	defer close(n.done)
	defer n.lock.Close()
	pause, started := lockPoll, time.Now()
	fail := func(err error) {
		if before := n.failure(); before == nil || before.Error() != err.Error() {
			n.log.Warn("cannot run the node of this machine", "node", n.cluster.Node, "error", err)
		}
		n.setFailure(err)
		pause = min(2*pause, maxRestartPause)
	}
	for {
		if s != nil {
			select {
			case <-n.quit:
				s.stop(s.LameDuckShutdown)
				return
			case <-s.log.broken:
			}
			// A server that failed to write once, because its disk was full, refuses to write until
			// it is started again.
			if time.Since(started) > maxRestartPause {
				pause = lockPoll
			}
			err := s.log.failure()
			if errors.Is(err, errPoisoned) { // also after a restart, and the others must see it too
				fail(err)
				<-n.quit
				s.stop(s.Shutdown)
				return
			}
			if !errors.Is(err, errDamagedCopy) && !errors.Is(err, errInvalidEvent) {
				err = n.cannotWrite(err)
			}
			fail(err)
			s.stop(s.Shutdown)
			s = nil
			_ = durable.UnlockFile(n.lock)
		}
		select {
		case <-n.quit:
			return
		case <-time.After(pause):
		}
		locked, err := durable.TryLockFile(n.lock)
		if err != nil || !locked {
			n.copy.forget()
			continue
		}
		if n.failure() != nil {
			err = n.tryWrite()
		}
		if err == nil {
			s, err = n.start(n.quit)
		}
		if err != nil {
			fail(err)
			_ = durable.UnlockFile(n.lock)
			continue
		}
		started = time.Now()
		n.setFailure(nil)
		n.log.Info("took over the node of this machine", "node", n.cluster.Node)
	}
}

// tryWrite returns an error if the disk of the node is full. A server would start, and fail at the
// first write.
func (n *node) tryWrite() error {
	name := filepath.Join(n.cluster.Dir, "writable")
	err := os.WriteFile(name, make([]byte, 1<<20), 0o600)
	if err = errors.Join(err, os.Remove(name)); err != nil {
		return n.cannotWrite(err)
	}
	return nil
}

// errCannotWrite means that the node ended because it failed to write. It starts again by itself.
var errCannotWrite = errors.New("the node of this machine cannot write to its disk")

func (n *node) cannotWrite(err error) error {
	return signalbox.CodeFailed.Errorf("free space on the disk of "+n.cluster.Dir+
		"; the node starts again by itself",
		"%w: %w", errCannotWrite,
		err)
}

// errPoisoned means that the servers have agreed on a message that none of them can store. Each
// finds it in its log again after every restart. See gate.
var errPoisoned = errors.New(
	"a message that the servers cannot store has stopped the ledger")

func (n *node) setFailure(err error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.failed = err
}

// failure returns why the server does not run.
func (n *node) failure() error {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.failed
}

// stop ends the server, and lets another process of this machine run it.
func (n *node) stop() error {
	n.mu.Lock()
	if !n.stopped {
		n.stopped = true
		close(n.quit)
	}
	n.mu.Unlock()
	<-n.done
	return nil
}

// options returns the options of the server. It syncs every write, accepts only connections of
// machines that have the secret, and opens no other ports.
func (n *node) options() (*server.Options, error) {
	host, port, err := splitAddress(n.cluster.Nodes[n.cluster.Node])
	if err != nil {
		return nil, err
	}
	opts := &server.Options{
		ServerName: n.cluster.Node,
		// Clients connect to the gate. A server that does not listen at all has no routes either, so
		// it listens where no client can log in.
		Host: "127.0.0.1", Port: server.RANDOM_PORT, TLSConfig: n.tls.Clone(), TLS: true,
		TLSVerify: true, TLSTimeout: tlsSeconds,
		JetStream: true, StoreDir: n.cluster.Dir, SyncAlways: true,
		NoSigs: true, NoLog: true,
		LameDuckDuration: time.Second, LameDuckGracePeriod: time.Millisecond,
	}
	opts.TLSConfig.ClientCAs = x509.NewCertPool()
	if len(n.cluster.Nodes) == 1 {
		return opts, nil
	}
	opts.Cluster = server.ClusterOpts{Name: "signalbox", Host: host, Port: port + 1, TLSConfig: n.tls.Clone(), TLSTimeout: tlsSeconds, NoAdvertise: true}
	for name, address := range n.cluster.Nodes {
		if name == n.cluster.Node {
			continue
		}
		host, port, err := splitAddress(address)
		if err != nil {
			return nil, err
		}
		opts.Routes = append(opts.Routes,
			&url.URL{Scheme: "nats-route", Host: net.JoinHostPort(host, strconv.Itoa(port+1))})
	}
	return opts, nil
}

// start starts the server. It gives up when stop is closed.
func (n *node) start(stop <-chan struct{}) (*nodeServer, error) {
	opts, err := n.options()
	if err == nil {
		err = n.cluster.checkKind()
	}
	if err == nil {
		err = n.copy.prepare(stop)
	}
	if err != nil {
		return nil, err
	}
	// The server only logs that it cannot listen, so that is tried first.
	if routes := opts.Cluster; routes.Port != 0 {
		listener, err := listen(net.JoinHostPort(routes.Host, strconv.Itoa(routes.Port)))
		if err != nil {
			return nil, err
		}
		listener.Close()
	}
	log := newServerLog(n.log.With("node", n.cluster.Node))
	gate, err := openGate(n.cluster.Nodes[n.cluster.Node], n.tls, log)
	if err != nil {
		return nil, err
	}
	s, err := server.NewServer(opts)
	if err != nil {
		gate.close()
		return nil, err
	}
	s.SetLoggerV2(log, false, false, false)
	s.Start()
	started := &nodeServer{Server: s, log: log, gate: gate, copy: &n.copy}
	err = n.waitUntilReady(s, log, stop)
	if err == nil {
		err = n.respond(s)
	}
	if err != nil {
		started.stop(s.Shutdown)
		return nil, err
	}
	go gate.run(s.InProcessConn)
	started.watching.Go(func() {
		n.copy.watch(gate.ctx.Done(), func() (uint64, string) { return n.stored(s) },
			func(err error) { log.fail("%w", err) })
	})
	return started, nil
}

// waitUntilReady waits until the server listens. A server that cannot start only logs why.
func (n *node) waitUntilReady(s *server.Server, log *serverLog, stop <-chan struct{}) error {
	for end := time.Now().Add(startTimeout); ; {
		ready := s.ReadyForConnections(lockPoll)
		err := log.failure()
		if errors.Is(err, errPoisoned) {
			err = nil // run deals with it
		}
		switch {
		case err == nil && ready:
			return nil
		case err == nil && time.Now().After(end):
			err = fmt.Errorf("it is not ready after %v", startTimeout)
		}
		if err != nil {
			return signalbox.CodeFailed.Errorf(n.cluster.hintFiles(),
				"the node of this machine does not start: %w", err)
		}
		select {
		case <-stop:
			return errors.New("the node of this machine was stopped while it started")
		default:
		}
	}
}

// tlsSeconds bounds a handshake. Slow machines need some seconds.
const tlsSeconds = 10

func listen(address string) (net.Listener, error) {
	listener, err := net.Listen("tcp", address)
	if err != nil {
		return nil, signalbox.CodeFailed.Errorf(
			"check the address of this machine in cluster.nodes, and that no other program uses the port",
			"the node of this machine cannot listen: %w", err)
	}
	return listener, nil
}

// serverLog passes on what a server logs. It does not repeat a complaint within a minute, since a
// server that cannot reach another one says so every second.
type serverLog struct {
	log    *slog.Logger
	broken chan struct{} // closed when the server says that it can do nothing more

	mu     sync.Mutex
	said   map[string]time.Time // when each format was last logged; guarded by mu
	failed error                // what the server said then; guarded by mu
}

const quietFor = time.Minute

func newServerLog(log *slog.Logger) *serverLog {
	return &serverLog{log: log, broken: make(chan struct{}), said: map[string]time.Time{}}
}

// fail notes that the server can do nothing more.
func (l *serverLog) fail(format string, v ...any) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.failed == nil {
		l.failed = fmt.Errorf(format, v...)
		close(l.broken)
	}
}

// failure returns why the server can do nothing more.
func (l *serverLog) failure() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.failed
}

func (l *serverLog) complain(level slog.Level, format string, v ...any) {
	l.mu.Lock()
	if now := time.Now(); now.Sub(l.said[format]) < quietFor {
		level = slog.LevelDebug
	} else {
		l.said[format] = now
	}
	l.mu.Unlock()
	l.log.Log(context.Background(), level, fmt.Sprintf(format, v...))
}

func (l *serverLog) Noticef(format string, v ...any) { l.log.Debug(fmt.Sprintf(format, v...)) }
func (l *serverLog) Debugf(format string, v ...any)  { l.log.Debug(fmt.Sprintf(format, v...)) }
func (l *serverLog) Tracef(format string, v ...any)  { l.log.Debug(fmt.Sprintf(format, v...)) }
func (l *serverLog) Warnf(format string, v ...any)   { l.complain(slog.LevelInfo, format, v...) }
func (l *serverLog) Errorf(format string, v ...any) {
	level := slog.LevelWarn
	// usual while other machines are being started
	if strings.HasPrefix(format, "Error trying to connect to route") {
		level = slog.LevelInfo
	}
	for _, text := range []string{"Critical write error", "critical write error",
		"will be DISABLED", "disabling JetStream"} {
		if !strings.Contains(format, text) {
			continue
		}
		if said := fmt.Sprintf(format, v...); strings.Contains(said, "last msgid mismatch") {
			l.fail("%w", signalbox.CodeFailed.Errorf(
				"no event is lost if you keep the folder of the node: docs/explanation/scaling.md, A message has stopped the ledger",
				"%w: %s", errPoisoned, said))
		}
		l.fail(format, v...)
	}
	l.complain(level, format, v...)
}

// Fatalf is called when the server cannot start. The caller of start returns that.
func (l *serverLog) Fatalf(format string, v ...any) { l.fail(format, v...) }
