package workspace

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
)

// IncludeFile is the file in the checkout of the project that lists ignored files to copy into
// worktrees, with patterns like those in .gitignore. Other programs use it too.
const IncludeFile = ".worktreeinclude"

// maxIncludes bounds the size of IncludeFile.
const maxIncludes = 1 << 20

// CopyOptions configure CopyIgnored.
type CopyOptions struct {
	// Match reports whether a file is copied, besides those that IncludeFile names.
	Match func(name string) bool
	// Tracked makes an IncludeFile count that git tracks. It came with the repository, so the user
	// must want it.
	Tracked bool
	// Limit is how large the files may be together; 0 means any size.
	Limit int64
	// Except is a folder that is never copied, such as that of the box.
	Except string
}

// ErrCopyTooLarge means that the files to copy are larger than the limit.
var ErrCopyTooLarge = errors.New("the files to copy are larger")

// CopyIgnored copies ignored files from the checkout of the project into one of our worktrees:
// regular files, and symbolic links that stay inside. A file that exists there already is kept. It
// returns the names of the files, and notes about what it left out.
//
// The files are ignored in the checkout of a person, and named there or in the configuration. What
// a task has on its branch cannot make it fail.
func (r *worktrees) CopyIgnored(ctx context.Context, dir string,
	o CopyOptions) (copied, notes []string, err error) {
	names, err := r.filesToCopy(ctx, o)
	if err != nil || len(names) == 0 {
		return nil, nil, err
	}
	from, err := os.OpenRoot(r.Root)
	if err != nil {
		return nil, nil, err
	}
	defer from.Close()
	to, err := os.OpenRoot(dir)
	if err != nil {
		return nil, nil, err
	}
	defer to.Close()
	var size int64
	for _, name := range names {
		if err := ctx.Err(); err != nil {
			return nil, nil, err
		}
		if !mayCopy(name) || o.Except != "" &&
			isWithin(filepath.Join(r.Root, filepath.FromSlash(name)), o.Except) {
			continue
		}
		info, err := from.Lstat(filepath.FromSlash(name))
		if errors.Is(err, fs.ErrNotExist) {
			continue // it was removed in the meantime
		}
		if err != nil {
			return nil, nil, err
		}
		if blocked := blockedBy(to, name); blocked != "" {
			notes = append(notes,
				fmt.Sprintf("%s: it is not copied into the worktree %s, where %s is in its place",
					name, filepath.Base(dir), blocked))
			continue
		}
		note := ""
		switch {
		case info.Mode()&fs.ModeSymlink != 0:
			note, err = copyLink(from, to, name)
		case info.Mode().IsRegular():
			if size += info.Size(); o.Limit > 0 && size > o.Limit {
				return nil, nil, ErrCopyTooLarge
			}
			err = copyFile(from, to, name, info)
		default:
			note = "it is not a regular file, and"
		}
		if err != nil {
			return nil, nil, fmt.Errorf("copy %s: %w", name, err)
		}
		if note != "" {
			notes = append(notes, fmt.Sprintf("%s: %s is not copied into worktrees", name, note))
			continue
		}
		copied = append(copied, name)
	}
	return copied, notes, nil
}

// blockedBy returns what a task has in a worktree where a file or its folders belong, "" if
// nothing: a file or a link in place of a folder, a folder in place of the file, or something that
// only copyFile may put there. Nothing is copied through a link of a task.
func blockedBy(to *os.Root, name string) string {
	parts := strings.Split(name, "/")
	for i := range parts {
		part := path.Join(parts[:i+1]...)
		info, err := to.Lstat(filepath.FromSlash(part))
		if err != nil {
			break // it is created
		}
		if info.IsDir() != (i < len(parts)-1) {
			return part
		}
	}
	part := name + copySuffix
	if info, err := to.Lstat(filepath.FromSlash(part)); err == nil && !info.Mode().IsRegular() {
		return part
	}
	return ""
}

// filesToCopy returns the ignored files of the project's checkout that match, or that IncludeFile
// names, sorted.
func (r *worktrees) filesToCopy(ctx context.Context, o CopyOptions) ([]string, error) {
	included, err := r.included(ctx, o.Tracked)
	if err != nil || o.Match == nil && included == nil {
		return nil, err
	}
	ignored, err := r.Ignored(ctx)
	if err != nil {
		return nil, err
	}
	return slices.DeleteFunc(ignored,
			func(name string) bool { return !(o.Match != nil && o.Match(name)) && !included[name] }),
		nil
}

// Ignored returns the ignored files of the project's checkout, sorted. A name that ends with a
// slash is a repository.
func (r *worktrees) Ignored(ctx context.Context) ([]string, error) {
	args := []string{"ls-files", "-z", "--others", "--ignored", "--exclude-standard"}
	// the view does not have it
	if exclude := filepath.Join(r.common, "info", "exclude"); isRegular(exclude) {
		args = append(args, "--exclude-from="+exclude)
	}
	return r.listFiles(ctx, args...)
}

