package payload

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"signalbox/internal/testkit/property"
	"signalbox/transcript/internal/lines"
)

type (
	bodyFields = map[string]any
	bodyRows   = []map[string]string
)

func TestBodyForms(t *testing.T) {
	tests := []struct {
		name, body string
		want       bodyFields
	}{
		{"nothing", "", nil},
		{"white space", " \t\r\n\n  \r\n", nil},
		{"text only", "\nI am done.\nReally.\n\n", bodyFields{"text": "I am done.\nReally."}},
		{"text before a label", "Done.\n\nSummary: all\n",
			bodyFields{"text": "Done.", "Summary": "all"}},
		{"a list before any label is text", "- a\n- b\n", bodyFields{"text": "- a\n- b"}},
		{"text after the colon", "Summary: one  \nSummary line two\n\n",
			bodyFields{"Summary": "one\nSummary line two"}},
		{"text on its own line", "Summary:\none\n\ntwo\n\n\nPriority: HIGH",
			bodyFields{"Summary": "one\n\ntwo", "Priority": "HIGH"}},
		{"indentation of code stays", "Output:\n\n    exit 1\n  x \t\n",
			bodyFields{"Output": "    exit 1\n  x"}},
		{"label without content", "Blockers:\n\nSummary:",
			bodyFields{"Blockers": "", "Summary": ""}},
		{"CRLF", "Summary: a\r\nb\r\n\r\nFiles Modified:\r\n- x\r\n- y\r\n",
			bodyFields{"Summary": "a\nb", "Files Modified": []string{"x", "y"}}},
		{"a CR within a line stays", "Summary: a\rb\n", bodyFields{"Summary": "a\rb"}},
		{"each invalid byte", "Summary: a\xff\xfeb\xe2\x82\n",
			bodyFields{"Summary": "a\ufffd\ufffdb\ufffd\ufffd"}},
		{"repeated label", "Summary: a\nPriority: LOW\nsummary: b\n",
			bodyFields{"Summary": "a\nb", "Priority": "LOW"}},
		{"repeated list", "Files Modified:\n- a\nPriority: LOW\nFiles Modified:\n- b\n",
			bodyFields{"Files Modified": []string{"a", "b"}, "Priority": "LOW"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) { wantBody(t, tt.body, tt.want) })
	}
}

func TestBodyLabels(t *testing.T) {
	tests := []struct {
		line string
		name string // "" if the line is not a label
		text string
	}{
		{"files modified: x", "Files Modified", "x"},
		{"WHAT WOULD HELP:", "What Would Help", ""},
		{"pre-Existing failures: x", "Pre-existing Failures", "x"},
		{"Progress:50%", "Progress", "50%"},
		{"**Summary:** x", "Summary", "x"},
		{"**summary**: x", "Summary", "x"},
		{"**Summary:**", "Summary", ""},
		{"**My Notes:** x", "My Notes", "x"},
		{"**My Notes**: x", "My Notes", "x"},
		{"Notes (draft/v2) a_b-c:\tx", "Notes (draft/v2) a_b-c", "x"},
		{"Übersicht: x", "Übersicht", "x"},
		{"One two three four five: x", "One two three four five", "x"},
		{strings.Repeat("A", 64) + ": x", strings.Repeat("A", 64), "x"},

		{"One two three four five six: x", "", ""},
		{strings.Repeat("A", 65) + ": x", "", ""},
		{"notes: x", "", ""},
		{"übersicht: x", "", ""},
		{"Notes:x", "", ""},
		{"Notes : x", "", ""},
		{"Summary : x", "", ""},
		{" Summary: x", "", ""},
		{"- Summary: x", "", ""},
		{"# Summary: x", "", ""},
		{"**Summary: x", "", ""},
		{"**Summary: x**", "", ""},
		{"Command::new(x)", "", ""},
		{"task := next()", "", ""},
		{"output://x", "", ""},
		{"Mr. Smith: x", "", ""},
		{"1st: x", "", ""},
		{": x", "", ""},
		{"**: x", "", ""},
		{"Summary", "", ""},
	}
	for _, tt := range tests {
		t.Run(tt.line, func(t *testing.T) {
			want := bodyFields{tt.name: tt.text}
			if tt.name == "" {
				want = bodyFields{"text": tt.line}
			}
			wantBody(t, tt.line+"\n", want)
		})
	}
}

