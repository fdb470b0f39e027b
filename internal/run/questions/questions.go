// Package questions tells what waits for a human: questions, merges that need approval, and why
// work does not advance. It reads the ledger and changes nothing.
package questions

import (
	"context"
	"encoding/json"
	"fmt"

	"signalbox/internal/core/box"
	"signalbox/internal/core/rules"
	"signalbox/internal/run/stored"
	"signalbox/internal/text"
)

// Pending is a question, or a merge that needs approval, which has the kind Approval and no id.
type Pending struct {
	rules.Question
	// Fields are the fields of the signal that led to the question: of the agent that asks it, or
	// of the last failed review or audit.
	Fields map[string]any `json:"fields,omitempty"`
	// Output is the end of the output of the checks that failed.
	Output string `json:"output,omitempty"`
}

// Approval is the kind of a merge that needs approval. It is not a question: signalbox approve
// approves it.
const Approval rules.QuestionKind = "approval"

// ApprovalCommands returns what the human can do about a merge that needs approval.
func ApprovalCommands(work string) string {
	return fmt.Sprintf("signalbox diff %s, then signalbox approve %s or signalbox reject %s TEXT",
		work, work, work)
}

// ApprovalText says what waits for approval, after the id of the work.
func ApprovalText(s *rules.State, work string) string {
	const ready = "is ready to merge and needs your approval"
	if w, known := s.Work(work); known && w.Task != nil && w.Task.Commit != "" {
		return fmt.Sprintf("%s of commit %.7s%s", ready, w.Task.Commit, SteeringText(w))
	}
	return ready
}

// maxNamed is how many files that steer agents are named in one line.
const maxNamed = 5

// SteeringText names the files that steer agents and that work changes, as the rest of a sentence;
// "" if there are none.
func SteeringText(w *rules.Work) string {
	if w.Task == nil || len(w.Task.Steering) == 0 {
		return ""
	}
	return "; " + AboutSteering(w.Task.Steering)
}

// AboutSteering names the changed files that steer agents; "" if there are none.
func AboutSteering(files []string) string {
	if len(files) == 0 {
		return ""
	}
	return "it changes files that steer agents: " + text.JoinSome(files, maxNamed)
}

// List returns the open questions, or with all also the answered ones, followed by the merges that
// need approval.
func List(ctx context.Context, b *box.Box, all bool) ([]Pending, error) {
	list := []Pending{}
	b.Engine.View(func(s *rules.State) {
		for _, q := range s.Questions() {
			if all || q.Open() {
				list = append(list, Pending{Question: *q})
			}
		}
		for _, work := range s.Approvals() {
			waits := rules.Question{Kind: Approval, Work: work, Text: ApprovalText(s, work)}
			list = append(list, Pending{Question: waits})
		}
	})
	for i := range list {
		var err error
		if list[i].Fields, list[i].Output, err = details(ctx, b, &list[i].Question); err != nil {
			return nil, err
		}
	}
	return list, nil
}

// details returns what is stored with a question: the fields of the signal that led to it, such as
// an agent's context and options or a reviewer's findings, or else the output of the checks that
// failed.
func details(ctx context.Context, b *box.Box, q *rules.Question) (
	fields map[string]any, output string, err error) {
	text, err := stored.Blob(ctx, b, q.Body)
	if err != nil {
		return nil, "", err
	}
	if fields = stored.Body(text); fields == nil && !json.Valid(text) { // not a signal
		return nil, string(text), nil
	}
	delete(fields, "Question") // q.Text
	delete(fields, "Task")
	if len(fields) == 0 {
		return nil, "", nil
	}
	return fields, "", nil
}
