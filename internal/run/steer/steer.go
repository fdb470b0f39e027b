// Package steer carries out what a human decides about a run: add, approve, answer, reject, rework,
// tell, waive, pause, resume, cancel, retry. The command line, the screen of a run, the API and the
// dashboard parse what the human entered into a Decision or a NewTask, and only this package
// translates it into a command of the rules.
package steer

import (
	"bytes"
	"context"
	"time"

	"signalbox"
	"signalbox/internal/core/box"
	"signalbox/internal/core/rules"
)

// Decisions besides the orders of the rules.
const (
	Answer rules.OrderKind = "answer" // a question
	Reject rules.OrderKind = "reject" // a merge that waits for approval
	Rework rules.OrderKind = "rework" // send work back to its author
	Tell   rules.OrderKind = "tell"   // give words to an agent
	Waive  rules.OrderKind = "waive"  // let a finding stand
)

// Decision is something that a human decided.
type Decision struct {
	What rules.OrderKind
	// Work is the work item that it is about; "" means the run.
	Work string
	// Question is the question that is answered.
	Question string
	// Finding is the finding that is waived.
	Finding string
	// Text is the answer, the words for agents, or why a finding is waived.
	Text string
	// Note is what a retry tells the next agent. From is the phase in which it restarts.
	Note string
	From signalbox.Phase
	// Commit is the commit that is approved; see rules.Order.
	Commit string
	// Reason of an order. Actor is the human.
	Reason, Actor string
	// Role is whom words are for; see rules.Tell.
	Role signalbox.Role
	// Now interrupts the agent at work to read words; see rules.Tell.
	Now bool
}

// Command returns the decision as a command of the rules, to see with rules.Decide what it would
// do. The command does not refer to the blob of a long text; Do stores that.
func (d Decision) Command() rules.Command { return d.command(signalbox.Hash{}) }

func (d Decision) command(body signalbox.Hash) rules.Command {
	switch d.What {
	case Answer:
		return rules.AnswerQuestion{Question: d.Question, Answer: d.Text, Actor: d.Actor}
	case Reject, Rework:
		return rules.Rework{Work: d.Work, Text: d.Text, Body: body, Actor: d.Actor,
			Reject: d.What == Reject}
	case Waive:
		return rules.Waive{Work: d.Work, Finding: d.Finding, Reason: d.Text, Actor: d.Actor}
	case Tell:
		return rules.Tell{Work: d.Work, Role: d.Role, Now: d.Now, Text: d.Text, Body: body, Actor: d.Actor}
	}
	return rules.Order{What: d.What, Work: d.Work, Reason: d.Reason, Actor: d.Actor,
		Commit: d.Commit, From: d.From, Note: d.Note, Body: body}
}

// Refused returns why the decision would be refused whatever its text is, nil if it would not.
func (d Decision) Refused(b *box.Box) (err error) {
	d.Text = "text"
	b.Engine.View(func(s *rules.State) { err = rules.Decide(s, time.Now(), d.Command()).Err })
	return err
}

// Do carries out the decision, in several steps if it has more events than fit into one append.
func (d Decision) Do(ctx context.Context, b *box.Box) (answer rules.Answer, err error) {
	words := d.Note
	switch d.What {
	case Reject, Rework, Tell:
		words = d.Text
	}
	var body signalbox.Hash
	if long, _ := rules.LongText(words); long != nil {
		if body, err = b.Engine.PutBlob(ctx, bytes.NewReader(long)); err != nil {
			return answer, err
		}
	}
	command := d.command(body)
	for {
		answer, err = b.Engine.Do(ctx, command)
		if err != nil || !answer.Again {
			return answer, err
		}
	}
}
