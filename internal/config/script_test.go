package config

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"signalbox"
	"signalbox/internal/rehearsal/modelserver"
)

// TestModelScript reads a script as people write it, to the end.
func TestModelScript(t *testing.T) {
	text := `
# Two turns.
models: [rehearsal, 3.10]
conversations:
  - name: yes
    match: {user: 12, turn: 0_1}
    turns:
      - parts:
          - reasoning: ~
            text: 3.10
            cut: every byte
          - call: &call
              name: search_code
              arguments: {query: "1", limit: 10, exact: true, none: , path: no, above: +.5, hex: 0x1F, list: [1e3, 007, 1_000, '2', <b>]}
        delay: 50ms
      - parts:
          - pieces: ["on", off, null-ish]
          - {text: in the middle, cut: {at: [3, 8]}}
          - call: *call
        faults:
          - {kind: status, status: "429", retry_after: 1s}
otherwise:
  parts:
    - text: |
        I do not know <signal>.
`
	got, err := ParseModelScript("s.yaml", []byte(text), modelserver.Script{})
	if err != nil {
		t.Fatal(err)
	}
	const call = `{"name":"search_code","arguments":{"query":"1","limit":10,"exact":true,"none":null,"path":"no","above":0.5,"hex":31,` +
		`"list":[1e3,7,"1_000","2","<b>"]}}`
	want := `{"models":["rehearsal","3.10"],"conversations":[{"name":"yes","match":{"user":"12","turn":1},"turns":[` +
		`{"parts":[{"text":"3.10","cut":"every byte"},{"call":` + call + `}],"delay":"50ms"},` +
		`{"parts":[{"pieces":["on","off","null-ish"]},{"text":"in the middle","cut":{"at":[3,8]}},{"call":` + call + `}],` +
		`"faults":[{"kind":"status","status":429,"retry_after":"1s"}]}]}],` +
		`"otherwise":{"parts":[{"text":"I do not know <signal>.\n"}]}}`
	if diff := cmp.Diff(want, string(got)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if _, err := modelserver.ParseScript("s.yaml", got); err != nil {
		t.Error(err)
	}
	again, err := ParseModelScript("s.json", got, &modelserver.Script{})
	if err != nil || string(again) != string(got) {
		t.Errorf("JSON: %s, %v", again, err)
	}
	for _, text := range []string{"", "# nothing\n", "---\n", "~"} {
		if got, err := ParseModelScript("s.yaml", []byte(text), modelserver.Script{}); err != nil || string(got) != "{}" {
			t.Errorf("%q: %s, %v", text, got, err)
		}
	}
	// JSON that a reader of YAML would take otherwise.
	odd := "{\n\t\"name\": \"\\ud83d\\ude00\\/\"\n}"
	if got, err := ParseModelScript("s.json", []byte(odd), modelserver.Script{}); err != nil || string(got) != odd {
		t.Errorf("%q: %s, %v", odd, got, err)
	}
}

func TestModelScriptErrors(t *testing.T) {
	deep := strings.Repeat("[", 120) + strings.Repeat("]", 120)
	for _, tt := range []struct{ text, want, hint string }{
		{"convesations: []", `line 1, column 1: unknown field "convesations"`, "did you mean conversations?"},
		{"otherwise:\n  part: []", `line 2, column 3: unknown field "part"`, "did you mean parts?"},
		{"otherwise:\n  size: 1", `line 2, column 3: unknown field "size"`, "the fields here are match, times, parts, delay, every, drip, usage, finish, faults"},
		{"name: a\nname: b", "line 2, column 1: name: it is set twice, first on line 1", "keep one of them"},
		{"otherwise: &o {times: 1}\nconversations:\n  - turns:\n      - <<: *o", `line 4, column 9: conversations.turns: "<<" is not a plain name`,
			"write name: value; *name repeats a whole value that was marked &name above"},
		{"otherwise: {times: often}", `line 1, column 20: otherwise.times: "often" is not a whole number`, "write a number such as 5"},
		{"otherwise: {parts: text}", "line 1, column 20: otherwise.parts: it is not a list", "write [one, two], or each item on its own line after a -"},
		{"models:\n  - a\n  -", "line 3, column 5: models: an item of the list is empty", "write it after the -, or remove it"},
		{"models: [[a]]", "line 1, column 10: models: it is a list, not one value", "write one value; quote a text that begins with [ or -"},
		{"- a", "line 1, column 1: the script is not a group of settings",
			"write each setting as name: value on its own line, and indent the settings of a group below its name"},
		{"name: !!str x", "line 1, column 7: name: the tag !!str is not supported", "remove it, or quote a text that begins with !"},
		{"name: *x", "line 1, column 7: name: *x repeats a value marked &x, but no value above has that mark", `quote a text that begins with *: "*x"`},
		{"otherwise: {parts: [{call: {name: a, arguments: {b: .NaN}}}]}",
			"line 1, column 53: otherwise.parts.call.arguments.b: .NaN is a number that JSON does not have", "quote it if it is a text"},
		{"otherwise: {parts: [{call: {name: a, arguments: {b: 1, b: 2}}}]}",
			"line 1, column 56: otherwise.parts.call.arguments.b: it is set twice, first on line 1", "keep one of them"},
		{"name: [", "line 1, column 7: sequence end token ']' not found", "correct the YAML; put text with special characters in quotes"},
		{"name: \xff", "line 1, column 7: it is not UTF-8 text", "save the file as UTF-8"},
		{"otherwise: {parts: [{call: {arguments: " + deep + "}}]}",
			"line 1, column 135: otherwise.parts.call.arguments: it is in more than 100 others", "nest less"},
		{"{\"name\": \"\u00e9\",\n \"otherwise\": {\"times\": 1, \"parts\": [], \"times\": 2}}", `line 2, column 41: "times" is set twice`, "keep one of them"},
		{`{"name": "a", "a": "name", "a": 1}`, `line 1, column 28: "a" is set twice`, "keep one of them"},
	} {
		_, err := ParseModelScript("s.yaml", []byte(tt.text), modelserver.Script{})
		wrong := (*signalbox.Error)(nil)
		if !errors.As(err, &wrong) || wrong.Error() != "s.yaml: "+tt.want || wrong.Hint != tt.hint || wrong.Code != signalbox.CodeUsage {
			t.Errorf("%q:\n got %v\nhint %+v\nwant %s", tt.text, err, wrong, tt.want)
		}
	}
}

// TestModelScriptGrowth has aliases that would fill the memory.
func TestModelScriptGrowth(t *testing.T) {
	var b strings.Builder
	b.WriteString("otherwise:\n  parts:\n    - call:\n        arguments:\n          a0: &a0 xxxxxxxxxx\n")
	for _, pair := range []string{"01", "12", "23", "34", "45", "56", "67", "78", "89"} {
		b.WriteString("          a" + pair[1:] + ": &a" + pair[1:] + " [" + strings.Repeat("*a"+pair[:1]+", ", 10) + "]\n")
	}
	_, err := ParseModelScript("s.yaml", []byte(b.String()), modelserver.Script{})
	if want := fmt.Sprintf(": written out it has more than %d bytes", maxJSON+maxGrowth*b.Len()); err == nil || !strings.HasSuffix(err.Error(), want) {
		t.Errorf("error %v, want %s", err, want)
	}
	if _, err := ParseModelScript("s.yaml", []byte("models: ["+strings.Repeat("x", 2*maxJSON)+", y]"), modelserver.Script{}); err != nil {
		t.Errorf("much that is not repeated: %v", err)
	}
}

// FuzzParseModelScript holds that errors have their place and one line, and that what comes out is JSON that stays as it
// is and that the server's own reader takes apart.
func FuzzParseModelScript(f *testing.F) {
	f.Add("conversations:\n  - turns: [{parts: [{text: 3.10, cut: every byte}, {call: {name: a, arguments: {b: [1, -0.5e3, yes, ~, '']}}}]}]\n")
	f.Add("otherwise: &o {times: 1_0, drip: {bytes: 0x3, every: 1s}}\nname: |\n  a\n")
	f.Add(`{"name": "a", "name": "b"}`)
	f.Fuzz(func(t *testing.T, text string) {
		got, err := ParseModelScript("s", []byte(text), modelserver.Script{})
		if err != nil {
			if !strings.HasPrefix(err.Error(), "s: line ") || strings.ContainsAny(err.Error(), "\r\n") {
				t.Errorf("error without a place, or with lines: %q", err)
			}
			return
		}
		if !json.Valid(got) {
			t.Fatalf("not JSON: %s", got)
		}
		again, err := ParseModelScript("s", got, modelserver.Script{})
		if err != nil || string(again) != string(got) {
			t.Errorf("again: %v\n%s\n%s", err, got, again)
		}
	})
}

func TestModelScriptPlace(t *testing.T) {
	type turn struct {
		Match map[string]string `json:"match"`
		Parts []string          `json:"parts"`
	}
	type script struct {
		Turns []turn `json:"turns"`
	}
	const yaml = "turns:\n  - match: {a: b}\n  - parts:\n      - one\n      - two\n"
	const json = "{\"turns\": [\n  {\"match\": {\"a\": \"b\"}}]}"
	for _, tt := range []struct {
		text, path   string
		line, column int
	}{
		{yaml, "turns[0].match.a", 2, 16},
		{yaml, "turns[1].parts[1]", 5, 9},
		{yaml, "turns[1].parts[7]", 4, 7},
		{yaml, "turns[1].match.user", 3, 5},
		{yaml, "others", 0, 0},
		{yaml, "", 0, 0},
		{json, "turns[0].match.a", 2, 19},
		{"turns: [", "turns", 0, 0},
		{"", "turns", 0, 0},
	} {
		if line, column := ModelScriptPlace([]byte(tt.text), script{}, tt.path); line != tt.line || column != tt.column {
			t.Errorf("%s in %q: line %d, column %d, want %d, %d", tt.path, tt.text, line, column, tt.line, tt.column)
		}
	}
}
