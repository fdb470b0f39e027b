package boundedlua

import (
	"errors"
	"fmt"
	"strings"

	lua "github.com/yuin/gopher-lua"
	"github.com/yuin/gopher-lua/ast"
	"github.com/yuin/gopher-lua/parse"
)

// Limits of source code. They keep the compiler from exhausting the Go stack or the memory, and
// from the cases that it gets wrong.
const (
	MaxSource    = 1 << 20
	maxNesting   = 500
	maxFunctions = 2000   // the compiler reserves 20 kB for each
	maxListed    = 25_000 // beyond 25,550 the compiler loses values
	maxUpvalues  = 200    // beyond 255 the compiler confuses them
)

// compile parses, rewrites and compiles source.
func compile(file, source string) (proto *lua.FunctionProto, fail *Error) {
	defer func() {
		if p := recover(); p != nil {
			proto, fail = nil, &Error{File: file, Line: 1,
				Msg: Clean(fmt.Sprintf("the compiler failed: %v", p))}
		}
	}()
	if len(source) > MaxSource {
		return nil, &Error{File: file, Line: 1, Msg: fmt.Sprintf("file larger than %d bytes",
			MaxSource)}
	}
	if strings.HasPrefix(source, "#") { // #!/usr/bin/env lua
		_, rest, _ := strings.Cut(source, "\n")
		source = "\n" + rest
	}
	chunk, err := parse.Parse(strings.NewReader(source), file)
	if err != nil {
		return nil, syntaxError(file, source, err)
	}
	r := &rewriter{file: file}
	r.block(chunk)
	if r.err != nil {
		return nil, r.err
	}
	proto, err = lua.Compile(chunk, file)
	if err != nil {
		return nil, syntaxError(file, source, err)
	}
	return proto, checkUpvalues(proto)
}

func checkUpvalues(p *lua.FunctionProto) *Error {
	if len(p.DbgUpvalues) > maxUpvalues {
		return &Error{File: p.SourceName, Line: max(p.LineDefined, 1),
			Msg: fmt.Sprintf("function uses more than %d variables from outside", maxUpvalues)}
	}
	for _, f := range p.FunctionPrototypes {
		if err := checkUpvalues(f); err != nil {
			return err
		}
	}
	return nil
}

func syntaxError(file, source string, err error) *Error {
	e := &Error{File: file, Line: 1}
	var pe *parse.Error
	var ce *lua.CompileError
	switch {
	case errors.As(err, &pe) && pe.Pos.Line == parse.EOF:
		e.Line = strings.Count(strings.TrimRight(source, "\r\n"), "\n") + 1
		e.Msg = "syntax error at the end of the file: " + strings.TrimSpace(pe.Message)
	case errors.As(err, &pe):
		e.Line = pe.Pos.Line
		column, first := findToken(source, pe.Pos)
		why := strings.TrimSpace(pe.Message)
		if first {
			why = "is a comma or bracket missing before it?"
		}
		e.Msg = fmt.Sprintf("syntax error near '%s' (column %d): %s", Shorten(pe.Token), column,
			why)
	case errors.As(err, &ce):
		e.Line = max(ce.Line, 1)
		e.Msg = ce.Message
	default:
		e.Msg = err.Error()
	}
	e.Msg = Clean(e.Msg)
	return e
}

// findToken returns the column where the token that ends at end begins, where the parser stopped.
// first reports whether it is the first token of its line; then the mistake may be in the line
// before.
func findToken(source string, end ast.Position) (column int, first bool) {
	sc := parse.NewScanner(strings.NewReader(source), end.Source)
	lx := &parse.Lexer{}
	before := 0
	for {
		tok, err := sc.Scan(lx)
		if err != nil || tok.Type < 0 || sc.Pos.Line > end.Line {
			return end.Column, false
		}
		if sc.Pos == end {
			return tok.Pos.Column, before > 0 && before < tok.Pos.Line
		}
		lx.PrevTokenType, before = tok.Type, tok.Pos.Line
	}
}
