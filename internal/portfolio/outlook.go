package portfolio

import (
	"cmp"
	"slices"
	"time"

	"signalbox/internal/config"
	"signalbox/internal/portfolio/answer"
	"signalbox/internal/portfolio/tax"
)

// buildAll returns the book with all rows, also those after the day of the given one: a purchase of
// January disallows a loss of December.
func (d *Data) buildAll(book *tax.Book) (*tax.Book, *Problem) {
	last := book.AsOf
	for i := range d.transactions {
		last = max(last, d.transactions[i].Date)
	}
	if last == book.AsOf {
		return book, nil
	}
	return d.build(last)
}

// laterPurchases returns the purchases after a day that make wash sales of losses up to it, or of
// the candidates if they are sold on that day.
func (d *Data) laterPurchases(asOf tax.Date, found *tax.HarvestResult) []answer.LaterPurchase {
	before := restrictedUntil(found)
	var list []answer.LaterPurchase
	for i := range d.transactions {
		t := &d.transactions[i]
		if t.Date > asOf && t.Date < max(before[t.Ticker], before[tax.Underlying(t.Ticker)]) &&
			(t.Action == tax.Buy || t.Action == tax.Reinvest) {
			list = append(list, answer.LaterPurchase{Purchase: answer.Purchase{
				Date: t.Date.String(), Account: t.Account, Ticker: t.Ticker,
				Shares: amount(t.Quantity)}, Record: sourcePosition(t.Source)})
		}
	}
	slices.SortStableFunc(list,
		func(a, b answer.LaterPurchase) int { return cmp.Compare(a.Date, b.Date) })
	return list
}

// restrictedUntil returns, by ticker, the first day on which a purchase does no harm, for past
// losses and for the candidates if they are sold.
func restrictedUntil(found *tax.HarvestResult) map[string]tax.Date {
	before := make(map[string]tax.Date)
	for _, list := range [][]tax.Restriction{found.DoNotBuyNow, found.DoNotBuy} {
		for _, r := range list {
			for _, ticker := range r.Tickers {
				before[ticker] = max(before[ticker], r.Before)
			}
		}
	}
	return before
}

// laterDisallowed returns what the rows after the day of a book disallow of the losses of its year.
func laterDisallowed(book, all *tax.Book,
	wanted func(account string) bool) (answer.Amount, *Problem) {
	var n sums
	var more Decimal
	add := func(sales []tax.Sale, sign func(Decimal) Decimal) {
		for i := range sales {
			if s := &sales[i]; s.Date <= book.AsOf && s.Date.Year() == book.AsOf.Year() &&
				wanted(s.Account) {
				n.add(&more, sign(s.Disallowed))
			}
		}
	}
	if all != book {
		add(all.Sales, func(d Decimal) Decimal { return d })
		add(book.Sales, Decimal.Neg)
	}
	if n.err != nil {
		return answer.Amount{}, asProblem(n.err, NotComputable, amountsHint)
	}
	return amount(more.Trim(0)), nil
}

// averageCost returns the tickers that brokers keep at average cost.
func (d *Data) averageCost() map[string]bool {
	tickers := make(map[string]bool)
	for _, ticker := range d.Config.AverageCost {
		tickers[normalTicker(ticker)] = true
	}
	if d.Config.AverageCost != nil {
		return tickers
	}
	for i := range d.transactions {
		if ticker := d.transactions[i].Ticker; config.UsualAverageCost(ticker) {
			tickers[ticker] = true
		}
	}
	return tickers
}

// heldTickers returns the tickers of lots in wanted taxable accounts that satisfy is, sorted.
func heldTickers(book *tax.Book, wanted func(account string) bool,
	is func(ticker string) bool) []string {
	var tickers []string
	for i := range book.Lots {
		if l := &book.Lots[i]; l.Taxable && wanted(l.Account) && is(l.Ticker) {
			tickers = append(tickers, l.Ticker)
		}
	}
	for i := range book.Sales {
		if s := &book.Sales[i]; s.Taxable && wanted(s.Account) && is(s.Ticker) &&
			s.Date.Year() == book.AsOf.Year() {
			tickers = append(tickers, s.Ticker)
		}
	}
	slices.Sort(tickers)
	return slices.Compact(tickers)
}

// expectedReinvestments returns when the positions that are held, in any account, will probably be
// reinvested next. Only a regular series of at least three has a next one.
func (d *Data) expectedReinvestments(book *tax.Book,
	found *tax.HarvestResult) []answer.ExpectedReinvestment {
	days := make(map[tax.Position][]tax.Date)
	for i := range d.transactions {
		if t := &d.transactions[i]; t.Action == tax.Reinvest && t.Date <= book.AsOf {
			p := tax.Position{Account: t.Account, Ticker: t.Ticker}
			days[p] = append(days[p], t.Date)
		}
	}
	before := restrictedUntil(found)
	var list []answer.ExpectedReinvestment
	for p, series := range days {
		slices.Sort(series)
		series = slices.Compact(series)
		next, regular := nextOf(series)
		if !regular || !book.Held[p].IsPos() || next+overdueDays < book.AsOf {
			continue
		}
		next = max(next, book.AsOf)
		list = append(list, answer.ExpectedReinvestment{Ticker: p.Ticker, AccountID: p.Account,
			Last: series[len(series)-1].String(), Next: next.String(),
			Restricted: next < before[p.Ticker]})
	}
	slices.SortFunc(list, func(a, b answer.ExpectedReinvestment) int {
		return cmp.Or(cmp.Compare(a.Next, b.Next), cmp.Compare(a.Ticker, b.Ticker),
			cmp.Compare(a.AccountID, b.AccountID))
	})
	return list
}

// overdueDays is how late a reinvestment may be before its series counts as ended.
const overdueDays = 10

// nextOf returns the next day of a series of days, which has the pace of its last ones: weeks,
// months, quarters, halves or years. It reports false if the series is too short or not regular.
func nextOf(days []tax.Date) (next tax.Date, regular bool) {
	const least, considered = 3, 5
	if len(days) < least {
		return 0, false
	}
	days = days[max(0, len(days)-considered):]
	last := days[len(days)-1]
	year, month, day := last.Time().Date()
	for _, pace := range []struct {
		months            int
		shortest, longest tax.Date
	}{{0, 5, 9}, {1, 23, 38}, {3, 80, 103}, {6, 168, 197}, {12, 345, 385}} {
		fits := true
		for i := 1; i < len(days); i++ {
			gap := days[i] - days[i-1]
			fits = fits && gap >= pace.shortest && gap <= pace.longest
		}
		if !fits {
			continue
		}
		if pace.months == 0 {
			return last.AddDays(7), true
		}
		// The 31st of a short month is its last day.
		end := tax.DateOf(year, month+time.Month(pace.months)+1, 0)
		return min(tax.DateOf(year, month+time.Month(pace.months), day), end), true
	}
	return 0, false
}
