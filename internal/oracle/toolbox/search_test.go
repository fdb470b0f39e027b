package toolbox

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"signalbox/internal/testkit/must"
	"signalbox/internal/testkit/property"
)

// places returns the matches that a search shows, in order, without context lines.
func places(text string) []string {
	return regexp.MustCompile(`(?m)^\S+?:\d+: .*$`).FindAllString(text, -1)
}

const sources = `
-- main.go --
package main

// Main begins here.
func main() { parseTurnSignal("x") }
-- lib/parse.go --
package lib

func parse_turn_signal() {}

func ParseTurn(signal string) {}
// turn it round
-- lib/deep/other.txt --
nothing but PARSE
straße und STRASSE
-- README.md --
Where to begin: main.
`

func TestSearch(t *testing.T) {
	tool := SearchCode(folderOf(t, sources))
	for name, c := range map[string]struct {
		in   args
		want []string
	}{
		"literal": {args{"query": "func main()"},
			[]string{`main.go:4: func main() { parseTurnSignal("x") }`}},
		"capitals ignored": {args{"query": "parse"},
			[]string{"lib/deep/other.txt:1: nothing but PARSE",
				"lib/parse.go:3: func parse_turn_signal() {}",
				"lib/parse.go:5: func ParseTurn(signal string) {}",
				`main.go:4: func main() { parseTurnSignal("x") }`}},
		"capitals count": {args{"query": "PARSE"},
			[]string{"lib/deep/other.txt:1: nothing but PARSE"}},
		"beyond ASCII": {args{"query": "straße"},
			[]string{"lib/deep/other.txt:2: straße und STRASSE"}},
		"signs are signs": {args{"query": "l("},
			[]string{"lib/parse.go:3: func parse_turn_signal() {}",
				`main.go:4: func main() { parseTurnSignal("x") }`}},
		"whole words first": {args{"query": "main"},
			[]string{"README.md:1: Where to begin: main.", "main.go:1: package main",
				"main.go:3: // Main begins here.",
				`main.go:4: func main() { parseTurnSignal("x") }`}},
		"expression": {args{"query": `^func \w+\(\) \{\}$`, "regexp": true},
			[]string{"lib/parse.go:3: func parse_turn_signal() {}"}},
		"expression, any": {args{"query": `(?i)round|BEGINS`, "regexp": true},
			[]string{"lib/parse.go:6: // turn it round", "main.go:3: // Main begins here."}},
		"expression, its letters": {args{"query": `Begins`, "regexp": true}, nil},
		"in a folder": {args{"query": "package", "path": "lib"},
			[]string{"lib/parse.go:1: package lib"}},
		"in a folder, oddly": {args{"query": "package", "path": "./lib/deep/../"},
			[]string{"lib/parse.go:1: package lib"}},
		"in a file": {args{"query": "package", "path": "main.go"},
			[]string{"main.go:1: package main"}},
		"in some files": {args{"query": "main", "path": "*.md"},
			[]string{"README.md:1: Where to begin: main."}},
		"in files of two kinds": {args{"query": "begin", "path": "*.{md,go}"},
			[]string{"README.md:1: Where to begin: main.", "main.go:3: // Main begins here."}},
		"below folders": {args{"query": "parse", "path": "lib/**/*.txt"},
			[]string{"lib/deep/other.txt:1: nothing but PARSE"}},
		"in folders like that": {args{"query": "parse", "path": "lib/d*"},
			[]string{"lib/deep/other.txt:1: nothing but PARSE"}},
		"limit": {args{"query": "package", "limit": 1},
			[]string{"lib/parse.go:1: package lib"}},
		"other capitals": {args{"query": "ParseTurnSIGNAL", "path": "main.go"},
			[]string{`main.go:4: func main() { parseTurnSignal("x") }`}},
		"words in a name": {args{"query": "parse turn signal"},
			[]string{"lib/parse.go:3: func parse_turn_signal() {}",
				"lib/parse.go:5: func ParseTurn(signal string) {}",
				`main.go:4: func main() { parseTurnSignal("x") }`}},
		"most of the words": {args{"query": "where do we parse the turn signal loudly"},
			[]string{"lib/parse.go:3: func parse_turn_signal() {}",
				"lib/parse.go:5: func ParseTurn(signal string) {}",
				`main.go:4: func main() { parseTurnSignal("x") }`}},
		"half of the words": {args{"query": "where do we parse the turn loudly and clearly"},
			nil},
		"words in one file": {args{"query": "round package", "path": "lib"},
			[]string{"lib/parse.go:1: package lib"}},
		"nothing of the kind": {args{"query": "quux"}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			out := use(t, tool, c.in)
			if !out.OK {
				t.Fatal(out.Text)
			}
			got := places(out.Text)
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s\n%s", diff, out.Text)
			}
			var from []string
			for _, s := range out.Sources {
				if s.Type != "code" {
					t.Errorf("a source of type %s", s.Type)
				}
				from = append(from, fmt.Sprintf("%s:%d", s.Path, s.Line))
			}
			for i := range got {
				got[i] = strings.Join(strings.SplitN(got[i], ":", 3)[:2], ":")
			}
			if diff := cmp.Diff(got, from); diff != "" {
				t.Errorf("sources (-shown +told):\n%s", diff)
			}
		})
	}
}

