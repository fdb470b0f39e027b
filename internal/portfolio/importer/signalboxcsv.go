package importer

import (
	"bytes"
	"encoding/csv"
	"fmt"
	"slices"
	"strings"
	"time"
	"unique"

	"github.com/govalues/decimal"

	"signalbox/internal/portfolio/tax"
)

func allColumns() []string {
	return []string{"date", "account", "action", "ticker", "quantity", "price", "fees", "currency",
		"lot_id",
		"to_account", "ratio", "donor_basis", "donor_date", "value", "id",
		"time", "closed_lots", "new_ticker", "basis_fraction", "new_price"}
}

// numBasic is the number of columns that every file has. The others are written only if a row needs
// them.
const numBasic = 9

func basicColumns() []string { return allColumns()[:numBasic] }

// batchRows is how many rows [ReadBatches] gives at a time.
const batchRows = 4096

// readSignalboxCSV reads signalbox CSV. Nothing in it is guessed, because other programs write it.
func (in *input) readSignalboxCSV(t *table) {
	if !t.checkColumns(basicColumns()[:6], allColumns()[6:]) {
		return
	}
	seen := make(map[string]int)
	for t.next() {
		if len(t.fields) > len(t.head) {
			line, col := t.csv.FieldPos(len(t.head))
			in.addFault(position{line, col},
				"the record has %d fields, the header %d: quote a field that has a comma",
				len(t.fields), len(t.head))
			continue
		}
		before := in.faultCount()
		r := in.signalboxRow(t)
		in.checkSignalboxRow(t, &r)
		if in.faultCount() > before {
			continue
		}
		if first, ok := seen[r.ID]; ok && r.ID != "" {
			in.addFault(t.at("id"), "id: %q is also in line %d, expected each id once", r.ID, first)
			continue
		}
		if r.ID != "" {
			seen[r.ID] = t.line()
		}
		if before > 0 {
			continue // the file is refused, so its rows need no memory
		}
		in.addRow(t.line(), "", r)
		if in.take != nil && len(in.imp.Rows) == batchRows {
			in.take(in.imp.Rows)
			in.imp.Rows = in.imp.Rows[:0]
		}
	}
}

// checkColumns checks that a header has all required columns, none twice and no unknown ones.
func (t *table) checkColumns(required, further []string) bool {
	want := make(map[string]bool)
	for _, c := range append(required, further...) {
		want[c] = true
	}
	ok := true
	for i, field := range t.fields {
		name := strings.ToLower(field)
		line, col := t.csv.FieldPos(i)
		at := position{line, col}
		switch {
		case !want[name]:
			t.addFault(at, "column %q is not known, expected %s and optionally %s", field,
				strings.Join(required, ","), strings.Join(further, ","))
			ok = false
		case t.head[name] != i:
			t.addFault(at, "column %q appears twice", field)
			ok = false
		}
	}
	for _, c := range required {
		if _, found := t.head[c]; !found {
			t.addFault(t.at(), "column %q is missing, expected %s", c, strings.Join(required, ","))
			ok = false
		}
	}
	return ok
}

// intern returns a copy of s that is shared by all equal strings. A field is a part of the string
// of its whole record, so a row that kept it would keep the record.
func intern(s string) string {
	if s == "" {
		return ""
	}
	return unique.Make(s).Value()
}

