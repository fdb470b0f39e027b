package rules

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/rogpeppe/go-internal/txtar"

	"signalbox"
	"signalbox/internal/testkit/must"
)

// Recorded histories replay forever: each is a log as it was stored and the state that it gives. A
// release adds some and edits none, which the manifest holds. With -record those of
// scenarios_test.go that have no file yet get one.
const (
	historyGlob = "testdata/history/*.txtar"
	manifest    = "testdata/history/SHA256SUMS"
)

var record = flag.Bool("record", false, "record the histories that are not recorded yet")

// recorded is an event in a history file.
type recorded struct {
	Seq     uint64          `json:"seq"`
	Time    string          `json:"time"`
	Type    string          `json:"type"`
	Work    string          `json:"work"`
	Session string          `json:"session"`
	Actor   string          `json:"actor"`
	Data    json.RawMessage `json:"data"`
}

func TestRecordedHistories(t *testing.T) {
	if *record {
		recordHistories(t)
	}
	seen := map[string]bool{}
	for _, path := range glob(t, historyGlob) {
		archive, err := txtar.ParseFile(path)
		must.Succeed(t, err)
		t.Run(filepath.Base(path), func(t *testing.T) {
			log, want := readHistory(t, archive)
			for _, e := range log {
				seen[e.Type] = true
			}
			for _, at := range []int{0, len(log) / 2, len(log) - 1} {
				s := foldFrom(t, log, at)
				if fault := brokenInvariant(s, log); fault != "" {
					t.Error(fault)
				}
				var got any
				must.Succeed(t, json.Unmarshal(viewState(s), &got))
				if diff := cmp.Diff(want, got); diff != "" {
					t.Errorf("state, from a snapshot at event %d (-want +got):\n%s", at, diff)
				}
			}
		})
	}
	for _, b := range allBodies(t) {
		if !seen[typeOf(b)] {
			t.Errorf("no recorded history has a %s", typeOf(b))
		}
	}
}

func glob(t *testing.T, pattern string) []string {
	t.Helper()
	paths, err := filepath.Glob(pattern)
	if err != nil || len(paths) == 0 {
		t.Fatalf("found %d files at %s: %v", len(paths), pattern, err)
	}
	return paths
}

// readHistory returns the events and the expected state.
func readHistory(t *testing.T, archive *txtar.Archive) (log []signalbox.Event, state any) {
	t.Helper()
	if len(bytes.TrimSpace(archive.Comment)) == 0 || len(archive.Files) != 2 ||
		archive.Files[0].Name != "events.jsonl" || archive.Files[1].Name != "state.json" {
		t.Fatal("a history is what it is about, events.jsonl and state.json")
	}
	for line := range bytes.Lines(archive.Files[0].Data) {
		var r recorded
		dec := json.NewDecoder(bytes.NewReader(line))
		dec.DisallowUnknownFields()
		if err := dec.Decode(&r); err != nil {
			t.Fatalf("%s: %v", line, err)
		}
		at, err := time.Parse(signalbox.EventTime, r.Time)
		must.Succeed(t, err)
		log = append(log, signalbox.Event{Seq: r.Seq, Time: at, Type: r.Type, Work: r.Work,
			Session: r.Session, Actor: r.Actor, Data: r.Data})
	}
	must.Succeed(t, json.Unmarshal(archive.Files[1].Data, &state))
	return log, state
}

// foldFrom folds a log, with a restart from a snapshot on the way.
func foldFrom(t *testing.T, log []signalbox.Event, restart int) *State {
	t.Helper()
	s := &State{}
	for i := range log {
		if i == restart {
			read, err := FromSnapshot(s.Snapshot())
			must.Succeed(t, err)
			s = read
		}
		must.Succeed(t, s.Apply(&log[i]))
	}
	return s
}

// viewState shows a state as JSON. What is zero is left out, so that a field that a later version
// adds does not change what earlier histories give.
func viewState(s *State) []byte {
	var buf bytes.Buffer
	err := json.Indent(&buf, view(reflect.ValueOf(struct {
		Box        string
		Rules      int
		Seq        uint64
		Time       time.Time
		Works      []shownWork
		Sessions   []*Session
		Redactions []Redaction
		Delivery   runState
		Turns      []turnRun
	}{s.box, s.rules, s.seq, s.time, shownWorks(s), s.sessions, s.redactions, s.run, s.turns})), "",
		"  ")
	if err != nil {
		panic(err)
	}
	return append(buf.Bytes(), '\n')
}

// shownWork is a Work as histories show it.
type shownWork struct {
	ID, Title   string
	Phase       signalbox.Phase
	BlockedFrom signalbox.Phase
	Notes       string
	Opened      time.Time
	Lease       *signalbox.Lease
	Tenures     []Tenure
	Task        *Task
	Ref         string
	Checks      *LastChecks
	NotesBlob   signalbox.Hash `json:",omitzero"`
}

