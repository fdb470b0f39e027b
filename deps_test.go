package signalbox_test

// This file holds the architecture: which package may import which, where third-party modules enter, how long
// things may grow, and that documentation points at something. ARCHITECTURE.md says it in words.

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const modulePath = "signalbox"

// below are the packages under the surfaces (mcpserver, httpapi, dashboard), which may import all of them.
var below = []string{".", "transcript", "ledger", "brief", "internal/rules", "internal/journal", "internal/engine",
	"internal/box", "internal/plan", "internal/crew", "internal/tree", "internal/oracle", "internal/portfolio", "internal/config"}

// mayImport lists every package of the module, also those to come, with the packages of the module that it may
// import outside its tests. A nil list means all: those packages wire, or try the whole.
var mayImport = map[string][]string{
	".":          {},
	"transcript": {".", "transcript/internal/lines", "transcript/internal/payload", "transcript/internal/envelope", "transcript/internal/seed"},
	"ledger":     {"."},
	"brief":      {"."},

	"transcript/internal/lines":    {"."},
	"transcript/internal/payload":  {".", "transcript/internal/lines"},
	"transcript/internal/envelope": {".", "transcript/internal/lines"},
	"transcript/internal/seed":     {".", "transcript/internal/lines"},

	"internal/rules":                 {"."},
	"internal/journal":               {".", "ledger"},
	"internal/journal/sqlitejournal": {".", "internal/durable", "internal/journal"},
	"internal/journal/natsjournal":   {".", "internal/journal"},
	"internal/journal/journaltest":   {".", "internal/journal"},
	"internal/engine":                {".", "ledger", "internal/rules", "internal/journal"},
	"internal/durable":               {},
	"internal/box": {".", "ledger", "internal/config", "internal/durable", "internal/engine", "internal/journal",
		"internal/journal/sqlitejournal", "internal/rules"},
	"internal/plan": {"."},
	"internal/crew": {".", "transcript", "internal/box", "internal/config", "internal/durable", "internal/engine", "internal/plan", "internal/rules",
		"internal/journal", "internal/oracle", "internal/crew/agent", "internal/crew/process", "internal/crew/workspace"},
	"internal/crew/process":         {"."},
	"internal/crew/agent":           {".", "internal/durable", "internal/crew/process"},
	"internal/crew/workspace":       {".", "internal/durable", "internal/crew/process"},
	"internal/spell":                {},
	"internal/tree":                 {".", "internal/spell", "internal/tree/blackboard"},
	"internal/tree/blackboard":      {"."},
	"internal/tree/draw":            {".", "internal/tree"},
	"internal/tree/luatree":         {".", "internal/spell", "internal/tree", "internal/tree/blackboard", "internal/tree/luatree/sandbox"},
	"internal/tree/luatree/sandbox": {".", "internal/tree"},
	"internal/tree/command":         {".", "internal/crew/process", "internal/tree", "internal/tree/runner"},
	"internal/tree/runner":          {".", "internal/durable", "internal/tree", "internal/tree/turnsignal"},
	"internal/tree/turnlog":         {".", "internal/engine", "internal/rules", "internal/tree", "internal/tree/turnsignal"},
	"internal/tree/turnsignal":      {".", "transcript", "internal/tree"},
	"internal/oracle": {".", "transcript", "internal/durable", "internal/engine", "internal/oracle/chunk", "internal/oracle/decide", "internal/oracle/model",
		"internal/oracle/prompt", "internal/oracle/session", "internal/oracle/toolbox", "internal/tree", "internal/tree/luatree", "internal/tree/runner",
		"internal/tree/turnlog", "internal/tree/turnsignal"},
	"internal/oracle/chunk":   {},
	"internal/oracle/decide":  {},
	"internal/oracle/model":   {"."},
	"internal/oracle/prompt":  {},
	"internal/oracle/session": {"internal/durable", "internal/oracle/chunk", "internal/oracle/model", "internal/tree"},
	"internal/oracle/setup": {".", "internal/config", "internal/engine", "internal/mcpserver/mcpclient", "internal/oracle", "internal/oracle/decide",
		"internal/oracle/model", "internal/oracle/prompt", "internal/oracle/toolbox", "internal/portfolio"},
	"internal/oracle/tell": {"internal/oracle/chunk", "internal/progress"},
	"internal/oracle/toolbox": {".", "brief", "internal/crew/process", "internal/oracle/chunk", "internal/oracle/prompt", "internal/oracle/toolbox/sections",
		"internal/portfolio", "internal/spell"},
	"internal/oracle/toolbox/sections": {},
	"internal/portfolio": {".", "brief", "internal/config", "internal/durable", "internal/portfolio/answer", "internal/portfolio/exitrule",
		"internal/portfolio/importer", "internal/portfolio/tax"},
	"internal/portfolio/example":        {".", "internal/durable"},
	"internal/portfolio/answer":         {".", "brief"},
	"internal/portfolio/exitrule":       {"."},
	"internal/portfolio/importer":       {".", "internal/portfolio/importer/lines", "internal/portfolio/tax", "internal/spell"},
	"internal/portfolio/importer/lines": {},
	"internal/portfolio/tax":            {"."},
	"internal/config":                   {".", "internal/spell"},
	"internal/progress":                 {".", "internal/box", "internal/config", "internal/crew", "internal/engine", "internal/rules"},
	"internal/rehearsal":                {".", "transcript"},
	"internal/rehearsal/modelserver":    {"."},

	"internal/mcpserver": append(slices.Clone(below), "internal/durable", "internal/portfolio/answer", "internal/mcpserver/files",
		"internal/mcpserver/guard", "internal/mcpserver/schema", "internal/mcpserver/stdio"),
	"internal/mcpserver/mcpclient": {".", "internal/crew/process", "internal/oracle/chunk", "internal/oracle/toolbox"},
	"internal/mcpserver/files":     {"brief", "internal/durable"},
	"internal/mcpserver/guard":     {"."},
	"internal/mcpserver/schema":    {"brief", "internal/spell"},
	"internal/mcpserver/stdio":     {},
	"internal/dashboard":           below,
	"internal/httpapi":             append(slices.Clone(below), "internal/dashboard"),

	"cmd/signalbox":       nil,
	"test/agents":         nil,
	"test/bench":          nil,
	"test/benchoracle":    nil,
	"test/benchportfolio": nil,
	"test/benchrun":       nil,
	"test/benchtree":      nil,
	"test/fault":          nil,
	"test/mcp":            nil,
}

