package rules

import (
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"signalbox"
	"signalbox/internal/testkit/must"
)

const documents = "../../../docs/reference/"

var update = flag.Bool("update", false, "rewrite the generated parts of the documents")

// TestStateMachineDocument checks that the generated parts of the documents match the code.
func TestStateMachineDocument(t *testing.T) {
	for _, part := range []struct{ file, name, text string }{
		{"state-machine.md", "diagram", diagram(t)}, {"state-machine.md", "phases", phaseTable()},
		{"events.md", "events", eventTable(t)},
	} {
		data, err := os.ReadFile(documents + part.file)
		must.Succeed(t, err)
		want := replacePart(t, string(data), part.name, part.text)
		if *update {
			must.Succeed(t, os.WriteFile(documents+part.file, []byte(want), 0o644))
		} else if diff := cmp.Diff(want, string(data)); diff != "" {
			t.Errorf("docs/reference/%s is out of date; run go test ./internal/core/rules "+
				"-run TestStateMachineDocument -update (-want +got):\n%s", part.file, diff)
		}
	}
}

// replacePart puts text between the markers of a part.
func replacePart(t *testing.T, doc, name, text string) string {
	t.Helper()
	begin, end := "<!-- generated: "+name+" -->\n", "<!-- end of "+name+" -->\n"
	before, rest, ok := strings.Cut(doc, begin)
	_, after, found := strings.Cut(rest, end)
	if !ok || !found {
		t.Fatalf("the document has no part %q between %q and %q", name, begin, end)
	}
	return before + begin + "\n" + text + "\n" + end + after
}

// moves returns where a work item in a phase may go; from BLOCKED that is wherever work can be
// blocked.
func moves(phase signalbox.Phase) (to []signalbox.Phase) {
	if phase != signalbox.PhaseBlocked {
		return nextPhases(&Work{Phase: phase})
	}
	for _, from := range signalbox.Phases() {
		if from != phase && slices.Contains(nextPhases(&Work{Phase: from}), phase) {
			to = append(to, nextPhases(&Work{Phase: phase, BlockedFrom: from})...)
		}
	}
	return to
}

func diagram(t *testing.T) string {
	var b strings.Builder
	b.WriteString("```mermaid\nstateDiagram-v2\n    direction LR\n")
	fmt.Fprintf(&b, "    [*] --> %s: opened\n",
		newBox(t).do(OpenWork{Work: "w", Actor: "op"}).Phase)
	for _, phase := range signalbox.Phases() {
		for _, to := range moves(phase) {
			fmt.Fprintf(&b, "    %s --> %s: %s\n", phase, to, why(phase, to))
		}
		if len(moves(phase)) == 0 {
			fmt.Fprintf(&b, "    %s --> [*]\n", phase)
		}
	}
	b.WriteString("```\n")
	return b.String()
}

// why names the exit reasons that move work from a phase to another, and who can give them.
func why(from, to signalbox.Phase) string {
	var reasons []string
	for _, reason := range signalbox.ExitReasons() {
		signal := signalbox.ExitSignal{PhaseCompleted: from, ExitReason: reason}
		if next, ok := signal.NextPhase(); ok && next == to {
			reasons = append(reasons, string(reason))
		}
	}
	if from == signalbox.PhaseBlocked {
		return "unblock"
	}
	return strings.Join(reasons, " or ") + " (" + string(from.ClaimableBy()) + ")"
}

func phaseTable() string {
	rows := [][]string{{"phase", "who may claim it", "`completed` leads to",
		"`blocked` and `error` lead to", "`unblock` leads to"}}
	for _, phase := range signalbox.Phases() {
		row := []string{string(phase), string(phase.ClaimableBy()), "", "", ""}
		for _, to := range moves(phase) {
			switch why(phase, to) {
			case "unblock":
				row[4] = "the phase it was blocked in"
			case "completed (" + row[1] + ")":
				row[2] = string(to)
			default:
				row[3] = string(to)
			}
		}
		rows = append(rows, row)
	}
	var b strings.Builder
	for i, row := range rows {
		for j, cell := range row {
			if cell == "" {
				row[j] = "–"
			}
		}
		b.WriteString("| " + strings.Join(row, " | ") + " |\n")
		if i == 0 {
			b.WriteString("|---|---|---|---|---|\n")
		}
	}
	return b.String()
}

// eventTable has a row for each type of event, with what its comment says, and below it a row for
// each of its fields.
func eventTable(t *testing.T) string {
	comments := typeComments(t)
	var b strings.Builder
	row := func(cells ...string) {
		for i, cell := range cells {
			cells[i] = strings.ReplaceAll(cell, "|", `\|`)
		}
		b.WriteString("| " + strings.Join(cells, " | ") + " |\n")
	}
	row("event, field", "type", "meaning")
	row("---", "---", "---")
	for _, body := range allBodies(t) {
		name := typeOf(body)
		if comments[name] == "" {
			t.Errorf("%s has no comment", name)
		}
		row("**`"+name+"`**", "", strings.TrimPrefix(comments[name], name+" "))
		for _, f := range reflect.VisibleFields(reflect.TypeOf(body)) {
			if f.Anonymous {
				continue
			}
			tag, options, _ := strings.Cut(f.Tag.Get("json"), ",")
			kind := kindOf(t, f.Type)
			if options != "" {
				kind += ", optional"
			}
			row("`"+tag+"`", kind, comments[name+"."+f.Name])
		}
	}
	return b.String()
}

func kindOf(t *testing.T, typ reflect.Type) string {
	switch typ {
	case reflect.TypeFor[time.Time]():
		return "time"
	case reflect.TypeFor[signalbox.Hash]():
		return "digest"
	case reflect.TypeFor[signalbox.Phase]():
		return "phase"
	case reflect.TypeFor[signalbox.Role]():
		return "role"
	}
	switch typ.Kind() {
	case reflect.Pointer:
		return kindOf(t, typ.Elem()) + " or null"
	case reflect.String:
		return "text"
	case reflect.Bool:
		return "boolean"
	case reflect.Slice:
		return "list of " + kindOf(t, typ.Elem())
	case reflect.Struct:
		return "object"
	case reflect.Int, reflect.Int64, reflect.Uint64, reflect.Float64:
		return "number"
	}
	t.Fatalf("no name for type %s", typ)
	return ""
}

// typeComments returns the comments of the types of events, and of their fields as "Type.Field",
// each as one line.
func typeComments(t *testing.T) map[string]string {
	t.Helper()
	names, err := filepath.Glob("*events.go")
	if err != nil || len(names) == 0 {
		t.Fatalf("found %d files of events: %v", len(names), err)
	}
	var decls []ast.Decl
	for _, name := range names {
		file, err := parser.ParseFile(token.NewFileSet(), name, nil,
			parser.ParseComments|parser.SkipObjectResolution)
		must.Succeed(t, err)
		decls = append(decls, file.Decls...)
	}
	comments := map[string]string{}
	note := func(name, subject string, doc *ast.CommentGroup) {
		comments[name] = strings.TrimPrefix(strings.Join(strings.Fields(doc.Text()), " "), subject+
			" is ")
	}
	for _, decl := range decls {
		d, ok := decl.(*ast.GenDecl)
		if !ok || d.Tok != token.TYPE {
			continue
		}
		spec := d.Specs[0].(*ast.TypeSpec)
		note(spec.Name.Name, "", d.Doc)
		if s, ok := spec.Type.(*ast.StructType); ok {
			for _, field := range s.Fields.List {
				for _, name := range field.Names {
					note(spec.Name.Name+"."+name.Name, name.Name, field.Doc)
				}
			}
		}
	}
	return comments
}
