package workspace

import (
	"bytes"
	"context"
	"crypto/sha1"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
)

// checkout is a worktree with an index.
type checkout struct {
	*commits
	dir   string
	index string    // "" means the worktree's own
	lock  *heldLock // inherited by git; may be nil
}

// git runs git in the checkout.
func (c checkout) git(ctx context.Context, stdin []byte, args ...string) (string, error) {
	in := call{dir: c.dir, args: args, stdin: stdin, inherit: c.lock}
	if c.index != "" {
		in.env = []string{"GIT_INDEX_FILE=" + c.index}
	}
	return c.run(ctx, in)
}

// readIndex returns the user's worktree with a temporary index of a commit or a tree. The caller
// calls remove.
func (r *commits) readIndex(ctx context.Context, tree string) (c checkout, remove func(),
	err error) {
	dir, err := os.MkdirTemp("", "signalbox-index-")
	if err != nil {
		return c, nil, err
	}
	remove = func() { os.RemoveAll(dir) }
	c = checkout{commits: r, dir: r.Root, index: filepath.Join(dir, "index")}
	if _, err = c.git(ctx, nil, "read-tree", tree); err != nil {
		remove()
	}
	return c, remove, err
}

// readTree moves the files and the index from one commit to another with git read-tree, which keeps
// local changes to other files. If local changes are in the way, refused is true and nothing was
// touched.
func (c checkout) readTree(ctx context.Context, from,
	to string) (refused bool, err error) {
	_, err = c.git(ctx, nil, "read-tree", "-m", "-u", from, to)
	if !refusedToOverwrite(err) {
		return false, err
	}
	// A file that was rewritten with the same content looks changed until the index is refreshed.
	if _, err := c.git(ctx, nil, "update-index", "-q", "--refresh"); err != nil &&
		status(err) != 1 {
		return true, err
	}
	_, err = c.git(ctx, nil, "read-tree", "-m", "-u", from, to)
	return refusedToOverwrite(err), err
}

func refusedToOverwrite(err error) bool {
	return stderrHas(err, "not uptodate", "would be overwritten", "would be removed",
		"would be lost", "would lose", "Cannot merge", "would overwrite")
}

// inTheWay returns the files that a person has edited, staged or put where the second commit has
// another version than the first. If the branch moved, committing them would undo what the second
// commit changes. It changes nothing.
func (c checkout) inTheWay(ctx context.Context, from, to string) (edited []string, err error) {
	changes, err := c.differences(ctx, from, to)
	if err != nil {
		return nil, err
	}
	if err := c.readVersions(ctx, changes); err != nil {
		return nil, err
	}
	for _, d := range changes {
		if d.isEdited(c.dir) {
			edited = append(edited, d.path)
		}
	}
	return edited, nil
}

// isEdited reports whether the file in the index, or in the folder dir, is a person's.
func (d *difference) isEdited(dir string) bool {
	folder := d.folder.hash
	switch {
	case d.index != d.from && d.index != d.to:
		return true
	case d.from.mode == modeSubmodule, d.to.mode == modeSubmodule: // its files are not touched
		return false
	case d.index == d.to: // a person made the same change
		return folder != d.to.hash
	case folder == "" && d.to.hash != "" && d.from.hash == "":
		return isBehindLink(dir, d.path) && !d.replaces
	}
	return folder != "" && folder != d.from.hash && folder != d.to.hash // git restores one removed
}

// move moves the files and the index from one commit to another. It returns the files of a person
// that are in the way. touched reports whether some files may have moved although it failed.
func (c checkout) move(ctx context.Context, from, to string) (edited []string, touched bool,
	err error,
) {
	// git read-tree does not look at a file if the index has its new version.
	_, err = c.git(ctx, nil, "diff-index", "--cached", "--quiet", from, "--")
	if staged := status(err) == 1; staged {
		edited, err = c.inTheWay(ctx, from, to)
	}
	if err != nil || len(edited) > 0 {
		return edited, false, err
	}
	refused, err := c.readTree(ctx, from, to)
	if !refused {
		return nil, true, err
	}
	if edited, err = c.inTheWay(ctx, from, to); err != nil || len(edited) > 0 {
		return edited, false, err
	}
	// git does not see that a person made the same change
	edited, err = c.moveFiles(ctx, from, to, false)
	return edited, true, err
}

// version is a file in a commit, an index or a folder. The zero value means no file.
type version struct{ mode, hash string }

const (
	modeLink       = "120000"
	modeSubmodule  = "160000"
	modeExecutable = "100755"
	modeFolder     = "040000" // only for what is in a folder; git does not list folders
)

