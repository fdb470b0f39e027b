package boundedlua

import (
	"math"
	"strings"
	"sync"

	lua "github.com/yuin/gopher-lua"

	"signalbox/internal/text"
)

// maxArray bounds the length of a list. The instruction limit ends a call before it could make a
// list of that length.
const maxArray = 4 << 20

// lowerArrays makes the interpreter store integer keys of maxArray and above, such as times and
// dates, in the hash part of a table. By default it fills a list with nils up to 67 million
// entries. The bound is a variable of the interpreter's package; it is set once, because runtimes
// may be created concurrently.
var lowerArrays = sync.OnceFunc(func() { lua.MaxArrayIndex = maxArray })

const keepsNothing = "a tree's functions keep nothing between calls: write to the blackboard instead"

// openGuards makes the functions available that rewritten code calls, and intercepts assignments to
// globals.
func (s *Runtime) openGuards() {
	s.Register(s.env, map[string]lua.LGFunction{guardConcat: s.concat, guardSet: s.setField,
		guardKey: s.checkKey})
	meta := s.Root.CreateTable(0, 2)
	meta.RawSetString("__index", s.Globals)
	meta.RawSetString("__newindex", s.Root.NewFunction(s.setGlobal))
	s.env.Metatable = meta
}

func (s *Runtime) concat(L *lua.LState) int {
	parts := make([]string, L.GetTop())
	size := 0
	for i := range parts {
		v := L.Get(i + 1)
		if !lua.LVCanConvToString(v) {
			s.Raise(L, "attempt to concatenate a %s value", v.Type())
		}
		parts[i] = s.Text(v)
		size += len(parts[i])
	}
	s.checkString(L, size)
	L.Push(lua.LString(strings.Join(parts, "")))
	return 1
}

// checkKey counts the nils that the interpreter inserts before a key in a table constructor.
func (s *Runtime) checkKey(L *lua.LState) int {
	if k, ok := L.Get(1).(lua.LNumber); ok && isIndex(k) {
		s.Spend(L, int(k))
	}
	L.SetTop(1)
	return 1
}

func (s *Runtime) setGlobal(L *lua.LState) int {
	name := L.CheckString(2)
	if s.sealed {
		s.Raise(L, "global '%s' is assigned: %s", name, keepsNothing)
	}
	s.Globals.RawSetString(name, L.Get(3))
	return 0
}

func (s *Runtime) setField(L *lua.LState) int {
	object, key, value := L.Get(1), L.Get(2), L.Get(3)
	t, ok := object.(*lua.LTable)
	if ok && (t.Metatable == lua.LNil || t.RawGet(key) != lua.LNil ||
		L.GetMetaField(t, "__newindex") == lua.LNil) {
		s.checkNotFrozen(L, t)
		s.set(L, t, key, value)
		return 0
	}
	if !ok && L.GetMetaField(object, "__newindex") == lua.LNil {
		s.Raise(L, "attempt to index a %s value with key '%s'", object.Type(),
			text.Truncate(key.String(), maxQuoted))
	}
	L.SetTable(object, key, value) // an object that Go code made
	return 0
}

// checkNotFrozen raises an error if the table existed when loading ended.
func (s *Runtime) checkNotFrozen(L *lua.LState, t *lua.LTable) {
	if _, ok := s.frozen[t]; ok && s.sealed {
		s.Raise(L, "a table that exists between calls is changed: %s", keepsNothing)
	}
}

// set assigns to a field. It counts the nils that the interpreter inserts before an index beyond
// the end of a list.
func (s *Runtime) set(L *lua.LState, t *lua.LTable, key, value lua.LValue) {
	k, isNumber := key.(lua.LNumber)
	switch {
	case key == lua.LNil:
		s.Raise(L, "table index is nil")
	case isNumber && math.IsNaN(float64(k)):
		s.Raise(L, "table index is NaN")
	case isNumber && isIndex(k):
		if value == lua.LNil && t.RawGet(key) == lua.LNil {
			return
		}
		s.Spend(L, max(int(k)-t.Len()-1, 0))
	}
	t.RawSet(key, value)
}

// isIndex reports whether the interpreter stores the key k in the list part of a table.
func isIndex(k lua.LNumber) bool { return IsWhole(k) && k >= 1 && k < maxArray }

// IsWhole reports whether a number has no fraction.
func IsWhole(n lua.LNumber) bool { return float64(n) == math.Trunc(float64(n)) }
