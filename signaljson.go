package signalbox

import (
	"bytes"
	"encoding/json"
	"strconv"
)

// signalJSON is the JSON form of a signal; absent values are null.
type signalJSON struct {
	Dialect    *Dialect       `json:"dialect"`
	Signal     *string        `json:"signal"`
	Handler    *string        `json:"handler"`
	TaskID     *string        `json:"task_id"`
	Title      *string        `json:"title"`
	Body       map[string]any `json:"body"`
	Exit       *ExitSignal    `json:"exit"`
	Confidence *float64       `json:"confidence"`
	Fields     turnFields     `json:"fields"`
	Raw        *string        `json:"raw"`
	Offset     *int64         `json:"offset"`
	Line       *int           `json:"line"`
	Refused    *Reason        `json:"refused"`
	Detail     *string        `json:"detail"`
}

// MarshalJSON encodes the signal as `signalbox scan` prints it. The characters <, > and & are not
// escaped.
func (s Signal) MarshalJSON() ([]byte, error) {
	out := signalJSON{
		Dialect: pointer(s.Dialect), Signal: pointer(s.Name), Handler: pointer(s.Handler),
		TaskID: pointer(s.TaskID), Title: pointer(s.Title), Body: s.Body, Exit: s.Exit,
		Raw: pointer(s.Raw), Line: pointer(s.Line), Refused: pointer(s.Refused),
		Detail: pointer(s.Detail),
	}
	if s.Line > 0 {
		out.Offset = &s.Offset
	}
	if s.Turn != nil {
		out.Confidence, out.Fields = &s.Turn.Confidence, s.Turn.Fields
	}
	var buf bytes.Buffer
	enc := json.NewEncoder(&buf)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(out); err != nil {
		return nil, err
	}
	return bytes.TrimSuffix(buf.Bytes(), []byte("\n")), nil
}

// UnmarshalJSON decodes what MarshalJSON returned. Turn.Raw is not in the JSON and becomes Raw,
// which is the same text.
func (s *Signal) UnmarshalJSON(text []byte) error {
	var in signalJSON
	if err := json.Unmarshal(text, &in); err != nil {
		return err
	}
	*s = Signal{
		Dialect: value(in.Dialect), Name: value(in.Signal), Handler: value(in.Handler),
		TaskID: value(in.TaskID),
		Title:  value(in.Title), Body: bodyTypes(in.Body), Exit: in.Exit, Offset: value(in.Offset),
		Line: value(in.Line),
		Raw:  value(in.Raw), Refused: value(in.Refused), Detail: value(in.Detail),
	}
	if in.Confidence != nil {
		s.Turn = &TurnSignal{Confidence: *in.Confidence, Fields: in.Fields, Raw: s.Raw}
	}
	return nil
}

// turnFields are the fields of a turn signal, whose numbers are counts.
type turnFields map[string]any

func (f *turnFields) UnmarshalJSON(text []byte) error {
	var raw map[string]json.RawMessage
	if err := json.Unmarshal(text, &raw); err != nil || raw == nil {
		return err
	}
	*f = make(turnFields, len(raw))
	for name, field := range raw {
		if count, err := strconv.Atoi(string(field)); err == nil {
			(*f)[name] = count
			continue
		}
		var decoded any
		if err := json.Unmarshal(field, &decoded); err != nil {
			return err
		}
		(*f)[name] = decoded
	}
	return nil
}

// bodyTypes restores the types of a decoded Signal.Body: lists are []string or []map[string]any,
// not []any.
func bodyTypes(body map[string]any) map[string]any {
	for label, field := range body {
		list, ok := field.([]any)
		if !ok {
			continue
		}
		texts, tables := make([]string, 0, len(list)), make([]map[string]any, 0, len(list))
		for _, element := range list {
			switch element := element.(type) {
			case string:
				texts = append(texts, element)
			case map[string]any:
				tables = append(tables, bodyTypes(element))
			}
		}
		switch len(list) {
		case len(texts):
			body[label] = texts
		case len(tables):
			body[label] = tables
		}
	}
	return body
}

// pointer returns nil for the zero value.
func pointer[T comparable](v T) *T {
	var zero T
	if v == zero {
		return nil
	}
	return &v
}

// value returns the zero value for nil.
func value[T any](p *T) (v T) {
	if p != nil {
		v = *p
	}
	return v
}
