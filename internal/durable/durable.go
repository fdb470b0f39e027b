// Package durable has the file operations that must survive a power cut or a killed process, and the locks by which
// processes take turns. A file that is replaced is found either as it was or as it is to be, never in between. When a
// function returns, what it did is on stable storage.
package durable

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
)

// Replace makes data the content of a file.
func Replace(name string, data []byte, mode fs.FileMode) error {
	return viaTemporary(name, data, mode, os.Rename)
}

// Create makes a file with data as its content, or fails with fs.ErrExist if there is one of that name. The file is there
// whole or not at all, which needs a file system with hard links.
func Create(name string, data []byte, mode fs.FileMode) error {
	return viaTemporary(name, data, mode, os.Link)
}

// viaTemporary writes a temporary file and then gives it its name.
func viaTemporary(name string, data []byte, mode fs.FileMode, giveName func(from, to string) error) error {
	f, err := os.CreateTemp(filepath.Dir(name), ".tmp-*")
	if err != nil {
		return err
	}
	defer os.Remove(f.Name()) // of no effect once it is renamed
	if err := errors.Join(f.Chmod(mode), write(f, data)); err != nil {
		return err
	}
	if err := giveName(f.Name(), name); err != nil {
		return err
	}
	return SyncFolder(filepath.Dir(name))
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

// Rename gives a complete file its name.
func Rename(from, to string) error {
	// The content first: the file system may order the new name before it, and a power cut would leave an empty file.
	f, err := os.OpenFile(from, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	if err := errors.Join(f.Sync(), f.Close()); err != nil {
		return err
	}
	if err := os.Rename(from, to); err != nil {
		return err
	}
	return SyncFolder(filepath.Dir(to))
}

// MakeFolder makes a folder, which only its owner may look into, in one that exists. One that is there is left.
func MakeFolder(name string) error {
	if err := os.Mkdir(name, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	// Also if it was there: whoever made it may not have come to this yet.
	return SyncFolder(filepath.Dir(name))
}

// Remove removes a file; it does nothing if there is none.
func Remove(name string) error {
	if err := os.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	// A power cut must not bring back what was destroyed. Also if it is gone: see MakeFolder.
	err := SyncFolder(filepath.Dir(name))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// SyncFolder makes the names in a folder durable: they are entries of the folder, which is not synced with the files.
// Windows has no such call; its file system logs them.
func SyncFolder(name string) error {
	if runtime.GOOS == "windows" {
		return nil
	}
	folder, err := os.Open(name)
	if err != nil {
		return err
	}
	return errors.Join(folder.Sync(), folder.Close())
}
