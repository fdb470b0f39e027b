package answer

import (
	"cmp"
	"fmt"
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
	var flags flagList
	if s.Status != string(brief.StatusSuccess) {
		flags.add("harvest_error", brief.Error, "%s",
			cmp.Or(s.Verdict, "Tax harvest analysis failed"))
		return flags.addProblem(s.ErrorKind, s.ErrorHint)
	}
	// What could make the advice wrong comes first, because a long answer is shortened at its end.
	flags.addLots(s)
	if s.CandidateCount == 0 {
		flags.addNoCandidates(s)
	} else {
		flags.addCandidates(s)
	}
	if s.PermanentlyDisallowed.Sign() != 0 {
		flags.add("permanently_disallowed", brief.Warning,
			"%s of realized losses permanently disallowed — replaced in an IRA, Roth, HSA or 401k",
			exactDollars(s.PermanentlyDisallowed))
	}
	if s.DisallowedForGood.Sign() != 0 {
		flags.add("would_be_lost", brief.Warning,
			"%s of the losses would be lost for good — purchases in an IRA, Roth, HSA or 401k would replace the shares",
			exactDollars(s.DisallowedForGood))
	}
	if s.WashSalesNotChecked {
		flags.add("wash_sales_not_checked", brief.Warning,
			"Wash sales were not checked — some of the losses may be disallowed")
	}
	flags.addData(s)
	return brief.Sort(flags)
}

// addLots adds the flags about which lots a sale would sell, and under which rules.
func (flags *flagList) addLots(s HarvestSnapshot) {
	if n := s.LotsNotHeldCount; n > 0 {
		flags.add("lots_not_held", brief.Warning,
			"Fewer shares are held than lots of %d position%s have — these lots are not offered: %s%s",
			n, text.Plural(n), strings.Join(s.LotsNotHeld, "; "), moreThan(n, maxDifferences))
	}
	if n := s.LotsMissingCount; n > 0 {
		flags.add("lots_missing", brief.Warning,
			"More shares of %d position%s are held than lots are known: %s%s", n, text.Plural(n),
			strings.Join(s.LotsMissing, "; "), moreThan(n, maxDifferences))
	}
	if n := s.LeftOutCount; n > 0 {
		flags.add("records_left_out", brief.Warning,
			"%d record%s that moved shares left out on import — add transactions for them, then remove their lines from left-out.csv", n, text.Plural(n))
	}
	if n := s.IdentifyCount; n > 0 {
		flags.add("identify_lots", brief.Warning, "%d lot%s must be named when you sell: %s%s", n,
			text.Plural(n), s.IdentifyAdvice, moreThan(n, 1))
	}
	if n := s.NotReachedCount; n > 0 {
		flags.add("lots_not_reached", brief.Info,
			"%s of losses on %d lot%s not counted, because other lots would be sold first: %s%s",
			exactDollars(s.NotReachedLoss), n, text.Plural(n), s.NotReachedAdvice, moreThan(n, 1))
	}
	if len(s.Crypto) > 0 {
		flags.add("crypto", brief.Info,
			"Wash-sale rules are not applied to %s: crypto is property, not a security (section 1091, as of 2026)", strings.Join(s.Crypto, ", "))
	}
	if n := s.OptionPriceCount; n > 0 {
		flags.add("option_prices", brief.Warning, optionPricesFormat,
			strings.Join(s.OptionPrices, "; "), moreThan(n, maxDifferences))
	}
}

// addData adds the flags about missing or doubtful data.
func (flags *flagList) addData(s HarvestSnapshot) {
	if n := s.StalePriceCount; n > 0 {
		flags.add("stale_prices", brief.Warning, "Prices of %d ticker%s are more than a week old: %s%s", n,
			text.Plural(n), strings.Join(first(s.StalePriceTickers, 3), ", "), moreThan(n, 3))
	}
	if n := s.IncompleteHistoryCount; n > 0 {
		record := s.IncompleteRecord
		if record != "" {
			record = ": " + record + moreThan(n, 1)
		}
		flags.add("incomplete_history", brief.Warning,
			"%d row%s without a matching purchase — the history is incomplete, and these shares are not counted%s", n, text.Plural(n), record)
	}
	if n := s.NotUnderstoodCount; n > 0 {
		flags.add("records_not_understood", brief.Warning,
			"%d record%s of brokers' files moved shares but could not be imported — lots may be wrong until you add transactions for them", n, text.Plural(n))
	}
	if n := s.PossibleDuplicates; n > 0 {
		flags.add("possible_duplicates", brief.Warning,
			"%d row%s may be in two files of different formats — if so they are counted twice; remove one of the files", n, text.Plural(n))
	}
	if n := s.DuplicatesLeftOut; n > 0 {
		flags.add("duplicates_left_out", brief.Info,
			"%d duplicate row%s in several files of transactions counted once", n, text.Plural(n))
	}
}

func moreThan(n, named int) string {
	if n <= named {
		return ""
	}
	return fmt.Sprintf(" + %d more", n-named)
}

// addNoCandidates adds the flag for no candidates: there are no lots, the losses are too small, or
// there are none. It adds no flag if lots at a loss are not reached, which has a flag of its own.
func (flags *flagList) addNoCandidates(s HarvestSnapshot) {
	switch {
	case s.NotReachedCount > 0:
	case s.DataCoveragePct <= 0 && s.PositionsAnalyzed > 0:
		flags.add("no_lot_data", brief.Warning,
			"No lot data for any position — losses cannot be computed")
	case s.BelowMinLossCount > 0:
		flags.add("below_min_loss", brief.Info, "All losses are below the minimum of %s",
			exactDollars(s.MinLoss))
	default:
		flags.add("no_candidates", brief.Success,
			"No unrealized losses to harvest — all lots are at a gain or break-even")
	}
}

func (flags *flagList) addCandidates(s HarvestSnapshot) {
	before := len(*flags)
	loss := s.TotalHarvestableLoss
	if loss.CmpAbs(Whole(significantLoss).Decimal) >= 0 {
		flags.add("significant_harvest", brief.Info, "%s", significantHarvest(s))
	}
	if percent := percentOf(s.ShortTermLoss, loss); percent >= mostlyShortTerm {
		flags.add("mostly_short_term", brief.Info,
			"%s%% of losses are short-term (higher tax offset value)", formatWhole(percent))
	}
	if n := s.WashSaleTickerCount; n > 0 {
		const named = 3
		flags.add("wash_sale_risk", brief.Warning, "Wash sale risk on %d ticker%s: %s%s",
			n, text.Plural(n), strings.Join(first(s.WashSaleTickers, named), ", "),
			moreThan(n, named))
	}
	switch coverage := formatWhole(s.DataCoveragePct); {
	case s.DataCoveragePct < lowCoverage:
		flags.add("low_coverage", brief.Warning,
			"Only %s%% of positions have FIFO lot data — losses may be understated", coverage)
	case s.DataCoveragePct < moderateCoverage:
		flags.add("moderate_coverage", brief.Info,
			"%s%% lot coverage — %d positions missing transaction history",
			coverage, s.PositionsAnalyzed-s.PositionsWithLots)
	}
	if len(*flags) == before {
		flags.add("harvest_available", brief.Info, "%s in harvestable losses across %d lots",
			dollars(loss), s.CandidateCount)
	}
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
