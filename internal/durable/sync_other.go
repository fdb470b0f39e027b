//go:build !linux

package durable

import (
	"io/fs"
	"os"
	"path/filepath"
)

// SyncFileSystem writes all files of a folder to the disk.
func SyncFileSystem(folder string) error {
	return filepath.WalkDir(folder, func(name string, entry fs.DirEntry, err error) error {
		if err != nil || !entry.Type().IsRegular() {
			return err
		}
		file, err := os.Open(name)
		if err != nil {
			return err
		}
		defer file.Close()
		return file.Sync()
	})
}
