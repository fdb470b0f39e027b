package signalbox_test

// This file checks the architecture: which packages may import which, that every package has a
// comment, and that links in the documentation lead somewhere. ARCHITECTURE.md describes the same
// in words.

import (
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"signalbox/internal/testkit/must"
)

const modulePath = "signalbox"

// group is a set of packages that may import the same things. It contains every package below its
// directories, unless a longer directory of another group matches.
type group struct {
	name string
	dirs []string
	// imports lists the groups that its packages may import, besides the group itself.
	imports []string
	// modules lists the third-party modules that its packages may import. Nil means any that is not
	// for tests only.
	modules []string
}

var none = []string{}

// groups runs from the vocabulary up to the program: a group imports only groups listed before it.
var groups = []group{
	{"vocabulary", []string{"."}, none, none},
	{"text", []string{"internal/lazy", "internal/text"}, none, none},
	{"transcript", []string{"transcript"}, []string{"vocabulary", "text"}, none},
	{"ledger", []string{"ledger"}, []string{"vocabulary"}, []string{"golang.org/x/mod"}},
	{"brief", []string{"brief"}, []string{"vocabulary"}, none},
	{"shared", []string{"internal/config", "internal/contain", "internal/durable", "internal/git",
		"internal/picture",
		"internal/process", "internal/sandbox", "internal/show", "internal/team"},
		[]string{"vocabulary", "text"},
		nil},
	// Listed as an import of no group: only tests and the packages of testSupport import it.
	{"testkit", []string{"internal/testkit"}, none, nil},

	{"rules", []string{"internal/core/rules"}, []string{"vocabulary", "text"}, none},
	{"core", []string{"internal/core"}, []string{"vocabulary", "ledger", "text", "shared", "rules"},
		nil},

	{"tree runtime", []string{"internal/tree", "internal/tree/blackboard"},
		[]string{"vocabulary", "text"}, none},
	{"tree", []string{"internal/tree/command", "internal/tree/draw", "internal/tree/luatree",
		"internal/tree/report", "internal/tree/runner", "internal/tree/treeruns",
		"internal/tree/turnlog",
		"internal/tree/turnsignal"},
		[]string{"vocabulary", "transcript", "text", "shared", "rules", "core", "tree runtime"},
		nil},
	{"portfolio", []string{"internal/portfolio"}, []string{"vocabulary", "brief", "text", "shared"},
		nil},
	{"rehearsal", []string{"internal/rehearsal"}, []string{"vocabulary", "transcript", "text",
		"shared"}, nil},

	{"run", []string{"internal/run"}, []string{"vocabulary", "transcript", "ledger", "brief",
		"text", "shared", "rules", "core", "tree runtime", "tree"}, nil},
	{"oracle", []string{"internal/oracle"},
		[]string{"vocabulary", "transcript", "ledger", "brief", "text", "shared", "rules", "core",
			"tree runtime", "tree", "portfolio"}, nil},
	{"doctor", []string{"internal/doctor"},
		[]string{"vocabulary", "transcript", "ledger", "brief", "text", "shared", "rules", "core",
			"tree runtime", "tree", "portfolio", "run", "oracle"}, nil},
	{"serve", []string{"internal/serve"},
		[]string{"vocabulary", "transcript", "ledger", "brief", "text", "shared", "rules", "core",
			"tree runtime", "tree", "portfolio", "run", "oracle"}, nil},
	{"program", []string{"cmd", "internal/cli", "test", "scripts"},
		[]string{"vocabulary", "transcript", "ledger", "brief", "text", "shared", "rules", "core",
			"tree runtime", "tree", "portfolio", "rehearsal", "run", "oracle", "doctor", "serve"},
		nil},
}

