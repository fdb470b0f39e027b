package main

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"signalbox/internal/config"
	"signalbox/internal/core/engine"
	"signalbox/internal/core/journal"
	"signalbox/internal/core/journal/driver"
	"signalbox/internal/core/journal/nats"
	"signalbox/internal/core/journal/postgres"
	"signalbox/internal/core/journal/sqlite"
	"signalbox/internal/core/rules"
	"signalbox/ledger"
)

// compareRecord measures the ledger: appends, verification, the latency until a waiting process
// sees an event, and long logs. After a wrong result it continues with the next section.
func compareRecord(s settings) error {
	return s.inFolder("record", func(dir string) error {
		with := func(measure func(dir string, s settings) error) func(string) error {
			return func(dir string) error { return measure(dir, s) }
		}
		return measureAll(dir, []section{
			{"append", with(compareAppend)},
			{"verify", with(compareVerify)},
			{"hand-over", with(timeHandOver)},
			{"wake", with(timeWake)},
			{"many events", with(measureManyEvents)},
		})
	})
}

func folderIn(dir, name string) (string, error) {
	dir = filepath.Join(dir, name)
	return dir, os.Mkdir(dir, 0o700)
}

// benchBox is a journal with an engine, without the rest of a box.
type benchBox struct {
	journal journal.Journal
	engine  *engine.Engine
}

// openBox opens the box at a place, and creates it if necessary.
func openBox(place string) (*benchBox, error) {
	j, err := openJournal(place)
	if err != nil {
		return nil, err
	}
	e, err := engine.Open(context.Background(), j, nil)
	if err != nil {
		return nil, errors.Join(err, j.Close())
	}
	b := &benchBox{j, e}
	if e.Tail().Seq == 0 {
		if _, err := e.Do(context.Background(),
			rules.OpenBox{Box: "bench", Actor: "operator"}); err != nil {
			return nil, errors.Join(err, b.close())
		}
	}
	return b, nil
}

func (b *benchBox) close() error { return errors.Join(b.engine.Close(), b.journal.Close()) }

// openAndClose opens a box as openBox does, and closes it.
func openAndClose(place string) error {
	b, err := openBox(place)
	if err != nil {
		return err
	}
	return b.close()
}

// openJournal opens the journal at a place, and creates it if necessary. A place is a folder for
// SQLite, or the address of a database as in the setting journal of a box.
func openJournal(place string) (journal.Journal, error) {
	ctx := context.Background()
	if !strings.Contains(place, "://") {
		if err := os.MkdirAll(place, 0o700); err != nil {
			return nil, err
		}
		return sqlite.Open(ctx, place, &sqlite.Options{Create: true})
	}
	log, err := openLog(ctx, place)
	if err != nil {
		return nil, err
	}
	return &driver.LocalSnapshot{Log: log, Path: filepath.Join(os.Getenv(snapshotsVariable),
		fmt.Sprintf("%x", sha256.Sum256([]byte(place))))}, nil
}

// createJournal makes the journal at a place.
func createJournal(place string) error {
	j, err := openJournal(place)
	if err != nil {
		return err
	}
	return j.Close()
}

// openLog opens the log at the address of a database.
func openLog(ctx context.Context, place string) (journal.Log, error) {
	if strings.HasPrefix(place, clusterScheme) {
		return openInCluster(ctx, place, false, func(c *nats.Cluster) { c.Guest = true })
	}
	if config.JournalScheme(place) == "nats" {
		return nats.Open(ctx, place, nats.Options{Create: true})
	}
	address, schema, err := config.PostgresAddress(place)
	if err != nil {
		return nil, err
	}
	return postgres.Open(ctx, address, postgres.Options{Schema: schema, Create: true})
}

// snapshotsVariable is the folder with the snapshots of the logs in databases, for the processes
// that a benchmark starts too.
const snapshotsVariable = "SIGNALBOX_BENCH_SNAPSHOTS"

// makeSnapshotFolder makes the folder for snapshots below dir. The caller removes it.
func makeSnapshotFolder(dir string) (folder string, err error) {
	if folder, err = os.MkdirTemp(dir, "signalbox-bench-snapshots-"); err == nil {
		err = os.Setenv(snapshotsVariable, folder)
	}
	return folder, err
}

// Names of files in the folder of a journal.
const (
	ledgerFile   = "ledger.db"
	snapshotFile = "snapshot"
)

// checkLog returns an error unless the log at a place verifies and has the wanted number of events.
func checkLog(place string, want int) error {
	j, err := openJournal(place)
	if err != nil {
		return err
	}
	defer j.Close()
	events, err := verifyJournal(j, 0)
	if err == nil && events != uint64(want) {
		err = fmt.Errorf("the log has %d events, want %d", events, want)
	}
	return err
}

// verifyJournal returns the number of events in a journal, or an error if they do not verify.
func verifyJournal(j journal.Journal, workers int) (events uint64, err error) {
	head, err := j.Head(context.Background())
	if err != nil {
		return 0, err
	}
	return verify(head, j.Read, workers)
}

func verify(head uint64, read ledger.ReadFunc, workers int) (events uint64, err error) {
	report, err := ledger.Verify(context.Background(), head, read,
		&ledger.VerifyOptions{Workers: workers})
	if err == nil && !report.OK {
		err = errors.New("the log does not verify: " + report.Reason)
	}
	return report.Events, err
}
