package chat

import (
	"context"
	"errors"
	"image/color"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	tea "charm.land/bubbletea/v2"
	"charm.land/lipgloss/v2"
	"github.com/charmbracelet/x/ansi"
	"github.com/google/go-cmp/cmp"

	"signalbox/internal/oracle/chunk"
	"signalbox/internal/oracle/console/markdown"
	"signalbox/internal/testkit/must"
)

// tester runs a model without a terminal.
type tester struct {
	t         *testing.T
	m         *model
	printed   []string
	asked     []string
	cancelled int
	held      bool
	writes    int
	up        int
}

func (x *tester) Hold()       { x.held = true }
func (x *tester) Release()    { x.held = false }
func (x *tester) Flush()      {}
func (x *tester) Writes() int { return x.writes }
func (x *tester) Up(rows int) { x.up += rows }

func newTester(t *testing.T, opts Options, entries ...string) *tester {
	x := &tester{t: t}
	x.m = newModel(opts, &history{entries: entries})
	x.m.screen = x
	x.m.ask = func(q string) (tea.Cmd, context.CancelFunc) {
		x.asked = append(x.asked, q)
		return nil, func() { x.cancelled++ }
	}
	x.m.Init()
	x.send(tea.WindowSizeMsg{Width: 60, Height: 24})
	return x
}

// send sends messages, and takes what is printed.
func (x *tester) send(all ...tea.Msg) {
	x.t.Helper()
	for _, msg := range all {
		x.m.Update(msg)
		for x.m.printing {
			if !x.held {
				x.t.Fatal("lines are printed while the terminal is not held")
			}
			n := min(len(x.m.above), max(x.m.height-x.m.pictureRows(), 1))
			x.printed = append(x.printed, x.m.above[:n]...)
			x.writes++
			x.m.Update(printedMsg{n})
		}
		x.check()
	}
}

// check checks that everything fits the terminal and contains no control characters but styles.
func (x *tester) check() {
	x.t.Helper()
	lines := strings.Split(x.m.View().Content, "\n")
	if len(lines) > x.m.height-1 {
		x.t.Fatalf("%d rows in a window of %d: %q", len(lines), x.m.height, lines)
	}
	for _, line := range append(lines, x.printed...) {
		bare := ansi.Strip(line)
		if typable(bare) != bare || strings.ContainsAny(bare, "\n\t") {
			x.t.Fatalf("control characters: %q", line)
		}
		if w := lipgloss.Width(line); x.m.width > markdown.MinWidth && w >= x.m.width && x.up == 0 {
			x.t.Fatalf("%d columns in a window of %d: %q", w, x.m.width, line)
		}
	}
	if c := x.m.View().Cursor; c != nil && (c.Y < 0 || c.Y >= len(lines) || c.X < 0 ||
		c.X >= x.m.width) {
		x.t.Fatalf("the cursor is at %d, %d in %q", c.X, c.Y, lines)
	}
}

func (x *tester) typed(text string) {
	x.t.Helper()
	for _, r := range text {
		x.send(tea.KeyPressMsg{Code: r, Text: string(r)})
	}
}

var keys = map[string]tea.Key{
	"enter": {Code: tea.KeyEnter}, "alt+enter": {Code: tea.KeyEnter, Mod: tea.ModAlt},
	"shift+enter": {Code: tea.KeyEnter, Mod: tea.ModShift},
	"up":          {Code: tea.KeyUp}, "down": {Code: tea.KeyDown}, "esc": {Code: tea.KeyEscape},
	"backspace": {Code: tea.KeyBackspace}, "left": {Code: tea.KeyLeft},
}

func (x *tester) press(names ...string) {
	x.t.Helper()
	for _, name := range names {
		key, ok := keys[name]
		if c, found := strings.CutPrefix(name, "ctrl+"); found {
			key, ok = tea.Key{Code: rune(c[0]), Mod: tea.ModCtrl}, true
		}
		if !ok {
			x.t.Fatalf("no key %s", name)
		}
		x.send(tea.KeyPressMsg(key))
	}
}

func (x *tester) input(want string) {
	x.t.Helper()
	if got := x.m.input.Value(); got != want {
		x.t.Errorf("the input is %q, want %q", got, want)
	}
}

func (x *tester) screen() string {
	return ansi.Strip(strings.Join(append(slices.Clone(x.printed), x.m.View().Content), "\n"))
}

