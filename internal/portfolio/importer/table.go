package importer

import (
	"bytes"
	"encoding/csv"
	"errors"
	"io"
	"slices"
	"strings"
)

// table reads a CSV file record by record and knows the position of each field.
type table struct {
	*faults
	csv    *csv.Reader
	head   map[string]int
	fields []string
	blank  bool
}

// newTable accepts records of any width, because footers and preambles are narrower than the table.
// Quotes are strict: a lenient reader takes everything after a missing quote for one field, and
// would lose the rows in it silently.
func newTable(text []byte, f *faults) *table {
	r := csv.NewReader(bytes.NewReader(text))
	r.FieldsPerRecord = -1
	r.ReuseRecord = true
	return &table{faults: f, csv: r}
}

// next moves to the next record that is not empty. A wrong quote is a fault and ends the table.
func (t *table) next() bool {
	for {
		fields, err := t.csv.Read()
		if errors.Is(err, io.EOF) {
			return false
		}
		if err != nil {
			at := position{1, 1}
			if pe, ok := errors.AsType[*csv.ParseError](err); ok {
				at, err = position{pe.Line, pe.Column}, pe.Err
			}
			t.addFault(at, "the CSV cannot be read: %v; write a quote inside a field twice; the rest of the file was not read", err)
			return false
		}
		t.fields, t.blank = fields, true
		for i := range fields {
			fields[i] = strings.TrimSpace(fields[i])
			t.blank = t.blank && fields[i] == ""
		}
		if !t.blank {
			return true
		}
	}
}

func (t *table) line() int {
	line, _ := t.csv.FieldPos(0)
	return line
}

// text returns the record on one line, for messages.
func (t *table) text() string { return recordText(strings.Join(t.fields, ",")) }

// index returns the index of the first of the named columns that the file has, or -1.
func (t *table) index(names []string) int {
	for _, n := range names {
		if i, ok := t.head[n]; ok {
			return i
		}
	}
	return -1
}

// get returns a column's field, or "" if the record is too short or has no such column.
func (t *table) get(names ...string) string {
	if i := t.index(names); i >= 0 && i < len(t.fields) {
		return t.fields[i]
	}
	return ""
}

// at returns the position of a column's field, or of the record if it has no such field.
func (t *table) at(names ...string) position {
	i := t.index(names)
	if i < 0 || i >= len(t.fields) {
		i = 0
	}
	line, col := t.csv.FieldPos(i)
	return position{line, col}
}

// number reads a column. An empty field, or the dashes that some brokers print instead, is zero and
// not present.
func (t *table) number(names ...string) number {
	s := t.get(names...)
	if s == "" || s == "-" || s == "--" || strings.EqualFold(s, "n/a") {
		return number{ok: true}
	}
	n, err := parseNumber(s)
	if err != nil {
		t.addFault(t.at(names...), "%s: %q %v", t.name(names), s, err)
	}
	return n
}

// name returns the first of the names that the file uses for a column.
func (t *table) name(names []string) string {
	return names[max(0, slices.IndexFunc(names,
		func(n string) bool { return hasColumns(t.head, n) }))]
}

// columnIndexes returns the index of each column of a header record, by its name in lower case
// without a trailing "($)".
func columnIndexes(fields []string) map[string]int {
	head := make(map[string]int, len(fields))
	for i, f := range fields {
		name := strings.ToLower(strings.TrimSpace(strings.TrimSuffix(strings.TrimSpace(f), "($)")))
		if _, ok := head[name]; !ok && name != "" {
			head[name] = i
		}
	}
	return head
}

func hasColumns(head map[string]int, names ...string) bool {
	for _, n := range names {
		if _, ok := head[n]; !ok {
			return false
		}
	}
	return true
}
