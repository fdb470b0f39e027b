package main

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"time"

	"signalbox"
	"signalbox/internal/config"
	"signalbox/internal/core/box"
	"signalbox/internal/durable"
	"signalbox/internal/oracle"
	"signalbox/internal/oracle/decide"
	"signalbox/internal/oracle/model"
	"signalbox/internal/oracle/session"
	"signalbox/internal/oracle/setup"
	"signalbox/internal/tree"
)

// oracleFolder is where a box keeps its conversations.
const oracleFolder = "oracle"

type oracleCommand struct {
	boxFlag
	Question []string       `arg:"" optional:"" help:"The question. A last - adds standard input to it."`
	Continue bool           `short:"c" help:"Go on with the last conversation: with a question, or where it was cut off."`
	Session  given          `placeholder:"ID" help:"Go on with this conversation."`
	Model    given          `placeholder:"NAME" help:"One of models in the configuration, in place of oracle.model."`
	Tree     string         `placeholder:"FILE" type:"existingfile" help:"A tree in place of the configured one."`
	Turns    *int           `placeholder:"N" help:"Ask for the answer after so many turns. Default: 30."`
	Tokens   *int64         `placeholder:"N" help:"Ask for the answer after so many tokens."`
	Cost     *float64       `placeholder:"USD" help:"Ask for the answer when it has cost so much."`
	Time     *time.Duration `placeholder:"D" help:"Ask for the answer after so long, such as 10m."`
	Thoughts bool           `help:"Show what the model thinks aloud, where it does."`
	Answer   bool           `short:"q" xor:"form" help:"Print the final answer and nothing else."`
	Tools    bool           `xor:"look" help:"List the tools that the question would be offered, or all."`
	Sessions bool           `xor:"look" help:"List the last 20 conversations, the newest first."`
	All      bool           `help:"With --sessions: list all of them."`
	Show     given          `xor:"look" placeholder:"ID" help:"Show a conversation."`
	JSON     bool           `name:"json" xor:"form" help:"Print chunks, one JSON object a line."`
}

func (oracleCommand) Help() string {
	return `Answers a question with a model and tools: search_code, read_file, search_notes, the portfolio tools, shell commands and MCP servers, as signalbox.yaml has them (docs/oracle.md). What the model says is printed as it comes; what happens beside it goes to standard error. How the conversation goes on is decided by the signals with which the model ends its replies. They are recorded on the ledger and not shown in the answer.

Where standard output is no terminal, each turn is printed when it is whole. The text of the last turn is the answer: --answer prints only that.

A question may have 256 KiB, with what - adds to it. Without one, it is read from standard input; on a terminal, questions are asked one after the other in the same conversation, until Ctrl-D.

Ctrl-C ends it, and a second one at once. --continue goes on from there, and also after a crash: no tool call that changes something is made twice.

The model is configured under models in signalbox.yaml. The key is in an environment variable: OPENAI_API_KEY or ANTHROPIC_API_KEY, unless key_env names another.

Exit status: 0 there is an answer, 1 there is none, 130 interrupted; 2, 3 and 4 as for every command.

Examples:

    signalbox oracle 'Where are retries configured?'
    signalbox oracle --continue 'And how often does it retry?'
    git diff | signalbox oracle 'What is wrong with this?' -
    signalbox oracle --json 'Should I sell SLV?' | jq -r 'select(.type == "done").answer'
    signalbox oracle --sessions`
}

