package importer

import (
	"errors"
	"fmt"
	"iter"
	"math/big"
	"slices"
	"strings"

	"github.com/govalues/decimal"

	"signalbox/internal/lazy"
	"signalbox/internal/portfolio/importer/ofx"
	"signalbox/internal/portfolio/tax"
)

// maxOFX bounds an OFX file more tightly than others, because all of its elements are in memory
// together.
const maxOFX = 16 << 20

// readOFX reads the investment statements of an OFX or QFX file. Other message sets, such as
// sign-on and bank statements, are ignored.
func (in *input) readOFX(text []byte) {
	if len(text) > maxOFX {
		in.addFault(position{1, 1}, "the OFX file is larger than %d MB: export it in parts",
			maxOFX>>20)
		return
	}
	root, err := ofx.Parse(string(text))
	if syntax, ok := errors.AsType[*ofx.SyntaxError](err); ok {
		in.addFault(position{syntax.Line, syntax.Column}, "the OFX cannot be read: %s",
			syntax.Message)
		return
	}
	o := &ofxFile{input: in, securities: make(map[string]*ofx.Element)}
	for info := range elements(root, "SECLISTMSGSRSV1", "SECLIST", "") {
		o.securities[info.Child("SECINFO").Child("SECID").Value("UNIQUEID")] = info
	}
	found := false
	for response := range elements(root, "INVSTMTMSGSRSV1", "INVSTMTTRNRS") {
		found = true
		o.statements(response)
	}
	if !found {
		in.addFault(position{1, 1},
			"the OFX file has no investment statement, expected the export of a brokerage account, not of a bank or card")
	}
}

// elements iterates over the elements at a path below e. An empty name matches every element.
func elements(e *ofx.Element, path ...string) iter.Seq[*ofx.Element] {
	return func(yield func(*ofx.Element) bool) {
		walk(e, path, yield)
	}
}

func walk(e *ofx.Element, path []string, yield func(*ofx.Element) bool) bool {
	if e == nil {
		return true
	}
	if len(path) == 0 {
		return yield(e)
	}
	for i := range e.Children {
		if c := &e.Children[i]; (path[0] == "" || c.Name == path[0]) && !walk(c, path[1:], yield) {
			return false
		}
	}
	return true
}

// ofxFile is the file, and the statement in it that is being read.
type ofxFile struct {
	*input
	// securities holds the elements of SECLIST, such as STOCKINFO, by UNIQUEID.
	securities map[string]*ofx.Element
	account    string
	currency   string
}

func elementPosition(e *ofx.Element) position { return position{int(e.Line), int(e.Column)} }

func (o *ofxFile) statements(response *ofx.Element) {
	transactions := false
	for s := range elements(response, "INVSTMTRS") {
		o.account = s.Child("INVACCTFROM").Value("ACCTID")
		o.currency = currencySymbol(s.Value("CURDEF"))
		for list := range elements(s, "INVTRANLIST") {
			transactions = true
			for i := range list.Children {
				o.transaction(&list.Children[i])
			}
		}
	}
	if !transactions {
		o.note("account %s has a statement without transactions",
			response.Child("INVSTMTRS").Child("INVACCTFROM").Value("ACCTID"))
	}
}

// currencySymbol returns a currency in upper case. XXX is how ISO 4217 writes no currency.
func currencySymbol(s string) string {
	if s = strings.ToUpper(s); s != "XXX" {
		return s
	}
	return ""
}

