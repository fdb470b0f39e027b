package portfolio

import (
	"slices"
	"strings"

	"signalbox/internal/portfolio/importer"
	"signalbox/internal/portfolio/tax"
)

// Twin is a transaction that seems to stand in two files.
type Twin struct{ First, Second tax.Source }

// Twins finds transactions that two files of different formats have in common: the same day, account, action, ticker
// and quantity under two IDs, as when a broker's CSV and OFX of one month are both imported. Only a person can tell
// whether they are one trade or two, so both are kept, and the caller should show the twins. Each row is the twin
// of one other at most.
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
			key := strings.Join([]string{r.Date, r.Account, r.ToAccount, string(r.Action), r.Ticker, r.Quantity.Trim(0).String()}, "\x1f")
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
