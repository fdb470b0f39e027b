package session

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"signalbox/internal/oracle/chunk"
	"signalbox/internal/oracle/model"
	"signalbox/internal/testkit/must"
	"signalbox/internal/tree"
)

// at is a time without parts that JSON would lose.
var at = time.Date(2026, 1, 2, 3, 4, 5, 6, time.UTC)

// oneOfEach returns an entry of every kind, with all fields.
func oneOfEach() []Entry {
	call := &model.Call{ID: "call_1", Name: "look", Arguments: `{"query":"<auth>"}`}
	return []Entry{
		{Kind: Question, At: at, Question: 1, Text: "What is it?\nTell me. <signal>",
			Class: "code"},
		{Kind: RunStart, At: at, Question: 1, Run: "O-1.1.1", Journal: "1-1.journal"},
		{Kind: Note, At: at, Key: "k1", Question: 1, Turn: 1, Text: "Go on."},
		{Kind: Piece, At: at, Key: "k1", Question: 1, Turn: 1, Text: "It"},
		{Kind: Restart, At: at, Key: "k1", Question: 1, Turn: 1},
		{Kind: Piece, At: at, Key: "k1", Question: 1, Turn: 1, Text: "It is"},
		{Kind: Reply, At: at, Key: "k1", Question: 1, Turn: 1,
			Reply: &model.Reply{Text: "It is…", Reasoning: "hm", Calls: []model.Call{*call},
				Stop:  model.StopCalls,
				Usage: model.Usage{Input: 3, Output: 4, Known: true}, Model: "m", Tries: 2}},
		{Kind: Call, At: at, Key: "k1/0", Question: 1, Turn: 1, Call: call},
		{Kind: Result, At: at, Key: "k1/0", Question: 1, Turn: 1, Call: call, OK: true,
			Text: "found", Sources: []chunk.Source{{Type: "code", Path: "auth.go", Line: 7}}},
		{Kind: Signal, At: at, Key: "r#1", Question: 1, Turn: 1,
			Signal: &chunk.Signal{Turn: 1, Name: "need_turn", Confidence: 0.8,
				Fields: map[string]any{"n": int64(3)}}},
		{Kind: System, At: at, Key: "r#2", Question: 1, Turn: 1,
			System: &chunk.System{Name: "stuck", Level: "warning", Text: "oh"}},
		{Kind: TreeText, At: at, Key: "r#3", Question: 1, Turn: 1, Text: "bye"},
		{Kind: Answer, At: at, Question: 1, Text: "It is…",
			Done: &chunk.Done{Reason: "answered", Turns: 1, Tokens: 7, Session: "O-1",
				Question: 1},
			Error: &chunk.Error{Name: "failed", Text: "why"}},
	}
}

// write creates a session with entries, closes it, and returns its folder.
func write(t *testing.T, entries ...Entry) string {
	t.Helper()
	s, err := Create(t.TempDir(), "O-1")
	must.Succeed(t, err)
	for _, e := range entries {
		must.Succeed(t, s.Append(e, false))
	}
	must.Succeed(t, s.Close())
	return s.Dir
}

func open(t *testing.T, folder string) *Session {
	t.Helper()
	s, err := Open(folder)
	must.Succeed(t, err)
	t.Cleanup(func() { _ = s.Close() })
	return s
}

func record(t *testing.T, folder string) []byte {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(folder, RecordName))
	must.Succeed(t, err)
	return data
}

// withoutEnd removes the line that Close wrote, so that the record looks like that of a killed
// process.
func withoutEnd(data []byte) []byte {
	return data[:1+bytes.LastIndexByte(data[:len(data)-1], '\n')]
}

func setRecord(t *testing.T, folder string, data []byte) {
	t.Helper()
	must.Succeed(t, os.WriteFile(filepath.Join(folder, RecordName), data, 0o600))
}

func whole(entries []Entry) []Entry {
	return slices.DeleteFunc(slices.Clone(entries), func(e Entry) bool { return e.isPart() })
}

