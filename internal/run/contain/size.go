package contain

import (
	"io/fs"
	"path/filepath"
)

// Exceeds reports whether the files in a folder are larger than a limit together. It stops looking as soon as they are. Folders named in
// except do not count.
func Exceeds(folder string, limit int64, except ...string) bool {
	var size int64
	err := filepath.WalkDir(folder, func(name string, entry fs.DirEntry, err error) error {
		if err != nil {
			return nil // it was removed in the meantime
		}
		if entry.IsDir() {
			for _, other := range except {
				if name == other {
					return fs.SkipDir
				}
			}
			return nil
		}
		if info, err := entry.Info(); err == nil && info.Mode().IsRegular() {
			size += info.Size()
		}
		if size > limit {
			return fs.SkipAll
		}
		return nil
	})
	return err == nil && size > limit
}
