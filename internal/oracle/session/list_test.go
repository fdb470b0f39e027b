package session

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"signalbox/internal/oracle/chunk"
	"signalbox/internal/oracle/model"
	"signalbox/internal/testkit/must"
)

// put creates a session in dir.
func put(t *testing.T, dir, id string, entries ...Entry) {
	t.Helper()
	s, err := Create(dir, id)
	must.Succeed(t, err)
	for _, e := range entries {
		must.Succeed(t, s.Append(e, false))
	}
	must.Succeed(t, s.Close())
}

// TestList checks that the newest sessions come first, damaged ones are marked, and other folders
// are left out.
func TestList(t *testing.T) {
	dir := t.TempDir()
	late := at.Add(time.Hour)
	put(t, dir, "O-2", Entry{Kind: Question, At: late, Question: 1, Text: "late"})
	put(t, dir, "O-3", Entry{Kind: Question, At: at, Question: 1, Text: "early"},
		Entry{Kind: Question, At: at, Question: 2, Text: "and"},
		Entry{Kind: Answer, At: at, Question: 2, Done: &chunk.Done{Reason: "answered"}})
	put(t, dir, "O-1", Entry{Kind: Question, At: late, Question: 1, Text: "as late"},
		Entry{Kind: Answer, At: late, Question: 1, Done: &chunk.Done{Reason: "answered"}},
		Entry{Kind: RunStart, At: late, Question: 1}, Entry{Kind: Piece, At: late, Question: 1,
			Text: "cut"})
	put(t, dir, "empty")
	put(t, dir, "other", Entry{Kind: Question, At: at, Question: 1, Text: "x"})
	setRecord(t, filepath.Join(dir, "other"), []byte("{}\n"))
	must.Succeed(t, os.Chtimes(filepath.Join(dir, "other", RecordName), at,
		at.Add(-time.Hour)))
	put(t, dir, "changed", oneOfEach()...)
	data := record(t, filepath.Join(dir, "changed"))
	data[len(data)/2] ^= 1
	setRecord(t, filepath.Join(dir, "changed"), data)
	must.Succeed(t, os.WriteFile(filepath.Join(dir, "file"), nil, 0o600))
	for _, name := range []string{"folder", "no", filepath.Join("no", RecordName)} {
		must.Succeed(t, os.Mkdir(filepath.Join(dir, name), 0o700))
	}
	must.Succeed(t, os.Chtimes(filepath.Join(dir, "no", RecordName), at,
		at.Add(-2*time.Hour)))
	got, err := List(dir)
	must.Succeed(t, err)
	problems := map[string]string{"changed": "line ", "other": "line 1: ",
		"no": "read session no: "}
	for i, s := range got {
		if want := problems[s.ID]; !strings.Contains(s.Problem, want) ||
			(s.Problem != "") != (want != "") {
			t.Errorf("the problem of %s is %q", s.ID, s.Problem)
		}
		got[i].Problem = ""
	}
	want := []Summary{
		{ID: "O-2", Questions: 1, First: "late", At: late},
		{ID: "O-1", Questions: 1, First: "as late", At: late},
		{ID: "changed", Questions: 1, First: oneOfEach()[0].Text, At: at, Reason: "answered",
			Damaged: true},
		{ID: "O-3", Questions: 2, First: "early", At: at, Reason: "answered"},
		{ID: "other", At: at.Add(-time.Hour).Truncate(time.Second), Damaged: true},
		{ID: "no", At: at.Add(-2 * time.Hour).Truncate(time.Second)},
	}
	for i := range got { // file systems store times less precisely
		if got[i].First == "" {
			got[i].At = got[i].At.Truncate(time.Second)
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("sessions (-want +got):\n%s", diff)
	}
	if none, err := List(filepath.Join(dir, "nowhere")); err != nil || len(none) != 0 {
		t.Errorf("a folder that is not there has %v, %v", none, err)
	}
}

// TestListLongRecords checks that summaries of long records are right although only a part is read,
// even if the last line is long.
func TestListLongRecords(t *testing.T) {
	dir := t.TempDir()
	piece := Entry{Kind: Piece, At: at, Key: "k", Question: 1, Turn: 1,
		Text: strings.Repeat("long ", 1000)}
	entries := []Entry{{Kind: Question, At: at, Question: 1, Text: "long?"},
		{Kind: RunStart, At: at, Question: 1}}
	for range 100 {
		entries = append(entries, piece)
	}
	late := at.Add(time.Minute)
	put(t, dir, "cut", append(entries, Entry{Kind: Piece, At: late, Question: 1})...)
	put(t, dir, "said", append(entries, Entry{Kind: Reply, At: late, Question: 1,
		Reply: &model.Reply{Text: strings.Repeat("<", 1<<20)}})...)
	put(t, dir, "whole",
		append(entries, Entry{Kind: Answer, At: late, Question: 1, Text: strings.Repeat("<", 1<<20),
			Done: &chunk.Done{Reason: "answered"}})...)
	for _, id := range []string{"cut", "said", "whole"} { // the middle is not read
		data := record(t, filepath.Join(dir, id))
		copy(data[250<<10:], "\x00\x00\x00")
		setRecord(t, filepath.Join(dir, id), data)
	}
	got, err := List(dir)
	must.Succeed(t, err)
	want := []Summary{
		{ID: "whole", Questions: 1, First: "long?", At: late, Reason: "answered"},
		{ID: "said", Questions: 1, First: "long?", At: late},
		{ID: "cut", Questions: 1, First: "long?", At: late},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("sessions (-want +got):\n%s", diff)
	}
}

// TestNewest checks that Newest returns the session written last, and an error if that one is
// damaged.
func TestNewest(t *testing.T) {
	dir := t.TempDir()
	if s, err := Newest(dir); s != nil || err != nil {
		t.Errorf("of nothing: %+v, %v", s, err)
	}
	late := at.Add(time.Minute)
	put(t, dir, "O-2", Entry{Kind: Question, At: late, Question: 1, Text: "late"},
		Entry{Kind: Note, At: late, Question: 1, Text: strings.Repeat("x", 1<<20)})
	put(t, dir, "O-1", Entry{Kind: Question, At: at, Question: 1, Text: "early"})
	s, err := Newest(dir)
	must.Succeed(t, err)
	if diff := cmp.Diff(&Summary{ID: "O-2", Questions: 1, First: "late", At: late}, s); diff != "" {
		t.Errorf("the newest (-want +got):\n%s", diff)
	}
	data := record(t, filepath.Join(dir, "O-2"))
	setRecord(t, filepath.Join(dir, "O-2"), bytes.Replace(data, []byte("xxxx"), []byte("xxxy"), 1))
	if s, err := Newest(dir); s != nil || !errors.Is(err, ErrDamaged) ||
		!strings.Contains(err.Error(), "O-2") {
		t.Errorf("if it is damaged: %+v, %v", s, err)
	}
}
