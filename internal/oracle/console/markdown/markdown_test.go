package markdown

import (
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/charmbracelet/x/ansi"
	"github.com/google/go-cmp/cmp"

	"signalbox/internal/text"
)

func TestRender(t *testing.T) {
	for _, tt := range []struct {
		name, source string
		width        int
		want         string
	}{
		{"paragraphs", "One two three four.\nFive.\n\nSix\\\nseven &amp; \\*eight\\*.", 12,
			"One two\nthree four.\nFive.\n\nSix\nseven &\n*eight*."},
		{"headings", "# Title\ntext\n\nOther\n---\n### Third ###", 40,
			"Title\n\ntext\n\nOther\n\nThird"},
		{"emphasis", "*a* **b** ~~c~~ `d  e` __f__", 40, "a b c d e f"},
		{"list", "- one two three\n- two\n  1. a\n  2. b\n     - deep\n\n+ other", 14,
			"• one two\n  three\n• two\n  1. a\n  2. b\n     ▪ deep\n\n• other"},
		{"loose list", "1. one\n\n   more\n\n2. two\n10. ten", 20,
			"1. one\n\n   more\n\n2. two\n3. ten"},
		{"tasks", "- [x] done\n- [ ] open", 20, "• [x] done\n• [ ] open"},
		{"quote", "> one two three\n> - item\n\nafter", 12,
			"│ one two\n│ three\n│\n│ • item\n\nafter"},
		{"code", "```go\nfunc f() {\n\treturn  1 // long comment\n}\n\n\nx\n```\nafter", 20,
			"  func f() {\n      return  1 // l\n  ong comment\n  }\n\n\n  x\n\nafter"},
		{"indented code", "a\n\n    b *c*\n", 20, "a\n\n  b *c*"},
		{"rule", "a\n\n---\n\nb", 10, "a\n\n──────────\n\nb"},
		{"links", "[here](https://a.example/?x=1&amp;y=2 \"title\") <https://b.example> [https://c.example](https://evil.example) [https://d.example](https://d.example)", 200,
			"here (https://a.example/?x=1&y=2) https://b.example https://c.example (https://evil.example)\nhttps://d.example"},
		{"empty link", "[](https://a.example) ![](b.png) ![alt *x*](c.png)", 80,
			"(https://a.example) image: (b.png) image: alt x (c.png)"},
		{"definitions are not hidden", "See [a][1].\n\n[1]: https://evil.example", 80,
			"See [a][1].\n\n[1]: https://evil.example"},
		{"HTML is not hidden", "a <b>c</b> <!-- d -->\n\n<div>\n<!-- hidden -->\n</div>", 80,
			"a <b>c</b> <!-- d -->\n\n<div>\n<!-- hidden -->\n</div>"},
		{"table", "| a | long title | n |\n|---|:-:|--:|\n| x | `y` | 1 |\n| *zz* | | 22 |", 40,
			"a  │ long title │  n\n───┼────────────┼───\nx  │     y      │  1\nzz │            │ 22"},
		{"narrow table", "| name | text |\n|---|---|\n| a | one two three four five |\n", 20,
			"name │ text\n─────┼──────────────\na    │ one two three\n     │ four five"},
		{"table as records",
			"| one | two | three | four |\n|---|---|---|---|\n| alpha | beta | gamma | delta |\n| e | f | g | h |", 24, "one: alpha\ntwo: beta\nthree: gamma\nfour: delta\n\none: e\ntwo: f\nthree: g\nfour: h"},
		{"long word", "see https://example.com/a/very/long/path ok", 16,
			"see\nhttps://example.\ncom/a/very/long/\npath ok"},
		{"wide characters", "日本語の文章です ok", 10, "日本語の文\n章です ok"},
		{"emoji and marks", "a 👍🏽 b e\u0301", 10, "a 👍🏽 b e\u0301"},
		{"joiners", "a👨\u200d👩", 20, `a👨\u200d👩`},
		{"prose is not too wide", strings.Repeat("word ", 40), 200,
			strings.TrimSpace(strings.Repeat("word ", 20)) + "\n" +
				strings.TrimSpace(strings.Repeat("word ", 20))},
		{"control characters",
			"a\x1b[31mb &#27;[2J &#x9b;2J &#x202e;x \u200b `\x07` \r\n\r\n```\n\x1b]0;t\x07\rx\n```", 80,
			`a\x1b[31mb \x1b[2J \u009b2J \u202ex \u200b \a` + "\n\n" + `  \x1b]0;t\a\rx`},
		{"only spaces", " \n\n ", 80, ""},
	} {
		if diff := cmp.Diff(tt.want, strings.Join(Render(tt.source, tt.width, Theme{}),
			"\n")); diff != "" {
			t.Errorf("%s (-want +got):\n%s", tt.name, diff)
		}
	}
}

