package toolbox

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"unicode/utf8"

	"signalbox/internal/oracle/prompt"
	"signalbox/internal/text"
)

const (
	maxMatches    = 40
	maxSearchText = 16 << 10
	maxSearched   = 2 << 20 // bytes of a file
	// fewMatches is up to how many matches are shown with their neighbouring lines.
	fewMatches = 8
)

type searchInput struct {
	Query  string  `json:"query"`
	Regexp bool    `json:"regexp"`
	Path   string  `json:"path"`
	Limit  integer `json:"limit"`
}

// SearchCode returns the tool search_code, which finds lines in the text files below dir. It never
// leaves dir, and skips symbolic links, .git, the box, files that usually hold passwords or keys
// (such as .env and *.pem), what .gitignore files exclude, node_modules and vendor unless the path
// names them, files of more than 2 MiB, and binary files.
func SearchCode(dir string) Tool {
	f := folder{dir}
	return Tool{
		Name: "search_code",
		Description: "Finds lines in source code and other text files. The query is a name, a piece of code or a few words. If no line contains the whole query, returns lines that contain most of its words, " +
			"best first. The search is case-sensitive only if the query has capital letters.",
		Kind: prompt.CodeTool,
		Schema: json.RawMessage(`{"type":"object","properties":{` +
			`"query":{"type":"string","minLength":1,"maxLength":1000,"description":"What to find: a single line of text."},` +
			`"regexp":{"type":"boolean","description":"The query is a regular expression (RE2; case-sensitive unless it begins with (?i)). Default false."},` +
			`"path":{"type":"string","maxLength":1000,"description":"Search only this file or folder, or files that match a pattern such as *.go or internal/**/*_test.go. Default: everywhere."},` +
			`"limit":{"type":"integer","minimum":1,"maximum":40,"description":"Maximum number of lines. Default 40."}},` +
			`"required":["query"],"additionalProperties":false}`),
		ReadOnly: true,
		Use: func(ctx context.Context, call Call) (Result, error) {
			in, err := decode[searchInput](call.Arguments)
			if err != nil {
				return Result{}, err
			}
			return f.search(ctx, in)
		},
	}
}

// place is a part of the folder to search.
type place struct {
	root  *os.Root
	start string // a folder, or a file
	file  bool
	only  selection // nil means all files
}

func (f folder) search(ctx context.Context, in searchInput) (Result, error) {
	in.Query = strings.Trim(in.Query, "\r\n")
	switch {
	case strings.TrimSpace(in.Query) == "":
		return Result{}, fmt.Errorf("the query is empty: write what to find")
	case strings.ContainsAny(in.Query, "\r\n"):
		return Result{}, fmt.Errorf(
			"the query has several lines, but each line is searched separately: use one of them")
	}
	limit := int(in.Limit)
	if limit <= 0 || limit > maxMatches {
		limit = maxMatches
	}
	m, err := newMatcher(in.Query, in.Regexp)
	if err != nil {
		return Result{}, err
	}
	root, err := f.open()
	if err != nil {
		return Result{}, err
	}
	defer root.Close()
	where, err := f.place(ctx, root, in.Path)
	if err != nil {
		return Result{}, err
	}
	found, err := where.collect(ctx, m.scanLines(limit))
	if err != nil {
		return Result{}, err
	}
	if found.files > 0 {
		return found.result(limit, fmt.Sprintf("%s for %.200q:", found.summary(), in.Query)), nil
	}
	words := searchWords(in.Query)
	if in.Regexp || len(words) == 0 {
		return Result{Text: found.noMatch(in)}, nil
	}
	similar, err := where.collect(ctx, newWordScanner(words, limit).scan)
	if err != nil {
		return Result{}, err
	}
	if similar.files == 0 {
		return Result{Text: similar.noMatch(in)}, nil
	}
	return similar.result(limit,
		fmt.Sprintf("No line contains %.200q. These contain most of its words (%s), best first:",
			in.Query, strings.Join(words, ", "))), nil
}

