package importer

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/govalues/decimal"

	"signalbox/internal/portfolio/tax"
)

var errClosedLots = errors.New("expected quantity@date or quantity@dateTtime, separated by " +
	"semicolons, such as 60@2023-01-05T09:30:01;40@2023-02-01")

// parseClosedLots parses the column closed_lots. Empty text has no lots.
func parseClosedLots(text string) ([]tax.ClosedLot, error) {
	if text == "" {
		return nil, nil
	}
	var lots []tax.ClosedLot
	for part := range strings.SplitSeq(text, ";") {
		quantity, opened, found := strings.Cut(strings.TrimSpace(part), "@")
		day, clock, timed := strings.Cut(opened, "T")
		n, numberErr := parseNumber(quantity)
		date, dateErr := tax.ParseDate(day)
		lot := tax.ClosedLot{Opened: date, Quantity: n.Decimal}
		if timed {
			var err error
			if lot.Time, err = tax.ParseClock(clock); err != nil {
				return nil, fmt.Errorf("%q: %w", oneLine(part), errClosedLots)
			}
		}
		if !found || numberErr != nil || dateErr != nil || !n.IsPos() {
			return nil, fmt.Errorf("%q: %w", oneLine(part), errClosedLots)
		}
		lots = append(lots, lot)
	}
	return lots, nil
}

// formatClosedLots returns lots as in the column closed_lots.
func formatClosedLots(lots []tax.ClosedLot) string {
	if len(lots) == 0 {
		return ""
	}
	texts := make([]string, len(lots))
	for i, l := range lots {
		texts[i] = l.Quantity.Trim(0).String() + "@" + l.Opened.String()
		if l.Time != 0 {
			texts[i] += "T" + l.Time.String()
		}
	}
	return strings.Join(texts, ";")
}

// flexSale is an execution of a Flex query that closed lots.
type flexSale struct {
	row      int // in the import
	item     int // in the query
	at       position
	account  string
	ticker   string
	date     tax.Date
	time     tax.Clock
	refs     []string
	realized number
	lots     []flexLot
}

// flexLot is a closed lot of a Flex query.
type flexLot struct {
	tax.ClosedLot
	realized number
}

// addSale remembers the row of an execution, if it added one that can close lots.
func (in *input) addSale(f flexItem, item, rowsBefore int) {
	if len(in.imp.Rows) == rowsBefore {
		return
	}
	r := &in.imp.Rows[rowsBefore]
	if r.Action != Sell && r.Action != Expire {
		return
	}
	in.sales = append(in.sales, flexSale{row: rowsBefore, item: item, at: f.at, account: r.Account,
		ticker: r.Ticker, date: r.Date, time: r.Time,
		refs:     []string{f.get("tradeID"), f.get("transactionID")},
		realized: in.flexNumber(f, "fifoPnlRealized")})
}

// closeLots reads the closed lots of a Flex query. They name the lots that the broker closed with a
// sale. The method of the account may choose other lots, so each closed lot must belong to one
// sale.
func (in *input) closeLots(items []flexItem, lots []int) {
	for _, i := range lots {
		f := items[i]
		opened, clock := in.flexOpened(f)
		if opened == 0 || !strings.EqualFold(f.get("buySell"), "SELL") {
			in.skip(f.at.line, f.text(), whyRepeats, false)
			continue
		}
		before := in.faultCount()
		lot := flexLot{realized: in.flexNumber(f, "fifoPnlRealized")}
		lot.Opened, lot.Time, lot.Quantity = opened, clock, in.flexNumber(f, "quantity").Abs()
		e := event{}
		in.flexSymbol(f, &e)
		date := in.flexDate(f, "tradeDate", "dateTime")
		if in.faultCount() > before {
			continue
		}
		sale := in.saleOf(f, i, e.ticker, date, lot.Quantity)
		if sale == nil {
			in.skip(f.at.line, f.text(),
				"closes a lot with a sale that is not in the file: choose executions in the Flex query", true)
			continue
		}
		sale.lots = append(sale.lots, lot)
	}
	for i := range in.sales {
		in.identifyLots(&in.sales[i])
	}
}

