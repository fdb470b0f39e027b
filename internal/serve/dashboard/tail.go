package dashboard

import (
	"bytes"
	"strings"
)

// tail keeps the end of what is written to it.
type tail struct {
	limit int
	data  []byte
	cut   bool
}

func (t *tail) Write(p []byte) (int, error) {
	t.data = append(t.data, p...)
	if len(t.data) > 2*t.limit {
		t.data, t.cut = append(t.data[:0], t.data[len(t.data)-t.limit:]...), true
	}
	return len(p), nil
}

// text returns the end, from the start of a line, and reports whether something is missing before it.
func (t *tail) text() (string, bool) {
	data := t.data
	if len(data) > t.limit {
		data, t.cut = data[len(data)-t.limit:], true
	}
	if _, rest, found := bytes.Cut(data, []byte("\n")); t.cut && found {
		data = rest
	}
	return strings.ToValidUTF8(string(data), "\ufffd"), t.cut
}
