package crew

import (
	"strings"
	"testing"

	"signalbox/internal/core/rules"
)

func TestLastLines(t *testing.T) {
	many := strings.Repeat("x\ny\n", 20)
	for _, tt := range []struct{ name, errors, want string }{
		{"nothing", "\n \n", ""},
		{"a hint comes after what it is about", "signalbox: no model\nhint: set one\n",
			"signalbox: no model\nhint: set one"},
		{"the last ten", many, strings.TrimSuffix(strings.Repeat("x\ny\n", 5), "\n")},
		{"frames of a stack",
			"Error: no such model\n    at main (a.js:1:2)\n    at run (b.js:3:4)\n    ^^^^\n\nNode.js v22.23.3\n", "Error: no such model"},
		{"a traceback", "Traceback (most recent call last):\n  File \"a.py\", line 3, in main\n    go()\nValueError: no\n", "Traceback (most recent call last):\ngo()\nValueError: no"},
		{"nothing but frames", "   at main\n", "at main"},
		{"repetitions", "retrying\nretrying\nretrying\ngave up\n", "retrying\ngave up"},
		{"colours, a title and a progress bar",
			"\x1b[31mfailed\x1b[0m\n\x1b]0;title\x07 10%\r 20%\rdone\n", "failed\ndone"},
		{"what is not printable", "a\x00b\u202ec\xff\n", "a b c\ufffd"},
		{"long lines", strings.Repeat("a", 800) + "\n" + strings.Repeat("b", 800) + "\n",
			strings.Repeat("b", 800)},
		{"a line that is too long", strings.Repeat("é", 800), strings.Repeat("é", maxErrorBytes/2)},
	} {
		if got := lastLines(tt.errors); got != tt.want {
			t.Errorf("%s: %q, want %q", tt.name, got, tt.want)
		}
	}
}

// A crash is recorded, and asked about, with what the program said before it ended, not only with
// its last line.
func TestCrashSaysWhatTheProgramSaid(t *testing.T) {
	s := set(t, scene{plan: task("T1"), settings: "limits: {timeouts: 1}\n", options: Options{LeaveQuestions: true}, script: `
on developer T1:
    stderr the model frob does not exist
    stderr hint: choose another
    crash 4
`})
	s.begin().end()
	const want = "exit status 4: the model frob does not exist\nhint: choose another"
	if got := only[rules.AgentFailed](s, "T1").Body.Detail; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	if q := only[rules.QuestionAsked](s, "T1").Body.Text; !strings.Contains(q, want) {
		t.Errorf("asked %q", q)
	}
}
