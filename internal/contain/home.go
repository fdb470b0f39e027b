package contain

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"signalbox"
	"signalbox/internal/config"
	"signalbox/internal/durable"
	"signalbox/internal/sandbox"
)

// Authors keep their home folder while their task lasts. Every other program begins with an empty
// one: a reviewer runs the tests of the change, and a check runs nothing else, so what they leave
// behind is not theirs. A ~/.gitconfig that hides changes must not wait for the next reviewer.

// layersFolder is the folder, beside the home folders of a task, with what belongs to them and
// programs do not see.
const layersFolder = ".layers"

// home is the home folder of a program.
type home struct {
	box    string
	folder string // "" means none
	// fresh means that it is empty when the program starts, and removed by Finish.
	fresh bool
	// below are folders whose content is shown below that of the home folder.
	below []string
	cache *Generation // may be nil
	// fills is a generation whose folders are in the home folder while the program runs; nil means
	// none.
	fills *Generation
	// layered means that the system shows the cache and the folders of below. Otherwise they are
	// copied.
	layered bool
}

// beside returns the folder for what belongs to a home folder.
func (h home) beside() string {
	return filepath.Join(filepath.Dir(h.folder), layersFolder, filepath.Base(h.folder))
}

// layers returns what is shown in the home folder.
func (h home) layers() (layers []sandbox.Layer) {
	layer := sandbox.Layer{Path: h.folder, Below: slices.Clone(h.below), Work: h.beside()}
	cached := h.cache.has()
	if len(cached) > 0 {
		layer.Below = append(layer.Below, h.cache.folder)
	}
	if len(h.below) == 0 {
		// The rest of the home folder is as signalbox writes it: it passes on logins there while a
		// program runs.
		layer.Only = cached
	}
	if len(layer.Below) == 0 {
		return nil
	}
	return []sandbox.Layer{layer}
}

// agentHome returns the home folder of an agent.
func (s Site) agentHome(a Agent) home {
	h := home{box: s.Box, folder: s.state(a.Work, AgentHome(a.Role, a.Name)),
		fresh: !signalbox.Role(a.Role).IsAuthor(), cache: a.Cache}
	h.layered = a.Cache != nil && a.Cache.cache.layered()
	return h
}

// Homes are the home folders for one run of setup commands and checks. The setup commands share
// one. Each check has its own, which begins as the setup commands left theirs: code of the task
// that one check runs leaves nothing for the next. All have the same path, because programs write
// it into files.
type Homes struct{ home }

// OpenHomes returns new home folders for work. name is ChecksHome or BaseHome. If onBase is set,
// the commands run nothing but what is on the base, and fill a new generation of the cache, which
// Publish makes the current one. The caller calls Close.
func (s Site) OpenHomes(work, name string, onBase bool) (*Homes, error) {
	h := &Homes{home{box: s.Box, folder: s.state(work, name)}}
	if h.folder == "" {
		return h, nil
	}
	if err := h.remove(); err != nil {
		return nil, err
	}
	if s.Cache == nil || s.newProgram(config.Sandbox{}).p.Policy.Mode == sandbox.Off {
		return h, nil
	}
	cache, err := s.Cache.Use()
	if err != nil {
		return nil, err
	}
	h.layered = s.Cache.layered()
	if !onBase {
		h.cache = cache
		return h, nil
	}
	defer cache.Release()
	h.fills, err = s.Cache.begin(cache)
	return h, err
}

// setup returns the home folder of setup commands.
func (h *Homes) setup() home { return h.home }

// check returns the home folder of a check. Without homes, that of an explanation.
func (h *Homes) check(s Site, work string) home {
	if h == nil {
		return home{box: s.Box, folder: s.state(work, ChecksHome), fresh: true}
	}
	own := h.home
	own.fresh = true
	if _, err := os.Lstat(h.left()); err == nil {
		own.below = []string{h.left()}
	}
	return own
}

// left returns the folder with what setup commands left.
func (h *Homes) left() string {
	return filepath.Join(filepath.Dir(h.beside()), filepath.Base(h.folder)+"-left")
}

// EndSetup puts what the setup commands left below the home folders of the checks.
func (h *Homes) EndSetup() error {
	if h.folder == "" {
		return nil
	}
	if err := os.MkdirAll(filepath.Dir(h.left()), 0o700); err != nil {
		return err
	}
	if err := moveHome(h.folder, h.left()); err != nil {
		return fmt.Errorf("keep what setup commands left: %w", err)
	}
	return nil
}