// runPackages orders the packages of the group run, from those that others build on up to those
// that people use: a package imports only those that its row lists. What reads, or records what a
// human decides, does not import crew, which carries work out.
var runPackages = []struct{ name, imports string }{
	{"agentsocket", ""},
	{"exitsignal", ""},
	{"findings", ""},
	{"forge", ""},
	{"mutation", ""},
	{"outbound", ""},
	{"plan", ""},
	{"ports", ""},
	{"steering", ""},

	{"agent", ""},
	{"checkrun", ""},
	{"issues", "plan"},
	{"planload", "plan"},
	{"prompts", "plan"},
	{"survey", "agent"},
	{"steer", "plan planload"},
	{"workspace", "steering"},

	{"project", "agent workspace"},
	{"stored", "plan prompts"},
	{"questions", "stored"},
	{"transport", "workspace"},
	{"turnprompt", "plan prompts stored workspace"},

	{"changes", "questions transport workspace"},
	{"checks", "agent checkrun mutation ports project prompts stored transport workspace"},
	{"conflicts", "transport workspace"},
	{"deliver", "forge project prompts transport workspace"},

	{"crew", "agent agentsocket checkrun checks conflicts deliver exitsignal findings forge issues plan planload " +
		"project prompts questions stored transport turnprompt workspace"},

	{"notify", "outbound questions"},
	{"publish", "outbound"},
	{"traces", "agent outbound"},
	{"inspect", "agent questions stored transport workspace"},
	{"history", "inspect"},
	{"forecast", "history plan turnprompt"},
	{"inspect/render", "agent changes inspect questions stored workspace"},
	{"progress", "agent changes inspect inspect/render questions steer workspace"},
}

const runFolder = "internal/run/"

// runFault reports an import from one package of the group run to another that no row of
// runPackages allows.
func runFault(pkg, imported string) string {
	from, inside := strings.CutPrefix(pkg, runFolder)
	to, outside := strings.CutPrefix(imported, modulePath+"/"+runFolder)
	if !inside || !outside {
		return ""
	}
	for _, p := range runPackages {
		if p.name == from && slices.Contains(strings.Fields(p.imports), to) {
			return ""
		}
	}
	return fmt.Sprintf("%s must not import %s; see runPackages", from, to)
}

// forTests are modules that only tests, and the packages of testSupport, may import. These may also
// import testkit.
var (
	forTests = []string{"github.com/google/go-cmp", "github.com/rogpeppe/go-internal",
		"pgregory.net/rapid",
		"github.com/anishathalye/porcupine", "github.com/charmbracelet/x/vt",
		"github.com/chromedp/chromedp", "github.com/chromedp/cdproto"}
	testSupport = []string{"internal/core/journal/journaltest", "internal/testkit", "test"}
)

// groupOf returns the group of a package: the one with the longest matching directory.
func groupOf(pkg string) *group {
	var found *group
	longest := -1
	for i := range groups {
		for _, dir := range groups[i].dirs {
			if within(pkg)(dir) && len(dir) > longest {
				found, longest = &groups[i], len(dir)
			}
		}
	}
	return found
}

// source is one Go file of the module.
type source struct {
	path string // with slashes, relative to the module
	file *ast.File
}

func (s source) pkg() string  { return path.Dir(s.path) }
func (s source) isTest() bool { return strings.HasSuffix(s.path, "_test.go") }

func parseSource(name string, text []byte) (source, error) {
	file, err := parser.ParseFile(token.NewFileSet(), name, text,
		parser.ParseComments|parser.SkipObjectResolution)
	return source{name, file}, err
}