// IgnoredFiles returns the ignored files of the checkout around dir. It changes nothing.
func IgnoredFiles(ctx context.Context, dir string) ([]string, error) {
	r, done, err := Borrow(ctx, dir)
	if err != nil {
		return nil, err
	}
	defer done()
	return r.Ignored(ctx)
}

func (r *runner) listFiles(ctx context.Context, args ...string) ([]string, error) {
	out, err := r.git(ctx, args...)
	if err != nil || out == "" {
		return nil, err
	}
	names := strings.Split(strings.TrimSuffix(out, "\x00"), "\x00")
	slices.Sort(names)
	return slices.Compact(names), nil
}

// included returns the untracked files that IncludeFile names, nil if there is no such file, or if
// git tracks it and that must not be.
func (r *worktrees) included(ctx context.Context, tracked bool) (map[string]bool, error) {
	name := filepath.Join(r.Root, IncludeFile)
	info, err := os.Lstat(name)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, nil
	case err != nil:
		return nil, err
	}
	if !tracked {
		// On some systems a name that differs only in case is the same file.
		if known, err := r.listFiles(ctx, "ls-files", "-z", "--cached", "--",
			":(top,icase,literal)"+IncludeFile); err != nil || len(known) > 0 {
			return nil, err
		}
	}
	if !info.Mode().IsRegular() || info.Size() > maxIncludes {
		return nil, fmt.Errorf("%s is not a regular file of at most %d bytes", name, maxIncludes)
	}
	names, err := r.listFiles(ctx, "ls-files", "-z", "--others", "--ignored", "--exclude-from="+
		name)
	return setOf(names), err
}

func isRegular(name string) bool {
	info, err := os.Lstat(name)
	return err == nil && info.Mode().IsRegular()
}

// mayCopy reports whether a file may be copied at all: not a repository, and nothing of git or of a
// box.
func mayCopy(name string) bool {
	if strings.HasSuffix(name, "/") || !filepath.IsLocal(filepath.FromSlash(name)) {
		return false
	}
	for part := range strings.SplitSeq(name, "/") {
		if strings.EqualFold(part, ".git") || strings.EqualFold(part, ".signalbox") {
			return false
		}
	}
	return true
}

// isWithin reports whether a path is a folder, or is in it.
func isWithin(name, folder string) bool {
	rel, err := filepath.Rel(folder, name)
	return err == nil && filepath.IsLocal(rel)
}

// copyLink copies a symbolic link that stays inside. Otherwise it returns why not.
func copyLink(from, to *os.Root, name string) (note string, err error) {
	target, err := from.Readlink(filepath.FromSlash(name))
	if err != nil {
		return "", err
	}
	if filepath.IsAbs(target) ||
		!filepath.IsLocal(filepath.Join(filepath.FromSlash(path.Dir(name)), target)) {
		return "a link to " + target + ", which is outside,", nil
	}
	if err := copyFolders(from, to, name); err != nil {
		return "", err
	}
	if err := to.Symlink(target, filepath.FromSlash(name)); err != nil &&
		!errors.Is(err, fs.ErrExist) {
		return "", err
	}
	return "", nil
}

// copySuffix is the suffix of a file that is being copied. A killed process leaves it, and the next
// one replaces it.
const copySuffix = ".signalbox-copy"

// copyFile copies a regular file with its mode. It never appears incomplete.
func copyFile(from, to *os.Root, name string, info fs.FileInfo) (err error) {
	name = filepath.FromSlash(name)
	if _, err := to.Lstat(name); err == nil {
		return nil
	}
	if err := copyFolders(from, to, filepath.ToSlash(name)); err != nil {
		return err
	}
	in, err := from.Open(name)
	if err != nil {
		return err
	}
	defer in.Close()
	if now, err := in.Stat(); err != nil || !os.SameFile(now, info) {
		return errors.Join(err, errors.New("it was replaced while it was copied"))
	}
	part := name + copySuffix
	if err := to.Remove(part); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	out, err := to.OpenFile(part, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, io.LimitReader(in, info.Size())) // not more than was counted
	err = errors.Join(err, out.Chmod(info.Mode().Perm()), out.Close())
	if err == nil {
		err = to.Rename(part, name)
	}
	if err != nil {
		to.Remove(part)
	}
	return err
}

// copyFolders creates the folders that contain a file, with their modes.
func copyFolders(from, to *os.Root, name string) error {
	parts := strings.Split(path.Dir(name), "/")
	for i := range parts {
		folder := filepath.Join(parts[:i+1]...)
		info, err := from.Lstat(folder)
		if err != nil {
			return err
		}
		if !info.IsDir() {
			return fmt.Errorf("%s is not a folder", folder)
		}
		if err := to.Mkdir(folder, info.Mode().Perm()|0o700); err != nil &&
			!errors.Is(err, fs.ErrExist) {
			return err
		}
	}
	return nil
}