func (c *oracleCommand) Run(p *program) error {
	if err := p.operatorOnly("ask the oracle"); err != nil {
		return err
	}
	if err := c.check(); err != nil {
		return err
	}
	dir, err := p.findBox(c.boxFlag)
	if err != nil {
		return err
	}
	folder := filepath.Join(dir, oracleFolder)
	switch {
	case c.Sessions:
		return c.list(p, folder)
	case c.Show != "":
		return c.show(p, folder)
	}
	p.quiet = c.JSON || c.Answer
	question, err := c.question(p)
	if err != nil {
		return err
	}
	ctx, stop := untilInterrupted()
	defer stop()
	return p.withBox(ctx, c.boxFlag, func(b *box.Box) error {
		s, err := c.find(folder)
		if err != nil {
			return err
		}
		t := &talk{c: c, p: p, folder: folder, session: s}
		defer t.close()
		if t.oracle, err = c.setup(ctx, p, dir, b, question); err != nil {
			return err
		}
		switch {
		case c.Tools:
			return c.listTools(p, t.oracle, question)
		case question == "" && s == nil:
			stop() // each question has its own
			return t.chat()
		}
		c.noteInput(p)
		return t.ask(ctx, question)
	})
}

// setup makes the oracle that answers.
func (c *oracleCommand) setup(ctx context.Context, p *program, dir string, b *box.Box, question string) (*setup.Setup, error) {
	conf, err := config.Load(dir)
	if err != nil {
		return nil, err
	}
	o, err := setup.Open(ctx, conf, &setup.Options{Lookup: os.LookupEnv, Version: currentBuild().Version, Engine: b.Engine, Actor: p.actor(""),
		Project: filepath.Join(dir, ".."), Logs: filepath.Join(dir, "logs"), Model: string(c.Model), Tree: c.Tree, Limits: c.limits(), Question: question,
		Starting: func(server string) { p.notef("starting %s", server) }})
	if err != nil {
		return nil, p.oracleError(c.Tree, err)
	}
	if !c.Answer {
		p.warnOf(o)
	}
	return o, nil
}

// warnOf tells what an oracle has to do without.
func (p *program) warnOf(o *setup.Setup) {
	for _, note := range o.Notes {
		p.warnf("%s", note)
	}
}

// check refuses what does not go together: nothing that was given is left out of account.
func (c *oracleCommand) check() error {
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
		name       string
		there, may bool
	}{
		{"a question", len(c.Question) > 0, asks},
		{"--model", c.Model != "", asks},
		{"--tree", c.Tree != "", asks},
		{"--continue", c.Continue, look == ""},
		{"--session", c.Session != "", look == ""},
		{"--turns, --tokens, --cost or --time", c.Turns != nil || c.Tokens != nil || c.Cost != nil || c.Time != nil, look == ""},
		{"--thoughts", c.Thoughts, look == ""},
		{"--answer", c.Answer, look == ""},
	} {
		if other.there && !other.may {
			return &signalbox.Error{Code: signalbox.CodeUsage, Err: fmt.Errorf("%s does not go with %s", look, other.name), Hint: "leave one of them out"}
		}
	}
	if c.All && !c.Sessions {
		return &signalbox.Error{Code: signalbox.CodeUsage, Err: errors.New("--all is for --sessions"), Hint: "leave it out"}
	}
	bad := c.Turns != nil && *c.Turns <= 0 || c.Tokens != nil && *c.Tokens <= 0 || c.Time != nil && *c.Time <= 0 ||
		c.Cost != nil && !(*c.Cost > 0 && *c.Cost < maxCost)
	if bad {
		return &signalbox.Error{Code: signalbox.CodeUsage, Err: errors.New("a limit is not above zero, or too large"), Hint: "leave it out for the configured one"}
	}
	return nil
}

// maxCost is more than anybody spends on a question, and can be counted in millionths.
const maxCost = 1e9

