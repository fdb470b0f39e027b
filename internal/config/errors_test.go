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
	// What cannot be read does not hide what is not valid, and does not add to it.
	checkError(t, `agnt: claude
agents: {fast: {comand: [x]}, slow: {command: []}}
checks: [{nam: tests, command: make, environments: [mac]}, {name: a, command: b}]
environments: mac
agent: fast
slots: 3
slots: 0
limits: {file: 12XB, reviews: -1}
deliver: pullrequest
sandbox: lose
`, `error: line 1, column 1: unknown field "agnt"
hint: did you mean agent?
error: line 2, column 17: unknown field "comand"
hint: did you mean command?
error: line 2, column 37: agents.slow: needs preset, command or tree
hint: add preset: with one of claude, codex, gemini, opencode, or command: [program, argument], or tree: with a file
error: line 3, column 11: unknown field "nam"
hint: did you mean name?
error: line 4, column 15: environments: must be a list
hint: begin each item with a line such as - name: tests, and put its other settings below, indented like name
error: line 7, column 1: slots: set twice, first on line 6
hint: keep one of them
error: line 8, column 16: limits.file: "12XB" is not a size
hint: write a size such as 512MB or 4GB
error: line 8, column 31: limits.reviews: -1 is not between 1 and 1000000
hint: write a number in that range, or remove the line to use the default
error: line 9, column 10: deliver.as: "pullrequest" is not a way to deliver work
hint: write merge, branch, push, pull-request
error: line 10, column 10: sandbox: "lose" is not a mode of the sandbox
hint: write enforce, warn, off`)
}

// A budget that is one value is in dollars.
func TestBudgetInDollars(t *testing.T) {
	c, err := Parse([]byte("budget: {run: 5, task: $2.50}\nroles: {critic: {budget: 1}}"))
	must.Succeed(t, err)
	want := Budgets{Run: Budget{CostMicros: 5_000_000}, Task: Budget{CostMicros: 2_500_000}}
	if c.Budget != want || c.Roles["critic"].Budget.CostMicros != 1_000_000 {
		t.Errorf("%+v, %+v", c.Budget, c.Roles["critic"].Budget)
	}
	checkError(t, "budget: {run: 200k tokens}", `error: line 1, column 15: budget.run: `+
		`"200k tokens" is not an amount of money`+"\nhint: write dollars, such as 12.50")
}

// The faults of a box are not hidden by those of its team.
func TestFaultsOfTeamAndBox(t *testing.T) {
	dir := t.TempDir()
	must.Succeed(t, os.WriteFile(dir+"/"+FileName, []byte("slots: many\n"), 0o600))
	_, err := LoadTeam(dir, &Team{Name: "team.yaml", Text: []byte("agnt: x\ndeliver: soon\n")})
	want := `team.yaml: line 1, column 1: unknown field "agnt"; team.yaml: line 2, column 10: ` +
		`deliver.as: "soon" is not a way to deliver work; ` + dir + "/" + FileName +
		`: line 1, column 8: slots: "many" is not a whole number`
	if err == nil || !strings.HasPrefix(err.Error(), want) {
		t.Errorf("got %v, want %s", err, want)
	}
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
