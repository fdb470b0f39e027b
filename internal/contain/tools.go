package contain

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"signalbox/internal/config"
	"signalbox/internal/durable"
	"signalbox/internal/process"
)

// Tools are the tools of one process, which are shell commands that work in one folder. They share
// a folder for temporary files.
type Tools struct {
	site   Site
	dir    string
	folder string
	lock   *os.File
}

// toolsPrefix is the prefix of the folders that OpenTools creates in the system's folder for
// temporary files. Such a folder contains a file that its process keeps locked, and the folder that
// tools can change. The system releases the lock when the process dies.
const (
	toolsPrefix = "signalbox-tools-"
	toolsLock   = "lock"
	toolsTemp   = "tmp"
)

// OpenTools creates a folder for the temporary files of tools that work in dir, and removes those
// of processes that were killed. The caller calls Close.
func (s Site) OpenTools(dir string) (*Tools, error) {
	removeToolFolders(os.TempDir())
	for {
		folder, err := os.MkdirTemp("", toolsPrefix)
		if err != nil {
			return nil, fmt.Errorf("create a folder for temporary files: %w", err)
		}
		lock, err := lockNew(filepath.Join(folder, toolsLock))
		if err != nil {
			return nil, fmt.Errorf("create a folder for temporary files: %w",
				errors.Join(err, os.RemoveAll(folder)))
		}
		if lock != nil {
			return &Tools{s, dir, folder, lock}, nil
		}
		// Before the file was locked, another process took the folder for that of a dead process.
	}
}

// lockNew creates a file and locks it. It returns nil if another process locked or removed the file
// first.
func lockNew(name string) (*os.File, error) {
	file, err := os.OpenFile(name, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return nil, err
	}
	locked, err := durable.TryLockFile(file)
	if err == nil && locked {
		if _, gone := os.Lstat(name); gone == nil {
			return file, nil
		}
	}
	return nil, errors.Join(err, file.Close())
}

// Prepare returns what a tool gets, and creates the folders that it needs. It fails if the system
// cannot enforce the tool's sandbox.
func (t *Tools) Prepare(own config.Sandbox, pass []string) (*Program, error) {
	p := t.site.Tool(own, pass, t.dir, filepath.Join(t.folder, toolsTemp))
	if err := process.Support().Check(p.Policy); err != nil {
		return nil, err
	}
	return p, p.Prepare()
}

// Close removes the temporary files.
func (t *Tools) Close() error { return removeToolFolder(t.folder, t.lock) }

// removeToolFolder removes a folder whose lock the caller holds, and closes the lock. The lock is
// removed last, so that another process can finish the work of one that is killed.
func removeToolFolder(folder string, lock *os.File) error {
	if err := errors.Join(RemoveAll(filepath.Join(folder, toolsTemp)), durable.UnlockFile(lock),
		lock.Close()); err != nil {
		return err
	}
	return os.RemoveAll(folder)
}

// removeToolFolders removes the folders of processes that were killed. What it cannot remove, or
// does not recognise, stays.
func removeToolFolders(dir string) {
	entries, _ := os.ReadDir(dir)
	for _, entry := range entries {
		folder := filepath.Join(dir, entry.Name())
		if !strings.HasPrefix(entry.Name(), toolsPrefix) {
			continue
		}
		if lock := lockLeftover(folder); lock != nil {
			_ = removeToolFolder(folder, lock)
		}
	}
}

// lockLeftover locks the folder of a process of this user that was killed. It returns nil if there
// is another folder of that name, or none. Others can create names in the folder for temporary
// files, so no link out of the folder is followed.
func lockLeftover(folder string) *os.File {
	if info, err := os.Lstat(folder); err != nil || !info.IsDir() || !isOwn(info) {
		return nil
	}
	root, err := os.OpenRoot(folder)
	if err != nil {
		return nil
	}
	defer root.Close()
	lock, err := root.OpenFile(toolsLock, os.O_RDWR, 0)
	if err != nil {
		return nil
	}
	if locked, err := durable.TryLockFile(lock); err != nil || !locked {
		lock.Close()
		return nil
	}
	return lock
}
