package workspace

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"signalbox"
	"signalbox/internal/git"
	"signalbox/internal/run/steering"
)

// What steers agent programs (see package steering) is read from the objects of a commit, as a
// program would see it: through links, and in submodules. Nothing is read from a worktree, where a
// commit or a setup command may have put links, and nothing is written through one.

// SteeringEdits returns the files with which a commit changes what steers agent programs, compared
// with a base, sorted. Besides the files themselves these are:
//
//   - Files that a link with such a name leads to, also through other links.
//   - Files that the settings and instructions of the base name, such as the script of a hook.
//   - Files whose attributes change, because they change what git writes when it checks out the
//     file.
//   - A submodule that is another one now, if its files are not on this machine.
func (r *edits) SteeringEdits(ctx context.Context, base, commit string) ([]string, error) {
	c, err := r.compareSteering(ctx, base, commit)
	if err != nil {
		return nil, err
	}
	return c.edited, nil
}

// steeringChange is how a commit changes what steers agent programs.
type steeringChange struct {
	// files are those of the base, and named those that they name and that the commit changes, as
	// they are on the base. A file without a hash is not on the base.
	files, named map[string]object
	contents     map[object]string // of both
	// edited is what SteeringEdits returns, and shown what is not as in the commit if the base's is
	// in place.
	edited, shown []string
}

func (r *edits) compareSteering(ctx context.Context, base, commit string) (*steeringChange, error) {
	if err := checkCommits(base, commit); err != nil {
		return nil, err
	}
	before, err := r.readCommit(ctx, base)
	if err != nil {
		return nil, err
	}
	after, err := r.readCommit(ctx, commit)
	if err != nil {
		return nil, err
	}
	was, err := before.steering()
	if err != nil {
		return nil, err
	}
	is, err := after.steering()
	if err != nil {
		return nil, err
	}
	c := &steeringChange{files: map[string]object{}, named: map[string]object{}, contents: map[object]string{}}
	edited, shown := map[string]bool{}, map[string]bool{}
	compare := func(name string) {
		if a, b := was[name], is[name]; a.version != b.version {
			shown[name] = true
			edited[name], edited[cmp.Or(a.source, name)], edited[cmp.Or(b.source, name)] = true,
				true, true
		}
	}
	for name, f := range was {
		c.files[name] = f.object
		compare(name)
	}
	for name := range is {
		compare(name)
	}
	if err := c.readContents(ctx, r, c.files); err != nil {
		return nil, err
	}
	changes, err := r.compareTrees(ctx, base, commit)
	if err != nil {
		return nil, err
	}
	named, err := c.names(ctx, r, before, after)
	if err != nil {
		return nil, err
	}
	attributes := false
	for _, d := range changes {
		attributes = attributes || git.FoldName(path.Base(d.path)) == ".gitattributes"
		if !steering.Is(d.path) && !edited[d.path] && named.Has(d.path) {
			c.named[d.path] = before.at(d.path)
			edited[d.path], shown[d.path] = true, true
		}
	}
	if attributes {
		changed, err := r.attributeChanges(ctx, base, commit, slices.Sorted(maps.Keys(is)))
		if err != nil {
			return nil, err
		}
		for _, name := range changed {
			edited[name] = true
		}
	}
	c.edited, c.shown = slices.Sorted(maps.Keys(edited)), slices.Sorted(maps.Keys(shown))
	return c, c.readContents(ctx, r, c.named)
}

// maxImports is how many levels of imports programs follow.
const maxImports = 5

