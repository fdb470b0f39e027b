package box

import (
	"bufio"
	"bytes"
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	_ "github.com/jackc/pgx/v5/stdlib" // database/sql for PostgreSQL

	"signalbox"
	"signalbox/internal/config"
	"signalbox/internal/core/applied"
	"signalbox/internal/core/rules"
	"signalbox/internal/testkit/must"
)

// writerVariable makes this test binary write to a box, as another process: its value is the
// folder. It opens the work that each line of its input names, and prints a line when it is
// answered. It never closes the box.
const writerVariable = "BOX_TEST_WRITER"

func writeElsewhere(dir string) error {
	ctx := context.Background()
	b, err := Open(ctx, dir, nil)
	if err != nil {
		return err
	}
	fmt.Println("opened")
	for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
		_, err := b.Engine.Do(ctx, rules.OpenWork{Work: lines.Text(), Actor: "ann"})
		fmt.Println(signalbox.CodeOf(err), err)
	}
	return nil
}

// writer is a process that runs writeElsewhere.
type writer struct {
	cmd   *exec.Cmd
	stdin io.WriteCloser
	lines *bufio.Scanner
}

func startWriter(t *testing.T, k *kit) *writer {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), writerVariable+"="+k.dir, "GORACE=atexit_sleep_ms=0")
	stdin, err := cmd.StdinPipe()
	must.Succeed(t, err)
	stdout, err := cmd.StdoutPipe()
	must.Succeed(t, err)
	must.Succeed(t, cmd.Start())
	w := &writer{cmd, stdin, bufio.NewScanner(stdout)}
	t.Cleanup(w.kill)
	w.expect(t, "opened")
	return w
}

func (w *writer) expect(t *testing.T, want string) {
	t.Helper()
	if !w.lines.Scan() || !strings.Contains(w.lines.Text(), want) {
		t.Fatalf("the other process says %q, %v; want %q", w.lines.Text(), w.lines.Err(), want)
	}
}

// open opens work, and expects an answer.
func (w *writer) open(t *testing.T, work, answer string) {
	t.Helper()
	if _, err := fmt.Fprintln(w.stdin, work); err != nil {
		t.Fatal(err)
	}
	w.expect(t, answer)
}

func (w *writer) kill() {
	w.cmd.Process.Kill()
	w.cmd.Wait()
}

const answered = "0 <nil>"

// checkLost checks that the error lists the missing events.
func checkLost(t *testing.T, err error, want string) {
	t.Helper()
	checkCode(t, err, signalbox.CodeUnverified)
	if lost, ok := errors.AsType[*applied.Lost](err); !ok ||
		!strings.HasPrefix(lost.Error(), want) {
		t.Errorf("error %v, want %s", err, want)
	}
}

func checkRemembers(t *testing.T, l *Ledger) {
	t.Helper()
	events, err := l.lastEvents(t.Context())
	must.Succeed(t, err)
	want := events[len(events)-1]
	if last, ok, err := l.Remembered(); err != nil || !ok || last.Seq != want.Seq ||
		last.Hash != want.Hash || last.Type != want.Type {
		t.Errorf("remembered %v, %t, %v; want event %d, %s", last, ok, err, want.Seq, want.Hash)
	}
}

// TestKilledAfterItsAnswer kills a process right after an answer: the event is remembered.
func TestKilledAfterItsAnswer(t *testing.T) {
	k := newKit(t)
	w := startWriter(t, k)
	w.open(t, "t1", answered)
	w.open(t, "t2", answered)
	w.kill()
	checkRemembers(t, k.ledger(t))
	k.tamper(t, "DELETE FROM events WHERE seq > 2")
	_, err := Open(t.Context(), k.dir, k.opts)
	checkLost(t, err, "event 3 is missing: this machine has applied it, but the ledger ends at event 2")
}

