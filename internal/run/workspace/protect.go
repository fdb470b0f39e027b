package workspace

import (
	"context"
	"crypto/sha256"
	"fmt"
	"maps"
	"path"
	"slices"
	"strconv"
	"strings"

	"signalbox"
	"signalbox/internal/git"
)

// Protection defines which files a task must not edit. Paths have slashes and are relative to the
// top of the repository.
type Protection interface {
	// Protects reports whether a path is protected.
	Protects(path string) bool
	// ProtectsExisting reports whether a path is protected if it is on the base: a task may add it.
	ProtectsExisting(path string) bool
	// ProtectsBelow reports whether a path below this one could be protected.
	ProtectsBelow(path string) bool
}

// ProtectedEdits returns the protected files that a commit edits relative to its merge base with
// another commit, sorted. It compares modes and object ids, so nothing that an agent writes hides
// an edit. These are edits too:
//
//   - A new or changed link or submodule, if a protected file could be below it.
//   - A change of a file that a protected path leads to through links.
//   - A new file whose name some system takes for one on the base that is protected there.
//   - A change of the attributes of a protected file, because they change what git writes when it
//     checks out the file.
func (r *edits) ProtectedEdits(ctx context.Context, base, commit string,
	p Protection) ([]string, error) {
	bases, err := r.mergeBases(ctx, base, commit)
	if err != nil {
		return nil, err
	}
	files, err := r.listTree(ctx, commit, "")
	if err != nil {
		return nil, err
	}
	links, err := r.readLinks(ctx, files)
	if err != nil {
		return nil, err
	}
	edited := map[string]bool{}
	for _, base := range bases {
		changes, err := r.compareTrees(ctx, base, commit)
		if err != nil {
			return nil, err
		}
		existing, err := r.protectedExisting(ctx, base, links, p)
		if err != nil {
			return nil, err
		}
		attributes := false
		for _, d := range changes {
			leads := d.to.mode == modeLink || d.to.mode == modeSubmodule
			if slices.ContainsFunc(aliases(d.path, links), p.Protects) || leads &&
				p.ProtectsBelow(d.path) || existing[git.FoldPath(d.path)] {
				edited[d.path] = true
			}
			attributes = attributes || strings.EqualFold(path.Base(d.path), ".gitattributes")
		}
		if !attributes {
			continue
		}
		changed, err := r.attributeChanges(ctx, base, commit,
			slices.DeleteFunc(slices.Sorted(maps.Keys(files)),
				func(name string) bool {
					return !p.Protects(name) && !existing[git.FoldPath(name)]
				}))
		if err != nil {
			return nil, err
		}
		for _, name := range changed {
			edited[name] = true
		}
	}
	return slices.Sorted(maps.Keys(edited)), nil
}

// protectedExisting returns the files of a base that are protected because they exist there, and
// the folders that they are in, as git.FoldPath returns them: a task can replace a file, or lead its
// path elsewhere, also by adding something with another spelling of a name. links are those of the
// commit that is compared.
func (r *edits) protectedExisting(ctx context.Context, base string, links map[string]string,
	p Protection) (map[string]bool, error) {
	files, err := r.listTree(ctx, base, "")
	if err != nil {
		return nil, err
	}
	found := map[string]bool{}
	for name := range files {
		if !slices.ContainsFunc(aliases(name, links), p.ProtectsExisting) {
			continue
		}
		for name = git.FoldPath(name); name != "." && !found[name]; name = path.Dir(name) {
			found[name] = true
		}
	}
	return found, nil
}

// mergeBases returns the merge bases of two commits. If they have none, everything that differs
// from base counts as a change.
func (r *commits) mergeBases(ctx context.Context, base, commit string) ([]string, error) {
	out, err := r.git(ctx, "merge-base", "--all", "--end-of-options", base, commit)
	if status(err) == 1 {
		return []string{base}, nil
	}
	return strings.Fields(out), err
}

// Changed returns the files that a commit changes relative to its merge base with another, sorted.
// A renamed file is listed under both names.
func (r *edits) Changed(ctx context.Context, base, commit string) ([]string, error) {
	bases, err := r.mergeBases(ctx, base, commit)
	if err != nil {
		return nil, err
	}
	var names []string
	for _, base := range bases {
		differing, err := r.Differing(ctx, base, commit)
		if err != nil {
			return nil, err
		}
		names = append(names, differing...)
	}
	slices.Sort(names)
	return slices.Compact(names), nil
}

