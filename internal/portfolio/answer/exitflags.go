package answer

import (
	"cmp"
	"fmt"
	"strings"

	"signalbox/brief"
	"signalbox/internal/text"
)

// FlagsExit returns the flags of a snapshot, sorted.
func FlagsExit(s ExitSnapshot) []brief.Flag {
	if s.Status != string(brief.StatusSuccess) {
		flags := []brief.Flag{{Flag: "signal_error", Severity: brief.Error,
			Message: cmp.Or(s.Verdict, "Exit signal evaluation failed")}}
		return append(flags, problemFlag(s.ErrorKind, s.ErrorHint)...)
	}
	var flags []brief.Flag
	if n := len(s.ErroredRules); n > 0 {
		flags = append(flags, brief.Flag{Flag: "rule_evaluation_error", Severity: brief.Warning,
			Message: fmt.Sprintf("Rule%s failed to evaluate: %s", text.Plural(n),
				strings.Join(s.ErroredRules, ", "))})
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
		flags = append(flags, brief.Flag{Flag: "trade_recommended", Severity: brief.Info,
			Message: fmt.Sprintf("Recommended: sell %s shares (%s%% of position)", s.SellQuantity,
				formatWhole(percent))})
	}
	if s.StopAboveMarket {
		flags = append(flags, brief.Flag{Flag: "stop_above_market", Severity: brief.Warning,
			Message: cmp.Or(s.StopNote,
				"Configured stop is not below the market price — no stop order recommended")})
	}
	if s.StalePriceDays > 0 {
		flags = append(flags, brief.Flag{Flag: "stale_prices", Severity: brief.Warning,
			Message: fmt.Sprintf(
				"The last price is from %s, %d days old — check the market before trading",
				s.PriceDate, s.StalePriceDays)})
	}
	if s.OptionPrice != "" {
		flags = append(flags, brief.Flag{Flag: "option_prices", Severity: brief.Warning,
			Message: "Prices of options are per contract, 100 times the quote per share; check " +
				s.OptionPrice})
	}
	if s.SizeNote != "" {
		flags = append(flags, brief.Flag{Flag: "odd_quantity", Severity: brief.Info,
			Message: s.SizeNote})
	}
	if s.IncompleteHistory {
		record := s.IncompleteRecord
		if record != "" {
			record = ": " + record
		}
		flags = append(flags, brief.Flag{Flag: "incomplete_history", Severity: brief.Warning,
			Message: "Transactions are missing — check the number of shares before trading" +
				record})
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