// Lines are ranked by how many of the words they contain, and whether these are adjacent.
func TestSearchWordsBestFirst(t *testing.T) {
	tool := SearchCode(folderOf(t, `
-- a.go --
retry
the backoff is elsewhere
-- b.go --
// limit of all: the backoff after a retry
-- c.go --
var retryBackoffLimit = 3
-- d.go --
retry here, with backoff
-- e.go --
limit
`))
	text := ok(t, tool, args{"query": "retry backoff limit"})
	want := []string{"c.go:1: var retryBackoffLimit = 3",
		"b.go:1: // limit of all: the backoff after a retry", "d.go:1: retry here, with backoff",
		"a.go:1: retry"}
	if diff := cmp.Diff(want, places(text)); diff != "" {
		t.Errorf("(-want +got):\n%s\n%s", diff, text)
	}
	has(t, text, `No line contains "retry backoff limit"`, "retry, backoff, limit")
}

func TestSearchContext(t *testing.T) {
	tool := SearchCode(folderOf(t, "-- a.go --\none\ntwo\nthree\nfour\nfive\n\nseven\n"))
	for query, want := range map[string]string{
		"one":        "\na.go:1: one\na.go-2- two\n",
		"three|four": "\na.go-2- two\na.go:3: three\na.go:4: four\na.go-5- five\n",
		"two|four":   "\na.go-1- one\na.go:2: two\na.go-3- three\na.go:4: four\na.go-5- five\n",
		"seven":      "\na.go:7: seven\n", // blank context lines are left out
	} {
		text := ok(t, tool, args{"query": query, "regexp": true})
		if _, got, _ := strings.Cut(text, ":\n"); got != want {
			t.Errorf("%s: %q, want %q", query, got, want)
		}
	}
}

func TestSearchShortens(t *testing.T) {
	dir := t.TempDir()
	for i := range 60 {
		put(t, dir, fmt.Sprintf("f%02d.txt", i), strings.Repeat("needle\n", 5))
	}
	text := ok(t, SearchCode(dir), args{"query": "needle"})
	has(t, text, "300 matches in 60 files for", "(2 more in this file)",
		"(40 of 300 matches in 60 files shown, also in f14.txt (5)", "more; use a longer query")
	if n := len(places(text)); n != maxMatches {
		t.Errorf("%d lines", n)
	}
	hasNot(t, text, "-1- ")

	// Long lines reach the size limit before the limit of 40 lines.
	for i := range 60 {
		put(t, dir, fmt.Sprintf("f%02d.txt", i), strings.Repeat("needle "+strings.Repeat("ä", 200)+
			"\n", 5))
	}
	put(t, dir, strings.Repeat("long/", 40)+strings.Repeat("n", 250)+".txt",
		strings.Repeat("needle\n", 50))
	for _, path := range []string{"", "long", "f*"} {
		text = ok(t, SearchCode(dir), args{"query": "needle", "path": path})
		if len(text) > maxSearchText || !utf8.ValidString(text) || len(places(text)) < 25 {
			t.Errorf("%d bytes, %d lines", len(text), len(places(text)))
		}
	}
}

