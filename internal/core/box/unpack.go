package box

import (
	"archive/tar"
	"bufio"
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"

	"signalbox"
	"signalbox/internal/core/journal"
	"signalbox/internal/durable"
	"signalbox/ledger"
)

// Limits on entries that are read into memory. Blobs are not.
const (
	maxManifest = 64 << 10
	// pieceBytes plus an event of the maximum size, with every character escaped
	maxPiece    = 64 << 20
	maxList     = 256 << 20
	maxTrailing = 1 << 20 // zeros with which tar programs pad the last block
)

func badBackup(format string, args ...any) error {
	return signalbox.CodeUnverified.Errorf(
		"nothing was restored; use another backup, or another copy of this one",
		"the backup is incomplete or damaged: "+format, args...)
}

// unpacker extracts a backup into the folder of a ledger. It treats the backup as hostile: no name
// in it becomes a path unless it is one that a backup can have.
type unpacker struct {
	l        *Ledger
	progress func(done, total uint64)

	order      int // of the last entry
	manifest   manifest
	public     string
	checkpoint []byte
	signed     *Checkpoint // the checkpoint, once it is opened
	tail       ledger.Tail
	pending    []signalbox.Event // not yet appended
	refs       *blobRefs
	blobs      map[signalbox.Hash]bool
	missing    []signalbox.Hash
	sums       bytes.Buffer
}

// source reads a backup. It remembers its own errors, to distinguish a failed read from damaged
// bytes.
type source struct {
	ctx context.Context // of the call of unpack
	r   io.Reader
	err error
}

func (s *source) Read(b []byte) (int, error) {
	if s.err == nil {
		s.err = s.ctx.Err()
	}
	if s.err != nil {
		return 0, s.err
	}
	n, err := s.r.Read(b)
	if err != nil && err != io.EOF {
		s.err = err
	}
	return n, err
}

func (u *unpacker) unpack(ctx context.Context, from io.Reader) error {
	src := &source{ctx: ctx, r: from}
	err := u.read(ctx, src)
	if src.err != nil {
		return src.err
	}
	return err
}

func (u *unpacker) read(ctx context.Context, src io.Reader) error {
	in := bufio.NewReaderSize(src, 256<<10)
	stream := io.Reader(in)
	if magic, _ := in.Peek(2); string(magic) == "\x1f\x8b" {
		zip, err := gzip.NewReader(in)
		if err != nil {
			return notABackup()
		}
		stream = zip
	}
	entries := tar.NewReader(stream)
	for {
		header, err := entries.Next()
		if err == io.EOF {
			break
		}
		if err != nil && u.order == 0 {
			return notABackup()
		}
		if err != nil {
			return damagedBackup(err)
		}
		if err := u.entry(ctx, header, entryReader{entries}); err != nil {
			return err
		}
	}
	switch u.order {
	case 0:
		return notABackup()
	case orderSums:
		return checkTrailing(stream) // also makes gzip verify its checksum
	}
	return damagedBackup(io.ErrUnexpectedEOF)
}

func notABackup() error {
	return signalbox.CodeUnverified.Errorf(
		"name a file that signalbox backup wrote; nothing was restored",
		"this is not a signalbox backup, or its start is damaged")
}

// damagedBackup returns the error for bytes that are not a valid tar or gzip file.
func damagedBackup(err error) error {
	if errors.Is(err, io.ErrUnexpectedEOF) {
		return badBackup("it is truncated")
	}
	return badBackup("it is damaged: %w", err)
}

// entryReader reads the content of an entry. It marks errors as damage, to distinguish them from
// errors of the destination.
type entryReader struct{ r io.Reader }

func (e entryReader) Read(b []byte) (int, error) {
	n, err := e.r.Read(b)
	if err != nil && err != io.EOF {
		err = damagedBackup(err)
	}
	return n, err
}

// checkTrailing reads the rest, which must be zeros.
func checkTrailing(stream io.Reader) error {
	rest, err := io.ReadAll(io.LimitReader(stream, maxTrailing+1))
	if err != nil {
		return damagedBackup(err)
	}
	if len(rest) > maxTrailing || len(bytes.Trim(rest, "\x00")) > 0 {
		return badBackup("it has data after its end")
	}
	return nil
}

// The order of the entries.
const (
	orderManifest = iota + 1
	orderKey
	orderCheckpoint
	orderSettings
	orderEvents
	orderBlobs
	orderAbsent
	orderSums
)

