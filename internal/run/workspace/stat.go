package workspace

import (
	"bytes"
	"context"
	"fmt"
	"strconv"
	"strings"

	"signalbox/internal/text"
)

// FileStat is how a commit changes a file.
type FileStat struct {
	Path string
	// From is the path that the file was moved from, or "".
	From                  string
	Insertions, Deletions int
	// Binary means that its lines are not counted.
	Binary bool
}

// Stat returns how a commit changes each file relative to its merge base with another commit, as
// git diff --stat does, in the repository around dir. It changes nothing there.
func Stat(ctx context.Context, dir, base, commit string) ([]FileStat, error) {
	r, done, err := Borrow(ctx, dir)
	if err != nil {
		return nil, err
	}
	defer done()
	bases, err := r.mergeBases(ctx, base, commit)
	if err != nil {
		return nil, err
	}
	out, err := r.git(ctx, "diff-tree", "-r", "-z", "--numstat", "--find-renames",
		"--no-ext-diff", "--no-textconv", "--end-of-options", bases[0], commit, "--")
	if err != nil {
		return nil, err
	}
	return parseStat(out)
}

// Hidden returns a notice about characters that no one would see in what a commit changes relative
// to its merge base with another commit, "" if there are none.
func Hidden(ctx context.Context, dir, base, commit string) (string, error) {
	v, err := OpenReview(ctx, dir, dir)
	if err != nil {
		return "", err
	}
	defer v.Close()
	from, err := v.MergeBase(ctx, base, commit)
	if err != nil {
		return "", err
	}
	var scan text.DiffScan
	if err := v.Diff(ctx, &scan, from, commit, DiffOptions{}); err != nil {
		return "", err
	}
	return scan.Notice(), nil
}

// parseStat parses the output of git diff-tree --numstat -z.
func parseStat(out string) (files []FileStat, err error) {
	fields := strings.Split(strings.TrimSuffix(out, "\x00"), "\x00")
	for i := 0; i < len(fields) && out != ""; i++ {
		columns := strings.SplitN(fields[i], "\t", 3)
		if len(columns) < 3 {
			return nil, fmt.Errorf("git diff-tree: unexpected line %q", fields[i])
		}
		f := FileStat{Path: columns[2], Binary: columns[0] == "-"}
		if f.Path == "" { // a rename: both names follow
			if i+2 >= len(fields) {
				return nil, fmt.Errorf("git diff-tree: a name is missing after %q", fields[i])
			}
			f.From, f.Path = fields[i+1], fields[i+2]
			i += 2
		}
		if !f.Binary {
			if f.Insertions, err = strconv.Atoi(columns[0]); err == nil {
				f.Deletions, err = strconv.Atoi(columns[1])
			}
			if err != nil {
				return nil, fmt.Errorf("git diff-tree: %w", err)
			}
		}
		files = append(files, f)
	}
	return files, nil
}

// LineRange is the lines of a file from First to Last.
type LineRange struct{ First, Last int }

// ChangedLines returns the lines of a file that differ between two commits, with the three lines
// around each, as they are numbered in the second one.
func (r *commits) ChangedLines(ctx context.Context, from, to, file string) ([]LineRange, error) {
	var diff bytes.Buffer
	if err := r.Diff(ctx, &diff, from, to, DiffOptions{Only: []string{file}}); err != nil {
		return nil, err
	}
	return changedLines(diff.String()), nil
}

// changedLines returns the new lines that the hunks of a diff cover. The lines of a hunk are counted,
// so that none of them can pass for the beginning of another.
func changedLines(diff string) (ranges []LineRange) {
	old, added := 0, 0
	for line := range strings.Lines(diff) {
		switch {
		case old <= 0 && added <= 0:
			var first, ignored int
			if n, _ := fmt.Sscanf(line, "@@ -%d,%d +%d,%d @@", &ignored, &old, &first, &added); n != 4 {
				old, added, first = hunkOfOneLine(line)
			}
			if added > 0 {
				ranges = append(ranges, LineRange{first, first + added - 1})
			}
		case line[0] == '-':
			old--
		case line[0] == '+':
			added--
		case line[0] == ' ':
			old, added = old-1, added-1
		}
	}
	return ranges
}

// hunkOfOneLine reads the beginning of a hunk in which a count of one line is left out.
func hunkOfOneLine(line string) (old, added, first int) {
	var ignored int
	if n, _ := fmt.Sscanf(line, "@@ -%d +%d,%d @@", &ignored, &first, &added); n == 3 {
		return 1, added, first
	}
	if n, _ := fmt.Sscanf(line, "@@ -%d,%d +%d @@", &ignored, &old, &first); n == 3 {
		return old, 1, first
	}
	if n, _ := fmt.Sscanf(line, "@@ -%d +%d @@", &ignored, &first); n == 2 {
		return 1, 1, first
	}
	return 0, 0, 0
}
