package console

import (
	"bufio"
	"context"
	"io"
)

// LineReader reads lines. Unlike a bufio.Scanner, it lets the caller stop waiting for a line.
type LineReader struct {
	want  chan struct{}
	lines chan string
	err   error // why there are no more lines; set before lines is closed
}

// NewLineReader reads lines of at most limit bytes. It reads nothing before Next is called.
func NewLineReader(from io.Reader, limit int) *LineReader {
	r := &LineReader{want: make(chan struct{}), lines: make(chan string)}
	go func() {
		defer close(r.lines)
		in := bufio.NewScanner(from)
		in.Buffer(nil, limit)
		for range r.want {
			if !in.Scan() {
				r.err = in.Err()
				return
			}
			r.lines <- in.Text()
		}
	}()
	return r
}

// Next returns the next line, and io.EOF after the last. It must not be called again after an
// error.
func (r *LineReader) Next(ctx context.Context) (string, error) {
	select {
	case r.want <- struct{}{}:
	case <-ctx.Done():
		return "", ctx.Err()
	}
	select {
	case line, ok := <-r.lines:
		if !ok && r.err != nil {
			return "", r.err
		}
		if !ok {
			return "", io.EOF
		}
		return line, nil
	case <-ctx.Done():
		return "", ctx.Err()
	}
}
