package portfolio

import (
	"bytes"
	"encoding/csv"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"

	"signalbox/internal/durable"
	"signalbox/internal/portfolio/importer"
)

// leftOutFile lists the records that imports left out. Every answer warns of them until their lines
// are removed: only the user knows whether a row was added for a record.
const leftOutFile = "left-out.csv"

// LeftOut is a record that moved shares and was left out of an import.
type LeftOut struct {
	File   string // as imported, without its folder
	Line   int
	Why    string
	Record string
}

func leftOutColumns() []string { return []string{"file", "line", "why", "record"} }

func (d *Data) loadLeftOut(dir string) *Problem {
	data, problem := readOptional(dir, leftOutFile)
	if problem != nil {
		return problem
	}
	r := csv.NewReader(bytes.NewReader(data))
	r.FieldsPerRecord = len(leftOutColumns())
	records, err := r.ReadAll()
	if err != nil {
		return problemf(MalformedFile, "remove whole lines only", "%s: %v", leftOutFile, err)
	}
	for i, record := range records {
		if i == 0 && slices.Equal(record, leftOutColumns()) {
			continue
		}
		line, err := strconv.Atoi(record[1])
		if err != nil {
			return problemf(MalformedFile, "remove whole lines only",
				"%s:%d: %q is not a line number", leftOutFile, i+1, record[1])
		}
		d.LeftOut = append(d.LeftOut, LeftOut{record[0], line, record[2], record[3]})
	}
	return nil
}

// saveLeftOut adds the skipped records of an import that moved shares to the list.
func (d *Desk) saveLeftOut(known []LeftOut, file string, skipped []importer.Skipped) error {
	list := slices.Clone(known)
	// how often a record is listed: exports overlap, and a file may have equal records
	listed := make(map[string]int)
	for _, l := range known {
		listed[l.Record]++
	}
	for _, s := range skipped {
		if !s.Shares {
			continue
		}
		if listed[s.Text] > 0 {
			listed[s.Text]--
			continue
		}
		list = append(list, LeftOut{filepath.Base(file), s.Line, s.Why, s.Text})
	}
	if len(list) == len(known) {
		return nil
	}
	var text bytes.Buffer
	w := csv.NewWriter(&text)
	records := [][]string{leftOutColumns()}
	for _, l := range list {
		records = append(records, []string{l.File, strconv.Itoa(l.Line), l.Why, l.Record})
	}
	if err := w.WriteAll(records); err != nil {
		return fmt.Errorf("format %s: %w", leftOutFile, err)
	}
	return durable.Replace(filepath.Join(d.dir, leftOutFile), text.Bytes(), 0o600)
}
