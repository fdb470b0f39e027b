package config

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestMutationDefaults(t *testing.T) {
	c := mustParse(t, "checks:\n  - {name: a, command: x, kind: command}\n"+
		"  - {name: b, command: y, kind: mutation, tests: [ci/**]}\n"+
		"  - {name: c, command: y, kind: mutation, mutants: 0, fails_on_base: block}\n")
	want := []Check{{Name: "a", Kind: "command", Command: "x", Timeout: 10 * time.Minute},
		{Name: "b", Kind: "mutation", Command: "y", Timeout: 10 * time.Minute, Mutants: 20,
			Tests: []string{"ci/**"}, FailsOnBase: "note"},
		{Name: "c", Kind: "mutation", Command: "y", Timeout: 10 * time.Minute, FailsOnBase: "block"}}
	if diff := cmp.Diff(want, c.Checks); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if only := c.OnlyCommands(); len(only) != 1 || only[0].Name != "a" || len(c.Checks) != 3 {
		t.Errorf("the commands are %+v", only)
	}
	if b := c.Checks[1]; !b.IsTest("ci/deep/x.sh") || b.IsTest("cid/x.sh") {
		t.Error("the pattern of tests does not count")
	}
}

func TestMutationFaults(t *testing.T) {
	for settings, want := range map[string]string{
		"kind: mutate": `line 1, column 42: checks.kind: there is no kind of check "mutate"` +
			"\nhint: did you mean mutation?",
		"mutants: 3": "line 1, column 45: checks.mutants: only a check of the kind mutation has it" +
			"\nhint: add kind: mutation, or remove it",
		"kind: mutation, parallel: 65": "line 1, column 62: checks.parallel: " +
			"65 is not from 0 to 64\nhint: write a smaller number, from 0",
		"kind: mutation, tests: [/x]": `line 1, column 60: checks.tests: "/x" is not a plain path` +
			"\nhint: write it relative to the top of the repository, such as .github/** or go.mod",
		"kind: mutation, fails_on_base: warn": `line 1, column 67: checks.fails_on_base: ` +
			`"warn" is not known` + "\nhint: use one of note, block, off",
		"kind: mutation}], workspace: shared, ports: 0, setup: [{command: x": "line 1, column 42: " +
			"checks.kind: in a shared workspace nobody knows what a task changed" +
			"\nhint: use workspace: worktree, or remove the check",
	} {
		checkError(t, "{checks: [{name: a, command: x,    "+settings+"}]}", "error: "+want)
	}
}
