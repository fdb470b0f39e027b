// Package steering knows which files of a repository agent programs obey: settings, hooks, plugins,
// instructions, skills, variables. Whoever writes them decides what an agent does, so those who
// judge a commit must not get them from that commit. Pure.
package steering

import (
	"maps"
	"path"
	"regexp"
	"slices"
	"strings"
	"sync"

	"signalbox/internal/git"
)

// File is the name of a file or a folder that steers agent programs, in whatever folder it is. Of a
// folder everything in it counts.
type File struct {
	Name string
	// Programs are those that obey it, and What it does to them.
	Programs []string
	What     string
	// Names means that the file can name other files of the repository, which then steer as well:
	// scripts, instructions, plugins.
	Names bool
}

// Files returns all of them. They were found in the sources and the documentation of the programs:
// claude 2.1, codex 0.169, gemini 0.61, opencode 1.18.
func Files() []File {
	return []File{
		{".claude", []string{"claude", "opencode"},
			"settings, hooks, variables, agents, commands, rules, skills", true},
		{".claude-plugin", []string{"claude", "codex"}, "plugins and where to get them", true},
		{"CLAUDE.md", []string{"claude", "opencode"}, "instructions", true},
		{"CLAUDE.local.md", []string{"claude"}, "instructions", true},
		{".mcp.json", []string{"claude"}, "MCP servers to start", true},
		{".lsp.json", []string{"claude"}, "language servers to start", true},

		{".codex", []string{"codex"}, "settings, hooks, MCP servers, rules, agents, skills", true},
		{".codex-plugin", []string{"codex"}, "plugins", true},
		{".cursor-plugin", []string{"codex"}, "plugins", true},
		{"AGENTS.md", []string{"codex", "opencode"}, "instructions", true},
		{"AGENTS.override.md", []string{"codex"}, "instructions", true},
		{".agents", []string{"codex", "gemini", "opencode"},
			"skills, plugins and where to get them", true},

		{".gemini", []string{"gemini"},
			"settings, hooks, variables, MCP servers, commands, policies, extensions, skills",
			true},
		{"GEMINI.md", []string{"gemini"}, "instructions", true},
		{".env", []string{"gemini"}, "variables: the model server, code to load, the system prompt",
			false},
		{".geminiignore", []string{"gemini"}, "files that its tools do not show", false},

		{".opencode", []string{"opencode"}, "settings, plugins, tools, agents, commands, skills",
			true},
		{"opencode.json", []string{"opencode"}, "settings, plugins, MCP servers", true},
		{"opencode.jsonc", []string{"opencode"}, "settings, plugins, MCP servers", true},
		{"CONTEXT.md", []string{"opencode"}, "instructions", true},

		{".ignore", []string{"claude", "codex", "opencode"},
			"files that their search does not show", false},
		{".rgignore", []string{"claude", "codex", "opencode"},
			"files that their search does not show", false},
	}
}

var byName = func() map[string]File {
	found := map[string]File{}
	for _, f := range Files() {
		found[git.FoldName(f.Name)] = f
	}
	return found
}()

// Is reports whether a path, with slashes and relative to the top of a repository, steers agent
// programs. See git.FoldName for the names that count as the same.
func Is(name string) bool {
	_, _, found := find(name)
	return found
}

// IsName is Is for one name without slashes.
func IsName(name string) bool {
	_, found := byName[git.FoldName(name)]
	return found
}

// find returns the entry for a path, and the folder in which its file or folder is.
func find(name string) (f File, folder string, found bool) {
	at := 0
	for segment := range strings.SplitSeq(name, "/") {
		if f, found = byName[git.FoldName(segment)]; found {
			return f, path.Clean(name[:at]), true
		}
		at += len(segment) + 1
	}
	return f, "", false
}

// Names are the paths that files which steer agent programs name.
type Names struct {
	paths    map[string]bool // folded
	imports  map[string]bool // folded, and exactly these files
	patterns []string        // such as docs/*.md
}

