package importer

import (
	"bytes"
	"encoding/csv"
	"fmt"
	"slices"
	"strings"

	"github.com/govalues/decimal"

	"signalbox/internal/lazy"
	"signalbox/internal/portfolio/tax"
)

// Holding is a position in a list of what an account holds.
type Holding struct {
	// Date is zero if the file does not give it.
	Date    tax.Date
	Account string
	Ticker  string
	// Quantity is negative for a short position. It has as many decimals as the file prints.
	Quantity decimal.Decimal
	// Price is per share, or per option contract; zero means that the file does not give it.
	Price decimal.Decimal
	// Basis is the total cost basis; nil means that the file does not give it.
	Basis *decimal.Decimal
	// Acquired is the day of purchase, in a list that has an entry for each lot; zero if the file
	// does not give it.
	Acquired tax.Date
	Source   Source
}

// Positions is the content of a file of positions.
type Positions struct {
	Holdings []Holding
	Skipped  []Skipped
}

// The names of columns in files of positions: those of signalbox CSV first, then those of brokers.
var (
	positionTicker   = []string{"ticker", "symbol", "instrument", "symbol/cusip"}
	positionQuantity = []string{"quantity", "qty (quantity)", "qty", "qty #", "shares", "position"}
	positionPrice    = []string{"price", "last price", "share price", "mark price", "markprice",
		"close price", "last"}
	positionValue = []string{"mkt val (market value)", "market value", "mkt value",
		"current value", "total value", "value", "positionvalue"}
	positionBasis   = []string{"basis", "cost basis", "cost basis total", "costbasismoney"}
	positionAccount = []string{"account", "account number", "account name", "account id",
		"accountid", "clientaccountid"}
	positionDate     = []string{"date", "report date", "reportdate"}
	positionAcquired = []string{"acquired", "date acquired", "acquisition date", "open date",
		"purchase date"}
)

var (
	positionsTitle = lazy.Regexp(`(?i)positions +for (?:account )?(.*?)(?: +as of .*)?$`)
	asOfDate       = lazy.Regexp(
		`(?i)(?:as of|date downloaded)\b.*?(\d{4}[/-]\d{1,2}[/-]\d{1,2}|\d{1,2}/\d{1,2}/\d{4}|[A-Za-z]{3}-\d{1,2}-\d{4})`)
	notASecurity = lazy.Regexp(
		`(?i)^(cash\b|account total|total|pending activity|positions total|core\b|usd$)`)
)

// ReadPositions reads a list of positions: signalbox CSV (account,ticker,quantity and optionally
// date, price and basis), or a CSV file as brokers export it, with columns for the symbol and the
// quantity. Cash and money market funds are skipped. The error is a *[FaultsError].
func ReadPositions(name string, data []byte, opts *Options) (*Positions, error) {
	in := newInput(name)
	if opts != nil {
		in.opts = *opts
	}
	text, _, err := decodeFile(data)
	if err != nil {
		in.addFault(positionOf(err), "the file %v", err)
		return nil, in.err()
	}
	found := &Positions{}
	in.readPositions(newTable(text, &in.faults), found)
	if err := in.err(); err != nil {
		return nil, err
	}
	var date tax.Date
	if m := asOfDate().FindSubmatch(text); m != nil {
		date, _ = parseDate(string(m[1]), "2006/1/2", "2006-1-2", "1/2/2006", "Jan-2-2006")
	}
	for i := range found.Holdings {
		if h := &found.Holdings[i]; h.Date == 0 {
			h.Date = date
		}
	}
	found.Skipped = in.imp.Skipped
	return found, nil
}

func (in *input) readPositions(t *table, found *Positions) {
	for n := 0; ; n++ {
		if n == maxPreamble || !t.next() {
			in.addFault(position{1, 1},
				"the file is not a list of positions, expected columns for the symbol and the quantity, like account,ticker,quantity")
			return
		}
		t.head = columnIndexes(t.fields)
		if t.index(positionTicker) >= 0 && t.index(positionQuantity) >= 0 {
			break
		}
		if m := positionsTitle().FindStringSubmatch(strings.TrimRight(strings.Join(t.fields, ","),
			", ")); m != nil {
			in.fileAccount = strings.Join(strings.Fields(m[1]), " ")
		}
	}
	if hasColumns(t.head, "date", "action") {
		in.addFault(t.at(), "the file has transactions, not positions: import it without --positions")
		return
	}
	own := hasColumns(t.head, "account", "ticker", "quantity")
	seen := make(map[tax.Position]int)
	for t.next() {
		symbol := strings.TrimSpace(t.get(positionTicker...))
		if !own && (len(t.fields) < len(t.head)-1 || symbol == "" ||
			strings.HasSuffix(symbol, "**") || notASecurity().MatchString(symbol)) {
			in.skip(t.line(), t.text(), whyCash, false)
			continue
		}
		if strings.EqualFold(t.get("levelofdetail"), "lot") { // its position has a row too
			in.skip(t.line(), t.text(), whyRepeats, false)
			continue
		}
		h := in.holding(t, symbol, own)
		if h == nil {
			continue
		}
		key := tax.Position{Account: h.Account, Ticker: h.Ticker}
		if first, twice := seen[key]; twice && own && h.Acquired == 0 {
			in.addFault(t.at(), "%s of account %s is also in line %d, expected each position once",
				h.Ticker, h.Account, first)
			continue
		}
		seen[key] = t.line()
		found.Holdings = append(found.Holdings, *h)
	}
}

