package answer

import (
	"cmp"
	"strings"

	"signalbox/brief"
	"signalbox/internal/text"
)

// FlagsExit returns the flags of a snapshot, sorted.
func FlagsExit(s ExitSnapshot) []brief.Flag {
	var flags flagList
	if s.Status != string(brief.StatusSuccess) {
		flags.add("signal_error", brief.Error, "%s",
			cmp.Or(s.Verdict, "Exit signal evaluation failed"))
		return flags.addProblem(s.ErrorKind, s.ErrorHint)
	}
	if n := len(s.ErroredRules); n > 0 {
		flags.add("rule_evaluation_error", brief.Warning, "Rule%s failed to evaluate: %s",
			text.Plural(n), strings.Join(s.ErroredRules, ", "))
	}
	for _, known := range assessments() {
		if strings.HasPrefix(s.OverallAssessment, known.prefix) {
			flags = append(flags, known.flag)
			break
		}
	}
	if s.TradeEligible && s.SellQuantity.IsPos() {
		var percent float64
		if s.Shares.IsPos() {
			percent = percentOf(s.SellQuantity, s.Shares)
		}
		flags.add("trade_recommended", brief.Info,
			"Recommended: sell %s shares (%s%% of position)", s.SellQuantity, formatWhole(percent))
	}
	if s.Sale != "" {
		flags.add("sale_realizes", brief.Info, "%s", s.Sale)
	}
	if s.SaleUnknown != "" {
		flags.add("sale_not_known", brief.Warning, "What the sale realizes is not known: %s",
			s.SaleUnknown)
	}
	if s.StopAboveMarket {
		flags.add("stop_above_market", brief.Warning, "%s", cmp.Or(s.StopNote,
			"Configured stop is not below the market price — no stop order recommended"))
	}
	if s.StalePriceDays > 0 {
		flags.add("stale_prices", brief.Warning,
			"The last price is from %s, %d days old — check the market before trading",
			s.PriceDate, s.StalePriceDays)
	}
	if s.OptionPrice != "" {
		flags.add("option_prices", brief.Warning, optionPricesFormat, s.OptionPrice, "")
	}
	if s.SizeNote != "" {
		flags.add("odd_quantity", brief.Info, "%s", s.SizeNote)
	}
	if s.IncompleteHistory {
		record := s.IncompleteRecord
		if record != "" {
			record = ": " + record
		}
		flags.add("incomplete_history", brief.Warning,
			"Transactions are missing — check the number of shares before trading%s", record)
	}
	return brief.Sort(flags)
}

type assessment struct {
	prefix string
	flag   brief.Flag
}

// assessments returns the prefixes of an overall assessment, and the flag for each.
func assessments() []assessment {
	return []assessment{
		{"STRONG EXIT", brief.Flag{Flag: "strong_exit", Severity: brief.Warning,
			Message: "Both momentum and regime signals triggered — strong exit signal"}},
		{"EXIT", brief.Flag{Flag: "exit_signal", Severity: brief.Warning,
			Message: "Primary momentum signal triggered — exit recommended"}},
		{"MONITOR", brief.Flag{Flag: "monitor", Severity: brief.Info,
			Message: "Secondary signal triggered — monitoring, no action yet"}},
		{"HOLD", brief.Flag{Flag: "hold", Severity: brief.Success,
			Message: "No exit signals triggered — position holds"}},
		{"ERROR", brief.Flag{Flag: "primary_rule_error", Severity: brief.Error,
			Message: "Primary rule failed — cannot determine exit status"}},
	}
}
