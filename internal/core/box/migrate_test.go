package box

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"signalbox"
	"signalbox/internal/config"
	"signalbox/internal/core/applied"
	"signalbox/internal/core/journal"
	"signalbox/internal/core/rules"
	"signalbox/internal/durable"
	"signalbox/internal/testkit/must"
)

// places are databases for tests: the address postgres://places/NAME is a SQLite journal in the
// folder NAME of base, and other addresses are what they are. Hook, if not nil, is called before
// and after each call that writes, in any place, and the call returns its error.
type places struct {
	base string
	hook func(call string) error // called by one goroutine at a time

	mu sync.Mutex
}

func (p *places) call(call string) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.hook == nil {
		return nil
	}
	return p.hook(call)
}

func (p *places) openPlace(ctx context.Context, dir, address string, how access,
	opts *Options) (journal.Journal, error) {
	if name, found := strings.CutPrefix(address, "postgres://places/"); found {
		address = config.JournalSQLite
		if dir = filepath.Join(p.base, name); how.creates() {
			if err := os.MkdirAll(dir, 0o700); err != nil {
				return nil, err
			}
		}
	}
	j, err := openJournal(ctx, dir, address, how, opts)
	if err != nil {
		return nil, err
	}
	return &hooked{j, p.call, filepath.Base(dir)}, nil
}

// hooked is a journal that calls a hook.
type hooked struct {
	journal.Journal
	hook func(call string) error
	name string
}

func (h *hooked) around(call string, do func() error) error {
	call = h.name + " " + call
	if err := h.hook("before " + call); err != nil {
		return err
	}
	if err := do(); err != nil {
		return err
	}
	return h.hook("after " + call)
}

func (h *hooked) Append(ctx context.Context, expected uint64, events []signalbox.Event) error {
	what := "check"
	if len(events) > 0 {
		what = "append " + events[len(events)-1].Type
	}
	return h.around(what, func() error { return h.Journal.Append(ctx, expected, events) })
}

func (h *hooked) PutBlob(ctx context.Context, r io.Reader) (digest signalbox.Hash, err error) {
	err = h.around("put",
		func() (err error) { digest, err = h.Journal.PutBlob(ctx, r); return err })
	return digest, err
}

func (h *hooked) DeleteBlob(ctx context.Context, digest signalbox.Hash) error {
	return h.around("delete", func() error { return h.Journal.DeleteBlob(ctx, digest) })
}

const inOther = "postgres://places/other"

// mover is a box whose ledger is moved.
type mover struct {
	*full
	*places
}

func newMover(t *testing.T) *mover {
	t.Helper()
	m := &mover{newFull(t), &places{base: t.TempDir()}}
	m.opts.open = m.openPlace
	return m
}

// copyOf returns a mover with the same files, and a copy of the key and of what was signed with it.
func (m *mover) copyOf(t *testing.T) *mover {
	t.Helper()
	c := &mover{&full{m.withKey(t), m.events, m.first, m.second, m.redacted},
		&places{base: t.TempDir()}}
	c.opts.open = c.openPlace
	return c
}

func (m *mover) migrate(ctx context.Context, to string,
	change ...func(*MigrateOptions)) (*MigrateResult, error) {
	opts := &MigrateOptions{Options: *m.opts, To: to, Actor: "ann", batch: 3}
	for _, c := range change {
		c(opts)
	}
	return Migrate(ctx, m.dir, opts)
}

func (m *mover) must(t *testing.T, to string, want MigrateOutcome) *MigrateResult {
	t.Helper()
	done, err := m.migrate(t.Context(), to)
	if err != nil {
		t.Fatalf("move to %s: %v", to, err)
	}
	if done.Outcome != want {
		t.Fatalf("moved to %s: %+v, want %q", to, done, want)
	}
	return done
}

// unhooked opens the box in the file without the hook, as another process.
func (m *mover) unhooked(t *testing.T) *Box {
	t.Helper()
	return (&kit{dir: m.dir, opts: &Options{KeyFile: m.opts.KeyFile}}).open(t)
}

// place opens the ledger at an address, also if it is an incomplete copy.
func (m *mover) place(t *testing.T, address string) *Ledger {
	t.Helper()
	j, err := m.openPlace(t.Context(), m.dir, address, readWrite, m.opts)
	must.Succeed(t, err)
	t.Cleanup(func() { j.Close() })
	l := newLedger(m.dir, m.opts)
	l.Journal = j
	if err = l.readID(t.Context()); err != nil {
		t.Fatal(err)
	}
	return l
}

// export returns the events at an address as ledger export prints them.
func (m *mover) export(t *testing.T, address string) (lines []string) {
	t.Helper()
	l := m.place(t, address)
	defer l.Close()
	for e, err := range l.Events(t.Context(), 0) {
		must.Succeed(t, err)
		line, err := json.Marshal(l.CloudEvent(e))
		must.Succeed(t, err)
		lines = append(lines, string(line))
	}
	return lines
}

