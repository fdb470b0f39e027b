package importer

import "strings"

// robinhoodWords returns the meaning of Robinhood's transaction codes.
func robinhoodWords() vocabulary {
	v := make(vocabulary)
	v.put(meaning{kind: buy}, "buy, bto")
	v.put(meaning{kind: sell}, "sell, stc")
	v.put(meaning{short, WhyShort}, "btcs, ssto, ss, bc, oasgnx")
	v.put(meaning{kind: write}, "sto")
	v.put(meaning{kind: cover}, "btc")
	v.put(meaning{kind: assigned}, "oasgn")
	v.put(meaning{kind: expire}, "oexp")
	v.put(meaning{kind: exercise}, "oexcs, oexs")
	v.put(meaning{kind: split}, "spl")
	v.put(meaning{kind: reverse}, "spr")
	v.put(meaning{kind: capital}, "roc")
	v.put(meaning{cash, whyDividend}, "cdiv, mdiv, qdiv, lcap, scap")
	v.put(meaning{cash, whyCash}, "ach, rtp, int, gold, gdbp, mint, slip, dfee, afee, "+
		"dtax, dcf, xent_cc, xent, dct, wire, t/a, jnlc, misc, futswp, gmpc, gdsr, iadj, "+
		"cfir, crrd, ira, rfee, rgfe, fee, refund, nra, nrat, abip, bca, chk, itrf, cdep, "+
		"csr, csh, dcnt, trf, trfi, trfo, ukbt")
	v.put(meaning{shares, whyTransfer}, "acati, acato, acats, acat, jnls, mtch")
	v.put(meaning{shares, whyReceived}, "rec, rwd, drip")
	v.put(meaning{shares, whyLieu}, "cil")
	v.put(meaning{shares, whyBack}, "scxl, bcxl")
	v.put(meaning{shares, whySettled}, "occ")
	v.put(meaning{shares, whyCorp}, "sdiv, mrgs, mrgc, soff, sxch, name, conv, exch, "+
		"tend, reorg, liq, worthless, cusip, oca")
	return v
}

func (in *input) readRobinhood(t *table) {
	words := robinhoodWords()
	isFooter := func() bool { return t.get("activity date") == "" && t.get("trans code") == "" }
	in.readBroker(t, "activity date", isFooter, func(e *event) {
		code, description := normalize(t.get("trans code")),
			strings.Join(strings.Fields(t.get("description")), " ")
		e.account, e.feesInAmount = t.get("account number"), true
		e.meaning, e.quantity = words[code], t.robinhoodQuantity()
		// Only an option that was held can be exercised; the sign of the quantity does not show it.
		e.held = e.kind == exercise
		if code == "buy" && strings.Contains(normalize(description), "dividend reinvestment") {
			e.kind = reinvest
		}
		if e.kind == unknown {
			in.addFault(t.at("trans code"),
				"trans code: %q is not known%s, expected one of Robinhood's codes like Buy, Sell or CDIV",
				t.get("trans code"), words.hint(code))
		}
		if e.kind == write || e.kind == cover || e.kind == assigned {
			symbol, option, err := parseOption(description)
			e.ticker, e.option = symbol, option && err == nil
			return
		}
		if code != "bto" && code != "stc" && e.kind != expire && e.kind != exercise {
			t.symbol(e, "instrument")
			return
		}
		var err error
		if e.ticker, e.option, err = parseOption(description); err != nil || !e.option {
			in.addFault(t.at("description"),
				"description: %q does not name an option, expected something like AAPL 1/19/2024 Call $150.00", oneLine(description))
		}
	})
}

// robinhoodQuantity reads a quantity. "10S" means that ten shares were removed.
func (t *table) robinhoodQuantity() number {
	s := t.get("quantity")
	rest, out := strings.CutSuffix(strings.ToUpper(s), "S")
	if !out {
		return t.number("quantity")
	}
	n, err := parseNumber(rest)
	if err != nil {
		t.addFault(t.at("quantity"), "quantity: %q %v", s, err)
	}
	n.Decimal = n.Neg()
	return n
}
