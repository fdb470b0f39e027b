package show

import (
	"strings"
	"testing"
	"time"

	"charm.land/lipgloss/v2"
	"github.com/google/go-cmp/cmp"
)

// The table at the end of a run fits the terminal: titles are shortened first, then columns are
// left out. Ids and states are complete.
func TestTableFits(t *testing.T) {
	rows := [][]string{
		{"TASK", "NOW", "AGENTS", "REWORKS", "TIME", "COST", "TITLE"},
		{"T1", "done", "3", "0", "1m20s", "$0.12", "write the manual"},
		{"sprint2.T14", "needs approval", "12", "4", "1h20m", "-",
			"a title that is much longer than what any terminal of eighty columns has room for"},
		{"T3", "asks Q-1", "0", "0", "-", "-", "翻訳されたタイトルは幅が二倍になるので早く切られなければならない"},
	}
	for _, test := range []struct {
		width int
		want  string
	}{
		{80, `
TASK         NOW             AGENTS  REWORKS  TIME   COST   TITLE
T1           done            3       0        1m20s  $0.12  write the manual
sprint2.T14  needs approval  12      4        1h20m  -      a title that is muc…
T3           asks Q-1        0       0        -      -      翻訳されたタイトル…
`},
		{60, `
TASK         NOW             TIME   COST   TITLE
T1           done            1m20s  $0.12  write the manual
sprint2.T14  needs approval  1h20m  -      a title that is …
T3           asks Q-1        -      -      翻訳されたタイト…
`},
		{36, `
TASK         NOW             TITLE
T1           done            write …
sprint2.T14  needs approval  a titl…
T3           asks Q-1        翻訳さ…
`},
		{30, `
TASK         NOW
T1           done
sprint2.T14  needs approval
T3           asks Q-1
`},
	} {
		lines := Table(rows, test.width)
		if diff := cmp.Diff(test.want, "\n"+strings.Join(lines, "\n")+"\n"); diff != "" {
			t.Errorf("%d columns: %s", test.width, diff)
		}
		for _, line := range lines {
			if got := lipgloss.Width(line); got > test.width {
				t.Errorf("%d columns: a line has %d", test.width, got)
			}
		}
	}
	for i, line := range Table(rows, 0) {
		if !strings.HasSuffix(line, "  "+rows[i][6]) {
			t.Errorf("without a terminal: %q", line)
		}
	}
}

func TestTook(t *testing.T) {
	for d, want := range map[time.Duration]string{-1: "0s", 0: "0s", 400 * time.Microsecond: "0s",
		40 * time.Millisecond: "40ms", 999 * time.Millisecond: "999ms",
		1240 * time.Millisecond: "1.2s",
		9949 * time.Millisecond: "9.9s", 9970 * time.Millisecond: "10.0s",
		38400 * time.Millisecond: "38s", 125 * time.Second: "2m05s"} {
		if got := Took(d); got != want {
			t.Errorf("%s: %s, want %s", d, got, want)
		}
	}
}

func TestColumns(t *testing.T) {
	rows := [][]string{{"A", "B", "C"}, {"aaaa", "bbbb", "cccc"}}
	for width, want := range map[int]string{0: "A     B     C\naaaa  bbbb  cccc",
		16: "A     B     C\naaaa  bbbb  cccc", 15: "A     C\naaaa  cccc", 9: "C\ncccc",
		3: "C\ncc…"} {
		lines, fits := Columns(rows, width, "B", "A")
		if got := strings.Join(lines, "\n"); got != want || fits != (width != 3) {
			t.Errorf("%d columns, fits %t:\n%s", width, fits, got)
		}
	}
}

func TestPack(t *testing.T) {
	texts := []string{"one", "two", "three", "longer than that"}
	for width, want := range map[int]string{9: "one · two|three|longer than that",
		100: "one · two · three · longer than that", 3: "one|two|three|longer than that"} {
		if got := strings.Join(Pack(texts, " · ", width), "|"); got != want {
			t.Errorf("%d columns: %s", width, got)
		}
	}
}
