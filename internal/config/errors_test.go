package config

import (
	"errors"
	"os"
	"strings"
	"testing"

	"signalbox"
)

// TestErrors has every error that Parse gives itself, and some of the YAML parser's.
func TestErrors(t *testing.T) {
	text, err := os.ReadFile("testdata/errors.txt")
	if err != nil {
		t.Fatal(err)
	}
	// Windows may have checked it out with other line ends.
	cases := strings.Split(strings.ReplaceAll(string(text), "\r\n", "\n"), "\n\n")[1:]
	if len(cases) < 100 {
		t.Errorf("found %d cases", len(cases))
	}
	for _, each := range cases {
		text, rest, ok := strings.Cut(each, "\nerror: ")
		want, hint, ok2 := strings.Cut(strings.TrimSuffix(rest, "\n"), "\nhint: ")
		if !ok || !ok2 {
			t.Errorf("not a case: %q", each)
			continue
		}
		checkError(t, text, want, hint)
	}
	checkError(t, "slots: \xff", "line 1, column 8: it is not UTF-8 text", "save the file as UTF-8")
	checkError(t, "slots: 3\n# \u00e9\xff", "line 2, column 4: it is not UTF-8 text", "save the file as UTF-8")
	checkError(t, "agents: {\"a\\nb\": {commmand: [x]}}", `line 1, column 19: unknown field "commmand"`, "did you mean command?")
	checkError(t, "agents: {\"a\\nb\": {command: x}}", "line 1, column 28: agents.a b.command: it is not a list",
		"write [one, two], or each on a line of its own that begins with -")
}

func checkError(t *testing.T, text, want, hint string) {
	t.Helper()
	_, err := Parse([]byte(text))
	wrong := (*signalbox.Error)(nil)
	if !errors.As(err, &wrong) {
		t.Errorf("%q: error %v, want %s", text, err, want)
		return
	}
	if wrong.Error() != want || wrong.Hint != hint || wrong.Code != signalbox.CodeUsage {
		t.Errorf("%q:\n got %s\nhint %s\nwant %s\nhint %s", text, wrong, wrong.Hint, want, hint)
	}
	if strings.ContainsAny(wrong.Error()+wrong.Hint, "\r\n\t") {
		t.Errorf("%q: more than one line: %q, %q", text, wrong, wrong.Hint)
	}
}
