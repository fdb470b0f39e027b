package answer

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"signalbox/brief"
	"signalbox/internal/text"
)

// Thresholds of coverage, in percent.
const (
	lowCoverage      = 50
	moderateCoverage = 75
)

// significantLoss is the loss in dollars from which it is significant, regardless of the filing
// status.
const significantLoss = 3000

// mostlyShortTerm is the percentage of short-term losses from which losses are mostly short-term.
const mostlyShortTerm = 50

// FlagsHarvest returns the flags of a snapshot, sorted.
func FlagsHarvest(s HarvestSnapshot) []brief.Flag {
	if s.Status != string(brief.StatusSuccess) {
		flags := []brief.Flag{{Flag: "harvest_error", Severity: brief.Error,
			Message: cmp.Or(s.Verdict, "Tax harvest analysis failed")}}
		return append(flags, problemFlag(s.ErrorKind, s.ErrorHint)...)
	}
	var flags []brief.Flag
	if s.CandidateCount == 0 {
		flags = nothingToHarvest(s)
	} else {
		flags = candidateFlags(s)
	}
	// The following flags do not suppress harvest_available, which candidateFlags adds if there are
	// no others.
	if s.PermanentlyDisallowed.Sign() != 0 {
		flags = append(flags, brief.Flag{Flag: "permanently_disallowed", Severity: brief.Warning,
			Message: exactDollars(s.PermanentlyDisallowed) +
				" of realized losses permanently disallowed — replaced in an IRA, Roth, HSA or 401k"})
	}
	if s.DisallowedForGood.Sign() != 0 {
		flags = append(flags, brief.Flag{Flag: "would_be_lost", Severity: brief.Warning,
			Message: exactDollars(s.DisallowedForGood) +
				" of the losses would be lost for good — purchases in an IRA, Roth, HSA or 401k would replace the shares"})
	}
	if s.WashSalesNotChecked {
		flags = append(flags, brief.Flag{Flag: "wash_sales_not_checked", Severity: brief.Warning,
			Message: "Wash sales were not checked — some of the losses may be disallowed"})
	}
	// What could make the advice wrong comes first, because a long answer is shortened at its end.
	return brief.Sort(slices.Concat(lotFlags(s), flags, dataFlags(s)))
}

// lotFlags returns the flags about which lots a sale would sell, and under which rules.
func lotFlags(s HarvestSnapshot) []brief.Flag {
	var flags []brief.Flag
	add := func(name string, severity brief.Severity, format string, args ...any) {
		flags = append(flags, brief.Flag{Flag: name, Severity: severity,
			Message: fmt.Sprintf(format, args...)})
	}
	if n := s.LotsNotHeldCount; n > 0 {
		add("lots_not_held", brief.Warning,
			"Fewer shares are held than lots of %d position%s have — these lots are not offered: %s%s",
			n, text.Plural(n), strings.Join(s.LotsNotHeld, "; "), moreThan(n, maxDifferences))
	}
	if n := s.LotsMissingCount; n > 0 {
		add("lots_missing", brief.Warning,
			"More shares of %d position%s are held than lots are known: %s%s", n, text.Plural(n),
			strings.Join(s.LotsMissing, "; "), moreThan(n, maxDifferences))
	}
	if n := s.LeftOutCount; n > 0 {
		add("records_left_out", brief.Warning,
			"%d record%s that moved shares left out on import — add transactions for them, then remove their lines from left-out.csv", n, text.Plural(n))
	}
	if n := s.IdentifyCount; n > 0 {
		add("identify_lots", brief.Warning, "%d lot%s must be named when you sell: %s%s", n,
			text.Plural(n), s.IdentifyAdvice, moreThan(n, 1))
	}
	if n := s.NotReachedCount; n > 0 {
		add("lots_not_reached", brief.Info,
			"%s of losses on %d lot%s not counted, because other lots would be sold first: %s%s",
			exactDollars(s.NotReachedLoss), n, text.Plural(n), s.NotReachedAdvice, moreThan(n, 1))
	}
	if len(s.Crypto) > 0 {
		add("crypto", brief.Info,
			"Wash-sale rules are not applied to %s: crypto is property, not a security (section 1091, as of 2026)", strings.Join(s.Crypto, ", "))
	}
	if n := s.OptionPriceCount; n > 0 {
		add("option_prices", brief.Warning,
			"Prices of options are per contract, 100 times the quote per share; check %s%s",
			strings.Join(s.OptionPrices, "; "), moreThan(n, maxDifferences))
	}
	return flags
}

