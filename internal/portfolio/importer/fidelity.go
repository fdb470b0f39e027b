package importer

import (
	"strings"

	"github.com/govalues/decimal"
)

// fidelityMeaning knows how the sentences in Fidelity's column Action begin. Longer beginnings stand first.
func fidelityMeaning(action string, moved bool) meaning {
	has := func(words ...string) bool {
		for _, w := range words {
			if strings.Contains(action, w) {
				return true
			}
		}
		return false
	}
	begins := func(words ...string) bool {
		for _, w := range words {
			if strings.HasPrefix(action, w) {
				return true
			}
		}
		return false
	}
	switch {
	case begins("you sold opening", "you bought closing", "you sold short", "you bought short", "you bought to cover"):
		return meaning{short, whyShort}
	case begins("you bought"):
		return meaning{kind: buy}
	case begins("you sold"):
		return meaning{kind: sell}
	case begins("reinvestment"):
		return meaning{kind: reinvest}
	case begins("expired"):
		return meaning{kind: expire}
	case begins("assigned", "exercised"):
		return meaning{kind: exercise}
	case begins("reverse split", "stock split", "split") || begins("distribution") && has("split"):
		return meaning{kind: split}
	case begins("return of capital", "ret of capital"):
		return meaning{kind: capital}
	case begins("in lieu of"):
		return meaning{shares, whyLieu}
	case begins("merger", "tender", "exchanged to", "name changed", "spin", "conversion", "redeemed", "distribution") && moved,
		begins("merger", "name changed", "exchanged to"):
		return meaning{shares, whyCorp}
	case begins("transfer", "journal", "rollover", "conv to roth", "shares deposited", "normal distr", "contribution") && moved:
		return meaning{shares, whyTransfer}
	case begins("dividend", "long-term cap gain", "short-term cap gain", "distribution"):
		return meaning{cash, whyDividend}
	case begins("interest", "foreign tax", "fee", "adj", "margin", "electronic funds", "direct", "debit", "check", "wire", "bill",
		"cash", "transfer", "journal", "redemption from core", "purchase into core", "contribution", "partic contr", "co contr",
		"rollover", "normal distr", "adr", "advisory", "service", "tax", "federal tax", "state tax", "conv to roth", "roth conversion",
		"deposit", "withdrawal", "automatic", "refund", "rebate", "royalty", "foreign", "early dist", "non-resident") && !moved:
		return meaning{cash, whyCash}
	case begins("redemption from core", "purchase into core"):
		return meaning{cash, whyFund}
	}
	return meaning{}
}

func (in *intake) readFidelity(t *table) {
	for t.next(&in.faults) {
		// The footer is free text. A record that begins with a digit is taken for a transaction, and refused if it is cut.
		if first := t.fields[0]; len(t.fields) < len(t.head) && (first == "" || first[0] < '0' || first[0] > '9') {
			in.skip(t.line(), t.text(), whyFooter, false)
			continue
		}
		before := len(in.list) + in.more
		e := event{at: t.at(), text: t.text(), account: t.get("account number", "account"), multiplier: decimal.Hundred,
			currency: t.get("currency")}
		if e.currency == "" {
			e.currency = "USD"
		}
		e.date = in.usDate(t, "run date")
		e.quantity = t.number(&in.faults, "quantity")
		e.price = t.number(&in.faults, "price")
		e.amount = t.number(&in.faults, "amount")
		c := &calc{}
		e.fees = c.add(t.number(&in.faults, "commission").Abs(), t.number(&in.faults, "fees").Abs())
		if c.err != nil {
			in.add(t.at("fees"), "fees: %v", c.err)
		}
		action := strings.ToLower(strings.Join(strings.Fields(t.get("action")), " "))
		e.meaning = fidelityMeaning(action, !e.quantity.IsZero())
		if e.kind == unknown && e.quantity.ok {
			in.add(t.at("action"), "action: %q is not known, expected one of Fidelity's sentences like YOU BOUGHT, YOU SOLD or REINVESTMENT",
				oneLine(t.get("action")))
		}
		if i := strings.Index(action, " as of "); i >= 0 && e.kind != unknown {
			words := strings.Fields(action[i+len(" as of "):])
			if len(words) > 0 {
				if date, ok := parseDate(words[0], "Jan-2-2006", "1-2-06", "1-2-2006", "1/2/06", "1/2/2006"); ok {
					e.date = date
				}
			}
		}
		in.symbol(t, &e, "symbol")
		if len(in.list)+in.more == before {
			in.record(e)
		}
	}
}