// difference is a file that differs between two commits.
type difference struct {
	path          string
	from, to      version
	index, folder version
	// the file in the folder is neither version: a person changed it, and it stays
	blocked      bool
	indexBlocked bool
	replaces     bool // a file that the second commit removes is where this one needs a folder
}

// moveFiles does file by file what readTree does at once. It is used when a killed git updated only
// some files, or when local changes are in the way of some. It writes a file only if nothing is
// lost: the file is missing, or is one of the two versions, or, if git was killed while writing,
// the beginning of the new version. It returns the files that it left. The index gets the new
// version of those too, so that the old one is not committed by accident.
func (c checkout) moveFiles(ctx context.Context, from, to string,
	killed bool) (left []string, err error) {
	changes, err := c.differences(ctx, from, to)
	if err != nil {
		return nil, err
	}
	if err := c.readVersions(ctx, changes); err != nil {
		return nil, err
	}
	for _, d := range changes {
		d.indexBlocked = !slices.Contains([]version{d.from, d.to}, d.index)
		ours := slices.Contains([]string{"", d.from.hash, d.to.hash}, d.folder.hash) ||
			d.to.mode == modeSubmodule
		if !ours && killed {
			if ours, err = c.isPartlyWritten(ctx, d); err != nil {
				return nil, err
			}
		}
		d.blocked = d.indexBlocked || !ours
	}
	if err := removeOld(c.dir, changes); err != nil {
		return nil, err
	}
	for _, d := range changes {
		d.blocked = d.blocked || d.to.hash != "" && !canWrite(c.dir, d.path)
	}
	if err := c.writeNew(ctx, changes); err != nil {
		return nil, err
	}
	for _, d := range changes {
		if d.blocked && d.folder.hash != d.to.hash {
			left = append(left, d.path)
		}
	}
	return left, nil
}

// differences returns the files that differ between two commits, with their version in the index.
func (c checkout) differences(ctx context.Context, from,
	to string) ([]*difference, error) {
	changes, err := c.compareTrees(ctx, from, to)
	if err != nil {
		return nil, err
	}
	byPath := map[string]*difference{}
	for _, d := range changes {
		byPath[d.path] = d
	}
	for _, d := range changes {
		for parent := path.Dir(d.path); parent != "."; parent = path.Dir(parent) {
			above := byPath[parent]
			d.replaces = d.replaces || above != nil && above.from.hash != "" && above.to.hash == ""
		}
	}
	out, err := c.git(ctx, nil, "ls-files", "--stage", "-z")
	if err != nil {
		return nil, err
	}
	for entry := range strings.SplitSeq(out, "\x00") {
		about, name, _ := strings.Cut(entry, "\t")
		raw := strings.Fields(about)
		if d := byPath[name]; d != nil && len(raw) == 3 {
			d.index = newVersion(raw[0], raw[1])
			if raw[2] != "0" {
				d.index = version{"conflict", ""}
			}
		}
	}
	return changes, nil
}

func newVersion(mode, hash string) version {
	if strings.Trim(mode, "0") == "" {
		return version{}
	}
	return version{mode, hash}
}

// readVersions determines which version of each file is in the folder.
func (c checkout) readVersions(ctx context.Context, changes []*difference) error {
	var files []*difference
	var names bytes.Buffer
	for _, d := range changes {
		name := filepath.Join(c.dir, filepath.FromSlash(d.path))
		info, err := os.Lstat(name)
		switch {
		case err != nil, isBehindLink(c.dir,
			d.path): // missing, or below something that is not a folder
		case info.IsDir():
			d.folder = version{modeFolder, "folder"}
			if hasOnlyRemoved(name, c.dir, changes) {
				d.folder = version{} // it is removed with its files
			}
		case info.Mode()&fs.ModeSymlink != 0:
			target, err := os.Readlink(name)
			if err != nil {
				return err
			}
			d.folder = version{modeLink, blobHash([]byte(target), max(len(d.from.hash), len(d.to.hash)))}
		case !info.Mode().IsRegular(), strings.Contains(d.path, "\n"):
			d.folder = version{"other", "other"}
		default:
			files = append(files, d)
			names.WriteString(d.path + "\n")
		}
	}
	if len(files) == 0 {
		return nil
	}
	out, err := c.git(ctx, names.Bytes(), "hash-object", "--stdin-paths")
	if err != nil {
		return err
	}
	for i, hash := range strings.Fields(out) {
		files[i].folder = version{"file", hash}
	}
	return nil
}

