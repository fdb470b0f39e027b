package exitrule

import (
	"errors"
	"fmt"
	"strings"
)

// Evaluate evaluates the exit rules for a position. Equal inputs give equal results, and the input
// is not changed.
func Evaluate(in Input) Result {
	result := Result{Ticker: in.Ticker, AsOf: in.AsOf, Status: StatusSuccess}
	if in.Ticker == "" {
		return result.failed(failf(BadConfig, "there is no ticker: name the position"))
	}
	var err error
	if result.Position, err = ChoosePosition(in); err != nil {
		return result.failed(err)
	}
	if err := in.Config.Validate(); err != nil {
		return result.failed(failf(BadConfig, "exit rules of %s: %v", in.Ticker, err))
	}
	prices := &market{asOf: in.AsOf, prices: in.Prices, read: make(map[string]*series)}
	if s, err := prices.series(in.Ticker); err == nil {
		result.Price, result.PriceDate = s.latest().Close, s.latest().Date
	}
	result.Signals = prices.evaluateRules(in.Ticker, in.Config)
	primary := result.Signals[0]
	result.Overall = overall(result.Signals)
	result.TradeEligible = primary.Status == StatusOK && primary.Triggered
	if !result.TradeEligible {
		return result
	}
	if result.Sizing, err = size(primary.Gap, result.Position, in.Config.Sizing.withDefaults(),
		in.Whole); err != nil {
		return result.failed(err)
	}
	result.plan(in.Config.Stop)
	return result
}

// failed returns a failed result with what is known about the question, and without anything that
// looks like an answer.
func (r Result) failed(err error) Result {
	return Result{Ticker: r.Ticker, AsOf: r.AsOf, Position: r.Position, Status: StatusError,
		Error: err.Error(), Failure: FailureOf(err)}
}

// FailureOf returns the kind of an error of this package.
func FailureOf(err error) Failure {
	if known, ok := errors.AsType[*failure](err); ok {
		return known.kind
	}
	return NotComputable
}

// failure is an error of a known kind.
type failure struct {
	kind Failure
	text string
}

func (f *failure) Error() string { return f.text }

func failf(kind Failure, format string, args ...any) error {
	return &failure{kind, fmt.Sprintf(format, args...)}
}

// evaluateRules evaluates all rules. The primary rule comes first, so that a shortened list still
// shows it.
func (m *market) evaluateRules(ticker string, config Config) []Signal {
	primary := Signal{Rule: config.primary(), Status: StatusError}
	var others []Signal
	var names []string
	for _, rule := range config.Rules {
		names = append(names, rule.Name)
		if rule.Name == config.primary() {
			primary = m.evaluate(ticker, rule)
		} else {
			others = append(others, m.evaluate(ticker, rule))
		}
	}
	if primary.Status == StatusError && primary.Error == "" {
		primary.Error = fmt.Sprintf(
			"the primary rule %s is not configured: add it, or set primary to one of %s",
			primary.Rule, strings.Join(names, ", "))
	}
	primary.Primary = true
	return append([]Signal{primary}, others...)
}

// overall returns the verdict of all signals in one line. The primary signal is the first.
func overall(signals []Signal) string {
	primary := signals[0]
	if primary.Status == StatusError {
		return fmt.Sprintf("ERROR — %s could not be evaluated: %s", primary.Rule, primary.Error)
	}
	var triggered, failed []string
	for _, s := range signals {
		switch {
		case s.Status == StatusError:
			failed = append(failed, s.Rule)
		case s.Triggered:
			triggered = append(triggered, s.Rule)
		}
	}
	var text string
	switch {
	case len(signals) >= 2 && len(triggered) == len(signals):
		text = fmt.Sprintf("STRONG EXIT — all %d rules triggered; %s", len(signals),
			primary.reason())
	case primary.Triggered:
		text = "EXIT — " + primary.reason()
	case len(triggered) > 0:
		text = fmt.Sprintf("MONITOR — only %s triggered; %s", strings.Join(triggered, ", "),
			primary.reason())
	default:
		text = "HOLD — " + primary.reason()
	}
	if len(failed) > 0 {
		// A rule that failed must not look like one that was not triggered.
		text += fmt.Sprintf("; %s could not be evaluated", strings.Join(failed, ", "))
	}
	return text
}

// reason returns the numbers of a rule that was evaluated.
func (s Signal) reason() string {
	if s.Rule == RegimeCheck {
		return fmt.Sprintf("%s: basket %+.2f%% over %d months to %s", s.Rule, s.Return*100,
			len(s.Months), s.Month)
	}
	return fmt.Sprintf("%s: %+.2f%% in %s, mean before %+.2f%%, gap %+.2f pp", s.Rule, s.Return*100,
		s.Month, s.Mean*100, s.Gap*100)
}
