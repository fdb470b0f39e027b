package boundedlua

import (
	"sort"
	"strings"

	lua "github.com/yuin/gopher-lua"
)

func (s *Runtime) tableLibrary() map[string]lua.LGFunction {
	return map[string]lua.LGFunction{
		"concat": s.tabConcat, "insert": s.tabInsert, "maxn": s.tabMaxn, "remove": s.tabRemove,
		"sort": s.tabSort,
	}
}

func (s *Runtime) tabConcat(L *lua.LState) int {
	t := L.CheckTable(1)
	sep := ""
	if L.Get(2) != lua.LNil {
		sep = L.CheckString(2) // unlike OptString, it accepts a number, as Lua does
	}
	first, last := s.integerOr(L, 3, 1), s.integerOr(L, 4, t.Len())
	var out strings.Builder
	for i := first; i <= last; i++ {
		s.Spend(L, 1)
		v := t.RawGet(lua.LNumber(i))
		if !lua.LVCanConvToString(v) {
			s.Raise(L, "invalid value (%s) at index %d in table for 'concat'", v.Type(), i)
		}
		s.grow(L, &out, s.Text(v))
		if i < last {
			s.grow(L, &out, sep)
		}
	}
	s.checkString(L, out.Len())
	L.Push(lua.LString(out.String()))
	return 1
}

func (s *Runtime) tabInsert(L *lua.LState) int {
	t := L.CheckTable(1)
	s.checkNotFrozen(L, t)
	n := t.Len()
	switch L.GetTop() {
	case 2:
		s.set(L, t, lua.LNumber(n+1), L.Get(2))
	case 3:
		at, v := s.integer(L, 2), L.Get(3)
		if at < 1 {
			s.Raise(L, "bad argument #2 to 'insert' (position out of bounds)")
		}
		if at > n {
			s.set(L, t, lua.LNumber(at), v)
			return 0
		}
		s.Spend(L, (n-at)/16)
		t.Insert(at, v)
	default:
		s.Raise(L, "wrong number of arguments to 'insert'")
	}
	return 0
}

func (s *Runtime) tabRemove(L *lua.LState) int {
	t := L.CheckTable(1)
	s.checkNotFrozen(L, t)
	n := t.Len()
	at := s.integerOr(L, 2, n)
	if at < 1 || at > n {
		L.Push(lua.LNil)
		return 1
	}
	s.Spend(L, (n-at)/16)
	L.Push(t.Remove(at))
	return 1
}

func (s *Runtime) tabMaxn(L *lua.LState) int {
	t := L.CheckTable(1)
	n := lua.LNumber(t.Len())
	for k, _ := t.Next(lua.LNil); k != lua.LNil; k, _ = t.Next(k) {
		s.Spend(L, 1)
		if f, ok := k.(lua.LNumber); ok && f > n {
			n = f
		}
	}
	L.Push(n)
	return 1
}

// tabSort sorts a copy and writes it back, because the order function may change the table or raise
// an error.
func (s *Runtime) tabSort(L *lua.LState) int {
	t := L.CheckTable(1)
	s.checkNotFrozen(L, t)
	var less *lua.LFunction
	if L.Get(2) != lua.LNil {
		less = L.CheckFunction(2)
	}
	n := t.Len()
	s.Spend(L, n)
	values := make([]lua.LValue, n)
	for i := range values {
		values[i] = t.RawGetInt(i + 1)
	}
	before := func(a, b lua.LValue) bool {
		s.Spend(L, 2)
		if less == nil {
			if x, ok := a.(lua.LString); ok {
				s.Spend(L, len(x)/256)
			}
			return L.LessThan(a, b)
		}
		L.Push(less)
		L.Push(a)
		L.Push(b)
		L.Call(2, 1)
		v := L.Get(-1)
		L.Pop(1)
		return lua.LVAsBool(v)
	}
	sort.Slice(values, func(i, j int) bool { return before(values[i], values[j]) })
	for i, v := range values {
		s.set(L, t, lua.LNumber(i+1), v)
	}
	return 0
}
