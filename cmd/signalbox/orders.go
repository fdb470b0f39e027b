package main

import (
	"cmp"
	"context"
	"fmt"
	"strings"

	"signalbox"
	"signalbox/internal/core/box"
	"signalbox/internal/core/rules"
	"signalbox/internal/run/crew"
)

// orderFlags are those of the commands with which an operator steers a run.
type orderFlags struct {
	boxFlag
	answerFlag
	Reason string `placeholder:"TEXT" help:"Why, for those who read the ledger later."`
	Actor  given  `placeholder:"A" help:"Who orders it; else SIGNALBOX_ACTOR, else your user name."`
}

// ordered is the answer to an order.
type ordered struct {
	Order    rules.OrderKind `json:"order"`
	Work     *string         `json:"work"`
	Phase    signalbox.Phase `json:"phase,omitempty"`
	Repeated bool            `json:"repeated"`
	Seq      uint64          `json:"seq,omitempty"`
}

func (f *orderFlags) order(p *program, what rules.OrderKind, task string) error {
	if err := p.operatorOnly(string(what)); err != nil {
		return err
	}
	command := rules.Order{What: what, Work: task, Reason: f.Reason, Actor: p.actor(f.Actor)}
	return p.order(f.boxFlag, command, func(a rules.Answer) error {
		if a.Again { // there is more than fits into one append
			return f.order(p, what, task)
		}
		answer := ordered{Order: what, Phase: a.Phase, Repeated: a.Repeated, Seq: a.Seq}
		if task != "" {
			answer.Work = &task
		}
		if f.JSON {
			return p.printJSON(answer, "")
		}
		done := map[rules.OrderKind]string{rules.OrderPause: "paused", rules.OrderResume: "resumed", rules.OrderCancel: "cancelled",
			rules.OrderRetry: "restarted", rules.OrderApprove: "approved"}[what]
		already := ""
		if a.Repeated {
			already = "already "
		}
		_, err := fmt.Fprintf(p.out, "%s: %s%s\n", cmp.Or(task, "the run"), already, done)
		return err
	})
}

type pauseCommand struct {
	orderFlags
	Task string `arg:"" optional:"" help:"The task; none is the whole run."`
}

func (pauseCommand) Help() string {
	return `Dispatches no more work: of one task, or at all. Agents that are at work finish their turn, and what they say counts.

Examples:

    signalbox pause
    signalbox pause T3 --reason 'the design is being discussed'`
}

func (c *pauseCommand) Run(p *program) error { return c.order(p, rules.OrderPause, c.Task) }

type resumeCommand struct {
	orderFlags
	Task string `arg:"" optional:"" help:"The task; none is the whole run."`
}

func (resumeCommand) Help() string {
	return `Ends a pause, of one task or of the whole run.

Examples:

    signalbox resume
    signalbox resume T3`
}

func (c *resumeCommand) Run(p *program) error { return c.order(p, rules.OrderResume, c.Task) }

type cancelCommand struct {
	orderFlags
	Task string `arg:"" optional:"" help:"The task; none is the whole run."`
}

func (cancelCommand) Help() string {
	return `Gives up a task, or without one the whole run: who works on it is ended, and nobody is given it again. What was merged stays. Tasks that wait for a cancelled one wait for ever: change the plan, or retry.

Examples:

    signalbox cancel T3 --reason 'no longer wanted'
    signalbox cancel`
}

func (c *cancelCommand) Run(p *program) error { return c.order(p, rules.OrderCancel, c.Task) }

type retryCommand struct {
	orderFlags
	Task string `arg:"" optional:"" help:"The task; none is all that is blocked, and a run that was cancelled or paused."`
}

func (retryCommand) Help() string {
	return `Begins a task anew in the phase it is in: failures before no longer count, open questions about it are withdrawn, and whoever works on it is ended. It also takes back a cancel. Without a task, all tasks that are blocked by questions begin anew.

Examples:

    signalbox retry T3
    signalbox retry --reason 'the service is up again'`
}

func (c *retryCommand) Run(p *program) error { return c.order(p, rules.OrderRetry, c.Task) }

type approveCommand struct {
	orderFlags
	Task string `arg:"" help:"The task."`
}

func (approveCommand) Help() string {
	return `Says yes to the merge of a task, where the configuration has approve: merge.

Examples:

    signalbox approve T3`
}

func (c *approveCommand) Run(p *program) error { return c.order(p, rules.OrderApprove, c.Task) }