// saleOf returns the sale that closed a lot: the one with its number, or of its time, or the last
// one before it in the query.
func (in *input) saleOf(f flexItem, item int, ticker string, date tax.Date,
	quantity decimal.Decimal) *flexSale {
	var of []*flexSale
	for i := range in.sales {
		s := &in.sales[i]
		if s.account == f.get("accountId") && s.ticker == ticker && s.date == date {
			of = append(of, s)
		}
	}
	clock := flexTime(f, date)
	for _, matches := range []func(s *flexSale) bool{
		func(s *flexSale) bool {
			return slices.ContainsFunc([]string{f.get("tradeID"), f.get("transactionID")},
				func(ref string) bool { return ref != "" && slices.Contains(s.refs, ref) })
		},
		func(s *flexSale) bool { return clock != 0 && s.time == clock },
		func(s *flexSale) bool { return s.item < item },
	} {
		if some := slices.DeleteFunc(slices.Clone(of),
			func(s *flexSale) bool { return !matches(s) }); len(some) > 0 {
			of = some
		}
	}
	if len(of) == 0 {
		return nil
	}
	// Of several fills of one second, the first that has room.
	for _, s := range of {
		c, sum := &calc{}, quantity
		for _, l := range s.lots {
			sum = c.add(sum, l.Quantity)
		}
		if c.err == nil && sum.Cmp(in.imp.Rows[s.row].Quantity) <= 0 {
			return s
		}
	}
	return of[len(of)-1]
}

// identifyLots sets the lots of a sale. What the lots add up to must be the sale.
func (in *input) identifyLots(s *flexSale) {
	if len(s.lots) == 0 {
		return
	}
	c := &calc{}
	var quantity, realized decimal.Decimal
	var lots []tax.ClosedLot
	complete := s.realized.present
	for _, l := range s.lots {
		quantity, realized = c.add(quantity, l.Quantity), c.add(realized, l.realized.Decimal)
		complete = complete && l.realized.present
		lots = append(lots, l.ClosedLot)
	}
	r := &in.imp.Rows[s.row]
	// Each lot is rounded to a cent.
	off := c.sub(realized, s.realized.Decimal).Abs()
	switch slack := decimal.MustNew(int64(len(s.lots))+1, 2); {
	case c.err != nil:
		in.addFault(s.at, "the closed lots of %s: %v", s.ticker, c.err)
	case quantity.Cmp(r.Quantity) != 0:
		in.addFault(s.at, "the sale of %s has %s shares and its closed lots have %s: export all closed lots of the sale, or none",
			s.ticker, r.Quantity.Trim(0), quantity.Trim(0))
	case complete && off.Cmp(slack) > 0:
		in.addFault(s.at, "the sale of %s realized %s and its closed lots realized %s: export them again, or remove the closed lots",
			s.ticker, s.realized.Trim(0), realized.Trim(0))
	}
	r.Lots = lots
}

// flexOpened returns when a closed lot was opened. The day is zero if the query does not say.
func (in *input) flexOpened(f flexItem) (day tax.Date, clock tax.Clock) {
	opened := flexItem{attr: map[string]string{"dateTime": f.get("openDateTime")}, at: f.at}
	if opened.get("dateTime") == "" {
		return 0, 0
	}
	day = in.flexDate(opened, "dateTime")
	return day, flexTime(opened, day)
}

// flexTime returns the time of a record of a day, or zero if it is not known. In night sessions,
// the trade date is the next day.
func flexTime(f flexItem, date tax.Date) tax.Clock {
	day, clock, found := cutAny(f.get("dateTime"), ";, T")
	if !found {
		return 0
	}
	if d, ok := parseDate(day, flexDates()...); !ok || d != date {
		return 0
	}
	digits := strings.ReplaceAll(strings.TrimLeft(clock, ";, T"), ":", "")
	if len(digits) > 6 && digits[6] >= '0' && digits[6] <= '9' {
		return 0
	}
	if len(digits) < 6 || strings.Trim(digits[:6], "0123456789") != "" {
		return 0
	}
	known, err := tax.ParseClock(digits[:2] + ":" + digits[2:4] + ":" + digits[4:6])
	if err != nil {
		return 0
	}
	return known
}

func cutAny(s, chars string) (before, after string, found bool) {
	if i := strings.IndexAny(s, chars); i >= 0 {
		return s[:i], s[i+1:], true
	}
	return s, "", false
}
