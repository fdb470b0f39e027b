package assistants

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"signalbox"
	"signalbox/internal/cli"
	"signalbox/internal/oracle"
	"signalbox/internal/oracle/chunk"
	"signalbox/internal/oracle/console"
	"signalbox/internal/oracle/session"
	"signalbox/internal/oracle/setup"
	"signalbox/internal/text"
)

// question returns the question to ask. It is "" to resume an answer, or to read questions from the
// terminal.
func (c *OracleCommand) question(p *cli.Program) (string, error) {
	words := c.Question
	continues := c.Continue || c.Session != "" || c.Tools
	chats := !continues && !c.JSON && cli.IsTerminal(p.Stdin)
	addInput := len(words) > 0 && words[len(words)-1] == "-"
	switch {
	case addInput:
		words = words[:len(words)-1]
	case len(words) == 0 && (continues || chats):
		return "", nil
	}
	text := strings.TrimSpace(strings.Join(words, " "))
	if addInput || len(c.Question) == 0 && !cli.IsTerminal(p.Stdin) {
		read, err := p.ReadAll(nil, oracle.MaxQuestion)
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
		return "", signalbox.CodeUsage.Errorf(
			"write signalbox oracle 'Where are retries configured?', - to read the question from standard input, or --continue to resume the last answer", "there is no question")
	case len(text) > oracle.MaxQuestion:
		return "", signalbox.CodeUsage.Errorf(
			"put the text into a file of the project and ask about the file",
			"the question is longer than %d bytes", oracle.MaxQuestion)
	}
	return text, nil
}

// noteUnreadInput prints a note if there is something on standard input that the command does not
// read.
func (c *OracleCommand) noteUnreadInput(p *cli.Program) {
	if n := len(c.Question); n > 0 && c.Question[n-1] != "-" && cli.HasInput(p.Stdin) {
		p.Notef("standard input is not read; write - after the question to add it")
	}
}

// conversation is a conversation with the user.
type conversation struct {
	c       *OracleCommand
	p       *cli.Program
	oracle  *setup.Setup
	folder  string
	session *session.Session // nil before the first question of a new conversation
}

func (t *conversation) close() {
	if t.oracle != nil {
		if err := t.oracle.Close(); err != nil && !t.c.Answer {
			t.p.Warnf("%v", err)
		}
	}
	if t.session != nil {
		t.session.CloseAndPrune()
	}
}

// ask answers a question and passes chunks to emit. If the question is "", it resumes the last
// answer.
func (t *conversation) ask(ctx context.Context, question string, emit oracle.Emit) (err error) {
	if t.session == nil {
		if t.session, err = newSession(t.folder, "O"); err != nil {
			return err
		}
	}
	err = t.answer(ctx, question, emit)
	switch {
	case errors.Is(err, oracle.ErrNoQuestion):
		return &signalbox.Error{Code: signalbox.CodeFailed, Err: err,
			Hint: "ask a question: signalbox oracle --continue 'question'"}
	case errors.Is(err, cli.ErrReaderClosed): // other commands succeed then, but this answer is incomplete
		return signalbox.CodeFailed.Errorf("resume it with signalbox oracle --continue", "%s",
			cli.ErrReaderClosed.Error())
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
		return func(one chunk.Chunk) error { return printChunk(p, one) }
	case t.c.Answer: // only the last text is emitted
		return func(last chunk.Chunk) error {
			// Flush reports a write error
			fmt.Fprintln(p.Out, text.PrintableLines(last.(chunk.Content).Text))
			return p.Out.Flush()
		}
	}
	// If both streams go to the same place, neither may start in the middle of a line of the other.
	together := cli.IsTerminal(p.Stdout) || sameFile(p.Stdout, p.Stderr)
	screen := console.New(p.Out, flushed{p}, &console.Options{Color: p.Colors(p.Stderr),
		Width: cli.WidthOf(p.Stderr), SameTerminal: together, Reasoning: t.c.Thoughts})
	show := func(one chunk.Chunk) error {
		if err := screen.Show(one); err != nil {
			return err
		}
		return p.Out.Flush()
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
type flushed struct{ p *cli.Program }

func (f flushed) Write(b []byte) (int, error) {
	f.p.Out.Flush() // the next write reports an error
	return f.p.Stderr.Write(b)
}

func printChunk(p *cli.Program, one chunk.Chunk) error {
	line, err := chunk.Line(one)
	if err != nil {
		return err
	}
	if _, err := p.Out.Write(line); err != nil {
		return err
	}
	return p.Out.Flush()
}

// chatLines reads lines from the terminal and answers them in one conversation. An interrupt stops
// the answer, or ends the conversation if there is none.
func (t *conversation) chatLines() error {
	t.p.Notef("ask a question; Ctrl-C stops an answer, Ctrl-D ends the conversation")
	lines := console.NewLineReader(t.p.Stdin, oracle.MaxQuestion)
	for {
		waiting, stop := cli.UntilInterrupted()
		fmt.Fprint(t.p.Stderr, "> ")
		line, err := lines.Next(waiting)
		if err != nil {
			stop()
			fmt.Fprintln(t.p.Stderr)
			if errors.Is(err, io.EOF) || errors.Is(err, context.Canceled) {
				return nil
			}
			return err
		}
		if line = strings.TrimSpace(line); line != "" {
			// Overlap the two, so that no interrupt in between kills the program.
			answering, end := cli.UntilInterrupted()
			stop()
			err = t.ask(answering, line, t.emit())
			end()
		}
		stop()
		t.p.Out.Flush() // the next write reports an error
		switch code := signalbox.CodeOf(err); {
		case err == nil:
		case code == signalbox.CodeFailed || code == signalbox.CodeInterrupted:
			t.p.Say("signalbox", err.Error()) // not its hint, which names another command
		default:
			return err
		}
	}
}
