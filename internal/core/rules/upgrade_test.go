package rules

import (
	"errors"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/rogpeppe/go-internal/txtar"

	"signalbox"
	"signalbox/internal/testkit/must"
)

// openedUnder makes the log of a box that an older program opened.
func openedUnder(b *box, rules int) {
	b.t.Helper()
	b.s, b.log = &State{}, nil
	opened := b.event("", "", BoxOpened{Box: "box-1", Rules: rules})
	if err := b.s.Apply(opened); err != nil {
		b.t.Fatalf("%v", err)
	}
	b.log = append(b.log, *opened)
}

// The first event that this program writes to an older log is RulesUpgraded, whatever else the
// decision records.
func TestUpgrade(t *testing.T) {
	for _, rules := range []int{1, 2} {
		b := newBox(t)
		openedUnder(b, rules)
		d := b.try(OpenWork{Work: "w", Actor: "ann"})
		if len(d.Events) != 2 || d.Events[0].Type != TypeRulesUpgraded ||
			d.Events[0].Actor != "ann" || d.Answer.Seq != 3 {
			t.Fatalf("rules %d: %+v, answer %+v", rules, d.Events, d.Answer)
		}
		if want := (RulesUpgraded{rules, Version}); mustDecode(&d.Events[0]) != want {
			t.Errorf("got %s, want %+v", d.Events[0].Data, want)
		}
		if d := b.try(b.claimOf("w", "S")); len(d.Events) != 1 || d.Answer.Lease.Epoch != 4 {
			t.Errorf("after the upgrade: %+v", d.Events)
		}
	}
}

// A command that records nothing upgrades nothing.
func TestNoUpgradeWithoutEvents(t *testing.T) {
	b := newBox(t)
	openedUnder(b, 2)
	for _, c := range []Command{Expire{}, Renew{Work: "w", Session: "S", Epoch: 1},
		OpenBox{Box: "box-2", Actor: "op"}} {
		wantEvents(t, b.try(c))
	}
	if b.s.rules != 2 {
		t.Errorf("the log follows version %d", b.s.rules)
	}
}

// An upgrade that was not stored did not happen.
func TestUpgradeIsRolledBack(t *testing.T) {
	b := newBox(t)
	openedUnder(b, 2)
	wantUnchanged(t, b.s, func() {
		b.s.Begin()
		b.open("w", signalbox.PhaseDraft)
		b.s.Rollback()
		b.log = b.log[:1]
	})
	if b.s.rules != 2 || b.s.upgraded != 0 {
		t.Errorf("rules %d, upgraded %d", b.s.rules, b.s.upgraded)
	}
}

// Every recorded history of older rules can be continued, and folds to the same state again.
func TestHistoriesCanBeContinued(t *testing.T) {
	for _, path := range glob(t, historyGlob) {
		archive, err := txtar.ParseFile(path)
		must.Succeed(t, err)
		log, _ := readHistory(t, archive)
		b := &box{t: t, s: foldFrom(t, log, 0), log: log}
		b.now = b.s.time
		older := b.s.rules < Version
		d := b.decide(OpenWork{Work: "one-more", Actor: "op"})
		if upgraded := d.Events[0].Type == TypeRulesUpgraded; upgraded != older ||
			b.s.rules != Version {
			t.Errorf("%s: first event %s, rules %d", filepath.Base(path), d.Events[0].Type,
				b.s.rules)
		}
		if diff := cmp.Diff(viewState(b.s),
			viewState(foldFrom(t, b.log, len(b.log)-1))); diff != "" {
			t.Errorf("%s: %s", filepath.Base(path), diff)
		}
	}
}

// A program of older rules does not know the event, and stops before it.
func TestOlderProgramsStop(t *testing.T) {
	b := newBox(t)
	openedUnder(b, 2)
	if err := b.s.Apply(b.event("", "", RulesUpgraded{2, Version + 1})); !errors.Is(err, ErrNewer) {
		t.Errorf("got %v", err)
	}
}

// rulesUpgraded is the scenario of an older log that is written to again.
func rulesUpgraded(b *box) {
	openedUnder(b, 2)
	for _, e := range []*signalbox.Event{
		{Work: "task-1", Actor: "op", Type: TypeWorkOpened,
			Data: encode(WorkOpened{Title: "Parse dates", Phase: "IMPLEMENTATION"})},
		{Work: "task-1", Session: "S-1", Actor: "a-S-1", Type: TypeLeaseGranted,
			Data: encode(LeaseGranted{Lease: "L-S-1", Role: "developer",
				Expires: t0.Add(15 * time.Minute)})},
	} {
		e.Seq, e.Time = b.s.Seq()+1, t0
		if err := b.s.Apply(e); err != nil {
			b.t.Fatalf("%v", err)
		}
		b.log = append(b.log, *e)
	}
	b.pass(time.Minute)
	b.do(Exit{Session: "S-1", Epoch: 3, Signal: exit(signalbox.PhaseImplementation,
		signalbox.ExitCompleted)})
	b.open("task-2", signalbox.PhaseDraft)
}
