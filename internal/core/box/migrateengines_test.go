package box

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"signalbox"
	"signalbox/internal/config"
	"signalbox/internal/core/journal"
	"signalbox/internal/core/journal/nats"
	"signalbox/internal/testkit/loopback"
	"signalbox/internal/testkit/must"
	"signalbox/internal/testkit/natsserver"
)

// newSchema returns an address in a PostgreSQL server for tests that no other test uses.
func newSchema(t *testing.T) string {
	t.Helper()
	return database.Need(t).Address + "&schema=" + strings.ReplaceAll(NewID("box"), "-", "_")
}

// The ledger moves through real databases, and is the same in each: the events are those that it
// had before, byte for byte, and the blobs are there.
func TestMigrateEngines(t *testing.T) {
	inPostgres, inNATS := newSchema(t), natsserver.Start(t, nil)+"/shop"
	testMigrateThrough(t, newMover(t), inNATS, inPostgres, config.JournalSQLite, inPostgres, inNATS,
		config.JournalSQLite)
}

// The same into a cluster of one node, whose settings are in the configuration before and after.
func TestMigrateCluster(t *testing.T) {
	m := newMover(t)
	if _, err := m.migrate(t.Context(), config.JournalCluster); err == nil ||
		!strings.Contains(err.Error(), "the setting cluster is missing") {
		t.Errorf("without a cluster: error %v", err)
	}
	settings := "journal: sqlite\ncluster: {node: a, nodes: {a: '" + loopback.Address(t) +
		"'}}\nlease: {ttl: 1h}\n"
	m.put(t, config.FileName, settings)
	secret := filepath.Join(m.dir, config.DefaultSecretFile)
	done, err := m.migrate(t.Context(), config.JournalCluster,
		func(o *MigrateOptions) { o.DryRun = true })
	if err != nil || done.Outcome != WouldMove {
		t.Errorf("dry run: %+v, error %v", done, err)
	}
	if _, err := os.Stat(secret); err == nil {
		t.Error("the dry run made a secret")
	}
	testMigrateThrough(t, m, config.JournalCluster, newSchema(t), config.JournalCluster,
		config.JournalSQLite)
	if diff := cmp.Diff(strings.Replace(settings, "sqlite", `"sqlite"`, 1),
		m.read(t, config.FileName)); diff != "" {
		t.Errorf("the configuration (-want +got):\n%s", diff)
	}
}

// Into a cluster of three machines: the other two have only the setting and the secret, and their
// workers wait until the ledger is there.
func TestMigrateClusterOfThree(t *testing.T) {
	m := newMover(t)
	addresses := []string{loopback.Address(t), loopback.Address(t), loopback.Address(t)}
	settings := func(node string) string {
		return fmt.Sprintf("cluster: {node: %s, nodes: {a: '%s', b: '%s', c: '%s'}}\n", node,
			addresses[0], addresses[1], addresses[2])
	}
	m.put(t, config.FileName, "journal: sqlite\n"+settings("a"))
	secret := string(nats.NewSecret())
	m.put(t, config.DefaultSecretFile, secret)
	type opened struct {
		*Box
		err error
	}
	boxes := make(chan opened)
	for _, node := range []string{"b", "c"} {
		k := &kit{dir: filepath.Join(t.TempDir(), FolderName)}
		must.Succeed(t, makeFolder(k.dir, config.Template))
		k.put(t, config.FileName, settings(node))
		k.put(t, config.DefaultSecretFile, secret)
		go func() {
			b, err := Open(t.Context(), k.dir,
				&Options{Host: true, KeyFile: filepath.Join(k.dir, "none.key")})
			boxes <- opened{b, err}
		}()
	}
	// after every write, also when only the streams are there, the others wait
	m.hook = func(call string) error {
		select {
		case early := <-boxes:
			if strings.HasSuffix(call, "delete") { // the note that the copy is incomplete
				go func() { boxes <- early }()
				return nil
			}
			return fmt.Errorf("%s: another machine did not wait: %v", call, early.err)
		default:
			return nil
		}
	}
	m.must(t, config.JournalCluster, Moved)
	m.hook = nil
	for i := range 2 {
		b := <-boxes
		if b.err != nil {
			t.Fatal(b.err)
		}
		defer b.Close()
		if b.ID() != m.made.ID || b.Engine.Tail().Seq < m.events+2 {
			t.Errorf("another machine has box %s with %d events, want %s with %d", b.ID(),
				b.Engine.Tail().Seq, m.made.ID, m.events+2)
		}
		write(t, b.Box, "w-other-"+strconv.Itoa(i))
	}
	m.checkMovedTo(t, config.JournalCluster, config.JournalSQLite)
}

