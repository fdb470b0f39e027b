package main

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"signalbox/internal/testkit/must"
)

var (
	howToBlock   = regexp.MustCompile("(?ms)^( *)```console\n(.*?)^ *```$")
	howToCommand = regexp.MustCompile(`^\$ signalbox ([^|]+?)(?: \| (?:grep|tail) \S+)?$`)
)

// howToFiles are the files that the how-to pages name but do not show.
var howToFiles = map[string]string{
	"greet.lua": `return BT.tree("greet", {
    root = BT.sequence({
        BT.script("say", function(t) t:emit("said", "hello") end),
        BT.wiat(1),
    }),
})
`,
	"schwab.csv": `"Date","Action","Symbol","Description","Quantity","Price","Fees & Comm","Amount"
"06/25/2026","Buy","VTI","VANGUARD TOTAL STOCK MARKET ETF","10","$300.00","","-$3,000.00"
"06/22/2026","Sell","KO","COCA COLA CO","5","$71.00","$0.02","$354.98"
"06/15/2026","Qualified Dividend","KO","COCA COLA CO","","","","$15.30"
`,
	"journal.csv": `"Date","Action","Symbol","Description","Quantity","Price","Fees & Comm","Amount"
"05/20/2026","Journaled Shares","KO","COCA COLA CO","-10","","",""
"05/21/2026","Buy","KO","COCA COLA CO","1","$70.00","","-$70.00"
`,
	"holdings.csv": `"Positions for account Individual ...123 as of 03:34 PM ET, 2026/06/30"

"Symbol","Description","Qty (Quantity)","Price","Mkt Val (Market Value)"
"VTI","VANGUARD TOTAL STOCK MARKET ETF","10","$300.00","$3,000.00"
"Cash & Cash Investments","--","--","--","$99.00"
`,
	"twin.csv": `date,account,action,ticker,quantity,price,fees
2026-03-02,joint,buy,TLT,30,88.90,0.01
`,
	"turn.txt": `AUDIT_PASSED: t1

Wait, one criterion fails.

**CHECKPOINT: t1**
AUDIT_FAILED: t1 data race
`,
}

// TestHowTosShowRealOutput runs the commands of how-to pages in a folder that has the examples.
// Every line that a page shows must be in the output. A line that is only … stands for left-out
// lines, and a … at the end of a line for the rest of it.
func TestHowTosShowRealOutput(t *testing.T) {
	for document, commands := range map[string]int{"docs/how-to/portfolio.md": 10,
		"docs/how-to/trees.md": 4, "docs/reference/signals.md": 1} {
		t.Run(filepath.Base(document), func(t *testing.T) {
			text := readDocument(t, document)
			dir := t.TempDir()
			must.Succeed(t, os.CopyFS(filepath.Join(dir, "examples"),
				os.DirFS("../../examples")))
			t.Chdir(dir)
			moveTo(t.Setenv, filepath.Join(dir, "home"))
			for name, content := range howToFiles {
				must.Succeed(t, os.WriteFile(name, []byte(content), 0o600))
			}
			tried := 0
			for _, block := range howToBlock.FindAllStringSubmatch(text, -1) {
				var output []string
				for line := range strings.Lines(block[2]) {
					line = strings.TrimSuffix(strings.TrimPrefix(line, block[1]), "\n")
					switch parts := howToCommand.FindStringSubmatch(line); {
					case parts != nil && strings.Contains(line, "countdown.journal"):
						output = nil // takes five seconds
					case parts != nil:
						tried++
						output = howToOutput(parts[1])
					case strings.HasPrefix(line, "$ "):
						t.Errorf("cannot run %q", line)
					case output != nil &&
						!slices.ContainsFunc(output,
							func(real string) bool { return matchesShown(line, real) }):
						t.Errorf("%s shows a line that is not in the output: %s", document, line)
					}
				}
			}
			if tried < commands {
				t.Errorf("only %d commands found in %s, want at least %d", tried, document,
					commands)
			}
		})
	}
}

// howToOutput runs a command and returns the lines that it prints, with every status.
func howToOutput(command string) []string {
	var args []string
	for _, word := range tourWord.FindAllStringSubmatch(command, -1) {
		args = append(args, word[1]+word[2])
	}
	p, stdout, stderr := start(args...)
	p.Getenv = func(string) string { return "" }
	execute(p)
	return strings.Split(stdout.String()+stderr.String(), "\n")
}

// matchesShown reports whether a line of a document shows a line of the output.
func matchesShown(shown, real string) bool {
	if start, cut := strings.CutSuffix(shown, "…"); cut {
		return strings.HasPrefix(real, strings.TrimSpace(start))
	}
	return steady(shown) == steady(real)
}

// TestDocumentsShowTheOracle compares the conversation that two documents show with a real one of
// the same scripted model.
func TestDocumentsShowTheOracle(t *testing.T) {
	conversation := regexp.MustCompile(`(?s)Let me check the exit rules.*?session O-[0-9a-f]{12}\n`)
	script := readDocument(t, "examples/oracle/portfolio.yaml")
	folder, err := filepath.Abs("../../examples/portfolio")
	must.Succeed(t, err)
	documents := map[string]string{"docs/how-to/oracle.md": readDocument(t, "docs/how-to/oracle.md"),
		"docs/tutorial/tour.md": readDocument(t, "docs/tutorial/tour.md")}
	b := newOracleBox(t, script)
	settings, err := os.OpenFile(filepath.Join(b.dir, "signalbox.yaml"), os.O_APPEND|os.O_WRONLY, 0)
	must.Succeed(t, err)
	if _, err := fmt.Fprintf(settings, "oracle: {portfolio: %q}\n", folder); err != nil {
		t.Fatal(err)
	}
	must.Succeed(t, settings.Close())
	p, stdout, stderr := b.program("oracle", "Should I sell SLV?")
	if status := execute(p); status != 0 {
		t.Fatalf("status %d: %s", status, stderr)
	}
	output := strings.Split(stdout.String()+stderr.String(), "\n")
	for name, text := range documents {
		shown := conversation.FindString(text)
		if shown == "" {
			t.Errorf("%s shows no conversation", name)
		}
		for line := range strings.Lines(shown) {
			if line = strings.TrimSuffix(line, "\n"); !slices.ContainsFunc(output,
				func(real string) bool { return matchesShown(line, real) }) {
				t.Errorf("%s shows a line that is not in the output: %s", name, line)
			}
		}
	}
}
