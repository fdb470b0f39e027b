package main

import (
	"path/filepath"
	"strings"
	"testing"

	"signalbox/internal/cli"
	"signalbox/internal/tree"
)

// The examples pass their tests, have no warnings, and use every kind of node.
func TestTreeExamples(t *testing.T) {
	if answer := mustAnswer(t, "tree", "test", "../../examples/trees"); strings.Contains(answer, "FAIL") || strings.Count(answer, "\nok ") < 20 {
		t.Errorf("the tests of the examples:\n%s", answer)
	}
	examples, err := filepath.Glob("../../examples/trees/*.lua")
	if err != nil {
		t.Fatal(err)
	}
	shown := map[tree.Kind]bool{}
	for _, example := range examples {
		if strings.HasSuffix(example, "_test.lua") {
			continue
		}
		file, err := readTree(t.Context(), &cli.Program{}, example)
		if err != nil {
			t.Fatal(err)
		}
		for i := range file.Tree().Len() {
			shown[file.Tree().Info(i).Kind] = true
		}
		if warnings := file.Tree().Warnings(); len(warnings) > 0 {
			t.Errorf("%s: %v", example, warnings)
		}
		file.Close()
	}
	for _, kind := range tree.Kinds() {
		if !shown[kind] {
			t.Errorf("no example has a %s", kind)
		}
	}
}

// The examples for the oracle pass their tests.
func TestOracleExamples(t *testing.T) {
	if answer := mustAnswer(t, "tree", "test", "../../examples/oracle"); strings.Contains(answer, "FAIL") || strings.Count(answer, "ok ") < 4 {
		t.Errorf("the tests of the examples:\n%s", answer)
	}
}
