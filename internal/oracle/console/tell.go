// Package tell shows a conversation to a person: the answer on one writer as it comes, and what happens beside it (tools,
// signals, remarks) in quiet lines on another.
//
// Nothing that came from a model or a tool can steer a terminal. A Teller is used by one goroutine at a time.
package console

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"signalbox/internal/oracle/chunk"
	"signalbox/internal/text"
)

// Options say how it is shown.
type Options struct {
	// Color marks what stands beside the answer.
	Color bool
	// Together: answer and remarks appear on one screen, so that neither may begin in the middle of the other's line.
	Together bool
	// Reasoning shows what the model thinks aloud.
	Reasoning bool
	// Errors shows error chunks too. Without, whoever shows the conversation tells of them.
	Errors bool
	// Width is where remarks are cut off, in columns. Zero: nowhere.
	Width int
}

// Teller shows chunks.
type Teller struct {
	answer, aside io.Writer
	opts          Options

	turn  int  // whose text was shown last
	open  bool // the answer's last line is not ended
	think bool // the same, of reasoning
	blank bool // the answer ends with an empty line, or has not begun
	said  bool // there is an answer
	err   error
}

// New returns a Teller.
func New(answer, aside io.Writer, opts *Options) *Teller {
	t := &Teller{answer: answer, aside: aside, blank: true}
	if opts != nil {
		t.opts = *opts
	}
	return t
}

// Show shows a chunk. The error is that of the answer's writer.
func (t *Teller) Show(c chunk.Chunk) error {
	if r, ok := c.(chunk.Reasoning); ok {
		t.reasoning(r.Text)
		return t.err
	}
	t.endThought()
	switch c := c.(type) {
	case chunk.Content:
		t.content(c)
	case chunk.ToolCall:
		t.remark("→", c.Name+" "+brief(string(c.Arguments), 120))
	case chunk.ToolResult:
		mark := "✓"
		if !c.OK {
			mark = "✗"
		}
		t.remark(mark, c.Name+": "+firstLine(c.Text))
	case chunk.Signal:
		t.remark("•", fmt.Sprintf("%s (%.2f)%s", c.Name, c.Confidence, reason(c)))
	case chunk.System:
		mark := "·"
		if c.Level != "" {
			mark = "!"
		}
		t.remark(mark, c.Text)
	case chunk.Sources:
		t.sources(c.Sources)
	case chunk.Error:
		t.endLine()
		if t.opts.Errors {
			t.remark("✗", c.Text)
		}
	case chunk.Done:
		t.endLine()
		t.remark("■", done(c))
	}
	return t.err
}

// content shows text of the answer. Texts of two turns are apart.
func (t *Teller) content(c chunk.Content) {
	if c.Turn != t.turn && t.said {
		t.endLine()
		if !t.blank {
			t.write("\n")
		}
	}
	t.turn, t.said = c.Turn, true
	t.write(text.PrintableLines(c.Text))
	t.open = !strings.HasSuffix(c.Text, "\n")
	t.blank = strings.HasSuffix(c.Text, "\n\n")
}

func (t *Teller) write(text string) {
	if t.err == nil && text != "" {
		_, t.err = io.WriteString(t.answer, text)
	}
}

// endLine ends the answer's line, so that something else can begin.
func (t *Teller) endLine() {
	if t.open {
		t.write("\n")
		t.open, t.blank = false, false
	}
}

func (t *Teller) reasoning(thought string) {
	if !t.opts.Reasoning {
		return
	}
	if t.opts.Together {
		t.endLine()
	}
	t.think = true
	fmt.Fprint(t.aside, t.styled(dim, text.PrintableLines(thought)))
}

func (t *Teller) endThought() {
	if t.think {
		fmt.Fprintln(t.aside)
		t.think = false
	}
}

// remark writes a line beside the answer.
func (t *Teller) remark(mark, remark string) {
	if t.opts.Together {
		t.endLine()
	}
	line := "  " + mark + " " + text.Printable(remark)
	if t.opts.Width > 0 {
		line = Cut(line, t.opts.Width)
	}
	style := dim
	switch mark { // what went wrong stands out
	case "✗":
		style = red
	case "!":
		style = yellow
	}
	fmt.Fprintln(t.aside, t.styled(style, line))
}

