package importer

import (
	"bytes"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"signalbox/internal/lazy"
	"signalbox/internal/portfolio/tax"

	"github.com/govalues/decimal"
)

// flexItem is an element of a Flex query. All its data is in attributes.
type flexItem struct {
	name string
	attr map[string]string
	at   position
}

func (f flexItem) get(names ...string) string {
	for _, n := range names {
		if v := strings.TrimSpace(f.attr[n]); v != "" {
			return v
		}
	}
	return ""
}

// text returns a short form of the element, for messages.
func (f flexItem) text() string {
	parts := []string{f.name}
	for _, n := range []string{"dateTime", "tradeDate", "reportDate", "type", "buySell", "symbol",
		"quantity", "amount", "notes", "transactionType", "description"} {
		if v := f.get(n); v != "" {
			parts = append(parts, n+"="+v)
		}
	}
	return strings.Join(parts, " ")
}

// readFlex reads an Interactive Brokers Flex query. Orders and other summaries repeat the
// executions below them: orders are read only if the query has no executions, and other summaries
// never.
func (in *input) readFlex(text []byte) {
	items := in.flexItems(text)
	in.findDollars(items)
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
	var closed []int // items that are closed lots
	for i, f := range items {
		switch f.name {
		case "Trade", "TradeConfirm", "Order", "Lot", "SymbolSummary", "AssetSummary", "WashSale":
			switch {
			case level != "" && f.level() == level:
				rows := len(in.imp.Rows)
				in.flexTrade(f)
				in.addSale(f, i, rows)
			case level != "" && f.isClosedLot():
				closed = append(closed, i)
			case level == "" && f.name != "WashSale":
				in.skip(f.at.line, f.text(),
					"a summary of trades that are not in the file: choose executions in the Flex query", true)
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
			moved := f.get("assetCategory") != "CASH" &&
				(f.get("assetCategory") != "" || nonZero(f.get("quantity")))
			in.skip(f.at.line, f.text(), map[bool]string{true: whyTransfer, false: whyCash}[moved],
				moved)
		default:
			if nonZero(f.get("quantity")) && !strings.Contains(flexReports, " "+f.name+" ") {
				in.skip(f.at.line, f.text(),
					"an unknown part of the query that may have moved shares: "+
						"add a spin_off or exchange row in signalbox CSV", true)
				continue
			}
			other[f.name] = true
		}
	}
	in.closeLots(items, closed)
	if len(other) > 0 {
		in.note("these parts of the query have no transactions and were ignored: %s",
			strings.Join(slices.Sorted(maps.Keys(other)), ", "))
	}
}

const whyRepeats = "repeats trades that are elsewhere in the file"

func nonZero(s string) bool { return strings.Trim(s, "-0., ") != "" }

// flexReports lists the parts of a query that have quantities but only report what the trades did.
const flexReports = " OpenPosition StatementOfFundsLine ChangeInDividendAccrual OpenDividendAccrual UnbundledCommissionDetail SecurityInfo " +
	"PriorPeriodPosition NetStockPosition TransactionTax SalesTax HardToBorrowDetail SLBActivity SLBFee SLBOpenContract SLBCollateral " +
	"TierInterestDetail FxLot FxTransaction MTMPerformanceSummaryUnderlying FIFOPerformanceSummaryUnderlying ComplexPosition " +
	"PendingExcercise RoutingCommission "

// level returns EXECUTION, ORDER or the name of another summary; "" if the element is not a trade.
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

// isDetail reports whether the element is a single record and not a summary.
func (f flexItem) isDetail() bool {
	level := strings.ToUpper(f.get("levelOfDetail"))
	return level == "" || level == "EXECUTION" || level == "DETAIL"
}

// isClosedLot reports whether the element is a lot that a sale closed.
func (f flexItem) isClosedLot() bool {
	return (f.name == "Lot" || f.name == "Trade") &&
		strings.EqualFold(f.get("levelOfDetail"), "CLOSED_LOT")
}

// flexEAE handles an option that was exercised, assigned or expired, and the shares that it
// delivered. If the query has trades, they contain all of this.
func (in *input) flexEAE(f flexItem, booked map[string]bool) {
	if id := f.get("tradeID"); id != "" && booked[id] || booked[f.get("symbol")+f.get("date")] {
		in.skip(f.at.line, f.text(), whyRepeats, false)
		return
	}
	in.skip(f.at.line, f.text(),
		"the file has no trade for this: add the section Trades to the Flex query", true)
}

// flexItems returns the elements below FlexStatement that have attributes.
func (in *input) flexItems(text []byte) []flexItem {
	d := xml.NewDecoder(bytes.NewReader(text))
	// The text is UTF-8 already, whatever the declaration says.
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
			in.addFault(position{line, col},
				"the XML cannot be read: %v; the rest of the file was not read", err)
			return items
		}
		start, ok := tok.(xml.StartElement)
		if !ok {
			continue
		}
		if root && start.Name.Local != "FlexQueryResponse" {
			in.addFault(position{line, col},
				"the XML starts with <%s>, expected <FlexQueryResponse>; %s",
				oneLine(start.Name.Local), expectedFormats)
			return nil
		}
		root = false
		f := flexItem{name: start.Name.Local, at: position{line, col}, attr: make(map[string]string, len(start.Attr))}
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

func (in *input) flexTrade(f flexItem) {
	switch category := f.get("assetCategory"); category {
	case "STK", "FUND", "OPT", "ETF", "CRYPTO", "":
	case "CASH":
		in.skip(f.at.line, f.text(), "a currency exchange, no shares moved", false)
		return
	default:
		in.skip(f.at.line, f.text(), "no lots are kept for the Interactive Brokers category "+
			oneLine(category), true)
		return
	}
	// A trade has the same tradeID in activity and confirmation queries; its other references
	// differ.
	e := event{faults: in.faultCount(), at: f.at, text: f.text(),
		ref: f.get("tradeID", "transactionID", "ibExecID", "execID"), account: f.get("accountId"),
		currency: f.get("currency")}
	codes := strings.FieldsFunc(f.get("notes", "code"), isCodeSeparator)
	side, effect := strings.ToUpper(f.get("buySell")), strings.ToUpper(f.get("openCloseIndicator"))
	if effect == "" {
		// Confirmations have it among the codes.
		effect = strings.Join(slices.DeleteFunc(slices.Clone(codes),
			func(c string) bool { return c != "O" && c != "C" }), "")
	}
	switch {
	case side == "SELL" && effect == "O", side == "BUY" && effect == "C":
		in.flexWritten(f, e, side, codes)
		return
	case side != "BUY" && side != "SELL":
		in.addFault(f.at, "buySell: %q is not known, expected BUY or SELL; remove a cancelled trade together with its original", f.get("buySell"))
		return
	case strings.Contains(effect, "O") && strings.Contains(effect, "C"):
		in.addFault(f.at, "openCloseIndicator: %q closes one position and opens another, expected O or C: write two rows in signalbox CSV", effect)
		return
	}
	e.kind = buy
	if side == "SELL" {
		e.kind = sell
	}
	has := func(some ...string) bool {
		return slices.ContainsFunc(some, func(c string) bool { return slices.Contains(codes, c) })
	}
	c := &calc{}
	in.flexAmounts(f, &e, c)
	if paid := f.get("ibCommissionCurrency", "commissionCurrency"); paid != "" &&
		paid != e.currency && !e.fees.IsZero() {
		in.addFault(f.at, "ibCommissionCurrency: the commission is in %s and the trade in %s, expected one currency: write the row in signalbox CSV",
			paid, e.currency)
	}
	e.date = in.flexDate(f, "tradeDate", "dateTime")
	e.time = flexTime(f, e.date)
	in.flexSymbol(f, &e)
	if c.err != nil {
		in.addFault(f.at, "ibCommission: %v", c.err)
	}
	in.inDollars(f, &e)
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

// flexAmounts sets the quantity, price, fees and date of a trade.
func (in *input) flexAmounts(f flexItem, e *event, c *calc) {
	e.quantity = in.flexNumber(f, "quantity")
	e.price = in.flexNumber(f, "tradePrice", "price")
	e.fees = c.add(in.flexNumber(f, "ibCommission", "commission").Decimal,
		in.flexNumber(f, "taxes", "tax").Decimal).Neg()
}

// flexWritten skips a trade that opens or closes a short position.
func (in *input) flexWritten(f flexItem, e event, side string, codes []string) {
	e.kind = short
	if f.get("assetCategory") == "OPT" {
		e.kind = cover
		switch {
		case side == "SELL":
			e.kind = write
		case slices.Contains(codes, "A"):
			e.kind = assigned
		}
		in.flexAmounts(f, &e, &calc{})
		e.date = in.flexDate(f, "tradeDate", "dateTime")
		in.flexSymbol(f, &e)
		in.inDollars(f, &e)
	}
	if in.faultCount() == e.faults {
		in.skipShort(e)
	}
}

// inDollars converts the amounts of an event at the rate of the broker, if the query has it and the
// account is kept in dollars.
func (in *input) inDollars(f flexItem, e *event) {
	rate := in.flexNumber(f, "fxRateToBase")
	if e.currency == "USD" || !in.dollars[e.account] || !rate.IsPos() {
		return
	}
	c := &calc{}
	e.price.Decimal = c.mul(e.price.Decimal, rate.Decimal).Round(10)
	e.fees = c.mul(e.fees, rate.Decimal).Round(10)
	e.amount.Decimal = c.mul(e.amount.Decimal, rate.Decimal).Round(10)
	e.currency = "USD"
	if c.err != nil {
		in.addFault(f.at, "fxRateToBase: %v", c.err)
	}
}

// findDollars finds the accounts whose base currency is the dollar: the query says so, or a trade in
// dollars has a rate of 1.
func (in *input) findDollars(items []flexItem) {
	in.dollars = make(map[string]bool)
	for _, f := range items {
		rate, err := parseNumber(f.get("fxRateToBase"))
		if f.get("currency") == "USD" &&
			(f.name == "AccountInformation" || err == nil && rate.IsOne()) {
			in.dollars[f.get("accountId")] = true
		}
	}
}

// flexSymbol sets the ticker, or the symbol and the contract size of an option.
func (in *input) flexSymbol(f flexItem, e *event) {
	if f.get("assetCategory") != "OPT" {
		symbol := f.get("symbol")
		if f.get("assetCategory") == "CRYPTO" {
			symbol = cryptoPair(symbol, e.currency)
		}
		ticker, err := parseTicker(symbol)
		if err != nil {
			in.addFault(f.at, "symbol: %v", err)
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
		symbol, err = optionSymbol(f.get("underlyingSymbol"), in.flexDate(f, "expiry"),
			f.get("putCall"), f.get("strike"))
	}
	if err != nil {
		in.addFault(f.at, "symbol: %v", err)
	}
	e.ticker = symbol
}

// cryptoPair returns a coin as its pair with a currency: BTC and BTC.USD-PAXOS are BTC-USD.
func cryptoPair(symbol, currency string) string {
	coin, _, _ := cutAny(symbol, ".-")
	return coin + "-" + currency
}

func (in *input) flexNumber(f flexItem, names ...string) number {
	s := f.get(names...)
	if s == "" {
		return number{ok: true}
	}
	return in.readNumber(f.at, names[0], s)
}

// flexDate reads a date in those formats of a Flex query that are not ambiguous.
func (in *input) flexDate(f flexItem, names ...string) tax.Date {
	s := f.get(names...)
	day, _, _ := cutAny(s, ";, T")
	date, ok := parseDate(day, flexDates()...)
	if !ok {
		in.addFault(f.at, "%s: %q is not a date, expected 20240131 or 2024-01-31: choose yyyyMMdd in the Flex query", names[0], s)
	}
	return date
}

func flexDates() []string { return []string{"20060102", "2006-01-02", "02-Jan-06"} }

func (in *input) flexCash(f flexItem) {
	description := strings.ToLower(f.get("description"))
	if kind := strings.ToLower(f.get("type")); strings.Contains(kind, "return of capital") {
		description += " " + kind
	}
	if !f.isDetail() || !strings.Contains(description, "return of capital") ||
		strings.Contains(description, "tax") {
		why := whyCash
		if strings.Contains(strings.ToLower(f.get("type")), "dividend") {
			why = whyDividend
		}
		in.skip(f.at.line, f.text(), why, false)
		return
	}
	e := event{faults: in.faultCount(), at: f.at, text: f.text(), meaning: meaning{kind: capital},
		ref: f.get("transactionID"), account: f.get("accountId"),
		currency: f.get("currency"), amount: in.flexNumber(f, "amount"),
		date: in.flexDate(f, "dateTime", "reportDate")}
	in.flexSymbol(f, &e)
	in.inDollars(f, &e)
	if e.amount.IsNeg() {
		in.addFault(f.at, "amount: %s cancels a return of capital: remove it together with its original", e.amount)
	}
	in.record(e)
}

// marketClose is 16:00:00. Clocks count from 1.
const marketClose = tax.Clock(16*60*60 + 1)

// flexEffective returns the first day of a corporate action that was booked in the evening before it,
// or zero if it was not: the trades of that evening's day were made before the action.
func (in *input) flexEffective(f flexItem) tax.Date {
	booked := in.flexDate(f, "dateTime", "reportDate")
	if flexTime(f, booked) < marketClose {
		return 0
	}
	if f.get("reportDate") != "" {
		if day := in.flexDate(f, "reportDate"); day > booked {
			return day
		}
	}
	return booked + 1
}

var flexSplit = lazy.Regexp(`(?i)SPLIT ([0-9.]+) FOR ([0-9.]+)`)

// Descriptions of a change of the ticker and of a spin-off, with the old ticker or the parent's.
var (
	flexRename  = lazy.Regexp(`(?i)^([A-Z0-9. ]+?) ?\([^)]*\) CUSIP/ISIN CHANGE TO \([^)]*\)`)
	flexSpinOff = lazy.Regexp(`(?i)^([A-Z0-9. ]+?) ?\([^)]*\) SPINOFF +[0-9.]+ FOR [0-9.]+`)
)

// flexReorganization reads a change of the ticker, or returns why a record that is not a split
// cannot be imported: no record of a spin-off has the fraction of the basis that moves.
func (in *input) flexReorganization(f *flexItem) (why string) {
	description, before := f.get("description"), in.faultCount()
	if m := flexSpinOff().FindStringSubmatch(description); m != nil {
		return fmt.Sprintf("a spin-off from %s: add a spin_off row of %s with new_ticker %s, quantity %s and the basis_fraction that the company published, in signalbox CSV",
			m[1], m[1], oneLine(f.get("symbol")), oneLine(f.get("quantity")))
	}
	m := flexRename().FindStringSubmatch(description)
	if m == nil {
		return whyCorp
	}
	e := event{faults: before, at: f.at, text: f.text(), meaning: meaning{kind: rename},
		account: f.get("accountId"), quantity: in.flexNumber(*f, "quantity"),
		date: in.flexDate(*f, "dateTime", "reportDate"), reorg: m[0], effective: in.flexEffective(*f)}
	if e.quantity.IsNeg() {
		f.attr["symbol"] = m[1]
	}
	in.flexSymbol(*f, &e)
	if in.faultCount() == before {
		in.legs = append(in.legs, e)
	}
	return ""
}

// flexCorporate reads splits and changes of the ticker. The two halves of a reverse split have the same ratio and give one
// row: splits holds those that were read already.
func (in *input) flexCorporate(f *flexItem, splits map[string]bool) {
	m := flexSplit().FindStringSubmatch(f.get("actionDescription") + " " + f.get("description"))
	switch {
	case !f.isDetail():
		in.skip(f.at.line, f.text(), "repeats actions that are elsewhere in the file", false)
		return
	case m == nil:
		if why := in.flexReorganization(f); why != "" {
			in.skip(f.at.line, f.text(), why, true)
		}
		return
	}
	before := in.faultCount()
	ratio, err := parseRatio(m[1] + ":" + m[2])
	if err != nil {
		in.addFault(f.at, "description: split %s for %s %v", m[1], m[2], err)
	}
	// The old shares of a reverse split have a symbol of their own.
	f.attr["symbol"] = strings.TrimSuffix(f.get("symbol"), ".OLD")
	// It has no reference, because the first half is not the same one in every export.
	e := event{faults: before, at: f.at, text: f.text(), meaning: meaning{kind: split}, account: f.get("accountId"),
		currency: f.get("currency"), ratio: ratio, date: in.flexDate(*f, "dateTime", "reportDate"),
		effective: in.flexEffective(*f)}
	in.flexSymbol(*f, &e)
	if in.faultCount() > before {
		return
	}
	key := strings.Join([]string{e.account, e.date.String(), e.ticker, ratio.String()}, "\x1f")
	if splits[key] {
		in.skip(f.at.line, f.text(), "the other half of a split, which is imported already", false)
		return
	}
	splits[key] = true
	in.record(e)
}
