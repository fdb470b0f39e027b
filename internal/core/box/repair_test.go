package box

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"signalbox"
	"signalbox/internal/core/journal"
	"signalbox/internal/core/rules"
	"signalbox/internal/testkit/must"
	"signalbox/ledger"
)

// forge appends events to the ledger of a box as the owner of its database can, whatever they are.
// It returns them as they are stored.
func (k *kit) forge(t *testing.T, seal func(e *signalbox.Event),
	events ...signalbox.Event) []signalbox.Event {
	t.Helper()
	l := k.ledger(t)
	defer l.Close()
	head, err := l.Journal.Head(t.Context())
	must.Succeed(t, err)
	stored, err := l.Journal.Read(t.Context(), head-1, 1)
	must.Succeed(t, err)
	last := stored[0]
	for i := range events {
		e := &events[i]
		e.Seq, e.Prev, e.Actor = last.Seq+1, last.Hash, "eve"
		if e.Time.IsZero() {
			e.Time = last.Time
		}
		e.Hash = ledger.Sum(e)
		if seal != nil {
			seal(e)
		}
		last = *e
	}
	must.Succeed(t, l.database().(journal.Repairer).ReplaceTail(t.Context(), stored[0].Hash, head,
		events))
	return events
}

// openedDraft is the data of a WorkOpened.
const openedDraft = `{"phase":"DRAFT"}`

func wrongHash(e *signalbox.Event) { e.Hash[0] ^= 1 }

// inEach runs a test on a box in a file and on one in PostgreSQL, both with three events, which are
// signed.
func inEach(t *testing.T, test func(t *testing.T, k *kit)) {
	for name, make := range map[string]func(t *testing.T) *kit{
		"sqlite": newKit,
		"postgres": func(t *testing.T) *kit {
			k := kitIn(t.TempDir())
			k.opts.Journal = newSchema(t)
			made, err := Init(t.Context(), k.dir, "ann", k.opts)
			must.Succeed(t, err)
			k.made = made
			return k
		},
	} {
		t.Run(name, func(t *testing.T) {
			k := make(t)
			k.writeAndSign(t, "a", "b")
			test(t, k)
		})
	}
}

// Events that a program with the password of the database appended, and that no signalbox accepts,
// stop every command. They can be removed, are kept in a file, and it is recorded.
func TestRepairInvalidTail(t *testing.T) {
	fine := signalbox.Event{Type: rules.TypeWorkOpened, Work: "c", Data: []byte(openedDraft)}
	impossible := fine
	impossible.Work = "a" // which exists
	early := fine
	early.Time = time.Unix(1, 0).UTC()
	binary := signalbox.Event{Type: "\xff", Work: "\x00", Data: []byte("not JSON")}
	for name, forged := range map[string]struct {
		seal   func(*signalbox.Event)
		events []signalbox.Event
		fault  string
	}{
		"wrong hash": {wrongHash, []signalbox.Event{fine}, "event 4 was changed"},
		"three wrong hashes": {wrongHash, []signalbox.Event{fine, binary, fine},
			"event 4 was changed"},
		"impossible": {nil, []signalbox.Event{impossible, fine}, "event 4, WorkOpened"},
		"too early":  {nil, []signalbox.Event{early, fine}, "event 4 has time 1970"},
	} {
		t.Run(name, func(t *testing.T) {
			inEach(t, func(t *testing.T, k *kit) {
				want := k.forge(t, forged.seal, append([]signalbox.Event{}, forged.events...)...)
				if _, err := Open(t.Context(), k.dir,
					k.opts); signalbox.CodeOf(err) != signalbox.CodeUnverified {
					t.Fatalf("the box can be opened: %v", err)
				}
				l := k.ledger(t)
				tail, err := FindInvalid(t.Context(), l, nil)
				if err != nil || tail == nil || len(tail.Events) != len(want) ||
					!strings.Contains(tail.Fault, forged.fault) {
					t.Fatalf("found %+v, %v", tail, err)
				}
				file, err := tail.Cut(t.Context(), "ann")
				must.Succeed(t, err)
				kept, err := os.ReadFile(file)
				must.Succeed(t, err)
				if n := bytes.Count(kept, []byte("\n")); n != len(want) ||
					filepath.Dir(file) != k.dir ||
					bytes.Count(kept, []byte(want[0].Hash.String())) < 1 {
					t.Errorf("kept %s", kept)
				}
				b := k.open(t)
				events, err := b.Journal.Read(t.Context(), 3, 10)
				must.Succeed(t, err)
				var repaired rules.LedgerRepaired
				must.Succeed(t, json.Unmarshal(events[0].Data, &repaired))
				if len(events) != 1 || events[0].Type != rules.TypeLedgerRepaired ||
					events[0].Actor != "ann" || repaired.First != 4 ||
					repaired.Last != want[len(want)-1].Seq ||
					repaired.Kept != sha256.Sum256(kept) ||
					!strings.Contains(repaired.Fault, forged.fault) {
					t.Errorf("recorded %+v as %+v", events, repaired)
				}
				write(t, b, "c")
				sign(t, b)
				must.Succeed(t, b.Close())
				checkVerified(t, k, 5)
				if tail, err := FindInvalid(t.Context(), l, nil); tail != nil || err != nil {
					t.Errorf("then found %+v, %v", tail, err)
				}
			})
		})
	}
}

