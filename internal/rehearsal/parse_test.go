package rehearsal

import (
	"errors"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"signalbox"
	"signalbox/internal/testkit/must"
)

func TestSections(t *testing.T) {
	script, err := Parse("s", []byte(`# a comment
on developer T1 attempt 1: # and another
  say one
    # no comment but a line of the step
  # a comment

on developer T1 attempt 2+:
	say tab
on expert,security X-*:
on critic *:
on *:
`))
	must.Succeed(t, err)
	var heads []string
	for i := range script.Sections {
		heads = append(heads, script.Sections[i].String())
	}
	want := []string{"on developer T1 attempt 1:", "on developer T1 attempt 2+:", "on expert,security X-*:", "on critic:", "on *:"}
	if diff := cmp.Diff(want, heads); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if n := len(script.Sections[0].Steps); n != 1 {
		t.Errorf("%d steps", n)
	}
	for _, test := range []struct {
		role, task string
		attempt    int
		line       int
	}{
		{"developer", "T1", 1, 2}, {"developer", "T1", 2, 7}, {"developer", "T1", 9, 7},
		{"developer", "T2", 1, 11},
		{"expert", "X-12", 1, 9}, {"security", "X-1", 3, 9}, {"security", "T1", 1, 11},
		{"critic", "a/b", 1, 10}, {"", "", 1, 11},
	} {
		found, err := script.Find(test.role, test.task, test.attempt)
		if err != nil || found.Line != test.line {
			t.Errorf("%v: %+v, %v", test, found, err)
		}
	}
	script.Sections = script.Sections[:2]
	classed := (*signalbox.Error)(nil)
	if _, err := script.Find("critic", "T1", 1); !errors.As(err, &classed) ||
		classed.Code != signalbox.CodeNotFound {
		t.Error(err)
	}
}

