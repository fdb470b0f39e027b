// Package assistants has the commands for models that use tools, and for the behaviour trees around
// them: oracle, agent and tree.
package assistants

import (
	"cmp"
	"context"
	"errors"
	"math"
	"os"
	"path/filepath"
	"strings"
	"time"

	"signalbox"
	"signalbox/internal/cli"
	"signalbox/internal/config"
	"signalbox/internal/core/box"
	"signalbox/internal/durable"
	"signalbox/internal/oracle"
	"signalbox/internal/oracle/decide"
	"signalbox/internal/oracle/model"
	"signalbox/internal/oracle/session"
	"signalbox/internal/oracle/setup"
	"signalbox/internal/process"
	"signalbox/internal/tree"
	"signalbox/internal/tree/turnlog"
)

type OracleCommand struct {
	cli.BoxFlag
	Question []string       `arg:"" optional:"" help:"The question. End it with - to add standard input."`
	Continue bool           `short:"c" help:"Continue the last conversation with a question, or resume its last answer."`
	Session  cli.NonEmpty   `placeholder:"ID" help:"Continue this conversation."`
	Model    cli.NonEmpty   `placeholder:"NAME" help:"Use this model of the configuration instead of oracle.model."`
	Tree     string         `placeholder:"FILE" type:"existingfile" help:"Use this tree instead of the configured one."`
	Turns    *int           `placeholder:"N" help:"Ask for the final answer after this many turns. Default: 30."`
	Tokens   *int64         `placeholder:"N" help:"Ask for the final answer after this many tokens."`
	Cost     *float64       `placeholder:"USD" help:"Ask for the final answer when the question has cost this much."`
	Time     *time.Duration `placeholder:"D" help:"Stop after this long, such as 10m. A quarter of it, at most a minute, is for the final answer."`
	Thoughts bool           `help:"Show the reasoning of the model, if it sends any."`
	Answer   bool           `short:"q" xor:"form" help:"Print only the final answer."`
	Tools    bool           `xor:"look" help:"List the tools that are offered for the question, or all tools."`
	Sessions bool           `xor:"look" help:"List the last 20 conversations, newest first."`
	All      bool           `help:"With --sessions: list all conversations."`
	Show     cli.NonEmpty   `xor:"look" placeholder:"ID" help:"Show a conversation."`
	JSON     bool           `name:"json" xor:"form" help:"Print chunks, one JSON object per line."`
}

func (OracleCommand) Help() string {
	return `Answers a question with a model and tools: search_code, read_file, search_notes, the portfolio tools, shell commands and MCP servers, as configured in signalbox.yaml (see docs/how-to/oracle.md). The answer goes to standard output as it arrives; tool calls and other events go to standard error. The model ends each reply with a signal that decides whether there is another turn. Signals are recorded on the ledger and are not part of the answer.

If standard output is not a terminal, each turn is printed when it is complete. The text of the last turn is the final answer; --answer prints only that.

A question can have 256 KiB, including standard input. Without a question, it is read from standard input, or, on a terminal, a chat starts: several questions in one conversation.

In a chat, Enter sends the question, and Alt-Enter or Ctrl-J starts a new line. Pasted lines are not sent. Up and Down show earlier questions of this box, and Ctrl-R searches them. Answers are rendered as Markdown. Ctrl-C stops an answer, Ctrl-D leaves. docs/how-to/oracle.md lists all keys.

Ctrl-C stops the answer; press it again to exit immediately. --continue resumes the answer, also after a crash. Tool calls that change something are never repeated.

Configure the model under models in signalbox.yaml. Its key is read from an environment variable: OPENAI_API_KEY or ANTHROPIC_API_KEY, unless key_env names another.

Exit status: 0 answered, 1 not answered or the answer was cut off, 130 interrupted; 2, 3 and 4 as for every command.

Examples:

    signalbox oracle 'Where are retries configured?'
    signalbox oracle --continue 'And how often does it retry?'
    git diff | signalbox oracle 'What is wrong with this?' -
    signalbox oracle --json 'Should I sell SLV?' | jq -r 'select(.type == "done").answer'
    signalbox oracle --sessions`
}