// Nothing is removed that may have been valid when it was stored.
func TestNotRepairable(t *testing.T) {
	fine := signalbox.Event{Type: rules.TypeWorkOpened, Work: "d", Data: []byte(openedDraft)}
	refuse := func(t *testing.T, k *kit, code signalbox.Code, want string) {
		t.Helper()
		tail, err := FindInvalid(t.Context(), k.ledger(t), nil)
		if tail != nil || signalbox.CodeOf(err) != code || !strings.Contains(err.Error(), want) ||
			signalbox.HintOf(err) == "" {
			t.Errorf("found %+v, %v, want %q", tail, err, want)
		}
	}
	t.Run("signed", func(t *testing.T) {
		k := newKit(t)
		k.writeAndSign(t, "a", "b")
		k.tamper(t, "UPDATE events SET actor = 'eve' WHERE seq = 3")
		k.remove(t, "applied")
		refuse(t, k, signalbox.CodeUnverified, "event 3 was signed")
	})
	t.Run("applied", func(t *testing.T) {
		k := newKit(t)
		b := k.open(t)
		write(t, b, "a", "b")
		must.Succeed(t, b.Close())
		k.tamper(t, "UPDATE events SET actor = 'eve' WHERE seq = 3")
		refuse(t, k, signalbox.CodeUnverified, "this machine has applied event 3")
	})
	t.Run("an intact event follows", func(t *testing.T) {
		k := newKit(t)
		k.forge(t, wrongHash, fine)
		k.forge(t, nil, fine)
		refuse(t, k, signalbox.CodeUnverified, "event 3 is intact")
	})
	t.Run("replaced", func(t *testing.T) {
		k := newKit(t)
		forged := k.forge(t, nil, fine, fine)
		forged[0].Work = "x"
		hash := ledger.Sum(&forged[0])
		k.tamper(t, "UPDATE events SET work = 'x', hash = ? WHERE seq = 2", hash[:])
		refuse(t, k, signalbox.CodeUnverified, "event 3 is intact")
	})
	t.Run("lost", func(t *testing.T) {
		k := newKit(t)
		k.writeAndSign(t, "a")
		k.tamper(t, "DELETE FROM events WHERE seq = 2")
		refuse(t, k, signalbox.CodeUnverified, "event 2 is missing")
	})
	t.Run("signed elsewhere", func(t *testing.T) {
		k := newKit(t)
		k.forge(t, wrongHash, fine)
		k.opts.KeyFile = filepath.Join(t.TempDir(), "none")
		refuse(t, k, signalbox.CodeFailed, "only the machine with the signing key")
	})
	t.Run("first", func(t *testing.T) {
		k := newKit(t)
		k.tamper(t, "UPDATE events SET actor = 'eve'")
		for _, name := range []string{"applied", "checkpoint"} {
			k.remove(t, name)
		}
		k.forget(t)
		refuse(t, k, signalbox.CodeUnverified, "event 1")
	})
}

