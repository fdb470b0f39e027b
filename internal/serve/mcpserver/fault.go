package mcpserver

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"unicode"

	"signalbox"
	"signalbox/internal/core/engine"
	"signalbox/internal/core/rules"
	"signalbox/internal/serve/mcpserver/schema"
)

// problem is an error that knows its flag, and what to do about it in terms of the tools.
type problem struct {
	flag string
	err  error
	todo string
}

func (p *problem) Error() string { return p.err.Error() }
func (p *problem) Unwrap() error { return p.err }

func problemf(flag, todo, format string, args ...any) error {
	return &problem{flag, fmt.Errorf(format, args...), todo}
}

// explain is the one place where an error becomes the flag and the message of a brief.
func explain(err error) (flag, message string) {
	flag, todo := classify(err)
	message = capital(line(err.Error(), 250))
	if todo != "" {
		message += ": " + line(todo, 180)
	}
	return flag, message
}

// classify returns the flag of an error and what to do.
func classify(err error) (flag, todo string) {
	refused, known, argument, classed := (*rules.RefusedError)(nil), (*problem)(nil), (*schema.MisfitError)(nil), (*signalbox.Error)(nil)
	hint := ""
	if errors.As(err, &classed) {
		hint = classed.Hint
	}
	switch {
	case errors.As(err, &known):
		return known.flag, known.todo
	case errors.As(err, &argument):
		return "invalid_arguments", "look at the tool's input schema and call it again"
	case errors.As(err, &refused):
		return string(refused.Reason), refusedTodo(refused.Reason, hint)
	case errors.Is(err, rules.ErrNothingToClaim):
		return "nothing_to_claim", "ask get_status what the box waits for, and try again later"
	case errors.Is(err, engine.ErrUnknownOutcome):
		return "unknown_outcome", "look at the work with get_work, or give the same command again"
	case errors.Is(err, engine.ErrClockSkew):
		return "clock_skew", "the clock of this machine jumped; tell the operator"
	case errors.Is(err, errStopping), errors.Is(err, engine.ErrClosed):
		return "stopping", "connect again and repeat the call"
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return "cancelled", "look at the work with get_work: it may have been carried out"
	case classed == nil:
		return "failed", "try again; if it stays so tell the operator"
	}
	return codeFlag(classed.Code), hint
}

// codeFlag is the flag of an error that nothing more is known about than its class.
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

func refusedTodo(reason signalbox.Reason, hint string) string {
	switch reason {
	case signalbox.ReasonStaleLease:
		return "stop this work; what was said under the old lease moved nothing"
	case signalbox.ReasonOutOfRole:
		return "send a signal that the role of the session may send"
	case signalbox.ReasonWrongWork:
		return "send signals only about the work that the session holds"
	}
	return hint
}

// is tells whether an error is of a class.
func is(err error, code signalbox.Code) bool {
	classed := (*signalbox.Error)(nil)
	return errors.As(err, &classed) && classed.Code == code
}

// noBox gives the error of a box that is not there its flag.
func noBox(err error) error {
	if is(err, signalbox.CodeNotFound) {
		return &problem{"no_box", err, "the operator makes one with signalbox init, or names one with --box or SIGNALBOX_BOX"}
	}
	return err
}

// line makes one line of a text, without what steers terminals, of at most limit characters.
func line(text string, limit int) string {
	text = strings.Join(strings.FieldsFunc(strings.ToValidUTF8(text, "\ufffd"), func(r rune) bool {
		return unicode.IsControl(r) || unicode.IsSpace(r) || unicode.Is(unicode.Bidi_Control, r)
	}), " ")
	runes := []rune(text)
	if len(runes) <= limit {
		return text
	}
	return string(runes[:limit-1]) + "…"
}

func capital(text string) string {
	for i, r := range text {
		if i == 0 {
			return string(unicode.ToUpper(r)) + text[len(string(r)):]
		}
	}
	return text
}
