package box

import (
	"context"
	"slices"

	"signalbox"
	"signalbox/internal/core/rules"
)

// leaveInvalid returns a box that is the ledger l without the invalid events at its end, followed by
// LedgerRepaired. What is done in it stays in memory, because nothing can be appended in the old
// place: no process can work there, so it need not be ended. The box is nil if all events are valid.
func (m *migration) leaveInvalid(ctx context.Context, l *Ledger) (*Box, error) {
	tail, err := FindInvalid(ctx, l, m.reportAs(MigrateVerify))
	if err != nil || tail == nil {
		return nil, err
	}
	repair, kept := tail.removal(m.Actor)
	valid := &fork{Journal: l.Journal, base: repair.First - 1,
		blobs: map[signalbox.Hash][]byte{}}
	if valid.events, err = m.repairedBefore(ctx, repair); err != nil {
		return nil, err
	}
	m.result.Repaired = true
	begun := len(valid.events) > 0
	repaired := *l
	repaired.Journal = valid
	e, err := repaired.openWithoutMemory(ctx)
	if err != nil {
		return nil, err
	}
	b := &Box{Ledger: &repaired, Engine: e}
	if begun {
		return b, nil
	}
	if !m.DryRun {
		m.result.Removed, err = tail.keep(kept)
	}
	if err == nil {
		_, err = e.Do(ctx, repair)
	}
	if err != nil {
		e.Close()
		return nil, err
	}
	return b, nil
}

// repairedBefore returns the events with which an earlier call, which was interrupted, has continued
// the ledger in the new place, up to the one that ended it in the old place.
func (m *migration) repairedBefore(ctx context.Context,
	repair rules.RepairLedger) ([]signalbox.Event, error) {
	there, err := m.openNew(ctx, m.To, destination)
	if signalbox.CodeOf(err) == signalbox.CodeNotFound {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer there.Close()
	events, err := there.Journal.Read(ctx, repair.First-1, 10)
	if err != nil || !slices.ContainsFunc(events[:min(2, len(events))], isType(
		rules.TypeLedgerRepaired)) { // RulesUpgraded may come first
		return nil, err // Migrate refuses a place that has anything else
	}
	if ended := slices.IndexFunc(events, isType(rules.TypeLedgerMoved)); ended >= 0 {
		events = events[:ended+1]
	}
	return events, nil
}

func isType(name string) func(signalbox.Event) bool {
	return func(e signalbox.Event) bool { return e.Type == name }
}
