// Package mutation breaks code in small ways: an operator, a condition, a constant, what a function
// returns, a statement that is missing. A mutant is one such change, in one place. Code whose tests
// bite has tests that fail for it.
//
// Go is changed by its syntax tree. Other languages are changed by what a line looks like once
// comments and strings are hidden; see Find. Everything here is pure: it reads and writes no files.
package mutation

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"path"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"signalbox/internal/lazy"
)

// Mutant is one change of a file.
type Mutant struct {
	File string
	// Line is where it begins, from 1.
	Line int
	// Function is the function that it changes, "" if that is not known.
	Function string
	// Source[Start:End] is replaced by With.
	Start, End int
	With       string
	// Before and After are the changed lines, each as one line.
	Before, After string
}

// Apply returns the changed source.
func (m Mutant) Apply(source []byte) []byte {
	return slices.Concat(source[:m.Start], []byte(m.With), source[m.End:])
}

// What is longer was not written by hand, or is too long for anybody to read what became of it.
const (
	maxLine = 500
	maxEdit = 2000
	// maxMutants is how many mutants of a file are found, and maxAll how many of all files.
	maxMutants = 5000
	maxAll     = 4 * maxMutants
)

// MaxFile is the size up to which files are changed. What is larger was not written by hand.
const MaxFile = 1 << 20

// Find returns the mutants of a file in the lines that differ from old, in the order of the file.
// old is nil for a new file. Tests, generated and binary files have none, nor have files in
// languages that it does not know, or that are not parsed as Go.
func Find(file string, old, source []byte) []Mutant {
	if !IsCode(file, source) {
		return nil
	}
	lines := newLines(source)
	origin := origins(bytes.SplitAfter(old, []byte("\n")), lines.text)
	wanted := func(offset int) bool {
		line := lines.number(offset) - 1
		return origin[line] < 0 && len(lines.text[line]) <= maxLine
	}
	if path.Ext(file) == ".go" {
		return findGo(file, source, wanted)
	}
	return findTokens(file, source, lines, languageOf(file, source), wanted)
}

// File is a changed file. Old is nil for a new one.
type File struct {
	Path     string
	Old, New []byte
}

// FindAll returns the mutants of all files in the order in which they are tried; see Find and
// Sample. If there are too many, it has those of the files that come first in Order.
func FindAll(files []File, seed int) (found []Mutant) {
	order := Order(seed)
	for _, f := range slices.SortedFunc(slices.Values(files),
		func(a, b File) int { return order(a.Path, b.Path) }) {
		found = append(found, Find(f.Path, f.Old, f.New)...)
		if len(found) >= maxAll {
			found = found[:maxAll]
			break
		}
	}
	return Sample(found, seed)
}

// Order returns the order in which files are looked at. It depends on nothing but their names and
// the seed, and has no preference for any folder.
func Order(seed int) func(a, b string) int {
	rank := func(file string) []byte {
		sum := sha256.Sum256([]byte(strconv.Itoa(seed) + "\x00" + file))
		return sum[:]
	}
	return func(a, b string) int {
		return cmp.Or(bytes.Compare(rank(a), rank(b)), cmp.Compare(a, b))
	}
}

// MayBeCode reports whether a file can have code that Find can change, as far as its name says.
func MayBeCode(file string) bool {
	ext := strings.ToLower(path.Ext(file))
	return ext == "" || ext == ".go" || languages[ext] != nil
}

// IsCode reports whether a file has code that Find can change.
func IsCode(file string, source []byte) bool {
	return len(source) <= MaxFile && utf8.Valid(source) && !bytes.ContainsRune(source, 0) &&
		!isGenerated(source) &&
		(path.Ext(file) == ".go" || languageOf(file, source) != nil)
}

// generated matches the line with which a program says that it wrote the file.
var generated = lazy.Regexp(`(?m)^[^\w\n]*(?:Code generated .*DO NOT EDIT|@generated\b)`)

func isGenerated(source []byte) bool {
	return generated().Match(source[:min(len(source), 4096)])
}

