package transcript

import (
	"bytes"
	"slices"
	"strings"

	"signalbox"
)

// thinkingTags are the names of the elements in which models write what they think before they say
// something.
var thinkingTags = []string{"think", "thinking", "reasoning", "scratchpad"}

// thinking finds out which part of a text is inside such elements. Elements may be nested, and one
// that is not closed extends to the end of the message.
//
// A tag in inline code, or directly after a quotation mark, an opening bracket or a mark of
// emphasis, is one that the agent mentions.
type thinking struct {
	depth int
	// closes is how many tags closed an element that was not open: some servers of models keep the
	// opening tag for themselves.
	closes int

	tag     [len("</scratchpad")]byte // what the text has of a tag, up to the end of its name
	length  int                       // of tag
	before  byte                      // the last byte before tag, or before the text that follows
	mention bool                      // the tag is only mentioned
	ticks   int                       // how many backquotes the line has had
}

// startLine is called at the start of each line. No name of a tag continues in the next line.
func (t *thinking) startLine() { t.length, t.before, t.ticks = 0, '\n', 0 }

// advance takes a part of a line, up to where an element starts or ends, and returns how much it
// took.
func (t *thinking) advance(part []byte) int {
	depth, closes := t.depth, t.closes
	for i := 0; i < len(part); i++ {
		if t.length == 0 {
			n := bytes.IndexByte(part[i:], '<')
			if n < 0 {
				t.before = part[len(part)-1]
				t.ticks += bytes.Count(part[i:], []byte{'`'})
				return len(part)
			}
			if n > 0 {
				t.before = part[i+n-1]
				t.ticks += bytes.Count(part[i:i+n], []byte{'`'})
			}
			i += n
			t.mention = t.ticks%2 == 1 || strings.IndexByte("\"'`*([", t.before) >= 0
			t.tag[0], t.length = '<', 1
			continue
		}
		t.takeTag(part[i])
		if t.depth != depth || t.closes != closes {
			return i + 1
		}
	}
	return len(part)
}

// takeTag takes the byte that follows what the text has of a tag.
func (t *thinking) takeTag(c byte) {
	if t.length < len(t.tag) {
		t.tag[t.length] = c
		if isTagPrefix(t.tag[:t.length+1]) {
			t.length++
			return
		}
	}
	name, closing := strings.CutPrefix(strings.ToLower(string(t.tag[1:t.length])), "/")
	complete := slices.Contains(thinkingTags, name) && !t.mention
	switch {
	case complete && closing && (c == ' ' || c == '\t'): // blanks may precede the bracket
		return
	case complete && closing && c == '>' && t.depth == 0:
		t.closes++
	case complete && closing && c == '>':
		t.depth--
	case complete && !closing && strings.IndexByte(" \t\r\n>", c) >= 0:
		t.depth++
	}
	if t.length, t.before = 0, c; c == '`' {
		t.ticks++
	}
	if c == '<' { // the start of another tag, after a letter or a bracket
		t.mention, t.length = false, 1
	}
}

// isTagPrefix reports whether b is the start of a tag, at most up to the end of its name.
func isTagPrefix(b []byte) bool {
	name := strings.TrimPrefix(string(b[1:]), "/")
	return slices.ContainsFunc(thinkingTags, func(tag string) bool {
		return len(name) <= len(tag) && strings.EqualFold(tag[:len(name)], name)
	})
}

// thoughtBefore returns the remark that all text of the turn before an offset is what the agent
// thought.
func thoughtBefore(offset int64, line int) signalbox.Signal {
	return signalbox.Signal{Offset: offset, Line: line, Refused: signalbox.ReasonThinking,
		Detail: "the tag closes what was not opened: no signal before it counts"}
}

// refuseThoughts refuses the signals before the last such remark.
func refuseThoughts(signals []signalbox.Signal) {
	thought := false
	for i := range slices.Backward(signals) {
		s := &signals[i]
		thought = thought || s.Dialect == "" && s.Refused == signalbox.ReasonThinking
		if thought && s.Taken() {
			s.Refused = signalbox.ReasonThinking
		}
	}
}
