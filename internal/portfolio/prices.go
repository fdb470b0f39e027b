package portfolio

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/govalues/decimal"

	"signalbox/internal/portfolio/exitrule"
	"signalbox/internal/portfolio/importer"
	"signalbox/internal/portfolio/tax"
)

// Decimal is money or a quantity.
type Decimal = decimal.Decimal

const (
	// freshDays is how old a price may be before the answer says so: a week with a long weekend.
	freshDays = 7
	// rateDays is how old an exchange rate may be. Rates are quoted on every working day.
	rateDays = 10
)

func (d *Data) takePrices(prices []importer.Price) *Problem {
	for i := range prices {
		p := &prices[i]
		date, err := tax.ParseDate(p.Date)
		if err != nil {
			return problemf(MalformedFile, malformedHint, "%s:%d: %v", p.Source.File, p.Source.Line, err)
		}
		d.prices[p.Ticker] = append(d.prices[p.Ticker], price{date, p.Close, p.Adjusted, or(p.Currency, dollars)})
	}
	return nil
}

// sortPrices puts each ticker's prices in order. Two files may overlap; where they differ, neither is believed.
func (d *Data) sortPrices() *Problem {
	for ticker, list := range d.prices {
		slices.SortStableFunc(list, func(a, b price) int { return cmp.Compare(a.date, b.date) })
		kept := list[:0]
		for _, p := range list {
			if n := len(kept); n > 0 && kept[n-1].date == p.date {
				if last := kept[n-1]; last.close.Cmp(p.close) != 0 || last.adjusted.Cmp(p.adjusted) != 0 || last.currency != p.currency {
					return problemf(MalformedFile, "keep one of them", "two files in %s have different prices of %s on %s", pricesFolder, ticker, p.date)
				}
				continue
			}
			kept = append(kept, p)
		}
		d.prices[ticker] = kept
	}
	return nil
}

func (d *Data) takeRates(rates []importer.Rate) *Problem {
	for i := range rates {
		r := &rates[i]
		date, err := tax.ParseDate(r.Date)
		if err != nil {
			return problemf(MalformedFile, malformedHint, "%s:%d: %v", r.Source.File, r.Source.Line, err)
		}
		switch {
		case r.To == dollars:
			d.rates[r.From] = append(d.rates[r.From], rate{date, r.Rate})
		case r.From == dollars:
			inverse, err := decimal.One.Quo(r.Rate)
			if err != nil {
				return problemf(NotComputable, "check the rate", "%s:%d: the rate cannot be inverted: %s", r.Source.File, r.Source.Line, plainly(err.Error()))
			}
			d.rates[r.To] = append(d.rates[r.To], rate{date, inverse})
		}
	}
	for currency, list := range d.rates {
		slices.SortStableFunc(list, func(a, b rate) int { return cmp.Compare(a.date, b.date) })
		for i := 1; i < len(list); i++ {
			if list[i].date == list[i-1].date { // one as EUR in USD, the other as USD in EUR
				return problemf(MalformedFile, "keep one of them", "%s has two rates of %s and %s on %s", ratesFile, currency, dollars, list[i].date)
			}
		}
	}
	return nil
}

// rate is what a unit of a currency was worth in dollars on a day.
func (d *Data) rate(currency string, on tax.Date) (Decimal, *Problem) {
	list := d.rates[currency]
	n, found := slices.BinarySearchFunc(list, on, func(r rate, on tax.Date) int { return cmp.Compare(r.date, on) })
	if !found {
		n--
	}
	if n < 0 || on-list[n].date > rateDays {
		return decimal.Zero, problemf(MissingRate, fmt.Sprintf("add a line to %s: %s,%s,%s,RATE", ratesFile, on, currency, dollars),
			"there is no exchange rate of %s in dollars for %s", currency, on)
	}
	return list[n].rate, nil
}

// latest is the last price of a ticker up to a day.
func (d *Data) latest(ticker string, on tax.Date) (price, bool) {
	list := d.prices[ticker]
	n, found := slices.BinarySearchFunc(list, on, func(p price, on tax.Date) int { return cmp.Compare(p.date, on) })
	if !found {
		n--
	}
	if n < 0 {
		return price{}, false
	}
	return list[n], true
}

// quote is what a ticker is worth in dollars.
type quote struct {
	Decimal
	date tax.Date
}

// quote finds the price of a ticker for a day. Between its price and the day it must not have been split: the shares
// would be today's and the price yesterday's.
func (d *Data) quote(ticker string, on tax.Date, split tax.Date) (quote, *Problem) {
	p, ok := d.latest(ticker, on)
	if !ok {
		return quote{}, problemf(MissingPrice, fmt.Sprintf("add a line to a file in %s: %s,%s,CLOSE (what is worthless has a close of 0.0001)", pricesFolder, on, ticker),
			"there is no price of %s on %s or before", ticker, on)
	}
	if problem := p.checkSplit(ticker, split, on); problem != nil {
		return quote{}, problem
	}
	if p.currency == dollars {
		return quote{p.close, p.date}, nil
	}
	rate, problem := d.rate(p.currency, p.date)
	if problem != nil {
		return quote{}, problem
	}
	value, err := p.close.Mul(rate)
	if err != nil {
		return quote{}, problemf(NotComputable, "check the price and the rate", "the price of %s in dollars cannot be computed: %s", ticker, plainly(err.Error()))
	}
	return quote{value, p.date}, nil
}

// checkSplit refuses a price of shares that were split since.
func (p price) checkSplit(ticker string, split, on tax.Date) *Problem {
	if split <= p.date {
		return nil
	}
	return problemf(MissingPrice, fmt.Sprintf("add to a file in %s, below its header date,ticker,close: %s,%s,CLOSE", pricesFolder, on, ticker),
		"the last price of %s is of %s, before its split on %s", ticker, p.date, split)
}

// splits are the days of the last split of each ticker up to a day.
func (d *Data) splits(on tax.Date) map[string]tax.Date {
	last := make(map[string]tax.Date)
	for i := range d.transactions {
		if t := &d.transactions[i]; t.Action == tax.Split && t.Date <= on {
			last[t.Ticker] = max(last[t.Ticker], t.Date)
		}
	}
	return last
}

// series are a ticker's prices for the exit rules, in its own currency. Plain closes from before a split are no
// measure for those after it, and are left out; cut says so.
func (d *Data) series(ticker string, split tax.Date) (prices []exitrule.Price, cut bool) {
	for _, p := range d.prices[ticker] {
		if p.date < split && p.adjusted.IsZero() {
			cut = true
			continue
		}
		prices = append(prices, exitrule.Price{Date: calendar(p.date), Close: p.close, Adjusted: p.adjusted})
	}
	return prices, cut
}

// calendar is a day at midnight UTC.
func calendar(d tax.Date) time.Time {
	t, err := time.Parse(time.DateOnly, d.String())
	if err != nil {
		return time.Time{}
	}
	return t
}
