package sandbox

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	lua "github.com/yuin/gopher-lua"
)

// removed are names that Lua programs use and that a tree must not: whatever reaches outside, reads the clock or
// chance, loads code, or changes what other code is.
var removed = []string{
	"_G", "collectgarbage", "coroutine", "debug", "dofile", "getfenv", "getmetatable", "io", "load", "loadfile",
	"loadstring", "module", "newproxy", "os", "package", "print", "rawequal", "rawget", "rawset", "require",
	"setfenv", "setmetatable", "xpcall",
	"string.dump", "string.gfind", "math.random", "math.randomseed",
	"table.foreach", "table.foreachi", "table.getn", "table.setn",
}

func (s *Sandbox) openLibraries() {
	L := s.Root
	L.Push(L.NewFunction(lua.OpenMath))
	L.Call(0, 0)
	mathLib := s.Globals.RawGetString("math").(*lua.LTable)
	mathLib.RawSetString("random", lua.LNil)
	mathLib.RawSetString("randomseed", lua.LNil)
	mathLib.RawSetString("huge", lua.LNumber(math.Inf(1)))
	// The registry holds the library too, for require, which there is none of.
	L.G.Registry = L.CreateTable(0, 0)

	s.Register(s.Globals, s.baseLibrary())
	s.Globals.RawSetString("ipairs", L.NewClosure(s.ipairs, L.NewFunction(s.ipairsNext)))
	s.Globals.RawSetString("pairs", L.NewClosure(s.pairs, s.Globals.RawGetString("next")))
	s.strings = L.CreateTable(0, 16)
	s.Register(s.strings, s.stringLibrary())
	s.Globals.RawSetString("string", s.strings)
	tables := L.CreateTable(0, 8)
	s.Register(tables, s.tableLibrary())
	s.Globals.RawSetString("table", tables)

	methods := L.CreateTable(0, 1)
	methods.RawSetString("__index", s.strings)
	L.SetMetatable(lua.LString(""), methods)

	s.explainMissing(s.Globals, "")
	s.explainMissing(s.strings, "string.")
	s.explainMissing(tables, "table.")
	s.explainMissing(mathLib, "math.")
}

// Register puts functions into a table.
func (s *Sandbox) Register(t *lua.LTable, fns map[string]lua.LGFunction) {
	for name, fn := range fns {
		t.RawSetString(name, s.Root.NewFunction(fn))
	}
}

// explainMissing makes the use of a removed name an error that says so. A global that was never assigned is an error
// too: a child of a node would otherwise go missing for a misspelled name.
func (s *Sandbox) explainMissing(t *lua.LTable, prefix string) {
	meta := s.Root.CreateTable(0, 1)
	meta.RawSetString("__index", s.Root.NewFunction(func(L *lua.LState) int {
		name, ok := L.Get(2).(lua.LString)
		switch {
		case ok && slices.Contains(removed, prefix+string(name)):
			s.Raise(L, "%s%s is not available in a tree", prefix, string(name))
		case ok && prefix == "":
			s.Raise(L, "there is no variable '%s': is its name misspelled?", Shorten(string(name)))
		}
		L.Push(lua.LNil)
		return 1
	}))
	t.Metatable = meta
}

func (s *Sandbox) baseLibrary() map[string]lua.LGFunction {
	return map[string]lua.LGFunction{
		"assert": s.assert, "error": s.error, "next": s.next, "pcall": s.pcall, "select": s.choose,
		"tonumber": s.tonumber, "tostring": s.tostring, "type": s.typeOf, "unpack": s.unpack,
	}
}

// maxCatching bounds pcall within pcall: each has a stack of its own.
const maxCatching = 50

// manyValues bounds what a Go function may return at once.
const manyValues = 8000

func (s *Sandbox) assert(L *lua.LState) int {
	if lua.LVAsBool(L.CheckAny(1)) {
		return L.GetTop()
	}
	switch msg := L.Get(2).(type) {
	case *lua.LNilType:
		s.Raise(L, "assertion failed!")
	case lua.LString:
		s.Raise(L, "%s", string(msg))
	default:
		L.Error(msg, 0)
	}
	return 0
}

func (s *Sandbox) error(L *lua.LState) int {
	level := min(s.integerOr(L, 2, 1), s.limits.Depth)
	msg, ok := L.Get(1).(lua.LString)
	if ok && level == 1 {
		s.Raise(L, "%s", string(msg))
	}
	if ok && level > 1 {
		if p, ok := positionAt(L, level); ok && p.File != "" {
			msg = lua.LString(p.String() + ": " + string(msg))
		}
		L.Error(msg, 0)
	}
	L.Error(L.Get(1), 0)
	return 0
}

