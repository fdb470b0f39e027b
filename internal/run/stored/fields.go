package stored

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
)

// Body returns the fields of a stored signal, or nil if text is not one.
func Body(text []byte) map[string]any {
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
