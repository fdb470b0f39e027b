package progress

import (
	"strings"
	"testing"
)

func TestGist(t *testing.T) {
	for line, want := range map[string]string{
		"plain words": "plain words",
		`{"type":"item.started","item":{"id":"item_0","type":"command_execution","command":"go test ./..."}}`:           "go test ./...",
		`{"type":"assistant","message":{"role":"assistant","content":[{"type":"text","text":"Now the tests."}]}}`:       "Now the tests.",
		`{"type":"assistant","message":{"content":[{"type":"tool_use","name":"Read","input":{"file_path":"a/b.go"}}]}}`: "a/b.go",
		`{"type":"message","role":"assistant","content":"Done."}`:                                                       "Done.",
		`{"type":"result","subtype":"success","num_turns":3}`:                                                           "success",
		`{"type":"text","text":"cut off in the mi`:                                                                      "text",
		`the end of what \"it\" said."}]}}`:                                                                             `the end of what "it" said.`,
		`item_0","type":"x"}`:                                                                                           `item_0","type":"x"}`,
		`func f() { return "a" }`:                                                                                       `func f() { return "a" }`,
		`{not JSON`:                                                                                                     `{not JSON`,
		`{"a":1}`:                                                                                                       `{"a":1}`,
		`{"text":"","content":["a","b"]`:                                                                                "a",
	} {
		if got := gist(line); got != want {
			t.Errorf("gist(%s) = %q, want %q", line, got, want)
		}
	}
}

func TestGistEndsWithoutAFuss(t *testing.T) {
	for _, line := range []string{strings.Repeat(`{"a":`, 900), strings.Repeat("{", 1000), `{"text":` + strings.Repeat("[", 900)} {
		if got := gist(line); got != line {
			t.Errorf("%.20s…: %.20s", line, got)
		}
	}
}
