package contain

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"signalbox/internal/config"
	"signalbox/internal/durable"
	"signalbox/internal/process"
	"signalbox/internal/sandbox"
)

// CacheFolder is the folder of a box with its Cache.
const CacheFolder = "cache"

// maxCache bounds the size of a generation of the cache.
const maxCache = 4 << 30

// cacheFolders are what build tools keep between two builds, in the home folder.
var cacheFolders = []string{
	goCache, "Library/Caches/go-build", goModules,
	".npm/_cacache", ".cache/pnpm", ".local/share/pnpm/store", "Library/Caches/pnpm",
	"Library/pnpm/store", ".cache/yarn",
	".yarn/berry/cache", ".bun/install/cache",
	".cache/pip", "Library/Caches/pip", ".cache/uv",
	".cargo/registry", ".cargo/git",
	".m2/repository", ".gradle/caches", ".gradle/wrapper",
}

// Cache is what build tools keep between two builds. Programs get it below their own home folders,
// so that each begins with it and none can change it for others. Only setup commands and checks
// that run on the base fill it: nothing that a task wrote gets into it.
//
// It has generations, which never change: folders named g-…, each with a lock that its users share.
// The file current names the newest one. A generation is removed when another one is current and
// no one holds its lock, which the system releases if a process is killed.
type Cache struct {
	// Copy means that it is copied even where the system has layers. Tests set it.
	Copy bool

	dir     string
	folders []string    // relative to a home folder; none is in another one
	limit   int64       // of its size
	layers  func() bool // whether the system has them
}

// layered reports whether the system shows the cache in home folders. Otherwise it is copied.
func (c *Cache) layered() bool { return !c.Copy && c.layers() }

const (
	currentFile      = "current"
	generationPrefix = "g-"
	lockSuffix       = ".lock"
)

// OpenCache returns the cache of a box.
func OpenCache(box string, c *config.Config) *Cache {
	folders := slices.Concat(cacheFolders, c.Cache.Folders)
	slices.Sort(folders)
	folders = slices.Compact(folders)
	inAnother := func(name string) bool {
		return slices.ContainsFunc(folders,
			func(other string) bool { return other != name && within(name, other) })
	}
	// A home folder with all of it must leave room for what a program writes.
	limit := int64(maxCache)
	if c.Limits.Tree > 0 {
		limit = min(limit, int64(c.Limits.Tree)/2)
	}
	return &Cache{dir: filepath.Join(box, CacheFolder), limit: limit,
		folders: slices.DeleteFunc(slices.Clone(folders), inAnother),
		layers: sync.OnceValue(
			func() bool { return canLayer(filepath.Join(box, TempFolder)) == nil })}
}

// HomePrefix is the prefix of folders in TempFolder with what remains of home folders.
const HomePrefix = "home-"

// canLayer returns why the system cannot show folders below others in a folder, nil if it can.
func canLayer(folder string) error {
	if !process.Support().Namespaces {
		return errors.New("there are no namespaces")
	}
	if err := os.MkdirAll(folder, 0o700); err != nil {
		return err
	}
	dir, err := os.MkdirTemp(folder, HomePrefix)
	if err != nil {
		return err
	}
	defer RemoveAll(dir)
	layer := sandbox.Layer{Path: filepath.Join(dir, "home"), Below: []string{filepath.Join(dir, "below")}, Work: filepath.Join(dir, "work")}
	for _, name := range append(layer.Below, layer.Path, layer.Work) {
		if err := os.Mkdir(name, 0o700); err != nil {
			return err
		}
	}
	return process.Try(&sandbox.Policy{Mode: sandbox.Warn, Read: []string{"/usr"},
		Write: []string{layer.Path}, Layers: []sandbox.Layer{layer}})
}

// Generation is a state of the cache that does not change while it is used.
type Generation struct {
	cache  *Cache
	folder string
	lock   *os.File
}

// Use returns the current generation, nil if there is none. The caller calls Release.
func (c *Cache) Use() (*Generation, error) {
	for range 10 { // each time another process has published a newer one and removed this one
		name, err := os.ReadFile(filepath.Join(c.dir, currentFile))
		if errors.Is(err, fs.ErrNotExist) {
			return nil, nil
		}
		if err != nil {
			return nil, fmt.Errorf("use the cache: %w", err)
		}
		g := &Generation{cache: c, folder: filepath.Join(c.dir, filepath.Base(string(name)))}
		if g.lock, err = os.OpenFile(g.folder+lockSuffix, os.O_RDWR, 0); err != nil {
			continue
		}
		if err = durable.ShareFile(g.lock); err == nil {
			_, err = os.Lstat(g.folder)
		}
		if err == nil {
			return g, nil
		}
		g.Release()
	}
	return nil, nil // it is not there any more; the next baseline fills it again
}

// Release ends the use. It may be called for nil, and more than once.
func (g *Generation) Release() {
	if g != nil {
		g.lock.Close()
	}
}

// has returns the folders of the cache that the generation has.
func (g *Generation) has() (folders []string) {
	if g == nil {
		return nil
	}
	for _, name := range g.cache.folders {
		if isRealFolder(g.folder, name) {
			folders = append(folders, name)
		}
	}
	return folders
}