// findFiles returns the files of the tree with an extension.
func findFiles(ext string) (found []string, err error) {
	err = filepath.WalkDir(".", func(name string, entry fs.DirEntry, err error) error {
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
	if err == nil && len(found) == 0 {
		err = errors.New("there are no files *" + ext)
	}
	return found, err
}

// parsedSources parses all Go files of the module, once for all tests.
var parsedSources = sync.OnceValues(func() (sources []source, err error) {
	names, err := findFiles(".go")
	for _, name := range names {
		text, readErr := os.ReadFile(name)
		s, parseErr := parseSource(name, text)
		sources, err = append(sources, s), errors.Join(err, readErr, parseErr)
	}
	return sources, err
})

func moduleSources(t *testing.T) []source {
	t.Helper()
	sources, err := parsedSources()
	must.Succeed(t, err)
	return sources
}

func TestImportDirection(t *testing.T) {
	report(t, importFaults(moduleSources(t)))
}

func TestPackageComments(t *testing.T) {
	report(t, commentFaults(moduleSources(t)))
}

// TestPropertiesAreSeeded checks that all property tests run through property.Check, which gives
// them fixed seeds. TestLazyExpressions checks the regular expressions that are compiled only when
// they are first used.
func TestLazyExpressions(t *testing.T) {
	checked := 0
	for _, s := range moduleSources(t) {
		ast.Inspect(s.file, func(n ast.Node) bool {
			call, ok := n.(*ast.CallExpr)
			if !ok || len(call.Args) != 1 {
				return true
			}
			literal, constant := call.Args[0].(*ast.BasicLit)
			if called, ok := call.Fun.(*ast.SelectorExpr); !ok || !constant ||
				called.Sel.Name != "Regexp" {
				return true
			}
			expression, err := strconv.Unquote(literal.Value)
			if err == nil {
				_, err = regexp.Compile(expression)
			}
			if err != nil {
				t.Errorf("%s: %v", s.path, err)
			}
			checked++
			return true
		})
	}
	if checked < 50 {
		t.Errorf("found only %d expressions", checked)
	}
}

func TestPropertiesAreSeeded(t *testing.T) {
	report(t, seedFaults(moduleSources(t)))
}

// TestGroupsRunOneWay checks that the table itself has no cycle.
func TestGroupsRunOneWay(t *testing.T) {
	var before []string
	for _, g := range groups {
		for _, name := range g.imports {
			if !slices.Contains(before, name) {
				t.Errorf("%s imports %s, which is not listed before it", g.name, name)
			}
		}
		before = append(before, g.name)
	}
}

// TestRunPackagesRunOneWay checks that the table of the packages of run has no cycle, no row for a
// package that is gone, and no import that is not used.
func TestRunPackagesRunOneWay(t *testing.T) {
	used := map[string]bool{}
	for _, s := range moduleSources(t) {
		for _, spec := range s.file.Imports {
			imported, _ := strconv.Unquote(spec.Path.Value)
			if to, run := strings.CutPrefix(imported, modulePath+"/"+runFolder); run &&
				!s.isTest() {
				used[strings.TrimPrefix(s.pkg(), runFolder)+" "+to] = true
			}
		}
	}
	var before []string
	for _, p := range runPackages {
		if _, err := os.Stat(runFolder + p.name); err != nil {
			t.Error(err)
		}
		for _, name := range strings.Fields(p.imports) {
			if !slices.Contains(before, name) {
				t.Errorf("%s imports %s, which is not listed before it", p.name, name)
			}
			if !used[p.name+" "+name] {
				t.Errorf("%s may import %s, but does not", p.name, name)
			}
		}
		before = append(before, p.name)
	}
}

func TestDocumentationLinks(t *testing.T) {
	var links int
	names, err := findFiles(".md")
	must.Succeed(t, err)
	for _, name := range names {
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
		g := groupOf(s.pkg())
		if g == nil {
			faults = append(faults,
				fmt.Sprintf("%s: package %s belongs to no group; add it to groups", s.path,
					s.pkg()))
			continue
		}
		for _, spec := range s.file.Imports {
			imported, _ := strconv.Unquote(spec.Path.Value)
			if fault := importFault(s, imported, g); fault != "" {
				faults = append(faults, fmt.Sprintf("%s: imports %s: %s", s.path, imported, fault))
			}
		}
	}
	return faults
}

func importFault(s source, imported string, g *group) string {
	if imported == "C" {
		return "the program is built without cgo"
	}
	if within(imported)(modulePath) {
		inner := groupOf(path.Clean("./" + strings.TrimPrefix(imported, modulePath)))
		forTest := inner != nil && inner.name == "testkit" &&
			slices.ContainsFunc(testSupport, within(s.pkg()))
		if fault := runFault(s.pkg(), imported); fault != "" && !s.isTest() {
			return fault
		}
		if from, to := commandGroup(s.pkg()),
			commandGroup(strings.TrimPrefix(imported, modulePath+"/")); !s.isTest() && from != to &&
			from != "" && to != "" {
			return "groups of commands must not import each other"
		}
		if s.isTest() || inner == nil || inner == g || slices.Contains(g.imports, inner.name) ||
			forTest {
			return ""
		}
		return fmt.Sprintf("%s must not import %s", g.name, inner.name)
	}
	if first, _, _ := strings.Cut(imported, "/"); !strings.Contains(first, ".") {
		return "" // the standard library
	}
	if slices.ContainsFunc(forTests, within(imported)) {
		if s.isTest() || slices.ContainsFunc(testSupport, within(s.pkg())) {
			return ""
		}
		return "it is for tests only"
	}
	if s.isTest() || g.modules == nil || slices.ContainsFunc(g.modules, within(imported)) {
		return ""
	}
	return g.name + " must not import it"
}

// commandGroup returns the group of commands that a package belongs to, "" if it belongs to none,
// like those that the groups share.
func commandGroup(pkg string) string {
	rest, ok := strings.CutPrefix(pkg, "internal/cli/")
	name, _, _ := strings.Cut(rest, "/")
	if !ok || name == "web" {
		return ""
	}
	return name
}

// within returns a function that reports whether a package lies in a directory or module.
func within(pkg string) func(dir string) bool {
	return func(dir string) bool { return pkg == dir || strings.HasPrefix(pkg, dir+"/") }
}

func seedFaults(sources []source) (faults []string) {
	for _, s := range sources {
		if s.pkg() == "internal/testkit/property" {
			continue
		}
		ast.Inspect(s.file, func(n ast.Node) bool {
			call, ok := n.(*ast.SelectorExpr)
			if !ok {
				return true
			}
			if pkg, ok := call.X.(*ast.Ident); ok && pkg.Name == "rapid" &&
				(call.Sel.Name == "Check" || call.Sel.Name == "MakeCheck") {
				faults = append(faults, s.path+": uses rapid."+call.Sel.Name+
					", whose cases are random; use property.Check")
			}
			return true
		})
	}
	return faults
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
			faults = append(faults, fmt.Sprintf("package %s has %d package comments %q, want one",
				pkg, len(files), files))
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
	must.Succeed(t, err)
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
	for _, match := range headingPattern.FindAllStringSubmatch(fencePattern.ReplaceAllString(text,
		""), -1) {
		name := notInAnchor.ReplaceAllString(strings.ToLower(match[1]), "")
		names = append(names, strings.ReplaceAll(name, " ", "-"))
	}
	return names
}

// TestFaultsAreFound breaks each rule once.
func TestFaultsAreFound(t *testing.T) {
	parse := func(name, text string) []source {
		s, err := parseSource(name, []byte(text))
		must.Succeed(t, err)
		return []source{s}
	}
	imports := func(name, imported string) []string {
		return importFaults(parse(name, "package p\nimport _ \""+imported+"\"\n"))
	}
	const doc = "// Package p is.\npackage p\n"
	for _, tt := range []struct {
		name string
		got  []string
		want []string
	}{
		{"sideways", imports("transcript/a.go", "signalbox/ledger"),
			[]string{"transcript/a.go: imports signalbox/ledger: transcript must not import ledger"}},
		{"upwards", imports("a.go", "signalbox/transcript"),
			[]string{"a.go: imports signalbox/transcript: vocabulary must not import transcript"}},
		{"core to run", imports("internal/core/box/a.go", "signalbox/internal/run/crew"),
			[]string{"internal/core/box/a.go: imports signalbox/internal/run/crew: core must not import run"}},
		{"rules to core", imports("internal/core/rules/a.go", "signalbox/internal/core/journal"),
			[]string{"internal/core/rules/a.go: imports signalbox/internal/core/journal: rules must not import core"}},
		{"downwards", imports("transcript/a.go", "signalbox"), nil},
		{"within a group", imports("internal/run/crew/a.go", "signalbox/internal/run/plan"), nil},
		{"reading to doing", imports("internal/run/notify/a.go", "signalbox/internal/run/crew"),
			[]string{"internal/run/notify/a.go: imports signalbox/internal/run/crew: notify must not import crew; see runPackages"}},
		{"a test of run", imports("internal/run/notify/a_test.go", "signalbox/internal/run/crew"),
			nil},
		{"between commands", imports("internal/cli/orders/a.go", "signalbox/internal/cli/looking"),
			[]string{"internal/cli/orders/a.go: imports signalbox/internal/cli/looking: groups of commands must not import each other"}},
		{"commands to what they share",
			imports("internal/cli/serving/a.go", "signalbox/internal/cli/web"), nil},
		{"within commands", imports("internal/cli/about/a.go",
			"signalbox/internal/cli/about/manual"), nil},
		{"wiring", imports("cmd/signalbox/a.go", "signalbox/transcript"), nil},
		{"a test", imports("a_test.go", "signalbox/transcript"), nil},
		{"unknown package", imports("util/a.go", "fmt"),
			[]string{"util/a.go: package util belongs to no group; add it to groups"}},
		{"module in the core", imports("transcript/a.go", "github.com/alecthomas/kong"),
			[]string{"transcript/a.go: imports github.com/alecthomas/kong: transcript must not import it"}},
		{"module of the ledger", imports("ledger/a.go", "golang.org/x/mod/sumdb/tlog"), nil},
		{"module elsewhere", imports("cmd/signalbox/a.go", "github.com/alecthomas/kong"), nil},
		{"test module", imports("a.go", "pgregory.net/rapid"),
			[]string{"a.go: imports pgregory.net/rapid: it is for tests only"}},
		{"test module in a test", imports("a_test.go", "pgregory.net/rapid"), nil},
		{"test package", imports("internal/run/crew/a.go", "signalbox/internal/testkit/property"),
			[]string{"internal/run/crew/a.go: imports signalbox/internal/testkit/property: run must not import testkit"}},
		{"random property", seedFaults(parse("a_test.go",
			"package p\nfunc f() { rapid.Check(nil, nil) }\n")),
			[]string{"a_test.go: uses rapid.Check, whose cases are random; use property.Check"}},
		{"cgo", imports("a.go", "C"),
			[]string{"a.go: imports C: the program is built without cgo"}},
		{"no comment", commentFaults(parse("a.go", "package p\n")),
			[]string{"package . has 0 package comments [], want one"}},
		{"two comments", commentFaults(append(parse("a.go", doc), parse("b.go", doc)...)),
			[]string{`package . has 2 package comments ["a.go" "b.go"], want one`}},
		{"one comment", commentFaults(append(parse("a.go", doc), parse("b.go", "package p\n")...)),
			nil},
	} {
		if diff := cmp.Diff(tt.want, tt.got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", tt.name, diff)
		}
	}
	for target, want := range map[string]string{
		"LICENSE": "", "docs/": "", "docs/reference/signals.md#3-exit-signals": "",
		"gone.md":                        "link to gone.md: no such file",
		"docs/reference/signals.md#gone": "link to docs/reference/signals.md#gone: no such heading",
	} {
		if got := linkFault("README.md", target); got != want {
			t.Errorf("link to %s: %q, want %q", target, got, want)
		}
	}
}

// TestPurePackages checks that the packages that scripts/race-test leaves out start no goroutines
// and share no state but what is computed once.
func TestPurePackages(t *testing.T) {
	list, err := os.ReadFile("scripts/pure-packages")
	must.Succeed(t, err)
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
			must.Succeed(t, err)
			for _, fault := range concurrency(tree) {
				t.Errorf("%s %s, but is in scripts/pure-packages", file, fault)
			}
		}
	}
	for source, want := range map[string][]string{
		`import "net/http"`:                              {"imports net/http"},
		`import "sync"; var m sync.Mutex`:                {"uses sync.Mutex"},
		`import "sync"; var f = sync.OnceFunc(nil)`:      nil,
		`import "sync/atomic"; var n atomic.Int64`:       {"imports sync/atomic"},
		`import "os/exec"; var c = exec.Command("true")`: {"uses exec.Command"},
		`import "os/exec"; var e exec.ExitError`:         nil,
		`func f() { go f() }`:                            {"starts a goroutine"},
	} {
		tree, err := parser.ParseFile(token.NewFileSet(), "", "package p; "+source, 0)
		must.Succeed(t, err)
		if diff := cmp.Diff(want, concurrency(tree)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", source, diff)
		}
	}
}

// concurrency returns how a file may start goroutines, or share state between them.
func concurrency(tree *ast.File) (faults []string) {
	for _, i := range tree.Imports {
		if path := strings.Trim(i.Path.Value, `"`); path == "sync/atomic" || path == "net/http" {
			faults = append(faults, "imports "+path)
		}
	}
	ast.Inspect(tree, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.GoStmt:
			faults = append(faults, "starts a goroutine")
		case *ast.SelectorExpr:
			name := types.ExprString(n)
			if strings.HasPrefix(name, "sync.") && !strings.HasPrefix(name, "sync.Once") ||
				strings.HasPrefix(name, "exec.C") {
				faults = append(faults, "uses "+name)
			}
		}
		return true
	})
	return faults
}
