package importer

import (
	"bytes"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// maxBytes bounds a file. A million rows of the own CSV are about 60 MB.
const maxBytes = 256 << 20

// headerWithin is how many records may stand before a CSV file's header.
const headerWithin = 25

const known = "expected signalbox's own columns (date,account,action,ticker,quantity,price,fees,currency,lot_id), " +
	"a Schwab, Fidelity or Robinhood CSV export, an Interactive Brokers Flex query in XML, or OFX/QFX"

// Read understands one file of transactions. The name is only for messages and [Source]; a nil opts means the zero
// [Options]. The error is a *[FaultsError].
func Read(name string, data []byte, opts *Options) (*Import, error) {
	return newIntake(name).read(data, opts)
}

// ReadBatches is like [Read], but passes the rows to take in batches, in order, so that the rows of a large file are never
// all in memory. The rows have no IDs. The slice is reused after take returns. If ReadBatches returns an error, the caller
// must discard the rows that it took.
func ReadBatches(name string, data []byte, opts *Options, take func([]Row)) (*Import, error) {
	in := newIntake(name)
	in.take = take
	imp, err := in.read(data, opts)
	if err != nil {
		return nil, err
	}
	take(imp.Rows)
	imp.Rows = nil
	return imp, nil
}

func (in *intake) read(data []byte, opts *Options) (*Import, error) {
	if opts != nil {
		in.opts = *opts
	}
	text, note, err := prepare(data)
	if err != nil {
		in.add(placeOf(err), "the file %v", err)
		return nil, in.err()
	}
	if note != "" {
		in.note("%s", note)
	}
	start := bytes.TrimSpace(text[:min(len(text), 2048)])
	switch {
	case bytes.Contains(start, []byte("OFXHEADER")) || bytes.HasPrefix(bytes.ToUpper(start), []byte("<OFX>")):
		in.imp.Format = "ofx"
		in.readOFX(text)
	case bytes.HasPrefix(start, []byte("<")):
		in.imp.Format = "flex"
		in.readFlex(text)
	default:
		in.readCSV(text)
	}
	in.finish()
	if err := in.err(); err != nil {
		return nil, err
	}
	return in.imp, nil
}

func prepare(data []byte) (text []byte, note string, err error) {
	if len(data) > maxBytes {
		return nil, "", fmt.Errorf("is larger than %d MB: split it", maxBytes>>20)
	}
	if text, note, err = decodeText(data); err != nil {
		return nil, "", err
	}
	if len(bytes.TrimSpace(text)) == 0 {
		return nil, "", fmt.Errorf("is empty, %s", known)
	}
	return text, note, nil
}

// intake is one file on its way in.
type intake struct {
	faults
	opts Options
	imp  *Import
	// refs are the brokers' own references, by row.
	refs map[int]string
	// legs are the halves of splits, which may stand apart.
	legs []leg
	// fileAccount is an account named once for the whole file.
	fileAccount string
	shorts      int
	// take receives the rows of a file in the own columns in batches; nil means they stay in imp.
	take func([]Row)
}

func newIntake(name string) *intake {
	return &intake{faults: faults{file: name}, imp: &Import{Rows: []Row{}}}
}

func (in *intake) note(format string, args ...any) {
	in.imp.Notes = append(in.imp.Notes, fmt.Sprintf(format, args...))
}

func (in *intake) skip(line int, text, why string, shares bool) {
	in.imp.Skipped = append(in.imp.Skipped, Skipped{Line: line, Text: oneLine(text), Why: why, Shares: shares})
}

func (in *intake) row(line int, ref string, r Row) {
	r.Source = Source{File: in.file, Line: line}
	if ref != "" {
		if in.refs == nil {
			in.refs = make(map[int]string)
		}
		in.refs[len(in.imp.Rows)] = ref
	}
	in.imp.Rows = append(in.imp.Rows, r)
}

// readCSV finds the header and hands the table to the format it belongs to.
func (in *intake) readCSV(text []byte) {
	t := newTable(text)
	var preamble []string
	first := place{1, 1}
	for n := 0; n < headerWithin && t.next(&in.faults); n++ {
		if n == 0 {
			first = t.at()
		}
		t.head = header(t.fields)
		switch {
		case hasAll(t.head, "date", "account", "action", "ticker"):
			in.imp.Format = "signalbox"
			in.readOwn(t)
		case hasAll(t.head, "date", "action", "symbol", "quantity", "price", "fees & comm", "amount"):
			in.imp.Format = "schwab"
			in.readSchwab(t, preamble)
		case hasAll(t.head, "run date", "action", "symbol", "quantity", "price", "amount"):
			in.imp.Format = "fidelity"
			in.readFidelity(t)
		case hasAll(t.head, "activity date", "instrument", "description", "trans code", "quantity", "price", "amount"):
			in.imp.Format = "robinhood"
			in.readRobinhood(t)
		case hasAll(t.head, "date", "ticker", "close"):
			in.add(t.at(), "the file has prices, not transactions: it belongs in the folder prices")
		case hasAll(t.head, "statement", "header", "field name"):
			in.add(t.at(), "the file is an Interactive Brokers activity statement: export a Flex query in XML instead")
		default:
			preamble = append(preamble, strings.Join(t.fields, ","))
			continue
		}
		return
	}
	in.unrecognised(text, first)
}

// finish does what needs the whole file: splits in two halves, accounts, IDs.
func (in *intake) finish() {
	in.joinLegs()
	in.inOrder()
	in.nameAccounts()
	if in.shorts > 0 {
		in.note("left out as short positions or written options: %d; no lots of them are kept, and their premiums change no basis", in.shorts)
	}
	in.identify()
}

// inOrder puts the rows of a broker's CSV from old to new. Most brokers write the newest first, and for two trades of
// one day the file's order is all that tells which came first.
func (in *intake) inOrder() {
	switch in.imp.Format {
	case "schwab", "fidelity", "robinhood":
	default:
		return
	}
	rows := in.imp.Rows
	slices.SortStableFunc(rows, func(a, b Row) int { return a.Source.Line - b.Source.Line })
	falls := 0
	for i := 1; i < len(rows); i++ {
		falls += strings.Compare(rows[i-1].Date, rows[i].Date)
	}
	if falls > 0 {
		slices.Reverse(rows)
	}
}

// identify gives every row its ID.
func (in *intake) identify() {
	if in.take != nil {
		return
	}
	print, refs := make(fingerprints, len(in.imp.Rows)), make(map[string]fingerprint)
	for i := range in.imp.Rows {
		r := &in.imp.Rows[i]
		// Each row counts, also one that has its own ID, so that Format can tell which IDs it must write.
		content := print.next(r)
		if r.ID != "" {
			continue
		}
		r.ID = content
		if in.refs[i] == "" {
			continue
		}
		r.ID = reference(in.imp.Format, r.Account, in.refs[i])
		// A reference that comes again with another content is no reference: both rows stay.
		sum := contentSum(r)
		if first, ok := refs[r.ID]; ok && first != sum {
			r.ID += "-" + content
		} else {
			refs[r.ID] = sum
		}
	}
}

// nameAccounts turns the broker's account names into the portfolio's ids.
func (in *intake) nameAccounts() {
	if in.imp.Format == "signalbox" {
		return
	}
	names := make(map[string]int)
	for i := range in.imp.Rows {
		r := &in.imp.Rows[i]
		r.Account = strings.Join(strings.Fields(r.Account), " ")
		if _, ok := names[r.Account]; !ok {
			names[r.Account] = r.Source.Line
		}
	}
	if in.opts.Account != "" && len(names) > 1 {
		list := slices.Sorted(maps.Keys(names))
		for i := range list {
			list[i] = fmt.Sprintf("%q", list[i])
		}
		in.add(place{1, 1}, "the file names %d accounts (%s): map each of them instead of giving one account",
			len(list), strings.Join(list, ", "))
		return
	}
	if line, ok := names[""]; ok && in.opts.Account == "" {
		in.add(place{line, 1}, "the file does not say which account it is about: give the account's id")
		return
	}
	for i := range in.imp.Rows {
		r := &in.imp.Rows[i]
		if in.opts.Account != "" {
			r.Account = in.opts.Account
		} else if id, ok := in.opts.Accounts[r.Account]; ok {
			r.Account = id
		}
	}
}
