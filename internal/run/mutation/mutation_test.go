package mutation

import (
	"bytes"
	"fmt"
	"go/parser"
	"go/token"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"signalbox/internal/testkit/must"
	"signalbox/internal/testkit/property"
)

// edits returns what the mutants of a file change, as "before → after".
func edits(all []Mutant) (edits []string) {
	for _, m := range all {
		edits = append(edits, m.Before+" → "+m.After)
	}
	return edits
}

func wantEdits(t *testing.T, file, old, source string, want ...string) {
	t.Helper()
	got := edits(Find(file, []byte(old), []byte(source)))
	slices.Sort(got)
	slices.Sort(want)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("%s: %s (-want +got):\n%s", file, source, diff)
	}
}

// function is a Go file with one function of one line.
func function(results, body string) string {
	return "package p\n\nfunc f(a, b int) " + results + " {\n" + body + "\n}\n"
}

func TestGo(t *testing.T) {
	for _, tt := range []struct {
		results, body string
		want          []string
	}{
		{"", "g(a+-b, a>=-1)", []string{"g(a+-b, a>=-1) → ", "g(a+-b, a>=-1) → g(a- -b, a>=-1)",
			"g(a+-b, a>=-1) → g(a+-b, a> -1)", "g(a+-b, a>=-1) → g(a+-b, a>=-2)"}},
		{"", "a = b", []string{"a = b → "}},
		{"", "a += 0x10", []string{"a += 0x10 → ", "a += 0x10 → a -= 0x10", "a += 0x10 → a += 17"}},
		{"", "a++", []string{"a++ → ", "a++ → a--"}},
		{"", "a := b * 2.5", []string{"a := b * 2.5 → a := b / 2.5",
			"a := b * 2.5 → a := b * (2.5 + 1)"}},
		{"", "if ok { defer h() }", []string{"if ok { defer h() } → if !(ok) { defer h() }",
			"if ok { defer h() } → if ok { }"}},
		{"", "if!ok { }", []string{"if!ok { } → if ok { }"}},
		{"", "if a == b { }", []string{"if a == b { } → if a != b { }"}},
		{"", "if a < b && true { }", []string{
			"if a < b && true { } → if !(a < b && true) { }",
			"if a < b && true { } → if a <= b && true { }",
			"if a < b && true { } → if a < b || true { }",
			"if a < b && true { } → if a < b && false { }"}},
		{"", "for i := 0; i < a; i++ { continue }", []string{
			"for i := 0; i < a; i++ { continue } → for i := 1; i < a; i++ { continue }",
			"for i := 0; i < a; i++ { continue } → for i := 0; i <= a; i++ { continue }",
			"for i := 0; i < a; i++ { continue } → for i := 0; i < a; i++ { break }"}},
		{"", "switch { case a > b: g() }", []string{
			"switch { case a > b: g() } → switch { case a >= b: g() }",
			"switch { case a > b: g() } → switch { case a > b: }"}},
		{"", "select { case c <- a: c <- b }", []string{
			"select { case c <- a: c <- b } → select { case c <- a: }"}},
		{"(int, error)", "return g(b), err", []string{"return g(b), err → return 0, err",
			"return g(b), err → return g(b), nil"}},
		{"(s string, p *int)", `return"x", p`, []string{`return"x", p → return"", p`,
			`return"x", p → return"x", nil`}},
		{"error", `return fmt.Errorf("x")`, []string{`return fmt.Errorf("x") → return nil`}},
		{"(int, error)", "return g()", nil},
		{"T", "return x", nil},
		{"bool", "return false", []string{"return false → return true"}},
		{"", "g(func() bool { return h })", []string{"g(func() bool { return h }) → ",
			"g(func() bool { return h }) → g(func() bool { return false })"}},
		{"", "var x [3]int; type y struct { z int `j:\"1\"` }", nil},
		{"", "x := `a == 1 // b` // c == 2", nil},
	} {
		source := function(tt.results, tt.body)
		wantEdits(t, "p/p.go", strings.Replace(source, tt.body, "//", 1), source, tt.want...)
	}
	wantEdits(t, "p.go", "", "package p\n\nconst size = 8 << 10\n",
		"const size = 8 << 10 → const size = 9 << 10", "const size = 8 << 10 → const size = 8 << 11",
		"const size = 8 << 10 → const size = 8 >> 10")
}

