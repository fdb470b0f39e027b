package boundedlua

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	lua "github.com/yuin/gopher-lua"

	"signalbox/internal/testkit/must"
)

// innocent programs return a string. Here, want is the result, as in Lua 5.1.
var innocent = []struct{ name, source, want string }{
	{"concat with a number", `return table.concat({"a", "b"}, 0)`, "a0b"},
	{"swap", `local a, b = 1, 2; a, b = b, a; return a .. "," .. b`, "2,1"},
	{"assignment evaluates targets first",
		`local i, a = 1, {}; i, a[i] = i + 1, 20; return i .. "," .. a[1]`, "2,20"},
	{"assignment from the right", `local t = {}; t.x, t.x = 1, 2; return t.x .. ""`, "1"},
	{"assignment to object and its field",
		`local t = {}; local u = t; t, t.x = 5, 6; return t .. "," .. u.x`, "5,6"},
	{"assignment of too few",
		`local t = {}; t.a, t.b, t.c = 1; return tostring(t.a) .. tostring(t.b) .. tostring(t.c)`,
		"1nilnil"},
	{"assignment of results",
		`local function f() return 1, 2, 3 end; local t = {}; t.a, t.b, t[3] = 0, f(); return t.a .. t.b .. t[3]`, "012"},
	{"assignment of too many",
		`local a; local function f() return 7, 8 end; a = f(), 9; return a .. ""`, "7"},
	{"parameter keeps its own arguments",
		`local function f(s) local t = "x"; s = s .. t .. "y"; return s .. t end; return f("a")`,
		"axyx"},
	{"parameter from a cut call", `local function g(a, b) return a .. b end
local function f(s) local t = "x"; s = (g("1", t)); return s .. t end; return f("a")`, "1xx"},
	{"global", `x = 1; x = x + 1; return x .. ""`, "2"},
	{"closure counter", `local function c() local n = 0; return function() n = n + 1; return n end end
local a, b = c(), c(); a(); a(); return a() .. "," .. b()`, "3,1"},
	{"closures in a loop",
		`local f = {}; for i = 1, 3 do f[i] = function() return i end end; return f[1]() .. f[2]() .. f[3]()`, "123"},
	{"recursion", `local function fact(n) if n < 2 then return 1 end; return n * fact(n - 1) end; return fact(10) .. ""`, "3628800"},
	{"tail calls", `local function loop(n) if n == 0 then return "done" end; return loop(n - 1) end; return loop(10000)`, "done"},
	{"varargs", `local function f(...) local a, b = ...; return select("#", ...) .. a .. b end; return f("x", "y", nil)`, "3xy"},
	{"varargs in a table",
		`local function f(...) return {0, ...} end; local t = f(1, 2, 3); return #t .. t[4]`, "43"},
	{"varargs not used", `local function f(a, ...) return a end; return f("a", 1, 2)`, "a"},
	{"select", `return table.concat({select(2, "a", "b", "c")}, ",") .. select(-1, "x", "y")`,
		"b,cy"},
	{"methods", `local o = {n = 2}; function o:add(k) self.n = self.n + k; return self end; return o:add(3):add(4).n .. ""`, "9"},
	{"nested field functions", `local a = {b = {}}; function a.b.c(x) return x .. "!" end; function a.b:d() return self == a.b end
return a.b.c("hi") .. tostring(a.b:d())`, "hi!true"},
	{"table constructor", `local k = "z"; local t = {1, 2; x = 3, [k] = 4, [10] = 5, [2.5] = 6, [true] = 7, 8}
return #t .. t[3] .. t.x .. t.z .. t[2.5] .. t[true]`, "1083467"},
	{"numeric for", `local s = ""; for i = 10, 1, -3 do s = s .. i .. " " end; for i = 1, 0 do s = "no" end; return s`, "10 7 4 1 "},
	{"generic for", `local s = 0; for i, v in ipairs({1, 2, 3, nil, 5}) do s = s + i * v end; return s .. ""`, "14"},
	{"pairs", `local n, s = 0, 0; for k, v in pairs({1, 2, a = 3, b = 4}) do n = n + 1; s = s + v end; return n .. "," .. s`, "4,10"},
	{"pairs with holes",
		`local t = {1, 2, 3, 4}; t[2] = nil; local s = ""; for k, v in pairs(t) do s = s .. k end; return s`, "134"},
	{"pairs while clearing",
		`local t = {1, 2, a = 3, b = 4}; for k in pairs(t) do t[k] = nil end; return tostring(next(t))`, "nil"},
	{"own iterator", `local function iter(s, i) if i < s then return i + 1, i * i end end
local r = ""; for i, q in iter, 4, 0 do r = r .. q .. " " end; return r`, "0 1 4 9 "},
	{"while and break", `local i = 0; while true do i = i + 1; if i > 5 then break end end; return i .. ""`, "6"},
	{"repeat sees its locals",
		`local i = 0; repeat local done = i == 3; i = i + 1 until done; return i .. ""`, "4"},
	{"logic", `return tostring(nil and 1) .. tostring(false or "x") .. tostring(1 and 2) .. tostring(not nil)`, "nilx2true"},
	{"logic with concat into a parameter",
		`local function f(a, b) b = a and (b .. a) or b; return b end; return f("x", "y") .. f(nil, "z")`, "yxz"},
	{"comparison", `return tostring("a" < "b") .. tostring(2 <= 1) .. tostring("1" == 1) .. tostring({} == {})`, "truefalsefalsefalse"},
	{"arithmetic", `return 7 % 3 .. "," .. -7 % 3 .. "," .. 2 ^ 10 .. "," .. 7 / 2 .. "," .. "10" + 5 .. "," .. -2 ^ 2`, "1,2,1024,3.5,15,-4"},
	{"long concat", `local a = "x"; return a .. 1 .. a .. 2 .. a .. 3 .. a .. 4 .. a .. 5 .. a .. 6 .. a .. 7 .. a .. 8 .. a .. 9 .. a .. 10 .. a`,
		"x1x2x3x4x5x6x7x8x9x10x"},
	{"length", `local t = {1, 2, 3}; t[#t] = nil; t[#t + 1] = 9; t[#t + 1] = 8; return #t .. #"abc"`, "43"},
	{"string methods", `return ("x"):rep(3) .. ("abc"):upper() .. ("ABC"):lower() .. ("abc"):reverse() .. ("abc"):len() .. ("hello"):sub(2, -2)`,
		"xxxABCabccba3ell"},
	{"sub", `local s = "hello"; return s:sub(-3) .. "," .. s:sub(2, 2) .. "," .. s:sub(4, 2) .. "," .. s:sub(0) .. "," .. s:sub(-100, 2)`, "llo,e,,hello,he"},
	{"byte and char", `local a, b, c = ("abc"):byte(1, -1); return string.char(c, b, a) .. ("a"):byte() .. select("#", (""):byte())`, "cba970"},
	{"format", `return string.format("%d %5d|%-5d|%05d %s %q %x %X %o %c %%", 42, 42, 42, 42, "s", 'a"b', 255, 255, 8, 65)`,
		`42    42|42   |00042 s "a\"b" ff FF 10 A %`},
	{"format floats", `return string.format("%.2f %8.3f %e %g %g %g", 1/3, 2.5, 12345.678, 100000, 1e20, 0.1)`,
		"0.33    2.500 1.234568e+04 100000 1e+20 0.1"},
	{"format strings", `return string.format("[%5s][%-5s][%.2s]", "ab", "ab", "abc")`,
		"[   ab][ab   ][ab]"},
	{"find", `local a, b, c = ("hello world"):find("(o) w"); return a .. b .. c .. ("a.b"):find(".", 1, true) .. tostring(("abc"):find("x"))`, "57o2nil"},
	{"match", `local k, v = ("key = value"):match("^(%w+)%s*=%s*(%w+)$"); return k .. v`,
		"keyvalue"},
	{"match returns whole", `return ("2026-10-17"):match("%d+") .. tostring(("x"):match("%d"))`,
		"2026nil"},
	{"gsub", `local s, n = ("hello"):gsub("l", "L"); return s .. n .. (("abc"):gsub("%w", "%0%0")) .. (("abc"):gsub("", "-"))`, "heLLo2aabbcc-a-b-c-"},
	{"gsub with function and table",
		`return (("$a $b $c"):gsub("%$(%w)", {a = "1", b = 2})) .. (("abc"):gsub(".", function(c) if c == "b" then return "[b]" end end))`,
		"1 2 $ca[b]c"},
	{"gsub limit and anchor", `return (("aaa"):gsub("a", "b", 2)) .. (("aaa"):gsub("^a", "b"))`,
		"bbabaa"},
	{"gmatch", `local s = ""; for k, v in ("a=1, b=2"):gmatch("(%w+)=(%w+)") do s = s .. k .. v end; for w in ("one two"):gmatch("%a+") do s = s .. w end; return s`,
		"a1b2onetwo"},
	{"balanced", `return ("f(a(b)c) d"):match("%b()") .. (("THE (quick) fox"):find("%((%a+)%)"))`,
		"(a(b)c)5"},
	{"sort", `local t = {5, 2, 8, 1}; table.sort(t); local s = table.concat(t, " "); table.sort(t, function(a, b) return a > b end); return s .. "|" .. table.concat(t, " ")`,
		"1 2 5 8|8 5 2 1"},
	{"sort strings", `local t = {"b", "a", "C"}; table.sort(t); return table.concat(t)`, "Cab"},
	{"insert and remove", `local t = {1, 2, 3}; table.insert(t, 4); table.insert(t, 1, 0); local r = table.remove(t, 2); local e = table.remove(t)
return table.concat(t, ",") .. "|" .. r .. e .. tostring(table.remove({}))`, "0,2,3|14nil"},
	{"unpack", `local a, b, c = unpack({1, 2, 3}); return a + b + c .. "," .. select("#", unpack({}, 1, 3))`, "6,3"},
	{"concat with range", `return table.concat({1, 2, 3, 4}, "-", 2, 3) .. table.concat({})`,
		"2-3"},
	{"maxn", `return table.maxn({1, 2, [10] = 3}) .. ""`, "10"},
	{"tonumber", `return tonumber("10") + tonumber("0x10") + tonumber("ff", 16) + tonumber("1.5") .. tostring(tonumber("x")) .. tostring(tonumber(""))`, "282.5nilnil"},
	{"tostring", `return tostring(1) .. tostring(1.5) .. tostring(true) .. tostring(nil) .. tostring("s") .. type(type)`, "11.5truenilsfunction"},
	{"math", `return math.floor(2.7) .. math.ceil(2.1) .. math.max(1, 5, 3) .. math.min(4, 2) .. math.abs(-3) .. math.sqrt(16) .. math.fmod(7, 3)`, "2352341"},
	{"pcall catches", `local ok, e = pcall(function() error({code = 7}) end); return tostring(ok) .. e.code`, "false7"},
	{"pcall passes results",
		`return table.concat({select(2, pcall(function(...) return ... end, 1, 2, 3))}, ",")`,
		"1,2,3"},
	{"pcall message has a position",
		`local ok, e = pcall(function() error("boom") end); return (e:gsub("^.-:%d+: ", ""))`,
		"boom"},
	{"error without position", `local ok, e = pcall(error, "boom", 0); return e`, "boom"},
	{"pcall of an operation",
		`local ok = pcall(function() local x = nil; return x.y end); return tostring(ok)`, "false"},
	{"pcall of nothing callable", `local ok, e = pcall(5); return tostring(ok) .. e`,
		"falseattempt to call a number value"},
	{"error from a callback",
		`local ok, e = pcall(string.gsub, "x", "x", function() error("no", 0) end); return e`,
		"no"},
	{"comments and strings",
		"--[[ a\nb ]] local s = [==[\nx]]y]==] -- z\nreturn s .. '\\65\\t' .. \"\\\"\"",
		"x]]yA\t\""},
	{"boolean keys", `local t = {}; t[true], t[false] = "t", "f"; return t[1 == 1] .. t[1 == 2]`,
		"tf"},
	{"sparse keys", `local t = {}; t[20261017] = "date"; t[-1] = "m"; t[0] = "z"; t[1.5] = "f"; return t[20261017] .. t[-1] .. t[0] .. t[1.5]`, "datemzf"},
}

