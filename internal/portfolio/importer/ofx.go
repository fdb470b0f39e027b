package importer

import (
	"bytes"
	"fmt"
	"io"
	"regexp"
	"strings"
	"time"

	"github.com/aclindsa/ofxgo"
	"github.com/govalues/decimal"
)

// maxOFX bounds an OFX file more tightly than others: its decoder recurses with the depth of the elements.
const maxOFX = 16 << 20

const ofxHeader = "OFXHEADER:100 DATA:OFXSGML VERSION:102 SECURITY:NONE ENCODING:USASCII CHARSET:1252 COMPRESSION:NONE " +
	"OLDFILEUID:NONE NEWFILEUID:NONE "

// readOFX reads the investment statements of an OFX or QFX file.
func (in *intake) readOFX(text []byte) {
	if len(text) > maxOFX {
		in.add(place{1, 1}, "the OFX file is larger than %d MB: export it in parts", maxOFX>>20)
		return
	}
	body := bytes.TrimLeft(text, " \t\n")
	above := bytes.Count(text[:len(text)-len(body)], []byte("\n"))
	if !bytes.Contains(body[:min(len(body), 1024)], []byte("OFXHEADER")) {
		// Some servers leave the header out. It has no line of its own, so that the lines stay right.
		body = append([]byte(ofxHeader), body...)
	}
	response, line, err := decodeOFX(body)
	if err != nil {
		in.add(place{above + line, 1}, "this is not OFX that can be read: %s; the fault is in this line or just before it", err.Error())
		return
	}
	o := &ofxFile{intake: in, securities: make(map[ofxgo.String]ofxgo.Security), lines: fitidLines(text)}
	for _, m := range response.SecList {
		list, ok := m.(*ofxgo.SecurityList)
		if !ok {
			continue
		}
		for _, s := range list.Securities {
			o.securities[secInfo(s).SecID.UniqueID] = s
		}
	}
	statements := 0
	for _, m := range response.InvStmt {
		if s, ok := m.(*ofxgo.InvStatementResponse); ok {
			statements++
			o.statement(s)
		}
	}
	if statements == 0 {
		in.add(place{1, 1}, "the OFX file has no investment statement, expected the export of a brokerage account, not of a bank or card")
	}
}

// decodeOFX also finds the line of an error, which the decoder does not tell: it reads byte by byte, so the bytes it
// has taken show how far it came.
func decodeOFX(text []byte) (response *ofxgo.Response, line int, err error) {
	r := &slowReader{text: text}
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("the decoder broke down: %v", p)
		}
		line = 1 + bytes.Count(text[:r.read], []byte("\n"))
	}()
	response, err = ofxgo.DecodeResponse(r)
	return response, 0, err
}

type slowReader struct {
	text []byte
	read int
}

func (r *slowReader) Read(p []byte) (int, error) {
	if r.read == len(r.text) {
		return 0, io.EOF
	}
	if len(p) == 0 {
		return 0, nil
	}
	p[0] = r.text[r.read]
	r.read++
	return 1, nil
}

var fitidForm = regexp.MustCompile(`<FITID>\s*([^<\n]*)`)

// fitidLines finds the lines of the transactions by their ids, in order.
func fitidLines(text []byte) map[string][]int {
	lines := make(map[string][]int)
	line, from := 1, 0
	for _, m := range fitidForm.FindAllSubmatchIndex(text, -1) {
		line += bytes.Count(text[from:m[0]], []byte("\n"))
		from = m[0]
		id := strings.TrimSpace(string(text[m[2]:m[3]]))
		lines[id] = append(lines[id], line)
	}
	return lines
}

func secInfo(s ofxgo.Security) ofxgo.SecInfo {
	switch s := s.(type) {
	case ofxgo.StockInfo:
		return s.SecInfo
	case ofxgo.MFInfo:
		return s.SecInfo
	case ofxgo.OptInfo:
		return s.SecInfo
	case ofxgo.DebtInfo:
		return s.SecInfo
	case ofxgo.OtherInfo:
		return s.SecInfo
	}
	return ofxgo.SecInfo{}
}

type ofxFile struct {
	*intake
	securities map[ofxgo.String]ofxgo.Security
	lines      map[string][]int
	account    string
	currency   string
}

func (o *ofxFile) statement(s *ofxgo.InvStatementResponse) {
	o.account = string(s.InvAcctFrom.AcctID)
	o.currency = symbolOf(s.CurDef)
	if s.InvTranList == nil {
		o.note("account %s has a statement without transactions", o.account)
		return
	}
	for _, t := range s.InvTranList.InvTransactions {
		o.transaction(t)
	}
	for _, b := range s.InvTranList.BankTransactions {
		for _, t := range b.Transactions {
			o.skip(o.lineOf(t.FiTID).line, "INVBANKTRAN "+string(t.FiTID)+" "+string(t.Name), whyCash, false)
		}
	}
}

// lineOf takes the next line with the id.
func (o *ofxFile) lineOf(id ofxgo.String) place {
	lines := o.lines[string(id)]
	if len(lines) == 0 {
		return place{1, 1}
	}
	o.lines[string(id)] = lines[1:]
	return place{lines[0], 1}
}

