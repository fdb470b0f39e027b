package steer

import (
	"bytes"
	"context"
	"encoding/json"
	"strings"

	"signalbox"
	"signalbox/internal/core/box"
	"signalbox/internal/core/rules"
	"signalbox/internal/run/plan"
	"signalbox/internal/run/planload"
	"signalbox/internal/text"
)

// Add is the decision of NewTask.
const Add rules.OrderKind = "add"

// NewTask is a task that a human adds to what the box works on; see rules.AddTask.
type NewTask struct {
	// Text says what to do. It is the only acceptance criterion of the task.
	Text string
	// Title is for lists; "" means the beginning of the text.
	Title string
	// Review is how a plan names it: full, critic or checks; "" means full.
	Review string
	// BlockedBy are the tasks that must be completed first: ID or PLAN/ID.
	BlockedBy []string
	// Actor is the human.
	Actor string
}

// addedPlan is the text of the plan that a box without one gets.
const addedPlan = "# Added tasks\n"

// maxTitle is the length of a title that is made from the text of the task.
const maxTitle = 80

// Do records the task. If the box was never configured for a run, it is now: with its
// configuration, which the next run replaces by the one that it starts with.
func (t NewTask) Do(ctx context.Context, b *box.Box) (answer rules.Answer, err error) {
	words := strings.TrimSpace(t.Text)
	if err := rules.CheckWords("task", words); err != nil {
		return answer, err
	}
	review, known := rules.ParseReview(t.Review)
	if !known && t.Review != "" {
		return answer, signalbox.CodeUsage.Errorf(plan.ReviewHint, "'%s' is not a review",
			text.Printable(text.Shorten(t.Review, 40)))
	}
	title := strings.Join(strings.Fields(t.Title), " ")
	if title == "" {
		first, _, more := strings.Cut(words, "\n")
		title = text.Shorten(text.OneLine(first), maxTitle)
		if more && !strings.HasSuffix(title, "…") {
			title += " …"
		}
	}
	task := rules.PlanTask{Title: title, BlockedBy: t.BlockedBy, Review: review}
	described, err := json.Marshal(plan.Task{Title: title, Criteria: []string{words}})
	if err != nil {
		return answer, err
	}
	if task.Text, err = b.Engine.PutBlob(ctx, bytes.NewReader(described)); err != nil {
		return answer, err
	}
	source, err := b.Engine.PutBlob(ctx, strings.NewReader(addedPlan))
	if err != nil {
		return answer, err
	}
	if err := b.Engine.Refresh(ctx); err != nil { // another process may have configured it
		return answer, err
	}
	configured := false
	b.Engine.View(func(s *rules.State) { _, configured = s.Policy() })
	if !configured {
		policy := planload.PolicyOf(b.Config, b.Config.Workspace.Shared())
		if _, err := b.Engine.Do(ctx, rules.Configure{Policy: policy, Actor: t.Actor}); err != nil {
			return answer, err
		}
	}
	return b.Engine.Do(ctx, rules.AddTask{Task: task, Plan: source, Actor: t.Actor})
}
