package portfolio

import (
	"bytes"
	"encoding/csv"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"signalbox/internal/durable"
	"signalbox/internal/lazy"
	"signalbox/internal/portfolio/answer"
	"signalbox/internal/portfolio/importer"
	"signalbox/internal/portfolio/tax"
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

// namedTickers is the records that moved shares and are not among the transactions, and the tickers
// that they name.
type namedTickers struct {
	leftOut, notUnderstood []answer.SkippedRecord
	unknown                map[string]bool
}

// namedTickers finds the tickers of the portfolio in the records that are missing: what a spin-off,
// an exchange or an assignment did to their lots is not known. A word of a description that looks
// like a ticker counts too, because no answer is better than a wrong number.
func (d *Data) namedTickers() namedTickers {
	named := namedTickers{unknown: make(map[string]bool)}
	var known map[string]bool
	tickers := func(why, record string) []string {
		if known == nil {
			known = make(map[string]bool)
			for i := range d.transactions {
				known[d.transactions[i].Ticker], known[d.transactions[i].NewTicker] = true, true
			}
		}
		found := tickersIn(why, record, known)
		for _, ticker := range found {
			named.unknown[ticker] = true
		}
		return found
	}
	for _, l := range d.LeftOut {
		named.leftOut = append(named.leftOut, answer.SkippedRecord{File: l.File, Line: l.Line,
			Why: l.Why, Tickers: tickers(l.Why, l.Record)})
	}
	for _, source := range d.Sources {
		for _, s := range source.Skipped {
			if s.Shares {
				named.notUnderstood = append(named.notUnderstood,
					answer.SkippedRecord{File: source.Name, Line: s.Line, Why: s.Why,
						Tickers: tickers(s.Why, s.Text)})
			}
		}
	}
	return named
}

var (
	optionInRecord = lazy.Regexp(`(?i)\b(call|put)\b|[0-9] [CP]\b|[0-9]{6}[CP][0-9]`)
	assigned       = lazy.Regexp(`(?i)assign|OASGN`)
	optionWord     = lazy.Regexp(`^([A-Z.]{1,6})[0-9]{6}[CP][0-9.]+$`)
)

// tickersIn returns the known tickers that a record names, sorted. A written option does not change
// the lots of its shares until it is assigned.
func tickersIn(why, record string, known map[string]bool) []string {
	if why == importer.WhyShort && optionInRecord().MatchString(record) &&
		!assigned().MatchString(record) {
		return nil
	}
	found := make(map[string]bool)
	for _, word := range strings.FieldsFunc(record, func(r rune) bool {
		return !(r >= 'A' && r <= 'Z' || r >= 'a' && r <= 'z' || r >= '0' && r <= '9' ||
			strings.ContainsRune("./-", r))
	}) {
		word = strings.ReplaceAll(strings.Trim(word, "./-"), "/", ".")
		if m := optionWord().FindStringSubmatch(word); m != nil {
			found[m[1]] = known[m[1]]
		}
		if symbol, option := tax.OptionSymbol(word); option {
			word = symbol
		}
		found[word] = known[word]
	}
	var list []string
	for word, is := range found {
		if is {
			list = append(list, word)
		}
	}
	slices.Sort(list)
	return list
}
