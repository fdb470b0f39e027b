package runner

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"signalbox/internal/durable"
	"signalbox/internal/tree"
)

// Values of tree.Ending.End for a run that stopped before its end. Such a run can be resumed.
const (
	Interrupted = "INTERRUPTED"
	Failed      = "ERROR"
)

// ErrInUse means that another process writes the journal. Wait until it has ended, or use another
// file.
var ErrInUse = errors.New("another process is running this journal")

// LineError is an error in a line of a journal.
type LineError struct {
	File string
	Line int
	Err  error
}

func (e *LineError) Error() string { return fmt.Sprintf("%s:%d: %v", e.File, e.Line, e.Err) }
func (e *LineError) Unwrap() error { return e.Err }

// Journal describes a journal that was read.
type Journal struct {
	Header tree.Header
	// Ending is how the run ended or was stopped, nil if the journal does not say.
	Ending *tree.Ending
	// Torn is the number of bytes of an incomplete last line.
	Torn int

	size  int64
	chain tree.Chain
}

// Ended reports whether the run has ended.
func (j *Journal) Ended() bool { return hasEnded(j.Ending) }

// hasEnded reports whether an ending, which may be nil, is final.
func hasEnded(e *tree.Ending) bool { return e != nil && e.End != Interrupted && e.End != Failed }

// ReadJournal reads a journal and checks its hash chain. It calls started with the header, and then
// each with the record of each tick. Both may be nil.
func ReadJournal(name string, started func(tree.Header) error,
	each func(*tree.Record) error) (*Journal, error) {
	file, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	return readJournal(name, file, started, each)
}

// headerPrefix is the beginning of every journal.
const headerPrefix = `{"format":`

// endingPrefix is the beginning of a line about the end of a run.
const endingPrefix = `{"end":`

// tickPrefix is the beginning of the line of a tick.
const tickPrefix = `{"tick":`

// IsJournal reports whether a file begins like a journal.
func IsJournal(name string) bool {
	file, err := os.Open(name)
	if err != nil {
		return false
	}
	defer file.Close()
	begin := make([]byte, len(headerPrefix))
	n, _ := io.ReadFull(file, begin)
	return string(begin[:n]) == headerPrefix
}

// Replay repeats the run in a journal, up to and including the tick upTo; zero means all of it.
// load returns the tree of the run. After every tick Replay calls each, which may be nil.
func Replay(name string, upTo int, load func(tree.Header) (*tree.Tree, error),
	each func(*tree.Run) error) (*tree.Run, *Journal, error) {
	var run *tree.Run
	j, err := ReadJournal(name, func(h tree.Header) error {
		t, err := load(h)
		if err == nil {
			run, err = StartReplay(t, h)
		}
		return err
	}, func(rec *tree.Record) error {
		if upTo > 0 && rec.Tick > upTo {
			return nil
		}
		if err := run.Replay(rec); err != nil || each == nil {
			return err
		}
		return each(run)
	})
	if err == nil && run == nil {
		err = fmt.Errorf("%s is empty", name)
	}
	if err != nil {
		return nil, nil, err
	}
	return run, j, nil
}

// Summary is what the beginning and the end of a journal say. The lines in between are not checked.
type Summary struct {
	Header tree.Header
	// Ticks is the number of ticks; 0 also if the last one is too large to be found.
	Ticks int
	// Ending is how the run ended or was stopped; nil if the journal does not say.
	Ending *tree.Ending
	// Running means that a process is writing the journal.
	Running bool
}

// Ended reports whether the run has ended.
func (s *Summary) Ended() bool { return hasEnded(s.Ending) }

// Summarize reads the beginning and the end of a journal.
func Summarize(file *os.File) (*Summary, error) {
	const maxHeader, maxEnd = 16 << 20, 8 << 20
	in := bufio.NewReader(io.LimitReader(file, maxHeader))
	first, err := readLine(in)
	if err == io.EOF {
		err = errors.New("there is no complete line yet")
	}
	s := &Summary{}
	if err == nil && !bytes.HasPrefix(first, []byte(headerPrefix)) {
		err = errors.New("the file is not the journal of a tree")
	}
	if err == nil {
		err = json.Unmarshal(first, &s.Header)
	}
	if err != nil {
		return nil, err
	}
	info, err := file.Stat()
	if err != nil {
		return nil, err
	}
	for size := int64(64 << 10); ; size *= 8 {
		from := max(int64(len(first)), info.Size()-size)
		end := make([]byte, max(0, info.Size()-from))
		n, err := file.ReadAt(end, from)
		if err != nil && err != io.EOF {
			return nil, err
		}
		if s.readEnd(end[:n]) || from == int64(len(first)) || size >= maxEnd {
			break
		}
	}
	if !s.Ended() {
		locked, err := durable.TryLockFile(file)
		if err != nil {
			return nil, err
		}
		if s.Running = !locked; locked {
			err = durable.UnlockFile(file)
		}
		return s, err
	}
	return s, nil
}