// entry checks the name, type, position and size of an entry, and reads it.
func (u *unpacker) entry(ctx context.Context, header *tar.Header, r io.Reader) error {
	name := header.Name
	kind := u.kindOf(ctx, name)
	switch {
	case u.order == 0 && kind.order != orderManifest:
		return notABackup()
	case kind.read == nil:
		return badBackup("it has the unexpected entry %q", name)
	case header.Typeflag != tar.TypeReg:
		return badBackup("%q is not a regular file", name)
	case kind.order < u.order || kind.order == u.order && !kind.many:
		return badBackup("%q is out of place", name)
	case kind.limit > 0 && header.Size > kind.limit:
		return badBackup("%q has %d bytes, limit %d", name, header.Size, kind.limit)
	}
	// such as those of sparse files, which expand a few bytes to a huge file
	for record := range header.PAXRecords {
		if record != "size" && record != "path" {
			return badBackup("%q has the unexpected attribute %q", name, record)
		}
	}
	u.order = kind.order
	hash := sha256.New()
	if err := kind.read(io.TeeReader(r, hash)); err != nil {
		return err
	}
	u.sums.WriteString(sumLine(hash.Sum(nil), name))
	return nil
}

// entryKind is a kind of entry.
type entryKind struct {
	order int
	many  bool                  // there may be several
	limit int64                 // on the size; 0 means no limit
	read  func(io.Reader) error // nil if there is no such kind
}

func (u *unpacker) kindOf(ctx context.Context, name string) entryKind {
	all := func(f func([]byte) error) func(io.Reader) error {
		return func(r io.Reader) error {
			content, err := io.ReadAll(r)
			if err != nil {
				return err
			}
			return f(content)
		}
	}
	digest, isBlob := strings.CutPrefix(name, blobPrefix)
	setting, isSet := strings.CutPrefix(name, settingPrefix)
	switch {
	case name == manifestEntry:
		return entryKind{orderManifest, false, maxManifest, all(u.readManifest)}
	case name == keyEntry:
		return entryKind{orderKey, false, maxManifest, all(u.readKey)}
	case name == checkpointEntry:
		return entryKind{orderCheckpoint, false, maxManifest, all(u.readCheckpoint)}
	case isSet && isSetting(setting):
		return entryKind{orderSettings, true, maxSetting,
			all(func(text []byte) error { return u.readSetting(setting, text) })}
	case strings.HasPrefix(name, eventPrefix):
		return entryKind{orderEvents, true, maxPiece,
			all(func(piece []byte) error { return u.readEvents(ctx, name, piece) })}
	case isBlob:
		return entryKind{orderBlobs, true, 0,
			func(r io.Reader) error { return u.readBlob(ctx, digest, r) }}
	case name == absentEntry:
		return entryKind{orderAbsent, false, maxList, all(u.readMissing)}
	case name == sumsEntry:
		return entryKind{orderSums, false, maxList, all(u.readSums)}
	}
	return entryKind{}
}

func (u *unpacker) readManifest(text []byte) error {
	var m manifest
	if err := json.Unmarshal(text, &m); err != nil {
		return badBackup("%s: %w", manifestEntry, err)
	}
	switch {
	case m.Format != backupFormat && strings.HasPrefix(m.Format, path.Dir(backupFormat)+"/v"):
		return signalbox.CodeFailed.Errorf(
			"restore it with the version of signalbox that wrote it, or a newer one",
			"the backup has the format %q, but this signalbox supports %q", m.Format, backupFormat)
	case m.Format != backupFormat:
		return notABackup()
	case signalbox.CheckID(m.Box) != nil || m.Events == 0 || m.Events > ledger.MaxEvents:
		return badBackup("%s names the box %q with %d events", manifestEntry, m.Box, m.Events)
	}
	u.manifest = m
	return nil
}

func (u *unpacker) readKey(text []byte) error {
	u.public = strings.TrimSpace(string(text))
	if name, err := ledger.KeyName(u.public); err != nil || name != origin(u.manifest.Box) {
		return badBackup("%s is not the public key of %s", keyEntry, origin(u.manifest.Box))
	}
	return durable.Replace(u.l.file(publicKeyName), text, 0o600)
}

func (u *unpacker) readCheckpoint(signed []byte) error {
	u.checkpoint = signed
	return durable.Replace(u.l.file(checkpointName), signed, 0o600)
}

