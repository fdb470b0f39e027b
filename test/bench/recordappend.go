package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"

	"signalbox"
	"signalbox/internal/core/applied"
	"signalbox/internal/core/engine"
	"signalbox/internal/core/rules"
	"signalbox/ledger"
)

const (
	goalAppend  = 0.8 // times bare SQLite
	goalCallers = 10  // times one caller
	goalMemory  = 0.9 // times an engine that remembers nothing

	callers = 64

	// shortRounds is the number of rounds for each round of the settings, where a run is short and
	// its time varies much.
	shortRounds = 5
)

// store appends events in one call.
type store func(events []signalbox.Event) error

// appendCase is one way to append to a log, which has its own place.
type appendCase struct {
	name        string
	size, count int // events per call, and calls per run
	before      int // events in the log at the start; noLog means there is no log
	peer        int // index of the case to compare with
	goal        float64
	open        func(place string) (add store, stop func() error, err error)
}

const noLog = -1

var appendCases = []appendCase{
	{"4 KiB written and synced", 1, 100, noLog, 0, 0, openDiskStore},
	{"bare SQLite, 100 rows a transaction", 100, 20, 0, 1, 0, openBareStore},
	{"journal, 100 events an append", 100, 20, 0, 1, goalAppend, openJournalStore},
	{"bare SQLite, one row a transaction", 1, 100, 0, 3, 0, openBareStore},
	{"journal, one event an append", 1, 100, 0, 3, goalAppend, openJournalStore},
	{"engine, one caller, one event a command", 1, 100, 1, 3, 0, openEngineStore},
	{fmt.Sprintf("engine, %d callers", callers), 16 * callers, 1, 1, 5, goalCallers,
		openEngineStore},
	{"engine, one caller, remembering what it applied", 1, 100, 1, 5, goalMemory,
		openRememberingStore},
	{fmt.Sprintf("engine, %d callers, remembering what it applied", callers), 16 * callers, 1, 1, 6,
		goalMemory, openRememberingStore},
}

func compareAppend(dir string, s settings) error {
	return raceAppends("Durable append", appendCases, shortRounds*s.rounds,
		func(i int) (string, error) { return folderIn(dir, fmt.Sprint(i)) })
}

// raceAppends runs the cases, each at its own place, and prints how fast they are.
func raceAppends(title string, cases []appendCase, rounds int,
	place func(i int) (string, error)) error {
	most := 0
	for _, c := range cases {
		most = max(most, c.size*c.count)
	}
	events := sealedEvents(rounds * most)
	var racers []*racer
	var checks []func() error
	for i, c := range cases {
		at, err := place(i)
		if err != nil {
			return err
		}
		add, stop, err := c.open(at)
		if err != nil {
			return fmt.Errorf("%s: %w", c.name, err)
		}
		rest := events
		racers = append(racers, &racer{name: c.name, amount: c.size * c.count, run: func() error {
			for range c.count {
				if err := add(rest[:c.size]); err != nil {
					return err
				}
				rest = rest[c.size:]
			}
			return nil
		}})
		checks = append(checks, stop)
		if c.before != noLog {
			checks = append(checks,
				func() error { return checkLog(at, c.before+rounds*c.size*c.count) })
		}
	}
	if err := race(title, rounds, racers...); err != nil {
		return err
	}
	printAppends(title, cases, racers, rounds)
	for _, check := range checks {
		if err := check(); err != nil {
			return err
		}
	}
	return nil
}

func printAppends(title string, cases []appendCase, racers []*racer, rounds int) {
	var t table
	t.row("durable append", "a second", "slowest–fastest", "×", "as fast as", "goal")
	for i, c := range cases {
		cells := append(racers[i].cells(1), "", "", "")
		if i != c.peer {
			times := racers[i].times(racers[c.peer])
			cells[3], cells[4] = fmt.Sprintf("%.2f", times), cases[c.peer].name
			if c.goal > 0 {
				cells[5] = formatGoal(fmt.Sprintf("≥ %g ×", c.goal), times >= c.goal)
			}
		}
		t.row(cells...)
	}
	t.print(fmt.Sprintf("%s (median of %d interleaved rounds)", title, rounds))
}

// sealedEvents returns the first n events of the workload.
func sealedEvents(n int) []signalbox.Event {
	w := newWorkload()
	events := w.write(n+maxEventsPerCommand, w.next)[:n]
	new(ledger.Tail).Seal(events)
	return events
}

// openJournalStore returns a store that seals and appends. Sealing is part of the measurement; it
// does not change events that are already sealed.
func openJournalStore(place string) (store, func() error, error) {
	j, err := openJournal(place)
	if err != nil {
		return nil, nil, err
	}
	var tail ledger.Tail
	return func(events []signalbox.Event) error {
		expected := tail.Seq
		tail.Seal(events)
		return j.Append(context.Background(), expected, events)
	}, j.Close, nil
}

// openEngineStore returns a store that executes one command, which appends one event, for each of
// the events. All callers run at the same time.
func openEngineStore(place string) (store, func() error, error) {
	b, err := openBox(place)
	if err != nil {
		return nil, nil, err
	}
	return commandStore(b), b.close, nil
}

// openRememberingStore is openEngineStore with an engine that remembers what it applied, as that of
// a box does.
func openRememberingStore(dir string) (store, func() error, error) {
	b, err := openBox(dir)
	if err != nil {
		return nil, nil, err
	}
	memory, err := applied.Open(filepath.Join(dir, applied.FileName), "bench")
	if err != nil {
		return nil, nil, err
	}
	b.engine.Close()
	if b.engine, err = engine.Open(context.Background(), b.journal,
		&engine.Options{Memory: memory}); err != nil {
		return nil, nil, err
	}
	return commandStore(b), func() error { return errors.Join(b.close(), memory.Close()) }, nil
}

// commandStore returns the store of openEngineStore.
func commandStore(b *benchBox) store {
	var opened atomic.Int64
	return func(events []signalbox.Event) error {
		callers := min(callers, len(events))
		return parallel(callers, func(int) error {
			for range len(events) / callers {
				c := rules.OpenWork{Work: workID(int(opened.Add(1))),
					Title: "Show the total of an order on its page", Actor: "operator"}
				if _, err := b.engine.Do(context.Background(), c); err != nil {
					return err
				}
			}
			return nil
		})
	}
}

// parallel calls f(0) to f(n-1) in n goroutines.
func parallel(n int, f func(i int) error) error {
	errs := make([]error, n)
	var group sync.WaitGroup
	for i := range errs {
		group.Go(func() { errs[i] = f(i) })
	}
	group.Wait()
	return errors.Join(errs...)
}

// disk is a file for synced writes, the minimal cost of every durable append.
type disk struct {
	*os.File
	page [4096]byte
}

func newDisk(dir string) (*disk, error) {
	file, err := os.Create(filepath.Join(dir, "disk"))
	return &disk{File: file}, err
}

func (d *disk) writePage() error {
	_, err := d.Write(d.page[:])
	return errors.Join(err, d.Sync())
}

func openDiskStore(dir string) (store, func() error, error) {
	d, err := newDisk(dir)
	return func([]signalbox.Event) error { return d.writePage() }, d.Close, err
}
