package importer

import (
	"strings"

	"signalbox/internal/lazy"
	"signalbox/internal/portfolio/tax"

	"github.com/govalues/decimal"
)

// schwabWords returns the values of Schwab's column Action.
func schwabWords() vocabulary {
	v := make(vocabulary)
	v.put(meaning{kind: buy}, "buy, buy to open")
	v.put(meaning{kind: sell}, "sell, sell to close")
	v.put(meaning{kind: reinvest}, "reinvest shares")
	v.put(meaning{kind: split}, "stock split")
	v.put(meaning{kind: reverse}, "reverse split, reverse stock split")
	v.put(meaning{kind: capital}, "return of capital, cash return of capital")
	v.put(meaning{kind: expire}, "expired")
	v.put(meaning{kind: exercise}, "exchange or exercise, exercised")
	v.put(meaning{short, WhyShort}, "sell short, buy to cover, cover short")
	v.put(meaning{kind: write}, "sell to open")
	v.put(meaning{kind: cover}, "buy to close")
	v.put(meaning{kind: assigned}, "assigned")
	v.put(meaning{cash, whyDividend}, "qualified dividend, cash dividend, "+
		"non-qualified div, special dividend, special qual div, qual div reinvest, "+
		"reinvest dividend, pr yr cash div, pr yr div reinvest, pr yr non-qual div, "+
		"pr yr special div, long term cap gain, short term cap gain, "+
		"long term cap gain reinvest, short term cap gain reinvest, div adjustment, "+
		"special non qual div, non-qual div, cash div")
	v.put(meaning{cash, whyCash}, "bank interest, credit interest, bond interest, "+
		"cd interest, margin interest, moneylink transfer, moneylink deposit, moneylink adj, "+
		"wire funds, wire funds received, wire funds adj, wire received, wire sent, "+
		"wire transfer, funds received, funds paid, service fee, adr mgmt fee, "+
		"foreign tax paid, foreign tax reclaim, misc cash entry, misc credits, nra tax adj, "+
		"nra withholding, tax withholding, tax reversal, irs withhold adj, adjustment, "+
		"futures mm sweep, visa purchase, atm withdrawal, auto s1 credit, auto s1 debit, "+
		"bill pay, promotional award, advisor fee, mgmt fee, deposit, schwab atm rebate")
	v.put(meaning{shares, whyTransfer}, "journaled shares, security transfer, "+
		"internal transfer, shares transfer, transfer of security or option in, "+
		"transfer of security or option out, journal")
	v.put(meaning{shares, whyReceived}, "stock plan activity, shares received")
	v.put(meaning{shares, whyLieu}, "cash in lieu")
	v.put(meaning{shares, whyBack}, "cancel buy, cancel sell, buy cancel, sell cancel")
	v.put(meaning{shares, whyCorp}, "stock merger, cash/stock merger, cash merger, "+
		"cash merger adj, spin-off, name change, mandatory reorg exc, reorganization, "+
		"stock div dist, tender offer, stock dividend, conversion, options frwd split, "+
		"options frwd split adj, options reverse split")
	v.put(meaning{shares, whyBond}, "principal payment, full redemption, "+
		"full redemption adj")
	return v
}

var schwabAccount = lazy.Regexp(`(?i)transactions +for (?:account )?(.*?)(?: +as of .*)?$`)

func (in *input) readSchwab(t *table, preamble []string) {
	for _, p := range preamble {
		if m := schwabAccount().FindStringSubmatch(strings.TrimRight(p, ", ")); m != nil {
			in.fileAccount = strings.TrimSpace(m[1])
		}
	}
	words := schwabWords()
	isFooter := func() bool {
		return strings.HasPrefix(strings.ToLower(t.get("date")), "transactions total")
	}
	in.readBroker(t, "date", isFooter, func(e *event) {
		action := normalize(t.get("action"))
		e.account, e.meaning, e.quantity = in.fileAccount, words[action], t.number("quantity")
		e.fees = t.number("fees & comm").Abs()
		switch {
		case e.why == whyTransfer && e.quantity.ok && e.quantity.IsZero():
			// A transfer or journal without a quantity moves only money.
			e.meaning = meaning{cash, whyCash}
		case e.kind == unknown && t.get("symbol") == "" && !e.quantity.present:
			e.meaning = meaning{cash, whyNoShares}
		case e.kind == unknown:
			in.addFault(t.at("action"),
				"action: %q is not known%s, expected one of Schwab's words like Buy, Sell or Reinvest Shares",
				t.get("action"), words.hint(action))
		}
		t.symbol(e, "symbol")
	})
}

// readBroker reads the records of a broker's CSV. isFooter reports whether a record is text after
// the table. complete adds to the event of a record what is particular to the broker.
func (in *input) readBroker(t *table, dateColumn string, isFooter func() bool,
	complete func(e *event)) {
	if !t.checkUniqueColumns() {
		return
	}
	for t.next() {
		if isFooter() {
			in.skip(t.line(), t.text(), whyFooter, false)
			continue
		}
		e := event{faults: in.faultCount(), at: t.at(), text: t.text(), currency: "USD",
			multiplier: decimal.Hundred, signed: true, date: t.usDate(dateColumn),
			price: t.number("price"), amount: t.number("amount")}
		complete(&e)
		in.record(e)
	}
}

// usDate reads an American date.
func (t *table) usDate(name string) tax.Date {
	date, ok := parseUSDate(t.get(name))
	if !ok {
		t.addFault(t.at(name),
			"%s: %q is not a date, expected something like 01/31/2024, the month first", name,
			t.get(name))
	}
	return date
}

// checkUniqueColumns refuses a header that has a column twice, because either could be the right
// one.
func (t *table) checkUniqueColumns() bool {
	for i, field := range t.fields {
		for name := range columnIndexes([]string{field}) {
			if t.head[name] != i {
				line, col := t.csv.FieldPos(i)
				t.addFault(position{line, col},
					"column %q appears a second time: remove one of the two", field)
				return false
			}
		}
	}
	return true
}

// symbol reads the ticker or option symbol of an event that needs one.
func (t *table) symbol(e *event, name string) {
	switch e.kind {
	case unknown, cash, shares, short:
		return
	}
	symbol, option, err := parseOption(t.get(name))
	if e.kind < buy { // a written option, which is skipped whatever its name is
		e.ticker, e.option = symbol, option && err == nil
		return
	}
	if !option {
		symbol, err = parseTicker(t.get(name))
	}
	if err != nil {
		t.addFault(t.at(name), "%s: %v", name, err)
	}
	e.ticker, e.option = symbol, option
}
