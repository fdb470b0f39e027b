// Package console shows a conversation to a person: the answer on one writer as it arrives, and
// notes about tool calls, signals and decisions on another.
//
// Text from models and tools cannot send control sequences to the terminal. A Console must not be
// used by several goroutines at once.
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
	// SameTerminal means that answer and notes appear on one screen, so neither may start in the
	// middle of the other's line.
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
	blankLine     bool // the answer ends with an empty line, or has not started
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
func (c *Console) Show(shown chunk.Chunk) error {
	if r, ok := shown.(chunk.Reasoning); ok {
		c.reasoning(r.Text)
		return c.err
	}
	c.endReasoning()
	switch shown := shown.(type) {
	case chunk.Content:
		c.content(shown)
	case chunk.Error:
		c.endLine()
		if c.opts.Errors {
			c.note("✗", shown.Text)
		}
	case chunk.Done:
		c.endLine()
	}
	for _, n := range Notes(shown) {
		c.note(n.Mark, n.Text)
	}
	return c.err
}

// Note is a remark about something other than the text of the answer. Its text is not printable
// yet.
type Note struct{ Mark, Text string }

// Notes returns the notes about a chunk. Content, reasoning and errors have none.
func Notes(shown chunk.Chunk) []Note {
	switch shown := shown.(type) {
	case chunk.ToolCall:
		return []Note{{"→", shown.Name + " " + compact(string(shown.Arguments), 120)}}
	case chunk.ToolResult:
		mark := "✓"
		if !shown.OK {
			mark = "✗"
		}
		return []Note{{mark, shown.Name + ": " + firstLine(shown.Text)}}
	case chunk.Signal:
		return []Note{{"•", fmt.Sprintf("%s (%.2f)%s", shown.Name, shown.Confidence,
			reason(shown))}}
	case chunk.System:
		mark := "·"
		if shown.Level != "" {
			mark = "!"
		}
		return []Note{{mark, shown.Text}}
	case chunk.Sources:
		return sources(shown.Sources)
	case chunk.Done:
		return []Note{{"■", summary(shown)}}
	}
	return nil
}

// Line returns a note as printable text, cut to a width in columns. A width of 0 means that it is
// not cut.
func (n Note) Line(width int) string {
	line := "  " + n.Mark + " " + text.Printable(n.Text)
	if width > 0 {
		line = ansi.Truncate(line, width, "…")
	}
	return line
}

// content writes text of the answer, with an empty line between turns.
func (c *Console) content(piece chunk.Content) {
	if piece.Turn != c.turn && c.hasContent {
		c.endLine()
		if !c.blankLine {
			c.write("\n")
		}
	}
	c.turn, c.hasContent = piece.Turn, true
	c.write(text.PrintableLines(piece.Text))
	c.openLine = !strings.HasSuffix(piece.Text, "\n")
	c.blankLine = strings.HasSuffix(piece.Text, "\n\n")
}

func (c *Console) write(text string) {
	if c.err == nil && text != "" {
		_, c.err = io.WriteString(c.answer, text)
	}
}

// endLine ends the answer's current line.
func (c *Console) endLine() {
	if c.openLine {
		c.write("\n")
		c.openLine, c.blankLine = false, false
	}
}

func (c *Console) reasoning(piece string) {
	if !c.opts.Reasoning {
		return
	}
	if c.opts.SameTerminal {
		c.endLine()
	}
	c.openReasoning = true
	fmt.Fprint(c.notes, c.styled(dim, text.PrintableLines(piece)))
}

func (c *Console) endReasoning() {
	if c.openReasoning {
		fmt.Fprintln(c.notes)
		c.openReasoning = false
	}
}

// note writes a line to the notes. The mark determines its colour.
func (c *Console) note(mark, note string) {
	if c.opts.SameTerminal {
		c.endLine()
	}
	line := Note{mark, note}.Line(c.opts.Width)
	style := dim
	switch mark {
	case "✗":
		style = red
	case "!":
		style = yellow
	}
	fmt.Fprintln(c.notes, c.styled(style, line))
}

// ANSI styles of notes.
const (
	dim    = "\x1b[2m"
	red    = "\x1b[31m"
	yellow = "\x1b[33m"
)

func (c *Console) styled(style, text string) string {
	if !c.opts.Color {
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
func sources(all []chunk.Source) []Note {
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
	var notes []Note
	for i, where := range order {
		if i == maxSources {
			return append(notes, Note{"‣", fmt.Sprintf("and %d more", len(order)-i)})
		}
		at := lines[where]
		if len(at) > maxLines {
			at = append(at[:maxLines:maxLines], "…")
		}
		if len(at) > 0 {
			where += ":" + strings.Join(at, ",")
		}
		notes = append(notes, Note{"‣", where})
	}
	return notes
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
