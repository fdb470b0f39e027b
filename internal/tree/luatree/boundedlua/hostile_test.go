package boundedlua

import (
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"

	lua "github.com/yuin/gopher-lua"
)

// hostile files. Each must end with an error that names file and line and contains want. If want is
// empty, the file may also run to its end.
var hostile = []struct{ name, source, want string }{
	// Time.
	{"endless while", `while true do end`, "instruction limit"},
	{"endless repeat", `repeat until false`, "instruction limit"},
	{"endless for", `for i = 1, math.huge do end`, "instruction limit"},
	{"for without step", `for i = 2, 1, 0 do end`, "instruction limit"},
	{"endless tail call", `local function f() return f() end; f()`, "instruction limit"},
	{"endless mutual tail calls",
		`local g; local function f() return g() end; g = function() return f() end; f()`,
		"instruction limit"},
	{"endless iterator", `for _ in function() return 1 end do end`, "instruction limit"},
	{"endless next", `local t = {a = 1}; while true do for k in pairs(t) do end end`,
		"instruction limit"},
	{"next from a key that is not there",
		`local t = {a = 1, b = 2}; local k = "z"; while true do k = next(t, k) or "z" end`,
		"instruction limit"},
	{"pcall in a loop", `local function f() error("x") end; while true do pcall(f) end`,
		"instruction limit"},
	{"pcall around endless loops", `while true do pcall(function() while true do end end) end`,
		"instruction limit"},
	{"pcall of pcall of a loop",
		`pcall(pcall, pcall, function() while true do end end); while true do end`,
		"instruction limit"},
	{"limit caught in callbacks",
		`while true do pcall(string.gsub, "x", "x", function() while true do end end) end`,
		"instruction limit"},
	{"limit caught in an order function",
		`while true do pcall(table.sort, {2, 1}, function() while true do end end) end`,
		"instruction limit"},
	{"backtracking pattern",
		`local s = ("a"):rep(30); s:find(("a?"):rep(30) .. ("a"):rep(30) .. "b")`, "limit"},
	{"backtracking stars", `(("a"):rep(1000)):match("a*a*a*a*a*b")`, "instruction limit"},
	{"backtracking minus", `(("a"):rep(1000)):match(".-.-.-.-.-b")`, "instruction limit"},
	{"quadratic find", `local s = ("a"):rep(200000); s:find("a*b")`, "instruction limit"},
	{"balanced pattern over and over", `local s = ("("):rep(200000); s:find("%b()")`,
		"instruction limit"},
	{"back reference over and over", `local s = ("a"):rep(100000); s:find("(.-)%1b")`,
		"instruction limit"},
	{"gsub on a large string over and over",
		`local s = ("a"):rep(100000); while true do s:gsub("a", "b") end`, "limit"},
	{"gmatch on a large string",
		`local s = ("a"):rep(100000); while true do for _ in s:gmatch("a*b") do end end`,
		"instruction limit"},
	{"set with many ranges",
		`local s, p = ("z"):rep(20000), "[" .. ("a-b"):rep(10000) .. "]"; s:find(p)`,
		"instruction limit"},
	{"find over and over", `local s = ("a"):rep(500000); while true do s:find("b", 1, true) end`,
		"limit"},
	{"compare large strings",
		`local a = ("x"):rep(100000) .. "a"; local b = ("x"):rep(100000) .. "b"; while a < b do end`, "limit"},
	{"sort over and over",
		`local t = {}; for i = 1, 2000 do t[i] = -i end; while true do table.sort(t) end`, "limit"},
	{"order function that contradicts itself",
		`local t = {}; for i = 1, 5000 do t[i] = i end; while true do table.sort(t, function() return true end) end`, "instruction limit"},
	{"insert in front", `local t = {}; while true do table.insert(t, 1, 0) end`, "limit"},
	{"remove in front", `local t = {}; for i = 1, 20000 do t[i] = i end; while true do table.remove(t, 1); t[#t + 1] = 1 end`, "limit"},
	{"next over a hole",
		`local t = {}; for i = 1, 30000 do t[i] = 1 end; for i = 2, 29999 do t[i] = nil end; while true do next(t, 1) end`, "instruction limit"},
	{"next over deleted keys",
		`local t = {}; for i = 1, 20000 do t["k" .. i] = 1 end; for i = 1, 19999 do t["k" .. i] = nil end; while true do next(t) end`, "limit"},
	{"length of a list that was emptied",
		`local t = {}; for i = 1, 50000 do t[i] = 1 end; for i = 50000, 1, -1 do t[i] = nil end; while true do local n = #t end`, "instruction limit"},
	{"tostring in a loop", `while true do tostring({}) end`, "instruction limit"},
	{"concat of a list over and over",
		`local t = {}; for i = 1, 10000 do t[i] = "x" end; while true do table.concat(t) end`,
		"limit"},
	{"maxn over and over",
		`local t = {}; for i = 1, 5000 do t["k" .. i] = 1 end; while true do table.maxn(t) end`,
		"instruction limit"},
	{"many arguments over and over",
		`local t = {}; local function f(...) return ... end; while true do f(f(f(unpack(t, 1, 7000)))) end`, "instruction limit"},

	// Memory.
	{"doubling string", `local s = "x"; while true do s = s .. s end`, "string larger"},
	{"doubling string in a field", `local t = {s = "x"}; while true do t.s = t.s .. t.s end`,
		"string larger"},
	{"keeping strings", `local t, s = {}, ("x"):rep(100000); for i = 1, 1e9 do t[i] = s .. i end`,
		"memory limit"},
	{"growing list", `local t = {}; for i = 1, 1e9 do t[i] = i end`, "limit"},
	{"growing list by insert", `local t = {}; while true do table.insert(t, 1) end`, "limit"},
	{"growing table", `local t = {}; for i = 1, 1e9 do t["k" .. i] = i end`, "limit"},
	{"growing and shrinking table",
		`local t = {}; for i = 1, 1e9 do t["k" .. i] = i; t["k" .. i] = nil end`, "limit"},
	{"many tables", `local t = {}; for i = 1, 1e9 do t = {t} end`, "memory limit"},
	{"many closures", `local t; for i = 1, 1e9 do local u = t; t = function() return u end end`,
		"memory limit"},
	{"many local functions",
		`local t; for i = 1, 1e9 do local u = t; local function f() return u end; t = f end`,
		"memory limit"},
	{"many methods", `local t = {}; for i = 1, 1e9 do local o = {}; function o:f() return t end; t = o end`, "instruction limit"},
	{"large index", `local t = {}; t[4000000] = 1`, "instruction limit"},
	{"large index in a constructor", `local k = 4000000; local t = {[k] = 1}`, "instruction limit"},
	{"constant large index in a constructor", `local t = {[4000000] = 1}`, "instruction limit"},
	{"large index of nil",
		`local t = {}; local k = 4000000; while true do t[k] = nil; t = {[k] = nil} end`,
		"instruction limit"},
	{"large index in multiple assignment", `local t = {}; local a; a, t[4000000] = 1, 2`,
		"instruction limit"},
	{"large position", `table.insert({}, 4000000, 1)`, "instruction limit"},
	{"large range to unpack", `local a = unpack({}, 1, 1e8)`, "too many results"},
	{"largest range to unpack", `local a = unpack({}, -1e308, 1e308)`, "too many results"},
	{"large range of bytes", `local s = ("x"):rep(1000000); s:byte(1, -1)`, "slice too long"},
	{"large repetition", `local s = ("x"):rep(1e9)`, "string larger"},
	{"largest repetition", `local s = ("xx"):rep(9007199254740991)`, "string larger"},
	{"large width", `string.format("%99999999d", 1)`, "width or precision too long"},
	{"large precision", `string.format("%.99999999f", 1)`, "width or precision too long"},
	{"many directives", `string.format(("%99d"):rep(20000), unpack({}, 1, 5000))`, ""},
	{"format of large strings", `local s = ("x"):rep(500000); string.format("%s%s%s", s, s, s)`,
		"string larger"},
	{"concat of large strings", `local s = ("x"):rep(500000); table.concat({s, s, s})`,
		"string larger"},
	{"large separator", `table.concat({1, 2, 3}, ("x"):rep(600000))`, "string larger"},
	{"growing gsub", `local s = ("x"):rep(10000); s:gsub("x", s)`, "string larger"},
	{"growing gsub by captures", `local s = ("x"):rep(10000); s:gsub("(x*)", ("%1"):rep(200))`,
		"string larger"},
	{"growing gsub by function", `local s = ("x"):rep(10000); s:gsub("x", function() return s end)`,
		"string larger"},
	{"keeping messages",
		`local s, t = ("x"):rep(1000000), {}; for i = 1, 1e9 do t[i] = select(2, pcall(function() local n; return n[s] end)) end`, "memory limit"},
	{"keeping raised strings",
		`local s, t = ("x"):rep(900000), {}; for i = 1, 1e9 do t[i] = select(2, pcall(error, s)) end`, "memory limit"},
	{"keeping arguments",
		`local t = {}; local function f(...) return arg end; for i = 1, 1e9 do t[i] = f(unpack({}, 1, 7000)) or {unpack({}, 1, 7000)} end`, "limit"},
	{"keeping results", `local t = {}; for i = 1, 1e9 do t[i] = {unpack({}, 1, 7999)} end`,
		"limit"},
	{"keeping iterators", `local t = {}; for i = 1, 1e9 do t[i] = ("x"):gmatch("x") end`,
		"memory limit"},
	{"many upper case strings",
		`local t, s = {}, ("x"):rep(100000); for i = 1, 1e9 do t[i] = s:upper(); t[-i] = s:reverse() end`, "memory limit"},

	// Depth.
	{"deep recursion", `local function f() return 1 + f() end; f()`, "stack overflow"},
	{"recursion with many values",
		`local function f(...) return 1, f(1, ...) end; f(unpack({}, 1, 7000))`, "overflow"},
	{"recursion through pcall", `local function f() pcall(f) while true do end end; f()`,
		"stack overflow"},
	{"recursion through pcall at the end", `local function f() return pcall(f) end; f()`,
		"stack overflow"},
	{"recursion through gsub", `local function f() return (("x"):gsub("x", f)) end; f()`,
		"stack overflow"},
	{"recursion through sort", `local function f() table.sort({1, 2, 3}, f) end; f()`,
		"stack overflow"},
	{"recursion through an iterator", `local function f() for _ in f do end end; f()`,
		"stack overflow"},
	{"recursion through gsub and pcall",
		`local function f() return pcall(string.gsub, "x", "x", f) end; f()`, "stack overflow"},
	{"pattern with many items", `(("a"):rep(5000)):find(("a?"):rep(5000))`, "pattern too complex"},
	{"pattern with many captures", `(("a"):rep(5000)):find(("(a)"):rep(50))`, "too many captures"},

	// Source.
	{"many parentheses", "x = " + strings.Repeat("(", 20000) + "1" + strings.Repeat(")", 20000),
		""},
	{"nested parentheses", "x = " + strings.Repeat("(", 3000) + strings.Repeat(")", 3000),
		"syntax error"},
	{"nested tables", "x = " + strings.Repeat("{", 5000) + strings.Repeat("}", 5000),
		"nested more than"},
	{"nested calls", "x = " + strings.Repeat("f(", 5000) + strings.Repeat(")", 5000),
		"nested more than"},
	{"nested indexes", "x = " + strings.Repeat("a[", 5000) + "1" + strings.Repeat("]", 5000),
		"nested more than"},
	{"nested functions", strings.Repeat("return function() ", 3000) + strings.Repeat("end ", 3000),
		"nested more than"},
	{"nested blocks", strings.Repeat("do ", 5000) + strings.Repeat("end ", 5000),
		"nested more than"},
	{"nested ifs", strings.Repeat("if x then ", 5000) + strings.Repeat("end ", 5000),
		"nested more than"},
	{"many else ifs", "local x if x then " + strings.Repeat("elseif x then ", 5000) + "end",
		"nested more than"},
	{"run of minus", "x = " + strings.Repeat("- ", 5000) + "1", "nested more than"},
	{"run of not", "x = " + strings.Repeat("not ", 5000) + "1", "nested more than"},
	{"run of #", "x = " + strings.Repeat("#", 5000) + "y", "nested more than"},
	{"sum of many", "x = 1" + strings.Repeat("+1", 5000), "nested more than"},
	{"power of many", "x = 1" + strings.Repeat("^1", 5000), "nested more than"},
	{"or of many", "x = y" + strings.Repeat(" or y", 5000), "nested more than"},
	{"path of many", "x = a" + strings.Repeat(".a", 5000), "nested more than"},
	{"calls of results", "f" + strings.Repeat("()", 5000), "nested more than"},
	{"concat of many nothings", "local a x = nil" + strings.Repeat("..a", 5000),
		"attempt to concatenate a nil value"},
	{"many tokens", strings.Repeat(";", 1<<20-100), ""},
	{"large file", strings.Repeat("-", 1<<20+1), "file larger"},
	{"many functions", strings.Repeat("f=function()end ", 30000), "more than 2000 functions"},
	{"many listed values", "x = {" + strings.Repeat("1,", 26000) + "}", "build it in a loop"},
	{"many locals", numbered("local a%d ", 300), "too many local variables"},
	{"many arguments", "f(" + strings.Repeat("1,", 300) + "1)", "register overflow"},
	{"many variables from outside", "local function f()\n" + numbered("local a%d ", 150) +
		"return function()\n" + numbered("local b%d ", 150) +
		"return function() return function() local t = {} " +
		numbered("t[1] = a%d ", 150) + numbered("t[1] = b%d ", 150) + " end end end end",
		"variables from outside"},
	{"bytes that are not source", "\x1bLua\x51\x00", "syntax error"},

	// Functions that are not available.
	{"load", `load(function() end)`, "load is not available"},
	{"loadstring", `loadstring("x = 1")()`, "loadstring is not available"},
	{"require", `require "os"`, "require is not available"},
	{"metatables", `setmetatable({}, {})`, "setmetatable is not available"},
	{"metatable of strings", `getmetatable("").__index = nil`, "getmetatable is not available"},
	{"environment", `setfenv(1, {})`, "setfenv is not available"},
	{"coroutines", `coroutine.wrap(function() while true do end end)()`,
		"coroutine is not available"},
	{"collector", `collectgarbage()`, "collectgarbage is not available"},
	{"xpcall", `xpcall(function() while true do end end, function() end)`,
		"xpcall is not available"},
	{"files", `io.open("/etc/passwd")`, "io is not available"},
	{"processes", `os.exit(1)`, "os is not available"},
	{"guards by name", `local f = ("\0set"); f()`, "attempt to call"},
}

