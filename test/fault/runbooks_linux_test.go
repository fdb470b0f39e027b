package fault

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"signalbox/internal/config"
	"signalbox/internal/core/box"
	"signalbox/internal/testkit/loopback"
	"signalbox/internal/testkit/pgserver"
)

// TestClusterRunbooks carries out what docs/how-to/machines.md and docs/explanation/scaling.md say
// about clusters, in one history: a box with one node grows to three, gets another secret, loses its
// quorum, and loses a machine, which another one with another address replaces. Then all of them
// carry out a plan.
func TestClusterRunbooks(t *testing.T) {
	if !isFull() {
		t.Skip("it takes long: make fault runs it")
	}
	t.Parallel()
	addresses := []string{loopback.Address(t), loopback.Address(t), loopback.Address(t)}
	f := newFixture(t, scenario{plan: planOf("T1", "T2: T1"), script: goodAgents,
		settings: partsCheck, on: backend{configure: func(t testing.TB, s *site) {
			newClusterNodes(addresses[0]).configure(t, 0, s)
		}}})
	a := f.site
	a.must(t, "work", "open", "w-one")
	agents := scriptedAgents(f.diary, f.script) + partsCheck

	// Only more nodes are refused: the server would delete the ledger.
	single := a.settings
	nodes := newClusterNodes(addresses...)
	nodes.configureMore(t, 0, a, agents)
	check(t, os.WriteFile(a.file(config.DefaultSecretFile), nodes.secret, 0o600))
	a.trustPlace(t)
	if r := a.run(t, "work", "list"); r.status != 1 ||
		!strings.Contains(r.stderr,
			"has data of a cluster of one node, and cluster.nodes lists 3") ||
		!strings.Contains(r.stderr, "Grow a cluster") {
		t.Errorf("work list with more nodes: exit status %d\n%s", r.status, r.stderr)
	}
	a.configureWith(t, single+agents)

	// Grow a cluster, from one machine to three.
	a.must(t, "ledger", "migrate", "--to", config.JournalSQLite)
	nodes.configureMore(t, 0, a, "journal: sqlite\n"+agents)
	others, hosts := make([]*site, 2), make([]*exec.Cmd, 2)
	for i := range others {
		others[i] = emptySite(t)
		nodes.configure(t, i+1, others[i])
		hosts[i] = others[i].host(t)
	}
	b, c := others[0], others[1]
	a.must(t, "ledger", "migrate", "--to", config.JournalCluster)
	host := a.host(t)
	for _, s := range []*site{a, b, c} {
		if list := s.must(t, "work", "list"); !strings.Contains(list, "w-one") {
			t.Errorf("the work is:\n%s", list)
		}
	}
	awaitDoctor(t, c, "all replicas are current")

	// Change the secret, on one machine after the other.
	before, after := string(nodes.secret), string(newClusterNodes(addresses...).secret)
	running := []*exec.Cmd{host, hosts[0], hosts[1]}
	for _, secret := range []string{before + "\n" + after, after + "\n" + before, after} {
		for i, s := range []*site{a, b, c} {
			endHost(running[i])
			check(t, os.WriteFile(s.file(config.DefaultSecretFile), []byte(secret), 0o600))
			s.trustPlace(t)
			running[i] = s.host(t)
			awaitDoctor(t, []*site{b, c, a}[i], "all replicas are current")
		}
	}
	host, hosts[0], hosts[1], nodes.secret = running[0], running[1], running[2], []byte(after)

	// Lost quorum: start enough nodes, and everything continues.
	endHost(hosts[0])
	endHost(host)
	if r := c.run(t, "work", "open", "w-no"); r.status != 1 ||
		!strings.Contains(r.stderr,
			"hint: check that signalbox run, worker or serve runs on more than half of the machines of the cluster") {
		t.Errorf("work open without a quorum: exit status %d\n%s", r.status, r.stderr)
	}
	host = a.host(t)
	c.must(t, "work", "open", "w-quorum")

	// Replacing a node, with another address.
	awaitDoctor(t, c, "the others are current; b is away")
	check(t, os.RemoveAll(b.project))
	addresses[1] = loopback.Address(t)
	secret := nodes.secret
	nodes = newClusterNodes(addresses...)
	nodes.secret = secret
	endHost(host)
	nodes.configureMore(t, 0, a, agents)
	a.host(t)
	awaitDoctor(t, c, "the others are current; b is away")
	endHost(hosts[1])
	nodes.configureMore(t, 2, c, "")
	hosts[1] = c.host(t)
	awaitDoctor(t, a, "the others are current; b is away")
	token := filepath.Join(t.TempDir(), "token")
	c.must(t, "invite", "--node", "b") // it was set up by hand, and has the key of the box
	check(t, os.WriteFile(token, []byte(a.must(t, "invite", "--node", "b")), 0o600))
	replaced := f.member(t, emptySite(t))
	check(t, os.Remove(replaced.project))
	check(t, os.MkdirAll(replaced.home, 0o755))
	outside := *replaced.site
	outside.project = replaced.home // the project is not in it
	if out := outside.must(t, "join", "--token-file", token,
		replaced.project); !strings.Contains(out, "cloned the repository") {
		t.Errorf("join: %s", out)
	}
	settings, err := os.ReadFile(replaced.file(config.FileName))
	check(t, err)
	replaced.write(t, replaced.file(config.FileName), string(settings)+"\n"+agents)
	worker := replaced.start(t, "worker", "--plain")
	awaitDoctor(t, c, "all replicas are current")
	if v := replaced.must(t, "ledger", "verify"); !strings.Contains(v, "signed by") {
		t.Errorf("ledger verify: %s", v)
	}

	// A plan, with one node away again.
	endHost(hosts[1])
	run := f.startRun(t)
	run.end(0)
	const leaves = "the node of this machine leaves the cluster when this run ends"
	if !strings.Contains(run.output(), leaves) {
		t.Errorf("run:\n%s", run.output())
	}
	check(t, worker.cmd.Process.Signal(syscall.SIGINT))
	worker.end(0)
	c.host(t)
	f.checkDone(t, "T1", "T2")
}

