package toolbox

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path"
	"slices"
	"strings"
	"time"

	"signalbox/internal/oracle/chunk"
	"signalbox/internal/oracle/prompt"
	"signalbox/internal/oracle/toolbox/sections"
	"signalbox/internal/text"
)

const (
	defaultNotes = 5
	maxNotes     = 20
	maxNotesText = 16 << 10
	// maxExcerpt is how many bytes of a section are shown.
	maxExcerpt = 1200
	// maxNote is the size of the largest note that is indexed, and maxAllNotes the total size of
	// all.
	maxNote     = 2 << 20
	maxAllNotes = 256 << 20
)

type notesInput struct {
	Query string  `json:"query"`
	Limit integer `json:"limit"`
}

// SearchNotes returns the tool search_notes, which finds sections of the Markdown files in a
// folder. The folder is indexed at the first call, and again when the names, sizes or modification
// times of the notes have changed. It skips the same files as search_code. prefix is put before the
// paths of notes in results, so that read_file finds them if the notes are in a subfolder of its own
// folder.
func SearchNotes(dir, prefix string) Tool {
	n := &notes{folder: folder{dir}, prefix: prefix, turn: make(chan struct{}, 1)}
	return Tool{
		Name:        "search_notes",
		Description: "Finds sections of the user's notes and documents (Markdown) by their words. The best matches come first, each with an excerpt.",
		Kind:        prompt.NotesTool,
		Schema: json.RawMessage(`{"type":"object","properties":{` +
			`"query":{"type":"string","minLength":1,"maxLength":1000,"description":"A few words of what the section is about."},` +
			`"limit":{"type":"integer","minimum":1,"maximum":20,"description":"Maximum number of sections. Default 5."}},` +
			`"required":["query"],"additionalProperties":false}`),
		ReadOnly: true,
		Use: func(ctx context.Context, call Call) (Result, error) {
			in, err := decode[notesInput](call.Arguments)
			if err != nil {
				return Result{}, err
			}
			return n.search(ctx, in)
		},
	}
}

// notes is a folder of notes and its index.
type notes struct {
	folder folder
	prefix string
	turn   chan struct{} // holds a value while a goroutine uses the fields below
	index  *sections.Index
	stamps []stamp // of the files in the index
	builds int     // how often the index was built
}

// stamp identifies a version of a file.
type stamp struct {
	path string
	size int64
	time time.Time
}

func (n *notes) search(ctx context.Context, in notesInput) (Result, error) {
	words := sections.QueryWords(in.Query)
	if len(words) == 0 {
		return Result{}, errors.New("the query has no words: write what the section is about")
	}
	limit := int(in.Limit)
	if limit <= 0 {
		limit = defaultNotes
	}
	limit = min(limit, maxNotes)
	ix, err := n.current(ctx)
	if err != nil {
		return Result{}, err
	}
	return n.show(in.Query, words, ix, limit), nil
}

// current returns an up-to-date index of the folder. An index never changes.
func (n *notes) current(ctx context.Context) (*sections.Index, error) {
	select {
	case n.turn <- struct{}{}:
		defer func() { <-n.turn }()
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	root, err := n.folder.open()
	if err != nil {
		return nil, err
	}
	defer root.Close()
	stamps, err := stampsOf(ctx, root)
	if err != nil {
		return nil, err
	}
	if n.index != nil && slices.EqualFunc(stamps, n.stamps, func(a, b stamp) bool {
		return a.path == b.path && a.size == b.size && a.time.Equal(b.time)
	}) {
		return n.index, nil
	}
	built, err := build(ctx, root, stamps)
	if err != nil {
		return nil, err
	}
	n.index, n.stamps = built, stamps
	n.builds++
	return built, nil
}

func isNote(name string) bool {
	ext := strings.ToLower(path.Ext(name))
	return ext == ".md" || ext == ".markdown"
}

// stampsOf returns the stamps of all notes, sorted by path.
func stampsOf(ctx context.Context, root *os.Root) ([]stamp, error) {
	var all []stamp
	err := walk(ctx, root, ".", func(f file) {
		if !isNote(f.path) {
			return
		}
		if info, err := f.entry.Info(); err == nil {
			all = append(all, stamp{f.path, info.Size(), info.ModTime()})
		}
	})
	slices.SortFunc(all, func(a, b stamp) int { return cmp.Compare(a.path, b.path) })
	return all, err
}

// build reads and indexes the notes.
func build(ctx context.Context, root *os.Root, stamps []stamp) (*sections.Index, error) {
	var all []sections.Note
	size := 0
	for _, s := range stamps {
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		text, large, binary, err := file{root: root, path: s.path}.read(nil, maxNote)
		if err != nil || large || binary {
			continue
		}
		if size += len(text); size <= maxAllNotes {
			all = append(all, sections.Note{Path: s.path,
				Sections: sections.Split(s.path, valid(string(text)))})
		}
	}
	return sections.Build(all), nil
}

func (n *notes) show(query string, words []string, ix *sections.Index, limit int) Result {
	ranked := ix.Rank(words)
	if len(ranked) == 0 {
		return Result{Text: noMatch(query, ix)}
	}
	var out strings.Builder
	fmt.Fprintf(&out, "%s for %.200q, best first:\n", text.Count(len(ranked), "section"),
		valid(query))
	var r Result
	for i, entry := range ranked[:min(len(ranked), limit)] {
		name := path.Join(n.prefix, entry.Path)
		body, at := entry.Excerpt(words, maxExcerpt)
		part := fmt.Sprintf("\n%d. %s (%s:%d)\n%s\n", i+1, text.Truncate(entry.FullTitle(), 300),
			valid(name), at, body)
		if out.Len()+len(part) > maxNotesText-200 && i > 0 {
			break
		}
		out.WriteString(part)
		r.Sources = append(r.Sources, chunk.Source{Type: "note", Path: name, Line: at,
			Title: entry.Title})
	}
	if left := len(ranked) - len(r.Sources); left > 0 {
		fmt.Fprintf(&out, "\n(%d more; use more words or a larger limit to see others)\n", left)
	}
	r.Text = out.String()
	return r
}

// noMatch is the result of a search without matches. It lists some titles.
func noMatch(query string, ix *sections.Index) string {
	if ix.Notes() == 0 {
		return "There are no notes in the folder: look elsewhere."
	}
	message := fmt.Sprintf("No section in %s contains a word of %.200q. Try other words",
		text.Count(ix.Notes(), "note"), valid(query))
	if titles := ix.Titles(10); len(titles) > 0 {
		for i := range titles {
			titles[i] = text.Truncate(titles[i], 80)
		}
		message += ". There are notes such as: " + strings.Join(titles, "; ")
	}
	return message + "."
}
