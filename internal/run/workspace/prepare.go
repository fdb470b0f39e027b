package workspace

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"signalbox/internal/durable"
)

// preparedPrefix is the prefix of the files that record how the worktrees of tasks were made ready.
// They are beside the worktrees, where agents cannot write.
const preparedPrefix = ".prepared-"

// Preparation is what was done to make a worktree ready to work in. For the worktree of a task it
// is kept as long as the worktree.
type Preparation struct {
	// Copied are the files, sorted, that were copied into the worktree from the checkout of the
	// project. They are never committed. HasCopied means that all of them were.
	Copied    []string `json:"copied,omitempty"`
	HasCopied bool     `json:"has_copied,omitempty"`
	// Setup has the setup commands that succeeded in the worktree, with the digest of their files
	// at that time.
	Setup map[string]string `json:"setup,omitempty"`
	// Left are the files that setup commands left and that git does not ignore, with digests of
	// their contents. They are not committed until an agent changes them.
	Left map[string]string `json:"left,omitempty"`
	// Running means that a setup command runs. If its process is killed, Open undoes what the
	// command did to files that git does not ignore.
	Running bool `json:"running,omitempty"`

	file string // "" means that it is not kept
}

// Preparation returns what was done to make the worktree ready.
func (t *Tree) Preparation() (*Preparation, error) {
	p := &Preparation{file: t.repo.note(preparedPrefix, t.Task)}
	if _, err := readJSON(p.file, p); err != nil {
		return nil, fmt.Errorf("read how the worktree of %s was prepared: %w", t.Task, err)
	}
	return p, nil
}

// readJSON reads a file that writeJSON wrote, and reports whether it exists.
func readJSON(name string, v any) (found bool, err error) {
	text, err := os.ReadFile(name)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err == nil {
		err = json.Unmarshal(text, v)
	}
	return true, err
}

func writeJSON(name string, v any) error {
	text, err := json.Marshal(v)
	if err != nil {
		return err
	}
	return durable.Replace(name, text, 0o600)
}

// Save keeps the preparation, if it is that of a task's worktree.
func (p *Preparation) Save() error {
	if p.file == "" {
		return nil
	}
	return writeJSON(p.file, p)
}

// Add records that a setup command succeeded, when its files had this digest.
func (p *Preparation) Add(command, files string) {
	if p.Setup == nil {
		p.Setup = map[string]string{}
	}
	p.Setup[command] = files
}

// Leave records the untracked files that a setup command left in the worktree.
func (p *Preparation) Leave(dir string, left []string) {
	if p.Left == nil {
		p.Left = map[string]string{}
	}
	for _, name := range left {
		if strings.HasSuffix(name, "/") { // a repository, whatever it contains
			p.Left[name] = ""
		} else {
			p.Left[name] = DigestFiles(dir, []string{name})
		}
	}
}

// finishSetup undoes what a killed setup command did. The worktree had no changes before.
func (t *Tree) finishSetup(ctx context.Context) error {
	p, err := t.Preparation()
	if err != nil || !p.Running {
		return err
	}
	commit, err := t.Commit(ctx)
	if err == nil {
		err = t.Discard(ctx, commit)
	}
	if err != nil {
		return err
	}
	p.Running = false
	return p.Save()
}

// excludes reports whether an untracked file in a folder is not to be committed.
func (p *Preparation) excludes(dir, name string) bool {
	if _, copied := slices.BinarySearch(p.Copied, name); copied {
		return true
	}
	left, known := p.Left[name]
	return known && (left == "" || left == DigestFiles(dir, []string{name}))
}

// excluded returns what git clean must keep, as patterns like those in .gitignore. If there are too
// many for a command line, folders stand for what is in them.
func (p *Preparation) excluded() []string {
	names := slices.Clone(p.Copied)
	for name := range p.Left {
		names = append(names, name)
	}
	return excludePatterns(names)
}

// maxExcludes bounds how many patterns are passed to git.
const maxExcludes = 200

func excludePatterns(names []string) (patterns []string) {
	for depth := 20; depth > 0; depth-- {
		patterns = patterns[:0]
		for _, name := range names {
			if parts := strings.SplitAfter(name, "/"); len(parts) > depth {
				name = strings.Join(parts[:depth], "")
			}
			patterns = append(patterns, "/"+ignoreQuote.Replace(name))
		}
		slices.Sort(patterns)
		if patterns = slices.Compact(patterns); len(patterns) <= maxExcludes {
			break
		}
	}
	return patterns
}

