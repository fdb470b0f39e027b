package turnsignal

import (
	"strings"

	"signalbox/internal/tree"
)

// needTurn is the one signal whose reason is watched for repetition.
const needTurn = "need_turn"

// Heard is what LogSignal published, read back from the emitted value. What is absent there, or of the wrong type, is
// zero.
type Heard struct {
	Type       string
	Confidence float64
	Fields     map[string]any
	RawXML     string
	// Timestamp is the time of the tick that parsed the signal, in RFC 3339 with nanoseconds, UTC.
	Timestamp string
}

// ParseHeard reads a signal as it stands on the blackboard. It reports false for what is no map with a type.
func ParseHeard(v any) (Heard, bool) {
	fields, _ := v.(map[string]any)
	var h Heard
	if h.Type, _ = fields["type"].(string); h.Type == "" {
		return Heard{}, false
	}
	h.Confidence, _ = number(fields["confidence"])
	h.Fields, _ = fields["fields"].(map[string]any)
	h.RawXML, _ = fields["raw_xml"].(string)
	h.Timestamp, _ = fields["timestamp"].(string)
	return h, true
}

// Reason is the field that says why the model signalled: reason, blocker, missing or caveat, the first that says
// something; "" if none does.
func (h Heard) Reason() string {
	for _, name := range []string{"reason", "blocker", "missing", "caveat"} {
		if text := h.text(name); strings.TrimSpace(text) != "" {
			return text
		}
	}
	return ""
}

// text returns a field as text. A reason in brackets arrives as a list and is still a reason.
func (h Heard) text(name string) string {
	switch v := h.Fields[name].(type) {
	case nil:
		return ""
	case string:
		return v
	default:
		return tree.FormatValue(v)
	}
}

// repeats reports whether both ask for another turn for the same reason, case and white space aside.
func (h Heard) repeats(before Heard) bool {
	return h.Type == needTurn && before.Type == needTurn &&
		strings.EqualFold(spaced(h.text("reason")), spaced(before.text("reason")))
}

func spaced(text string) string { return strings.Join(strings.Fields(text), " ") }
