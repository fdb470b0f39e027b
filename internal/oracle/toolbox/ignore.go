package toolbox

import (
	"path"
	"strings"
)

const (
	maxIgnoreFile = 64 << 10
	maxPattern    = 1 << 10
)

// pattern is a line of a .gitignore, or a path with wildcards from a model. Without a slash, except
// at its end, it matches a name at any depth; otherwise a path relative to the folder of the
// .gitignore. * and ? do not match slashes, ** does, and [...] is a character class.
type pattern struct {
	negated, onlyFolders bool
	// if there are no wildcards except a star at the beginning; "" if segments is set
	name     string
	suffix   bool     // name is what follows the star
	segments []string // nil if name is set
}

// parsePattern parses a line of a .gitignore. ok reports whether it is a valid pattern.
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

// matches reports whether the pattern matches a path relative to its .gitignore.
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

// matchSegments takes time proportional to the product of both lengths, however many ** there are.
func matchSegments(segments, parts []string) bool {
	reached := make([]bool, len(parts)+1) // reached[n]: the segments so far match the first n parts
	reached[0] = true
	for i, segment := range segments {
		next := make([]bool, len(parts)+1)
		for n := range reached {
			if segment == "**" {
				// A ** at the end matches what is below a folder, not the folder itself.
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

// rules are the patterns of a .gitignore and of those in parent folders. Nil means no patterns.
type rules struct {
	above    *rules
	dir      string // of the .gitignore, with slashes
	patterns []pattern
}

// with returns r extended by the text of the .gitignore in dir.
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

// exclude reports whether a path is ignored. The innermost .gitignore with a matching pattern
// decides, and in it the last matching line.
func (r *rules) exclude(full, name string, isFolder bool) bool {
	for ; r != nil; r = r.above {
		relative := full
		if r.dir != "." {
			relative = full[len(r.dir)+1:]
		}
		for i := len(r.patterns) - 1; i >= 0; i-- {
			if p := &r.patterns[i]; p.matches(relative, name, isFolder) {
				return !p.negated
			}
		}
	}
	return false
}

// selection is a path with wildcards. It selects files that match, or are in folders that match.
// Nil selects all files.
type selection []pattern

// parseSelection parses a path with wildcards, in which {a,b} means a or b. ok reports whether it
// has wildcards.
func parseSelection(text string) (s selection, ok bool) {
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

// braces expands every {a,b} in a text, to at most limit texts.
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

// has reports whether a file is selected.
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

// start returns the innermost folder that contains everything selected.
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
