package model

import (
	"bufio"
	"bytes"
	"errors"
	"io"
)

// maxEvent bounds the length of one event of a stream, and of one line of it.
const maxEvent = 16 << 20

// eventReader reads a stream of server-sent events (the text/event-stream format of the HTML
// standard). Lines may end with LF or CRLF. The fields id and retry are ignored: a reply cannot be
// resumed in the middle.
type eventReader struct {
	r    *bufio.Reader
	line []byte
	data []byte
}

func newEventReader(r io.Reader) *eventReader {
	return &eventReader{r: bufio.NewReader(r)}
}

// next returns the next event that has data. It does not wait for anything after the empty line
// that ends the event. The data is valid until the next call. The error is io.EOF at the end of the
// stream, which also discards an event without its empty line.
func (r *eventReader) next() (name string, data []byte, err error) {
	hasData := false
	r.data = r.data[:0]
	for {
		line, err := r.readLine()
		if err != nil {
			return "", nil, err
		}
		if len(line) == 0 {
			if hasData {
				return name, r.data, nil
			}
			name = ""
			continue
		}
		field, value, _ := bytes.Cut(line, []byte(":")) // a comment has an empty field name
		value = bytes.TrimPrefix(value, []byte(" "))
		switch string(field) {
		case "event":
			name = string(value)
		case "data":
			if hasData {
				r.data = append(r.data, '\n')
			}
			hasData = true
			r.data = append(r.data, value...)
			if len(r.data) > maxEvent {
				return "", nil, errTooBig
			}
		}
	}
}

// readLine returns the next line without its end. A line that the stream breaks off is lost.
func (r *eventReader) readLine() ([]byte, error) {
	r.line = r.line[:0]
	for {
		part, err := r.r.ReadSlice('\n')
		r.line = append(r.line, part...)
		if len(r.line) > maxEvent {
			return nil, errTooBig
		}
		switch {
		case err == nil:
			line := bytes.TrimSuffix(r.line, []byte("\n"))
			return bytes.TrimSuffix(line, []byte("\r")), nil
		case !errors.Is(err, bufio.ErrBufferFull):
			return nil, err
		}
	}
}
