package team

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"signalbox/internal/config"
	"signalbox/internal/durable"
)

// Store keeps what the user trusts: one file for each project and box, in a folder that only the
// user can write.
type Store struct {
	// Dir is the folder; "" means one in the user's configuration folder.
	Dir string
}

// Record is what the user trusts for a project.
type Record struct {
	Root   string            `json:"root"`
	Box    string            `json:"box"`
	Marker string            `json:"marker"` // also in the box
	Digest string            `json:"digest"` // of the files
	Commit string            `json:"commit,omitempty"`
	Time   time.Time         `json:"time"`
	Files  map[string][]byte `json:"files"` // to show later what has changed
	// Own is the digest of the box's own configuration, which needs trust if the box came from
	// elsewhere.
	Own string `json:"own,omitempty"`
}

// markerFile is the file in a box with the random number of its record.
const markerFile = "trust-marker"

// ErrUntrusted means that the team's configuration is not used, because the user has not trusted
// it.
var ErrUntrusted = errors.New("not trusted")

// errNoFolder means that there is no folder for records.
var errNoFolder = errors.New("there is no folder to keep what you trust")

func (s Store) file(root, box string) (string, error) {
	dir := s.Dir
	if dir == "" {
		folder, err := config.UserFolder()
		if err != nil {
			return "", refuse("set HOME", "%w: %w", errNoFolder, err)
		}
		dir = filepath.Join(folder, "trust")
	}
	return filepath.Join(dir, fmt.Sprintf("%x.json", sha256.Sum256([]byte(root+"\x00"+box)))), nil
}

// Find returns what the user trusts for the project and the box, nil if nothing. A record that
// others could have written, or that belongs to another box at the same path, does not count.
func (s Store) Find(root, box string) (*Record, error) {
	box, err := realPath(box)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	name, err := s.file(root, box)
	if errors.Is(err, errNoFolder) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	info, err := os.Lstat(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	if mode := info.Mode(); !isPrivate(mode) {
		return nil, refuse("remove it, and run signalbox trust again",
			"other users can change or read %s (mode %04o), so it does not count", name,
			mode.Perm())
	}
	text, err := os.ReadFile(name)
	if err != nil {
		return nil, err
	}
	r := &Record{}
	if err := json.Unmarshal(text, r); err != nil {
		return nil, refuse("remove it, and run signalbox trust again", "%s: %w", name, err)
	}
	marker, err := os.ReadFile(filepath.Join(box, markerFile))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	if r.Root != root || r.Box != box || r.Marker == "" ||
		r.Marker != strings.TrimSpace(string(marker)) {
		return nil, nil
	}
	return r, nil
}

// Add records that the user trusts a configuration for a project and a box, which must exist.
func (s Store) Add(shared *Shared, box string, now time.Time) error {
	box, err := realPath(box)
	if err != nil {
		return err
	}
	name, err := s.file(shared.Root, box)
	if err != nil {
		return err
	}
	r := Record{Root: shared.Root, Box: box, Marker: rand.Text(), Digest: shared.Digest(), Commit: shared.Commit, Time: now.UTC(), Files: shared.Files, Own: shared.Own}
	// The marker comes first: without its record it means nothing.
	if err := durable.Replace(filepath.Join(box, markerFile), []byte(r.Marker+"\n"),
		0o600); err != nil {
		return err
	}
	return writeRecord(name, r)
}

// writeRecord writes a record to a file that only the user can read.
func writeRecord(name string, record any) error {
	text, err := json.Marshal(record)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(name), 0o700); err != nil {
		return err
	}
	return durable.Replace(name, text, 0o600)
}

// isPrivate reports whether only the user can read and change a file.
func isPrivate(mode fs.FileMode) bool {
	return mode.IsRegular() && (mode.Perm()&0o077 == 0 || runtime.GOOS == "windows")
}

// Remove removes what the user trusts for a project and a box. It reports whether there was
// something.
func (s Store) Remove(root, box string) (bool, error) {
	box, err := realPath(box)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	name, err := s.file(root, box)
	if err == nil {
		err = os.Remove(name)
	}
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return err == nil, err
}

func realPath(name string) (string, error) {
	name, err := filepath.Abs(name)
	if err != nil {
		return "", err
	}
	return filepath.EvalSymlinks(name)
}

// Trusted reports whether the configuration may be used: the user trusts exactly these files, or
// they are harmless. known is what Find returned.
//
// Files that are not in a commit can be changed and deleted by agents that work in their folder. So
// once the user has trusted some, no others count, and neither does it count that there are none:
// the settings that the user relies on would be gone.
func (s *Shared) Trusted(known *Record) bool {
	same := known != nil && known.Digest == s.Digest() && digestOf(known.Files) == known.Digest
	if known != nil && (s.Commit == "" || known.Commit == "") {
		return same
	}
	return s.Files == nil || s.Harmless || same
}

// untrusted returns the error for a configuration that may not be used.
func (s *Shared) untrusted(known *Record) error {
	if s.Files == nil {
		return refuse("put the file back, or run signalbox trust to work without it", "%w",
			kindError{ErrUntrusted,
				"the team's configuration is gone since you trusted it: there is no " + s.Name()})
	}
	what := "is not trusted yet"
	if known != nil {
		what = "has changed since you trusted it"
	}
	return Untrusted(fmt.Sprintf("the team's configuration %s: %s sets %s", what, s.Name(),
		strings.Join(s.groups(), ", ")))
}

// Untrusted returns an error that matches ErrUntrusted.
func Untrusted(text string) error {
	return refuse("run signalbox trust: it shows what this would run on your machine, and asks whether you trust it",
		"%w", kindError{ErrUntrusted, text})
}

// groups returns the names of the groups of settings, and of the other files.
func (s *Shared) groups() (names []string) {
	settings, err := config.ShowTeam(s.Files[config.FileName])
	if err != nil {
		return []string{err.Error()} // cannot happen: Read has parsed it
	}
	for _, set := range settings {
		if group, _, _ := strings.Cut(strings.ReplaceAll(set.Name, "[", "."),
			"."); len(names) == 0 || names[len(names)-1] != group {
			names = append(names, group)
		}
	}
	for _, name := range s.Names() {
		if name != config.FileName {
			names = append(names, name)
		}
	}
	return names
}
