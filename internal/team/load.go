package team

import (
	"bytes"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"signalbox/internal/config"
)

// copiesFolder is the folder in a box with copies of the files that count, each version in a folder
// named after its digest. A running process keeps using its version.
const copiesFolder = "team"

// rootFile is the file next to the copies with the path of the repository, and filesFolder the
// folder with the copies.
const (
	rootFile    = "root"
	filesFolder = "files"
)

// Load returns the configuration that counts for a box: the team's, if it is trusted, and the box's
// own over it. If the team's is not trusted, the error matches ErrUntrusted.
func (s *Shared) Load(store Store, box string) (*config.Config, error) {
	known, err := store.Find(s.Root, box)
	if err != nil {
		return nil, err
	}
	if !s.Trusted(known) {
		return nil, s.untrusted(known)
	}
	if s.Files == nil {
		return config.Load(box)
	}
	t, err := s.team(box)
	if err != nil {
		return nil, err
	}
	return config.LoadTeam(box, t)
}

// Preview returns the configuration that Load would return if the team's were trusted, to show what
// a run would do: nothing that it names may be started or read. It copies files to the folder dir,
// and not into the box.
func (s *Shared) Preview(box, dir string) (*config.Config, error) {
	if s.Files == nil {
		return config.Load(box)
	}
	t, err := s.teamIn(dir)
	if err != nil {
		return nil, err
	}
	return config.LoadTeam(box, t)
}

// Show returns the settings that count for a box, as Load would use them.
func (s *Shared) Show(store Store, box string) ([]config.Setting, error) {
	if _, err := s.Load(store, box); err != nil {
		return nil, err
	}
	if s.Files == nil {
		return config.Show(box, nil)
	}
	t, err := s.team(box)
	if err != nil {
		return nil, err
	}
	return config.Show(box, t)
}

// team returns the files for the package config. It copies them into the box, if there is more than
// one.
func (s *Shared) team(box string) (*config.Team, error) {
	return s.teamIn(filepath.Join(box, copiesFolder))
}

// teamIn is team with copies in a folder.
func (s *Shared) teamIn(copies string) (*config.Team, error) {
	t := &config.Team{Name: s.Name(), Text: s.Files[config.FileName], Root: s.Root}
	for _, name := range s.Names() {
		if name != config.FileName {
			t.Files = append(t.Files, name)
		}
	}
	if s.Harmless { // also before there is a box
		return t, nil
	}
	copies, err := filepath.Abs(copies)
	if err != nil {
		return nil, err
	}
	dir := filepath.Join(copies, s.Digest())
	if err := s.copyTo(dir); err != nil {
		return nil, fmt.Errorf("copy the team's configuration: %w", err)
	}
	t.Copy, t.Dir = dir, filepath.Join(dir, filesFolder)
	return t, nil
}

// copyTo makes a folder have copies of exactly these files.
func (s *Shared) copyTo(dir string) error {
	if s.isCopy(dir) {
		now := time.Now()
		_ = os.Chtimes(dir, now, now) // it is in use; the box may be one that may only be read
		return nil
	}
	defer removeOldCopies(filepath.Dir(dir))
	if err := os.MkdirAll(filepath.Dir(dir), 0o700); err != nil {
		return err
	}
	temp, err := os.MkdirTemp(filepath.Dir(dir), "new-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(temp) // does nothing once it is renamed
	for name, text := range s.Files {
		file := filepath.Join(temp, filesFolder, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
			return err
		}
		if err := os.WriteFile(file, text, 0o600); err != nil {
			return err
		}
	}
	if err := os.WriteFile(filepath.Join(temp, rootFile), []byte(s.Root), 0o600); err != nil {
		return err
	}
	for range 2 { // another process may make the same copy
		if err = os.Rename(temp, dir); err == nil || s.isCopy(dir) {
			return nil
		}
		if err := os.RemoveAll(dir); err != nil {
			return err
		}
	}
	return err
}

// maxCopies is how many versions are kept. Processes that run use the last few.
const maxCopies = 10

// removeOldCopies removes the versions that no command has used for the longest time, and what
// killed processes left.
func removeOldCopies(folder string) {
	entries, err := os.ReadDir(folder)
	if err != nil {
		return // the next command that copies a version removes them
	}
	used := map[string]time.Time{}
	var names []string
	for _, entry := range entries {
		if info, err := entry.Info(); err == nil {
			names = append(names, entry.Name())
			used[entry.Name()] = info.ModTime()
		}
	}
	slices.SortFunc(names, func(a, b string) int { return used[b].Compare(used[a]) })
	for _, name := range names[min(len(names), maxCopies):] {
		os.RemoveAll(filepath.Join(folder, name))
	}
}

// isCopy reports whether a folder has exactly these files.
func (s *Shared) isCopy(dir string) bool {
	t, err := FromCopy(dir)
	if err != nil || t.Root != s.Root || len(t.Files)+1 != len(s.Files) {
		return false
	}
	for name, text := range s.Files {
		copied, err := os.ReadFile(filepath.Join(t.Dir, filepath.FromSlash(name)))
		if err != nil || !bytes.Equal(copied, text) {
			return false
		}
	}
	return true
}

// FromCopy returns the configuration in a folder that Load made, for a process that a run has
// started with it.
func FromCopy(dir string) (*config.Team, error) {
	root, err := os.ReadFile(filepath.Join(dir, rootFile))
	if err != nil {
		return nil, err
	}
	t := &config.Team{Copy: dir, Dir: filepath.Join(dir, filesFolder), Root: string(root), Name: filepath.Join(dir, filesFolder, config.FileName)}
	if t.Text, err = os.ReadFile(t.Name); err != nil {
		return nil, err
	}
	err = filepath.WalkDir(t.Dir, func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		if !entry.Type().IsRegular() {
			return fmt.Errorf("%s is not a file", name)
		}
		below, err := filepath.Rel(t.Dir, name)
		if below = filepath.ToSlash(below); below != config.FileName {
			t.Files = append(t.Files, below)
		}
		return err
	})
	return t, err
}
