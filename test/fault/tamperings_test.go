package fault

import (
	"os"
	"slices"
	"strings"
	"testing"

	"signalbox"
	"signalbox/internal/core/box"
	"signalbox/internal/core/rules"
	"signalbox/ledger"
)

// tampering is one way to change a ledger.
type tampering struct {
	name string
	do   func(m *tamperer, events []signalbox.Event)
	// firstBad is the event that verification must name.
	firstBad uint64
}

// update returns a tampering that consists of SQL statements.
func update(name string, firstBad uint64, queries ...string) tampering {
	return tampering{name, func(m *tamperer, _ []signalbox.Event) {
		for _, query := range queries {
			m.exec(query)
		}
	}, firstBad}
}

// forged returns a correctly hashed event that follows the given ones but was never decided by the
// rules.
func forged(after []signalbox.Event) signalbox.Event {
	last := after[len(after)-1]
	list := []signalbox.Event{{Time: last.Time, Type: rules.TypeWorkOpened, Work: "forged",
		Actor: "tester", Data: []byte(`{"phase":"IMPLEMENTATION"}`)}}
	tail := ledger.Tail{Seq: last.Seq, Time: last.Time, Hash: last.Hash}
	tail.Seal(list)
	return list[0]
}

// tamperings are the changes that the box's own checkpoint reveals.
var tamperings = []tampering{
	update("delete the first", 1, "DELETE FROM events WHERE seq = 1"),
	update("delete one", 100, "DELETE FROM events WHERE seq = 100"),
	update("delete the last", 200, "DELETE FROM events WHERE seq = 200"),
	update("delete a range", 50, "DELETE FROM events WHERE seq BETWEEN 50 AND 59"),
	update("delete one and close the gap", 100, "DELETE FROM events WHERE seq = 100",
		"UPDATE events SET seq = -seq WHERE seq > 100",
		"UPDATE events SET seq = -seq - 1 WHERE seq < 0"),
	update("truncate fifty", 151, "DELETE FROM events WHERE seq > 150"),
	update("truncate all", 1, "DELETE FROM events"),
	update("swap two", 50, "UPDATE events SET seq = -60 WHERE seq = 60",
		"UPDATE events SET seq = 60 WHERE seq = 50", "UPDATE events SET seq = 50 WHERE seq = -60"),
	update("swap neighbours", 50, "UPDATE events SET seq = -51 WHERE seq = 51",
		"UPDATE events SET seq = 51 WHERE seq = 50", "UPDATE events SET seq = 50 WHERE seq = -51"),
	update("swap the contents of two", 50,
		`UPDATE events SET (type, work, session, actor, data) = (SELECT type, work, session, actor, data FROM events other WHERE other.seq = 110 - events.seq)
		WHERE seq IN (50, 60)`),
	update("an event before the first", 1,
		"INSERT INTO events SELECT 0, time, type, work, session, actor, data, prev, hash FROM events WHERE seq = 1"),
	update("an event far before the first", 1,
		"INSERT INTO events SELECT -7, time, type, work, session, actor, data, prev, hash FROM events WHERE seq = 7"),
	update("an event far after the last", 201,
		"INSERT INTO events SELECT 5000000000, time, type, work, session, actor, data, prev, hash FROM events WHERE seq = 7"),
	update("a byte moved from work to type", 70,
		"UPDATE events SET type = type || substr(work, 1, 1), work = substr(work, 2) WHERE seq = 70"),
	update("a byte moved from data to actor", 70,
		"UPDATE events SET actor = actor || '{', data = substr(data, 2) WHERE seq = 70"),
	{"insert a copy", func(m *tamperer, events []signalbox.Event) {
		m.moveUp(100)
		e := events[98]
		e.Seq = 100
		m.insert(e)
	}, 100},
	{"insert a forged one with a right hash", func(m *tamperer, events []signalbox.Event) {
		m.moveUp(100)
		m.insert(forged(events[:99]))
	}, 101},
	{"replace one by a forged one with a right hash", func(m *tamperer, events []signalbox.Event) {
		m.exec("DELETE FROM events WHERE seq = 100")
		m.insert(forged(events[:99]))
	}, 101},
	{"append a forged one with a wrong hash", func(m *tamperer, events []signalbox.Event) {
		e := forged(events)
		e.Work = "other"
		m.insert(e)
	}, 201},
	{"append a copy of the last", func(m *tamperer, events []signalbox.Event) {
		e := events[199]
		e.Seq = 201
		m.insert(e)
	}, 201},
	{"change one and recompute all hashes", func(m *tamperer, events []signalbox.Event) {
		events[119].Actor = "somebody"
		m.replace(reseal(events))
	}, 1},
	{"drop the last fifty, write others, compute all hashes",
		func(m *tamperer, events []signalbox.Event) {
			events = events[:150]
			for len(events) < tamperEvents {
				e := forged(events)
				e.Work = "forged-" + strings.Repeat("x", len(events)-149)
				events = append(events, e)
			}
			m.replace(reseal(events))
		}, 1},
}

