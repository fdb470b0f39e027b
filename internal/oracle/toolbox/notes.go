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
	"sync"
	"time"

	"signalbox/internal/oracle/chunk"
	"signalbox/internal/oracle/prompt"
	"signalbox/internal/oracle/toolbox/sections"
)

const (
	defaultNotes = 5
	maxNotes     = 20
	maxNotesText = 16 << 10
	// maxExcerpt is how many bytes of a section are shown.
	maxExcerpt = 1200
	// maxNote is the size of the largest note that is read, and maxAllNotes how much of all is.
	maxNote     = 2 << 20
	maxAllNotes = 256 << 20
)

// NotesOptions are what search_notes may be told beside its folder.
type NotesOptions struct {
	// Prefix comes before the paths of notes in results, so that read_file finds them where the folder is in its own. Empty:
	// paths are relative to the folder.
	Prefix string
}

type notesInput struct {
	Query string  `json:"query"`
	Limit integer `json:"limit"`
}

// SearchNotes is the tool search_notes, which finds sections of the notes, files in Markdown, in a folder. The folder is
// read at the first call, and again when names, sizes or times of the notes have changed. It looks where search_code
// would. A nil opts means the zero NotesOptions.
func SearchNotes(dir string, opts *NotesOptions) Tool {
	n := &notes{folder: folder{dir}, turn: make(chan struct{}, 1)}
	if opts != nil {
		n.opts = *opts
	}
	return Tool{
		Name:        "search_notes",
		Description: "Finds sections of the user's notes and documents (Markdown) by their words, best first, with an excerpt of each.",
		Kind:        prompt.NotesTool,
		Schema: json.RawMessage(`{"type":"object","properties":{` +
			`"query":{"type":"string","minLength":1,"maxLength":1000,"description":"A few words of what the section is about."},` +
			`"limit":{"type":"integer","minimum":1,"maximum":20,"description":"How many sections at most. Default 5."}},` +
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

// notes is a folder of them with its index.
type notes struct {
	folder folder
	opts   NotesOptions
	turn   chan struct{} // holds one while somebody uses what follows
	index  *sections.Index
	of     []stamp // what the index was made of
	builds int     // how often it was
}

// stamp is what tells that a file has changed.
type stamp struct {
	path string
	size int64
	time time.Time
}

func (n *notes) search(ctx context.Context, in notesInput) (Result, error) {
	words := sections.QueryWords(in.Query)
	if len(words) == 0 {
		return Result{}, errors.New("the query has no words: say what the section is about")
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

// current returns an index of what the folder holds now. An index does not change any more.
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
	if n.index != nil && slices.EqualFunc(stamps, n.of, func(a, b stamp) bool {
		return a.path == b.path && a.size == b.size && a.time.Equal(b.time)
	}) {
		return n.index, nil
	}
	built, err := build(ctx, root, stamps)
	if err != nil {
		return nil, err
	}
	n.index, n.of = built, stamps
	n.builds++
	return built, nil
}

func isNote(name string) bool {
	ext := strings.ToLower(path.Ext(name))
	return ext == ".md" || ext == ".markdown"
}

// stampsOf lists the notes of a folder, sorted.
func stampsOf(ctx context.Context, root *os.Root) ([]stamp, error) {
	var (
		mu  sync.Mutex // guards all
		all []stamp
	)
	err := walk(ctx, root, ".", func() func(file) {
		return func(f file) {
			if !isNote(f.path) {
				return
			}
			if info, err := f.entry.Info(); err == nil {
				mu.Lock()
				defer mu.Unlock()
				all = append(all, stamp{f.path, info.Size(), info.ModTime()})
			}
		}
	})
	slices.SortFunc(all, func(a, b stamp) int { return cmp.Compare(a.path, b.path) })
	return all, err
}

// build reads the notes.
func build(ctx context.Context, root *os.Root, stamps []stamp) (*sections.Index, error) {
	var (
		mu    sync.Mutex // guards texts and size
		texts = make(map[string][]sections.Section, len(stamps))
		size  int64
	)
	err := walk(ctx, root, ".", func() func(file) {
		return func(f file) {
			if !isNote(f.path) {
				return
			}
			text, large, binary, err := f.read(nil, maxNote)
			if err != nil || large || binary {
				return
			}
			mu.Lock()
			size += int64(len(text))
			full := size > maxAllNotes
			mu.Unlock()
			if full {
				return
			}
			parts := sections.Split(f.path, valid(string(text)))
			mu.Lock()
			defer mu.Unlock()
			texts[f.path] = parts
		}
	})
	if err != nil {
		return nil, err
	}
	var all []sections.Note
	for _, s := range stamps {
		if parts, read := texts[s.path]; read {
			all = append(all, sections.Note{Path: s.path, Sections: parts})
		}
	}
	return sections.Build(all), nil
}

func (n *notes) show(query string, words []string, ix *sections.Index, limit int) Result {
	ranked := ix.Rank(words)
	if len(ranked) == 0 {
		return Result{Text: nothingNoted(query, ix)}
	}
	var text strings.Builder
	fmt.Fprintf(&text, "%s for %.200q, best first:\n", count(len(ranked), "section", "sections"), valid(query))
	var r Result
	for i, entry := range ranked[:min(len(ranked), limit)] {
		name := path.Join(n.opts.Prefix, entry.Path)
		body, at := entry.Excerpt(words, maxExcerpt)
		part := fmt.Sprintf("\n%d. %s (%s:%d)\n%s\n", i+1, Cut(entry.FullTitle(), 300), valid(name), at, body)
		if text.Len()+len(part) > maxNotesText-200 && i > 0 {
			break
		}
		text.WriteString(part)
		r.Sources = append(r.Sources, chunk.Source{Type: "note", Path: name, Line: at, Title: entry.Title})
	}
	if left := len(ranked) - len(r.Sources); left > 0 {
		fmt.Fprintf(&text, "\n(%d more; give more words, or a larger limit, to see others)\n", left)
	}
	r.Text = text.String()
	return r
}

// nothingNoted says that nothing was found, and what there is.
func nothingNoted(query string, ix *sections.Index) string {
	if ix.Notes() == 0 {
		return "There are no notes in the folder: look elsewhere."
	}
	text := fmt.Sprintf("Nothing in %s has a word of %.200q. Try other words for it", count(ix.Notes(), "note", "notes"), valid(query))
	if titles := ix.Titles(10); len(titles) > 0 {
		for i := range titles {
			titles[i] = Cut(titles[i], 80)
		}
		text += ". There are notes such as: " + strings.Join(titles, "; ")
	}
	return text + "."
}