// plainDiffers lists the programs that gopher-lua itself runs wrongly.
var plainDiffers = map[string]bool{
	"concat with a number":               true,
	"swap":                               true,
	"assignment to object and its field": true,
	"parameter from a cut call":          true,
	"match returns whole":                true,
}

func TestInnocentPrograms(t *testing.T) {
	for _, p := range innocent {
		t.Run(p.name, func(t *testing.T) {
			s := New(Limits{Time: time.Hour})
			defer s.Close()
			v, err := s.Load(t.Context(), "p.lua", p.source, nil)
			if err != nil {
				t.Fatal(err)
			}
			if v.String() != p.want {
				t.Errorf("got %q, want %q", v, p.want)
			}
		})
	}
}

// TestSameAsPlain runs the same programs in gopher-lua without limits.
func TestSameAsPlain(t *testing.T) {
	for _, p := range innocent {
		if plainDiffers[p.name] {
			continue
		}
		t.Run(p.name, func(t *testing.T) {
			L := lua.NewState()
			defer L.Close()
			must.Succeed(t, L.DoString(p.source))
			if got := L.Get(-1).String(); got != p.want {
				t.Errorf("plain gives %q, want %q", got, p.want)
			}
		})
	}
}

func TestPcallKeepsSharedVariables(t *testing.T) {
	got := mustLoad(t, New(Limits{Time: time.Hour}), `
local n = 0
local function inc() n = n + 1 end
inc(); pcall(error, "x"); inc(); n = n + 10; inc()
return n .. ""`)
	if got.String() != "13" {
		t.Errorf("got %v, want 13", got)
	}
}

