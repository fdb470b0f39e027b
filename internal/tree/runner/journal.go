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

// Ways in which a journal's run can have stopped, beside the statuses in which a run ends. After these it can go on.
const (
	Interrupted = "INTERRUPTED"
	Failed      = "ERROR"
)

// ErrInUse is a journal that another process writes. Wait until it ended, or use another file.
var ErrInUse = errors.New("another process is running this journal")

// LineError is a line of a journal that cannot be trusted.
type LineError struct {
	File string
	Line int
	Err  error
}

func (e *LineError) Error() string { return fmt.Sprintf("%s:%d: %v", e.File, e.Line, e.Err) }
func (e *LineError) Unwrap() error { return e.Err }

// Journal is what was read of a run's journal.
type Journal struct {
	Header tree.Header
	// Ending is how the run ended or was stopped last, nil if nothing is said.
	Ending *tree.Ending
	// Torn is how many bytes of a line that was never finished are at the end.
	Torn int

	size  int64
	chain tree.Chain
}

// Ended reports whether the run came to its end.
func (j *Journal) Ended() bool {
	return j.Ending != nil && j.Ending.End != Interrupted && j.Ending.End != Failed
}

// ReadJournal reads a journal, checks its chain, and hands each tick's record to each, if that is not nil. started,
// called before that, gets the header.
func ReadJournal(name string, started func(tree.Header) error, each func(*tree.Record) error) (*Journal, error) {
	file, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	return readJournal(name, file, started, each)
}

// headerBegin is how every journal begins.
const headerBegin = `{"format":`

func readJournal(name string, file io.Reader, started func(tree.Header) error, each func(*tree.Record) error) (*Journal, error) {
	j := &Journal{}
	in := bufio.NewReaderSize(file, 1<<16)
	// Before a line is read: a file that is something else may have no end. A header may be torn like any line.
	begin, err := in.Peek(len(headerBegin))
	if err != nil && err != io.EOF {
		return nil, err
	}
	if !strings.HasPrefix(headerBegin, string(begin)) {
		return nil, &LineError{name, 1, errors.New("this is no journal of a tree")}
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

// maxLine is more than a tick can write: what its leaves write is limited, and so are its nodes and their errors.
const maxLine = 512 << 20

// readLine is in.ReadBytes('\n') with a limit.
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

func (j *Journal) take(line []byte, number int, started func(tree.Header) error, each func(*tree.Record) error) error {
	if err := j.chain.Check(line); err != nil {
		return err
	}
	switch {
	case number == 1:
		if err := json.Unmarshal(line, &j.Header); err != nil {
			return err
		}
		if j.Header.Format != tree.HeaderFormat {
			return fmt.Errorf("it is of format %d, and this program knows %d", j.Header.Format, tree.HeaderFormat)
		}
		if started != nil {
			return started(j.Header)
		}
		return nil
	case j.Ended():
		return errors.New("there is more after the end of the run")
	case bytes.HasPrefix(line, []byte(`{"end":`)):
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
	// dirty: there are lines that may not be on stable storage yet.
	dirty bool
	// failed: a line may be there in part. Another one after it would make the journal unreadable.
	failed bool
}

// openJournal opens a journal to write it, alone. A new one is empty.
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
		err = durable.SyncFolder(filepath.Dir(name)) // or a power cut may take the name away, and the run with it
	}
	if err != nil {
		file.Close()
		return nil, err
	}
	return file, nil
}

// goOn makes the writer continue after what was read. A torn line is cut off: nobody has acted on it.
func (w *writer) goOn(j *Journal) error {
	// Whoever wrote what was read may have been killed before it was synced.
	w.chain, w.dirty = j.chain, true
	if err := w.file.Truncate(j.size); err != nil {
		return err
	}
	_, err := w.file.Seek(j.size, io.SeekStart)
	return err
}

// write seals and writes a line that add appends. After an error, which the caller must not go on from, it does nothing.
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
	w.failed = w.failed || err != nil // what the system could not keep it may have forgotten
	return err
}

func (w *writer) close() error {
	if w == nil {
		return nil
	}
	return errors.Join(w.sync(), w.file.Close())
}
