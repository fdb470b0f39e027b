package box

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"signalbox"
	"signalbox/internal/config"
	"signalbox/internal/core/journal"
	"signalbox/internal/testkit/loopback"
	"signalbox/internal/testkit/must"
	"signalbox/internal/testkit/natsserver"
	"signalbox/internal/testkit/pgserver"
)

var database pgserver.Shared

// A box on PostgreSQL does everything that one in a file does, and a second machine needs only the
// configuration.
func TestBoxOnPostgres(t *testing.T) {
	testSharedBox(t, newSchema(t))
}

// The same on NATS.
func TestBoxOnNATS(t *testing.T) { testSharedBox(t, natsserver.Start(t, nil)+"/shop") }

func testSharedBox(t *testing.T, address string) {
	dir := t.TempDir()
	opts := &Options{KeyFile: filepath.Join(dir, "box.key"), Journal: address}
	first := &kit{dir: filepath.Join(dir, "one", FolderName), opts: opts}
	made, err := Init(t.Context(), first.dir, "ann", opts)
	must.Succeed(t, err)
	if _, err := os.Stat(filepath.Join(first.dir, "ledger.db")); err == nil {
		t.Error("there is a ledger in the folder too")
	}
	b := first.open(t)
	write(t, b, "w1", "w2")
	if _, err := b.Sign(t.Context()); err != nil {
		t.Fatal(err)
	}

	second := filepath.Join(dir, "two", FolderName)
	must.Succeed(t, makeFolder(second, config.Template))
	must.Succeed(t, setJournal(second, address))
	other, err := Open(t.Context(), second, &Options{KeyFile: filepath.Join(dir, "none.key")})
	must.Succeed(t, err)
	defer other.Close()
	if other.ID() != made.ID || other.Engine.Tail().Seq != 3 {
		t.Errorf("the second machine has box %s with %d events, want %s with 3", other.ID(),
			other.Engine.Tail().Seq, made.ID)
	}
	write(t, other, "w3")
	if err := b.Engine.Refresh(t.Context()); err != nil || b.Engine.Tail().Seq != 4 {
		t.Errorf("the first machine has %d events, error %v; want 4", b.Engine.Tail().Seq, err)
	}

	testOwnSnapshots(t, b, other)

	if _, err := Init(t.Context(), filepath.Join(dir, "three", FolderName), "ann",
		opts); err == nil || !strings.Contains(err.Error(), "already has a box") {
		t.Errorf("a second box in the same schema: error %v", err)
	}
	if _, err := os.Stat(filepath.Join(dir, "three")); err == nil {
		t.Error("it left a folder")
	}
}

// Commands trust the snapshot, so a machine uses only its own: the database has none that another
// machine could replace.
func testOwnSnapshots(t *testing.T, one, two *Box) {
	t.Helper()
	if _, ok := two.database().(journal.Journal); ok {
		t.Error("the database has a snapshot")
	}
	tail := two.Engine.Tail()
	snapshot := journal.Snapshot{Seq: tail.Seq, Hash: tail.Hash, State: []byte("forged")}
	must.Succeed(t, two.Journal.SaveSnapshot(t.Context(), snapshot))
	if s, err := one.Journal.LoadSnapshot(t.Context()); err == nil && string(s.State) == "forged" {
		t.Error("a machine uses the snapshot of another one")
	}
	if s, err := two.Journal.LoadSnapshot(t.Context()); err != nil || string(s.State) != "forged" {
		t.Errorf("a machine does not use its own snapshot: %q, %v", s.State, err)
	}
	if err := os.Remove(two.file(snapshotName)); err != nil {
		t.Error(err)
	}
	if s, err := two.Journal.LoadSnapshot(t.Context()); !errors.Is(err, journal.ErrNoSnapshot) {
		t.Errorf("without its file a machine has the snapshot %q, %v", s.State, err)
	}
}