type answerCommand struct {
	boxFlag
	answerFlag
	Question string `arg:"" help:"The question, such as Q-1."`
	Text     string `arg:"" help:"The answer."`
	Actor    given  `placeholder:"A" help:"Who answers; else SIGNALBOX_ACTOR, else your user name."`
}

func (answerCommand) Help() string {
	return `Answers a question. The task is dispatched again, with question and answer in its prompt, and what went wrong before no longer counts. A question is answered once.

To whether to go on with a budget that is spent, an answer that begins with "no", "stop" or "halt" pauses, anything else allows as much again. Of a remediation that does not come to an end the answer decides: one that begins with "healthy" declares the base healthy, "halt" pauses the run, anything else is guidance for the next attempt.

Examples:

    signalbox answer Q-1 'two decimals, rounded half to even'
    signalbox answer Q-2 healthy`
}

// answered is the answer to answer.
type answered struct {
	Question string  `json:"question"`
	Work     *string `json:"work"`
	Seq      uint64  `json:"seq"`
}

func (c *answerCommand) Run(p *program) error {
	if err := p.operatorOnly("answer questions"); err != nil {
		return err
	}
	command := rules.AnswerQuestion{Question: c.Question, Answer: c.Text, Actor: p.actor(c.Actor)}
	return p.order(c.boxFlag, command, func(a rules.Answer) error {
		answer := answered{Question: c.Question, Seq: a.Seq}
		if a.Work != "" {
			answer.Work = &a.Work
		}
		if c.JSON {
			return p.printJSON(answer, "")
		}
		_, err := fmt.Fprintf(p.out, "answered %s; %s continues\n", c.Question, cmp.Or(a.Work, "the run"))
		return err
	})
}

type questionsCommand struct {
	boxFlag
	JSON bool `name:"json" help:"Print a JSON array."`
	All  bool `help:"Also those that are answered."`
}

func (questionsCommand) Help() string {
	return `Shows what agents ask the human, and what else waits for a human: limits that were reached, budgets that are spent, merges to approve. A question has no timeout.

Examples:

    signalbox questions
    signalbox answer Q-1 'two decimals'
    signalbox questions --all --json`
}

func (c *questionsCommand) Run(p *program) error {
	return p.lookAtBox(c.boxFlag, func(ctx context.Context, b *box.Box) error {
		list, err := c.find(ctx, b)
		if err != nil {
			return err
		}
		if c.JSON {
			return p.printJSON(list, "")
		}
		return p.printQuestions(list)
	})
}

// asked is something that waits for the human.
type asked struct {
	rules.Question
	Fields map[string]any `json:"fields,omitempty"`
}

// askedApproval is the kind of a merge that waits for a yes. It is no question: signalbox approve gives the yes.
const askedApproval rules.QuestionKind = "approval"

// find collects what is asked, and the merges to approve.
func (c *questionsCommand) find(ctx context.Context, b *box.Box) ([]asked, error) {
	list := []asked{}
	b.Engine.View(func(s *rules.State) {
		for _, q := range s.Questions() {
			if c.All || q.Open() {
				list = append(list, asked{Question: *q})
			}
		}
		for _, work := range s.Approvals() {
			list = append(list, asked{Question: rules.Question{Kind: askedApproval, Work: work, Text: "is ready to merge and needs your approval"}})
		}
	})
	for i := range list {
		fields, err := crew.Fields(ctx, b, &list[i].Question)
		if err != nil {
			return nil, err
		}
		list[i].Fields = fields
	}
	return list, nil
}

func (p *program) printQuestions(list []asked) error {
	if len(list) == 0 {
		_, err := fmt.Fprintln(p.out, "nothing is asked")
		return err
	}
	for _, q := range list {
		if q.Kind == askedApproval {
			fmt.Fprintf(p.out, "%s %s: signalbox approve %s\n", q.Work, q.Text, q.Work)
			continue
		}
		fmt.Fprintf(p.out, "%s  %s  %s, asked %s\n    %s\n", q.ID, cmp.Or(q.Work, "the run"), q.Kind, q.Asked.Local().Format("2006-01-02 15:04"), printable(q.Text))
		for line := range strings.Lines(crew.FieldsText(q.Fields)) {
			fmt.Fprintf(p.out, "    %s\n", printable(strings.TrimRight(line, "\n")))
		}
		if q.Open() {
			fmt.Fprintf(p.out, "    answer with: signalbox answer %s TEXT\n", q.ID)
		} else {
			fmt.Fprintf(p.out, "    answered by %s: %s\n", q.Actor, printable(q.Answer))
		}
	}
	return nil
}