func mustLoad(t testing.TB, s *Runtime, source string) lua.LValue {
	t.Helper()
	v, err := s.Load(context.Background(), "p.lua", source, nil)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

func loadError(t testing.TB, s *Runtime, source string) *Error {
	t.Helper()
	v, err := s.Load(context.Background(), "p.lua", source, nil)
	if err == nil {
		t.Fatalf("no error, but %v", v)
	}
	return err
}

func TestErrors(t *testing.T) {
	for _, tc := range []struct{ source, want string }{
		{"\nlocal x = os.time()", "p.lua:2: os is not available in a tree"},
		{"\n\nprint('x')", "p.lua:3: print is not available in a tree"},
		{"local x = math.random()", "p.lua:1: math.random is not available in a tree"},
		{"local x = string.dump", "p.lua:1: string.dump is not available in a tree"},
		{"local x = _G", "p.lua:1: _G is not available in a tree"},
		{"error('boom')", "p.lua:1: boom"},
		{"pcall(pcall, function()\n while true do end\nend)",
			"p.lua:2: instruction limit of 5000000 reached"},
		{"error('boom', 0)", "p.lua:1: boom"},
		{"\nerror({})", "p.lua:2: error raised with a table instead of a message"},
		{"\nerror()", "p.lua:2: error raised with a nil instead of a message"},
		{"\nerror(12)", "p.lua:2: 12"},
		{"\nassert(false, 'no')", "p.lua:2: no"},
		{"assert(nil)", "p.lua:1: assertion failed!"},
		{"local function f()\nerror('deep', 2)\nend\nf()", "p.lua:4: deep"},
		{"error('a\\nb\\0c\\27d')", `p.lua:1: a\nb\x00c\x1bd`},
		{"local t = {}\nt.x.y = 1", "p.lua:2: attempt to index a nil value with key 'y'"},
		{"local s = 'a'\n.. 'b'\n.. {}", "p.lua:1: attempt to concatenate a table value"},
		{"local t = {}\nt[nil] = 1", "p.lua:2: table index is nil"},
		{"local t = {}\nt[0/0] = 1", "p.lua:2: table index is NaN"},
		{"x = = 1", "p.lua:1: syntax error near '=' (column 5): syntax error"},
		{"x = {\n  f(1)\n  good(2),\n}",
			"p.lua:3: syntax error near 'good' (column 3): is a comma or bracket missing before it?"},
		{"x = f(1\n\n-- why\ny = 1",
			"p.lua:4: syntax error near 'y' (column 1): is a comma or bracket missing before it?"},
		{"x = {\n  1 200 }", "p.lua:2: syntax error near '200' (column 5): syntax error"},
		{")", "p.lua:1: syntax error near ')' (column 1): syntax error"},
		{"\nif x then\n", "p.lua:2: syntax error at the end of the file: syntax error"},
		{"x = 'abc\n", "p.lua:2: syntax error near 'abc' (column 0): unterminated string"},
		{"\nbreak", "p.lua:2: no loop to break"},
		{"\n::a:: goto a", "p.lua:2: goto is not available in a tree"},
		{"local x = ('x'):rep(1, 2).y.z",
			"p.lua:1: attempt to index a non-table object(nil) with key 'z'"},
		{"local t = {}\nt.sort(1)", "p.lua:2: attempt to call a non-function object"},
		{"\npcall(string.rep)\nstring.rep()",
			"p.lua:3: bad argument #1 to rep (string expected, got nil)"},
		{"\nlocal ok, e = pcall(string.gmatch, 'x', '[')\nfor _ in ('x'):gmatch('[') do end",
			"p.lua:3: malformed pattern (missing ']')"},
		{"local s = ('x'):match('(')", "p.lua:1: unfinished capture"},
		{"local s = ('x'):gsub('x', '%2')", "p.lua:1: invalid capture index"},
		{"local s = ('x'):gsub('x', function() return {} end)",
			"p.lua:1: invalid replacement value (a table)"},
	} {
		s := New(Limits{Time: time.Hour})
		if got := loadError(t, s, tc.source).Error(); got != tc.want {
			t.Errorf("%q:\n got %s\nwant %s", tc.source, got, tc.want)
		}
		s.Close()
	}
}

func TestMessageIsShortened(t *testing.T) {
	err := loadError(t, New(Limits{Time: time.Hour}), `error(("é\n"):rep(1000))`)
	if n := len([]rune(err.Msg)); n > maxMessage || n < maxMessage-5 {
		t.Errorf("the message has %d characters", n)
	}
	if strings.ContainsAny(err.Msg, "\n") {
		t.Error("the message has several lines")
	}
}

func TestErrorWithoutLine(t *testing.T) {
	if got := (&Error{File: "f", Msg: "m"}).Error(); got != "f: m" {
		t.Error(got)
	}
}

func TestPositionOfGoFunctions(t *testing.T) {
	s := New(Limits{Time: time.Hour})
	defer s.Close()
	var at []string
	mark := s.Root.NewFunction(func(L *lua.LState) int {
		at = append(at, s.Where(L).String())
		return 0
	})
	refuse := s.Root.NewFunction(func(L *lua.LState) int {
		s.Raise(L, "no %s", "100%")
		return 0
	})
	_, err := s.Load(t.Context(), "dir/my tree.lua",
		"mark()\nlocal function f()\n  return mark()\nend\nf()\npcall(mark)\n\nrefuse()",
		map[string]lua.LValue{"mark": mark, "refuse": refuse})
	if want := (&Error{File: "dir/my tree.lua", Line: 8, Msg: "no 100%"}); !cmp.Equal(err, want) {
		t.Errorf("got %v, want %v", err, want)
	}
	if want := []string{"dir/my tree.lua:1", "dir/my tree.lua:3", "dir/my tree.lua:6"}; !cmp.Equal(
		at, want) {
		t.Errorf("got %v, want %v", at, want)
	}
}

// frozen loads a file that returns a function, freezes the runtime with that function as root, and
// returns it.
func frozen(t testing.TB, s *Runtime, source string) *lua.LFunction {
	t.Helper()
	fn, ok := mustLoad(t, s, source).(*lua.LFunction)
	if !ok {
		t.Fatal("the result is not a function")
	}
	if err := s.Freeze([]*lua.LFunction{fn}); err != nil {
		t.Fatal(err)
	}
	return fn
}

func TestNothingIsKeptBetweenCalls(t *testing.T) {
	for _, tc := range []struct{ name, source, want string }{
		{"global", "return function() n = 1 end", "p.lua:1: global 'n' is assigned: " +
			keepsNothing},
		{"global function", "return function() function f() end end",
			"p.lua:1: global 'f' is assigned: " + keepsNothing},
		{"upvalue table", "local t = {}\nreturn function()\nt.n = 1 end",
			"p.lua:3: a table that exists between calls is changed: " + keepsNothing},
		{"nested table", "local t = {a = {{}}}\nreturn function() t.a[1].n = 1 end",
			"p.lua:2: a table that exists between calls is changed: " + keepsNothing},
		{"table in multiple assignment",
			"local t = {}\nreturn function() local x; x, t[1] = 1, 2 end",
			"p.lua:2: a table that exists between calls is changed: " + keepsNothing},
		{"global table", "t = {}\nreturn function() t.n = 1 end",
			"p.lua:2: a table that exists between calls is changed: " + keepsNothing},
		{"table as key", "local t = {}; local u = {[t] = 1}\nreturn function() next(u).x = 1 end",
			"p.lua:2: a table that exists between calls is changed: " + keepsNothing},
		{"table behind a function",
			"local function f() end; do local t = {}; f = function() return t end end\nreturn function() f().n = 1 end", "p.lua:2: a table that exists between calls is changed: " + keepsNothing},
		{"insert", "local t = {}\nreturn function() table.insert(t, 1) end",
			"p.lua:2: a table that exists between calls is changed: " + keepsNothing},
		{"remove", "local t = {1}\nreturn function() table.remove(t) end",
			"p.lua:2: a table that exists between calls is changed: " + keepsNothing},
		{"sort", "local t = {2, 1}\nreturn function() table.sort(t) end",
			"p.lua:2: a table that exists between calls is changed: " + keepsNothing},
		{"method definition", "local t = {}\nreturn function() function t:m() end end",
			"p.lua:2: a table that exists between calls is changed: " + keepsNothing},
		{"library", "return function() string.x = 1 end",
			"p.lua:1: a table that exists between calls is changed: " + keepsNothing},
		{"hidden library", "local s = string; string = nil\nreturn function() s.x = 1 end",
			"p.lua:2: a table that exists between calls is changed: " + keepsNothing},
		{"iterator", "local it = ('abc'):gmatch('.')\nreturn function() return it() end",
			"p.lua:2: an iterator that was created while loading is used in a call: " +
				keepsNothing},
		{"caught is still refused",
			"local t = {}\nreturn function() pcall(function() t.n = 1 end); return error(tostring(t.n)) end", "p.lua:2: nil"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s := New(Limits{Time: time.Hour})
			defer s.Close()
			fn := frozen(t, s, tc.source)
			_, err := s.Call(t.Context(), fn)
			if err == nil || err.Error() != tc.want {
				t.Errorf("got  %v\nwant %s", err, tc.want)
			}
		})
	}
}

