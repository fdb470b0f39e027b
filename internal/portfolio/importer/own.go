package importer

import (
	"bytes"
	"encoding/csv"
	"fmt"
	"strings"
	"time"
	"unique"

	"github.com/govalues/decimal"
)

func allColumns() []string {
	return []string{"date", "account", "action", "ticker", "quantity", "price", "fees", "currency", "lot_id",
		"to_account", "ratio", "donor_basis", "donor_date", "value", "id"}
}

// numOwn is how many of the columns every file has; the further ones are written only if a row needs them.
const numOwn = 9

func ownColumns() []string { return allColumns()[:numOwn] }

// batchRows is how many rows [ReadBatches] gives at a time.
const batchRows = 4096

// readOwn reads signalbox's own CSV. Other programs write it, so nothing in it is guessed.
func (in *intake) readOwn(t *table) {
	if !in.checkColumns(t, ownColumns()[:6], allColumns()[6:]) {
		return
	}
	seen := make(map[string]int)
	for t.next(&in.faults) {
		if len(t.fields) > len(t.head) {
			line, col := t.csv.FieldPos(len(t.head))
			in.add(place{line, col}, "the record has %d fields, the header %d: quote a field that has a comma", len(t.fields), len(t.head))
			continue
		}
		before := in.count()
		r := in.ownRow(t)
		in.checkOwn(t, &r)
		if in.count() > before {
			continue
		}
		if first, ok := seen[r.ID]; ok && r.ID != "" {
			in.add(t.at("id"), "id: %q stands in line %d already, expected each id once", r.ID, first)
			continue
		}
		if r.ID != "" {
			seen[r.ID] = t.line()
		}
		if before > 0 {
			continue // the file is refused, so its rows need no memory
		}
		in.row(t.line(), "", r)
		if in.take != nil && len(in.imp.Rows) == batchRows {
			in.take(in.imp.Rows)
			in.imp.Rows = in.imp.Rows[:0]
		}
	}
}

// checkColumns holds a header to its format: all of the required columns, none unknown, none twice.
func (in *intake) checkColumns(t *table, required, further []string) bool {
	want := make(map[string]bool)
	for _, c := range append(required, further...) {
		want[c] = true
	}
	ok := true
	for i, field := range t.fields {
		name := strings.ToLower(field)
		line, col := t.csv.FieldPos(i)
		at := place{line, col}
		switch {
		case !want[name]:
			in.add(at, "column %q is not known, expected %s and where needed %s", field, strings.Join(required, ","), strings.Join(further, ","))
			ok = false
		case t.head[name] != i:
			in.add(at, "column %q stands here twice", field)
			ok = false
		}
	}
	for _, c := range required {
		if _, there := t.head[c]; !there {
			in.add(t.at(), "column %q is missing, expected %s", c, strings.Join(required, ","))
			ok = false
		}
	}
	return ok
}

// intern returns a copy of s that is shared by all equal strings. A field is a part of the string of its whole record, so
// a row that kept it would keep the record.
func intern(s string) string { return unique.Make(s).Value() }

func (in *intake) ownRow(t *table) Row {
	r := Row{
		Date: in.isoDate(t, "date", true), Account: intern(t.get("account")), Action: parseAction(t.get("action")),
		Quantity: in.positive(t, "quantity"), Price: in.positive(t, "price"), Fees: in.positive(t, "fees"), Currency: intern(in.currency(t)),
		LotID: strings.Clone(t.get("lot_id")), ToAccount: intern(t.get("to_account")), DonorBasis: in.positive(t, "donor_basis"),
		DonorDate: in.isoDate(t, "donor_date", false), Value: in.positive(t, "value"), ID: strings.Clone(t.get("id")),
	}
	if r.Account == "" && r.Action != Transfer && r.Action != Split {
		in.add(t.at("account"), "account is empty, expected the id of an account")
	}
	ticker, err := parseTicker(t.get("ticker"))
	if err != nil {
		in.add(t.at("ticker"), "%v", err)
	}
	r.Ticker = intern(ticker)
	if s := t.get("ratio"); s != "" {
		if r.Ratio, err = parseRatio(s); err != nil {
			in.add(t.at("ratio"), "ratio: %q %v", s, err)
		}
	}
	return r
}

// parseAction accepts an action in any case, with spaces or hyphens for underscores.
func parseAction(s string) Action {
	return Action(intern(strings.ReplaceAll(strings.ReplaceAll(strings.ToLower(s), " ", "_"), "-", "_")))
}

func (in *intake) positive(t *table, name string) decimal.Decimal {
	n := t.number(&in.faults, name)
	if n.IsNeg() {
		in.add(t.at(name), "%s: %q is negative, expected a positive number: the action says the direction", name, t.get(name))
	}
	return n.Decimal
}