func (o *ofxFile) transaction(t *ofx.Element) {
	switch t.Name {
	case "DTSTART", "DTEND":
	case "INVBANKTRAN":
		for s := range elements(t, "STMTTRN") {
			at := s
			if id := s.Child("FITID"); id != nil {
				at = id
			}
			o.skip(int(at.Line), "INVBANKTRAN "+s.Value("FITID")+" "+s.Value("NAME"), whyCash,
				false)
		}
	case "BUYSTOCK", "BUYMF", "BUYOTHER", "BUYOPT":
		e := o.event(t, t.Child("INVBUY"), buy)
		covers := o.word(t, "BUYTYPE", "BUY", "BUYTOCOVER") == "BUYTOCOVER"
		if closes := o.word(t, "OPTBUYTYPE", "BUYTOOPEN", "BUYTOCLOSE") == "BUYTOCLOSE"; covers ||
			closes {
			e.kind = short
		}
		o.recordTrade(e, t, t.Child("INVBUY"))
	case "SELLSTOCK", "SELLMF", "SELLOTHER", "SELLOPT":
		e := o.event(t, t.Child("INVSELL"), sell)
		shorts := o.word(t, "SELLTYPE", "SELL", "SELLSHORT") == "SELLSHORT"
		if opens := o.word(t, "OPTSELLTYPE", "SELLTOCLOSE", "SELLTOOPEN") == "SELLTOOPEN"; shorts ||
			opens {
			e.kind = short
		}
		o.recordTrade(e, t, t.Child("INVSELL"))
	case "REINVEST":
		o.recordTrade(o.event(t, t, reinvest), t, t)
	case "RETOFCAP":
		o.recordTrade(o.event(t, t, capital), t, t)
	case "SPLIT":
		o.stockSplit(t)
	case "CLOSUREOPT":
		o.optionClosure(t)
	case "INVEXPENSE", "JRNLFUND", "MARGININTEREST":
		o.skipTransaction(t, t, meaning{cash, whyCash})
	case "INCOME":
		o.skipTransaction(t, t, meaning{cash, whyDividend})
	case "JRNLSEC":
		o.skipTransaction(t, t, meaning{cash, "shares moved between parts of one account"})
	case "TRANSFER":
		o.transfer(t)
	case "BUYDEBT":
		o.skipTransaction(t, t.Child("INVBUY"), meaning{shares, whyBond})
	case "SELLDEBT":
		o.skipTransaction(t, t.Child("INVSELL"), meaning{shares, whyBond})
	default:
		o.addFault(elementPosition(t),
			"transaction %s is not known, expected a transaction of OFX 1 or 2", t.Name)
	}
}

// event starts the event of a transaction. Body is the element that contains INVTRAN.
func (o *ofxFile) event(t, body *ofx.Element, k kind) event {
	e := event{faults: o.faultCount(), meaning: meaning{kind: k}, at: elementPosition(t),
		account: o.account, currency: o.currency}
	tran := body.Child("INVTRAN")
	if tran == nil {
		o.addFault(e.at, "%s has no INVTRAN: is an end tag missing?", t.Name)
		return e
	}
	if id := tran.Child("FITID"); id != nil {
		e.ref, e.at = id.Text, elementPosition(id)
	}
	e.date = o.date(tran, "DTTRADE", e.at)
	e.text = oneLine(fmt.Sprintf("%s %s %s %s", t.Name, e.ref, e.date, tran.Value("MEMO")))
	if back := tran.Child("REVERSALFITID"); back != nil && back.Text != "" {
		o.addFault(elementPosition(back),
			"REVERSALFITID: the transaction cancels %s: remove both from the file", back.Text)
	}
	return e
}

// skipTransaction records a transaction that gives no row.
func (o *ofxFile) skipTransaction(t, body *ofx.Element, m meaning) {
	e := o.event(t, body, m.kind)
	e.why = m.why
	o.record(e)
}

// recordTrade fills the event of transaction t with the numbers in body and records it.
func (o *ofxFile) recordTrade(e event, t, body *ofx.Element) {
	if s := currencySymbol(body.Child("CURRENCY").Value("CURSYM")); s != "" {
		e.currency = s
	}
	e.amount = o.number(body, "TOTAL")
	c := &calc{}
	if t.Name != "RETOFCAP" {
		e.quantity = o.number(body, "UNITS")
		e.price = o.number(body, "UNITPRICE")
		for _, name := range []string{"COMMISSION", "TAXES", "FEES", "LOAD"} {
			e.fees = c.add(e.fees, o.number(body, name).Abs())
		}
		// Tax withheld and penalties come out of the cash of a sale, but they are not a cost of it.
		for _, name := range []string{"WITHHOLDING", "STATEWITHHOLDING", "PENALTY"} {
			if strings.HasPrefix(t.Name, "SELL") {
				e.amount.Decimal = c.add(e.amount.Decimal, o.number(body, name).Abs())
				e.amount.present = !e.amount.IsZero()
			}
		}
	}
	if c.err != nil {
		o.addFault(e.at, "FEES: %v", c.err)
	}
	if e.kind != short {
		o.security(&e, t, body)
	}
	o.record(e)
}

