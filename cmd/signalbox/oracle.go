package main

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"text/tabwriter"
	"time"

	"signalbox"
	"signalbox/internal/box"
	"signalbox/internal/config"
	"signalbox/internal/durable"
	"signalbox/internal/oracle"
	"signalbox/internal/oracle/chunk"
	"signalbox/internal/oracle/decide"
	"signalbox/internal/oracle/session"
	"signalbox/internal/oracle/setup"
	"signalbox/internal/oracle/tell"
	"signalbox/internal/tree"
)

// oracleFolder is where a box keeps its conversations.
const oracleFolder = "oracle"

type oracleCommand struct {
	boxFlag
	Question []string      `arg:"" optional:"" help:"The question; - reads it from standard input."`
	Continue bool          `short:"c" help:"Go on with the last conversation: with a question, or where it was cut off."`
	Session  given         `placeholder:"ID" help:"Go on with this conversation."`
	Model    given         `placeholder:"NAME" help:"One of models in the configuration, in place of oracle.model."`
	Tree     string        `placeholder:"FILE" type:"existingfile" help:"A tree in place of the configured one."`
	Turns    int           `placeholder:"N" help:"Ask for the answer after so many turns. Default: 30."`
	Tokens   int64         `placeholder:"N" help:"Ask for the answer after so many tokens."`
	Cost     float64       `placeholder:"USD" help:"Ask for the answer when it has cost so much."`
	Time     time.Duration `placeholder:"D" help:"Ask for the answer after so long."`
	Thoughts bool          `help:"Show what the model thinks aloud, where it does."`
	Sessions bool          `xor:"look" help:"List the conversations."`
	Show     given         `xor:"look" placeholder:"ID" help:"Show a conversation."`
	JSON     bool          `name:"json" help:"Print chunks, one JSON object a line."`
}

func (oracleCommand) Help() string {
	return `Answers a question with a model and tools: search_code, read_file, search_notes, the portfolio tools, shell commands and MCP servers, as signalbox.yaml has them (docs/oracle.md). The answer is printed as it comes; what happens beside it goes to standard error. How the conversation goes on is decided by the signals with which the model ends its replies. They are recorded on the ledger and not shown in the answer.

Ctrl-C ends it; --continue goes on from there, and also after a crash: no tool call that changes something is made twice.

The model is configured under models in signalbox.yaml. The key is in an environment variable: OPENAI_API_KEY or ANTHROPIC_API_KEY, unless key_env names another.

Exit status: 0 there is an answer, 1 there is none, 130 interrupted.

Examples:

    signalbox oracle 'Where are retries configured?'
    signalbox oracle --continue 'And how often does it retry?'
    signalbox oracle --json 'Should I sell SLV?' | jq -r 'select(.type == "content").text'
    signalbox oracle --sessions`
}

func (c *oracleCommand) Run(p *program) error {
	if err := p.operatorOnly("ask the oracle"); err != nil {
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
	question, err := c.question(p)
	if err != nil {
		return err
	}
	ctx, stop := untilInterrupted()
	defer stop()
	p.quiet = c.JSON
	return p.withBox(ctx, c.boxFlag, func(b *box.Box) error {
		conf, err := config.Load(dir)
		if err != nil {
			return err
		}
		s, err := c.open(folder)
		if err != nil {
			return err
		}
		defer s.Close()
		o, err := setup.Open(ctx, conf, &setup.Options{Lookup: os.LookupEnv, Version: currentBuild().Version, Engine: b.Engine, Actor: p.actor(""),
			Project: filepath.Join(dir, ".."), Logs: filepath.Join(dir, "logs"), Model: string(c.Model), Tree: c.Tree, Limits: c.limits()})
		if err != nil {
			return p.oracleError(c.Tree, err)
		}
		answer, err := c.ask(ctx, p, o, s, question)
		if closed := o.Close(); closed != nil {
			p.warnf("%v", closed)
		}
		if err != nil {
			return err
		}
		return outcomeOf(answer)
	})
}

// question is what is asked, "" to go on where it was cut off.
func (c *oracleCommand) question(p *program) (string, error) {
	text := strings.Join(c.Question, " ")
	if text == "-" {
		name := "-"
		read, err := p.readAll(&name, maxQuestion)
		if err != nil {
			return "", err
		}
		text = string(read)
	}
	text = strings.TrimSpace(text)
	switch {
	case c.Turns < 0 || c.Tokens < 0 || c.Cost < 0 || c.Time < 0 || math.IsNaN(c.Cost) || math.IsInf(c.Cost, 0):
		return "", &signalbox.Error{Code: signalbox.CodeUsage, Err: errors.New("a limit is below zero, or no number"), Hint: "leave it out for the configured one"}
	case text == "" && !c.Continue && c.Session == "":
		return "", &signalbox.Error{Code: signalbox.CodeUsage, Err: errors.New("there is no question"),
			Hint: "signalbox oracle 'Where are retries configured?', or --continue to go on with the last one"}
	case len(text) > maxQuestion:
		return "", &signalbox.Error{Code: signalbox.CodeUsage, Err: fmt.Errorf("the question is longer than %d bytes", maxQuestion), Hint: "put it into a file of the project, and ask about that"}
	}
	return text, nil
}

const maxQuestion = 256 << 10

func (c *oracleCommand) limits() config.OracleLimits {
	return config.OracleLimits{Turns: c.Turns, Tokens: c.Tokens, CostMicros: int64(math.Ceil(c.Cost * 1e6)), Time: c.Time}
}

// open opens the conversation to go on with, or a new one.
func (c *oracleCommand) open(folder string) (*session.Session, error) {
	if err := durable.MakeFolder(folder); err != nil {
		return nil, err
	}
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
		all, err := session.List(folder)
		if err != nil {
			return nil, err
		}
		if len(all) == 0 {
			return nil, &signalbox.Error{Code: signalbox.CodeNotFound, Err: errors.New("there is no conversation to go on with"), Hint: "ask something: signalbox oracle 'question'"}
		}
		id = all[len(all)-1].ID
	default:
		return session.Create(folder, box.NewID("O"))
	}
	s, err := session.Open(filepath.Join(folder, id))
	if errors.Is(err, session.ErrInUse) {
		err = &signalbox.Error{Code: signalbox.CodeConflict, Err: err, Hint: "wait until it ended, or begin another conversation"}
	}
	return s, err
}

