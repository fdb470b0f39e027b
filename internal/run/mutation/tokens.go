package mutation

import (
	"bytes"
	"math/big"
	"path"
	"regexp"
	"slices"
	"strings"

	"signalbox/internal/lazy"
)

// language is what Find knows about a language other than Go. The zero value has no comments.
type language struct {
	line, open, end string   // how comments begin and end
	quotes          string   // the characters around strings
	long            []string // the marks around strings of several lines
	// spaced means that a comment follows a space, or begins a line, and that characters such as <
	// are not operators, as in a shell.
	spaced bool
	words  bool   // it has the operators and, or, not
	none   string // the value that stands for no value, "" if there is none for all types
	// nothing is the statement that does nothing. A statement is a line then; otherwise it ends
	// with a semicolon.
	nothing string
}

var (
	cLike      = language{line: "//", open: "/*", end: "*/", quotes: `"'`}
	javascript = language{line: "//", open: "/*", end: "*/", quotes: `"'`, long: []string{"`"},
		none: "null"}
	python = language{line: "#", quotes: `"'`, long: []string{`"""`, `'''`}, words: true,
		none: "None", nothing: "pass"}
	ruby  = language{line: "#", quotes: "\"'`", words: true, none: "nil", nothing: "nil"}
	shell = language{line: "#", quotes: "`", long: []string{`"`, `'`}, spaced: true, nothing: ":"}
	php   = language{line: "//", open: "/*", end: "*/", quotes: `"'`, none: "null"}
	lua   = language{line: "--", open: "--[[", end: "]]", quotes: `"'`, words: true, none: "nil"}
	sql   = language{line: "--", open: "/*", end: "*/", quotes: `"'`, words: true}
)

var languages = map[string]*language{
	".c": &cLike, ".h": &cLike, ".cc": &cLike, ".cpp": &cLike, ".cxx": &cLike, ".hpp": &cLike,
	".cs": &cLike, ".java": &cLike, ".rs": &cLike, ".swift": &cLike, ".kt": &cLike, ".kts": &cLike,
	".scala": &cLike, ".groovy": &cLike, ".dart": &cLike, ".zig": &cLike, ".m": &cLike,
	".js": &javascript, ".mjs": &javascript, ".cjs": &javascript, ".jsx": &javascript,
	".ts": &javascript, ".mts": &javascript, ".cts": &javascript, ".tsx": &javascript,
	".py": &python, ".rb": &ruby, ".php": &php, ".lua": &lua, ".sql": &sql,
	".sh": &shell, ".bash": &shell, ".zsh": &shell, ".ksh": &shell,
}

// languageOf returns the language of a file, by its name or its first line; nil if it is not known.
func languageOf(file string, source []byte) *language {
	if l := languages[strings.ToLower(path.Ext(file))]; l != nil || path.Ext(file) != "" {
		return l
	}
	first, _, _ := bytes.Cut(source[:min(len(source), 200)], []byte("\n"))
	if !bytes.HasPrefix(first, []byte("#!")) {
		return nil
	}
	for _, known := range []struct {
		program string
		*language
	}{{"python", &python}, {"node", &javascript}, {"ruby", &ruby}, {"lua", &lua}, {"sh", &shell}} {
		if bytes.Contains(first, []byte(known.program)) {
			return known.language
		}
	}
	return nil
}

// hidden stands for each byte of a string.
const hidden = '\x01'