// readSetting writes a settings file inside the folder, without replacing one.
func (u *unpacker) readSetting(name string, text []byte) error {
	root, err := os.OpenRoot(u.l.Dir)
	if err != nil {
		return err
	}
	defer root.Close()
	if err := root.MkdirAll(filepath.FromSlash(path.Dir(name)), 0o700); err != nil {
		return err
	}
	file, err := root.OpenFile(filepath.FromSlash(name), os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if errors.Is(err, fs.ErrExist) {
		return badBackup("it has %q twice", settingPrefix+name)
	}
	if err != nil {
		return err
	}
	_, err = file.Write(text)
	return errors.Join(err, file.Sync(), file.Close())
}

func (u *unpacker) readEvents(ctx context.Context, name string, piece []byte) error {
	if name != eventsEntry(u.tail.Seq+1) {
		return badBackup("it has %q where %q is expected", name, eventsEntry(u.tail.Seq+1))
	}
	for line := range bytes.Lines(piece) {
		e, err := readEvent(line)
		if err != nil {
			return badBackup("event %d cannot be parsed: %w", u.tail.Seq+1, err)
		}
		if err := u.tail.Extend(&e); err != nil {
			return badBackup("%w", err)
		}
		u.refs.add(&e)
		if u.pending = append(u.pending, e); len(u.pending) == journal.MaxAppend {
			if err := u.append(ctx); err != nil {
				return err
			}
		}
	}
	if u.progress != nil {
		u.progress(u.tail.Seq, u.manifest.Events)
	}
	return u.append(ctx)
}

func (u *unpacker) append(ctx context.Context) error {
	if len(u.pending) == 0 {
		return nil
	}
	err := u.l.Journal.Append(ctx, u.pending[0].Seq-1, u.pending)
	if signalbox.CodeOf(err) == signalbox.CodeUsage {
		return badBackup("%w", err) // no journal can contain such an event
	}
	u.pending = u.pending[:0]
	return err
}

func (u *unpacker) readBlob(ctx context.Context, name string, r io.Reader) error {
	var digest signalbox.Hash
	switch err := digest.UnmarshalText([]byte(name)); {
	case err != nil:
		return badBackup("it has the unexpected entry %q", blobPrefix+name)
	case !u.refs.seen[digest]:
		return badBackup("no event refers to blob %s", digest)
	case u.refs.redacted[digest]:
		return badBackup("blob %s was redacted", digest)
	case u.blobs[digest]:
		return badBackup("it has blob %s twice", digest)
	}
	got, err := u.l.Journal.PutBlob(ctx, r)
	if err != nil {
		return err
	}
	if got != digest {
		return badBackup("blob %s was changed: its bytes have the digest %s", digest, got)
	}
	u.blobs[digest] = true
	return nil
}

func (u *unpacker) readMissing(text []byte) error {
	for line := range strings.Lines(string(text)) {
		var digest signalbox.Hash
		if err := digest.UnmarshalText([]byte(strings.TrimSuffix(line, "\n"))); err != nil ||
			!u.refs.seen[digest] {
			return badBackup("%s lists %q, which no event requires", absentEntry, line)
		}
		delete(u.refs.required, digest)
		u.missing = append(u.missing, digest)
	}
	return nil
}

// readSums compares the checksums of all entries before.
func (u *unpacker) readSums(text []byte) error {
	want := bytes.Split(u.sums.Bytes(), []byte("\n"))
	got := bytes.Split(text, []byte("\n"))
	for i := range max(len(want), len(got)) {
		if i >= len(want) || i >= len(got) || !bytes.Equal(want[i], got[i]) {
			return badBackup("line %d of %s does not match its content", i+1, sumsEntry)
		}
	}
	return nil
}

// checkComplete checks that nothing is missing.
func (u *unpacker) checkComplete(ctx context.Context) error {
	if u.tail.Seq != u.manifest.Events || u.tail.Hash != u.manifest.Head {
		return badBackup("it has %d events, but according to %s it has %d, or another last event",
			u.tail.Seq, manifestEntry, u.manifest.Events)
	}
	if err := u.l.readID(ctx); err != nil {
		return err
	}
	if id := u.l.ID(); id != u.manifest.Box {
		return badBackup("its first event opens the box %q, but %s has %q", id, manifestEntry,
			u.manifest.Box)
	}
	for _, digest := range u.refs.blobs {
		if u.refs.required[digest] && !u.blobs[digest] && !u.refs.redacted[digest] {
			return badBackup("blob %s is missing", digest)
		}
	}
	return nil
}
