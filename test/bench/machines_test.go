package main

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"signalbox/internal/core/journal"
	"signalbox/internal/testkit/must"
	"signalbox/internal/testkit/pgserver"
)

// startDatabases starts every database that this machine has.
func startDatabases(t *testing.T) map[string]database {
	t.Helper()
	started := map[string]database{}
	for _, d := range databases {
		if d.name == "PostgreSQL" && !pgserver.Available(t) {
			continue
		}
		db, err := d.start("")
		must.Succeed(t, err)
		t.Cleanup(func() {
			if err := db.stop(); err != nil {
				t.Error(err)
			}
		})
		started[d.name] = db
	}
	return started
}

func TestDatabases(t *testing.T) {
	for name, db := range startDatabases(t) {
		t.Run(name, func(t *testing.T) {
			t.Run("bare stores are read by a journal", func(t *testing.T) { checkBareStore(t, db) })
			t.Run("hand-over", func(t *testing.T) {
				var w stopwatch
				var rivals []time.Duration
				must.Succeed(t, handOver(db.place("hand_over"), true, 3, &w, db.ping,
					&rivals))
				if len(w.took) != 3 || len(rivals) != 3 {
					t.Errorf("took %v, rivals %v", w.took, rivals)
				}
			})
			t.Run("a long log has an old snapshot",
				func(t *testing.T) { checkLong(t, db.place("long")) })
			t.Run("workers", func(t *testing.T) { checkCrowd(t, db) })
		})
	}
}

func checkBareStore(t *testing.T, db database) {
	events := sealedEvents(31)
	place := db.place("bare")
	add, stop, err := db.bare(place)
	must.Succeed(t, err)
	must.Succeed(t, errors.Join(add(events[:1]), add(events[1:30]), add(events[30:]),
		stop()))
	j, err := openJournal(place)
	must.Succeed(t, err)
	got, err := j.Read(t.Context(), 0, 100)
	must.Succeed(t, errors.Join(err, j.Close()))
	if diff := cmp.Diff(events, got); diff != "" {
		t.Errorf("stored (-want +got):\n%s", diff)
	}
}

func checkLong(t *testing.T, place string) {
	must.Succeed(t, writeLong(place, 3000))
	j, err := openJournal(place)
	must.Succeed(t, err)
	defer j.Close()
	head, err := j.Head(t.Context())
	must.Succeed(t, err)
	s, err := j.LoadSnapshot(t.Context())
	if err != nil || s.Seq >= head || head-s.Seq > journal.MaxAppend {
		t.Errorf("the snapshot is of event %d, the last event is %d (%v)", s.Seq, head, err)
	}
	c := longCase{task: "start"}
	if _, err := c.measure(place, head); err != nil || len(c.seconds) != 1 {
		t.Errorf("start took %v seconds (%v)", c.seconds, err)
	}
}

func checkCrowd(t *testing.T, db database) {
	c := &crowd{workers: 2, places: []string{db.place("crowd")}}
	must.Succeed(t, openAndClose(c.places[0]))
	must.Succeed(t, c.run(1, db.connections))
	if err := c.check(); err != nil || len(c.took) == 0 || c.rate <= 0 {
		t.Errorf("%d commands, %g a second (%v)", len(c.took), c.rate, err)
	}
	if _, isFolder := db.(sqliteDatabase); !isFolder &&
		(c.connections < c.workers || c.connections > 10*c.workers) {
		t.Errorf("%d connections of %d processes", c.connections, c.workers)
	}
	c.took = append(c.took, make([]time.Duration, 1_000_000)...)
	if err := c.check(); err == nil {
		t.Error("missing events were not noticed")
	}
}

// TestCluster checks that workers on each node append to the same log.
func TestCluster(t *testing.T) {
	c := &cluster{}
	defer c.stop()
	must.Succeed(t, c.start(t.TempDir()))
	alone, several := &crowd{workers: 1, places: c.places}, &crowd{workers: 3, places: c.places}
	times, err := compareCrowd(alone, several, 1)
	must.Succeed(t, err)
	if times <= 0 || len(alone.took) == 0 || len(several.took) == 0 {
		t.Errorf("%d and %d commands, %g times as many a second", len(alone.took),
			len(several.took), times)
	}
	for _, place := range c.places {
		all := &crowd{places: []string{place}, took: slices.Concat(alone.took, several.took)}
		must.Succeed(t, all.check())
	}
}

// TestPostgresWaitsForTheDisk checks that the comparison is of durable appends.
func TestPostgresWaitsForTheDisk(t *testing.T) {
	pgserver.Need(t)
	db, err := startPostgres("")
	must.Succeed(t, err)
	defer db.stop()
	conn, _, err := db.(postgresDatabase).connect(db.place("any"))
	must.Succeed(t, err)
	defer conn.Close(context.Background())
	for _, setting := range []string{"fsync", "synchronous_commit", "full_page_writes"} {
		var value string
		if err := conn.QueryRow(t.Context(), "SHOW "+setting).Scan(&value); err != nil ||
			value != "on" {
			t.Errorf("%s is %q, want on (%v)", setting, value, err)
		}
	}
}
