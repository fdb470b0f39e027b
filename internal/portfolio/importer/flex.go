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

// readFlex walks the XML. Sums repeat the executions below them: orders count only if the query left the executions
// out, and other sums never do.
func (in *intake) readFlex(text []byte) {
	items := in.flexItems(text)
	level := ""
	booked := make(map[string]bool)
	for _, f := range items {
		switch l := f.level(); {
		case l == "EXECUTION", l == "ORDER" && level == "":
			level = l
		}
		if f.level() != "" {
			booked[f.get("tradeID")] = true
			booked[f.get("symbol")+f.get("tradeDate")] = true
		}
	}
	other := make(map[string]bool)
	splits := make(map[string]bool)
	for i, f := range items {
		switch f.name {
		case "Trade", "TradeConfirm", "Order", "Lot", "SymbolSummary", "AssetSummary", "WashSale":
			switch {
			case level != "" && f.level() == level:
				in.flexTrade(f)
			case level == "" && f.name != "WashSale":
				in.skip(f.at.line, f.text(), "a sum over trades that are not in the file: choose executions in the Flex query", true)
			default:
				in.skip(f.at.line, f.text(), whyRepeats, false)
			}
		case "OptionEAE":
			in.flexEAE(f, booked)
		case "CashTransaction":
			in.flexCash(f)
		case "CorporateAction":
			in.flexCorporate(&items[i], splits)
		case "Transfer", "TradeTransfer":
			moved := f.get("assetCategory") != "CASH" && (f.get("assetCategory") != "" || nonZero(f.get("quantity")))
			in.skip(f.at.line, f.text(), map[bool]string{true: whyTransfer, false: whyCash}[moved], moved)
		default:
			if nonZero(f.get("quantity")) && !strings.Contains(flexReports, " "+f.name+" ") {
				in.skip(f.at.line, f.text(), "a part of the query that is not known, and may have moved shares: "+
					"write what it did to the lots in the own columns", true)
				continue
			}
			other[f.name] = true
		}
	}
	if len(other) > 0 {
		in.note("these parts of the query have no transactions and were not read: %s", strings.Join(slices.Sorted(maps.Keys(other)), ", "))
	}
}

const whyRepeats = "repeats trades that stand elsewhere in the file"

func nonZero(s string) bool { return strings.Trim(s, "-0., ") != "" }

// flexReports are the parts of a query that have quantities and only tell of what the trades did.
const flexReports = " OpenPosition StatementOfFundsLine ChangeInDividendAccrual OpenDividendAccrual UnbundledCommissionDetail SecurityInfo " +
	"PriorPeriodPosition NetStockPosition TransactionTax SalesTax HardToBorrowDetail SLBActivity SLBFee SLBOpenContract SLBCollateral " +
	"TierInterestDetail FxLot FxTransaction MTMPerformanceSummaryUnderlying FIFOPerformanceSummaryUnderlying ComplexPosition " +
	"PendingExcercise RoutingCommission "

// level tells one execution from an order and from other sums; it is empty for what is no trade.
func (f flexItem) level() string {
	switch {
	case f.name == "Order":
		return "ORDER"
	case f.name != "Trade" && f.name != "TradeConfirm":
		return ""
	case f.isDetail():
		return "EXECUTION"
	}
	return strings.ToUpper(f.get("levelOfDetail"))
}

// isDetail tells one record from sums over several.
func (f flexItem) isDetail() bool {
	level := strings.ToUpper(f.get("levelOfDetail"))
	return level == "" || level == "EXECUTION" || level == "DETAIL"
}

