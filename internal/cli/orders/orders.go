// Package orders has the commands with which the operator decides: answers to questions, pauses and
// retries, approvals, and words to agents.
package orders

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"signalbox"
	"signalbox/internal/cli"
	"signalbox/internal/core/box"
	"signalbox/internal/core/rules"
	"signalbox/internal/run/changes"
	"signalbox/internal/run/inspect"
	"signalbox/internal/run/inspect/render"
	"signalbox/internal/run/questions"
	"signalbox/internal/run/steer"
	"signalbox/internal/show"
	"signalbox/internal/text"
)

// orderFlags are the flags of the commands that control a run.
type orderFlags struct {
	cli.BoxFlag
	cli.AnswerFlag
	Reason string       `placeholder:"TEXT" help:"The reason, recorded on the ledger; - reads it from standard input."`
	Actor  cli.NonEmpty `placeholder:"A" help:"Your name on the ledger. Default: SIGNALBOX_ACTOR, or else your user name."`
}

// ordered is the JSON answer to an order.
type ordered struct {
	Order    rules.OrderKind `json:"order"`
	Work     *string         `json:"work"`
	Phase    signalbox.Phase `json:"phase,omitempty"`
	Repeated bool            `json:"repeated"`
	Seq      uint64          `json:"seq,omitempty"`
	// Commit is the commit whose merge is approved or rejected.
	Commit string `json:"commit,omitempty"`
	// Files, Insertions and Deletions are what the approved commit changes relative to the base.
	// They are absent if that is not known.
	Files      *int `json:"files,omitempty"`
	Insertions *int `json:"insertions,omitempty"`
	Deletions  *int `json:"deletions,omitempty"`
	// Steering are the files with which the approved commit changes what steers agents.
	Steering []string `json:"steering,omitempty"`
	// Paused means that the task stays paused.
	Paused bool `json:"paused,omitempty"`
	// Continue is the command that starts a run, if none is active to carry out the order.
	Continue string `json:"continue,omitempty"`
}

// sequel is what follows from an order: whether a run carries it out.
type sequel struct {
	status *inspect.Status
}

// sequelOf finds out whether a run carries out what was recorded. Without an answer, a warning says
// why, because the order has been recorded.
func sequelOf(ctx context.Context, p *cli.Program, b *box.Box) sequel {
	st, err := inspect.ReadStatus(ctx, b, time.Now())
	if err != nil {
		p.Warnf("it is not known whether a run is active: %v", err)
		return sequel{&inspect.Status{}}
	}
	return sequel{st}
}

// command returns the command that starts a run, "" if one is active or nothing is left to do.
func (s sequel) command() string { return s.status.Continue }

// advances reports whether a run carries out an order about a task at once, as far as it does not
// wait for something else.
func (s sequel) advances(task string) bool {
	paused := func(t inspect.Task) bool { return t.ID == task && t.Condition == inspect.Paused }
	return s.status.Continue == "" && !s.status.Paused && s.status.Cancelled == "" &&
		!slices.ContainsFunc(s.status.Tasks, paused)
}

// note tells the user what else is necessary.
func (s sequel) note(p *cli.Program) {
	switch st := s.status; {
	case st.Cancelled != "":
		p.Notef("the run is cancelled; undo that with: signalbox retry")
	case st.Paused && st.Continue != "":
		p.Notef("the run is paused, and no run is active here; continue with: %s",
			st.HowToContinue())
		return
	case st.Paused:
		p.Notef("the run is paused; end the pause with: signalbox resume")
	}
	if commands := s.status.HowToContinue(); commands != "" {
		p.Notef("this is recorded; no run is active here, so nothing happens until: %s", commands)
	}
}

func (f *orderFlags) order(p *cli.Program, what rules.OrderKind, task string) error {
	return f.give(p, steer.Decision{What: what}, task)
}

