package progress

import (
	"fmt"
	"strings"

	"signalbox"
	"signalbox/internal/core/rules"
	"signalbox/internal/lazy"
	"signalbox/internal/text"
)

// refused describes a refused signal and the reason.
func (d describer) refused(e *signalbox.Event) string {
	b := as[rules.SignalRefused](e)
	signal := b.Said
	if row, known := signalbox.LineSignalNamed(signal); known {
		signal = row.Text
	}
	if b.Count > 1 {
		signal += fmt.Sprintf(" (%d times)", b.Count)
	}
	return "refused " + signal + ": " + d.why(e, b)
}

func (d describer) why(e *signalbox.Event, b rules.SignalRefused) string {
	switch b.Reason {
	case signalbox.ReasonOutOfRole:
		return text.WithArticle(d.role(e)) + " must not send it"
	case signalbox.ReasonWrongWork:
		if named := namedWork().FindStringSubmatch(b.Detail); named != nil {
			return "it names " + named[1] + ", but the session works on " + e.Work
		}
		return "it does not name " + e.Work
	case signalbox.ReasonFenced:
		return "inside a code block"
	case signalbox.ReasonDelegated:
		return "inside a prompt for another agent"
	case signalbox.ReasonNearMiss:
		if wrong, instead, ok := strings.Cut(b.Detail, ": "); ok {
			return "near miss (" + wrong + "): " + instead
		}
		return "near miss: " + b.Detail
	case signalbox.ReasonMalformed:
		return withDetail("malformed", b.Detail)
	case signalbox.ReasonTooLarge:
		return "too large"
	case signalbox.ReasonUnknownType:
		return withDetail("unknown signal", b.Detail)
	case signalbox.ReasonWrongKey:
		return "wrong session key"
	case signalbox.ReasonAmbiguous:
		return withDetail("the turn contradicts itself", b.Detail)
	case signalbox.ReasonDuplicate:
		return "already sent"
	case signalbox.ReasonSuperseded:
		return "replaced by another signal of the same turn"
	}
	if b.Detail == "" {
		return strings.ReplaceAll(string(b.Reason), "_", " ")
	}
	return b.Detail // for a stale lease or a phase mismatch it is complete
}

// namedWork finds the work that a refused signal names, as the crew and the rules write it.
var namedWork = lazy.Regexp(`\babout '?([^',\s]+)`)

// withDetail appends a detail, unless it only names the work of the signal.
func withDetail(text, detail string) string {
	if detail == "" || strings.HasPrefix(detail, "about ") {
		return text
	}
	return text + ": " + detail
}