// openAt opens the box for work as a machine whose setting is address.
func (m *mover) openAt(t *testing.T, address string) (*Box, error) {
	t.Helper()
	l, err := openLedgerAt(t.Context(), m.dir, address, m.opts, readWrite)
	if err != nil {
		return nil, err
	}
	return newBox(t.Context(), l, l.openForgetfulEngine)
}

// checkOne checks that at most one of the places can be written to.
func (m *mover) checkOne(t *testing.T, addresses ...string) (usable []string) {
	t.Helper()
	for _, address := range addresses {
		b, err := m.openAt(t, address)
		if err == nil {
			if b.ID() != "" { // otherwise nothing was copied yet
				usable = append(usable, address)
			}
			b.Close()
		}
	}
	if len(usable) > 1 {
		t.Fatalf("the ledger can be continued in %v", usable)
	}
	return usable
}

// checkMovedTo checks that the ledger is at an address, complete and unchanged, and that the other
// place has the same up to where it ends.
func (m *mover) checkMovedTo(t *testing.T, address, old string) {
	t.Helper()
	if got, err := config.ReadJournal(m.dir); err != nil || got != address {
		t.Errorf("the setting is %q, error %v; want %q", got, err, address)
	}
	if diff := cmp.Diff([]string{address}, m.checkOne(t, address, old)); diff != "" {
		t.Errorf("usable places (-want +got):\n%s", diff)
	}
	before, after := m.export(t, old), m.export(t, address)
	if len(after) <= len(before) {
		t.Fatalf("%s has %d events, %s has %d", address, len(after), old, len(before))
	}
	if diff := cmp.Diff(before, after[:len(before)]); diff != "" {
		t.Errorf("events in both places (-old +new):\n%s", diff)
	}
	report, err := m.kit.ledger(t).Verify(t.Context(), VerifyOptions{})
	if err != nil || !report.OK || report.Blobs.Checked != 2 || report.Blobs.Redacted != 1 ||
		report.Blobs.Remaining != 0 {
		t.Errorf("verified %+v with blobs %+v, error %v", report.Report, report.Blobs, err)
	}
	l := m.kit.ledger(t)
	for _, digest := range []signalbox.Hash{m.redacted, incompleteDigest} {
		if there, err := hasBlob(t.Context(), l.Journal, digest); there || err != nil {
			t.Errorf("blob %s is there: %v, error %v", digest, there, err)
		}
	}
}

// The ledger moves to another place, where it is the same, and back again. The old place has it as
// it was.
func TestMigrate(t *testing.T) {
	m := newMover(t)
	if done, err := m.migrate(t.Context(), inOther,
		func(o *MigrateOptions) { o.DryRun = true }); err != nil || done.Outcome != WouldMove ||
		done.Events != m.events || done.Present != 0 {
		t.Errorf("dry run: %+v, error %v", done, err)
	}
	if left, _ := os.ReadDir(m.base); len(left) > 0 {
		t.Errorf("the dry run left %v", left)
	}
	steps := map[MigrateStep]bool{}
	done, err := m.migrate(t.Context(), inOther, func(o *MigrateOptions) {
		o.Progress = func(step MigrateStep, done, total uint64) {
			if steps[step] = true; done > total {
				t.Errorf("%s: %d of %d", step, done, total)
			}
		}
	})
	must.Succeed(t, err)
	if done.Outcome != Moved || done.Events != m.events+2 || done.Blobs != 2 ||
		done.Box != m.made.ID || done.From != "sqlite" || done.To != inOther ||
		len(done.Missing) > 0 {
		t.Errorf("moved: %+v", done)
	}
	if last, _, err := (&Folder{Dir: m.dir}).Remembered(); err != nil || last.Seq != done.Events ||
		last.Hash != done.Head {
		t.Errorf("the machine remembers up to event %d, error %v; want %d", last.Seq, err,
			done.Events)
	}
	if len(steps) != 5 { // there was nothing to compare at first, but there is at the end
		t.Errorf("progress of %v", steps)
	}
	m.checkMovedTo(t, inOther, "sqlite")
	if _, err := m.openAt(t, "sqlite"); !errors.Is(err, rules.ErrMoved) ||
		!strings.Contains(signalbox.HintOf(err), `journal: "`+inOther+`"`) {
		t.Errorf("opened in the old place: error %v, hint %q", err, signalbox.HintOf(err))
	}
	m.must(t, inOther, Unchanged)
	m.writeAndSign(t, "w-moved")
	checkVerified(t, m.kit, m.events+3)

	m.must(t, "sqlite", Moved)
	m.checkMovedTo(t, "sqlite", inOther)
	m.writeAndSign(t, "w-back")
	m.must(t, inOther, Moved)
	m.checkMovedTo(t, inOther, "sqlite")
}

// A process that has not noticed the move finds that more was signed than its ledger has. Nothing
// was truncated.
func TestSignAfterMove(t *testing.T) {
	m := newMover(t)
	late := m.open(t)
	m.must(t, inOther, Moved)
	m.writeAndSign(t, "w-moved")
	if _, err := late.Sign(t.Context()); !errors.Is(err, rules.ErrMoved) {
		t.Errorf("signed: error %v", err)
	}
	if err := late.Engine.Refresh(t.Context()); !errors.Is(err, rules.ErrMoved) {
		t.Errorf("the engine stopped with %v", err)
	}
}

