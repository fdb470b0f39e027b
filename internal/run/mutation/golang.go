package mutation

import (
	"bytes"
	"go/ast"
	"go/build"
	"go/parser"
	"go/token"
	"io"
	"math/big"
	"path"
)

// findGo returns the mutants of a Go file.
func findGo(file string, source []byte, wanted func(offset int) bool) []Mutant {
	if !isBuilt(file, source) {
		return nil
	}
	positions := token.NewFileSet()
	parsed, err := parser.ParseFile(positions, "", source, parser.SkipObjectResolution)
	if err != nil {
		return nil
	}
	f := &goFinder{file: file, source: source, lines: newLines(source), wanted: wanted,
		base: positions.File(parsed.FileStart).Base()}
	for _, declaration := range parsed.Decls {
		f.function = ""
		if function, ok := declaration.(*ast.FuncDecl); ok {
			if function.Body == nil {
				continue
			}
			f.function = function.Name.Name
			f.inspect(function.Body, function.Type.Results)
			continue
		}
		f.inspect(declaration, nil)
	}
	return f.found
}

// isBuilt reports whether this machine builds a Go file: nothing would notice a change of others.
func isBuilt(file string, source []byte) bool {
	c := build.Default
	c.OpenFile = func(string) (io.ReadCloser, error) {
		return io.NopCloser(bytes.NewReader(source)), nil
	}
	matches, err := c.MatchFile("", path.Base(file))
	return matches || err != nil
}

type goFinder struct {
	file     string
	source   []byte
	lines    *lines
	wanted   func(offset int) bool
	base     int
	function string
	found    []Mutant
}

// replace adds the mutant that has other text from a position to another.
func (f *goFinder) replace(from, to token.Pos, with string) {
	start, end := int(from)-f.base, int(to)-f.base
	if len(f.found) >= maxMutants || !f.wanted(start) || end-start > maxEdit || string(f.source[start:end]) == with {
		return
	}
	m := f.lines.mutant(f.file, start, end, with)
	m.Function = f.function
	f.found = append(f.found, m)
}

func (f *goFinder) text(n ast.Node) string {
	return string(f.source[int(n.Pos())-f.base : int(n.End())-f.base])
}

// inspect finds the mutants in a node. results are those of the function that it is in.
func (f *goFinder) inspect(root ast.Node, results *ast.FieldList) {
	ast.Inspect(root, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.FuncLit:
			f.inspect(n.Body, n.Type.Results)
			return false
		case *ast.Field, *ast.ImportSpec, *ast.ArrayType: // types, tags and lengths
			if array, ok := n.(*ast.ArrayType); !ok || array.Len != nil {
				return false
			}
		case *ast.ForStmt: // the last part is left as it is: most loops would not end
			if n.Init != nil {
				f.inspect(n.Init, results)
			}
			if n.Cond != nil {
				f.inspect(n.Cond, results)
			}
			f.inspect(n.Body, results)
			return false
		case *ast.ReturnStmt:
			f.returned(n, results)
		case *ast.BlockStmt:
			f.statements(n.List)
		case *ast.CaseClause:
			f.statements(n.Body)
		case *ast.CommClause:
			f.statements(n.Body)
		default:
			f.expression(n)
		}
		return true
	})
}

var goOperators = map[token.Token]string{
	token.EQL: "!=", token.NEQ: "==", token.LSS: "<=", token.LEQ: "<", token.GTR: ">=",
	token.GEQ: ">", token.LAND: "||", token.LOR: "&&", token.ADD: "-", token.SUB: "+",
	token.MUL: "/", token.QUO: "*", token.REM: "*", token.AND: "|", token.OR: "&",
	token.SHL: ">>", token.SHR: "<<", token.ADD_ASSIGN: "-=", token.SUB_ASSIGN: "+=",
}

