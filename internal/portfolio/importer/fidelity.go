package importer

import (
	"cmp"
	"slices"
	"strings"

	"signalbox/internal/lazy"
)

// fidelityMeaning recognises the sentences in Fidelity's column Action by how they begin. Moved
// reports whether the record has a quantity. More specific beginnings come first.
func fidelityMeaning(action string, moved bool) meaning {
	has := func(word string) bool { return strings.Contains(action, word) }
	begins := func(words ...string) bool {
		return slices.ContainsFunc(words,
			func(w string) bool { return strings.HasPrefix(action, w) })
	}
	switch {
	case has("cancel") && begins("you bought", "you sold", "buy cancel", "sell cancel", "cancel",
		"reinvestment"):
		return meaning{shares, whyBack}
	case begins("you sold opening"):
		return meaning{kind: write}
	case begins("you bought closing"):
		return meaning{kind: cover}
	case begins("you sold short", "you bought short", "you bought to cover"):
		return meaning{short, WhyShort}
	case begins("you bought"):
		return meaning{kind: buy}
	case begins("you sold"):
		return meaning{kind: sell}
	case begins("reinvestment cash", "redemption from core", "purchase into core"):
		return meaning{cash, whyFund}
	case begins("reinvestment"):
		return meaning{kind: reinvest}
	case begins("expired"):
		return meaning{kind: expire}
	case begins("assigned"):
		return meaning{kind: assigned}
	case begins("exercised"):
		return meaning{kind: exercise}
	case begins("reverse split"), begins("distribution") && has("reverse split"):
		return meaning{kind: reverse}
	case begins("stock split", "split", "forward split"), begins("distribution") && has("split"):
		return meaning{kind: split}
	case begins("return of capital", "ret of capital"):
		return meaning{kind: capital}
	case begins("in lieu of"):
		return meaning{shares, whyLieu}
	case begins("redemption payout", "redeemed", "maturity", "called"):
		return meaning{shares, whyBond}
	case begins("merger", "tender", "exchanged to", "name changed", "spin", "conversion",
		"distribution") && moved,
		begins("merger", "name changed", "exchanged to"):
		return meaning{shares, whyCorp}
	case begins("transfer", "journal", "rollover", "conv to roth", "shares deposited",
		"normal distr", "contribution") && moved:
		return meaning{shares, whyTransfer}
	case begins("dividend", "long-term cap gain", "short-term cap gain", "distribution"):
		return meaning{cash, whyDividend}
	case begins("interest", "foreign tax", "fee", "adj", "margin", "electronic funds", "direct",
		"debit", "check", "wire", "bill",
		"cash", "transfer", "journal", "contribution", "partic contr", "co contr",
		"rollover", "normal distr", "adr", "advisory", "service", "tax", "federal tax", "state tax",
		"conv to roth", "roth conversion",
		"deposit", "withdrawal", "automatic", "refund", "rebate", "royalty", "foreign",
		"early dist", "non-resident") && !moved:
		return meaning{cash, whyCash}
	}
	return meaning{}
}

// fidelityReorg matches the number that both halves of a reverse split have.
var fidelityReorg = lazy.Regexp(`#reor +([a-z0-9]+)`)

// fidelityHints returns the beginnings to suggest for an unknown sentence.
func fidelityHints() []string {
	return []string{"you bought", "you sold", "reinvestment", "dividend received", "expired",
		"assigned", "exercised", "reverse split",
		"stock split", "return of capital", "in lieu of", "merger", "name changed",
		"transferred from", "transferred to", "distribution"}
}

func (in *input) readFidelity(t *table) {
	// The footer is free text. A record that begins with a digit is a transaction, and refused if
	// it is too short.
	isFooter := func() bool {
		first := t.fields[0]
		return len(t.fields) < len(t.head) && (first == "" || first[0] < '0' || first[0] > '9')
	}
	in.readBroker(t, "run date", isFooter, func(e *event) {
		e.account, e.quantity = t.get("account number", "account"), t.number("quantity")
		e.currency = cmp.Or(t.get("currency"), e.currency)
		c := &calc{}
		e.fees = c.add(t.number("commission").Abs(), t.number("fees").Abs())
		if c.err != nil {
			in.addFault(t.at("fees"), "fees: %v", c.err)
		}
		action := normalize(t.get("action"))
		e.meaning = fidelityMeaning(action, !e.quantity.IsZero())
		if e.kind == unknown && t.get("symbol") == "" && e.quantity.IsZero() && e.quantity.ok {
			e.meaning = meaning{cash, whyNoShares}
		} else if e.kind == unknown && e.quantity.ok {
			words := strings.Fields(action)
			in.addFault(t.at("action"),
				"action: %q is not known%s, expected one of Fidelity's sentences like YOU BOUGHT, YOU SOLD or REINVESTMENT",
				oneLine(t.get("action")), hint{strings.Join(words[:min(len(words), 2)], " "),
					fidelityHints})
		}
		if m := fidelityReorg().FindStringSubmatch(action); m != nil {
			e.reorg = m[1]
		}
		if _, rest, ok := strings.Cut(action, " as of "); ok && e.kind != unknown {
			day, _, _ := strings.Cut(rest, " ")
			if date, ok := parseDate(day, "Jan-2-2006", "1-2-06", "1-2-2006", "1/2/06",
				"1/2/2006"); ok {
				e.date = date
			}
		}
		t.symbol(e, "symbol")
	})
}
