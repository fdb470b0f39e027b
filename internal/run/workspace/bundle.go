package workspace

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"signalbox"
)

// Bundle is what a git bundle contains.
type Bundle struct {
	// Commits are in the bundle with everything that they need and that the commits in Needs do not
	// contain. The first one is the head of Branch.
	Commits, Needs []string
	Branch         string
}

// The first line of a bundle. Only version 3 knows repositories with SHA-256.
const (
	bundleV2 = "# v2 git bundle\n"
	bundleV3 = "# v3 git bundle\n"
	sha256V3 = "@object-format=sha256"
)

// bundledPrefix is the prefix of the names of the other commits in a bundle. A bundle names refs,
// not commits.
const bundledPrefix = "refs/signalbox/shared/"

// WriteBundle writes a bundle, as git bundle create does, but of commits that no branch has.
func (r *sharing) WriteBundle(ctx context.Context, w io.Writer, b Bundle) error {
	if err := r.checkNotShallow(); err != nil {
		return err
	}
	if err := cmp.Or(checkCommits(b.Commits...), checkCommits(b.Needs...),
		signalbox.CheckBranch(b.Branch)); err != nil {
		return err
	}
	header := bundleV2
	if len(b.Commits[0]) == 64 {
		header = bundleV3 + sha256V3 + "\n"
	}
	revisions := ""
	for _, commit := range b.Needs {
		header += "-" + commit + " \n"
		revisions += "^" + commit + "\n"
	}
	for i, commit := range b.Commits {
		name := bundledPrefix + commit
		if i == 0 {
			name = headsPrefix + b.Branch
		}
		header += commit + " " + name + "\n"
		revisions += commit + "\n"
	}
	if _, err := io.WriteString(w, header+"\n"); err != nil {
		return err
	}
	_, err := r.run(ctx, call{dir: r.Root, stdin: []byte(revisions), stdout: w,
		args: []string{"pack-objects", "--revs", "--stdout", "--thin", "--delta-base-offset",
			"--quiet"}})
	return err
}

// Limits of the header of a bundle, which another machine wrote.
const (
	maxBundleLine  = 4096
	maxBundleLines = 10_000
)

// readHeader reads a bundle up to its pack.
func readHeader(in *bufio.Reader) (b Bundle, err error) {
	invalid := errors.New("it is not a git bundle")
	for i := range maxBundleLines {
		line, err := in.ReadSlice('\n')
		if err != nil {
			return b, invalid
		}
		text := strings.TrimSuffix(string(line), "\n")
		if i == 0 {
			if string(line) != bundleV2 && string(line) != bundleV3 {
				return b, invalid
			}
			continue
		}
		if text == "" {
			if len(b.Commits) == 0 {
				return b, invalid
			}
			return b, nil
		}
		if text == sha256V3 {
			continue
		}
		commit, name, _ := strings.Cut(text, " ")
		commit, needed := strings.CutPrefix(commit, "-")
		if signalbox.CheckCommit(commit) != nil {
			return b, invalid
		}
		if needed {
			b.Needs = append(b.Needs, commit)
			continue
		}
		if len(b.Commits) == 0 {
			found := false
			if b.Branch, found = strings.CutPrefix(name, headsPrefix); !found ||
				signalbox.CheckBranch(b.Branch) != nil {
				return b, fmt.Errorf("it contains %q", name)
			}
		} else if name != bundledPrefix+commit {
			return b, fmt.Errorf("it contains %q", name)
		}
		b.Commits = append(b.Commits, commit)
	}
	return b, invalid
}

// checkCommits validates ids of commits that other machines may have written into the ledger. Git
// would understand other text as an option, a refspec or a command.
func checkCommits(commits ...string) error {
	for _, commit := range commits {
		if err := signalbox.CheckCommit(commit); err != nil {
			return err
		}
	}
	return nil
}

// strict makes git check the objects that it gets from another machine. Old repositories have
// commits with these faults, which harm nothing.
const strict = "--strict=badTimezone=ignore,missingSpaceBeforeDate=ignore,zeroPaddedFilemode=ignore"

// smallPack is the number of objects from which a pack is kept as one file. Git does the same when
// it fetches.
const smallPack = 100

// BundleError means that a bundle cannot be used, on any machine, because of its content. Fault is
// one line.
type BundleError struct{ Fault string }

func (e *BundleError) Error() string { return e.Fault }

