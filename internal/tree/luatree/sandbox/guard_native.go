package sandbox

import (
	"math"
	"strings"
	"sync"

	lua "github.com/yuin/gopher-lua"
)

// maxArray is the length of the longest list. What a list of that length takes is the default memory limit.
const maxArray = 4 << 20

// lowerArrays makes the interpreter keep whole numbers from maxArray on, such as times and dates used as keys, in
// the hash part of a table. It would otherwise fill a list with nils up to 67 million entries. The bound is a
// variable of the interpreter's package; once, because sandboxes may be made concurrently.
var lowerArrays = sync.OnceFunc(func() { lua.MaxArrayIndex = maxArray })

const keepsNothing = "a tree's functions keep nothing between calls: write to the blackboard instead"

// Costs, in bytes, of what the interpreter allocates. An entry of a list is 16 bytes and lists grow by doubling. A
// list begins with room for 32 entries, and so does a hash.
const (
	entryBytes     = 32
	firstEntry     = 512
	HashBytes      = 128
	firstHashBytes = 2304
)

func (s *Sandbox) guardEnvironment() {
	for name, fn := range map[string]lua.LGFunction{
		guardConcat: s.concat,
		guardTable:  s.newTable,
		guardKey:    s.checkKey,
		guardFunc:   s.newFunction,
		guardSet:    s.setField,
		guardVararg: s.takeArguments,
	} {
		s.env.RawSetString(name, s.Root.NewFunction(fn))
	}
	meta := s.Root.CreateTable(0, 2)
	meta.RawSetString("__index", s.Globals)
	meta.RawSetString("__newindex", s.Root.NewFunction(s.setGlobal))
	s.env.Metatable = meta
}

func (s *Sandbox) concat(L *lua.LState) int {
	n := L.GetTop()
	parts := make([]string, n)
	size := 0
	for i := range parts {
		switch v := L.Get(i + 1).(type) {
		case lua.LString:
			parts[i] = string(v)
		case lua.LNumber:
			parts[i] = NumberString(v)
		default:
			s.Raise(L, "attempt to concatenate a %s value", v.Type())
		}
		size += len(parts[i])
	}
	s.fits(L, size)
	L.Push(lua.LString(strings.Join(parts, "")))
	return 1
}

// newTable counts a table that was just made, and adds the values of the last expression in its list. The
// interpreter would do that itself, but for any number of nils it would make room uncounted.
func (s *Sandbox) newTable(L *lua.LState) int {
	t := L.CheckTable(1)
	s.Allocate(L, L.CheckInt(2))
	base, n := L.CheckInt(3), L.GetTop()
	for n > 3 && L.Get(n) == lua.LNil {
		n--
	}
	if n > 3 {
		s.Spend(L, (n-3)/8)
		s.Allocate(L, (n-3)*entryBytes+firstEntry)
		for i := 4; i <= n; i++ {
			t.RawSetInt(base+i-3, L.Get(i))
		}
	}
	L.Push(t)
	return 1
}

// checkKey counts the nils that the interpreter will put before a key in a table constructor.
func (s *Sandbox) checkKey(L *lua.LState) int {
	if k, ok := L.Get(1).(lua.LNumber); ok && k > 16 && k < maxArray && IsWhole(k) {
		s.Spend(L, int(k)/8)
		s.Allocate(L, int(k)*entryBytes/2)
	}
	L.SetTop(1)
	return 1
}

func (s *Sandbox) newFunction(L *lua.LState) int {
	fn := L.CheckFunction(1)
	s.Allocate(L, 128+80*len(fn.Upvalues))
	L.SetTop(1)
	return 1
}

func (s *Sandbox) takeArguments(L *lua.LState) int {
	s.Spend(L, L.GetTop()/8)
	return 0
}

func (s *Sandbox) setGlobal(L *lua.LState) int {
	name := L.CheckString(2)
	if s.sealed {
		s.Raise(L, "global '%s' is assigned: %s", name, keepsNothing)
	}
	s.Allocate(L, HashBytes)
	s.Globals.RawSetString(name, L.Get(3))
	return 0
}

func (s *Sandbox) setField(L *lua.LState) int {
	key, value := L.Get(2), L.Get(3)
	t, ok := L.Get(1).(*lua.LTable)
	if !ok {
		if L.GetMetaField(L.Get(1), "__newindex") == lua.LNil {
			s.Raise(L, "attempt to index a %s value with key '%s'", L.Get(1).Type(), Shorten(key.String()))
		}
		L.SetTable(L.Get(1), key, value)
		return 0
	}
	// A table with such a function is made by Go code, and stands for something else.
	if t.Metatable != lua.LNil && t.RawGet(key) == lua.LNil && L.GetMetaField(t, "__newindex") != lua.LNil {
		L.SetTable(t, key, value)
		return 0
	}
	s.mayChange(L, t)
	s.set(L, t, key, value)
	return 0
}

// mayChange raises an error if the table existed when loading ended.
func (s *Sandbox) mayChange(L *lua.LState, t *lua.LTable) {
	if _, ok := s.frozen[t]; ok && s.sealed {
		s.Raise(L, "a table that exists between calls is changed: %s", keepsNothing)
	}
}

// set assigns to a field and counts what a new one takes. It keeps lists free of nils at their end, so that the
// interpreter, which looks for the end from behind, finds it at once.
func (s *Sandbox) set(L *lua.LState, t *lua.LTable, key, value lua.LValue) {
	if key == lua.LNil {
		s.Raise(L, "table index is nil")
	}
	k, number := key.(lua.LNumber)
	if number && math.IsNaN(float64(k)) {
		s.Raise(L, "table index is NaN")
	}
	old := t.RawGet(key)
	if !number || !IsWhole(k) || k < 1 || k >= maxArray {
		if old == lua.LNil && value != lua.LNil {
			s.allocateHash(L, t)
			if number && k == maxArray && t.Len() == maxArray-1 {
				s.Raise(L, "list of more than %d values", maxArray-1)
			}
		}
		t.RawSetH(key, value)
		return
	}
	at := int(k)
	if value != lua.LNil {
		n := t.Len()
		if more := at - n; more > 0 {
			s.Spend(L, more/8)
			s.Allocate(L, more*entryBytes)
		}
		if n == 0 {
			s.Allocate(L, firstEntry)
		}
		t.RawSetInt(at, value)
		return
	}
	if old == lua.LNil {
		return
	}
	last := t.Len() == at
	t.RawSetInt(at, lua.LNil)
	if last {
		Shorten := at - t.Len()
		s.Spend(L, Shorten/8)
		for range Shorten {
			t.Remove(-1)
		}
	}
}

// allocateHash counts a new key. It remembers, while a call lasts, to which tables the first was added: the
// interpreter does not tell whether a table has a hash part.
func (s *Sandbox) allocateHash(L *lua.LState, t *lua.LTable) {
	n := HashBytes
	if _, ok := s.hashed[t]; !ok {
		s.hashed[t] = struct{}{}
		n += firstHashBytes
	}
	s.Allocate(L, n)
}

// IsWhole reports whether a number has no fraction.
func IsWhole(n lua.LNumber) bool { return float64(n) == math.Trunc(float64(n)) }
