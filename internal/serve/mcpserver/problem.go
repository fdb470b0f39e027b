package mcpserver

import (
	"context"
	"errors"
	"fmt"
	"unicode"
	"unicode/utf8"

	"signalbox"
	"signalbox/internal/core/engine"
	"signalbox/internal/core/journal"
	"signalbox/internal/core/rules"
	"signalbox/internal/serve/mcpserver/schema"
	"signalbox/internal/text"
)

// problem is an error with its flag, and advice in terms of the tools.
type problem struct {
	flag   string
	err    error
	advice string
}

func (p *problem) Error() string { return p.err.Error() }
func (p *problem) Unwrap() error { return p.err }

func problemf(flag, advice, format string, args ...any) error {
	return &problem{flag, fmt.Errorf(format, args...), advice}
}

// explain returns the flag and the message of an error for a brief.
func explain(err error) (flag, message string) {
	flag, advice := classify(err)
	message = capitalize(oneLine(err.Error(), 250))
	if advice != "" {
		message += ": " + oneLine(advice, 180)
	}
	return flag, message
}

// classify returns the flag of an error, and advice.
func classify(err error) (flag, advice string) {
	refused, known, argument, coded := (*rules.RefusedError)(nil), (*problem)(nil),
		(*schema.ArgumentError)(nil), (*signalbox.Error)(nil)
	hint := ""
	if errors.As(err, &coded) {
		hint = coded.Hint
	}
	switch {
	case errors.As(err, &known):
		return known.flag, known.advice
	case errors.As(err, &argument):
		return "invalid_arguments", "check the input schema of the tool and call it again"
	case errors.As(err, &refused):
		return string(refused.Reason), refusedAdvice(refused.Reason, hint)
	case errors.Is(err, rules.ErrNothingToClaim):
		return "nothing_to_claim",
			"call get_status to see what the box waits for, and try again later"
	case errors.Is(err, engine.ErrUnknownOutcome):
		return "unknown_outcome", "check the work with get_work, or repeat the call"
	case errors.Is(err, journal.ErrClockSkew):
		return "clock_skew", "a clock is wrong: tell the operator"
	case errors.Is(err, errStopping), errors.Is(err, engine.ErrClosed):
		return "stopping", "reconnect and repeat the call"
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return "cancelled", "check the work with get_work: the call may have taken effect"
	case coded == nil:
		return "failed", "try again; if it still fails, tell the operator"
	}
	return codeFlag(coded.Code), hint
}

// codeFlag returns the flag of an error if only its code is known.
func codeFlag(code signalbox.Code) string {
	switch code {
	case signalbox.CodeUsage:
		return "invalid_arguments"
	case signalbox.CodeNotFound:
		return "not_found"
	case signalbox.CodeConflict:
		return "conflict"
	case signalbox.CodeUnverified:
		return "ledger_changed"
	}
	return "refused"
}

func refusedAdvice(reason signalbox.Reason, hint string) string {
	switch reason {
	case signalbox.ReasonStaleLease:
		return "stop this work; signals under the old lease have no effect"
	case signalbox.ReasonOutOfRole:
		return "send a signal that the role of the session allows"
	case signalbox.ReasonWrongWork:
		return "send signals only about work that the session holds"
	}
	return hint
}

// flagNoBox adds the flag no_box to an error if there is no box.
func flagNoBox(err error) error {
	if signalbox.CodeOf(err) == signalbox.CodeNotFound {
		return &problem{"no_box", err,
			"the operator creates one with signalbox init, or sets one with --box or SIGNALBOX_BOX"}
	}
	return err
}

// oneLine returns s on one line without control characters, of at most limit characters.
func oneLine(s string, limit int) string { return text.Shorten(text.OneLine(s), limit) }

func capitalize(s string) string {
	if s == "" {
		return ""
	}
	first, size := utf8.DecodeRuneInString(s)
	return string(unicode.ToUpper(first)) + s[size:]
}