func TestAnswer(t *testing.T) {
	x := newTester(t, Options{Reasoning: true, Hint: "A hint."})
	x.typed("How so?")
	x.press("enter")
	x.send(chunkMsg{chunk.Reasoning{Turn: 1, Text: "hm\nwell"}},
		chunkMsg{chunk.Content{Turn: 1, Text: "Let me **lo"}}, frameMsg{})
	if want := "A hint.\n\n> How so?\n\nhm\nwell\n\nLet me **lo\n\n> Ask a question\n  answering, 0 s; Ctrl-C stops"; trimmed(x.screen()) != want {
		t.Errorf("%s", cmp.Diff(want, trimmed(x.screen())))
	}
	x.send(secondMsg{1}, chunkMsg{chunk.Content{Turn: 1, Text: "ok**.\n"}},
		chunkMsg{chunk.ToolCall{Turn: 1, Name: "read", Arguments: []byte(`{}`)}},
		chunkMsg{chunk.ToolResult{Turn: 1, Name: "read", Text: "no"}},
		chunkMsg{chunk.Content{Turn: 2, Text: "# Part\n- one\n"}}, frameMsg{},
		chunkMsg{chunk.Content{Turn: 2, Text: "- two\n"}},
		chunkMsg{chunk.Done{Reason: "answered", Turns: 2}}, answeredMsg{})
	x.typed("Next\x00")
	x.press("enter")
	x.send(chunkMsg{chunk.Error{Text: "not shown"}},
		answeredMsg{errors.New("model failed: \x1b[2J" + strings.Repeat(" very", 12))})
	want := `A hint.

> How so?

hm
well

Let me look.
  → read {}
  ✗ read: no

Part

• one
• two
  ■ answered, 2 turns

> Next

  ✗ model failed: \x1b[2J very very very very very very
    very very very very very very

> Ask a question`
	if diff := cmp.Diff(want, trimmed(x.screen())); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]string{"How so?", "Next"}, x.asked); diff != "" || x.m.answering {
		t.Error(diff)
	}
}

// trimmed returns text without spaces at the ends of lines and without empty lines at the end.
func trimmed(s string) string {
	lines := strings.Split(s, "\n")
	for i := range lines {
		lines[i] = strings.TrimRight(lines[i], " ")
	}
	return strings.TrimRight(strings.Join(lines, "\n"), "\n")
}

// A reply that starts again is not shown twice.
func TestRestartedReply(t *testing.T) {
	x := newTester(t, Options{})
	x.typed("q")
	x.press("enter")
	x.send(chunkMsg{chunk.Content{Turn: 1, Text: "Once upon"}}, frameMsg{},
		chunkMsg{chunk.System{Turn: 1, Name: chunk.ReplyRestarted, Level: chunk.Warning,
			Text: "again"}},
		chunkMsg{chunk.Content{Turn: 1, Text: "Once upon a time"}}, answeredMsg{})
	if n := strings.Count(x.screen(), "Once upon"); n != 1 {
		t.Errorf("%d times: %s", n, x.screen())
	}
}

func TestSeveralLines(t *testing.T) {
	x := newTester(t, Options{})
	x.typed("a")
	x.press("alt+enter")
	x.typed("b")
	x.press("ctrl+j")
	x.typed("c")
	x.press("shift+enter")
	x.send(tea.PasteMsg{Content: "d\r\ne\rf\n\u202e\x1b[31mg\n"})
	x.input("a\nb\nc\nd\ne\nf\n[31mg\n")
	if len(x.asked) > 0 {
		t.Fatalf("sent: %q", x.asked)
	}
	x.press("enter")
	if diff := cmp.Diff([]string{"a\nb\nc\nd\ne\nf\n[31mg"}, x.asked); diff != "" {
		t.Error(diff)
	}
	if !strings.Contains(x.screen(), "> a\n  b\n  c\n") {
		t.Error(x.screen())
	}
	x.press("enter") // an empty line
	x.typed("  ")
	x.press("enter")
	if len(x.asked) != 1 || len(x.m.queue) != 0 {
		t.Errorf("%q %q", x.asked, x.m.queue)
	}
}

