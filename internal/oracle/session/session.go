// Package session keeps the record of a conversation: what was asked, what the model said, what tools were called and
// brought, and how each question ended.
//
// A record is a file of sealed lines (see tree.Chain), written before anything follows from them. Whoever goes on with a
// conversation finds in it what was done already, by the keys of the work: a reply that is there is not asked for again, a
// call that has its result is not made again, and a call that was begun and has none is known to be in doubt. What the model
// said before it was cut off is there too.
//
// A Session is open in one process at a time. Its methods may be used by several goroutines.
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
	"strconv"
	"sync"
	"time"

	"signalbox/internal/durable"
	"signalbox/internal/oracle/chunk"
	"signalbox/internal/oracle/model"
	"signalbox/internal/tree"
)

// RecordName is the name of the record in the folder of a session.
const RecordName = "record.jsonl"

// ErrInUse is a session that another process has open. Wait until it ended.
var ErrInUse = errors.New("the session is in use by another process")

// Kind is what an Entry tells.
type Kind string

const (
	Question Kind = "question" // somebody asked
	Begun    Kind = "begun"    // a run of the tree began on a question
	Note     Kind = "note"     // the oracle told the model something
	Piece    Kind = "piece"    // a piece of a reply, as it came
	Restart  Kind = "restart"  // the reply begins again: its pieces so far do not count
	Reply    Kind = "reply"    // the whole reply
	Called   Kind = "called"   // a tool is about to be called
	Result   Kind = "result"   // what came of it
	Signal   Kind = "signal"   // a turn signal was heard
	System   Kind = "system"   // the oracle told the user something
	Said     Kind = "said"     // the tree itself said something to the user
	Answer   Kind = "answer"   // a question ended
)

// Entry is a line of the record. Which fields count depends on Kind.
type Entry struct {
	Kind Kind      `json:"kind"`
	At   time.Time `json:"at"`
	// Key names the work that the entry belongs to, the same for every try of it.
	Key string `json:"key,omitempty"`
	// Question counts from 1 in the session, Turn from 1 in the question.
	Question int `json:"question,omitempty"`
	Turn     int `json:"turn,omitempty"`
	// Text is the question, the note, the piece, the result or the answer.
	Text string `json:"text,omitempty"`
	// Class is that of a Question.
	Class string `json:"class,omitempty"`
	// Run is the id of the tree's run that Begun tells of, Journal its file.
	Run     string `json:"run,omitempty"`
	Journal string `json:"journal,omitempty"`

	Reply   *model.Reply   `json:"reply,omitempty"`
	Call    *model.Call    `json:"call,omitempty"`
	OK      bool           `json:"ok,omitempty"`
	Sources []chunk.Source `json:"sources,omitempty"`
	Signal  *chunk.Signal  `json:"signal,omitempty"`
	System  *chunk.System  `json:"system,omitempty"`
	// Done is how a question ended.
	Done *chunk.Done `json:"done,omitempty"`
}

// Session is the record of a conversation, open for writing.
type Session struct {
	ID  string
	Dir string

	mu      sync.Mutex // guards all below
	file    *os.File
	chain   tree.Chain
	buf     []byte
	dirty   bool
	broken  error // a line may be there in part
	entries []Entry
}

// Create makes a session in a folder of its own.
func Create(dir, id string) (*Session, error) {
	folder := filepath.Join(dir, id)
	if err := durable.MakeFolder(folder); err != nil {
		return nil, fmt.Errorf("make a session: %w", err)
	}
	if _, err := os.Lstat(filepath.Join(folder, RecordName)); err == nil {
		return nil, fmt.Errorf("make a session: %s is there already", id)
	}
	return Open(folder)
}

// Open opens the session of a folder. What was never finished at its end is cut off.
func Open(folder string) (*Session, error) {
	s := &Session{ID: filepath.Base(folder), Dir: folder}
	name := filepath.Join(folder, RecordName)
	var err error
	if s.file, err = os.OpenFile(name, os.O_RDWR|os.O_CREATE, 0o600); err != nil {
		return nil, fmt.Errorf("open a session: %w", err)
	}
	if err := s.begin(name); err != nil {
		s.file.Close()
		return nil, fmt.Errorf("open session %s: %w", s.ID, err)
	}
	return s, nil
}

func (s *Session) begin(name string) error {
	locked, err := durable.TryLockFile(s.file)
	if err != nil {
		return err
	}
	if !locked {
		return ErrInUse
	}
	if err := durable.SyncFolder(filepath.Dir(name)); err != nil {
		return err
	}
	size, err := s.read(s.file)
	if err != nil {
		return err
	}
	if err := s.file.Truncate(size); err != nil {
		return err
	}
	_, err = s.file.Seek(size, io.SeekStart)
	s.dirty = true // whoever wrote what was read may have been killed before it was synced
	return err
}