func TestTokens(t *testing.T) {
	for _, tt := range []struct {
		file, line string
		want       []string
	}{
		{"a.py", "if x == 1 and not y:", []string{"if x == 1 and not y: → if x != 1 and not y:",
			"if x == 1 and not y: → if x == 2 and not y:",
			"if x == 1 and not y: → if x == 1 or not y:", "if x == 1 and not y: → if x == 1 and y:"}},
		{"a.py", `x = "a == 1" # b == 2`, []string{`x = "a == 1" # b == 2 → pass # b == 2`}},
		{"a.py", "return f(x)", []string{"return f(x) → return None"}},
		{"a.py", "return None", nil},
		{"a.py", "total += x", []string{"total += x → pass", "total += x → total -= x"}},
		{"a.js", "if (!a || b <= 3) { // c == d", []string{
			"if (!a || b <= 3) { // c == d → if (a || b <= 3) { // c == d",
			"if (!a || b <= 3) { // c == d → if (!a && b <= 3) { // c == d",
			"if (!a || b <= 3) { // c == d → if (!a || b < 3) { // c == d",
			"if (!a || b <= 3) { // c == d → if (!a || b <= 4) { // c == d"}},
		{"a.ts", "let x = `1 + ${y}` /* 2 + 3 */;", nil},
		{"a.ts", "save(x);", []string{"save(x); → ;"}},
		{"a.java", "return a + b;", []string{"return a + b; → return a - b;"}},
		{"a.rs", "fn f<'a>(x: &'a str) -> bool { x == y }", []string{
			"fn f<'a>(x: &'a str) -> bool { x == y } → fn f<'a>(x: &'a str) -> bool { x != y }"}},
		{"a.rb", "x.save if a && true", []string{"x.save if a && true → x.save if a || true",
			"x.save if a && true → x.save if a && false"}},
		{"a.lua", "return x -- not y", []string{"return x -- not y → return nil -- not y"}},
		{"a.sh", `if [ "$1" -le 5 ] && [ -z "$2" ]; then # a && b`, []string{
			`if [ "$1" -le 5 ] && [ -z "$2" ]; then # a && b → if [ "$1" -lt 5 ] && [ -z "$2" ]; then # a && b`,
			`if [ "$1" -le 5 ] && [ -z "$2" ]; then # a && b → if [ "$1" -le 6 ] && [ -z "$2" ]; then # a && b`,
			`if [ "$1" -le 5 ] && [ -z "$2" ]; then # a && b → if [ "$1" -le 5 ] || [ -z "$2" ]; then # a && b`,
			`if [ "$1" -le 5 ] && [ -z "$2" ]; then # a && b → if [ "$1" -le 5 ] && [ -n "$2" ]; then # a && b`}},
		{"a.sh", "\trm -f x 2>&1 >/dev/null", nil}, // no command with an & is deleted
		{"a.sh", "\texit 3", []string{"exit 3 → :", "exit 3 → exit 0"}},
		{"tool", "save $#", []string{"save $# → :"}},
		{"a.md", "1 + 1 == 2", nil},
		{"a.min.js", "a == 1;" + strings.Repeat(" ", 500), nil},
	} {
		first := ""
		if tt.file == "tool" {
			first = "#!/bin/sh\n"
		}
		wantEdits(t, tt.file, first, first+tt.line+"\n", tt.want...)
	}
	// Nothing in texts of several lines is changed.
	wantEdits(t, "a.py", "", "def f():\n    \"\"\"a == 1\n    b == 2\n    \"\"\"\n")
	wantEdits(t, "a.sh", "", "cat <<-'END' >&2\na && b\nEND\n")
	wantEdits(t, "a.c", "", "/* a == 1\n a == 2 */\n")
	// A line that continues in the next one is not a statement.
	wantEdits(t, "a.py", "f(a,\n  b)\n", "f(a,\n  b(c))\n")
}

