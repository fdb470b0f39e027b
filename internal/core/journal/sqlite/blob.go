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
	"syscall"
	"time"

	"signalbox"
	"signalbox/internal/core/journal"
	"signalbox/internal/core/journal/driver"
	"signalbox/internal/durable"
)

// orphanAge is the age at which Open removes an unfinished blob. Writing a blob never pauses for
// that long.
const orphanAge = 24 * time.Hour

// putBlob stores the bytes of r in a file named by their SHA-256.
func (j *Journal) putBlob(_ context.Context, r io.Reader) (digest signalbox.Hash, err error) {
	if j.opts.ReadOnly {
		return digest, errReadOnly
	}
	if err := j.makeFolder(j.path(blobFolder)); err != nil {
		return digest, err
	}
	if err := os.Mkdir(j.path(blobTempFolder), 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return digest, err
	}
	temp, digest, err := j.writeTemp(r)
	if err != nil {
		return digest, err
	}
	defer func() {
		if temp != "" { // not renamed
			os.Remove(temp)
		}
	}()
	path := j.blobPath(digest)
	if err := j.makeFolder(filepath.Dir(path)); err != nil {
		return digest, err
	}
	if file, err := openBlob(path, digest); err == nil {
		// The blob exists and its content was synced before it was renamed, but perhaps its name is
		// not synced yet.
		file.Close()
		return digest, durable.SyncFolder(filepath.Dir(path))
	}
	err = durable.Rename(temp, path)
	if err == nil {
		temp = ""
	}
	return digest, err
}

// makeFolder creates a folder of blobs and syncs its parent, once per process: syncing it for every
// blob would double the cost of a blob.
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

// writeTemp writes the bytes of r to a temporary file.
func (j *Journal) writeTemp(r io.Reader) (path string, digest signalbox.Hash, err error) {
	file, err := os.CreateTemp(j.path(blobTempFolder), "*") // with mode 0600
	if err != nil {
		return "", digest, err
	}
	hash := sha256.New()
	_, err = io.Copy(io.MultiWriter(file, hash), r)
	if err = errors.Join(err, file.Close()); err != nil {
		os.Remove(file.Name())
		return "", digest, err
	}
	return file.Name(), signalbox.Hash(hash.Sum(nil)), nil
}

// getBlob reads the blob once to verify it, and returns it from the start.
func (j *Journal) getBlob(_ context.Context, digest signalbox.Hash) (io.ReadCloser, error) {
	return openBlob(j.blobPath(digest), digest)
}

func (j *Journal) openBlob(_ context.Context, digest signalbox.Hash) (journal.Blob, error) {
	file, err := openBlobFile(j.blobPath(digest))
	if err != nil {
		return nil, err
	}
	info, err := file.Stat()
	if err != nil {
		file.Close()
		return nil, err
	}
	return blobFile{file, info.Size()}, nil
}

// blobFile is an open blob. Blobs never change.
type blobFile struct {
	*os.File
	size int64
}

func (b blobFile) Size() int64 { return b.size }

// openBlobFile opens the file of a blob.
func openBlobFile(path string) (*os.File, error) {
	// Opening a named pipe would wait for its writer.
	info, err := os.Stat(path)
	if err == nil && !info.Mode().IsRegular() {
		return nil, driver.Damaged(fmt.Errorf("it is not a regular file but has the mode %v",
			info.Mode()))
	}
	var file *os.File
	if err == nil {
		file, err = os.Open(path)
	}
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR) {
		return nil, signalbox.CodeNotFound.Errorf("",
			"%w: %w", journal.ErrNoBlob, err)
	}
	return file, err
}

// openBlob opens a blob and verifies its digest.
func openBlob(path string, digest signalbox.Hash) (*os.File, error) {
	file, err := openBlobFile(path)
	if err != nil {
		return nil, err
	}
	hash := sha256.New()
	_, err = io.Copy(hash, file)
	if err == nil && signalbox.Hash(hash.Sum(nil)) != digest {
		err = driver.Damaged(fmt.Errorf("its bytes have the digest %x", hash.Sum(nil)))
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

func (j *Journal) deleteBlob(_ context.Context, digest signalbox.Hash) error {
	if j.opts.ReadOnly {
		return errReadOnly
	}
	return durable.Remove(j.blobPath(digest))
}

func (j *Journal) blobPath(digest signalbox.Hash) string {
	name := digest.String()
	return filepath.Join(j.path(blobFolder), name[:2], name[2:])
}

// removeOrphans removes unfinished blobs of killed processes. They do no harm, so errors are
// ignored.
func removeOrphans(folder string, now time.Time) {
	entries, _ := os.ReadDir(folder)
	for _, entry := range entries {
		if info, err := entry.Info(); err == nil && now.Sub(info.ModTime()) > orphanAge {
			os.Remove(filepath.Join(folder, entry.Name()))
		}
	}
}
