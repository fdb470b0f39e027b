package dashboard

import (
	"bufio"
	"io"
	"regexp"
	"strconv"
	"strings"
)

// diffFile is one file of a unified diff.
type diffFile struct {
	Name               string // the new name, or the old one of a deleted file
	Note               string // such as "new file" or "renamed from a.go"
	Added, Removed     int
	Lines              []diffLine
	Binary, Incomplete bool
}

// diffLine is one line. Kind is add, del, same or hunk, which are classes of the style sheet. Old and New are its numbers, 0 if it has none.
type diffLine struct {
	Kind     string
	Old, New int
	Text     string
}

// Limits of what a page shows of a diff.
const (
	maxDiffLines = 20_000
	maxLineBytes = 2_000
)

// parseDiff reads a unified diff of git. It reads all of it, and keeps as much as a page shows; more reports whether that is not all.
func parseDiff(r io.Reader) (files []diffFile, more bool, err error) {
	lines := bufio.NewReader(r)
	var file *diffFile
	var p position
	kept := 0
	for {
		line, readErr := readLine(lines)
		if readErr == io.EOF && line == "" {
			return files, more, nil
		}
		if readErr != nil && readErr != io.EOF {
			return files, more, readErr
		}
		if strings.HasPrefix(line, "diff --git ") && !p.inHunk() {
			files = append(files, diffFile{Name: nameOf(line)})
			file = &files[len(files)-1]
			p = position{}
			continue
		}
		if file == nil {
			continue
		}
		shown, ok := file.add(line, &p)
		if !ok {
			continue
		}
		if kept++; kept > maxDiffLines {
			more, file.Incomplete = true, true
			continue
		}
		file.Lines = append(file.Lines, shown)
	}
}

// position is where in a hunk the parser is: the next line numbers, and how many lines of each side are left.
type position struct {
	old, new         int
	oldLeft, newLeft int
}

func (p *position) inHunk() bool { return p.oldLeft > 0 || p.newLeft > 0 }

// add interprets a line of a file. It returns the line to show, if it is one.
func (f *diffFile) add(line string, p *position) (diffLine, bool) {
	if p.inHunk() {
		shown := diffLine{Text: line}
		if line != "" {
			shown.Text = line[1:]
		}
		switch {
		case strings.HasPrefix(line, "+"):
			shown.Kind, shown.New = "add", p.new
			p.new, p.newLeft, f.Added = p.new+1, p.newLeft-1, f.Added+1
		case strings.HasPrefix(line, "-"):
			shown.Kind, shown.Old = "del", p.old
			p.old, p.oldLeft, f.Removed = p.old+1, p.oldLeft-1, f.Removed+1
		case strings.HasPrefix(line, `\`):
			return diffLine{}, false // no newline at the end of the file
		default:
			shown.Kind, shown.Old, shown.New = "same", p.old, p.new
			p.old, p.new, p.oldLeft, p.newLeft = p.old+1, p.new+1, p.oldLeft-1, p.newLeft-1
		}
		return shown, true
	}
	if parts := hunkNumbers.FindStringSubmatch(line); parts != nil {
		*p = position{old: number(parts[1]), oldLeft: count(parts[2]), new: number(parts[3]), newLeft: count(parts[4])}
		return diffLine{Kind: "hunk", Text: line}, true
	}
	switch {
	case strings.HasPrefix(line, "new file"):
		f.Note = "new"
	case strings.HasPrefix(line, "deleted file"):
		f.Note = "deleted"
	case strings.HasPrefix(line, "rename from "):
		f.Note = "renamed from " + strings.TrimPrefix(line, "rename from ")
	case strings.HasPrefix(line, "old mode "), strings.HasPrefix(line, "new mode "):
		f.Note = strings.TrimSpace(f.Note + " " + line)
	case strings.HasPrefix(line, "Binary files "), strings.HasPrefix(line, "GIT binary patch"):
		f.Binary = true
	case strings.HasPrefix(line, "+++ b/"):
		f.Name = strings.TrimSuffix(strings.TrimPrefix(line, "+++ b/"), "\t")
	}
	return diffLine{}, false
}

var hunkNumbers = regexp.MustCompile(`^@@ -(\d+)(?:,(\d+))? \+(\d+)(?:,(\d+))? @@`)

func number(s string) int {
	n, _ := strconv.Atoi(s)
	return n
}

// count returns the number of lines in the header of a hunk; none means 1.
func count(s string) int {
	if s == "" {
		return 1
	}
	return number(s)
}

// nameOf returns the new name in the first line of a file's diff, as far as it is unambiguous.
func nameOf(line string) string {
	if i := strings.LastIndex(line, " b/"); i >= 0 {
		return line[i+3:]
	}
	return strings.TrimPrefix(line, "diff --git ")
}

// readLine returns a line without its end, cut to a bounded length.
func readLine(r *bufio.Reader) (string, error) {
	var line []byte
	for {
		part, err := r.ReadSlice('\n')
		if room := maxLineBytes - len(line); room > 0 {
			line = append(line, part[:min(room, len(part))]...)
		}
		if err != bufio.ErrBufferFull {
			return strings.TrimSuffix(string(line), "\n"), err
		}
	}
}
