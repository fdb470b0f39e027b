package toolbox

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"signalbox/internal/oracle/chunk"
	"signalbox/internal/testkit/must"
)

const notebook = `
-- backup.md --
# Backing things up

General words.

## Restore a snapshot

Stop the program, copy the files, start the program.
-- garden/tomatoes.md --
# Tomatoes

Plant tomatoes in May. The café sells seedlings.

## Watering

Each morning. A snapshot of the plan hangs in the shed.
-- misc.markdown --
Talk to Anna about GitHub and the restore of snapshots.
-- plain.txt --
snapshot snapshot snapshot
-- node_modules/x/readme.md --
snapshot
`

func TestSearchNotes(t *testing.T) {
	tool := SearchNotes(folderOf(t, notebook), "")
	for query, want := range map[string][]string{
		"restore snapshot": {"backup.md:5 Restore a snapshot",
			"misc.markdown:1 misc", "garden/tomatoes.md:5 Watering"},
		"How do I restore the snapshots?": {"backup.md:5 Restore a snapshot",
			"misc.markdown:1 misc", "garden/tomatoes.md:5 Watering"},
		"TOMATO": {"garden/tomatoes.md:1 Tomatoes",
			"garden/tomatoes.md:5 Watering"},
		"cafe":    {"garden/tomatoes.md:1 Tomatoes"},
		"github":  {"misc.markdown:1 misc"},
		"git hub": {"misc.markdown:1 misc"},
		"back up": {"backup.md:1 Backing things up",
			"backup.md:5 Restore a snapshot"},
		"watering": {"garden/tomatoes.md:5 Watering"},
	} {
		// The text has the best section first; the sources are sorted by path.
		out, err := tool.Use(t.Context(),
			Call{Arguments: json.RawMessage(fmt.Sprintf(`{"query":%q}`, query))})
		var got []string
		for _, s := range out.Sources {
			if s.Type != "note" {
				t.Errorf("a source of type %s", s.Type)
			}
			got = append(got, fmt.Sprintf("%s:%d %s", s.Path, s.Line, s.Title))
		}
		if diff := cmp.Diff(want, got); diff != "" || err != nil {
			t.Errorf("%q (-want +got):\n%s\n%s", query, diff, out.Text)
		}
	}
	text := ok(t, tool, args{"query": "restore snapshot", "limit": 1})
	want := "3 sections for \"restore snapshot\", best first:\n\n1. Backing things up › Restore a snapshot (backup.md:5)\n" +
		"Stop the program, copy the files, start the program.\n\n(2 more; use more words or a larger limit to see others)\n"
	if diff := cmp.Diff(want, text); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	out := use(t, tool, args{"query": "quux"})
	if !out.OK || out.Sources != nil {
		t.Errorf("%+v", out)
	}
	has(t, out.Text, `No section in 3 notes contains a word of "quux". Try other words`,
		"Backing things up; Tomatoes; misc")
	fails(t, tool, args{"query": "?!"}, "the query has no words")
	fails(t, tool, args{"query": "x", "limit": 21}, `argument "limit" is not valid: maximum`,
		`"maximum":20`)
	fails(t, SearchNotes(filepath.Join(t.TempDir(), "gone"), ""), args{"query": "x"},
		"cannot open the folder")
	has(t, ok(t, SearchNotes(t.TempDir(), ""), args{"query": "x"}),
		"There are no notes in the folder")
}

func TestSearchNotesPrefix(t *testing.T) {
	out := use(t, SearchNotes(folderOf(t, notebook), "docs/notes"),
		args{"query": "watering"})
	if diff := cmp.Diff([]chunk.Source{{Type: "note", Path: "docs/notes/garden/tomatoes.md",
		Line: 5, Title: "Watering"}}, out.Sources); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	has(t, out.Text, "(docs/notes/garden/tomatoes.md:5)")
}

