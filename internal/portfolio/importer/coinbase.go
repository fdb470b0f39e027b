package importer

import (
	"strings"
	"time"

	"github.com/govalues/decimal"

	"signalbox/internal/portfolio/tax"
)

// coinbaseWords returns Coinbase's transaction types.
func coinbaseWords() vocabulary {
	v := make(vocabulary)
	// Income in coins has its value on that day as its basis (Rev. Rul. 2023-14).
	v.put(meaning{kind: buy}, "buy, advanced trade buy, staking income, rewards income, reward income, "+
		"learning reward, coinbase earn, inflation reward")
	v.put(meaning{kind: sell}, "sell, advanced trade sell")
	v.put(meaning{cash, whyCash}, "subscription, subscription rebates (24 hours)")
	v.put(meaning{shares, whyTransfer}, "send, receive, exchange deposit, exchange withdrawal, "+
		"pro deposit, pro withdrawal, vault withdrawal")
	return v
}

const whyConvert = "coins were exchanged without both amounts: add a sell row and a buy row in signalbox CSV"

// coinbaseHead are the columns that identify Coinbase's history. Of the others, some have two names.
func coinbaseHead() []string {
	return []string{"timestamp", "transaction type", "asset", "quantity transacted", "subtotal"}
}

// readCoinbase reads Coinbase's history of transactions. A coin is its pair with the dollar, such as
// BTC-USD. Basis and proceeds are the total that was paid, because the printed price leaves out the
// spread.
func (in *input) readCoinbase(t *table) {
	words := coinbaseWords()
	if !t.checkUniqueColumns() {
		return
	}
	var converts []event // in pairs of equal references
	for t.next() {
		if len(t.fields) < len(t.head)/2 {
			in.skip(t.line(), t.text(), whyFooter, false)
			continue
		}
		e := event{faults: in.faultCount(), at: t.at(), text: t.text(), ref: t.get("id"),
			currency:   strings.ToUpper(t.get("price currency", "spot price currency")),
			quantity:   t.number("quantity transacted"),
			multiplier: decimal.One}
		in.recognise(t, &e, words, "transaction type")
		e.date, e.time = in.coinbaseTime(t)
		asset := strings.ToUpper(t.get("asset"))
		kind := normalize(t.get("transaction type"))
		converted := kind == "convert"
		if asset == e.currency || asset == "USD" {
			e.meaning, e.quantity = meaning{cash, whyCash}, number{ok: true}
		}
		if converted || e.kind >= buy {
			e.amount = t.money("total (inclusive of fees and/or spread)",
				"total (inclusive of fees)", "total")
			e.fees = t.money("fees and/or spread", "fees").Decimal
			if !e.amount.present {
				e.amount = t.money("subtotal")
				if !e.fees.IsZero() {
					in.addFault(t.at("fees and/or spread", "fees"),
						"fees: there are fees of %s and no total, expected what was paid with them",
						e.fees)
				}
			}
			ticker, err := parseTicker(asset + "-USD")
			if err != nil {
				in.addFault(t.at("asset"), "asset: %v", err)
			}
			e.ticker = ticker
		}
		if converted && in.faultCount() == e.faults {
			e.meaning = meaning{shares, whyConvert}
			converts = append(converts, e)
			continue
		}
		in.record(e)
	}
	in.recordConverts(converts)
}

// money reads an amount, which may have the sign of another currency.
func (t *table) money(names ...string) number {
	s := strings.TrimSpace(strings.NewReplacer("€", "", "£", "").Replace(t.get(names...)))
	if s == "" {
		return number{ok: true}
	}
	n := t.readNumber(t.at(names...), t.name(names), s)
	n.Decimal = n.Abs()
	return n
}

// coinbaseTime returns the day and the time of a record, which are in UTC.
func (in *input) coinbaseTime(t *table) (tax.Date, tax.Clock) {
	s := strings.TrimSuffix(strings.TrimSuffix(t.get("timestamp"), " UTC"), "Z")
	day, clock, _ := cutAny(s, " T")
	date, ok := parseDate(day, time.DateOnly)
	var known tax.Clock
	if len(clock) == len(time.TimeOnly) {
		var err error
		known, err = tax.ParseClock(clock)
		ok = ok && err == nil
	}
	if !ok {
		in.addFault(t.at("timestamp"),
			"timestamp: %q is not a time, expected something like 2024-01-31 14:30:00 UTC",
			t.get("timestamp"))
	}
	return date, known
}

// recordConverts records exchanges of one coin for another. One that has a record for each coin is
// a sale and a purchase; older files have one record, which does not say enough.
func (in *input) recordConverts(converts []event) {
	pairs := make(map[string][]event)
	for _, e := range converts {
		pairs[e.ref] = append(pairs[e.ref], e)
	}
	for _, e := range converts {
		if p := pairs[e.ref]; e.ref != "" && len(p) == 2 &&
			p[0].quantity.Sign()*p[1].quantity.Sign() < 0 {
			e.meaning = meaning{kind: buy}
			if e.quantity.IsNeg() {
				e.meaning = meaning{kind: sell}
			}
			e.ref += " " + e.ticker
		}
		in.record(e)
	}
}
