package boundedlua

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	lua "github.com/yuin/gopher-lua"
	"pgregory.net/rapid"

	"signalbox/internal/testkit/must"
	"signalbox/internal/testkit/property"
)

type patternFailure string

// matchAll returns the match and its captures as text, nil if there is no match, or an error
// message.
func matchAll(src, pat string, from, budget int) (found []string) {
	defer func() {
		switch p := recover().(type) {
		case nil:
		case patternFailure:
			found = []string{"error: " + string(p)}
		default:
			panic(p)
		}
	}()
	m := &matcher{src: src, pat: pat}
	m.spend = func(n int) {
		if budget -= n; budget < 0 {
			panic(patternFailure("budget"))
		}
	}
	m.fail = func(msg string) { panic(patternFailure(msg)) }
	start, end := m.find(from)
	if start == noMatch {
		return nil
	}
	found = []string{src[start:end]}
	for _, c := range m.caps {
		switch c.size {
		case capturePosition:
			found = append(found, fmt.Sprint(c.start+1))
		case captureOpen:
			found = append(found, "open")
		default:
			found = append(found, src[c.start:c.start+c.size])
		}
	}
	return found
}

func TestPatterns(t *testing.T) {
	for _, tc := range []struct {
		src, pat string
		want     []string
	}{
		{"abc", "", []string{""}},
		{"abc", "b", []string{"b"}},
		{"abc", "^b", nil},
		{"abc", "c$", []string{"c"}},
		{"a$c", "a$c", []string{"a$c"}},
		{"abc", ".", []string{"a"}},
		{"abc123", "%a+", []string{"abc"}},
		{"abc123", "%A+", []string{"123"}},
		{"abc123", "%d-3", []string{"123"}},
		{"  x", "%s*", []string{"  "}},
		{"  x", "%S", []string{"x"}},
		{"aBc", "%u", []string{"B"}},
		{"aBc", "%l%U?", []string{"a"}},
		{"a,b", "%p", []string{","}},
		{"a\x01b", "%c", []string{"\x01"}},
		{"a\x00b", "%z", []string{"\x00"}},
		{"xFf0g", "%x+", []string{"Ff0"}},
		{"a_1-", "[%w_]+", []string{"a_1"}},
		{"a_1-", "[^%w_]", []string{"-"}},
		{"x]y", "[]]", []string{"]"}},
		{"x]y", "[^]]+", []string{"x"}},
		{"a-z", "[a%-z]+", []string{"a-z"}},
		{"m", "[a-z]", []string{"m"}},
		{"-", "[a-]", []string{"-"}},
		{"b", "[^a-c]", nil},
		{"%", "%%", []string{"%"}},
		{"aaab", "a-b", []string{"aaab"}},
		{"aaab", "a*", []string{"aaa"}},
		{"b", "a*", []string{""}},
		{"b", "a+", nil},
		{"color colour", "colou?r c", []string{"color c"}},
		{"key=val", "(%w+)=(%w+)", []string{"key=val", "key", "val"}},
		{"hello", "()ll()", []string{"ll", "3", "5"}},
		{"abab", "(ab)%1", []string{"abab", "ab"}},
		{`"a' "b"`, `(["'])(.-)%1`, []string{`"a' "`, `"`, "a' "}},
		{"f(a(b)c)d", "%b()", []string{"(a(b)c)"}},
		{"f(a(b", "%b()", nil},
		{"THE (quick) fox", "%f[%a]%a+%f[%A]", []string{"THE"}},
		{"a b", "((%a) (%a))", []string{"a b", "a b", "a", "b"}},
		{"x", "(", []string{"", "open"}},
		{"x", ")", []string{"error: invalid pattern capture"}},
		{"x", "[", []string{"error: malformed pattern (missing ']')"}},
		{"x", "[^", []string{"error: malformed pattern (missing ']')"}},
		{"x", "[%", []string{"error: malformed pattern (missing ']')"}},
		{"x", "[]", []string{"error: malformed pattern (missing ']')"}},
		{"x", "%", []string{"error: malformed pattern (ends with '%')"}},
		{"x", "%1", []string{"error: invalid capture index"}},
		{"x", "(%1)", []string{"error: invalid capture index"}},
		{"x", "%b", []string{"error: unbalanced pattern"}},
		{"x", "%f", []string{"error: missing '[' after '%f' in pattern"}},
		{"x", "%fa", []string{"error: missing '[' after '%f' in pattern"}},
	} {
		if diff := cmp.Diff(tc.want, matchAll(tc.src, tc.pat, 0, 1<<20)); diff != "" {
			t.Errorf("%q in %q: %s", tc.pat, tc.src, diff)
		}
	}
}

// TestPatternsSameAsPlain compares the matcher with that of gopher-lua, for patterns that the
// latter handles correctly.
func TestPatternsSameAsPlain(t *testing.T) {
	L := lua.NewState()
	defer L.Close()
	must.Succeed(t, L.DoString(`function run(s, p) return string.find(s, p) end`))
	item := rapid.SampledFrom([]string{"a", "b", ".", "%a", "%d", "[ab]", "[^a]", "[a-c1]"})
	quantifier := rapid.SampledFrom([]string{"", "", "*", "+", "-", "?"})
	property.Check(t, func(t *rapid.T) {
		src := rapid.StringMatching(`[abc12]{0,12}`).Draw(t, "src")
		pat := "x"[1:]
		for range rapid.IntRange(1, 5).Draw(t, "items") {
			one := item.Draw(t, "item") + quantifier.Draw(t, "quantifier")
			if rapid.Bool().Draw(t, "captured") {
				one = "(" + one + ")"
			}
			pat += one
		}
		must.Succeed(t, L.CallByParam(lua.P{Fn: L.GetGlobal("run"), NRet: 8, Protect: true},
			lua.LString(src), lua.LString(pat)))
		var want []string
		if first, ok := L.Get(-8).(lua.LNumber); ok {
			want = []string{src[int(first)-1 : int(L.Get(-7).(lua.LNumber))]}
			for i := -6; i < 0 && L.Get(i) != lua.LNil; i++ {
				want = append(want, L.Get(i).String())
			}
		}
		L.SetTop(0)
		if got := matchAll(src, pat, 0, 1<<20); !cmp.Equal(got, want) {
			t.Fatalf("%q in %q: got %q, want %q", pat, src, got, want)
		}
	})
}

func TestPatternDepth(t *testing.T) {
	got := matchAll(strings.Repeat("a", 1<<20), strings.Repeat("a*", 1000), 0, 1<<30)
	if want := []string{"error: pattern too complex"}; !cmp.Equal(got, want) {
		t.Errorf("got %.80q", got)
	}
}

// FuzzPattern checks that any pattern ends within its steps and captures only parts of the subject.
func FuzzPattern(f *testing.F) {
	f.Add("hello world", "(%w+) (%w+)", 0)
	f.Add("aaaaaaaaaaaaaaaaaaaaaaa", "a*a*a*a*b", 3)
	f.Add("((()))", "%b()", 1)
	f.Add("x", "[%", 0)
	f.Fuzz(func(t *testing.T, src, pat string, from int) {
		const budget = 100_000
		used := 0
		for _, c := range matchAll(src, pat, min(max(from, 0), len(src)), budget) {
			used += len(c)
		}
		if used > 64+(maxCaptures+1)*(len(src)+20) {
			t.Errorf("%d bytes captured", used)
		}
	})
}
