package decide_test

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"signalbox/internal/oracle/decide"
	"signalbox/internal/testkit/property"
)

// verdicts returns the verdicts on calls; each letter stands for arguments.
func verdicts(calls string) string {
	var c decide.Calls
	var out strings.Builder
	for _, letter := range calls {
		var v decide.Verdict
		c, v = c.Next("search_code", fmt.Appendf(nil, `{"query":%q}`, string(letter)))
		out.WriteByte(v[0])
	}
	return out.String()
}

func TestRepeatedCalls(t *testing.T) {
	for calls, want := range map[string]string{
		"aa":               "aa",
		"aaa":              "aat",
		"aaaaaa":           "aatrrr",
		"abab":             "aaaa",
		"ababab":           "aaaatt",
		"aa1234567a":       "aaaaaaaaat", // the third among ten
		"aa12345678a":      "aaaaaaaaaaa",
		"aaa1234567a":      "aataaaaaaar",
		"aaa1234567890aaa": "aataaaaaaaaaaaat", // forgotten: Tell again
		"aaa123456789aaa":  "aataaaaaaaaaaat",
		"aaabbb":           "aataat",
	} {
		if got := verdicts(calls); got != want {
			t.Errorf("%s: %s, want %s", calls, got, want)
		}
	}
}

func TestCallsIsImmutable(t *testing.T) {
	var c decide.Calls
	for i := range 20 {
		one, _ := c.Next("t", []byte{'"', 'x', '"'})
		newest := one.Recent[len(one.Recent)-1]
		c, _ = c.Next("t", fmt.Appendf(nil, "%d", i))
		if one.Recent[len(one.Recent)-1] != newest {
			t.Fatalf("after %d calls another branch changed this one", i)
		}
	}
}

func TestCallsDifferByNameAndArguments(t *testing.T) {
	equal := func(name1, args1, name2, args2 string) bool {
		var c decide.Calls
		c, _ = c.Next(name1, []byte(args1))
		c, _ = c.Next(name2, []byte(args2))
		return c.Recent[0] == c.Recent[1]
	}
	if equal("a", `{}`, "b", `{}`) || equal("a", `{"x":1}`, "a", `{"x":2}`) ||
		equal(`a"`, `{}`, `a`, `"{}`) {
		t.Error("different calls are taken for equal ones")
	}
	if !equal("a", `{"x":1,"y":[true]}`, "a", ` { "y" : [ true ] , "x" : 1.0 } `) {
		t.Error("equal calls are taken for different ones")
	}
}

func TestCanonical(t *testing.T) {
	for text, want := range map[string]string{
		``: `{}`, " \n": `{}`, `{}`: `{}`, `null`: `null`,
		`{"b":1,"a":{"d":[ 1, 2 ],"c":null}}`: `{"a":{"c":null,"d":[1,2]},"b":1}`,
		`{"a":1,"a":2}`:                       `{"a":2}`,
		`"\u0061\/"`:                          `"a/"`,
		`1.0`:                                 `1`,
		`[[1.0]]`:                             `[[1]]`,
		`100`:                                 `1e2`,
		`1E+2`:                                `1e2`,
		`0.10e3`:                              `1e2`,
		`-0.0`:                                `0`,
		`0e5`:                                 `0`,
		`-12.50`:                              `-125e-1`,
		`12345678901234567890`:                `1234567890123456789e1`,
		`12345678901234567891`:                `12345678901234567891`,
		`1e99999999999999999999`:              `1e99999999999999999999`,
		` {"a": `:                             `{"a":`,
		`{} {}`:                               `{} {}`,
		`{}}`:                                 `{}}`,
		`{"a":"<b>"}`:                         `{"a":"\u003cb\u003e"}`,
	} {
		if got := string(decide.Canonical([]byte(text))); got != want {
			t.Errorf("%s becomes %s, want %s", text, got, want)
		}
	}
}

func FuzzCanonical(f *testing.F) {
	for _, text := range []string{``, `{"b":[1.50,-0,1e3],"a":"x\u00e9"}`, `[[{}]]`, `{"a"`,
		`1e-400`} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		once := decide.Canonical(text)
		if twice := decide.Canonical(once); string(once) != string(twice) {
			t.Errorf("%q becomes %q, and that %q", text, once, twice)
		}
		var before, after any
		if json.Unmarshal(text, &before) == nil {
			if err := json.Unmarshal(once, &after); err != nil ||
				!reflect.DeepEqual(before, after) {
				t.Errorf("%q becomes %q, which means something else (%v)", text, once, err)
			}
		}
	})
}

// Next agrees with a simple implementation that has the whole history.
func TestCallsAgainstReference(t *testing.T) {
	property.Check(t, func(t *rapid.T) {
		history := rapid.StringMatching(`[abcd]{0,40}`).Draw(t, "calls")
		var c decide.Calls
		told := map[byte]bool{}
		for i := range len(history) {
			before := decide.Calls{Recent: append([]string(nil), c.Recent...),
				Told: append([]string(nil), c.Told...)}
			next, verdict := c.Next("t", []byte{'"', history[i], '"'})
			if again, v := c.Next("t", []byte{'"', history[i], '"'}); v != verdict ||
				!cmp.Equal(again, next) || !cmp.Equal(c.Recent, before.Recent) {
				t.Fatal("Next changed what it was given")
			}
			window := history[max(0, i-9) : i+1]
			for letter := range told {
				told[letter] = told[letter] && strings.IndexByte(window[:len(window)-1],
					letter) >= 0
			}
			want := decide.Allow
			if strings.Count(window, history[i:i+1]) >= 3 {
				if want = decide.Tell; told[history[i]] {
					want = decide.Refuse
				}
				told[history[i]] = true
			}
			if verdict != want {
				t.Fatalf("call %d of %s: %s, want %s", i+1, history, verdict, want)
			}
			if c = next; len(c.Recent) > 10 || len(c.Told) > 10 {
				t.Fatalf("it grows: %+v", c)
			}
		}
		data, err := json.Marshal(c)
		var kept decide.Calls
		if err != nil || json.Unmarshal(data, &kept) != nil || len(kept.Recent) != len(c.Recent) ||
			len(kept.Told) != len(c.Told) {
			t.Fatalf("it cannot be kept: %s", data)
		}
	})
}