func TestBodyDocumentedLabels(t *testing.T) {
	// The fields in the coordinator's rules, for all signals, experts and questions.
	documented := `Files Modified|Tests Written|Environment Verification Matrix|Environments Tested|Expert Consultation|Summary|
Blocker|Attempted|Needed|Progress|Blocked By|Issue|Command|Output|Environment|Files Reviewed|Quality Assessment|Issues Found|
Required Fixes|Priority|Requirements Verification|Failed Criteria|Passing Criteria|Pre-existing Failures|Confidence|
Expanded Specification|Acceptance Criteria|Technical Approach|Target Files|Assumptions|Edge Cases|Issues Fixed|
Verification Results|Failed Checks|Target Agent|Request Type|Context Snapshot|Task|Question|Context|Options Considered|
Attempts Made|What Would Help|Current Activity|Blockers|Estimated Remaining|Estimated Progress|
Delegation Prompt|Gap|Keywords`
	for label := range strings.SplitSeq(strings.ReplaceAll(documented, "\n", ""), "|") {
		wantBody(t, strings.ToLower(label)+": x", bodyFields{label: "x"})
	}
}

func TestBodyLists(t *testing.T) {
	tests := []struct {
		name, body string
		want       []string
	}{
		{"bullets", "- a\n* b\n+ c\n", []string{"a", "b", "c"}},
		{"numbers", "1. a\n2) b\n10. c\n", []string{"a", "b", "c"}},
		{"indented", "  - a\n  - b\n", []string{"a", "b"}},
		{"findings keep their colons", "- a.go:12: Note: bad\n- b.go:1: worse\n",
			[]string{"a.go:12: Note: bad", "b.go:1: worse"}},
		{"continuation", "- a\n  more\n- b\n\n  after a gap\n c\n",
			[]string{"a\nmore", "b\n\nafter a gap\nc"}},
		{"nested", "- a\n  - b\n    - c\n- d\n", []string{"a\n- b\n  - c", "d"}},
		{"nested by tab", "1. a\n\t- b\n2. c\n", []string{"a\n - b", "c"}},
		{"wide marker", "-   a\n    b\n  - c\n", []string{"a\nb", "c"}},
		{"blank lines between", "- a\n\n- b\n\n\n- c\n", []string{"a", "b", "c"}},
		{"text first", "three of them,\nno more:\n- a\n- b\n",
			[]string{"three of them,\nno more:", "a", "b"}},
		{"a remark is an item of its own", "- a.go\nAll good.\nReally.\n- b.go\n\nBye.\n",
			[]string{"a.go", "All good.\nReally.", "b.go", "Bye."}},
		{"task list", "- [x] a\n- [ ] b\n", []string{"[x] a", "[ ] b"}},
		{"a fence belongs to the item", "- run\n```sh\n- not an item\nSummary: no\n```\n- b\n",
			[]string{"run\n```sh\n- not an item\nSummary: no\n```", "b"}},
		{"an indented fence too", "- run\n  ```\n  x\n  ```\n- b\n",
			[]string{"run\n```\nx\n```", "b"}},
		{"empty items", "-\n- a\n-   \n", []string{"a"}},
		{"only empty items", "-\n", []string{}},
		{"marker, then text below", "-\n  a\n", []string{"a"}},
		{"items with pipes", "- a | b\n- |\n- c | d\n", []string{"a | b", "|", "c | d"}},
		{"a nested table is text", "- a\n  | x | y |\n  |---|---|\n",
			[]string{"a\n| x | y |\n|---|---|"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(
			t *testing.T) {
			wantBody(t, "Issues Found:\n"+tt.body, bodyFields{"Issues Found": tt.want})
		})
	}
	t.Run("text after the label is the first item", func(t *testing.T) {
		wantBody(t, "Issues Found: two\n- a\n- b\n",
			bodyFields{"Issues Found": []string{"two", "a", "b"}})
		wantBody(t, "Issues Found: - a\n- b\n", bodyFields{"Issues Found": []string{"- a", "b"}})
	})
	for _, text := range []string{"-a", "1.a", "1 a", "1234567890. a", "*a*", "---", "– a", ". a"} {
		t.Run("no item: "+text,
			func(t *testing.T) { wantBody(t, "Issue:\n"+text, bodyFields{"Issue": text}) })
	}
	t.Run("an item of nine digits",
		func(t *testing.T) { wantBody(t, "Issue:\n123456789. a", bodyFields{"Issue": []string{"a"}}) })
}

func TestBodyTables(t *testing.T) {
	header := "| Check | Environment | Exit Code | Result |\n|---|:--:|---:|:---|\n"
	row := func(check, env, code, result string) map[string]string {
		return map[string]string{"Check": check, "Environment": env, "Exit Code": code,
			"Result": result}
	}
	tests := []struct {
		name, body string
		want       any
	}{
		{"matrix", header + "| unit tests | linux amd64 | 0 | PASS |\n| lint | mac | -1 | FAIL |\n",
			bodyRows{row("unit tests", "linux amd64", "0", "PASS"),
				row("lint", "mac", "-1", "FAIL")}},
		{"no outer pipes", "A | B\n--- | ---\n1 | 2\n", bodyRows{{"A": "1", "B": "2"}}},
		{"no separator", "| A | B |\n| 1 | 2 |\n", bodyRows{{"A": "1", "B": "2"}}},
		{"indented, with blank lines", "\n  | A |\n  |-|\n\n  | 1 |\n", bodyRows{{"A": "1"}}},
		{"one dash is a separator once", "| A |\n|-|\n|-|\n", bodyRows{{"A": "-"}}},
		{"no rows", header, bodyRows{}},
		{"escaped pipe", "| A | B |\n|---|---|\n| a \\| b | c\\|\n",
			bodyRows{{"A": "a | b", "B": "c|"}}},
		{"missing and empty cells", header + "| a |\n| | b\n",
			bodyRows{{"Check": "a"}, {"Check": "", "Environment": "b"}}},
		{"cells beyond the header",
			"| A | B |\n|---|---|\n| 1 | 2 | | 3 | 4 |\n| 1 | | 3 |\n| 1 | 2 | |\n",
			bodyRows{{"A": "1", "B": "2 | 3 | 4"}, {"A": "1", "B": "3"}, {"A": "1", "B": "2"}}},
		{"a name twice", "| A | A |\n|---|---|\n| 1 | 2 |\n", bodyRows{{"A": "1 | 2"}}},
		{"a column without a name", "| | mac |\n|---|---|\n| lint | 0 |\n",
			bodyRows{{"": "lint", "mac": "0"}}},

		{"mixed with text", "| A |\n|---|\n| 1 |\n\nAll pass.\n",
			"| A |\n|---|\n| 1 |\n\nAll pass."},
		{"mixed with an item that has cells", "| A |\n|---|\n- 1 |\n", "| A |\n|---|\n- 1 |"},
		{"mixed with a list", "- a\n\n| A |\n|---|\n| 1 |\n", "- a\n\n| A |\n|---|\n| 1 |"},
		{"fenced", "```\n| A |\n|---|\n| 1 |\n```\n", "```\n| A |\n|---|\n| 1 |\n```"},
		{"fenced, with pipes in the fence itself", "~~~ a|b\n|---|\n| 1 |\n",
			"~~~ a|b\n|---|\n| 1 |"},
		{"a pipeline", "cat x | wc\ncat y | wc\n", "cat x | wc\ncat y | wc"},
		{"a line with pipes", "| a | b |\n", "| a | b |"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(
			t *testing.T) {
			wantBody(t, "Output:\n"+tt.body, bodyFields{"Output": tt.want})
		})
	}
	t.Run("the header may follow the label", func(t *testing.T) {
		wantBody(t, "Output: - | B\n--|--\n1 | 2\n",
			bodyFields{"Output": bodyRows{{"-": "1", "B": "2"}}})
	})
	t.Run("mixed with the label's text", func(t *testing.T) {
		wantBody(t, "Output: see\n| A |\n|---|\n| 1 |\n",
			bodyFields{"Output": "see\n| A |\n|---|\n| 1 |"})
	})
}

func TestBodyFences(t *testing.T) {
	tests := []struct{ name, body string }{
		{"labels inside are text", "```\nSummary: no\n```"},
		{"tildes, longer close", "~~~ sh\n```\nSummary: no\n~~~~~  "},
		{"shorter fence does not close", "````\n```\nSummary: no\n````"},
		{"a close takes no info", "```\n``` x\nSummary: no\n```"},
		{"three spaces of indent", "   ```\nSummary: no\n   ```"},
		{"unclosed", "```\nSummary: no\n- x\n" + lines.DelegationStart + "\nx\n" +
			lines.DelegationEnd},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			want := strings.TrimRight(tt.body, " ")
			wantBody(t, tt.body+"\n", bodyFields{"text": want})
			wantBody(t, "Output:\n"+tt.body+"\n", bodyFields{"Output": want})
		})
	}
	t.Run("labels count after it", func(t *testing.T) {
		wantBody(t, "```\nx\n```\nSummary: yes\n",
			bodyFields{"text": "```\nx\n```", "Summary": "yes"})
		wantBody(t, "    ```\nSummary: yes\n", bodyFields{"text": "    ```", "Summary": "yes"})
		wantBody(t, "```a`\nSummary: yes\n", bodyFields{"text": "```a`", "Summary": "yes"})
	})
}

