// Package durable provides file operations that survive a power failure or a killed process, and
// locks between processes. Files are replaced atomically. When a function returns, its effect is on
// stable storage. It also opens files that another program may have replaced by something else.
package durable

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"syscall"
)

// Replace writes data to a file, and replaces the file if it exists.
func Replace(name string, data []byte, mode fs.FileMode) error {
	return viaTemporary(name, data, mode, os.Rename)
}

// Create writes data to a new file, or returns fs.ErrExist if the file exists. The file never
// appears incomplete, which needs a file system with hard links.
func Create(name string, data []byte, mode fs.FileMode) error {
	return viaTemporary(name, data, mode, os.Link)
}

// Rewrite replaces the content of an existing file, which keeps its mode and its owner. If the name
// is a link, what it leads to is replaced. A file that cannot be replaced, because it is a mount
// point or its folder or group is somebody else's, is overwritten in place.
func Rewrite(name string, data []byte) error {
	name, err := filepath.EvalSymlinks(name)
	if err != nil {
		return err
	}
	info, err := os.Stat(name)
	if err != nil {
		return err
	}
	err = viaTemporary(name, data, info.Mode().Perm(), func(from, to string) error {
		if err := keepOwner(from, info); err != nil {
			return err
		}
		return os.Rename(from, to)
	})
	if errors.Is(err, syscall.EBUSY) || errors.Is(err, fs.ErrPermission) {
		return overwrite(name, data)
	}
	return err
}

// overwrite replaces the content of a file in place.
func overwrite(name string, data []byte) error {
	f, err := os.OpenFile(name, os.O_WRONLY|os.O_TRUNC, 0)
	if err != nil {
		return err
	}
	return write(f, data)
}

// viaTemporary writes a temporary file and then renames or links it.
func viaTemporary(name string, data []byte, mode fs.FileMode,
	rename func(from, to string) error) error {
	f, err := os.CreateTemp(filepath.Dir(name), ".tmp-*")
	if err != nil {
		return err
	}
	defer os.Remove(f.Name()) // does nothing after a rename
	if err := errors.Join(f.Chmod(mode), write(f, data)); err != nil {
		return err
	}
	if err := rename(f.Name(), name); err != nil {
		return err
	}
	return SyncFolder(filepath.Dir(name))
}

// write writes, syncs and closes. The content must be on the disk before the name: otherwise a
// power failure could leave an empty file with the right name.
func write(f *os.File, data []byte) error {
	_, err := f.Write(data)
	if err == nil {
		err = f.Sync()
	}
	return errors.Join(err, f.Close())
}

// Rename syncs and renames a file.
func Rename(from, to string) error {
	// The content first: the file system may store the new name before it, and a power failure
	// would leave an empty file.
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

// MakeFolder creates a folder that only its owner can access, unless it exists. Its parent must
// exist.
func MakeFolder(name string) error {
	if err := os.Mkdir(name, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	// Even if it exists: the process that created it may not have synced it yet.
	return SyncFolder(filepath.Dir(name))
}

// Remove removes a file. It does nothing if the file does not exist.
func Remove(name string) error {
	if err := os.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	// A power failure must not bring the file back. Sync even if it does not exist: see MakeFolder.
	err := SyncFolder(filepath.Dir(name))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// SyncFolder makes the names in a folder durable. They belong to the folder and are not synced with
// the files. On Windows it does nothing: there is no such call, and the file system logs names.
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