// columnTamperings are changes that only SQLite permits: it has no types and no lengths.
var columnTamperings = []tampering{
	update("time as text", 70, "UPDATE events SET time = 'noon' WHERE seq = 70"),
	update("hash of the last as text", 200,
		"UPDATE events SET hash = CAST(hash AS TEXT) WHERE seq = 200"),
	update("no hash at the end", 200, "UPDATE events SET hash = x'' WHERE seq = 200"),
	update("a byte moved from prev to hash", 70,
		"UPDATE events SET prev = substr(prev, 1, 31), hash = CAST(substr(prev, 32) || hash AS BLOB) WHERE seq = 70"),
}

// TestTamperingIsFound applies each tampering to a copy of a box.
func TestTamperingIsFound(t *testing.T) {
	t.Parallel()
	original := newLedger(t)
	events := original.mustVerify(t)
	for _, tt := range slices.Concat(tamperings, columnTamperings) {
		t.Run(tt.name, func(t *testing.T) {
			s := original.copy(t)
			m := s.tamper(t)
			tt.do(m, slices.Clone(events))
			m.close()
			s.checkTamperingIsFound(t, tt)
		})
	}
}

// checkTamperingIsFound checks that verification finds a tampering, and that the box can still be
// opened without a crash.
func (s *site) checkTamperingIsFound(t *testing.T, tt tampering) {
	t.Helper()
	if report := s.verify(t); report.OK || report.FirstBad != tt.firstBad || report.Reason == "" {
		t.Errorf("first bad event %d, want %d: %s", report.FirstBad, tt.firstBad, report.Reason)
	}
	if b, err := box.Open(t.Context(), s.box, s.options()); err == nil {
		b.Close() // Open need not detect it
	}
}

// TestTamperingInPostgresIsFound applies each tampering to a ledger in PostgreSQL, by a user who
// owns the tables.
func TestTamperingInPostgresIsFound(t *testing.T) {
	original := makeLedger(t, backends[1])
	events := original.mustVerify(t)
	m := original.tamperPostgres(t)
	for _, tt := range tamperings {
		t.Run(tt.name, func(t *testing.T) {
			s := original.copy(t) // with its own memory of the ledger, which stays where it is
			defer m.replace(events)
			tt.do(m, slices.Clone(events))
			s.checkTamperingIsFound(t, tt)
		})
	}
	original.verifyCommand(t, 0)
}

// TestExternalCheckpoint checks attacks that only a checkpoint stored outside the box reveals. An
// attacker who can write the box can also remove its checkpoint or replace the box, and one who can
// also write the signer's own checkpoint can reset it.
func TestExternalCheckpoint(t *testing.T) {
	t.Parallel()
	original := newLedger(t)
	external := t.TempDir() + "/checkpoint"
	kept, err := os.ReadFile(original.file("checkpoint"))
	check(t, err)
	check(t, os.WriteFile(external, kept, 0o600))
	against := []string{"--checkpoint", external, "--key", original.publicKey}
	if v := original.verifyCommand(t, 0, against...); v.Checkpoint.Size != tamperEvents {
		t.Errorf("verify printed %s", asJSON(v))
	}

	t.Run("truncated", func(t *testing.T) {
		s := original.copy(t)
		m := s.tamper(t)
		m.exec("DELETE FROM events WHERE seq > 150")
		m.close()
		for _, name := range []string{"checkpoint", "checkpoint.tree"} {
			check(t, os.Remove(s.file(name)))
		}
		s.forgetApplied(t)
		s.mustFail(t, 5, "the ledger was truncated: it has 150 events, but 200 were signed",
			"run signalbox ledger verify, and restore the ledger from a copy",
			"ledger", "checkpoint")
		check(t, os.Remove(s.signedFile()))
		s.must(t, "ledger", "checkpoint")
		if v := s.verifyCommand(t, 0); v.Checkpoint.Size != 150 {
			t.Errorf("with the checkpoint in the box verify printed %s", asJSON(v))
		}
		if v := s.verifyCommand(t, 5, against...); v.FirstBad != 151 {
			t.Errorf("with the external checkpoint verify printed %s", asJSON(v))
		}
	})
	t.Run("another box", func(t *testing.T) {
		other := makeLedger(t, backends[0])
		if v := other.verifyCommand(t, 5, against...); v.FirstBad != 1 {
			t.Errorf("with the external checkpoint verify printed %s", asJSON(v))
		}
		if v := other.verifyCommand(t, 5, "--key", original.publicKey); v.Reason == "" {
			t.Errorf("with the external key verify printed %s", asJSON(v))
		}
	})
	t.Run("the ledger of another box", func(t *testing.T) {
		s := original.copy(t)
		text, err := os.ReadFile(makeLedger(t, backends[0]).file("ledger.db"))
		check(t, err)
		check(t, os.WriteFile(s.file("ledger.db"), text, 0o600))
		s.verifyCommand(t, 5)
		if v := s.verifyCommand(t, 5, against...); v.FirstBad != 1 {
			t.Errorf("verify printed %s", asJSON(v))
		}
	})
}
