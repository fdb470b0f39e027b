package transcript

import (
	"bytes"
	"strings"
	"unicode/utf8"

	"signalbox/transcript/internal/lines"
)

// Content returns the part of a model's reply to show to people and to keep: the result of Strip,
// with the '<' of each remaining signal tag outside code fences replaced by '['. Tags remain where
// a block is in a code span, is not closed, is too large or has no type, and where removing a block
// joined the text around it or moved a fence. After the replacement no reader of the content,
// person or program, can take one for a signal. Bytes that are not UTF-8 become U+FFFD.
//
// A tag is "<signal" or "</signal", in any case, followed by white space, '>', '/' or the end of
// the text.
func Content(reply string) string {
	if text, ok := contentWithoutTags(reply); ok {
		return text
	}
	c := NewContentStream()
	return c.Push([]byte(reply)) + c.Close()
}

// contentWithoutTags is Content for replies without tags, as most are. It returns false for others.
func contentWithoutTags(reply string) (string, bool) {
	for rest := reply; ; {
		_, after, found := strings.Cut(rest, "<")
		if !found {
			break
		}
		name := strings.TrimPrefix(after, "/")
		if len(name) >= len(tagName) && strings.EqualFold(name[:len(tagName)], tagName) {
			return "", false
		}
		rest = after
	}
	text := strings.TrimRight(reply, lines.Space)
	if len(reply)-len(text) > maxSpaceRuns {
		return "", false // Strip may keep some of it
	}
	if !utf8.ValidString(text) {
		text = string([]rune(text))
	}
	return text, true
}

const tagName = "signal"

// ContentStream is Content for a reply that arrives in pieces. However the reply is cut, the
// content is the same. A ContentStream holds back what a StripStream does, the start of a line that
// may be a fence, text that may become a tag, and an incomplete rune. Everything else is returned
// by the call that passed it in. A ContentStream must not be used concurrently.
type ContentStream struct {
	strip  *StripStream
	fencer *lines.Fencer // of the stripped text
	tag    []byte        // the start of a tag, at most up to its name
	runes  lines.Runes
	out    []byte
}

// NewContentStream returns a ContentStream for one reply.
func NewContentStream() *ContentStream {
	c := &ContentStream{}
	c.fencer = lines.NewFencer(c.part)
	c.strip = NewStripStream(c.fencer)
	return c
}

// Push takes the next piece of the reply and returns the content that is complete now, which may be
// "". It returns whole runes and does not retain p.
func (c *ContentStream) Push(p []byte) string {
	c.strip.Write(p) // a Fencer does not fail
	return c.take()
}

// Close ends the reply and returns the rest of the content. The ContentStream must not be used
// afterwards.
func (c *ContentStream) Close() string {
	c.strip.Close()
	c.fencer.EndLine()
	if len(c.tag) > 0 {
		c.endTag(hasTagName(c.tag))
	}
	c.out = c.runes.End(c.out)
	return c.take()
}

func (c *ContentStream) take() string {
	text := string(c.out)
	c.out = c.out[:0]
	return text
}

// part takes part of a line. A tag does not extend beyond its line, because a line end ends its
// name.
func (c *ContentStream) part(p []byte, fenced bool) {
	for len(p) > 0 {
		if len(c.tag) == 0 {
			n := bytes.IndexByte(p, '<')
			if n < 0 || fenced {
				c.write(p)
				return
			}
			c.write(p[:n])
			c.tag, p = append(c.tag, '<'), p[n+1:]
			continue
		}
		longer := append(c.tag, p[0])
		switch {
		case hasTagName(c.tag):
			c.endTag(endsName(p[0]))
		case isFoldedPrefix(longer, openingName) || isFoldedPrefix(longer, closingName):
			c.tag, p = longer, p[1:]
		default:
			c.endTag(false)
		}
	}
}

// endTag writes the text that may be a tag, now that it is known whether it is one.
func (c *ContentStream) endTag(isTag bool) {
	if isTag {
		c.tag[0] = '['
	}
	c.write(c.tag)
	c.tag = c.tag[:0]
}

func (c *ContentStream) write(p []byte) { c.out = c.runes.Append(c.out, p) }

// hasTagName reports whether the start of a tag includes its whole name.
func hasTagName(tag []byte) bool {
	return len(tag) == len(closingName) || len(tag) == len(openingName) && tag[1] != '/'
}