func TestSearchOddFiles(t *testing.T) {
	dir := t.TempDir()
	put(t, dir, "crlf.txt", "first\r\nneedle\r\nlast\r\n")
	put(t, dir, "bom.txt", "\uFEFFneedle at the start\n")
	put(t, dir, "latin1.txt", "caf\xe9 needle\n")
	put(t, dir, "noend.txt", "needle")
	put(t, dir, "empty.txt", "")
	put(t, dir, "long.txt", strings.Repeat("€", 50_000)+"needle"+strings.Repeat("€", 50_000))
	put(t, dir, "binary.bin", "needle\x00needle\n")
	put(t, dir, "large.txt", strings.Repeat("needle\n", maxSearched/7+1))
	text := ok(t, SearchCode(dir), args{"query": `^needle|needle$|é* needle|€+needle`,
		"regexp": true, "limit": 40})
	want := []string{"bom.txt:1: needle at the start", "crlf.txt:2: needle",
		"latin1.txt:1: caf\uFFFD needle",
		"long.txt", "noend.txt:1: needle"}
	slices.Sort(want)
	got := places(text)
	slices.Sort(got)
	if len(got) != len(want) {
		t.Fatalf("%d lines:\n%s", len(got), text)
	}
	for i := range got {
		if strings.HasPrefix(got[i], "long.txt") {
			if len(got[i]) > maxShownLine+30 || !utf8.ValidString(got[i]) ||
				!strings.HasSuffix(got[i], "…") || strings.Contains(got[i], "\uFFFD") {
				t.Errorf("a long line is shown as %d bytes: %s", len(got[i]), got[i])
			}
			continue
		}
		if got[i] != want[i] {
			t.Errorf("%q, want %q", got[i], want[i])
		}
	}
	has(t, text, "(not searched because of their size: 1 file)")
	hasNot(t, text, "binary", "\r")
	text = ok(t, SearchCode(dir), args{"query": "needle"})
	has(t, text, "long.txt:1: …", "€needle€", "crlf.txt:2: needle\n",
		"latin1.txt:1: caf\uFFFD needle")
}

func TestSearchNoMatch(t *testing.T) {
	tool := SearchCode(folderOf(t, sources))
	for query, c := range map[string]struct {
		in   args
		want []string
	}{
		"word": {args{"query": "quux"}, []string{"Nothing in 4 files matches \"quux\".",
			"Try another name"}},
		"in a path": {args{"query": "quux", "path": "lib"},
			[]string{"Nothing in 2 files", "leave out path"}},
		"no files": {args{"query": "quux", "path": "lib/*.rs"},
			[]string{"Nothing in 0 files", "no text files to search"}},
		"expression": {args{"query": "quux.*", "regexp": true}, []string{"(?i)"}},
		"looks like": {args{"query": "quux|quuz"}, []string{"set regexp to true"}},
	} {
		out := use(t, tool, c.in)
		if !out.OK || out.Sources != nil {
			t.Errorf("%s: %+v", query, out)
		}
		has(t, out.Text, c.want...)
	}
	fails(t, tool, args{"query": " \n"}, "the query is empty")
	fails(t, tool, args{"query": "a\nb"}, "several lines")
	fails(t, tool, args{"query": "a(?=b)", "regexp": true}, "not a valid RE2 regular expression",
		"leave out regexp")
	fails(t, tool, args{"query": "x", "path": "libb/parse.go"},
		"libb/parse.go does not exist; did you mean lib/parse.go?")
	fails(t, tool, args{"query": "x", "path": "libb/*.go"}, "libb does not exist")
	fails(t, tool, args{},
		`bad arguments for search_code: argument "query" is required; its schema is {"type":"string"`)
	fails(t, SearchCode(filepath.Join(t.TempDir(), "gone")), args{"query": "x"},
		"cannot open the folder", "correct it in the configuration")
}

