package workspace

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"signalbox/internal/lazy"
)

// ConflictError describes a conflict of two commits. Nothing was merged.
type ConflictError struct {
	// Branch and Base are the names of the two sides, for people.
	Branch, Base string
	Files        []string
	// Submodules are those of Files that are submodules.
	Submodules []string
	// Notes say what each side did, and which version is in place where git leaves no markers.
	Notes []string
	// Ours is the commit of the branch, and Theirs that of the base.
	Ours, Theirs string

	tree    string // what git could merge, and files with conflict markers
	entries []conflictEntry
}

// conflictEntry is a path in conflict, with the versions of the common ancestor and of the two
// sides.
type conflictEntry struct {
	path                   string
	ancestor, ours, theirs version
}

func asConflict(err error) (*ConflictError, bool) { return errors.AsType[*ConflictError](err) }

func (e *ConflictError) Error() string {
	return fmt.Sprintf("%s conflicts with %s in %s", e.Branch, e.Base, strings.Join(e.Files, ", "))
}

// mergeTrees merges two commits without touching a branch or a worktree, and returns the tree. If
// they conflict, the error is a *ConflictError.
func (r *commits) mergeTrees(ctx context.Context, ours, theirs, branch,
	base string) (string, error) {
	out, err := r.git(ctx, "merge-tree", "--write-tree", "-z", ours, theirs)
	fields := strings.Split(out, "\x00")
	tree := strings.TrimSpace(fields[0])
	if status(err) != 1 || len(fields) < 2 {
		return tree, err
	}
	e := &ConflictError{Branch: branch, Base: base, Ours: ours, Theirs: theirs, tree: tree}
	fields = e.parseEntries(fields[1:])
	e.describe(fields)
	if len(e.Files) == 0 {
		return "", fmt.Errorf("git merge-tree: unexpected %q", out)
	}
	return "", e
}

// parseEntries reads lines such as "100644 OBJECT STAGE\tPATH", up to an empty one, and returns the
// rest.
func (e *ConflictError) parseEntries(fields []string) []string {
	for i, field := range fields {
		about, path, _ := strings.Cut(field, "\t")
		raw := strings.Fields(about)
		if len(raw) != 3 {
			return fields[i+1:]
		}
		last := len(e.entries) - 1
		if last < 0 || e.entries[last].path != path {
			e.entries, last = append(e.entries, conflictEntry{path: path}), last+1
		}
		v := newVersion(raw[0], raw[1])
		switch raw[2] {
		case "1":
			e.entries[last].ancestor = v
		case "2":
			e.entries[last].ours = v
		case "3":
			e.entries[last].theirs = v
		}
	}
	return nil
}

// describe fills in the lists for people. messages are what git says about the conflicts: for each
// the number of paths, the paths, a type and a text.
func (e *ConflictError) describe(messages []string) {
	binary := map[string]bool{}
	var more []string
	for len(messages) > 0 {
		n := 0
		if _, err := fmt.Sscanf(messages[0], "%d", &n); err != nil || n < 0 || len(messages) < n+3 {
			break
		}
		paths, kind, text := messages[1:n+1], messages[n+1], messages[n+2]
		messages = messages[n+3:]
		switch {
		case kind == "CONFLICT (binary)":
			for _, path := range paths {
				binary[path] = true
			}
		case kind == "CONFLICT (contents)",
			strings.HasPrefix(kind, "CONFLICT (submodule"): // noteOn describes them
		case strings.HasPrefix(kind, "CONFLICT"):
			text = strings.NewReplacer("~"+e.Ours, "~"+e.Ours, "~"+e.Theirs, "~"+e.Theirs, e.Ours,
				e.Branch, e.Theirs, e.Base).Replace(text)
			_, text, _ = strings.Cut(text, ": ")
			more = append(more, strings.Join(strings.Fields(text), " "))
		}
	}
	for _, entry := range e.entries {
		e.Files = append(e.Files, entry.path)
		if entry.ours.mode == modeSubmodule || entry.theirs.mode == modeSubmodule {
			e.Submodules = append(e.Submodules, entry.path)
		}
		if note := e.noteOn(entry, binary[entry.path]); note != "" {
			e.Notes = append(e.Notes, note)
		}
	}
	e.Notes = append(e.Notes, more...)
	slices.Sort(e.Files)
	e.Files = slices.Compact(e.Files)
}