func TestLongInput(t *testing.T) {
	x := newTester(t, Options{MaxQuestion: 1000})
	x.send(tea.PasteMsg{Content: strings.Repeat("x\n", 400)})
	x.send(tea.PasteMsg{Content: strings.Repeat("y", 300)})
	if !strings.Contains(x.screen(), "too much text") {
		t.Error(x.screen())
	}
	x.input(strings.Repeat("x\n", 400))
	x.typed("z")
	x.input(strings.Repeat("x\n", 400) + "z")
	if strings.Contains(x.screen(), "too much text") {
		t.Error(x.screen())
	}
	x = newTester(t, Options{})
	x.send(tea.PasteMsg{Content: strings.Repeat("\n", 10_000)})
	x.input("")
	if !strings.Contains(x.screen(), "too many lines") {
		t.Error(x.screen())
	}
}

// The input is not drawn again for everything that arrives.
func TestInputIsDrawnOnce(t *testing.T) {
	x := newTester(t, Options{})
	x.typed("q")
	x.press("enter")
	x.typed("typed")
	x.m.inputLines = []string{"as it was"}
	x.send(chunkMsg{chunk.Content{Turn: 1, Text: "text"}}, frameMsg{}, secondMsg{1})
	if !strings.Contains(x.screen(), "as it was") {
		t.Error(x.screen())
	}
	x.typed("!")
	if !strings.Contains(x.screen(), "> typed!") {
		t.Error(x.screen())
	}
}

func TestHistoryKeys(t *testing.T) {
	x := newTester(t, Options{}, "first", "second\nline")
	x.typed("draft")
	x.press("up")
	x.input("second\nline")
	x.press("up") // within the text
	x.input("second\nline")
	x.press("up")
	x.input("first")
	x.press("up")
	x.input("first")
	x.press("down")
	x.input("second\nline")
	x.press("down", "down")
	x.input("draft")
	x.press("ctrl+p", "ctrl+p", "ctrl+p")
	x.input("first")
	x.press("enter")
	if diff := cmp.Diff([]string{"first"}, x.asked); diff != "" {
		t.Error(diff)
	}
	x.send(answeredMsg{})
	x.press("up", "up")
	x.input("second\nline")
}

func TestSearchKeys(t *testing.T) {
	x := newTester(t, Options{}, "Alpha one", "beta", "alpha\ntwo", "gamma")
	x.typed("draft")
	x.press("ctrl+r")
	x.typed("ALP")
	if !strings.Contains(x.screen(), "search: ALP\n  alpha two") {
		t.Error(x.screen())
	}
	x.press("ctrl+r")
	if !strings.Contains(x.screen(), "search: ALP\n  Alpha one") {
		t.Error(x.screen())
	}
	x.press("ctrl+r") // no older one
	x.typed("x")
	if !strings.Contains(x.screen(), "nothing found: ALPx") {
		t.Error(x.screen())
	}
	x.press("backspace", "enter")
	x.input("alpha\ntwo")
	if len(x.asked) != 0 {
		t.Errorf("sent: %q", x.asked)
	}
	x.press("ctrl+r")
	x.typed("beta")
	x.press("esc")
	x.input("alpha\ntwo")
	x.press("ctrl+r")
	x.typed("beta")
	x.press("left")
	x.typed("!")
	x.input("bet!a")
}

func TestInterrupt(t *testing.T) {
	x := newTester(t, Options{})
	x.typed("text")
	x.press("ctrl+c")
	x.input("")
	x.typed("slow")
	x.press("enter")
	x.typed("next")
	x.press("enter")
	x.typed("more")
	if !strings.Contains(x.screen(), "next: next") {
		t.Error(x.screen())
	}
	x.send(chunkMsg{chunk.Content{Turn: 1, Text: "The beginning"}})
	x.press("ctrl+c")
	if x.cancelled != 1 || x.m.leaving {
		t.Fatalf("cancelled %d times, leaving: %v", x.cancelled, x.m.leaving)
	}
	x.input("next\nmore") // the waiting question is not asked
	x.send(answeredMsg{errors.New("interrupted")})
	if s := x.screen(); !strings.Contains(s, "The beginning\n  ✗ interrupted") ||
		len(x.asked) != 1 {
		t.Errorf("%s %q", s, x.asked)
	}
	x.press("ctrl+c", "ctrl+c")
	if !x.m.leaving || x.m.err != nil {
		t.Errorf("leaving: %v, %v", x.m.leaving, x.m.err)
	}

	// The answer may end between two interrupts. That they are two counts, unless there was another
	// key.
	for between, want := range map[string]error{"": ErrInterrupted, "left": nil} {
		x = newTester(t, Options{})
		x.typed("slow")
		x.press("enter", "ctrl+c")
		x.send(answeredMsg{errors.New("interrupted")})
		if between != "" {
			x.press(between)
		}
		x.press("ctrl+c")
		if !x.m.leaving || !errors.Is(x.m.err, want) {
			t.Errorf("with %q between: leaving: %v, %v", between, x.m.leaving, x.m.err)
		}
	}

	x = newTester(t, Options{})
	x.typed("slow")
	x.press("enter", "ctrl+c", "ctrl+c")
	if !x.m.leaving || !errors.Is(x.m.err, ErrInterrupted) {
		t.Errorf("leaving: %v, %v", x.m.leaving, x.m.err)
	}
	if x.m.View().Content != "" && strings.TrimSpace(x.m.View().Content) != "" {
		t.Errorf("the picture stays: %q", x.m.View().Content)
	}
}

