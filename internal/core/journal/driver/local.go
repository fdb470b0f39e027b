package driver

import (
	"context"
	"fmt"
	"os"

	"signalbox/internal/core/journal"
	"signalbox/internal/durable"
)

// maxLocalSnapshot is the size up to which the snapshot of a machine is read.
const maxLocalSnapshot = 1 << 30

// LocalSnapshot is a log that several machines share, with a snapshot of this machine in a file:
// commands trust the snapshot, so a user who may only append events must not be able to replace
// that of another machine.
type LocalSnapshot struct {
	journal.Log
	// Path is the file.
	Path string
	// ReadOnly makes SaveSnapshot do nothing.
	ReadOnly bool
}

var (
	_ journal.Journal  = (*LocalSnapshot)(nil)
	_ journal.Expecter = (*LocalSnapshot)(nil)
)

// Expect passes on which event the log had.
func (j *LocalSnapshot) Expect(seq uint64) {
	if e, ok := j.Log.(journal.Expecter); ok {
		e.Expect(seq)
	}
}

// SaveSnapshot does nothing while another process of this machine saves one.
func (j *LocalSnapshot) SaveSnapshot(ctx context.Context, s journal.Snapshot) error {
	if j.ReadOnly || ctx.Err() != nil {
		return ctx.Err()
	}
	if err := j.save(s); err != nil {
		return fmt.Errorf("save the snapshot: %w", err)
	}
	return nil
}

func (j *LocalSnapshot) save(s journal.Snapshot) error {
	lock, err := os.OpenFile(j.Path+".lock", os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return err
	}
	defer lock.Close()
	if locked, err := durable.TryLockFile(lock); err != nil || !locked {
		return err
	}
	return WriteSnapshot(j.Path, s, maxLocalSnapshot)
}

// LoadSnapshot returns the snapshot in the file.
func (j *LocalSnapshot) LoadSnapshot(ctx context.Context) (journal.Snapshot, error) {
	if err := ctx.Err(); err != nil {
		return journal.Snapshot{}, err
	}
	return ReadSnapshot(j.Path, maxLocalSnapshot)
}
