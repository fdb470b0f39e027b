package box

import (
	"archive/tar"
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
	"path/filepath"
	"strings"
	"time"

	"signalbox"
	"signalbox/internal/core/journal"
	"signalbox/internal/durable"
	"signalbox/ledger"
)

// BackupOptions are options for BackupTo and Backup.
type BackupOptions struct {
	// Version is the version of the program, for the manifest.
	Version string
	// Force replaces an existing file.
	Force bool
	// Progress, if not nil, is called from time to time with the number of events written and the
	// total.
	Progress func(done, total uint64)
}

// BackupResult describes a backup.
type BackupResult struct {
	Box    string
	Events uint64
	Head   signalbox.Hash
	Blobs  int
	// Bytes is the size of the backup.
	Bytes int64
	// Missing are blobs that an event refers to, that were not redacted, and that the box does not
	// have.
	Missing []signalbox.Hash
	// Skipped are settings files that are not in the backup, each with the reason.
	Skipped []string
	// KeyFile is where this host keeps the private key, which is not in the backup.
	KeyFile string
}

// BackupTo writes a backup of a ledger to a file, atomically. It is compressed if the name ends in
// .gz or .tgz.
func BackupTo(ctx context.Context, l *Ledger, name string,
	opts BackupOptions) (BackupResult, error) {
	if err := checkReplaceable(name, opts.Force); err != nil {
		return BackupResult{}, err
	}
	file, err := os.CreateTemp(filepath.Dir(name), ".tmp-*") // with mode 0600
	if err != nil {
		return BackupResult{}, backupError(err)
	}
	defer os.Remove(file.Name()) // does nothing after the rename
	done, err := backupToFile(ctx, l, file, strings.HasSuffix(name, ".gz") ||
		strings.HasSuffix(name, ".tgz"), opts)
	if err == nil {
		err = checkReplaceable(name, opts.Force) // another process may have created it meanwhile
	}
	if err == nil {
		err = durable.Rename(file.Name(), name)
	}
	if err != nil {
		return BackupResult{}, backupError(err)
	}
	return done, nil
}

// backupToFile closes the file.
func backupToFile(ctx context.Context, l *Ledger, file *os.File, compress bool,
	opts BackupOptions) (done BackupResult, err error) {
	if compress {
		size := &countingWriter{w: file}
		zip := gzip.NewWriter(size)
		done, err = Backup(ctx, l, zip, opts)
		if err == nil {
			err = zip.Close()
		}
		done.Bytes = size.n
	} else {
		done, err = Backup(ctx, l, file, opts)
	}
	if closeErr := file.Close(); err == nil {
		err = closeErr
	}
	return done, err
}

// checkReplaceable returns an error if the file exists and must not be replaced. Even force
// replaces only regular files.
func checkReplaceable(name string, force bool) error {
	info, err := os.Lstat(name)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return err
	case !info.Mode().IsRegular():
		return signalbox.CodeFailed.Errorf(
			"name a new file, or use - to write to standard output",
			"%s exists and is not a regular file", name)
	case !force:
		return signalbox.CodeFailed.Errorf("name a new file, or replace this one with --force",
			"%s exists", name)
	}
	return nil
}

func backupError(err error) error {
	if signalbox.CodeOf(err) != 0 || errors.Is(err, context.Canceled) {
		return err
	}
	return signalbox.CodeFailed.Errorf(
		"choose a folder that you may write to and that has enough space",
		"cannot write the backup: %w", err)
}

// Backup writes a backup of a ledger: all events up to its head at the time of the call, and the
// blobs that they refer to. Other processes may continue to write. A ledger that does not verify is
// not backed up.
//
// The events are written one by one rather than as a copy of the database: restoring a copy would
// mean to open a SQLite file from an untrusted source, with its schema, triggers and pages, and a
// backup can be read without signalbox.
func Backup(ctx context.Context, l *Ledger, w io.Writer,
	opts BackupOptions) (BackupResult, error) {
	b := &backupWriter{l: l, opts: opts, out: &countingWriter{w: w}, refs: newBlobRefs()}
	if err := b.prepare(ctx); err != nil {
		return BackupResult{}, err
	}
	b.tar = tar.NewWriter(b.out)
	for _, part := range []func(
		context.Context) error{b.writeHeader, b.writeSettings, b.writeEvents, b.writeBlobs, b.writeEnd} {
		if err := part(ctx); err != nil {
			return BackupResult{}, backupError(err)
		}
	}
	b.done.Bytes = b.out.n
	return b.done, nil
}