// expression changes operators, conditions and constants.
func (f *goFinder) expression(n ast.Node) {
	switch n := n.(type) {
	case *ast.BinaryExpr:
		if with, ok := goOperators[n.Op]; ok {
			f.replace(n.OpPos, n.OpPos+token.Pos(len(n.Op.String())), with)
		}
	case *ast.AssignStmt:
		if with, ok := goOperators[n.Tok]; ok {
			f.replace(n.TokPos, n.TokPos+token.Pos(len(n.Tok.String())), with)
		}
	case *ast.IncDecStmt:
		with := map[token.Token]string{token.INC: "--", token.DEC: "++"}[n.Tok]
		f.replace(n.TokPos, n.TokPos+2, with)
	case *ast.UnaryExpr:
		if n.Op == token.NOT {
			f.replace(n.OpPos, n.X.Pos(), "")
		}
	case *ast.IfStmt:
		binary, isBinary := n.Cond.(*ast.BinaryExpr)
		unary, isUnary := n.Cond.(*ast.UnaryExpr)
		if isUnary && unary.Op == token.NOT ||
			isBinary && (binary.Op == token.EQL || binary.Op == token.NEQ) {
			return // the operator is changed
		}
		f.replace(n.Cond.Pos(), n.Cond.End(), "!("+f.text(n.Cond)+")")
	case *ast.BranchStmt:
		if n.Tok == token.CONTINUE && n.Label == nil {
			f.replace(n.Pos(), n.End(), "break")
		}
	case *ast.Ident:
		switch n.Name {
		case "true":
			f.replace(n.Pos(), n.End(), "false")
		case "false":
			f.replace(n.Pos(), n.End(), "true")
		}
	case *ast.BasicLit:
		f.constant(n)
	}
}

// constant changes numbers. Texts are left as they are: most are for people.
func (f *goFinder) constant(n *ast.BasicLit) {
	switch n.Kind {
	case token.INT:
		if number, ok := new(big.Int).SetString(n.Value, 0); ok {
			f.replace(n.Pos(), n.End(), number.Add(number, big.NewInt(1)).String())
		}
	case token.FLOAT:
		f.replace(n.Pos(), n.End(), "("+n.Value+" + 1)")
	}
}

// statements deletes statements. A declaration stays: what uses it would not be built.
func (f *goFinder) statements(list []ast.Stmt) {
	for _, s := range list {
		switch s := s.(type) {
		case *ast.AssignStmt:
			if s.Tok == token.DEFINE {
				continue
			}
		case *ast.ExprStmt, *ast.IncDecStmt, *ast.SendStmt, *ast.DeferStmt, *ast.GoStmt:
		default:
			continue
		}
		f.replace(s.Pos(), s.End(), "")
	}
}

// returned changes what a function returns to the zero value, one result at a time.
func (f *goFinder) returned(s *ast.ReturnStmt, results *ast.FieldList) {
	if results == nil || results.NumFields() != len(s.Results) {
		return
	}
	at := 0
	for _, field := range results.List {
		for range max(len(field.Names), 1) {
			result := s.Results[at]
			at++
			if with := zero(field.Type); with != "" && !isLiteral(result) {
				f.replace(result.Pos(), result.End(), with)
			}
		}
	}
}

// isLiteral reports whether an expression is a constant that expression changes, or a zero value.
func isLiteral(e ast.Expr) bool {
	switch e := e.(type) {
	case *ast.BasicLit:
		return e.Kind != token.STRING || len(e.Value) == len(`""`)
	case *ast.Ident:
		return e.Name == "nil" || e.Name == "true" || e.Name == "false"
	}
	return false
}

// zero returns the zero value of a type, "" if the syntax does not show it.
func zero(of ast.Expr) string {
	switch t := of.(type) {
	case *ast.StarExpr, *ast.MapType, *ast.FuncType, *ast.InterfaceType, *ast.ChanType:
		return "nil"
	case *ast.ArrayType:
		if t.Len == nil {
			return "nil"
		}
	case *ast.Ident:
		switch t.Name {
		case "error", "any":
			return "nil"
		case "string":
			return `""`
		case "bool":
			return "false"
		case "int", "int8", "int16", "int32", "int64", "uint", "uint8", "uint16", "uint32",
			"uint64", "uintptr", "byte", "rune", "float32", "float64":
			return "0"
		}
	}
	return ""
}
