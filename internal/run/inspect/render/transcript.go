package render

import (
	"bytes"
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"

	"signalbox"
	"signalbox/internal/run/inspect"
	"signalbox/internal/show"
	"signalbox/internal/text"
	"signalbox/transcript"
	"signalbox/transcript/agentformat"
)

// TranscriptOptions describes a transcript.
type TranscriptOptions struct {
	Options
	Format signalbox.Format
	// Role, Work and Name are those of the session: signals that it must not send are refused. Name
	// is the id of the task in its plan.
	Role       signalbox.Role
	Work, Name string
	// Turn is what the ledger says about the turn, nil while it is running.
	Turn *inspect.Turn
	// Full prints everything: all lines of results, calls of tools and thinking, as long as they
	// are, up to maxFullLine.
	Full bool
	// Tail means that the output starts in the middle, so that signals have other offsets than on
	// the ledger.
	Tail bool
}

// Transcript prints the output of an agent as it arrives: its words, its tool calls on one line
// each with the start of the result, and marks at its signals. It needs the same memory for every
// length, unless it prints lines in full.
type Transcript struct {
	emit    func(Line) error
	o       TranscriptOptions
	scanner *transcript.Scanner // nil if the signals are known
	known   []signalbox.Signal  // those that were not reached yet, by their place
	at      int64               // the position in the output, if the signals are known
	line    []byte              // the incomplete last line
	dropped int64               // bytes of a line that is too long
	err     error               // of emit

	partial strings.Builder // the incomplete last line of a message that arrives in pieces
	turn    int             // of that message
	// held is the last line of a message. A signal on it is recognised only when the output
	// continues.
	held    *string
	signals []signalbox.Signal // that were not printed yet
	// early are the offsets of the signals that were collected while they still waited in the
	// scanner, so that their line gets the mark.
	early map[int64]bool
}

// Limits of what is printed.
const (
	// maxLine is the longest line that is read. A longer one is the result of a tool, in practice.
	maxLine = 1 << 20
	// maxWords is the longest line of an agent's words that is printed.
	maxWords = 16 << 10
	// maxResult is how many lines of a tool's result are printed, and maxColumns how long they and
	// tool calls may be.
	maxResult  = 3
	maxColumns = 160
	// maxFullLine is maxLine if everything is printed. The line is kept in memory.
	maxFullLine = 256 << 20
)

// NewTranscript returns a Transcript that prints to w.
func NewTranscript(w io.Writer, o TranscriptOptions) *Transcript {
	emit := func(l Line) error {
		_, err := io.WriteString(w, l.format(o.Paint)+"\n")
		return err
	}
	return &Transcript{emit: emit, o: o,
		scanner: transcript.NewScanner(&transcript.Options{Format: o.Format})}
}

// Write takes the next piece of the output. It returns the error of the writer that it prints to.
func (t *Transcript) Write(p []byte) (int, error) {
	for line := range bytes.Lines(p) {
		if len(t.line)+len(line) > t.longest() {
			t.scan(t.line)
			t.scan(line)
			t.dropped += int64(len(t.line) + len(line))
			t.line = t.line[:0]
		} else {
			t.line = append(t.line, line...)
		}
		if bytes.HasSuffix(line, []byte("\n")) {
			t.endLine(false)
		}
	}
	return len(p), t.err
}

// longest returns the longest line that is read.
func (t *Transcript) longest() int {
	if t.o.Full {
		return maxFullLine
	}
	return maxLine
}

// Flush prints what is held back, because nothing more may arrive for a while.
func (t *Transcript) Flush() error {
	t.release()
	return t.err
}

// Close prints the rest.
func (t *Transcript) Close() error {
	t.endLine(true)
	t.release()
	t.endMessage()
	t.flushSignals()
	return t.err
}

func (t *Transcript) scan(p []byte) {
	if t.scanner == nil {
		t.at += int64(len(p))
		n := 0
		for n < len(t.known) && t.known[n].To <= t.at {
			n++
		}
		t.signals = append(t.signals, t.known[:n]...)
		t.known = t.known[n:]
		return
	}
	t.collect(t.scanner.Push(p))
	t.collectWaiting()
}

// collectWaiting collects the signals that are found and not released, whose lines are printed now:
// a verdict that passes work waits until it is known what follows, and what a program may withdraw
// waits until the end of its turn.
func (t *Transcript) collectWaiting() {
	waiting := t.scanner.Waiting()
	t.collect(waiting)
	clear(t.early) // of those that were released or withdrawn
	for _, sig := range waiting {
		if t.early == nil {
			t.early = map[int64]bool{}
		}
		t.early[sig.Offset] = true
	}
}