func TestParseErrors(t *testing.T) {
	const head = "on *:\n    "
	for _, test := range []struct{ script, want, hint string }{
		{"", "s: the script has no section", "begin one with"},
		{"\xff", "s: the script is not UTF-8 text", "bytes HEX"},
		{strings.Repeat("#", maxScript+1), "s: the script has more than", "the right file"},
		{"    say hi\n", "s:1: a step before the first section", "on developer T1:"},
		{"say hi\n", `s:1: "say hi" does not begin a section`, "indent"},
		{"on critic: say hi\n", `s:1: "on critic: say hi" does not begin a section`, "on ROLE"},
		{":\n", "s:1:", "on ROLE"},
		{"on:\n", `s:1: "on:" does not begin a section`, "on ROLE"},
		{"on a b c:\n", `s:1: "on a b c:" does not begin a section`, "on ROLE"},
		{"on a attempt x:\n", "s:1: attempt is not followed by a number", "attempt 2+"},
		{"on a attempt 0:\n", "s:1: attempt is not followed by a number", "attempt 2+"},
		{"on a attempt:\n", "s:1: attempt is not followed by a number", "attempt 2+"},
		{"on a,,b:\n", `s:1: "" is not a pattern`, "R-*"},
		{"on [:\n", `s:1: "[" is not a pattern`, "R-*"},
		{head + "sya hi\n", `s:2: unknown step "sya"`, "append, ask, bytes"},
		{head + "say\n", "s:2: say: the argument is missing", "write say TEXT"},
		{head + "say hello <<END\nEND\n", `s:2: say: "hello" before <<`, "write say TEXT"},
		{head + "write a <<END\nb\n", "s:2: no line END ends the text", "with a line END"},
		{head + "write a b <<END\nb\nEND\n", `s:2: write: "b" before <<`, "write FILE <<END"},
		{head + "write a\n", "s:2: write: the argument is missing", "write FILE TEXT"},
		{head + "read\n", "s:2: read: the argument is missing", "write read FILE"},
		{head + "read a\n        b\n", "s:2: read takes no indented lines", "the same amount"},
		{head + "read <<END\nEND\n", "s:2: read takes no <<text", "write read FILE"},
		{head + "signal READY_FOR_REVIEW\n", `s:2: signal: "READY_FOR_REVIEW" is not a signal`,
			"use say"},
		{head + "signal **CHECKPOINT: {task}**\n",
			`s:2: signal: "**CHECKPOINT: {task}**" is not a signal`, "use say"},
		{head + "exit {}\n", "s:2: exit: invalid JSON", "use say"},
		{head + "bytes e2 8\n", `s:2: bytes: "e2 8" is not pairs`, "bytes e282"},
		{head + "replace a b c\n", "s:2: replace: the arguments are wrong", `"OLD" "NEW"`},
		{head + `replace a "b"` + "\n", "s:2: replace: the arguments are wrong", `"OLD" "NEW"`},
		{head + `replace a "" "c"` + "\n", "s:2: replace: the arguments are wrong", `"OLD" "NEW"`},
		{head + `replace a "b" "c" d` + "\n", "s:2: replace: the arguments are wrong",
			`"OLD" "NEW"`},
		{head + "expect\n", "s:2: expect: the argument is missing", `expect "TEXT"`},
		{head + "usage 1\n", "s:2: usage: the arguments are wrong", "INPUT OUTPUT"},
		{head + "usage 1 -2\n", `s:2: usage: "-2" is not a number`, "INPUT OUTPUT"},
		{head + "usage 1 2 NaN\n", `s:2: usage: "NaN" is not a number`, "INPUT OUTPUT"},
		{head + "usage 1 2 -3\n", `s:2: usage: "-3" is not a number`, "INPUT OUTPUT"},
		{head + "wait soon\n", `s:2: wait: "soon" is not a duration`, "wait for FILE"},
		{head + "wait -1s\n", `s:2: wait: "-1s" is not a duration`, "wait for FILE"},
		{head + "end now\n", `s:2: end: unexpected argument "now"`, "write end"},
		{head + "exit-code 256\n", `s:2: exit-code: "256" is not an exit status`, "0 to 255"},
		{head + "crash x\n", `s:2: crash: "x" is not an exit status`, "crash [CODE]"},
		{head + "hang out\n", "s:2: hang: the arguments are wrong", "hang after result"},
		{head + "ignore KILL\n", "s:2: ignore: the arguments are wrong", "ignore TERM"},
		{head + "fork\n", "s:2: fork: the argument is missing", "fork N"},
		{head + "fork 0\n", `s:2: fork: "0" is not a number of children`, "fork N"},
		{head + "fork 1 off\n", "s:2: fork: the arguments are wrong", "fork N"},
		{head + "flood much\n", `s:2: flood: "much" is not a size`, "flood 1GB"},
		{head + "flood 10000000000GB\n", `s:2: flood: "10000000000GB" is not a size`, "flood 1GB"},
		{head + "ratelimit 0s\n", `s:2: ratelimit: "0s" is not a duration`, "ratelimit none"},
	} {
		_, err := Parse("s", []byte(test.script))
		classed := (*signalbox.Error)(nil)
		if !errors.As(err, &classed) || !strings.HasPrefix(err.Error(), test.want) ||
			!strings.Contains(classed.Hint, test.hint) {
			t.Errorf("%.40q: %v; hint %v", test.script, err, classed)
		}
	}
}

// TestReferenceListsEveryStep checks that the reference has every step.
func TestReferenceListsEveryStep(t *testing.T) {
	document, err := os.ReadFile("../../docs/reference/rehearsal.md")
	must.Succeed(t, err)
	for name := range verbs {
		if !strings.Contains(string(document), "| `"+name) {
			t.Errorf("docs/reference/rehearsal.md does not explain %s", name)
		}
	}
}

func FuzzParse(f *testing.F) {
	demo, err := os.ReadFile("demo/agents.script")
	must.Succeed(f, err)
	f.Add(demo)
	for name, v := range verbs {
		f.Add([]byte("on *:\n    " + v.form + "\n        more\n    " + name + " a <<END\nEND\n"))
	}
	f.Add([]byte("on a,b c* attempt 2+:\r\n\tsay x\r\n\r\n\t\ty\r\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		script, err := Parse("s", text)
		if err != nil {
			classed := (*signalbox.Error)(nil)
			if !errors.As(err, &classed) || classed.Hint == "" {
				t.Errorf("%v has no hint", err)
			}
			return
		}
		for i := range script.Sections {
			head := script.Sections[i].String()
			again, err := Parse("s", []byte(head))
			if err != nil || again.Sections[0].String() != head {
				t.Errorf("%q: %v", head, err)
			}
			if _, err := script.Find("developer", "T1", 1); err != nil && head == "on *:" {
				t.Errorf("no section matches in %q", text)
			}
		}
	})
}