func (in *input) signalboxRow(t *table) Row {
	r := Row{Currency: intern(t.currency()), ID: strings.Clone(t.get("id"))}
	r.Transaction = tax.Transaction{
		Date: t.isoDate("date", true), Account: intern(t.get("account")),
		Action:   parseAction(t.get("action")),
		Quantity: t.nonNegative("quantity"), Price: t.nonNegative("price"),
		Fees: t.nonNegative("fees"), LotID: strings.Clone(t.get("lot_id")),
		ToAccount: intern(t.get("to_account")), DonorBasis: t.nonNegative("donor_basis"),
		DonorDate: t.isoDate("donor_date", false), Value: t.nonNegative("value"),
		BasisFraction: t.nonNegative("basis_fraction"), NewPrice: t.nonNegative("new_price"),
	}
	if s := t.get("new_ticker"); s != "" {
		ticker, err := parseTicker(s)
		if err != nil {
			in.addFault(t.at("new_ticker"), "new_ticker: %v", err)
		}
		r.NewTicker = intern(ticker)
	}
	if s := t.get("time"); s != "" {
		var err error
		if r.Time, err = tax.ParseClock(s); err != nil {
			in.addFault(t.at("time"), "time: %q is not a time, expected something like 09:30:01", s)
		}
	}
	var err error
	if r.Lots, err = parseClosedLots(t.get("closed_lots")); err != nil {
		in.addFault(t.at("closed_lots"), "closed_lots: %v", err)
	}
	if r.Account == "" && !slices.Contains([]Action{Transfer, Split, SpinOff, Exchange}, r.Action) {
		in.addFault(t.at("account"), "the account is empty, expected the id of an account")
	}
	if r.Ticker, err = parseTicker(t.get("ticker")); err != nil {
		in.addFault(t.at("ticker"), "%v", err)
	}
	r.Ticker = intern(r.Ticker)
	if s := t.get("ratio"); s != "" {
		if r.Ratio, err = parseRatio(s); err != nil {
			in.addFault(t.at("ratio"), "ratio: %q %v", s, err)
		}
	}
	return r
}

// parseAction accepts an action in any case, with spaces or hyphens for underscores.
func parseAction(s string) Action {
	return Action(intern(strings.ReplaceAll(strings.ReplaceAll(strings.ToLower(s), " ", "_"), "-",
		"_")))
}

func (t *table) nonNegative(name string) decimal.Decimal {
	n := t.number(name)
	if n.IsNeg() {
		t.addFault(t.at(name),
			"%s: %q is negative, expected a positive number: the action gives the direction", name,
			t.get(name))
	}
	return n.Decimal
}

func (t *table) isoDate(name string, required bool) tax.Date {
	s := t.get(name)
	if s == "" && !required {
		return 0
	}
	date, ok := parseDate(s, time.DateOnly)
	if !ok {
		t.addFault(t.at(name), "%s: %q is not a date, expected something like 2024-01-31", name, s)
	}
	return date
}

func (t *table) currency() string {
	s := strings.ToUpper(t.get("currency"))
	if s != "" && !isCurrency(s) {
		t.addFault(t.at("currency"),
			"currency: %q is not a currency, expected three letters like USD", t.get("currency"))
	}
	return s
}

