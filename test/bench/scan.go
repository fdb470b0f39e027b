package main

import (
	"fmt"
	"io"

	"signalbox"
	"signalbox/transcript"
)

// pieceSize is the number of bytes that every contestant in this program reads at once.
const pieceSize = 256 << 10

// checker compares the signals that a scanner finds with those that were planted.
type checker struct {
	want  []planted
	found int
	wrong error
}

func (c *checker) add(signals []signalbox.Signal) {
	for i := range signals {
		if s := &signals[i]; counts(s) {
			c.check(s)
			c.found++
		}
	}
}

// counts reports whether a signal is expected. It includes turn signals after the first: a plain
// transcript is one message, and only the first turn signal of a message is taken.
func counts(s *signalbox.Signal) bool {
	repeated := s.Refused == signalbox.ReasonSuperseded || s.Refused == signalbox.ReasonDuplicate
	return s.Taken() || s.Dialect == signalbox.DialectTurn && repeated
}

func (c *checker) check(s *signalbox.Signal) {
	switch {
	case c.wrong != nil:
	case c.found >= len(c.want):
		c.wrong = fmt.Errorf("found %s %q at line %d, which was not planted", s.Name, s.TaskID,
			s.Line)
	case c.want[c.found].name != s.Name || c.want[c.found].task != s.TaskID ||
		c.want[c.found].dialect != s.Dialect:
		c.wrong = fmt.Errorf("found %s %s %q at line %d, want %+v", s.Dialect, s.Name, s.TaskID,
			s.Line, c.want[c.found])
	case s.Dialect == signalbox.DialectLine && s.Body["Summary"] == nil:
		c.wrong = fmt.Errorf("found %s %q at line %d without its body", s.Name, s.TaskID, s.Line)
	}
}

// result returns the first difference, or nil.
func (c *checker) result() error {
	if c.wrong == nil && c.found != len(c.want) {
		return fmt.Errorf("found %d signals, planted %d", c.found, len(c.want))
	}
	return c.wrong
}

// scan scans r to its end, and checks that it finds the signals in want, to which r may add until
// its end. It returns the size of r and the number of signals.
func scan(r io.Reader, format signalbox.Format,
	want *[]planted) (size int64, signals int, err error) {
	scanner := transcript.NewScanner(&transcript.Options{Format: format})
	var c checker
	buf := make([]byte, pieceSize)
	for err == nil {
		var n int
		n, err = r.Read(buf)
		size += int64(n)
		c.want = *want
		c.add(scanner.Push(buf[:n]))
	}
	if err != io.EOF {
		return size, c.found, err
	}
	c.add(scanner.Close())
	return size, c.found, c.result()
}