func numbered(format string, n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, format, i)
	}
	return b.String()
}

// TestHostile runs each of them as a file and as a function of a file. It is not parallel, because
// it measures the heap.
func TestHostile(t *testing.T) {
	if len(hostile) < 60 {
		t.Fatalf("%d files", len(hostile))
	}
	for _, h := range hostile {
		t.Run(h.name, func(t *testing.T) {
			runtime.GC()
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			limits := Limits{Instructions: 100_000, Memory: 4 << 20, Time: 500 * time.Millisecond}
			if h.want == "memory limit" || strings.HasPrefix(h.name, "large") {
				limits.Instructions *= 10
				limits.Time = 20 * time.Second // on a busy machine too
			}
			if len(h.source) > 500 {
				limits = Limits{}
			}
			start := time.Now()
			checkStopped(t, limits, h.source, h.want, 2, func(s *Runtime) *Error {
				_, err := s.Load(t.Context(), "h.lua", "\n"+h.source, nil)
				return err
			})
			if !strings.Contains(h.want, "file") && !strings.Contains(h.want, "nested") {
				checkStopped(t, limits, h.source, h.want, 3, func(s *Runtime) *Error {
					return callHostile(t, s, h.source)
				})
			}
			runtime.ReadMemStats(&after)
			t.Logf("%v, %d MiB allocated in all, heap reserved %d MiB",
				time.Since(start).Round(time.Millisecond),
				(after.TotalAlloc-before.TotalAlloc)>>20, after.HeapSys>>20)
			// The size that the heap ever reserved shows its peak, even if the memory was freed
			// since.
			if grown := int64(after.HeapSys) - int64(before.HeapSys); grown > 256<<20 {
				t.Errorf("the heap grew by %d MiB", grown>>20)
			}
		})
	}
	stacks := make([]byte, 1<<20)
	stacks = stacks[:runtime.Stack(stacks, true)]
	for stack := range strings.SplitSeq(string(stacks), "\n\n") {
		if strings.Contains(stack, "gopher-lua") {
			t.Errorf("a goroutine is still running:\n%s", stack)
		}
	}
}