// names returns what the files of the base name, and what those import as they are on the base,
// with where links of both commits lead from there.
func (c *steeringChange) names(ctx context.Context, r *edits, before,
	after *commitFiles) (*steering.Names, error) {
	names := &steering.Names{}
	for name, f := range c.files {
		names.Add(name, []byte(c.contents[f]))
	}
	follow := func() {
		for _, commit := range []*commitFiles{before, after} {
			names.Follow(func(name string) (string, bool) { return commit.resolve("", name) })
		}
	}
	follow()
	var texts []string
	for _, name := range before.sorted {
		if steering.Imports(name) {
			texts = append(texts, name)
		}
	}
	read := map[string]bool{}
	for range maxImports {
		found := map[string]object{}
		// paths also lead through folders that are links
		for _, name := range slices.Concat(names.Paths(), texts) {
			if read[name] || !steering.Imports(name) || !names.Has(name) {
				continue
			}
			if read[name] = true; before.at(name).isFile() {
				found[name] = before.at(name)
			}
		}
		if len(found) == 0 {
			break
		}
		if err := c.readContents(ctx, r, found); err != nil {
			return nil, err
		}
		for name, f := range found {
			names.AddImported(name, []byte(c.contents[f]))
		}
		follow()
	}
	return names, nil
}

// readContents reads the contents of files.
func (c *steeringChange) readContents(ctx context.Context, r *edits,
	files map[string]object) error {
	places := map[string][]string{}
	for _, f := range files {
		if f.isFile() {
			places[f.objects] = append(places[f.objects], f.hash)
		}
	}
	for objects, hashes := range places {
		contents, err := r.readBlobs(ctx, objects, hashes)
		if err != nil {
			return err
		}
		for _, f := range files {
			if content, found := contents[f.hash]; found && f.objects == objects && f.isFile() {
				c.contents[f] = content
			}
		}
	}
	return nil
}

// object is a file of a commit. objects is where its content is, "" for those of the project.
type object struct {
	version
	objects string
}

func (o object) isFile() bool {
	return o.hash != "" && o.mode != modeLink && o.mode != modeSubmodule
}

// steered is a file that steers agent programs. source is the path of the file that has its
// content, if links lead there.
type steered struct {
	object
	source string
}

// commitFiles has everything in a commit, with the files of its submodules.
type commitFiles struct {
	files   map[string]object
	folders map[string]bool
	sorted  []string
	targets map[string]string // of links, as they are
	folded  map[string]string // files and folders by git.FoldPath
}

func (r *edits) readCommit(ctx context.Context, commit string) (*commitFiles, error) {
	c := &commitFiles{files: map[string]object{}, folders: map[string]bool{},
		targets: map[string]string{}}
	add := func(ctx context.Context, s submodule) (bool, error) {
		if s.Path != "" && s.Objects == "" {
			return false, nil
		}
		files, err := r.listTree(ctx, s.Commit, s.Objects)
		if err != nil {
			return false, err
		}
		var links []string
		delete(c.files, s.Path) // its files stand for it
		for name, v := range files {
			c.files[path.Join(s.Path, name)] = object{v, s.Objects}
			if v.mode == modeLink {
				links = append(links, v.hash)
			}
		}
		targets, err := r.readBlobs(ctx, s.Objects, links)
		for name, v := range files {
			if v.mode == modeLink {
				c.targets[path.Join(s.Path, name)] = targets[v.hash]
			}
		}
		return true, err
	}
	if _, err := add(ctx, submodule{Commit: commit}); err != nil {
		return nil, err
	}
	isSubmodule := func(o object) bool { return o.mode == modeSubmodule }
	if slices.ContainsFunc(slices.Collect(maps.Values(c.files)), isSubmodule) {
		walk := &submoduleUpdate{repo: r.runner, dir: r.Root}
		if err := walk.walk(ctx, "", commit, filepath.Join(r.common, "modules"), "",
			add); err != nil {
			return nil, err
		}
	}
	c.sorted = slices.Sorted(maps.Keys(c.files))
	for _, name := range c.sorted {
		for dir := path.Dir(name); dir != "." && !c.folders[dir]; dir = path.Dir(dir) {
			c.folders[dir] = true
		}
	}
	return c, nil
}

// at returns a file, also through links. It has no hash if there is none.
func (c *commitFiles) at(name string) object {
	to, inside := c.resolve("", name)
	if f := c.files[to]; inside && f.isFile() {
		return f
	}
	return object{}
}

// maxSteering bounds the files that steer agent programs, which links can multiply.
const maxSteering = 100_000

// maxLinked is how many links to folders are followed inside each other.
const maxLinked = 4

