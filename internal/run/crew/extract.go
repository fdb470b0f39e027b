package crew

import (
	"cmp"
	"encoding/json"
	"strings"
	"unicode"

	"signalbox"
	"signalbox/internal/core/rules"
	"signalbox/internal/run/plan"
	"signalbox/internal/run/stored"
	"signalbox/internal/text"
)

// extract returns what the rules need from a signal's body. It stores the tasks of a specification
// with put.
func extract(sig signalbox.Signal,
	put func([]byte) (signalbox.Hash, error)) (rules.SignalFields, error) {
	b := body(sig.Body)
	fields := rules.SignalFields{Summary: b.first("Summary", "Question", "Blocker", "Issue",
		"Issues Found", "Required Fixes", "Failed Criteria",
		"Failed Checks", "Pre-existing Failures", "Expanded Specification", "text")}
	if fields.Summary == "" {
		fields.Summary = sig.Title
	}
	switch sig.Name {
	case signalbox.NameTaskIncomplete:
		fields.BlockedBy = b.ids("Blocked By")
		fields.Cause = causeOf(b, fields.BlockedBy)
		fields.Summary = b.join("Blocker", "Needed", "Progress", "text")
	case signalbox.NameReviewFailed:
		fields.Summary = b.join("Summary", "Issues Found", "Required Fixes", "text")
	case signalbox.NameAuditFailed:
		fields.Summary = b.join("Summary", "Failed Criteria", "Issues Found", "Required Fixes",
			"text")
	case signalbox.NameInfraBlocked, signalbox.NameAuditBlocked:
		fields.Summary = b.join("Issue", "Pre-existing Failures", "Command", "text")
	case signalbox.NameHealthUnhealthy:
		fields.Summary = b.join("Failed Checks", "Issues Found", "text")
	case signalbox.NameDivineClarification:
		fields.Summary = b.first("Question", "text")
	case signalbox.NameExpertRequest:
		fields.Expert, fields.Request = b.first("Target Agent"), b.first("Request Type")
		fields.Summary = b.first("Context Snapshot", "Delegation Prompt", "text")
	case signalbox.NameExpertCreated:
		fields.Expert, fields.Gap, fields.Keywords = sig.TaskID, b.first("Gap"), b.words("Keywords")
	case signalbox.NameFileConflict:
		fields.File = sig.TaskID
	case signalbox.NameCheckpoint:
		fields.Summary = b.first("Current Activity", "Progress", "text")
		fields.Percent = percent(b.first("Estimated Progress"))
		if fields.Summary == "" {
			fields.Summary = sig.Title
		}
	case signalbox.NameExpandedSpec:
		fields.Confidence = firstWord(b.first("Confidence"))
		var err error
		if fields.SubTasks, err = subTasks(sig.Body, put); err != nil {
			return fields, err
		}
	}
	if fields.Summary == "" && needsReason(sig.Name) {
		fields.Summary = cmp.Or(sig.Title, text.OneLine(stored.FieldsText(decoded(sig.Body))))
	}
	return fields, nil
}

// needsReason reports whether people must see why a signal was sent, in whatever field the agent
// wrote that.
func needsReason(name string) bool {
	switch name {
	case signalbox.NameTaskIncomplete, signalbox.NameReviewFailed, signalbox.NameAuditFailed,
		signalbox.NameInfraBlocked, signalbox.NameAuditBlocked,
		signalbox.NameHealthUnhealthy, signalbox.NameDivineClarification,
		signalbox.NameExpertRequest, signalbox.NameExpertUnsuccessful:
		return true
	}
	return false
}

// decoded returns the fields of a signal as they are after they were stored.
func decoded(fields map[string]any) (stored map[string]any) {
	if doc, err := json.Marshal(fields); err == nil {
		json.Unmarshal(doc, &stored)
	}
	return stored
}

