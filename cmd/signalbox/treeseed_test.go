package main

import (
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"signalbox/internal/cli"
	"signalbox/internal/testkit/must"
)

const seedTree = "../../internal/tree/luatree/testdata/seed_t024.lua"

// The tree of the seed, copied without changes, is valid and runs: its request is the question.
func TestSeedTree(t *testing.T) {
	if got := mustAnswer(t, "tree", "check", seedTree); !strings.HasPrefix(got,
		"ok: tree 'agent-turn', 18 nodes; calls a model") {
		t.Errorf("tree check: %s", got)
	}
	replies := filepath.Join(t.TempDir(), "replies")
	must.Succeed(t, os.WriteFile(replies,
		[]byte("Found.\n<signal type=\"stuck\"><attempted>grep</attempted><blocker>no index</blocker></signal>\n"), 0o600))
	got := mustAnswer(t, "tree", "run", "--no-ledger", seedTree, "--set",
		`_question="What is new?"`, "--replies", replies, "--json")
	if !strings.Contains(got, `"llm_request","What is new?"`) &&
		!strings.Contains(got, `"llm_request":"What is new?"`) {
		t.Errorf("the request is not the question:\n%s", got)
	}
	p := cli.Program{Stdin: strings.NewReader(""), Stdout: new(strings.Builder), Stderr: new(strings.Builder), Getenv: func(string) string { return "" },
		Args: []string{"tree", "run", "--no-ledger", seedTree, "--replies", replies}}
	if status := execute(&p); status != 1 || !strings.Contains(p.Stderr.(*strings.Builder).String(),
		"there is no question: declare the key question") {
		t.Errorf("without a question: status %d, %s", status, p.Stderr)
	}
}

// The seed's subtree, in a tree of the oracle: the model gets the question once, and in the next
// turn a message to continue.
func TestSeedTreeInTheOracle(t *testing.T) {
	seed, err := os.ReadFile(seedTree)
	must.Succeed(t, err)
	b := newOracleBox(t, `
conversations:
  - turns:
      - {match: {turn: 1, user: '^What is new\?$'}, parts: [{text: "Wait.\n<signal type=\"need_turn\"><reason>look</reason><confidence>0.9</confidence></signal>"}]}
      - {match: {turn: 2, user: 'Go on'}, parts: [{text: "Nothing.\n<signal type=\"context_sufficient\"><sources_found>1</sources_found></signal>"}]}
`)
	file := filepath.Join(t.TempDir(), "own.lua")
	own := string(seed) + `
return BT.tree("own", {root = BT.sequence({
    BT.repeat_until("failure", BT.sequence("turn", {
        BT.subtree("agent-turn"),
        BT.action("decide", {fn = "decide"}),
        BT.inverter(BT.condition("over", {fn = "decision_ends"})),
    })),
    BT.condition("over", {fn = "decision_ends"}),
})})`
	must.Succeed(t, os.WriteFile(file, []byte(own), 0o600))
	p, stdout, stderr := b.program("oracle", "--json", "--tree", file, "What is new?")
	if status := execute(p); status != 0 ||
		!strings.Contains(stdout.String(), `"reason":"context_sufficient","turns":2,`) {
		t.Errorf("status %d\n%s\n%s", status, stdout, stderr)
	}
}

// The example of docs/reference/tree-files.md does what the page shows.
func TestDefinedLeavesAsDocumented(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("there may be no cat")
	}
	page, err := os.ReadFile("../../docs/reference/tree-files.md")
	must.Succeed(t, err)
	_, section, found := strings.Cut(strings.ReplaceAll(string(page), "\r\n", "\n"),
		"\n## Your own actions and conditions\n")
	if !found {
		t.Fatal("the section is missing")
	}
	block := func(language string) string {
		_, rest, _ := strings.Cut(section, "```"+language+"\n")
		text, _, closed := strings.Cut(rest, "```\n")
		if !closed {
			t.Fatalf("there is no block of %s", language)
		}
		return text
	}
	command, want, _ := strings.Cut(block("console"), "\n")
	args, is := strings.CutPrefix(command, "$ signalbox ")
	if !is {
		t.Fatalf("the command is %q", command)
	}
	t.Chdir(t.TempDir())
	must.Succeed(t, os.WriteFile("announce.lua", []byte(block("lua")), 0o600))
	if got := mustAnswer(t, strings.Fields(args)...); got != want {
		t.Errorf("%s prints:\n%s\nbut the page shows:\n%s", command, got, want)
	}
}