func TestFreezeRefusesAssignedVariables(t *testing.T) {
	for _, tc := range []struct {
		name, source string
		line         int
		variable     string
	}{
		{"directly", "local n = 0\nreturn function()\n n = n + 1 end", 3, "n"},
		{"in a function within",
			"local n = 0\nreturn function()\n local f = function()\n n = 1 end; f() end", 4, "n"},
		{"two levels down", "local a, n\nreturn function(x)\n return function() return function() x = 2\n n = 1 end end end", 4, "n"},
		{"in a helper", "local n = 0\nlocal function h() n = 1 end\nreturn function() h() end", 2,
			"n"},
		{"in a table of helpers",
			"local n = 0\nlocal h = {a = {function() n = 1 end}}\nreturn function() h.a[1]() end",
			2, "n"},
		{"in a global helper",
			"local n = 0\nfunction h() n = 1 end\nreturn function() return function() h() end end",
			2, "n"},
		{"in one variable of several",
			"local a, b, n = 1, 2, 3\nreturn function() local c = a + b\n a, n = c, 1 end", 3, ""},
		{"in a method of strings",
			"local n = 0\nfunction string.count() n = n + 1 end\nreturn function() return (''):count() end", 2, "n"},
		{"as a function", "local f\nreturn function()\n function f() end end", 3, "f"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s := New(Limits{Time: time.Hour})
			defer s.Close()
			fn := mustLoad(t, s, tc.source).(*lua.LFunction)
			err := s.Freeze([]*lua.LFunction{fn})
			if err == nil {
				t.Fatal("no error")
			}
			if err.Line != tc.line || !strings.Contains(err.Msg, "'"+tc.variable) ||
				!strings.HasSuffix(err.Msg, keepsNothing) {
				t.Errorf("got %v, want line %d and '%s'", err, tc.line, tc.variable)
			}
		})
	}
}