// Only what differs from the old file is changed, wherever it was moved to.
func TestChangedLines(t *testing.T) {
	old := "if a:\n    f(1)\n\nif b:\n    f(2)\n    end(9)\n"
	wantEdits(t, "a.py", old, old)
	wantEdits(t, "a.py", old, "x(7)\n"+old, "x(7) → pass", "x(7) → x(8)")
	wantEdits(t, "a.py", old, strings.Replace(old, "f(2)", "f(3)", 1), "f(3) → f(4)", "f(3) → pass")
	wantEdits(t, "a.py", old, strings.Replace(old, "    f(2)\n", "", 1))
	wantEdits(t, "a.py", "a()\nb()\n\nc()\nd()\n", "a()\nx()\nb()\n\ny()\nc()\nd()\n", "x() → pass",
		"y() → pass")
	wantEdits(t, "a.py", "u()\nr()\nr()\nq()\n", "n()\nu()\nr()\nr()\nm()\n", "n() → pass",
		"m() → pass")
}

func TestWhatIsLeftAlone(t *testing.T) {
	code := "if a == 1 { f(2) }\n"
	for file, source := range map[string]string{
		"generated.go":   "// Code generated by x. DO NOT EDIT.\n" + function("", code),
		"broken.go":      "package p\nfunc {" + code,
		"other_plan9.go": function("", code),
		"binary.js":      "\x00" + code,
		"latin.js":       "\xe9\n" + code,
		"large.js":       code + strings.Repeat("\n", MaxFile),
		"noextension":    code,
		"a.txt":          code,
		"empty.py":       "",
	} {
		wantEdits(t, file, "", source)
	}
	if n := len(Find("a.js", nil, bytes.Repeat([]byte("a == 1;\n"), 20_000))); n > maxMutants+10 {
		t.Errorf("%d mutants of one file", n)
	}
}

func TestIsTest(t *testing.T) {
	for _, name := range []string{"a_test.go", "tests/a.py", "a/testdata/b.json", "test_a.py",
		"src/__tests__/a.js", "a.test.ts", "a.spec.js", "test.sh", "x/FooTest.java", "conftest.py",
		"spec/a.rb", "a-test.sh"} {
		if !IsTest(name) {
			t.Errorf("%s is not taken for a test", name)
		}
	}
	for _, name := range []string{"a.go", "latest.py", "contest.go", "attest/a.go", "testing.go",
		"spectrum.js", "protest.java"} {
		if IsTest(name) {
			t.Errorf("%s is taken for a test", name)
		}
	}
}

func TestSample(t *testing.T) {
	source := []byte("a = 1 + 2\nb = 3 + 4\nc = 5 + 6\n")
	all := Find("a.py", nil, source)
	first := Sample(all, 1)
	slices.Reverse(all)
	if diff := cmp.Diff(first, Sample(all, 1)); diff != "" {
		t.Errorf("the order of the mutants decides (-want +got):\n%s", diff)
	}
	if cmp.Equal(edits(first), edits(Sample(all, 2))) {
		t.Error("the seed decides nothing")
	}
	moved := Sample(Find("a.py", []byte("x\n\n"), append([]byte("x\n\n"), source...)), 1)
	if diff := cmp.Diff(edits(first), edits(moved)); diff != "" {
		t.Errorf("lines before it decide (-want +got):\n%s", diff)
	}
	for seed := range 20 {
		lines := map[int]bool{}
		for _, m := range Sample(all, seed)[:3] {
			lines[m.Line] = true
		}
		if len(lines) != 3 {
			t.Errorf("seed %d: the first three mutants are in the lines %v", seed, lines)
		}
	}
}