// A repair of what another process has changed meanwhile changes nothing.
func TestRepairConflict(t *testing.T) {
	inEach(t, func(t *testing.T, k *kit) {
		fine := signalbox.Event{Type: rules.TypeWorkOpened, Work: "c", Data: []byte(openedDraft)}
		k.forge(t, wrongHash, fine)
		l := k.ledger(t)
		tail, err := FindInvalid(t.Context(), l, nil)
		must.Succeed(t, err)
		k.forge(t, wrongHash, fine)
		if _, err := tail.Cut(t.Context(), "ann"); !errors.Is(err, journal.ErrConflict) {
			t.Errorf("error %v", err)
		}
		if head, err := l.Journal.Head(t.Context()); head != 5 || err != nil {
			t.Errorf("the ledger ends at event %d, %v", head, err)
		}
	})
}

// An event from a machine whose clock is ten years ahead keeps every lease from expiring. The time
// can be set back, and leases end when they should.
func TestCorrectClock(t *testing.T) {
	inEach(t, func(t *testing.T, k *kit) {
		l := k.ledger(t)
		if ahead, err := FindAhead(t.Context(), l); ahead != nil || err != nil {
			t.Errorf("found %+v, %v", ahead, err)
		}
		far := time.Now().AddDate(10, 0, 0).UTC().Round(0)
		k.forge(t, nil, signalbox.Event{Type: rules.TypeWorkOpened, Work: "c", Time: far,
			Data: []byte(`{"phase":"IMPLEMENTATION"}`)})
		ahead, err := FindAhead(t.Context(), l)
		if err != nil || ahead == nil || !ahead.Ledger.Equal(far) ||
			ahead.Clock.After(time.Now().Add(time.Minute)) {
			t.Fatalf("found %+v, %v", ahead, err)
		}
		must.Succeed(t, ahead.Correct(t.Context(), "no time service", "ann"))
		if ahead, err := FindAhead(t.Context(), l); ahead != nil || err != nil {
			t.Errorf("then found %+v, %v", ahead, err)
		}
		b := k.open(t)
		answer, err := b.Engine.Do(t.Context(),
			rules.Claim{Work: "c", Role: signalbox.RoleDeveloper,
				Session: "S", Actor: "ann", Lease: "l"})
		must.Succeed(t, err)
		if answer.Lease.Expires.After(time.Now().Add(signalbox.DefaultLeaseTTL + time.Minute)) {
			t.Errorf("the lease lasts until %s", answer.Lease.Expires)
		}
		sign(t, b)
		must.Succeed(t, b.Close())
		checkVerified(t, k, 6)
	})
}

// A ledger whose time was set back can be moved to a database, which would refuse its wrong times
// from anyone else.
func TestMigrateCorrectedClock(t *testing.T) {
	k := newKit(t)
	k.writeAndSign(t, "a")
	k.forge(t, nil, signalbox.Event{Type: rules.TypeWorkOpened, Work: "c",
		Time: time.Now().AddDate(10, 0, 0).UTC().Round(0), Data: []byte(openedDraft)})
	move := func() error {
		_, err := Migrate(t.Context(), k.dir, &MigrateOptions{Options: *k.opts, To: newSchema(t),
			Actor: "ann"})
		return err
	}
	if err := move(); err == nil || !strings.Contains(signalbox.HintOf(err), "repair --clock") {
		t.Fatalf("error %v", err)
	}
	l := k.ledger(t)
	ahead, err := FindAhead(t.Context(), l)
	must.Succeed(t, err)
	must.Succeed(t, ahead.Correct(t.Context(), "no time service", "ann"))
	must.Succeed(t, l.Close())
	must.Succeed(t, move())
	b := k.open(t)
	write(t, b, "d")
}
