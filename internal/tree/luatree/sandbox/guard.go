package sandbox

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	lua "github.com/yuin/gopher-lua"
	"github.com/yuin/gopher-lua/ast"
	"github.com/yuin/gopher-lua/parse"
)

// What source may be. The parser keeps its stack on the heap, about 256 bytes a token; the compiler recurses, so
// that nesting is what could exhaust the Go stack, and it looks constants and variables up one by one.
const (
	MaxSource     = 1 << 20
	maxNesting    = 500
	maxFuncNest   = 50
	maxLookups    = 300_000_000
	maxListed     = 25_000 // beyond 25,550 the compiler loses values
	maxUpvalues   = 200    // beyond 255 the compiler confuses them
	tokenBytes    = 256
	functionBytes = 20 << 10
	blockBytes    = 512
)

// compile parses source, rewrites it and compiles it.
func (s *Sandbox) compile(file, source string) (proto *lua.FunctionProto, fail *Error) {
	defer func() {
		if p := recover(); p != nil {
			proto, fail = nil, &Error{File: file, Line: 1, Msg: Clean(fmt.Sprintf("the compiler failed: %v", p))}
		}
	}()
	if len(source) > MaxSource {
		return nil, &Error{File: file, Line: 1, Msg: fmt.Sprintf("file larger than %d bytes", MaxSource)}
	}
	if strings.HasPrefix(source, "#") { // as the first line of a script may
		_, rest, _ := strings.Cut(source, "\n")
		source = "\n" + rest
	}
	if err := s.countTokens(file, source); err != nil {
		return nil, err
	}
	chunk, err := parse.Parse(strings.NewReader(source), file)
	if err != nil {
		return nil, syntaxError(file, source, err)
	}
	r := &rewriter{file: file, meter: s.meter, consts: map[string]struct{}{}}
	chunk = r.block(chunk)
	if r.err != nil {
		return nil, r.err
	}
	proto, err = lua.Compile(chunk, file)
	if err != nil {
		return nil, syntaxError(file, source, err)
	}
	return proto, s.trim(proto)
}

// countTokens charges for what the parser will need, before it does.
func (s *Sandbox) countTokens(file, source string) *Error {
	sc := parse.NewScanner(strings.NewReader(source), file)
	lx := &parse.Lexer{}
	for {
		tok, err := sc.Scan(lx)
		if err != nil || tok.Type < 0 {
			return nil // the parser will report it better
		}
		lx.PrevTokenType = tok.Type
		if s.meter.charge(tokenBytes); s.meter.over != nil {
			return &Error{File: file, Line: max(tok.Pos.Line, 1), Msg: "file too large: " + s.meter.over.Error()}
		}
	}
}