// Read returns the entries of a session's record, without opening it.
func Read(folder string) ([]Entry, error) {
	file, err := os.Open(filepath.Join(folder, RecordName))
	if err != nil {
		return nil, fmt.Errorf("read a session: %w", err)
	}
	defer file.Close()
	s := &Session{}
	if _, err := s.read(file); err != nil {
		return nil, fmt.Errorf("read session %s: %w", filepath.Base(folder), err)
	}
	return s.entries, nil
}

// maxLine is more than an entry can have: replies and results are limited.
const maxLine = 256 << 20

// read takes whole lines in, and returns how long they are.
func (s *Session) read(from io.Reader) (size int64, err error) {
	in := bufio.NewReaderSize(from, 1<<16)
	for n := 1; ; n++ {
		line, err := readLine(in)
		if err == io.EOF {
			return size, nil // what was torn nobody has acted on
		}
		if err != nil {
			return 0, err
		}
		var e Entry
		if err := s.chain.Check(bytes.TrimSuffix(line, []byte("\n"))); err != nil {
			return 0, fmt.Errorf("%s, line %d: %w", RecordName, n, err)
		}
		if err := json.Unmarshal(line, &e); err != nil {
			return 0, fmt.Errorf("%s, line %d: %w", RecordName, n, err)
		}
		size += int64(len(line))
		s.keep(e)
	}
}

func readLine(in *bufio.Reader) ([]byte, error) {
	var line []byte
	for {
		part, err := in.ReadSlice('\n')
		line = append(line, part...)
		if !errors.Is(err, bufio.ErrBufferFull) {
			return line, err
		}
		if len(line) > maxLine {
			return nil, fmt.Errorf("a line is longer than %d bytes", maxLine)
		}
	}
}

// keep remembers an entry. Pieces are of use only until their reply is there: they stay in the
// file.
func (s *Session) keep(e Entry) {
	if part := func(old Entry) bool { return old.isPart() && old.Key == e.Key }; e.Kind == Reply && slices.ContainsFunc(s.entries, part) {
		// In a copy: others may look at what Entries returned.
		s.entries = slices.DeleteFunc(slices.Clone(s.entries), part)
	}
	s.entries = append(s.entries, e)
}

func (e *Entry) isPart() bool { return e.Kind == Piece || e.Kind == Restart }

// Append writes an entry, now if its At is zero. With sync it is on stable storage when Append returns; without, it
// survives the process, not the machine.
func (s *Session) Append(e Entry, sync bool) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.append(e, sync)
}

func (s *Session) append(e Entry, sync bool) error {
	if s.broken != nil {
		return s.broken
	}
	if e.At.IsZero() {
		e.At = time.Now().UTC()
	}
	line, err := json.Marshal(e)
	if err != nil {
		return fmt.Errorf("record %s: %w", e.Kind, err)
	}
	s.buf = s.chain.Seal(append(s.buf[:0], line[:len(line)-1]...), 0)
	s.dirty = true
	if _, err = s.file.Write(s.buf); err == nil && sync {
		err = s.sync()
	}
	if err != nil {
		s.broken = fmt.Errorf("the conversation could not be recorded: %w", err)
		return s.broken
	}
	if cap(s.buf) > 1<<20 {
		s.buf = nil
	}
	if !e.isPart() { // parts are for whoever goes on in another process
		s.keep(e)
	}
	return nil
}

// Sync makes all that was written durable.
func (s *Session) Sync() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.broken != nil {
		return s.broken
	}
	if err := s.sync(); err != nil {
		s.broken = fmt.Errorf("the conversation could not be recorded: %w", err)
	}
	return s.broken
}

func (s *Session) sync() error {
	if !s.dirty {
		return nil
	}
	s.dirty = false
	return s.file.Sync()
}

// Once writes an entry unless there is one of its kind and key. It reports whether it wrote it.
func (s *Session) Once(e Entry, sync bool) (bool, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, there := s.find(e.Kind, e.Key); there {
		return false, nil
	}
	return true, s.append(e, sync)
}

// Find returns the entry of that kind and key.
func (s *Session) Find(kind Kind, key string) (Entry, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.find(kind, key)
}

func (s *Session) find(kind Kind, key string) (Entry, bool) {
	for i := len(s.entries) - 1; i >= 0; i-- { // what is looked for is mostly new
		if e := &s.entries[i]; e.Kind == kind && e.Key == key {
			return *e, true
		}
	}
	return Entry{}, false
}

// Entries returns all entries so far, without the pieces of replies that are whole. They must not be changed.
func (s *Session) Entries() []Entry {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.entries[:len(s.entries):len(s.entries)]
}

// Close ends the use of a session.
func (s *Session) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	var err error
	if s.broken == nil {
		err = s.sync()
	}
	return errors.Join(err, s.file.Close())
}

// JournalName is the name of the n-th run's journal on a question.
func JournalName(question, n int) string {
	return strconv.Itoa(question) + "-" + strconv.Itoa(n) + ".journal"
}