func TestSearchSkips(t *testing.T) {
	dir := folderOf(t, `
-- .gitignore --
*.log
/build/
-- a.go --
needle
-- a.log --
needle
-- build/out.go --
needle
-- sub/build/out.go --
needle
-- sub/.gitignore --
!kept.log
gen.*
-- sub/kept.log --
needle
-- sub/gen.go --
needle
-- node_modules/m/a.js --
needle
-- vendor/v/a.go --
needle
-- .git/config --
needle
-- .signalbox/key --
needle
-- .github/x.yaml --
needle
`)
	outside := t.TempDir()
	put(t, outside, "secret.txt", "needle\n")
	link(t, dir, "link.txt", filepath.Join(outside, "secret.txt"))
	link(t, dir, "linked", outside)
	link(t, dir, "loop", ".")
	link(t, dir, "box", ".signalbox")
	found := func(in args) (files []string) {
		in["query"] = "needle"
		for _, s := range use(t, SearchCode(dir), in).Sources {
			files = append(files, s.Path)
		}
		return files
	}
	for path, want := range map[string][]string{
		"":                {".github/x.yaml", "a.go", "sub/build/out.go", "sub/kept.log"},
		"vendor":          {"vendor/v/a.go"},
		"vendor/**/*.go":  {"vendor/v/a.go"},
		"sub":             {"sub/build/out.go", "sub/kept.log"},
		"loop/sub":        {"sub/build/out.go", "sub/kept.log"},
		"*.log":           {"sub/kept.log"},
		"node_modules/m/": {"node_modules/m/a.js"},
	} {
		if diff := cmp.Diff(want, found(args{"path": path})); diff != "" {
			t.Errorf("%q (-want +got):\n%s", path, diff)
		}
	}
	for path, why := range map[string]string{
		".git": "not accessible to tools", ".GIT/config": "not accessible to tools",
		".signalbox/*":      "not accessible to tools",
		"sub/../.signalbox": "not accessible to tools", "box": "not accessible to tools",
		"build": "a .gitignore excludes build", "build/out.go": "a .gitignore excludes build",
		"a.log":             "a .gitignore excludes a.log",
		"loop/a.log":        "a .gitignore excludes a.log",
		"link.txt":          "is a link to a file outside the folder",
		"linked/secret.txt": "is a link to a file outside the folder",
		"linked":            "is a link to a file outside the folder",
		"..":                "outside the folder", "../*": "outside the folder",
		outside:       "outside the folder",
		"a\x00b":      "zero byte",
		"/sub/gen.go": "did you mean sub/gen.go?", "../sub": "did you mean sub?",
	} {
		fails(t, SearchCode(dir), args{"query": "needle", "path": path}, why)
		fails(t, ReadFile(dir), args{"path": path}, why)
	}
	fails(t, SearchCode(dir), args{"query": "needle", "path": "build/*.go"},
		"a .gitignore excludes build")
	if got := found(args{"path": filepath.Join(dir, "a.go")}); !slices.Equal(got,
		[]string{"a.go"}) {
		t.Errorf("a whole path in the folder: %q", got)
	}
}

// A cancelled search ends soon and closes all files.
func TestSearchCancelled(t *testing.T) {
	dir := t.TempDir()
	for i := range 500 {
		put(t, dir, fmt.Sprintf("d%d/f%d.txt", i%7, i), "needle\n")
	}
	root, err := os.OpenRoot(dir)
	must.Succeed(t, err)
	defer root.Close()
	ctx, cancel := context.WithCancel(t.Context())
	seen := 0
	err = walk(ctx, root, ".", func(f file) {
		seen++
		cancel()
	})
	if !errors.Is(err, context.Canceled) || seen != 1 {
		t.Errorf("%v after %d files", err, seen)
	}
	if _, err := (folder{dir}).search(ctx, searchInput{Query: "needle"}); !errors.Is(err,
		context.Canceled) {
		t.Errorf("search: %v", err)
	}
}