func TestTheme(t *testing.T) {
	const source = "# T\n**b** *i* `c` [l](u)"
	for name, tt := range map[string]struct {
		theme   Theme
		colours bool
	}{"plain": {NewTheme(false, true), false}, "dark": {NewTheme(true, true), true}, "light": {NewTheme(true, false), true}} {
		got := strings.Join(Render(source, 40, tt.theme), "\n")
		if !strings.Contains(got, "\x1b[1mb\x1b[") || strings.Contains(got, "38;5") != tt.colours {
			t.Errorf("%s: %q", name, got)
		}
		if ansi.Strip(got) != "T\n\nb i c l (u)" {
			t.Errorf("%s: %q", name, got)
		}
	}
	if a, b := Render(source, 40, NewTheme(true, true)),
		Render(source, 40, NewTheme(true, false)); cmp.Equal(a, b) {
		t.Error("light and dark look the same")
	}
}

const long = `# Title

Text with **bold** text
over lines.

- one
- two

  more

- three

1. a

   ~~~
   x

   y
   ~~~

2. b

` + "```go\nfunc f() {\n\n}\n```\nclose\n\n| a | b |\n|---|---|\n| 1 | 2 |\n\n> quote\n\nEnd\n"

// However a text is divided, the result is the same, and Take never returns a line that changes
// later.
func TestStreamInPieces(t *testing.T) {
	want := Render(long, 30, Theme{})
	for size := 1; size < 40; size++ {
		s := NewStream(Theme{})
		var got []string
		source := long
		if size%2 == 1 {
			source = strings.ReplaceAll(long, "\n", "\r\n")
		}
		for rest := source; rest != ""; {
			n := min(size, len(rest))
			s.Write(rest[:n])
			rest = rest[n:]
			got = append(got, s.Take(30)...)
			s.Tail(30) // changes nothing
		}
		if len(got) < len(want)/2 {
			t.Errorf("pieces of %d: only %d of %d lines before the end", size, len(got), len(want))
		}
		if diff := cmp.Diff(want, append(got, s.Close(30)...)); diff != "" {
			t.Fatalf("pieces of %d (-want +got):\n%s", size, diff)
		}
	}
}

// Lines of code are final as soon as they are complete.
func TestStreamCode(t *testing.T) {
	s := NewStream(Theme{})
	s.Write("Text:\n\n```go\nfunc f() {\n\n\tx")
	if diff := cmp.Diff([]string{"Text:", "", "  func f() {", ""}, s.Take(40)); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]string{"      x"}, s.Tail(40)); diff != "" {
		t.Error(diff)
	}
	s.Write("()\n}\n```\nend")
	if diff := cmp.Diff([]string{"      x()", "  }", "", "end"}, s.Close(40)); diff != "" {
		t.Error(diff)
	}
}

func TestStreamAfterClose(t *testing.T) {
	s := NewStream(Theme{})
	s.Write("a\n\n```\nb")
	if got := s.Close(20); !cmp.Equal(got, []string{"a", "", "  b"}) {
		t.Errorf("%q", got)
	}
	s.Write("c")
	if got := s.Close(20); !cmp.Equal(got, []string{"c"}) {
		t.Errorf("%q", got)
	}
	s.Write("d")
	s.Reset()
	if got := s.Close(20); len(got) != 0 {
		t.Errorf("%q", got)
	}
}

