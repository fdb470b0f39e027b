package sqlite

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"testing"
	"time"

	"signalbox/internal/core/journal"
	"signalbox/internal/core/journal/driver"
	"signalbox/internal/durable"
	"signalbox/internal/testkit/must"
)

// holdQueue locks a queue as another process would.
func holdQueue(t *testing.T, path string) (release func()) {
	t.Helper()
	file, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err == nil {
		err = durable.LockFile(file)
	}
	must.Succeed(t, err)
	return func() {
		if err := file.Close(); err != nil {
			t.Error(err)
		}
	}
}

// TestCanceledWait cancels a waiting writer in every possible way; later ones must not be affected.
func TestCanceledWait(t *testing.T) {
	dir := closedBox(t, 1)
	j := open(t, dir, &Options{busyTimeout: 20 * time.Millisecond})
	release := holdQueue(t, j.path(queueFile))

	err := j.Append(t.Context(), 1, eventsAfter(1, 1, 10))
	wantError(t, err, "another process has locked", journal.ErrNotStored)
	wantError(t, err, "stop the signalbox process")

	j.opts.busyTimeout = time.Hour
	for range 3 {
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Millisecond)
		err = j.Append(ctx, 1, eventsAfter(1, 1, 10))
		cancel()
		if !errors.Is(err, context.DeadlineExceeded) || !errors.Is(err, journal.ErrNotStored) {
			t.Errorf("append while another process writes: %v", err)
		}
	}
	wantCount(t, j, 1) // reading continues

	release()
	holdQueue(t, j.path(queueFile))() // the canceled calls do not hold the lock
	if err := grow(t.Context(), j, 2, 10); err != nil {
		t.Errorf("append after the other process is done: %v", err)
	}
	wantCount(t, j, 3)
}

// TestSnapshotsQueue lets only one at a time save a snapshot.
func TestSnapshotsQueue(t *testing.T) {
	j := open(t, t.TempDir(), nil)
	release := holdQueue(t, j.path(snapshotLockFile))
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Millisecond)
	defer cancel()
	if err := j.SaveSnapshot(ctx, journal.Snapshot{Seq: 1}); !errors.Is(err,
		context.DeadlineExceeded) {
		t.Errorf("save while another process saves: %v", err)
	}
	if _, err := j.LoadSnapshot(t.Context()); !errors.Is(err, journal.ErrNoSnapshot) {
		t.Errorf("load: %v", err)
	}
	release()
	if err := j.SaveSnapshot(t.Context(), journal.Snapshot{Seq: 1}); err != nil {
		t.Error(err)
	}
}

// TestCloseEndsWaiting closes a journal while calls wait for another process.
func TestCloseEndsWaiting(t *testing.T) {
	dir := closedBox(t, 1)
	j := open(t, dir, nil)
	release := holdQueue(t, j.path(queueFile))
	defer release()
	ended := make(chan error)
	for range 2 { // one waits for the other process, one for the first
		go func() { ended <- j.Append(t.Context(), 1, eventsAfter(1, 1, 10)) }()
	}
	for len(j.appends.turn) > 0 {
		runtime.Gosched()
	}
	if err := j.Close(); err != nil {
		t.Error(err)
	}
	for range 2 {
		if err := <-ended; !errors.Is(err, driver.ErrClosed) ||
			!errors.Is(err, journal.ErrNotStored) {
			t.Errorf("an append that waited when the journal was closed: %v", err)
		}
	}
}

// TestBusyDatabase waits for another program that holds SQLite's own lock without queueing.
func TestBusyDatabase(t *testing.T) {
	dir := closedBox(t, 1)
	j := open(t, dir, &Options{busyTimeout: 10 * time.Millisecond})
	other, err := connect(filepath.Join(dir, ledgerFile), accessWrite)
	must.Succeed(t, err)
	defer other.close()
	must.Succeed(t, other.exec("BEGIN IMMEDIATE"))
	err = j.Append(t.Context(), 1, eventsAfter(1, 1, 10))
	wantError(t, err, "other processes keep the ledger locked", journal.ErrNotStored)

	ctx, cancel := context.WithCancel(t.Context())
	j.opts.busyTimeout = time.Hour
	ended := make(chan error)
	go func() { ended <- j.Append(ctx, 1, eventsAfter(1, 1, 10)) }()
	cancel()
	if err := <-ended; !errors.Is(err, context.Canceled) || !errors.Is(err, journal.ErrNotStored) {
		t.Errorf("append whose context ended: %v", err)
	}
	wantCount(t, j, 1)

	go func() { ended <- j.Append(t.Context(), 1, eventsAfter(1, 1, 10)) }()
	third, err := connect(filepath.Join(dir, ledgerFile), accessWrite)
	must.Succeed(t, err)
	defer third.close()
	for range 3 { // each try takes as long as SQLite waits, so the append must try more than once
		if err := third.exec("BEGIN IMMEDIATE"); !isBusy(err) {
			t.Fatalf("the database is not busy: %v", err)
		}
	}
	must.Succeed(t, other.exec("ROLLBACK"))
	if err := <-ended; err != nil {
		t.Errorf("append after the other program is done: %v", err)
	}
	wantCount(t, j, 2)
}