// holding reads one position. It returns nil if the record has a fault or is cash.
func (in *input) holding(t *table, symbol string, own bool) *Holding {
	before := in.faultCount()
	h := &Holding{Account: in.positionAccount(t), Source: Source{File: in.file, Line: t.line()}}
	quantity, price, value := t.number(positionQuantity...), number{}, number{}
	if t.index(positionPrice) >= 0 {
		price = t.number(positionPrice...)
	}
	if !own && t.index(positionValue) >= 0 {
		value = t.number(positionValue...)
	}
	if basis := (number{}); t.index(positionBasis) >= 0 {
		if basis = t.number(positionBasis...); basis.present {
			total := basis.Abs()
			h.Basis = &total
		}
		// A basis in another currency is not one in dollars.
		if c := t.get("currency", "currencyprimary"); c != "" && !strings.EqualFold(c, "USD") {
			h.Basis = nil
		}
	}
	ticker, option, err := parseOption(symbol)
	if !option {
		ticker, err = parseTicker(symbol)
	}
	if err != nil {
		in.addFault(t.at(positionTicker...), "%v", err)
	}
	if text := t.get(positionDate...); text != "" {
		date, ok := parseDate(text, "2006-1-2", "1/2/2006", "20060102")
		if !ok {
			in.addFault(t.at(positionDate...),
				"%q is not a date, expected something like 2024-01-31", text)
		}
		h.Date = date
	}
	if text := t.get(positionAcquired...); text != "" && !strings.EqualFold(text, "various") {
		date, ok := parseDate(text, "2006-1-2", "1/2/2006", "1/2/06", "20060102", "Jan-2-2006")
		if !ok {
			in.addFault(t.at(positionAcquired...),
				"%q is not a date, expected something like 2024-01-31", text)
		}
		h.Acquired = date
	}
	if in.faultCount() > before {
		return nil
	}
	if len(ticker) == 5 && strings.HasSuffix(ticker, "XX") && (!price.present || price.IsOne()) {
		in.skip(t.line(), t.text(), whyFund, false)
		return nil
	}
	if !quantity.present {
		in.addFault(t.at(positionQuantity...), "the position in %s has no quantity", ticker)
		return nil
	}
	if h.Account == "" {
		in.addFault(t.at(), "the file does not name its account: give the account's id")
		in.noAccount = true
		return nil
	}
	h.Ticker, h.Quantity, h.Price = ticker, quantity.Pad(quantity.scale), price.Abs()
	c := &calc{}
	switch {
	case value.present && !quantity.IsZero():
		h.Price = c.quo(value.Abs(), quantity.Abs())
	case option && !own:
		h.Price = c.mul(h.Price, decimal.Hundred) // brokers quote options per share
	}
	if c.err != nil {
		in.addFault(t.at(), "%s: %v", ticker, c.err)
		return nil
	}
	return h
}

// positionAccount returns the account of a position in the portfolio's terms.
func (in *input) positionAccount(t *table) string {
	if in.opts.Account != "" {
		return in.opts.Account
	}
	first := ""
	for _, name := range append([]string{in.fileAccount}, t.each(positionAccount)...) {
		name = strings.Join(strings.Fields(name), " ")
		if id, ok := in.opts.Accounts[name]; ok {
			return id
		}
		if first == "" {
			first = name
		}
	}
	return first
}

// each returns the fields of all named columns that the file has.
func (t *table) each(names []string) []string {
	var fields []string
	for _, name := range names {
		if field := t.get(name); field != "" {
			fields = append(fields, field)
		}
	}
	return fields
}

// FormatPositions writes positions as signalbox CSV.
func FormatPositions(holdings []Holding) ([]byte, error) {
	var out bytes.Buffer
	w := csv.NewWriter(&out)
	records := [][]string{{"date", "account", "ticker", "quantity", "price"}}
	withBasis := slices.ContainsFunc(holdings, func(h Holding) bool { return h.Basis != nil })
	if withBasis {
		records[0] = append(records[0], "basis")
	}
	for _, h := range holdings {
		record := []string{h.Date.String(), h.Account, h.Ticker, h.Quantity.String(),
			amount(h.Price.Round(8).Trim(0))}
		switch {
		case h.Basis != nil:
			record = append(record, h.Basis.String())
		case withBasis:
			record = append(record, "")
		}
		records = append(records, record)
	}
	if err := w.WriteAll(records); err != nil {
		return nil, fmt.Errorf("format positions: %w", err)
	}
	return out.Bytes(), nil
}
