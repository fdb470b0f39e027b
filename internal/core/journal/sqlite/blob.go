package sqlite

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"signalbox"
	"signalbox/internal/core/journal"
	"signalbox/internal/durable"
)

// orphanAge is the age at which a blob that was never finished is removed by the next who opens the journal. Nobody is
// silent for so long while he puts one.
const orphanAge = 24 * time.Hour

// PutBlob stores what r yields under its SHA-256.
func (j *Journal) PutBlob(ctx context.Context, r io.Reader) (digest signalbox.Hash, err error) {
	if err = j.enter(ctx); err == nil {
		digest, err = j.putBlob(ctx, r)
		j.leave()
	}
	if err != nil {
		return signalbox.Hash{}, fmt.Errorf("put a blob: %w", explain(err))
	}
	return digest, nil
}

func (j *Journal) putBlob(ctx context.Context, r io.Reader) (digest signalbox.Hash, err error) {
	if j.opts.ReadOnly {
		return digest, errReadOnly
	}
	if err := j.makeFolder(j.path(blobFolder)); err != nil {
		return digest, err
	}
	if err := os.Mkdir(j.path(blobTempFolder), 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return digest, err
	}
	temp, digest, err := j.receive(ctx, r)
	if err != nil {
		return digest, err
	}
	defer func() {
		if temp != "" { // it has not become the blob
			os.Remove(temp)
		}
	}()
	path := j.blobPath(digest)
	if err := j.makeFolder(filepath.Dir(path)); err != nil {
		return digest, err
	}
	if file, err := openBlob(path, digest); err == nil {
		// It is whole, and whoever put it synced its bytes before it had this name; but perhaps not yet the name.
		file.Close()
		return digest, durable.SyncFolder(filepath.Dir(path))
	}
	err = durable.Rename(temp, path)
	if err == nil {
		temp = ""
	}
	return digest, err
}

// makeFolder makes a folder of blobs durable, once for each process: to sync the one above with every blob would cost as much
// as the blob.
func (j *Journal) makeFolder(name string) error {
	if _, done := j.folders.Load(name); done {
		if _, err := os.Lstat(name); err == nil {
			return nil
		}
	}
	err := durable.MakeFolder(name)
	if err == nil {
		j.folders.Store(name, true)
	}
	return err
}

// receive writes what r yields to a temporary file.
func (j *Journal) receive(ctx context.Context, r io.Reader) (path string, digest signalbox.Hash, err error) {
	file, err := os.CreateTemp(j.path(blobTempFolder), "*") // of mode 0600
	if err != nil {
		return "", digest, err
	}
	hash := sha256.New()
	_, err = io.Copy(io.MultiWriter(file, hash), reader(func(p []byte) (int, error) {
		if err := ctx.Err(); err != nil {
			return 0, err
		}
		return r.Read(p)
	}))
	if err = errors.Join(err, file.Close()); err != nil {
		os.Remove(file.Name())
		return "", digest, err
	}
	return file.Name(), signalbox.Hash(hash.Sum(nil)), nil
}

// reader is a function that reads.
type reader func([]byte) (int, error)

func (r reader) Read(p []byte) (int, error) { return r(p) }

// GetBlob reads the blob once to check it, and returns it from its start.
func (j *Journal) GetBlob(ctx context.Context, digest signalbox.Hash) (io.ReadCloser, error) {
	err := j.enter(ctx)
	if err == nil {
		defer j.leave()
		var file *os.File
		if file, err = openBlob(j.blobPath(digest), digest); err == nil {
			return file, nil
		}
	}
	return nil, fmt.Errorf("get blob %v: %w", digest, explain(err))
}

// openBlob opens a blob if its bytes have this digest.
func openBlob(path string, digest signalbox.Hash) (*os.File, error) {
	file, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, &signalbox.Error{Code: signalbox.CodeNotFound, Err: fmt.Errorf("%w: %w", journal.ErrNoBlob, err)}
	}
	if err != nil {
		return nil, err
	}
	hash := sha256.New()
	_, err = io.Copy(hash, file)
	if err == nil && signalbox.Hash(hash.Sum(nil)) != digest {
		err = damaged(fmt.Errorf("its bytes have digest %x", hash.Sum(nil)))
	}
	if err == nil {
		_, err = file.Seek(0, io.SeekStart)
	}
	if err != nil {
		file.Close()
		return nil, err
	}
	return file, nil
}

// DeleteBlob destroys the bytes of a blob.
func (j *Journal) DeleteBlob(ctx context.Context, digest signalbox.Hash) error {
	err := j.enter(ctx)
	if err == nil {
		defer j.leave()
		if j.opts.ReadOnly {
			err = errReadOnly
		} else {
			err = durable.Remove(j.blobPath(digest))
		}
	}
	if err != nil {
		return fmt.Errorf("delete blob %v: %w", digest, explain(err))
	}
	return nil
}

func (j *Journal) blobPath(digest signalbox.Hash) string {
	name := digest.String()
	return filepath.Join(j.path(blobFolder), name[:2], name[2:])
}

// removeOrphans removes what killed processes left of blobs that they put. It harms nobody, so neither do errors here.
func removeOrphans(folder string, now time.Time) {
	entries, _ := os.ReadDir(folder)
	for _, entry := range entries {
		if info, err := entry.Info(); err == nil && now.Sub(info.ModTime()) > orphanAge {
			os.Remove(filepath.Join(folder, entry.Name()))
		}
	}
}