// flexEAE is about an option that was exercised, assigned or expired, and about the shares it gave or took. The trades
// have all of this, if the query has trades.
func (in *intake) flexEAE(f flexItem, booked map[string]bool) {
	if id := f.get("tradeID"); id != "" && booked[id] || booked[f.get("symbol")+f.get("date")] {
		in.skip(f.at.line, f.text(), whyRepeats, false)
		return
	}
	in.skip(f.at.line, f.text(), "the file has no trade for it: add the section Trades to the Flex query", true)
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
			if syntax, ok := errors.AsType[*xml.SyntaxError](err); ok {
				err = errors.New(syntax.Msg)
			}
			in.add(place{line, col}, "this is not XML: %v; the rest of the file was not read", err)
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
	// A trade has the same tradeID in a query of activity and in one of confirmations; the other numbers differ.
	e := event{faults: in.count(), at: f.at, text: f.text(), ref: f.get("tradeID", "transactionID", "ibExecID", "execID"), account: f.get("accountId"),
		currency: f.get("currency")}
	codes := strings.FieldsFunc(f.get("notes", "code"), func(r rune) bool { return r == ';' || r == ',' || r == ' ' })
	side, effect := strings.ToUpper(f.get("buySell")), strings.ToUpper(f.get("openCloseIndicator"))
	if effect == "" {
		// Confirmations say it among the codes.
		effect = strings.Join(slices.DeleteFunc(slices.Clone(codes), func(c string) bool { return c != "O" && c != "C" }), "")
	}
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
	has := func(some ...string) bool {
		return slices.ContainsFunc(some, func(c string) bool { return slices.Contains(codes, c) })
	}
	e.quantity = in.flexNumber(f, "quantity")
	e.price = in.flexNumber(f, "tradePrice", "price")
	c := &calc{}
	e.fees = c.add(in.flexNumber(f, "ibCommission", "commission").Decimal, in.flexNumber(f, "taxes", "tax").Decimal).Neg()
	if paid := f.get("ibCommissionCurrency", "commissionCurrency"); paid != "" && paid != e.currency && !e.fees.IsZero() {
		in.add(f.at, "ibCommissionCurrency: the commission is in %s and the trade in %s, expected one currency: write the row in the own columns",
			paid, e.currency)
	}
	e.date = in.flexDate(f, "tradeDate", "dateTime")
	in.flexSymbol(f, &e)
	if c.err != nil {
		in.add(f.at, "ibCommission: %v", c.err)
	}
	switch {
	case e.option && has("Ep", "GEA"):
		e.kind = expire
	case e.option && has("Ex", "AEx", "MEx", "A"):
		e.kind = exercise
	case e.kind == buy && has("R"):
		e.kind = reinvest
	}
	in.record(e)
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
	if kind := strings.ToLower(f.get("type")); strings.Contains(kind, "return of capital") {
		description += " " + kind
	}
	if !f.isDetail() || !strings.Contains(description, "return of capital") || strings.Contains(description, "tax") {
		why := whyCash
		if strings.Contains(strings.ToLower(f.get("type")), "dividend") {
			why = whyDividend
		}
		in.skip(f.at.line, f.text(), why, false)
		return
	}
	e := event{faults: in.count(), at: f.at, text: f.text(), meaning: meaning{kind: capital}, ref: f.get("transactionID"), account: f.get("accountId"),
		currency: f.get("currency"), amount: in.flexNumber(f, "amount"), date: in.flexDate(f, "dateTime", "reportDate")}
	in.flexSymbol(f, &e)
	if e.amount.IsNeg() {
		in.add(f.at, "amount: %s takes a return of capital back: take it out together with its original", e.amount)
	}
	in.record(e)
}

var flexSplit = regexp.MustCompile(`(?i)SPLIT ([0-9.]+) FOR ([0-9.]+)`)

// flexCorporate reads splits. The two halves of a reverse split name the same ratio, and give one row: splits holds
// the ones that came already.
func (in *intake) flexCorporate(f *flexItem, splits map[string]bool) {
	m := flexSplit.FindStringSubmatch(f.get("actionDescription") + " " + f.get("description"))
	switch {
	case !f.isDetail():
		in.skip(f.at.line, f.text(), "repeats actions that stand elsewhere in the file", false)
		return
	case m == nil:
		in.skip(f.at.line, f.text(), whyCorp, true)
		return
	}
	before := in.count()
	ratio, err := parseRatio(m[1] + ":" + m[2])
	if err != nil {
		in.add(f.at, "description: split %s for %s %v", m[1], m[2], err)
	}
	// The old shares of a reverse split have a name of their own.
	f.attr["symbol"] = strings.TrimSuffix(f.get("symbol"), ".OLD")
	// Without a reference: which half comes first differs from export to export.
	e := event{faults: before, at: f.at, text: f.text(), meaning: meaning{kind: split}, account: f.get("accountId"),
		currency: f.get("currency"), ratio: ratio, date: in.flexDate(*f, "dateTime", "reportDate")}
	in.flexSymbol(*f, &e)
	if in.count() > before {
		return
	}
	key := strings.Join([]string{e.account, e.date, e.ticker, ratio.String()}, "\x1f")
	if splits[key] {
		in.skip(f.at.line, f.text(), "the other half of a split; its ratio stands in the row of the first", false)
		return
	}
	splits[key] = true
	in.record(e)
}
