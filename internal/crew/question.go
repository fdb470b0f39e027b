package crew

import (
	"context"
	"encoding/json"

	"signalbox/internal/box"
	"signalbox/internal/rules"
)

// Fields returns what an agent wrote beside a question: its context, the options it considered. It is nil where there is nothing,
// as with questions that no agent asked.
func Fields(ctx context.Context, b *box.Box, q *rules.Question) (map[string]any, error) {
	text, err := (&Crew{box: b}).blob(ctx, q.Body)
	if err != nil {
		return nil, err
	}
	var said struct {
		Body map[string]any `json:"body"`
	}
	if json.Unmarshal(text, &said) != nil {
		return nil, nil
	}
	delete(said.Body, "Question") // which is its text
	delete(said.Body, "Task")
	if len(said.Body) == 0 {
		return nil, nil
	}
	return said.Body, nil
}

// FieldsText writes fields for people, a label a line.
func FieldsText(fields map[string]any) string { return bodyText(fields) }