// ChangeID returns a digest of what a commit changes relative to its merge base with another; zero
// if that is nothing.
func (r *edits) ChangeID(ctx context.Context, base, commit string) (id signalbox.Hash, err error) {
	bases, err := r.mergeBases(ctx, base, commit)
	if err != nil {
		return id, err
	}
	sum, changed := sha256.New(), false
	for _, base := range bases {
		changes, err := r.compareTrees(ctx, base, commit)
		if err != nil {
			return id, err
		}
		for _, d := range changes {
			fmt.Fprintf(sum, "%s %s %s %s %q\n", d.from.mode, d.from.hash, d.to.mode, d.to.hash,
				d.path)
			changed = true
		}
	}
	if changed {
		id = signalbox.Hash(sum.Sum(nil))
	}
	return id, nil
}

// Differing returns the files that differ between two commits.
func (r *edits) Differing(ctx context.Context, from, to string) (names []string, err error) {
	changes, err := r.compareTrees(ctx, from, to)
	for _, d := range changes {
		names = append(names, d.path)
	}
	return names, err
}

// ChangedTexts returns the contents of the files that differ between two commits, in both, if wanted
// accepts their names.
func (r *edits) ChangedTexts(ctx context.Context, from, to string,
	wanted func(name string) bool) ([]string, error) {
	changes, err := r.compareTrees(ctx, from, to)
	if err != nil {
		return nil, err
	}
	var hashes []string
	for _, d := range changes {
		for _, v := range []version{d.from, d.to} {
			if v.hash != "" && v.mode != modeSubmodule && v.mode != modeLink && wanted(d.path) {
				hashes = append(hashes, v.hash)
			}
		}
	}
	contents, err := r.readBlobs(ctx, "", hashes)
	return slices.Collect(maps.Values(contents)), err
}

// ChangedFile is a file, and nothing else, that differs between two commits.
type ChangedFile struct {
	Path string
	// Old and New are its contents in the first commit and in the second. They are nil where it is
	// not a file, and if it was not read.
	Old, New []byte
	// Unread means that it is too large, or that others took all that may be read.
	Unread bool
}

// ReadLimits is what ChangedFiles reads at most.
type ReadLimits struct {
	// Files is how many files, File how many bytes of one content, and All of all contents.
	Files     int
	File, All int64
	// Order compares files: the first ones are read. It is a total order.
	Order func(a, b string) int
	// Wanted reports whether a file matters; nil if all do.
	Wanted func(name string) bool
}

// ChangedFiles returns the files that differ between two commits, by path. A file that was only
// moved is left out at its new place.
func (r *edits) ChangedFiles(ctx context.Context, from, to string,
	limits ReadLimits) (files []ChangedFile, err error) {
	changes, err := r.compareTrees(ctx, from, to)
	if err != nil {
		return nil, err
	}
	isFile := func(v version) bool {
		return v.hash != "" && v.mode != modeSubmodule && v.mode != modeLink
	}
	moved := map[string]bool{}
	for _, d := range changes {
		if isFile(d.from) {
			moved[d.from.hash] = true
		}
	}
	changes = slices.DeleteFunc(changes, func(d *difference) bool {
		return !isFile(d.from) && !isFile(d.to) || isFile(d.to) && moved[d.to.hash] ||
			limits.Wanted != nil && !limits.Wanted(d.path)
	})
	var objects strings.Builder
	for _, d := range changes {
		for _, v := range []version{d.from, d.to} {
			if isFile(v) {
				objects.WriteString(v.hash + " .\n")
			}
		}
	}
	blobs, err := r.largeBlobs(ctx, objects.String(), -1)
	if err != nil {
		return nil, err
	}
	sizes := map[string]int64{}
	for _, b := range blobs {
		sizes[b.hash] = b.size
	}
	var hashes []string
	unread, read := map[string]bool{}, 0
	for _, d := range slices.SortedFunc(slices.Values(changes), func(a, b *difference) int {
		return limits.Order(a.path, b.path)
	}) {
		size := sizes[d.from.hash] + sizes[d.to.hash]
		if read == limits.Files || size > limits.All || sizes[d.from.hash] > limits.File ||
			sizes[d.to.hash] > limits.File {
			unread[d.path] = true
			continue
		}
		read, limits.All = read+1, limits.All-size
		for _, v := range []version{d.from, d.to} {
			if isFile(v) {
				hashes = append(hashes, v.hash)
			}
		}
	}
	contents, err := r.readBlobs(ctx, "", hashes)
	if err != nil {
		return nil, err
	}
	content := func(d *difference, v version) []byte {
		if !isFile(v) || unread[d.path] {
			return nil
		}
		return append([]byte{}, contents[v.hash]...)
	}
	for _, d := range changes {
		files = append(files, ChangedFile{d.path, content(d, d.from), content(d, d.to),
			unread[d.path]})
	}
	return files, nil
}

