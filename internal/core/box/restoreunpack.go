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
	"fmt"
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

// Limits on what is read into memory. Blobs are not.
const (
	maxManifest = 64 << 10
	maxPiece    = 64 << 20 // pieceBytes, and an event of the largest size with every character escaped
	maxList     = 256 << 20
	maxTrailing = 1 << 20 // zeros that tar programs fill the last block with
)

func badBackup(format string, args ...any) error {
	return &signalbox.Error{Code: signalbox.CodeUnverified, Err: fmt.Errorf("the backup is not whole: "+format, args...),
		Hint: "nothing was restored; take another backup, or another copy of this one"}
}

// unpacking reads a backup into the folder of a ledger. Everything in the backup is hostile until it is checked: no name in it
// becomes a path before it is known to be one that a backup has.
type unpacking struct {
	l        *Ledger
	progress func(done, all uint64)

	order      int // of the last entry
	manifest   manifest
	public     string
	checkpoint []byte
	signed     *Checkpoint // the checkpoint, once it is opened
	tail       ledger.Tail
	waiting    []signalbox.Event // to be appended
	named      *named
	blobs      map[signalbox.Hash]bool
	absent     []signalbox.Hash
	sums       bytes.Buffer
}

// source is what is restored from. Its own errors are told from what is wrong with the bytes.
type source struct {
	ctx context.Context // of the one call of unpack
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

func (u *unpacking) unpack(ctx context.Context, from io.Reader) error {
	src := &source{ctx: ctx, r: from}
	err := u.read(ctx, src)
	if src.err != nil {
		return src.err
	}
	return err
}

func (u *unpacking) read(ctx context.Context, src io.Reader) error {
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
		return checkTrailing(stream) // which also makes gzip check its sum
	}
	return damagedBackup(io.ErrUnexpectedEOF)
}

func notABackup() error {
	return &signalbox.Error{Code: signalbox.CodeUnverified, Err: errors.New("this is not a backup of signalbox, or its beginning is damaged"),
		Hint: "name a file that signalbox backup made; nothing was restored"}
}

// damagedBackup is about bytes that are no tar file, or no compressed one.
func damagedBackup(err error) error {
	if errors.Is(err, io.ErrUnexpectedEOF) {
		return badBackup("it is cut off")
	}
	return badBackup("it is damaged: %w", err)
}

// entryReader reads the content of an entry. Its errors are told from those of the disk that the content goes to.
type entryReader struct{ r io.Reader }

func (e entryReader) Read(b []byte) (int, error) {
	n, err := e.r.Read(b)
	if err != nil && err != io.EOF {
		err = damagedBackup(err)
	}
	return n, err
}