func TestBodyDelegation(t *testing.T) {
	prompt := "You are X.\n\nSummary: of theirs\n- a\n```\n" + lines.DelegationEnd +
		"\n```\n| A |\n  end"
	body := "Target Agent: x\nRequest Type: advice\nContext Snapshot:\n- a\n- b\n\n" +
		lines.DelegationStart + " \t\n\n" + prompt + "\n\n" + lines.DelegationEnd +
		"  \nThat is all.\n"
	want := bodyFields{"Target Agent": "x", "Request Type": "advice",
		"Context Snapshot":  []string{"a", "b"},
		"Delegation Prompt": prompt, "text": "That is all."}
	wantBody(t, body, want)
	wantBody(t, strings.ReplaceAll(body, "\n", "\r\n"), want)

	t.Run("without an end", func(t *testing.T) {
		wantBody(t, lines.DelegationStart+"\nSummary: x\n",
			bodyFields{"Delegation Prompt": "Summary: x"})
	})
	t.Run("a list only is verbatim", func(t *testing.T) {
		wantBody(t, lines.DelegationStart+"\n- a\n- b\n",
			bodyFields{"Delegation Prompt": "- a\n- b"})
	})
	t.Run("an end alone, or an indented start, is text", func(t *testing.T) {
		wantBody(t, lines.DelegationEnd+"\n "+lines.DelegationStart+"\nSummary: x",
			bodyFields{"text": lines.DelegationEnd + "\n " + lines.DelegationStart, "Summary": "x"})
	})
}

