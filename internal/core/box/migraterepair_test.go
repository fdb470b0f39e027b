package box

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
	natsgo "github.com/nats-io/nats.go"

	"signalbox"
	"signalbox/internal/config"
	"signalbox/internal/core/rules"
	"signalbox/internal/testkit/must"
	"signalbox/internal/testkit/natsserver"
)

func withRepair(o *MigrateOptions) { o.Repair = true }

// checkLeftBehind checks that the ledger continues at an address without the invalid events, which
// the old place still has, and a file, too.
func checkLeftBehind(t *testing.T, k *kit, address string, valid uint64, kept string) {
	t.Helper()
	if got, err := config.ReadJournal(k.dir); err != nil || got != address {
		t.Errorf("the setting is %q, error %v; want %q", got, err, address)
	}
	b := k.open(t)
	var types []string
	for e, err := range b.Events(t.Context(), valid) {
		must.Succeed(t, err)
		types = append(types, e.Type)
	}
	want := []string{rules.TypeLedgerRepaired, rules.TypeLedgerMoved, rules.TypeLedgerContinued}
	if diff := cmp.Diff(want, types); diff != "" {
		t.Errorf("events after the valid ones (-want +got):\n%s", diff)
	}
	write(t, b, "after")
	sign(t, b)
	must.Succeed(t, b.Close())
	report, err := k.ledger(t).Verify(t.Context(), VerifyOptions{})
	if err != nil || !report.OK || report.Events != valid+4 {
		t.Errorf("verified %+v, %v", report.Report, err)
	}
	files, err := filepath.Glob(filepath.Join(k.dir, "removed-*.jsonl"))
	must.Succeed(t, err)
	for _, name := range files {
		data, err := os.ReadFile(name)
		must.Succeed(t, err)
		if !bytes.Contains(data, []byte(kept)) {
			t.Errorf("%s has %s, without %s", name, data, kept)
		}
	}
	if len(files) == 0 {
		t.Error("the invalid events were not kept")
	}
}

// A move that leaves invalid events behind fails at each write once. The next call completes it, and
// the ledger has one history.
func TestMigrateRepair(t *testing.T) {
	first := newMover(t)
	var forged []signalbox.Event
	{
		plain := &kit{dir: first.dir, opts: &Options{KeyFile: first.opts.KeyFile}}
		forged = plain.forge(t, wrongHash, signalbox.Event{Type: rules.TypeWorkOpened, Work: "forged",
			Data: []byte(openedDraft)})
	}
	if _, err := first.migrate(t.Context(), inOther); signalbox.CodeOf(err) !=
		signalbox.CodeUnverified {
		t.Errorf("without Repair: error %v", err)
	}
	dry, err := first.migrate(t.Context(), inOther, withRepair,
		func(o *MigrateOptions) { o.DryRun = true })
	if err != nil || dry.Outcome != WouldMove || dry.Removed != "" {
		t.Errorf("dry run: %+v, error %v", dry, err)
	}
	failed := errors.New("failed")
	for fail, ended := 1, false; !ended; fail++ {
		m := first.copyOf(t)
		calls := 0
		m.hook = func(string) error {
			if calls++; calls == fail {
				return failed
			}
			return nil
		}
		_, err := m.migrate(t.Context(), inOther, withRepair)
		if ended = err == nil; !ended {
			if !errors.Is(err, failed) {
				t.Fatalf("call %d: %v", fail, err)
			}
			m.hook = nil
			if _, err := m.migrate(t.Context(), inOther, withRepair); err != nil {
				t.Fatalf("continued after call %d: %v", fail, err)
			}
		}
		checkLeftBehind(t, m.kit, inOther, m.events, forged[0].Hash.String())
		if fail > 1000 {
			t.Fatal("it never ends")
		}
	}
}

// Anybody who knows the password of a ledger in JetStream can append something that is not an event.
// Nothing removes it there, but the ledger can be moved without it.
func TestMigrateRepairFromNATS(t *testing.T) {
	server := natsserver.Start(t, nil)
	for name, to := range map[string]string{"file": config.JournalSQLite,
		"stream": server + "/shop-2"} {
		t.Run(name, func(t *testing.T) { testMigrateRepairFromNATS(t, server, name, to) })
	}
}

func testMigrateRepairFromNATS(t *testing.T, server, name, to string) {
	k := kitIn(t.TempDir())
	k.opts.Journal = server + "/" + name
	made, err := Init(t.Context(), k.dir, "ann", k.opts)
	must.Succeed(t, err)
	k.made = made
	k.writeAndSign(t, "a", "b")
	other := kitIn(t.TempDir()) // a machine without the key
	must.Succeed(t, makeFolder(other.dir, config.Template))
	other.put(t, config.FileName, k.read(t, config.FileName))
	must.Succeed(t, other.open(t).Close())
	conn, err := natsgo.Connect(server)
	must.Succeed(t, err)
	defer conn.Close()
	for _, message := range []string{"not an event", "nor this"} {
		_, err := conn.Request("signalbox."+name+".event", []byte(message),
			natsgo.DefaultTimeout*30)
		must.Succeed(t, err)
	}
	l := k.ledger(t)
	tail, err := FindInvalid(t.Context(), l, nil)
	if err != nil || len(tail.Events) != 2 || string(tail.Events[1].Data) != "nor this" {
		t.Fatalf("found %+v, %v", tail, err)
	}
	if _, err := tail.Cut(t.Context(), "ann"); signalbox.HintOf(err) == "" {
		t.Errorf("removed in the old place: %v", err)
	}
	must.Succeed(t, l.Close())
	if kept, _ := filepath.Glob(filepath.Join(k.dir, "removed-*.jsonl")); len(kept) > 0 {
		t.Errorf("nothing was removed, and %v was written", kept)
	}
	done, err := Migrate(t.Context(), k.dir, &MigrateOptions{Options: *k.opts, To: to, Actor: "ann",
		Repair: true})
	if err != nil || done.Outcome != Moved || !done.Repaired || done.Removed == "" {
		t.Fatalf("moved %+v, %v", done, err)
	}
	k.opts.Journal = ""
	checkLeftBehind(t, k, to, 3, "bm9yIHRoaXM=") // nor this
	if _, err := Open(t.Context(), other.dir, other.opts); signalbox.CodeOf(err) !=
		signalbox.CodeUnverified {
		t.Errorf("another machine works in the old place: %v", err)
	}
	if to == config.JournalSQLite {
		return
	}
	other.put(t, config.FileName, k.read(t, config.FileName))
	b := other.open(t)
	defer b.Close()
	write(t, b, "on-another-machine")
}
