package answer

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"signalbox/internal/text"
)

// addClean adds what is clean today and later, lot by lot, and the worst sale of a single lot.
// Without a check for wash sales, it is not known what is clean.
func (s *HarvestSnapshot) addClean(r HarvestResult) error {
	if r.CandidateCount == 0 || r.Metadata.WashSalesNotChecked {
		return nil
	}
	later := make(map[string]*CleanDate)
	for _, c := range r.Candidates {
		if c.PermanentLoss.Sign() != 0 &&
			(s.WorstSale == nil || c.PermanentLoss.CmpAbs(s.WorstSale.Permanent.Decimal) > 0) {
			s.WorstSale = &WorstSale{Ticker: c.Ticker, AccountID: c.AccountID,
				LotID: text.Shorten(c.LotID, maxName/2), Permanent: c.PermanentLoss}
		}
		sum, lots := &s.CleanToday, &s.CleanLots
		if !c.CleanToday(r) {
			if later[c.CleanDate] == nil {
				later[c.CleanDate] = &CleanDate{Date: c.CleanDate}
			}
			sum, lots = &later[c.CleanDate].Loss, &later[c.CleanDate].Lots
		}
		more, err := sum.Add(c.UnrealizedLoss.Decimal)
		if err != nil {
			return fmt.Errorf("the losses of %s are too large to add: check its lots: %w", c.Ticker,
				err)
		}
		*sum = Amount{more}
		*lots++
	}
	s.CleanToday = s.CleanToday.cents()
	for _, d := range later {
		d.Loss = d.Loss.cents()
		s.CleanLater = append(s.CleanLater, *d)
	}
	slices.SortFunc(s.CleanLater, func(a, b CleanDate) int { return cmp.Compare(a.Date, b.Date) })
	s.Headline = s.headline(r)
	s.CleanLater = first(s.CleanLater, maxCleanDates)
	if s.WorstSale != nil {
		s.WorstSale.Permanent = s.WorstSale.Permanent.cents()
	}
	return nil
}

// CleanToday reports whether selling the lot today is known not to be a wash sale.
func (c *HarvestCandidate) CleanToday(r HarvestResult) bool {
	return !r.Metadata.WashSalesNotChecked && c.CleanDate <= r.Metadata.AsOf &&
		c.DisallowedShares.Sign() == 0
}

// headline says what can be sold when without a wash sale, and what the totals assume.
func (s *HarvestSnapshot) headline(r HarvestResult) string {
	line := "no lot is clean today"
	if s.CleanLots > 0 {
		line = fmt.Sprintf("%s is clean today in %s", exactDollars(s.CleanToday),
			text.Count(s.CleanLots, "lot"))
	}
	var more []string
	for _, d := range first(s.CleanLater, maxCleanDates) {
		more = append(more, fmt.Sprintf("%s more from %s", exactDollars(d.Loss), d.Date))
	}
	if n := len(s.CleanLater) - maxCleanDates; n > 0 {
		more = append(more, fmt.Sprintf("the rest on %s until %s", text.Count(n, "later day"),
			s.CleanLater[len(s.CleanLater)-1].Date))
	}
	if more != nil {
		line += ", " + strings.Join(more, ", ")
	}
	if r.CandidateCount > 1 {
		line += fmt.Sprintf("; totals hold only if all %d lots are sold that day", r.CandidateCount)
	}
	return line
}

// Larger returns the larger of two amounts, ignoring signs.
func Larger(a, b Amount) Amount {
	if b.CmpAbs(a.Decimal) > 0 {
		return b
	}
	return a
}
