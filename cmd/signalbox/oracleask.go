package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
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

const maxQuestion = 256 << 10

// question is what is asked: "" to go on where it was cut off, or to ask the terminal for questions.
func (c *oracleCommand) question(p *program) (string, error) {
	words := c.Question
	goesOn := c.Continue || c.Session != "" || c.Tools
	chats := !goesOn && !c.JSON && isTerminal(p.stdin)
	added := len(words) > 0 && words[len(words)-1] == "-"
	switch {
	case added:
		words = words[:len(words)-1]
	case len(words) == 0 && (goesOn || chats):
		return "", nil
	}
	text := strings.TrimSpace(strings.Join(words, " "))
	if added || len(c.Question) == 0 && !isTerminal(p.stdin) {
		read, err := p.readAll(nil, maxQuestion)
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
			Hint: "signalbox oracle 'Where are retries configured?', or - to read it from standard input, or --continue to go on with the last one"}
	case len(text) > maxQuestion:
		return "", &signalbox.Error{Code: signalbox.CodeUsage, Err: fmt.Errorf("the question is longer than %d bytes", maxQuestion), Hint: "put it into a file of the project, and ask about that"}
	}
	return text, nil
}

// noteInput tells of something on standard input that nobody reads.
func (c *oracleCommand) noteInput(p *program) {
	if n := len(c.Question); n > 0 && c.Question[n-1] != "-" && hasInput(p.stdin) {
		p.notef("standard input is not read; - after the question adds it")
	}
}

// hasInput tells whether a file or a pipe surely has something to read. It never waits.
func hasInput(stream io.Reader) bool {
	f, ok := stream.(*os.File)
	if !ok {
		return false
	}
	info, err := f.Stat()
	switch {
	case err != nil:
		return false
	case info.Mode().IsRegular():
		at, err := f.Seek(0, io.SeekCurrent)
		return err == nil && at < info.Size()
	}
	return info.Mode()&fs.ModeNamedPipe != 0 && isReadable(f)
}

// talk is a conversation with whoever uses the program.
type talk struct {
	c       *oracleCommand
	p       *program
	oracle  *setup.Setup
	folder  string
	session *session.Session // nil until something is asked in a new one
}

func (t *talk) close() {
	if t.oracle != nil {
		if err := t.oracle.Close(); err != nil && !t.c.Answer {
			t.p.warnf("%v", err)
		}
	}
	if t.session != nil {
		closeSession(t.session)
	}
}

// ask has a question answered, or the last one if it is "".
func (t *talk) ask(ctx context.Context, question string) (err error) {
	if t.session == nil {
		if t.session, err = newSession(t.folder, "O"); err != nil {
			return err
		}
	}
	err = t.answer(ctx, question)
	switch {
	case errors.Is(err, oracle.ErrNoQuestion):
		return &signalbox.Error{Code: signalbox.CodeFailed, Err: err, Hint: "ask something: signalbox oracle --continue 'question'"}
	case errors.Is(err, errReaderWentAway): // unlike elsewhere, what was asked for is not done
		return &signalbox.Error{Code: signalbox.CodeFailed, Err: errors.New(errReaderWentAway.Error()), Hint: "signalbox oracle --continue goes on from here"}
	}
	return err
}

func (t *talk) answer(ctx context.Context, question string) error {
	var answer *oracle.Answer
	var err error
	if question != "" {
		answer, err = t.oracle.Ask(ctx, t.session, question, t.emit())
	} else {
		answer, err = t.oracle.Resume(ctx, t.session, t.emit())
	}
	if err != nil {
		return err
	}
	if err := outcomeOf(answer); err != nil || !t.c.Answer {
		return err
	}
	fmt.Fprintln(t.p.out, text.PrintableLines(answer.Text)) // an error sticks
	return t.p.out.Flush()
}

// emit prints chunks as they come.
func (t *talk) emit() oracle.Emit {
	p := t.p
	switch {
	case t.c.JSON:
		return p.printChunk
	case t.c.Answer:
		return func(chunk.Chunk) error { return nil }
	}
	// What both streams write comes to the same place: neither may begin in the middle of the other's line.
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

// colors tells whether a stream shows colours.
func (p *program) colors(stream io.Writer) bool {
	return isTerminal(stream) && p.getenv("NO_COLOR") == ""
}

// sameFile tells whether two streams are one file or pipe.
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

// widthOf is how many columns a stream shows, 0 if it is no terminal.
func widthOf(stream io.Writer) int {
	if f, ok := stream.(*os.File); ok && isTerminal(f) {
		return terminalWidth(f)
	}
	return 0
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

// chat asks the terminal for questions, each in the same conversation, until there are no more. An interrupt ends the answer,
// or, where there is none, the conversation.
func (t *talk) chat() error {
	t.p.notef("ask something; Ctrl-C ends an answer, Ctrl-D the conversation")
	lines := readLines(t.p.stdin)
	for {
		waiting, stop := untilInterrupted()
		fmt.Fprint(t.p.stderr, "> ")
		line, err := lines.next(waiting)
		if err != nil {
			stop()
			fmt.Fprintln(t.p.stderr)
			if errors.Is(err, io.EOF) || errors.Is(err, context.Canceled) {
				return nil
			}
			return err
		}
		if line = strings.TrimSpace(line); line != "" {
			// Nobody is interrupted between the two.
			answering, end := untilInterrupted()
			stop()
			err = t.ask(answering, line)
			end()
		}
		stop()
		t.p.out.Flush() // its error sticks
		switch classed := (*signalbox.Error)(nil); {
		case err == nil:
		case errors.As(err, &classed) && (classed.Code == signalbox.CodeFailed || classed.Code == signalbox.CodeInterrupted):
			t.p.say("signalbox", err.Error()) // its hint is about another command
		default:
			return err
		}
	}
}

// lineReader reads lines while somebody may stop waiting for them.
type lineReader struct {
	want  chan struct{}
	lines chan string
	err   error // why there are no more; set when lines is closed
}

func readLines(from io.Reader) *lineReader {
	r := &lineReader{want: make(chan struct{}), lines: make(chan string)}
	go func() {
		defer close(r.lines)
		in := bufio.NewScanner(from)
		in.Buffer(nil, maxQuestion)
		for range r.want {
			if !in.Scan() {
				r.err = in.Err()
				return
			}
			r.lines <- in.Text()
		}
	}()
	return r
}

// next is the next line; io.EOF after the last. It is not called again after an error.
func (r *lineReader) next(ctx context.Context) (string, error) {
	select {
	case r.want <- struct{}{}:
	case <-ctx.Done():
		return "", ctx.Err()
	}
	select {
	case line, ok := <-r.lines:
		if !ok && r.err != nil {
			return "", r.err
		}
		if !ok {
			return "", io.EOF
		}
		return line, nil
	case <-ctx.Done():
		return "", ctx.Err()
	}
}
