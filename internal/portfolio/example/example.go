// Package example contains the portfolio that signalbox portfolio init writes. It has about 80
// lots, and its README describes for every flag of both tools a change that raises it.
// examples/portfolio in the repository is a copy.
package example

import (
	"embed"
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"signalbox"
	"signalbox/internal/durable"
)

//go:embed portfolio
var files embed.FS

// root is the example's folder in files.
const root = "portfolio"

// Write writes the example to a folder and returns the names of its files. If one of the files
// exists, it writes nothing.
func Write(dir string) ([]string, error) {
	var names []string
	err := fs.WalkDir(files, root, func(name string, entry fs.DirEntry, err error) error {
		if err == nil && !entry.IsDir() {
			names = append(names, name[len(root)+1:])
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	for _, name := range names {
		if _, err := os.Lstat(filepath.Join(dir, name)); !errors.Is(err, fs.ErrNotExist) {
			return nil, signalbox.CodeConflict.Errorf("name another folder; nothing was written",
				"%s already exists", filepath.Join(dir, name))
		}
	}
	for _, name := range names {
		if err := write(dir, name); err != nil {
			return nil, signalbox.CodeFailed.Errorf("check that you may write there",
				"cannot write the example: %w", err)
		}
	}
	return names, nil
}

func write(dir, name string) error {
	data, err := files.ReadFile(root + "/" + name)
	if err != nil {
		return err
	}
	file := filepath.Join(dir, filepath.FromSlash(name))
	if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
		return err
	}
	return durable.Create(file, data, 0o600)
}
