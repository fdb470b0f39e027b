package turnsignal

import (
	"encoding/json"
	"fmt"
	"time"

	"signalbox"
	"signalbox/transcript"
)

const (
	// maxRemarks is the number of diagnostics that are kept for a turn.
	maxRemarks = 20
	// maxDepth is the nesting depth of a field. It is below that of the blackboard, because other
	// values, such as signals_emitted, contain signals.
	maxDepth = 20
)

// read returns the turn signal of a reply, or nil if there is none, and remarks on the signals that
// were refused.
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
			case s.Turn != nil: // the scanner accepts at most one
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
	if s.Name != "" && s.Refused != signalbox.ReasonInvalidField { // its detail contains the name
		text += fmt.Sprintf(": %.40s", s.Name)
	}
	if s.Detail != "" {
		text += ": " + s.Detail
	}
	return text
}

// signalValue returns the blackboard value of a signal. now must be in UTC.
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

// flat returns a field, or its JSON text if it is nested so deeply that the blackboard would refuse
// the signal.
func flat(v any) any {
	if !deeper(v, maxDepth) {
		return v
	}
	text, err := json.Marshal(v)
	if err != nil {
		return "" // cannot happen: it was decoded from JSON
	}
	return string(text)
}

// deeper reports whether a value is nested more deeply than depth.
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