// noteOn describes a conflict in which both sides have a version of the path. Git describes the
// others.
func (e *ConflictError) noteOn(c conflictEntry, binary bool) string {
	if c.ours.hash == "" || c.theirs.hash == "" {
		return ""
	}
	did := "changed"
	if c.ancestor.hash == "" {
		did = "added"
	}
	note := fmt.Sprintf("%s: both sides %s it", c.path, did)
	switch {
	case c.ours.mode == modeSubmodule || c.theirs.mode == modeSubmodule:
		return fmt.Sprintf("%s: a submodule, at %s in %s and at %s in %s", c.path, c.ours.hash,
			e.Branch, c.theirs.hash, e.Base)
	case c.ours.hash == c.theirs.hash:
		note += " in the same way, but"
	case binary, c.ours.mode == modeLink, c.theirs.mode == modeLink:
		note += fmt.Sprintf(
			". It is not text, so it has no markers: it is the version of %s. See the other with: git show %s:%s", e.Branch, e.Theirs, c.path)
	}
	if c.ours.mode != c.theirs.mode {
		note += fmt.Sprintf(" with other modes: %s in %s, %s in %s. The first is in place",
			c.ours.mode, e.Branch, c.theirs.mode, e.Base)
	}
	return note
}

// Draft creates a commit for the author who resolves a conflict: a merge of the two sides with
// conflict markers in its files. In files that the author must not edit it has the version of the
// base. It moves no branch.
func (r *conflicts) Draft(ctx context.Context, e *ConflictError, p Protection) (string, error) {
	tree, err := r.withTheirs(ctx, e, p)
	if err != nil {
		return "", err
	}
	return r.commitMerge(ctx, e.Ours, e.Theirs, tree,
		fmt.Sprintf("Merge %s into %s, with conflicts to resolve\n", e.Base, e.Branch))
}

// protected reports whether an author must not edit the file.
func (entry *conflictEntry) protected(p Protection) bool {
	return p.Protects(entry.path) || entry.theirs.hash != "" && p.ProtectsExisting(entry.path)
}

// Protected returns the files with conflicts that the author must not edit.
func (e *ConflictError) Protected(p Protection) (files []string) {
	for i := range e.entries {
		if e.entries[i].protected(p) {
			files = append(files, e.entries[i].path)
		}
	}
	return files
}

// withTheirs returns the tree of a conflict with the base's version of protected files.
func (r *conflicts) withTheirs(ctx context.Context, e *ConflictError,
	p Protection) (string, error) {
	var changes strings.Builder
	for _, entry := range e.entries {
		switch v := entry.theirs; {
		case !entry.protected(p):
		case v.hash == "":
			fmt.Fprintf(&changes, "0 %s\t%s\x00", strings.Repeat("0", len(e.tree)), entry.path)
		default:
			fmt.Fprintf(&changes, "%s %s\t%s\x00", v.mode, v.hash, entry.path)
		}
	}
	if changes.Len() == 0 {
		return e.tree, nil
	}
	c, remove, err := r.readIndex(ctx, e.tree)
	if err != nil {
		return "", err
	}
	defer remove()
	if _, err := c.git(ctx, []byte(changes.String()), "update-index", "-z",
		"--index-info"); err != nil {
		return "", err
	}
	out, err := c.git(ctx, nil, "write-tree")
	return strings.TrimSpace(out), err
}

// Conflict names a conflict that an author was to resolve: the commits of the task and of the base,
// and the draft, "" if none was made.
type Conflict struct{ Commit, Base, Draft string }