// steering returns the files that steer agent programs by the path at which a program finds them.
// What a link leads to stands for the link. The link stands for itself if that is nothing: if it
// leads out of the repository, or to a folder that it is in. A submodule that cannot be read stands
// for whatever is in it.
func (c *commitFiles) steering() (map[string]steered, error) {
	found := map[string]steered{}
	var add func(as, name string, depth int)
	add = func(as, name string, depth int) {
		f := c.files[name]
		switch to, inside := c.resolve("", name); {
		case len(found) > maxSteering:
		case f.mode != modeLink:
			found[as] = steered{f, name}
		case inside && c.files[to].isFile():
			found[as] = steered{c.files[to], to}
		case inside && depth < maxLinked && c.folders[to] && !strings.HasPrefix(name, to+"/"):
			for _, below := range c.below(to) {
				add(path.Join(as, strings.TrimPrefix(below, to)), below, depth+1)
			}
		default:
			found[as] = steered{f, name}
		}
	}
	for _, name := range c.sorted {
		if c.files[name].mode == modeSubmodule || steering.Is(name) {
			add(name, name, 0)
		}
	}
	if len(found) > maxSteering {
		return nil, signalbox.CodeFailed.Errorf("remove links to folders",
			"more than %d files steer agent programs", maxSteering)
	}
	return found, nil
}

// below returns the files in a folder.
func (c *commitFiles) below(folder string) []string {
	from, _ := slices.BinarySearch(c.sorted, folder+"/")
	to, _ := slices.BinarySearch(c.sorted, folder+"0") // the character after the slash
	return c.sorted[from:to]
}

// maxHops is how many links one path may have, as on most systems.
const maxHops = 40

// resolve returns where a path leads that begins in a folder, "" for the top of the repository.
// inside is false if it leads out of the repository, or in circles. Names that some system takes
// for the same are the same.
func (c *commitFiles) resolve(folder, name string) (to string, inside bool) {
	hops := 0
	for rest := strings.Split(name, "/"); len(rest) > 0; {
		part := rest[0]
		rest = rest[1:]
		switch part {
		case "", ".":
			continue
		case "..":
			if folder == "" {
				return "", false
			}
			if folder = path.Dir(folder); folder == "." {
				folder = ""
			}
			continue
		}
		next := c.actual(path.Join(folder, part))
		target, isLink := c.targets[next]
		if !isLink {
			folder = next
			continue
		}
		if hops++; hops > maxHops || path.IsAbs(target) {
			return "", false
		}
		rest = append(strings.Split(target, "/"), rest...)
	}
	return folder, true
}

// actual returns the path as it is in the commit. One that is not there is returned unchanged.
func (c *commitFiles) actual(name string) string {
	if _, known := c.files[name]; known || c.folders[name] {
		return name
	}
	if c.folded == nil {
		c.folded = map[string]string{}
		for _, known := range slices.Concat(slices.Sorted(maps.Keys(c.folders)), c.sorted) {
			c.folded[git.FoldPath(known)] = known
		}
	}
	return cmp.Or(c.folded[git.FoldPath(name)], name)
}

// Steer makes the files of the worktree that steer agent programs those of a base. It removes all
// that are there, also such as setup commands made, and writes those of the base. It returns the
// files that are not as in the commit because of that. It may be called again at any time.
func (s *Scratch) Steer(ctx context.Context, base string) (shown []string, err error) {
	if s.steering == nil || s.base != base {
		c, err := s.repo.compareSteering(ctx, base, s.commit)
		if err != nil {
			return nil, fmt.Errorf("find the files that steer agents: %w", err)
		}
		s.base, s.steering = base, c
	}
	c := s.steering
	if info, err := os.Lstat(s.Dir); err == nil && info.IsDir() && info.Mode()&0o700 != 0o700 {
		if err := os.Chmod(s.Dir, 0o700); err != nil {
			return nil, err
		}
	}
	root, err := os.OpenRoot(s.Dir)
	if err != nil {
		return nil, err
	}
	defer root.Close()
	if err := removeSteering(root, "."); err != nil {
		return nil, err
	}
	for name := range c.named {
		if !isBehindLink(s.Dir, name) {
			if err := removeAll(root, filepath.FromSlash(name)); err != nil {
				return nil, err
			}
		}
	}
	for _, files := range []map[string]object{c.files, c.named} {
		for name, f := range files {
			content, known := c.contents[f]
			if !known { // a link out of the repository, or not on the base
				continue
			}
			write := func() error { return writeNew(root, name, f.mode, content) }
			if err := permitted(root, filepath.Dir(filepath.FromSlash(name)), write); err != nil {
				return nil, err
			}
		}
	}
	return c.shown, nil
}

