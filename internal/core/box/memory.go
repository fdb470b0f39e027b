package box

import (
	"context"
	"errors"

	"signalbox"
	"signalbox/internal/core/applied"
	"signalbox/internal/core/engine"
)

// Lost returns which events that this machine applied the ledger has lost, nil if none. The error
// has CodeUnverified if this machine has worked with the ledger of another box.
func (l *Ledger) Lost(ctx context.Context) (*applied.Lost, error) {
	box, events, err := applied.Read(l.memoryFile())
	if err != nil {
		return nil, err
	}
	lost, err := applied.Compare(ctx, l.Journal, events)
	if err == nil && box != "" && l.id != "" && box != l.id {
		return nil, applied.OtherBox(l.memoryFile(), box, l.id)
	}
	return lost, err
}

// WarnIfLost logs a warning if the ledger has lost events. Reading such a ledger is allowed.
func (l *Ledger) WarnIfLost(ctx context.Context) {
	if l.checkNotMoved(ctx) != nil { // the move explains the missing events
		return
	}
	lost, err := l.Lost(ctx)
	if lost != nil {
		err = lost.AsError()
	}
	if signalbox.CodeOf(err) == signalbox.CodeUnverified {
		l.options.Log.Warn("the ledger is not complete, so nothing can be written to it: " +
			err.Error() + "; signalbox ledger verify shows more")
	}
}

// openMemory opens the memory of applied events for an engine. It is nil for a box without an id:
// its ledger is empty, or its first event is damaged. An empty ledger must not have had events.
func (l *Ledger) openMemory(ctx context.Context) (*applied.Memory, error) {
	if l.id != "" {
		return applied.Open(l.memoryFile(), l.id)
	}
	lost, err := l.Lost(ctx)
	if err == nil && lost != nil {
		err = lost.AsError()
	}
	return nil, err
}

// openEngine opens an engine that remembers what it applies.
func (l *Ledger) openEngine(ctx context.Context) (*engine.Engine, *applied.Memory, error) {
	memory, memoryErr := l.openMemory(ctx)
	e, err := engine.Open(ctx, l.Journal, &engine.Options{Now: l.options.Now, Log: l.options.Log,
		Memory: memory})
	if err == nil && memoryErr != nil { // what is wrong with the ledger itself is more important
		e.Close()
		err = memoryErr
	}
	if err != nil {
		// this machine has worked with the ledger elsewhere
		if moved := l.checkNotMoved(ctx); moved != nil {
			err = moved
		}
		return nil, nil, errors.Join(err, closeMemory(memory))
	}
	return e, memory, nil
}

func closeMemory(memory *applied.Memory) error {
	if memory == nil {
		return nil
	}
	return memory.Close()
}

// remember starts the memory of a new or restored box with the end of its ledger.
func (l *Ledger) remember(ctx context.Context) error {
	memory, err := applied.Open(l.memoryFile(), l.id)
	if err != nil {
		return err
	}
	events, err := l.lastEvents(ctx)
	if err == nil {
		err = memory.Add(events)
	}
	return errors.Join(err, memory.Close())
}
