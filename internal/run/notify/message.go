// Package notify tells the operator of a box what a run needs and when it ends: over a webhook, a
// command, an ntfy server or the desktop.
//
// Every notification is sent at least once, and each time with the same id. A Sender compares the
// state of the box with what it remembers in a file of the box. It stores a new message there
// before it sends it, and removes it after it was delivered. So a process that is killed in between
// sends the message again when it is restarted. Of the processes that use a box, the one that has a
// lock sends.
//
// The text of messages comes from agents. It is shortened, and has no control characters.
package notify

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"signalbox/internal/config"
	"signalbox/internal/core/rules"
	"signalbox/internal/run/questions"
	"signalbox/internal/text"
)

// eventTest is the event of the message that Test sends.
const eventTest config.NotifyEvent = "test"

// Message is one notification, as a webhook and a command get it.
type Message struct {
	// ID is the same each time the message is sent.
	ID    string             `json:"id"`
	Event config.NotifyEvent `json:"event"`
	Box   string             `json:"box"`
	// Project is the name of the project's folder.
	Project string `json:"project"`
	// Seq is the event of the ledger that caused the message.
	Seq   uint64    `json:"seq"`
	Time  time.Time `json:"time"`
	Title string    `json:"title"`
	Text  string    `json:"text"`
	// Command is what the operator can do about it.
	Command string `json:"command,omitempty"`
	Work    string `json:"work,omitempty"`
	// Question, Kind, Fields, Output and Asked describe a question.
	Question string             `json:"question,omitempty"`
	Kind     rules.QuestionKind `json:"kind,omitempty"`
	Fields   map[string]any     `json:"fields,omitempty"`
	Output   string             `json:"output,omitempty"`
	Asked    time.Time          `json:"asked,omitzero"`
	// Commit is the commit that needs approval, or that has a pull request.
	Commit string `json:"commit,omitempty"`
	// Request is the address of the pull request that waits to be merged.
	Request string `json:"request,omitempty"`
}

// messageID returns the id of a message: it depends only on the box, the event of the ledger that
// caused it, and what it is about. It has only characters that headers and ntfy accept, because the
// ids of boxes do.
func messageID(box string, seq uint64, event config.NotifyEvent) string {
	return fmt.Sprintf("%s-%d-%s", box, seq, event)
}

// subjectID returns what is added to the id of a message if the same event caused others, about
// other work.
func subjectID(work string) string {
	sum := sha256.Sum256([]byte(work))
	return "-" + hex.EncodeToString(sum[:4]) // an id of ntfy has at most 64 characters
}

// maxBytes is the largest size of a message with its details.
const maxBytes = 64 << 10

// Limits of the text in a message, in characters.
const (
	maxTitle  = 120
	maxText   = 2000
	maxFields = 50 // in a group, a list or a signal
	maxDepth  = 4
)

// line returns text of an agent on one line.
func line(s string, limit int) string { return text.Shorten(text.OneLine(text.Visible(s)), limit) }

// block returns text of an agent without control characters other than line ends and tabs.
func block(s string, limit int) string {
	return text.Shorten(strings.TrimSpace(text.Visible(strings.ReplaceAll(s, "\r\n", "\n"))), limit)
}

// endOf returns the last characters of the output of a program.
func endOf(s string) string {
	s = block(text.Tail(s, 8*maxText), 8*maxText)
	if runes := []rune(s); len(runes) > maxText {
		return "…" + string(runes[len(runes)-maxText+1:])
	}
	return s
}

// clean returns a field of a signal, with all text cleaned and shortened.
func clean(v any, depth int) any {
	switch v := v.(type) {
	case string:
		return block(v, maxText)
	case map[string]any:
		if depth == 0 {
			return "…"
		}
		cleaned := map[string]any{}
		for name, member := range v {
			if len(cleaned) == maxFields {
				break
			}
			cleaned[line(name, maxTitle)] = clean(member, depth-1)
		}
		return cleaned
	case []any:
		if depth == 0 {
			return "…"
		}
		cleaned := make([]any, 0, min(len(v), maxFields))
		for _, item := range v[:min(len(v), maxFields)] {
			cleaned = append(cleaned, clean(item, depth-1))
		}
		return cleaned
	}
	return v
}

// questionMessage describes a question. The caller sets what all messages have.
func questionMessage(q *questions.Pending) Message {
	m := Message{Event: config.NotifyQuestion, Seq: q.Seq, Title: "the run asks you (" + q.ID + ")",
		Text:    block(q.Text, maxText),
		Command: "signalbox answer " + q.ID + " TEXT", Work: q.Work, Question: q.ID, Kind: q.Kind,
		Output: endOf(q.Output), Asked: q.Asked}
	if q.Work != "" {
		m.Title = q.Work + " asks you (" + q.ID + ")"
	}
	if q.Kind == rules.AskedBudget {
		m.Event, m.Title = config.NotifyBudget, "a budget is spent ("+q.ID+")"
	}
	if len(q.Fields) > 0 {
		m.Fields = clean(q.Fields, maxDepth).(map[string]any)
	}
	return m
}

// fit leaves out the details of a message that is too large.
func (m *Message) fit() {
	if text, err := json.Marshal(m); err != nil || len(text) > maxBytes {
		m.Fields, m.Output = nil, ""
	}
}

// heading returns the title for people who have several projects.
func (m *Message) heading() string { return line("signalbox "+m.Project+": "+m.Title, maxTitle) }

// body returns the text for people, with what they can do about it.
func (m *Message) body(limit int) string {
	body := block(m.Text, limit)
	if m.Command != "" {
		body += "\n\n" + m.Command
	}
	return strings.TrimSpace(body)
}