func TestLeave(t *testing.T) {
	x := newTester(t, Options{})
	x.typed("ab")
	x.press("left", "ctrl+d")
	x.input("a")
	x.press("backspace", "ctrl+d")
	if !x.m.leaving || x.m.err != nil {
		t.Errorf("leaving: %v, %v", x.m.leaving, x.m.err)
	}
	x = newTester(t, Options{})
	x.typed("q")
	x.press("enter")
	x.send(leaveMsg{})
	if !x.m.leaving || !errors.Is(x.m.err, ErrInterrupted) || x.cancelled != 1 {
		t.Errorf("leaving: %v, %v, cancelled %d times", x.m.leaving, x.m.err, x.cancelled)
	}
}

func TestQueue(t *testing.T) {
	x := newTester(t, Options{})
	for _, q := range []string{"one", "two", "three"} {
		x.typed(q)
		x.press("enter")
	}
	x.send(answeredMsg{errors.New("failed")}, answeredMsg{}, answeredMsg{})
	if diff := cmp.Diff([]string{"one", "two", "three"}, x.asked); diff != "" || x.m.answering {
		t.Error(diff)
	}
	if want := "> one\n\n  ✗ failed\n\n> two\n\n> three\n\n> Ask a question"; trimmed(
		x.screen()) != want {
		t.Error(cmp.Diff(want, trimmed(x.screen())))
	}
}

func TestFatal(t *testing.T) {
	fatal := errors.New("the box is broken")
	x := newTester(t, Options{Fatal: func(err error) bool { return err == fatal }})
	x.typed("one")
	x.press("enter")
	x.typed("two")
	x.press("enter")
	x.send(answeredMsg{fatal})
	if !x.m.leaving || x.m.err != fatal || len(x.asked) != 1 {
		t.Errorf("leaving: %v, %v, %q", x.m.leaving, x.m.err, x.asked)
	}
}

// However long an answer is, whatever the window, every line is printed once and in order.
func TestLongAnswer(t *testing.T) {
	source := "Items:\n\n"
	for range 50 {
		source += "- an item with `code` and more words than fit\n"
	}
	source += "\n```\n" + strings.Repeat("code\n", 100) + "```\n\nThe end.\n"
	for _, size := range []tea.WindowSizeMsg{{Width: 80, Height: 24}, {Width: 40, Height: 5},
		{Width: 200, Height: 60}, {Width: 12, Height: 2}} {
		x := newTester(t, Options{})
		x.send(size)
		x.typed("q")
		x.press("enter")
		for i := 0; i < len(source); i += 7 {
			x.m.body.Write(source[i:min(i+7, len(source))])
			if i%13 == 0 {
				x.send(frameMsg{})
			}
		}
		x.send(answeredMsg{})
		want := append([]string{"> q", ""},
			markdown.Render(source, x.m.columns(), markdown.Theme{})...)
		got := strings.Split(ansi.Strip(strings.Join(x.printed, "\n")), "\n")
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%v: %s", size, diff)
		}
	}
}

