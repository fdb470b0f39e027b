package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"signalbox"
	"signalbox/internal/oracle"
	"signalbox/internal/oracle/chunk"
	"signalbox/internal/oracle/console"
	"signalbox/internal/oracle/session"
	"signalbox/internal/oracle/setup"
	"signalbox/internal/text"
)

// question returns the question to ask. It is "" to resume an answer, or to read questions from the terminal.
func (c *oracleCommand) question(p *program) (string, error) {
	words := c.Question
	continues := c.Continue || c.Session != "" || c.Tools
	chats := !continues && !c.JSON && isTerminal(p.stdin)
	addInput := len(words) > 0 && words[len(words)-1] == "-"
	switch {
	case addInput:
		words = words[:len(words)-1]
	case len(words) == 0 && (continues || chats):
		return "", nil
	}
	text := strings.TrimSpace(strings.Join(words, " "))
	if addInput || len(c.Question) == 0 && !isTerminal(p.stdin) {
		read, err := p.readAll(nil, oracle.MaxQuestion)
		if err != nil {
			return "", err
		}
		if more := strings.TrimSpace(string(read)); text != "" && more != "" {
			text += "\n\n---\n\n" + more
		} else if text == "" {
			text = more
		}
	}
	switch {
	case text == "":
		return "", &signalbox.Error{Code: signalbox.CodeUsage, Err: errors.New("there is no question"),
			Hint: "write signalbox oracle 'Where are retries configured?', - to read the question from standard input, or --continue to resume the last answer"}
	case len(text) > oracle.MaxQuestion:
		return "", &signalbox.Error{Code: signalbox.CodeUsage, Err: fmt.Errorf("the question is longer than %d bytes", oracle.MaxQuestion), Hint: "put the text into a file of the project and ask about the file"}
	}
	return text, nil
}

// noteUnreadInput prints a note if there is something on standard input that the command does not read.
func (c *oracleCommand) noteUnreadInput(p *program) {
	if n := len(c.Question); n > 0 && c.Question[n-1] != "-" && hasInput(p.stdin) {
		p.notef("standard input is not read; write - after the question to add it")
	}
}

// conversation is a conversation with the user.
type conversation struct {
	c       *oracleCommand
	p       *program
	oracle  *setup.Setup
	folder  string
	session *session.Session // nil before the first question of a new conversation
}

func (t *conversation) close() {
	if t.oracle != nil {
		if err := t.oracle.Close(); err != nil && !t.c.Answer {
			t.p.warnf("%v", err)
		}
	}
	if t.session != nil {
		t.session.CloseAndPrune()
	}
}

// ask answers a question and passes chunks to emit. If the question is "", it resumes the last answer.
func (t *conversation) ask(ctx context.Context, question string, emit oracle.Emit) (err error) {
	if t.session == nil {
		if t.session, err = newSession(t.folder, "O"); err != nil {
			return err
		}
	}
	err = t.answer(ctx, question, emit)
	switch {
	case errors.Is(err, oracle.ErrNoQuestion):
		return &signalbox.Error{Code: signalbox.CodeFailed, Err: err, Hint: "ask a question: signalbox oracle --continue 'question'"}
	case errors.Is(err, errReaderClosed): // other commands succeed then, but this answer is incomplete
		return &signalbox.Error{Code: signalbox.CodeFailed, Err: errors.New(errReaderClosed.Error()), Hint: "resume it with signalbox oracle --continue"}
	}
	return err
}

func (t *conversation) answer(ctx context.Context, question string, emit oracle.Emit) error {
	each := emit
	if t.c.Answer {
		each = func(chunk.Chunk) error { return nil }
	}
	var answer *oracle.Answer
	var err error
	if question != "" {
		answer, err = t.oracle.Ask(ctx, t.session, question, each)
	} else {
		answer, err = t.oracle.Resume(ctx, t.session, each)
	}
	if err != nil {
		return err
	}
	if err := answerError(answer); err != nil || !t.c.Answer {
		return err
	}
	return emit(chunk.Content{Text: answer.Text})
}

// emit returns a function that prints chunks as they arrive.
func (t *conversation) emit() oracle.Emit {
	p := t.p
	switch {
	case t.c.JSON:
		return p.printChunk
	case t.c.Answer: // only the last text is emitted
		return func(last chunk.Chunk) error {
			fmt.Fprintln(p.out, text.PrintableLines(last.(chunk.Content).Text)) // Flush reports a write error
			return p.out.Flush()
		}
	}
	// If both streams go to the same place, neither may start in the middle of a line of the other.
	together := isTerminal(p.stdout) || sameFile(p.stdout, p.stderr)
	screen := console.New(p.out, flushed{p}, &console.Options{Color: p.colors(p.stderr), Width: widthOf(p.stderr), SameTerminal: together, Reasoning: t.c.Thoughts})
	show := func(one chunk.Chunk) error {
		if err := screen.Show(one); err != nil {
			return err
		}
		return p.out.Flush()
	}
	if together {
		return show
	}
	return console.NewTurnBuffer(show).Add
}

// sameFile reports whether two streams are the same file or pipe.
func sameFile(a, b io.Writer) bool {
	f, ok := a.(*os.File)
	g, too := b.(*os.File)
	if !ok || !too {
		return false
	}
	one, err := f.Stat()
	if err != nil {
		return false
	}
	other, err := g.Stat()
	return err == nil && os.SameFile(one, other)
}

// flushed writes to standard error, after flushing standard output.
type flushed struct{ p *program }

func (f flushed) Write(b []byte) (int, error) {
	f.p.out.Flush() // the next write reports an error
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

// chatLines reads lines from the terminal and answers them in one conversation. An interrupt stops the answer, or ends the conversation
// if there is none.
func (t *conversation) chatLines() error {
	t.p.notef("ask a question; Ctrl-C stops an answer, Ctrl-D ends the conversation")
	lines := console.NewLineReader(t.p.stdin, oracle.MaxQuestion)
	for {
		waiting, stop := untilInterrupted()
		fmt.Fprint(t.p.stderr, "> ")
		line, err := lines.Next(waiting)
		if err != nil {
			stop()
			fmt.Fprintln(t.p.stderr)
			if errors.Is(err, io.EOF) || errors.Is(err, context.Canceled) {
				return nil
			}
			return err
		}
		if line = strings.TrimSpace(line); line != "" {
			// Overlap the two, so that no interrupt in between kills the program.
			answering, end := untilInterrupted()
			stop()
			err = t.ask(answering, line, t.emit())
			end()
		}
		stop()
		t.p.out.Flush() // the next write reports an error
		switch code := signalbox.CodeOf(err); {
		case err == nil:
		case code == signalbox.CodeFailed || code == signalbox.CodeInterrupted:
			t.p.say("signalbox", err.Error()) // not its hint, which names another command
		default:
			return err
		}
	}
}
