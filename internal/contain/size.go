package contain

import (
	"context"
	"io/fs"
	"path/filepath"
	"slices"
	"time"
)

// Exceeds reports whether the files in a folder are larger than a limit together. It stops looking
// as soon as they are. Folders named in except do not count.
func Exceeds(folder string, limit int64, except ...string) bool {
	return sizeOf(folder, limit, except) > limit
}

// sizeOf returns the size of the files in a folder. It stops looking as soon as they are larger
// than enough.
func sizeOf(folder string, enough int64, except []string) (size int64) {
	_ = filepath.WalkDir(folder, func(name string, entry fs.DirEntry, err error) error {
		if err != nil {
			return nil // it was removed in the meantime
		}
		if entry.IsDir() {
			if slices.Contains(except, name) {
				return fs.SkipDir
			}
			return nil
		}
		if info, err := entry.Info(); err == nil && info.Mode().IsRegular() {
			size += info.Size()
		}
		if size > enough {
			return fs.SkipAll
		}
		return nil
	})
	return size
}

// exceeds reports whether folders of the program are larger than its limit together.
func (p *Program) exceeds(folders ...string) bool {
	left := p.Limit
	for _, folder := range folders {
		if folder == "" {
			continue
		}
		if left -= sizeOf(folder, left, []string{p.box}); left < 0 {
			return true
		}
	}
	return false
}

// WatchSize returns a channel that is closed when the program has written more than its limit
// allows, nil if there is no limit. It looks until ctx is done. Looking at many files takes a
// while, so it pauses much longer than it looks.
func (p *Program) WatchSize(ctx context.Context, pause time.Duration) <-chan struct{} {
	if p.Limit == 0 {
		return nil
	}
	exceeded := make(chan struct{})
	go func() {
		for next := pause; ; {
			select {
			case <-ctx.Done():
				return
			case <-time.After(next):
			}
			began := time.Now()
			if p.exceeds(p.dir, p.home, p.temp) {
				close(exceeded)
				return
			}
			next = max(pause, 50*time.Since(began))
		}
	}()
	return exceeded
}

// TreeExceeds reports whether the working copy alone is larger than the program's limit.
func (p *Program) TreeExceeds() bool { return p.Limit > 0 && p.exceeds(p.dir) }

// EmptyHome removes the private home folder of a program that has ended because it exceeded its
// limit, if the next program would exceed it from the start because of that folder.
func (p *Program) EmptyHome() error {
	if p.home == "" || p.Limit == 0 || p.TreeExceeds() || !p.exceeds(p.dir, p.home) {
		return nil
	}
	return RemoveHome(p.home)
}
