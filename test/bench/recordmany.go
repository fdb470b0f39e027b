package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"signalbox/internal/core/journal"
)

const (
	goalStart         = 15.0 // seconds
	goalStartSnapshot = 2.0

	minEvents  = 20_000 // of a log that has snapshots
	longRounds = 3      // maximum for measurements that take seconds
	backlog    = 100    // unclaimed work items at the end of the log
)

// longCase is a measurement on a long log, in its own process.
type longCase struct {
	name     string
	goal     float64 // seconds; 0 means none
	snapshot []byte  // nil means none
	task     string
	number   int

	seconds, cores []float64
	resident       int64
}

// measureManyEvents creates a long log, and measures starts, verification and a command on it.
func measureManyEvents(dir string, s settings) error {
	add, stop, err := openJournalStore(dir)
	if err != nil {
		return err
	}
	w := newWorkload()
	start := time.Now()
	if err := w.writeTo(add, s.events/8*7); err != nil {
		return err
	}
	took := time.Since(start)
	// The engine saves a snapshot when an eighth of the log is newer than the last one, so a
	// snapshot is never older than this.
	oldest, err := makeSnapshot(dir)
	if err != nil {
		return err
	}
	start = time.Now()
	if err := errors.Join(w.writeTo(add, s.events), stop()); err != nil {
		return err
	}
	took += time.Since(start)
	newest, err := makeSnapshot(dir)
	if err != nil {
		return err
	}
	database, err := os.Stat(filepath.Join(dir, ledgerFile))
	if err != nil {
		return err
	}
	events, size := w.state.Seq(), database.Size()
	fmt.Printf("\nLog: %d events about %d work items, written in %.0f s by rules, ledger and journal in appends of 1,000; %d MB on disk, %d bytes an event; snapshot %d MB.\n",
		events, w.opened, took.Seconds(), size/megabyte, size/int64(events), len(newest)/megabyte)
	return compareLong(dir, events, min(s.rounds, longRounds), []*longCase{
		{name: "start without a snapshot", goal: goalStart, task: "start"},
		{name: "start from the oldest snapshot, an eighth of the log to fold",
			goal: goalStartSnapshot, snapshot: oldest, task: "start"},
		{name: "start from a snapshot of the whole log", goal: goalStartSnapshot, snapshot: newest,
			task: "start"},
		{name: "verify, one worker", snapshot: newest, task: "verify", number: 1},
		{name: "verify, two workers", snapshot: newest, task: "verify", number: 2},
		{name: "a command: open, claim, close", snapshot: newest, task: "claim", number: 1},
	})
}

// compareLong runs the cases in turn. Each must see at least as many events as the one before.
func compareLong(dir string, events uint64, rounds int, cases []*longCase) (err error) {
	for round := range rounds {
		for _, c := range cases {
			progress("many events: %s, round %d of %d", c.name, round+1, rounds)
			if events, err = c.run(dir, events); err != nil {
				return fmt.Errorf("%s: %w", c.name, err)
			}
		}
	}
	var t table
	t.row("on that log", "seconds", "cores in use", "peak resident MB", "goal")
	for _, c := range cases {
		seconds, resident, goal := median(c.seconds), "–", ""
		if c.resident > 0 {
			resident = fmt.Sprintf("%.0f", float64(c.resident)/megabyte)
		}
		if c.goal > 0 {
			goal = formatGoal(fmt.Sprintf("< %g s", c.goal), seconds < c.goal)
		}
		t.row(c.name, fmt.Sprintf("%.2f", seconds), fmt.Sprintf("%.2f", median(c.cores)), resident,
			goal)
	}
	t.print(fmt.Sprintf(
		"A long log: whole processes, from start to end (median of %d interleaved rounds)", rounds))
	return nil
}

// run runs the case in a child, and returns the number of events that the child saw.
func (c *longCase) run(dir string, events uint64) (uint64, error) {
	if err := putSnapshot(dir, c.snapshot); err != nil {
		return 0, err
	}
	return c.measure(dir, events)
}

// measure is run with the snapshot that the log has.
func (c *longCase) measure(place string, events uint64) (uint64, error) {
	start := time.Now()
	r, process, err := runChild(c.task, place, c.number)
	if err != nil {
		return 0, err
	}
	seconds, cpu := time.Since(start).Seconds(), process.UserTime()+process.SystemTime()
	if r.Events < events {
		return 0, fmt.Errorf("%d events, want %d", r.Events, events)
	}
	c.seconds, c.cores = append(c.seconds, seconds), append(c.cores, cpu.Seconds()/seconds)
	c.resident = max(c.resident, r.Resident)
	return r.Events, nil
}

// makeSnapshot returns the snapshot of the whole log that an engine saves.
func makeSnapshot(dir string) ([]byte, error) {
	if err := putSnapshot(dir, nil); err != nil {
		return nil, err
	}
	if err := openAndClose(dir); err != nil {
		return nil, err
	}
	return os.ReadFile(filepath.Join(dir, snapshotFile))
}

// putSnapshot replaces the snapshot, or removes it.
func putSnapshot(dir string, snapshot []byte) error {
	name := filepath.Join(dir, snapshotFile)
	if snapshot == nil {
		return os.RemoveAll(name)
	}
	return os.WriteFile(name, snapshot, 0o600)
}

// writeTo appends until the log has about the given number of events. The last ones are a backlog
// of open work.
func (w *workload) writeTo(add store, events int) error {
	for reported := 0; int(w.state.Seq())+backlog < events; {
		if err := add(w.write(journal.MaxAppend, w.next)); err != nil {
			return err
		}
		if hundreds := int(w.state.Seq()) / 100_000; hundreds > reported {
			reported = hundreds
			progress("many events: %d of %d", w.state.Seq(), events)
		}
	}
	return add(w.write(backlog, w.backlog))
}