// check validates the mutants of any file.
func check(t interface{ Fatalf(string, ...any) }, file string, old, source []byte) {
	found := Find(file, old, source)
	if !cmp.Equal(found, Find(file, old, source)) {
		t.Fatalf("%s: other mutants the second time", file)
	}
	_, err := parser.ParseFile(token.NewFileSet(), "", source, 0)
	for _, m := range found {
		changed := m.Apply(source)
		if bytes.Equal(changed, source) || m.Start > m.End || m.End > len(source) ||
			string(changed[:m.Start]) != string(source[:m.Start]) ||
			string(changed[m.Start+len(m.With):]) != string(source[m.End:]) {
			t.Fatalf("%s: %+v is not one change", file, m)
		}
		if line := 1 + bytes.Count(source[:m.Start], []byte("\n")); line != m.Line {
			t.Fatalf("%s: %+v is in line %d", file, m, line)
		}
		if strings.HasSuffix(file, ".go") && err == nil {
			if _, err := parser.ParseFile(token.NewFileSet(), "", changed, 0); err != nil {
				t.Fatalf("%s: %+v: %v", file, m, err)
			}
		}
	}
	if len(Sample(found, 1)) != len(found) {
		t.Fatalf("%s: mutants are missing in the sample", file)
	}
}

// The mutants of this package itself are all what they should be.
func TestOwnMutants(t *testing.T) {
	for _, file := range []string{"golang.go", "tokens.go", "differing.go"} {
		source, err := os.ReadFile(file)
		must.Succeed(t, err)
		check(t, file, nil, source)
		if n := len(Find(file, nil, source)); n < 20 {
			t.Errorf("%s has %d mutants", file, n)
		}
	}
}

// Any pieces of code, in any language.
func TestAnyMutants(t *testing.T) {
	pieces := []string{"a", "b ", "1", " ", "\n", "\n", "+", "-", " + ", "==", " < ", "<", "!", "&&",
		"(", ")", "{", "}", "[", "]", "\"", "'", "`", "//", "/*", "*/", "#", "--", "\\", ";", "=", " = ",
		"return ", "if ", "true", "not ", ".", ",", "<<E", "\nE\n", "é", "\r\n", "f()", "x = y"}
	property.Check(t, func(t *rapid.T) {
		text := func(name string) []byte {
			return []byte(strings.Join(rapid.SliceOfN(rapid.SampledFrom(pieces), 0, 40).Draw(t, name),
				""))
		}
		file := rapid.SampledFrom([]string{"a.go", "a.py", "a.js", "a.sh", "a.c", "a.rb", "a.lua",
			"a.sql"}).Draw(t, "file")
		old, source := text("old"), text("source")
		if file == "a.go" {
			source = []byte(function("(int, error)", string(source)))
		}
		check(t, file, old, source)
	})
}

// What is a line of both files, in the same order, does not differ; the rest of the new one does.
func TestDiffering(t *testing.T) {
	property.Check(t, func(t *rapid.T) {
		lines := func(name string) [][]byte {
			text := rapid.StringOfN(rapid.SampledFrom([]rune("abcdefghij\n")), 0, 40, -1).Draw(t, name)
			return bytes.SplitAfter([]byte(text), []byte("\n"))
		}
		old, source := lines("old"), lines("new")
		var kept [][]byte
		for i, from := range origins(old, source) {
			if from >= 0 {
				kept = append(kept, source[i])
				if !bytes.Equal(old[from], source[i]) {
					t.Fatalf("%q is not %q", source[i], old[from])
				}
			}
		}
		left := old
		for _, line := range kept {
			i := slices.IndexFunc(left, func(l []byte) bool { return bytes.Equal(l, line) })
			if i < 0 {
				t.Fatalf("%q is not a line of %q after those before it", line, old)
			}
			left = left[i+1:]
		}
		if slices.Contains(origins(source, source), -1) {
			t.Fatalf("%q differs from itself", source)
		}
	})
}

