package crew

import (
	"context"
	"fmt"

	"signalbox/internal/core/box"
	"signalbox/internal/core/rules"
)

// PendingQuestion is a question, or a merge that needs approval, which has the kind QuestionApproval and no id.
type PendingQuestion struct {
	rules.Question
	// Fields are the fields that the agent sent with the question.
	Fields map[string]any `json:"fields,omitempty"`
}

// QuestionApproval is the kind of a merge that needs approval. It is not a question: signalbox approve approves it.
const QuestionApproval rules.QuestionKind = "approval"

// ApprovalText says what waits for approval, after the id of the work.
func ApprovalText(s *rules.State, work string) string {
	if w, known := s.Work(work); known && w.Task != nil && w.Task.Commit != "" {
		return fmt.Sprintf("is ready to merge and needs your approval of commit %.7s", w.Task.Commit)
	}
	return "is ready to merge and needs your approval"
}

// Questions returns the open questions, or with all also the answered ones, followed by the merges that need approval.
func Questions(ctx context.Context, b *box.Box, all bool) ([]PendingQuestion, error) {
	list := []PendingQuestion{}
	b.Engine.View(func(s *rules.State) {
		for _, q := range s.Questions() {
			if all || q.Open() {
				list = append(list, PendingQuestion{Question: *q})
			}
		}
		for _, work := range s.Approvals() {
			list = append(list, PendingQuestion{Question: rules.Question{Kind: QuestionApproval, Work: work, Text: ApprovalText(s, work)}})
		}
	})
	for i := range list {
		fields, err := Fields(ctx, b, &list[i].Question)
		if err != nil {
			return nil, err
		}
		list[i].Fields = fields
	}
	return list, nil
}
