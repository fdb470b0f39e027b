package portfolio

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/govalues/decimal"

	"signalbox/internal/portfolio/exitrule"
	"signalbox/internal/portfolio/importer"
	"signalbox/internal/portfolio/tax"
)

// Decimal is an amount of money or a quantity.
type Decimal = decimal.Decimal

const (
	// freshDays is the age in days above which the answer warns of an old price. It covers a week
	// with a long weekend.
	freshDays = 7
	// rateDays is the maximum age of an exchange rate in days. Rates are quoted on every working
	// day.
	rateDays = 10
)

func (d *Data) addDailyPrices(prices []importer.Price) {
	for i := range prices {
		p := &prices[i]
		d.prices[p.Ticker] = append(d.prices[p.Ticker],
			price{p.Date, p.Close, p.Adjusted, cmp.Or(p.Currency, dollars)})
	}
}

// sortPrices sorts the prices of each ticker by date. Files may overlap, but must not contradict
// each other.
func (d *Data) sortPrices() *Problem {
	for ticker, list := range d.prices {
		slices.SortStableFunc(list, func(a, b price) int { return cmp.Compare(a.date, b.date) })
		kept := list[:0]
		for _, p := range list {
			if n := len(kept); n > 0 && kept[n-1].date == p.date {
				if last := kept[n-1]; last.close.Cmp(p.close) != 0 ||
					last.adjusted.Cmp(p.adjusted) != 0 || last.currency != p.currency {
					return problemf(MalformedFile, "keep one of them",
						"two files in %s have different prices of %s on %s", pricesFolder, ticker,
						p.date)
				}
				continue
			}
			kept = append(kept, p)
		}
		d.prices[ticker] = kept
	}
	return nil
}

func (d *Data) addRates(rates []importer.Rate) *Problem {
	for i := range rates {
		r := &rates[i]
		switch {
		case r.To == dollars:
			d.rates[r.From] = append(d.rates[r.From], rate{r.Date, r.Rate})
		case r.From == dollars:
			inverse, err := decimal.One.Quo(r.Rate)
			if err != nil {
				return problemf(NotComputable, "check the rate",
					"%s: the rate cannot be inverted: %s", sourcePosition(r.Source),
					readable(err.Error()))
			}
			d.rates[r.To] = append(d.rates[r.To], rate{r.Date, inverse})
		}
	}
	for currency, list := range d.rates {
		slices.SortStableFunc(list, func(a, b rate) int { return cmp.Compare(a.date, b.date) })
		for i := 1; i < len(list); i++ {
			if list[i].date == list[i-1].date { // one from EUR to USD, the other from USD to EUR
				return problemf(MalformedFile, "keep one of them",
					"%s has two rates of %s and %s on %s", ratesFile, currency, dollars,
					list[i].date)
			}
		}
	}
	return nil
}

// rate returns the value of a unit of a currency in dollars on a day.
func (d *Data) rate(currency string, on tax.Date) (Decimal, *Problem) {
	list := d.rates[currency]
	n, found := slices.BinarySearchFunc(list, on,
		func(r rate, on tax.Date) int { return cmp.Compare(r.date, on) })
	if !found {
		n--
	}
	if n < 0 || on-list[n].date > rateDays {
		return decimal.Zero,
			problemf(MissingRate, fmt.Sprintf("add a line to %s: %s,%s,%s,RATE", ratesFile, on,
				currency, dollars),
				"there is no exchange rate of %s in dollars for %s", currency, on)
	}
	return list[n].rate, nil
}

// latest returns the last price of a ticker up to a day.
func (d *Data) latest(ticker string, on tax.Date) (price, bool) {
	list := d.prices[ticker]
	n, found := slices.BinarySearchFunc(list, on,
		func(p price, on tax.Date) int { return cmp.Compare(p.date, on) })
	if !found {
		n--
	}
	if n < 0 {
		return price{}, false
	}
	return list[n], true
}

// quote is a price in dollars, and its date.
type quote struct {
	Decimal
	date tax.Date
}

// quote returns the last price of a ticker up to a day. It refuses a price from before the last
// split, which would be for a different number of shares.
func (d *Data) quote(ticker string, on tax.Date, split tax.Date) (quote, *Problem) {
	p, ok := d.latest(ticker, on)
	if !ok {
		return quote{}, problemf(MissingPrice,
			fmt.Sprintf("add a line to a file in %s: %s,%s,CLOSE (use 0.0001 for a worthless security)", pricesFolder, on, ticker),
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
		return quote{}, problemf(NotComputable, "check the price and the rate",
			"the price of %s in dollars cannot be computed: %s", ticker, readable(err.Error()))
	}
	return quote{value, p.date}, nil
}

// checkSplit refuses a price from before a split.
func (p price) checkSplit(ticker string, split, on tax.Date) *Problem {
	if split <= p.date {
		return nil
	}
	return problemf(MissingPrice,
		fmt.Sprintf("add to a file in %s, below its header date,ticker,close: %s,%s,CLOSE",
			pricesFolder, on, ticker),
		"the last price of %s is from %s, before its split or spin-off on %s", ticker, p.date, split)
}

// splits returns the day of the last split or spin-off of each ticker, up to a day: prices from
// before it are for other shares.
func (d *Data) splits(on tax.Date) map[string]tax.Date {
	last := make(map[string]tax.Date)
	for i := range d.transactions {
		if t := &d.transactions[i]; (t.Action == tax.Split || t.Action == tax.SpinOff) &&
			t.Date <= on {
			last[t.Ticker] = max(last[t.Ticker], t.Date)
		}
	}
	return last
}

// series returns the prices of a ticker for the exit rules, in its own currency. Closes from before
// a split that are not adjusted cannot be compared with later ones, so they are omitted; then cut
// is true.
func (d *Data) series(ticker string, split tax.Date) (prices []exitrule.Price, cut bool) {
	for _, p := range d.prices[ticker] {
		if p.date < split && p.adjusted.IsZero() {
			cut = true
			continue
		}
		prices = append(prices,
			exitrule.Price{Date: p.date, Close: p.close, Adjusted: p.adjusted})
	}
	return prices, cut
}