// entersThrough names the one package that may import a third-party module; its rooms are behind the same door.
var entersThrough = map[string]string{
	"github.com/alecthomas/kong":             "cmd/signalbox",
	"charm.land":                             "internal/progress",
	"golang.org/x/mod":                       "ledger",
	"modernc.org/sqlite":                     "internal/journal/sqlitejournal",
	"github.com/fsnotify/fsnotify":           "internal/journal/sqlitejournal",
	"github.com/nats-io":                     "internal/journal/natsjournal",
	"github.com/yuin/goldmark":               "internal/plan",
	"github.com/yuin/gopher-lua":             "internal/tree/luatree",
	"github.com/openai/openai-go":            "internal/oracle/model",
	"github.com/anthropics/anthropic-sdk-go": "internal/oracle/model",
	"github.com/govalues/decimal":            "internal/portfolio",
	"github.com/aclindsa/ofxgo":              "internal/portfolio",
	"github.com/goccy/go-yaml":               "internal/config",
	"github.com/modelcontextprotocol/go-sdk": "internal/mcpserver",
	"github.com/google/jsonschema-go":        "internal/mcpserver",
	"github.com/prometheus/client_golang":    "internal/httpapi",
}

// forTests are modules that only tests, and the packages of testSupport, may import.
var (
	forTests = []string{"github.com/google/go-cmp", "github.com/rogpeppe/go-internal", "pgregory.net/rapid",
		"github.com/anishathalye/porcupine", "github.com/chromedp/chromedp", "github.com/joeycumines/go-behaviortree"}
	testSupport = []string{"internal/journal/journaltest", "test/bench", "test/benchtree", "test/fault"}
)

// Budgets in lines. A package is counted without its tests.
const (
	packageBudget  = 3000
	fileBudget     = 600
	functionBudget = 80
)

// overBudget lists what may exceed its budget, with the reason: a package ("internal/rules"), a file
// ("brief/file.go") or a function ("brief/file.go: Render").
var overBudget = map[string]string{
	"internal/rules":         "one fold and one decision: the delivery loop and the leases it stands on look into each other's state",
	"cmd/signalbox":          "one thin file for each of forty commands, a third of it help",
	"internal/portfolio/tax": "one fold: lots, splits and wash sales change each other, and a million rows leave no room for copies between packages",

	"internal/crew/workspace/tree_test.go: TestKeepAstray":                       "one table of ways to go astray",
	"internal/oracle/ending_test.go: endings":                                    "one table of endings",
	"internal/oracle/toolfailure_test.go: TestToolFailureTriggersNeedTurnSignal": "one story, looked at in every place where it must show",
	"internal/plan/fault_test.go: TestEveryFaultHasItsLineAndAdvice":             "one table of faults",
	"internal/rules/deliveryhandler_test.go: TestHandlerQueueOrCoordinate":       "one handler, all its cases",
}