// A panic in a goroutine of a search does not crash the program.
func TestSearchPanics(t *testing.T) {
	dir := folderOf(t, sources)
	out := Run(t.Context(), tool(func(ctx context.Context, _ Call) (Result, error) {
		root, err := os.OpenRoot(dir)
		if err != nil {
			return Result{}, err
		}
		defer root.Close()
		_, err = place{root: root, start: "."}.collect(ctx,
			func(string, []byte, []byte) fileHits { panic("in a search") })
		return Result{}, err
	}), Call{})
	has(t, out.Text, "panicked: in a search")
}

// TestMatcherAgreesWithRegexp compares the matcher with matching each line separately.
func TestMatcherAgreesWithRegexp(t *testing.T) {
	property.Check(t, func(t *rapid.T) {
		atom := rapid.SampledFrom([]string{"a", "b", "K", "s", "ſ", "k", "ab", "Key", "é", ".",
			"\\w", "[ab]", "(?:ab|ba)", "(a|K)", "(?i:key)", "(?i:ask)", "a*", "b+", "(ab)?", "^",
			"$", "\\s", "x{2}", "x{0,2}"})
		query := strings.Join(rapid.SliceOfN(atom, 1, 4).Draw(t, "atoms"), "")
		if rapid.Bool().Draw(t, "either") {
			query += "|" + strings.Join(rapid.SliceOfN(atom, 1, 3).Draw(t, "others"), "")
		}
		piece := rapid.SampledFrom([]string{"a", "b", "ab", "ba", "K", "k", "key", "KEY",
			"\u212Aey", "ask", "aſk", "s", "é", "É", "xx", " ", "\n", "\r\n", "\xff"})
		text := []byte(strings.Join(rapid.SliceOfN(piece, 0, 30).Draw(t, "text"), ""))
		m, err := newMatcher(query, true)
		if err != nil {
			t.Skip(err)
		}
		re := regexp.MustCompile(query)
		var want, got []int
		for i, line := range strings.Split(strings.TrimSuffix(string(text), "\n"), "\n") {
			if len(text) > 0 && re.MatchString(strings.TrimSuffix(line, "\r")) {
				want = append(want, i+1)
			}
		}
		folded := make([]byte, len(text))
		lower(folded, text)
		m.each(text, folded, func(l line, at, length int) { got = append(got, l.number) })
		if diff := cmp.Diff(want, got); diff != "" {
			t.Fatalf("%q in %q (-want +got):\n%s", query, text, diff)
		}
	})
}

func TestExcerpt(t *testing.T) {
	line := []byte(strings.Repeat("€", 300) + "\r\n")
	for at := range len(line) {
		got := excerpt(line, at)
		if strings.Contains(got, "\uFFFD") || len(got) > maxShownLine+2*len("…") ||
			len(got) < maxShownLine-4 || strings.ContainsAny(got, "\r\n") {
			t.Fatalf("around %d: %q", at, got)
		}
	}
	if got := excerpt(line, 450); !strings.HasPrefix(got, "…€") || !strings.HasSuffix(got, "€…") {
		t.Errorf("%q", got)
	}
}

func TestLower(t *testing.T) {
	property.Check(t, func(t *rapid.T) {
		in := rapid.SliceOf(rapid.Byte()).Draw(t, "in")
		want := slices.Clone(in)
		for i, c := range want {
			if 'A' <= c && c <= 'Z' {
				want[i] = c + 32
			}
		}
		got := make([]byte, len(in))
		lower(got, in)
		if !slices.Equal(got, want) {
			t.Fatalf("%q, want %q", got, want)
		}
	})
}
