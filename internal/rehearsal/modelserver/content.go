package modelserver

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
)

// contentText returns the text of a content field: null, a string, or a list of parts, where
// only text is used.
func contentText(raw json.RawMessage) (string, error) {
	if len(raw) == 0 || string(raw) == "null" {
		return "", nil
	}
	var s string
	if json.Unmarshal(raw, &s) == nil {
		return s, nil
	}
	var parts []struct {
		Type string `json:"type"`
		Text string `json:"text"`
	}
	if err := json.Unmarshal(raw, &parts); err != nil {
		return "", fmt.Errorf("expected a string or an array of objects")
	}
	var texts []string
	for _, p := range parts {
		if p.Type == "" {
			return "", fmt.Errorf("expected a type in each part")
		}
		if p.Text != "" {
			texts = append(texts, p.Text)
		}
	}
	return strings.Join(texts, "\n"), nil
}

// callSet is the list of calls without a result.
type callSet struct{ ids []string }

func (c *callSet) add(id string) { c.ids = append(c.ids, id) }

func (c *callSet) empty() bool { return len(c.ids) == 0 }

// remove removes a call and reports whether it was there.
func (c *callSet) remove(id string) bool {
	i := slices.Index(c.ids, id)
	if i < 0 {
		return false
	}
	c.ids = slices.Delete(c.ids, i, i+1)
	return true
}