func TestFreezeAllowsLocalState(t *testing.T) {
	s := New(Limits{Time: time.Hour})
	defer s.Close()
	fn := frozen(t, s, `
local loads = 0
local function atLoad() loads = loads + 1 end  -- not called later
function alsoAtLoad() loads = loads + 1 end
atLoad(); alsoAtLoad()
string.trim = function(s) return (s:gsub("^%s+", "")) end
local names = {"a", "b"}
return function(t)
  local n = 0
  local function inc() n = n + 1; return function() n = n + 1 end end
  inc()()
  local own = {1}
  own.x, own[2] = names[1], {n}
  table.insert(own, 3); table.sort(own[2]); t.seen = true
  for w in ("a b"):gmatch("%a") do n = n + 1 end
  return n .. #own .. own.x .. tostring(t.seen) .. ("  q"):trim()
end`)
	for range 2 {
		got, err := s.Call(t.Context(), fn, s.ToLua(map[string]any{}))
		if err != nil {
			t.Fatal(err)
		}
		if got.String() != "43atrueq" {
			t.Errorf("got %v", got)
		}
	}
}

func TestLoadAfterFreeze(t *testing.T) {
	s := New(Limits{Time: time.Hour})
	frozen(t, s, "return function() end")
	if err := loadError(t, s, "return 1"); err.Msg != "the runtime is frozen: create a new one" {
		t.Error(err)
	}
}

