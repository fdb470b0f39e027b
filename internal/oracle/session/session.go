// Package session stores the record of a conversation: the questions, the model's replies, the tool
// calls with their results, and the end of each question.
//
// A record is a file of hash-chained lines (see tree.Chain). Every step is recorded before anything
// depends on it. A process that resumes a conversation finds in the record what is already done, by
// the keys of the work: a recorded reply is not requested again, a call with a result is not
// repeated, and a call that was started but has no result has an unknown outcome. The pieces of an
// interrupted reply are recorded too.
//
// Each line contains the number of bytes of the record that were on stable storage before it. A
// power failure can damage what follows those bytes. Nothing depends on that part: Open truncates
// the record at the first damaged line. Any other damage is ErrDamaged.
//
// A Session can be open in one process at a time. It is safe for concurrent use.
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
	"signalbox/internal/tree/treeruns"
)

// FolderName is the folder of a box with its sessions. RecordName is the name of the record file in
// a session's folder.
const (
	FolderName = treeruns.OracleFolder
	RecordName = "record.jsonl"
)

// ErrInUse means that another process has the session open. Retry when that process has ended.
var ErrInUse = errors.New("the session is in use by another process")

// ErrDamaged means that the record was modified or corrupted. Use another session.
var ErrDamaged = errors.New("the record is damaged")

// Kind is the kind of an Entry.
type Kind string

const (
	Question Kind = "question" // a question of the user
	RunStart Kind = "begun"    // the start of a run of the tree on a question
	Note     Kind = "note"     // a message of the oracle to the model
	Piece    Kind = "piece"    // a piece of a reply
	Restart  Kind = "restart"  // the reply starts again: its pieces so far are withdrawn
	Reply    Kind = "reply"    // a complete reply
	Call     Kind = "called"   // a tool is about to be called
	Result   Kind = "result"   // the result of a call
	Signal   Kind = "signal"   // a turn signal
	System   Kind = "system"   // a message of the oracle to the user
	TreeText Kind = "said"     // a message of the tree to the user
	Answer   Kind = "answer"   // the end of a question

	// Close was called: everything before is on stable storage. It is not an entry.
	closed Kind = "closed"
)

// Entry is a line of the record. Kind determines which other fields it has.
type Entry struct {
	Kind Kind      `json:"kind"`
	At   time.Time `json:"at"`
	// Key identifies the work that the entry belongs to. It is the same for every attempt.
	Key string `json:"key,omitempty"`
	// Question counts from 1 in the session, Turn from 1 in the question.
	Question int `json:"question,omitempty"`
	Turn     int `json:"turn,omitempty"`
	// Text is the question, the note, the piece, the result or the answer.
	Text string `json:"text,omitempty"`
	// Class is the class of a Question.
	Class string `json:"class,omitempty"`
	// Run is the id of the run in a RunStart, Journal the file of its journal.
	Run     string `json:"run,omitempty"`
	Journal string `json:"journal,omitempty"`

	Reply   *model.Reply   `json:"reply,omitempty"`
	Call    *model.Call    `json:"call,omitempty"`
	OK      bool           `json:"ok,omitempty"`
	Sources []chunk.Source `json:"sources,omitempty"`
	Signal  *chunk.Signal  `json:"signal,omitempty"`
	// Node and Nth belong to a Signal: the node that logged it, and its number in the run. Text has
	// its time.
	Node   string        `json:"node,omitempty"`
	Nth    int           `json:"nth,omitempty"`
	System *chunk.System `json:"system,omitempty"`
	// Millis is how long a Reply or a Result took.
	Millis int64 `json:"millis,omitempty"`
	// Done is the Done chunk of a question, or that of the sub-agent of a Result.
	Done *chunk.Done `json:"done,omitempty"`
	// Error is the error chunk of a question, nil if it succeeded.
	Error *chunk.Error `json:"error,omitempty"`
}

// recordLine is an entry in the form that is written to the file.
type recordLine struct {
	Entry
	// Synced is how many bytes of the record were on stable storage before the line. Nil in records
	// of older versions.
	Synced *int64 `json:"synced"`
}

// Session is the record of a conversation, open for writing.
type Session struct {
	ID  string
	Dir string

	mu      sync.Mutex // guards the fields below
	file    *os.File
	chain   tree.Chain
	buf     bytes.Buffer
	size    int64 // of the record
	synced  int64 // bytes known to be on stable storage
	hasSync bool  // the last line has Synced
	closed  bool  // the last line has kind closed
	dirty   bool
	broken  error // a write failed, so the last line may be incomplete
	entries []Entry
}

// Create creates a session in a new folder of dir.
func Create(dir, id string) (*Session, error) {
	folder := filepath.Join(dir, id)
	if err := durable.MakeFolder(folder); err != nil {
		return nil, fmt.Errorf("create a session: %w", err)
	}
	if _, err := os.Lstat(filepath.Join(folder, RecordName)); err == nil {
		return nil, fmt.Errorf("create a session: %s already exists", id)
	}
	return Open(folder)
}