// give gives an order about a task, or about the run if task is "".
func (f *orderFlags) give(p *cli.Program, order steer.Decision, task string) error {
	what := order.What
	if err := p.OperatorOnly(string(what)); err != nil {
		return err
	}
	reason, err := p.TextOf(f.Reason)
	if err != nil {
		return err
	}
	p.Stopping = stops(what)
	order.Reason, order.Actor = reason, p.ActorOf(f.Actor)
	do := func(ctx context.Context, b *box.Box, id string) (rules.Answer, error) {
		order.Work = id
		if what == rules.OrderApprove {
			var err error
			if order.Commit, err = f.showSteering(ctx, p, b, order); err != nil {
				return rules.Answer{}, err
			}
		}
		return order.Do(ctx, b)
	}
	return cli.DoWork(p, f.BoxFlag, task, do, func(b *box.Box, a rules.Answer) error {
		answer := ordered{Order: what, Phase: a.Phase, Repeated: a.Repeated, Seq: a.Seq,
			Commit: a.Commit}
		if task != "" {
			answer.Work = &task
		}
		var change changes.Change
		if a.Commit != "" {
			change = changeOf(p, f.BoxFlag, b, a.Work)
			answer.count(change)
			answer.Steering = change.Steering
		}
		var then sequel
		if !stops(what) {
			then = sequelOf(context.Background(), p, b)
			answer.Continue = then.command()
		}
		if f.JSON {
			return p.PrintJSON(answer, "")
		}
		done := render.Ordered(what, a)
		if !stops(what) && !then.advances(a.Work) {
			done = render.Recorded(what, a)
		}
		if order.From != "" {
			done += " in " + string(a.Phase)
		}
		fmt.Fprintf(p.Out, "%s: %s%s\n", cmp.Or(task, "the run"), done, render.StillWaits(task, a))
		if err := printChange(p, change); err != nil || stops(what) {
			return err
		}
		then.note(p)
		return nil
	})
}

// count fills in what the commit changes, if that is known.
func (o *ordered) count(c changes.Change) {
	if files := len(c.Files); c.Known {
		o.Files, o.Insertions, o.Deletions = &files, &c.Insertions, &c.Deletions
	}
}

// changeOf returns what a work item changes. If git cannot say it, a warning says why: the order
// has been carried out.
func changeOf(p *cli.Program, f cli.BoxFlag, b *box.Box, work string) changes.Change {
	change, err := changes.Of(context.Background(), b, p.ProjectRoot(f, b.Dir), work)
	if err != nil {
		p.Warnf("what the commit changes is not known: %v", err)
		if hint := signalbox.HintOf(err); hint != "" {
			p.Notef("%s", hint)
		}
	}
	return change
}

// printChange prints the title of a change and its diffstat, indented.
func printChange(p *cli.Program, c changes.Change) error {
	width := cli.WidthOf(p.Stdout)
	if width == 0 {
		width = 80
	}
	if c.Title != "" {
		fmt.Fprintf(p.Out, "    %s\n", text.Shorten(cli.Printable(text.OneLine(c.Title)),
			max(width-4, 20)))
	}
	for _, line := range render.DiffStat(c, width-4) {
		fmt.Fprintf(p.Out, "    %s\n", line)
	}
	return nil
}

// showSteering prints how the commit that an order would approve changes what steers agents, and
// returns that commit, so that no other one is approved. It fails if that cannot be shown.
func (f *orderFlags) showSteering(ctx context.Context, p *cli.Program, b *box.Box,
	order steer.Decision) (string, error) {
	if err := b.Engine.Refresh(ctx); err != nil {
		return "", err
	}
	var w *rules.Work
	var would rules.Decision
	b.Engine.View(func(s *rules.State) {
		w, _ = s.Work(order.Work)
		would = rules.Decide(s, time.Now(), order.Command())
	})
	commit := would.Answer.Commit
	if would.Err != nil || would.Answer.Repeated || len(w.Task.Steering) == 0 {
		return commit, would.Err
	}
	if err := f.printSteering(ctx, p, b, w, commit); err != nil {
		return "", signalbox.CodeFailed.Errorf(cmp.Or(signalbox.HintOf(err), "signalbox diff "+w.ID+
			" shows all that it changes"),
			"%s is not approved, because what steers agents in it cannot be shown: %w", w.ID, err)
	}
	return commit, nil
}

// printSteering prints how a commit changes what steers agents, and nothing else of it. If a
// program reads the answer, people read it on stderr.
func (f *orderFlags) printSteering(ctx context.Context, p *cli.Program, b *box.Box, w *rules.Work,
	commit string) error {
	d, err := inspect.OpenDiff(ctx, b, p.ProjectRoot(f.BoxFlag, b.Dir), w, false)
	if err != nil {
		return err
	}
	defer d.Close()
	if d.Commit() != commit {
		return fmt.Errorf("its commit is %.7s by now, not %.7s", d.Commit(), commit)
	}
	out, paint := p.Out, p.RenderOptions().Paint
	if f.JSON {
		out, paint = bufio.NewWriter(p.Stderr), show.Palette{}
	}
	about := changes.Change{Steering: w.Task.Steering}
	fmt.Fprintf(out, "%s\n", cli.Printable(about.AboutSteering()))
	printed := render.NewDiff(out, paint)
	if err := d.PrintSteering(ctx, printed); err != nil {
		return err
	}
	if printed.Empty() {
		return errors.New("the diff is empty")
	}
	if err := printed.Close(); err != nil {
		return err
	}
	return out.Flush() // before the order, not when the command ends
}

