package rules

import (
	"bytes"
	"errors"
	"testing"
	"time"

	"signalbox"
	"signalbox/internal/testkit/must"
)

const elsewhere = "postgres://db.example.org/shop"

// After LedgerMoved nothing can be written, whatever the command, until the ledger is continued.
func TestMovedLedgerIsOver(t *testing.T) {
	b := lived(t)
	before := len(b.log)
	wantEvents(t, b.try(MoveLedger{elsewhere, "desk", "m-1", "op"}), `LedgerMoved {"journal":"`+
		elsewhere+`","host":"desk","move":"m-1"}`)
	move, moved := b.s.LastMove()
	if want := (Move{elsewhere, "desk", "m-1", "op", b.now, uint64(before + 1)}); !moved ||
		move != want {
		t.Errorf("moved %v to %+v, want %+v", moved, move, want)
	}
	loaded, err := FromSnapshot(b.s.Snapshot())
	must.Succeed(t, err)
	copied := b.s.ForSnapshot()
	if !bytes.Equal(copied.Snapshot(), b.s.Snapshot()) {
		t.Error("a copy for a snapshot is not equal")
	}
	for _, s := range []*State{b.s, loaded} {
		for _, c := range []Command{
			OpenBox{Box: "b", Actor: "op"}, OpenWork{Work: "new", Actor: "op"},
			Claim{Work: "free", Role: "critic", Session: "C", Actor: "A", Lease: "L"},
			Claim{Role: "critic", Session: "C", Actor: "A", Lease: "L"},
			Renew{Work: "held", Session: "S", Epoch: 4},
			Release{Work: "held", Session: "S", Epoch: 4},
			Release{Work: "held", Actor: "op", Reason: "r"},
			Exit{Session: "S", Signal: exit("IMPLEMENTATION", "completed")},
			Unblock{Work: "blocked", Note: "n", Actor: "op"},
			Expire{}, RedactBlob{Blob: signalbox.Hash{2}, Reason: "r", Actor: "op"},
			turnOf("run-1", 1), Configure{policy(), "op"},
			MoveLedger{elsewhere, "desk", "m-1", "op"}, MoveLedger{JournalSQLite, "desk", "m-2",
				"op"},
		} {
			d := Decide(s, t0.Add(48*time.Hour), c)
			wantRefused(t, d, refused{Code: signalbox.CodeFailed, Msg: "the ledger was moved to " +
				elsewhere + ", by op"})
			if !errors.Is(d.Err, ErrMoved) || signalbox.HintOf(d.Err) != `write journal: "`+
				elsewhere+`" into .signalbox/signalbox.yaml on this machine, and start again` {
				t.Errorf("%#v: %v, hint %q", c, d.Err, signalbox.HintOf(d.Err))
			}
		}
	}
	for _, e := range []*signalbox.Event{b.event("new", "", WorkOpened{Phase: "DRAFT"}),
		b.event("", "", LedgerMoved{Journal: "x"}), b.event("", "", PolicySet{})} {
		if err := b.s.Apply(e); !errors.Is(err, ErrHistory) {
			t.Errorf("%s after the move: error %v", e.Type, err)
		}
	}
	wantEvents(t, b.try(ContinueLedger{elsewhere, "desk", "op"}), `LedgerContinued {"journal":"`+
		elsewhere+`","host":"desk"}`)
	if err := b.s.Moved(); err != nil {
		t.Errorf("after it was continued: %v", err)
	}
	b.open("new", signalbox.PhaseDraft)
}

// A ledger that was not moved cannot be continued, so that a second copy cannot be by accident.
func TestContinueNeedsMove(t *testing.T) {
	b := newBox(t)
	wantRefused(t, b.try(ContinueLedger{elsewhere, "desk", "op"}),
		refused{Code: signalbox.CodeConflict, Msg: "the ledger was not moved away from here"})
	if err := b.s.Apply(b.event("", "", LedgerContinued{Journal: elsewhere})); !errors.Is(err,
		ErrHistory) {
		t.Errorf("applied: error %v", err)
	}
	for _, c := range []Command{MoveLedger{"", "desk", "m-1", "op"},
		MoveLedger{elsewhere, "a\x1b", "m-1", "op"}, MoveLedger{elsewhere, "", "m-1", ""},
		MoveLedger{elsewhere, "", "", "op"}} {
		if d := b.try(c); signalbox.CodeOf(d.Err) != signalbox.CodeUsage || len(d.Events) > 0 {
			t.Errorf("%#v: error %v", c, d.Err)
		}
	}
}

// A move that was not stored did not happen, and a ledger in a file of one machine is named by that
// machine.
func TestMoveIsRolledBack(t *testing.T) {
	b := newBox(t)
	wantUnchanged(t, b.s, func() {
		b.s.Begin()
		b.do(MoveLedger{JournalSQLite, "desk", "m-2", "op"})
		if err := b.s.Moved(); err == nil ||
			err.Error() != "the ledger was moved into the folder of the box on desk, by op" {
			t.Errorf("error %v", err)
		}
		b.s.Rollback()
		b.log = b.log[:1]
	})
	if err := b.s.Moved(); err != nil {
		t.Error(err)
	}
}

// A newer program upgrades the rules of the copy before it continues it.
func TestContinueUpgrades(t *testing.T) {
	b := newBox(t)
	openedUnder(b, 2)
	moved := b.event("", "", LedgerMoved{Journal: elsewhere})
	must.Succeed(t, b.s.Apply(moved))
	b.log = append(b.log, *moved)
	if d := b.try(ContinueLedger{elsewhere, "", "op"}); d.Err != nil || len(d.Events) != 2 ||
		d.Events[0].Type != TypeRulesUpgraded {
		t.Errorf("%+v, error %v", d.Events, d.Err)
	}
}