// collect keeps signals until their line is printed.
func (t *Transcript) collect(signals []signalbox.Signal) {
	for _, sig := range signals {
		if !t.early[sig.Offset] && t.o.Judge(&sig) {
			t.signals = append(t.signals, sig)
		}
	}
}

// Judge refuses a signal that the session must not send. It reports whether the signal is worth
// showing.
func (o *TranscriptOptions) Judge(sig *signalbox.Signal) bool {
	// remarks about the stream
	if sig.Refused == signalbox.ReasonDrift || sig.Refused == signalbox.ReasonRateLimited {
		return false
	}
	if sig.TaskID != "" && sig.TaskID == o.Name {
		sig.TaskID = o.Work
	}
	transcript.Authorize(sig, o.Role, o.Work)
	return true
}

// endLine prints what a complete line of the output shows. Before the last one is printed, the end
// of the output is known.
func (t *Transcript) endLine(last bool) {
	defer t.flushSignals()
	if len(t.line) > 0 || t.dropped > 0 {
		t.scan(t.line)
	}
	if last && t.scanner != nil {
		t.collect(t.scanner.Close())
	}
	if t.dropped > 0 {
		size := t.dropped + int64(len(t.line))
		t.line, t.dropped = t.line[:0], 0
		t.release()
		t.print(Line{Kind: LineFaint, Indent: "  ",
			Text: fmt.Sprintf("(a line of %.1f MB is not shown: --raw)", float64(size)/1e6),
			Cut:  true})
		return
	}
	if len(t.line) == 0 {
		return
	}
	t.release()
	line := bytes.TrimRight(t.line, "\r\n")
	t.line = t.line[:0] // its bytes are used until the next Write
	if t.o.Format != signalbox.FormatPlain && bytes.HasPrefix(bytes.TrimLeft(line, " \t"),
		[]byte("{")) {
		if entries, ok := agentformat.ParseEntries(line); ok {
			for _, e := range entries {
				t.entry(e)
			}
			return
		}
	}
	t.words(string(line))
}

func (t *Transcript) entry(e agentformat.Entry) {
	t.release() // of a message on the same line of the output
	if !e.Partial || e.Kind != agentformat.EntryText || e.Turn != t.turn {
		t.endMessage()
	}
	indent := ""
	if e.Nested {
		indent = "  "
	}
	switch {
	case e.Withdrawn:
		t.print(Line{Kind: LineFaint, Indent: "  ", Text: "(the reply so far does not count)"})
	case e.Kind == agentformat.EntryText && e.Partial:
		t.turn = e.Turn
		t.piece(e.Text)
	case e.Kind == agentformat.EntryText && e.Nested:
		t.lines(LineFaint, indent+"  ", e.Text, maxResult)
	case e.Kind == agentformat.EntryText:
		t.message(e.Text)
	case e.Kind == agentformat.EntryThinking && e.Partial: // too many pieces to be readable
	case e.Kind == agentformat.EntryThinking:
		t.lines(LineFaint, indent+"  · ", e.Text, 1)
	case e.Kind == agentformat.EntryToolCall:
		call := t.clip(e.Text)
		t.print(Line{Kind: LineCall, Indent: indent + "  ", Text: "▸ " + call,
			Cut: len(call) < len(e.Text)})
	case e.Kind == agentformat.EntryToolResult && e.Failed:
		t.lines(LineFailed, indent+"    ", cmp.Or(e.Text, "failed"), maxResult)
	case e.Kind == agentformat.EntryToolResult:
		t.lines(LineFaint, indent+"    ", e.Text, maxResult)
	case e.Kind == agentformat.EntryError:
		t.lines(LineFailed, "  ! ", e.Text, maxResult)
	}
}

// message prints a whole message. Its last line is held back.
func (t *Transcript) message(words string) {
	lines := strings.Split(strings.TrimRight(words, "\r\n"), "\n")
	for _, line := range lines[:len(lines)-1] {
		t.words(line)
	}
	t.held = &lines[len(lines)-1]
}

// piece adds a piece to a message, and prints its complete lines.
func (t *Transcript) piece(words string) {
	for line := range strings.Lines(words) {
		if t.o.Full || t.partial.Len() < maxWords {
			t.partial.WriteString(line)
		}
		if strings.HasSuffix(line, "\n") {
			t.endPiece()
		}
	}
}

func (t *Transcript) endPiece() {
	t.words(strings.TrimRight(t.partial.String(), "\r\n"))
	t.partial.Reset()
}

// endMessage prints the incomplete last line of a message that arrived in pieces.
func (t *Transcript) endMessage() {
	if t.partial.Len() > 0 {
		t.endPiece()
	}
}

// release prints the line that is held back.
func (t *Transcript) release() {
	if t.held != nil {
		line := *t.held
		t.held = nil
		t.words(line)
	}
}