type PauseCommand struct {
	orderFlags
	Task string `arg:"" optional:"" help:"The task, or PLAN/TASK if several plans have it. Default: the whole run."`
}

func (PauseCommand) Help() string {
	return `Stops dispatching work, for one task or for the whole run. Agents that are running finish their turn, and their signals count.

Examples:

    signalbox pause
    signalbox pause T3 --reason 'the design is being discussed'`
}

func (c *PauseCommand) Run(p *cli.Program) error { return c.order(p, rules.OrderPause, c.Task) }

type ResumeCommand struct {
	orderFlags
	Task string `arg:"" optional:"" help:"The task, or PLAN/TASK if several plans have it. Default: the whole run."`
}

func (ResumeCommand) Help() string {
	return `Ends the pause of one task or of the whole run.

Examples:

    signalbox resume
    signalbox resume T3`
}

func (c *ResumeCommand) Run(p *cli.Program) error { return c.order(p, rules.OrderResume, c.Task) }

type CancelCommand struct {
	orderFlags
	Task string `arg:"" optional:"" help:"The task, or PLAN/TASK if several plans have it. Default: the whole run."`
}

func (CancelCommand) Help() string {
	return `Cancels a task, or the whole run if you name none. Agents that work on it are stopped, and it is not dispatched again. What was merged stays. Tasks that depend on a cancelled task never start: change the plan, or undo the cancellation with signalbox retry.

Examples:

    signalbox cancel T3 --reason 'no longer wanted'
    signalbox cancel`
}

func (c *CancelCommand) Run(p *cli.Program) error { return c.order(p, rules.OrderCancel, c.Task) }

type RetryCommand struct {
	orderFlags
	Task string          `arg:"" optional:"" help:"The task, or PLAN/TASK if several plans have it. Default: all blocked tasks, and a run that was cancelled or paused."`
	From signalbox.Phase `placeholder:"PHASE" help:"The phase in which the task restarts: the one that it has reached, or an earlier one, such as REVIEW. Default: the one that it has reached."`
	Note string          `placeholder:"TEXT" help:"What the next agent of the task reads first in its prompt; - reads it from standard input."`
}

func (RetryCommand) Help() string {
	return `Restarts a task in its current phase: earlier failures no longer count, open questions about it are withdrawn, and an agent that works on it is stopped. It also undoes a cancellation. Without a task, it restarts all tasks that are blocked by questions.

With --from, the task restarts in that phase: IMPLEMENTATION, CI_PENDING, REVIEW or READY_FOR_MERGE. What it passed there and later counts no more: it is reviewed, audited and approved again. A phase that it has not reached is refused.

Examples:

    signalbox retry T3
    signalbox retry T3 --from REVIEW --note 'look at the error paths too'
    signalbox retry --reason 'the service is up again'`
}

func (c *RetryCommand) Run(p *cli.Program) error {
	if c.Note == "-" && c.Reason == "-" {
		return signalbox.CodeUsage.Errorf("write one of them as an argument",
			"the reason and the note cannot both be read from standard input")
	}
	note, err := p.TextOf(c.Note)
	if err != nil {
		return err
	}
	return c.give(p, steer.Decision{What: rules.OrderRetry,
		From: signalbox.Phase(strings.ToUpper(string(c.From))), Note: note}, c.Task)
}

type ApproveCommand struct {
	orderFlags
	Task string `arg:"" help:"The task, or PLAN/TASK if several plans have it."`
}

func (ApproveCommand) Help() string {
	return `Approves the merge of a task: of the commit that was checked, reviewed and audited. The answer shows this commit and what it changes. Changes of files that steer agents, such as CLAUDE.md and .claude, are shown in full before that, with --json on standard error; if they cannot be shown, nothing is approved. If the task is changed after that, it needs another approval. The configuration asks for approval with approve: merge. To send the task back instead, use signalbox reject.

Examples:

    signalbox approve T3
    signalbox approve T3 --json`
}

func (c *ApproveCommand) Run(p *cli.Program) error { return c.order(p, rules.OrderApprove, c.Task) }

type AnswerCommand struct {
	cli.BoxFlag
	cli.AnswerFlag
	Question string       `arg:"" help:"The question, such as Q-1."`
	Text     *string      `arg:"" optional:"" help:"The answer, or - to read it from standard input. On a terminal, your editor opens without it."`
	Actor    cli.NonEmpty `placeholder:"A" help:"Your name on the ledger. Default: SIGNALBOX_ACTOR, or else your user name."`
}