// Add adds what a file names: paths relative to the top of the repository, to the folder that has
// the file or its folder, and to the file itself. They need not exist. In Markdown these are the
// files that are imported (@path), and in settings each word that can be a path. Other files name
// nothing: a script mentions many files that do not steer anybody.
func (n *Names) Add(name string, content []byte) {
	f, folder, steers := find(name)
	if !steers || !f.Names || len(content) > maxContent {
		return
	}
	dirs := []string{".", folder, path.Dir(name)}
	switch {
	case isMarkdown(name):
		n.addImports(dirs, string(content))
	case isSettings(name):
		n.addSettings(dirs, string(content))
	}
}

// AddImported adds what a file imports that is named itself, if Imports says that it can.
func (n *Names) AddImported(name string, content []byte) {
	if Imports(name) && len(content) <= maxContent {
		n.addImports([]string{".", path.Dir(name)}, string(content))
	}
}

// Imports reports whether a file that is imported can import others.
func Imports(name string) bool { return isText(name) || isPlain(name) }

// addImports adds what Markdown imports. A program takes all until the next space, but people put
// commas and brackets behind it, so that the name counts without them too.
func (n *Names) addImports(dirs []string, content string) {
	for _, m := range expressions().imports.FindAllStringSubmatch(content, -1) {
		all, _, _ := strings.Cut(strings.ReplaceAll(m[1], `\ `, " "), "#")
		for _, word := range []string{all, expressions().start.FindString(all)} {
			if word = trimWord(word); word == "" || !Imports(word) {
				continue
			}
			for _, dir := range dirs {
				n.addImport(git.FoldPath(path.Join(dir, word)))
			}
		}
	}
}

func (n *Names) addImport(folded string) {
	if n.imports == nil {
		n.imports = map[string]bool{}
	}
	n.imports[folded] = true
}

// addSettings adds what settings name. Patterns are also in rules about what an agent may do and in
// lists of what a program does not watch, so that they count only for text, or if they name
// instructions.
func (n *Names) addSettings(dirs []string, content string) {
	add := func(word string, isInstruction bool) {
		for _, word := range expandBraces(trimWord(word)) {
			isPath := strings.ContainsAny(word, "./") && (!isPattern(word) || isText(word))
			if !isPath && !isInstruction {
				continue
			}
			for _, dir := range dirs {
				n.AddPath(path.Join(dir, word))
			}
		}
	}
	without := expressions().variables.ReplaceAllString(content, "")
	for _, e := range []*regexp.Regexp{expressions().words, expressions().braces} {
		for _, word := range e.FindAllString(without, -1) {
			add(word, false)
		}
	}
	for _, list := range expressions().instructions.FindAllStringSubmatch(without, -1) {
		for _, m := range expressions().quoted.FindAllStringSubmatch(list[1], -1) {
			add(m[1], true)
		}
	}
}

// trimWord removes the dot that ends a sentence, and what makes a path absolute.
func trimWord(word string) string { return strings.TrimPrefix(strings.TrimRight(word, "."), "/") }

// maxExpanded bounds what braces make of one word.
const maxExpanded = 1000

// expandBraces returns what a{b,c} stands for: ab and ac.
func expandBraces(word string) []string {
	done, open := []string{}, []string{word}
	for len(open) > 0 && len(done)+len(open) <= maxExpanded {
		next := open[0]
		open = open[1:]
		m := expressions().innermost.FindStringSubmatchIndex(next)
		if m == nil {
			done = append(done, next)
			continue
		}
		for choice := range strings.SplitSeq(next[m[2]:m[3]], ",") {
			open = append(open, next[:m[0]]+choice+next[m[1]:])
		}
	}
	return done
}

// AddPath adds a path, or a pattern.
func (n *Names) AddPath(name string) {
	if n.paths == nil {
		n.paths = map[string]bool{}
	}
	name = git.FoldPath(name)
	n.paths[name] = true // also a pattern, because files can have such names
	if isPattern(name) {
		n.patterns = append(n.patterns, name)
	}
}

// Paths returns the paths as git.FoldPath makes them.
func (n *Names) Paths() []string {
	all := maps.Clone(n.paths)
	if all == nil {
		return slices.Sorted(maps.Keys(n.imports))
	}
	maps.Copy(all, n.imports)
	return slices.Sorted(maps.Keys(all))
}

