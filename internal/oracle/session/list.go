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

// Summary is a session in a line.
type Summary struct {
	ID        string    `json:"session"`
	Questions int       `json:"questions"`
	First     string    `json:"first_question"`
	At        time.Time `json:"at"`
	// Reason is how the last question ended, "" if it did not.
	Reason string `json:"reason,omitempty"`
	// Damaged: the session cannot be opened, and what else is said of it may be wrong. Problem says why it cannot be opened or read.
	Damaged bool   `json:"damaged,omitempty"`
	Problem string `json:"problem,omitempty"`
}

// List returns the sessions of a folder, the newest first. What is no session, or an empty one, is left out; one that is
// damaged or cannot be read is not. Of a long record only the beginning and the end are read, so damage between them is not seen.
func List(dir string) ([]Summary, error) {
	all, err := survey(dir)
	for i := range all {
		s := &all[i]
		if s.size > int64(wholeSize) || s.Problem != "" {
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

// Newest returns the first of what List returns, nil if there is none. If it is damaged, or cannot be read, that is an error:
// nobody who wants to go on with it wants another.
func Newest(dir string) (*Summary, error) {
	all, err := survey(dir)
	if err != nil || len(all) == 0 {
		return nil, err
	}
	if _, err := Read(filepath.Join(dir, all[0].ID)); err != nil {
		return nil, err
	}
	return &all[0].Summary, nil
}

const (
	// wholeSize is up to where List reads records whole.
	wholeSize = 256 << 10
	// endSize is how much of the end of a record is read first: more than most answers have.
	endSize = 16 << 10
)

// surveyed is a session that was looked at.
type surveyed struct {
	Summary
	size int64
}

func (s *surveyed) fail(err error) {
	s.Damaged, s.Problem = errors.Is(err, ErrDamaged), err.Error()
}

// survey looks at the beginnings and ends of records.
func survey(dir string) ([]surveyed, error) {
	folders, err := os.ReadDir(dir)
	if err != nil && !os.IsNotExist(err) {
		return nil, err
	}
	var all []surveyed
	for _, f := range folders {
		if !f.IsDir() {
			continue
		}
		s := surveyed{Summary: Summary{ID: f.Name()}}
		there, err := s.look(filepath.Join(dir, f.Name(), RecordName))
		if err != nil {
			s.fail(fmt.Errorf("read session %s: %w", s.ID, err))
		}
		if there {
			all = append(all, s)
		}
	}
	slices.SortFunc(all, func(a, b surveyed) int {
		if c := b.At.Compare(a.At); c != 0 {
			return c
		}
		return strings.Compare(b.ID, a.ID)
	})
	return all, nil
}

// look reads the beginning and the end of a record, and reports whether there is one with something in it.
func (s *surveyed) look(name string) (there bool, err error) {
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
		err = first.take(text)
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
		if done, err := s.lookAtEnd(file, size); err != nil || done || size >= s.size {
			return true, err
		}
	}
}

// lookAtEnd learns what the last lines tell, and reports whether it found one. A bad line is no matter here: it may be a hole, which
// is cut off, and if it is none Read says so.
func (s *surveyed) lookAtEnd(file io.ReaderAt, size int64) (found bool, err error) {
	from := max(s.size-size, 0)
	end := make([]byte, s.size-from)
	if n, err := file.ReadAt(end, from); err != nil && err != io.EOF {
		return false, err
	} else {
		end = end[:n]
	}
	if from > 0 { // it begins within a line
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
		case Question, Begun:
			return true, nil
		}
	}
	return found, nil
}
