package modelserver

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"signalbox/internal/testkit/must"
)

// TestParseScript checks a script as people write it: text fields keep what is written, and
// arguments have JSON types.
func TestParseScript(t *testing.T) {
	script, err := ParseScript("s.yaml", []byte(`
# Two turns.
models: [rehearsal, 3.10, 007, yes, .inf]
conversations:
  - name: true
    match: {user: 12, turn: 1}
    turns:
      - parts:
          - reasoning: ~
            text: 3.10
            cut: every byte
          - call: &call
              name: search_code
              arguments: {query: "1", limit: 10, exact: true, none: , path: no, list: [1e3, -0.5, 3.10, '2', <b>, \d+, "a\\b"]}
        delay: 50ms
      - parts:
          - pieces: ["on", off, null-ish, &word word, *word]
          - {text: in the middle, cut: {at: [3, 8]}}
          - call: *call
        faults:
          - {kind: status, status: "429", retry_after: 1s, times: -1}
otherwise:
  parts:
    - text: |
        I do not know <signal>.
`))
	must.Succeed(t, err)
	call := &Call{Name: "search_code",
		Arguments: json.RawMessage(`{"query":"1","limit":10,"exact":true,"none":null,"path":"no",` +
			`"list":[1e3,-0.5,3.10,"2","<b>","\\d+","a\\b"]}`)}
	want := &Script{
		Name:   "s.yaml",
		Models: []string{"rehearsal", "3.10", "007", "yes", ".inf"},
		Conversations: []Conversation{{Name: "true", Match: &Match{User: "12", Turn: 1},
			Turns: []Turn{
				{Parts: []Part{{Text: "3.10", Cut: Cut{EveryByte: true}}, {Call: call}},
					Delay: Duration(50e6)},
				{Parts: []Part{{Pieces: []string{"on", "off", "null-ish", "word", "word"}},
					{Text: "in the middle", Cut: Cut{At: []int{3, 8}}}, {Call: call}},
					Faults: []Fault{{Kind: FaultStatus, Status: 429, RetryAfter: Duration(1e9),
						Times: -1}}},
			}}},
		Otherwise: &Turn{Parts: []Part{{Text: "I do not know <signal>.\n"}}},
	}
	if diff := cmp.Diff(want, script); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

// TestParseJSON checks JSON that is easily misread as YAML.
func TestParseJSON(t *testing.T) {
	script, err := ParseScript("s.json",
		[]byte("\ufeff{\n\t\"api_key\": \"\\ud83d\\ude00\\/\\\\\",\n\t\"otherwise\": {\"parts\": [{\"call\": {\"name\": \"f\", \"arguments\": {\"a\": \"\\\\d\\n\"}}}]}\n}"))
	must.Succeed(t, err)
	if script.APIKey != `😀/\` ||
		string(script.Otherwise.Parts[0].Call.Arguments) != `{"a":"\\d\n"}` {
		t.Errorf("key %q, arguments %s", script.APIKey, script.Otherwise.Parts[0].Call.Arguments)
	}
}

func TestParseScriptErrors(t *testing.T) {
	growing := "otherwise:\n  parts:\n    - call:\n        arguments:\n          a0: &a0 xxxxxxxxxx\n"
	for _, pair := range []string{"01", "12", "23", "34", "45", "56", "67", "78", "89"} {
		growing += "          a" + pair[1:] + ": &a" + pair[1:] + " [" +
			strings.Repeat("*a"+pair[:1]+", ", 10) + "]\n"
	}
	for _, tt := range []struct{ script, want string }{
		{"convesations: []", `line 1, column 1: unknown field "convesations"`},
		{"otherwise:\n  part: []", `line 2, column 3: unknown field "part"`},
		{"otherwise: {parts: [{call: {nam: a}}]}", `line 1, column 29: unknown field "nam"`},
		{"name: a\nname: b", `line 2, column 1: mapping key "name" already defined at [1:1]`},
		{"otherwise: {parts: [{call: {name: a, arguments: {b: 1, b: 2}}}]}",
			`line 1, column 56: mapping key "b" already defined at [1:50]`},
		{"{\"name\": \"\u00e9\",\n \"otherwise\": {\"times\": 1, \"parts\": [], \"times\": 2}}",
			`line 2, column 41: mapping key "times" already defined at [2:16]`},
		{"otherwise: &o {times: 1}\nconversations:\n  - turns:\n      - <<: *o",
			`line 4, column 9: "<<" is not a plain name`},
		{"name: !!str x", "line 1, column 7: the tag !!str is not supported"},
		{"name: *x", "line 1, column 7: *x refers to &x, which is not defined above"},
		{"otherwise: &o\n  parts: [{call: {name: a, arguments: *o}}]",
			"line 2, column 39: *o refers to &o, which is not defined above"},
		{growing, "line 12, column 19: with its aliases written out, it has more than 16777216 bytes"},
		{strings.Repeat("[", 100_000), "line 1, column 201: values are nested more than 200 deep"},
		{strings.Repeat("- ", 100_000), "line 1, column 401: values are nested more than 200 deep"},
		{"name: a\n---\nname: b", "line 3, column 5: a second document begins here"},
		{"name: \xff", "the script is not UTF-8 text"},
		{"# nothing\n", "conversations: the list is empty, and there is no otherwise"},
		{"conversations:\n  - turns:\n    - faults:\n      - {kind: cut}\n      - {kind: status, status: 200}",
			"line 5, column 32: conversations[0].turns[0].faults[1].status: 200 is not between 400 and 599"},
		{"otherwise:\n  parts:\n  - text: ab\n  - {call: {arguments: {}}}",
			"line 4, column 12: otherwise.parts[1].call: name is missing"},
		{"otherwise:\n  delay: 5", `line 2, column 10: "5" is not a duration such as 50ms or 3s`},
		{"otherwise:\n  parts:\n    - {text: a, cut: often}",
			`line 3, column 22: cut: write "every byte" or {at: [3, 8]}`},
	} {
		_, err := ParseScript("s.yaml", []byte(tt.script))
		if wrong := (*ScriptError)(nil); !errors.As(err, &wrong) || err.Error() != "s.yaml: "+
			tt.want {
			t.Errorf("%.200q:\n got %v\nwant %s", tt.script, err, tt.want)
		}
	}
}

func TestPosition(t *testing.T) {
	const script = "conversations:\n  - match: {user: b}\n  - turns:\n      - parts: []\n      - times: 1\n"
	for _, tt := range []struct {
		script, path string
		line, column int
	}{
		{script, "conversations[0].match.user", 2, 19},
		{script, "conversations[1].turns[1]", 5, 9},
		{script, "conversations[1].turns[7]", 4, 7},
		{script, "conversations[1].match.user", 3, 5},
		{script, "others", 0, 0},
		{script, "", 0, 0},
		{"{\"otherwise\": [\n  {\"match\": {\"a\": \"b\"}}]}", "otherwise[0].match.a", 2, 19},
		{"otherwise: [", "otherwise", 0, 0},
		{"", "otherwise", 0, 0},
	} {
		if line, column := Position([]byte(tt.script), tt.path); line != tt.line ||
			column != tt.column {
			t.Errorf("%s in %q: line %d, column %d, want %d, %d", tt.path, tt.script, line, column,
				tt.line, tt.column)
		}
	}
}