// Follow adds where the paths lead through links.
func (n *Names) Follow(resolve func(name string) (to string, inside bool)) {
	for _, name := range slices.Collect(maps.Keys(n.paths)) {
		if to, inside := resolve(name); inside {
			n.AddPath(to)
		}
	}
	for _, name := range slices.Collect(maps.Keys(n.imports)) {
		if to, inside := resolve(name); inside {
			n.addImport(git.FoldPath(to))
		}
	}
}

// Has reports whether a path is named: as it is, by settings without its extension, or by a
// pattern.
func (n *Names) Has(name string) bool {
	name = git.FoldPath(name)
	return n.imports[name] || n.paths[name] || n.paths[strings.TrimSuffix(name, path.Ext(name))] ||
		slices.ContainsFunc(n.patterns, func(pattern string) bool {
			return matches(strings.Split(pattern, "/"), strings.Split(name, "/"))
		})
}

// matches reports whether a path matches a pattern, in which ** stands for any number of folders,
// and at the end for everything.
func matches(pattern, name []string) bool {
	for i, part := range pattern {
		switch {
		case part == "**" && i == len(pattern)-1:
			return len(name) > i
		case part == "**":
			for from := i; from < len(name); from++ {
				if matches(pattern[i+1:], name[from:]) {
					return true
				}
			}
			return false
		case i >= len(name):
			return false
		}
		if ok, err := path.Match(strings.ReplaceAll(part, "[!", "[^"), name[i]); !ok || err != nil {
			return false
		}
	}
	return len(pattern) == len(name)
}

// maxContent bounds the files in which names are looked for.
const maxContent = 1 << 20

// expressions are compiled when they are first needed, because every program starts with this
// package.
var expressions = sync.OnceValue(func() (e struct {
	words, braces, innermost, variables, instructions, quoted, imports, start *regexp.Regexp
}) {
	// What can be a path: in quotes, or in the middle of a command. Before that variables are
	// removed, such as $CLAUDE_PROJECT_DIR/.
	const in = `[\pL\pM\pN_.*?~+@%/-]`
	e.words = regexp.MustCompile(in + `+`)
	e.variables = regexp.MustCompile(`\$(\w+|\{[^}\n]*\})/`)
	// The same with choices in braces, which can have others in them. The innermost are expanded
	// first.
	e.braces = regexp.MustCompile(in + `*(?:\{(?:[^{}"'\s]|\{[^{}"'\s]*\})*\}` + in + `*)+`)
	e.innermost = regexp.MustCompile(`\{([^{}]*,[^{}]*)\}`)
	// The list in the settings of opencode, in which there can be comments.
	const quoted = `"((?:[^"\\]|\\.)*)"`
	e.instructions = regexp.MustCompile(
		`"instructions"\s*:\s*\[((?:` + quoted + `|//[^\n]*|/\*(?s:.*?)\*/|[^\]"/])*)\]`)
	e.quoted = regexp.MustCompile(quoted)
	// @path in Markdown, at the start of a word. A space in it has a backslash.
	const space = `\s\v\pZ\x{feff}`
	e.imports = regexp.MustCompile(`(?m)(?:^|[` + space + `(])@((?:[^` + space + `\\]|\\ )+)`)
	e.start = regexp.MustCompile(`^[\pL\pM\pN_.~+%/ -]+`)
	return e
})

func isPattern(word string) bool { return strings.ContainsAny(word, "*?[") }

func isMarkdown(name string) bool { return path.Ext(git.FoldPath(name)) == ".md" }

// isSettings reports whether a file has settings, and not a list of packages, which has the same
// form.
func isSettings(name string) bool {
	name = path.Base(git.FoldPath(name))
	return slices.Contains([]string{".json", ".jsonc", ".toml", ".yaml", ".yml"}, path.Ext(name)) &&
		!strings.HasPrefix(name, "package") && !strings.Contains(name, "lock")
}

// isText reports whether a file is text for a model, and not code: imports of Markdown and patterns
// count only if it is. Otherwise a package.json that is mentioned, or src/**, would be among the
// files of the base when a commit is reviewed, and the commit could not be tried.
func isText(name string) bool {
	return slices.Contains([]string{".md", ".mdc", ".mdx", ".txt"}, path.Ext(git.FoldPath(name)))
}

// isPlain reports whether a file has no extension, as README. It is taken for text.
func isPlain(name string) bool {
	return !strings.Contains(strings.TrimPrefix(path.Base(name), "."), ".")
}