// ResolveConflict returns the commit that takes the place of what an author saved: if that is the
// draft with the conflicts resolved, a merge commit of the task's commit and the base, without the
// draft in its history. If the author left conflict markers, or a file with the temporary name that
// git gave it, unresolved lists the files. If the author has undone the merge, or merged by itself,
// the commit is what it saved. latest is the commit of the base now: an author may have merged that
// into the draft.
func (r *conflicts) ResolveConflict(ctx context.Context, task string, c Conflict, saved,
	latest string) (commit string, unresolved []string, err error) {
	merged, err := r.Contains(ctx, saved, c.Base)
	if err != nil || !merged {
		return saved, nil, err
	}
	branch := branchPrefix + task
	_, err = r.mergeTrees(ctx, c.Commit, c.Base, branch, r.Base)
	if conflict, found := asConflict(err); found {
		unresolved, err = r.unresolved(ctx, conflict, saved)
	}
	if err != nil || len(unresolved) > 0 {
		return saved, unresolved, err
	}
	drafted, err := r.Contains(ctx, saved, c.Draft)
	if err != nil || !drafted {
		return saved, nil, err
	}
	if newer, err := r.Contains(ctx, saved, latest); err != nil {
		return saved, nil, err
	} else if newer {
		c.Base = latest
	}
	tree, err := r.line(ctx, "", "rev-parse", "--verify", saved+"^{tree}")
	if err != nil {
		return saved, nil, err
	}
	commit, err = r.commitMerge(ctx, c.Commit, c.Base, tree,
		fmt.Sprintf("Merge %s into %s\n", r.Base, branch))
	return commit, nil, err
}

// unresolved returns the files of a commit in which a conflict is not resolved, sorted.
func (r *conflicts) unresolved(ctx context.Context, e *ConflictError,
	commit string) ([]string, error) {
	// The names of the commits are in the markers, so these lines are git's, in whatever file they
	// are now.
	out, err := r.git(ctx, "grep", "--full-name", "--name-only", "-z", "-a", "-F", "-e",
		"<<<<<<< "+e.Ours, "-e", ">>>>>>> "+e.Theirs, commit)
	if err != nil && status(err) != 1 {
		return nil, err
	}
	var found []string
	for name := range strings.SplitSeq(strings.TrimSuffix(out, "\x00"), "\x00") {
		if _, path, ok := strings.Cut(name, ":"); ok {
			found = append(found, path)
		}
	}
	files, err := r.listTree(ctx, commit, "")
	if err != nil {
		return nil, err
	}
	for _, entry := range e.entries {
		v, exists := files[entry.path]
		switch {
		case !exists, v.mode == modeSubmodule:
			continue
		case strings.Contains(entry.path, "~"+e.Ours), strings.Contains(entry.path, "~"+e.Theirs):
			found = append(found, entry.path)
			continue
		case v.hash == entry.ours.hash, v.hash == entry.theirs.hash:
			continue
		}
		left, err := r.hasMoreMarkers(ctx, v, entry)
		if err != nil {
			return nil, err
		}
		if left {
			found = append(found, entry.path)
		}
	}
	slices.Sort(found)
	return slices.Compact(found), nil
}

// markerPattern matches a line that may be a conflict marker. Such lines also underline headings.
var markerPattern = lazy.Regexp(`(?m)^(<{7,}|\|{7,}|={7,}|>{7,})([ \r].*)?$`)

// hasMoreMarkers reports whether a file has more lines that may be conflict markers than the two
// sides together. It finds markers whose text was changed, and those of nested conflicts.
func (r *conflicts) hasMoreMarkers(ctx context.Context, file version,
	c conflictEntry) (bool, error) {
	counts := make([]int, 3)
	for i, v := range []version{file, c.ours, c.theirs} {
		if v.hash == "" || v.mode == modeSubmodule {
			continue
		}
		text, err := r.git(ctx, "cat-file", "blob", v.hash)
		if err != nil {
			return false, err
		}
		counts[i] = len(markerPattern().FindAllStringIndex(text, -1))
	}
	return counts[0] > counts[1]+counts[2], nil
}

// CommitsOn returns the commits of the base's side of a conflict that change the files in conflict,
// newest first, each as its short id and its subject. If none changes them, it returns all.
func (r *conflicts) CommitsOn(ctx context.Context, e *ConflictError) []string {
	args := []string{"log", "--no-show-signature", "--no-merges", "--format=%h %s",
		fmt.Sprint("--max-count=", maxCommits), "^" + e.Ours, e.Theirs, "--"}
	out, err := r.run(ctx, call{dir: r.Root, env: []string{"GIT_LITERAL_PATHSPECS=1"},
		args: append(args, e.Files[:min(len(e.Files), maxCommits)]...)})
	if err == nil && out != "" {
		return strings.Split(strings.TrimSuffix(out, "\n"), "\n")
	}
	added, _ := r.CommitsBetween(ctx, e.Ours, e.Theirs)
	return added
}
