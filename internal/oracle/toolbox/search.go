package toolbox

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
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
	found, err := where.collect(ctx, func() scanner { return &lineScanner{m: m, limit: limit} })
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
	similar, err := where.collect(ctx, func() scanner { return newWordScanner(words, limit) })
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

// scanner finds matching lines. A scanner is used by one goroutine.
type scanner interface {
	// scan returns the matches in a file. folded is text in lower case.
	scan(path string, text, folded []byte) fileHits
}

// collect searches all files of the place.
func (p place) collect(ctx context.Context, scanners func() scanner) (*findings, error) {
	all := &findings{}
	visitor := func() func(file) {
		s := scanners()
		var buffer, folded []byte
		return func(f file) {
			if !p.only.has(f.path) {
				return
			}
			text, large, binary, err := f.read(buffer, maxSearched)
			if cap(text) > cap(buffer) {
				buffer = text[:0]
			}
			if err != nil || binary || large {
				all.skip(large, err != nil)
				return
			}
			text = bytes.TrimPrefix(text, []byte("\uFEFF"))
			if cap(folded) < len(text) {
				folded = make([]byte, cap(text))
			}
			folded = folded[:len(text)]
			lower(folded, text)
			all.add(s.scan(f.path, text, folded))
		}
	}
	if !p.file {
		return all, walk(ctx, p.root, p.start, visitor)
	}
	dir, err := p.root.OpenRoot(filepath.FromSlash(path.Dir(p.start)))
	if err != nil {
		return nil, fmt.Errorf("cannot read %s: %v", p.start, cause(err))
	}
	defer dir.Close()
	info, err := dir.Lstat(path.Base(p.start))
	if err != nil || !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%s is neither a file nor a folder: use another path", p.start)
	}
	visitor()(file{dir, p.start, fs.FileInfoToDirEntry(info)})
	return all, ctx.Err()
}

// lineScanner is a scanner that uses a matcher.
type lineScanner struct {
	m     *matcher
	limit int
}

func (s *lineScanner) scan(path string, text, folded []byte) fileHits {
	found := fileHits{path: path}
	s.m.each(text, folded, func(l line, at, length int) bool {
		found.total++
		if isWholeWord(text[l.from:l.to], at, length) {
			found.score = 1
		}
		if len(found.hits) < s.limit {
			found.hits = append(found.hits, newHit(text, l, at))
		}
		return true
	})
	return found
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
