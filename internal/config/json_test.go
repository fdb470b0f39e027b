package config

import (
	"strings"
	"testing"
)

const toolPrefix = "oracle: {tools: {a: {command: x, description: y, parameters: {"

func TestParameters(t *testing.T) {
	c := mustParse(t, toolPrefix+`type: object, x: [&v 1.10, *v, "1", '2', -1e3, 007, no, true, ~, "a\\<b"]}}}}`)
	want := `{"type":"object","x":[1.10,1.10,"1","2",-1e3,"007","no",true,null,"a\\\u003cb"]}`
	if got := string(c.Oracle.Tools["a"].Parameters); got != want {
		t.Errorf("parameters %s, want %s", got, want)
	}
}

// TestParametersLimits checks that parameters cannot exhaust the memory or the stack.
func TestParametersLimits(t *testing.T) {
	growing := "a0: &a0 xxxxxxxxxx"
	for _, pair := range []string{"01", "12", "23", "34", "45", "56", "67", "78", "89"} {
		growing += ", a" + pair[1:] + ": &a" + pair[1:] + " [" + strings.Repeat("*a"+pair[:1]+", ", 10) + "]"
	}
	for text, want := range map[string]string{
		growing: ": written out it has more than 1048576 bytes",
		"a: " + strings.Repeat("[", 120) + strings.Repeat("]", 120): "parameters.a: nested more than 100 deep",
	} {
		if _, err := Parse([]byte(toolPrefix + text + "}}}}")); err == nil || !strings.HasSuffix(err.Error(), want) {
			t.Errorf("%.100s: error %.300v, want %s", text, err, want)
		}
	}
}