// mask returns the source with comments as spaces and strings as bytes that nothing matches. All
// lines stay where they are.
func (l *language) mask(source []byte) []byte {
	masked := bytes.Clone(source)
	// blank hides bytes, but no ends of lines.
	blank := func(from, to int, with byte) {
		for i := from; i < to; i++ {
			if masked[i] != '\n' {
				masked[i] = with
			}
		}
	}
	// within returns the end of what begins at an offset and ends with a mark, at most an end.
	within := func(from, end int, mark string, escapes bool) int {
		for i := from; i < end; i++ {
			switch {
			case escapes && source[i] == '\\':
				i++
			case bytes.HasPrefix(source[i:], []byte(mark)):
				return min(i+len(mark), end)
			}
		}
		return end
	}
	until := func(from int, mark string, escapes bool) int {
		return within(from, len(source), mark, escapes)
	}
	for at := 0; at < len(source); {
		rest := source[at:]
		begins := func(mark string) bool {
			return mark != "" && bytes.HasPrefix(rest, []byte(mark))
		}
		long := slices.IndexFunc(l.long, begins)
		afterSpace := at == 0 || strings.IndexByte(" \t\n;", source[at-1]) >= 0
		end := at + 1
		switch {
		case l.spaced && rest[0] == '\\':
			end = min(at+2, len(source))
		case begins(l.open):
			end = until(at+len(l.open), l.end, false)
			blank(at, end, ' ')
		case begins(l.line) && (afterSpace || !l.spaced):
			end = until(at, "\n", false)
			blank(at, end, ' ')
		case long >= 0:
			end = until(at+len(l.long[long]), l.long[long], !l.spaced || rest[0] != '\'')
			blank(at, end, hidden)
		case strings.IndexByte(l.quotes, rest[0]) >= 0:
			line := until(at+1, "\n", true)
			end = within(at+1, line, string(rest[:1]), true)
			if end == line && source[line-1] != rest[0] { // not a string, but a lifetime or a text
				end = at + 1
			}
			blank(at, end, hidden)
		case l.spaced && begins("<<"):
			if word := heredoc().FindSubmatch(rest); word != nil {
				text := until(at, "\n", false)
				end = until(text-1, "\n"+string(word[1])+"\n", false)
				blank(at, text, ';') // the command has more lines
				blank(text, end, hidden)
			}
		}
		at = end
	}
	return masked
}

// heredoc matches the beginning of a text in a shell script, with the word that ends it.
var heredoc = lazy.Regexp(`^<<-?\s*["'\\]?([A-Za-z_]\w*)`)

var (
	operators = lazy.Regexp(
		`(===|!==|==|!=|&&|\|\|| <= | >= | < | > | \+ | - | \* | / |\+=|-=)`)
	swapped = map[string]string{"===": "!==", "!==": "===", "==": "!=", "!=": "==", "&&": "||",
		"||": "&&", " <= ": " < ", " >= ": " > ", " < ": " <= ", " > ": " >= ", " + ": " - ",
		" - ": " + ", " * ": " / ", " / ": " * ", "+=": "-=", "-=": "+="}
	shellOperators = lazy.Regexp(`(&&|\|\|| -(?:eq|ne|lt|le|gt|ge|z|n) | == | = | != )`)
	shellSwapped   = map[string]string{"&&": "||", "||": "&&", " -eq ": " -ne ", " -ne ": " -eq ",
		" -lt ": " -le ", " -le ": " -lt ", " -gt ": " -ge ", " -ge ": " -gt ", " -z ": " -n ",
		" -n ": " -z ", " == ": " != ", " = ": " != ", " != ": " = "}
	wordOperators = lazy.Regexp(`\b(and|or|not )\b`)
	wordSwapped   = map[string]string{"and": "or", "or": "and", "not ": ""}
	booleans      = lazy.Regexp(`\b(true|false|True|False)\b`)
	otherBoolean  = map[string]string{"true": "false", "false": "true", "True": "False",
		"False": "True"}
	numbers = lazy.Regexp(`(?:^|[^\w.$])(\d{1,18})\b`)
	status  = lazy.Regexp(`\b(?:exit|return)\s+$`)
	not     = lazy.Regexp(`(?:^|[\s(&|])(!)[\w(]`)
	// returned matches the value that a whole line returns.
	returned = lazy.Regexp(`^\s*return\s+([^;]*[^;\s])\s*;?\s*$`)
	// statement matches a line that is a call or an assignment.
	statement = lazy.Regexp(
		`^\s*([\w.:>$@\[\]-]+\s*(?:\(.*\)|(?:[-+*/|&^]|<<|>>)?=[^=].*?))\s*(;?)\s*$`)
	// command matches a line that is a command of a shell.
	command  = lazy.Regexp(`^\s*([A-Za-z_./$][^|&;{}()]*?)\s*$`)
	keywords = lazy.Regexp(
		`^\s*(?:if|then|else|elif|fi|for|while|until|do|done|case|esac|in|function|return|break|` +
			`continue|let|const|var|import|from|export|using|package|class|def|end|local|declare|` +
			`readonly|public|private|protected|static|typedef|extern|switch|catch|except|with|` +
			`lambda|assert|unset|shift|set)\b`)
)