// LargeFile is a file that is larger than allowed.
type LargeFile struct {
	Path string
	Size int64
	// Deleted means that the file is only in an earlier commit. A merge brings it into the history
	// anyway.
	Deleted bool
}

// LargeFiles returns the files larger than limit bytes that a commit and those before it add to a
// base, by path. A file that was moved, or that was already too large in the base, does not count.
// Nothing is read but the sizes of the objects that a merge would bring in.
func (r *edits) LargeFiles(ctx context.Context, base, commit string,
	limit int64) ([]LargeFile, error) {
	objects, err := r.git(ctx, "rev-list", "--objects", "--end-of-options", commit, "^"+
		base)
	if err != nil || objects == "" {
		return nil, err
	}
	added, err := r.largeBlobs(ctx, objects, limit)
	if err != nil || len(added) == 0 {
		return nil, err
	}
	bases, err := r.mergeBases(ctx, base, commit)
	if err != nil {
		return nil, err
	}
	before, present := map[string]string{}, map[string]bool{} // hashes by path, and hashes
	for _, base := range bases {
		changes, err := r.compareTrees(ctx, base, commit)
		if err != nil {
			return nil, err
		}
		for _, d := range changes {
			present[d.to.hash] = true
			if d.from.hash != "" && d.from.mode != modeSubmodule {
				before[d.path] = d.from.hash
			}
		}
	}
	var old strings.Builder
	for _, blob := range added {
		if hash := before[blob.path]; hash != "" {
			old.WriteString(hash + " " + blob.path + "\n")
		}
	}
	known := map[string]bool{} // paths of files that were too large before
	if old.Len() > 0 {
		large, err := r.largeBlobs(ctx, old.String(), limit)
		if err != nil {
			return nil, err
		}
		for _, blob := range large {
			known[blob.path] = true
		}
	}
	found := map[string]LargeFile{}
	for _, blob := range added {
		if !known[blob.path] && blob.size > found[blob.path].Size {
			found[blob.path] = LargeFile{blob.path, blob.size, !present[blob.hash]}
		}
	}
	return slices.SortedFunc(maps.Values(found),
		func(a, b LargeFile) int { return strings.Compare(a.Path, b.Path) }), nil
}

// Squash returns a commit with the content of a commit, directly on the base, without the commits
// between them.
func (r *commits) Squash(ctx context.Context, commit, base, message string) (string, error) {
	return r.line(ctx, message, "commit-tree", "-p", base, "-F", "-", commit+"^{tree}")
}

type blob struct {
	hash, path string
	size       int64
}

// largeBlobs returns those of the objects that are files larger than limit bytes. Each line of
// objects is a hash and a path. Objects that are not in the repository are omitted: a partial clone
// does not have all those of its base.
func (r *edits) largeBlobs(ctx context.Context, objects string, limit int64) ([]blob, error) {
	out, err := r.run(ctx, call{dir: r.Root, stdin: []byte(objects),
		args: []string{"cat-file",
			"--batch-check=%(objecttype) %(objectsize) %(objectname) %(rest)"}})
	if err != nil {
		return nil, err
	}
	var large []blob
	for line := range strings.Lines(out) {
		kind, rest, _ := strings.Cut(strings.TrimSuffix(line, "\n"), " ")
		if kind != "blob" {
			continue
		}
		number, rest, _ := strings.Cut(rest, " ")
		hash, path, _ := strings.Cut(rest, " ")
		size, err := strconv.ParseInt(number, 10, 64)
		if err != nil {
			return nil, fmt.Errorf("git cat-file: unexpected %q", line)
		}
		if size > limit {
			large = append(large, blob{hash, path, size})
		}
	}
	return large, nil
}

// compareTrees returns the files, links and submodules that differ between two commits. Without its
// options, diff-tree would omit submodules that .gitmodules says to ignore.
func (r *commits) compareTrees(ctx context.Context, from, to string) ([]*difference, error) {
	out, err := r.git(ctx, "diff-tree", "-r", "-z", "--raw", "--no-renames",
		"--ignore-submodules=none", "--full-index", "--end-of-options", from, to)
	if err != nil {
		return nil, err
	}
	var changes []*difference
	for fields := strings.Split(out, "\x00"); len(fields) > 1; fields = fields[2:] {
		raw := strings.Fields(strings.TrimPrefix(fields[0], ":"))
		if len(raw) < 4 {
			return nil, fmt.Errorf("git diff-tree: unexpected %q", fields[0])
		}
		changes = append(changes, &difference{path: fields[1], from: newVersion(raw[0], raw[2]),
			to: newVersion(raw[1], raw[3])})
	}
	return changes, nil
}

