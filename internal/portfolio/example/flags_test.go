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
// "name", and those passed to a function that uses its parameter there.
func (s source) flags(t *testing.T, kinds map[string]string) map[string][]string {
	t.Helper()
	found := make(map[string][]string)
	for path, file := range s.files {
		makers := make(map[string]int) // functions, and which parameter is the flag's name
		parameters := make(map[string]bool)
		ast.Inspect(file, func(n ast.Node) bool {
			name, params, body := function(n)
			for i, p := range params {
				if body != nil && putsIntoFlag(body, p) {
					makers[name], parameters[p] = i, true
				}
			}
			return true
		})
		ast.Inspect(file, func(n ast.Node) bool {
			value := flagOf(n)
			if call, ok := n.(*ast.CallExpr); ok {
				if name, ok := call.Fun.(*ast.Ident); ok {
					if i, ok := makers[name.Name]; ok && i < len(call.Args) {
						value = call.Args[i]
					}
				}
			}
			if value == nil {
				return true
			}
			if text, ok := literal(value); ok {
				found[text] = append(found[text], filepath.Base(path))
				return true
			}
			switch v := value.(type) {
			case *ast.Ident:
				if parameters[v.Name] || kinds[v.Name] != "" {
					return true
				}
			case *ast.SelectorExpr:
				if v.Sel.Name == "ErrorKind" { // holds one of the kinds
					return true
				}
			}
			t.Errorf("%s: this flag's name is not a text; teach this test to find it",
				s.fset.Position(value.Pos()))
			return true
		})
	}
	return found
}

// flagOf returns the value of Flag in a composite literal, given its key and value.
func flagOf(n ast.Node) ast.Expr {
	if pair, ok := n.(*ast.KeyValueExpr); ok {
		if key, ok := pair.Key.(*ast.Ident); ok && key.Name == "Flag" {
			return pair.Value
		}
	}
	return nil
}

func putsIntoFlag(body *ast.BlockStmt, parameter string) bool {
	puts := false
	ast.Inspect(body, func(n ast.Node) bool {
		if _, ok := n.(*ast.FuncLit); ok {
			return false // a function of its own
		}
		if name, ok := flagOf(n).(*ast.Ident); ok && name.Name == parameter {
			puts = true
		}
		return true
	})
	return puts
}

// function returns the name, parameters and body of a function that is declared or assigned to a
// variable.
func function(n ast.Node) (name string, params []string, body *ast.BlockStmt) {
	var signature *ast.FuncType
	switch n := n.(type) {
	case *ast.FuncDecl:
		name, signature, body = n.Name.Name, n.Type, n.Body
	case *ast.AssignStmt:
		if len(n.Lhs) != 1 || len(n.Rhs) != 1 {
			return "", nil, nil
		}
		to, isName := n.Lhs[0].(*ast.Ident)
		f, isFunction := n.Rhs[0].(*ast.FuncLit)
		if !isName || !isFunction {
			return "", nil, nil
		}
		name, signature, body = to.Name, f.Type, f.Body
	default:
		return "", nil, nil
	}
	for _, field := range signature.Params.List {
		for _, p := range field.Names {
			params = append(params, p.Name)
		}
	}
	return name, params, body
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