// ignoreQuote quotes a path for a pattern like those in .gitignore.
var ignoreQuote = strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`, "!", `\!`, "#",
	`\#`, " ", `\ `)

// Observation is the state of a worktree before a setup command.
type Observation struct {
	dir   string
	state treeState
}

// Commit returns the commit of the worktree.
func (o *Observation) Commit() string { return o.state.commit }

// ErrNotClean means that tracked files in a worktree are changed.
var ErrNotClean = errors.New("the worktree has changes that are not committed")

// Observe looks at one of our worktrees before a setup command runs there. If tracked files are
// changed, the error is ErrNotClean: what the command changes could not be told from that.
func (r *worktrees) Observe(ctx context.Context, dir string) (*Observation, error) {
	state, err := r.status(ctx, dir, "--untracked-files=all", "--ignore-submodules=all")
	if err == nil {
		_, err = r.addSubmoduleEdits(ctx, dir, &state)
	}
	if err == nil && len(state.files) > len(state.untracked) {
		err = ErrNotClean
	}
	if err != nil {
		return nil, err
	}
	return &Observation{dir, state}, nil
}

// ErrCommitted means that a setup command made a commit or switched to another.
var ErrCommitted = errors.New("it made a commit or switched to another one")

// Undo puts back the tracked files that a setup command has changed since o, and returns them. It
// returns the untracked files that the command left, too; one that ends with a slash is a
// repository.
func (r *worktrees) Undo(ctx context.Context, o *Observation) (restored, left []string, err error) {
	state, err := r.status(ctx, o.dir, "--untracked-files=all", "--ignore-submodules=all")
	if err != nil {
		return nil, nil, err
	}
	if state.commit != o.state.commit || state.branch != o.state.branch {
		return nil, nil, ErrCommitted
	}
	inside, err := r.addSubmoduleEdits(ctx, o.dir, &state)
	if err != nil {
		return nil, nil, err
	}
	untracked, before := setOf(state.untracked), setOf(o.state.untracked)
	for _, name := range state.files {
		switch {
		case !untracked[name]:
			restored = append(restored, name)
		case !before[name]:
			left = append(left, name)
		}
	}
	if restored != nil {
		_, err = r.gitIn(ctx, o.dir, "read-tree", "--reset", "-u", "--no-recurse-submodules",
			state.commit)
	}
	if len(inside) > 0 && err == nil {
		gitDir, dirErr := r.gitDir(o.dir)
		if err = dirErr; err == nil {
			err = r.updateSubmodules(ctx, o.dir, gitDir, state.commit)
		}
	}
	return restored, left, err
}

func setOf(names []string) map[string]bool {
	set := make(map[string]bool, len(names))
	for _, name := range names {
		set[name] = true
	}
	return set
}

// DigestFiles returns a digest of the contents of files in a folder. A file that is missing, and
// what is not a file, have a digest too. Links are not followed.
func DigestFiles(dir string, names []string) string {
	all := sha256.New()
	root, err := os.OpenRoot(dir)
	if err != nil {
		return ""
	}
	defer root.Close()
	for _, name := range names {
		fmt.Fprintf(all, "%d %s %s\n", len(name), name, digestFile(root, filepath.FromSlash(name)))
	}
	return hex.EncodeToString(all.Sum(nil))
}

func digestFile(root *os.Root, name string) string {
	info, err := root.Lstat(name)
	if err != nil {
		return "missing"
	}
	if info.Mode()&fs.ModeSymlink != 0 {
		target, _ := root.Readlink(name)
		return fmt.Sprintf("link %q", target)
	}
	if !info.Mode().IsRegular() { // a pipe could not be read
		return info.Mode().Type().String()
	}
	f, err := root.Open(name)
	if err != nil {
		return "unreadable"
	}
	defer f.Close()
	sum := sha256.New()
	if _, err := io.Copy(sum, f); err != nil {
		return "unreadable"
	}
	return hex.EncodeToString(sum.Sum(nil))
}
