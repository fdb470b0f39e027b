// Package durable has the file operations that must survive a power cut or a killed process, and the lock by which
// processes take turns. A file that is replaced is found either as it was or as it is to be, never in between.
package durable

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// Replace makes data the content of a file. When it returns, that is on stable storage.
func Replace(name string, data []byte, mode fs.FileMode) error {
	f, err := os.CreateTemp(filepath.Dir(name), ".tmp-*")
	if err != nil {
		return err
	}
	defer os.Remove(f.Name()) // of no effect once it is renamed
	err = errors.Join(f.Chmod(mode), write(f, data))
	if err != nil {
		return err
	}
	if err := os.Rename(f.Name(), name); err != nil {
		return err
	}
	return SyncDir(filepath.Dir(name))
}

// Create makes a file with data as its content, or fails with fs.ErrExist if there is one of that name. When it
// returns, that is on stable storage.
func Create(name string, data []byte, mode fs.FileMode) error {
	f, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode)
	if err != nil {
		return err
	}
	if err := write(f, data); err != nil {
		os.Remove(name)
		return err
	}
	return SyncDir(filepath.Dir(name))
}

// write writes, syncs and closes. The bytes must be on the disk before the name is: otherwise a power cut could leave
// a file of the right name and no content.
func write(f *os.File, data []byte) error {
	_, err := f.Write(data)
	if err == nil {
		err = f.Sync()
	}
	return errors.Join(err, f.Close())
}

// Lock is a lock that is held. The system frees it when its holder ends, however it ends.
type Lock struct{ file *os.File }

// Acquire waits until it holds the lock of a file, which it makes if need be. The file stays and has no meaning.
func Acquire(name string) (*Lock, error) {
	f, err := os.OpenFile(name, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("open the lock: %w", err)
	}
	if err := lock(f); err != nil {
		f.Close()
		return nil, fmt.Errorf("lock %s: %w", name, err)
	}
	return &Lock{f}, nil
}

// Release gives the lock up.
func (l *Lock) Release() error { return l.file.Close() }
