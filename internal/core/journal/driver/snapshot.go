package driver

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"os"

	"signalbox"
	"signalbox/internal/core/journal"
)

// SnapshotSlack is the size of a snapshot that is always read.
const SnapshotSlack = 64 << 20

// A snapshot file consists of a magic text, the SHA-256 of the rest, the sequence number in eight
// bytes, big-endian, the hash of that event, and the state.
const (
	snapshotMagic  = "signalbox snapshot 1\n"
	snapshotHeader = len(snapshotMagic) + sha256.Size + 8 + len(signalbox.Hash{})
)

// WriteSnapshot replaces the snapshot in a file unless that is newer. The caller prevents
// concurrent use. The file is not synced: after a power failure its checksum reveals whether it is
// complete.
func WriteSnapshot(path string, s journal.Snapshot, limit int64) error {
	if stored, err := ReadSnapshot(path, limit); err == nil && stored.Seq > s.Seq {
		return nil
	}
	// The temporary name is fixed, so that killed processes do not leave many files.
	if err := os.WriteFile(path+".new", EncodeSnapshot(s), 0o600); err != nil {
		return err
	}
	return os.Rename(path+".new", path)
}

// ReadSnapshot returns the snapshot in a file, or ErrNoSnapshot if there is none, it is damaged, or
// it is larger than limit.
func ReadSnapshot(path string, limit int64) (journal.Snapshot, error) {
	s, err := readSnapshot(path, limit)
	if err != nil {
		return journal.Snapshot{}, fmt.Errorf("%w: %w", journal.ErrNoSnapshot, err)
	}
	return s, nil
}

func readSnapshot(path string, limit int64) (journal.Snapshot, error) {
	info, err := os.Stat(path)
	if err != nil {
		return journal.Snapshot{}, err
	}
	if !info.Mode().IsRegular() || info.Size() > limit {
		return journal.Snapshot{}, fmt.Errorf("not a regular file of at most %d bytes", limit)
	}
	file, err := os.ReadFile(path)
	if err != nil {
		return journal.Snapshot{}, err
	}
	return DecodeSnapshot(file)
}

// EncodeSnapshot returns the bytes of a snapshot file.
func EncodeSnapshot(s journal.Snapshot) []byte {
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

// DecodeSnapshot returns the snapshot in the bytes of a file.
func DecodeSnapshot(file []byte) (s journal.Snapshot, err error) {
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
