package crew

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"time"

	"signalbox/internal/core/box"
	"signalbox/internal/core/rules"
	"signalbox/internal/run/checks"
	"signalbox/internal/text"
)

// PendingQuestion is a question, or a merge that needs approval, which has the kind QuestionApproval and no id.
type PendingQuestion struct {
	rules.Question
	// Fields are the fields of the signal that led to the question: of the agent that asks it, or of the last failed review or audit.
	Fields map[string]any `json:"fields,omitempty"`
	// Output is the end of the output of the checks that failed.
	Output string `json:"output,omitempty"`
}

// QuestionApproval is the kind of a merge that needs approval. It is not a question: signalbox approve approves it.
const QuestionApproval rules.QuestionKind = "approval"

// ApprovalCommands returns what the human can do about a merge that needs approval.
func ApprovalCommands(work string) string {
	return fmt.Sprintf("signalbox diff %s, then signalbox approve %s or signalbox reject %s TEXT", work, work, work)
}

// ApprovalText says what waits for approval, after the id of the work.
func ApprovalText(s *rules.State, work string) string {
	const ready = "is ready to merge and needs your approval"
	if w, known := s.Work(work); known && w.Task != nil && w.Task.Commit != "" {
		return fmt.Sprintf("%s of commit %.7s%s", ready, w.Task.Commit, SteeringText(w))
	}
	return ready
}

// maxSteering is how many files that steer agents are recorded, and maxNamed how many are named in one line.
const maxSteering, maxNamed = 50, 5

const steeringIntro = "it changes files that steer agents: "

// SteeringText says which files that steer agents work changes, as the rest of a sentence; "" if there are none.
func SteeringText(w *rules.Work) string {
	if w.Task == nil || len(w.Task.Steering) == 0 {
		return ""
	}
	return "; " + steeringIntro + text.JoinSome(w.Task.Steering, maxNamed)
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
		var err error
		if list[i].Fields, list[i].Output, err = details(ctx, b, &list[i].Question); err != nil {
			return nil, err
		}
	}
	return list, nil
}

// Troubles is why a work item does not advance.
type Troubles struct {
	// Findings are the problems that the next developer must fix.
	Findings []FindingView `json:"findings,omitempty"`
	// FailedChecks are the checks that failed when they last ran on the work.
	FailedChecks []FailedCheck `json:"failed_checks,omitempty"`
	// Questions are the open questions about it.
	Questions []PendingQuestion `json:"questions,omitempty"`
	// Messages are the words of the human that no agent has got yet.
	Messages []MessageView `json:"messages,omitempty"`
}

// MessageView is something that the human wants to tell an agent.
type MessageView struct {
	Actor string `json:"actor"`
	Text  string `json:"text"`
}

// FindingView is a finding of a review, an audit, the checks or a merge, or of the human. Text has all that was reported.
type FindingView struct {
	Cause   string `json:"cause"`
	Summary string `json:"summary,omitempty"`
	Text    string `json:"text,omitempty"`
	// Actor is the human who sent the work back.
	Actor string `json:"actor,omitempty"`
	// Older means that the human sent the work back again after it.
	Older bool `json:"older,omitempty"`
}

// FromChecks reports whether the finding is that checks failed.
func (f FindingView) FromChecks() bool { return f.Cause == rules.ReworkChecks }

// FailedCheck is a check that failed, with the end of its output.
type FailedCheck struct {
	Check       string `json:"check"`
	Environment string `json:"environment"`
	Exit        int    `json:"exit"`
	// Cause is why it failed on the base, and what to do, if that is known.
	Cause  string `json:"cause,omitempty"`
	Output string `json:"output,omitempty"`
}

// WorkDetails is a work item with what must be done about it.
type WorkDetails struct {
	rules.WorkView
	Troubles
}

// Details returns the details of a work item.
func Details(ctx context.Context, b *box.Box, w *rules.Work) (WorkDetails, error) {
	troubles, err := FindTroubles(ctx, b, w)
	details := WorkDetails{w.View(time.Now()), troubles}
	return details, cmp.Or(err, ReadNotes(ctx, b, &details.WorkView))
}

// FindTroubles returns why a work item does not advance.
func FindTroubles(ctx context.Context, b *box.Box, w *rules.Work) (found Troubles, err error) {
	var findings []rules.Finding
	newest, checks, failing := uint64(0), uint64(0), []string(nil)
	switch {
	case w.Task != nil:
		findings, newest, checks, failing = w.Task.Findings, newestCorrection(w.Task), w.Task.Checks, w.Task.Failing
	case w.Checks != nil && w.Checks.Finding != nil:
		findings, checks, failing = []rules.Finding{*w.Checks.Finding}, w.Checks.Seq, w.Checks.Failing
	}
	c := &Crew{box: b}
	texts, err := c.promptFindings(ctx, findings, newest)
	if err != nil {
		return found, err
	}
	for _, f := range texts {
		found.Findings = append(found.Findings, FindingView{f.Cause, f.Summary, f.Text, f.Actor, f.Older})
	}
	if len(failing) > 0 {
		if found.FailedChecks, err = c.failedChecks(ctx, checks); err != nil {
			return found, err
		}
	}
	if w.Task != nil {
		for _, m := range w.Task.Messages {
			text, err := c.words(ctx, m.Text, m.Body)
			if err != nil {
				return found, err
			}
			found.Messages = append(found.Messages, MessageView{m.Actor, text})
		}
	}
	questions, err := Questions(ctx, b, false)
	if err != nil {
		return found, err
	}
	for _, q := range questions {
		if q.Work == w.ID {
			found.Questions = append(found.Questions, q)
		}
	}
	return found, nil
}

// FindBaseTroubles returns the baseline that waits because checks fail on the base, and why they fail. The baseline is nil if there is none.
func FindBaseTroubles(ctx context.Context, b *box.Box) (red *rules.Work, found Troubles, err error) {
	b.Engine.View(func(s *rules.State) { red = s.RedBaseline() })
	if red == nil {
		return nil, Troubles{}, nil
	}
	found, err = FindTroubles(ctx, b, red)
	return red, found, err
}

// failedChecks returns the checks that failed according to the ChecksRan with the given sequence; 0 means none.
func (c *Crew) failedChecks(ctx context.Context, seq uint64) (failed []FailedCheck, err error) {
	if seq == 0 {
		return nil, nil
	}
	for e, err := range c.box.Events(ctx, seq-1) {
		if err != nil {
			return nil, err
		}
		var ran rules.ChecksRan
		if err := json.Unmarshal(e.Data, &ran); err != nil {
			return nil, err
		}
		for _, row := range ran.Rows {
			if row.Passed {
				continue
			}
			output, err := c.blob(ctx, row.Output)
			if err != nil {
				return nil, err
			}
			failed = append(failed, FailedCheck{row.Check, row.Environment, row.Exit, row.Cause, checks.EndOf(output)})
		}
		break
	}
	return failed, nil
}