func (c *OracleCommand) Run(p *cli.Program) error {
	if err := p.OperatorOnly("ask the oracle"); err != nil {
		return err
	}
	if err := c.check(); err != nil {
		return err
	}
	dir, err := p.FindBox(c.BoxFlag)
	if err != nil {
		return err
	}
	folder := filepath.Join(dir, session.FolderName)
	switch {
	case c.Sessions:
		return c.list(p, folder)
	case c.Show != "":
		return c.show(p, folder)
	}
	p.Quiet = c.JSON || c.Answer
	question, err := c.question(p)
	if err != nil {
		return err
	}
	ctx, stop := cli.UntilInterrupted()
	defer stop()
	return p.WithBoxOptions(ctx, c.BoxFlag, p.RunOptions(c.BoxFlag), func(b *box.Box) error {
		s, err := c.find(folder)
		if err != nil {
			return err
		}
		t := &conversation{c: c, p: p, folder: folder, session: s}
		defer t.close()
		if t.oracle, err = c.setup(ctx, p, dir, b, question); err != nil {
			return err
		}
		switch {
		case c.Tools:
			return c.listTools(p, t.oracle, question)
		case question == "" && s == nil:
			stop() // chat handles interrupts itself
			return t.chat()
		}
		c.noteUnreadInput(p)
		return t.ask(ctx, question, t.emit())
	})
}

// setup opens the oracle.
func (c *OracleCommand) setup(ctx context.Context, p *cli.Program, dir string, b *box.Box,
	question string) (*setup.Setup, error) {
	if err := process.Conceal(); err != nil { // the keys of models, from tools
		return nil, err
	}
	o, err := setup.Open(ctx, b.Config, &setup.Options{Box: dir, Lookup: os.LookupEnv,
		Version: p.Build().Version, Record: turnlog.ToWithoutText(b.Engine, p.ActorOf("")),
		Project: filepath.Join(dir, ".."), Logs: filepath.Join(dir, "logs"), Model: string(c.Model),
		Tree: c.Tree, Limits: c.limits(), Question: question,
		Starting: func(server string) { p.Notef("starting %s", server) }})
	if err != nil {
		return nil, oracleError(p, c.Tree, err)
	}
	if !c.Answer {
		printNotes(p, o)
	}
	return o, nil
}

// printNotes prints which servers and tools are missing.
func printNotes(p *cli.Program, o *setup.Setup) {
	for _, note := range o.Notes {
		p.Warnf("%s", note)
	}
}

// check refuses flags that cannot be combined, so that none is silently ignored.
func (c *OracleCommand) check() error {
	look := ""
	switch {
	case c.Sessions:
		look = "--sessions"
	case c.Show != "":
		look = "--show"
	case c.Tools:
		look = "--tools"
	}
	asks := !c.Sessions && c.Show == ""
	for _, other := range []struct {
		name         string
		set, allowed bool
	}{
		{"a question", len(c.Question) > 0, asks},
		{"--model", c.Model != "", asks},
		{"--tree", c.Tree != "", asks},
		{"--continue", c.Continue, look == ""},
		{"--session", c.Session != "", look == ""},
		{"--turns, --tokens, --cost or --time", c.Turns != nil || c.Tokens != nil ||
			c.Cost != nil || c.Time != nil, look == ""},
		{"--thoughts", c.Thoughts, look == ""},
		{"--answer", c.Answer, look == ""},
	} {
		if other.set && !other.allowed {
			return signalbox.CodeUsage.Errorf("leave one of them out",
				"%s cannot be combined with %s", look, other.name)
		}
	}
	if c.All && !c.Sessions {
		return signalbox.CodeUsage.Errorf("leave out --all, or add --sessions",
			"--all requires --sessions")
	}
	bad := c.Turns != nil && *c.Turns <= 0 || c.Tokens != nil && *c.Tokens <= 0 || c.Time != nil &&
		*c.Time <= 0 ||
		c.Cost != nil && !(*c.Cost > 0 && *c.Cost < maxCost)
	if bad {
		return signalbox.CodeUsage.Errorf("leave it out to use the configured limit",
			"a limit is zero, negative or too large")
	}
	return nil
}

// maxCost keeps the cost in millionths of a dollar within an int64.
const maxCost = 1e9

func (c *OracleCommand) limits() (l config.OracleLimits) {
	if c.Turns != nil {
		l.Turns = *c.Turns
	}
	if c.Tokens != nil {
		l.Tokens = *c.Tokens
	}
	if c.Cost != nil {
		l.CostMicros = int64(math.Ceil(*c.Cost * 1e6))
	}
	if c.Time != nil {
		l.Time = *c.Time
	}
	return l
}

// find opens the conversation to continue. It returns nil for a new one.
func (c *OracleCommand) find(folder string) (*session.Session, error) {
	id := string(c.Session)
	switch {
	case id != "":
		if err := signalbox.CheckID(id); err != nil {
			return nil, &signalbox.Error{Code: signalbox.CodeUsage, Err: err, Hint: listSessions}
		}
		if _, err := os.Stat(filepath.Join(folder, id, session.RecordName)); err != nil {
			return nil, noSession(id)
		}
	case c.Continue:
		last, err := session.Newest(folder)
		if err != nil {
			return nil, damaged(err)
		}
		if last == nil {
			return nil, signalbox.CodeNotFound.Errorf("ask a question: signalbox oracle 'question'",
				"there is no conversation to continue")
		}
		id = last.ID
	default:
		return nil, nil
	}
	s, err := session.Open(filepath.Join(folder, id))
	if errors.Is(err, session.ErrInUse) {
		err = &signalbox.Error{Code: signalbox.CodeConflict, Err: err,
			Hint: "wait until it has ended, or start another conversation"}
	}
	return s, damaged(err)
}