// The hint for a machine has its own user, and not the one of the machine that moved the ledger.
func TestMovedHintHasOwnUser(t *testing.T) {
	const to = "postgres://owner@db.example.com/shop?schema=shop"
	for own, want := range map[string]string{
		"postgres://worker@places/here": `write journal: "postgres://worker@db.example.com/shop?schema=shop" into .signalbox/signalbox.yaml on this machine, and start again`,
		"nats://worker@places/here":     `write journal: "postgres://db.example.com/shop?schema=shop" into .signalbox/signalbox.yaml on this machine, with this machine's own user, and start again`,
	} {
		k := newKit(t)
		b := k.open(t)
		must.Succeed(t, setJournal(k.dir, own))
		if _, err := b.Engine.Do(t.Context(), rules.MoveLedger{Journal: to, Host: "desk",
			Move: "m-1", Actor: "ann"}); err != nil {
			t.Fatal(err)
		}
		k.opts.through(func(j journal.Journal) journal.Journal { return j })
		_, opened := Open(t.Context(), k.dir, k.opts)
		_, running := b.Engine.Do(t.Context(), rules.OpenWork{Work: "w", Actor: "ann"})
		for _, err := range []error{opened, b.Resume(t.Context(), running)} {
			if !errors.Is(err, rules.ErrMoved) || signalbox.HintOf(err) != want ||
				err.Error() != "the ledger was moved to "+to+", by ann" {
				t.Errorf("%s: error %v, hint %q; want the hint %q", own, err, signalbox.HintOf(err),
					want)
			}
		}
	}
}

// Another machine needs only the setting: there the command changes it, and nothing else.
func TestMigrateOtherMachine(t *testing.T) {
	m := newMover(t)
	m.must(t, inOther, Moved)
	m.writeAndSign(t, "w-moved")
	// a machine on which it still has the old value
	must.Succeed(t, setJournal(m.dir, "sqlite"))
	before := m.export(t, inOther)
	if done, err := m.migrate(t.Context(), inOther,
		func(o *MigrateOptions) { o.DryRun = true }); err != nil || done.Outcome != WouldSwitch {
		t.Errorf("dry run: %+v, error %v", done, err)
	}
	m.must(t, inOther, Switched)
	if diff := cmp.Diff(before, m.export(t, inOther)); diff != "" {
		t.Errorf("it changed the ledger (-before +after):\n%s", diff)
	}
	m.checkMovedTo(t, inOther, "sqlite")

	// A third place cannot become a second copy that continues.
	must.Succeed(t, setJournal(m.dir, "sqlite"))
	_, err := m.migrate(t.Context(), "postgres://places/third")
	if !errors.Is(err, rules.ErrMoved) || !strings.Contains(err.Error(), "is another place") {
		t.Errorf("to a third place: error %v", err)
	}
	if _, err := os.Stat(filepath.Join(m.base, "third")); err == nil {
		t.Error("it created something there")
	}
	_, err = m.migrate(t.Context(), "sqlite")
	if !errors.Is(err, rules.ErrMoved) {
		t.Errorf("cancelled although the ledger continues: error %v", err)
	}
}

// If two moves were started, only the one that was recorded can be completed.
func TestMigrateTwice(t *testing.T) {
	const third = "postgres://places/third"
	m := newMover(t)
	m.hook = func(call string) error {
		if call == "before .signalbox append LedgerMoved" {
			return fmt.Errorf("%w: the network is gone", journal.ErrNotStored)
		}
		return nil
	}
	if _, err := m.migrate(t.Context(), third); err == nil {
		t.Fatal("the first move was completed")
	}
	m.hook = nil
	m.must(t, inOther, Moved)
	m.forgetful(t, "sqlite")
	if _, err := m.migrate(t.Context(), third); !errors.Is(err, rules.ErrMoved) {
		t.Errorf("error %v", err)
	}
	if diff := cmp.Diff([]string{inOther}, m.checkOne(t, "sqlite", third, inOther)); diff != "" {
		t.Errorf("usable places (-want +got):\n%s", diff)
	}
}

const migrateVariable = "BOX_TEST_MIGRATE"

// killedMove is what the child process of TestMigrateKilled does.
type killedMove struct {
	Dir, Key, Base, To string
	Kill               int // the call of the hook at which the process is killed
}

func (k killedMove) run() error {
	calls := 0
	p := &places{base: k.Base, hook: func(call string) error {
		if strings.HasPrefix(call, "after") { // nothing changes until the next call
			return nil
		}
		if calls++; calls == k.Kill {
			if self, err := os.FindProcess(os.Getpid()); err != nil || self.Kill() != nil {
				panic("the process cannot kill itself")
			}
			select {} // until the signal arrives
		}
		return nil
	}}
	_, err := Migrate(context.Background(), k.Dir,
		&MigrateOptions{Options: Options{KeyFile: k.Key, open: p.openPlace}, To: k.To, Actor: "ann",
			batch: 5})
	return err
}

