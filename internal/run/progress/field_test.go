package progress

import (
	"strings"
	"testing"

	"charm.land/lipgloss/v2"
)

func TestField(t *testing.T) {
	for _, tt := range []struct {
		name, written string
		keys          []string
		want          string // | is the cursor
	}{
		{"typing", "", []string{"a", "b"}, "ab|"},
		{"lines", "a", []string{"enter", "b", "enter"}, "a\nb\n|"},
		{"removing", "abc", []string{"backspace", "left", "delete"}, "a|"},
		{"removing at the ends", "a", []string{"delete", "home", "backspace"}, "|a"},
		{"ends of a line", "ab\ncd\nef", []string{"up", "home", "x", "end", "y"}, "ab\nxcdy|\nef"},
		{"the rest of a line", "ab cd", []string{"left", "left", "ctrl+k", "ctrl+u"}, "|"},
		{"words", "one two  three", []string{"ctrl+w", "alt+b", "x"}, "one x|two  "},
		{"after a word", "one two", []string{"home", "alt+f", "x"}, "onex| two"},
		{"up and down keep the column", "abcd\na\nabcd", []string{"up", "up", "down", "down", "x"},
			"abcd\na\nabcdx|"},
		{"up on the first row", "ab", []string{"left", "up", "x"}, "ax|b"},
		{"rows of a broken line", "aaaa bbbb cccc", []string{"up", "x"}, "aaaax| bbbb cccc"},
		{"keys without text", "", []string{"alt+x", "tab", "ctrl+g"}, "|"},
		{"wide characters", "質問", []string{"left", "x"}, "質x|問"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			f := newField(tt.written)
			for _, name := range tt.keys {
				f.press(keyPress(name), 10)
			}
			if got := string(f.text[:f.at]) + "|" + string(f.text[f.at:]); got != tt.want {
				t.Errorf("%q, want %q", got, tt.want)
			}
		})
	}
}

// A text that is pasted is kept as it is, except for what a terminal would obey.
func TestPasteIntoField(t *testing.T) {
	f := newField("a\n")
	f.insert("one\r\ntwo\rthree\n\tfour \x1b[2J\u202e\x00质👍🏽\u200d")
	if got := f.value(); got != "a\none\ntwo\nthree\n\tfour [2J质👍🏽" {
		t.Errorf("%q", got)
	}
}

// Whatever is written, the rows have the whole text, fit the width, and the cursor is among them.
func TestFieldRowsFit(t *testing.T) {
	for _, written := range []string{"", " ", "\n", "a", "aaaaaaaaaaaaaaaaaaaaaaaaaa",
		"aa bb cc dd ee ff", strings.Repeat("質問 ", 9), "a\tb\tc", "          ", "aaaaa bbbbb",
		"\n\n\n", "word " + strings.Repeat("x", 30) + " end"} {
		for width := 4; width < 20; width++ {
			f := newField(written)
			for f.at = range len(f.text) + 1 {
				rows := f.rows(width)
				end := 0
				for i, r := range rows {
					if r.from < end || r.from > end+1 || r.to < r.from {
						t.Fatalf("%q at %d: %v", written, width, rows)
					}
					if line := strings.TrimRight(string(f.text[r.from:r.to]),
						" "); !strings.Contains(line, "\t") && lipgloss.Width(line) > width {
						t.Fatalf("%q at %d: row %d is %q", written, width, i, line)
					}
					end = r.to
				}
				if end != len(f.text) {
					t.Fatalf("%q at %d: %v", written, width, rows)
				}
				lines, x, y := f.draw(width, 3)
				if len(lines) > 3 || x < 0 || x > width || y < 0 || y >= len(lines) {
					t.Fatalf("%q at %d: cursor %d,%d in %q", written, width, x, y, lines)
				}
			}
		}
	}
}
