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
		if t := &d.transactions[i]; t.Action == tax.Split && t.Account != "" && t.Date <= on {
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
		"add the split to the other account, or write it once without an account, for all of them",
		"%s%s", found[0], andMore(len(found)-1))
}

// sortForTax sorts rows as the tax rules do: by date, and splits before the trades of the same day.
func sortForTax(rows []*tax.Transaction) {
	after := func(t *tax.Transaction) int {
		if t.Action == tax.Split {
			return 0
		}
		return 1
	}
	slices.SortStableFunc(rows, func(a, b *tax.Transaction) int {
		return cmp.Or(cmp.Compare(a.Date, b.Date), cmp.Compare(after(a), after(b)))
	})
}

// unevenSplit describes a split that is missing in an account. Rows are the sorted rows of one
// ticker.
func unevenSplit(rows []*tax.Transaction) string {
	days := make(map[string][]tax.Date) // days of splits by account
	for _, t := range rows {
		if t.Action == tax.Split {
			days[t.Account] = append(days[t.Account], t.Date)
		}
	}
	near := func(account string, day tax.Date) bool {
		return slices.ContainsFunc(append(slices.Clone(days[account]), days[""]...),
			func(d tax.Date) bool {
				return max(d, day)-min(d, day) <= splitDays
			})
	}
	held := make(map[string]Decimal)
	for _, t := range rows {
		if t.Action == tax.Split && t.Account != "" {
			for account, shares := range held {
				if shares.IsPos() && !near(account, t.Date) {
					return fmt.Sprintf("was split on %s in account %s, and not in %s, which held it", t.Date, t.Account, account)
				}
			}
		}
		if applyToHoldings(held, t) != nil {
			return "" // too large to count; the tax rules report it
		}
	}
	return ""
}