func shownWorks(s *State) (works []shownWork) {
	for w := range s.Works() {
		works = append(works, shownWork{w.ID, w.Title, w.Phase, w.BlockedFrom, w.Notes, w.Opened,
			w.Lease, w.Tenures(), w.Task, w.Ref, w.Checks, w.NotesBlob})
	}
	return works
}

func view(v reflect.Value) []byte {
	_, isText := v.Interface().(interface{ MarshalText() ([]byte, error) })
	switch {
	case v.Kind() == reflect.Pointer:
		return view(v.Elem())
	case v.Kind() == reflect.Slice:
		var items [][]byte
		for i := range v.Len() {
			items = append(items, view(v.Index(i)))
		}
		return slices.Concat([]byte("["), bytes.Join(items, []byte(",")), []byte("]"))
	case v.Kind() == reflect.Struct && !isText:
		return slices.Concat([]byte("{"), bytes.Join(fieldsOf(v), []byte(",")), []byte("}"))
	}
	text, err := json.Marshal(v.Interface())
	if err != nil {
		panic(err)
	}
	return text
}

var hump = regexp.MustCompile(`([a-z])([A-Z])`)

// fieldsOf shows the fields of a struct that are set. The groups of fields of a task are flat.
func fieldsOf(v reflect.Value) (fields [][]byte) {
	for i := range v.NumField() {
		field, info := v.Field(i), v.Type().Field(i)
		switch {
		case field.IsZero():
		case (field.Kind() == reflect.Slice || field.Kind() == reflect.Map) && field.Len() == 0:
		case info.Anonymous && v.Type() == reflect.TypeFor[Task]():
			fields = append(fields, fieldsOf(field)...)
		default:
			fields = append(fields, fmt.Appendf(nil, "%q:%s", snake(info.Name), view(field)))
		}
	}
	return fields
}

func snake(name string) string { return strings.ToLower(hump.ReplaceAllString(name, "${1}_$2")) }

// TestHistoriesAreNotEdited: whoever edits a recorded history edits what happened.
func TestHistoriesAreNotEdited(t *testing.T) {
	listed := readManifest(t)
	for _, path := range glob(t, historyGlob) {
		data, err := os.ReadFile(path)
		must.Succeed(t, err)
		name := filepath.Base(path)
		if got := fmt.Sprintf("%x", sha256.Sum256(data)); listed[name] != got {
			t.Errorf("%s has digest %s, the manifest says %q: restore it; a new history is made with -record", name, got, listed[name])
		}
		delete(listed, name)
	}
	for name := range listed {
		t.Errorf("%s is in the manifest and not there: restore it", name)
	}
}

// readManifest returns the digest of each file, as sha256sum lists them.
func readManifest(t *testing.T) map[string]string {
	t.Helper()
	data, err := os.ReadFile(manifest)
	must.Succeed(t, err)
	digests := map[string]string{}
	for line := range strings.Lines(string(data)) {
		digest, name, ok := strings.Cut(strings.TrimSuffix(line, "\n"), "  ")
		if _, twice := digests[name]; !ok || twice {
			t.Fatalf("bad line in the manifest: %q", line)
		}
		digests[name] = digest
	}
	return digests
}

// recordHistories writes the scenarios that have no file, and lists them in the manifest.
func recordHistories(t *testing.T) {
	t.Helper()
	sums, err := os.OpenFile(manifest, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	must.Succeed(t, err)
	defer sums.Close()
	for _, sc := range scenarios {
		path := filepath.Join(filepath.Dir(historyGlob), sc.name+".txtar")
		if _, err := os.Stat(path); err == nil {
			continue
		}
		b := newBox(t)
		sc.play(b)
		data := txtar.Format(&txtar.Archive{Comment: []byte(sc.about + "\n\n"), Files: []txtar.File{
			{Name: "events.jsonl", Data: eventLines(t, b.log)},
			{Name: "state.json", Data: viewState(b.s)},
		}})
		must.Succeed(t, os.WriteFile(path, data, 0o644))
		if _, err := fmt.Fprintf(sums, "%x  %s\n", sha256.Sum256(data),
			filepath.Base(path)); err != nil {
			t.Fatal(err)
		}
	}
}

func eventLines(t *testing.T, log []signalbox.Event) []byte {
	t.Helper()
	var buf bytes.Buffer
	enc := json.NewEncoder(&buf)
	enc.SetEscapeHTML(false)
	for _, e := range log {
		must.Succeed(t, enc.Encode(recorded{e.Seq, e.Time.Format(signalbox.EventTime), e.Type,
			e.Work,
			e.Session, e.Actor, e.Data}))
	}
	return buf.Bytes()
}

// TestScenariosAreRecorded: a scenario without a file is not recorded forever.
func TestScenariosAreRecorded(t *testing.T) {
	for _, sc := range scenarios {
		if _, err := os.Stat(filepath.Join(filepath.Dir(historyGlob), sc.name+
			".txtar")); err != nil {
			t.Errorf("%v; run go test ./internal/core/rules -run TestRecordedHistories -record",
				err)
		}
	}
}