func (AnswerCommand) Help() string {
	return `Answers a question. The task is dispatched again with the question and the answer in its prompt, and earlier failures no longer count. A question can be answered only once.

Some questions come from signalbox itself. When a budget is spent, an answer that starts with "no", "stop" or "halt" pauses the work and grants nothing; any other answer grants the same budget again. Raising the budget in the configuration and running the plan again answers the question too. When remediation does not succeed, an answer that starts with "healthy" declares the base healthy, "halt" pauses the run, and any other answer is guidance for the next attempt. When a task changes nothing, an answer that starts with "done" completes it, and any other answer is guidance for another attempt.

Without an answer, your editor opens (VISUAL or EDITOR), with the question as comments.

Examples:

    signalbox answer Q-1 'two decimals, rounded half to even'
    signalbox answer Q-2 healthy
    signalbox answer Q-3 - < answer.txt
    signalbox answer Q-4`
}

// answered is the JSON answer of the answer command.
type answered struct {
	Question string  `json:"question"`
	Work     *string `json:"work"`
	Seq      uint64  `json:"seq"`
	// Continue is the command that starts a run, if none is active to use the answer.
	Continue string `json:"continue,omitempty"`
}

func (c *AnswerCommand) Run(p *cli.Program) error {
	if err := p.OperatorOnly("answer questions"); err != nil {
		return err
	}
	text, err := p.RequireText(c.Text,
		cli.WantedText{Name: "the answer", Missing: "the answer is missing",
			Usage: "signalbox answer " + c.Question + " TEXT",
			About: func() (string, error) { return c.about(p) }})
	if err != nil {
		return err
	}
	do := func(ctx context.Context, b *box.Box, _ string) (rules.Answer, error) {
		return c.decision(p, text).Do(ctx, b)
	}
	return cli.DoWork(p, c.BoxFlag, "", do, func(b *box.Box, a rules.Answer) error {
		then := sequelOf(context.Background(), p, b)
		answer := answered{Question: c.Question, Seq: a.Seq, Continue: then.command()}
		if a.Work != "" {
			answer.Work = &a.Work
		}
		if c.JSON {
			return p.PrintJSON(answer, "")
		}
		switch {
		case a.Paused || a.Understood != "" || then.advances(a.Work):
			fmt.Fprintln(p.Out, render.Answered(c.Question, a))
		default:
			fmt.Fprintf(p.Out, "answered %s\n", c.Question)
		}
		if !a.Paused {
			then.note(p)
		}
		return nil // Main reports a write error
	})
}

func (c *AnswerCommand) decision(p *cli.Program, text string) steer.Decision {
	return steer.Decision{What: steer.Answer, Question: c.Question, Text: text,
		Actor: p.ActorOf(c.Actor)}
}

// about returns the question for the editor. It fails if the question cannot be answered.
func (c *AnswerCommand) about(p *cli.Program) (about string, err error) {
	err = p.WithReadOnlyBox(c.BoxFlag, func(ctx context.Context, b *box.Box) error {
		if err := c.decision(p, "").Refused(b); err != nil {
			return err
		}
		list, err := questions.List(ctx, b, false)
		if err != nil {
			return err
		}
		for _, q := range list {
			if q.ID == c.Question {
				about = render.AboutQuestion(&q)
			}
		}
		return nil
	})
	return about, err
}

type QuestionsCommand struct {
	cli.BoxFlag
	JSON bool `name:"json" help:"Print a JSON array."`
	All  bool `help:"Show answered questions too."`
}

func (QuestionsCommand) Help() string {
	return `Shows what agents ask you, and what else waits for your decision: limits that were reached, budgets that are spent, merges that need approval. Questions have no timeout.

Examples:

    signalbox questions
    signalbox answer Q-1 'two decimals'
    signalbox questions --all --json`
}

func (c *QuestionsCommand) Run(p *cli.Program) error {
	return p.WithReadOnlyBox(c.BoxFlag, func(ctx context.Context, b *box.Box) error {
		list, err := questions.List(ctx, b, c.All)
		if err != nil {
			return err
		}
		if c.JSON {
			return p.PrintJSON(list, "")
		}
		return render.Questions(p.Out, list, p.RenderOptions())
	})
}

// stops reports whether an order only stops work.
func stops(what rules.OrderKind) bool { return what == rules.OrderPause || what == rules.OrderCancel }