// The excerpt of a long section is the part with most of the words.
func TestNoteExcerpt(t *testing.T) {
	dir := t.TempDir()
	filler := strings.Repeat("Of one thing and another, ölig.\n", 200)
	put(t, dir, "long.md", "# Long\n\n"+filler+"A zebra.\n"+filler+"The zebra met a quagga.\n"+
		filler)
	text := ok(t, SearchNotes(dir, ""), args{"query": "quagga zebra"})
	has(t, text, "1. Long (long.md:404)\n…\nThe zebra met a quagga.\nOf one")
	if len(text) > maxExcerpt+200 || !utf8.ValidString(text) {
		t.Errorf("%d bytes", len(text))
	}
	has(t, ok(t, SearchNotes(dir, ""), args{"query": "long"}), "1. Long (long.md:1)\nOf one")

	for i := range 50 {
		put(t, dir, fmt.Sprintf("n%d.md", i),
			strings.Repeat("a gnu with a very long line behind it ", 300))
	}
	text = ok(t, SearchNotes(dir, ""), args{"query": "gnu", "limit": 20})
	if len(text) > maxNotesText || strings.Count(text, "\n…") > 0 ||
		strings.Count(text, "(n") < 12 {
		t.Errorf("%d bytes:\n%s", len(text), text)
	}
}

func TestNotesIndexIsReused(t *testing.T) {
	dir := folderOf(t, notebook)
	n := &notes{folder: folder{dir}, turn: make(chan struct{}, 1)}
	then := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	at := func(name string, when time.Time) {
		t.Helper()
		must.Succeed(t, os.Chtimes(filepath.Join(dir, name), when, when))
	}
	at("backup.md", then)
	builds := func(what, query string, want int, found bool) {
		t.Helper()
		r, err := n.search(t.Context(), notesInput{Query: query})
		if err != nil || n.builds != want || (len(r.Sources) > 0) != found {
			t.Errorf("%s: %d times, want %d; found %v, want %v (%v)", what, n.builds, want,
				len(r.Sources) > 0, found, err)
		}
	}
	builds("first", "snapshot", 1, true)
	builds("again", "tomatoes", 1, true)
	builds("not there", "sapling", 1, false)
	put(t, dir, "new.md", "sapling")
	builds("a new one", "sapling", 2, true)
	put(t, dir, "other.txt", "sapling")
	builds("no note", "sapling", 2, true)
	put(t, dir, "new.md", "saplung") // of the same size
	at("new.md", then)
	builds("another time", "sapling", 3, false)
	put(t, dir, "new.md", "a sapling")
	at("new.md", then)
	builds("another size", "sapling", 4, true)
	must.Succeed(t, os.Rename(filepath.Join(dir, "new.md"), filepath.Join(dir, "old.md")))
	builds("another name", "old", 5, true)
	must.Succeed(t, os.Remove(filepath.Join(dir, "old.md")))
	builds("gone", "sapling", 6, false)
	at("backup.md", then.Add(time.Nanosecond*1000))
	builds("touched", "snapshot", 7, true)
}

func TestSearchNotesConcurrently(t *testing.T) {
	tool := SearchNotes(folderOf(t, notebook), "")
	results := make(chan Outcome)
	for range 8 {
		go func() { results <- use(t, tool, args{"query": "snapshot"}) }()
	}
	first := <-results
	for range 7 {
		if diff := cmp.Diff(first, <-results); diff != "" || !first.OK {
			t.Errorf("%+v\n%s", first, diff)
		}
	}
}

// A call that waits for the index returns when it is cancelled.
func TestSearchNotesCancelled(t *testing.T) {
	n := &notes{folder: folder{folderOf(t, notebook)}, turn: make(chan struct{}, 1)}
	n.turn <- struct{}{}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := n.search(ctx, notesInput{Query: "snapshot"}); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	<-n.turn
	if _, err := n.search(ctx, notesInput{Query: "snapshot"}); !errors.Is(err, context.Canceled) ||
		n.index != nil {
		t.Errorf("%v, and an index of a part: %v", err, n.index)
	}
}