// dataFlags returns the flags about missing or doubtful data.
func dataFlags(s HarvestSnapshot) []brief.Flag {
	var flags []brief.Flag
	warn := func(name, format string, args ...any) {
		flags = append(flags, brief.Flag{Flag: name, Severity: brief.Warning,
			Message: fmt.Sprintf(format, args...)})
	}
	if n := s.StalePriceCount; n > 0 {
		warn("stale_prices", "Prices of %d ticker%s are more than a week old: %s%s", n,
			text.Plural(n), strings.Join(first(s.StalePriceTickers, 3), ", "), moreThan(n, 3))
	}
	if n := s.IncompleteHistoryCount; n > 0 {
		record := s.IncompleteRecord
		if record != "" {
			record = ": " + record + moreThan(n, 1)
		}
		warn("incomplete_history",
			"%d row%s without a matching purchase — the history is incomplete, and these shares are not counted%s", n, text.Plural(n), record)
	}
	if n := s.NotUnderstoodCount; n > 0 {
		warn("records_not_understood",
			"%d record%s of brokers' files moved shares but could not be imported — lots may be wrong until you add transactions for them", n, text.Plural(n))
	}
	if n := s.PossibleDuplicates; n > 0 {
		warn("possible_duplicates",
			"%d row%s may be in two files of different formats — if so they are counted twice; remove one of the files", n, text.Plural(n))
	}
	if n := s.DuplicatesLeftOut; n > 0 {
		flags = append(flags, brief.Flag{Flag: "duplicates_left_out", Severity: brief.Info,
			Message: fmt.Sprintf("%d duplicate row%s in several files of transactions counted once",
				n, text.Plural(n))})
	}
	return flags
}

func moreThan(n, named int) string {
	if n <= named {
		return ""
	}
	return fmt.Sprintf(" + %d more", n-named)
}

// nothingToHarvest returns the flag for no candidates: there are no lots, the losses are too small,
// or there are none. It returns no flag if lots at a loss are not reached, which has a flag of its
// own.
func nothingToHarvest(s HarvestSnapshot) []brief.Flag {
	switch {
	case s.NotReachedCount > 0:
		return nil
	case s.DataCoveragePct <= 0 && s.PositionsAnalyzed > 0:
		return []brief.Flag{{Flag: "no_lot_data", Severity: brief.Warning,
			Message: "No lot data for any position — losses cannot be computed"}}
	case s.BelowMinLossCount > 0:
		return []brief.Flag{{Flag: "below_min_loss", Severity: brief.Info,
			Message: "All losses are below the minimum of " + exactDollars(s.MinLoss)}}
	}
	return []brief.Flag{{Flag: "no_candidates", Severity: brief.Success,
		Message: "No unrealized losses to harvest — all lots are at a gain or break-even"}}
}

func candidateFlags(s HarvestSnapshot) []brief.Flag {
	var flags []brief.Flag
	add := func(name string, severity brief.Severity, format string, args ...any) {
		flags = append(flags, brief.Flag{Flag: name, Severity: severity,
			Message: fmt.Sprintf(format, args...)})
	}
	loss := s.TotalHarvestableLoss
	if loss.CmpAbs(Whole(significantLoss).Decimal) >= 0 {
		add("significant_harvest", brief.Info, "%s", significantHarvest(s))
	}
	if percent := percentOf(s.ShortTermLoss, loss); percent >= mostlyShortTerm {
		add("mostly_short_term", brief.Info,
			"%s%% of losses are short-term (higher tax offset value)", formatWhole(percent))
	}
	if n := s.WashSaleTickerCount; n > 0 {
		const named = 3
		add("wash_sale_risk", brief.Warning, "Wash sale risk on %d ticker%s: %s%s",
			n, text.Plural(n), strings.Join(first(s.WashSaleTickers, named), ", "),
			moreThan(n, named))
	}
	switch coverage := formatWhole(s.DataCoveragePct); {
	case s.DataCoveragePct < lowCoverage:
		add("low_coverage", brief.Warning,
			"Only %s%% of positions have FIFO lot data — losses may be understated", coverage)
	case s.DataCoveragePct < moderateCoverage:
		add("moderate_coverage", brief.Info,
			"%s%% lot coverage — %d positions missing transaction history",
			coverage, s.PositionsAnalyzed-s.PositionsWithLots)
	}
	if len(flags) == 0 {
		add("harvest_available", brief.Info, "%s in harvestable losses across %d lots",
			dollars(loss), s.CandidateCount)
	}
	return flags
}

// significantHarvest returns the message with the deduction limit. If there are other gains or
// losses this year, it also compares the net with the limit, because the limit applies to the net.
func significantHarvest(s HarvestSnapshot) string {
	text := fmt.Sprintf("%s harvestable losses exceed %s annual deduction limit",
		dollars(s.TotalHarvestableLoss), dollars(s.DeductionLimit))
	net := s.NetAfterHarvest
	switch {
	case net.CmpAbs(s.TotalHarvestableLoss.Decimal) == 0 && !net.IsPos():
		return text
	case !net.IsNeg():
		return text + " — but net of realized gains and carryover no loss is left"
	case net.CmpAbs(s.DeductionLimit.Decimal) < 0:
		return text + " — but net of realized gains and carryover it is " + exactDollars(net) +
			", within the limit"
	}
	return text + " — net of realized gains and carryover it is " + exactDollars(net) +
		", over the limit too"
}