// isRealFolder reports whether there is a folder in another one, without links on the way.
func isRealFolder(folder, name string) bool {
	path := folder
	for part := range strings.SplitSeq(filepath.ToSlash(name), "/") {
		path = filepath.Join(path, part)
		if info, err := os.Lstat(path); err != nil || !info.IsDir() {
			return false
		}
	}
	return true
}

// begin returns a new generation, which begins as another one and is not current yet. The caller
// publishes or releases it.
func (c *Cache) begin(from *Generation) (*Generation, error) {
	g := &Generation{cache: c, folder: filepath.Join(c.dir, generationPrefix+rand.Text())}
	err := os.MkdirAll(c.dir, 0o700)
	if err == nil {
		if g.lock, err = os.OpenFile(g.folder+lockSuffix, os.O_RDWR|os.O_CREATE|os.O_EXCL,
			0o600); err == nil {
			err = durable.ShareFile(g.lock)
		}
	}
	if err == nil {
		err = os.Mkdir(g.folder, 0o700)
	}
	if err == nil {
		err = from.copyInto(g.folder)
	}
	if err == nil {
		err = g.shiftTimes(-ahead)
	}
	if err != nil {
		g.Release()
		return nil, fmt.Errorf("fill the cache: %w", err)
	}
	return g, nil
}

// Go notes when it last used a file of its cache, as the time of the file, unless that is less than
// an hour ago. In a layer this would copy the file. So files of a generation have times in the
// future. In the next one that is filled they have their own times again, because Go removes what
// was not used for days.
const (
	goCache = ".cache/go-build"
	ahead   = 5 * 365 * 24 * time.Hour // some file systems end in 2038
)

// shiftTimes adds to the times of the files of Go's cache.
func (g *Generation) shiftTimes(by time.Duration) error {
	if !isRealFolder(g.folder, goCache) {
		return nil
	}
	return filepath.WalkDir(filepath.Join(g.folder, goCache),
		func(name string, entry fs.DirEntry, err error) error {
			if err != nil || !entry.Type().IsRegular() {
				return err
			}
			info, err := entry.Info()
			if err != nil {
				return err
			}
			return os.Chtimes(name, time.Time{}, info.ModTime().Add(by))
		})
}

// copyInto copies the folders of the generation that another folder does not have yet. One that is
// too large is left out: then programs are slow, and not wrong.
func (g *Generation) copyInto(folder string) error {
	left := int64(0)
	if g != nil {
		left = g.cache.limit
	}
	for _, name := range g.has() {
		to := filepath.Join(folder, name)
		if _, err := os.Lstat(to); err == nil {
			continue
		}
		if err := os.MkdirAll(filepath.Dir(to), 0o700); err != nil {
			return err
		}
		size, err := cloneTree(filepath.Join(g.folder, name), to, left)
		if errors.Is(err, errTooMuch) {
			size, err = 0, RemoveAll(to)
		}
		left -= size
		if err != nil {
			return fmt.Errorf("copy the cache: %w", err)
		}
	}
	return nil
}

// move moves the folders of the cache that are not empty from one folder to another.
func (c *Cache) move(from, to string) error {
	for _, name := range c.folders {
		if !isRealFolder(from, name) || os.Remove(filepath.Join(from, name)) == nil {
			continue
		}
		at := filepath.Join(to, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(at), 0o700),
			moveHome(filepath.Join(from, name), at)); err != nil {
			return fmt.Errorf("fill the cache: %w", err)
		}
	}
	return nil
}

// publish makes the generation the current one, and releases it. One that is empty or too large is
// dropped.
func (g *Generation) publish() error {
	defer g.Release()
	if limit := g.cache.limit; len(g.has()) == 0 || sizeOf(g.folder, limit, nil) > limit {
		return nil
	}
	if err := g.shiftTimes(ahead); err != nil {
		return fmt.Errorf("fill the cache: %w", err)
	}
	// Files that a power failure emptied could be taken for what was compiled.
	if err := durable.SyncFileSystem(g.folder); err != nil {
		return fmt.Errorf("fill the cache: %w", err)
	}
	current := filepath.Join(g.cache.dir, currentFile)
	if err := durable.Replace(current, []byte(filepath.Base(g.folder)), 0o600); err != nil {
		return fmt.Errorf("fill the cache: %w", err)
	}
	return nil
}

// Sweep removes generations that are neither current nor used, also those that a killed process did
// not publish.
func (c *Cache) Sweep() error {
	entries, err := os.ReadDir(c.dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	current, _ := os.ReadFile(filepath.Join(c.dir, currentFile))
	var errs []error
	for _, entry := range entries {
		name, isLock := strings.CutSuffix(entry.Name(), lockSuffix) // which every generation has
		if isLock && strings.HasPrefix(name, generationPrefix) && name != string(current) {
			errs = append(errs, c.removeUnused(filepath.Join(c.dir, name)))
		}
	}
	return errors.Join(errs...)
}

// removeUnused removes a generation unless it is used. The lock is removed last, so that another
// process can finish the work of one that is killed.
func (c *Cache) removeUnused(folder string) error {
	lock, err := os.OpenFile(folder+lockSuffix, os.O_RDWR, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer lock.Close()
	if free, err := durable.TryLockFile(lock); !free || err != nil {
		return err
	}
	if err := RemoveAll(folder); err != nil {
		return err
	}
	return os.Remove(folder + lockSuffix)
}
