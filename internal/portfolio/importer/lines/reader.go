// Package lines reads CSV text fast. [Unmark], [FromWindows] and [Ends] make UTF-8 with LF line ends of a file, which is
// what the rest expects. [Reader] gives the records, places and errors that encoding/csv gives; [Parts] and [InOrder]
// let a large text be read on several cores; [Number], [IsDate] and [IsTicker] know fields in their plainest form. It
// knows nothing of transactions.
package lines

import (
	"bytes"
	"encoding/csv"
	"errors"
	"io"
	"strings"
)

// windowBytes is how much text becomes a string at once: fields are parts of it, so a record costs no memory of its own.
const windowBytes = 64 << 10

// Reader reads records. It splits lines itself until the first quote, and leaves the text from there on to encoding/csv.
type Reader struct {
	text   []byte
	at     int // where the window ends
	first  int // the line that the text begins with
	line   int // of the record
	window string
	size   int // of a window, about
	fields []string
	starts []int // of the fields in their line
	quoted *csv.Reader
	before int // lines before those that quoted counts
}

// NewReader reads a text whose first line has the given number. The text must not change while it is read.
func NewReader(text []byte, line int) *Reader {
	return &Reader{text: text, first: line, line: line - 1, size: windowBytes}
}

// Read returns the next record that is not an empty line. The list is used again for the next one, its strings are not.
// Records may have any number of fields. The error is io.EOF or a *csv.ParseError, after which there is no more.
func (r *Reader) Read() ([]string, error) {
	for r.quoted == nil {
		if r.window == "" && !r.fill() {
			return nil, io.EOF
		}
		r.line++
		switch n, ok := r.split(); {
		case !ok:
			r.before = r.line - 1
			r.quoted = csv.NewReader(bytes.NewReader(r.text[r.at-len(r.window):]))
			r.quoted.FieldsPerRecord = -1
			r.quoted.ReuseRecord = true
		case n > 0:
			return r.fields, nil
		}
	}
	fields, err := r.quoted.Read()
	if pe, ok := errors.AsType[*csv.ParseError](err); ok {
		pe.StartLine += r.before
		pe.Line += r.before
	}
	return fields, err
}

// fill makes a window of whole lines.
func (r *Reader) fill() bool {
	rest := r.text[r.at:]
	if len(rest) > r.size {
		end := bytes.LastIndexByte(rest[:r.size], '\n')
		if end < 0 {
			end = bytes.IndexByte(rest, '\n')
		}
		if end >= 0 {
			rest = rest[:end+1]
		}
	}
	r.window, r.at = string(rest), r.at+len(rest)
	return r.window != ""
}

// split takes a line from the window and returns its length, or leaves it if it has a quote.
func (r *Reader) split() (length int, ok bool) {
	r.fields, r.starts = r.fields[:0], r.starts[:0]
	w, start := r.window, 0
	for i := range len(w) {
		switch w[i] {
		case ',':
			r.fields, r.starts = append(r.fields, w[start:i]), append(r.starts, start)
			start = i + 1
		case '"':
			return 0, false
		case '\n':
			r.fields, r.starts = append(r.fields, w[start:i]), append(r.starts, start)
			r.window = w[i+1:]
			return i, true
		}
	}
	r.fields, r.starts = append(r.fields, w[start:]), append(r.starts, start)
	r.window = ""
	return len(w), true
}

// FieldPos returns the line and the column, in bytes from 1, where a field of the last record begins.
func (r *Reader) FieldPos(field int) (line, column int) {
	if r.quoted == nil {
		return r.line, r.starts[field] + 1
	}
	line, column = r.quoted.FieldPos(field)
	return r.before + line, column
}

// Rest returns the text after the last record, and the number of its first line.
func (r *Reader) Rest() (text []byte, line int) {
	at := r.at - len(r.window)
	if r.quoted != nil {
		at += int(r.quoted.InputOffset())
	}
	return r.text[at:], r.first + bytes.Count(r.text[:at], []byte("\n"))
}

// Words keeps one copy of each of a text's frequent words, so that a record that is kept does not keep its window.
type Words map[string]string

// Keep returns a copy of s that holds nothing else.
func (w Words) Keep(s string) string {
	const most = 1 << 12 // words that are all different are only copied
	if s == "" {
		return ""
	}
	if known, ok := w[s]; ok {
		return known
	}
	s = strings.Clone(s)
	if len(w) < most {
		w[s] = s
	}
	return s
}
