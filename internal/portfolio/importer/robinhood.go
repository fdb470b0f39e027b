package importer

import (
	"strings"

	"github.com/govalues/decimal"
)

// robinhoodMeaning knows Robinhood's transaction codes.
func robinhoodMeaning(code, description string) meaning {
	switch code {
	case "BUY":
		if strings.Contains(strings.ToLower(description), "dividend reinvestment") {
			return meaning{kind: reinvest}
		}
		return meaning{kind: buy}
	case "BTO":
		return meaning{kind: buy}
	case "SELL", "STC":
		return meaning{kind: sell}
	case "STO", "BTC", "BTCS", "SSTO":
		return meaning{short, whyShort}
	case "OEXP":
		return meaning{kind: expire}
	case "OASGN", "OEXCS", "OEXS", "OCA":
		return meaning{kind: exercise}
	case "SPL", "SPR":
		return meaning{kind: split}
	case "ROC":
		return meaning{kind: capital}
	case "CDIV", "MDIV", "SDIV", "QDIV", "LCAP", "SCAP":
		return meaning{cash, whyDividend}
	case "ACH", "RTP", "INT", "GOLD", "GDBP", "MINT", "SLIP", "DFEE", "AFEE", "DTAX", "DCF", "XENT_CC", "XENT", "SCXL", "DCT", "WIRE",
		"T/A", "JNLC", "MISC", "FUTSWP", "GMPC", "GDSR", "IADJ", "CFIR", "CRRD", "IRA", "RFEE", "REFUND", "NRA", "NRAT", "ABIP", "BCA", "CHK", "ITRF":
		return meaning{cash, whyCash}
	case "ACATI", "ACATO", "ACATS", "JNLS", "MTCH":
		return meaning{shares, whyTransfer}
	case "REC", "RWD", "DRIP":
		return meaning{shares, whyReceived}
	case "CIL":
		return meaning{shares, whyLieu}
	case "MRGS", "MRGC", "SOFF", "SXCH", "NAME", "CONV", "EXCH", "TEND", "REORG", "LIQ", "WORTHLESS", "CUSIP":
		return meaning{shares, whyCorp}
	}
	return meaning{}
}

func (in *intake) readRobinhood(t *table) {
	for t.next(&in.faults) {
		if t.get("activity date") == "" && t.get("trans code") == "" {
			in.skip(t.line(), t.text(), whyFooter, false)
			continue
		}
		before := len(in.list) + in.more
		e := event{at: t.at(), text: t.text(), account: t.get("account number"), currency: "USD", multiplier: decimal.Hundred,
			feesInAmount: true}
		code, description := strings.ToUpper(t.get("trans code")), strings.Join(strings.Fields(t.get("description")), " ")
		e.meaning = robinhoodMeaning(code, description)
		if e.kind == unknown {
			in.add(t.at("trans code"), "trans code: %q is not known, expected one of Robinhood's codes like Buy, Sell or CDIV", t.get("trans code"))
		}
		e.date = in.usDate(t, "activity date")
		e.quantity = in.robinhoodQuantity(t)
		e.price = t.number(&in.faults, "price")
		e.amount = t.number(&in.faults, "amount")
		if code == "BTO" || code == "STC" || e.kind == expire || e.kind == exercise {
			symbol, ok, err := parseOption(description)
			if err == nil && ok {
				e.ticker, e.option = symbol, true
			} else {
				in.add(t.at("description"), "description: %q names no option, expected something like AAPL 1/19/2024 Call $150.00", oneLine(description))
			}
		} else {
			in.symbol(t, &e, "instrument")
		}
		if len(in.list)+in.more == before {
			in.record(e)
		}
	}
}

// robinhoodQuantity reads a quantity where "10S" means ten shares that went out.
func (in *intake) robinhoodQuantity(t *table) number {
	s := t.get("quantity")
	rest, out := strings.CutSuffix(strings.ToUpper(s), "S")
	if !out {
		return t.number(&in.faults, "quantity")
	}
	d, scale, err := parseNumber(rest)
	if err != nil {
		in.add(t.at("quantity"), "quantity: %q %v", s, err)
		return number{}
	}
	return number{Decimal: d.Neg(), scale: scale, present: true, ok: true}
}
