package crew

import (
	"context"
	"encoding/json"

	"signalbox/internal/core/box"
	"signalbox/internal/core/rules"
)

// Fields returns what an agent wrote beside a question: its context, the options it considered. It is nil where there is nothing,
// as with questions that no agent asked.
func Fields(ctx context.Context, b *box.Box, q *rules.Question) (map[string]any, error) {
	text, err := (&Crew{box: b}).blob(ctx, q.Body)
	if err != nil {
		return nil, err
	}
	fields := storedBody(text)
	delete(fields, "Question") // which is its text
	delete(fields, "Task")
	if len(fields) == 0 {
		return nil, nil
	}
	return fields, nil
}

// storedBody returns the fields of a signal that was stored, nil if the text is none.
func storedBody(text []byte) map[string]any {
	var said struct {
		Body map[string]any `json:"body"`
	}
	if json.Unmarshal(text, &said) != nil {
		return nil
	}
	return said.Body
}

// FieldsText writes fields for people, a label a line.
func FieldsText(fields map[string]any) string { return bodyText(fields) }
