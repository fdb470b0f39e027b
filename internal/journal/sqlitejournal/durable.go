package sqlitejournal

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
)

// This file has the steps that make files outlive a power cut. SQLite sees to its own.

// renameDurably gives a complete file its name.
func renameDurably(from, to string) error {
	// The content first: the file system may order the new name before it, and a power cut would leave an empty file.
	if err := syncFile(from); err != nil {
		return err
	}
	if err := os.Rename(from, to); err != nil {
		return err
	}
	// The name: it is an entry of the folder, which is not synced with the file.
	return syncFolder(filepath.Dir(to))
}

// makeFolderDurably makes a folder in one that exists.
func makeFolderDurably(path string) error {
	if err := os.Mkdir(path, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	// Also if it was there: whoever made it may not have come to this yet.
	return syncFolder(filepath.Dir(path))
}

// removeDurably removes a file; it does nothing if there is none.
func removeDurably(path string) error {
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	// A power cut must not bring back what was destroyed. Also if it is gone: see makeFolderDurably.
	err := syncFolder(filepath.Dir(path))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

func syncFile(path string) error {
	file, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	return errors.Join(file.Sync(), file.Close())
}

// syncFolder makes the entries of a folder durable. Windows has no such call; its file system logs them.
func syncFolder(path string) error {
	if runtime.GOOS == "windows" {
		return nil
	}
	folder, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(folder.Sync(), folder.Close())
}