func noSession(id string) error {
	return &signalbox.Error{Code: signalbox.CodeNotFound, Err: fmt.Errorf("there is no conversation '%s'", id), Hint: "signalbox oracle --sessions lists them"}
}

func (c *oracleCommand) ask(ctx context.Context, p *program, o *setup.Setup, s *session.Session, question string) (*oracle.Answer, error) {
	emit := c.emit(p)
	if question != "" {
		return o.Ask(ctx, s, question, emit)
	}
	answer, err := o.Resume(ctx, s, emit)
	if errors.Is(err, oracle.ErrNoQuestion) {
		err = &signalbox.Error{Code: signalbox.CodeFailed, Err: err, Hint: "ask something: signalbox oracle --continue 'question'"}
	}
	return answer, err
}

// emit prints chunks as they come.
func (c *oracleCommand) emit(p *program) oracle.Emit {
	if c.JSON {
		return func(one chunk.Chunk) error { return p.printChunk(one) }
	}
	t := p.teller(c.Thoughts)
	return func(one chunk.Chunk) error {
		if err := t.Show(one); err != nil {
			return err
		}
		return p.out.Flush()
	}
}

func (p *program) teller(thoughts bool) *tell.Teller {
	return tell.New(p.out, flushed{p}, &tell.Options{Color: p.colored(), Together: isTerminal(p.stdout), Reasoning: thoughts})
}

// flushed writes to standard error after the answer so far.
type flushed struct{ p *program }

func (f flushed) Write(b []byte) (int, error) {
	f.p.out.Flush() // its error sticks
	return f.p.stderr.Write(b)
}

func (p *program) printChunk(one chunk.Chunk) error {
	line, err := chunk.Line(one)
	if err != nil {
		return err
	}
	if _, err := p.out.Write(line); err != nil {
		return err
	}
	return p.out.Flush()
}

// outcomeOf is what the end of a conversation means for the exit status.
func outcomeOf(a *oracle.Answer) error {
	if a.Error == nil {
		return nil
	}
	wrong := &signalbox.Error{Code: signalbox.CodeFailed, Err: errors.New(a.Error.Text), Hint: "signalbox oracle --continue asks again"}
	if a.Done.Reason == string(decide.ReasonCancelled) {
		wrong = &signalbox.Error{Code: signalbox.CodeInterrupted, Err: errors.New("interrupted"), Hint: "signalbox oracle --continue goes on from here"}
	}
	return wrong
}

// oracleError explains a tree that cannot be used.
func (p *program) oracleError(name string, err error) error {
	if len(tree.Faults(err)) > 0 {
		return p.treeError(name, err)
	}
	return err
}

func (c *oracleCommand) list(p *program, folder string) error {
	all, err := session.List(folder)
	if err != nil {
		return err
	}
	if c.JSON {
		for _, s := range all {
			if err := p.printJSON(s, ""); err != nil {
				return err
			}
		}
		return nil
	}
	if len(all) == 0 {
		p.notef("there is no conversation yet")
		return nil
	}
	w := tabwriter.NewWriter(p.out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "SESSION\tLAST\tQUESTIONS\tENDED\tFIRST QUESTION")
	for _, s := range all {
		ended := s.Reason
		if ended == "" {
			ended = "no"
		}
		fmt.Fprintf(w, "%s\t%s\t%d\t%s\t%s\n", s.ID, s.At.Local().Format("2006-01-02 15:04"), s.Questions, ended, onOneLine(s.First))
	}
	return w.Flush()
}

func (c *oracleCommand) show(p *program, folder string) error {
	if err := signalbox.CheckID(string(c.Show)); err != nil {
		return &signalbox.Error{Code: signalbox.CodeUsage, Err: err, Hint: "signalbox oracle --sessions lists them"}
	}
	entries, err := session.Read(filepath.Join(folder, string(c.Show)))
	if errors.Is(err, os.ErrNotExist) {
		return noSession(string(c.Show))
	}
	if err != nil {
		return err
	}
	if c.JSON {
		for _, e := range entries {
			if err := p.printJSON(e, ""); err != nil {
				return err
			}
		}
		return nil
	}
	for _, e := range entries {
		if e.Kind != session.Question {
			continue
		}
		fmt.Fprintf(p.out, "> %s\n\n", strings.ReplaceAll(tell.Printable(e.Text), "\n", "\n> "))
		t := p.teller(false)
		for _, one := range append(oracle.Chunks(entries, e.Question), doneOf(entries, e.Question)...) {
			if err := t.Show(one); err != nil {
				return err
			}
		}
		fmt.Fprintln(p.out)
	}
	return nil
}

func doneOf(entries []session.Entry, question int) (all []chunk.Chunk) {
	for _, e := range entries {
		if e.Kind == session.Answer && e.Question == question && e.Done != nil {
			all = []chunk.Chunk{*e.Done}
		}
	}
	return all
}