// pcall runs a function in a state of its own. In the same one, an error would part the callers' variables from the
// closures that share them. A limit that was hit is not caught, nor is a failure of the interpreter.
func (s *Sandbox) pcall(L *lua.LState) int {
	fn, ok := L.CheckAny(1).(*lua.LFunction)
	if !ok {
		L.Push(lua.LFalse)
		L.Push(lua.LString("attempt to call a " + L.Get(1).Type().String() + " value"))
		return 2
	}
	s.Spend(L, 200)
	if len(s.outer) >= maxCatching || 2*len(s.outer)+2 >= s.limits.Depth {
		s.meter.end("stack overflow: pcall within pcall is limited to %d", min(maxCatching, s.limits.Depth/2))
		s.stopIfOver(L)
	}
	th := s.thread(s.limits.Depth - 2*len(s.outer))
	th.Push(fn)
	for i := 2; i <= L.GetTop(); i++ {
		th.Push(L.Get(i))
	}
	nargs := L.GetTop() - 1
	s.outer = append(s.outer, L)
	err := th.PCall(nargs, lua.MultRet, nil)
	s.outer = s.outer[:len(s.outer)-1]
	if err == nil {
		s.stopIfOver(L)
		L.Push(lua.LTrue)
		for i := 1; i <= th.GetTop(); i++ {
			L.Push(th.Get(i))
		}
		return 1 + th.GetTop()
	}
	api, ok := err.(*lua.ApiError)
	if !ok || api.Type == lua.ApiErrorPanic || s.meter.over != nil {
		if s.meter.over == nil {
			s.meter.end("the interpreter failed: %v", cause(err))
			s.stopIfOver(L)
		}
		panic(err)
	}
	L.Push(lua.LFalse)
	L.Push(s.caught(L, api.Object))
	return 2
}

// caught counts a message, which the interpreter may have made of a large string.
func (s *Sandbox) caught(L *lua.LState, v lua.LValue) lua.LValue {
	msg, ok := v.(lua.LString)
	if !ok {
		return v
	}
	if len(msg) > s.limits.StringSize {
		msg = msg[:s.limits.StringSize]
	}
	s.fits(L, len(msg))
	s.Allocate(L, 4*len(msg)) // it was copied to add the position, and to pass it on
	return lua.LString(strings.Clone(strings.TrimPrefix(string(msg), " ")))
}

func (s *Sandbox) next(L *lua.LState) int {
	t := L.CheckTable(1)
	k, v := s.following(L, t, L.Get(2))
	if k == lua.LNil {
		L.Push(lua.LNil)
		return 1
	}
	L.Push(k)
	L.Push(v)
	return 2
}

// following returns the entry after a key. The list part is gone through here, to count the holes in it. In the
// hash part the interpreter passes over deleted keys, of which the number is not known, so the clock is read.
func (s *Sandbox) following(L *lua.LState, t *lua.LTable, key lua.LValue) (lua.LValue, lua.LValue) {
	n := t.Len()
	at := -1
	switch k := key.(type) {
	case *lua.LNilType:
		at = 0
	case lua.LNumber:
		if IsWhole(k) && k >= 1 && k < maxArray {
			at = int(k)
		}
	}
	if at >= 0 {
		for i := at + 1; i <= n; i++ {
			if v := t.RawGetInt(i); v != lua.LNil {
				s.Spend(L, (i-at)/8)
				return lua.LNumber(i), v
			}
		}
		s.Spend(L, max(n-at, 0)/8)
		key = lua.LNil
	}
	k, v := HashNext(t, n, key)
	s.Look(L)
	return k, v
}

// HashNext goes on in the hash part of a table whose list has n entries; a nil key asks for the first.
func HashNext(t *lua.LTable, n int, key lua.LValue) (lua.LValue, lua.LValue) {
	if key == lua.LNil && n > 0 {
		key = lua.LNumber(n)
	}
	return t.Next(key)
}

func (s *Sandbox) pairs(L *lua.LState) int {
	t := L.CheckTable(1)
	L.Push(L.Get(lua.UpvalueIndex(1)))
	L.Push(t)
	L.Push(lua.LNil)
	return 3
}

func (s *Sandbox) ipairs(L *lua.LState) int {
	t := L.CheckTable(1)
	L.Push(L.Get(lua.UpvalueIndex(1)))
	L.Push(t)
	L.Push(lua.LNumber(0))
	return 3
}

