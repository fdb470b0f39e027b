package session

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// Summary describes a session in a list.
type Summary struct {
	ID        string    `json:"session"`
	Questions int       `json:"questions"`
	First     string    `json:"first_question"`
	At        time.Time `json:"at"`
	// Reason is the reason why the last question ended, "" if it did not.
	Reason string `json:"reason,omitempty"`
	// Damaged means that the session cannot be opened and that the other fields may be wrong.
	// Problem is the error of opening or reading it.
	Damaged bool   `json:"damaged,omitempty"`
	Problem string `json:"problem,omitempty"`
}

// List returns the sessions of a folder, the newest first. It includes damaged and unreadable
// sessions, but not empty ones. It reads only the beginning and the end of a long record, so it
// does not see damage in between.
func List(dir string) ([]Summary, error) {
	all, err := scan(dir)
	for i := range all {
		s := &all[i]
		if s.size > int64(fullReadSize) || s.Problem != "" {
			continue
		}
		if _, err := Read(filepath.Join(dir, s.ID)); err != nil {
			s.fail(err)
		}
	}
	var summaries []Summary
	for _, s := range all {
		summaries = append(summaries, s.Summary)
	}
	return summaries, err
}

// Newest returns the newest session, nil if there is none. It is an error if that session is
// damaged or unreadable: resuming another one instead would surprise the user.
func Newest(dir string) (*Summary, error) {
	all, err := scan(dir)
	if err != nil || len(all) == 0 {
		return nil, err
	}
	if _, err := Read(filepath.Join(dir, all[0].ID)); err != nil {
		return nil, err
	}
	return &all[0].Summary, nil
}

const (
	// fullReadSize is the size up to which List reads the whole record.
	fullReadSize = 256 << 10
	// endSize is how much is read from the end of a record at first. Most answers are shorter.
	endSize = 16 << 10
)

// scanned is a session whose beginning and end were read.
type scanned struct {
	Summary
	size int64 // of the record
}

func (s *scanned) fail(err error) {
	s.Damaged, s.Problem = errors.Is(err, ErrDamaged), err.Error()
}

// scan reads the beginnings and ends of all records, and returns the sessions sorted from new to
// old.
func scan(dir string) ([]scanned, error) {
	folders, err := os.ReadDir(dir)
	if err != nil && !os.IsNotExist(err) {
		return nil, err
	}
	var all []scanned
	for _, f := range folders {
		if !f.IsDir() {
			continue
		}
		s := scanned{Summary: Summary{ID: f.Name()}}
		exists, err := s.read(filepath.Join(dir, f.Name(), RecordName))
		if err != nil {
			s.fail(fmt.Errorf("read session %s: %w", s.ID, err))
		}
		if exists {
			all = append(all, s)
		}
	}
	slices.SortFunc(all, func(a, b scanned) int {
		if c := b.At.Compare(a.At); c != 0 {
			return c
		}
		return strings.Compare(b.ID, a.ID)
	})
	return all, nil
}

// read reads the beginning and the end of a record, and reports whether it exists and is not empty.
func (s *scanned) read(name string) (exists bool, err error) {
	info, err := os.Stat(name)
	if err != nil {
		return !os.IsNotExist(err), err
	}
	s.At, s.size = info.ModTime().UTC(), info.Size()
	file, err := os.Open(name)
	if err != nil {
		return true, err
	}
	defer file.Close()
	first := &Session{}
	text, err := readLine(bufio.NewReaderSize(file, 4<<10))
	switch {
	case err == io.EOF:
		return false, nil
	case err == nil:
		err = first.readEntry(text)
	case err != errLong:
		return true, err
	}
	if err != nil {
		return true, fmt.Errorf("%w: %s, line 1: %w", ErrDamaged, RecordName, err)
	}
	if len(first.entries) > 0 && first.entries[0].Kind == Question {
		s.First = first.entries[0].Text
	}
	for size := int64(endSize); ; size *= 8 {
		if done, err := s.readEnd(file, size); err != nil || done || size >= s.size {
			return true, err
		}
	}
}

// readEnd reads the last size bytes of a record, and reports whether it found an entry. It skips
// invalid lines: Open may truncate them, and otherwise Read reports them.
func (s *scanned) readEnd(file io.ReaderAt, size int64) (found bool, err error) {
	from := max(s.size-size, 0)
	end := make([]byte, s.size-from)
	if n, err := file.ReadAt(end, from); err != nil && err != io.EOF {
		return false, err
	} else {
		end = end[:n]
	}
	if from > 0 { // skip an incomplete line
		end = end[bytes.IndexByte(end, '\n')+1:]
	}
	end = end[:bytes.LastIndexByte(end, '\n')+1]
	lines := slices.Collect(bytes.Lines(end))
	for _, text := range slices.Backward(lines) {
		var e Entry
		if json.Unmarshal(text, &e) != nil || e.Kind == closed {
			continue
		}
		if !found {
			found, s.At, s.Questions = true, e.At, e.Question
		}
		switch e.Kind {
		case Answer:
			if e.Done != nil {
				s.Reason = e.Done.Reason
			}
			return true, nil
		case Question, RunStart:
			return true, nil
		}
	}
	return found, nil
}