// checkTrailing reads to the end, where only zeros may be.
func checkTrailing(stream io.Reader) error {
	rest, err := io.ReadAll(io.LimitReader(stream, maxTrailing+1))
	if err != nil {
		return damagedBackup(err)
	}
	if len(rest) > maxTrailing || len(bytes.Trim(rest, "\x00")) > 0 {
		return badBackup("something follows its end")
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

// entry checks that an entry may be where it is, and takes it.
func (u *unpacking) entry(ctx context.Context, header *tar.Header, r io.Reader) error {
	name := header.Name
	order, many, limit, take := u.taker(ctx, name)
	switch {
	case u.order == 0 && order != orderManifest:
		return notABackup()
	case take == nil:
		return badBackup("%q does not belong into it", name)
	case header.Typeflag != tar.TypeReg:
		return badBackup("%q is not a plain file", name)
	case order < u.order || order == u.order && !many:
		return badBackup("%q is not in its place", name)
	case limit > 0 && header.Size > limit:
		return badBackup("%q has %d bytes, more than it can have", name, header.Size)
	}
	for record := range header.PAXRecords { // such as those that make a few bytes a huge file
		if record != "size" && record != "path" {
			return badBackup("%q has the attribute %q, which none of its files has", name, record)
		}
	}
	u.order = order
	hash := sha256.New()
	if err := take(io.TeeReader(r, hash)); err != nil {
		return err
	}
	u.sums.WriteString(sumLine(hash.Sum(nil), name))
	return nil
}

// taker returns how to take an entry of a name: its place, whether there may be many of the kind, and how large it may be.
func (u *unpacking) taker(ctx context.Context, name string) (order int, many bool, limit int64, take func(io.Reader) error) {
	whole := func(f func([]byte) error) func(io.Reader) error {
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
		return orderManifest, false, maxManifest, whole(u.takeManifest)
	case name == keyEntry:
		return orderKey, false, maxManifest, whole(u.takeKey)
	case name == checkpointEntry:
		return orderCheckpoint, false, maxManifest, whole(u.takeCheckpoint)
	case isSet && isSetting(setting):
		return orderSettings, true, maxSetting, whole(func(text []byte) error { return u.takeSetting(setting, text) })
	case strings.HasPrefix(name, eventPrefix):
		return orderEvents, true, maxPiece, whole(func(piece []byte) error { return u.takeEvents(ctx, name, piece) })
	case isBlob:
		return orderBlobs, true, 0, func(r io.Reader) error { return u.takeBlob(ctx, digest, r) }
	case name == absentEntry:
		return orderAbsent, false, maxList, whole(u.takeAbsent)
	case name == sumsEntry:
		return orderSums, false, maxList, whole(u.takeSums)
	}
	return 0, false, 0, nil
}

func (u *unpacking) takeManifest(text []byte) error {
	var m manifest
	if err := json.Unmarshal(text, &m); err != nil {
		return badBackup("%s: %w", manifestEntry, err)
	}
	switch {
	case m.Format != backupFormat && strings.HasPrefix(m.Format, path.Dir(backupFormat)+"/v"):
		return &signalbox.Error{Code: signalbox.CodeFailed, Err: fmt.Errorf("the backup has the format %q, and this signalbox knows %q", m.Format, backupFormat),
			Hint: "restore it with the signalbox that made it, or a newer one"}
	case m.Format != backupFormat:
		return notABackup()
	case signalbox.CheckID(m.Box) != nil || m.Events == 0 || m.Events > ledger.MaxEvents:
		return badBackup("%s names the box %q with %d events", manifestEntry, m.Box, m.Events)
	}
	u.manifest = m
	return nil
}

func (u *unpacking) takeKey(text []byte) error {
	u.public = strings.TrimSpace(string(text))
	if name, err := ledger.KeyName(u.public); err != nil || name != origin(u.manifest.Box) {
		return badBackup("%s is not the public key of %s", keyEntry, origin(u.manifest.Box))
	}
	return durable.Replace(u.l.file(publicKeyName), text, 0o600)
}

func (u *unpacking) takeCheckpoint(signed []byte) error {
	u.checkpoint = signed
	return durable.Replace(u.l.file(checkpointName), signed, 0o600)
}

// takeSetting writes a file of the configuration, inside the folder and over nothing.
func (u *unpacking) takeSetting(name string, text []byte) error {
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
		return badBackup("%q is in it twice", settingPrefix+name)
	}
	if err != nil {
		return err
	}
	_, err = file.Write(text)
	return errors.Join(err, file.Sync(), file.Close())
}

func (u *unpacking) takeEvents(ctx context.Context, name string, piece []byte) error {
	if name != eventsEntry(u.tail.Seq+1) {
		return badBackup("%q is in the place of %q", name, eventsEntry(u.tail.Seq+1))
	}
	for line := range bytes.Lines(piece) {
		e, err := readEvent(line)
		if err != nil {
			return badBackup("event %d cannot be read: %w", u.tail.Seq+1, err)
		}
		if err := u.tail.Extend(&e); err != nil {
			return badBackup("%w", err)
		}
		u.named.add(&e)
		if u.waiting = append(u.waiting, e); len(u.waiting) == journal.MaxAppend {
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

func (u *unpacking) append(ctx context.Context) error {
	if len(u.waiting) == 0 {
		return nil
	}
	err := u.l.Journal.Append(ctx, u.waiting[0].Seq-1, u.waiting)
	if classed := (*signalbox.Error)(nil); errors.As(err, &classed) && classed.Code == signalbox.CodeUsage {
		return badBackup("%w", err) // no journal can have had such an event
	}
	u.waiting = u.waiting[:0]
	return err
}

func (u *unpacking) takeBlob(ctx context.Context, name string, r io.Reader) error {
	var digest signalbox.Hash
	switch err := digest.UnmarshalText([]byte(name)); {
	case err != nil:
		return badBackup("%q does not belong into it", blobPrefix+name)
	case !u.named.seen[digest] || u.named.redacted[digest] || u.blobs[digest]:
		return badBackup("blob %s is one that no event names, or that was redacted, or is in it twice", digest)
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

func (u *unpacking) takeAbsent(text []byte) error {
	for line := range strings.Lines(string(text)) {
		var digest signalbox.Hash
		if err := digest.UnmarshalText([]byte(strings.TrimSuffix(line, "\n"))); err != nil || !u.named.required[digest] {
			return badBackup("%s names %q, which is no blob of an event", absentEntry, line)
		}
		u.absent = append(u.absent, digest)
	}
	return nil
}

// takeSums compares what was read with what was written. Events and blobs have been checked by then.
func (u *unpacking) takeSums(text []byte) error {
	want := bytes.SplitAfter(u.sums.Bytes(), []byte("\n"))
	for i, line := range bytes.SplitAfter(text, []byte("\n")) {
		if i >= len(want) || !bytes.Equal(line, want[i]) {
			return badBackup("%s, line %d, is not the sum of what is in it", sumsEntry, i+1)
		}
	}
	if len(text) != u.sums.Len() {
		return badBackup("%s does not have the sums of all that is in it", sumsEntry)
	}
	return nil
}

// checkWhole looks for what is missing.
func (u *unpacking) checkWhole(ctx context.Context) error {
	if u.tail.Seq != u.manifest.Events || u.tail.Hash != u.manifest.Head {
		return badBackup("it has %d events, and %s tells of %d with another end", u.tail.Seq, manifestEntry, u.manifest.Events)
	}
	if id := u.l.readID(ctx); id != u.manifest.Box {
		return badBackup("its first event opens the box %q, and %s names %q", id, manifestEntry, u.manifest.Box)
	}
	absent := map[signalbox.Hash]bool{}
	for _, digest := range u.absent {
		absent[digest] = true
	}
	for _, digest := range u.named.blobs {
		if u.named.required[digest] && !u.blobs[digest] && !absent[digest] && !u.named.redacted[digest] {
			return badBackup("blob %s is missing", digest)
		}
	}
	return nil
}