// A single node has the ledger, and the setting names three and the file in which the ledger was
// before. Nothing is moved aside.
func TestMigrateKeepsLedgerOfSingleNode(t *testing.T) {
	m := newMover(t)
	addresses := []string{loopback.Address(t), loopback.Address(t), loopback.Address(t)}
	one := fmt.Sprintf("cluster: {node: a, nodes: {a: '%s'}}\n", addresses[0])
	m.put(t, config.FileName, "journal: sqlite\n"+one)
	m.must(t, config.JournalCluster, Moved)
	m.writeAndSign(t, "w-there")
	before := m.export(t, config.JournalCluster)

	m.put(t, config.FileName,
		fmt.Sprintf("journal: sqlite\ncluster: {node: a, nodes: {a: '%s', b: '%s', c: '%s'}}\n",
			addresses[0], addresses[1], addresses[2]))
	_, err := m.migrate(t.Context(), config.JournalCluster)
	if !errors.Is(err, nats.ErrOtherKind) || !strings.Contains(signalbox.HintOf(err),
		"list the nodes as before") {
		t.Errorf("error %v, hint %q", err, signalbox.HintOf(err))
	}
	if aside, _ := filepath.Glob(filepath.Join(m.dir, clusterName, "jetstream-until-*")); len(
		aside) > 0 {
		t.Errorf("a ledger in use was put aside: %v", aside)
	}
	m.put(t, config.FileName, one)
	if diff := cmp.Diff(before, m.export(t, config.JournalCluster)); diff != "" {
		t.Errorf("the ledger (-before +after):\n%s", diff)
	}
}

// A machine that remembers events does not wait for an empty ledger: they are lost.
func TestEmptyClusterIsNotAwaited(t *testing.T) {
	k := newKit(t)
	k.put(t, config.FileName,
		"cluster: {node: a, nodes: {a: '127.0.0.1:1', b: '127.0.0.1:3', c: '127.0.0.1:5'}}\n")
	opts := &Options{KeyFile: k.opts.KeyFile, Host: true, emptyPatience: time.Millisecond}
	opts.open = func(ctx context.Context, _, _ string, _ access,
		opts *Options) (journal.Journal, error) {
		return openJournal(ctx, t.TempDir(), config.JournalSQLite, create, opts)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	_, err := Open(ctx, k.dir, opts)
	checkCode(t, err, signalbox.CodeUnverified)
}

// A machine that remembers events waits while another one, which has just created the ledger, marks
// it as incomplete: that may take an election.
func TestLedgerIsAwaitedInEmptyCluster(t *testing.T) {
	k := newKit(t)
	k.put(t, config.FileName,
		"cluster: {node: a, nodes: {a: '127.0.0.1:1', b: '127.0.0.1:3', c: '127.0.0.1:5'}}\n")
	opts := &Options{KeyFile: k.opts.KeyFile, Host: true}
	opts.through(func(j journal.Journal) journal.Journal { return &late{j, 3} })
	b, err := Open(t.Context(), k.dir, opts)
	must.Succeed(t, err)
	b.Close()
}

// late is a journal that seems to be empty at first.
type late struct {
	journal.Journal
	empty int // how often
}

func (l *late) Head(ctx context.Context) (uint64, error) {
	if l.empty--; l.empty >= 0 {
		return 0, nil
	}
	return l.Journal.Head(ctx)
}

func (l *late) Read(ctx context.Context, after uint64, limit int) ([]signalbox.Event, error) {
	if l.empty >= 0 {
		return nil, nil
	}
	return l.Journal.Read(ctx, after, limit)
}

// testMigrateThrough moves the ledger to each of the addresses in turn.
func testMigrateThrough(t *testing.T, m *mover, addresses ...string) {
	t.Helper()
	from := config.JournalSQLite
	before := m.export(t, from)
	for i, to := range addresses {
		m.must(t, to, Moved)
		m.checkMovedTo(t, to, from)
		after := m.export(t, to)
		if diff := cmp.Diff(before, after[:min(len(before), len(after))]); diff != "" {
			t.Errorf("moved from %s to %s (-before +after):\n%s", from, to, diff)
		}
		m.writeAndSign(t, "w-moved-"+strconv.Itoa(i))
		before, from = m.export(t, to), to
	}
}