// Publish makes what the commands left of the cache the current generation, if they ran on the
// base.
func (h *Homes) Publish() error {
	if h.fills == nil {
		return nil
	}
	return errors.Join(h.fills.publish(), h.fills.cache.Sweep())
}

// Close removes the home folders.
func (h *Homes) Close() error {
	h.cache.Release()
	h.fills.Release()
	if h.folder == "" {
		return nil
	}
	return h.remove()
}

func (h *Homes) remove() error {
	return errors.Join(removeHome(h.box, h.folder), removeHome(h.box, h.left()),
		RemoveAll(h.beside()))
}

// removeHome removes a home folder, after a last look at its logins. It moves the folder away
// first, so that nothing of it can be found under its name even if something in it cannot be
// removed; the leftovers of a crew are tried again.
func removeHome(box, folder string) error {
	_, err := os.Lstat(recordOf(folder))
	hadLogins := err == nil
	if hadLogins {
		if err := (&logins{home: folder}).renewLeftover(); err != nil {
			return err
		}
	}
	away := filepath.Join(box, TempFolder, HomePrefix+rand.Text())
	if err := os.MkdirAll(filepath.Dir(away), 0o700); err != nil {
		return err
	}
	if err := moveHome(folder, away); err != nil {
		return fmt.Errorf("remove a home folder: %w", err)
	}
	_ = RemoveAll(away)
	if hadLogins {
		return durable.Remove(recordOf(folder))
	}
	return nil
}

// moveHome moves a home folder, if there is one.
func moveHome(from, to string) error {
	info, err := os.Lstat(from)
	if err == nil && info.IsDir() {
		err = os.Chmod(from, 0o700) // otherwise its owner cannot move it
	}
	if err == nil {
		err = os.Rename(from, to)
	}
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// RemoveHome removes a folder of a task's home folders.
func (s Site) RemoveHome(work, name string) error { return removeHome(s.Box, s.state(work, name)) }

// fill makes the home folder what it is when a program starts.
func (h home) fill() error {
	if h.fresh {
		if err := removeHome(h.box, h.folder); err != nil {
			return err
		}
	}
	_, err := os.Lstat(h.folder)
	if !h.layered && len(h.below) > 0 && errors.Is(err, fs.ErrNotExist) {
		if _, err := cloneTree(h.below[0], h.folder, maxCache); err != nil {
			return fmt.Errorf("copy what setup commands left: %w", err)
		}
	}
	if err := os.MkdirAll(h.folder, 0o700); err != nil {
		return err
	}
	// The program could change everything in its home folder, so a link there may lead anywhere. A
	// root does not follow those that lead out of it.
	root, err := os.OpenRoot(h.folder)
	if err != nil {
		return err
	}
	defer root.Close()
	if h.fills != nil {
		for _, name := range h.fills.has() {
			if err := makeFolder(root, filepath.Dir(name)); err != nil {
				return err
			}
		}
		return errors.Join(h.fills.cache.move(h.fills.folder, h.folder), h.makeWork())
	}
	for _, name := range h.cache.has() {
		folder := name
		if !h.layered {
			folder = filepath.Dir(name)
		}
		if err := makeFolder(root, folder); err != nil {
			return err
		}
	}
	if !h.layered {
		return h.cache.copyInto(h.folder)
	}
	return h.makeWork()
}

// makeWork makes the folders that the system needs for layers.
func (h home) makeWork() error {
	if !h.layered {
		return nil
	}
	for _, layer := range h.layers() {
		if err := errors.Join(RemoveAll(layer.Work), os.MkdirAll(layer.Work, 0o700)); err != nil {
			return err
		}
	}
	return nil
}

// Finish removes the home folder if it was for this start of the program only, and ends the use of
// the cache. Call it after the program has ended, and after RenewLogins.
func (p *Program) Finish() (err error) {
	p.cache.Release()
	h := p.place
	if h.fills != nil {
		err = h.fills.cache.move(h.folder, h.fills.folder)
	}
	if h.folder == "" || !h.fresh {
		return err
	}
	return errors.Join(err, removeHome(h.box, h.folder), RemoveAll(h.beside()))
}