// TestRoundTrip checks that another process reads what was written, except the pieces of a complete
// reply.
func TestRoundTrip(t *testing.T) {
	folder := write(t, oneOfEach()...)
	want := whole(oneOfEach())
	s := open(t, folder)
	if s.ID != "O-1" || s.Dir != folder {
		t.Errorf("it is %s in %s", s.ID, s.Dir)
	}
	if diff := cmp.Diff(want, s.Entries()); diff != "" {
		t.Errorf("entries (-want +got):\n%s", diff)
	}
	read, err := Read(folder)
	must.Succeed(t, err)
	if diff := cmp.Diff(want, read); diff != "" {
		t.Errorf("entries that were read (-want +got):\n%s", diff)
	}
	// and the closed line
	if n := bytes.Count(record(t, folder), []byte("\n")); n != len(oneOfEach())+1 {
		t.Errorf("the record has %d lines", n)
	}
}

// TestPiecesOfReplies checks that a resuming process gets the pieces of an interrupted reply until
// that reply is complete. Pieces of other replies are kept.
func TestPiecesOfReplies(t *testing.T) {
	all := oneOfEach()
	other := Entry{Kind: Piece, At: at, Key: "k2", Question: 1, Turn: 2, Text: "More"}
	folder := write(t, all[:6]...)
	if diff := cmp.Diff(all[:6], open(t, folder).Entries()); diff != "" {
		t.Errorf("before the reply (-want +got):\n%s", diff)
	}
	folder = write(t, append(slices.Clone(all[:6]), other, all[6])...)
	want := append(slices.Clone(all[:3]), other, all[6])
	if diff := cmp.Diff(want, open(t, folder).Entries()); diff != "" {
		t.Errorf("after the reply (-want +got):\n%s", diff)
	}
}

// TestTornWrite checks that the complete lines are kept and new ones can be appended, at whatever
// byte a write stopped.
func TestTornWrite(t *testing.T) {
	// longer than the line that replaces it
	all := append(oneOfEach()[:2], Entry{Kind: Note, At: at, Text: strings.Repeat("long ", 60)})
	folder := write(t, all...)
	data := withoutEnd(record(t, folder))
	for size := 0; size <= len(data); size++ {
		setRecord(t, folder, data[:size])
		lines := bytes.Count(data[:size], []byte("\n"))
		read, err := Read(folder)
		if err != nil || len(read) != lines {
			t.Fatalf("of %d bytes %d entries are read, %v; want %d", size, len(read), err, lines)
		}
		if !bytes.Equal(record(t, folder), data[:size]) {
			t.Fatalf("reading %d bytes changed them", size)
		}
		if size%23 != 0 && size < len(data)-1 { // save time: opening syncs
			continue
		}
		s, err := Open(folder)
		must.Succeed(t, err)
		must.Succeed(t, s.Append(Entry{Kind: Note, At: at, Text: "new"}, false))
		must.Succeed(t, s.Close())
		want := append(slices.Clone(all[:lines]), Entry{Kind: Note, At: at, Text: "new"})
		if read, err = Read(folder); err != nil {
			t.Fatalf("after %d bytes: %v", size, err)
		}
		if !bytes.HasSuffix(record(t, folder), []byte("\n")) {
			t.Fatalf("after %d bytes a part of what was torn is still there", size)
		}
		if diff := cmp.Diff(want, read); diff != "" {
			t.Fatalf("after %d bytes (-want +got):\n%s", size, diff)
		}
	}
}

// TestDamage checks that a record with a changed byte, or a missing or repeated line, is refused
// with the number of the line.
func TestDamage(t *testing.T) {
	folder := write(t, oneOfEach()...)
	data := record(t, folder)
	refused := func(what string, changed []byte, line int) {
		t.Helper()
		setRecord(t, folder, changed)
		_, err := Read(folder)
		if !errors.Is(err, tree.ErrChain) ||
			!strings.Contains(err.Error(), fmt.Sprintf("line %d:", line)) {
			t.Fatalf("%s: error %v, want %v in line %d", what, err, tree.ErrChain, line)
		}
		if s, err := Open(folder); !errors.Is(err, tree.ErrChain) || s != nil {
			t.Fatalf("%s: it is opened: %v", what, err)
		}
		if !bytes.Equal(record(t, folder), changed) {
			t.Fatalf("%s: the file was changed", what)
		}
	}
	line := 1
	for i, b := range withoutEnd(data) {
		if b == '\n' {
			line++
			continue
		}
		if i%11 != 0 {
			continue
		}
		changed := bytes.Clone(data)
		if changed[i] ^= 1; changed[i] == '\n' {
			continue
		}
		refused(fmt.Sprintf("byte %d", i), changed, line)
	}
	lines := bytes.SplitAfter(data, []byte("\n"))
	refused("a line is missing", bytes.Join(slices.Delete(slices.Clone(lines), 1, 2), nil), 2)
	refused("a line is there twice", bytes.Join(slices.Insert(slices.Clone(lines), 1, lines[1]),
		nil), 3)
}