// configureMore is configure with more settings, on a machine that has the secret.
func (c *clusterNodes) configureMore(t testing.TB, number int, s *site, more string) {
	t.Helper()
	c.configure(t, number, s)
	s.configureWith(t, s.settings+more)
}

// endHost kills a process that runs a node.
func endHost(host *exec.Cmd) {
	host.Process.Kill()
	host.Wait()
}

// awaitDoctor waits until signalbox doctor says something.
func awaitDoctor(t testing.TB, s *site, text string) {
	t.Helper()
	for end := time.Now().Add(patience); ; time.Sleep(100 * time.Millisecond) {
		r := s.run(t, "doctor")
		if strings.Contains(r.stdout, text) {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("signalbox doctor does not say %q:\n%s%s", text, r.stdout, r.stderr)
		}
	}
}

// TestPostgresRunbooks carries out what docs/explanation/scaling.md says about a lost primary, and
// about restoring an older backup of the database: two machines notice that events are missing, and
// continue after both have accepted the loss.
func TestPostgresRunbooks(t *testing.T) {
	t.Parallel()
	pgserver.Need(t)
	primary, err := pgserver.Start()
	check(t, err)
	t.Cleanup(func() { primary.Stop() })
	standby, err := primary.Standby()
	check(t, err)
	t.Cleanup(func() { standby.Stop() })
	journal := fmt.Sprintf("journal: %q\n",
		withSchema(fmt.Sprintf("postgres://signalbox@/postgres?host=%s,%s&port=%d,%d", primary.Dir,
			standby.Dir, primary.Port, standby.Port)))
	a, b := emptySite(t), emptySite(t)
	a.configureWith(t, journal)
	a.init(t)
	b.configureWith(t, journal)
	a.must(t, "work", "open", "w1")
	b.must(t, "work", "open", "w2")

	// A lost primary: promote the replica.
	check(t, primary.Kill())
	if r := a.run(t, "work", "open", "w-no"); r.status != 1 ||
		!strings.Contains(r.stderr, "hint: ") {
		t.Errorf("work open without a primary: exit status %d\n%s", r.status, r.stderr)
	}
	check(t, standby.Promote())
	a.must(t, "ledger", "verify")
	b.must(t, "work", "open", "w3")

	// A new replica, which then becomes a backup: it is older than what the machines have applied.
	backup, err := standby.Standby()
	check(t, err)
	t.Cleanup(func() { backup.Stop() })
	check(t, backup.Kill())
	check(t, standby.Configure("synchronous_standby_names = ''"))
	check(t, standby.Reload())
	a.must(t, "work", "open", "w-lost")
	b.must(t, "work", "list")
	b.must(t, "work", "claim", "w-lost", "--role", "developer", "--session", "s1")
	check(t, standby.Kill())
	check(t, backup.Restart())
	check(t, backup.Promote())
	for _, s := range []*site{a, b} {
		settings, err := os.ReadFile(s.file(config.FileName))
		check(t, err)
		s.configureWith(t, strings.NewReplacer(standby.Dir, backup.Dir,
			fmt.Sprintf("%%2C%d", standby.Port), fmt.Sprintf("%%2C%d", backup.Port),
			fmt.Sprintf(",%d", standby.Port),
			fmt.Sprintf(",%d", backup.Port)).Replace(string(settings)))
		for _, command := range [][]string{{"work", "open", "w-no"}, {"ledger", "verify"}} {
			if r := s.run(t, command...); r.status != 5 || !strings.Contains(r.stderr, "w-lost") ||
				!strings.Contains(r.stderr, "accept-loss") {
				t.Errorf("%v after restoring an older backup: exit status %d\n%s%s", command,
					r.status, r.stdout, r.stderr)
			}
		}
	}
	a.must(t, "ledger", "accept-loss", "--yes")
	a.must(t, "work", "open", "w4")
	if r := b.run(t, "work", "open", "w-no"); r.status != 5 {
		t.Errorf("work open on a machine that has not accepted the loss: exit status %d\n%s",
			r.status, r.stderr)
	}
	b.must(t, "ledger", "accept-loss", "--yes")
	b.must(t, "work", "open", "w5")
	for _, s := range []*site{a, b} {
		s.must(t, "ledger", "verify")
		if list := s.must(t, "work", "list"); !strings.Contains(list, "w3") ||
			!strings.Contains(list, "w4") || !strings.Contains(list, "w5") ||
			strings.Contains(list, "w-lost") {
			t.Errorf("the work is:\n%s", list)
		}
	}
}

