package contain

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"signalbox/internal/durable"
)

// errTooMuch means that a folder is larger than what may be copied.
var errTooMuch = errors.New("more than may be copied")

// cloneTree copies a folder to a place where nothing is. Files share their content until one of
// them is changed, where the file system can do that. They are never hard links, through which a
// program would change the original. Links stay links; pipes, sockets and devices are left out. It
// returns the size of the files.
func cloneTree(from, to string, limit int64) (size int64, err error) {
	type made struct {
		name string
		info fs.FileInfo
	}
	var folders []made
	err = filepath.WalkDir(from, func(name string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := entry.Info()
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(from, name)
		if err != nil {
			return err
		}
		at := filepath.Join(to, rel)
		switch mode := info.Mode(); {
		case mode.IsDir():
			folders = append(folders, made{at, info})
			return os.Mkdir(at, 0o700)
		case mode.Type() == fs.ModeSymlink:
			target, err := os.Readlink(name)
			if err != nil {
				return err
			}
			return os.Symlink(target, at)
		case mode.IsRegular():
			if size += info.Size(); size > limit {
				return fmt.Errorf("%s has %w: %d bytes", from, errTooMuch, limit)
			}
			return cloneFile(name, at, info)
		}
		return nil
	})
	// inner ones first, because their creation changes the outer ones
	for i := len(folders) - 1; i >= 0 && err == nil; i-- {
		f := folders[i]
		err = errors.Join(os.Chmod(f.name, f.info.Mode().Perm()|0o700),
			os.Chtimes(f.name, f.info.ModTime(), f.info.ModTime()))
	}
	return size, err
}

// cloneFile copies a file, with its mode and the time of its last change: build tools remove what
// was not used for long.
func cloneFile(from, to string, info fs.FileInfo) error {
	source, err := durable.OpenRegular(from)
	if err != nil {
		return err
	}
	defer source.Close()
	target, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	if !shareContent(target, source) {
		_, err = io.Copy(target, io.LimitReader(source, info.Size())) // it may still grow
	}
	return errors.Join(err, target.Close(), os.Chmod(to, info.Mode().Perm()),
		os.Chtimes(to, info.ModTime(), info.ModTime()))
}
