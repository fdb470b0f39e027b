package rules

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"signalbox"
	"signalbox/internal/testkit/must"
)

// mayImport is what the rules may import: nothing that reads a clock, draws lots, waits or reaches
// outside.
var mayImport = []string{
	"signalbox", "signalbox/internal/text",
	"bytes", "cmp", "crypto/sha256", "crypto/subtle", "encoding/binary", "encoding/json", "errors",
	"fmt", "iter", "math", "math/bits",
	"path", "reflect", "slices", "strings", "time", "unicode", "unicode/utf8",
}

// mayUseOfTime is what the rules may use of package time: values and the type of a place on earth,
// and no clock, timer or local time.
var mayUseOfTime = []string{"Time", "Duration", "Location", "Millisecond", "Second", "Minute",
	"RFC3339", "DateOnly", "TimeOnly", "Unix"}

// mayUseOfFmt leaves out what prints.
var mayUseOfFmt = []string{"Sprintf", "Errorf"}

func TestPurity(t *testing.T) {
	for _, file := range parsePackage(t) {
		for _, fault := range impurities(file) {
			t.Error(fault)
		}
	}
}

// parsePackage returns the files of the package that are not tests, by name.
func parsePackage(t *testing.T) map[string]*ast.File {
	t.Helper()
	names, err := filepath.Glob("*.go")
	must.Succeed(t, err)
	files := map[string]*ast.File{}
	for _, name := range names {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.SkipObjectResolution)
		must.Succeed(t, err)
		files[name] = file
	}
	if len(files) < 5 {
		t.Fatalf("found %d files: the search for them is broken", len(files))
	}
	return files
}

func impurities(file *ast.File) (faults []string) {
	for _, spec := range file.Imports {
		path, _ := strconv.Unquote(spec.Path.Value)
		if !slices.Contains(mayImport, path) {
			faults = append(faults, "imports "+path)
		}
		if spec.Name != nil {
			faults = append(faults, "imports "+path+
				" under another name, which hides it from this test")
		}
	}
	ast.Inspect(file, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.SelectorExpr:
			if of, ok := n.X.(*ast.Ident); ok && impure(of.Name, n.Sel.Name) {
				faults = append(faults, fmt.Sprintf("uses %s.%s", of.Name, n.Sel.Name))
			}
		case *ast.GoStmt:
			faults = append(faults, "starts a goroutine")
		case *ast.ChanType, *ast.SelectStmt:
			faults = append(faults, "has a channel")
		}
		return true
	})
	return faults
}

func impure(pkg, name string) bool {
	return pkg == "time" && !slices.Contains(mayUseOfTime, name) || pkg == "fmt" &&
		!slices.Contains(mayUseOfFmt, name)
}

// TestImpuritiesAreFound breaks each rule once.
func TestImpuritiesAreFound(t *testing.T) {
	for source, want := range map[string][]string{
		`import "time"; var t = time.Unix(0, 0)`:              nil,
		`import "os"`:                                         {"imports os"},
		`import "math/rand/v2"`:                               {"imports math/rand/v2"},
		`import "sync"`:                                       {"imports sync"},
		`import "signalbox/internal/core/journal"`:            {"imports signalbox/internal/core/journal"},
		`import clock "time"; var t = clock.Now()`:            {"imports time under another name, which hides it from this test"},
		`import . "time"; var t = Now()`:                      {"imports time under another name, which hides it from this test"},
		`import "time"; var now = time.Now`:                   {"uses time.Now"},
		`import "time"; func f() { time.Sleep(time.Second) }`: {"uses time.Sleep"},
		`import "time"; var z = time.Local`:                   {"uses time.Local"},
		`import "fmt"; func f() { fmt.Println() }`:            {"uses fmt.Println"},
		`func f() { go f() }`:                                 {"starts a goroutine"},
		`var c chan int`:                                      {"has a channel"},
	} {
		file, err := parser.ParseFile(token.NewFileSet(), "a.go", "package p; "+source,
			parser.SkipObjectResolution)
		must.Succeed(t, err)
		if diff := cmp.Diff(want, impurities(file)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", source, diff)
		}
	}
}

// allBodies returns a body of each type of event, in the order of the table.
func allBodies(t *testing.T) (bodies []body) {
	t.Helper()
	ast.Inspect(parsePackage(t)["event.go"], func(n ast.Node) bool {
		entry, ok := n.(*ast.KeyValueExpr)
		if !ok {
			return true
		}
		if name, ok := strings.CutPrefix(entry.Key.(*ast.Ident).Name, "Type"); ok {
			b, err := decode(&signalbox.Event{Type: name, Data: []byte("{}")})
			must.Succeed(t, err)
			bodies = append(bodies, b)
		}
		return true
	})
	if len(bodies) != len(decoders) {
		t.Fatalf("found %d of %d types of events", len(bodies), len(decoders))
	}
	return bodies
}

// An event's type is the name of its Go type, and the table has all of them.
func TestEventTypes(t *testing.T) {
	var declared, listed []string
	for _, file := range parsePackage(t) {
		for _, decl := range file.Decls {
			if f, ok := decl.(*ast.FuncDecl); ok && f.Name.Name == "apply" && f.Recv != nil {
				declared = append(declared, f.Recv.List[0].Type.(*ast.Ident).Name)
			}
		}
	}
	for _, b := range allBodies(t) {
		name := typeOf(b)
		listed = append(listed, name)
		read, err := decode(&signalbox.Event{Type: name, Data: encode(b)})
		if err != nil || !reflect.DeepEqual(read, b) {
			t.Errorf("%s is read as %#v, %v", name, read, err)
		}
	}
	slices.Sort(declared)
	slices.Sort(listed)
	if diff := cmp.Diff(declared, listed); diff != "" {
		t.Errorf("types (-declared +in the table):\n%s", diff)
	}
}