func TestContextStopsCall(t *testing.T) {
	s := New(Limits{Instructions: 1 << 60, Time: time.Hour})
	defer s.Close()
	ctx, cancel := context.WithCancel(t.Context())
	stop := s.Root.NewFunction(func(*lua.LState) int { cancel(); return 0 })
	_, err := s.Load(ctx, "p.lua", "stop()\nwhile true do end", map[string]lua.LValue{"stop": stop})
	if want := (&Error{"p.lua", 2, "stopped: context canceled"}); !cmp.Equal(err, want) {
		t.Errorf("got %v, want %v", err, want)
	}
	if _, err := s.Load(ctx, "p.lua", "return 1", nil); err == nil ||
		err.Msg != "stopped: context canceled" {
		t.Errorf("it ran although the context is done: %v", err)
	}
}

func TestTimeLimit(t *testing.T) {
	s := New(Limits{Instructions: 1 << 60, Time: time.Nanosecond})
	defer s.Close()
	if err := loadError(t, s,
		"local i = 0 while true do i = i + 1 end"); err.Msg != "time limit of 1ns reached" ||
		err.Line != 1 {
		t.Error(err)
	}
}

func TestHashBang(t *testing.T) {
	s := New(Limits{Time: time.Hour})
	defer s.Close()
	if err := loadError(t, s, "#!/usr/bin/env lua\nerror('x')"); err.Error() != "p.lua:2: x" {
		t.Error(err)
	}
}