func TestBodySubTasks(t *testing.T) {
	body := `Confidence: HIGH
Assumptions:
- none

SUB-TASK: t1.1 Read the file
Why first.
Acceptance Criteria:
- reads
Blocked By: none
sub-task: t1.2: Write it
Acceptance Criteria:
- writes
- syncs
**SUB-TASK:** t1.3
`
	wantBody(t, body, bodyFields{
		"Confidence":  "HIGH",
		"Assumptions": []string{"none"},
		"SUB-TASK": []map[string]any{
			{"id": "t1.1", "title": "Read the file", "text": "Why first.",
				"Acceptance Criteria": []string{"reads"}, "Blocked By": "none"},
			{"id": "t1.2", "title": "Write it", "Acceptance Criteria": []string{"writes", "syncs"}},
			{"id": "t1.3", "title": ""},
		},
	})
	wantBody(t, "SUB-TASK:\n", bodyFields{"SUB-TASK": []map[string]any{{"id": "", "title": ""}}})
}

func TestBodyExamples(t *testing.T) {
	wantBody(t, `
**Files Modified:**
- main.go
- main_test.go

**Environment Verification Matrix:**

| Check | Environment | Exit Code | Result |
|-------|-------------|-----------|--------|
| go test | linux | 0 | PASS |

**Summary**: Added the flag.
It is off by default.
`, bodyFields{
		"Files Modified": []string{"main.go", "main_test.go"},
		"Environment Verification Matrix": bodyRows{
			{"Check": "go test", "Environment": "linux", "Exit Code": "0", "Result": "PASS"}},
		"Summary": "Added the flag.\nIt is off by default.",
	})
	wantBody(t, "Task: t1\nQuestion: Which one?\nContext: two exist\nOptions Considered:\n1. a\n2. b\nAttempts Made: none\nWhat Would Help: a name\n",
		bodyFields{"Task": "t1", "Question": "Which one?", "Context": "two exist",
			"Options Considered": []string{"a", "b"},
			"Attempts Made":      "none", "What Would Help": "a name"})
	wantBody(t, "Current Activity: tests\nEstimated Progress: 40%\n",
		bodyFields{"Current Activity": "tests", "Estimated Progress": "40%"})
}

