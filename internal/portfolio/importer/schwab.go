package importer

import (
	"regexp"
	"strings"

	"github.com/govalues/decimal"
)

// schwabMeaning knows the words of Schwab's column Action.
func schwabMeaning(action string) meaning {
	switch action {
	case "buy", "buy to open":
		return meaning{kind: buy}
	case "sell", "sell to close":
		return meaning{kind: sell}
	case "reinvest shares":
		return meaning{kind: reinvest}
	case "stock split", "reverse split", "reverse stock split":
		return meaning{kind: split}
	case "return of capital", "cash return of capital":
		return meaning{kind: capital}
	case "expired":
		return meaning{kind: expire}
	case "assigned", "exchange or exercise", "exercised":
		return meaning{kind: exercise}
	case "sell short", "sell to open", "buy to close", "buy to cover", "cover short":
		return meaning{short, whyShort}
	case "qualified dividend", "cash dividend", "non-qualified div", "special dividend", "special qual div", "qual div reinvest",
		"reinvest dividend", "pr yr cash div", "pr yr div reinvest", "pr yr non-qual div", "pr yr special div", "long term cap gain",
		"short term cap gain", "long term cap gain reinvest", "short term cap gain reinvest", "div adjustment",
		"special non qual div", "non-qual div", "cash div":
		return meaning{cash, whyDividend}
	case "bank interest", "credit interest", "bond interest", "cd interest", "margin interest", "moneylink transfer",
		"moneylink deposit", "moneylink adj", "wire funds", "wire funds received", "wire received", "wire sent", "funds received",
		"funds paid", "service fee", "adr mgmt fee", "foreign tax paid", "foreign tax reclaim", "misc cash entry", "misc credits", "nra tax adj",
		"nra withholding", "tax withholding", "adjustment", "futures mm sweep", "visa purchase", "atm withdrawal", "auto s1 credit",
		"auto s1 debit", "bill pay", "promotional award", "advisor fee", "mgmt fee", "wire funds adj", "deposit", "schwab atm rebate":
		return meaning{cash, whyCash}
	case "journaled shares", "security transfer", "internal transfer", "shares transfer", "transfer of security or option in",
		"transfer of security or option out":
		return meaning{shares, whyTransfer}
	case "stock plan activity", "shares received":
		return meaning{shares, whyReceived}
	case "cash in lieu":
		return meaning{shares, whyLieu}
	case "stock merger", "cash/stock merger", "cash merger", "cash merger adj", "spin-off", "name change", "mandatory reorg exc",
		"principal payment", "full redemption", "full redemption adj", "reorganization", "stock div dist", "tender offer", "stock dividend":
		return meaning{shares, whyCorp}
	}
	return meaning{}
}

var schwabAccount = regexp.MustCompile(`(?i)transactions +for (?:account )?(.*?)(?: +as of .*)?$`)

func (in *intake) readSchwab(t *table, preamble []string) {
	for _, p := range preamble {
		if m := schwabAccount.FindStringSubmatch(strings.TrimRight(p, ", ")); m != nil {
			in.fileAccount = strings.TrimSpace(m[1])
		}
	}
	for t.next(&in.faults) {
		if strings.HasPrefix(strings.ToLower(t.get("date")), "transactions total") {
			in.skip(t.line(), t.text(), whyFooter, false)
			continue
		}
		before := len(in.list) + in.more
		e := event{at: t.at(), text: t.text(), account: in.fileAccount, currency: "USD", multiplier: decimal.Hundred}
		action := strings.ToLower(strings.Join(strings.Fields(t.get("action")), " "))
		e.meaning = schwabMeaning(action)
		e.date = in.usDate(t, "date")
		e.quantity = t.number(&in.faults, "quantity")
		e.price = t.number(&in.faults, "price")
		e.amount = t.number(&in.faults, "amount")
		e.fees = t.number(&in.faults, "fees & comm").Abs()
		switch {
		case action == "journal" && e.quantity.IsZero():
			e.meaning = meaning{cash, whyCash}
		case action == "journal":
			e.meaning = meaning{shares, whyTransfer}
		case e.kind == unknown:
			in.add(t.at("action"), "action: %q is not known, expected one of Schwab's words like Buy, Sell or Reinvest Shares", t.get("action"))
		}
		in.symbol(t, &e, "symbol")
		if len(in.list)+in.more == before {
			in.record(e)
		}
	}
}

// usDate reads an American date.
func (in *intake) usDate(t *table, name string) string {
	date, ok := parseUSDate(t.get(name))
	if !ok {
		in.add(t.at(name), "%s: %q is no date, expected something like 01/31/2024", name, t.get(name))
	}
	return date
}

// symbol reads a ticker or an option's symbol, for an event that needs one.
func (in *intake) symbol(t *table, e *event, name string) {
	switch e.kind {
	case unknown, cash, shares, short:
		return
	}
	symbol, option, err := parseOption(t.get(name))
	if !option {
		symbol, err = parseTicker(t.get(name))
	}
	if err != nil {
		in.add(t.at(name), "%s: %v", name, err)
	}
	e.ticker, e.option = symbol, option
}