// TestLedgerRolledBackUnderProcesses rolls the database back while two processes have it open: one
// that applied the lost events, and one that did not. Neither writes.
func TestLedgerRolledBackUnderProcesses(t *testing.T) {
	k := newKit(t)
	behind := startWriter(t, k)
	ahead := startWriter(t, k)
	ahead.open(t, "t1", answered)
	ahead.open(t, "t2", answered)
	k.tamper(t, "DELETE FROM events WHERE seq > 1")
	const want = "5 events 2 to 3 are missing: this machine has applied them, but the ledger ends at event 1"
	behind.open(t, "t3", want)
	ahead.open(t, "t3", want)
	behind.open(t, "t4", want)
	if report := verify(t, k, VerifyOptions{}); report.OK || report.Events != 1 ||
		report.FirstBad != 2 {
		t.Errorf("report %+v", report)
	}
}

// TestDatabaseReplacedUnderAProcess puts an older copy of the database in the place of the one that
// a process has open.
func TestDatabaseReplacedUnderAProcess(t *testing.T) {
	k := newKit(t)
	k.writeAndSign(t, "t1")
	old := k.read(t, "ledger.db")
	k.writeAndSign(t, "t2", "t3")
	w := startWriter(t, k)
	w.open(t, "t4", answered)
	for _, name := range []string{"ledger.db", "ledger.db-wal", "ledger.db-shm"} {
		k.remove(t, name)
	}
	k.put(t, "ledger.db", old)
	if _, err := fmt.Fprintln(w.stdin, "t5"); err != nil || !w.lines.Scan() ||
		w.lines.Text() == answered {
		t.Errorf("it wrote to a database that was replaced: %q, %v", w.lines.Text(), err)
	}
	_, err := Open(t.Context(), k.dir, k.opts)
	checkLost(t, err, "events 3 to 5 are missing")
}

// TestMemoryOfAnotherMachine is older than the ledger, because others wrote meanwhile.
func TestMemoryOfAnotherMachine(t *testing.T) {
	k := newKit(t)
	checkRemembers(t, k.ledger(t))
	k.writeAndSign(t, "t1")
	memory := k.read(t, applied.FileName)
	k.writeAndSign(t, "t2", "t3")
	k.put(t, applied.FileName, memory)
	checkVerified(t, k, 4)
	checkRemembers(t, k.open(t).Ledger)
}

func TestRestoredBoxRemembers(t *testing.T) {
	k := newKit(t)
	k.writeAndSign(t, "t1", "t2")
	backup := k.backup(t)
	if bytes.Contains(backup, []byte("signalbox applied")) {
		t.Error("the memory of this machine is in the backup")
	}
	restored, _, err := k.restore(t, backup)
	must.Succeed(t, err)
	checkRemembers(t, restored.ledger(t))
}

// TestReadingRemembersNothing reads a box, forks it and peeks at it, while another machine writes.
func TestReadingRemembersNothing(t *testing.T) {
	k := newKit(t)
	memory := k.read(t, applied.FileName)
	k.writeAndSign(t, "t1")
	b := k.open(t)
	fork, err := b.Fork(t.Context())
	must.Succeed(t, err)
	after := k.read(t, applied.FileName)
	write(t, fork, "forked")
	if k.read(t, applied.FileName) != after {
		t.Error("the box remembers what was done in a fork")
	}
	b.Close()
	k.put(t, applied.FileName, memory)
	r, err := OpenReadOnly(t.Context(), k.dir, k.opts)
	must.Succeed(t, err)
	r.Close()
	must.Succeed(t, Peek(t.Context(), k.dir, nil, func(*rules.State) {}))
	verify(t, k, VerifyOptions{})
	if k.read(t, applied.FileName) != memory {
		t.Error("reading a box changed what is remembered")
	}
}

// TestReadOnlyWarns reads a ledger that has lost events.
func TestReadOnlyWarns(t *testing.T) {
	k := newKit(t)
	k.writeAndSign(t, "t1", "t2")
	k.tamper(t, "DELETE FROM events WHERE seq > 1")
	var log bytes.Buffer
	r, err := OpenReadOnly(t.Context(), k.dir,
		&Options{KeyFile: k.opts.KeyFile, Log: slog.New(slog.NewTextHandler(&log, nil))})
	must.Succeed(t, err)
	defer r.Close()
	if !strings.Contains(log.String(), "events 2 to 3 are missing") {
		t.Errorf("the log says %s", log.String())
	}
}