// Whenever the process is killed, the ledger can be written to in one place at most, and the next
// call completes the move.
func TestMigrateKilled(t *testing.T) {
	if testing.Short() {
		t.Skip("it starts many processes")
	}
	first := newMover(t)
	ended := false
	for kill := 1; !ended; kill++ {
		m := first.copyOf(t)
		child, err := json.Marshal(killedMove{m.dir, m.opts.KeyFile, m.base, inOther, kill})
		must.Succeed(t, err)
		cmd := exec.CommandContext(t.Context(), os.Args[0])
		cmd.Env = append(os.Environ(), migrateVariable+"="+string(child),
			"GORACE=atexit_sleep_ms=0")
		output, err := cmd.CombinedOutput()
		if ended = err == nil; !ended && cmd.ProcessState.ExitCode() >= 0 {
			t.Fatalf("call %d: %v: %s", kill, err, output)
		}
		var usable []string
		if _, err := os.Stat(filepath.Join(m.base, "other", "ledger.db")); err == nil {
			usable = m.checkOne(t, "sqlite", inOther)
		} else {
			usable = m.checkOne(t, "sqlite")
		}
		for _, address := range usable { // somebody appends meanwhile
			b, err := m.openAt(t, address)
			must.Succeed(t, err)
			write(t, b, "meanwhile")
			b.Close()
		}
		if journal, _ := config.ReadJournal(m.dir); journal == "sqlite" {
			if _, err := m.migrate(t.Context(), inOther); err != nil {
				t.Fatalf("continued after call %d: %v", kill, err)
			}
		}
		m.checkMovedTo(t, inOther, "sqlite")
		if kill > 1000 {
			t.Fatal("it never ends")
		}
	}
}

// Everything that is not the beginning of this ledger is refused, and nothing is written there.
func TestMigrateRefusesTarget(t *testing.T) {
	for _, tt := range []struct {
		name, want string
		prepare    func(t *testing.T, m *mover)
	}{
		{"another box", "the ledger of another box", func(t *testing.T, m *mover) {
			m.copyPlace(t, otherKit(t).dir)
		}},
		{"a copy that may be in use", "a copy of this ledger that another machine may use",
			func(t *testing.T, m *mover) { m.copyPlace(t, m.dir) }},
		{"an older copy", "a copy of this ledger that another machine may use",
			func(t *testing.T, m *mover) {
				m.copyPlace(t, m.dir)
				m.writeAndSign(t, "later")
			}},
		{"another history", "another history of this box, from event",
			func(t *testing.T, m *mover) {
				m.copyPlace(t, m.dir)
				m.appendTo(t, inOther, "there")
				m.writeAndSign(t, "here")
			}},
		{"ahead", "events of this ledger, more than the", func(t *testing.T, m *mover) {
			m.copyPlace(t, m.dir)
			m.appendTo(t, inOther, "there")
		}},
		{"ahead and marked as incomplete", "events of this ledger, more than the",
			func(t *testing.T, m *mover) {
				m.copyPlace(t, m.dir)
				m.appendTo(t, inOther, "there")
				m.markIncomplete(t)
			}},
		{"changed", "was changed", func(t *testing.T, m *mover) {
			m.copyPlace(t, m.dir)
			m.markIncomplete(t)
			(&kit{dir: filepath.Join(m.base, "other")}).tamper(t,
				"UPDATE events SET actor = 'eve' WHERE seq = 2")
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			m := newMover(t)
			tt.prepare(t, m)
			here, there := m.export(t, "sqlite"), m.export(t, inOther)
			_, err := m.migrate(t.Context(), inOther)
			if code := signalbox.CodeOf(err); err == nil || code != signalbox.CodeConflict &&
				code != signalbox.CodeUnverified || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("error %v, want %q", err, tt.want)
			}
			if diff := cmp.Diff(here, m.export(t, "sqlite")) + cmp.Diff(there,
				m.export(t, inOther)); diff != "" {
				t.Errorf("it wrote (-before +after):\n%s", diff)
			}
			if journal, err := config.ReadJournal(m.dir); err != nil || journal != "sqlite" {
				t.Errorf("the setting is %q, error %v", journal, err)
			}
		})
	}
}

// copyPlace puts a copy of the ledger in a folder into the other place.
func (m *mover) copyPlace(t *testing.T, dir string) {
	t.Helper()
	must.Succeed(t, os.CopyFS(filepath.Join(m.base, "other"), os.DirFS(dir)))
}

// markIncomplete marks the other place as an incomplete copy.
func (m *mover) markIncomplete(t *testing.T) {
	t.Helper()
	l := m.place(t, inOther)
	defer l.Close()
	if _, err := l.Journal.PutBlob(t.Context(), strings.NewReader(incompleteNote)); err != nil {
		t.Fatal(err)
	}
}

// appendTo adds an event behind the back of the box.
func (m *mover) appendTo(t *testing.T, address, work string) {
	t.Helper()
	b, err := m.openAt(t, address)
	must.Succeed(t, err)
	write(t, b, work)
	must.Succeed(t, b.Close())
}

