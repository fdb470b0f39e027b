package transcript

import "bytes"

// excerpt keeps the start and the end of a text, size bytes each.
type excerpt struct {
	size       int
	head, tail []byte // tail is trimmed to size only when it is twice as long
}

func (e *excerpt) push(p []byte) {
	if e.size == 0 {
		return
	}
	e.head = append(e.head, p[:min(len(p), e.size-len(e.head))]...)
	e.tail = append(e.tail, p[max(0, len(p)-e.size):]...)
	if len(e.tail) > 2*e.size {
		e.tail = append(e.tail[:0], e.tail[len(e.tail)-e.size:]...)
	}
}

// startLine starts a new line, unless the text is at the start of one.
func (e *excerpt) startLine() {
	if n := len(e.tail); n > 0 && e.tail[n-1] != '\n' {
		e.push([]byte{'\n'})
	}
}

func (e *excerpt) text() (head, tail string) {
	return string(e.head), string(e.tail[max(0, len(e.tail)-e.size):])
}

func (e *excerpt) clone() excerpt {
	return excerpt{e.size, bytes.Clone(e.head), bytes.Clone(e.tail)}
}
