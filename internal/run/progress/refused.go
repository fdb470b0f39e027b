package progress

import (
	"fmt"
	"regexp"
	"strings"

	"signalbox"
	"signalbox/internal/core/rules"
)

// refused says what does not count, and why.
func (y saying) refused(e *signalbox.Event) string {
	b := as[rules.SignalRefused](e)
	said := b.Said
	if row, known := signalbox.LineSignalNamed(said); known {
		said = row.Text
	}
	if b.Count > 1 {
		said += fmt.Sprintf(" (%d times)", b.Count)
	}
	return "refused " + said + ": " + y.why(e, b)
}

func (y saying) why(e *signalbox.Event, b rules.SignalRefused) string {
	switch b.Reason {
	case signalbox.ReasonOutOfRole:
		return article(y.role(e)) + " may not send it"
	case signalbox.ReasonWrongWork:
		if named := namedWork.FindStringSubmatch(b.Detail); named != nil {
			return "it is about " + named[1] + ", and it works on " + e.Work
		}
		return "it is not about " + e.Work
	case signalbox.ReasonFenced:
		return "it stands in a code block"
	case signalbox.ReasonDelegated:
		return "it is in a prompt for somebody else"
	case signalbox.ReasonNearMiss:
		if wrong, instead, ok := strings.Cut(b.Detail, ": "); ok {
			return "almost (" + wrong + "): " + instead
		}
		return "almost: " + b.Detail
	case signalbox.ReasonMalformed:
		return withDetail("it cannot be read", b.Detail)
	case signalbox.ReasonTooLarge:
		return "it is too large"
	case signalbox.ReasonUnknownType:
		return withDetail("there is no such signal", b.Detail)
	case signalbox.ReasonWrongKey:
		return "it does not carry the key of the session"
	case signalbox.ReasonAmbiguous:
		return withDetail("the turn contradicts itself", b.Detail)
	case signalbox.ReasonDuplicate:
		return "it said so already"
	case signalbox.ReasonSuperseded:
		return "another signal of the turn stands"
	}
	if b.Detail == "" {
		return strings.ReplaceAll(string(b.Reason), "_", " ")
	}
	return b.Detail // of a stale lease or another phase it says all
}

// namedWork is the work that a refused signal names, as the crew or the rules write it.
var namedWork = regexp.MustCompile(`\babout '?([^',\s]+)`)

// withDetail adds what is known more exactly. That the signal names its work is not.
func withDetail(text, detail string) string {
	if detail == "" || strings.HasPrefix(detail, "about ") {
		return text
	}
	return text + ": " + detail
}

// article is a noun with its article.
func article(noun string) string {
	if noun != "" && strings.ContainsRune("aeiou", rune(noun[0])) {
		return "an " + noun
	}
	return "a " + noun
}