// Ways to show a line.
const (
	dim    = "\x1b[2m"
	red    = "\x1b[31m"
	yellow = "\x1b[33m"
)

func (t *Teller) styled(style, text string) string {
	if !t.opts.Color {
		return text
	}
	return style + text + "\x1b[0m"
}

// Cut shortens printable text so that it fits into a line of so many columns.
func Cut(text string, width int) string {
	used := 0
	for i, r := range text {
		if used += columns(r); used > width && i > 0 {
			runes := []rune(text[:i])
			for used = used - columns(r); used > width-1 && len(runes) > 0; runes = runes[:len(runes)-1] {
				used -= columns(runes[len(runes)-1])
			}
			return string(runes) + "…"
		}
	}
	return text
}

// CutLines writes whole lines of printable text, each cut as Cut does.
func CutLines(w io.Writer, width int, text string) error {
	for line := range strings.Lines(text) {
		bare, ended := strings.CutSuffix(line, "\n")
		bare = Cut(bare, width)
		if ended {
			bare += "\n"
		}
		if _, err := io.WriteString(w, bare); err != nil {
			return err
		}
	}
	return nil
}

// columns is how wide a character is, as far as its block tells: a line that is cut a little early does no harm.
func columns(r rune) int {
	switch {
	case unicode.Is(unicode.Mn, r):
		return 0
	case r >= 0x1100 && r <= 0x115f, r >= 0x2e80 && r <= 0xa4cf, r >= 0xac00 && r <= 0xd7a3, r >= 0xf900 && r <= 0xfaff,
		r >= 0xfe30 && r <= 0xfe6f, r >= 0xff00 && r <= 0xff60, r >= 0x1f300 && r <= 0x1faff, r >= 0x20000 && r <= 0x3fffd:
		return 2
	}
	return 1
}

const (
	maxSources = 8
	maxLines   = 5 // of one source
)

// sources lists them, each file once with its lines.
func (t *Teller) sources(all []chunk.Source) {
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
			t.remark("‣", fmt.Sprintf("and %d more", len(order)-i))
			return
		}
		at := lines[where]
		if len(at) > maxLines {
			at = append(at[:maxLines:maxLines], "…")
		}
		if len(at) > 0 {
			where += ":" + strings.Join(at, ",")
		}
		t.remark("‣", where)
	}
}

// reason is what a signal says of why.
func reason(s chunk.Signal) string {
	for _, name := range []string{"reason", "blocker", "missing", "capability", "caveat"} {
		if text, _ := s.Fields[name].(string); strings.TrimSpace(text) != "" {
			return ": " + brief(text, 200)
		}
	}
	return ""
}

func done(d chunk.Done) string {
	text := d.Reason + ", " + plural(d.Turns, "turn")
	if d.Tokens > 0 {
		text += fmt.Sprintf(", %d tokens", d.Tokens)
	}
	if d.CostUSD > 0 {
		text += fmt.Sprintf(", $%.4f", d.CostUSD)
	}
	if d.Model != "" {
		text += ", " + d.Model
	}
	if d.Session != "" {
		text += ", session " + d.Session
	}
	return text
}

func plural(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

// firstLine is what a result begins with; of one in JSON, what it comes to.
func firstLine(text string) string {
	var told struct {
		Snapshot struct {
			Verdict string `json:"verdict"`
		} `json:"snapshot"`
	}
	if json.Unmarshal([]byte(text), &told) == nil && told.Snapshot.Verdict != "" {
		return brief(told.Snapshot.Verdict, 160)
	}
	line, rest, more := strings.Cut(strings.TrimSpace(text), "\n")
	line = brief(line, 160)
	if more {
		line += fmt.Sprintf(" (and %s more)", plural(strings.Count(rest, "\n")+1, "line"))
	}
	return line
}

// brief is a text on one line, cut if it is long.
func brief(text string, most int) string {
	var compact bytes.Buffer
	if json.Compact(&compact, []byte(text)) == nil {
		text = compact.String()
	}
	text = strings.Join(strings.Fields(text), " ")
	if utf8.RuneCountInString(text) <= most {
		return text
	}
	return string([]rune(text)[:most-1]) + "…"
}
