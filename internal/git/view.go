package git

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
)

// linked are the parts of the common folder that a view has. The rest of it, above all config,
// hooks and info, is not visible there.
var linked = []string{"HEAD", "objects", "packed-refs", "refs", "shallow", "worktrees"}

// reftable holds the refs of repositories that do not use refs and packed-refs.
const reftable = "reftable"

const (
	configFile   = "config"
	configPrefix = "new-config-"
)

// UseView makes dir the view of the repository. It creates dir if it does not exist. Agents must
// not be able to write to it. Several processes may use the same view. It does not change the
// repository.
func (r *Repository) UseView(dir string) error {
	r.view = dir
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	if err := r.link("HEAD"); err != nil {
		return err
	}
	_, err := os.Lstat(filepath.Join(dir, "head"))
	r.config = r.viewConfig(err == nil)
	return r.repairView()
}

// viewConfig returns the configuration of the view: the format of the repository, and what the file
// system can do.
func (r *Repository) viewConfig(ignoreCase bool) string {
	text, extensions := "[core]\n\tbare = false\n", ""
	if ignoreCase {
		text += "\tignoreCase = true\n"
	}
	if runtime.GOOS == "darwin" {
		text += "\tprecomposeUnicode = true\n"
	}
	if r.objectFormat != "sha1" {
		extensions += "\tobjectFormat = " + r.objectFormat + "\n"
	}
	if r.refFormat == reftable {
		extensions += "\trefStorage = " + reftable + "\n"
	}
	if extensions == "" {
		return text + "\trepositoryFormatVersion = 0\n"
	}
	return text + "\trepositoryFormatVersion = 1\n[extensions]\n" + extensions
}

// links returns the names of the links in the view.
func (r *Repository) links() []string {
	if r.refFormat == reftable {
		return append(slices.Clone(linked), reftable)
	}
	return linked
}

// CreateWorktrees creates the list of worktrees in the common folder, if it does not exist. Git
// creates it when it needs it, but cannot do that through a view.
func (r *Repository) CreateWorktrees() error {
	return os.MkdirAll(filepath.Join(r.Common, "worktrees"), 0o777)
}

// checkFiles refuses pipes, and links through which git would write. An agent could have put a link
// there to make us write elsewhere, for example a line with a command in it to the user's profile.
// Git finds refs and their logs not through the view but with the file commondir, so that must name
// the common folder.
func (r *Repository) checkFiles(c Call) error {
	names := []string{filepath.Join(r.Common, "packed-refs")}
	for _, name := range []string{"HEAD", "index", "ORIG_HEAD", "logs", "logs/HEAD"} {
		names = append(names, filepath.Join(c.Dir, filepath.FromSlash(name)))
	}
	if err := checkTree(c); err != nil {
		return err
	}
	head, _ := readSmall(filepath.Join(c.Dir, "HEAD"))
	for _, ref := range append(slices.Clone(c.Args), strings.TrimPrefix(strings.TrimSpace(head),
		"ref: ")) {
		// a branch may be named without refs/heads
		for _, prefix := range []string{"", "refs/heads", "logs", "logs/refs/heads"} {
			for name := filepath.Join(r.Common, prefix,
				ref); len(name) > len(r.Common); name = filepath.Dir(name) {
				names = append(names, name)
			}
		}
	}
	for _, name := range names {
		info, err := os.Lstat(name)
		switch {
		case err != nil || info.Mode().IsRegular() || info.IsDir():
		case info.Mode()&fs.ModeSymlink != 0:
			return fmt.Errorf("%s is a symbolic link, which could make git write to another file",
				name)
		default: // git would wait forever for the other end of a pipe
			return fmt.Errorf("%s is %w", name, ErrSpecialFile)
		}
	}
	return r.checkCommon(c.Dir)
}

// checkCommon checks that git takes our common folder for that of a git folder.
func (r *Repository) checkCommon(dir string) error {
	common := dir
	if text, err := readSmall(filepath.Join(dir, "commondir")); err == nil {
		if common = filepath.FromSlash(strings.TrimSpace(text)); !filepath.IsAbs(common) {
			common = filepath.Join(dir, common)
		}
	}
	if !sameFile(common, r.Common) {
		return fmt.Errorf("the file commondir in %s was replaced, so git is not run there", dir)
	}
	return nil
}

// repairView makes the view what it should be, and removes everything else from it.
func (r *Repository) repairView() error {
	if r.view == "" {
		return errors.New("there is no view of the repository")
	}
	if err := os.MkdirAll(r.view, 0o700); err != nil {
		return err
	}
	links := r.links()
	entries, err := os.ReadDir(r.view)
	if err != nil {
		return err
	}
	for _, entry := range entries {
		name := entry.Name()
		if name == configFile || strings.HasPrefix(name, configPrefix) ||
			slices.Contains(links, name) {
			continue
		}
		if err := os.RemoveAll(filepath.Join(r.view, name)); err != nil {
			return err
		}
	}
	for _, name := range links {
		if err := r.link(name); err != nil {
			return err
		}
	}
	return r.writeConfig()
}

func (r *Repository) link(name string) error {
	link, target := filepath.Join(r.view, name), filepath.Join(r.Common, name)
	if at, err := os.Readlink(link); err == nil && at == target {
		return nil
	}
	if err := os.RemoveAll(link); err != nil {
		return err
	}
	// another process created it
	if err := os.Symlink(target, link); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	return nil
}

// writeConfig replaces the configuration at once, because a git of another process may be reading
// it.
func (r *Repository) writeConfig() error {
	name := filepath.Join(r.view, configFile)
	info, err := os.Lstat(name)
	if err == nil && info.Mode().IsRegular() {
		if text, err := os.ReadFile(name); err == nil && string(text) == r.config {
			return nil
		}
	} else if err == nil {
		if err := os.RemoveAll(name); err != nil {
			return err
		}
	}
	file, err := os.CreateTemp(r.view, configPrefix)
	if err != nil {
		return err
	}
	defer os.Remove(file.Name()) // does nothing once it is renamed
	_, err = file.WriteString(r.config)
	if err = errors.Join(err, file.Close()); err != nil {
		return fmt.Errorf("write the configuration of the view: %w", err)
	}
	return os.Rename(file.Name(), name)
}