// TestPowerFailure checks that damage in unsynced lines truncates the record there, and new lines
// can be appended. Damage in synced lines is an error, even if only a line after the damage shows
// that they were synced.
func TestPowerFailure(t *testing.T) {
	dir := t.TempDir()
	s, err := Create(dir, "O-1")
	must.Succeed(t, err)
	ends := []int64{0} // of the lines
	for i, e := range oneOfEach() {
		must.Succeed(t, s.Append(e, i == 5 || i == 8))
		ends = append(ends, s.size)
	}
	data := record(t, s.Dir) // as if the machine stopped here
	must.Succeed(t, s.Close())
	const synced = 9 // lines
	for n := range oneOfEach() {
		hole := bytes.Clone(data)
		clear(hole[ends[n]+3 : ends[n]+9])
		setRecord(t, s.Dir, hole)
		got, err := Read(s.Dir)
		if n < synced {
			if other, opened := Open(s.Dir); !errors.Is(err, ErrDamaged) ||
				!errors.Is(opened, ErrDamaged) || other != nil {
				t.Errorf("a hole in line %d, which was synced: %v, %v", n+1, err, opened)
			}
			continue
		}
		if err != nil {
			t.Errorf("a hole in line %d: %v", n+1, err)
			continue
		}
		want := whole(oneOfEach()[:n])
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("a hole in line %d (-want +got):\n%s", n+1, diff)
		}
		again := open(t, s.Dir)
		note := Entry{Kind: Note, At: at, Text: "new"}
		if again.synced != ends[n] {
			t.Errorf("a hole in line %d: %d bytes are known to be synced, want %d", n+1,
				again.synced, ends[n])
		}
		must.Succeed(t, errors.Join(again.Append(note, false), again.Close()))
		if got, err = Read(s.Dir); err != nil || !cmp.Equal(append(want, note), got) {
			t.Errorf("after a hole in line %d: %+v, %v", n+1, got, err)
		}
	}
}

// TestOlderRecord checks that records of older versions, without Synced, can be read, and that any
// damage to them is an error.
func TestOlderRecord(t *testing.T) {
	folder := write(t)
	var chain tree.Chain
	var data []byte
	for _, e := range oneOfEach() {
		text, err := json.Marshal(e)
		must.Succeed(t, err)
		data = chain.Seal(append(data, text[:len(text)-1]...), len(data))
	}
	setRecord(t, folder, data)
	if got, err := Read(folder); err != nil || !cmp.Equal(whole(oneOfEach()), got) {
		t.Errorf("%+v, %v", got, err)
	}
	data[len(data)-200] = 0
	setRecord(t, folder, data)
	if _, err := Read(folder); !errors.Is(err, ErrDamaged) {
		t.Errorf("damage: %v", err)
	}
}

// TestClosedOnce checks that Close writes nothing if nothing was written since the last Close.
func TestClosedOnce(t *testing.T) {
	folder := write(t, oneOfEach()[0])
	data := record(t, folder)
	must.Succeed(t, open(t, folder).Close())
	if !bytes.Equal(data, record(t, folder)) {
		t.Error("a session that was opened and closed is longer")
	}
	if data := record(t, write(t)); len(data) > 0 {
		t.Errorf("one with nothing in it has %q", data)
	}
}

// TestLongLine checks that a line too long to be read is not written, and that the session stays
// usable.
func TestLongLine(t *testing.T) {
	folder := write(t)
	s := open(t, folder)
	if err := s.Append(Entry{Kind: Note, Text: strings.Repeat("x", maxLine-150)},
		true); !errors.Is(err, errLong) {
		t.Errorf("error %v", err)
	}
	code := Entry{Kind: Note, At: at, Text: strings.Repeat("<&>", 1000)} // must not be escaped
	must.Succeed(t, errors.Join(s.Append(code, false), s.Close()))
	if got, err := Read(folder); err != nil || !cmp.Equal([]Entry{code}, got) ||
		len(record(t, folder)) > 4000 {
		t.Errorf("%d entries of %d bytes, %v", len(got), len(record(t, folder)), err)
	}
}