// Two addresses of one place are not two places.
func TestMigrateToItself(t *testing.T) {
	m := newMover(t)
	m.must(t, inOther, Moved)
	alias := "postgres://places/./other"
	if _, err := m.migrate(t.Context(), alias); signalbox.CodeOf(err) != signalbox.CodeUsage ||
		!strings.Contains(err.Error(), "is where the ledger is now") {
		t.Errorf("error %v", err)
	}
	m.checkOne(t, inOther)
	m.writeAndSign(t, "it-continues")
}

// What is appended while the ledger is copied is moved too, and nothing can be appended once the
// move is recorded.
func TestMigrateWhileInUse(t *testing.T) {
	m := newMover(t)
	user := m.unhooked(t)
	works, refused, conflicts := 0, 0, 0
	m.hook = func(call string) error {
		isMove := call == "before .signalbox append LedgerMoved"
		if isMove {
			conflicts++
		}
		if isMove && conflicts < 4 || strings.Contains(call, "other") {
			works++
			_, err := user.Engine.Do(t.Context(), rules.OpenWork{Work: fmt.Sprint("busy-", works),
				Actor: "bob"})
			if errors.Is(err, rules.ErrMoved) {
				refused++
			} else if err != nil {
				t.Error(err)
			}
		}
		return nil
	}
	done := m.must(t, inOther, Moved)
	m.hook = nil
	m.checkMovedTo(t, inOther, "sqlite")
	if refused == 0 || refused == works {
		t.Errorf("of %d works, %d were refused", works, refused)
	}
	b := m.open(t)
	found := 0
	b.Engine.View(func(s *rules.State) {
		for w := range s.Works() {
			if strings.HasPrefix(w.ID, "busy-") {
				found++
			}
		}
	})
	if found != works-refused {
		t.Errorf("the copy has %d works, want %d", found, works-refused)
	}
	if done.Events != b.Engine.Tail().Seq {
		t.Errorf("it has %d events, want %d", b.Engine.Tail().Seq, done.Events)
	}
}

// A failed call leaves a ledger that is used where it was, or a move that can be completed, also if
// writing fails at any point.
func TestMigrateFails(t *testing.T) {
	full := errors.New("no space left on device")
	first := newMover(t)
	for at := 1; ; at++ {
		m := first.copyOf(t)
		calls, failed := 0, ""
		m.hook = func(call string) error {
			if calls++; calls == at {
				failed = call
				return fmt.Errorf("%w: %w", journal.ErrNotStored, full)
			}
			return nil
		}
		_, err := m.migrate(t.Context(), inOther)
		m.hook = nil
		if failed == "" {
			if err != nil || at < 10 {
				t.Errorf("after %d calls: error %v", at, err)
			}
			return
		}
		if err == nil && !strings.HasPrefix(failed, "after") || err != nil &&
			signalbox.CodeOf(err) == 0 {
			t.Errorf("failed %s: error %v", failed, err)
		}
		if journal, _ := config.ReadJournal(m.dir); journal == "sqlite" {
			if _, err := m.migrate(t.Context(), inOther); err != nil {
				t.Fatalf("again after %s: %v", failed, err)
			}
		}
		m.checkMovedTo(t, inOther, "sqlite")
	}
}

// A blob that is damaged stops the move, one that is lost does not, and one that was redacted
// meanwhile does not arrive.
func TestMigrateBlobs(t *testing.T) {
	t.Run("damaged", func(t *testing.T) {
		m := newMover(t)
		m.changeBlob(t, m.first, []byte("other words"))
		_, err := m.migrate(t.Context(), inOther)
		if checkCode(t, err, signalbox.CodeUnverified); err == nil ||
			!strings.Contains(err.Error(), m.first.String()) ||
			!strings.Contains(signalbox.HintOf(err), "blob redact") {
			t.Errorf("error %v, hint %q", err, signalbox.HintOf(err))
		}
		if left, _ := os.ReadDir(m.base); len(left) > 0 {
			t.Errorf("it wrote %v", left)
		}
	})
	t.Run("damaged in the copy", func(t *testing.T) {
		m := newMover(t)
		m.hook = func(call string) error {
			if name := blobFile(filepath.Join(m.base, "other"), m.first); name != "" &&
				call == "after other put" {
				return errors.Join(os.Remove(name), os.WriteFile(name, []byte("other words"),
					0o600))
			}
			return nil
		}
		_, err := m.migrate(t.Context(), inOther)
		if checkCode(t, err, signalbox.CodeUnverified); err == nil ||
			!strings.Contains(err.Error(), "the copy in "+inOther+" is not intact") {
			t.Errorf("error %v", err)
		}
		m.hook = nil
		m.writeAndSign(t, "it-is-still-used-here")
	})
	t.Run("missing", func(t *testing.T) {
		m := newMover(t)
		m.changeBlob(t, m.first, nil)
		done := m.must(t, inOther, Moved)
		if diff := cmp.Diff([]signalbox.Hash{m.first}, done.Missing); diff != "" ||
			done.Blobs != 1 {
			t.Errorf("missing blobs (-want +got):\n%s%d copied", diff, done.Blobs)
		}
	})
	t.Run("redacted meanwhile", func(t *testing.T) {
		m := newMover(t)
		user := m.unhooked(t)
		m.hook = func(call string) error {
			if call == "before .signalbox append LedgerMoved" {
				m.hook = nil
				if _, err := user.Redact(t.Context(),
					rules.RedactBlob{Blob: m.second, Reason: "secret", Actor: "bob"}); err != nil {
					t.Error(err)
				}
			}
			return nil
		}
		m.must(t, inOther, Moved)
		l := m.place(t, inOther)
		if there, err := hasBlob(t.Context(), l.Journal, m.second); there || err != nil {
			t.Errorf("it is there: %v, error %v", there, err)
		}
	})
}