func TestNestedCall(t *testing.T) {
	s := New(Limits{Time: time.Hour})
	defer s.Close()
	var inner *Error
	again := s.Root.NewFunction(func(L *lua.LState) int {
		_, inner = s.Call(t.Context(), L.CheckFunction(1))
		return 0
	})
	if _, err := s.Load(t.Context(), "p.lua", "again(function() end)",
		map[string]lua.LValue{"again": again}); err != nil {
		t.Fatal(err)
	}
	if inner == nil || inner.Line != 1 {
		t.Errorf("got %v", inner)
	}
}

func TestGoPanicIsAnError(t *testing.T) {
	s := New(Limits{Time: time.Hour})
	defer s.Close()
	bad := s.Root.NewFunction(func(*lua.LState) int { panic("oh") })
	for _, source := range []string{"\nbad()", "\npcall(bad)",
		"\nlocal t = {2, 1} table.sort(t, bad)"} {
		_, err := s.Load(t.Context(), "p.lua", source, map[string]lua.LValue{"bad": bad})
		if err == nil || err.Line != 2 || !strings.Contains(err.Msg, "the interpreter failed") {
			t.Errorf("%q: %v", source, err)
		}
	}
	if v := mustLoad(t, s, "return 5"); v != lua.LNumber(5) {
		t.Errorf("the next load gives %v", v)
	}
}

func TestLimitsApplyToEachCall(t *testing.T) {
	s := New(Limits{Instructions: 10_000, Memory: 1 << 20})
	defer s.Close()
	fn := frozen(t, s, `return function() local t = {}; for i = 1, 500 do t[i] = {} end; return #t end`)
	for range 100 {
		if _, err := s.Call(t.Context(), fn); err != nil {
			t.Fatal(err)
		}
	}
}
