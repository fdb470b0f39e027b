package form8949

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	"signalbox/internal/portfolio/answer"
	"signalbox/internal/portfolio/importer"
	"signalbox/internal/portfolio/tax"
)

// Compare compares the rows of a year with a broker's form, in the accounts that the form has, and
// sets the boxes of the rows by it. The holding period of a row stays its own: if the form has
// another one, that is a difference.
//
// Sales of one ticker and day in one account are compared. Rows are paired by the day of
// acquisition and the quantity, so that each difference belongs to one row. Rows that cannot be
// paired, because the broker divides the lots otherwise, are compared by their sums, first those
// that were acquired on one day, then all. A row that only one side has is a difference
// too. Amounts must be equal to the cent.
func Compare(rows []answer.GainRow, form []importer.FormRow,
	file string) (*answer.FormComparison, error) {
	type key struct{ account, ticker, sold string }
	type sides struct {
		ours []*answer.GainRow
		form []*importer.FormRow
	}
	sales := make(map[key]*sides)
	at := func(k key) *sides {
		if sales[k] == nil {
			sales[k] = &sides{}
		}
		return sales[k]
	}
	c := &comparison{result: answer.FormComparison{File: file, Rows: len(form),
		Differences: []answer.FormDifference{}, NotCompared: []string{}}}
	accounts := make(map[string]bool)
	for i := range form {
		f := &form[i]
		accounts[f.Account] = true
		k := at(key{f.Account, f.Ticker, f.Sold})
		k.form = append(k.form, f)
	}
	for i := range rows {
		r := &rows[i]
		switch {
		case r.Quantity.IsZero(): // it is not on this form
		case accounts[r.Account]:
			k := at(key{r.Account, r.Ticker, r.Sold})
			k.ours = append(k.ours, r)
		case !slices.Contains(c.result.NotCompared, r.Account):
			c.result.NotCompared = append(c.result.NotCompared, r.Account)
		}
	}
	for _, k := range slices.SortedFunc(maps.Keys(sales), func(a, b key) int {
		return cmp.Or(cmp.Compare(a.sold, b.sold), cmp.Compare(a.account, b.account),
			cmp.Compare(a.ticker, b.ticker))
	}) {
		c.compareSales(sales[k].ours, sales[k].form)
	}
	return &c.result, c.err
}

type comparison struct {
	cents
	result answer.FormComparison
}

// compareSales compares the sales of one ticker on one day in one account.
func (c *comparison) compareSales(ours []*answer.GainRow, form []*importer.FormRow) {
	sameLot := func(r *answer.GainRow, f *importer.FormRow) bool {
		return acquiredOn(r, f) && r.Quantity.Equal(answer.Amount{Decimal: f.Quantity})
	}
	sameProceeds := func(r *answer.GainRow, f *importer.FormRow) bool {
		return sameLot(r, f) && c.round(f.Proceeds).Equal(r.Proceeds)
	}
	same := func(r *answer.GainRow, f *importer.FormRow) bool {
		return sameProceeds(r, f) && (!f.HasBasis || c.round(f.Basis).Equal(r.Basis)) &&
			c.round(f.WashSale).Equal(r.Adjustment)
	}
	for _, pairs := range []func(*answer.GainRow, *importer.FormRow) bool{same, sameProceeds,
		sameLot} {
		form = slices.DeleteFunc(form, func(f *importer.FormRow) bool {
			i := slices.IndexFunc(ours, func(r *answer.GainRow) bool { return pairs(r, f) })
			if i < 0 {
				return false
			}
			c.compare(ours[i:i+1], []*importer.FormRow{f})
			ours = slices.Delete(ours, i, i+1)
			return true
		})
	}
	for _, r := range slices.Clone(ours) { // by the day of acquisition
		theirs := filter(form, func(f *importer.FormRow) bool { return acquiredOn(r, f) })
		if len(theirs) == 0 || !slices.Contains(ours, r) {
			continue
		}
		mine := filter(ours, func(r *answer.GainRow) bool { return acquiredOn(r, theirs[0]) })
		c.compare(mine, theirs)
		ours, form = without(ours, mine), without(form, theirs)
	}
	if len(ours) > 0 && len(form) > 0 {
		c.compare(ours, form)
		return
	}
	for _, r := range ours {
		c.differ(answer.FormDifference{Field: "row", Ours: describeRow(r.Quantity, r.Proceeds)},
			r, nil)
	}
	for _, f := range form {
		c.differ(answer.FormDifference{Field: "row", Form: describeRow(
			answer.Amount{Decimal: f.Quantity}, c.round(f.Proceeds))}, nil, f)
	}
}