// listTree returns everything in a commit. objects is where its objects are, "" for those of the
// project.
func (r *commits) listTree(ctx context.Context, commit,
	objects string) (map[string]version, error) {
	out, err := r.run(ctx, call{dir: r.Root, env: withObjects(objects),
		args: []string{"ls-tree", "-r", "-z", "--full-tree", "--end-of-options", commit}})
	if err != nil {
		return nil, err
	}
	files := map[string]version{}
	for entry := range strings.SplitSeq(out, "\x00") {
		about, name, _ := strings.Cut(entry, "\t")
		if fields := strings.Fields(about); len(fields) == 3 { // mode, type, hash
			files[name] = version{fields[0], fields[2]}
		}
	}
	return files, nil
}

// readLinks returns the targets of the symbolic links, relative to the top of the repository. Links
// to other places are omitted.
func (r *edits) readLinks(ctx context.Context,
	files map[string]version) (map[string]string, error) {
	var hashes []string
	for _, v := range files {
		if v.mode == modeLink {
			hashes = append(hashes, v.hash)
		}
	}
	targets, err := r.readBlobs(ctx, "", hashes)
	if err != nil {
		return nil, err
	}
	links := map[string]string{}
	for name, v := range files {
		if v.mode != modeLink {
			continue
		}
		target := path.Join(path.Dir(name), targets[v.hash])
		if !path.IsAbs(targets[v.hash]) && target != ".." && !strings.HasPrefix(target, "../") {
			links[name] = target
		}
	}
	return links, nil
}

// readBlobs returns the contents of objects by their hashes. objects is where they are, "" for
// those of the project.
func (r *commits) readBlobs(ctx context.Context, objects string,
	hashes []string) (map[string]string, error) {
	if len(hashes) == 0 {
		return nil, nil
	}
	out, err := r.run(ctx, call{dir: r.Root, env: withObjects(objects),
		stdin: []byte(strings.Join(hashes, "\n") + "\n"),
		args:  []string{"cat-file", "--batch"}})
	if err != nil {
		return nil, err
	}
	contents := map[string]string{}
	for _, hash := range hashes { // HASH blob SIZE, newline, content, newline
		about, rest, _ := strings.Cut(out, "\n")
		size, err := strconv.Atoi(about[strings.LastIndex(about, " ")+1:])
		if err != nil || size >= len(rest) {
			return nil, fmt.Errorf("git cat-file: unexpected %q", about)
		}
		contents[hash], out = rest[:size], rest[size+1:]
	}
	return contents, nil
}

// maxAliases bounds the paths that links can make of one path, which is unlimited if links form a
// circle.
const maxAliases = 1000

// aliases returns a path and the other paths that lead to it through links.
func aliases(name string, links map[string]string) []string {
	found := []string{name}
	for i := 0; i < len(found) && len(found) < maxAliases; i++ {
		for link, target := range links {
			rest, below := found[i], target == "."
			if !below {
				rest, below = strings.CutPrefix(found[i]+"/", target+"/")
			}
			if alias := path.Join(link, rest); below && !slices.Contains(found, alias) {
				found = append(found, alias)
			}
		}
	}
	return found
}

// attributeChanges returns the files whose attributes differ between two commits.
func (r *edits) attributeChanges(ctx context.Context, from, to string,
	files []string) ([]string, error) {
	if len(files) == 0 {
		return nil, nil
	}
	before, err := r.attributes(ctx, from, files)
	if err != nil {
		return nil, err
	}
	after, err := r.attributes(ctx, to, files)
	if err != nil {
		return nil, err
	}
	return slices.DeleteFunc(slices.Clone(files),
		func(name string) bool { return maps.Equal(before[name], after[name]) }), nil
}

// attributes returns the attributes that files have in a commit. They need not exist in it. It uses
// an index of its own: git 2.39 cannot read attributes from a commit.
func (r *edits) attributes(ctx context.Context, commit string,
	files []string) (map[string]map[string]string, error) {
	c, remove, err := r.readIndex(ctx, commit)
	if err != nil {
		return nil, err
	}
	defer remove()
	out, err := c.git(ctx, nulTerminated(files), "check-attr", "--cached", "--all", "--stdin",
		"-z")
	if err != nil {
		return nil, err
	}
	found := map[string]map[string]string{}
	// path, attribute, value
	for fields := strings.Split(out, "\x00"); len(fields) > 3; fields = fields[3:] {
		if found[fields[0]] == nil {
			found[fields[0]] = map[string]string{}
		}
		found[fields[0]][fields[1]] = fields[2]
	}
	return found, nil
}
