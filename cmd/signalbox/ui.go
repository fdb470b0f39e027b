package main

// What goes where:
//
//   - Standard output has only the answer: JSON objects, one per line (scan, ledger tail --json) or a single one
//     (exit check, work claim), a table, the stripped text, a blob, or the help.
//   - Standard error has everything else. Each line starts with its kind: "signalbox: " is an error, "hint: " what
//     to do about it, "warning: " that the answer may be incomplete, "note: " further information.
//
// Text of agents, models, repositories and servers is not trusted: control characters are escaped on standard error, and on
// standard output by p.out, whatever is written to it. Only the commands with the flag --raw write text unchanged, with
// p.exact, and not to a terminal unless the flag is set.

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
func (p *program) printError(err error) {
	if all := (*config.Error)(nil); errors.As(err, &all) && len(all.Faults) > 1 {
		for i, fault := range all.Faults {
			p.say("signalbox", all.Describe(i))
			p.say("hint", fault.Hint)
		}
		return
	}
	p.say("signalbox", err.Error())
	if lost, ok := errors.AsType[*applied.Lost](err); ok {
		for _, line := range lost.Lines() {
			p.say("note", "lost: "+line)
		}
	}
	p.printHint(err)
}

func (p *program) printHint(err error) {
	if hint := signalbox.HintOf(err); hint != "" {
		p.say("hint", hint)
	}
}

func (p *program) warnf(format string, args ...any) { p.say("warning", fmt.Sprintf(format, args...)) }

func (p *program) notef(format string, args ...any) {
	if !p.quiet {
		p.say("note", fmt.Sprintf(format, args...))
	}
}

// say prints a line on standard error, after the answer so far. Errors are ignored: there is nowhere to report them.
func (p *program) say(kind, text string) {
	p.out.Flush() // run reports a write error
	fmt.Fprintf(p.stderr, "%s: %s\n", kind, printable(text))
}

// confirm asks a yes-or-no question, and reports whether the answer is yes. If standard input is not a terminal, it returns an error with the hint,
// which says what to do instead.
func (p *program) confirm(question, hint string) (bool, error) {
	if !isTerminal(p.stdin) {
		return false, &signalbox.Error{Code: signalbox.CodeUsage, Err: errors.New("standard input is not a terminal, so no one can be asked"), Hint: hint}
	}
	fmt.Fprint(p.stderr, question, " [y/N] ")
	line, _ := bufio.NewReader(p.stdin).ReadString('\n') // no answer means no
	answer := strings.ToLower(strings.TrimSpace(line))
	return answer == "y" || answer == "yes", nil
}

// printJSON prints v as JSON: on one line if indent is empty, indented otherwise.
func (p *program) printJSON(v any, indent string) error {
	var buf bytes.Buffer
	enc := json.NewEncoder(&buf)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", indent)
	if err := enc.Encode(v); err != nil {
		return err
	}
	_, err := p.out.Write(text.PrintableJSON(buf.Bytes()))
	return err
}

// exact returns the writer for bytes that must not be changed. On a terminal they are escaped, unless --raw is set.
func (p *program) exact(f rawFlag) *bufio.Writer {
	if isTerminal(p.stdout) && !f.Raw {
		return p.out
	}
	return p.direct
}

// styled returns the writer for text that may contain colours of our own. All other text in it must be escaped already.
func (p *program) styled(colors bool) io.Writer {
	if !colors {
		return p.out
	}
	p.out.Flush() // what was written before comes first; run reports a write error
	return p.answer()
}

// answer returns standard output without a buffer. Its write errors have hints.
func (p *program) answer() io.Writer { return answer{p.stdout} }

// printable escapes characters that a terminal would not print.
func printable(s string) string { return text.Printable(s) }

// shortened returns at most 200 printable characters of s.
func shortened(s string) string { return text.Shorten(printable(s), 200) }

// answer is standard output. Its write errors have hints.
type answer struct{ w io.Writer }

func (a answer) Write(b []byte) (int, error) {
	n, err := a.w.Write(b)
	if err != nil && isClosedPipe(err) {
		return n, errReaderClosed
	}
	if err != nil {
		err = &signalbox.Error{
			Code: signalbox.CodeFailed,
			Err:  fmt.Errorf("cannot write the answer: %w", cause(err)),
			Hint: "the output is incomplete; free some disk space or write it elsewhere, and run the command again",
		}
	}
	return n, err
}

// errReaderClosed means that the reader of standard output closed the pipe, like head -1. It has what it wanted, so most commands succeed.
var errReaderClosed = errors.New("the reader closed standard output")

func isClosedPipe(err error) bool {
	return errors.Is(err, io.ErrClosedPipe) || errors.Is(err, syscall.EPIPE) || isSystemClosedPipe(err)
}

func commaList[T ~string](values []T) string {
	return strings.Join(names(values), ", ")
}

func names[T ~string](values []T) []string {
	words := make([]string, len(values))
	for i, v := range values {
		words[i] = string(v)
	}
	return words
}
