package importer

import (
	"bytes"
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"signalbox/internal/portfolio/tax"
)

// maxBytes bounds a file. A million rows of signalbox CSV are about 60 MB.
const maxBytes = 256 << 20

// maxPreamble is how many records of a CSV file are searched for the header, and maxHoldings if the
// file begins with a list of holdings.
const (
	maxPreamble = 25
	maxHoldings = 10_000
)

const expectedFormats = "expected signalbox CSV (date,account,action,ticker,quantity,price,fees,currency,lot_id), " +
	"a CSV export of Schwab, Fidelity, Robinhood, Vanguard, E*TRADE, Coinbase or Interactive Brokers, a Flex query in XML, or OFX/QFX"

// Read reads one file of transactions. The name is used only in messages and in [Source]. A nil
// opts means the zero [Options]. The error is a *[FaultsError].
func Read(name string, data []byte, opts *Options) (*Import, error) {
	return newInput(name).read(data, opts)
}

// ReadBatches is like [Read], but passes the rows to take in batches, in order, so that the rows of
// a large file are never all in memory. The rows have no IDs. The slice is reused after take
// returns. If ReadBatches returns an error, the caller must discard the rows that it took.
func ReadBatches(name string, data []byte, opts *Options, take func([]Row)) (*Import, error) {
	in := newInput(name)
	in.take = take
	imp, err := in.read(data, opts)
	if err != nil {
		return nil, err
	}
	take(imp.Rows)
	imp.Rows = nil
	return imp, nil
}

