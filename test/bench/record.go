package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"signalbox/internal/core/engine"
	"signalbox/internal/core/journal"
	"signalbox/internal/core/journal/sqlite"
	"signalbox/internal/core/rules"
	"signalbox/ledger"
)

// compareRecord measures the ledger: appends, verification, the latency until a waiting process sees an event, and long logs.
// After a wrong result it continues with the next section.
func compareRecord(s settings) error {
	dir, err := os.MkdirTemp(s.dir, "signalbox-bench-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	var wrong []error
	for _, section := range []struct {
		name    string
		measure func(dir string, s settings) error
	}{
		{"append", compareAppend},
		{"verify", compareVerify},
		{"hand-over", timeHandOver},
		{"wake", timeWake},
		{"many events", measureManyEvents},
	} {
		folder, err := folderIn(dir, section.name)
		if err == nil {
			err = section.measure(folder, s)
		}
		if err != nil {
			wrong = append(wrong, fmt.Errorf("%s: %w", section.name, err))
		}
	}
	return errors.Join(wrong...)
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

// openBox opens the box in a folder, and creates it if necessary.
func openBox(dir string) (*benchBox, error) {
	j, err := openJournal(dir)
	if err != nil {
		return nil, err
	}
	e, err := engine.Open(context.Background(), j, nil)
	if err != nil {
		return nil, errors.Join(err, j.Close())
	}
	b := &benchBox{j, e}
	if e.Tail().Seq == 0 {
		if _, err := e.Do(context.Background(), rules.OpenBox{Box: "bench", Actor: "operator"}); err != nil {
			return nil, errors.Join(err, b.close())
		}
	}
	return b, nil
}

func (b *benchBox) close() error { return errors.Join(b.engine.Close(), b.journal.Close()) }

// openJournal opens the journal in a folder, and creates it if necessary.
func openJournal(dir string) (*sqlite.Journal, error) {
	return sqlite.Open(context.Background(), dir, &sqlite.Options{Create: true})
}

// Names of files in the folder of a journal.
const (
	ledgerFile   = "ledger.db"
	snapshotFile = "snapshot"
)

// checkLog returns an error unless the log in a folder verifies and has the wanted number of events.
func checkLog(dir string, want int) error {
	j, err := openJournal(dir)
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
	report, err := ledger.Verify(context.Background(), head, read, &ledger.VerifyOptions{Workers: workers})
	if err == nil && !report.OK {
		err = errors.New("the log does not verify: " + report.Reason)
	}
	return report.Events, err
}