// UnreadableError means that git cannot read a bundle on this machine now. The bundle may be to
// blame or not: its author can make git run out of memory.
type UnreadableError struct{ Err error }

func (e *UnreadableError) Error() string {
	return "it cannot be read here now: " + oneLine(e.Err.Error())
}
func (e *UnreadableError) Unwrap() error { return e.Err }

// oneLine joins the lines of what git says.
func oneLine(text string) string {
	return strings.Join(strings.FieldsFunc(text,
		func(c rune) bool { return c == '\n' || c == '\r' }), "; ")
}

// ReadBundle adds the objects of the bundle of a commit to the repository. No branch moves. Another
// machine made the bundle, so git checks all objects, and that nothing is missing. The bundle may
// only build on the commits in needs, which must be in the repository. The error is a BundleError
// if the content is to blame, and an UnreadableError if that is not known.
func (r *sharing) ReadBundle(ctx context.Context, bundle io.Reader, commit string,
	needs []string) error {
	b, q, err := r.readBundle(ctx, bundle, commit, needs)
	if err != nil {
		return err
	}
	err = r.adopt(ctx, q)
	if err := errors.Join(err, q.remove()); err != nil {
		return &UnreadableError{err}
	}
	return r.KeepShared(ctx, b.Commits...)
}

// CheckBundle returns the error with which ReadBundle would refuse a bundle. The repository stays
// as it is.
func (r *sharing) CheckBundle(ctx context.Context, bundle io.Reader, commit string,
	needs []string) error {
	_, q, err := r.readBundle(ctx, bundle, commit, needs)
	if err != nil {
		return err
	}
	return q.remove()
}

// readBundle reads a bundle into a quarantine, which the caller removes.
func (r *sharing) readBundle(ctx context.Context, bundle io.Reader, commit string,
	needs []string) (b Bundle, q *quarantine, err error) {
	in := bufio.NewReaderSize(bundle, maxBundleLine)
	if b, err = readHeader(in); err != nil {
		return b, nil, &BundleError{err.Error()}
	}
	if b.Commits[0] != commit {
		return b, nil, &BundleError{fmt.Sprintf("it is the bundle of %.12s", b.Commits[0])}
	}
	for _, commit := range b.Needs {
		if !slices.Contains(needs, commit) {
			return b, nil, &BundleError{fmt.Sprintf(
				"it builds on %.12s, which the ledger does not say", commit)}
		}
		if has, err := r.Has(ctx, commit); err != nil {
			return b, nil, err
		} else if !has {
			return b, nil, signalbox.CodeNotFound.Errorf("",
				"the bundle of %.12s needs the commit %.12s, which is not in %s", b.Commits[0],
				commit, r.Root)
		}
	}
	start, err := in.Peek(12) // PACK, the version and the number of objects
	if err != nil || !bytes.HasPrefix(start, []byte("PACK")) {
		return b, nil, &BundleError{"it has no pack"}
	}
	if q, err = r.newQuarantine(int(binary.BigEndian.Uint32(start[8:]))); err != nil {
		return b, nil, &UnreadableError{err}
	}
	if err = r.fill(ctx, q, in, b); err != nil {
		return b, nil, errors.Join(err, q.remove())
	}
	return b, q, nil
}

// quarantine is a folder with the pack of a bundle that has not been checked. Git finds the objects
// of the repository from there, but not the other way round. Without it, objects that git refuses
// would stay.
type quarantine struct {
	dir string
	// objects is the number of objects that the author put into the pack. Git adds those of the
	// repository that they are deltas of.
	objects int
}

func (r *sharing) newQuarantine(objects int) (*quarantine, error) {
	// git gc removes such a folder after a kill
	dir, err := os.MkdirTemp(filepath.Join(r.common, "objects"), "tmp_objdir-bundle-")
	if err != nil {
		return nil, err
	}
	q := &quarantine{dir, objects}
	err = cmp.Or(os.Mkdir(filepath.Join(dir, "pack"), 0o777),
		os.Mkdir(filepath.Join(dir, "info"), 0o777),
		os.WriteFile(filepath.Join(dir, "info", "alternates"), []byte("..\n"), 0o666))
	if err != nil {
		return nil, errors.Join(err, q.remove())
	}
	return q, nil
}

func (q *quarantine) env() []string { return []string{"GIT_OBJECT_DIRECTORY=" + q.dir} }

func (q *quarantine) remove() error { return os.RemoveAll(q.dir) }

