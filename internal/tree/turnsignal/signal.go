package turnsignal

import (
	"strings"

	"signalbox"
	"signalbox/internal/tree"
)

// Signal is a signal from the blackboard. A field that is absent there, or has the wrong type, is
// zero.
type Signal struct {
	Type       string
	Confidence float64
	Fields     map[string]any
	RawXML     string
	// Timestamp is the time of the tick that parsed the signal, in RFC 3339 with nanoseconds, UTC.
	Timestamp string
}

// ParseSignal converts a value of the blackboard to a signal. It returns false if the value is not
// a map with a type.
func ParseSignal(v any) (Signal, bool) {
	fields, _ := v.(map[string]any)
	var s Signal
	if s.Type, _ = fields["type"].(string); s.Type == "" {
		return Signal{}, false
	}
	s.Confidence, _ = number(fields["confidence"])
	s.Fields, _ = fields["fields"].(map[string]any)
	s.RawXML, _ = fields["raw_xml"].(string)
	s.Timestamp, _ = fields["timestamp"].(string)
	return s, true
}

// Reason returns the reason of the signal: the first of the fields reason, blocker, missing and
// caveat that is not blank, or "".
func (s Signal) Reason() string {
	for _, name := range []string{"reason", "blocker", "missing", "caveat"} {
		if text := s.text(name); strings.TrimSpace(text) != "" {
			return text
		}
	}
	return ""
}

// text returns a field as text. A reason in brackets is parsed as a list, but is still a reason.
func (s Signal) text(name string) string {
	switch v := s.Fields[name].(type) {
	case nil:
		return ""
	case string:
		return v
	default:
		return tree.FormatValue(v)
	}
}

// repeats reports whether both signals request another turn for the same reason, ignoring case and
// white space.
func (s Signal) repeats(before Signal) bool {
	return s.Type == signalbox.NameNeedTurn && before.Type == signalbox.NameNeedTurn &&
		strings.EqualFold(collapseSpace(s.text("reason")), collapseSpace(before.text("reason")))
}

// collapseSpace replaces each run of white space by one space.
func collapseSpace(text string) string { return strings.Join(strings.Fields(text), " ") }
