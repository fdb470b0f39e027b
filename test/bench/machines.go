package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"signalbox/internal/config"
)

const (
	goalMachines = 0.7 // times the same without a journal

	machineSamples = 60 // of each round, because each takes several commits
)

// database is a running database with the journals of any number of boxes.
type database interface {
	// place returns where the journal of a box is, as for openJournal. It makes no journal.
	place(box string) string
	// bare returns a store that appends to the journal at a place as a careful program would
	// without it: with the same durability, and without checks.
	bare(place string) (add store, stop func() error, err error)
	// ping makes one round trip, on a connection that is open.
	ping() error
	// connections returns the number of connections that processes of signalbox have now.
	connections() (int, error)
	stop() error
}

// databases are the databases that are measured. The first is that of one machine, for comparison.
var databases = []struct {
	name, rival string
	shared      bool // by several machines
	merges      bool // whether merges are measured; the rest of a run hardly depends on the database
	start       func(dir string) (database, error)
}{
	{"SQLite", "bare SQLite", false, true, startSQLite},
	{"PostgreSQL", "bare INSERT", true, true, startPostgres},
	{"JetStream, one node", "bare publish", true, false, startNATS(1)},
	{"JetStream, three nodes", "bare publish", true, false, startNATS(3)},
}

// compareMachines measures the databases that several machines share. After a wrong result it
// continues with the next section.
func compareMachines(s settings) error {
	var wrong []error
	if err := compareCluster(s); err != nil {
		wrong = append(wrong, fmt.Errorf("cluster: %w", err))
	}
	for _, d := range databases {
		db, err := d.start(s.dir)
		if err != nil {
			wrong = append(wrong, fmt.Errorf("%s: %w", d.name, err))
			continue
		}
		add := func(section string, err error) {
			if err != nil {
				wrong = append(wrong, fmt.Errorf("%s: %s: %w", d.name, section, err))
			}
		}
		if d.shared {
			add("append", compareMachineAppends(d.name, d.rival, db, s))
			add("hand-over", timeMachineHandOver(d.name, d.rival, db, s))
			add("start", timeMachineStart(d.name, db, s))
		}
		add("workers", compareCrowds(d.name, db, s))
		if d.merges {
			add("merges", compareMerges(d.name, db, d.shared, s))
		}
		add("stop", db.stop())
	}
	return errors.Join(wrong...)
}

func compareMachineAppends(name, rival string, db database, s settings) error {
	cases := []appendCase{
		{rival + ", 100 events at once", 100, 10, 0, 0, 0, db.bare},
		{"journal, 100 events an append", 100, 10, 0, 0, goalMachines, openJournalStore},
		{rival + ", one event", 1, 1000, 0, 2, 0, db.bare},
		{"journal, one event an append", 1, 1000, 0, 2, goalMachines, openJournalStore},
		{"engine, one caller, one event a command", 1, 1000, 1, 2, 0, openEngineStore},
		{fmt.Sprintf("engine, %d callers", callers), 16 * callers, 1, 1, 4, 0, openEngineStore},
	}
	return raceAppends("Durable append to "+name, cases, shortRounds*s.rounds,
		func(i int) (string, error) { return db.place(fmt.Sprintf("append_%d", i)), nil })
}

