package importer

// vanguardWords returns the values of Vanguard's column Transaction Type.
func vanguardWords() vocabulary {
	v := make(vocabulary)
	v.put(meaning{kind: buy}, "buy, buy to open")
	v.put(meaning{kind: sell}, "sell, sell to close")
	v.put(meaning{kind: reinvest}, "reinvestment")
	v.put(meaning{short, WhyShort}, "sell short, buy to cover")
	v.put(meaning{kind: write}, "sell to open")
	v.put(meaning{kind: cover}, "buy to close")
	v.put(meaning{cash, whyDividend}, "dividend, capital gain (lt), capital gain (st), distribution")
	v.put(meaning{cash, whyFund}, "sweep in, sweep out")
	v.put(meaning{cash, whyCash}, "interest, fee, advisory fee, funds received, withdrawal, "+
		"contribution, foreign tax withheld, tax withheld")
	return v
}

// vanguardHead are the columns that identify Vanguard's history. Its files begin with the holdings.
func vanguardHead() []string {
	return []string{"account number", "trade date", "transaction type", "symbol", "shares",
		"share price", "net amount"}
}

func isVanguardHoldings(head map[string]int) bool {
	return hasColumns(head, "account number", "investment name", "symbol", "shares", "share price",
		"total value")
}

func (in *input) readVanguard(t *table) {
	words := vanguardWords()
	isFooter := func() bool { return len(t.fields) < len(t.head)/2 }
	in.readBroker(t, "trade date", isFooter, func(e *event) {
		e.account, e.quantity = t.get("account number"), t.number("shares")
		e.price, e.amount = t.nonZero("share price"), t.nonZero("net amount")
		e.fees = t.number("commission fees", "commissions and fees", "commissions & fees").Abs()
		in.recognise(t, e, words, "transaction type")
		t.symbol(e, "symbol")
	})
}

// nonZero reads a column in which a broker prints 0 if there is no number.
func (t *table) nonZero(names ...string) number {
	n := t.number(names...)
	n.present = n.present && !n.IsZero()
	return n
}

const whyUnknown = "an unknown action that moved shares: add a row for it in signalbox CSV"

// recognise sets the meaning of an event by the word in a column. Shares that an unknown word moved
// are not known, nor is what cash for a security means that such a word names, such as a return of
// capital. Anything else is cash.
func (in *input) recognise(t *table, e *event, words vocabulary, column string) {
	e.meaning = words[normalize(t.get(column))]
	symbol := t.get("symbol")
	switch {
	case e.kind != unknown:
	case e.quantity.IsZero() && (symbol == "" || symbol == "--"):
		e.meaning = meaning{cash, whyNoShares}
	default:
		e.meaning = meaning{shares, whyUnknown}
	}
}