// files returns the files of the pack, the index last: git uses a pack when its index is there.
func (q *quarantine) files() (files []string, err error) {
	entries, err := os.ReadDir(filepath.Join(q.dir, "pack"))
	index := ""
	for _, entry := range entries {
		name := filepath.Join(q.dir, "pack", entry.Name())
		switch {
		case !strings.HasPrefix(entry.Name(), "pack-"):
		case filepath.Ext(name) == ".idx":
			index = name
		default:
			files = append(files, name)
		}
	}
	if err == nil && index == "" {
		err = errors.New("git index-pack has written no index")
	}
	return append(files, index), err
}

// fill reads a pack into a quarantine and checks it.
func (r *sharing) fill(ctx context.Context, q *quarantine, pack io.Reader, b Bundle) error {
	if _, err := r.run(ctx, call{dir: r.Root, input: pack, env: q.env(),
		args: []string{"index-pack", "--stdin", "--fix-thin", strict}}); err != nil {
		switch {
		case ctx.Err() != nil:
			return fmt.Errorf("read a bundle: %w", err)
		case status(err) < 0 || isLocalFault(err):
			return &UnreadableError{err}
		}
		return &BundleError{oneLine(err.Error())}
	}
	return r.checkContained(ctx, q, b)
}

// checkContained checks that all commits that a bundle adds are in its pack. Commits that are here
// by chance would become part of what the box shares, and they may be private.
func (r *sharing) checkContained(ctx context.Context, q *quarantine, b Bundle) error {
	for _, commit := range b.Commits {
		if here, err := r.exists(ctx, commit, q.env()); err != nil {
			return err
		} else if !here {
			return &BundleError{fmt.Sprintf("it does not contain %.12s", commit)}
		}
	}
	revisions := strings.Join(b.Commits, "\n") + "\n"
	for _, commit := range b.Needs {
		revisions += "^" + commit + "\n"
	}
	out, err := r.run(ctx, call{dir: r.Root, stdin: []byte(revisions), env: q.env(),
		args: []string{"rev-list", "--stdin"}})
	if err != nil {
		return &UnreadableError{err}
	}
	offsets := map[string]int64{} // of the commits in the pack; -1 if they are not
	for line := range strings.Lines(out) {
		offsets[strings.TrimSpace(line)] = -1
	}
	end, err := r.readIndex(ctx, q, offsets)
	if err != nil {
		return &UnreadableError{err}
	}
	for commit, offset := range offsets {
		if offset < 0 || offset >= end {
			return &BundleError{fmt.Sprintf("it does not contain %.12s", commit)}
		}
	}
	return nil
}

// readIndex sets the offsets of objects in the pack of a quarantine, and returns that of the first
// object that git has added.
func (r *sharing) readIndex(ctx context.Context, q *quarantine,
	offsets map[string]int64) (end int64, err error) {
	files, err := q.files()
	if err != nil {
		return 0, err
	}
	index, err := os.Open(files[len(files)-1])
	if err != nil {
		return 0, err
	}
	defer index.Close()
	list, err := os.Create(filepath.Join(q.dir, "list"))
	if err != nil {
		return 0, err
	}
	defer list.Close()
	if _, err := r.run(ctx, call{dir: r.Root, input: index, stdout: list, env: q.env(),
		args: []string{"show-index"}}); err != nil {
		return 0, err
	}
	if _, err := list.Seek(0, io.SeekStart); err != nil {
		return 0, err
	}
	var all []int64
	lines := bufio.NewScanner(list)
	for lines.Scan() {
		fields := strings.Fields(lines.Text()) // offset, id, checksum
		if len(fields) < 2 {
			return 0, fmt.Errorf("git show-index: %q", lines.Text())
		}
		offset, err := strconv.ParseInt(fields[0], 10, 64)
		if err != nil {
			return 0, fmt.Errorf("git show-index: %w", err)
		}
		all = append(all, offset)
		if _, wanted := offsets[fields[1]]; wanted {
			offsets[fields[1]] = offset
		}
	}
	if q.objects < len(all) {
		slices.Sort(all)
		return all[q.objects], lines.Err()
	}
	return math.MaxInt64, lines.Err()
}