// symbolOf is the currency's letters, empty for none; XXX is how the library spells none.
func symbolOf(c ofxgo.CurrSymbol) string {
	if s := c.String(); s != "XXX" {
		return s
	}
	return ""
}

func (o *ofxFile) event(t ofxgo.InvTransaction, tran ofxgo.InvTran, k kind) event {
	e := event{faults: o.count(), meaning: meaning{kind: k}, at: o.lineOf(tran.FiTID), ref: string(tran.FiTID), account: o.account, currency: o.currency,
		date: tran.DtTrade.Format(time.DateOnly),
		text: oneLine(fmt.Sprintf("%s %s %s %s", t.TransactionType(), tran.FiTID, tran.DtTrade.Format(time.DateOnly), tran.Memo))}
	if y := tran.DtTrade.Year(); y < 1900 || y >= 2200 {
		o.add(e.at, "DTTRADE: the transaction has no date, expected something like 20240131")
	}
	if tran.ReversalFiTID != "" {
		o.add(e.at, "REVERSALFITID: the transaction takes %s back: take both out of the file", tran.ReversalFiTID)
	}
	return e
}

func (o *ofxFile) transaction(t ofxgo.InvTransaction) {
	switch t := t.(type) {
	case ofxgo.BuyStock:
		o.buy(t, t.InvBuy, t.BuyType == ofxgo.BuyTypeBuyToCover, 0)
	case ofxgo.BuyMF:
		o.buy(t, t.InvBuy, t.BuyType == ofxgo.BuyTypeBuyToCover, 0)
	case ofxgo.BuyOther:
		o.buy(t, t.InvBuy, false, 0)
	case ofxgo.BuyOpt:
		o.buy(t, t.InvBuy, t.OptBuyType == ofxgo.OptBuyTypeBuyToClose, t.ShPerCtrct)
	case ofxgo.SellStock:
		o.sell(t, t.InvSell, t.SellType == ofxgo.SellTypeSellShort, 0)
	case ofxgo.SellMF:
		o.sell(t, t.InvSell, t.SellType == ofxgo.SellTypeSellShort, 0)
	case ofxgo.SellOther:
		o.sell(t, t.InvSell, false, 0)
	case ofxgo.SellOpt:
		o.sell(t, t.InvSell, t.OptSellType == ofxgo.OptSellTypeSellToOpen, t.ShPerCtrct)
	case ofxgo.Reinvest:
		e := o.event(t, t.InvTran, reinvest)
		o.transact(e, t.SecID, t.Currency, t.Units, t.UnitPrice, t.Total, 0, t.Commission, t.Taxes, t.Fees, t.Load)
	case ofxgo.RetOfCap:
		e := o.event(t, t.InvTran, capital)
		o.transact(e, t.SecID, t.Currency, ofxgo.Amount{}, ofxgo.Amount{}, t.Total, 0)
	case ofxgo.Split:
		o.stockSplit(t)
	case ofxgo.ClosureOpt:
		// Who was assigned had written the option, and who exercised had bought it, whatever the sign.
		e := o.event(t, t.InvTran, exercise)
		switch {
		case t.OptAction == ofxgo.OptActionAssign || t.SubAcctSec == ofxgo.SubAcctTypeShort:
			e.kind = short
		case t.OptAction == ofxgo.OptActionExpire:
			e.kind = expire
		default:
			e.held = true
		}
		o.transact(e, t.SecID, ofxgo.Currency{}, t.Units, ofxgo.Amount{}, ofxgo.Amount{}, t.ShPerCtrct)
	default:
		o.leftOut(t)
	}
}

// leftOut lists what gives no row.
func (o *ofxFile) leftOut(t ofxgo.InvTransaction) {
	var tran ofxgo.InvTran
	m := meaning{cash, whyCash}
	switch t := t.(type) {
	case ofxgo.InvExpense:
		tran = t.InvTran
	case ofxgo.JrnlFund:
		tran = t.InvTran
	case ofxgo.MarginInterest:
		tran = t.InvTran
	case ofxgo.Income:
		tran, m.why = t.InvTran, whyDividend
	case ofxgo.JrnlSec:
		tran, m.why = t.InvTran, "shares moved between parts of one account"
	case ofxgo.Transfer:
		tran, m = t.InvTran, meaning{shares, whyTransfer}
	case ofxgo.BuyDebt:
		tran, m = t.InvBuy.InvTran, meaning{shares, whyBond}
	case ofxgo.SellDebt:
		tran, m = t.InvSell.InvTran, meaning{shares, whyBond}
	default:
		o.add(place{1, 1}, "transaction %s is not known, expected those of OFX 1 and 2", t.TransactionType())
		return
	}
	e := o.event(t, tran, m.kind)
	e.why = m.why
	o.record(e)
}

func (o *ofxFile) buy(t ofxgo.InvTransaction, b ofxgo.InvBuy, cover bool, contract ofxgo.Int) {
	e := o.event(t, b.InvTran, buy)
	if cover {
		e.kind = short
	}
	o.transact(e, b.SecID, b.Currency, b.Units, b.UnitPrice, b.Total, contract, b.Commission, b.Taxes, b.Fees, b.Load)
}

