package turnsignal

import (
	"encoding/json"
	"fmt"
	"time"

	"signalbox"
	"signalbox/transcript"
)

const (
	// maxRemarks is how many diagnostics of a turn are kept.
	maxRemarks = 20
	// maxDepth is how deep a field may be nested. It leaves room for those who put signals into values of their own,
	// as signals_emitted does.
	maxDepth = 20
)

// read returns the turn signal that counts in a reply, nil if there is none, and remarks on those that do not.
func read(text string) (*signalbox.Signal, []any) {
	var first *signalbox.Signal
	var remarks []any
	take := func(signals []signalbox.Signal) {
		for i := range signals {
			switch s := signals[i]; {
			case s.Dialect == signalbox.DialectLine || s.Dialect == signalbox.DialectExit:
			case !s.Taken():
				if len(remarks) < maxRemarks {
					remarks = append(remarks, remark(&s))
				}
			case s.Turn != nil: // the scanner takes one at most
				first = &s
			}
		}
	}
	scanner := transcript.NewScanner(&transcript.Options{Format: signalbox.FormatPlain})
	take(scanner.Push([]byte(text)))
	take(scanner.Close())
	return first, remarks
}

func remark(s *signalbox.Signal) string {
	text := fmt.Sprintf("line %d: %s", s.Line, s.Refused)
	if s.Name != "" && s.Refused != signalbox.ReasonInvalidField { // whose detail names it
		text += fmt.Sprintf(": %.40s", s.Name)
	}
	if s.Detail != "" {
		text += ": " + s.Detail
	}
	return text
}

// signalValue is a signal as it stands on the blackboard; now is in UTC.
func signalValue(s *signalbox.Signal, now time.Time) map[string]any {
	fields := make(map[string]any, len(s.Turn.Fields))
	for name, v := range s.Turn.Fields {
		fields[name] = flat(v)
	}
	return map[string]any{
		"type":       s.Name,
		"confidence": s.Turn.Confidence,
		"fields":     fields,
		"raw_xml":    s.Turn.Raw,
		"timestamp":  now.Format(time.RFC3339Nano),
	}
}

// flat returns a field, as text if it is nested so deep that the blackboard would refuse the signal: a signal that
// counts must be heard.
func flat(v any) any {
	if !deeper(v, maxDepth) {
		return v
	}
	text, err := json.Marshal(v)
	if err != nil {
		return "" // it came from JSON, so it does not happen
	}
	return string(text)
}

// deeper reports whether a value is nested more than that deep.
func deeper(v any, depth int) bool {
	if depth < 0 {
		return true
	}
	switch v := v.(type) {
	case []any:
		for _, item := range v {
			if deeper(item, depth-1) {
				return true
			}
		}
	case map[string]any:
		for _, item := range v {
			if deeper(item, depth-1) {
				return true
			}
		}
	}
	return false
}
