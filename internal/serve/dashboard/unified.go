package dashboard

import (
	"bufio"
	"io"
	"strconv"
	"strings"
	"unicode/utf8"

	"signalbox/internal/lazy"
)

// unifiedDiff is as much of a diff as a page shows.
type unifiedDiff struct {
	Files []diffFile
	// MoreFiles is the number of files that are left out.
	MoreFiles int
	// Notes are lines that belong to no file.
	Notes []string
	// Incomplete means that something is left out or cut.
	Incomplete bool
}

// diffFile is one file of a unified diff.
type diffFile struct {
	Name           string // the new name, or the old one of a deleted file
	Note           string // such as "new" or "renamed from a.go"
	Added, Removed int
	Lines          []diffLine
	MoreLines      int // the number of lines that are left out
	Binary         bool
}

// diffLine is one line. Kind is add, del, same or hunk, which are classes of the style sheet. Old
// and New are its numbers, 0 if it has none. More is the number of bytes that are cut off.
type diffLine struct {
	Kind     string
	Old, New int
	Text     string
	More     int
}

// Limits of what a page shows of a diff.
const (
	maxDiffFiles = 300
	maxDiffLines = 20_000
	maxDiffBytes = 1 << 20
	maxLineBytes = 2_000
	// maxBlanks is the longest run of blanks that is shown as it is. After a longer one, the rest
	// of the line would be easy to miss.
	maxBlanks = 80
)

// piece is a part of a line: text, or the number of blanks in its place.
type piece struct {
	Text   string
	Blanks int
}

// Pieces returns the text of a line in pieces, with long runs of blanks counted.
func (l diffLine) Pieces() (pieces []piece) {
	rest := l.Text
	start, blanks := 0, 0 // of the current run
	cut := func(end int) {
		if blanks > maxBlanks {
			pieces = append(pieces, piece{Text: l.Text[len(l.Text)-len(rest) : start]},
				piece{Blanks: blanks})
			rest = l.Text[end:]
		}
		blanks = 0
	}
	for i, r := range l.Text {
		if r != ' ' && r != '\t' { // other characters that look like nothing are escaped
			cut(i)
			continue
		}
		if blanks == 0 {
			start = i
		}
		blanks++
	}
	cut(len(l.Text))
	return append(pieces, piece{Text: rest})
}

// diffParser reads a unified diff line by line.
type diffParser struct {
	diff unifiedDiff
	// file is the current one, nil before the first. It may be one that is left out.
	file         *diffFile
	at           position
	lines, bytes int // that are kept
	full         bool
}

// parseDiff reads a unified diff of git. It reads all of it, and keeps as much as a page shows.
func parseDiff(r io.Reader) (unifiedDiff, error) {
	lines := bufio.NewReader(r)
	var p diffParser
	for {
		line, more, err := readLine(lines)
		if err == io.EOF && line == "" {
			return p.diff, nil
		}
		if err != nil && err != io.EOF {
			return p.diff, err
		}
		p.add(line, more)
	}
}

// add adds a line that lost more bytes at its end.
func (p *diffParser) add(line string, more int) {
	if more > 0 {
		p.diff.Incomplete = true
	}
	if !p.at.inHunk() {
		if more > 0 && !strings.HasPrefix(line, "@@ ") {
			line += "…"
		}
		if strings.HasPrefix(line, "diff --git ") {
			p.open(nameOf(line))
			return
		}
		if !headers().MatchString(line) {
			if line != "" && p.keep(line) {
				p.diff.Notes = append(p.diff.Notes, line)
			}
			return
		}
	}
	if p.file == nil {
		return
	}
	shown, ok := p.file.add(line, &p.at)
	if !ok {
		return
	}
	if !p.keep(shown.Text) {
		p.file.MoreLines++
		return
	}
	shown.More = more
	p.file.Lines = append(p.file.Lines, shown)
}

