// Package team reads the configuration that a team shares in its repository, and keeps which
// version of it the user trusts.
//
// The configuration is signalbox.yaml at the top of the repository, with the templates in prompts
// and the files that it names. It is read from the last commit of the branch that is checked out,
// never from the files in the working copy, which agents and editors change. Whoever can commit can
// make signalbox run programs with it. So everything in it that can run something, or that allows
// or costs more than the defaults, counts only after the user has trusted exactly this content, in
// this folder, on this machine.
//
// Trust is kept in the user's configuration folder, which neither a clone brings nor agents can
// write, together with a random number that is also in the box. A repository that replaces another
// at the same path has no box, or one with another number.
//
// A box that comes with the repository is not the user's. Its configuration would need no trust, so
// it is not used.
package team

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"signalbox"
	"signalbox/internal/config"
)

// Shared is the configuration of a team: files, by their paths in the repository, with slashes. One
// path is config.FileName.
type Shared struct {
	// Root is the top of the repository, or the folder of a project without a repository.
	Root string
	// Commit is the commit of the files. It is "" if they come from the folder, without a
	// repository or a commit.
	Commit string
	Files  map[string][]byte
	// Harmless means that the files may be used without trust.
	Harmless bool
	// LooseBox means that the box is not at the top of a repository. So it is not known if the box
	// came from elsewhere.
	LooseBox bool
	// Own is a digest of the own configuration of a box that can need trust: a LooseBox, or one
	// that names a database. It is "" if that cannot be read.
	Own string
	// OwnText is the text of that configuration.
	OwnText []byte
	// Modified are the files of the working copy that differ from those of the commit, and so are
	// not used.
	Modified []string
}

// Limits of the files. Their text is read into memory, and people should be able to review it.
const (
	maxFile  = 1 << 20
	maxFiles = 200
	maxTotal = 4 << 20
)

// Read reads the team's configuration of the project in a folder. Files is nil if there is none. It
// refuses a box that came with the repository. box is the folder of the box; "" means that there is
// none.
func Read(ctx context.Context, dir, box string) (*Shared, error) {
	dir, err := realPath(dir)
	if err != nil {
		return nil, err
	}
	r, err := openRepository(ctx, dir)
	if err != nil {
		return nil, err
	}
	if r != nil {
		defer r.close()
	}
	s := &Shared{}
	if box != "" {
		atTop, err := checkBox(ctx, r, dir, box)
		if err != nil {
			return nil, err
		}
		if s.LooseBox = !atTop; s.LooseBox || !isLocal(box) {
			s.OwnText, s.Own, _ = readOwn(box) // what cannot be read is not trusted
		}
	}
	src, err := openSource(r, dir)
	if err != nil {
		return nil, err
	}
	defer src.close()
	s.Root, s.Commit = src.root(), src.commit()
	if err := s.read(src); err != nil {
		return nil, err
	}
	s.Modified = s.findModified()
	return s, nil
}

func (s *Shared) read(src source) error {
	found, err := src.read([]config.TeamPath{{Path: config.FileName}})
	if err != nil || len(found) == 0 {
		return err
	}
	c, named, err := config.ParseTeam(s.Name(), found[config.FileName])
	if err != nil {
		return err
	}
	for _, role := range config.AgentRoles() {
		named = append(named, config.TeamPath{Path: config.TemplateOf(role)})
	}
	others, err := src.read(named)
	if err != nil {
		return err
	}
	s.Harmless = c.Harmless() && len(others) == 0
	s.Files = found
	maps.Copy(s.Files, others)
	total := 0
	for _, text := range s.Files {
		total += len(text)
	}
	if len(s.Files) > maxFiles || total > maxTotal {
		return refuse("keep only what signalbox needs there",
			"the team's configuration has %d files with %d bytes, limit %d files and %d bytes",
			len(s.Files), total, maxFiles, maxTotal)
	}
	return nil
}

// Uses reports whether a change of a file, by its path in the repository, changes the
// configuration.
func (s *Shared) Uses(name string) bool {
	_, used := s.Files[name]
	return used || name == config.FileName || s.Files != nil &&
		strings.HasPrefix(name, config.TemplateFolder+"/")
}

// Name returns what to call the file in messages.
func (s *Shared) Name() string {
	if s.Commit == "" {
		return filepath.Join(s.Root, config.FileName)
	}
	return fmt.Sprintf("%s in commit %s", filepath.Join(s.Root, config.FileName), short(s.Commit))
}

func short(commit string) string { return commit[:min(len(commit), 12)] }

// Names returns the paths of the files, sorted.
func (s *Shared) Names() []string { return slices.Sorted(maps.Keys(s.Files)) }

// Digest returns a digest of the names and contents of the files. Equal digests mean equal files.
func (s *Shared) Digest() string { return digestOf(s.Files) }

func digestOf(files map[string][]byte) string {
	h := sha256.New()
	for _, name := range slices.Sorted(maps.Keys(files)) {
		sum := sha256.Sum256(files[name])
		fmt.Fprintf(h, "%d %s %x\n", len(name), name, sum)
	}
	return hex.EncodeToString(h.Sum(nil))
}

// findModified returns the files of the working copy that differ from those of the commit, and a
// config.FileName that is not committed.
func (s *Shared) findModified() (names []string) {
	if s.Commit == "" {
		return nil
	}
	here, err := os.OpenRoot(s.Root)
	if err != nil {
		return nil
	}
	defer here.Close()
	all := map[string]bool{config.FileName: true}
	for name := range s.Files {
		all[name] = true
	}
	if s.Files != nil {
		for _, role := range config.AgentRoles() {
			all[config.TemplateOf(role)] = true
		}
	}
	for _, name := range slices.Sorted(maps.Keys(all)) {
		committed, inCommit := s.Files[name]
		text, err := readRegular(here, name)
		switch missing := errors.Is(err, fs.ErrNotExist); {
		case missing && !inCommit:
		case err != nil, !inCommit, !bytes.Equal(unixLines(text), unixLines(committed)):
			names = append(names, name)
		}
	}
	return names
}

// unixLines removes what git may add to a text when it checks it out.
func unixLines(text []byte) []byte { return bytes.ReplaceAll(text, []byte("\r\n"), []byte("\n")) }

func refuse(hint, format string, args ...any) error {
	return signalbox.CodeFailed.Errorf(hint,
		format, args...)
}

// ModifiedNote says that changes are not used, "" if there are none.
func (s *Shared) ModifiedNote() string {
	if len(s.Modified) == 0 {
		return ""
	}
	return fmt.Sprintf("uncommitted changes to %s are not used; commit them, or put them in .signalbox/%s", strings.Join(s.Modified, ", "), config.FileName)
}

// Variable is the environment variable with the folder of the configuration that a run uses, for
// its agents that are trees.
const Variable = "SIGNALBOX_TEAM"
