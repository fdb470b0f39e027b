package markdown

import (
	"strings"

	"github.com/charmbracelet/x/ansi"
)

// span is text in one style.
type span struct {
	text  string
	style style
}

// columns returns the width of a text.
func columns(text string) int { return ansi.StringWidth(text) }

// cut returns the part of a text that fits a width, at least one character, and the rest.
func cut(text string, width int) (first, rest string) {
	at, used := 0, 0
	for at < len(text) {
		cluster, w := ansi.FirstGraphemeCluster(text[at:], ansi.GraphemeWidth)
		if len(cluster) == 0 || at > 0 && used+w > width {
			break
		}
		at, used = at+len(cluster), used+w
	}
	return text[:at], text[at:]
}

// word is what is kept on one line if it fits.
type word struct {
	spans []span
	width int
	space *span // precedes the word, nil: nothing does
	ends  bool  // it is the end of a line, and has no text
}

// wrap breaks text into lines at spaces and between wide characters. A word that is wider than a
// line is broken anywhere.
func wrap(spans []span, width int) [][]span {
	var lines [][]span
	var line []span
	used := 0
	end := func() { lines, line, used = append(lines, line), nil, 0 }
	for _, w := range words(spans) {
		if w.ends {
			end()
			continue
		}
		gap := 0
		if w.space != nil && used > 0 {
			gap = 1
		}
		if used > 0 && used+gap+w.width > width {
			end()
			gap = 0
		}
		if gap > 0 {
			line, used = append(line, *w.space), used+1
		}
		for _, s := range w.spans {
			for rest := s.text; rest != ""; {
				first, more := cut(rest, width-used)
				if used > 0 && used+columns(first) > width {
					end()
					continue
				}
				line, used, rest = append(line, span{first, s.style}), used+columns(first), more
				if rest != "" {
					end()
				}
			}
		}
	}
	if len(line) > 0 {
		end()
	}
	return lines
}

// words splits text into words.
func words(spans []span) []word {
	var all []word
	var now word
	end := func() {
		if len(now.spans) > 0 {
			all = append(all, now)
			now = word{}
		}
	}
	add := func(text string, w int, s style) {
		if last := len(now.spans) - 1; last >= 0 && now.spans[last].style == s {
			now.spans[last].text += text
		} else {
			now.spans = append(now.spans, span{text, s})
		}
		now.width += w
	}
	for _, s := range spans {
		if s.text == "\n" {
			end()
			now = word{}
			all = append(all, word{ends: true})
			continue
		}
		for rest := s.text; rest != ""; {
			if rest[0] == ' ' {
				end()
				now.space = &span{" ", s.style}
				rest = rest[1:]
				continue
			}
			if n := asciiWord(rest); n > 0 {
				add(rest[:n], n, s.style)
				rest = rest[n:]
				continue
			}
			cluster, w := ansi.FirstGraphemeCluster(rest, ansi.GraphemeWidth)
			if w > 1 { // a line may be broken on both sides
				end()
			}
			add(cluster, w, s.style)
			if w > 1 {
				end()
			}
			rest = rest[len(cluster):]
		}
	}
	end()
	return all
}

// asciiWord returns the length of the printable ASCII text without spaces at the beginning of s.
// The last character is left out if a combining character may follow.
func asciiWord(s string) int {
	n := strings.IndexFunc(s, func(r rune) bool { return r <= ' ' || r >= 0x7f })
	switch {
	case n < 0:
		return len(s)
	case n > 0 && s[n] >= 0x80:
		return n - 1
	}
	return n
}