func TestEmptyLedgerThatHadEvents(t *testing.T) {
	k := newKit(t)
	k.writeAndSign(t, "t1")
	k.tamper(t, "DELETE FROM events")
	_, err := Open(t.Context(), k.dir, k.opts)
	checkLost(t, err, "events 1 to 2 are missing: this machine has applied them, but the ledger ends at event 0")
	_, err = FindLoss(t.Context(), k.ledger(t))
	checkCode(t, err, signalbox.CodeUnverified)
}

// acceptLoss accepts what is lost, which must be so many events and checkpoints.
func (k *kit) acceptLoss(t *testing.T, events uint64, checkpoints int) (*Loss, []string) {
	t.Helper()
	l := k.ledger(t)
	defer l.Close()
	loss, err := FindLoss(t.Context(), l)
	must.Succeed(t, err)
	var lost uint64
	if loss.Lost != nil {
		lost = loss.Lost.Last - loss.Lost.First + 1
	}
	if lost != events || len(loss.Checkpoints) != checkpoints ||
		loss.None() != (events == 0 && checkpoints == 0) {
		t.Errorf("%d events and the checkpoints %v are lost, want %d and %d", lost,
			loss.Checkpoints, events, checkpoints)
	}
	kept, err := loss.Accept(t.Context(), "ann")
	must.Succeed(t, err)
	for _, name := range kept {
		if _, err := os.Stat(name); err != nil {
			t.Error(err)
		}
	}
	return loss, kept
}

func TestAcceptLoss(t *testing.T) {
	k := newKit(t)
	k.writeAndSign(t, "t1")
	k.acceptLoss(t, 0, 0)
	k.writeAndSign(t, "t2", "t3")
	lost, _, err := k.ledger(t).Remembered()
	must.Succeed(t, err)
	memory := k.read(t, applied.FileName)
	k.tamper(t, "DELETE FROM events WHERE seq > 2")
	_, kept := k.acceptLoss(t, 2, 2)
	if len(kept) != 3 {
		t.Errorf("kept %v", kept)
	}
	if old, err := os.ReadFile(kept[2]); err != nil || string(old) != memory ||
		!strings.Contains(kept[2], ".lost-") {
		t.Errorf("the old memory is not in %s, %v", kept[2], err)
	}
	l := k.ledger(t)
	events, err := l.lastEvents(t.Context())
	var recorded rules.LossAccepted
	if err == nil {
		err = json.Unmarshal(events[2].Data, &recorded)
	}
	if err != nil || events[2].Type != rules.TypeLossAccepted || events[2].Actor != "ann" ||
		recorded.First != 3 || recorded.Last != 4 || recorded.Hash != lost.Hash {
		t.Errorf("the ledger has %+v, %v; want that events 3 to 4 are lost, the last one %s",
			recorded, err, lost.Hash)
	}
	k.writeAndSign(t, "t4")
	checkVerified(t, k, 4)
	k.acceptLoss(t, 0, 0)
}

// TestAwaitMissing is a process that runs a node of a cluster: it waits while events are missing
// that this machine applied, or only signed.
func TestAwaitMissing(t *testing.T) {
	k := newKit(t)
	k.writeAndSign(t, "t1", "t2")
	await := func() error { // is interrupted when it says that it waits
		l := k.ledger(t)
		defer l.Close()
		ctx, interrupt := context.WithCancel(t.Context())
		defer interrupt()
		l.options.Log = slog.New(slog.NewTextHandler(writerFunc(interrupt), nil))
		return (&waiter{Ledger: l}).awaitMissing(ctx)
	}
	if err := await(); err != nil {
		t.Errorf("nothing is missing: error %v", err)
	}
	k.tamper(t, "DELETE FROM events WHERE seq > 2")
	checkLost(t, await(), "event 3 is missing")
	k.remove(t, applied.FileName)
	err := await()
	if checkCode(t, err, signalbox.CodeUnverified); err == nil ||
		!strings.Contains(err.Error(), "it has 2 events, but 3 were signed") {
		t.Errorf("error %v", err)
	}
	k.acceptLoss(t, 0, 2)
	if err := await(); err != nil {
		t.Errorf("the loss is accepted: error %v", err)
	}
}

