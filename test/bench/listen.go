package main

import (
	"fmt"
	"io"

	"signalbox"
	"signalbox/transcript"
)

// pieceSize is the number of bytes that every contestant in this program reads at once.
const pieceSize = 256 << 10

// listener compares the signals that a scanner finds with those that were planted.
type listener struct {
	want  []planted
	found int
	wrong error
}

func (l *listener) take(signals []signalbox.Signal) {
	for i := range signals {
		if s := &signals[i]; counts(s) {
			l.check(s)
			l.found++
		}
	}
}

// counts reports whether a signal is expected. It includes turn signals after the first: a plain transcript is one message, and
// only the first turn signal of a message is taken.
func counts(s *signalbox.Signal) bool {
	repeated := s.Refused == signalbox.ReasonSuperseded || s.Refused == signalbox.ReasonDuplicate
	return s.Taken() || s.Dialect == signalbox.DialectTurn && repeated
}

func (l *listener) check(s *signalbox.Signal) {
	switch {
	case l.wrong != nil:
	case l.found >= len(l.want):
		l.wrong = fmt.Errorf("found %s %q at line %d, which was not planted", s.Name, s.TaskID, s.Line)
	case l.want[l.found].name != s.Name || l.want[l.found].task != s.TaskID || l.want[l.found].dialect != s.Dialect:
		l.wrong = fmt.Errorf("found %s %s %q at line %d, want %+v", s.Dialect, s.Name, s.TaskID, s.Line, l.want[l.found])
	case s.Dialect == signalbox.DialectLine && s.Body["Summary"] == nil:
		l.wrong = fmt.Errorf("found %s %q at line %d without its body", s.Name, s.TaskID, s.Line)
	}
}

func (l *listener) verdict() error {
	if l.wrong == nil && l.found != len(l.want) {
		return fmt.Errorf("found %d signals, planted %d", l.found, len(l.want))
	}
	return l.wrong
}

// listen scans r to its end and returns its size.
func listen(r io.Reader, format signalbox.Format, buf []byte, take func([]signalbox.Signal)) (int64, error) {
	scanner := transcript.NewScanner(&transcript.Options{Format: format})
	size := int64(0)
	for {
		n, err := r.Read(buf)
		size += int64(n)
		take(scanner.Push(buf[:n]))
		if err == io.EOF {
			break
		}
		if err != nil {
			return size, err
		}
	}
	take(scanner.Close())
	return size, nil
}
