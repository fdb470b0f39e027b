package importer

import (
	"bytes"
	"encoding/xml"
	"errors"
	"io"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/govalues/decimal"
)

// flexItem is an element of a Flex query: everything it says is in its attributes.
type flexItem struct {
	name string
	attr map[string]string
	at   place
}

func (f flexItem) get(names ...string) string {
	for _, n := range names {
		if v := strings.TrimSpace(f.attr[n]); v != "" {
			return v
		}
	}
	return ""
}

// text is the element in short, for people.
func (f flexItem) text() string {
	parts := []string{f.name}
	for _, n := range []string{"dateTime", "tradeDate", "reportDate", "type", "buySell", "symbol", "quantity", "amount", "description"} {
		if v := f.get(n); v != "" {
			parts = append(parts, n+"="+v)
		}
	}
	return strings.Join(parts, " ")
}

// readFlex walks the XML. Orders repeat the executions below them, so they count only if the query left those out.
func (in *intake) readFlex(text []byte) {
	items := in.flexItems(text)
	executions := slices.ContainsFunc(items, func(f flexItem) bool { return f.name == "Trade" && f.isDetail() })
	other := make(map[string]bool)
	for _, f := range items {
		switch f.name {
		case "Trade", "Order":
			switch {
			case f.name == "Trade" && f.isDetail(), f.name == "Order" && !executions:
				in.flexTrade(f)
			default:
				in.skip(f.at.line, f.text(), "repeats trades that stand elsewhere in the file", false)
			}
		case "CashTransaction":
			in.flexCash(f)
		case "CorporateAction":
			in.flexCorporate(f)
		case "Transfer":
			in.skip(f.at.line, f.text(), whyTransfer, f.get("assetCategory") != "CASH")
		case "Lot", "SymbolSummary", "AssetSummary", "WashSale", "OptionEAE":
			in.skip(f.at.line, f.text(), "repeats trades that stand elsewhere in the file", false)
		default:
			other[f.name] = true
		}
	}
	if len(other) > 0 {
		in.note("these parts of the query have no transactions and were not read: %s", strings.Join(slices.Sorted(maps.Keys(other)), ", "))
	}
}

// isDetail tells one execution from sums over several.
func (f flexItem) isDetail() bool {
	level := strings.ToUpper(f.get("levelOfDetail"))
	return level == "" || level == "EXECUTION" || level == "DETAIL"
}

// flexItems returns the elements that have attributes, below the statement.
func (in *intake) flexItems(text []byte) []flexItem {
	d := xml.NewDecoder(bytes.NewReader(text))
	// decodeText made it UTF-8, whatever the declaration says.
	d.CharsetReader = func(_ string, r io.Reader) (io.Reader, error) { return r, nil }
	var items []flexItem
	var account string
	root := true
	for {
		line, col := d.InputPos()
		tok, err := d.Token()
		if errors.Is(err, io.EOF) {
			return items
		}
		if err != nil {
			line, col = d.InputPos()
			var syntax *xml.SyntaxError
			if errors.As(err, &syntax) {
				in.add(place{line, col}, "this is not XML: %s; the rest of the file was not read", syntax.Msg)
			} else {
				in.add(place{line, col}, "this is not XML: %v; the rest of the file was not read", err)
			}
			return items
		}
		start, ok := tok.(xml.StartElement)
		if !ok {
			continue
		}
		if root && start.Name.Local != "FlexQueryResponse" {
			in.add(place{line, col}, "the XML begins with <%s>, expected <FlexQueryResponse>; %s", oneLine(start.Name.Local), known)
			return nil
		}
		root = false
		f := flexItem{name: start.Name.Local, at: place{line, col}, attr: make(map[string]string, len(start.Attr))}
		for _, a := range start.Attr {
			f.attr[a.Name.Local] = a.Value
		}
		switch {
		case f.name == "FlexStatement":
			account = f.get("accountId")
		case f.name == "FlexQueryResponse" || f.name == "FlexStatements" || len(start.Attr) == 0:
		default:
			if f.get("accountId") == "" {
				f.attr["accountId"] = account
			}
			items = append(items, f)
		}
	}
}