func (s *Sandbox) ipairsNext(L *lua.LState) int {
	i := s.integer(L, 2) + 1
	v := L.CheckTable(1).RawGet(lua.LNumber(i))
	if v == lua.LNil {
		L.Push(lua.LNil)
		return 1
	}
	L.Push(lua.LNumber(i))
	L.Push(v)
	return 2
}

// choose is select, which is a word of Go.
func (s *Sandbox) choose(L *lua.LState) int {
	n := L.GetTop()
	s.Spend(L, n/8)
	if L.Get(1) == lua.LString("#") {
		L.Push(lua.LNumber(n - 1))
		return 1
	}
	i := s.integer(L, 1)
	if i < 0 {
		i = n + i
	}
	i = min(i, n)
	if i < 1 {
		L.ArgError(1, "index out of range")
	}
	return n - i
}

func (s *Sandbox) tonumber(L *lua.LState) int {
	base := 10
	if L.Get(2) != lua.LNil {
		base = s.integer(L, 2)
	}
	if base < 2 || base > 36 {
		L.ArgError(2, "base out of range")
	}
	v := L.CheckAny(1)
	if n, ok := v.(lua.LNumber); ok && base == 10 {
		L.Push(n)
		return 1
	}
	text, ok := v.(lua.LString)
	if base != 10 && !ok {
		text = lua.LString(L.CheckString(1))
	}
	s.Spend(L, len(text)/16)
	L.Push(parseNumber(string(text), base))
	return 1
}

// parseNumber reads a number as Lua does; nil if it is none.
func parseNumber(text string, base int) lua.LValue {
	text = strings.Trim(text, " \t\n\v\f\r")
	if strings.ContainsAny(text, "_nNpPtT") && base == 10 {
		return lua.LNil // inf, nan and the like, which Go would read
	}
	digits, negative := strings.CutPrefix(text, "-")
	if hex := strings.ToLower(digits[:min(2, len(digits))]); hex == "0x" && (base == 10 || base == 16) {
		digits, base = digits[2:], 16
	}
	if base == 10 {
		if f, err := strconv.ParseFloat(text, 64); err == nil || (text != "" && math.IsInf(f, 0)) {
			return lua.LNumber(f)
		}
		return lua.LNil
	}
	u, err := strconv.ParseUint(digits, base, 64)
	if err != nil {
		return lua.LNil
	}
	if negative {
		return -lua.LNumber(u)
	}
	return lua.LNumber(u)
}

func (s *Sandbox) tostring(L *lua.LState) int {
	L.Push(lua.LString(s.Text(L.CheckAny(1))))
	return 1
}

// Text shows a value. It shows no address, since that would differ from run to run.
func (s *Sandbox) Text(v lua.LValue) string {
	switch v := v.(type) {
	case lua.LNumber:
		return NumberString(v)
	case lua.LString, lua.LBool, *lua.LNilType:
		return v.String()
	}
	return v.Type().String()
}

// NumberString writes a number as Lua does, a whole one without a point.
func NumberString(n lua.LNumber) string {
	f := float64(n)
	switch {
	case math.IsNaN(f):
		return "nan"
	case math.IsInf(f, 1):
		return "inf"
	case math.IsInf(f, -1):
		return "-inf"
	case f == math.Trunc(f) && math.Abs(f) < 1e15:
		return strconv.FormatInt(int64(f), 10)
	}
	return fmt.Sprint(f)
}

func (s *Sandbox) typeOf(L *lua.LState) int {
	L.Push(lua.LString(L.CheckAny(1).Type().String()))
	return 1
}

func (s *Sandbox) unpack(L *lua.LState) int {
	t := L.CheckTable(1)
	first, last := 1, t.Len()
	if L.Get(2) != lua.LNil {
		first = s.integer(L, 2)
	}
	if L.Get(3) != lua.LNil {
		last = s.integer(L, 3)
	}
	if first > last {
		return 0
	}
	if last-first >= manyValues {
		s.Raise(L, "too many results to unpack")
	}
	s.Spend(L, (last-first)/8)
	for i := first; i <= last; i++ {
		L.Push(t.RawGet(lua.LNumber(i)))
	}
	return last - first + 1
}

// integer reads an argument as a whole number, cut to what a float64 holds exactly.
func (s *Sandbox) integer(L *lua.LState, n int) int {
	f := float64(L.CheckNumber(n))
	if math.IsNaN(f) {
		return 0
	}
	return int(math.Max(-maxExact, math.Min(maxExact, f)))
}

func (s *Sandbox) integerOr(L *lua.LState, n, otherwise int) int {
	if L.Get(n) == lua.LNil {
		return otherwise
	}
	return s.integer(L, n)
}

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