// checkSignalboxRow checks that a row has what its action needs, and computes totals that may be
// given per share.
func (in *input) checkSignalboxRow(t *table, r *Row) {
	need := func(missing bool, column, what string) {
		if missing {
			in.addFault(t.at(column), "%s: %s needs %s", column, r.Action, what)
		}
	}
	quantity := func() {
		if r.Quantity.IsZero() {
			// A malformed number has a fault already.
			_, err := parseNumber(t.get("quantity"))
			need(t.get("quantity") == "" || err == nil, "quantity", "a quantity above 0")
		}
	}
	switch r.Action {
	case Buy, Sell, Reinvest:
		quantity()
		need(t.get("price") == "", "price", "a price, 0 if there was none")
	case Split:
		need(r.Account == "" && t.get("ratio") == "", "account",
			"the account, if a split has no ratio")
		need(r.Ratio.IsZero() && r.Quantity.IsZero() && t.get("ratio") == "", "ratio",
			"a ratio like 4 or 3:2, or the shares added as quantity")
	case SpinOff, Exchange:
		need(r.NewTicker == "" || r.NewTicker == r.Ticker, "new_ticker", "the ticker that was received")
		need(r.Account == "" && t.get("ratio") == "", "account",
			"the account, if there is no ratio")
		need(r.Ratio.IsZero() && r.Quantity.IsZero() && t.get("ratio") == "", "ratio",
			"a ratio like 1:4, new to old, or the shares received as quantity")
		need(r.Action == Exchange && !r.Value.IsZero(), "value",
			"no value: write the cash for each old share as price, and new_price")
		need(r.Action == Exchange && r.Price.IsZero() != r.NewPrice.IsZero(), "new_price",
			"both price, the cash for each old share, and new_price, the value of a new one, or neither")
		need(r.Action == SpinOff && (t.get("basis_fraction") == "") == (t.get("value") == ""),
			"basis_fraction",
			"the part of the basis that moves, as the company publishes it (0.125 for 12.5 percent), or if it is taxable the value of the shares received")
	case CashInLieu:
		quantity()
		need(r.Value.IsZero() && r.Price.IsZero(), "value", "the cash received, or a price")
	case Transfer:
		quantity()
		need(r.ToAccount == r.Account, "to_account",
			"an account and a different to_account; leave one of them empty if the shares enter or leave the portfolio")
	case ReturnOfCapital:
		need(r.Value.IsZero() && (r.Quantity.IsZero() || r.Price.IsZero()), "value",
			"the cash received, or quantity and price")
	case Expire, Assign:
		quantity()
	case GiftIn:
		quantity()
		need(t.get("donor_basis") == "", "donor_basis",
			"the total that the donor paid for the shares")
		need(r.Value.IsZero() && r.Price.IsZero(), "value",
			"the total value on the day of the gift, or a price")
	case Inherit:
		quantity()
		need(r.Value.IsZero() && r.Price.IsZero(), "value",
			"the total value on the day of death, or a price")
	default:
		in.addFault(t.at("action"), "action: %q is not known%s, expected %s", t.get("action"),
			hint{t.get("action"), actionList}, actionNames)
	}
	if r.DonorDate > r.Date && r.Date != 0 {
		in.addFault(t.at("donor_date"),
			"donor_date: %s is after the date of the row, expected the day on which the donor bought the shares", r.DonorDate)
	}
	if (r.Action == ReturnOfCapital || r.Action == GiftIn || r.Action == Inherit) &&
		r.Value.IsZero() {
		total, err := r.Quantity.Mul(r.Price)
		if err != nil {
			in.addFault(t.at("price"), "price: quantity × price is too large: %v", err)
		}
		r.Value = total.Trim(0)
	}
}

// Format writes rows as signalbox CSV. It writes optional columns only if a row needs them, and IDs
// only if they do not follow from the content.
func Format(rows []Row) ([]byte, error) {
	contents := make(fingerprints)
	records := make([][]string, len(rows))
	further := allColumns()[numBasic:]
	used := make([]bool, len(further))
	for i, r := range rows {
		id := r.ID
		if content := contents.next(&rows[i]); id == content {
			id = ""
		}
		records[i] = []string{r.Date.String(), r.Account, string(r.Action), r.Ticker,
			amount(r.Quantity), price(r), amount(r.Fees), r.Currency, r.LotID, r.ToAccount,
			r.Ratio.String(), donorBasis(r), r.DonorDate.String(), amount(r.Value), id,
			r.Time.String(), formatClosedLots(r.Lots), r.NewTicker, amount(r.BasisFraction),
			amount(r.NewPrice)}
		for j := range further {
			used[j] = used[j] || records[i][numBasic+j] != ""
		}
	}
	var out bytes.Buffer
	w := csv.NewWriter(&out)
	write := func(record []string) error {
		kept := record[:numBasic:numBasic]
		for j, u := range used {
			if u {
				kept = append(kept, record[numBasic+j])
			}
		}
		return w.Write(kept)
	}
	if err := write(append(basicColumns(), further...)); err != nil {
		return nil, fmt.Errorf("format rows: %w", err)
	}
	for _, r := range records {
		if err := write(r); err != nil {
			return nil, fmt.Errorf("format rows: %w", err)
		}
	}
	w.Flush()
	if err := w.Error(); err != nil {
		return nil, fmt.Errorf("format rows: %w", err)
	}
	return out.Bytes(), nil
}

// amount writes zero as an empty field, which is read as zero.
func amount(d decimal.Decimal) string {
	if d.IsZero() {
		return ""
	}
	return d.String()
}

// price writes zero as 0 if the action needs a price.
func price(r Row) string {
	switch r.Action {
	case Buy, Sell, Reinvest:
		return r.Price.String()
	}
	return amount(r.Price)
}

func donorBasis(r Row) string {
	if r.Action == GiftIn {
		return r.DonorBasis.String()
	}
	return amount(r.DonorBasis)
}
