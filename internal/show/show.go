// Package show formats what people read on a terminal: amounts, text that fits a width, tables and
// colours. It writes nothing.
package show

import (
	"fmt"
	"slices"
	"sort"
	"strings"
	"time"
	"unicode"

	"charm.land/lipgloss/v2"

	"signalbox/internal/text"
)

// Took formats how long a program ran: 40ms, 1.2s, 38s, 2m05s.
func Took(d time.Duration) string {
	switch d = max(d, 0); {
	case d < time.Second:
		return d.Round(time.Millisecond).String()
	case d < 10*time.Second:
		return fmt.Sprintf("%.1fs", d.Seconds())
	}
	return text.Duration(d.Round(time.Second))
}

// Tokens formats a number of tokens: 950, 12.3k, 4.5M.
func Tokens(n int64) string {
	switch {
	case n < 1000:
		return fmt.Sprintf("%d", n)
	case n < 999_950:
		return fmt.Sprintf("%.1fk", float64(n)/1e3)
	default:
		return fmt.Sprintf("%.1fM", float64(n)/1e6)
	}
}

// Dollars formats a cost in millionths of a dollar.
func Dollars(micros int64) string {
	if micros > 0 && micros < 10_000 {
		return fmt.Sprintf("$%.4f", float64(micros)/1e6)
	}
	return fmt.Sprintf("$%.2f", float64(micros)/1e6)
}

// Sum marks an amount to which something that is not known must be added: "$1.20 + unknown".
func Sum(amount string, unknown int64) string {
	if unknown > 0 {
		return amount + " + unknown"
	}
	return amount
}

// OneLine returns escaped text on one line, with spaces for line ends.
func OneLine(s string) string {
	return text.Printable(strings.TrimSpace(strings.NewReplacer("\r\n", " ", "\n", " ", "\r", " ",
		"\t", " ").Replace(s)))
}

// OnScreen returns text on one line that is safe for a terminal: escaped, and with few combining
// marks per letter, because stacks of them would spill over other lines.
func OnScreen(text string) string {
	marks := 0
	return strings.Map(func(r rune) rune {
		if !unicode.In(r, unicode.Mn, unicode.Me) {
			marks = 0
			return r
		}
		if marks++; marks > maxMarks {
			return -1
		}
		return r
	}, OneLine(text))
}

// maxMarks is the most combining marks per letter.
const maxMarks = 3

// Cut shortens printable text to a width on the terminal.
func Cut(text string, width int) string {
	if width <= 0 {
		return ""
	}
	if lipgloss.Width(text) <= width {
		return text
	}
	runes := []rune(text)
	runes = runes[:min(len(runes), 4*width)] // bounds the search for text full of combining marks
	tooLong := sort.Search(len(runes),
		func(n int) bool { return lipgloss.Width(string(runes[:n+1])) > width-1 })
	return string(runes[:tooLong]) + "…"
}

// Fit cuts or pads text to a width.
func Fit(text string, width int) string {
	text = Cut(text, width)
	return text + strings.Repeat(" ", max(width-lipgloss.Width(text), 0))
}

// Wrap breaks printable text into at most n lines, at spaces where there are any.
func Wrap(text string, width, n int) []string {
	var lines []string
	for len(lines) < n-1 && lipgloss.Width(text) > width {
		head := strings.TrimSuffix(Cut(text, width+1), "…")
		if at := strings.LastIndex(head, " "); at > len(head)/2 {
			head = head[:at]
		}
		if head == "" {
			break
		}
		lines = append(lines, strings.TrimRight(head, " "))
		text = strings.TrimLeft(text[len(head):], " ")
	}
	return append(lines, Cut(text, width))
}

// Pack joins texts to lines of at most width columns, each with as many texts as fit. A text that
// is longer has a line of its own.
func Pack(texts []string, separator string, width int) (lines []string) {
	for _, text := range texts {
		if n := len(lines) - 1; n >= 0 && lipgloss.Width(lines[n]+separator+text) <= width {
			lines[n] += separator + text
			continue
		}
		lines = append(lines, text)
	}
	return lines
}

// columnGap is the space between two columns of a table.
const columnGap = "  "