func (in *intake) isoDate(t *table, name string, required bool) string {
	s := t.get(name)
	if s == "" && !required {
		return ""
	}
	date, ok := parseDate(s, time.DateOnly)
	if !ok {
		in.add(t.at(name), "%s: %q is no date, expected something like 2024-01-31", name, s)
	}
	return date
}

func (in *intake) currency(t *table) string {
	s := strings.ToUpper(t.get("currency"))
	if s != "" && s != "USD" && (len(s) != 3 || strings.Trim(s, "ABCDEFGHIJKLMNOPQRSTUVWXYZ") != "") {
		in.add(t.at("currency"), "currency: %q is no currency, expected three letters like USD", t.get("currency"))
	}
	return s
}

// checkOwn holds a row to what its action needs, and fills the total of an action that may be given per share.
func (in *intake) checkOwn(t *table, r *Row) {
	need := func(missing bool, column, what string) {
		if missing {
			in.add(t.at(column), "%s: %s needs %s", column, r.Action, what)
		}
	}
	quantity := func() {
		if r.Quantity.IsZero() {
			// A number that is none was reported already.
			_, _, err := parseNumber(t.get("quantity"))
			need(t.get("quantity") == "" || err == nil, "quantity", "a quantity above 0")
		}
	}
	switch r.Action {
	case Buy, Sell, Reinvest:
		quantity()
		need(t.get("price") == "", "price", "a price, 0 if there was none")
	case Split:
		need(r.Account == "" && t.get("ratio") == "", "account", "the account, if a split has no ratio")
		need(r.Ratio.IsZero() && r.Quantity.IsZero() && t.get("ratio") == "", "ratio", "a ratio like 4 or 3:2, or the shares added as quantity")
	case Transfer:
		quantity()
		need(r.ToAccount == r.Account, "to_account", "an account and another to_account, one of them empty for the world outside")
	case ReturnOfCapital:
		need(r.Value.IsZero() && (r.Quantity.IsZero() || r.Price.IsZero()), "value", "the cash received, or quantity and price")
	case Expire, Assign:
		quantity()
	case GiftIn:
		quantity()
		need(t.get("donor_basis") == "", "donor_basis", "what the shares cost the donor in all")
		need(r.Value.IsZero() && r.Price.IsZero(), "value", "the value in all on the day of the gift, or a price")
	case Inherit:
		quantity()
		need(r.Value.IsZero() && r.Price.IsZero(), "value", "the value in all on the day of death, or a price")
	default:
		in.add(t.at("action"), "action: %q is not known%s, expected %s", t.get("action"), hint(t.get("action"), actionList()), actionNames)
	}
	if r.DonorDate > r.Date && r.Date != "" {
		in.add(t.at("donor_date"), "donor_date: %s is after the row's date, expected the day the donor bought", r.DonorDate)
	}
	if (r.Action == ReturnOfCapital || r.Action == GiftIn || r.Action == Inherit) && r.Value.IsZero() {
		total, err := r.Quantity.Mul(r.Price)
		if err != nil {
			in.add(t.at("price"), "price: quantity × price is too large: %v", err)
		}
		r.Value = total.Trim(0)
	}
}

// Format writes rows in the own columns, with the further ones that a row needs; id only where content does not give it.
func Format(rows []Row) ([]byte, error) {
	print := make(fingerprints)
	records := make([][]string, len(rows))
	further := allColumns()[numOwn:]
	used := make([]bool, len(further))
	for i, r := range rows {
		id := r.ID
		if content := print.next(&rows[i]); id == content {
			id = ""
		}
		records[i] = []string{r.Date, r.Account, string(r.Action), r.Ticker, amount(r.Quantity), price(r), amount(r.Fees),
			r.Currency, r.LotID, r.ToAccount, r.Ratio.String(), donorBasis(r), r.DonorDate, amount(r.Value), id}
		for j := range further {
			used[j] = used[j] || records[i][len(ownColumns())+j] != ""
		}
	}
	var out bytes.Buffer
	w := csv.NewWriter(&out)
	write := func(record []string) error {
		kept := record[:len(ownColumns()):len(ownColumns())]
		for j, u := range used {
			if u {
				kept = append(kept, record[len(ownColumns())+j])
			}
		}
		return w.Write(kept)
	}
	if err := write(append(ownColumns(), further...)); err != nil {
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

// amount leaves a zero empty, which reads back as zero.
func amount(d decimal.Decimal) string {
	if d.IsZero() {
		return ""
	}
	return d.String()
}

// price writes a zero where an action needs a price.
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
