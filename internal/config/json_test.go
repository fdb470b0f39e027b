package config

import (
	"strings"
	"testing"
)

const toolPrefix = "oracle: {tools: {a: {command: x, description: y, parameters: {"

func TestParameters(t *testing.T) {
	c := mustParse(t, toolPrefix+
		`type: object, x: [&v 1.10, *v, "1", '2', -1e3, 007, no, true, ~, "a\\<b"]}}}}`)
	want := `{"type":"object","x":[1.10,1.10,"1","2",-1e3,"007","no",true,null,"a\\\u003cb"]}`
	if got := string(c.Oracle.Tools["a"].Parameters); got != want {
		t.Errorf("parameters %s, want %s", got, want)
	}
}

// TestParametersLimits checks that parameters cannot exhaust the memory or the stack.
func TestParametersLimits(t *testing.T) {
	growing := "a0: &a0 " + strings.Repeat("x", 500)
	for _, pair := range []string{"01", "12", "23", "34", "45", "56", "67", "78", "89"} {
		growing += ", a" + pair[1:] + ": &a" + pair[1:] + " [" +
			strings.Repeat("*a"+pair[:1]+", ", 10) + "]"
	}
	for text, want := range map[string]string{
		growing: ": written out it has more than 1048576 bytes",
		"a: " + strings.Repeat("[", 120) + strings.Repeat("]",
			120): "parameters.a: nested more than 100 deep",
	} {
		if _, err := Parse([]byte(toolPrefix + text + "}}}}")); err == nil ||
			!strings.HasSuffix(err.Error(), want) {
			t.Errorf("%.100s: error %.300v, want %s", text, err, want)
		}
	}
}

// TestSizeLimits checks that no file can keep the YAML parser busy or exhaust the memory: what is
// too large is not parsed, and aliases are counted as often as they are used.
func TestSizeLimits(t *testing.T) {
	check := "{name: a, run: b}"
	for name, c := range map[string]struct{ text, want string }{
		"bytes": {"agent: " + strings.Repeat("x", 256<<10), "bytes, limit 262144"},
		"lines": {strings.Repeat("a: 1\n", 5001),
			"line 5001, column 1: the file has more than 5000 lines"},
		"flow lists": {"a: " + strings.Repeat("[", 300),
			"line 1, column 1: more than 200 lists or groups inside each other"},
		"flow groups": {"\na: " + strings.Repeat("{a: ", 300),
			"line 2, column 1: more than 200 lists or groups inside each other"},
		"lists": {strings.Repeat("- ", 300) + "x",
			"more than 200 lists or groups inside each other"},
		"keys": {strings.Repeat("? - ", 200) + "x",
			"more than 200 lists or groups inside each other"},
		"values": {"checks: [" + strings.Repeat(check+",", 8000) + "]",
			"there are more than 10000 values"},
		"aliases": {"checks: [&x " + check + strings.Repeat(", *x", 8000) + "]",
			"there are more than 10000 values"},
	} {
		if _, err := Parse([]byte(c.text)); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: error %.300v, want %s", name, err, c.want)
		}
	}
}
