package sqlite

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"os"

	"signalbox"
	"signalbox/internal/core/journal"
)

// A snapshot file consists of a magic text, the SHA-256 of the rest, the sequence number in eight bytes, big-endian, the hash of
// that event, and the state.
const (
	snapshotMagic  = "signalbox snapshot 1\n"
	snapshotHeader = len(snapshotMagic) + sha256.Size + 8 + len(signalbox.Hash{})
)

// SaveSnapshot replaces the snapshot unless the stored one is newer. The file is not synced: after a power failure its checksum
// reveals whether it is complete.
func (j *Journal) SaveSnapshot(ctx context.Context, s journal.Snapshot) error {
	err := j.enter(ctx)
	if err == nil {
		err = j.saveSnapshot(ctx, s)
		j.leave()
	}
	if err != nil {
		return fmt.Errorf("save the snapshot: %w", explain(err))
	}
	return nil
}

func (j *Journal) saveSnapshot(ctx context.Context, s journal.Snapshot) error {
	if j.opts.ReadOnly {
		return nil // it is only a cache
	}
	if err := j.snapshots.enter(ctx, j); err != nil {
		return err
	}
	defer j.snapshots.leave()
	path := j.path(snapshotFile)
	if stored, err := j.readSnapshot(); err == nil && stored.Seq > s.Seq {
		return nil
	}
	// The temporary name is fixed, so that killed processes do not leave many files. The lock prevents concurrent use.
	if err := os.WriteFile(path+".new", encodeSnapshot(s), 0o600); err != nil {
		return err
	}
	return os.Rename(path+".new", path)
}

// LoadSnapshot returns the snapshot, or ErrNoSnapshot if there is none or it is damaged.
func (j *Journal) LoadSnapshot(ctx context.Context) (journal.Snapshot, error) {
	if err := j.enter(ctx); err != nil {
		return journal.Snapshot{}, fmt.Errorf("load the snapshot: %w", err)
	}
	defer j.leave()
	s, err := j.readSnapshot()
	if err != nil {
		return journal.Snapshot{}, fmt.Errorf("load the snapshot: %w: %w", journal.ErrNoSnapshot, err)
	}
	return s, nil
}

// readSnapshot does not read a file that is much larger than the database, because the state is computed from it.
func (j *Journal) readSnapshot() (journal.Snapshot, error) {
	info, err := os.Stat(j.path(snapshotFile))
	if err != nil {
		return journal.Snapshot{}, err
	}
	limit := int64(snapshotSlack)
	for _, name := range []string{ledgerFile, ledgerFile + "-wal"} {
		if log, err := os.Stat(j.path(name)); err == nil {
			limit += 4 * log.Size()
		}
	}
	if !info.Mode().IsRegular() || info.Size() > limit {
		return journal.Snapshot{}, fmt.Errorf("not a regular file of at most %d bytes", limit)
	}
	file, err := os.ReadFile(j.path(snapshotFile))
	if err != nil {
		return journal.Snapshot{}, err
	}
	return decodeSnapshot(file)
}

// snapshotSlack is the size of a snapshot that is always read.
const snapshotSlack = 64 << 20

func encodeSnapshot(s journal.Snapshot) []byte {
	file := make([]byte, 0, snapshotHeader+len(s.State))
	file = append(file, snapshotMagic...)
	file = append(file, make([]byte, sha256.Size)...)
	file = binary.BigEndian.AppendUint64(file, s.Seq)
	file = append(file, s.Hash[:]...)
	file = append(file, s.State...)
	sum, content := file[len(snapshotMagic):][:sha256.Size], file[len(snapshotMagic)+sha256.Size:]
	digest := sha256.Sum256(content)
	copy(sum, digest[:])
	return file
}

func decodeSnapshot(file []byte) (s journal.Snapshot, err error) {
	if len(file) < snapshotHeader || !bytes.HasPrefix(file, []byte(snapshotMagic)) {
		return s, errors.New("unknown snapshot format")
	}
	sum, content := file[len(snapshotMagic):][:sha256.Size], file[len(snapshotMagic)+sha256.Size:]
	if digest := sha256.Sum256(content); !bytes.Equal(sum, digest[:]) {
		return s, errors.New("wrong checksum")
	}
	s.Seq = binary.BigEndian.Uint64(content)
	s.Hash = signalbox.Hash(content[8:])
	s.State = content[8+len(s.Hash):]
	return s, nil
}