// A box whose journal is gone does not silently begin a new one.
func TestJournalIsGone(t *testing.T) {
	server := database.Need(t)
	k := newKit(t)
	must.Succeed(t, setJournal(k.dir, server.Address+"&schema=nothing_here"))
	if _, err := Open(t.Context(), k.dir,
		k.opts); signalbox.CodeOf(err) != signalbox.CodeUnverified ||
		!strings.Contains(err.Error(), "nothing_here") {
		t.Errorf("error %v, want one that names the journal", err)
	}
	must.Succeed(t, setJournal(k.dir, config.JournalSQLite))
	k.open(t)
}

// Init makes the secret of a cluster. In a cluster of one node the process that has the box open
// runs the node, and others share it.
func TestBoxInCluster(t *testing.T) {
	dir := filepath.Join(t.TempDir(), FolderName)
	must.Succeed(t, makeFolder(dir, config.Template))
	settings := "cluster: {node: a, nodes: {a: '" + loopback.Address(t) + "'}}\n"
	must.Succeed(t, os.WriteFile(filepath.Join(dir, config.FileName), []byte(settings),
		0o600))
	opts := &Options{KeyFile: filepath.Join(t.TempDir(), "box.key")}
	secret := filepath.Join(dir, config.DefaultSecretFile)
	if _, err := Open(t.Context(), dir, opts); err == nil ||
		!strings.Contains(err.Error(), "the secret of the cluster") || signalbox.HintOf(err) == "" {
		t.Errorf("open without a secret: %v", err)
	}
	if _, err := os.Stat(secret); err == nil {
		t.Error("opening made a secret")
	}
	made, err := Init(t.Context(), dir, "ann", opts)
	must.Succeed(t, err)
	if info, err := os.Stat(secret); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the secret: %v, %v", info, err)
	}
	if _, err := os.Stat(filepath.Join(dir, "ledger.db")); err == nil {
		t.Error("there is a ledger in the folder too")
	}
	first, err := Open(t.Context(), dir, opts)
	must.Succeed(t, err)
	second, err := Open(t.Context(), dir, opts)
	must.Succeed(t, err)
	defer second.Close()
	write(t, first, "w1")
	if err := first.Close(); err != nil { // the second takes over the node
		t.Fatal(err)
	}
	if err := second.Engine.Refresh(t.Context()); err != nil || second.ID() != made.ID ||
		second.Engine.Tail().Seq != 2 {
		t.Errorf("box %s with %d events, error %v; want %s with 2", second.ID(),
			second.Engine.Tail().Seq, err, made.ID)
	}
	write(t, second, "w2")
	must.Succeed(t, os.Chmod(secret, 0o644))
	if _, err := Open(t.Context(), dir, opts); err == nil ||
		!strings.Contains(err.Error(), "other users can read") {
		t.Errorf("open with a secret that others can read: %v", err)
	}
}

// firstReads is a journal whose first calls of Read fail.
type firstReads struct {
	journal.Journal
	failures int
	err      error
}

func (j *firstReads) Read(ctx context.Context, after uint64, limit int) ([]signalbox.Event, error) {
	if j.failures--; j.failures >= 0 {
		return nil, j.err
	}
	return j.Journal.Read(ctx, after, limit)
}

// A box is not opened without its id, because it would not remember what it applies. A damaged
// ledger is opened for verifying.
func TestOpenNeedsID(t *testing.T) {
	k := newKit(t)
	for _, failure := range []error{
		fmt.Errorf("%w: a failover", journal.ErrUnavailable),
		errors.New("permission denied"),
		context.DeadlineExceeded,
		fmt.Errorf("%w: the first event", journal.ErrDamaged),
	} {
		opts := *k.opts
		opts.through(func(j journal.Journal) journal.Journal { return &firstReads{j, 1, failure} })
		l, err := openLedger(t.Context(), k.dir, &opts, readWrite)
		if errors.Is(failure, journal.ErrDamaged) {
			if err != nil || l.ID() != "" {
				t.Errorf("%v: error %v", failure, err)
			}
		} else if !errors.Is(err, failure) {
			t.Errorf("%v: opened with error %v", failure, err)
		}
		if l != nil {
			l.Close()
		}
	}
}
