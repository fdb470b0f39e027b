package boundedlua

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	lua "github.com/yuin/gopher-lua"
)

// removed lists the names of Lua 5.1 that a tree must not use, because they reach outside the
// runtime, depend on time or chance, load code, or change other code.
var removed = []string{
	"_G", "collectgarbage", "coroutine", "debug", "dofile", "getfenv", "getmetatable", "io", "load",
	"loadfile",
	"loadstring", "module", "newproxy", "os", "package", "print", "rawequal", "rawget", "rawset",
	"require",
	"setfenv", "setmetatable", "xpcall",
	"string.dump", "string.gfind", "math.random", "math.randomseed",
	"table.foreach", "table.foreachi", "table.getn", "table.setn",
}

// openLibraries opens the interpreter's own library where it is correct and its cost is bounded,
// and ours for the rest.
func (s *Runtime) openLibraries() {
	L := s.Root
	for _, open := range []lua.LGFunction{lua.OpenBase, lua.OpenString, lua.OpenMath} {
		L.Push(L.NewFunction(open))
		L.Call(0, 0)
	}
	original := L.G.Global
	s.Globals = L.CreateTable(0, 64)
	// the registry has every library too, for require
	L.G.Global, L.G.Registry = s.Globals, L.CreateTable(0, 0)

	s.copyFunctions(s.Globals, original, "ipairs", "next", "pairs", "select", "type")
	s.Register(s.Globals, map[string]lua.LGFunction{"assert": s.assert, "error": s.error,
		"pcall":    s.pcall,
		"tonumber": s.tonumber, "tostring": s.tostring, "unpack": s.unpack})

	mathLib := original.RawGetString("math").(*lua.LTable)
	mathLib.RawSetString("random", lua.LNil)
	mathLib.RawSetString("randomseed", lua.LNil)
	mathLib.RawSetString("huge", lua.LNumber(math.Inf(1)))

	s.strings = L.CreateTable(0, 16)
	s.copyFunctions(s.strings, original.RawGetString("string").(*lua.LTable), "len", "reverse",
		"sub")
	s.Register(s.strings, s.stringLibrary())
	methods := L.CreateTable(0, 1)
	methods.RawSetString("__index", s.strings)
	L.SetMetatable(lua.LString(""), methods)

	tables := L.CreateTable(0, 8)
	s.Register(tables, s.tableLibrary())

	s.explainMissing(s.Globals, "")
	for name, library := range map[string]*lua.LTable{"math": mathLib, "string": s.strings,
		"table": tables} {
		s.Globals.RawSetString(name, library)
		s.explainMissing(library, name+".")
	}
}

func (s *Runtime) copyFunctions(to, from *lua.LTable, names ...string) {
	for _, name := range names {
		to.RawSetString(name, from.RawGetString(name))
	}
}

// Register adds functions to a table.
func (s *Runtime) Register(t *lua.LTable, fns map[string]lua.LGFunction) {
	for name, fn := range fns {
		t.RawSetString(name, s.Root.NewFunction(fn))
	}
}

// explainMissing makes it an error to use a removed name. Reading a global that was never assigned
// is an error too: otherwise a misspelled name would silently remove a child from a node.
func (s *Runtime) explainMissing(t *lua.LTable, prefix string) {
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

// maxProtected is the number of nested pcalls. Each has its own stack.
const maxProtected = 50

// maxResults is the number of values that a library function may return.
const maxResults = 8000

func (s *Runtime) assert(L *lua.LState) int {
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

func (s *Runtime) error(L *lua.LState) int {
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

// pcall calls a function in a new state. In the same state, the interpreter would separate the
// callers' variables from the closures that share them when there is an error. Exceeded limits and
// failures of the interpreter are not caught.
func (s *Runtime) pcall(L *lua.LState) int {
	fn, ok := L.CheckAny(1).(*lua.LFunction)
	if !ok {
		L.Push(lua.LFalse)
		L.Push(lua.LString("attempt to call a " + L.Get(1).Type().String() + " value"))
		return 2
	}
	s.Spend(L, 200)
	if len(s.outer) >= maxProtected || 2*len(s.outer)+2 >= s.limits.Depth {
		s.meter.exceed("stack overflow: more than %d nested pcalls",
			min(maxProtected, s.limits.Depth/2))
		s.raiseIfExceeded(L)
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
		s.raiseIfExceeded(L)
		L.Push(lua.LTrue)
		for i := 1; i <= th.GetTop(); i++ {
			L.Push(th.Get(i))
		}
		return 1 + th.GetTop()
	}
	api, ok := err.(*lua.ApiError)
	if !ok || api.Type == lua.ApiErrorPanic || s.meter.exceeded != nil {
		if s.meter.exceeded == nil {
			s.meter.exceed("the interpreter failed: %v", cause(err))
			s.raiseIfExceeded(L)
		}
		panic(err)
	}
	L.Push(lua.LFalse)
	L.Push(s.errorValue(L, api.Object))
	return 2
}

// errorValue returns the value of a caught error. A message may contain a large string.
func (s *Runtime) errorValue(L *lua.LState, v lua.LValue) lua.LValue {
	msg, ok := v.(lua.LString)
	if !ok {
		return v
	}
	if len(msg) > s.limits.StringSize {
		msg = msg[:s.limits.StringSize]
	}
	s.checkString(L, len(msg))
	return lua.LString(strings.TrimPrefix(string(msg), " "))
}

func (s *Runtime) tonumber(L *lua.LState) int {
	base := s.integerOr(L, 2, 10)
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

// parseNumber parses a number as Lua 5.1 does. It returns LNil if the text is not a number.
func parseNumber(text string, base int) lua.LValue {
	text = strings.Trim(text, " \t\n\v\f\r")
	if strings.ContainsAny(text, "_nNpPtT") && base == 10 {
		return lua.LNil // such as inf, nan and 1_000, which Go accepts
	}
	digits, negative := strings.CutPrefix(text, "-")
	if hex := strings.ToLower(digits[:min(2, len(digits))]); hex == "0x" &&
		(base == 10 || base == 16) {
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

func (s *Runtime) tostring(L *lua.LState) int {
	L.Push(lua.LString(s.Text(L.CheckAny(1))))
	return 1
}

// Text formats a value. It omits addresses, because they differ from run to run.
func (s *Runtime) Text(v lua.LValue) string {
	switch v := v.(type) {
	case lua.LNumber:
		return NumberString(v)
	case lua.LString, lua.LBool, *lua.LNilType:
		return v.String()
	}
	return v.Type().String()
}

// NumberString formats a number as Lua does: a whole number has no decimal point.
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

func (s *Runtime) unpack(L *lua.LState) int {
	t := L.CheckTable(1)
	first, last := s.integerOr(L, 2, 1), s.integerOr(L, 3, t.Len())
	if first > last {
		return 0
	}
	if last-first >= maxResults {
		s.Raise(L, "too many results to unpack")
	}
	s.Spend(L, (last-first)/8)
	for i := first; i <= last; i++ {
		L.Push(t.RawGet(lua.LNumber(i)))
	}
	return last - first + 1
}

// integer returns argument n as an integer, limited to the range that a float64 represents exactly.
func (s *Runtime) integer(L *lua.LState, n int) int {
	f := float64(L.CheckNumber(n))
	if math.IsNaN(f) {
		return 0
	}
	return int(math.Max(-maxExact, math.Min(maxExact, f)))
}

func (s *Runtime) integerOr(L *lua.LState, n, otherwise int) int {
	if L.Get(n) == lua.LNil {
		return otherwise
	}
	return s.integer(L, n)
}
