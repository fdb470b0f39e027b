// Package console shows a conversation to a person: the answer on one writer as it arrives, and notes about tool calls, signals and
// decisions on another.
//
// Text from models and tools cannot send control sequences to the terminal. A Console must not be used by several goroutines at once.
package console

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/charmbracelet/x/ansi"

	"signalbox/internal/oracle/chunk"
	"signalbox/internal/text"
)

// Options configure a Console.
type Options struct {
	// Color colours the notes.
	Color bool
	// SameTerminal means that answer and notes appear on one screen, so neither may start in the middle of the other's line.
	SameTerminal bool
	// Reasoning shows the model's reasoning.
	Reasoning bool
	// Errors shows error chunks. Without it the caller reports them.
	Errors bool
	// Width is the column at which notes are cut. Zero means that they are not cut.
	Width int
}

// Console shows chunks.
type Console struct {
	answer, notes io.Writer
	opts          Options

	turn          int  // of the last content
	openLine      bool // the answer's last line has no line end yet
	openReasoning bool // the same for reasoning
	blankLine     bool // the answer ends with an empty line, or has not begun
	hasContent    bool
	err           error // of the answer's writer
}

// New returns a Console. A nil opts means the zero Options.
func New(answer, notes io.Writer, opts *Options) *Console {
	c := &Console{answer: answer, notes: notes, blankLine: true}
	if opts != nil {
		c.opts = *opts
	}
	return c
}

// Show shows a chunk. The error is that of the writer of the answer; it is permanent.
func (t *Console) Show(c chunk.Chunk) error {
	if r, ok := c.(chunk.Reasoning); ok {
		t.reasoning(r.Text)
		return t.err
	}
	t.endReasoning()
	switch c := c.(type) {
	case chunk.Content:
		t.content(c)
	case chunk.ToolCall:
		t.note("→", c.Name+" "+compact(string(c.Arguments), 120))
	case chunk.ToolResult:
		mark := "✓"
		if !c.OK {
			mark = "✗"
		}
		t.note(mark, c.Name+": "+firstLine(c.Text))
	case chunk.Signal:
		t.note("•", fmt.Sprintf("%s (%.2f)%s", c.Name, c.Confidence, reason(c)))
	case chunk.System:
		mark := "·"
		if c.Level != "" {
			mark = "!"
		}
		t.note(mark, c.Text)
	case chunk.Sources:
		t.sources(c.Sources)
	case chunk.Error:
		t.endLine()
		if t.opts.Errors {
			t.note("✗", c.Text)
		}
	case chunk.Done:
		t.endLine()
		t.note("■", summary(c))
	}
	return t.err
}

// content writes text of the answer, with an empty line between turns.
func (t *Console) content(c chunk.Content) {
	if c.Turn != t.turn && t.hasContent {
		t.endLine()
		if !t.blankLine {
			t.write("\n")
		}
	}
	t.turn, t.hasContent = c.Turn, true
	t.write(text.PrintableLines(c.Text))
	t.openLine = !strings.HasSuffix(c.Text, "\n")
	t.blankLine = strings.HasSuffix(c.Text, "\n\n")
}

func (t *Console) write(text string) {
	if t.err == nil && text != "" {
		_, t.err = io.WriteString(t.answer, text)
	}
}

// endLine ends the answer's current line.
func (t *Console) endLine() {
	if t.openLine {
		t.write("\n")
		t.openLine, t.blankLine = false, false
	}
}

func (t *Console) reasoning(piece string) {
	if !t.opts.Reasoning {
		return
	}
	if t.opts.SameTerminal {
		t.endLine()
	}
	t.openReasoning = true
	fmt.Fprint(t.notes, t.styled(dim, text.PrintableLines(piece)))
}

func (t *Console) endReasoning() {
	if t.openReasoning {
		fmt.Fprintln(t.notes)
		t.openReasoning = false
	}
}

