package config

import (
	"errors"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"signalbox"
	"signalbox/internal/testkit/must"
)

// TestErrors has every error of Parse, and some of the YAML parser. Each case is a text and its
// faults with their hints.
func TestErrors(t *testing.T) {
	data, err := os.ReadFile("testdata/errors.txt")
	must.Succeed(t, err)
	// On Windows, git may have changed the line ends.
	cases := strings.Split(strings.TrimSuffix(strings.ReplaceAll(string(data), "\r\n", "\n"), "\n"),
		"\n\n")[1:]
	if len(cases) < 100 {
		t.Errorf("found %d cases", len(cases))
	}
	for _, each := range cases {
		text, want, ok := strings.Cut(each, "\nerror: ")
		if !ok {
			t.Errorf("not a case: %q", each)
			continue
		}
		checkError(t, text, "error: "+want)
	}
	checkError(t, "slots: \xff",
		"error: line 1, column 8: the file is not UTF-8 text\nhint: save the file as UTF-8")
	checkError(t, "slots: 3\n# \u00e9\xff",
		"error: line 2, column 4: the file is not UTF-8 text\nhint: save the file as UTF-8")
	checkError(t, "agents: {\"a\\nb\": {commmand: [x]}}",
		"error: line 1, column 19: unknown field \"commmand\"\nhint: did you mean command?")
	checkError(t, "agents: {\"a\\nb\": {command: x}}",
		"error: line 1, column 28: agents.a b.command: must be a list\n"+
			"hint: write [one, two], or each item on its own line after a -")
}

func TestEveryFaultIsReported(t *testing.T) {
	checkError(t, "slots: many\nagents:\n  a: {comand: [x]}\nchecks: make\n", `error: line 1, column 8: slots: "many" is not a whole number
hint: write a number such as 5
error: line 3, column 7: unknown field "comand"
hint: did you mean command?
error: line 4, column 9: checks: must be a list
hint: begin each item with a line such as - name: tests, and put its other settings below, indented like name`)
	checkError(t, "agent: nobody\nslots: 0\nchecks: [{name: a}, {name: a, command: make, timeout: 1ms}]\n", `error: line 1, column 8: agent: there is no agent "nobody"
hint: add it under agents, or use one of claude, codex, gemini, opencode
error: line 2, column 8: slots: 0 is not between 1 and 10000
hint: write a number in that range, or remove the line to use the default
error: line 3, column 10: checks.command: must not be empty
hint: write the line that a shell runs, such as go test ./...
error: line 3, column 28: checks.name: "a" is used twice as a name
hint: choose different names
error: line 3, column 55: checks.timeout: 1ms is less than 1s
hint: write a longer time, such as 90s, 15m or 2h`)
}

func checkError(t *testing.T, text, want string) {
	t.Helper()
	_, err := Parse([]byte(text))
	classed, all := (*signalbox.Error)(nil), (*Error)(nil)
	if !errors.As(err, &classed) || !errors.As(err, &all) || classed.Code != signalbox.CodeUsage {
		t.Errorf("%q: error %v, want %s", text, err, want)
		return
	}
	var lines []string
	for i, f := range all.Faults {
		lines = append(lines, "error: "+all.Describe(i), "hint: "+f.Hint)
	}
	if diff := cmp.Diff(want, strings.Join(lines, "\n")); diff != "" {
		t.Errorf("%q (-want +got):\n%s", text, diff)
	}
	if strings.ContainsAny(strings.Join(lines, ""), "\r\n\t") {
		t.Errorf("%q: a fault has more than one line: %q", text, lines)
	}
}