// acquiredOn reports whether a row of the form has the date on which the lot was bought, or that
// date moved by the time that a wash sale added, which some brokers print.
func acquiredOn(r *answer.GainRow, f *importer.FormRow) bool {
	since, err := tax.ParseDate(r.HeldSince)
	return f.Acquired == r.Acquired || err == nil && f.Acquired == since.AddDays(-1).String()
}

func filter[T any](list []T, keep func(T) bool) []T {
	var kept []T
	for _, x := range list {
		if keep(x) {
			kept = append(kept, x)
		}
	}
	return kept
}

func without[T comparable](list, remove []T) []T {
	return filter(list, func(x T) bool { return !slices.Contains(remove, x) })
}

func describeRow(quantity, proceeds answer.Amount) string {
	return fmt.Sprintf("%s for %s", quantity, answer.Cash(proceeds))
}

// compare compares rows with those of the form that are about the same shares.
func (c *comparison) compare(ours []*answer.GainRow, form []*importer.FormRow) {
	var mine, theirs struct{ quantity, proceeds, basis, wash answer.Amount }
	for _, r := range ours {
		mine.quantity, mine.proceeds = c.add(mine.quantity, r.Quantity),
			c.add(mine.proceeds, r.Proceeds)
		mine.basis, mine.wash = c.add(mine.basis, r.Basis), c.add(mine.wash, r.Adjustment)
	}
	hasBasis, mixed := true, false
	for _, f := range form {
		theirs.quantity = c.add(theirs.quantity, answer.Amount{Decimal: f.Quantity})
		theirs.proceeds = c.add(theirs.proceeds, c.round(f.Proceeds))
		theirs.basis = c.add(theirs.basis, c.round(f.Basis))
		theirs.wash = c.add(theirs.wash, c.round(f.WashSale))
		hasBasis = hasBasis && f.HasBasis
		reported, _, digital := parseBox(f.Box)
		first, _, firstDigital := parseBox(form[0].Box)
		mixed = mixed || reported != first || digital != firstDigital
	}
	before := len(c.result.Differences)
	c.compareAmount("quantity", mine.quantity, theirs.quantity, ours[0], form[0])
	c.compareAmount("proceeds", mine.proceeds, theirs.proceeds, ours[0], form[0])
	if hasBasis {
		c.compareAmount("basis", mine.basis, theirs.basis, ours[0], form[0])
	}
	if hasBasis || !theirs.wash.IsZero() {
		c.compareAmount("wash_sale", mine.wash, theirs.wash, ours[0], form[0])
	}
	c.setBoxes(ours, form, mixed)
	if len(c.result.Differences) == before {
		c.result.Agree += len(form)
	}
}

// setBoxes sets the boxes of rows by the form. If rows of the form that cannot be paired have
// different boxes, those of our rows are not known.
func (c *comparison) setBoxes(ours []*answer.GainRow, form []*importer.FormRow, mixed bool) {
	theirs := make(map[string]bool)
	for _, f := range form {
		theirs[f.Box] = true
	}
	boxes := fmt.Sprint(slices.Sorted(maps.Keys(theirs)))
	for _, r := range ours {
		if mixed {
			r.Box, r.BoxReason = "", "the form has the boxes "+boxes+" for these shares"
			continue
		}
		reported, _, _ := parseBox(form[0].Box)
		r.Box = Box(reported, r.LongTerm, r.Digital)
		r.BoxReason = "the Form 1099-B"
		if !theirs[r.Box] {
			c.differ(answer.FormDifference{Field: "box", Ours: r.Box, Form: form[0].Box}, r,
				form[0])
		}
	}
}

func (c *comparison) compareAmount(field string, ours, form answer.Amount, r *answer.GainRow,
	f *importer.FormRow) {
	if ours.Equal(form) {
		return
	}
	difference := c.sub(ours, form)
	print := answer.Cash
	if field == "quantity" {
		print = answer.Amount.String
	}
	c.differ(answer.FormDifference{Field: field, Ours: print(ours), Form: print(form),
		Difference: &difference}, r, f)
}

// differ adds a difference. One of the rows may be nil.
func (c *comparison) differ(d answer.FormDifference, r *answer.GainRow, f *importer.FormRow) {
	if r != nil {
		d.Account, d.Ticker, d.Acquired, d.Sold, d.Record = r.Account, r.Ticker, r.Acquired, r.Sold,
			r.Record
	}
	if f != nil {
		d.FormLine = fmt.Sprintf("%s:%d", f.Source.File, f.Source.Line)
		if r == nil {
			d.Account, d.Ticker, d.Acquired, d.Sold = f.Account, f.Ticker, f.Acquired, f.Sold
		}
	}
	c.result.Differences = append(c.result.Differences, d)
}
