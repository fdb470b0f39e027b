package progress

import (
	"slices"
	"strings"
	"unicode"

	tea "charm.land/bubbletea/v2"
	"charm.land/lipgloss/v2"

	"signalbox/internal/text"
)

// field is a text of several lines that the user writes. There is a package for it, but that
// searches PATH for programs of the clipboard whenever signalbox starts, also where there is no
// screen.
type field struct {
	text []rune
	at   int // the position of the cursor
	goal int // the column that moving up and down returns to, -1 if it is that of the cursor
	top  int // the first row that is shown
}

func newField(written string) field {
	return field{text: []rune(written), at: len([]rune(written)), goal: -1}
}

// value returns the text.
func (f *field) value() string { return string(f.text) }

// insert inserts text at the cursor, without the characters that a terminal would obey or hide.
func (f *field) insert(words string) {
	words = strings.ReplaceAll(strings.ReplaceAll(words, "\r\n", "\n"), "\r", "\n")
	runes := []rune(strings.Map(func(r rune) rune {
		if text.IsUnsafe(r) {
			return -1
		}
		return r
	}, words))
	f.text, f.at, f.goal = slices.Insert(f.text, f.at, runes...), f.at+len(runes), -1
}

// remove removes the text between two positions.
func (f *field) remove(from, to int) {
	f.text, f.at, f.goal = slices.Delete(f.text, from, to), from, -1
}

// press handles a key. width is that of the field.
func (f *field) press(key tea.KeyPressMsg, width int) {
	switch key.String() {
	case "enter", "ctrl+j", "shift+enter", "alt+enter":
		f.insert("\n")
	case "left", "ctrl+b":
		f.move(max(f.at-1, 0))
	case "right", "ctrl+f":
		f.move(min(f.at+1, len(f.text)))
	case "alt+left", "ctrl+left", "alt+b":
		f.move(f.wordBefore())
	case "alt+right", "ctrl+right", "alt+f":
		f.move(f.wordAfter())
	case "home", "ctrl+a":
		f.move(f.lineStart())
	case "end", "ctrl+e":
		f.move(f.lineEnd())
	case "up", "ctrl+p":
		f.moveRows(-1, width)
	case "down", "ctrl+n":
		f.moveRows(1, width)
	case "backspace", "ctrl+h":
		f.remove(max(f.at-1, 0), f.at)
	case "delete":
		f.remove(f.at, min(f.at+1, len(f.text)))
	case "ctrl+w", "alt+backspace":
		f.remove(f.wordBefore(), f.at)
	case "ctrl+u":
		f.remove(f.lineStart(), f.at)
	case "ctrl+k":
		f.remove(f.at, f.lineEnd())
	default:
		f.insert(key.Text)
	}
}

func (f *field) move(to int) { f.at, f.goal = to, -1 }

// lineStart and lineEnd return where the line of the cursor starts and ends.
func (f *field) lineStart() int {
	at := f.at
	for at > 0 && f.text[at-1] != '\n' {
		at--
	}
	return at
}

func (f *field) lineEnd() int {
	at := f.at
	for at < len(f.text) && f.text[at] != '\n' {
		at++
	}
	return at
}

// wordBefore and wordAfter return where the word before the cursor starts, and the one after it
// ends.
func (f *field) wordBefore() int {
	at := f.at
	for at > 0 && unicode.IsSpace(f.text[at-1]) {
		at--
	}
	for at > 0 && !unicode.IsSpace(f.text[at-1]) {
		at--
	}
	return at
}

func (f *field) wordAfter() int {
	at := f.at
	for at < len(f.text) && unicode.IsSpace(f.text[at]) {
		at++
	}
	for at < len(f.text) && !unicode.IsSpace(f.text[at]) {
		at++
	}
	return at
}

// row is a row of the field: the text from one position to another.
type row struct{ from, to int }

// rows breaks the text into rows that are at most width wide, at spaces where there are any. A row
// keeps the space at its end, which is not drawn. There is always a row for the cursor behind the
// last character.
func (f *field) rows(width int) (rows []row) {
	start, space, used := 0, -1, 0
	for i := 0; i < len(f.text); i++ {
		r := f.text[i]
		if r == '\n' {
			rows, start, space, used = append(rows, row{start, i}), i+1, -1, 0
			continue
		}
		if w := runeWidth(r); used+w > width && i > start && !(r == ' ' && used == width) {
			end := i
			if space >= start {
				end = space + 1
			}
			rows, start, space = append(rows, row{start, end}), end, -1
			used = f.width(row{start, i})
		}
		if r == ' ' {
			space = i
		}
		used += runeWidth(r)
	}
	return append(rows, row{start, len(f.text)})
}

// runeWidth returns the width of a character on the terminal.
func runeWidth(r rune) int {
	if r == '\t' {
		return tabWidth
	}
	return lipgloss.Width(string(r))
}

func (f *field) width(r row) (width int) {
	for _, c := range f.text[r.from:r.to] {
		width += runeWidth(c)
	}
	return width
}

// place returns the row and the column of the cursor.
func (f *field) place(rows []row) (at, column int) {
	for i, r := range rows {
		if f.at >= r.from && (f.at < r.to || i == len(rows)-1 || f.at == r.to &&
			rows[i+1].from > r.to) {
			return i, f.width(row{r.from, f.at})
		}
	}
	return len(rows) - 1, 0
}

// moveRows moves the cursor up or down.
func (f *field) moveRows(by, width int) {
	rows := f.rows(width)
	at, column := f.place(rows)
	if f.goal < 0 {
		f.goal = column
	}
	to := at + by
	if to < 0 || to >= len(rows) {
		return
	}
	f.at = rows[to].from
	last := rows[to].to
	// a broken line: the position behind it is on the next row
	if to < len(rows)-1 && rows[to+1].from == last {
		last--
	}
	for used := 0; f.at < last && used+runeWidth(f.text[f.at]) <= f.goal; f.at++ {
		used += runeWidth(f.text[f.at])
	}
}

// draw draws as many rows as fit, and returns where the cursor is.
func (f *field) draw(width, height int) (lines []string, x, y int) {
	rows := f.rows(width)
	at, column := f.place(rows)
	f.top = min(max(f.top, at-height+1, 0), at, max(len(rows)-height, 0))
	for _, r := range rows[f.top:min(f.top+height, len(rows))] {
		lines = append(lines, strings.ReplaceAll(string(f.text[r.from:r.to]), "\t",
			strings.Repeat(" ", tabWidth)))
	}
	return lines, min(column, width), at - f.top
}