func wantBody(t *testing.T, body string, want bodyFields) {
	t.Helper()
	if diff := cmp.Diff(want, Body([]byte(body))); diff != "" {
		t.Errorf("Body(%q) (-want +got):\n%s", body, diff)
	}
}

// The lines of a field may be anything that does not open a fence and has no white space around it.
var bodyItemLine = rapid.StringMatching(`[-+*|#a-zA-Z0-9:.é]([-+*|a-z0-9:.é ]{0,12}[-a-z:|])?`)

func TestBodyListRoundTrip(t *testing.T) {
	property.Check(t, func(t *rapid.T) {
		labels := rapid.SliceOfNDistinct(rapid.OneOf(
			rapid.SampledFrom(slices.DeleteFunc(slices.Clone(bodyLabels[:]),
				func(l string) bool { return l == bodySubTask })),
			rapid.StringMatching(`X[a-z]{0,5}( [A-Za-z0-9_/()-]{1,8}){0,4}`),
		), 1, 6, rapid.ID).Draw(t, "labels")
		newline := rapid.SampledFrom([]string{"\n", "\r\n"}).Draw(t, "newline")
		want := bodyFields{}
		var lines []string
		for _, label := range labels {
			items := rapid.SliceOfN(rapid.SliceOfN(bodyItemLine, 1, 3), 1, 5).Draw(t, label)
			form := rapid.SampledFrom([]string{"%s:", "**%s:**", "**%s**:", "%s: "}).Draw(t, "form")
			marker := rapid.SampledFrom([]string{"-", "*", "+", "1.", "12)"}).Draw(t, "marker")
			lines = append(lines, fmt.Sprintf(form, label))
			var texts []string
			for _, item := range items {
				lines = append(lines, marker+" "+item[0])
				for _, more := range item[1:] {
					lines = append(lines, strings.Repeat(" ", len(marker)+1)+more)
				}
				if rapid.Bool().Draw(t, "gap") {
					lines = append(lines, "")
				}
				texts = append(texts, strings.Join(item, "\n"))
			}
			want[label] = texts
		}
		body := strings.Join(lines, newline)
		if diff := cmp.Diff(want, Body([]byte(body))); diff != "" {
			t.Fatalf("Body(%q) (-want +got):\n%s", body, diff)
		}
	})
}

func TestBodyTableRoundTrip(t *testing.T) {
	cell := rapid.StringMatching(`([a-z0-9|\\é-]([a-z0-9| é-]{0,8}[a-z0-9|é])?)?`)
	property.Check(t, func(t *rapid.T) {
		header := rapid.SliceOfNDistinct(rapid.StringMatching(`[A-Z][a-z ]{0,5}[a-z]`), 1, 5,
			rapid.ID).Draw(t, "header")
		n := rapid.IntRange(0, 5).Draw(t, "rows")
		lines := []string{"| " + strings.Join(header, " | ") + " |",
			strings.Repeat("|---", len(header)) + "|"}
		want := make(bodyRows, n)
		for i := range n {
			want[i] = map[string]string{}
			line := "|"
			for _, name := range header {
				text := cell.Draw(t, "cell")
				want[i][name] = text
				line += " " + strings.ReplaceAll(text, "|", `\|`) + " |"
			}
			lines = append(lines, line)
		}
		body := "Failed Checks:\n" + strings.Join(lines, "\n")
		if diff := cmp.Diff(bodyFields{"Failed Checks": want}, Body([]byte(body))); diff != "" {
			t.Fatalf("Body(%q) (-want +got):\n%s", body, diff)
		}
	})
}

