package portfolio

import (
	"cmp"
	"fmt"
	"slices"

	"signalbox/internal/portfolio/tax"
)

// splitDays is the number of days by which two brokers may differ in booking the same split.
const splitDays = 10

// checkSplits refuses a split that is missing in one of the accounts that held the shares: that
// account would have the number of shares from before the split, at the price from after it.
func (d *Data) checkSplits(on tax.Date) *Problem {
	rows := make(map[string][]*tax.Transaction)
	for i := range d.transactions {
		if t := &d.transactions[i]; corporate(t) != "" && t.Account != "" && t.Date <= on {
			rows[t.Ticker] = nil
		}
	}
	if len(rows) == 0 {
		return nil
	}
	for i := range d.transactions {
		t := &d.transactions[i]
		if list, split := rows[t.Ticker]; split && t.Date <= on {
			rows[t.Ticker] = append(list, t)
		}
	}
	var found []string
	for ticker, list := range rows {
		sortForTax(list)
		if fault := unevenSplit(list); fault != "" {
			found = append(found, ticker+" "+fault)
		}
	}
	if len(found) == 0 {
		return nil
	}
	slices.Sort(found)
	return problemf(MissingSplit,
		"add the row to the other account, or write it once without an account, for all of them",
		"%s%s", found[0], andMore(len(found)-1))
}

// sortForTax sorts rows as the tax rules do: by date, and splits before the trades of the same day.
func sortForTax(rows []*tax.Transaction) {
	after := func(t *tax.Transaction) int {
		switch {
		case t.Action == tax.Split:
			return 0
		case corporate(t) != "":
			return 1
		}
		return 2
	}
	slices.SortStableFunc(rows, func(a, b *tax.Transaction) int {
		return cmp.Or(cmp.Compare(a.Date, b.Date), cmp.Compare(after(a), after(b)))
	})
}

// corporate describes what a split, spin-off or exchange did to a ticker. It returns nothing for
// other rows.
func corporate(t *tax.Transaction) string {
	switch t.Action {
	case tax.Split:
		return "was split"
	case tax.SpinOff:
		return "had a spin-off"
	case tax.Exchange:
		return "was exchanged"
	}
	return ""
}

// unevenSplit describes a split, spin-off or exchange that is missing in an account. Rows are the sorted rows of one
// ticker.
func unevenSplit(rows []*tax.Transaction) string {
	type place struct {
		account string
		action  tax.Action
	}
	days := make(map[place][]tax.Date)
	for _, t := range rows {
		if corporate(t) != "" {
			p := place{t.Account, t.Action}
			days[p] = append(days[p], t.Date)
		}
	}
	near := func(account string, action tax.Action, day tax.Date) bool {
		return slices.ContainsFunc(append(slices.Clone(days[place{account, action}]),
			days[place{"", action}]...),
			func(d tax.Date) bool {
				return max(d, day)-min(d, day) <= splitDays
			})
	}
	held := make(map[string]Decimal)
	for _, t := range rows {
		if what := corporate(t); what != "" && t.Account != "" {
			for account, shares := range held {
				if shares.IsPos() && !near(account, t.Action, t.Date) {
					return fmt.Sprintf("%s on %s in account %s, and not in %s, which held it", what,
						t.Date, t.Account, account)
				}
			}
		}
		if applyToHoldings(held, t) != nil {
			return "" // too large to count; the tax rules report it
		}
	}
	return ""
}
