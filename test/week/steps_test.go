package week_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"signalbox/internal/testkit/must"
)

func TestSteps(t *testing.T) {
	text := "# Title\n\n" +
		"```console\n$ one | two\nits output\n\nmore\n$ three\n```\n\n" +
		"Write `a.sh`:\n\n```sh a.sh\necho\n```\n\nand `b.yaml`:\n\n```yaml set b.yaml\na: 1\n```\n\n" +
		"```text screen lanes\n T1\n```\n\nNow press `q`, type `yes, please` and press `Enter`. `x` means nothing.\n\n" +
		"```text output\ndone\n```\n\n```sh\nnot a step\n```\n\n```\nneither\n```\n"
	got, err := steps(text)
	must.Succeed(t, err)
	want := []step{
		{kind: kindCommand, name: "one | two", text: "its output\n\nmore\n"},
		{kind: kindCommand, name: "three"},
		{kind: kindFile, name: "a.sh", text: "echo\n"},
		{kind: kindSetting, name: "b.yaml", text: "a: 1\n"},
		{kind: kindScreen, name: "lanes", text: " T1\n"},
		{kind: kindKeys, name: "q"},
		{kind: kindKeys, name: "yes, please"},
		{kind: kindKeys, name: "\r"},
		{kind: kindOutput, text: "done\n"},
	}
	lines := strings.Split(text, "\n")
	for i := range got {
		if s := got[i]; join(lines[s.from:s.to]) != s.text {
			t.Errorf("%q is not in the lines %d to %d", s.text, s.from, s.to)
		}
		got[i].line, got[i].from, got[i].to = 0, 0, 0
	}
	if diff := cmp.Diff(want, got, cmp.AllowUnexported(step{})); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	for bad, want := range map[string]string{
		"```console\n$ a\n":            "line 1: the block has no end",
		"```console\na\n```":           "line 2: output without a command",
		"\npress `escape`":             `line 2: there is no key "escape"`,
		"```text screen middle\n```":   `line 1: a screen has no part "middle"`,
		"Write it:\n\n```sh a\nx\n```": "line 3: the text before the block does not name a",
	} {
		if _, err := steps(bad); err == nil || err.Error() != want {
			t.Errorf("%q: %v, want %s", bad, err, want)
		}
	}
}

func TestRewrite(t *testing.T) {
	const before = "```console\n$ one\nold\n$ two\n```\n\n```text screen\n```\n"
	all, err := steps(before)
	must.Succeed(t, err)
	got := rewrite(before, all[2], "a\nb\n")
	got = rewrite(got, all[0], "new\n")
	if want := "```console\n$ one\nnew\n$ two\n```\n\n```text screen\na\nb\n```\n"; got != want {
		t.Errorf("%s", cmp.Diff(want, got))
	}
}

func TestSet(t *testing.T) {
	got := set("agent: a\nchecks:\n  - name: x\napprove: merge\n",
		"checks:\n  - name: y\nbudget: {}\n")
	if want := "agent: a\nchecks:\n  - name: y\napprove: merge\nbudget: {}\n"; got != want {
		t.Errorf("%s", cmp.Diff(want, got))
	}
}

func TestParts(t *testing.T) {
	const screen = "Plan\n T1\n\n 09:00 T1\n\n╭ 1 question ╮\n│ Q-1        │\n╰────────────╯\n q stops"
	for name, want := range map[string]string{"": screen, "lanes": "Plan\n T1",
		"box": "╭ 1 question ╮\n│ Q-1        │\n╰────────────╯"} {
		if got := parts[name](screen); got != want {
			t.Errorf("%q: %s", name, cmp.Diff(want, got))
		}
	}
	if got := parts["box"]("Plan\n\n q stops"); got != "" {
		t.Errorf("without a box: %q", got)
	}
}