func TestMoved(t *testing.T) {
	old := []byte("a\nsame\nb\nsame\nc\n")
	for _, tt := range []struct {
		source string
		want   []int // where the lines of old are
	}{
		{string(old), []int{1, 2, 3, 4, 5}}, {"", []int{0, 0, 0, 0, 0}},
		{"x\nx\na\nsame\nb\nsame\nc\n", []int{3, 4, 5, 6, 7}},
		{"a\nsame\nb\nx\nsame\nc\n", []int{1, 2, 3, 5, 6}},
		{"a\nb\nsame\nc\n", []int{1, 0, 2, 3, 4}},
		{"same\nc\na\nsame\nb\nsame\nx\n", []int{3, 4, 5, 6, 0}},
		{"a\nsame\nsame\nb\nsame\nc\n", []int{1, 2, 4, 5, 6}},
	} {
		for i, want := range tt.want {
			if got := Moved(old, []byte(tt.source), i+1); got != want {
				t.Errorf("%q: line %d is line %d, want %d", tt.source, i+1, got, want)
			}
		}
	}
}

// What nobody can read is not changed, and a file has not too many mutants.
func TestBounds(t *testing.T) {
	long := "g(\n" + strings.Repeat("x,\n", maxEdit/3) + "y)"
	wantEdits(t, "p.go", "", function("", long))
	many := []byte(function("", strings.Repeat("a++\n", maxMutants)))
	if n := len(Find("p.go", nil, many)); n != maxMutants {
		t.Errorf("%d mutants", n)
	}
}

// Of many mutants in many files, the seed alone decides which are found.
func TestFindAll(t *testing.T) {
	var files []File
	for i := range 10 {
		files = append(files, File{fmt.Sprintf("%d.py", i), nil,
			[]byte(strings.Repeat("x += 1\n", maxMutants))})
	}
	names := func(seed int) string {
		found := map[string]bool{}
		all := FindAll(files, seed)
		for _, m := range all {
			found[m.File] = true
		}
		if len(all) != maxAll {
			t.Errorf("%d mutants", len(all))
		}
		return strings.Join(slices.Sorted(maps.Keys(found)), " ")
	}
	first := names(1)
	slices.Reverse(files)
	if again := names(1); again != first {
		t.Errorf("the order of the files decides: %s, %s", first, again)
	}
	if other := names(2); other == first {
		t.Errorf("the seed decides nothing: %s", other)
	}
	some := []File{{"a.py", []byte("x += 1\n"), []byte("x += 1\nx += 2\n")}}
	want := Sample(Find("a.py", some[0].Old, some[0].New), 1)
	if diff := cmp.Diff(want, FindAll(some, 1)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func FuzzMutants(f *testing.F) {
	for _, file := range []string{"golang.go", "tokens.go"} {
		source, err := os.ReadFile(file)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(file, []byte(nil), source[:2000])
	}
	f.Add("a.sh", []byte("x\n"), []byte("x\nif [ \"$1\" -eq 2 ]; then exit 1; fi\n"))
	f.Add("a.py", []byte(""), []byte("def f(x):\n    return x == 'a' and not 1\n"))
	f.Fuzz(func(t *testing.T, file string, old, source []byte) {
		if len(source) < 1<<16 {
			check(t, file, old, source)
		}
	})
}

func Example() {
	source := []byte("def grow(x):\n    return x + 1\n")
	for _, m := range Find("grow.py", []byte("def grow(x):\n    pass\n"), source) {
		fmt.Printf("%s:%d: %s → %s\n", m.File, m.Line, m.Before, m.After)
	}
	// Output:
	// grow.py:2: return x + 1 → return None
	// grow.py:2: return x + 1 → return x - 1
	// grow.py:2: return x + 1 → return x + 2
}
