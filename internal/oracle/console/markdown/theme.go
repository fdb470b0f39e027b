package markdown

import (
	"image/color"
	"strings"

	"charm.land/lipgloss/v2"
	"github.com/charmbracelet/x/ansi"
)

// Theme is how text is styled. The zero Theme has no styles.
type Theme struct {
	on                  bool
	heading, code, link color.Color // nil: no colour
}

// NewTheme returns the styles for a dark or light background. Without colours it has bold, italic,
// faint and underlined text only.
func NewTheme(colours, dark bool) Theme {
	t := Theme{on: true}
	if colours {
		either := lipgloss.LightDark(dark)
		t.heading = either(lipgloss.Color("25"), lipgloss.Color("14"))
		t.code = either(lipgloss.Color("94"), lipgloss.Color("180"))
		t.link = either(lipgloss.Color("25"), lipgloss.Color("12"))
	}
	return t
}

// style is the style of a span.
type style struct {
	bold, italic, underline, strike, faint bool
	heading, code, link                    bool
}

func (s style) with(change func(*style)) style {
	change(&s)
	return s
}

// render1 returns text of one line in a style.
func (t Theme) render1(text string, s style) string {
	if !t.on || text == "" || s == (style{}) {
		return text
	}
	// not a style of Lip Gloss, which writes underlined text character by character
	var how ansi.Style
	if s.bold {
		how = how.Bold()
	}
	if s.faint {
		how = how.Faint()
	}
	if s.italic {
		how = how.Italic(true)
	}
	if s.underline {
		how = how.Underline(true)
	}
	if s.strike {
		how = how.Strikethrough(true)
	}
	switch {
	case s.code && t.code != nil:
		how = how.ForegroundColor(t.code)
	case s.link && t.link != nil:
		how = how.ForegroundColor(t.link)
	case s.heading && t.heading != nil:
		how = how.ForegroundColor(t.heading)
	}
	return how.Styled(text)
}

// lines renders wrapped lines.
func (t Theme) lines(wrapped [][]span) []string {
	lines := make([]string, len(wrapped))
	for i, line := range wrapped {
		lines[i] = t.line(line)
	}
	return lines
}

// line renders a line. Neighbours with the same style are one piece.
func (t Theme) line(spans []span) string {
	var b, piece strings.Builder
	for i, s := range spans {
		piece.WriteString(s.text)
		if i == len(spans)-1 || spans[i+1].style != s.style {
			b.WriteString(t.render1(piece.String(), s.style))
			piece.Reset()
		}
	}
	return b.String()
}
