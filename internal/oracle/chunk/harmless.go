package chunk

import (
	"bytes"

	"signalbox/transcript"
)

// Harmless returns the text with the '<' of every tag of a signal that stands outside code fences made a '['. Nothing
// else changes. A text that went through transcript.Strip still has such tags where a block was not closed, too large or
// without a type, and where taking one away joined what stood around it to another; so a reader of the content, person
// or program, never meets one that looks alive.
//
// A tag is "<signal" or "</signal", in any case, with white space, '>', '/' or the end of the text after it.
func Harmless(text string) string {
	var out bytes.Buffer
	h := harmless{out: func(p []byte) { out.Write(p) }}
	h.write([]byte(text))
	h.close()
	return out.String()
}

// harmless is Harmless for a text that comes in pieces. It holds back a line's start while that may be a fence, and
// what may become a tag.
type harmless struct {
	out func([]byte) // gets text; valid during the call

	fence     fence
	line      []byte // the start of a line that may open or close a fence
	streaming bool   // the line has been judged
	opaque    bool   // the line opens or closes a fence
	begun     bool   // the first line, which may have a byte order mark, is over
	tag       []byte // the start of a tag, at most len("</signal")
}

func (h *harmless) write(p []byte) {
	for len(p) > 0 {
		n := bytes.IndexByte(p, '\n') + 1
		end := n > 0
		if !end {
			n = len(p)
		}
		h.part(p[:n])
		if end {
			h.endLine()
		}
		p = p[n:]
	}
}

func (h *harmless) close() {
	h.endLine()
	if len(h.tag) > 0 {
		h.endTag(wholeTag(h.tag))
	}
}

// part takes bytes of one line, perhaps with its line end.
func (h *harmless) part(p []byte) {
	if h.streaming {
		h.text(p)
		return
	}
	n := min(len(p), transcript.MaxTurnBlock+1-len(h.line))
	h.line = append(h.line, p[:n]...)
	if len(h.line) > transcript.MaxTurnBlock || !mayBeFence(h.unmarked(h.line)) {
		h.judge()
		h.streaming = true
	}
	if n < len(p) {
		h.text(p[n:])
	}
}

func (h *harmless) endLine() {
	if !h.streaming && len(h.line) > 0 {
		h.judge()
	}
	h.streaming, h.opaque, h.begun = false, false, true
}

const byteOrderMark = "\uFEFF"

// unmarked is a line without the byte order mark that a text may begin with; nothing while only a part of it is there.
func (h *harmless) unmarked(line []byte) []byte {
	if h.begun {
		return line
	}
	if len(line) < len(byteOrderMark) && string(line) == byteOrderMark[:len(line)] {
		return nil
	}
	return bytes.TrimPrefix(line, []byte(byteOrderMark))
}

// judge settles the line that was held back.
func (h *harmless) judge() {
	line := h.line
	h.line = line[:0]
	whole := bytes.TrimSuffix(h.unmarked(line), []byte{'\n'})
	if h.fence.size > 0 {
		if h.opaque = h.fence.closedBy(whole); h.opaque {
			h.fence = fence{}
		}
	} else if f, ok := openFence(whole); ok {
		h.fence, h.opaque = f, true
	}
	h.text(line)
}

// text takes a part of a line that has been judged.
func (h *harmless) text(p []byte) {
	if h.opaque || h.fence.size > 0 {
		h.release(p)
		return
	}
	for len(p) > 0 {
		if len(h.tag) == 0 {
			k := bytes.IndexByte(p, '<')
			if k < 0 {
				h.release(p)
				return
			}
			h.release(p[:k])
			h.tag = append(h.tag, '<')
			p = p[k+1:]
			continue
		}
		switch {
		case wholeTag(h.tag):
			h.endTag(endsName(p[0]))
		case mayBeTag(h.tag, p[0]):
			h.tag = append(h.tag, p[0])
			p = p[1:]
		default:
			h.endTag(false)
		}
	}
}

// endTag lets go of what was held back, which is a tag or is not.
func (h *harmless) endTag(is bool) {
	if is {
		h.tag[0] = '['
	}
	h.out(h.tag)
	h.tag = h.tag[:0]
}

func (h *harmless) release(p []byte) {
	if len(p) > 0 {
		h.out(p)
	}
}

const openerName, closerName = "<signal", "</signal"

func wholeTag(tag []byte) bool {
	return len(tag) == len(closerName) || len(tag) == len(openerName) && tag[1] != '/'
}

// mayBeTag reports whether c continues what may become a tag.
func mayBeTag(tag []byte, c byte) bool {
	if 'A' <= c && c <= 'Z' {
		c |= 0x20
	}
	name := openerName
	if len(tag) == 1 && c == '/' || len(tag) > 1 && tag[1] == '/' {
		name = closerName
	}
	return c == name[len(tag)]
}

// endsName reports whether c may follow a tag's name.
func endsName(c byte) bool { return c == '>' || c == '/' || isSpace(c) }

func isSpace(c byte) bool { return c == ' ' || '\t' <= c && c <= '\r' }