// optionClosure records an option that was exercised, assigned or expired. OPTACTION shows whether
// it was held or written, because the sign of UNITS does not: assigned options were written,
// exercised ones were held.
func (o *ofxFile) optionClosure(t *ofx.Element) {
	e := o.event(t, t, exercise)
	action := o.word(t, "OPTACTION", "EXERCISE", "ASSIGN", "EXPIRE")
	switch {
	case action == "ASSIGN" || o.word(t, "SUBACCTSEC", "CASH", "MARGIN", "SHORT",
		"OTHER") == "SHORT":
		e.kind = short
	case action == "EXPIRE":
		e.kind = expire
	case action == "":
		o.addFault(e.at, "CLOSUREOPT has no OPTACTION, expected EXERCISE, ASSIGN or EXPIRE")
	default:
		e.held = true
	}
	e.quantity = o.number(t, "UNITS")
	if e.kind != short {
		o.security(&e, t, t)
	}
	o.record(e)
}

// transfer records shares that were transferred in, if the file has when and for how much they were
// bought. AVGCOSTBASIS alone does not do: some servers write a total, others an amount per share.
func (o *ofxFile) transfer(t *ofx.Element) {
	units, price, basis := o.number(t, "UNITS"), o.number(t, "UNITPRICE"), o.number(t, "AVGCOSTBASIS")
	c := &calc{}
	total := c.mul(units.Abs(), price.Abs())
	agrees := !basis.present || basis.Equal(price.Decimal) || basis.Equal(total)
	if o.word(t, "TFERACTION", "IN", "OUT") != "IN" || t.Value("POSTYPE") == "SHORT" ||
		!units.IsPos() || !price.IsPos() || !agrees || t.Value("DTPURCHASE") == "" || c.err != nil {
		o.skipTransaction(t, t, meaning{shares, whyTransfer})
		return
	}
	e := o.event(t, t, buy)
	bought := o.date(t, "DTPURCHASE", e.at)
	o.security(&e, t, t)
	if o.faultCount() > e.faults {
		return
	}
	if bought > e.date || e.option {
		o.skip(e.at.line, e.text, whyTransfer, true)
		return
	}
	r := e.row(Transfer)
	r.Account, r.ToAccount = "", e.account
	r.Quantity, r.DonorBasis, r.DonorDate = units.Decimal, total.Trim(0), bought
	o.addRow(e.at.line, e.ref, r)
	o.note("line %d: %s %s came in with basis and date; if they came from another account of the portfolio, leave the record out and write a transfer that names both accounts",
		e.at.line, units, e.ticker)
}

func (o *ofxFile) stockSplit(t *ofx.Element) {
	e := o.event(t, t, split)
	e.ratio = Ratio{New: o.number(t, "NUMERATOR").Decimal, Old: o.number(t, "DENOMINATOR").Decimal}
	if !e.ratio.New.IsPos() || !e.ratio.Old.IsPos() {
		o.addFault(e.at, "NUMERATOR and DENOMINATOR are %q and %q, expected a ratio like 3 and 2",
			t.Value("NUMERATOR"), t.Value("DENOMINATOR"))
	}
	o.security(&e, t, t)
	o.record(e)
	if !o.number(t, "FRACCASH").IsZero() {
		o.skip(e.at.line, e.text, whyLieu, true)
	}
}