// open starts a file.
func (p *diffParser) open(name string) {
	p.at = position{}
	if p.full || len(p.diff.Files) == maxDiffFiles {
		p.full, p.diff.Incomplete = true, true
		p.diff.MoreFiles++
		p.file = &diffFile{}
		return
	}
	p.diff.Files = append(p.diff.Files, diffFile{Name: name})
	p.file = &p.diff.Files[len(p.diff.Files)-1]
}

// keep reports whether there is room for a line. After the first for which there is none, there is
// none for any.
func (p *diffParser) keep(text string) bool {
	p.lines, p.bytes = p.lines+1, p.bytes+len(text)
	if p.lines > maxDiffLines || p.bytes > maxDiffBytes {
		p.full = true
	}
	if p.full {
		p.diff.Incomplete = true
	}
	return !p.full
}

// headers matches the lines outside of hunks that describe a file.
var headers = lazy.Regexp(
	`^(index |--- |\+\+\+ |@@ |\\|old mode |new mode |new file |deleted file |similarity index |dissimilarity index |rename (from|to) |copy (from|to) |Binary files |GIT binary patch)`)

// position is where in a hunk the parser is: the next line numbers, and how many lines of each side
// are left.
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
	if parts := hunkNumbers().FindStringSubmatch(line); parts != nil {
		*p = position{old: number(parts[1]), oldLeft: count(parts[2]), new: number(parts[3]),
			newLeft: count(parts[4])}
		return diffLine{Kind: "hunk", Text: line}, true
	}
	switch {
	case strings.HasPrefix(line, "new file"):
		f.Note = "new"
		if mode := strings.TrimPrefix(line, "new file mode "); mode != "100644" {
			f.Note = "new, mode " + mode // an executable, a link or a submodule
		}
	case strings.HasPrefix(line, "deleted file"):
		f.Note = "deleted"
	case strings.HasPrefix(line, "rename from "):
		f.Note = "renamed from " + strings.TrimPrefix(line, "rename from ")
	case strings.HasPrefix(line, "copy from "):
		f.Note = "copied from " + strings.TrimPrefix(line, "copy from ")
	case strings.HasPrefix(line, "old mode "), strings.HasPrefix(line, "new mode "):
		f.Note = strings.TrimSpace(f.Note + " " + line)
	case strings.HasPrefix(line, "Binary files "), strings.HasPrefix(line, "GIT binary patch"):
		f.Binary = true
		if _, sizes, described := strings.Cut(line, " differ: "); described {
			f.Note = strings.TrimPrefix(f.Note+"; "+sizes, "; ")
		}
	case strings.HasPrefix(line, "+++ b/"):
		f.Name = strings.TrimSuffix(strings.TrimPrefix(line, "+++ b/"), "\t")
	}
	return diffLine{}, false
}

var hunkNumbers = lazy.Regexp(`^@@ -(\d+)(?:,(\d+))? \+(\d+)(?:,(\d+))? @@`)

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

// readLine returns a line without its end, cut to a bounded length, and the number of bytes that
// are cut off.
func readLine(r *bufio.Reader) (line string, more int, err error) {
	var kept []byte
	for {
		part, err := r.ReadSlice('\n')
		text := part
		if err == nil {
			text = part[:len(part)-1]
		}
		room := min(maxLineBytes-len(kept), len(text))
		kept, more = append(kept, text[:room]...), more+len(text)-room
		if err == bufio.ErrBufferFull {
			continue
		}
		if more > 0 {
			whole := wholeRunes(kept)
			kept, more = kept[:whole], more+len(kept)-whole
		}
		return string(kept), more, err
	}
}

// wholeRunes returns the length of b without a rune at its end that is cut.
func wholeRunes(b []byte) int {
	for i := len(b) - 1; i >= max(0, len(b)-utf8.UTFMax); i-- {
		if utf8.RuneStart(b[i]) {
			if utf8.FullRune(b[i:]) {
				break
			}
			return i
		}
	}
	return len(b)
}