// IsTest reports whether a file is part of the tests, as its name and its folders say.
func IsTest(file string) bool {
	folders, name := path.Split(file)
	for folder := range strings.SplitSeq(strings.ToLower(folders), "/") {
		switch folder {
		case "test", "tests", "__tests__", "testdata", "spec", "specs", "fixtures":
			return true
		}
	}
	name = strings.TrimSuffix(name, path.Ext(name))
	lower := strings.ToLower(name)
	for _, word := range []string{"test", "tests", "spec"} {
		if lower == word {
			return true
		}
		for _, mark := range []string{"_", "-", "."} {
			if strings.HasSuffix(lower, mark+word) || strings.HasPrefix(lower, word+mark) {
				return true
			}
		}
	}
	return lower == "conftest" || strings.HasSuffix(name, "Test") || strings.HasSuffix(name, "Tests")
}

// Sample puts mutants in the order in which they are tried. It depends on nothing but their files,
// the text of their lines and what they change, so that the same change has the same order, also
// after lines before it were added. The first mutant of every line comes before the second of any.
func Sample(all []Mutant, seed int) []Mutant {
	type ranked struct {
		Mutant
		round int
		hash  uint64
	}
	repeated := map[string]int{}
	some := make([]ranked, len(all))
	for i, m := range all {
		key := m.File + "\x00" + m.Before + "\x00" + m.After
		sum := sha256.Sum256([]byte(strconv.Itoa(seed) + "\x00" + key + "\x00" +
			strconv.Itoa(repeated[key])))
		repeated[key]++
		some[i] = ranked{m, 0, binary.BigEndian.Uint64(sum[:])}
	}
	slices.SortStableFunc(some, func(a, b ranked) int { return cmp.Compare(a.hash, b.hash) })
	type line struct {
		file   string
		number int
	}
	seen := map[line]int{}
	for i := range some {
		at := line{some[i].File, some[i].Line}
		some[i].round = seen[at]
		seen[at]++
	}
	slices.SortStableFunc(some, func(a, b ranked) int { return cmp.Compare(a.round, b.round) })
	ordered := make([]Mutant, len(some))
	for i := range some {
		ordered[i] = some[i].Mutant
	}
	return ordered
}

// lines are the lines of a file.
type lines struct {
	source []byte
	text   [][]byte // with the end of each line
	starts []int
}

func newLines(source []byte) *lines {
	l := &lines{source: source, text: bytes.SplitAfter(source, []byte("\n"))}
	at := 0
	for _, line := range l.text {
		l.starts = append(l.starts, at)
		at += len(line)
	}
	return l
}

// number returns the line of an offset, from 1.
func (l *lines) number(offset int) int {
	i, found := slices.BinarySearch(l.starts, offset)
	if found {
		return i + 1
	}
	return i
}

// mutant returns the mutant that replaces source[start:end]. What is on both sides of the change does
// not become one token with it.
func (l *lines) mutant(file string, start, end int, with string) Mutant {
	if start > 0 {
		next := with
		if next == "" && end < len(l.source) {
			next = string(l.source[end : end+1])
		}
		if next != "" && joins(l.source[start-1], next[0]) {
			with = " " + with
		}
	}
	if with != "" && end < len(l.source) && joins(with[len(with)-1], l.source[end]) {
		with += " "
	}
	first, last := l.number(start), l.number(end)
	if end > start {
		last = l.number(end - 1)
	}
	from, to := l.starts[first-1], l.starts[last-1]+len(l.text[last-1])
	return Mutant{File: file, Line: first, Start: start, End: end, With: with,
		Before: flat(string(l.source[from:to])),
		After:  flat(string(l.source[from:start]) + with + string(l.source[end:to]))}
}

// joins reports whether two characters beside each other could be one token.
func joins(a, b byte) bool {
	return isWord(a) && isWord(b) || isOperator(a) && isOperator(b)
}

func isWord(c byte) bool {
	return c == '_' || c >= '0' && c <= '9' || c >= 'A' && c <= 'Z' || c >= 'a' && c <= 'z' ||
		c >= utf8.RuneSelf
}

func isOperator(c byte) bool { return strings.IndexByte("+-*/%&|^<>=!:.", c) >= 0 }

// flat returns text on one line.
func flat(text string) string { return strings.Join(strings.Fields(text), " ") }
