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

// BackupOptions says how to back up. The zero value is for use.
type BackupOptions struct {
	// Version is that of the program, for the manifest.
	Version string
	// Force replaces a file that is there.
	Force bool
	// Progress, if not nil, is called now and then with the number of events written and of all.
	Progress func(done, all uint64)
}

// BackedUp tells what is in a backup.
type BackedUp struct {
	Box    string
	Events uint64
	Head   signalbox.Hash
	Blobs  int
	// Bytes is the size of the backup.
	Bytes int64
	// Absent are blobs that an event names, that nobody redacted, and that the box does not have.
	Absent []signalbox.Hash
	// Skipped are files beside the configuration that are not in the backup, with the reason.
	Skipped []string
	// KeyFile is where the private key would be on this host. It is not in the backup.
	KeyFile string
}

// BackupTo backs up to a file, which is there whole or not at all. It is compressed if its name ends in .gz or .tgz.
func (l *Ledger) BackupTo(ctx context.Context, name string, opts BackupOptions) (BackedUp, error) {
	if err := mayReplace(name, opts.Force); err != nil {
		return BackedUp{}, err
	}
	file, err := os.CreateTemp(filepath.Dir(name), ".tmp-*") // of mode 0600
	if err != nil {
		return BackedUp{}, cannotBackUp(err)
	}
	defer os.Remove(file.Name()) // of no effect once it is renamed
	done, err := l.backUpInto(ctx, file, strings.HasSuffix(name, ".gz") || strings.HasSuffix(name, ".tgz"), opts)
	if closeErr := file.Close(); err == nil && closeErr != nil {
		err = cannotBackUp(closeErr)
	}
	if err == nil {
		err = mayReplace(name, opts.Force) // somebody may have made one meanwhile
	}
	if err != nil {
		return BackedUp{}, err
	}
	if err := durable.Rename(file.Name(), name); err != nil {
		return BackedUp{}, cannotBackUp(err)
	}
	return done, nil
}

func (l *Ledger) backUpInto(ctx context.Context, file *os.File, compress bool, opts BackupOptions) (BackedUp, error) {
	if !compress {
		return l.Backup(ctx, file, opts)
	}
	size := &counter{w: file}
	zip := gzip.NewWriter(size)
	done, err := l.Backup(ctx, zip, opts)
	if err == nil {
		if err = zip.Close(); err != nil {
			err = cannotBackUp(err)
		}
	}
	done.Bytes = size.n
	return done, err
}

// mayReplace refuses what must not be lost: with force only a plain file is replaced, no device and no folder.
func mayReplace(name string, force bool) error {
	info, err := os.Lstat(name)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return cannotBackUp(err)
	case !info.Mode().IsRegular():
		return &signalbox.Error{Code: signalbox.CodeFailed, Err: fmt.Errorf("%s is there and is no plain file", name),
			Hint: "name a new file, or give - to write to standard output"}
	case !force:
		return &signalbox.Error{Code: signalbox.CodeFailed, Err: fmt.Errorf("%s exists", name),
			Hint: "name a new file, or replace this one with --force"}
	}
	return nil
}

func cannotBackUp(err error) error {
	if classed := (*signalbox.Error)(nil); errors.As(err, &classed) || errors.Is(err, context.Canceled) {
		return err
	}
	return &signalbox.Error{Code: signalbox.CodeFailed, Err: fmt.Errorf("cannot write the backup: %w", err),
		Hint: "choose a place that you may write to and that has room"}
}

// Backup writes a copy of the box as it is now: all events up to the end of the ledger as it was when the call began, and
// what they name. Others may go on writing. A ledger that does not hold together is not backed up.
func (l *Ledger) Backup(ctx context.Context, w io.Writer, opts BackupOptions) (BackedUp, error) {
	b := &backup{l: l, opts: opts, out: &counter{w: w}, named: newNamed()}
	if err := b.begin(ctx); err != nil {
		return BackedUp{}, err
	}
	b.tar = tar.NewWriter(b.out)
	for _, part := range []func(context.Context) error{b.writeHeader, b.writeSettings, b.writeEvents, b.writeBlobs, b.writeEnd} {
		if err := part(ctx); err != nil {
			return BackedUp{}, cannotBackUp(err)
		}
	}
	b.done.Bytes = b.out.n
	return b.done, nil
}

// counter counts what is written.
type counter struct {
	w io.Writer
	n int64
}

func (c *counter) Write(b []byte) (int, error) {
	n, err := c.w.Write(b)
	c.n += int64(n)
	return n, err
}

// backup is a backup that is being made.
type backup struct {
	l    *Ledger
	opts BackupOptions
	out  *counter
	tar  *tar.Writer
	sums bytes.Buffer
	done BackedUp

	at         time.Time
	public     string
	checkpoint *Checkpoint // nil if there is none
	named      *named
}

