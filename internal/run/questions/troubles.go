package questions

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"time"

	"signalbox"
	"signalbox/internal/core/box"
	"signalbox/internal/core/rules"
	"signalbox/internal/run/stored"
)

// Troubles is why a work item does not advance.
type Troubles struct {
	// Findings are the problems that the next developer must fix.
	Findings []Finding `json:"findings,omitempty"`
	// FailedChecks are the checks that failed when they last ran on the work.
	FailedChecks []FailedCheck `json:"failed_checks,omitempty"`
	// Questions are the open questions about it.
	Questions []Pending `json:"questions,omitempty"`
	// Messages are the words of the human that no agent has got yet.
	Messages []Message `json:"messages,omitempty"`
}

// Message is something that the human wants to tell an agent.
type Message struct {
	Actor string `json:"actor"`
	Text  string `json:"text"`
	// Role is whom it is for; "" means the next agent, whatever its role.
	Role signalbox.Role `json:"role,omitempty"`
	// Missed means that no agent will get it, because the work is done.
	Missed bool `json:"missed,omitempty"`
}

// Waits says whom the message waits for, or that it was not delivered.
func (m Message) Waits() string {
	if m.Missed {
		return fmt.Sprintf("message from %s that no %s got before the work was done", m.Actor,
			cmp.Or(m.Role, "agent"))
	}
	if m.Role == "" {
		return "message from " + m.Actor + " that no agent has received yet"
	}
	return fmt.Sprintf("message from %s that waits for the next turn of the %s", m.Actor, m.Role)
}

// Finding is a finding of a review, an audit, the checks or a merge, or of the human. Text has all
// that was reported.
type Finding struct {
	Cause   string `json:"cause"`
	Summary string `json:"summary,omitempty"`
	Text    string `json:"text,omitempty"`
	// Actor is the human who sent the work back.
	Actor string `json:"actor,omitempty"`
	// Older means that the human sent the work back again after it.
	Older bool `json:"older,omitempty"`
}

// FromChecks reports whether the finding is that checks failed.
func (f Finding) FromChecks() bool { return f.Cause == rules.ReworkChecks }

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
	return details, cmp.Or(err, stored.ReadNotes(ctx, b, &details.WorkView))
}

// FindTroubles returns why a work item does not advance.
func FindTroubles(ctx context.Context, b *box.Box, w *rules.Work) (found Troubles, err error) {
	var findings []rules.Finding
	newest, checks, failing := uint64(0), uint64(0), []string(nil)
	switch {
	case w.Task != nil:
		findings, newest = w.Task.Findings, stored.NewestCorrection(w.Task)
		checks, failing = w.Task.Checks, w.Task.Failing
	case w.Checks != nil && w.Checks.Finding != nil:
		findings = []rules.Finding{*w.Checks.Finding}
		checks, failing = w.Checks.Seq, w.Checks.Failing
	}
	texts, err := stored.Findings(ctx, b, findings, newest)
	if err != nil {
		return found, err
	}
	for _, f := range texts {
		found.Findings = append(found.Findings,
			Finding{f.Cause, f.Summary, f.Text, f.Actor, f.Older})
	}
	if len(failing) > 0 {
		if found.FailedChecks, err = failedChecks(ctx, b, checks); err != nil {
			return found, err
		}
	}
	if w.Task != nil {
		for _, m := range w.Task.Messages {
			text, err := stored.Words(ctx, b, m.Text, m.Body)
			if err != nil {
				return found, err
			}
			found.Messages = append(found.Messages, Message{m.Actor, text, m.Role, w.Done()})
		}
	}
	questions, err := List(ctx, b, false)
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

// FindBaseTroubles returns the baseline that waits because checks fail on the base, and why they
// fail. The baseline is nil if there is none.
func FindBaseTroubles(ctx context.Context, b *box.Box) (
	red *rules.Work, found Troubles, err error) {
	b.Engine.View(func(s *rules.State) { red = s.RedBaseline() })
	if red == nil {
		return nil, Troubles{}, nil
	}
	found, err = FindTroubles(ctx, b, red)
	return red, found, err
}

// failedChecks returns the checks that failed according to the ChecksRan with the given sequence; 0
// means none.
func failedChecks(ctx context.Context, b *box.Box, seq uint64) (failed []FailedCheck, err error) {
	if seq == 0 {
		return nil, nil
	}
	for e, err := range b.Events(ctx, seq-1) {
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
			output, err := stored.Blob(ctx, b, row.Output)
			if err != nil {
				return nil, err
			}
			failed = append(failed,
				FailedCheck{row.Check, row.Environment, row.Exit, row.Cause, stored.EndOf(output)})
		}
		break
	}
	return failed, nil
}
