package importer

import (
	"strings"

	"signalbox/internal/lazy"
)

// etradeWords returns the transaction types of E*TRADE.
func etradeWords() vocabulary {
	v := make(vocabulary)
	v.put(meaning{kind: buy}, "bought, bought to open")
	v.put(meaning{kind: sell}, "sold, sold to close")
	v.put(meaning{kind: write}, "sold short, sold to open")
	v.put(meaning{kind: cover}, "bought to close, bought to cover")
	v.put(meaning{kind: assigned}, "option assigned")
	v.put(meaning{cash, whyDividend}, "dividend, qualified dividend, lt cap gain distribution, "+
		"st cap gain distribution, capital gain")
	v.put(meaning{cash, whyCash}, "interest, interest income, fee, wire, transfer, online transfer, "+
		"direct debit, direct deposit, deposit, withdrawal, tax withholding")
	return v
}

// etradeOption matches the description of an option.
var etradeOption = lazy.Regexp(
	`(?i)^(CALL|PUT) +([A-Z.]+) +([0-9]{2}/[0-9]{2}/[0-9]{2}) +([0-9.]+)`)

// etradeAccount matches the lines above the table that name the account.
var etradeAccount = lazy.Regexp(
	`(?i)^(?:for account:,|account activity for )(.*?)(?: from .*)?$`)

// readETrade reads the histories that E*TRADE exports: until 2024 with TransactionDate, since then
// with Activity/Trade Date.
func (in *input) readETrade(t *table, preamble []string, dateColumn string) {
	for _, p := range preamble {
		if m := etradeAccount().FindStringSubmatch(strings.TrimRight(p, ", ")); m != nil {
			in.fileAccount = strings.TrimSpace(m[1])
		}
	}
	words := etradeWords()
	isFooter := func() bool { return len(t.fields) < len(t.head)/2 }
	in.readBroker(t, dateColumn, isFooter, func(e *event) {
		e.account, e.quantity = in.fileAccount, t.number("quantity", "quantity #")
		e.price, e.amount = t.nonZero("price", "price $"), t.nonZero("amount", "amount $")
		e.fees = t.number("commission").Abs()
		in.recognise(t, e, words, t.name([]string{"transactiontype", "activity type"}))
		// A dividend with a quantity is its reinvestment; the cash is a record of its own.
		if e.why == whyDividend && !e.quantity.IsZero() && e.amount.IsNeg() {
			e.meaning = meaning{kind: reinvest}
		}
		m := etradeOption().FindStringSubmatch(t.get("description"))
		if m == nil {
			if t.get("securitytype") == "OPTN" && e.kind >= buy {
				e.meaning = meaning{shares, whyUnknown}
			}
			t.symbol(e, "symbol")
			return
		}
		date, ok := parseDate(m[3], "01/02/06")
		symbol, err := optionSymbol(m[2], date, m[1], m[4])
		if !ok || err != nil {
			in.addFault(t.at("description"), "description: %q does not name an option, expected something like CALL SPY 01/19/24 450.000",
				oneLine(t.get("description")))
		}
		e.ticker, e.option = symbol, true
	})
}