// source is one Go file of the module.
type source struct {
	path  string // with slashes, relative to the module
	lines int
	fset  *token.FileSet
	file  *ast.File
}

func (s source) pkg() string  { return path.Dir(s.path) }
func (s source) isTest() bool { return strings.HasSuffix(s.path, "_test.go") }

func parseSource(name string, text []byte) (source, error) {
	fset := token.NewFileSet()
	file, err := parser.ParseFile(fset, name, text, parser.ParseComments|parser.SkipObjectResolution)
	return source{name, bytes.Count(text, []byte("\n")), fset, file}, err
}

// treeFiles returns the files of the tree with an extension; it fails if there are none.
func treeFiles(t *testing.T, ext string) []string {
	t.Helper()
	var found []string
	err := filepath.WalkDir(".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		hidden := name != "." && strings.ContainsRune("._", rune(entry.Name()[0]))
		if entry.IsDir() && (hidden || entry.Name() == "testdata" || name == "bin") {
			return fs.SkipDir
		}
		if !entry.IsDir() && !hidden && filepath.Ext(name) == ext {
			found = append(found, filepath.ToSlash(name))
		}
		return nil
	})
	if err != nil || len(found) == 0 {
		t.Fatalf("found %d %s files: %v", len(found), ext, err)
	}
	return found
}

func moduleSources(t *testing.T) []source {
	t.Helper()
	var sources []source
	for _, name := range treeFiles(t, ".go") {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		s, err := parseSource(name, text)
		if err != nil {
			t.Fatal(err)
		}
		sources = append(sources, s)
	}
	return sources
}

func TestImportDirection(t *testing.T) {
	report(t, importFaults(moduleSources(t)))
}

func TestPackageComments(t *testing.T) {
	report(t, commentFaults(moduleSources(t)))
}

func TestBudgets(t *testing.T) {
	report(t, budgetFaults(moduleSources(t), overBudget))
}

func TestDocumentationLinks(t *testing.T) {
	var links int
	for _, name := range treeFiles(t, ".md") {
		for _, target := range markdownLinks(t, name) {
			links++
			if fault := linkFault(name, target); fault != "" {
				t.Errorf("%s: %s", name, fault)
			}
		}
	}
	if links == 0 {
		t.Error("no links found: the search for them is broken")
	}
}

func report(t *testing.T, faults []string) {
	t.Helper()
	for _, fault := range faults {
		t.Error(fault)
	}
}

func importFaults(sources []source) (faults []string) {
	for _, s := range sources {
		allowed, known := mayImport[s.pkg()]
		if !known {
			faults = append(faults, fmt.Sprintf("%s: package %s is not in mayImport; list it with what it may import", s.path, s.pkg()))
			continue
		}
		for _, spec := range s.file.Imports {
			imported, _ := strconv.Unquote(spec.Path.Value)
			if fault := importFault(s, imported, allowed); fault != "" {
				faults = append(faults, fmt.Sprintf("%s: imports %s: %s", s.path, imported, fault))
			}
		}
	}
	return faults
}

func importFault(s source, imported string, allowed []string) string {
	if imported == "C" {
		return "the program is built without cgo"
	}
	if imported == modulePath || strings.HasPrefix(imported, modulePath+"/") {
		inner := path.Clean("./" + strings.TrimPrefix(imported, modulePath))
		if s.isTest() || allowed == nil || inner == s.pkg() || slices.Contains(allowed, inner) {
			return ""
		}
		return "mayImport does not allow it"
	}
	if first, _, _ := strings.Cut(imported, "/"); !strings.Contains(first, ".") {
		return "" // the standard library
	}
	if within(imported)("golang.org/x/sys") {
		return "" // the standard library's own door to the system
	}
	if slices.ContainsFunc(forTests, within(imported)) {
		if s.isTest() || slices.Contains(testSupport, s.pkg()) {
			return ""
		}
		return "it is for tests only"
	}
	for module, entrance := range entersThrough {
		if within(imported)(module) {
			if within(s.pkg())(entrance) {
				return ""
			}
			return "it enters through " + entrance + " only"
		}
	}
	return "entersThrough does not list it"
}

