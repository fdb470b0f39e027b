package toolbox

import (
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
)

const (
	maxMatches    = 40
	maxSearchText = 16 << 10
	maxSearched   = 2 << 20 // bytes of a file
	// fewMatches is up to how many lines are shown with those around them.
	fewMatches = 8
)

type searchInput struct {
	Query  string  `json:"query"`
	Regexp bool    `json:"regexp"`
	Path   string  `json:"path"`
	Limit  integer `json:"limit"`
}

// SearchCode is the tool search_code, which finds lines in the files of a folder. Where it looks: [Tool] never leaves the
// folder; links, .git, the box and names that stand for passwords and keys, such as .env and *.pem, are not looked at, nor
// is what .gitignore files in the folder leave out, node_modules and vendor unless path says so, files of more than 2 MiB,
// and those that are no text.
func SearchCode(dir string) Tool {
	f := folder{dir}
	return Tool{
		Name: "search_code",
		Description: "Finds lines of source code and other text files. Give a name, a piece of code or a few words: if the whole query is nowhere, lines with most of its words come, best first. " +
			"Capitals count only if the query has any.",
		Kind: prompt.CodeTool,
		Schema: json.RawMessage(`{"type":"object","properties":{` +
			`"query":{"type":"string","minLength":1,"maxLength":1000,"description":"What to find, in one line."},` +
			`"regexp":{"type":"boolean","description":"The query is a regular expression (RE2, capitals count, (?i) to ignore them). Default false."},` +
			`"path":{"type":"string","maxLength":1000,"description":"Only in this file or folder, or in files such as *.go or internal/**/*_test.go. Default: everywhere."},` +
			`"limit":{"type":"integer","minimum":1,"maximum":40,"description":"How many lines at most. Default 40."}},` +
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

// place is where to search.
type place struct {
	root  *os.Root
	start string // a folder, or a file
	file  bool
	only  selection
}

func (f folder) search(ctx context.Context, in searchInput) (Result, error) {
	in.Query = strings.Trim(in.Query, "\r\n")
	switch {
	case strings.TrimSpace(in.Query) == "":
		return Result{}, fmt.Errorf("the query is empty: say what to find")
	case strings.ContainsAny(in.Query, "\r\n"):
		return Result{}, fmt.Errorf("the query has several lines, and lines are searched one by one: give one of them")
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
		return Result{Text: found.nothing(in)}, nil
	}
	alike, err := where.collect(ctx, func() scanner { return newWordScanner(words, limit) })
	if err != nil {
		return Result{}, err
	}
	if alike.files == 0 {
		return Result{Text: alike.nothing(in)}, nil
	}
	return alike.result(limit, fmt.Sprintf("%.200q is nowhere as it stands. These have most of its words (%s), best first:", in.Query, strings.Join(words, ", "))), nil
}

// place finds what a model means by a path.
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

// scanner finds lines in one file after the other. It is used by one goroutine.
type scanner interface {
	// scan returns the lines of a text that are worth to be shown, and how many there are.
	scan(path string, text, folded []byte) fileHits
}

// collect searches.
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
			text = withoutMark(text)
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
		return nil, fmt.Errorf("%s cannot be read: %v", p.start, cause(err))
	}
	defer dir.Close()
	info, err := dir.Lstat(path.Base(p.start))
	if err != nil || !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%s is neither a file nor a folder: name another path", p.start)
	}
	visitor()(file{dir, p.start, fs.FileInfoToDirEntry(info)})
	return all, ctx.Err()
}

// lineScanner finds the lines that a matcher does.
type lineScanner struct {
	m     *matcher
	limit int
}

func (s *lineScanner) scan(path string, text, folded []byte) fileHits {
	found := fileHits{path: path}
	s.m.each(text, folded, func(l line, at, length int) bool {
		found.total++
		whole := isWhole(text[l.from:l.to], at, length)
		if whole {
			found.score = 1
		}
		if len(found.hits) < s.limit {
			found.hits = append(found.hits, newHit(text, l, at))
		}
		return true
	})
	return found
}

// isWhole reports whether what is found in a line is no part of a longer word.
func isWhole(line []byte, at, length int) bool {
	before, _ := utf8.DecodeLastRune(line[:at])
	after, _ := utf8.DecodeRune(line[min(at+length, len(line)):])
	return !isWordRune(before) && !isWordRune(after)
}

// hint is what else to try when nothing was found.
func (a *findings) nothing(in searchInput) string {
	text := fmt.Sprintf("Nothing in %s matches %.200q.", count(a.searched, "file", "files"), in.Query)
	if a.large > 0 {
		text += fmt.Sprintf(" Not searched, for their size: %s.", count(a.large, "file", "files"))
	}
	switch {
	case a.searched == 0 && in.Path != "":
		return text + " There is no text file to search there: leave out path, or see with read_file what is in the folder."
	case in.Regexp:
		text += " Lines are searched one by one, and capitals count: try (?i), a simpler expression, or a few words without regexp."
	case strings.ContainsAny(in.Query, `|\`) || strings.Contains(in.Query, ".*"):
		text += " If it is meant as a regular expression, set regexp to true."
	default:
		text += " Try another name for it, fewer words, or a part of a word."
	}
	if in.Path != "" {
		text += " Or leave out path, to search everywhere."
	}
	return text
}
