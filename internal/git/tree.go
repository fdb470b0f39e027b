package git

import (
	"fmt"
	"io/fs"
	"iter"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"signalbox/internal/durable"
)

// maxSmall bounds the size of the small files of git that are read here: HEAD, gitdir, commondir,
// .git.
const maxSmall = 64 << 10

func readSmall(name string) (string, error) {
	text, err := durable.ReadRegular(name, maxSmall)
	return string(text), err
}

// withoutFiles are the commands that read no file of a worktree, as we use them: ls-files lists the
// index. Those that read its attributes only, of the few paths that conflict, are here too, because
// looking at all folders would cost more than they do; the limit ends them.
var withoutFiles = []string{"bundle", "cat-file", "commit-tree", "diff-tree", "for-each-ref", "grep", "index-pack", "log", "ls-files", "ls-tree", "merge-base", "merge-tree", "pack-objects", "rev-list",
	"rev-parse", "show-index", "symbolic-ref", "unpack-objects", "update-ref", "worktree",
	"write-tree"}

// checkTree refuses a worktree in which git would wait for the other end of a pipe, or read a
// device.
func checkTree(c Call) error {
	// at the top even if the command should not read it
	for _, name := range slices.Concat(opened, openedAtTop) {
		if isSpecial(os.Lstat(filepath.Join(c.Worktree, name))) {
			return fmt.Errorf("%s is %w", name, ErrSpecialFile)
		}
	}
	if len(c.Args) > 0 && slices.Contains(withoutFiles, c.Args[0]) {
		return nil
	}
	for name := range specialFiles(c.Worktree, !c.Ours) {
		return fmt.Errorf("%s is %w", filepath.ToSlash(name), ErrSpecialFile)
	}
	return nil
}

// opened are the files that git opens in every folder, and openedAtTop those that it opens in the
// top folder.
var (
	opened      = []string{".gitignore", ".gitattributes"}
	openedAtTop = []string{".gitmodules", ".mailmap"}
)

// SpecialFiles yields what git would open in a worktree although it is a pipe, a device or a
// socket: .gitignore and .gitattributes in every folder, where git does not follow links, and the
// .git of a nested repository in which there is such a file. Names are relative to the worktree.
func SpecialFiles(worktree string) iter.Seq[string] { return specialFiles(worktree, false) }

// specialFiles omits folders that ignore everything in them if skipIgnored is set. The box is such
// a folder: what agents leave in it must not keep git from working around it.
func specialFiles(worktree string, skipIgnored bool) iter.Seq[string] {
	return func(yield func(string) bool) {
		// What cannot be read is left out: git cannot read it either.
		_ = filepath.WalkDir(worktree, func(name string, entry fs.DirEntry, err error) error {
			if err != nil || name == worktree {
				return nil
			}
			rel, err := filepath.Rel(worktree, name)
			if err != nil {
				return nil
			}
			special := false
			// in any case: not every file system distinguishes it
			switch base := strings.ToLower(entry.Name()); {
			case base == ".git":
				special = rel != entry.Name() && isSpecialRepository(name)
			case slices.Contains(opened, base), slices.Contains(openedAtTop, base) &&
				rel == entry.Name():
				special = isSpecial(os.Lstat(name))
			}
			switch {
			case special && !yield(rel):
				return fs.SkipAll
			case entry.IsDir() && (strings.EqualFold(entry.Name(), ".git") || skipIgnored &&
				ignoresAll(name)):
				return fs.SkipDir
			}
			return nil
		})
	}
}

// ignoresAll reports whether a folder has a .gitignore that keeps git from looking into it.
func ignoresAll(folder string) bool {
	text, err := readSmall(filepath.Join(folder, ".gitignore"))
	if err != nil || strings.Contains(text, "!") {
		return false
	}
	return slices.Contains(strings.Split(text, "\n"), "*")
}

// isSpecial reports whether something exists and is neither a file, nor a folder, nor a link.
func isSpecial(info fs.FileInfo, err error) bool {
	return err == nil && !info.Mode().IsRegular() && !info.IsDir() &&
		info.Mode().Type() != fs.ModeSymlink
}

// maxNested bounds how many files of a nested repository are looked at.
const maxNested = 10_000

// isSpecialRepository reports whether there is a special file where git would read the git folder
// of a nested repository, to learn what is checked out there. git does not open its objects.
func isSpecialRepository(dotGit string) (special bool) {
	if isSpecial(os.Stat(dotGit)) {
		return true
	}
	dir, err := DirOf(filepath.Dir(dotGit))
	if err != nil {
		return false
	}
	if dir, err = filepath.EvalSymlinks(dir); err != nil {
		return false
	}
	seen := 0
	_ = filepath.WalkDir(dir, func(name string, entry fs.DirEntry, err error) error {
		seen++
		switch {
		case err != nil:
			return nil
		case seen > maxNested:
			return fs.SkipAll
		case entry.IsDir() && filepath.Dir(name) == dir && entry.Name() == "objects":
			return fs.SkipDir
		case !entry.IsDir() && !entry.Type().IsRegular() && isSpecial(os.Stat(name)):
			special = true
			return fs.SkipAll
		}
		return nil
	})
	return special
}
