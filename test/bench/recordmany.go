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

	leastEvents = 20_000 // of a log that has snapshots
	longRounds  = 3      // at most, of what takes seconds
	backlog     = 100    // of work that nobody has claimed
)

// longCase is something to do with a long log, in a process of its own.
type longCase struct {
	name     string
	goal     float64 // seconds; 0 is none
	snapshot []byte  // nil is none
	task     string
	number   int

	seconds, cores []float64
	resident       int64
}

// measureManyEvents makes a log of many events, and measures what is done with one: starts, verification, a command.
func measureManyEvents(dir string, s settings) error {
	add, stop, err := openJournalStore(dir)
	if err != nil {
		return err
	}
	a := newAuthor()
	start := time.Now()
	if err := a.writeTo(add, s.events/8*7); err != nil {
		return err
	}
	took := time.Since(start)
	// The engine saves the next one when an eighth of the log is newer, so none in use is older in proportion.
	oldest, err := makeSnapshot(dir)
	if err != nil {
		return err
	}
	start = time.Now()
	if err := errors.Join(a.writeTo(add, s.events), stop()); err != nil {
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
	events, size := a.state.Seq(), database.Size()
	fmt.Printf("\nLog: %d events about %d work items, written in %.0f s by rules, ledger and journal in appends of 1,000; %d MB on disk, %d bytes an event; snapshot %d MB.\n",
		events, a.opened, took.Seconds(), size/megabyte, size/int64(events), len(newest)/megabyte)
	return compareLong(dir, events, min(s.rounds, longRounds), []*longCase{
		{name: "start without a snapshot", goal: goalStart, task: "start"},
		{name: "start from the oldest snapshot, an eighth of the log to fold", goal: goalStartSnapshot, snapshot: oldest, task: "start"},
		{name: "start from a snapshot of the whole log", goal: goalStartSnapshot, snapshot: newest, task: "start"},
		{name: "verify, one worker", snapshot: newest, task: "verify", number: 1},
		{name: "verify, two workers", snapshot: newest, task: "verify", number: 2},
		{name: "a command: open, claim, close", snapshot: newest, task: "claim", number: 1},
	})
}

// compareLong runs the cases in turn. None may see fewer events than there were before.
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
			goal = verdict(fmt.Sprintf("< %g s", c.goal), seconds < c.goal)
		}
		t.row(c.name, fmt.Sprintf("%.2f", seconds), fmt.Sprintf("%.2f", median(c.cores)), resident, goal)
	}
	t.print(fmt.Sprintf("A long log: whole processes, from start to end (median of %d interleaved rounds)", rounds))
	return nil
}

// run returns how many events the child saw.
func (c *longCase) run(dir string, events uint64) (uint64, error) {
	if err := putSnapshot(dir, c.snapshot); err != nil {
		return 0, err
	}
	start := time.Now()
	child, err := startChild(c.task, dir, c.number)
	if err != nil {
		return 0, err
	}
	told, err := child.hear()
	if err := errors.Join(err, child.Wait()); err != nil {
		return 0, err
	}
	seconds, cpu := time.Since(start).Seconds(), child.ProcessState.UserTime()+child.ProcessState.SystemTime()
	if told.Events < events {
		return 0, fmt.Errorf("%d events, want %d", told.Events, events)
	}
	c.seconds, c.cores = append(c.seconds, seconds), append(c.cores, cpu.Seconds()/seconds)
	c.resident = max(c.resident, told.Resident)
	return told.Events, nil
}

// makeSnapshot returns the snapshot that an engine saves when it has folded the whole log.
func makeSnapshot(dir string) ([]byte, error) {
	if err := putSnapshot(dir, nil); err != nil {
		return nil, err
	}
	b, err := openBox(dir)
	if err != nil {
		return nil, err
	}
	if err := b.close(); err != nil {
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

// writeTo goes on until the log has about so many events; the last are a backlog.
func (a *author) writeTo(add store, events int) error {
	for told := 0; int(a.state.Seq())+backlog < events; {
		if err := add(a.write(journal.MaxAppend, a.next)); err != nil {
			return err
		}
		if hundreds := int(a.state.Seq()) / 100_000; hundreds > told {
			told = hundreds
			progress("many events: %d of %d", a.state.Seq(), events)
		}
	}
	return add(a.write(backlog, a.backlog))
}
