package workspace

import (
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
