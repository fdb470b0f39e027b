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
	switch worst := s.WorstSale; {
	case worst != nil:
		flags.add("would_be_lost", brief.Warning,
			"Selling only lot %s of %s loses %s for good, all candidates %s — replaced in an IRA, Roth, HSA or 401k",
			worst.LotID, worst.Ticker, exactDollars(worst.Permanent),
			exactDollars(s.DisallowedForGood))
	case s.DisallowedForGood.Sign() != 0:
		flags.add("would_be_lost", brief.Warning,
			"%s of the losses would be lost for good — purchases in an IRA, Roth, HSA or 401k would replace the shares",
			exactDollars(s.DisallowedForGood))
	}
	if s.DoNotBuyCount > 0 {
		flags.add("do_not_buy", brief.Info, "Do not buy %s — losses on them were realized",
			strings.Join(s.DoNotBuy, "; "))
	}
	if s.WashSalesNotChecked {
		flags.add("wash_sales_not_checked", brief.Warning,
			"Wash sales were not checked — some of the losses may be disallowed")
	}
	flags.addYear(s)
	flags.addData(s)
	return brief.Sort(flags)
}

// addYear adds the flags about what changes the year's taxes besides the lots.
func (flags *flagList) addYear(s HarvestSnapshot) {
	if n := s.LaterPurchaseCount; n > 0 {
		disallowed := ""
		if s.LaterDisallowed.Sign() != 0 {
			disallowed = fmt.Sprintf(" They disallow %s of the year's losses, which the net counts.",
				exactDollars(s.LaterDisallowed))
		}
		flags.add("later_purchases", brief.Warning,
			"%d purchase%s after %s change%s this answer: %s%s.%s", n, text.Plural(n), s.AsOf, verbEnding(n),
			s.LaterPurchase, moreThan(n, 1), disallowed)
	}
	if n := len(s.Reinvestments); n > 0 {
		flags.add("reinvestments_expected", brief.Warning,
			"Turn off reinvestments, or they make wash sales: %s%s",
			strings.Join(s.Reinvestments, ", "), moreThan(n+s.ReinvestmentsLeft, n))
	}
	computed := s.CarriedByTransactions
	switch {
	case s.Carryover == CarryoverUnknown:
		flags.add("carryover_unknown", brief.Warning,
			"Losses carried over are not known, because sales of earlier years have no purchase or a missing record — set them under realized in portfolio.yaml, from your tax return")
	case s.Carryover == CarryoverComputed && s.CarriedOver.Sign() != 0:
		flags.add("carryover_computed", brief.Info,
			"%s of losses are carried over, by the transactions of earlier years — set what your tax return says under realized in portfolio.yaml",
			exactDollars(s.CarriedOver))
	case s.Carryover == "" && computed != nil && !s.CarriedOver.Equal(*computed):
		flags.add("carryover_differs", brief.Warning,
			"%s of losses are carried over by portfolio.yaml, which counts, and %s by the transactions of earlier years",
			exactDollars(s.CarriedOver), exactDollars(*computed))
	}
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
			strings.Join(withoutRecords(s.LotsMissing), "; "), moreThan(n, maxDifferences))
	}
	if n := s.LeftOutCount; n > 0 {
		flags.add("records_left_out", brief.Warning,
			"%d record%s that moved shares left out on import — add transactions for them, then remove their lines from left-out.csv", n, text.Plural(n))
	}
	if n := s.UnknownLotCount; n > 0 {
		flags.add("unknown_lots", brief.Warning,
			"Records that are missing changed the lots of %d ticker%s, which are not offered: %s%s",
			n, text.Plural(n), strings.Join(s.UnknownLots, ", "), moreThan(n, maxWashTickers))
	}
	if n := s.OrderUnknownCount; n > 0 {
		flags.add("order_unknown", brief.Warning,
			"%d sale%s took shares bought on the same day, and the records do not show which came first — add a time to both rows: %s%s",
			n, text.Plural(n), s.OrderUnknown, moreThan(n, 1))
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
	if len(s.Section1256) > 0 {
		flags.add("index_options", brief.Warning,
			"Contracts under section 1256 are not offered, and their gains are in no total — add these under realized in portfolio.yaml: %s", strings.Join(s.Section1256, ", "))
	}
	if len(s.AverageCost) > 0 {
		flags.add("average_cost", brief.Warning,
			"Brokers keep these funds at average cost, so their lots are not offered — list in average_cost in portfolio.yaml which ones yours does: %s", strings.Join(s.AverageCost, ", "))
	}
	if len(s.SpouseAccounts) > 0 {
		flags.add("spouse_left_out", brief.Info,
			"You file separately: the accounts of your spouse are in no total, ask for them by name: %s",
			strings.Join(s.SpouseAccounts, ", "))
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

// withoutRecords returns lines about positions without their records, which the snapshot has.
func withoutRecords(lines []string) []string {
	var short []string
	for _, line := range lines {
		line, _, _ = strings.Cut(line, " (")
		short = append(short, line)
	}
	return short
}

// verbEnding returns the ending of a verb whose subject is n things.
func verbEnding(n int) string {
	if n == 1 {
		return "s"
	}
	return ""
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