// callHostile runs the source in a function, after loading.
func callHostile(t *testing.T, s *Runtime, source string) *Error {
	fn, err := s.Load(t.Context(), "h.lua", "\nreturn function()\n"+source+"\nend", nil)
	if err != nil {
		return err
	}
	f := fn.(*lua.LFunction)
	if err := s.Freeze([]*lua.LFunction{f}); err != nil {
		return err
	}
	_, err = s.Call(t.Context(), f)
	return err
}

func checkStopped(t *testing.T, limits Limits, source, want string, line int,
	run func(*Runtime) *Error) {
	t.Helper()
	s := New(limits)
	defer s.Close()
	err := run(s)
	if err == nil {
		if want != "" {
			t.Fatal("not stopped")
		}
		return
	}
	if len(source) > 500 {
		line = 1 // the compiler reports the beginning of a function
	}
	if err.File != "h.lua" || err.Line < line || err.Line > line+strings.Count(source, "\n")+2 {
		t.Errorf("position %s:%d, want line %d: %s", err.File, err.Line, line, err.Msg)
	}
	// On a slow machine, the time limit may be reached first.
	slow := strings.HasSuffix(want, "limit") && strings.HasPrefix(err.Msg, "time limit")
	if !strings.Contains(err.Msg, want) && !slow {
		t.Errorf("got %q, want %q", err.Msg, want)
	}
	if v, err := s.Load(t.Context(), "h.lua", "return 2 + 3", nil); !s.sealed &&
		(err != nil || v.String() != "5") {
		t.Errorf("afterwards: %v, %v", v, err)
	}
}