// within returns a function that reports whether a package is part of a module.
func within(imported string) func(module string) bool {
	return func(module string) bool { return imported == module || strings.HasPrefix(imported, module+"/") }
}

func commentFaults(sources []source) (faults []string) {
	comments := map[string][]string{}
	for _, s := range sources {
		if s.isTest() {
			continue
		}
		files := comments[s.pkg()]
		if s.file.Doc != nil {
			files = append(files, s.path)
		}
		comments[s.pkg()] = files
	}
	for pkg, files := range comments {
		if len(files) != 1 {
			faults = append(faults, fmt.Sprintf("package %s has %d package comments %q, want one", pkg, len(files), files))
		}
	}
	slices.Sort(faults)
	return faults
}

func budgetFaults(sources []source, exceptions map[string]string) (faults []string) {
	used := map[string]bool{}
	check := func(what string, lines, budget int) {
		if lines <= budget {
			return
		}
		if exceptions[what] != "" {
			used[what] = true
			return
		}
		faults = append(faults, fmt.Sprintf("%s has %d lines, budget %d", what, lines, budget))
	}
	packages := map[string]int{}
	for _, s := range sources {
		check(s.path, s.lines, fileBudget)
		if !s.isTest() {
			packages[s.pkg()] += s.lines
		}
		for _, decl := range s.file.Decls {
			if f, ok := decl.(*ast.FuncDecl); ok {
				lines := s.fset.Position(f.End()).Line - s.fset.Position(f.Pos()).Line + 1
				check(s.path+": "+f.Name.Name, lines, functionBudget)
			}
		}
	}
	for pkg, lines := range packages {
		check(pkg, lines, packageBudget)
	}
	for what := range exceptions {
		if !used[what] {
			faults = append(faults, what+" is listed as over budget and is not, or has no reason")
		}
	}
	slices.Sort(faults)
	return faults
}

var (
	fencePattern   = regexp.MustCompile("(?ms)^```.*?^```$")
	linkPattern    = regexp.MustCompile(`\]\(([^()\s]+)\)`)
	headingPattern = regexp.MustCompile(`(?m)^#+ +(.+?) *$`)
	notInAnchor    = regexp.MustCompile(`[^\p{L}\p{N}_\- ]`)
)

// markdownText is a document without its code blocks.
func markdownText(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return fencePattern.ReplaceAllString(string(text), "")
}

func markdownLinks(t *testing.T, name string) (targets []string) {
	t.Helper()
	for _, match := range linkPattern.FindAllStringSubmatch(markdownText(t, name), -1) {
		if !strings.Contains(match[1], "://") && !strings.HasPrefix(match[1], "mailto:") {
			targets = append(targets, match[1])
		}
	}
	return targets
}

// linkFault checks the file that a link points to, and the heading in it.
func linkFault(name, target string) string {
	file, anchor, _ := strings.Cut(target, "#")
	file = path.Join(path.Dir(name), file)
	if strings.HasPrefix(target, "#") {
		file = name
	}
	text, err := os.ReadFile(file)
	info, statErr := os.Stat(file)
	switch {
	case statErr == nil && info.IsDir() && anchor == "":
		return ""
	case err != nil:
		return "link to " + target + ": no such file"
	case anchor != "" && !slices.Contains(anchors(string(text)), anchor):
		return "link to " + target + ": no such heading"
	}
	return ""
}

// anchors are the names that a forge gives to the headings of a document.
func anchors(text string) (names []string) {
	for _, match := range headingPattern.FindAllStringSubmatch(fencePattern.ReplaceAllString(text, ""), -1) {
		name := notInAnchor.ReplaceAllString(strings.ToLower(match[1]), "")
		names = append(names, strings.ReplaceAll(name, " ", "-"))
	}
	return names
}

