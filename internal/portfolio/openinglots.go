package portfolio

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"signalbox/internal/portfolio/importer"
	"signalbox/internal/portfolio/tax"
)

// summedLot begins the ID of a lot that stands for all lots of a position, because the list that it
// comes from has one basis for them.
const summedLot = "list-"

// openingRows returns transfers into the portfolio, one for each lot of a list whose purchase no
// transaction has. A lot needs its basis, and either the day of its purchase, or boughtBy, a day by
// which all shares of the list were bought: if it is a year before the list, they are long-term.
// Notes list the positions that give no lot, and why.
func (d *Data) openingRows(list []importer.Holding, day, boughtBy tax.Date) (rows []importer.Row,
	notes []string, problem *Problem) {
	positions := make(map[tax.Position][]importer.Holding)
	var order []tax.Position
	books := make(map[tax.Date]*tax.Book)
	for _, h := range list {
		p := tax.Position{Account: h.Account, Ticker: h.Ticker}
		if positions[p] == nil {
			order = append(order, p)
		}
		positions[p] = append(positions[p], h)
	}
	for _, p := range order {
		entries := positions[p]
		on := cmp.Or(entries[0].Date, day)
		if books[on] == nil {
			if books[on], problem = d.build(on); problem != nil {
				return nil, nil, problem
			}
		}
		opened, why := openLots(books[on], p, entries, boughtBy)
		if why != "" {
			notes = append(notes, fmt.Sprintf("no lot of %s in %s was opened: %s", p.Ticker,
				p.Account, why))
		}
		rows = append(rows, opened...)
	}
	return rows, notes, nil
}

// openLots returns the transfers that open the lots of a position, or why there are none.
func openLots(book *tax.Book, p tax.Position, entries []importer.Holding,
	boughtBy tax.Date) (rows []importer.Row, why string) {
	for i := range book.Lots {
		if l := &book.Lots[i]; l.Account == p.Account && l.Ticker == p.Ticker {
			return nil, "" // it has lots, which reconcile compares
		}
	}
	if slices.ContainsFunc(entries, func(h importer.Holding) bool { return h.Acquired == 0 }) {
		entries = mergeHoldings(entries)
	}
	for _, h := range entries {
		bought := cmp.Or(h.Acquired, boughtBy)
		switch {
		case !h.Quantity.IsPos():
			return nil, "it is short"
		case h.Basis == nil:
			return nil, "the list does not have its basis"
		case bought == 0:
			return nil, "the list does not have the day of its purchase: add a column acquired, or --bought-by"
		case bought > book.AsOf:
			return nil, "it was bought after the day of the list"
		case h.Acquired == 0 && tax.LongTermFrom(bought+1) > book.AsOf:
			return nil, fmt.Sprintf("whether it is long-term is not known: %s is less than a year before %s",
				bought, book.AsOf)
		case book.AsOf-bought <= washDays:
			return nil, "it was bought less than 31 days before the list: import its purchase, which wash sales depend on"
		}
		r := importer.Row{Transaction: tax.Transaction{Date: book.AsOf, ToAccount: p.Account,
			Action: tax.Transfer, Ticker: p.Ticker, Quantity: h.Quantity.Trim(0),
			DonorBasis: *h.Basis, DonorDate: bought}}
		if h.Acquired == 0 {
			r.LotID = summedLot + p.Ticker
		}
		rows = append(rows, r)
	}
	return rows, ""
}

// washDays is for how many days before a loss a purchase replaces it.
const washDays = 30

// soldOfSum returns the ticker of a sale that takes a part of a lot that stands for several: what it
// realizes is not known.
func soldOfSum(book *tax.Book, planned []tax.PlannedSale) (ticker string, found bool) {
	for _, s := range planned {
		for i := range book.Lots {
			l := &book.Lots[i]
			if l.Account == s.Account && l.Ticker == s.Ticker &&
				strings.HasPrefix(l.LotID, summedLot) && s.Quantity.Cmp(l.Quantity) < 0 {
				return s.Ticker, true
			}
		}
	}
	return "", false
}
