package main

import (
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"signalbox/internal/config"
	"signalbox/internal/oracle/prompt"
	"signalbox/internal/oracle/toolbox"
	"signalbox/internal/portfolio"
	"signalbox/internal/testkit/must"
)

// TestBuiltInTools checks that the configuration lists the names of the built-in tools.
func TestBuiltInTools(t *testing.T) {
	dir := t.TempDir()
	desk := portfolio.NewDesk(dir, &portfolio.Options{})
	var names []string
	for _, tool := range []toolbox.Tool{toolbox.SearchCode(dir), toolbox.ReadFile(dir),
		toolbox.SearchNotes(dir, ""),
		toolbox.CheckExitSignals(desk), toolbox.SuggestTaxLossHarvest(desk)} {
		names = append(names, tool.Name)
	}
	if diff := cmp.Diff(config.BuiltInTools(), names); diff != "" {
		t.Errorf("(-config +toolbox):\n%s", diff)
	}
}

// TestDocumentsNameWords checks that the documentation lists every text of the oracle that can be
// replaced.
func TestDocumentsNameWords(t *testing.T) {
	text, err := os.ReadFile("../../docs/reference/configuration.md")
	must.Succeed(t, err)
	_, section, _ := strings.Cut(string(text), "\n### Oracle words and prompts\n")
	section, _, _ = strings.Cut(section, "\n### ")
	names := append(prompt.Segments(), prompt.Advices()...)
	for _, class := range prompt.Classes() {
		names = append(names, string(class))
	}
	for _, name := range names {
		if !strings.Contains(section, "`"+name+"`") {
			t.Errorf("%s is not in the documentation", name)
		}
	}
	_, table, _ := strings.Cut(section, "```\n")
	table, _, found := strings.Cut(table, "```")
	set, err := prompt.New(&prompt.Options{Words: table})
	if !found || err != nil {
		t.Fatalf("the example: %v", err)
	}
	if class := set.Classify("please roll out the new ledger"); class != prompt.Action {
		t.Errorf("the example classifies it as %s", class)
	}
}
