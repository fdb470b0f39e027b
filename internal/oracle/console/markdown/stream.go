package markdown

import (
	"strings"
	"unicode/utf8"

	"github.com/yuin/goldmark/parser"
)

// maxPending limits the text that is kept back, because it is rendered again whenever it grows, and
// because the time to parse some hostile blocks grows with the square of their size.
const maxPending = 8 << 10

// Stream renders a text that arrives in pieces. Take returns what will not change any more, Tail
// the rest as it looks now.
//
// The text is divided at empty lines, outside of code, before lines that are not indented. The
// parts are rendered on their own.
type Stream struct {
	theme   Theme
	parser  parser.Parser
	pending string // not rendered yet
	started bool   // something was returned
	joined  bool   // the pending text continues the last part, so no empty line precedes it

	scanned int    // the lines of pending before this position were looked at
	blank   bool   // the last of them is empty
	fence   string // the fence of the block of code that they leave open, "" if there is none
	opening string // its first line
	ready   int    // the part of pending that will not change
}

// NewStream returns an empty Stream.
func NewStream(theme Theme) *Stream { return &Stream{theme: theme, parser: newParser()} }

// SetTheme changes the styles of what follows.
func (s *Stream) SetTheme(theme Theme) { s.theme = theme }

// Write adds text.
func (s *Stream) Write(text string) {
	if strings.HasPrefix(text, "\n") { // its \r may have come before
		s.pending = strings.TrimSuffix(s.pending, "\r")
	}
	s.pending += strings.ReplaceAll(text, "\r\n", "\n")
	s.scan()
}

// Take returns the lines that will not change any more. They are not returned again.
func (s *Stream) Take(width int) []string {
	var lines []string
	for {
		part, rest, joined := s.pending[:s.ready], s.pending[s.ready:], s.ready == 0
		switch start := len(s.opening) + len("\n"); {
		case s.ready > 0:
		case s.inCode() && s.scanned > start: // complete lines of code do not change
			part, rest = s.pending[:s.scanned], s.pending[:start]+s.pending[s.scanned:]
		case len(s.pending) > maxPending:
			part, rest = divide(s.pending)
		default:
			return lines
		}
		lines = append(lines, s.part(part, width)...)
		s.pending, s.joined = rest, joined
		s.scanned, s.ready, s.blank, s.fence, s.opening = 0, 0, false, "", ""
		s.scan()
	}
}

// Tail returns the text that Take has not returned.
func (s *Stream) Tail(width int) []string {
	started, joined := s.started, s.joined
	lines := s.part(s.pending, width)
	s.started, s.joined = started, joined
	return lines
}

// Close returns the rest. The Stream is empty afterwards, and what is written to it begins without
// an empty line.
func (s *Stream) Close(width int) []string {
	lines := s.Take(width)
	lines = append(lines, s.part(s.pending, width)...)
	*s = Stream{theme: s.theme, parser: s.parser}
	return lines
}

// Reset removes the text that Take has not returned.
func (s *Stream) Reset() { *s = Stream{theme: s.theme, parser: s.parser} }

func (s *Stream) part(source string, width int) []string {
	lines := s.theme.render(s.parser, source, width)
	if len(lines) == 0 {
		return nil
	}
	if s.started && !s.joined {
		lines = append([]string{""}, lines...)
	}
	s.started, s.joined = true, false
	return lines
}

// scan looks at the complete lines, and at the last one if its beginning is enough to judge it.
func (s *Stream) scan() {
	for s.ready == 0 && s.scanned < len(s.pending) {
		line, rest, complete := strings.Cut(s.pending[s.scanned:], "\n")
		if s.blank && s.scanned > 0 && s.fence == "" && isNewBlock(line, complete) {
			s.ready, s.blank = s.scanned, false
			return
		}
		if !complete {
			return
		}
		s.scanned = len(s.pending) - len(rest)
		closed := s.fence != "" && isClosing(line, s.fence)
		switch {
		case closed:
			if s.opening[0] == s.fence[0] { // not in a list
				s.ready = s.scanned
			}
			s.fence, s.opening = "", ""
		case s.fence == "":
			if s.fence = fenceOf(line); s.fence != "" {
				s.opening = line
			}
		}
		s.blank = strings.TrimSpace(line) == "" && !closed
	}
}

// inCode reports whether the pending text is an open block of code, and nothing else.
func (s *Stream) inCode() bool {
	return s.fence != "" && s.opening[0] == s.fence[0] && strings.HasPrefix(s.pending, s.opening)
}

// isNewBlock reports whether a line after an empty one begins a new block, and does not belong to
// the list before.
func isNewBlock(line string, complete bool) bool {
	return line != "" && line[0] != ' ' && line[0] != '\t' &&
		(complete || strings.Trim(line, "0123456789-*+") != "")
}

// fenceOf returns the fence if a line begins a block of code, also in a list or a quote.
func fenceOf(line string) string {
	line = strings.TrimLeft(line, " \t>-*+0123456789.)")
	for _, c := range []string{"`", "~"} {
		rest := strings.TrimLeft(line, c)
		if n := len(line) - len(rest); n >= 3 && (c == "~" || !strings.Contains(rest, "`")) {
			return line[:n]
		}
	}
	return ""
}

func isClosing(line, fence string) bool {
	line = strings.Trim(line, " \t>")
	return strings.HasPrefix(line, fence) && strings.Trim(line, fence[:1]) == ""
}

// divide divides a very long block at the end of a line or a word. If that is in a block of code,
// the rest begins like the block.
func divide(block string) (part, rest string) {
	at := maxPending
	if i := strings.LastIndexByte(block[:at], '\n'); i > 0 {
		at = i + 1
	} else if i := strings.LastIndexByte(block[:at], ' '); i > 0 {
		at = i + 1
	}
	for at > 1 && !utf8.RuneStart(block[at]) {
		at--
	}
	fence, opening := "", ""
	for line := range strings.Lines(block[:at]) {
		switch {
		case fence == "":
			fence, opening = fenceOf(line), line
		case isClosing(strings.TrimSpace(line), fence):
			fence = ""
		}
	}
	if fence == "" || len(opening) > maxPending/2 {
		opening = ""
	}
	return block[:at], opening + block[at:]
}