// blobFile returns the file of a blob in a SQLite journal, "" if there is none.
func blobFile(dir string, digest signalbox.Hash) (name string) {
	filepath.WalkDir(filepath.Join(dir, "blobs"), func(path string, _ os.DirEntry, _ error) error {
		if strings.HasSuffix(strings.ReplaceAll(path, string(filepath.Separator), ""),
			digest.String()) {
			name = path
		}
		return nil
	})
	return name
}

// changeBlob replaces the bytes of a blob, or removes it.
func (m *mover) changeBlob(t *testing.T, digest signalbox.Hash, text []byte) {
	t.Helper()
	name := blobFile(m.dir, digest)
	err := os.Remove(name)
	if err == nil && text != nil {
		err = os.WriteFile(name, text, 0o600)
	}
	must.Succeed(t, err)
}

// A ledger that was tampered with is not moved.
func TestMigrateNeedsValidLedger(t *testing.T) {
	m := newMover(t)
	m.tamper(t, "UPDATE events SET actor = 'eve' WHERE seq = 2")
	_, err := m.migrate(t.Context(), inOther)
	checkCode(t, err, signalbox.CodeUnverified)
	if left, _ := os.ReadDir(m.base); len(left) > 0 {
		t.Errorf("it wrote %v", left)
	}
}

// stopped is a mover whose move was recorded, but not completed.
func stopped(t *testing.T) *mover {
	t.Helper()
	m := newMover(t)
	m.hook = func(call string) error {
		if call == "before other append LedgerMoved" {
			return fmt.Errorf("%w: the other place is gone", journal.ErrUnavailable)
		}
		return nil
	}
	m.migrate(t.Context(), inOther)
	m.hook = nil
	if _, err := m.openAt(t, "sqlite"); !errors.Is(err, rules.ErrMoved) {
		t.Fatalf("the move was not recorded: error %v", err)
	}
	return m
}

// A move that is not complete can be cancelled, unless the ledger continues in the other place or
// that cannot be known.
func TestMigrateCancel(t *testing.T) {
	m := stopped(t)
	if done, err := m.migrate(t.Context(), "sqlite",
		func(o *MigrateOptions) { o.DryRun = true }); err != nil || done.Outcome != WouldCancel {
		t.Errorf("dry run: %+v, error %v", done, err)
	}
	m.must(t, "sqlite", Cancelled)
	if diff := cmp.Diff([]string{"sqlite"}, m.checkOne(t, "sqlite", inOther)); diff != "" {
		t.Errorf("usable places (-want +got):\n%s", diff)
	}
	m.writeAndSign(t, "it-continues-here")
	m.must(t, inOther, Moved)
	m.checkMovedTo(t, inOther, "sqlite")
}

func TestMigrateCancelUnknown(t *testing.T) {
	m := stopped(t)
	away := m.opts.open
	m.opts.open = func(ctx context.Context, dir, address string, how access,
		opts *Options) (journal.Journal, error) {
		if address == inOther {
			return nil, fmt.Errorf("%w: connection refused", journal.ErrUnavailable)
		}
		return away(ctx, dir, address, how, opts)
	}
	if _, err := m.migrate(t.Context(), "sqlite"); err == nil ||
		!strings.Contains(err.Error(), "cannot find out whether") ||
		!strings.Contains(signalbox.HintOf(err), "--force") {
		t.Errorf("error %v, hint %q", err, signalbox.HintOf(err))
	}
	done, err := m.migrate(t.Context(), "sqlite", func(o *MigrateOptions) { o.Force = true })
	if err != nil || done.Outcome != Cancelled {
		t.Fatalf("with force: %+v, error %v", done, err)
	}
	m.writeAndSign(t, "it-continues-here")
}

// forgetful makes this machine one that has the old setting, and has not worked since the ledger
// was moved.
func (m *mover) forgetful(t *testing.T, journal string) {
	t.Helper()
	err := setJournal(m.dir, journal)
	for _, name := range []string{filepath.Join(m.dir, applied.FileName),
		filepath.Join(m.dir, checkpointName), m.opts.KeyFile + signedSuffix} {
		err = errors.Join(err, os.Remove(name))
	}
	must.Succeed(t, err)
}