// damaged adds a hint to the error of a conversation that cannot be read.
func damaged(err error) error {
	if errors.Is(err, session.ErrDamaged) {
		err = &signalbox.Error{Code: signalbox.CodeUnverified, Err: err,
			Hint: "continue another conversation with --session ID, or start a new one; " +
				listSessions}
	}
	return err
}

const listSessions = "signalbox oracle --sessions lists the conversations"

func noSession(id string) error {
	return signalbox.CodeNotFound.Errorf(listSessions, "there is no conversation '%s'", id)
}

// newSession starts a conversation.
func newSession(folder, prefix string) (*session.Session, error) {
	if err := durable.MakeFolder(folder); err != nil {
		return nil, err
	}
	return session.Create(folder, box.NewID(prefix))
}

// answerError returns the error for an answer that failed, is incomplete or has no text.
func answerError(a *oracle.Answer) error {
	switch {
	case a.Error != nil && a.Done.Reason == string(decide.ReasonCancelled):
		return signalbox.CodeInterrupted.Errorf("resume it with signalbox oracle --continue",
			"interrupted")
	case a.Error != nil:
		return signalbox.CodeFailed.Errorf(errorHint(a.Error.Name, a.Error.Text), "%s",
			a.Error.Text)
	case a.Done.Reason == oracle.ReasonTreeEnded:
		return signalbox.CodeFailed.Errorf(
			"docs/reference/oracle.md#trees describes the leaves of a tree", "%s",
			cmp.Or(a.Done.Detail, "the tree ended without a decision"))
	case decide.Reason(a.Done.Reason).Incomplete():
		return incompleteError(decide.Reason(a.Done.Reason))
	case strings.TrimSpace(a.Text) != "":
		return nil
	}
	err := signalbox.CodeFailed.Errorf(
		"rephrase the question: signalbox oracle --continue 'question'", "there is no answer: %s",
		a.Done.Reason)
	switch decide.Reason(a.Done.Reason) {
	case decide.ReasonBudgetSpent, decide.ReasonMaxTurns:
		err.Hint = "raise the limit: --turns, --tokens, --cost, --time, or oracle.limits in the configuration"
	}
	return err
}

const raiseTime = "raise the limit: --time, or oracle.limits.time in the configuration"

// incompleteError returns the error for an answer that was cut off.
func incompleteError(reason decide.Reason) error {
	err := &signalbox.Error{Code: signalbox.CodeFailed}
	switch reason {
	case decide.ReasonTokenLimit:
		err.Err = errors.New(
			"the answer is incomplete: it was cut at the longest reply allowed (token_limit)")
		err.Hint = "raise models.NAME.max_tokens, or ask for the rest: signalbox oracle --continue 'continue'"
	case decide.ReasonRefused:
		err.Err = errors.New(
			"there is no complete answer: the model, or a filter of its server, refused to continue (refused)")
		err.Hint = "rephrase the question, or use another model: --continue --model NAME"
	default:
		err.Err = errors.New(
			"the answer is incomplete: it was cut at the time limit of the question (time_limit)")
		err.Hint = raiseTime
	}
	return err
}

// errorHint returns what to do about an error of a conversation.
func errorHint(name, text string) string {
	const retry = "retry with signalbox oracle --continue"
	const otherModel = "continue with another model: --continue --model NAME"
	const startNew = "start a new conversation: signalbox oracle 'question'"
	switch model.ErrorKind(name) {
	case model.ErrorKind(decide.ReasonTimeLimit):
		return raiseTime
	case model.ErrorTooLong:
		return startNew + "; or " + otherModel
	case model.ErrorNotFound:
		return "check model and base_url under models in the configuration; then " + retry
	case model.ErrorKey:
		return "correct the key; then " + retry
	case model.ErrorRequest:
		return otherModel + "; or " + startNew
	case oracle.ReasonTreeFailed:
		return "fix the tree, or use another: --continue --tree FILE"
	case oracle.ReasonFailed:
		if strings.Contains(text, "no space left") {
			return "free some disk space; then resume with signalbox oracle --continue"
		}
		return "resume with signalbox oracle --continue"
	}
	return retry
}

// oracleError prints the faults of a tree that cannot be used.
func oracleError(p *cli.Program, name string, err error) error {
	if len(tree.Faults(err)) > 0 {
		return treeError(p, name, err)
	}
	return err
}