// words prints a line of the agent's words, with a mark if it is a signal.
func (t *Transcript) words(line string) {
	line = strings.TrimRight(line, "\r\n")
	i := slices.IndexFunc(t.signals, func(sig signalbox.Signal) bool { return isOn(sig, line) })
	if i < 0 {
		shown := t.clipWords(line)
		t.print(Line{Text: text.PrintableLines(shown), Cut: len(shown) < len(line)})
		return
	}
	sig := t.signals[i]
	t.signals = slices.Delete(t.signals, i, i+1)
	t.mark(sig, text.PrintableLines(t.clipWords(strings.TrimSpace(line))))
}

// isOn reports whether a signal is on a line. A line signal is all of its line, so that a sentence
// that mentions one is not marked in its place.
func isOn(sig signalbox.Signal, line string) bool {
	first := firstLine(sig)
	if sig.Dialect == signalbox.DialectLine && sig.Taken() {
		return first != "" && strings.TrimSpace(line) == first
	}
	return first != "" && strings.Contains(line, first)
}

// firstLine returns the first line of a signal as the agent wrote it.
func firstLine(sig signalbox.Signal) string {
	first, _, _ := strings.Cut(strings.TrimSpace(sig.Raw), "\n")
	return strings.TrimSpace(first)
}

// flushSignals prints marks for the signals whose lines were already printed, such as those that
// end with a later line.
func (t *Transcript) flushSignals() {
	var kept []signalbox.Signal
	for _, sig := range t.signals {
		if t.held != nil && isOn(sig, *t.held) || t.partial.Len() > 0 &&
			isOn(sig, t.partial.String()) {
			kept = append(kept, sig)
			continue
		}
		t.mark(sig, t.clip(cmp.Or(firstLine(sig), signalName(sig.Name), "remark")))
	}
	t.signals = kept
}

// mark prints a signal: accepted with its name, or refused with the reason.
func (t *Transcript) mark(sig signalbox.Signal, line string) {
	shown := Line{Kind: LineSignal, Text: "✔ " + line, Signal: Span{From: sig.From, To: sig.To}}
	if verdict := t.o.Verdict(sig); verdict != "" {
		shown.Kind, shown.Text, shown.Note = LineRefused, "✘ "+line, verdict
	}
	t.print(shown)
}

// Verdict returns why a signal does not count, "" if it does. The ledger has the last word, once
// the turn has ended.
func (o *TranscriptOptions) Verdict(sig signalbox.Signal) string {
	turn := o.Turn
	switch {
	case turn != nil && slices.ContainsFunc(turn.Signals, func(heard inspect.Signal) bool {
		return heard.Name == sig.Name && (o.Tail || heard.Offset == sig.Offset)
	}):
		return ""
	case sig.Refused != "":
		reason := "refused: " + strings.ReplaceAll(string(sig.Refused), "_", " ")
		if sig.Detail != "" {
			reason += ", " + clip(sig.Detail)
		}
		return reason
	case sig.Dialect == signalbox.DialectTurn,
		turn == nil: // the ledger does not record turn signals of agents
		return ""
	}
	return "does not count"
}

// lines prints the first lines of a text, and how many more there are.
func (t *Transcript) lines(kind LineKind, indent, words string, limit int) {
	words = strings.TrimRight(words, "\r\n\t ")
	if words == "" {
		return
	}
	for n := 0; t.o.Full || n < limit; n++ {
		line, rest, more := strings.Cut(words, "\n")
		shown := t.clip(line)
		t.print(Line{Kind: kind, Indent: indent, Text: shown, Cut: len(shown) < len(line)})
		indent = strings.Repeat(" ", len([]rune(indent)))
		if words = rest; !more {
			return
		}
	}
	t.print(Line{Kind: LineFaint, Indent: indent,
		Text: fmt.Sprintf("… %s more", text.Count(strings.Count(words, "\n")+1, "line")),
		Cut:  true})
}

func (t *Transcript) print(line Line) {
	if t.err == nil {
		t.err = t.emit(line)
	}
}

// clip returns text on one line, which is not too long unless everything is printed.
func (t *Transcript) clip(s string) string {
	if t.o.Full {
		return show.OnScreen(s)
	}
	return clip(s)
}

// clipWords returns as much as is printed of a line of an agent's words.
func (t *Transcript) clipWords(line string) string {
	if t.o.Full {
		return line
	}
	return clipTo(line, maxWords)
}

// clip returns text on one line that is not too long.
func clip(s string) string { return show.Cut(show.OnScreen(clipTo(s, 4*maxColumns)), maxColumns) }

// clipTo returns at most n bytes of s.
func clipTo(s string, n int) string {
	if len(s) <= n {
		return s
	}
	return strings.ToValidUTF8(s[:n], "") + "…"
}
