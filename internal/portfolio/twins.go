package portfolio

import (
	"slices"
	"strings"

	"signalbox/internal/portfolio/importer"
	"signalbox/internal/portfolio/tax"
)

// Twin is a pair of rows in two files that seem to be the same transaction.
type Twin struct{ First, Second tax.Source }

// Twins finds rows of different formats with the same date, account, action, ticker and quantity
// but different IDs, as when a broker's CSV and OFX of one month are both imported. Only the user
// knows whether they are one trade or two, so both are kept, and the caller should show the twins.
// Each row has at most one twin.
func Twins(imports ...*importer.Import) []Twin {
	type seen struct {
		format string
		source tax.Source
	}
	var twins []Twin
	open, ids := make(map[string][]seen), make(map[string]bool)
	for _, imp := range imports {
		for _, r := range imp.Rows {
			if ids[r.ID] {
				continue
			}
			ids[r.ID] = true
			key := strings.Join([]string{r.Date.String(), r.Account, r.ToAccount, string(r.Action), r.Ticker,
				r.Quantity.Trim(0).String()}, "\x1f")
			i := slices.IndexFunc(open[key], func(s seen) bool { return s.format != imp.Format })
			if i < 0 {
				open[key] = append(open[key], seen{imp.Format, r.Source})
				continue
			}
			twins = append(twins, Twin{First: open[key][i].source, Second: r.Source})
			open[key] = slices.Delete(open[key], i, i+1)
		}
	}
	return twins
}