func (c *oracleCommand) limits() (l config.OracleLimits) {
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

// find opens the conversation to go on with, nil for a new one.
func (c *oracleCommand) find(folder string) (*session.Session, error) {
	id := string(c.Session)
	switch {
	case id != "":
		if err := signalbox.CheckID(id); err != nil {
			return nil, &signalbox.Error{Code: signalbox.CodeUsage, Err: err, Hint: "signalbox oracle --sessions lists them"}
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
			return nil, &signalbox.Error{Code: signalbox.CodeNotFound, Err: errors.New("there is no conversation to go on with"), Hint: "ask something: signalbox oracle 'question'"}
		}
		id = last.ID
	default:
		return nil, nil
	}
	s, err := session.Open(filepath.Join(folder, id))
	if errors.Is(err, session.ErrInUse) {
		err = &signalbox.Error{Code: signalbox.CodeConflict, Err: err, Hint: "wait until it ended, or begin another conversation"}
	}
	return s, damaged(err)
}

// damaged says what to do about a conversation that cannot be read.
func damaged(err error) error {
	if errors.Is(err, session.ErrDamaged) {
		err = &signalbox.Error{Code: signalbox.CodeUnverified, Err: err, Hint: "--session ID goes on with another, signalbox oracle 'question' begins one; signalbox oracle --sessions lists them"}
	}
	return err
}

func noSession(id string) error {
	return &signalbox.Error{Code: signalbox.CodeNotFound, Err: fmt.Errorf("there is no conversation '%s'", id), Hint: "signalbox oracle --sessions lists them"}
}

// newSession begins a conversation.
func newSession(folder, prefix string) (*session.Session, error) {
	if err := durable.MakeFolder(folder); err != nil {
		return nil, err
	}
	return session.Create(folder, box.NewID(prefix))
}

// closeSession ends the use of a conversation. One in which nothing was recorded leaves nothing behind.
func closeSession(s *session.Session) {
	empty := len(s.Entries()) == 0
	s.Close()
	if empty {
		os.RemoveAll(s.Dir)
	}
}

// outcomeOf is what the end of a question means for the exit status.
func outcomeOf(a *oracle.Answer) error {
	switch {
	case a.Error != nil && a.Done.Reason == string(decide.ReasonCancelled):
		return &signalbox.Error{Code: signalbox.CodeInterrupted, Err: errors.New("interrupted"), Hint: "signalbox oracle --continue goes on from here"}
	case a.Error != nil:
		return &signalbox.Error{Code: signalbox.CodeFailed, Err: errors.New(a.Error.Text), Hint: hintFor(a.Error.Name, a.Error.Text)}
	case strings.TrimSpace(a.Text) != "":
		return nil
	}
	wrong := &signalbox.Error{Code: signalbox.CodeFailed, Err: fmt.Errorf("there is no answer: %s", a.Done.Reason),
		Hint: "signalbox oracle --continue 'question' asks in other words"}
	switch decide.Reason(a.Done.Reason) {
	case decide.ReasonBudgetSpent, decide.ReasonMaxTurns:
		wrong.Hint = "allow it more: --turns, --tokens, --cost, --time, or oracle.limits in the configuration"
	}
	return wrong
}

// hintFor is what helps against an error of a conversation.
func hintFor(name, text string) string {
	const again = "signalbox oracle --continue asks again"
	switch model.ErrorKind(name) {
	case model.ErrorTooLong:
		return "signalbox oracle 'question' begins a new conversation; --continue --model NAME goes on with another model"
	case model.ErrorNotFound:
		return "check model and base_url under models in the configuration; then " + again
	case model.ErrorKey:
		return "when the key is right, " + again
	case model.ErrorRequest:
		return "--continue --model NAME goes on with another model; signalbox oracle 'question' begins a new conversation"
	case oracle.ReasonTreeFailed:
		return "mend the tree, or --continue --tree FILE goes on with another"
	case oracle.ReasonFailed:
		if strings.Contains(text, "no space left") {
			return "make room on the disk; then signalbox oracle --continue goes on from here"
		}
		return "signalbox oracle --continue goes on from here"
	}
	return again
}

// oracleError explains a tree that cannot be used.
func (p *program) oracleError(name string, err error) error {
	if len(tree.Faults(err)) > 0 {
		return p.treeError(name, err)
	}
	return err
}