// security finds the ticker of the security in body, and the size of the contract if it is an
// option.
func (o *ofxFile) security(e *event, t, body *ofx.Element) {
	at := e.at
	id := body.Child("SECID").Child("UNIQUEID")
	unique := ""
	if id != nil {
		at, unique = elementPosition(id), id.Text
	}
	info := o.securities[unique]
	ticker := info.Child("SECINFO").Value("TICKER")
	if ticker == "" {
		o.addFault(at, "UNIQUEID: security %q has no ticker in the file's SECLIST: add <TICKER> to its SECINFO, or write the row in signalbox CSV", unique)
		return
	}
	symbol, option, err := parseOption(ticker)
	switch {
	case option:
	case info.Name == "OPTINFO":
		option = true
		symbol, err = o.optionOf(info)
	default:
		symbol, err = parseTicker(ticker)
	}
	if err != nil {
		o.addFault(at, "TICKER: %v", err)
	}
	e.ticker, e.option, e.multiplier = symbol, option, decimal.Hundred
	for _, from := range []*ofx.Element{info, t} {
		if n := o.number(from, "SHPERCTRCT"); n.present {
			e.multiplier = n.Decimal
		}
	}
	if !e.multiplier.IsPos() || !e.multiplier.IsInt() {
		o.addFault(at, "SHPERCTRCT: %s is not a number of shares per contract, expected 100",
			e.multiplier)
	}
}

// optionOf builds the symbol of an option from its parts, because its ticker is not written in a
// known way.
func (o *ofxFile) optionOf(info *ofx.Element) (string, error) {
	underlying := o.securities[info.Child("SECID").Value("UNIQUEID")].Child("SECINFO").Value(
		"TICKER")
	strike := o.number(info, "STRIKEPRICE")
	return optionSymbol(underlying, o.date(info, "DTEXPIRE", elementPosition(info)),
		o.word(info, "OPTTYPE", "CALL", "PUT"), strike.String())
}

// word returns the text of a child that must be one of the given words or absent.
func (o *ofxFile) word(e *ofx.Element, name string, words ...string) string {
	c := e.Child(name)
	if c == nil || c.Text == "" || slices.Contains(words, c.Text) {
		return e.Value(name)
	}
	o.addFault(elementPosition(c), "%s: %q is not known, expected %s", name, c.Text,
		strings.Join(words, " or "))
	return ""
}

// ofxDate matches a date with an optional time and time zone. The date is the one in that time
// zone.
var ofxDate = lazy.Regexp(`^([0-9]{8})(?:[0-9]{2}){0,3}(?:\.[0-9]*)?\s*(?:\[.*)?$`)

// date reads a child that must be a date. If it is missing, the fault is at the given position.
func (o *ofxFile) date(e *ofx.Element, name string, at position) tax.Date {
	c := e.Child(name)
	if c != nil {
		at = elementPosition(c)
	}
	if m := ofxDate().FindStringSubmatch(e.Value(name)); m != nil {
		if date, ok := parseDate(m[1], "20060102"); ok {
			return date
		}
	}
	o.addFault(at, "%s: %q is not a date, expected something like 20240131", name, e.Value(name))
	return 0
}

// ofxNumber matches a number of OFX, in which a comma is a decimal point. Real numbers are much
// shorter than 64 digits.
var ofxNumber = lazy.Regexp(
	`^[+-]?(?:[0-9]{1,64}(?:[.,][0-9]{0,64})?|[.,][0-9]{1,64})(?:[eE][+-]?[0-9]{1,2})?$`)

// number reads a child that must be a number. Zero counts as absent. Some servers send binary
// floats in full length, so numbers are rounded to 10 places.
func (o *ofxFile) number(e *ofx.Element, name string) number {
	c := e.Child(name)
	if c == nil || c.Text == "" {
		return number{ok: true}
	}
	if !ofxNumber().MatchString(c.Text) {
		o.addFault(elementPosition(c), "%s: %q is not a number, expected something like 1234.56",
			name, c.Text)
		return number{}
	}
	exact, ok := new(big.Rat).SetString(strings.Replace(c.Text, ",", ".", 1))
	if ok && exact.Sign() == 0 {
		return number{ok: true}
	}
	n, err := parseNumber(strings.TrimRight(exact.FloatString(10), "0"))
	if err != nil {
		o.addFault(elementPosition(c), "%s: %q %v", name, c.Text, err)
	}
	return n
}