// place resolves the path argument, which may be a pattern.
func (f folder) place(ctx context.Context, root *os.Root, name string) (place, error) {
	name = filepath.ToSlash(name)
	at, err := f.inside(name)
	if err != nil {
		return place{}, err
	}
	info, err := root.Stat(filepath.FromSlash(at))
	if err == nil {
		return place{root: root, start: at, file: !info.IsDir()}, unignored(root, at, info.IsDir())
	}
	only, wild := parseSelection(at)
	if !wild {
		return place{}, f.missing(ctx, root, at, err)
	}
	start, err := f.inside(only.start(at))
	if err != nil {
		return place{}, err
	}
	if info, err := root.Stat(filepath.FromSlash(start)); err != nil || !info.IsDir() {
		return place{}, f.missing(ctx, root, start, err)
	}
	return place{root: root, start: start, only: only}, unignored(root, start, true)
}

// maxScanners is how many files are read and searched at once.
const maxScanners = 8

// scan returns the matches in a file. folded is text in lower case. It may be called by several
// goroutines.
type scan func(path string, text, folded []byte) fileHits

// collect searches all files of the place.
func (p place) collect(ctx context.Context, s scan) (*findings, error) {
	all := &findings{}
	if p.file {
		info, err := p.root.Lstat(filepath.FromSlash(p.start))
		if err != nil || !info.Mode().IsRegular() {
			return nil, fmt.Errorf("%s is neither a file nor a folder: use another path", p.start)
		}
		all.search(file{root: p.root, path: p.start}, s, &buffers{})
		return all, ctx.Err()
	}
	files := make(chan file, 64)
	panics := make(chan any, maxScanners)
	var group sync.WaitGroup
	for range min(runtime.GOMAXPROCS(0), maxScanners) {
		group.Go(func() {
			defer func() {
				if v := recover(); v != nil {
					panics <- v
				}
				for range files { // so that the walk ends
				}
			}()
			var b buffers
			for f := range files {
				all.search(f, s, &b)
			}
		})
	}
	err := walk(ctx, p.root, p.start, func(f file) {
		if p.only.has(f.path) {
			files <- f
		}
	})
	close(files)
	group.Wait()
	if len(panics) > 0 {
		panic(<-panics) // in the caller's goroutine, which may recover
	}
	return all, err
}

// buffers are used for one file after the other.
type buffers struct{ text, folded []byte }

// search adds the matches in a file.
func (a *findings) search(f file, s scan, b *buffers) {
	text, large, binary, err := f.read(b.text, maxSearched)
	if cap(text) > cap(b.text) {
		b.text = text[:0]
	}
	if large {
		a.skip()
	}
	if err != nil || binary || large {
		return
	}
	text = bytes.TrimPrefix(text, []byte("\uFEFF"))
	if cap(b.folded) < len(text) {
		b.folded = make([]byte, cap(text))
	}
	folded := b.folded[:len(text)]
	lower(folded, text)
	a.add(s(f.path, text, folded))
}

// scanLines returns the lines of a file that match.
func (m *matcher) scanLines(limit int) scan {
	return func(path string, text, folded []byte) fileHits {
		found := fileHits{path: path}
		m.each(text, folded, func(l line, at, length int) {
			found.total++
			if isWholeWord(text[l.from:l.to], at, length) {
				found.score = 1
			}
			if len(found.hits) < limit {
				found.hits = append(found.hits, newHit(text, l, at))
			}
		})
		return found
	}
}

// isWholeWord reports whether the match at at is not a part of a longer word.
func isWholeWord(line []byte, at, length int) bool {
	before, _ := utf8.DecodeLastRune(line[:at])
	after, _ := utf8.DecodeRune(line[min(at+length, len(line)):])
	return !isWordRune(before) && !isWordRune(after)
}

// noMatch is the result of a search without matches. It says what else to try.
func (a *findings) noMatch(in searchInput) string {
	message := fmt.Sprintf("Nothing in %s matches %.200q.", text.Count(a.searched, "file"),
		in.Query)
	if a.large > 0 {
		message += fmt.Sprintf(" Not searched because of their size: %s.",
			text.Count(a.large, "file"))
	}
	switch {
	case a.searched == 0 && in.Path != "":
		return message + " There are no text files to search: leave out path, or list the folder with read_file."
	case in.Regexp:
		message += " Each line is searched separately, and the search is case-sensitive: try (?i), a simpler expression, or a few words without regexp."
	case strings.ContainsAny(in.Query, `|\`) || strings.Contains(in.Query, ".*"):
		message += " If the query is a regular expression, set regexp to true."
	default:
		message += " Try another name, fewer words, or a part of a word."
	}
	if in.Path != "" {
		message += " Or leave out path to search everywhere."
	}
	return message
}
