package signalbox

import (
	"bytes"
	"encoding/json"
)

// signalJSON is the documented form of a signal for programs; what is absent is null.
type signalJSON struct {
	Dialect    *Dialect       `json:"dialect"`
	Signal     *string        `json:"signal"`
	Handler    *string        `json:"handler"`
	TaskID     *string        `json:"task_id"`
	Title      *string        `json:"title"`
	Body       map[string]any `json:"body"`
	Exit       *ExitSignal    `json:"exit"`
	Confidence *float64       `json:"confidence"`
	Fields     map[string]any `json:"fields"`
	Raw        *string        `json:"raw"`
	Offset     *int64         `json:"offset"`
	Line       *int           `json:"line"`
	Refused    *Reason        `json:"refused"`
	Detail     *string        `json:"detail"`
}

// MarshalJSON writes the signal as `signalbox scan` prints it. Characters such as < stay as they are.
func (s Signal) MarshalJSON() ([]byte, error) {
	out := signalJSON{
		Dialect: present(s.Dialect), Signal: present(s.Name), Handler: present(s.Handler),
		TaskID: present(s.TaskID), Title: present(s.Title), Body: s.Body, Exit: s.Exit,
		Raw: present(s.Raw), Line: present(s.Line), Refused: present(s.Refused), Detail: present(s.Detail),
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

func present[T comparable](v T) *T {
	var zero T
	if v == zero {
		return nil
	}
	return &v
}
