package transcript

import (
	"bytes"
	"strings"
	"unicode/utf8"

	"signalbox/transcript/internal/lines"
)

// Content returns what of a model's reply is shown to people and kept: Strip of it, with the '<' of every tag of a
// signal that is left outside code fences made a '[', as UTF-8. Such tags are left where a block was not closed, too large
// or without a type, and where taking one away joined what stood around it to another, or moved a fence; so a reader of
// the content, person or program, never meets one that looks alive. Bytes that are not UTF-8 are shown as U+FFFD.
//
// A tag is "<signal" or "</signal", in any case, with white space, '>', '/' or the end of the text after it.
func Content(reply string) string {
	if text, ok := tagless(reply); ok {
		return text
	}
	c := NewContentStream()
	return c.Push([]byte(reply)) + c.Close()
}

// tagless is Content of a reply with no tags, which most are; it reports false for others.
func tagless(reply string) (string, bool) {
	for rest := reply; ; {
		_, after, found := strings.Cut(rest, "<")
		if !found {
			break
		}
		name := strings.TrimPrefix(after, "/")
		if len(name) >= len(turnName) && strings.EqualFold(name[:len(turnName)], turnName) {
			return "", false
		}
		rest = after
	}
	text := strings.TrimRight(reply, lines.Space)
	if len(reply)-len(text) > maxSpaceRuns {
		return "", false // some of it may stay
	}
	if !utf8.ValidString(text) {
		text = string([]rune(text))
	}
	return text, true
}

const turnName = "signal"

// ContentStream is Content for a reply that comes in pieces: together they give the same content for every way of cutting
// it. It holds back what StripStream does, the start of a line that may be a fence once more, what may become a tag, and a
// rune of which a part is missing. All else comes out of the call that brought it. A ContentStream is used by one
// goroutine at a time.
type ContentStream struct {
	strip  *StripStream
	fencer *lines.Fencer // of what StripStream left
	tag    []byte        // the start of a tag, at most its name
	runes  lines.Runes
	out    []byte
}

// NewContentStream returns a ContentStream for one reply.
func NewContentStream() *ContentStream {
	c := &ContentStream{}
	c.fencer = lines.NewFencer(c.text)
	c.strip = NewStripStream(c.fencer)
	return c
}

// Push takes the next piece of the reply, of which it keeps nothing, and returns the content that became certain, "" if
// none did. It is whole runes.
func (c *ContentStream) Push(p []byte) string {
	c.strip.Write(p) // a Fencer does not fail
	return c.take()
}

// Close ends the reply and returns the rest of the content. The ContentStream is of no use after it.
func (c *ContentStream) Close() string {
	c.strip.Close()
	c.fencer.EndLine()
	if len(c.tag) > 0 {
		c.endTag(isTagName(c.tag))
	}
	c.out = c.runes.End(c.out)
	return c.take()
}

func (c *ContentStream) take() string {
	text := string(c.out)
	c.out = c.out[:0]
	return text
}

// text takes a part of a line. A tag does not go beyond its line: the line end ends its name.
func (c *ContentStream) text(p []byte, fenced bool) {
	for len(p) > 0 {
		if len(c.tag) == 0 {
			n := bytes.IndexByte(p, '<')
			if n < 0 || fenced {
				c.show(p)
				return
			}
			c.show(p[:n])
			c.tag, p = append(c.tag, '<'), p[n+1:]
			continue
		}
		more := append(c.tag, p[0])
		switch {
		case isTagName(c.tag):
			c.endTag(endsName(p[0]))
		case hasFoldedPrefix(openerName, more) || hasFoldedPrefix(closerName, more):
			c.tag, p = more, p[1:]
		default:
			c.endTag(false)
		}
	}
}

// endTag lets go of what was held back, which is a tag or is not.
func (c *ContentStream) endTag(is bool) {
	if is {
		c.tag[0] = '['
	}
	c.show(c.tag)
	c.tag = c.tag[:0]
}

func (c *ContentStream) show(p []byte) { c.out = c.runes.Append(c.out, p) }

// isTagName reports whether what begins like a tag has all of its name.
func isTagName(tag []byte) bool {
	return len(tag) == len(closerName) || len(tag) == len(openerName) && tag[1] != '/'
}
