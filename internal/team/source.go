package team

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"signalbox/internal/config"
	"signalbox/internal/durable"
	"signalbox/internal/git"
)

// source is where a team's files are read from.
type source interface {
	root() string
	commit() string
	// read returns those of the files that exist. It refuses what is not a file, and what is too
	// large.
	read(named []config.TeamPath) (map[string][]byte, error)
	close()
}

// openSource returns the last commit of the repository around a folder. Without a commit it returns
// the top of the repository as it is, and without a repository, if r is nil, the folder.
func openSource(r *repository, dir string) (source, error) {
	if r != nil {
		id, err := r.head()
		if err != nil {
			return nil, err
		}
		if id != "" {
			return &commitSource{r, id}, nil
		}
		dir = r.Root
	}
	top, err := os.OpenRoot(dir)
	if err != nil {
		return nil, err
	}
	return &folder{top}, nil
}

// repository is a git repository with a temporary view.
type repository struct {
	*git.Repository
	view string
	run  func(env []string, stdin string, args ...string) (string, error) // runs git
	// what head returns, once it is known
	id *string
}

// openRepository returns the repository around a folder, nil if git cannot be used there.
func openRepository(ctx context.Context, dir string) (*repository, error) {
	found, err := git.Locate(ctx, dir)
	for _, none := range []error{git.ErrNotInstalled, git.ErrNotRepository, git.ErrBare,
		git.ErrInside, git.ErrOwner} {
		if errors.Is(err, none) {
			return nil, nil
		}
	}
	if err != nil {
		return nil, err
	}
	view, err := os.MkdirTemp("", "signalbox-git-")
	if err != nil {
		return nil, err
	}
	r := &repository{Repository: found, view: view}
	r.run = func(env []string, stdin string, args ...string) (string, error) {
		return r.runGit(ctx, env, stdin, args)
	}
	if err := found.UseView(view); err != nil {
		r.close()
		return nil, err
	}
	return r, nil
}

func (r *repository) close() { os.RemoveAll(r.view) }

// git runs git. The names of files in its arguments are not patterns.
func (r *repository) git(stdin string, args ...string) (string, error) {
	return r.run([]string{"GIT_LITERAL_PATHSPECS=1"}, stdin, args...)
}

func (r *repository) runGit(ctx context.Context, env []string, stdin string,
	args []string) (string, error) {
	var out, stderr bytes.Buffer
	err := r.Run(ctx, git.Call{Worktree: r.Root, Dir: r.Dir, Args: args, Env: env,
		Stdin: strings.NewReader(stdin), Stdout: &out, Stderr: &stderr})
	if err != nil {
		return "", fmt.Errorf("git %s: %w: %s", args[0], err, strings.TrimSpace(stderr.String()))
	}
	return out.String(), nil
}

// head returns the commit that is checked out, "" if there is none yet.
func (r *repository) head() (string, error) {
	if r.id != nil {
		return *r.id, nil
	}
	out, err := r.git("", "rev-parse", "--verify", "--quiet", "HEAD^{commit}")
	if failed := (*exec.ExitError)(nil); errors.As(err, &failed) && failed.ExitCode() == 1 {
		out, err = "", nil
	}
	if err != nil {
		return "", err
	}
	out = strings.TrimSpace(out)
	r.id = &out
	return out, nil
}

// commitSource is a commit of a repository.
type commitSource struct {
	*repository
	id string
}

func (c *commitSource) root() string   { return c.Root }
func (c *commitSource) commit() string { return c.id }
func (c *commitSource) close()         {} // the repository stays open

