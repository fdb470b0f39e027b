// Package session keeps the record of a conversation: what was asked, what the model said, what tools were called and
// brought, and how each question ended.
//
// A record is a file of sealed lines (see tree.Chain), written before anything follows from them. Whoever goes on with a
// conversation finds in it what was done already, by the keys of the work: a reply that is there is not asked for again, a
// call that has its result is not made again, and a call that was begun and has none is known to be in doubt. What the model
// said before it was cut off is there too.
//
// Each line tells how much of the record was on stable storage before it. A power cut may leave holes in what comes after
// that; nobody has acted on it, so it is cut off with the first hole. Any other damage is ErrDamaged.
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

// ErrDamaged is a record that was changed, or that the disk did not keep. Use another session.
var ErrDamaged = errors.New("the record is damaged")

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

	closed Kind = "closed" // nobody writes now, and all before is on stable storage; it is no entry
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
	// Node and Nth are those of a Signal: what logged it, and its number in the run. Text has its time.
	Node   string        `json:"node,omitempty"`
	Nth    int           `json:"nth,omitempty"`
	System *chunk.System `json:"system,omitempty"`
	// Millis is how long a Reply or a Result took to come.
	Millis int64 `json:"millis,omitempty"`
	// Done is how a question ended, or what a sub-agent did for a Result.
	Done *chunk.Done `json:"done,omitempty"`
	// Error is why there is no Answer, or not all of it.
	Error *chunk.Error `json:"error,omitempty"`
}

// recordLine is an entry as it stands in the record.
type recordLine struct {
	Entry
	// Synced is how many bytes of the record were on stable storage before the line. Nil: older programs did not tell.
	Synced *int64 `json:"synced"`
}

// Session is the record of a conversation, open for writing.
type Session struct {
	ID  string
	Dir string

	mu      sync.Mutex // guards all below
	file    *os.File
	chain   tree.Chain
	buf     bytes.Buffer
	size    int64 // of the record
	synced  int64 // of that, what is known to be on stable storage
	told    bool  // the last line tells Synced
	closed  bool  // the last line is closed
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
	locked, err := durable.TryLockFor(s.file, time.Second)
	if err != nil {
		return err
	}
	if !locked {
		return ErrInUse
	}
	if err := durable.SyncFolder(filepath.Dir(name)); err != nil {
		return err
	}
	if err := s.read(s.file); err != nil {
		return err
	}
	end, err := s.file.Seek(0, io.SeekEnd)
	if err != nil {
		return err
	}
	s.dirty = true // whoever wrote what was read may have been killed before it was synced
	if end == s.size {
		return nil
	}
	if err := s.file.Truncate(s.size); err != nil {
		return err
	}
	if _, err := s.file.Seek(s.size, io.SeekStart); err != nil {
		return err
	}
	return s.sync() // or a part of what was cut off may come back among what follows
}

// Read returns the entries of a session's record, without opening it.
func Read(folder string) ([]Entry, error) {
	file, err := os.Open(filepath.Join(folder, RecordName))
	if err != nil {
		return nil, fmt.Errorf("read a session: %w", err)
	}
	defer file.Close()
	s := &Session{}
	if err := s.read(file); err != nil {
		return nil, fmt.Errorf("read session %s: %w", filepath.Base(folder), err)
	}
	return s.entries, nil
}

// maxLine is how long a line may be: more than an entry has, since replies and results are limited.
const maxLine = 32 << 20

var errLong = fmt.Errorf("a line is longer than %d MiB", maxLine>>20)

// read takes whole lines in. What was torn, or lies behind a hole, nobody has acted on.
func (s *Session) read(from io.Reader) error {
	in := bufio.NewReaderSize(from, 1<<16)
	for n := 1; ; n++ {
		text, err := readLine(in)
		if err == io.EOF {
			return nil
		}
		if err != nil && err != errLong {
			return err
		}
		if err == nil {
			err = s.take(text)
		}
		if err == nil {
			continue
		}
		hole, failed := s.isHole(text, in)
		if failed != nil || hole {
			return failed
		}
		return fmt.Errorf("%w: %s, line %d: %w", ErrDamaged, RecordName, n, err)
	}
}

// take takes a line in.
func (s *Session) take(text []byte) error {
	if err := s.chain.Check(bytes.TrimSuffix(text, []byte("\n"))); err != nil {
		return err
	}
	var l recordLine
	if err := json.Unmarshal(text, &l); err != nil {
		return err
	}
	if s.told = l.Synced != nil; s.told {
		s.synced = max(s.synced, *l.Synced)
	}
	s.size += int64(len(text))
	if s.closed = l.Kind == closed; !s.closed {
		s.keep(l.Entry)
	}
	return nil
}

// isHole reports whether a bad line, which follows what was taken in, may never have been on stable storage. No line tells that it
// was, not even one of those behind it, which are in rest.
func (s *Session) isHole(bad []byte, rest *bufio.Reader) (bool, error) {
	if !s.told || s.synced > s.size {
		return false, nil
	}
	for text := bad; ; {
		var l struct{ Synced int64 }
		if json.Unmarshal(text, &l) == nil && l.Synced > s.size {
			return false, nil
		}
		var err error
		if text, err = readLine(rest); err == io.EOF {
			return true, nil
		} else if err != nil && err != errLong {
			return false, err
		}
	}
}

func readLine(in *bufio.Reader) ([]byte, error) {
	var line []byte
	for {
		part, err := in.ReadSlice('\n')
		line = append(line, part...)
		if len(line) > maxLine {
			return nil, errLong
		}
		if !errors.Is(err, bufio.ErrBufferFull) {
			return line, err
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
	line, err := s.seal(e)
	if err != nil {
		return fmt.Errorf("record %s: %w", e.Kind, err)
	}
	s.dirty = true
	n, err := s.file.Write(line)
	s.size += int64(n)
	s.closed = e.Kind == closed
	if err == nil && sync {
		err = s.sync()
	}
	if err != nil {
		s.broken = fmt.Errorf("the conversation could not be recorded: %w", err)
		return s.broken
	}
	if s.buf.Cap() > 1<<20 {
		s.buf = bytes.Buffer{}
	}
	if !e.isPart() && !s.closed { // parts are for whoever goes on in another process
		s.keep(e)
	}
	return nil
}

// hashLength is more than what the hash adds to a line.
const hashLength = 100

// seal makes a line of an entry, one that read takes. It is valid until the next.
func (s *Session) seal(e Entry) ([]byte, error) {
	s.buf.Reset()
	out := json.NewEncoder(&s.buf)
	out.SetEscapeHTML(false) // code is full of what it would make six times as long
	if err := out.Encode(recordLine{e, &s.synced}); err != nil {
		return nil, err
	}
	if s.buf.Len() > maxLine-hashLength {
		return nil, errLong
	}
	s.buf.Truncate(s.buf.Len() - len("}\n"))
	return s.chain.Seal(s.buf.Bytes(), 0), nil
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
	err := s.file.Sync()
	if err == nil {
		s.synced = s.size
	}
	return err
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
	if s.broken == nil && err == nil && s.size > 0 && !s.closed {
		err = s.append(Entry{Kind: closed}, false)
	}
	return errors.Join(err, s.file.Close())
}

// JournalName is the name of the n-th run's journal on a question.
func JournalName(question, n int) string {
	return strconv.Itoa(question) + "-" + strconv.Itoa(n) + ".journal"
}