// isBehindLink reports whether a folder that contains a path is not a folder, but a link or a file.
// Such a path is not in the worktree.
func isBehindLink(dir, name string) bool {
	for parent := path.Dir(name); parent != "."; parent = path.Dir(parent) {
		if info, err := os.Lstat(filepath.Join(dir, filepath.FromSlash(parent))); err == nil &&
			!info.IsDir() {
			return true
		}
	}
	return false
}

func isMissing(dir, name string) bool {
	_, err := os.Lstat(filepath.Join(dir, filepath.FromSlash(name)))
	return err != nil
}

// hasOnlyRemoved reports whether a folder contains only files that the new commit removes.
func hasOnlyRemoved(name, dir string, changes []*difference) bool {
	removed := map[string]bool{}
	for _, d := range changes {
		removed[filepath.Join(dir, filepath.FromSlash(d.path))] = d.to.hash == ""
	}
	err := filepath.WalkDir(name, func(name string, entry fs.DirEntry, err error) error {
		if err == nil && !entry.IsDir() && !removed[name] {
			return fs.ErrExist
		}
		return err
	})
	return err == nil
}

// blobHash returns git's object id of a file's content.
func blobHash(content []byte, length int) string {
	content = append(fmt.Appendf(nil, "blob %d\x00", len(content)), content...)
	if length == 2*sha256.Size {
		sum := sha256.Sum256(content)
		return hex.EncodeToString(sum[:])
	}
	sum := sha1.Sum(content)
	return hex.EncodeToString(sum[:])
}

// isPartlyWritten reports whether a file is the beginning of one of its versions, as a killed git
// leaves it. It can be overwritten then.
func (c checkout) isPartlyWritten(ctx context.Context, d *difference) (bool, error) {
	if d.folder.mode != "file" {
		return false, nil
	}
	part, err := os.ReadFile(filepath.Join(c.dir, filepath.FromSlash(d.path)))
	if err != nil {
		return false, err
	}
	for _, v := range []version{d.from, d.to} {
		if v.hash == "" || v.mode == modeLink || v.mode == modeSubmodule {
			continue
		}
		whole, err := c.git(ctx, nil, "cat-file", "--filters", "--path="+d.path, v.hash)
		if err != nil || strings.HasPrefix(whole, string(part)) {
			return err == nil, err
		}
	}
	return false, nil
}

// removeOld removes the files that the new commit does not have, and folders that become empty.
func removeOld(dir string, changes []*difference) error {
	for _, d := range changes {
		if d.blocked || d.to.hash != "" || d.folder.hash == "" {
			continue
		}
		if err := os.Remove(filepath.Join(dir, filepath.FromSlash(d.path))); err != nil &&
			!errors.Is(err, fs.ErrNotExist) {
			return err
		}
		for parent := path.Dir(d.path); parent != "."; parent = path.Dir(parent) {
			if os.Remove(filepath.Join(dir, filepath.FromSlash(parent))) != nil {
				break // not empty
			}
		}
	}
	return nil
}

// canWrite reports whether a file can be written without removing another file or a folder with
// files in it.
func canWrite(dir, name string) bool {
	info, err := os.Lstat(filepath.Join(dir, filepath.FromSlash(name)))
	if err == nil && info.IsDir() &&
		os.Remove(filepath.Join(dir, filepath.FromSlash(name))) != nil {
		return false
	}
	return !isBehindLink(dir, name)
}

// writeNew updates the index to the new commit, and writes the files that are not blocked.
func (c checkout) writeNew(ctx context.Context, changes []*difference) error {
	var gone, entries, files bytes.Buffer
	for _, d := range changes {
		switch {
		case d.indexBlocked:
			continue
		case d.to.hash == "":
			fmt.Fprintf(&gone, "0 %s\t%s\x00", strings.Repeat("0", len(d.from.hash)), d.path)
		default:
			fmt.Fprintf(&entries, "%s %s\t%s\x00", d.to.mode, d.to.hash, d.path)
		}
		there := d.folder.hash == d.to.hash && d.from.mode == d.to.mode
		if !d.blocked && !there && d.to.hash != "" && d.to.mode != modeSubmodule {
			files.WriteString(d.path + "\x00")
		}
	}
	if _, err := c.git(ctx, append(gone.Bytes(), entries.Bytes()...), "update-index", "-z",
		"--index-info"); err != nil {
		return err
	}
	if _, err := c.git(ctx, files.Bytes(), "checkout-index", "-f", "-u", "-z",
		"--stdin"); err != nil {
		return err
	}
	_, err := c.git(ctx, nil, "update-index", "-q", "--refresh")
	if status(err) == 1 { // some files have local changes
		return nil
	}
	return err
}