func (in *intake) flexTrade(f flexItem) {
	switch category := f.get("assetCategory"); category {
	case "STK", "FUND", "OPT", "ETF", "":
	case "CASH":
		in.skip(f.at.line, f.text(), "an exchange of currencies, no shares moved", false)
		return
	default:
		in.skip(f.at.line, f.text(), "no lots are kept of Interactive Brokers' category "+oneLine(category), true)
		return
	}
	side, effect := strings.ToUpper(f.get("buySell")), strings.ToUpper(f.get("openCloseIndicator"))
	e := event{at: f.at, text: f.text(), ref: f.get("transactionID", "ibExecID", "tradeID"), account: f.get("accountId"),
		currency: f.get("currency")}
	codes := strings.FieldsFunc(f.get("notes", "code"), func(r rune) bool { return r == ';' || r == ',' || r == ' ' })
	switch {
	case side == "SELL" && effect == "O", side == "BUY" && effect == "C":
		in.short(e)
		return
	case side != "BUY" && side != "SELL":
		in.add(f.at, "buySell: %q is not known, expected BUY or SELL; take a cancelled trade out together with its original", f.get("buySell"))
		return
	case strings.Contains(effect, "O") && strings.Contains(effect, "C"):
		in.add(f.at, "openCloseIndicator: %q closes one position and opens another, expected O or C: write two rows in the own columns", effect)
		return
	}
	e.kind = buy
	if side == "SELL" {
		e.kind = sell
	}
	before := len(in.list) + in.more
	e.quantity = in.flexNumber(f, "quantity")
	e.price = in.flexNumber(f, "tradePrice", "price")
	c := &calc{}
	e.fees = c.add(in.flexNumber(f, "ibCommission", "commission").Decimal, in.flexNumber(f, "taxes").Decimal).Neg()
	e.date = in.flexDate(f, "tradeDate", "dateTime")
	in.flexSymbol(f, &e)
	if c.err != nil {
		in.add(f.at, "ibCommission: %v", c.err)
	}
	switch {
	case e.option && slices.Contains(codes, "Ep"):
		e.kind = expire
	case e.option && (slices.Contains(codes, "Ex") || slices.Contains(codes, "A")):
		e.kind = exercise
	case e.kind == buy && slices.Contains(codes, "R"):
		e.kind = reinvest
	}
	if len(in.list)+in.more == before {
		in.record(e)
	}
}

// flexSymbol finds the ticker, or the option's symbol and the size of its contract.
func (in *intake) flexSymbol(f flexItem, e *event) {
	if f.get("assetCategory") != "OPT" {
		ticker, err := parseTicker(f.get("symbol"))
		if err != nil {
			in.add(f.at, "symbol: %v", err)
		}
		e.ticker = ticker
		return
	}
	e.option = true
	e.multiplier = decimal.Hundred
	if m := in.flexNumber(f, "multiplier"); m.present {
		e.multiplier = m.Decimal
	}
	symbol, ok, err := parseOption(f.get("symbol"))
	if !ok {
		symbol, err = optionSymbol(f.get("underlyingSymbol"), in.flexDate(f, "expiry"), f.get("putCall"), f.get("strike"))
	}
	if err != nil {
		in.add(f.at, "symbol: %v", err)
	}
	e.ticker = symbol
}

func (in *intake) flexNumber(f flexItem, names ...string) number {
	s := f.get(names...)
	if s == "" {
		return number{ok: true}
	}
	d, scale, err := parseNumber(s)
	if err != nil {
		in.add(f.at, "%s: %q %v", names[0], s, err)
		return number{}
	}
	return number{Decimal: d, scale: scale, present: true, ok: true}
}

// flexDate reads a date in the forms of a Flex query that cannot be mistaken for each other.
func (in *intake) flexDate(f flexItem, names ...string) string {
	s := f.get(names...)
	day := s
	if i := strings.IndexAny(s, ";, T"); i >= 0 {
		day = s[:i]
	}
	date, ok := parseDate(day, "20060102", "2006-01-02", "02-Jan-06")
	if !ok {
		in.add(f.at, "%s: %q is no date, expected 20240131 or 2024-01-31: choose yyyyMMdd in the Flex query", names[0], s)
	}
	return date
}

func (in *intake) flexCash(f flexItem) {
	description := strings.ToLower(f.get("description"))
	if !f.isDetail() || !strings.Contains(description, "return of capital") || strings.Contains(description, "tax") {
		why := whyCash
		if strings.Contains(strings.ToLower(f.get("type")), "dividend") {
			why = whyDividend
		}
		in.skip(f.at.line, f.text(), why, false)
		return
	}
	before := len(in.list) + in.more
	e := event{at: f.at, text: f.text(), meaning: meaning{kind: capital}, ref: f.get("transactionID"), account: f.get("accountId"),
		currency: f.get("currency"), amount: in.flexNumber(f, "amount"), date: in.flexDate(f, "dateTime", "reportDate")}
	in.flexSymbol(f, &e)
	if e.amount.IsNeg() {
		in.add(f.at, "amount: %s takes a return of capital back: take it out together with its original", e.amount)
	}
	if len(in.list)+in.more == before {
		in.record(e)
	}
}

var flexSplit = regexp.MustCompile(`(?i)SPLIT ([0-9.]+) FOR ([0-9.]+)`)

func (in *intake) flexCorporate(f flexItem) {
	m := flexSplit.FindStringSubmatch(f.get("actionDescription") + " " + f.get("description"))
	switch {
	case !f.isDetail():
		in.skip(f.at.line, f.text(), "repeats actions that stand elsewhere in the file", false)
		return
	case m == nil:
		in.skip(f.at.line, f.text(), whyCorp, true)
		return
	case strings.HasSuffix(f.get("symbol"), ".OLD"):
		in.skip(f.at.line, f.text(), "the other half of a split; its ratio stands in the row of the new shares", false)
		return
	}
	before := len(in.list) + in.more
	ratio, err := parseRatio(m[1] + ":" + m[2])
	if err != nil {
		in.add(f.at, "description: split %s for %s %v", m[1], m[2], err)
	}
	e := event{at: f.at, meaning: meaning{kind: split}, ref: f.get("transactionID", "actionID"), account: f.get("accountId"),
		currency: f.get("currency"), ratio: ratio, date: in.flexDate(f, "dateTime", "reportDate")}
	in.flexSymbol(f, &e)
	if len(in.list)+in.more == before {
		in.record(e)
	}
}