// note writes a line to the notes. The mark determines its colour.
func (t *Console) note(mark, note string) {
	if t.opts.SameTerminal {
		t.endLine()
	}
	line := "  " + mark + " " + text.Printable(note)
	if t.opts.Width > 0 {
		line = ansi.Truncate(line, t.opts.Width, "…")
	}
	style := dim
	switch mark {
	case "✗":
		style = red
	case "!":
		style = yellow
	}
	fmt.Fprintln(t.notes, t.styled(style, line))
}

// ANSI styles of notes.
const (
	dim    = "\x1b[2m"
	red    = "\x1b[31m"
	yellow = "\x1b[33m"
)

func (t *Console) styled(style, text string) string {
	if !t.opts.Color {
		return text
	}
	return style + text + "\x1b[0m"
}

// TruncateLines writes lines of printable text, each cut to a width in columns.
func TruncateLines(w io.Writer, width int, lines string) error {
	for line := range strings.Lines(lines) {
		line, ended := strings.CutSuffix(line, "\n")
		line = ansi.Truncate(line, width, "…")
		if ended {
			line += "\n"
		}
		if _, err := io.WriteString(w, line); err != nil {
			return err
		}
	}
	return nil
}

const (
	maxSources = 8
	maxLines   = 5 // per source
)

// sources lists each source once, with its lines.
func (t *Console) sources(all []chunk.Source) {
	var order []string
	lines := map[string][]string{}
	for _, s := range all {
		where := s.Path
		if s.Title != "" {
			where += " (" + s.Title + ")"
		}
		if _, known := lines[where]; !known {
			order = append(order, where)
			lines[where] = nil
		}
		if s.Line > 0 {
			lines[where] = append(lines[where], strconv.Itoa(s.Line))
		}
	}
	for i, where := range order {
		if i == maxSources {
			t.note("‣", fmt.Sprintf("and %d more", len(order)-i))
			return
		}
		at := lines[where]
		if len(at) > maxLines {
			at = append(at[:maxLines:maxLines], "…")
		}
		if len(at) > 0 {
			where += ":" + strings.Join(at, ",")
		}
		t.note("‣", where)
	}
}

// reason returns the explanation in a signal, if it has one.
func reason(s chunk.Signal) string {
	for _, name := range []string{"reason", "blocker", "missing", "capability", "caveat"} {
		if text, _ := s.Fields[name].(string); strings.TrimSpace(text) != "" {
			return ": " + compact(text, 200)
		}
	}
	return ""
}

func summary(d chunk.Done) string {
	parts := []string{d.Reason, text.Count(d.Turns, "turn")}
	if d.Tokens > 0 {
		parts = append(parts, fmt.Sprintf("%d tokens", d.Tokens))
	}
	if d.CostUSD > 0 {
		parts = append(parts, fmt.Sprintf("$%.4f", d.CostUSD))
	}
	if d.Model != "" {
		parts = append(parts, d.Model)
	}
	if d.Session != "" {
		parts = append(parts, "session "+d.Session)
	}
	return strings.Join(parts, ", ")
}

// firstLine returns the verdict of a result that is a brief, and the first line of any other.
func firstLine(result string) string {
	var brief struct {
		Snapshot struct {
			Verdict string `json:"verdict"`
		} `json:"snapshot"`
	}
	if json.Unmarshal([]byte(result), &brief) == nil && brief.Snapshot.Verdict != "" {
		return compact(brief.Snapshot.Verdict, 160)
	}
	line, rest, more := strings.Cut(strings.TrimSpace(result), "\n")
	line = compact(line, 160)
	if more {
		line += fmt.Sprintf(" (and %s more)", text.Count(strings.Count(rest, "\n")+1, "line"))
	}
	return line
}

// compact returns s on one line, cut to limit characters. JSON loses its white space.
func compact(s string, limit int) string {
	var out bytes.Buffer
	if json.Compact(&out, []byte(s)) == nil {
		s = out.String()
	}
	return text.Shorten(strings.Join(strings.Fields(s), " "), limit)
}
