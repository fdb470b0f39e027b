package importer

import (
	"slices"
	"strings"

	"github.com/govalues/decimal"
)

// FormRow is one sale on a Form 1099-B or 1099-DA.
type FormRow struct {
	Account, Ticker string
	Quantity        decimal.Decimal
	// Acquired is a date such as 2024-01-31, or INHERITED; empty means that the form has several or
	// none.
	Acquired string
	Sold     string
	Proceeds decimal.Decimal
	// Basis and WashSale are boxes 1e and 1g. Without HasBasis the form does not report a basis.
	Basis    decimal.Decimal
	HasBasis bool
	WashSale decimal.Decimal // positive
	// Box is the box of Form 8949 that applies: a letter from A to L.
	Box    string
	Source Source
}

const (
	formBoxes = "ABCDEFGHIJKL"
	// FormColumns are the columns of a form. Those of formRequired must be there.
	FormColumns = "account,ticker,quantity,acquired,sold,proceeds,basis,wash_sale,box"
)

// formRequired are the columns that a form must have. The others of FormColumns are optional.
var formRequired = []string{"ticker", "quantity", "sold", "proceeds", "box"}

// ReadForm1099B reads the sales of a Form 1099-B in signalbox CSV, whose columns may be in any
// order. The account may be left out if opts name it. The error is a *[FaultsError].
func ReadForm1099B(name string, data []byte, opts *Options) ([]FormRow, error) {
	in := newInput(name)
	if opts != nil {
		in.opts = *opts
	}
	text, _, err := decodeFile(data)
	if err != nil {
		in.addFault(positionOf(err), "the file %v", err)
		return nil, in.err()
	}
	t := newTable(text, &in.faults)
	var rows []FormRow
	if in.formHead(t) {
		for t.next() {
			if r, ok := in.formRow(t); ok {
				rows = append(rows, r)
			}
		}
	}
	if err := in.err(); err != nil {
		return nil, err
	}
	return rows, nil
}

// formHead reads the names of the columns.
func (in *input) formHead(t *table) bool {
	if !t.next() {
		return false // the table has added the fault
	}
	t.head = columnIndexes(t.fields)
	known := strings.Split(FormColumns, ",")
	for i, field := range t.fields {
		name := strings.ToLower(strings.TrimSpace(field))
		if name == "" || !slices.Contains(known, name) {
			line, column := t.csv.FieldPos(i)
			in.addFault(position{line, column}, "the column %q is not known, expected some of %s",
				field, FormColumns)
		}
	}
	for _, name := range formRequired {
		if !hasColumns(t.head, name) {
			in.addFault(t.at(), "the column %s is missing, expected %s", name, FormColumns)
		}
	}
	return in.faultCount() == 0
}

// formRow reads one sale. It reports false if the record has a fault.
func (in *input) formRow(t *table) (FormRow, bool) {
	before := in.faultCount()
	if len(t.fields) != len(t.head) {
		in.addFault(t.at(), "the line has %d fields, expected %d", len(t.fields), len(t.head))
		return FormRow{}, false
	}
	r := FormRow{Account: in.positionAccount(t), Source: Source{File: in.file, Line: t.line()},
		Box: strings.ToUpper(t.get("box"))}
	symbol := t.get("ticker")
	ticker, option, err := parseOption(symbol)
	if !option {
		ticker, err = parseTicker(symbol)
	}
	if err != nil {
		in.addFault(t.at("ticker"), "%v", err)
	}
	r.Ticker = ticker
	if r.Account == "" {
		in.addFault(t.at(), "the file does not name its account: add a column account")
		in.noAccount = true
	}
	r.Sold = in.formDate(t, "sold")
	switch acquired := strings.ToUpper(t.get("acquired")); acquired {
	case "", "VARIOUS":
	case "INHERITED":
		r.Acquired = acquired
	default:
		r.Acquired = in.formDate(t, "acquired")
	}
	quantity, proceeds := t.number("quantity"), t.number("proceeds")
	basis, wash := t.number("basis"), t.number("wash_sale")
	switch {
	case quantity.ok && !quantity.IsPos():
		in.addFault(t.at("quantity"), "the quantity is %q, expected a number above 0",
			t.get("quantity"))
	case proceeds.ok && !proceeds.present:
		in.addFault(t.at("proceeds"), "the proceeds are missing, expected an amount such as 1234.56")
	case wash.ok && wash.IsNeg():
		in.addFault(t.at("wash_sale"), "the disallowed loss is negative, expected a positive amount")
	case !strings.Contains(formBoxes, r.Box) || len(r.Box) != 1:
		in.addFault(t.at("box"),
			"%q is not a box of Form 8949, expected a letter from A to L", t.get("box"))
	}
	r.Quantity, r.Proceeds, r.WashSale = quantity.Decimal, proceeds.Decimal, wash.Decimal
	r.Basis, r.HasBasis = basis.Decimal, basis.present
	return r, in.faultCount() == before
}

func (in *input) formDate(t *table, column string) string {
	date, ok := parseDate(t.get(column), "2006-1-2", "1/2/2006")
	if !ok {
		in.addFault(t.at(column), "%s: %q is not a date, expected something like 2024-01-31",
			column, t.get(column))
	}
	return date.String()
}