// The address of the new place may mean another one on this machine, or none, for example if it
// names localhost. Then it is not known whether the ledger continues.
func TestMigrateCancelOtherPlace(t *testing.T) {
	for name, prepare := range map[string]func(t *testing.T, m *mover, dir string){
		"nothing": func(*testing.T, *mover, string) {},
		"another ledger": func(t *testing.T, _ *mover, dir string) {
			must.Succeed(t, os.CopyFS(dir, os.DirFS(otherKit(t).dir)))
		},
		"a copy of the end": func(t *testing.T, m *mover, dir string) {
			must.Succeed(t, os.CopyFS(dir, os.DirFS(m.dir)))
		},
	} {
		t.Run(name, func(t *testing.T) {
			m := newMover(t)
			m.must(t, inOther, Moved)
			m.forgetful(t, "sqlite")
			prepare(t, m, filepath.Join(m.base, "local"))
			open := m.opts.open
			m.opts.open = func(ctx context.Context, dir, address string, how access,
				opts *Options) (journal.Journal, error) {
				if address == inOther {
					address = "postgres://places/local"
				}
				return open(ctx, dir, address, how, opts)
			}
			if done, err := m.migrate(t.Context(), "sqlite"); err == nil ||
				!strings.Contains(err.Error(), "cannot find out whether") ||
				!strings.Contains(signalbox.HintOf(err), "--force") {
				t.Errorf("%+v, error %v, hint %q", done, err, signalbox.HintOf(err))
			}
			if done, err := m.migrate(t.Context(), "sqlite",
				func(o *MigrateOptions) { o.Force = true }); err != nil ||
				done.Outcome != Cancelled {
				t.Errorf("with force: %+v, error %v", done, err)
			}
		})
	}
}

const inFirst = "postgres://places/first"

// twoMachines returns a function that returns two machines which share a ledger in inFirst, and
// reach the same places.
func twoMachines(t *testing.T) func() (a, b *mover) {
	t.Helper()
	first := newMover(t)
	first.must(t, inFirst, Moved)
	return func() (a, b *mover) {
		a = first.copyOf(t)
		must.Succeed(t, os.CopyFS(a.base, os.DirFS(first.base)))
		b = a.copyOf(t)
		b.places = &places{base: a.base}
		b.opts.open = b.openPlace
		return a, b
	}
}

// One machine completes a move while another one cancels it, at any moment. There is never a second
// ledger that continues, and there is one in the end.
func TestMigrateCancelRace(t *testing.T) {
	machines := twoMachines(t)
	for _, tt := range []struct {
		name     string
		to, then string // where the one that is interrupted moves, and the other
	}{
		{"cancelled meanwhile", inOther, inFirst},
		{"completed meanwhile", inFirst, inOther},
	} {
		t.Run(tt.name, func(t *testing.T) {
			for at := 1; ; at++ {
				a, b := machines()
				ended := false
				a.hook = func(call string) error {
					if ended = ended || call == "after first append LedgerMoved"; ended &&
						strings.HasPrefix(call, "before other") {
						return fmt.Errorf("%w: the other place is gone", journal.ErrUnavailable)
					}
					return nil
				}
				if _, err := a.migrate(t.Context(), inOther); err == nil {
					t.Fatal("the move was completed")
				}
				calls, interrupted := 0, ""
				var otherErr error
				a.hook = func(call string) error {
					if calls++; calls == at {
						interrupted = call
						_, otherErr = b.migrate(t.Context(), tt.then)
					}
					return nil
				}
				_, err := a.migrate(t.Context(), tt.to)
				a.hook = nil
				if interrupted == "" {
					if at < 5 {
						t.Errorf("only %d calls", at)
					}
					return
				}
				t.Logf("%s: error %v, and of the other machine %v", interrupted, err, otherErr)
				if usable := a.checkOne(t, inFirst, inOther); len(usable) == 0 {
					// both gave up: then one of them can complete it
					for _, m := range []*mover{a, b} {
						if setting, _ := config.ReadJournal(m.dir); setting == inFirst {
							m.migrate(t.Context(), inOther)
						}
					}
					if usable = a.checkOne(t, inFirst, inOther); len(usable) == 0 {
						t.Errorf("%s: the ledger can be used nowhere", interrupted)
					}
				}
			}
		})
	}
}

// Two machines move a ledger to the same place. The one that is later does not make the ledger
// unusable that continues there.
func TestMigrateSamePlace(t *testing.T) {
	machines := twoMachines(t)
	switched := 0
	for at := 1; ; at++ {
		a, b := machines()
		calls, interrupted := 0, ""
		a.hook = func(call string) error {
			if calls++; calls == at {
				interrupted = call
				if _, err := b.migrate(t.Context(), inOther); err != nil {
					t.Errorf("%s: the other machine: %v", call, err)
				}
			}
			return nil
		}
		done, err := a.migrate(t.Context(), inOther)
		a.hook = nil
		if interrupted == "" {
			break
		}
		if err == nil && done.Outcome == Switched {
			switched++
		}
		if diff := cmp.Diff([]string{inOther}, a.checkOne(t, inFirst, inOther)); diff != "" {
			t.Errorf("%s: error %v; usable places (-want +got):\n%s", interrupted, err, diff)
		}
	}
	if switched == 0 {
		t.Error("no call only changed the setting")
	}
}

