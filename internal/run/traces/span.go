package traces

import (
	"crypto/sha256"
	"encoding/hex"
	"strconv"
	"time"
)

// span is a span of OpenTelemetry.
type span struct {
	trace, id, parent string // hexadecimal; parent is "" for the first span of a trace
	name              string
	began, ended      time.Time
	attributes        []attribute
	events            []spanEvent
	failed            bool
	failure           string // why it failed
}

// attribute is a name with a string, an int64, a float64 or a bool.
type attribute struct {
	name  string
	value any
}

type spanEvent struct {
	name       string
	at         time.Time
	attributes []attribute
}

// set adds an attribute, unless its value is the zero value.
func (s *span) set(name string, value any) {
	switch value {
	case "", int64(0), 0.0, false:
		return
	}
	s.attributes = append(s.attributes, attribute{name, value})
}

// The same task has the same trace, and the same session the same span, in every process and on
// every machine.

func traceID(box, work string) string { return hash(16, "trace", box, work) }
func taskID(box, work string) string  { return hash(8, "task", box, work) }
func eventID(box string, seq uint64) string {
	return hash(8, "event", box, strconv.FormatUint(seq, 10))
}
func toolID(turn string, number int) string { return hash(8, "tool", turn, strconv.Itoa(number)) }
func hash(size int, parts ...string) string {
	h := sha256.New()
	for _, part := range parts {
		h.Write([]byte(part))
		h.Write([]byte{0})
	}
	return hex.EncodeToString(h.Sum(nil)[:size])
}

// The JSON of OTLP 1.

type (
	jsonRequest struct {
		ResourceSpans []jsonResourceSpans `json:"resourceSpans"`
	}
	jsonResourceSpans struct {
		Resource   jsonResource     `json:"resource"`
		ScopeSpans []jsonScopeSpans `json:"scopeSpans"`
	}
	jsonResource struct {
		Attributes []jsonAttribute `json:"attributes"`
	}
	jsonScopeSpans struct {
		Scope jsonScope  `json:"scope"`
		Spans []jsonSpan `json:"spans"`
	}
	jsonScope struct {
		Name    string `json:"name"`
		Version string `json:"version,omitempty"`
	}
	jsonSpan struct {
		TraceID      string          `json:"traceId"`
		SpanID       string          `json:"spanId"`
		ParentSpanID string          `json:"parentSpanId,omitempty"`
		Name         string          `json:"name"`
		Kind         int             `json:"kind"`
		Start        string          `json:"startTimeUnixNano"`
		End          string          `json:"endTimeUnixNano"`
		Attributes   []jsonAttribute `json:"attributes,omitempty"`
		Events       []jsonEvent     `json:"events,omitempty"`
		Status       *jsonStatus     `json:"status,omitempty"`
	}
	jsonEvent struct {
		Time       string          `json:"timeUnixNano"`
		Name       string          `json:"name"`
		Attributes []jsonAttribute `json:"attributes,omitempty"`
	}
	jsonStatus struct {
		Code    int    `json:"code"`
		Message string `json:"message,omitempty"`
	}
	jsonAttribute struct {
		Key   string         `json:"key"`
		Value map[string]any `json:"value"`
	}
)

const (
	kindInternal = 1
	statusError  = 2
)

// request returns what is sent for some spans.
func request(resource []attribute, version string, spans []span) jsonRequest {
	list := make([]jsonSpan, len(spans))
	for i, s := range spans {
		list[i] = s.json()
	}
	return jsonRequest{[]jsonResourceSpans{{jsonResource{jsonAttributes(resource)},
		[]jsonScopeSpans{{jsonScope{"signalbox", version}, list}}}}}
}

func (s *span) json() jsonSpan {
	j := jsonSpan{TraceID: s.trace, SpanID: s.id, ParentSpanID: s.parent, Name: s.name,
		Kind: kindInternal, Start: nanos(s.began), End: nanos(s.ended),
		Attributes: jsonAttributes(s.attributes)}
	for _, e := range s.events {
		j.Events = append(j.Events, jsonEvent{nanos(e.at), e.name, jsonAttributes(e.attributes)})
	}
	if s.failed {
		j.Status = &jsonStatus{statusError, s.failure}
	}
	return j
}

func nanos(t time.Time) string { return strconv.FormatInt(t.UnixNano(), 10) }

func jsonAttributes(attributes []attribute) []jsonAttribute {
	var list []jsonAttribute
	for _, a := range attributes {
		value := map[string]any{}
		switch v := a.value.(type) {
		case int64:
			value["intValue"] = strconv.FormatInt(v, 10)
		case float64:
			value["doubleValue"] = v
		case bool:
			value["boolValue"] = v
		case string:
			value["stringValue"] = v
		}
		list = append(list, jsonAttribute{a.name, value})
	}
	return list
}