// countingWriter counts the bytes written.
type countingWriter struct {
	w io.Writer
	n int64
}

func (c *countingWriter) Write(b []byte) (int, error) {
	n, err := c.w.Write(b)
	c.n += int64(n)
	return n, err
}

// backupWriter writes one backup.
type backupWriter struct {
	l    *Ledger
	opts BackupOptions
	out  *countingWriter
	tar  *tar.Writer
	sums bytes.Buffer
	done BackupResult

	at         time.Time
	public     string
	checkpoint *Checkpoint // nil if there is none
	refs       *blobRefs
}

// prepare determines what to back up. It reads the checkpoint before the head, because the
// checkpoint must not cover events that are appended meanwhile.
func (b *backupWriter) prepare(ctx context.Context) (err error) {
	b.public, err = b.l.PublicKey()
	if err != nil && signalbox.CodeOf(err) != signalbox.CodeNotFound {
		return err
	}
	if b.public != "" {
		if b.checkpoint, err = b.l.lastCheckpoint(b.public); err != nil {
			return err
		}
	}
	if b.done.Events, err = b.l.Journal.Head(ctx); err != nil {
		return err
	}
	if err = b.l.readID(ctx); err != nil {
		return err
	}
	if b.done.Box = b.l.ID(); b.done.Box == "" {
		return signalbox.CodeFailed.Errorf(
			"run signalbox init or, if the box was in use, signalbox ledger verify",
			"nothing to back up: the first event of the ledger does not open a box")
	}
	// otherwise a nightly backup could be useless without anyone noticing
	if err := b.l.checkNotMoved(ctx); err != nil {
		return err
	}
	if b.checkpoint != nil {
		if err := checkLength(b.checkpoint.Size, b.done.Events); err != nil {
			return err
		}
	}
	last, err := b.l.Journal.Read(ctx, b.done.Events-1, 1)
	if err != nil {
		return err
	}
	if len(last) == 0 {
		return unverified("the ledger was truncated: event %d is missing", b.done.Events)
	}
	b.done.Head, b.at = last[0].Hash, time.Now().UTC().Truncate(time.Second)
	b.done.KeyFile, _ = b.l.keyFile(b.done.Box) // "" if this host has no configuration folder
	return nil
}

func (b *backupWriter) writeHeader(context.Context) error {
	text, err := json.Marshal(manifest{
		Format: backupFormat, Box: b.done.Box, Events: b.done.Events, Head: b.done.Head, Time: b.at,
		Signalbox: b.opts.Version,
	})
	if err == nil {
		err = b.add(manifestEntry, append(text, '\n'))
	}
	if err == nil && b.public != "" {
		err = b.add(keyEntry, []byte(b.public+"\n"))
	}
	if err == nil && b.checkpoint != nil {
		err = b.add(checkpointEntry, b.checkpoint.Signed)
	}
	return err
}

// writeSettings writes the configuration and the prompts.
func (b *backupWriter) writeSettings(context.Context) error {
	return filepath.WalkDir(b.l.Dir, func(path string, entry fs.DirEntry, err error) error {
		if path == b.l.Dir || err != nil {
			return err
		}
		relative, err := filepath.Rel(b.l.Dir, path)
		if err != nil {
			return err
		}
		name := filepath.ToSlash(relative)
		if entry.IsDir() {
			if name != promptFolder && !strings.HasPrefix(name, promptFolder+"/") {
				return fs.SkipDir
			}
			return nil
		}
		if !isSetting(name) {
			if strings.HasPrefix(name, promptFolder+"/") {
				b.skip(name, "not every system allows its name")
			}
			return nil
		}
		return b.addSetting(path, name, entry)
	})
}

func (b *backupWriter) addSetting(path, name string, entry fs.DirEntry) error {
	if !entry.Type().IsRegular() {
		b.skip(name, "it is not a regular file")
		return nil
	}
	text, err := os.ReadFile(path)
	switch {
	case err != nil:
		return err
	case len(text) > maxSetting:
		b.skip(name, fmt.Sprintf("it has more than %d bytes", maxSetting))
		return nil
	case bytes.Contains(text, []byte("PRIVATE+KEY+")):
		b.skip(name, "it contains a private key")
		return nil
	}
	return b.add(settingPrefix+name, text)
}

