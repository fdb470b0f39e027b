package picture

import (
	"fmt"
	"html"
	"strings"
)

// Document is the frame of an SVG picture.
type Document struct {
	// Class is the class of the root element, and the prefix of all ids. A page may contain
	// pictures of different classes.
	Class         string
	Width, Height int
	// Title and Description are what screen readers read.
	Title, Description string
	// Style is the style sheet, as Style returns it.
	Style string
	// Defs are definitions that the picture refers to, in a defs element.
	Defs string
}

// Render returns the document around a body.
func (d *Document) Render(body string) string {
	var b strings.Builder
	b.Grow(len(body) + 8<<10)
	fmt.Fprintf(&b, "<svg xmlns=\"http://www.w3.org/2000/svg\" class=\"%[1]s\" role=\"img\" aria-labelledby=\"%[1]s-name %[1]s-text\" width=\"%[2]d\" height=\"%[3]d\" viewBox=\"0 0 %[2]d %[3]d\">\n",
		d.Class, d.Width, d.Height)
	fmt.Fprintf(&b, "<title id=\"%[1]s-name\">%[2]s</title>\n<desc id=\"%[1]s-text\">%[3]s</desc>\n", d.Class, Escape(d.Title), Escape(d.Description))
	b.WriteString(d.Style)
	b.WriteString(d.Defs)
	fmt.Fprintf(&b, "<rect class=\"paper\" width=\"%d\" height=\"%d\"/>\n", d.Width, d.Height)
	b.WriteString(body)
	b.WriteString("</svg>\n")
	return b.String()
}

// Escape makes text safe inside an element and an attribute.
func Escape(s string) string { return html.EscapeString(s) }

// Colors are the colours that pictures share, in one of two schemes.
type Colors struct {
	Paper, Card, Ink, Faint, Line, Edge                 string
	Blue, Green, Red, Purple, Orange, Teal, Pink, Olive string
	BlueTint, GreenTint, RedTint                        string // of cards
	PurpleTint, OrangeTint, TealTint                    string // of icons
	GreenEdge, RedEdge                                  string // paler than the colour
	OnColor                                             string // for signs on a coloured ground
}

// Light returns the colours on a light ground.
func Light() Colors {
	return Colors{
		Paper: "#ffffff", Card: "#f6f8fa", Ink: "#1f2328", Faint: "#59636e", Line: "#afb8c1",
		Edge: "#d1d9e0",
		Blue: "#0969da", Green: "#1a7f37", Red: "#cf222e", Purple: "#8250df", Orange: "#bc4c00",
		Teal: "#1b7c83", Pink: "#bf3989", Olive: "#6f5d00",
		BlueTint: "#eaf5ff", GreenTint: "#eefbf1", RedTint: "#fff1f0",
		PurpleTint: "#f0e8ff", OrangeTint: "#ffeadb", TealTint: "#dbf3f4",
		GreenEdge: "#86cf98", RedEdge: "#f2a19c",
		OnColor: "#ffffff",
	}
}

// Dark returns the colours on a dark ground.
func Dark() Colors {
	return Colors{
		Paper: "#0d1117", Card: "#161b22", Ink: "#f0f6fc", Faint: "#9198a1", Line: "#57606a",
		Edge: "#3d444d",
		Blue: "#58a6ff", Green: "#3fb950", Red: "#f85149", Purple: "#b392f9", Orange: "#f0883e",
		Teal: "#4fd0d9", Pink: "#db61a2", Olive: "#d29922",
		BlueTint: "#10233d", GreenTint: "#10231a", RedTint: "#2b1518",
		PurpleTint: "#2b2142", OrangeTint: "#3d2413", TealTint: "#11343a",
		GreenEdge: "#25693a", RedEdge: "#8f3434",
		OnColor: "#0d1117",
	}
}

// Style returns the style sheet of a picture: the font, fixed rules, and the rules that depend on
// the colours, for light and dark. Colours are written out for each scheme, because renderers
// outside browsers do not support variables. All rules must begin with the picture's class, so that
// a page may contain the picture.
func Style(class, fixed string, colored func(Colors) string) string {
	return "<style>\n." + class +
		`{font-family:system-ui,-apple-system,"Segoe UI",Roboto,"Helvetica Neue",Arial,sans-serif}` + "\n" +
		fixed + colored(Light()) + "@media (prefers-color-scheme:dark){\n" + colored(Dark()) +
		"}\n</style>\n"
}