// adopt moves the objects of a quarantine to the repository.
func (r *sharing) adopt(ctx context.Context, q *quarantine) error {
	files, err := q.files()
	if err != nil || q.objects == 0 {
		return err
	}
	if q.objects < smallPack {
		pack, err := os.Open(files[slices.IndexFunc(files,
			func(name string) bool { return filepath.Ext(name) == ".pack" })])
		if err != nil {
			return err
		}
		_, err = r.run(ctx, call{dir: r.Root, input: pack, args: []string{"unpack-objects", "-q"}})
		return errors.Join(err, pack.Close())
	}
	for _, name := range files {
		to := filepath.Join(r.common, "objects", "pack", filepath.Base(name))
		if _, err := os.Lstat(to); err == nil {
			continue // the same pack
		}
		if err := os.Rename(name, to); err != nil {
			return err
		}
	}
	return nil
}

// localFaults are messages of git about faults of this machine, not of what it read. Running out of
// memory is not one of them: the author of an object determines its size.
var localFaults = []string{"No space left on device", "Disk quota exceeded",
	"Read-only file system", "Permission denied", "Input/output error", "Too many open files",
	"File too large",
	"unable to create", "unable to write", "write error", "insufficient permission"}

// isLocalFault reports whether git says, in the line with which it ends, that this machine is to
// blame. The lines before it may quote the bundle, even line breaks.
func isLocalFault(err error) bool {
	failed := (*gitError)(nil)
	if !errors.As(err, &failed) {
		return false
	}
	last := strings.TrimSpace(failed.stderr)
	last = last[strings.LastIndexByte(last, '\n')+1:]
	return strings.HasPrefix(last, "fatal: ") &&
		slices.ContainsFunc(localFaults,
			func(text string) bool { return strings.Contains(last, text) })
}

// Has reports whether a commit is in the repository.
func (r *commits) Has(ctx context.Context, commit string) (bool, error) {
	if err := checkCommits(commit); err != nil {
		return false, err
	}
	return r.exists(ctx, commit, nil)
}

// exists reports whether git finds a commit in an environment.
func (r *runner) exists(ctx context.Context, commit string, env []string) (bool, error) {
	_, err := r.run(ctx, call{dir: r.Root, env: env, args: []string{"cat-file", "-e", commit +
		"^{commit}"}})
	if status(err) > 0 {
		return false, nil
	}
	return err == nil, err
}

// IsShared reports whether a commit here is part of what machines share: a commit that was
// published, or that a bundle brought here, contains it, or the base.
func (r *sharing) IsShared(ctx context.Context, commit, base string) (bool, error) {
	here, err := r.Has(ctx, commit)
	if !here || err != nil {
		return false, err
	}
	shared, err := r.SharedCommits(ctx)
	if err != nil {
		return false, err
	}
	if base != "" {
		if here, err := r.Has(ctx, base); err != nil {
			return false, err
		} else if here {
			shared = append(shared, base)
		}
	}
	revisions := commit + "\n"
	for _, other := range shared {
		revisions += "^" + other + "\n"
	}
	newer, err := r.line(ctx, revisions, "rev-list", "--max-count=1", "--stdin")
	return newer == "", err
}

// KeepShared notes that commits are shared with other machines. They stay in the repository until
// DropShared.
func (r *sharing) KeepShared(ctx context.Context, commits ...string) error {
	return r.updateShared(ctx, commits, func(ref, commit string) string {
		return "update " + ref + " " + commit
	})
}

// updateShared changes the refs of shared commits. change returns the order for git update-ref.
func (r *sharing) updateShared(ctx context.Context, commits []string,
	change func(ref, commit string) string) error {
	if err := checkCommits(commits...); err != nil || len(commits) == 0 {
		return err
	}
	var updates strings.Builder
	for _, commit := range commits {
		updates.WriteString(change(bundledPrefix+commit, commit) + "\n")
	}
	_, err := r.line(ctx, updates.String(), "update-ref", "--no-deref", "--stdin")
	return err
}

// SharedCommits returns the commits that are noted as shared, sorted.
func (r *sharing) SharedCommits(ctx context.Context) ([]string, error) {
	out, err := r.git(ctx, "for-each-ref", "--format=%(objectname) %(refname)",
		bundledPrefix)
	if err != nil {
		return nil, err
	}
	var commits []string
	for line := range strings.Lines(out) {
		if commit, name, _ := strings.Cut(strings.TrimSpace(line),
			" "); name == bundledPrefix+commit {
			commits = append(commits, commit)
		}
	}
	slices.Sort(commits)
	return commits, nil
}

// DropShared forgets that commits are shared.
func (r *sharing) DropShared(ctx context.Context, commits ...string) error {
	return r.updateShared(ctx, commits, func(ref, _ string) string { return "delete " + ref })
}