func (c *commitSource) read(named []config.TeamPath) (map[string][]byte, error) {
	if len(named) == 0 {
		return nil, nil
	}
	args := []string{"ls-tree", "-z", "-l", "--full-tree", c.id, "--"}
	for _, n := range named {
		if n.Folder {
			n.Path += "/"
		}
		args = append(args, n.Path)
	}
	out, err := c.git("", args...)
	if err != nil {
		return nil, err
	}
	var names []string
	var hashes strings.Builder
	for entry := range strings.SplitSeq(strings.TrimSuffix(out, "\x00"), "\x00") {
		about, name, _ := strings.Cut(entry, "\t")
		fields := strings.Fields(about) // mode, type, hash, size
		if len(fields) != 4 || !isNamed(named, name, fields[1] == "tree") {
			continue
		}
		if mode := fields[0]; mode != "100644" && mode != "100755" {
			return nil, notFile(name, "in commit "+short(c.id))
		}
		if size, err := strconv.ParseInt(fields[3], 10, 64); err != nil || size > maxFile {
			return nil, tooLarge(name, fields[3])
		}
		names = append(names, name)
		hashes.WriteString(fields[2] + "\n")
	}
	if len(names) == 0 {
		return nil, nil
	}
	if err := checkCount(names); err != nil {
		return nil, err
	}
	if out, err = c.git(hashes.String(), "cat-file", "--batch"); err != nil {
		return nil, err
	}
	files := map[string][]byte{}
	for _, name := range names { // HASH blob SIZE, newline, content, newline
		about, rest, _ := strings.Cut(out, "\n")
		fields := strings.Fields(about)
		size, err := strconv.Atoi(fields[max(len(fields)-1, 0)])
		if len(fields) != 3 || err != nil || size >= len(rest) {
			return nil, fmt.Errorf("git cat-file: cannot read %s: %q", name, about)
		}
		files[name], out = []byte(rest[:size]), rest[size+1:]
	}
	return files, nil
}

// isNamed reports whether a path is one of those that are named, or a Markdown file in a folder
// that is.
func isNamed(named []config.TeamPath, name string, isFolder bool) bool {
	return slices.ContainsFunc(named, func(n config.TeamPath) bool {
		if n.Folder {
			return path.Dir(name) == n.Path && path.Ext(name) == ".md" && !isFolder
		}
		return name == n.Path
	})
}

func checkCount(names []string) error {
	if len(names) <= maxFiles {
		return nil
	}
	return refuse("name a folder with fewer files",
		"the team's configuration names %d files, limit %d", len(names), maxFiles)
}

func notFile(name, where string) error {
	return refuse("replace it by a file with the text itself", "%s %s is not a regular file", name,
		where)
}

func tooLarge(name, size string) error {
	return refuse("check that this is the right file", "%s has %s bytes, limit %d", name, size,
		maxFile)
}

// folder is a folder without a commit.
type folder struct{ top *os.Root }

func (f *folder) root() string   { return f.top.Name() }
func (f *folder) commit() string { return "" }
func (f *folder) close()         { f.top.Close() }

func (f *folder) read(named []config.TeamPath) (map[string][]byte, error) {
	files := map[string][]byte{}
	var names []string
	for _, n := range named {
		if !n.Folder {
			names = append(names, n.Path)
			continue
		}
		entries, err := fs.ReadDir(f.top.FS(), n.Path)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, err
		}
		for _, entry := range entries {
			if name := path.Join(n.Path, entry.Name()); isNamed(named, name, entry.IsDir()) {
				names = append(names, name)
			}
		}
	}
	if err := checkCount(names); err != nil {
		return nil, err
	}
	for _, name := range names {
		text, err := readRegular(f.top, name)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, err
		}
		files[name] = text
	}
	return files, nil
}

// readRegular reads a file below a folder. It opens neither links nor pipes.
func readRegular(top *os.Root, name string) ([]byte, error) {
	name = filepath.FromSlash(name)
	before, err := top.Lstat(name)
	if err != nil {
		return nil, err
	}
	if !before.Mode().IsRegular() {
		return nil, notFile(name, "in "+top.Name())
	}
	f, err := durable.OpenRegularIn(top, name) // which does not wait for a pipe that took its place
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if !os.SameFile(before, info) {
		return nil, fmt.Errorf("%s was replaced while it was read", name)
	}
	text, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	if err == nil && len(text) > maxFile {
		return nil, tooLarge(name, strconv.FormatInt(info.Size(), 10))
	}
	return text, err
}