// A backup of the place that the ledger was moved away from would be of no use, and no one would
// notice.
func TestMovedLedgerIsNotBackedUp(t *testing.T) {
	m := newMover(t)
	m.must(t, inOther, Moved)
	m.backup(t)
	must.Succeed(t, setJournal(m.dir, "sqlite"))
	var buf bytes.Buffer
	if _, err := Backup(t.Context(), m.kit.ledger(t), &buf, BackupOptions{}); !errors.Is(err,
		rules.ErrMoved) || buf.Len() > 0 {
		t.Errorf("error %v, %d bytes", err, buf.Len())
	}
}

// The configuration that cannot be changed is noticed before anything is written, as is a second
// process.
func TestMigrateNeedsSetting(t *testing.T) {
	m := newMover(t)
	m.put(t, config.FileName, "{journal: sqlite}\n")
	if _, err := m.migrate(t.Context(), inOther); err == nil {
		t.Error("a configuration in flow style was changed")
	}
	m.put(t, config.FileName, "lease: {ttl: 1h}\n")
	if _, err := m.migrate(t.Context(), "mysql://db/shop"); err == nil {
		t.Error("it was moved to an unknown database")
	}
	lock, err := durable.Acquire(t.Context(), filepath.Join(m.dir, "migrate.lock"))
	must.Succeed(t, err)
	_, err = m.migrate(t.Context(), inOther)
	checkCode(t, err, signalbox.CodeConflict)
	lock.Release()
	if left, _ := os.ReadDir(m.base); len(left) > 0 {
		t.Errorf("it wrote %v", left)
	}
}

// A restored box has its ledger in a file, so that it does not continue in the database that the
// original box uses.
func TestRestoreIsLocal(t *testing.T) {
	for name, change := range map[string]func(text string) string{
		"a line":     func(text string) string { return text },
		"flow style": func(string) string { return "{journal: '" + inOther + "'}\n" },
		"a fault":    func(text string) string { return text + "journal: [\n" },
	} {
		t.Run(name, func(t *testing.T) {
			m := newMover(t)
			m.must(t, inOther, Moved)
			m.writeAndSign(t, "w-1")
			l := m.kit.ledger(t)
			m.put(t, config.FileName, change(m.read(t, config.FileName)))
			var buf bytes.Buffer
			if _, err := Backup(t.Context(), l, &buf, BackupOptions{}); err != nil {
				t.Fatal(err)
			}
			before := m.export(t, inOther)
			k, done, err := m.restore(t, buf.Bytes())
			must.Succeed(t, err)
			if journal, err := config.ReadJournal(k.dir); err != nil || journal != "sqlite" ||
				done.Journal == "" {
				t.Errorf("the setting is %q, error %v; it was %q", journal, err, done.Journal)
			}
			b := k.open(t)
			write(t, b, "w-restored")
			if diff := cmp.Diff(before, m.export(t, inOther)); diff != "" {
				t.Errorf("it changed the database (-before +after):\n%s", diff)
			}
			if c, err := config.Load(k.dir); err != nil || name == "a line" &&
				c.Lease.TTL.Hours() != 1 {
				t.Errorf("the configuration is %+v, error %v", c, err)
			}
			if name != "a line" && (&kit{dir: k.dir}).read(t, setAside) != m.read(t,
				config.FileName) {
				t.Error("the configuration was not set aside")
			}
		})
	}
}

// lastOnly is a journal from which only the last event can be read.
type lastOnly struct{ journal.Journal }

func (j lastOnly) Read(ctx context.Context, after uint64, limit int) ([]signalbox.Event, error) {
	if limit != 1 {
		return nil, journal.ErrUnavailable
	}
	return j.Journal.Read(ctx, after, limit)
}

// A machine that cannot read where the ledger continues does not take that for the move.
func TestMovedAwayInAnOutage(t *testing.T) {
	k := newKit(t)
	move := rules.MoveLedger{Journal: "postgres://db.example.com/shop", Host: "desk", Move: "m-1",
		Actor: "ann"}
	if _, err := k.open(t).Engine.Do(t.Context(), move); err != nil {
		t.Fatal(err)
	}
	l := k.ledger(t)
	reachable := l.Journal
	head, err := reachable.Head(t.Context())
	must.Succeed(t, err)
	l.Journal = lastOnly{reachable}
	w := &waiter{Ledger: l}
	if moved, err := w.movedAway(t.Context(), l.Journal, head); moved != nil ||
		!errors.Is(err, journal.ErrUnavailable) {
		t.Errorf("moved %v, error %v", moved, err)
	}
	l.Journal = reachable
	if moved, err := w.movedAway(t.Context(), l.Journal, head); !errors.Is(moved, rules.ErrMoved) ||
		err != nil {
		t.Errorf("moved %v, error %v", moved, err)
	}
}
