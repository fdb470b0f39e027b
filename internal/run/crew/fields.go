package crew

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"signalbox/internal/core/box"
	"signalbox/internal/core/rules"
)

// details returns what is stored with a question: the fields of the signal that led to it, such as an agent's context and options
// or a reviewer's findings, or else the output of the checks that failed.
func details(ctx context.Context, b *box.Box, q *rules.Question) (fields map[string]any, output string, err error) {
	text, err := (&Crew{box: b}).blob(ctx, q.Body)
	if err != nil {
		return nil, "", err
	}
	if fields = storedBody(text); fields == nil && !json.Valid(text) { // not a signal
		return nil, string(text), nil
	}
	delete(fields, "Question") // q.Text
	delete(fields, "Task")
	if len(fields) == 0 {
		return nil, "", nil
	}
	return fields, "", nil
}

// storedBody returns the fields of a stored signal, or nil if text is not one.
func storedBody(text []byte) map[string]any {
	var sig struct {
		Body map[string]any `json:"body"`
	}
	if json.Unmarshal(text, &sig) != nil {
		return nil
	}
	return sig.Body
}

// FieldsText formats the fields of a signal, sorted by label.
func FieldsText(fields map[string]any) string {
	var labels []string
	for label := range fields {
		labels = append(labels, label)
	}
	slices.Sort(labels)
	var b strings.Builder
	for _, label := range labels {
		value := valueText(fields[label])
		switch {
		case value == "":
		case label == "text":
			fmt.Fprintf(&b, "%s\n", value)
		case strings.Contains(value, "\n"):
			fmt.Fprintf(&b, "%s:\n%s\n", label, value)
		default:
			fmt.Fprintf(&b, "%s: %s\n", label, value)
		}
	}
	return strings.TrimRight(b.String(), "\n")
}

func valueText(v any) string {
	switch v := v.(type) {
	case string:
		return strings.TrimSpace(v)
	case []any:
		var lines []string
		for _, item := range v {
			if row, ok := item.(map[string]any); ok {
				lines = append(lines, "- "+strings.ReplaceAll(FieldsText(row), "\n", "\n  "))
			} else {
				lines = append(lines, "- "+valueText(item))
			}
		}
		if len(lines) > 0 {
			return "\n" + strings.Join(lines, "\n")
		}
	}
	return ""
}
