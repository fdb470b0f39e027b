package text

import (
	"bytes"
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"

	"signalbox/internal/lazy"
)

// DiffScan is a writer that reads a unified diff and finds the lines with characters that a reader
// would not see. The zero value is ready to use. It keeps only as much as Notice needs, however
// large the diff is.
type DiffScan struct {
	line  []byte // the part of the current line that was not looked at yet
	inner bool   // the beginning of the line was looked at already
	skip  bool   // the rest of the line needs no look: it is counted, or it is not part of a file

	file             string
	old, new         int // the numbers of the next lines
	oldLeft, newLeft int // how many lines of the hunk are left
	at               string

	lines  int
	places []string
}

const (
	// maxPiece is how much of a line is kept in memory.
	maxPiece = 64 << 10
	// maxPlaces is how many lines a notice names, and maxPlaceName bounds the name of a file in it.
	maxPlaces    = 10
	maxPlaceName = 200
)

// Write takes the next piece of the diff. It never fails.
func (s *DiffScan) Write(p []byte) (int, error) {
	for part := range bytes.Lines(p) {
		s.line = append(s.line, part...)
		ended := part[len(part)-1] == '\n'
		if ended || len(s.line) >= maxPiece {
			s.look(ended)
		}
	}
	return len(p), nil
}

// Notice returns what to tell a reader of the diff, "" if nothing is hidden in it. It has no line
// ends, and the names in it are printable.
func (s *DiffScan) Notice() string {
	if len(s.line) > 0 {
		s.look(true)
	}
	if s.lines == 0 {
		return ""
	}
	places := strings.Join(s.places, ", ")
	if more := s.lines - len(s.places); more > 0 {
		places += fmt.Sprintf(" and %d more", more)
	}
	return fmt.Sprintf("This diff has %s with invisible characters, which can hide what the code does: "+
		"%s. signalbox shows them escaped; other programs may show nothing.",
		Count(s.lines, "line"), places)
}

// look examines the part of the current line that was read.
func (s *DiffScan) look(ended bool) {
	line := s.line
	if ended {
		line = bytes.TrimRight(line, "\r\n") // a carriage return at the end only ends the line
	} else if n := incomplete(line); n > 0 {
		line = line[:len(line)-n]
	}
	if !s.inner {
		s.begin(string(line[:min(len(line), maxPiece)]))
	}
	if !s.skip {
		s.find(line)
	}
	rest := copy(s.line, s.line[len(line):])
	if s.line, s.inner = s.line[:rest], true; ended {
		s.line, s.inner, s.skip = s.line[:0], false, false
	}
}

var hunkHeader = lazy.Regexp(`^@@ -(\d{1,9})(?:,(\d{1,9}))? \+(\d{1,9})(?:,(\d{1,9}))? @@`)

// begin finds out where in a file a line is.
func (s *DiffScan) begin(line string) {
	if s.oldLeft > 0 || s.newLeft > 0 {
		switch {
		case strings.HasPrefix(line, "+"):
			s.at = strconv.Itoa(s.new)
			s.new, s.newLeft = s.new+1, s.newLeft-1
		case strings.HasPrefix(line, "-"):
			s.at = strconv.Itoa(s.old) + " (removed)"
			s.old, s.oldLeft = s.old+1, s.oldLeft-1
		case strings.HasPrefix(line, `\`): // no newline at the end of the file
		default:
			s.at = strconv.Itoa(s.new)
			s.old, s.new, s.oldLeft, s.newLeft = s.old+1, s.new+1, s.oldLeft-1, s.newLeft-1
		}
		return
	}
	s.at = "its name"
	if parts := hunkHeader().FindStringSubmatch(line); parts != nil {
		count := func(s string) int {
			if s == "" {
				return 1
			}
			n, _ := strconv.Atoi(s)
			return n
		}
		s.old, s.oldLeft = count(parts[1]), count(parts[2])
		s.new, s.newLeft = count(parts[3]), count(parts[4])
		s.skip = true // what follows repeats a line above
		return
	}
	for _, header := range []string{"diff --git ", "--- a/", "+++ b/"} {
		if name, found := strings.CutPrefix(line, header); found {
			if i := strings.LastIndex(name, " b/"); header == "diff --git " && i >= 0 {
				name = name[i+len(" b/"):]
			}
			s.file = strings.TrimSuffix(name, "\t")
		}
	}
}

// find counts the line if there is something in it that would not be seen, once.
func (s *DiffScan) find(line []byte) {
	i := bytes.IndexFunc(line, IsUnsafe)
	if i < 0 {
		return
	}
	s.lines, s.skip = s.lines+1, true
	if len(s.places) < maxPlaces {
		r, _ := utf8.DecodeRune(line[i:])
		file := Shorten(Printable(s.file), maxPlaceName)
		s.places = append(s.places, fmt.Sprintf("%s:%s %U", file, s.at, r))
	}
}