// readEnd reads the end of a journal, and reports whether it has found the last tick.
func (s *Summary) readEnd(end []byte) bool {
	end = end[:bytes.LastIndexByte(end, '\n')+1]
	s.Ending = nil
	for n := 0; len(end) > 0; n++ {
		begin := bytes.LastIndexByte(end[:len(end)-1], '\n') + 1
		line := end[begin:]
		end = end[:begin]
		var tick struct{ Tick int }
		switch {
		case n == 0 && bytes.HasPrefix(line, []byte(endingPrefix)):
			if s.Ending = (&tree.Ending{}); json.Unmarshal(line, s.Ending) != nil {
				s.Ending = nil
			}
		case bytes.HasPrefix(line, []byte(tickPrefix)) && json.Unmarshal(line, &tick) == nil:
			s.Ticks = tick.Tick
			return true
		}
	}
	return false
}

func readJournal(name string, file io.Reader, started func(tree.Header) error,
	each func(*tree.Record) error) (*Journal, error) {
	j := &Journal{}
	in := bufio.NewReaderSize(file, 1<<16)
	// Check this before reading a line, because another kind of file may have no line end. The
	// header may be incomplete.
	begin, err := in.Peek(len(headerPrefix))
	if err != nil && err != io.EOF {
		return nil, err
	}
	if !strings.HasPrefix(headerPrefix, string(begin)) {
		return nil, &LineError{name, 1, errors.New("the file is not the journal of a tree")}
	}
	for line := 1; ; line++ {
		text, err := readLine(in)
		if err == io.EOF {
			j.Torn = len(text)
			break
		}
		if err != nil {
			return nil, err
		}
		if err := j.take(bytes.TrimSuffix(text, []byte("\n")), line, started, each); err != nil {
			return nil, &LineError{name, line, err}
		}
		j.size += int64(len(text))
	}
	return j, nil
}

// maxLine is more than the record of a tick can have.
const maxLine = 512 << 20

// readLine is like in.ReadBytes('\n') with a limit.
func readLine(in *bufio.Reader) ([]byte, error) {
	var line []byte
	for {
		part, err := in.ReadSlice('\n')
		line = append(line, part...)
		switch {
		case err == nil || err != bufio.ErrBufferFull:
			return line, err
		case len(line) > maxLine:
			return nil, fmt.Errorf("a line is longer than %d bytes", maxLine)
		}
	}
}

func (j *Journal) take(line []byte, number int, started func(tree.Header) error,
	each func(*tree.Record) error) error {
	if err := j.chain.Check(line); err != nil {
		return err
	}
	switch {
	case number == 1:
		if err := json.Unmarshal(line, &j.Header); err != nil {
			return err
		}
		if j.Header.Format != tree.HeaderFormat {
			return fmt.Errorf("the journal has format %d, and this program supports format %d",
				j.Header.Format, tree.HeaderFormat)
		}
		if started != nil {
			return started(j.Header)
		}
		return nil
	case j.Ended():
		return errors.New("there are lines after the end of the run")
	case bytes.HasPrefix(line, []byte(endingPrefix)):
		j.Ending = &tree.Ending{}
		return json.Unmarshal(line, j.Ending)
	}
	j.Ending = nil
	rec, err := tree.ParseRecord(line)
	if err != nil || each == nil {
		return err
	}
	return each(rec)
}

// writer appends to a journal.
type writer struct {
	file  *os.File
	chain tree.Chain
	buf   []byte
	// dirty reports whether lines may not be on stable storage yet.
	dirty bool
	// failed reports whether the last line may be incomplete. A line after it would make the
	// journal unreadable.
	failed bool
}

// openJournal opens or creates a journal and locks it.
func openJournal(name string) (*os.File, error) {
	file, err := os.OpenFile(name, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	locked, err := durable.TryLockFor(file, time.Second)
	if err == nil && !locked {
		err = fmt.Errorf("%s: %w", name, ErrInUse)
	}
	if err == nil {
		// otherwise a power failure could remove the new file
		err = durable.SyncFolder(filepath.Dir(name))
	}
	if err != nil {
		file.Close()
		return nil, err
	}
	return file, nil
}

// resume positions the writer after the lines that were read. It removes an incomplete line, which
// has had no effects.
func (w *writer) resume(j *Journal) error {
	// The process that wrote the lines may have been killed before it synced them.
	w.chain, w.dirty = j.chain, true
	if err := w.file.Truncate(j.size); err != nil {
		return err
	}
	_, err := w.file.Seek(j.size, io.SeekStart)
	return err
}

// write writes the line that add appends. After an error it does nothing, and the caller must stop
// the run.
func (w *writer) write(add func([]byte) []byte) error {
	if w == nil || w.failed {
		return nil
	}
	w.buf = w.chain.Seal(add(w.buf[:0]), 0)
	w.dirty = true
	_, err := w.file.Write(w.buf)
	w.failed = err != nil
	return err
}

// sync makes all lines durable.
func (w *writer) sync() error {
	if w == nil || !w.dirty {
		return nil
	}
	w.dirty = false
	err := w.file.Sync()
	w.failed = w.failed || err != nil // the system may have dropped the lines
	return err
}

func (w *writer) close() error {
	if w == nil {
		return nil
	}
	return errors.Join(w.sync(), w.file.Close())
}
