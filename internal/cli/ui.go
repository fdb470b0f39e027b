package cli

// What goes where:
//
//   - Standard output has only the answer: JSON objects, one per line (scan, ledger tail --json) or
//     a single one
//     (exit check, work claim), a table, the stripped text, a blob, or the help.
//   - Standard error has everything else. Each line starts with its kind: "signalbox: " is an
//     error, "hint: " what
//     to do about it, "warning: " that the answer may be incomplete, "note: " further information.
//
// Text of agents, models, repositories and servers is not trusted: control characters are escaped
// on standard error, and on standard output by p.Out, whatever is written to it. Only the commands
// with the flag --raw write text unchanged, with p.Exact, and not to a terminal unless the flag is
// set.

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"syscall"

	"signalbox"
	"signalbox/internal/config"
	"signalbox/internal/core/applied"
	"signalbox/internal/text"
)

// printError prints an error and its hint. For a configuration it prints all faults.
func printError(p *Program, err error) {
	if all := (*config.Error)(nil); errors.As(err, &all) && len(all.Faults) > 1 {
		for i, fault := range all.Faults {
			p.Say("signalbox", all.Describe(i))
			p.Say("hint", fault.Hint)
		}
		return
	}
	p.Say("signalbox", err.Error())
	if lost, ok := errors.AsType[*applied.Lost](err); ok {
		for _, line := range lost.Lines() {
			p.Say("note", "lost: "+line)
		}
	}
	p.PrintHint(err)
}

// PrintHint prints the hint of an error, if it has one.
func (p *Program) PrintHint(err error) {
	if hint := signalbox.HintOf(err); hint != "" {
		p.Say("hint", hint)
	}
}

// Warnf prints that the answer may be incomplete.
func (p *Program) Warnf(format string,
	args ...any) {
	p.Say("warning", fmt.Sprintf(format, args...))
}

// Notef prints further information, unless Quiet is set.
func (p *Program) Notef(format string, args ...any) {
	if !p.Quiet {
		p.Say("note", fmt.Sprintf(format, args...))
	}
}

// Say prints a line on standard error, after the answer so far. Errors are ignored: there is
// nowhere to report them.
func (p *Program) Say(kind, text string) {
	p.Out.Flush() // Main reports a write error
	fmt.Fprintf(p.Stderr, "%s: %s\n", kind, Printable(text))
}

// Confirm asks a yes-or-no question, and reports whether the answer is yes. If standard input is
// not a terminal, it returns an error with the hint, which says what to do instead.
func (p *Program) Confirm(question, hint string) (bool, error) {
	if !IsTerminal(p.Stdin) {
		return false, signalbox.CodeUsage.Errorf(hint,
			"standard input is not a terminal, so no one can be asked")
	}
	fmt.Fprint(p.Stderr, question, " [y/N] ")
	line, _ := bufio.NewReader(p.Stdin).ReadString('\n') // no answer means no
	answer := strings.ToLower(strings.TrimSpace(line))
	return answer == "y" || answer == "yes", nil
}

// PrintJSON prints v as JSON: on one line if indent is empty, indented otherwise.
func (p *Program) PrintJSON(v any, indent string) error {
	var buf bytes.Buffer
	enc := json.NewEncoder(&buf)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", indent)
	if err := enc.Encode(v); err != nil {
		return err
	}
	_, err := p.Out.Write(text.PrintableJSON(buf.Bytes()))
	return err
}

// Exact returns the writer for bytes that must not be changed. On a terminal they are escaped,
// unless --raw is set.
func (p *Program) Exact(f RawFlag) *bufio.Writer {
	if IsTerminal(p.Stdout) && !f.Raw {
		return p.Out
	}
	return p.Direct
}

// Styled returns the writer for text that may contain colours of our own. All other text in it must
// be escaped already.
func (p *Program) Styled(colors bool) io.Writer {
	if !colors {
		return p.Out
	}
	p.Out.Flush() // what was written before comes first; Main reports a write error
	return p.Answer()
}

// Answer returns standard output without a buffer. Its write errors have hints.
func (p *Program) Answer() io.Writer { return answer{p.Stdout} }

// Printable escapes characters that a terminal would not print.
func Printable(s string) string { return text.Printable(s) }

// Shortened returns at most 200 printable characters of s.
func Shortened(s string) string { return text.Shorten(Printable(s), 200) }

// answer is standard output. Its write errors have hints.
type answer struct{ w io.Writer }

func (a answer) Write(b []byte) (int, error) {
	n, err := a.w.Write(b)
	if err != nil && IsClosedPipe(err) {
		return n, ErrReaderClosed
	}
	if err != nil {
		err = signalbox.CodeFailed.Errorf(
			"the output is incomplete; free some disk space or write it elsewhere, and run the command again", "cannot write the answer: %w", Cause(err))
	}
	return n, err
}

// ErrReaderClosed means that the reader of standard output closed the pipe, like head -1. It has
// what it wanted, so most commands succeed.
var ErrReaderClosed = errors.New("the reader closed standard output")

// IsClosedPipe reports whether a write failed because the reader closed the pipe.
func IsClosedPipe(err error) bool {
	return errors.Is(err, io.ErrClosedPipe) || errors.Is(err, syscall.EPIPE) ||
		isSystemClosedPipe(err)
}

// CommaList lists values for a person.
func CommaList[T ~string](values []T) string {
	words := make([]string, len(values))
	for i, v := range values {
		words[i] = string(v)
	}
	return strings.Join(words, ", ")
}