// writerFunc is called for everything that is written.
type writerFunc func()

func (f writerFunc) Write(p []byte) (int, error) {
	f()
	return len(p), nil
}

// TestAcceptLossAfterInterruption completes what an interrupted command began.
func TestAcceptLossAfterInterruption(t *testing.T) {
	k := newKit(t)
	k.writeAndSign(t, "t1", "t2")
	k.tamper(t, "DELETE FROM events WHERE seq > 2")
	if _, err := moveAside(filepath.Join(k.dir, checkpointName)); err != nil {
		t.Fatal(err)
	}
	_, err := Open(t.Context(), k.dir, k.opts)
	checkLost(t, err, "event 3 is missing")
	k.acceptLoss(t, 1, 1)
	k.writeAndSign(t, "t3")
	checkVerified(t, k, 4)
}

// TestAcceptLossWithoutTheKey is a machine that only runs agents.
func TestAcceptLossWithoutTheKey(t *testing.T) {
	k := newKit(t)
	k.writeAndSign(t, "t1", "t2")
	k.tamper(t, "DELETE FROM events WHERE seq > 2")
	worker := &kit{k.dir, &Options{KeyFile: filepath.Join(t.TempDir(), "none.key")}, k.made}
	loss, _ := worker.acceptLoss(t, 1, 1)
	if !loss.SignsElsewhere {
		t.Error("it does not say that the signer is elsewhere")
	}
	write(t, worker.open(t), "t3")
	// The signer still refuses.
	_, err := k.open(t).Sign(t.Context())
	checkCode(t, err, signalbox.CodeUnverified)
	k.acceptLoss(t, 0, 1)
	k.writeAndSign(t, "t4")
}

// TestLostEventsOnPostgres loses events of a database that two machines use. The one that applied
// them stops; the other one cannot know.
func TestLostEventsOnPostgres(t *testing.T) {
	server := database.Need(t)
	schema := strings.ReplaceAll(NewID("box"), "-", "_")
	opts := &Options{KeyFile: filepath.Join(t.TempDir(), "box.key"),
		Journal: server.Address + "&schema=" + schema}
	first := &kit{dir: filepath.Join(t.TempDir(), FolderName), opts: opts}
	if _, err := Init(t.Context(), first.dir, "ann", opts); err != nil {
		t.Fatal(err)
	}
	second := &kit{dir: filepath.Join(t.TempDir(), FolderName),
		opts: &Options{KeyFile: filepath.Join(t.TempDir(), "none.key")}}
	must.Succeed(t, errors.Join(makeFolder(second.dir, config.Template),
		setJournal(second.dir, opts.Journal)))
	running, behind := first.open(t), second.open(t)
	write(t, running, "w1", "w2", "w3")

	db, err := sql.Open("pgx", server.Address+"&search_path="+schema)
	must.Succeed(t, err)
	defer db.Close()
	for _, statement := range []string{"ALTER TABLE events DISABLE TRIGGER USER",
		"DELETE FROM events WHERE seq > 2"} {
		if _, err := db.Exec(statement); err != nil {
			t.Fatal(err)
		}
	}
	_, err = running.Engine.Do(t.Context(), rules.OpenWork{Work: "w4", Actor: "ann"})
	checkLost(t, err, "events 3 to 4 are missing: this machine has applied them, but the ledger ends at event 2")
	write(t, behind, "other")
	_, err = Open(t.Context(), first.dir, first.opts)
	checkLost(t, err, "events 3 to 4 are missing: this machine has applied them, but the ledger has other events instead and ends at event 3")
	l := first.ledger(t)
	if report, err := l.Verify(t.Context(), VerifyOptions{}); err != nil || report.OK ||
		report.Lost == nil || len(report.Lost.Known) != 2 {
		t.Errorf("on the machine that applied them: %+v, %v", report, err)
	}
	if report := verify(t, second, VerifyOptions{}); !report.OK {
		t.Errorf("on the other machine: %+v", report)
	}
	first.acceptLoss(t, 2, 0)
	write(t, first.open(t), "w4")
}