// timeMachineHandOver measures the time from submitting an exit signal until a worker in another
// process has claimed the work.
func timeMachineHandOver(name, rival string, db database, s settings) error {
	progress("%s: hand-over", name)
	samples := machineSamples * s.rounds
	add, stop, err := db.bare(db.place("hand_over_bare"))
	if err != nil {
		return err
	}
	events := sealedEvents(samples)
	next := 0
	tripAndCommit := func() error {
		next++
		return errors.Join(db.ping(), add(events[next-1:next]))
	}
	var across stopwatch
	var rivals []time.Duration
	if err := handOver(db.place("hand_over"), true, samples, &across, tripAndCommit,
		&rivals); err != nil {
		return err
	}
	stored := make([]time.Duration, samples)
	for i := range stored {
		stored[i] = across.took[i] - across.called[i]
	}
	printLatencies("Hand-over across machines with "+name,
		"until a worker in another process has claimed the work",
		latencies{"from submitting the exit signal", across.took, 0},
		latencies{"from its answer, when it is stored", stored, 0},
		latencies{"a round trip and a " + rival + ", meanwhile", rivals, 0},
		latencies{fmt.Sprintf("a pause of %v is too long by", idle), across.overslept, 0})
	fmt.Printf("\nFrom its answer: %.1f × a round trip and a %s at p50, %.1f × at p99.\n",
		ratio(stored, rivals, 50), rival, ratio(stored, rivals, 99))
	return stop()
}

// ratio returns how many times as long as other some samples took, at a percentile.
func ratio(samples, other []time.Duration, percent int) float64 {
	return percentile(samples, percent).Seconds() / percentile(other, percent).Seconds()
}

// timeMachineStart measures processes on a machine that has nothing but the configuration of a box
// whose log is long.
func timeMachineStart(name string, db database, s settings) error {
	return s.withProgram("machine", func(dir, program string) error {
		return timeStarts(name, db, s, dir, program)
	})
}

func timeStarts(name string, db database, s settings, dir, program string) error {
	var t table
	t.row("whole processes", "seconds", "peak resident MB", "goal")
	for _, events := range []int{min(shortLog, s.events), s.events} {
		place := db.place(fmt.Sprintf("long_%d", events))
		progress("%s: a log of %d events", name, events)
		if err := writeLong(place, events); err != nil {
			return err
		}
		c := longCase{task: "start"}
		for range min(s.rounds, longRounds) {
			if _, err := c.measure(place, uint64(events-backlog)); err != nil {
				return err
			}
		}
		seconds := median(c.seconds)
		t.row(fmt.Sprintf("start from the oldest snapshot, %d events", events),
			fmt.Sprintf("%.3f", seconds), fmt.Sprintf("%.0f", float64(c.resident)/megabyte),
			formatGoal(fmt.Sprintf("< %g s", goalStartSnapshot), seconds < goalStartSnapshot))
		folder, err := folderIn(dir, fmt.Sprint(events))
		if err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(folder, config.FileName),
			fmt.Appendf(nil, "journal: %q\n", place), 0o600); err != nil {
			return err
		}
		if seconds, err = timeCommand(program, folder, s.rounds, "status"); err != nil {
			return err
		}
		t.row(fmt.Sprintf("status on another machine, %d events", events),
			fmt.Sprintf("%.3f", seconds), "–", "")
	}
	t.print(fmt.Sprintf("Starting with a log in %s (median of %d rounds)", name, s.rounds))
	return nil
}

// writeLong writes a log of n events with the oldest snapshot that an engine leaves.
func writeLong(place string, n int) error {
	add, stop, err := openJournalStore(place)
	if err != nil {
		return err
	}
	w := newWorkload()
	if err := w.writeTo(add, n-min(n/8, newestEvents)); err != nil {
		return err
	}
	// an engine saves a snapshot when it is closed
	return errors.Join(openAndClose(place), w.writeTo(add, n), stop())
}

// sqliteDatabase is a folder with boxes of one machine.
type sqliteDatabase struct{ dir string }

func startSQLite(dir string) (database, error) {
	dir, err := os.MkdirTemp(dir, "signalbox-bench-sqlite-")
	return sqliteDatabase{dir}, err
}

func (d sqliteDatabase) place(box string) string { return filepath.Join(d.dir, box) }

func (d sqliteDatabase) bare(place string) (store, func() error,
	error) {
	return openBareStore(place)
}

func (d sqliteDatabase) ping() error { return nil }

func (d sqliteDatabase) connections() (int, error) { return 0, nil }

func (d sqliteDatabase) stop() error { return os.RemoveAll(d.dir) }