// subTasks reads the SUB-TASK blocks of a specification and stores each like a task of a plan.
func subTasks(fields map[string]any,
	put func([]byte) (signalbox.Hash, error)) (tasks []rules.PlanTask, err error) {
	blocks, _ := fields["SUB-TASK"].([]map[string]any)
	for _, block := range blocks {
		b := body(block)
		t := plan.Task{ID: b.first("id"), Title: b.first("title"),
			Work:     b.first("Expanded Specification", "Summary", "Work", "text"),
			Criteria: b.list("Acceptance Criteria"), BlockedBy: b.ids("Blocked By"),
			Files: b.list("Target Files")}
		text, err := json.Marshal(t)
		if err != nil {
			return nil, err
		}
		digest, err := put(text)
		if err != nil {
			return nil, err
		}
		tasks = append(tasks, rules.PlanTask{ID: t.ID, Title: t.Title, BlockedBy: t.BlockedBy,
			Files: t.Files, Draft: len(t.Criteria) == 0, Text: digest})
	}
	return tasks, nil
}

// body is the labelled block after a line signal.
type body map[string]any

// text returns a field as text. A list becomes lines; a table is omitted.
func (b body) text(label string) string {
	switch v := b[label].(type) {
	case string:
		return strings.TrimSpace(v)
	case []string:
		return strings.Join(v, "\n")
	}
	return ""
}

// first returns the first field that is not empty.
func (b body) first(labels ...string) string {
	for _, label := range labels {
		if text := b.text(label); text != "" {
			return text
		}
	}
	return ""
}

// join joins the fields that are not empty.
func (b body) join(labels ...string) string {
	var texts []string
	for _, label := range labels {
		if text := b.text(label); text != "" {
			texts = append(texts, text)
		}
	}
	return strings.Join(texts, "; ")
}

func (b body) list(label string) []string {
	if items, ok := b[label].([]string); ok {
		return items
	}
	var items []string
	for line := range strings.Lines(b.text(label)) {
		if line = strings.TrimSpace(line); line != "" {
			items = append(items, line)
		}
	}
	return items
}

// words returns the items of a field, separated by commas or line ends.
func (b body) words(label string) (words []string) {
	for _, item := range b.list(label) {
		for word := range strings.SplitSeq(item, ",") {
			if word = strings.TrimSpace(word); word != "" {
				words = append(words, word)
			}
		}
	}
	return words
}

// ids returns the ids in a field. A field that starts with "none" has none.
func (b body) ids(label string) (ids []string) {
	if strings.EqualFold(firstWord(strings.Join(b.list(label), " ")), "none") {
		return nil
	}
	for _, word := range strings.FieldsFunc(strings.Join(b.list(label), " "), func(r rune) bool {
		return unicode.IsSpace(r) || strings.ContainsRune(",;()[]`*", r)
	}) {
		if word = strings.Trim(word, ".:"); signalbox.CheckID(word) == nil &&
			!strings.EqualFold(word, "none") {
			ids = append(ids, word)
		}
	}
	return ids
}

// causeOf returns why a developer could not finish: the value of Cause, which the prompt offers.
// Without it the ids in Blocked By decide; other text does not, because the same words can mean
// anything.
func causeOf(b body, blockedBy []string) rules.Cause {
	written := ""
	separates := func(r rune) bool { return !unicode.IsLetter(r) }
	for word := range strings.FieldsFuncSeq(b.first("Cause"), separates) {
		written += strings.ToLower(word)
		for _, cause := range rules.Causes() {
			if written == strings.ReplaceAll(string(cause), "_", "") {
				return cause
			}
		}
		if len(written) > maxCause {
			break
		}
	}
	if len(blockedBy) > 0 {
		return rules.CauseWaiting
	}
	return rules.CauseOther
}

// maxCause is the length of the longest cause, or more.
const maxCause = 32

func percent(text string) int {
	n := 0
	for _, r := range text {
		if r < '0' || r > '9' || n > 100 {
			break
		}
		n = n*10 + int(r-'0')
	}
	return min(n, 100)
}

func firstWord(text string) string {
	word, _, _ := strings.Cut(strings.TrimSpace(text), " ")
	return strings.Trim(word, ".,;:*")
}
