package fault

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"signalbox/internal/config"
	"signalbox/internal/core/box"
	"signalbox/internal/core/journal/nats"
	"signalbox/internal/testkit/loopback"
	"signalbox/internal/testkit/pgserver"
)

// backend is a kind of database that can hold the ledger of a box.
type backend struct {
	name string
	// configure prepares a site without a box, so that signalbox init puts the ledger into a new
	// place of this database.
	configure func(t testing.TB, s *site)
	// start is called after signalbox init; nil does nothing.
	start func(t testing.TB, s *site)
}

// backends are all kinds of databases. The first is the default.
var backends = []backend{
	{config.JournalSQLite, func(testing.TB, *site) {}, nil},
	{"postgres", configurePostgres, nil},
	{"nats", configureNode, nil},
	{"cluster", configureCluster, func(t testing.TB, s *site) { s.host(t) }},
}

// onEachBackend runs a test with each kind of database. The short form leaves out the cluster,
// which takes long to start; other tests use it.
func onEachBackend(t *testing.T, test func(t *testing.T, b backend)) {
	t.Helper()
	for _, b := range backends {
		if b.name == "cluster" && !isFull() {
			continue
		}
		t.Run(b.name, func(t *testing.T) { test(t, b) })
	}
}

// times returns a number of repetitions. The short form repeats less often on a database that is
// not the default.
func (b backend) times(short, full int) int {
	if b.name != backends[0].name {
		short = max(1, short/4)
	}
	return sized(short, full)
}

// newSite returns a site with a new box.
func (b backend) newSite(t testing.TB) *site {
	t.Helper()
	s := emptySite(t)
	b.configure(t, s)
	s.init(t)
	if b.start != nil {
		b.start(t, s)
	}
	return s
}

// configureWith writes the configuration of a site that has no box yet.
func (s *site) configureWith(t testing.TB, settings string) {
	t.Helper()
	s.settings = settings
	check(t, os.MkdirAll(s.box, 0o700))
	check(t, os.WriteFile(filepath.Join(s.box, config.FileName), []byte(settings), 0o600))
	s.trustPlace(t)
}

// trustPlace lets the commands of a site connect to the database that its configuration names.
func (s *site) trustPlace(t testing.TB) {
	t.Helper()
	s.must(t, "trust", "--yes")
}

// postgresServer is the PostgreSQL server of all tests.
var postgresServer pgserver.Shared

func configurePostgres(t testing.TB, s *site) {
	t.Helper()
	s.configureWith(t, fmt.Sprintf("journal: %q\n", withSchema(postgresServer.Need(t).Address)))
}

// configureNode prepares a cluster of one node, which any process of the machine runs.
func configureNode(t testing.TB, s *site) {
	t.Helper()
	newClusterNodes(loopback.Address(t)).configure(t, 0, s)
}

// configureCluster prepares a cluster of three nodes; the other two run already.
func configureCluster(t testing.TB, s *site) {
	t.Helper()
	startOthers(t, s)
}

// startOthers makes a site a machine of a cluster of three, and returns the other machines with the
// processes that run their nodes.
func startOthers(t testing.TB, s *site) (others []*site, hosts []*exec.Cmd) {
	t.Helper()
	nodes := newClusterNodes(loopback.Address(t), loopback.Address(t), loopback.Address(t))
	nodes.configure(t, 0, s)
	for i := range 2 {
		other := emptySite(t)
		nodes.configure(t, i+1, other)
		others, hosts = append(others, other), append(hosts, other.host(t))
	}
	return others, hosts
}

// clusterNodes are the nodes of a cluster that the machines of a box run themselves.
type clusterNodes struct {
	names    []string
	settings string // that all have
	secret   []byte
}

// newClusterNodes returns nodes at addresses.
func newClusterNodes(addresses ...string) *clusterNodes {
	c := &clusterNodes{secret: nats.NewSecret()}
	var nodes []string
	for i, address := range addresses {
		c.names = append(c.names, string(rune('a'+i)))
		nodes = append(nodes, fmt.Sprintf("%s: %q", c.names[i], address))
	}
	c.settings = "nodes: {" + strings.Join(nodes, ", ") + "}"
	return c
}

// configure makes a site the machine of a node.
func (c *clusterNodes) configure(t testing.TB, number int, s *site) {
	t.Helper()
	s.configureWith(t, fmt.Sprintf("cluster: {node: %s, %s}\n", c.names[number], c.settings))
	check(t, os.WriteFile(s.file(config.DefaultSecretFile), c.secret, 0o600))
	s.trustPlace(t) // the secret belongs to it
}

// host starts a process that runs the node of a machine until the test ends. It may wait for other
// nodes. It serves at an address of its own, so that nothing else takes its port while it serves
// nothing.
func (s *site) host(t testing.TB) *exec.Cmd {
	t.Helper()
	own, _, err := net.SplitHostPort(loopback.Address(t))
	check(t, err)
	log, err := os.CreateTemp(filepath.Dir(s.home), "host-*.log")
	check(t, err)
	defer log.Close()
	cmd := s.command(t, "serve", "--listen", net.JoinHostPort(own, "0"))
	cmd.Stdout, cmd.Stderr = log, log
	check(t, cmd.Start())
	t.Cleanup(func() {
		cmd.Process.Kill()
		cmd.Wait()
		if text, err := os.ReadFile(log.Name()); err == nil && t.Failed() {
			t.Logf("%v: %v\n%s", cmd.Args, cmd.ProcessState, text[max(0, len(text)-3000):])
		}
	})
	return cmd
}

// withSchema returns the address of a new ledger in a database.
func withSchema(address string) string {
	separator := "?"
	if strings.Contains(address, "?") {
		separator = "&"
	}
	// other test processes use the same database
	return address + separator + "schema=" + strings.ReplaceAll(box.NewID("box"), "-", "_")
}
