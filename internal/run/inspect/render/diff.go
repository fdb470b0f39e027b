package render

import (
	"bytes"
	"io"
	"strings"

	"signalbox/internal/show"
	"signalbox/internal/text"
)

// Diff prints a diff of git as it arrives, in colour. What agents wrote into files is escaped,
// which is why git does not add the colours.
type Diff struct {
	out   io.Writer
	paint show.Palette
	line  []byte
	long  bool // the rest of the line is dropped
	some  bool // something was written
}

// NewDiff returns a Diff that prints to w.
func NewDiff(w io.Writer, paint show.Palette) *Diff { return &Diff{out: w, paint: paint} }

// Write takes the next piece of the diff.
func (d *Diff) Write(p []byte) (int, error) {
	d.some = d.some || len(p) > 0
	for line := range bytes.Lines(p) {
		if room := maxLine - len(d.line); len(line) > room {
			d.line, d.long = append(d.line, line[:max(room, 0)]...), true
		} else {
			d.line = append(d.line, line...)
		}
		if bytes.HasSuffix(line, []byte("\n")) {
			if err := d.Close(); err != nil {
				return 0, err
			}
		}
	}
	return len(p), nil
}

// Empty reports whether nothing was written.
func (d *Diff) Empty() bool { return !d.some }

// Close prints an incomplete last line.
func (d *Diff) Close() error {
	if len(d.line) == 0 {
		return nil
	}
	line := text.PrintableLines(strings.TrimRight(string(d.line), "\n"))
	if d.long {
		line += "…"
	}
	d.line, d.long = d.line[:0], false
	_, err := io.WriteString(d.out, d.style(line)+"\n")
	return err
}

func (d *Diff) style(line string) string {
	switch {
	case line == "":
		return line
	case strings.HasPrefix(line, "+++ "), strings.HasPrefix(line, "--- "),
		strings.HasPrefix(line, "diff "), strings.HasPrefix(line, "index "):
		return d.paint.Strong(line)
	case line[0] == '+':
		return d.paint.Good(line)
	case line[0] == '-':
		return d.paint.Bad(line)
	case strings.HasPrefix(line, "@@"):
		return d.paint.Busy(line)
	}
	return line
}
