package cli

import (
	"bufio"
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"

	"github.com/charmbracelet/x/term"

	"signalbox"
)

// Input is the file that a command reads, or standard input. Its read errors have hints.
type Input struct {
	io.Reader
	Name  string
	close func() error
}

// Open opens the file that the FILE argument names. Nil and "-" mean standard input.
func (p *Program) Open(file *string) (*Input, error) {
	name := "-"
	if file != nil {
		name = *file
	} else if IsTerminal(p.Stdin) {
		p.Notef("reading standard input; press Ctrl-D to end it")
	}
	switch name {
	case "-":
		return &Input{p.Stdin, "standard input", func() error { return nil }}, nil
	case "":
		return nil, signalbox.CodeUsage.Errorf("name a file, or use - to read standard input",
			"the name of the file is empty")
	}
	f, err := os.Open(name)
	if err != nil {
		return nil, OpenError(name, err)
	}
	if info, err := f.Stat(); err == nil && info.IsDir() {
		f.Close()
		return nil, signalbox.CodeFailed.Errorf("name one file in it", "%s is a directory", name)
	}
	return &Input{f, name, f.Close}, nil
}

// Close closes a file. Standard input stays open.
func (in *Input) Close() error { return in.close() }

// Read implements io.Reader.
func (in *Input) Read(b []byte) (int, error) {
	n, err := in.Reader.Read(b)
	if err != nil && err != io.EOF {
		err = signalbox.CodeFailed.Errorf("the output covers only what could be read",
			"cannot read %s: %w", in.Name, Cause(err))
	}
	return n, err
}

// ReadAll reads the file that the FILE argument names. It refuses more than limit bytes.
func (p *Program) ReadAll(file *string, limit int64) ([]byte, error) {
	in, err := p.Open(file)
	if err != nil {
		return nil, err
	}
	defer in.Close()
	data, err := io.ReadAll(io.LimitReader(in, limit+1))
	if err == nil && int64(len(data)) > limit {
		err = signalbox.CodeFailed.Errorf("check that this is the right file",
			"%s has more than %d bytes", in.Name, limit)
	}
	return data, err
}

// ReadHidden reads a line from a terminal without showing it. It prints the note once the terminal
// hides what is typed.
func ReadHidden(p *Program, terminal *os.File, note string, limit int64) ([]byte, error) {
	before, err := term.GetState(terminal.Fd())
	if err != nil {
		return nil, err
	}
	ctx, stop := UntilInterrupted() // so that an interrupt does not leave the terminal without echo
	defer stop()
	hidden := *before
	hideInput(&hidden)
	if err := term.SetState(terminal.Fd(), &hidden); err != nil {
		return nil, err
	}
	defer term.Restore(terminal.Fd(), before)
	p.Notef("%s", note)
	type answer struct {
		line []byte
		err  error
	}
	read := make(chan answer, 1)
	go func() {
		line, err := bufio.NewReader(io.LimitReader(terminal, limit)).ReadBytes('\n')
		if errors.Is(err, io.EOF) {
			err = nil
		}
		read <- answer{line, err}
	}()
	defer fmt.Fprintln(p.Stderr) // the end of the line was not shown either
	select {
	case <-ctx.Done():
		return nil, signalbox.CodeInterrupted.Errorf("", "interrupted")
	case got := <-read:
		return got.line, got.err
	}
}

// maxTextArgument is more than the ledger takes, so that the ledger's own message says what its
// limit is.
const maxTextArgument = 1 << 20

// TextOf returns the text of an argument or a flag: the value or, if it is "-", standard input
// without its last line end. A command that needs a text uses RequireText.
func (p *Program) TextOf(value string) (string, error) {
	if value != "-" {
		return value, nil
	}
	if IsTerminal(p.Stdin) {
		p.Notef("reading standard input; press Ctrl-D to end it")
	}
	data, err := p.ReadAll(&value, maxTextArgument)
	text := strings.ReplaceAll(string(data), "\r\n", "\n")
	return strings.TrimSuffix(text, "\n"), err
}

// WantedText is a text that a command needs, and how the user can give it.
type WantedText struct {
	// Name says what it is, such as "the answer".
	Name string
	// Missing is the error if it is not given and there is no terminal, and usage how to give it.
	Missing, Usage string
	// About returns what the user should see while writing. It fails if the command would be
	// refused whatever the text is. Nil means nothing.
	About func() (string, error)
}

// RequireText returns a text that the user must give: the value of the argument or flag, or
// standard input if it is "-", or what the user writes in an editor if it is nil and there is a
// terminal. Every command that needs a text uses it.
func (p *Program) RequireText(value *string, want WantedText) (string, error) {
	hint := want.Usage + ", or - instead of TEXT to read it from standard input"
	if value != nil {
		text, err := p.TextOf(*value)
		if err == nil && strings.TrimSpace(text) == "" {
			err = signalbox.CodeUsage.Errorf(hint, "%s is empty", want.Name)
		}
		return text, err
	}
	editor := cmp.Or(strings.TrimSpace(p.Getenv("VISUAL")), strings.TrimSpace(p.Getenv("EDITOR")))
	switch terminal := IsTerminal(p.Stdin) && IsTerminal(p.Stdout); {
	case !terminal:
		return "", signalbox.CodeUsage.Errorf(hint, "%s", want.Missing)
	case editor == "":
		return "", signalbox.CodeUsage.Errorf(hint+"; set EDITOR to write it in an editor", "%s",
			want.Missing)
	}
	about := ""
	if want.About != nil {
		var err error
		if about, err = want.About(); err != nil {
			return "", err
		}
	}
	return edit(p, editor, want.Name, about)
}

// OpenError returns the error for a file that cannot be opened.
func OpenError(name string, err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return signalbox.CodeNotFound.Errorf("check the path, or use - to read standard input",
			"%s: no such file", name)
	}
	return signalbox.CodeFailed.Errorf("check that it is a file you may read", "cannot open %s: %w",
		name, Cause(err))
}

// Cause drops the operation and the path that the os package adds to an error, because our messages
// have them.
func Cause(err error) error {
	if path := (*fs.PathError)(nil); errors.As(err, &path) {
		return path.Err
	}
	return err
}