func (b *backupWriter) skip(name,
	why string) {
	b.done.Skipped = append(b.done.Skipped, name+": "+why)
}

// writeEvents writes the events in pieces, and verifies the chain.
func (b *backupWriter) writeEvents(ctx context.Context) error {
	var (
		tail  ledger.Tail
		first uint64
		piece bytes.Buffer
	)
	for e, err := range b.l.Events(ctx, 0) {
		if err == nil {
			err = b.checkEvent(&tail, e)
		}
		if err != nil {
			return err
		}
		if piece.Len() == 0 {
			first = e.Seq
		}
		if err := writeEvent(&piece, e); err != nil {
			return err
		}
		b.refs.add(e)
		if piece.Len() >= pieceBytes || e.Seq == b.done.Events {
			if err := b.add(eventsEntry(first), piece.Bytes()); err != nil {
				return err
			}
			piece.Reset()
			if b.opts.Progress != nil {
				b.opts.Progress(e.Seq, b.done.Events)
			}
		}
		if e.Seq == b.done.Events {
			break
		}
	}
	if tail.Seq != b.done.Events || tail.Hash != b.done.Head {
		return unverified("the ledger was truncated or changed while it was read: it ended with event %d", b.done.Events)
	}
	return nil
}

func (b *backupWriter) checkEvent(tail *ledger.Tail, e *signalbox.Event) error {
	if err := tail.Extend(e); err != nil {
		return unverified("the ledger was changed: %w", err)
	}
	if err := ledger.Validate(e); err != nil {
		return unverified("event %d was not written by signalbox: %w", e.Seq, err)
	}
	if b.checkpoint != nil && b.checkpoint.Size == e.Seq && b.checkpoint.Root != tail.Tree.Root() {
		return notSigned(b.checkpoint)
	}
	return nil
}

// writeBlobs writes the blobs that the events refer to. Blobs are durable before their events, so
// one that does not exist was redacted meanwhile, or lost, or the reference is not to a blob.
func (b *backupWriter) writeBlobs(ctx context.Context) error {
	for _, digest := range b.refs.blobs {
		if b.refs.redacted[digest] {
			continue // its bytes may still exist
		}
		r, err := b.l.Journal.GetBlob(ctx, digest)
		switch {
		case errors.Is(err, journal.ErrNoBlob):
			if b.refs.required[digest] {
				b.done.Missing = append(b.done.Missing, digest)
			}
			continue
		case errors.Is(err, journal.ErrDamaged):
			return signalbox.CodeUnverified.Errorf(
				"restore its file from a copy or remove it with signalbox blob redact, then back up again",
				"blob %s is damaged: %w", digest, err)
		case err != nil:
			return err
		}
		err = b.addFrom(blobPrefix+digest.String(), r)
		r.Close()
		if err != nil {
			return err
		}
		b.done.Blobs++
	}
	return nil
}

// writeEnd completes the backup. Without the sums it counts as truncated.
func (b *backupWriter) writeEnd(context.Context) error {
	if len(b.done.Missing) > 0 {
		var text []byte
		for _, digest := range b.done.Missing {
			text = fmt.Appendln(text, digest)
		}
		if err := b.add(absentEntry, text); err != nil {
			return err
		}
	}
	if err := b.add(sumsEntry, bytes.Clone(b.sums.Bytes())); err != nil {
		return err
	}
	return b.tar.Close()
}

func (b *backupWriter) add(name string, content []byte) error {
	return b.addFrom(name, bytes.NewReader(content))
}

// addFrom adds an entry. Its header needs the size, so a reader that cannot seek is read into
// memory first.
func (b *backupWriter) addFrom(name string, r io.Reader) error {
	seeker, ok := r.(io.ReadSeeker)
	if !ok {
		content, err := io.ReadAll(r)
		if err != nil {
			return err
		}
		seeker = bytes.NewReader(content)
	}
	size, err := seeker.Seek(0, io.SeekEnd)
	if err == nil {
		_, err = seeker.Seek(0, io.SeekStart)
	}
	if err != nil {
		return err
	}
	if err := b.tar.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: name, Size: size,
		Mode: 0o600, ModTime: b.at}); err != nil {
		return err
	}
	hash := sha256.New()
	if _, err := io.Copy(io.MultiWriter(b.tar, hash), seeker); err != nil {
		return err
	}
	b.sums.WriteString(sumLine(hash.Sum(nil), name))
	return nil
}