func (in *input) read(data []byte, opts *Options) (*Import, error) {
	if opts != nil {
		in.opts = *opts
	}
	text, note, err := decodeFile(data)
	if err != nil {
		in.addFault(positionOf(err), "the file %v", err)
		return nil, in.err()
	}
	if note != "" {
		in.note("%s", note)
	}
	start := bytes.TrimSpace(text[:min(len(text), 2048)])
	switch {
	case bytes.Contains(start, []byte("OFXHEADER")) ||
		bytes.HasPrefix(bytes.ToUpper(start), []byte("<OFX>")):
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

func decodeFile(data []byte) (text []byte, note string, err error) {
	if len(data) > maxBytes {
		return nil, "", fmt.Errorf("is larger than %d MB: split it", maxBytes>>20)
	}
	if text, note, err = decodeText(data); err != nil {
		return nil, "", err
	}
	if len(bytes.TrimSpace(text)) == 0 {
		return nil, "", fmt.Errorf("is empty, %s", expectedFormats)
	}
	return text, note, nil
}

// input is a file that is being read.
type input struct {
	faults
	opts Options
	imp  *Import
	// refs holds the references that brokers gave to rows, by the index of the row.
	refs map[int]string
	// legs holds the halves of splits, which may be apart in the file.
	legs []event
	// fileAccount is the account that the file names for all of its records.
	fileAccount string
	shorts      int
	// written are the records of written options.
	written []writtenOption
	// effective are the days of rows that were booked on the day before, by the index of the row.
	effective map[int]tax.Date
	// dollars are the accounts of a Flex query whose base currency is the dollar.
	dollars map[string]bool
	// sales are the executions of a Flex query that closed lots.
	sales []flexSale
	// take receives the rows of a signalbox CSV file in batches; nil means they stay in imp.
	take func([]Row)
}

func newInput(name string) *input {
	return &input{faults: faults{file: name}, imp: &Import{Rows: []Row{}}}
}

func (in *input) note(format string, args ...any) {
	in.imp.Notes = append(in.imp.Notes, fmt.Sprintf(format, args...))
}

func (in *input) skip(line int, text, why string, shares bool) {
	in.imp.Skipped = append(in.imp.Skipped, Skipped{Line: line, Text: recordText(text), Why: why,
		Shares: shares})
}

func (in *input) addRow(line int, ref string, r Row) {
	r.Source = Source{File: in.file, Line: line}
	if ref != "" {
		if in.refs == nil {
			in.refs = make(map[int]string)
		}
		in.refs[len(in.imp.Rows)] = ref
	}
	in.imp.Rows = append(in.imp.Rows, r)
}

// readCSV finds the header, and with it the format, and reads the records.
func (in *input) readCSV(text []byte) {
	t := newTable(text, &in.faults)
	var preamble []string
	first, limit := position{1, 1}, maxPreamble
	for n := 0; n < limit && t.next(); n++ {
		if n == 0 {
			first = t.at()
		}
		t.head = columnIndexes(t.fields)
		if isVanguardHoldings(t.head) {
			limit = maxHoldings
		}
		switch {
		case hasColumns(t.head, "date", "account", "action", "ticker"):
			in.imp.Format = "signalbox"
			in.readSignalboxCSV(t)
		case hasColumns(t.head, "date", "action", "symbol", "quantity", "price", "fees & comm",
			"amount"):
			in.imp.Format = "schwab"
			in.readSchwab(t, preamble)
		case hasColumns(t.head, "run date", "action", "symbol", "quantity", "price", "amount"):
			in.imp.Format = "fidelity"
			in.readFidelity(t)
		case hasColumns(t.head, "activity date", "instrument", "description", "trans code",
			"quantity", "price", "amount"):
			in.imp.Format = "robinhood"
			in.readRobinhood(t)
		case hasColumns(t.head, vanguardHead()...):
			in.imp.Format = "vanguard"
			in.readVanguard(t)
		case hasColumns(t.head, "transactiondate", "transactiontype", "symbol", "quantity",
			"amount", "price"):
			in.imp.Format = "etrade"
			in.readETrade(t, preamble, "transactiondate")
		case hasColumns(t.head, "activity/trade date", "activity type", "symbol", "quantity #",
			"price $", "amount $"):
			in.imp.Format = "etrade"
			in.readETrade(t, preamble, "activity/trade date")
		case hasColumns(t.head, coinbaseHead()...):
			in.imp.Format = "coinbase"
			in.readCoinbase(t)
		case hasColumns(t.head, "date", "ticker", "close"):
			in.addFault(t.at(), "the file has prices, not transactions: move it to the folder prices")
		case hasColumns(t.head, "statement", "header", "field name"):
			in.imp.Format = "ibkr"
			in.readActivity(t)
		default:
			preamble = append(preamble, strings.Join(t.fields, ","))
			continue
		}
		return
	}
	in.reportUnrecognised(text, first)
}

// finish does the work that needs all records of the file.
func (in *input) finish() {
	in.joinLegs()
	in.sortOldestFirst()
	premiums := in.findPremiums()
	in.mapAccounts()
	if in.shorts > 0 {
		in.note("%d records of short positions or written options were skipped: no lots are kept for them, and their premiums do not change any basis", in.shorts)
	}
	in.assignIDs()
	in.applyPremiums(premiums)
	for i, day := range in.effective {
		in.imp.Rows[i].Date = day
	}
}

// sortOldestFirst reverses the rows of a broker's CSV if they are newest first, as most brokers
// write them. Rows are not sorted by date, because only the order of the file shows which of two
// trades on one day came first.
func (in *input) sortOldestFirst() {
	switch in.imp.Format {
	case "schwab", "fidelity", "robinhood", "vanguard", "etrade":
	default:
		return
	}
	rows := in.imp.Rows
	slices.SortStableFunc(rows, func(a, b Row) int { return a.Source.Line - b.Source.Line })
	falls := 0
	for i := 1; i < len(rows); i++ {
		falls += cmp.Compare(rows[i-1].Date, rows[i].Date)
	}
	if falls > 0 {
		slices.Reverse(rows)
	}
}

// assignIDs sets the ID of every row.
func (in *input) assignIDs() {
	if in.take != nil {
		return
	}
	print, refs := make(fingerprints, len(in.imp.Rows)), make(map[string]fingerprint)
	for i := range in.imp.Rows {
		r := &in.imp.Rows[i]
		// Rows with an ID of their own are counted too: Format counts the same way to find out
		// which IDs it must write.
		content := print.next(r)
		if r.ID != "" {
			continue
		}
		r.ID = content
		if in.refs[i] == "" {
			continue
		}
		r.ID = reference(in.imp.Format, r.Account, in.refs[i])
		// A reference used twice for different contents does not identify a row: keep both.
		sum := contentSum(r)
		if first, ok := refs[r.ID]; ok && first != sum {
			r.ID += "-" + content
		} else {
			refs[r.ID] = sum
		}
	}
}

// mapAccounts replaces the broker's account names by the portfolio's account ids.
func (in *input) mapAccounts() {
	if in.imp.Format == "signalbox" {
		return
	}
	names := make(map[string]int)
	for i := range in.imp.Rows {
		account := in.imp.Rows[i].brokerAccount()
		*account = strings.Join(strings.Fields(*account), " ")
		if _, ok := names[*account]; !ok {
			names[*account] = in.imp.Rows[i].Source.Line
		}
	}
	if in.opts.Account != "" && len(names) > 1 {
		list := slices.Sorted(maps.Keys(names))
		for i := range list {
			list[i] = fmt.Sprintf("%q", list[i])
		}
		in.addFault(position{1, 1},
			"the file names %d accounts (%s): map each of them to an id instead of naming one account for the file",
			len(list), strings.Join(list, ", "))
		return
	}
	if line, ok := names[""]; ok && in.opts.Account == "" {
		in.addFault(position{line, 1}, "the file does not name its account: give the account's id")
		in.noAccount = true
		return
	}
	for i := range in.imp.Rows {
		account := in.imp.Rows[i].brokerAccount()
		if in.opts.Account != "" {
			*account = in.opts.Account
		} else if id, ok := in.opts.Accounts[*account]; ok {
			*account = id
		}
	}
}

// brokerAccount returns the account of a broker's row: shares that came in name it as ToAccount.
func (r *Row) brokerAccount() *string {
	if r.Action == Transfer && r.Account == "" {
		return &r.ToAccount
	}
	return &r.Account
}