// begin finds out what there is to back up. The checkpoint comes before the head: what is appended and signed meanwhile
// must not be in it.
func (b *backup) begin(ctx context.Context) (err error) {
	b.public, err = b.l.PublicKey()
	if classed := (*signalbox.Error)(nil); err != nil && !(errors.As(err, &classed) && classed.Code == signalbox.CodeNotFound) {
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
	if b.done.Box = b.l.readID(ctx); b.done.Box == "" {
		return &signalbox.Error{Code: signalbox.CodeFailed, Err: errors.New("the ledger does not begin with the opening of a box: there is nothing to back up"),
			Hint: "run signalbox init, or signalbox ledger verify if the box was in use"}
	}
	if b.checkpoint != nil {
		if err := cut(b.checkpoint.Size, b.done.Events); err != nil {
			return err
		}
	}
	last, err := b.l.Journal.Read(ctx, b.done.Events-1, 1)
	if err != nil {
		return err
	}
	if len(last) == 0 {
		return unverified("the ledger was cut off: event %d is gone", b.done.Events)
	}
	b.done.Head, b.at = last[0].Hash, time.Now().UTC().Truncate(time.Second)
	b.done.KeyFile, _ = b.l.keyFile(b.done.Box) // "" where there is no place for one
	return nil
}

func (b *backup) writeHeader(context.Context) error {
	text, err := json.Marshal(manifest{
		Format: backupFormat, Box: b.done.Box, Events: b.done.Events, Head: b.done.Head, Time: b.at, Signalbox: b.opts.Version,
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

// writeSettings copies the configuration and the prompts beside it.
func (b *backup) writeSettings(context.Context) error {
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
				b.skip(name, "its name is not one that every system takes")
			}
			return nil
		}
		return b.addSetting(path, name, entry)
	})
}

func (b *backup) addSetting(path, name string, entry fs.DirEntry) error {
	if !entry.Type().IsRegular() {
		b.skip(name, "it is no plain file")
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
		b.skip(name, "it has a private key")
		return nil
	}
	return b.add(settingPrefix+name, text)
}

func (b *backup) skip(name, why string) { b.done.Skipped = append(b.done.Skipped, name+": "+why) }

// writeEvents writes the events in pieces, and checks that each continues the one before.
func (b *backup) writeEvents(ctx context.Context) error {
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
		b.named.add(e)
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
		return unverified("the ledger was cut off or changed while it was read: it ended with event %d", b.done.Events)
	}
	return nil
}

func (b *backup) checkEvent(tail *ledger.Tail, e *signalbox.Event) error {
	if err := tail.Extend(e); err != nil {
		return unverified("the ledger was changed: %w", err)
	}
	if err := ledger.Validate(e); err != nil {
		return unverified("event %d cannot have been written by signalbox: %w", e.Seq, err)
	}
	if b.checkpoint != nil && b.checkpoint.Size == e.Seq && b.checkpoint.Root != tail.Tree.Root() {
		return notSigned(b.checkpoint)
	}
	return nil
}

// writeBlobs writes the blobs that the events name. They were durable before the events were; what is gone was redacted
// meanwhile, or is no blob, or was lost.
func (b *backup) writeBlobs(ctx context.Context) error {
	for _, digest := range b.named.blobs {
		if b.named.redacted[digest] {
			continue // perhaps not yet destroyed
		}
		r, err := b.l.Journal.GetBlob(ctx, digest)
		switch {
		case errors.Is(err, journal.ErrNoBlob):
			if b.named.required[digest] {
				b.done.Absent = append(b.done.Absent, digest)
			}
			continue
		case errors.Is(err, journal.ErrDamaged):
			return &signalbox.Error{Code: signalbox.CodeUnverified, Err: fmt.Errorf("blob %s is damaged: %w", digest, err),
				Hint: "restore its file from a copy, or give it up with signalbox blob redact; then back up again"}
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

// writeEnd makes a backup whole: without the sums it counts as cut off.
func (b *backup) writeEnd(context.Context) error {
	if len(b.done.Absent) > 0 {
		var text []byte
		for _, digest := range b.done.Absent {
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

func (b *backup) add(name string, content []byte) error {
	return b.addFrom(name, bytes.NewReader(content))
}

// addFrom adds an entry, whose size must be known before: from a journal whose blobs cannot be measured they are read into memory.
func (b *backup) addFrom(name string, r io.Reader) error {
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
	if err := b.tar.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: name, Size: size, Mode: 0o600, ModTime: b.at}); err != nil {
		return err
	}
	hash := sha256.New()
	if _, err := io.Copy(io.MultiWriter(b.tar, hash), seeker); err != nil {
		return err
	}
	b.sums.WriteString(sumLine(hash.Sum(nil), name))
	return nil
}
