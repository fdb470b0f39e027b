package boundedlua

import (
	"fmt"

	lua "github.com/yuin/gopher-lua"
)

// Freeze ends loading. From then on, Lua code cannot change any table that exists. roots are the
// functions that will be called. Freeze returns an error if they reach a function that assigns to a
// variable outside itself: such a variable would keep state between calls, which a resumed run
// could not restore.
func (s *Runtime) Freeze(roots []*lua.LFunction) *Error {
	w := &walker{s: s, seen: map[any]struct{}{}}
	w.strict = true
	for _, fn := range roots {
		w.add(fn)
	}
	w.add(s.strings) // the methods of strings: ("x"):trim()
	if err := w.walk(); err != nil {
		return err
	}
	// Functions that only the globals reach are never called, because code refers to a global by
	// name (globalsOf). Their tables are frozen all the same.
	w.strict = false
	w.add(s.Globals)
	if err := w.walk(); err != nil {
		return err
	}
	s.sealed = true
	return nil
}

// walker visits all values that Lua code can reach. It uses a list instead of recursion, because a
// chain of tables may be long.
type walker struct {
	s      *Runtime
	strict bool
	todo   []lua.LValue
	seen   map[any]struct{}
}

func (w *walker) add(v lua.LValue) {
	switch v := v.(type) {
	case *lua.LTable, *lua.LFunction, *lua.LUserData:
		if _, ok := w.seen[v]; !ok {
			w.seen[v] = struct{}{}
			w.todo = append(w.todo, v)
		}
	}
}

func (w *walker) walk() *Error {
	for len(w.todo) > 0 {
		v := w.todo[len(w.todo)-1]
		w.todo = w.todo[:len(w.todo)-1]
		switch v := v.(type) {
		case *lua.LTable:
			w.s.frozen[v] = struct{}{}
			w.add(v.Metatable)
			v.ForEach(func(k, e lua.LValue) {
				w.add(k)
				w.add(e)
			})
		case *lua.LUserData:
			w.add(v.Metatable)
		case *lua.LFunction:
			if err := w.function(v); err != nil {
				return err
			}
		}
	}
	return nil
}

func (w *walker) function(fn *lua.LFunction) *Error {
	for _, uv := range fn.Upvalues {
		if uv != nil {
			w.add(uv.Value())
		}
	}
	if fn.Proto == nil || !w.strict {
		return nil
	}
	// Closures may share their code.
	if _, ok := w.seen[fn.Proto]; ok {
		return nil
	}
	w.seen[fn.Proto] = struct{}{}
	w.globalsOf(fn.Proto)
	first := assignment{}
	for _, a := range assigned(fn.Proto) {
		if first.line == 0 || a.line < first.line {
			first = a
		}
	}
	if first.line == 0 {
		return nil
	}
	return &Error{File: fn.Proto.SourceName, Line: first.line,
		Msg: fmt.Sprintf("variable '%s' is assigned by a function that is called later: %s",
			first.name, keepsNothing)}
}

// globalsOf adds the globals that the code of a function refers to.
func (w *walker) globalsOf(p *lua.FunctionProto) {
	for _, inst := range p.Code {
		if int(inst>>26) == lua.OP_GETGLOBAL {
			if i := int(inst & 0x3ffff); i < len(p.Constants) {
				if name, ok := p.Constants[i].(lua.LString); ok {
					w.add(w.s.Globals.RawGetString(string(name)))
				}
			}
		}
	}
	for _, f := range p.FunctionPrototypes {
		w.globalsOf(f)
	}
}

type assignment struct {
	name string
	line int
}

// assigned returns the upvalues that a function assigns to, itself or in a function that it
// contains.
//
// An instruction has its code in the upper 6 bits, then A (8 bits), C (9) and B (9); Bx is C and B
// together. The instruction that creates a closure is followed by one instruction for each upvalue
// of the closure: MOVE for a local variable of the current function, GETUPVAL for an upvalue of it.
func assigned(p *lua.FunctionProto) map[int]assignment {
	found := map[int]assignment{}
	for pc := 0; pc < len(p.Code); pc++ {
		inst := p.Code[pc]
		switch int(inst >> 26) {
		case lua.OP_SETUPVAL:
			b := int(inst & 0x1ff)
			if _, ok := found[b]; !ok {
				found[b] = assignment{p.DbgUpvalues[b], max(p.DbgSourcePositions[pc], 1)}
			}
		case lua.OP_CLOSURE:
			inner := p.FunctionPrototypes[inst&0x3ffff]
			theirs := assigned(inner)
			for i := range inner.DbgUpvalues {
				pc++
				b := int(p.Code[pc] & 0x1ff)
				if a, ok := theirs[i]; ok && int(p.Code[pc]>>26) == lua.OP_GETUPVAL {
					if _, ok := found[b]; !ok {
						found[b] = a
					}
				}
			}
		case lua.OP_SETLIST:
			if inst>>9&0x1ff == 0 {
				pc++
			}
		}
	}
	return found
}