// TestFaultsAreFound breaks each rule once.
func TestFaultsAreFound(t *testing.T) {
	parse := func(name, text string) []source {
		s, err := parseSource(name, []byte(text))
		if err != nil {
			t.Fatal(err)
		}
		return []source{s}
	}
	imports := func(name, imported string) []string {
		return importFaults(parse(name, "package p\nimport _ \""+imported+"\"\n"))
	}
	long := "package p\nfunc f() {\n" + strings.Repeat("_ = 0\n", functionBudget) + "}\n" + strings.Repeat("\n", fileBudget)
	const doc = "// Package p is.\npackage p\n"
	for _, tt := range []struct {
		name string
		got  []string
		want []string
	}{
		{"sideways", imports("transcript/a.go", "signalbox/ledger"), []string{"transcript/a.go: imports signalbox/ledger: mayImport does not allow it"}},
		{"upwards", imports("a.go", "signalbox/transcript"), []string{"a.go: imports signalbox/transcript: mayImport does not allow it"}},
		{"between rooms", imports("transcript/internal/envelope/a.go", "signalbox/transcript/internal/payload"), []string{"transcript/internal/envelope/a.go: imports signalbox/transcript/internal/payload: mayImport does not allow it"}},
		{"downwards", imports("transcript/a.go", "signalbox"), nil},
		{"wiring", imports("cmd/signalbox/a.go", "signalbox/transcript"), nil},
		{"a test", imports("a_test.go", "signalbox/transcript"), nil},
		{"unknown package", imports("util/a.go", "fmt"), []string{"util/a.go: package util is not in mayImport; list it with what it may import"}},
		{"module in the core", imports("transcript/a.go", "github.com/alecthomas/kong"), []string{"transcript/a.go: imports github.com/alecthomas/kong: it enters through cmd/signalbox only"}},
		{"module at its entrance", imports("cmd/signalbox/a.go", "github.com/alecthomas/kong"), nil},
		{"module not listed", imports("a.go", "example.org/x"), []string{"a.go: imports example.org/x: entersThrough does not list it"}},
		{"test module", imports("a.go", "pgregory.net/rapid"), []string{"a.go: imports pgregory.net/rapid: it is for tests only"}},
		{"test module in a test", imports("a_test.go", "pgregory.net/rapid"), nil},
		{"cgo", imports("a.go", "C"), []string{"a.go: imports C: the program is built without cgo"}},
		{"no comment", commentFaults(parse("a.go", "package p\n")), []string{"package . has 0 package comments [], want one"}},
		{"two comments", commentFaults(append(parse("a.go", doc), parse("b.go", doc)...)), []string{`package . has 2 package comments ["a.go" "b.go"], want one`}},
		{"one comment", commentFaults(append(parse("a.go", doc), parse("b.go", "package p\n")...)), nil},
		{"long", budgetFaults(parse("a.go", long), nil), []string{"a.go has 683 lines, budget 600", "a.go: f has 82 lines, budget 80"}},
		{"long with leave", budgetFaults(parse("a.go", long), map[string]string{"a.go": "why", "a.go: f": "why"}), nil},
		{"leave not used", budgetFaults(parse("a.go", doc), map[string]string{"a.go": "why"}), []string{"a.go is listed as over budget and is not, or has no reason"}},
	} {
		if diff := cmp.Diff(tt.want, tt.got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", tt.name, diff)
		}
	}
	for target, want := range map[string]string{
		"LICENSE": "", "docs/": "", "docs/signals.md#3-exit-signals": "",
		"gone.md":              "link to gone.md: no such file",
		"docs/signals.md#gone": "link to docs/signals.md#gone: no such heading",
	} {
		if got := linkFault("README.md", target); got != want {
			t.Errorf("link to %s: %q, want %q", target, got, want)
		}
	}
}

// TestPurePackages holds what scripts/race-test takes for granted: these packages start nothing and share nothing.
func TestPurePackages(t *testing.T) {
	list, err := os.ReadFile("scripts/pure-packages")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range strings.Fields(string(list)) {
		dir := "."
		if name != modulePath {
			dir = strings.TrimPrefix(name, modulePath+"/")
		}
		files, err := filepath.Glob(filepath.Join(dir, "*.go"))
		if err != nil || len(files) == 0 {
			t.Errorf("%s: no Go files (%v)", name, err)
		}
		for _, file := range files {
			if strings.HasSuffix(file, "_test.go") {
				continue
			}
			tree, err := parser.ParseFile(token.NewFileSet(), file, nil, 0)
			if err != nil {
				t.Fatal(err)
			}
			for _, i := range tree.Imports {
				if path := strings.Trim(i.Path.Value, `"`); path == "sync" || path == "sync/atomic" || path == "os/exec" || path == "net/http" {
					t.Errorf("%s imports %s, and is in scripts/pure-packages", file, path)
				}
			}
			ast.Inspect(tree, func(n ast.Node) bool {
				if _, starts := n.(*ast.GoStmt); starts {
					t.Errorf("%s starts a goroutine, and is in scripts/pure-packages", file)
				}
				return true
			})
		}
	}
}