// Repetition is likely to confuse a parser.
func TestBodyRepetition(t *testing.T) {
	const size = 16 << 10
	var wide strings.Builder
	for i := 0; wide.Len() < size; i++ {
		fmt.Fprintf(&wide, "|%x", i)
	}
	prefixes := []string{"", "Output:\n- a\n", "Output:\n|a|b|\n|---|---|\n", "Output:\n" + wide.String() + "\n|-|\n"}
	units := []string{"\n", "a:\n", "A: b\n", "- \n", "- a\n  b\n", "|", "|a", "||\n", "|a|\n", "|-|\n", "```\n", "~", "SUB-TASK: x\n",
		"\t", "\t\n", "**", "A ", "\xff", "1", lines.DelegationStart + "\n" + lines.DelegationEnd +
			"\n", "\\|"}
	for _, prefix := range prefixes {
		for _, unit := range units {
			checkBody(t, []byte(prefix+strings.Repeat(unit, size/len(unit))))
		}
	}
}

func FuzzBody(f *testing.F) {
	f.Fuzz(checkBody)
}

// checkBody checks what holds for every body.
func checkBody(t *testing.T, b []byte) {
	t.Helper()
	body := Body(b)
	if blank := len(bytes.TrimSpace(b)) == 0; blank != (body == nil) || !blank && len(body) == 0 {
		t.Fatalf("blank is %v, body is %v", blank, body)
	}
	checkBodyValue(t, body)
	if bytes.IndexByte(b, '\r') < 0 {
		crlf := Body(bytes.ReplaceAll(b, []byte("\n"), []byte("\r\n")))
		if diff := cmp.Diff(body, crlf); diff != "" {
			t.Errorf("with CRLF (-LF +CRLF):\n%s", diff)
		}
	}
}

func checkBodyValue(t *testing.T, value any) {
	t.Helper()
	switch v := value.(type) {
	case string:
		if !utf8.ValidString(v) || strings.TrimRight(v, " \t\r\n") != v ||
			strings.HasPrefix(v, "\n") {
			t.Errorf("string %q is not UTF-8 or not trimmed", v)
		}
	case []string:
		for _, item := range v {
			if item == "" {
				t.Errorf("an empty item in %q", v)
			}
			checkBodyValue(t, item)
		}
	case []map[string]string:
		for _, row := range v {
			for name, cell := range row {
				checkBodyValue(t, name)
				checkBodyValue(t, cell)
			}
		}
	case map[string]any:
		for name, field := range v {
			checkBodyValue(t, name)
			_, tasks := field.([]map[string]any)
			if tasks != (name == bodySubTask) {
				t.Errorf("%q is %T", name, field)
			}
			checkBodyValue(t, field)
		}
	case []map[string]any:
		for _, task := range v {
			checkBodyValue(t, task)
		}
	default:
		t.Errorf("a body has a %T", v)
	}
}

// A parsed body must not take many times its size in memory.
func TestBodyLimits(t *testing.T) {
	table := Body([]byte("Summary:\n| a |\n|---|\n" + strings.Repeat("| b |\n", 10_000)))
	if text, ok := table["Summary"].(string); !ok || strings.Count(text, "| b |") != 10_000 {
		t.Errorf("a table of 10,000 rows is a %T", table["Summary"])
	}
	var labels strings.Builder
	for i := range 10_000 {
		fmt.Fprintf(&labels, "L%d: x\n", i)
	}
	if got := Body([]byte(labels.String())); len(got) > maxFields+1 {
		t.Errorf("%d fields", len(got))
	}
}