// TestInUse checks that a session can be open only once, and again after it is closed.
func TestInUse(t *testing.T) { synctest.Test(t, testInUse) }

func testInUse(t *testing.T) {
	folder := write(t, oneOfEach()[0])
	s := open(t, folder)
	if other, err := Open(folder); !errors.Is(err, ErrInUse) || other != nil {
		t.Errorf("it can be opened twice: %v", err)
	}
	if read, err := Read(folder); err != nil || len(read) != 1 {
		t.Errorf("it cannot be read: %v, %v", read, err)
	}
	// A killed process may hold its lock for a moment.
	given := make(chan error, 1)
	time.AfterFunc(500*time.Millisecond, func() { given <- s.Close() })
	open(t, folder)
	if err := <-given; err != nil {
		t.Error(err)
	}
}

// TestCreate checks that an existing session is not created again.
func TestCreate(t *testing.T) {
	folder := write(t, oneOfEach()[0])
	if s, err := Create(filepath.Dir(folder), "O-1"); err == nil || s != nil ||
		!strings.Contains(err.Error(), "already exists") {
		t.Errorf("an existing session was created again: %v", err)
	}
	if _, err := Create(filepath.Join(folder, "no", "such"), "O-2"); err == nil {
		t.Error("a session was created in a missing folder")
	}
	if _, err := Open(filepath.Join(folder, "nowhere")); err == nil {
		t.Error("a missing folder was opened")
	}
	if _, err := Read(t.TempDir()); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a folder without a record: %v", err)
	}
}

// TestOnceAndFind checks that an entry with a kind and key is written once, even across processes.
func TestOnceAndFind(t *testing.T) {
	folder := write(t, Entry{Kind: Signal, At: at, Key: "r#1", Text: "first"})
	s := open(t, folder)
	for _, c := range []struct {
		e    Entry
		want bool
	}{
		{Entry{Kind: Signal, Key: "r#1", Text: "second"}, false},
		{Entry{Kind: System, Key: "r#1", Text: "third"}, true},
		{Entry{Kind: Signal, Key: "r#2", Text: "fourth"}, true},
		{Entry{Kind: Signal, Key: "r#2", Text: "fifth"}, false},
	} {
		if fresh, err := s.Once(c.e, true); err != nil || fresh != c.want {
			t.Errorf("%s was written: %t, %v", c.e.Text, fresh, err)
		}
	}
	for key, want := range map[string]string{"r#1": "first", "r#2": "fourth", "r#3": ""} {
		if e, there := s.Find(Signal, key); e.Text != want || there != (want != "") {
			t.Errorf("%s is %q, %t", key, e.Text, there)
		}
	}
	var texts []string
	for _, e := range s.Entries() {
		texts = append(texts, e.Text)
		if e.At.IsZero() || e.At.Location() != time.UTC {
			t.Errorf("%s was at %v", e.Text, e.At)
		}
	}
	if diff := cmp.Diff([]string{"first", "third", "fourth"}, texts); diff != "" {
		t.Errorf("entries (-want +got):\n%s", diff)
	}
}

// TestBroken checks that nothing is written after a failed write, because an incomplete line may be
// there, and that every writer gets an error.
func TestBroken(t *testing.T) {
	s := open(t, write(t, oneOfEach()[0]))
	must.Succeed(t, s.file.Close())
	first := s.Append(Entry{Kind: Note, Text: "lost"}, false)
	if !errors.Is(first, os.ErrClosed) ||
		!strings.Contains(first.Error(), "could not be recorded") {
		t.Fatalf("error %v", first)
	}
	_, once := s.Once(Entry{Kind: Note, Key: "k", Text: "lost too"}, true)
	for _, err := range []error{s.Append(Entry{Kind: Note}, true), once, s.Sync()} {
		if !errors.Is(err, os.ErrClosed) {
			t.Errorf("error %v", err)
		}
	}
	if n := len(s.Entries()); n != 1 {
		t.Errorf("%d entries are remembered", n)
	}
}