// A block that is too long to be rendered again and again is shown in parts, and stays the block
// that it is.
func TestStreamLongBlocks(t *testing.T) {
	code := "```go\n" + strings.Repeat("*x* := 1\n", 10_000) + "```\n"
	s := NewStream(Theme{})
	s.Write(code)
	lines := s.Take(40)
	if len(s.pending) > maxPending {
		t.Errorf("%d bytes are kept back", len(s.pending))
	}
	lines = append(lines, s.Close(40)...)
	if len(lines) != 10_000 {
		t.Errorf("%d lines", len(lines))
	}
	for _, line := range lines {
		if line != "  *x* := 1" {
			t.Fatalf("%q", line)
		}
	}
	words := strings.Repeat("日本 ", 20_000)
	got := strings.Join(Render(words, 40, Theme{}), "")
	if strings.ReplaceAll(got, " ", "") != strings.ReplaceAll(words, " ", "") {
		t.Error("words are missing")
	}
}

// hostileTexts are slow or deep for a naive parser or renderer.
func hostileTexts() map[string]string {
	n := maxPending
	return map[string]string{
		"quotes":      strings.Repeat(">", n),
		"lists":       strings.Repeat("- ", n/2),
		"brackets":    strings.Repeat("[", n),
		"images":      strings.Repeat("![", n/2),
		"links":       strings.Repeat("[a](", n/4),
		"stars":       strings.Repeat("*a_", n/3),
		"backticks":   strings.Repeat("`a``", n/4),
		"fence":       "```" + strings.Repeat("x", 3*n),
		"table":       strings.Repeat("|a", n/4) + "\n" + strings.Repeat("|-", n/4) + "\n",
		"HTML":        strings.Repeat("<a ", n/3),
		"entities":    strings.Repeat("&#27;", n/5),
		"combining":   strings.Repeat("\u0301", n),
		"invalid":     strings.Repeat("\xff\x9b", n),
		"indentation": strings.Repeat(" \n", n) + "x",
	}
}

func TestHostileTexts(t *testing.T) {
	for name, source := range hostileTexts() {
		for _, width := range []int{1, 80} {
			checkLines(t, name, Render(source, width, NewTheme(true, true)), max(width, MinWidth))
		}
	}
}

// checkLines checks that lines fit a width and contain no control characters other than styles.
func checkLines(t *testing.T, name string, lines []string, width int) {
	t.Helper()
	for _, line := range lines {
		bare := ansi.Strip(line)
		var escaped strings.Builder
		e := text.NewEscaper(&escaped)
		e.Write([]byte(bare))
		e.Close()
		if escaped.String() != bare || strings.ContainsAny(bare, "\n\t") {
			t.Fatalf("%s: control characters in %q", name, line)
		}
		if w := ansi.StringWidth(line); w > width {
			t.Fatalf("%s: %d columns, want at most %d: %q", name, w, width, line)
		}
		for rest := line; ; {
			_, after, found := strings.Cut(rest, "\x1b")
			if !found {
				break
			}
			end := strings.IndexByte(after, 'm')
			if end < 1 || after[0] != '[' || strings.Trim(after[1:end], "0123456789;:") != "" {
				t.Fatalf("%s: a sequence that is not a style in %q", name, line)
			}
			rest = after[end+1:]
		}
	}
}

func FuzzRender(f *testing.F) {
	for _, source := range hostileTexts() {
		f.Add(source[:min(len(source), 200)], 40, 7)
	}
	f.Add(long, 12, 3)
	f.Add("a\x1b[31m&#27;[2J\u202e\n\n|x|\n|-|\n|&#155;|\n", 40, 1)
	f.Fuzz(func(t *testing.T, source string, width, size int) {
		if len(source) > 512 { // each byte may be a part
			return
		}
		width, size = MinWidth+max(width, 0)%200, 1+max(size, 0)%100
		theme := NewTheme(true, false)
		checkLines(t, "whole", Render(source, width, theme), width)
		s := NewStream(theme)
		for rest := source; rest != ""; {
			n := min(size, len(rest))
			for n < len(rest) && !utf8.RuneStart(rest[n]) {
				n++
			}
			s.Write(rest[:n])
			rest = rest[n:]
			checkLines(t, "part", s.Take(width), width)
			checkLines(t, "tail", s.Tail(width), width)
		}
		checkLines(t, "rest", s.Close(width), width)
	})
}
