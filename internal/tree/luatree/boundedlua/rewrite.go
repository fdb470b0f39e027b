package boundedlua

import (
	"fmt"
	"slices"

	"github.com/yuin/gopher-lua/ast"
)

// The functions that rewritten code calls are globals whose names no Lua identifier can have.
const (
	guardConcat = "\x00concat"
	guardSet    = "\x00set"
	guardKey    = "\x00key"
)

// rewriter replaces concatenations and assignments to fields with calls of guarding functions: the
// first could make strings of any size, and the second could change what must stay the same between
// calls. It also splits assignments to several variables, which the interpreter gets wrong (a, b =
// b, a sets both to b). Line numbers stay.
type rewriter struct {
	file      string
	err       *Error
	depth     int
	functions int
}

func (r *rewriter) fail(line int, format string, args ...any) {
	if r.err == nil {
		r.err = &Error{File: r.file, Line: max(line, 1), Msg: fmt.Sprintf(format, args...)}
	}
}

// enter reports whether the code may nest one level deeper. If so, the caller must call leave.
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

func (r *rewriter) block(stmts []ast.Stmt) {
	for i, st := range stmts {
		if !r.enter(st) {
			break
		}
		stmts[i] = r.stmt(st)
		r.leave()
	}
}

func (r *rewriter) stmt(stmt ast.Stmt) ast.Stmt {
	switch st := stmt.(type) {
	case *ast.AssignStmt:
		return r.assign(st)
	case *ast.LocalAssignStmt:
		r.exprs(st.Exprs)
	case *ast.FuncCallStmt:
		st.Expr = r.expr(st.Expr)
	case *ast.FuncDefStmt:
		return r.funcDef(st)
	case *ast.ReturnStmt:
		r.exprs(st.Exprs)
	case *ast.LabelStmt, *ast.GotoStmt:
		r.fail(st.Line(), "goto is not available in a tree")
	case *ast.DoBlockStmt:
		r.block(st.Stmts)
	case *ast.WhileStmt:
		st.Condition = r.expr(st.Condition)
		r.block(st.Stmts)
	case *ast.RepeatStmt:
		r.block(st.Stmts)
		st.Condition = r.expr(st.Condition)
	case *ast.IfStmt:
		st.Condition = r.expr(st.Condition)
		r.block(st.Then)
		r.block(st.Else)
	case *ast.NumberForStmt:
		st.Init, st.Limit = r.expr(st.Init), r.expr(st.Limit)
		if st.Step != nil {
			st.Step = r.expr(st.Step)
		}
		r.block(st.Stmts)
	case *ast.GenericForStmt:
		r.exprs(st.Exprs)
		r.block(st.Stmts)
	}
	return stmt
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

// assign rewrites an assignment. An assignment to several targets uses temporary variables and
// keeps Lua's order of evaluation: the objects and keys of the targets, then the values, then the
// targets from last to first.
func (r *rewriter) assign(st *ast.AssignStmt) ast.Stmt {
	if len(st.Lhs) == 1 && len(st.Rhs) == 1 {
		value := r.expr(st.Rhs[0])
		if attr, ok := st.Lhs[0].(*ast.AttrGetExpr); ok {
			return r.set(attr, r.expr(attr.Object), r.expr(attr.Key), value)
		}
		r.expr(st.Lhs[0])
		// The compiler puts a call in parentheses into the register of the last parameter, where it
		// overwrites its own arguments. The parentheses make no difference here, because only one
		// value is used.
		if call, ok := value.(*ast.FuncCallExpr); ok {
			call.AdjustRet = false
		}
		st.Rhs[0] = value
		return st
	}
	block := &ast.DoBlockStmt{}
	block.SetLine(st.Line())
	block.SetLastLine(st.LastLine())
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
		parts := &ast.LocalAssignStmt{Names: names,
			Exprs: []ast.Expr{r.expr(attr.Object), r.expr(attr.Key)}}
		parts.SetLine(lhs.Line())
		block.Stmts = append(block.Stmts, parts)
		sets = append(sets, r.set(attr, r.ident(lhs, names[0]), r.ident(lhs, names[1]), value))
	}
	r.exprs(st.Rhs)
	all := &ast.LocalAssignStmt{Names: values, Exprs: st.Rhs}
	all.SetLine(st.Line())
	slices.Reverse(sets)
	block.Stmts = append(append(block.Stmts, all), sets...)
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
	case *ast.AttrGetExpr:
		ex.Object, ex.Key = r.expr(ex.Object), r.expr(ex.Key)
	case *ast.FuncCallExpr:
		if ex.Func != nil {
			ex.Func = r.expr(ex.Func)
		} else {
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
		r.table(ex)
	case *ast.FunctionExpr:
		r.function(ex)
	}
	return e
}

// concat turns a chain of concatenations into a call, or into a tree of calls if the chain is
// longer than a call can have arguments.
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

func (r *rewriter) table(ex *ast.TableExpr) {
	listed := 0
	for _, f := range ex.Fields {
		f.Value = r.expr(f.Value)
		if f.Key == nil {
			listed++
			continue
		}
		f.Key = r.expr(f.Key)
		if f.Key.Line() == 0 {
			f.Key.SetLine(ex.Line())
		}
		if _, ok := f.Key.(*ast.StringExpr); !ok {
			f.Key = r.call(f.Key, guardKey, single(f.Key))
		}
	}
	if listed > maxListed {
		r.fail(ex.Line(), "more than %d values listed in one table: build it in a loop", maxListed)
	}
}

func (r *rewriter) function(ex *ast.FunctionExpr) {
	if r.functions++; r.functions > maxFunctions {
		r.fail(ex.Line(), "more than %d functions in one file", maxFunctions)
	}
	r.block(ex.Stmts)
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

// single limits an expression to one value.
func single(e ast.Expr) ast.Expr {
	switch ex := e.(type) {
	case *ast.FuncCallExpr:
		ex.AdjustRet = true
	case *ast.Comma3Expr:
		ex.AdjustRet = true
	}
	return e
}
