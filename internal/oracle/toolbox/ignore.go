package toolbox

import (
	"path"
	"strings"
)

const (
	maxIgnoreFile = 64 << 10
	maxPattern    = 1 << 10
)

// pattern is one of a .gitignore, or one that a model gave. Without a slash, other than at its end, it is about a name
// at any depth; else about a path from where it stands. * and ? do not match slashes, ** does, and [...] is a class.
type pattern struct {
	negated, onlyFolders bool
	name                 string   // without wildcards or with one star at its beginning, for names; "" if segments are to be matched
	suffix               bool     // name is what comes after the star
	segments             []string // nil if name is set
}

// parsePattern reads a line of a .gitignore. It reports whether there is a pattern in it.
func parsePattern(line string) (p pattern, ok bool) {
	line = strings.TrimRight(line, "\r\n")
	for strings.HasSuffix(line, " ") && !strings.HasSuffix(line, `\ `) {
		line = line[:len(line)-1]
	}
	if line == "" || line[0] == '#' || len(line) > maxPattern {
		return p, false
	}
	line, p.negated = strings.CutPrefix(line, "!")
	line, p.onlyFolders = strings.CutSuffix(line, "/")
	anchored := strings.Contains(line, "/")
	line = strings.TrimPrefix(line, "/")
	if line == "" {
		return p, false
	}
	if !anchored {
		switch rest, star := strings.CutPrefix(line, "*"); {
		case !strings.ContainsAny(line, `*?[\`):
			p.name = line
			return p, true
		case star && rest != "" && !strings.ContainsAny(rest, `*?[\`):
			p.name, p.suffix = rest, true
			return p, true
		}
		line = "**/" + line
	}
	for segment := range strings.SplitSeq(line, "/") {
		if segment != "**" {
			segment = strings.ReplaceAll(segment, "[!", "[^")
			if _, err := path.Match(segment, ""); err != nil {
				return p, false
			}
		}
		p.segments = append(p.segments, segment)
	}
	return p, true
}

// matches reports whether a path, relative to where the pattern stands, is meant.
func (p *pattern) matches(relative, name string, isFolder bool) bool {
	if p.onlyFolders && !isFolder {
		return false
	}
	if p.name != "" {
		if p.suffix {
			return strings.HasSuffix(name, p.name)
		}
		return name == p.name
	}
	return matchSegments(p.segments, strings.Split(relative, "/"))
}

// matchSegments takes time in proportion to the product of both lengths, however many ** there are.
func matchSegments(segments, parts []string) bool {
	reached := make([]bool, len(parts)+1) // how many parts the segments so far can match
	reached[0] = true
	for i, segment := range segments {
		next := make([]bool, len(parts)+1)
		for n := range reached {
			if segment == "**" {
				// A ** at the end is for what is below, not for the folder itself.
				from := n > 0 && next[n-1] || n > 0 && reached[n-1]
				next[n] = from || reached[n] && i < len(segments)-1
			} else if n > 0 && reached[n-1] {
				next[n], _ = path.Match(segment, parts[n-1])
			}
		}
		reached = next
	}
	return reached[len(parts)]
}

// rules are those of one .gitignore and of those above it. Nil are none.
type rules struct {
	above    *rules
	dir      string // where it stands, with slashes
	patterns []pattern
}

// with adds the rules of a folder's own file.
func (r *rules) with(dir, text string) *rules {
	own := &rules{above: r, dir: dir}
	text = strings.TrimPrefix(text, "\uFEFF")
	for line := range strings.Lines(text) {
		if p, ok := parsePattern(line); ok {
			own.patterns = append(own.patterns, p)
		}
	}
	if len(own.patterns) == 0 {
		return r
	}
	return own
}

// exclude reports whether a path is left out: the nearest file that says something of it counts, and in it the last line.
func (r *rules) exclude(whole, name string, isFolder bool) bool {
	for ; r != nil; r = r.above {
		relative := whole
		if r.dir != "." {
			relative = whole[len(r.dir)+1:]
		}
		for i := len(r.patterns) - 1; i >= 0; i-- {
			if p := &r.patterns[i]; p.matches(relative, name, isFolder) {
				return !p.negated
			}
		}
	}
	return false
}

// selection is what a model means by a path with wildcards: files that match, or are in folders that do. Nil is all files.
type selection []pattern

// parseSelection reads a path with wildcards; {a,b} is either. It reports whether it is one.
func parseSelection(text string) (selection, bool) {
	if !strings.ContainsAny(text, "*?[{") || len(text) > maxPattern {
		return nil, false
	}
	text = strings.TrimPrefix(path.Clean(text), "./")
	var all selection
	for _, each := range braces(text, 16) {
		p, ok := parsePattern(strings.TrimPrefix(each, "!"))
		if !ok {
			return nil, false
		}
		all = append(all, p)
	}
	return all, true
}

// braces writes out the first {a,b}, and those after it, up to a limit.
func braces(text string, limit int) []string {
	before, rest, found := strings.Cut(text, "{")
	inner, after, closed := strings.Cut(rest, "}")
	if !found || !closed || strings.Contains(inner, "{") {
		return []string{text}
	}
	var all []string
	for choice := range strings.SplitSeq(inner, ",") {
		if len(all) >= limit {
			break
		}
		all = append(all, braces(before+choice+after, limit-len(all))...)
	}
	return all
}

// has reports whether a file is meant.
func (s selection) has(file string) bool {
	if s == nil {
		return true
	}
	for i := range s {
		for at, isFolder := file, false; at != "."; at, isFolder = path.Dir(at), true {
			if s[i].matches(at, path.Base(at), isFolder) {
				return true
			}
		}
	}
	return false
}

// start is the folder below which all that is meant lies.
func (s selection) start(text string) string {
	dir := "."
	for part := range strings.SplitSeq(path.Dir(path.Clean(text)), "/") {
		if strings.ContainsAny(part, "*?[{") {
			break
		}
		dir = path.Join(dir, part)
	}
	return dir
}