// Table formats rows whose last column is a title. To fit a width it shortens the titles and, if
// little would remain of them, leaves out columns after the second, and the titles last: ids and
// states are always complete. A width of 0 means no limit.
func Table(rows [][]string, width int) (lines []string) {
	const enough = 16 // of a title, to recognise the task
	columns := make([]int, len(rows[0]))
	for _, row := range rows {
		for i, cell := range row {
			columns[i] = max(columns[i], lipgloss.Width(cell))
		}
	}
	title := len(columns) - 1
	next, room := 2, columns[title] // the column after the second, and the width of the titles
	if width > 0 {
		left := width
		for _, column := range columns[:title] {
			left -= column + len(columnGap)
		}
		for ; next < title && left < min(columns[title], enough); next++ {
			left += columns[next] + len(columnGap)
		}
		if room = min(room, left); room < lipgloss.Width(rows[0][title]) {
			room = 0
		}
	}
	for _, row := range rows {
		line := ""
		for i, cell := range row[:title] {
			if i < 2 || i >= next {
				line += Fit(cell, columns[i]) + columnGap
			}
		}
		lines = append(lines, strings.TrimRight(line+Cut(row[title], room), " "))
	}
	return lines
}

// Columns formats rows of a table. To fit a width it leaves out columns, by their names in the
// first row, in the order of drop. If the rest is still too wide, it cuts the lines, and reports
// that the table does not fit. A width of 0 means no limit.
func Columns(rows [][]string, width int, drop ...string) (lines []string, fits bool) {
	widths := make([]int, len(rows[0]))
	for _, row := range rows {
		for i, cell := range row {
			widths[i] = max(widths[i], lipgloss.Width(cell))
		}
	}
	shown := make([]bool, len(widths))
	total := -len(columnGap)
	for i, width := range widths {
		shown[i] = true
		total += width + len(columnGap)
	}
	for _, name := range drop {
		if i := slices.Index(rows[0], name); i >= 0 && width > 0 && total > width {
			shown[i] = false
			total -= widths[i] + len(columnGap)
		}
	}
	for _, row := range rows {
		line := ""
		for i, cell := range row {
			if shown[i] {
				line += Fit(cell, widths[i]) + columnGap
			}
		}
		if line = strings.TrimRight(line, " "); width > 0 {
			line = Cut(line, width)
		}
		lines = append(lines, line)
	}
	return lines, width == 0 || total <= width
}

// Palette has a style for each meaning. The zero palette has no styles.
type Palette struct {
	strong, faint, good, busy, warn, bad lipgloss.Style
	on                                   bool
}

// NewPalette returns the styles for a dark or light background. Without colours it has bold and
// faint text only.
func NewPalette(colours, dark bool) Palette {
	plain := lipgloss.NewStyle()
	p := Palette{strong: plain.Bold(true), faint: plain.Faint(true), good: plain, busy: plain,
		warn: plain.Bold(true), bad: plain.Bold(true), on: true}
	if !colours {
		return p
	}
	either := lipgloss.LightDark(dark)
	p.good = plain.Foreground(either(lipgloss.Color("28"), lipgloss.Color("2")))
	p.busy = plain.Foreground(either(lipgloss.Color("25"), lipgloss.Color("14")))
	p.warn = plain.Foreground(either(lipgloss.Color("130"), lipgloss.Color("3")))
	p.bad = plain.Foreground(either(lipgloss.Color("160"), lipgloss.Color("9")))
	return p
}

// AnyBackground returns the styles for a background that is not known: with the colours that every
// terminal adapts to it.
func AnyBackground() Palette {
	p := NewPalette(false, false)
	p.good, p.busy, p.warn, p.bad = p.good.Foreground(lipgloss.Green),
		p.busy.Foreground(lipgloss.Cyan), p.warn.Foreground(lipgloss.Yellow),
		p.bad.Foreground(lipgloss.Red)
	return p
}

// Strong and the other methods return text in a style.
func (p Palette) Strong(text string) string { return p.with(p.strong, text) }
func (p Palette) Faint(text string) string  { return p.with(p.faint, text) }
func (p Palette) Good(text string) string   { return p.with(p.good, text) }
func (p Palette) Busy(text string) string   { return p.with(p.busy, text) }
func (p Palette) Warn(text string) string   { return p.with(p.warn, text) }
func (p Palette) Bad(text string) string    { return p.with(p.bad, text) }

func (p Palette) with(s lipgloss.Style, text string) string {
	if !p.on || text == "" {
		return text
	}
	return s.Render(text)
}

// Shortest returns the first of some texts that fits a width, or the last one, cut.
func Shortest(width int, texts ...string) string {
	if i := slices.IndexFunc(texts,
		func(text string) bool { return lipgloss.Width(text) <= width }); i >= 0 {
		return texts[i]
	}
	return Cut(texts[len(texts)-1], width)
}
