package example_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// source is the parsed code that raises flags.
type source struct {
	files map[string]*ast.File // by path
	fset  *token.FileSet
}

func parseSources(t *testing.T, folders ...string) source {
	t.Helper()
	s := source{make(map[string]*ast.File), token.NewFileSet()}
	for _, folder := range folders {
		names, err := filepath.Glob(filepath.Join(folder, "*.go"))
		if err != nil || len(names) == 0 {
			t.Fatalf("no code in %s: %v", folder, err)
		}
		for _, name := range names {
			if strings.HasSuffix(name, "_test.go") {
				continue
			}
			if s.files[name], err = parser.ParseFile(s.fset, name, nil, 0); err != nil {
				t.Fatal(err)
			}
		}
	}
	return s
}

// kinds returns the values of the const block with NoPortfolio.
func (s source) kinds(t *testing.T) map[string]string {
	t.Helper()
	for _, file := range s.files {
		for _, decl := range file.Decls {
			group, ok := decl.(*ast.GenDecl)
			if !ok || group.Tok != token.CONST {
				continue
			}
			values := make(map[string]string)
			for _, spec := range group.Specs {
				spec := spec.(*ast.ValueSpec)
				for i, name := range spec.Names {
					if i < len(spec.Values) {
						values[name.Name], _ = literal(spec.Values[i])
					}
				}
			}
			if values["NoPortfolio"] != "" {
				return values
			}
		}
	}
	t.Fatal("no const block with NoPortfolio")
	return nil
}

func literal(e ast.Expr) (string, bool) {
	basic, ok := e.(*ast.BasicLit)
	if !ok || basic.Kind != token.STRING {
		return "", false
	}
	text, err := strconv.Unquote(basic.Value)
	return text, err == nil
}

// flags returns the names of all flags with the files that raise them: those written as Flag:
// "name", and those passed to flags.add.
func (s source) flags(t *testing.T, kinds map[string]string) map[string][]string {
	t.Helper()
	found := make(map[string][]string)
	for path, file := range s.files {
		ast.Inspect(file, func(n ast.Node) bool {
			value := flagOf(n)
			text, isText := literal(value)
			name, isName := value.(*ast.Ident)
			switch {
			case value == nil:
			case isText:
				found[text] = append(found[text], filepath.Base(path))
			case isName && (kinds[name.Name] != "" || isParameter(name)):
			default:
				t.Errorf("%s: this flag's name is not a text; teach this test to find it",
					s.fset.Position(value.Pos()))
			}
			return true
		})
	}
	return found
}

// flagOf returns the name of the flag in a composite literal or in a call of flags.add.
func flagOf(n ast.Node) ast.Expr {
	switch n := n.(type) {
	case *ast.KeyValueExpr:
		if key, ok := n.Key.(*ast.Ident); ok && key.Name == "Flag" {
			return n.Value
		}
	case *ast.CallExpr:
		if f, ok := n.Fun.(*ast.SelectorExpr); ok && f.Sel.Name == "add" {
			if list, ok := f.X.(*ast.Ident); ok && list.Name == "flags" {
				return n.Args[0]
			}
		}
	}
	return nil
}

func isParameter(name *ast.Ident) bool {
	if name.Obj == nil {
		return false
	}
	_, is := name.Obj.Decl.(*ast.Field)
	return is
}

// TestEveryFlagHasARecipe checks that the README has a recipe for every flag.
func TestEveryFlagHasARecipe(t *testing.T) {
	s := parseSources(t, "..", "../answer", "../../../brief")
	kinds := s.kinds(t)
	flags := s.flags(t, kinds)
	for _, kind := range kinds {
		flags[kind] = append(flags[kind], "portfolio.go")
	}
	// Flags of the two tools may have the same name.
	byTool := make(map[string]map[string]bool)
	for _, r := range readRecipes(t, readme(t)) {
		if byTool[r.flag] == nil {
			byTool[r.flag] = make(map[string]bool)
		}
		if byTool[r.flag][r.tool] {
			t.Errorf("README.md:%d: %s of %s has two recipes", r.line, r.flag, r.tool)
		}
		byTool[r.flag][r.tool] = true
		if flags[r.flag] == nil {
			t.Errorf("README.md:%d: no code raises %s", r.line, r.flag)
		}
	}
	for _, flag := range slices.Sorted(maps.Keys(flags)) {
		for _, file := range flags[flag] {
			tool := ""
			for prefix, name := range map[string]string{"harvest": "harvest", "exit": "exits"} {
				if strings.HasPrefix(file, prefix) {
					tool = name
				}
			}
			if len(byTool[flag]) == 0 || tool != "" && !byTool[flag][tool] {
				t.Errorf("%s raises %s, and README.md has no recipe for it (%s)", file, flag, tool)
			}
		}
	}
	const atLeast = 35 // so that a parser that finds nothing does not pass
	if len(flags) < atLeast {
		t.Errorf("only %d flags found, expected at least %d: %v", len(flags), atLeast,
			slices.Sorted(maps.Keys(flags)))
	}
}