// TestRestoreRunbook carries out what docs/explanation/scaling.md says about restoring a backup of
// a box whose database is lost, and which two machines use.
func TestRestoreRunbook(t *testing.T) {
	t.Parallel()
	address := withSchema(postgresServer.Need(t).Address)
	journal := fmt.Sprintf("journal: %q\n", address)
	a, b := emptySite(t), emptySite(t)
	a.configureWith(t, journal)
	a.init(t)
	b.configureWith(t, journal)
	a.must(t, "work", "open", "w1")
	tar := filepath.Join(t.TempDir(), "shop.tar")
	a.must(t, "backup", tar)
	a.must(t, "work", "open", "w-lost")
	b.must(t, "work", "open", "w-lost-too")

	key := filepath.Join(t.TempDir(), "key.pub")
	check(t, os.WriteFile(key, []byte(a.publicKey+"\n"), 0o644))
	restored := filepath.Join(a.home, "shop-restored")
	if r := a.run(t, "restore", tar, restored, "--key", key); r.status != 5 ||
		!strings.Contains(r.stderr, "--forget") {
		t.Errorf("restore of a backup that lacks an event: exit status %d\n%s", r.status, r.stderr)
	}
	a.must(t, "restore", tar, restored, "--key", key, "--forget")
	a.must(t, "ledger", "verify", "--box", restored)
	address += "_2"
	a.must(t, "ledger", "migrate", "--box", restored, "--to", address)
	check(t, os.Rename(a.box, a.box+"-lost"))
	check(t, os.Rename(filepath.Join(restored, box.FolderName), a.box))
	a.trustPlace(t)
	a.must(t, "work", "open", "w2")
	a.must(t, "ledger", "verify")

	b.configureWith(t, fmt.Sprintf("journal: %q\n", address))
	if r := b.run(t, "work", "open", "w-no"); r.status != 5 ||
		!strings.Contains(r.stderr, "accept-loss") {
		t.Errorf("work open on a machine that had more: exit status %d\n%s", r.status, r.stderr)
	}
	b.must(t, "ledger", "accept-loss", "--yes")
	b.must(t, "work", "open", "w3")
	for _, s := range []*site{a, b} {
		s.must(t, "ledger", "verify")
		if list := s.must(t, "work", "list"); !strings.Contains(list, "w1") ||
			!strings.Contains(list, "w2") || !strings.Contains(list, "w3") ||
			strings.Contains(list, "w-lost") {
			t.Errorf("the work is:\n%s", list)
		}
	}
}