// trim frees what the compiler reserved for each function, and refuses what it cannot count.
func (s *Sandbox) trim(p *lua.FunctionProto) *Error {
	if len(p.DbgUpvalues) > maxUpvalues {
		return &Error{File: p.SourceName, Line: max(p.LineDefined, 1),
			Msg: fmt.Sprintf("function uses more than %d variables from outside", maxUpvalues)}
	}
	p.Code, p.Constants = slices.Clone(p.Code), slices.Clone(p.Constants)
	p.DbgSourcePositions, p.DbgCalls = slices.Clone(p.DbgSourcePositions), slices.Clone(p.DbgCalls)
	for _, f := range p.FunctionPrototypes {
		if err := s.trim(f); err != nil {
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
		column, first := blamed(source, pe.Pos)
		why := strings.TrimSpace(pe.Message)
		if first {
			why = "is a comma or bracket missing before it?"
		}
		e.Msg = fmt.Sprintf("syntax error near '%s' (column %d): %s", Shorten(pe.Token), column, why)
	case errors.As(err, &ce):
		e.Line = max(ce.Line, 1)
		e.Msg = ce.Message
	default:
		e.Msg = err.Error()
	}
	e.Msg = Clean(e.Msg)
	return e
}

// blamed returns where the token begins at whose end the parser stopped, and whether it is the first of its line, so that
// what is wrong may well be the line before.
func blamed(source string, end ast.Position) (column int, first bool) {
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

// Shorten makes a text of a file fit for a message.
func Shorten(s string) string {
	if len(s) > 60 {
		return s[:60] + "…"
	}
	return s
}

// Names of guarding functions: globals that no Lua identifier can spell.
const (
	guardConcat = "\x00concat"
	guardTable  = "\x00table"
	guardKey    = "\x00key"
	guardFunc   = "\x00function"
	guardSet    = "\x00set"
	guardVararg = "\x00vararg"
)

// rewriter leads through a guarding function what the interpreter would do by itself: concatenation, table
// constructors, closures, assignments to fields, and taking any number of arguments. Positions stay.
type rewriter struct {
	file    string
	meter   *meter
	err     *Error
	depth   int
	funcs   int
	locals  int
	consts  map[string]struct{}
	lookups int64
}

func (r *rewriter) fail(line int, format string, args ...any) {
	if r.err == nil {
		r.err = &Error{File: r.file, Line: max(line, 1), Msg: fmt.Sprintf(format, args...)}
	}
}

// enter reports whether to go one level deeper. If so, the caller must call leave.
func (r *rewriter) enter(at ast.PositionHolder) bool {
	if r.err == nil && r.depth >= maxNesting {
		r.fail(at.Line(), "nested more than %d levels deep", maxNesting)
	}
	if r.err != nil {
		return false
	}
	r.depth++
	return true
}

func (r *rewriter) leave() { r.depth-- }

func (r *rewriter) charge(at ast.PositionHolder, n int64) {
	if r.meter.charge(n); r.meter.over != nil {
		r.fail(at.Line(), "file too large: %v", r.meter.over)
	}
}

// Look counts what the compiler does to find a name or a constant.
func (r *rewriter) look(at ast.PositionHolder, kind, text string) {
	r.lookups += int64(len(r.consts))*int64(1+len(text)/32) + int64(r.locals)
	if r.lookups > maxLookups {
		r.fail(at.Line(), "too many constants in one file")
	}
	r.consts[kind+text] = struct{}{}
}

func (r *rewriter) block(stmts []ast.Stmt) []ast.Stmt {
	locals := r.locals
	out := make([]ast.Stmt, 0, len(stmts))
	for _, st := range stmts {
		if !r.enter(st) {
			break
		}
		out = r.stmt(out, st)
		r.leave()
	}
	r.locals = locals
	return out
}

func (r *rewriter) stmt(out []ast.Stmt, stmt ast.Stmt) []ast.Stmt {
	switch st := stmt.(type) {
	case *ast.AssignStmt:
		return append(out, r.assign(st))
	case *ast.LocalAssignStmt:
		return r.local(out, st)
	case *ast.FuncCallStmt:
		st.Expr = r.expr(st.Expr)
	case *ast.FuncDefStmt:
		return append(out, r.funcDef(st))
	case *ast.ReturnStmt:
		r.exprs(st.Exprs)
	case *ast.LabelStmt, *ast.GotoStmt:
		r.fail(st.Line(), "goto is not available in a tree")
	default:
		r.charge(st, blockBytes)
		r.compound(st)
	}
	return append(out, stmt)
}

func (r *rewriter) compound(stmt ast.Stmt) {
	switch st := stmt.(type) {
	case *ast.DoBlockStmt:
		st.Stmts = r.block(st.Stmts)
	case *ast.WhileStmt:
		st.Condition = r.expr(st.Condition)
		st.Stmts = r.block(st.Stmts)
	case *ast.RepeatStmt:
		st.Stmts = r.block(st.Stmts)
		st.Condition = r.expr(st.Condition)
	case *ast.IfStmt:
		st.Condition = r.expr(st.Condition)
		st.Then, st.Else = r.block(st.Then), r.block(st.Else)
	case *ast.NumberForStmt:
		st.Init, st.Limit = r.expr(st.Init), r.expr(st.Limit)
		if st.Step != nil {
			st.Step = r.expr(st.Step)
		}
		r.locals += 4
		st.Stmts = r.block(st.Stmts)
		r.locals -= 4
	case *ast.GenericForStmt:
		r.exprs(st.Exprs)
		r.locals += 3 + len(st.Names)
		st.Stmts = r.block(st.Stmts)
		r.locals -= 3 + len(st.Names)
	}
}

func (r *rewriter) local(out []ast.Stmt, st *ast.LocalAssignStmt) []ast.Stmt {
	fn, recursive := (*ast.FunctionExpr)(nil), false
	if len(st.Names) == 1 && len(st.Exprs) == 1 {
		fn, recursive = st.Exprs[0].(*ast.FunctionExpr)
	}
	if !recursive {
		r.exprs(st.Exprs)
		r.locals += len(st.Names)
		return append(out, st)
	}
	// The function must stand there itself, or it could not call itself. So it is charged for afterwards.
	r.locals++
	r.function(fn)
	charge := &ast.FuncCallStmt{Expr: r.call(st, guardFunc, r.ident(st, st.Names[0]))}
	charge.SetLine(st.Line())
	return append(out, st, charge)
}

func (r *rewriter) funcDef(st *ast.FuncDefStmt) ast.Stmt {
	target := st.Name.Func
	if target == nil {
		st.Func.ParList.Names = append([]string{"self"}, st.Func.ParList.Names...)
		key := &ast.StringExpr{Value: st.Name.Method}
		key.SetLine(st.Line())
		attr := &ast.AttrGetExpr{Object: st.Name.Receiver, Key: key}
		attr.SetLine(st.Name.Receiver.Line())
		target = attr
	}
	as := &ast.AssignStmt{Lhs: []ast.Expr{target}, Rhs: []ast.Expr{st.Func}}
	as.SetLine(st.Func.Line())
	as.SetLastLine(st.Func.LastLine())
	return r.assign(as)
}

// assign rewrites an assignment. One to several targets goes through variables of our own, in the order of
// Lua: what the targets are made of, then the values, then the targets from the last to the first.
func (r *rewriter) assign(st *ast.AssignStmt) ast.Stmt {
	if len(st.Lhs) == 1 && len(st.Rhs) == 1 {
		value := r.expr(st.Rhs[0])
		if attr, ok := st.Lhs[0].(*ast.AttrGetExpr); ok {
			return r.set(attr, r.expr(attr.Object), r.expr(attr.Key), value)
		}
		r.expr(st.Lhs[0])
		// A call whose results are cut to one is compiled into the register of the last parameter, where it
		// overwrites its own arguments. One value is all that is taken here anyway.
		if call, ok := value.(*ast.FuncCallExpr); ok {
			call.AdjustRet = false
		}
		st.Rhs[0] = value
		return st
	}
	block := &ast.DoBlockStmt{}
	block.SetLine(st.Line())
	block.SetLastLine(st.LastLine())
	r.charge(st, blockBytes)
	locals := r.locals
	values := make([]string, len(st.Lhs))
	sets := make([]ast.Stmt, 0, len(st.Lhs))
	for i, lhs := range st.Lhs {
		values[i] = fmt.Sprintf("\x00v%d", i)
		value := r.ident(lhs, values[i])
		attr, ok := lhs.(*ast.AttrGetExpr)
		if !ok {
			one := &ast.AssignStmt{Lhs: []ast.Expr{r.expr(lhs)}, Rhs: []ast.Expr{value}}
			one.SetLine(lhs.Line())
			sets = append(sets, one)
			continue
		}
		names := []string{fmt.Sprintf("\x00o%d", i), fmt.Sprintf("\x00k%d", i)}
		parts := &ast.LocalAssignStmt{Names: names, Exprs: []ast.Expr{r.expr(attr.Object), r.expr(attr.Key)}}
		parts.SetLine(lhs.Line())
		block.Stmts = append(block.Stmts, parts)
		sets = append(sets, r.set(attr, r.ident(lhs, names[0]), r.ident(lhs, names[1]), value))
	}
	r.exprs(st.Rhs)
	all := &ast.LocalAssignStmt{Names: values, Exprs: st.Rhs}
	all.SetLine(st.Line())
	slices.Reverse(sets)
	block.Stmts = append(append(block.Stmts, all), sets...)
	r.locals = locals
	return block
}

func (r *rewriter) set(at ast.PositionHolder, object, key, value ast.Expr) ast.Stmt {
	st := &ast.FuncCallStmt{Expr: r.call(at, guardSet, single(object), single(key), single(value))}
	st.SetLine(at.Line())
	return st
}

func (r *rewriter) exprs(list []ast.Expr) {
	for i, e := range list {
		list[i] = r.expr(e)
	}
}

func (r *rewriter) expr(e ast.Expr) ast.Expr {
	if !r.enter(e) {
		return e
	}
	defer r.leave()
	switch ex := e.(type) {
	case *ast.StringExpr:
		r.look(ex, "s", ex.Value)
	case *ast.NumberExpr:
		r.look(ex, "n", ex.Value)
	case *ast.IdentExpr:
		r.look(ex, "s", ex.Value)
	case *ast.AttrGetExpr:
		ex.Object, ex.Key = r.expr(ex.Object), r.expr(ex.Key)
	case *ast.FuncCallExpr:
		if ex.Func != nil {
			ex.Func = r.expr(ex.Func)
		} else {
			r.look(ex, "s", ex.Method)
			ex.Receiver = r.expr(ex.Receiver)
		}
		r.exprs(ex.Args)
	case *ast.LogicalOpExpr:
		ex.Lhs, ex.Rhs = r.expr(ex.Lhs), r.expr(ex.Rhs)
	case *ast.RelationalOpExpr:
		ex.Lhs, ex.Rhs = r.expr(ex.Lhs), r.expr(ex.Rhs)
	case *ast.ArithmeticOpExpr:
		ex.Lhs, ex.Rhs = r.expr(ex.Lhs), r.expr(ex.Rhs)
	case *ast.UnaryMinusOpExpr:
		ex.Expr = r.expr(ex.Expr)
	case *ast.UnaryNotOpExpr:
		ex.Expr = r.expr(ex.Expr)
	case *ast.UnaryLenOpExpr:
		ex.Expr = r.expr(ex.Expr)
	case *ast.StringConcatOpExpr:
		return r.concat(ex)
	case *ast.TableExpr:
		return r.table(ex)
	case *ast.FunctionExpr:
		r.function(ex)
		return r.call(ex, guardFunc, ex)
	}
	return e
}

// concat makes one call of a chain, or a shallow tree of calls: a chain may be longer than the stack is deep.
func (r *rewriter) concat(ex *ast.StringConcatOpExpr) ast.Expr {
	const width = 16
	var parts []ast.Expr
	for {
		parts = append(parts, r.expr(ex.Lhs))
		rhs, ok := ex.Rhs.(*ast.StringConcatOpExpr)
		if !ok {
			parts = append(parts, r.expr(ex.Rhs))
			break
		}
		ex = rhs
	}
	for len(parts) > width {
		var next []ast.Expr
		for group := range slices.Chunk(parts, width) {
			if len(group) == 1 {
				next = append(next, group[0])
				continue
			}
			next = append(next, r.concatCall(group))
		}
		parts = next
	}
	return r.concatCall(parts)
}

func (r *rewriter) concatCall(parts []ast.Expr) ast.Expr {
	args := slices.Clone(parts)
	args[len(args)-1] = single(args[len(args)-1])
	return r.call(args[0], guardConcat, args...)
}

func (r *rewriter) table(ex *ast.TableExpr) ast.Expr {
	listed, named := 0, 0
	var rest []ast.Expr
	for i, f := range ex.Fields {
		f.Value = r.expr(f.Value)
		if f.Key == nil {
			if i == len(ex.Fields)-1 && multiple(f.Value) {
				rest = []ast.Expr{f.Value}
				break
			}
			listed++
			continue
		}
		named++
		f.Key = r.expr(f.Key)
		if f.Key.Line() == 0 {
			f.Key.SetLine(ex.Line())
		}
		switch f.Key.(type) {
		case *ast.StringExpr, *ast.TrueExpr, *ast.FalseExpr, *ast.NilExpr:
		default:
			f.Key = r.call(f.Key, guardKey, single(f.Key))
		}
	}
	if listed > maxListed {
		r.fail(ex.Line(), "more than %d values listed in one table: build it in a loop", maxListed)
	}
	if rest != nil {
		ex.Fields = ex.Fields[:len(ex.Fields)-1]
	}
	size := 128 + entryBytes*listed + HashBytes*named
	if named > 0 {
		size += 640
	}
	cost, base := r.number(ex, size), r.number(ex, listed)
	return r.call(ex, guardTable, append([]ast.Expr{ex, cost, base}, rest...)...)
}

func (r *rewriter) function(ex *ast.FunctionExpr) {
	if r.funcs >= maxFuncNest {
		r.fail(ex.Line(), "functions nested more than %d deep", maxFuncNest)
		return
	}
	r.charge(ex, functionBytes)
	consts := r.consts
	r.consts = map[string]struct{}{}
	r.funcs++
	r.locals += len(ex.ParList.Names) + 1
	ex.Stmts = r.block(ex.Stmts)
	r.locals -= len(ex.ParList.Names) + 1
	r.funcs--
	r.consts = consts
	if ex.ParList.HasVargs {
		// A function that takes any arguments and does not use ... would be given them in a table, uncounted.
		all := &ast.Comma3Expr{}
		all.SetLine(ex.Line())
		use := &ast.FuncCallStmt{Expr: r.call(ex, guardVararg, all)}
		use.SetLine(ex.Line())
		ex.Stmts = append([]ast.Stmt{use}, ex.Stmts...)
	}
}

func (r *rewriter) call(at ast.PositionHolder, name string, args ...ast.Expr) *ast.FuncCallExpr {
	call := &ast.FuncCallExpr{Func: r.ident(at, name), Args: args, AdjustRet: true}
	call.SetLine(at.Line())
	call.SetLastLine(at.LastLine())
	return call
}

func (r *rewriter) ident(at ast.PositionHolder, name string) ast.Expr {
	id := &ast.IdentExpr{Value: name}
	id.SetLine(at.Line())
	return id
}

func (r *rewriter) number(at ast.PositionHolder, n int) ast.Expr {
	num := &ast.NumberExpr{Value: strconv.Itoa(n)}
	num.SetLine(at.Line())
	return num
}

// multiple reports whether an expression may have any number of values.
func multiple(e ast.Expr) bool {
	switch ex := e.(type) {
	case *ast.FuncCallExpr:
		return !ex.AdjustRet
	case *ast.Comma3Expr:
		return !ex.AdjustRet
	}
	return false
}

// single cuts an expression to one value.
func single(e ast.Expr) ast.Expr {
	switch ex := e.(type) {
	case *ast.FuncCallExpr:
		ex.AdjustRet = true
	case *ast.Comma3Expr:
		ex.AdjustRet = true
	}
	return e
}
