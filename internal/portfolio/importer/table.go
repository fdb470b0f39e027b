package importer

import (
	"bytes"
	"encoding/csv"
	"errors"
	"io"
	"slices"
	"strings"

	"github.com/govalues/decimal"
)

// table reads a CSV file record by record and remembers where each field stood.
type table struct {
	csv    *csv.Reader
	head   map[string]int
	fields []string
	blank  bool
}

// newTable reads records of any width: footers and preambles have others. Quotes are strict: a lenient reader takes
// everything after a lost quote for one field, and the rows in it would be gone without a word.
func newTable(text []byte) *table {
	r := csv.NewReader(bytes.NewReader(text))
	r.FieldsPerRecord = -1
	r.ReuseRecord = true
	return &table{csv: r}
}

// next moves to the next record that is not empty. A broken quote is a fault and ends the table.
func (t *table) next(f *faults) bool {
	for {
		fields, err := t.csv.Read()
		if errors.Is(err, io.EOF) {
			return false
		}
		if err != nil {
			at := place{1, 1}
			if pe, ok := errors.AsType[*csv.ParseError](err); ok {
				at, err = place{pe.Line, pe.Column}, pe.Err
			}
			f.add(at, "this is not CSV: %v; write a quote inside a field twice; the rest of the file was not read", err)
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

// text is the record as one line, for people.
func (t *table) text() string { return oneLine(strings.Join(t.fields, ",")) }

// index finds the first of several names of a column.
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

// at is the place of a column's field, or of the record if it has none.
func (t *table) at(names ...string) place {
	i := t.index(names)
	if i < 0 || i >= len(t.fields) {
		i = 0
	}
	line, col := t.csv.FieldPos(i)
	return place{line, col}
}

// number reads a column; an empty field, or the dashes some brokers print for none, is zero and not present.
func (t *table) number(f *faults, names ...string) (n number) {
	s := t.get(names...)
	if s == "" || s == "-" || s == "--" || strings.EqualFold(s, "n/a") {
		return number{ok: true}
	}
	d, scale, err := parseNumber(s)
	if err != nil {
		f.add(t.at(names...), "%s: %q %v", t.name(names), s, err)
		return number{}
	}
	return number{Decimal: d, scale: scale, present: true, ok: true}
}

// name is how the file itself calls the column.
func (t *table) name(names []string) string {
	return names[max(0, slices.IndexFunc(names, func(n string) bool { return hasAll(t.head, n) }))]
}

// number is a field of a record. It is not ok if a fault was reported for it.
type number struct {
	decimal.Decimal
	scale       int
	present, ok bool
}

// header makes the lookup of a header record: lower case, without a trailing unit.
func header(fields []string) map[string]int {
	head := make(map[string]int, len(fields))
	for i, f := range fields {
		name := strings.ToLower(strings.TrimSpace(strings.TrimSuffix(strings.TrimSpace(f), "($)")))
		if _, ok := head[name]; !ok && name != "" {
			head[name] = i
		}
	}
	return head
}

func hasAll(head map[string]int, names ...string) bool {
	for _, n := range names {
		if _, ok := head[n]; !ok {
			return false
		}
	}
	return true
}