// TestDeepestSource compiles source that is nested as deeply as allowed, which must not exhaust the
// Go stack.
func TestDeepestSource(t *testing.T) {
	const n = maxNesting / 2
	for _, source := range []string{
		"x = " + strings.Repeat("{", n/2-5) + strings.Repeat("}", n/2-5),
		"x = " + strings.Repeat("- ", n) + "1",
		"local y x = y" + strings.Repeat(" and y", n),
		"x = 1" + strings.Repeat("+1", n) + "",
		"f = function() return 1 end x = f" +
			strings.Repeat(" and (not f", n/2) + strings.Repeat(")", n/2),
		strings.Repeat("do ", n) + strings.Repeat("end ", n),
		"local x if x then " + strings.Repeat("elseif x then ", n/2) + "end",
		strings.Repeat("do local f = function() ", 99) + strings.Repeat("end end ", 99),
		"local t = {} " + strings.Repeat("t.x = t ", 20000),
		"local s = ''" + strings.Repeat(" .. 'a'", 20000),
	} {
		s := New(Limits{})
		if _, err := s.Load(t.Context(), "p.lua", source, nil); err != nil &&
			!strings.Contains(err.Msg, "register overflow") {
			t.Errorf("%.40q: %v", source, err)
		}
		s.Close()
	}
}