// removeSteering removes everything in a folder that steers agent programs. It follows no links.
func removeSteering(root *os.Root, folder string) error {
	entries, err := readFolder(root, folder)
	if err != nil {
		return err
	}
	for _, entry := range entries {
		name := filepath.Join(folder, entry.Name())
		switch {
		case steering.IsName(entry.Name()):
			err = removeAll(root, name)
		case entry.IsDir():
			err = removeSteering(root, name)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// removeAll removes a file, or a folder with everything in it, also in folders that their owner may
// not read or change, such as those of a module cache.
func removeAll(root *os.Root, name string) error {
	return permitted(root, filepath.Dir(name), func() error {
		err := root.RemoveAll(name)
		if info, statErr := root.Lstat(name); !errors.Is(err, fs.ErrPermission) || statErr != nil ||
			!info.IsDir() {
			return err
		}
		entries, err := readFolder(root, name)
		for _, entry := range entries {
			err = errors.Join(err, removeAll(root, filepath.Join(name, entry.Name())))
		}
		if err != nil {
			return err
		}
		return root.RemoveAll(name)
	})
}

// readFolder returns what is in a folder, also if its owner may not read it.
func readFolder(root *os.Root, folder string) (entries []fs.DirEntry, err error) {
	err = permitted(root, folder, func() error {
		f, err := root.Open(folder)
		if err != nil {
			return err
		}
		entries, err = f.ReadDir(-1)
		return errors.Join(err, f.Close())
	})
	return entries, err
}

// permitted does something in a folder. If that is not permitted, it permits the owner everything
// in the folder and those above, and does it once more. It follows no links.
func permitted(root *os.Root, folder string, do func() error) error {
	err := do()
	if !errors.Is(err, fs.ErrPermission) {
		return err
	}
	at, changed := ".", false
	for part := range strings.SplitSeq(filepath.ToSlash(folder), "/") {
		at = filepath.Join(at, part)
		info, statErr := root.Lstat(at)
		if statErr != nil || !info.IsDir() {
			break
		}
		if info.Mode()&0o700 != 0o700 {
			if chmodErr := root.Chmod(at, 0o700); chmodErr != nil {
				return errors.Join(err, chmodErr)
			}
			changed = true
		}
	}
	if !changed { // it would fail again, in a deep folder twice as often on each level
		return err
	}
	return do()
}

// writeNew writes a file that does not exist, with the folders for it. If a commit has a file or a
// link where one of the folders belongs, it is not written: there is no such folder to steer in.
func writeNew(root *os.Root, name, mode, content string) error {
	parts := strings.Split(name, "/")
	for i := range parts[:len(parts)-1] {
		folder := filepath.Join(parts[:i+1]...)
		info, err := root.Lstat(folder)
		if errors.Is(err, fs.ErrNotExist) {
			info, err = nil, root.Mkdir(folder, 0o777)
		}
		if err != nil || info != nil && !info.IsDir() {
			return err
		}
	}
	perm := fs.FileMode(0o666)
	if mode == modeExecutable {
		perm = 0o777
	}
	f, err := root.OpenFile(filepath.Join(parts...), os.O_WRONLY|os.O_CREATE|os.O_EXCL, perm)
	if errors.Is(err, fs.ErrExist) { // on a system that takes two names of the base for the same
		return nil
	}
	if err != nil {
		return err
	}
	_, err = f.WriteString(content)
	return errors.Join(err, f.Close())
}
