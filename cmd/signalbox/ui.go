package main

// What goes where:
//
//   - Standard output has the answer and nothing else: JSON objects, one a line (scan, ledger tail --json) or a
//     single one (exit check, work claim), a table, the stripped text, a blob, or the help that was asked for.
//   - Standard error has everything else, and each line says what it is: "signalbox: " an error, "hint: "
//     what to do about it, "warning: " the answer may be incomplete, "note: " good to know.
//
// Agents and the files they leave behind are hostile until proven otherwise: nothing that could steer a
// terminal reaches standard error, a table, or leaves in JSON unescaped. Only strip and blob get pass their text on
// as it is.

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"syscall"

	"signalbox"
	"signalbox/internal/config"
	"signalbox/internal/text"
)

// printError shows an error, and its hint on the next line. A configuration shows everything that is wrong with it.
func (p *program) printError(err error) {
	if all := (*config.Error)(nil); errors.As(err, &all) && len(all.Faults) > 1 {
		for i, fault := range all.Faults {
			p.say("signalbox", all.Describe(i))
			p.say("hint", fault.Hint)
		}
		return
	}
	p.say("signalbox", err.Error())
	classed := (*signalbox.Error)(nil)
	if errors.As(err, &classed) && classed.Hint != "" {
		p.say("hint", classed.Hint)
	}
}

func (p *program) warnf(format string, args ...any) { p.say("warning", fmt.Sprintf(format, args...)) }

func (p *program) notef(format string, args ...any) {
	if !p.quiet {
		p.say("note", fmt.Sprintf(format, args...))
	}
}

// say writes after the answer so far. It is best effort: when standard error is gone there is nobody left to tell.
func (p *program) say(kind, text string) {
	p.out.Flush() // its error sticks
	fmt.Fprintf(p.stderr, "%s: %s\n", kind, printable(text))
}

// printJSON writes v on one line, or indented for people.
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

// printable escapes characters that a terminal would not print.
func printable(s string) string { return text.Printable(s) }

// shortened returns at most 200 printable characters of s.
func shortened(s string) string { return text.Shorten(printable(s), 200) }

// answer is standard output: its write errors say so, and what they mean for the answer.
type answer struct{ w io.Writer }

func (a answer) Write(b []byte) (int, error) {
	n, err := a.w.Write(b)
	if err != nil && isClosedPipe(err) {
		return n, errReaderWentAway
	}
	if err != nil {
		err = &signalbox.Error{
			Code: signalbox.CodeFailed,
			Err:  fmt.Errorf("cannot write the answer: %w", cause(err)),
			Hint: "the output is incomplete; make room or send it elsewhere, and run the command again",
		}
	}
	return n, err
}

// errReaderWentAway means that standard output is a pipe nobody reads any more, as under head -1. The reader
// has what it wanted.
var errReaderWentAway = errors.New("nobody reads the answer any more")

func isClosedPipe(err error) bool {
	return errors.Is(err, io.ErrClosedPipe) || errors.Is(err, syscall.EPIPE) || isSystemClosedPipe(err)
}
