package render

import (
	"fmt"
	"strings"
	"testing"

	"signalbox"
	"signalbox/internal/run/inspect"
	"signalbox/internal/testkit/must"
)

func TestDetailsHaveTheText(t *testing.T) {
	lines := func(n int) string {
		var all strings.Builder
		for i := range n {
			fmt.Fprintf(&all, "line %d\n", i+1)
		}
		return strings.TrimSuffix(all.String(), "\n")
	}
	head, tail := "work          T3\ntitle         Count\n", "phase         IMPLEMENTATION\n"
	indented := func(words string) string { return "\n    " + strings.ReplaceAll(words, "\n", "\n    ") + "\n\n" }
	for name, tt := range map[string]struct {
		text, want string
		width      int
	}{
		"none": {},
		"short": {text: "**Work**: count\n\n- [ ] it counts\n\tfast",
			want: "\n    **Work**: count\n\n    - [ ] it counts\n        fast\n\n"},
		"hostile": {text: "a\x1b[31mb\u202e\nphase  COMPLETED",
			want: "\n    a\\x1b[31mb\\u202e\n    phase  COMPLETED\n\n"},
		"full": {text: lines(30), want: indented(lines(30))},
		"one more": {text: lines(31),
			want: indented(lines(30) + "\n… (1 more line: signalbox work show T3 --json)")},
		"many": {text: lines(90),
			want: indented(lines(30) + "\n… (60 more lines: signalbox work show T3 --json)")},
		"a long line on a terminal": {text: strings.Repeat("word ", 500), width: 44,
			want: indented(strings.TrimSuffix(
				strings.Repeat("word word word word word word word word\n", 30), "\n") +
				"\n… (33 more lines: signalbox work show T3 --json)")},
	} {
		var out strings.Builder
		must.Succeed(t, Details(&out, &inspect.Details{ID: "T3", Title: "Count",
			Phase: signalbox.PhaseImplementation, Text: tt.text},
			Options{Width: tt.width}))
		if want := head + tt.want + tail; out.String() != want {
			t.Errorf("%s:\n%s\nwant:\n%s", name, out.String(), want)
		}
	}
}