func TestHostileText(t *testing.T) {
	const evil = "a\x1b]0;owned\x07b\u202e\x00\r\nc\td\u009b2J &#27;[2J"
	for _, width := range []int{200, 80, 40, 15} {
		x := newTester(t, Options{Reasoning: true, Colours: true, Hint: "hint"}, evil)
		x.send(tea.WindowSizeMsg{Width: width, Height: 20})
		x.press("up", "enter", "ctrl+r")
		x.typed("c")
		x.press("esc")
		for _, c := range []chunk.Chunk{chunk.Content{Turn: 1, Text: evil},
			chunk.Reasoning{Text: evil}, chunk.ToolCall{Name: evil, Arguments: []byte(evil)},
			chunk.ToolResult{Name: evil, Text: evil}, chunk.System{Text: evil},
			chunk.Signal{Name: evil, Fields: map[string]any{"reason": evil}},
			chunk.Sources{Sources: []chunk.Source{{Path: evil, Title: evil}}},
			chunk.Content{Turn: 2, Text: strings.Repeat(evil, 30)},
			chunk.Done{Reason: evil, Session: evil}} {
			x.send(chunkMsg{c}, frameMsg{})
		}
		x.send(tea.PasteMsg{Content: evil})
		x.press("enter")
		x.send(answeredMsg{errors.New(evil)}, answeredMsg{})
		for _, line := range x.printed {
			if rest := strings.ReplaceAll(strings.ReplaceAll(line, "\x1b[m", ""), "\x1b[0m",
				""); strings.Contains(rest, "\x1b]") || strings.Contains(rest, "\x1b[2J") {
				t.Errorf("%q", line)
			}
		}
		if len(x.asked) != 2 {
			t.Errorf("asked %q", x.asked)
		}
	}
}

// The picture keeps the row of the cursor until it was drawn with the cursor elsewhere.
func TestPictureShrinksLater(t *testing.T) {
	x := newTester(t, Options{})
	x.send(tea.PasteMsg{Content: "a\nb\nc\nd"})
	high := strings.Count(x.m.View().Content, "\n")
	check := func(when string, want int) {
		t.Helper()
		if got := strings.Count(x.m.View().Content, "\n"); got != want {
			t.Errorf("%s: %d rows, want %d", when, got+1, want+1)
		}
	}
	x.press("ctrl+c")
	check("at once", high)
	x.writes++ // perhaps the picture before
	before := x.m.View().Content
	x.send(shrinkMsg{})
	check("drawn before the mark", high)
	if x.m.View().Content == before {
		t.Error("there is no mark, so the picture may not be drawn")
	}
	x.send(shrinkMsg{})
	check("not drawn", high)
	x.m.add(note, "printed, which is not drawn")
	x.send(shrinkMsg{}, shrinkMsg{})
	if x.m.shrink != marked {
		t.Error("something printed counts as the picture")
	}
	x.send(tea.PasteMsg{Content: "e\nf"})
	x.writes++
	x.send(shrinkMsg{})
	check("drawn with two lines below a gap", 2)
	x.press("ctrl+c")
	x.send(shrinkMsg{})
	x.writes++
	x.send(shrinkMsg{})
	check("drawn again", 1)
	if x.m.shrink != resting {
		t.Error("it continues")
	}
}

// A narrower window breaks the lines of the picture, and the renderer does not know.
func TestNarrowerWindow(t *testing.T) {
	x := newTester(t, Options{})
	x.typed("q")
	x.press("enter")
	x.send(chunkMsg{chunk.Content{Turn: 1, Text: strings.Repeat("word ", 22)}}, frameMsg{})
	if rows := len(x.m.tail); rows != 3 { // with an empty line
		t.Fatalf("%d rows", rows)
	}
	x.send(tea.WindowSizeMsg{Width: 30, Height: 24})
	if x.up != 2 {
		t.Errorf("%d rows up, want 2", x.up)
	}
}

// The colours are those for the background of the terminal, if it tells.
func TestBackground(t *testing.T) {
	heading := func(background ...tea.Msg) string {
		x := newTester(t, Options{Colours: true})
		x.send(background...)
		x.typed("q")
		x.press("enter")
		x.send(chunkMsg{chunk.Content{Turn: 1, Text: "# Title"}}, answeredMsg{})
		return x.printed[len(x.printed)-1]
	}
	unknown, dark, light := heading(), heading(tea.BackgroundColorMsg{Color: color.Black}),
		heading(tea.BackgroundColorMsg{Color: color.White})
	if unknown != dark || light == dark || ansi.Strip(light) != "Title" {
		t.Errorf("unknown %q, dark %q, light %q", unknown, dark, light)
	}
}

func TestHistoryIsStored(t *testing.T) {
	name := filepath.Join(t.TempDir(), "oracle", "history")
	past, err := openHistory(name)
	must.Succeed(t, err)
	x := newTester(t, Options{})
	x.m.history = past
	x.send(tea.PasteMsg{Content: "two\nlines"})
	x.press("enter")
	again, err := openHistory(name)
	if diff := cmp.Diff([]string{"two\nlines"}, again.entries); err != nil || diff != "" {
		t.Error(err, diff)
	}
}
