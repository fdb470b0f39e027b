package main

import (
	"io"

	"signalbox"
)

// stream is a reader whose content is generated piece by piece.
type stream struct {
	// next returns a piece that is valid until the next call; an empty piece is the end.
	next   func() []byte
	unread []byte
}

func (s *stream) Read(p []byte) (n int, err error) {
	for n < len(p) {
		if len(s.unread) == 0 {
			s.unread = s.next()
		}
		if len(s.unread) == 0 {
			break
		}
		k := copy(p[n:], s.unread)
		s.unread = s.unread[k:]
		n += k
	}
	if n == 0 && len(p) > 0 {
		return 0, io.EOF
	}
	return n, nil
}

// newStream returns a reader of a generated transcript, as an agent program with that format prints
// it.
func newStream(blocks *generator, format signalbox.Format) *stream {
	e := envelope{format: format}
	buf := e.begin(nil)
	ended := false
	next := func() []byte {
		buf = buf[:0]
		for len(buf) == 0 && !ended {
			b, ok := blocks.next()
			if ok {
				buf = e.wrap(buf, b)
			} else {
				buf = e.end(buf)
				ended = true
			}
		}
		return buf
	}
	return &stream{next, buf}
}

// repeat returns a reader of whole copies of piece, at least size bytes in total.
func repeat(piece []byte, size int64) *stream {
	return &stream{next: func() []byte {
		if size <= 0 {
			return nil
		}
		size -= int64(len(piece))
		return piece
	}}
}