// FuzzSandbox loads any bytes as source and calls the function that they return. It must not panic,
// and must end.
func FuzzSandbox(f *testing.F) {
	for _, p := range innocent {
		f.Add(p.source)
	}
	for _, h := range hostile {
		if len(h.source) < 1000 {
			f.Add("return function() " + h.source + " end")
		}
	}
	f.Fuzz(func(t *testing.T, source string) {
		s := New(Limits{Instructions: 20_000, Memory: 4 << 20, StringSize: 1 << 16,
			Time: time.Second})
		defer s.Close()
		v, err := s.Load(t.Context(), "f.lua", source, nil)
		if err == nil {
			_, _ = s.FromLua(v)
			if fn, ok := v.(*lua.LFunction); ok {
				if err = s.Freeze([]*lua.LFunction{fn}); err == nil {
					_, err = s.Call(t.Context(), fn, s.ToLua(map[string]any{"a": []any{int64(1)}}))
				}
			}
		}
		if err == nil {
			return
		}
		if err.File != "f.lua" || err.Line < 1 || err.Msg == "" || strings.Contains(err.Msg, "\n") {
			t.Errorf("error %#v", err)
		}
		if strings.Contains(err.Msg, "failed: runtime error") && !strings.Contains(source, "arg") {
			t.Logf("the interpreter failed on %q: %v", source, err)
		}
	})
}