// Open opens the session in a folder. It truncates an incomplete end of the record.
func Open(folder string) (*Session, error) {
	s := &Session{ID: filepath.Base(folder), Dir: folder}
	name := filepath.Join(folder, RecordName)
	var err error
	if s.file, err = os.OpenFile(name, os.O_RDWR|os.O_CREATE, 0o600); err != nil {
		return nil, fmt.Errorf("open a session: %w", err)
	}
	if err := s.lockAndRead(name); err != nil {
		s.file.Close()
		return nil, fmt.Errorf("open session %s: %w", s.ID, err)
	}
	return s, nil
}

func (s *Session) lockAndRead(name string) error {
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
	s.dirty = true // the process that wrote the record may have been killed before it synced
	if end == s.size {
		return nil
	}
	if err := s.file.Truncate(s.size); err != nil {
		return err
	}
	if _, err := s.file.Seek(s.size, io.SeekStart); err != nil {
		return err
	}
	return s.sync() // or parts of the truncated lines could reappear after a power failure
}

// Read returns the entries of a session's record without locking or changing it.
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

// maxLine bounds the length of a line. Replies and results have lower limits.
const maxLine = 32 << 20

var errLong = fmt.Errorf("a line is longer than %d MiB", maxLine>>20)

// read reads the complete lines. It ignores an incomplete last line, and everything from the first
// unsynced damaged line.
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
			err = s.readEntry(text)
		}
		if err == nil {
			continue
		}
		unsynced, readErr := s.isUnsynced(text, in)
		if readErr != nil || unsynced {
			return readErr
		}
		return fmt.Errorf("%w: %s, line %d: %w", ErrDamaged, RecordName, n, err)
	}
}

// readEntry verifies a line and adds its entry.
func (s *Session) readEntry(text []byte) error {
	if err := s.chain.Check(bytes.TrimSuffix(text, []byte("\n"))); err != nil {
		return err
	}
	var l recordLine
	if err := json.Unmarshal(text, &l); err != nil {
		return err
	}
	if s.hasSync = l.Synced != nil; s.hasSync {
		s.synced = max(s.synced, *l.Synced)
	}
	s.size += int64(len(text))
	if s.closed = l.Kind == closed; !s.closed {
		s.keep(l.Entry)
	}
	return nil
}

// isUnsynced reports whether a damaged line after the lines read so far was possibly never on
// stable storage: neither the lines before it nor those after it, which are in rest, say that it
// was.
func (s *Session) isUnsynced(bad []byte, rest *bufio.Reader) (bool, error) {
	if !s.hasSync || s.synced > s.size {
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

// keep adds an entry in memory. A complete reply replaces its pieces; the file keeps them.
func (s *Session) keep(e Entry) {
	if part := func(old Entry) bool { return old.isPart() && old.Key == e.Key }; e.Kind == Reply &&
		slices.ContainsFunc(s.entries, part) {
		// Copy, because callers may still read the slice that Entries returned.
		s.entries = slices.DeleteFunc(slices.Clone(s.entries), part)
	}
	s.entries = append(s.entries, e)
}

func (e *Entry) isPart() bool { return e.Kind == Piece || e.Kind == Restart }

// Append writes an entry. A zero At means now. With sync the entry is on stable storage when Append
// returns; without, it survives the process but not the machine.
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
	if !e.isPart() && !s.closed { // only another process, which resumes the reply, needs its parts
		s.keep(e)
	}
	return nil
}

// hashLength is an upper bound of the length that the hash adds to a line.
const hashLength = 100

// seal returns the line of an entry. It is valid until the next call.
func (s *Session) seal(e Entry) ([]byte, error) {
	s.buf.Reset()
	out := json.NewEncoder(&s.buf)
	out.SetEscapeHTML(false) // code is full of <, > and &, and an escape has six bytes
	if err := out.Encode(recordLine{e, &s.synced}); err != nil {
		return nil, err
	}
	if s.buf.Len() > maxLine-hashLength {
		return nil, errLong
	}
	s.buf.Truncate(s.buf.Len() - len("}\n"))
	return s.chain.Seal(s.buf.Bytes(), 0), nil
}

// Sync returns when all entries are on stable storage.
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

// Once appends an entry unless there is one with its kind and key. It reports whether it did.
func (s *Session) Once(e Entry, sync bool) (bool, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, found := s.find(e.Kind, e.Key); found {
		return false, nil
	}
	return true, s.append(e, sync)
}

// Find returns the last entry with a kind and key.
func (s *Session) Find(kind Kind, key string) (Entry, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.find(kind, key)
}

func (s *Session) find(kind Kind, key string) (Entry, bool) {
	for i := len(s.entries) - 1; i >= 0; i-- { // usually a recent entry is wanted
		if e := &s.entries[i]; e.Kind == kind && e.Key == key {
			return *e, true
		}
	}
	return Entry{}, false
}

// Entries returns all entries so far, without the pieces of complete replies. The caller must not
// modify them.
func (s *Session) Entries() []Entry {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.entries[:len(s.entries):len(s.entries)]
}

// Close syncs and closes the session.
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

// JournalName returns the name of the journal of the nth run on a question.
func JournalName(question, n int) string {
	return strconv.Itoa(question) + "-" + strconv.Itoa(n) + ".journal"
}

// CloseAndPrune closes the session and removes its folder if nothing was recorded.
func (s *Session) CloseAndPrune() error {
	empty := len(s.Entries()) == 0
	err := s.Close()
	if empty {
		err = errors.Join(err, os.RemoveAll(s.Dir))
	}
	return err
}