// findTokens returns the mutants of a file in a language other than Go.
func findTokens(file string, source []byte, all *lines, l *language,
	wanted func(offset int) bool) (found []Mutant) {
	masked := newLines(l.mask(source))
	for i, line := range masked.text {
		start := masked.starts[i]
		if len(line) == 0 || !wanted(start) || len(found) >= maxMutants {
			continue
		}
		line = bytes.TrimRight(line, "\r\n")
		add := func(from, to int, with string) {
			found = append(found, all.mutant(file, start+from, start+to, with))
		}
		l.operators(line, add)
		l.constants(line, add)
		continues := i > 0 && l.continues(masked.text[i-1])
		if !continues && !bytes.HasSuffix(line, []byte(`\`)) {
			l.statements(line, add)
		}
	}
	slices.SortStableFunc(found, func(a, b Mutant) int { return a.Start - b.Start })
	return found
}

// continues reports whether a line continues in the next one.
func (l *language) continues(line []byte) bool {
	line = bytes.TrimSpace(line)
	if len(line) == 0 {
		return false
	}
	if l.spaced {
		return strings.IndexByte(`\|&`, line[len(line)-1]) >= 0
	}
	return strings.IndexByte(`\,([=+-*/&|.?`, line[len(line)-1]) >= 0
}

type adder = func(from, to int, with string)

// each adds the mutants in which one match is replaced.
func each(find *regexp.Regexp, line []byte, add adder, with func(text string) (string, bool)) {
	for _, at := range find.FindAllSubmatchIndex(line, -1) {
		if text, ok := with(string(line[at[2]:at[3]])); ok {
			add(at[2], at[3], text)
		}
	}
}

func from(table map[string]string) func(text string) (string, bool) {
	return func(text string) (string, bool) {
		with, ok := table[text]
		return with, ok
	}
}

func (l *language) operators(line []byte, add adder) {
	if l.spaced {
		each(shellOperators(), line, add, from(shellSwapped))
		return
	}
	each(operators(), line, add, from(swapped))
	each(not(), line, add, func(string) (string, bool) { return "", true })
	if l.words {
		each(wordOperators(), line, add, from(wordSwapped))
	}
}

func (l *language) constants(line []byte, add adder) {
	each(booleans(), line, add, from(otherBoolean))
	for _, at := range numbers().FindAllSubmatchIndex(line, -1) {
		from, to := at[2], at[3]
		number, ok := new(big.Int).SetString(string(line[from:to]), 10)
		switch {
		case !ok, l.spaced && isRedirection(line, from, to):
			continue
		case l.spaced && status().Match(line[:from]) && number.Sign() > 0: // all others mean the same
			number = new(big.Int)
		default:
			number.Add(number, big.NewInt(1))
		}
		add(from, to, number.String())
	}
}

// isRedirection reports whether a number is that of a file, as in 2>&1.
func isRedirection(line []byte, from, to int) bool {
	return from > 0 && strings.IndexByte("<>&", line[from-1]) >= 0 ||
		to < len(line) && strings.IndexByte("<>", line[to]) >= 0
}

// statements adds what a line returns and whether it is there at all, if it is a whole statement.
func (l *language) statements(line []byte, add adder) {
	if !balanced(line) {
		return
	}
	if at := returned().FindSubmatchIndex(line); at != nil && l.none != "" &&
		string(line[at[2]:at[3]]) != l.none {
		add(at[2], at[3], l.none)
	}
	if keywords().Match(line) {
		return
	}
	find := statement()
	if l.spaced {
		find = command()
	}
	at := find.FindSubmatchIndex(line)
	if at == nil || l.nothing == "" && !l.semicolon(line) ||
		string(line[at[2]:at[3]]) == l.nothing {
		return
	}
	add(at[2], at[3], l.nothing)
}

// semicolon reports whether a line ends with one.
func (l *language) semicolon(line []byte) bool {
	return bytes.HasSuffix(bytes.TrimSpace(line), []byte(";"))
}

// balanced reports whether all brackets that a line opens are closed in it.
func balanced(line []byte) bool {
	var open []byte
	for _, c := range line {
		switch c {
		case '(', '[', '{':
			open = append(open, c)
		case ')', ']', '}':
			if len(open) == 0 {
				return false
			}
			open = open[:len(open)-1]
		}
	}
	return len(open) == 0
}