func (o *ofxFile) sell(t ofxgo.InvTransaction, s ofxgo.InvSell, opens bool, contract ofxgo.Int) {
	e := o.event(t, s.InvTran, sell)
	if opens {
		e.kind = short
	}
	// Tax withheld and penalties come out of the cash, but they are no cost of the sale.
	total := ofxgo.Amount{}
	total.Set(&s.Total.Rat)
	for _, held := range []ofxgo.Amount{s.Withholding, s.StateWithholding, s.Penalty} {
		total.Add(&total.Rat, held.Abs(&held.Rat))
	}
	o.transact(e, s.SecID, s.Currency, s.Units, s.UnitPrice, total, contract, s.Commission, s.Taxes, s.Fees, s.Load)
}

// transact fills an event with a transaction's numbers and records it.
func (o *ofxFile) transact(e event, id ofxgo.SecurityID, currency ofxgo.Currency, units, unitPrice, total ofxgo.Amount,
	contract ofxgo.Int, costs ...ofxgo.Amount) {
	if s := symbolOf(currency.CurSym); s != "" {
		e.currency = s
	}
	e.quantity = o.number(e.at, "UNITS", units)
	e.price = o.number(e.at, "UNITPRICE", unitPrice)
	e.amount = o.number(e.at, "TOTAL", total)
	c := &calc{}
	for _, cost := range costs {
		e.fees = c.add(e.fees, o.number(e.at, "FEES", cost).Abs())
	}
	if c.err != nil {
		o.add(e.at, "FEES: %v", c.err)
	}
	if e.kind != short {
		o.security(&e, id, contract)
	}
	o.record(e)
}

func (o *ofxFile) stockSplit(s ofxgo.Split) {
	e := o.event(s, s.InvTran, split)
	n, errN := decimal.New(int64(s.Numerator), 0)
	d, errD := decimal.New(int64(s.Denominator), 0)
	if errN != nil || errD != nil || !n.IsPos() || !d.IsPos() {
		o.add(e.at, "NUMERATOR and DENOMINATOR are %d and %d, expected a ratio like 3 and 2", s.Numerator, s.Denominator)
	}
	e.ratio = Ratio{New: n, Old: d}
	o.security(&e, s.SecID, 0)
	o.record(e)
	if s.FracCash.Sign() != 0 {
		o.skip(e.at.line, e.text, whyLieu, true)
	}
}

// security finds the ticker in the file's list of securities.
func (o *ofxFile) security(e *event, id ofxgo.SecurityID, contract ofxgo.Int) {
	s, ok := o.securities[id.UniqueID]
	ticker := string(secInfo(s).Ticker)
	if !ok || ticker == "" {
		o.add(e.at, "UNIQUEID: security %q has no ticker in the file's SECLIST: add <TICKER> to its SECINFO, or write the row in the own columns", string(id.UniqueID))
		return
	}
	symbol, option, err := parseOption(ticker)
	if info, isOption := s.(ofxgo.OptInfo); isOption {
		if contract == 0 {
			contract = info.ShPerCtrct
		}
		if !option {
			symbol, err = o.optionOf(info)
			option = true
		}
	} else if !option {
		symbol, err = parseTicker(ticker)
	}
	if contract == 0 {
		contract = 100
	}
	multiplier, newErr := decimal.New(int64(contract), 0)
	if newErr != nil || !multiplier.IsPos() {
		o.add(e.at, "SHPERCTRCT: %d is no number of shares per contract, expected 100", contract)
	}
	if err != nil {
		o.add(e.at, "TICKER: %v", err)
	}
	e.ticker, e.option, e.multiplier = symbol, option, multiplier
}

// optionOf names an option by its parts, where its ticker is not spelled in a known way.
func (o *ofxFile) optionOf(info ofxgo.OptInfo) (string, error) {
	root := ""
	if info.SecID != nil {
		root = string(secInfo(o.securities[info.SecID.UniqueID]).Ticker)
	}
	right := "P"
	if info.OptType == ofxgo.OptTypeCall {
		right = "C"
	}
	return optionSymbol(root, info.DtExpire.Format(time.DateOnly), right, info.StrikePrice.FloatString(4))
}

// number turns an amount into a decimal. The library has it as an exact fraction; what a decimal cannot hold exactly
// is rounded to 10 places, since some servers send binary floats in full length.
func (o *ofxFile) number(at place, name string, a ofxgo.Amount) number {
	if a.Sign() == 0 {
		return number{ok: true}
	}
	// Only sizes that can fit are written out: an exponent can make a number of a million digits.
	if a.Num().BitLen()-a.Denom().BitLen() > 64 {
		o.add(at, "%s: the number %v", name, errDigits)
		return number{}
	}
	text := strings.TrimRight(a.FloatString(10), "0")
	d, scale, err := parseNumber(text)
	if err != nil {
		o.add(at, "%s: %q %v", name, oneLine(text), err)
		return number{}
	}
	return number{Decimal: d, scale: scale, present: true, ok: true}
}
