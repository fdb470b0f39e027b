package main

import (
	"strings"
	"testing"
)

// The examples pass their tests.
func TestTreeExamples(t *testing.T) {
	if answer := mustAnswer(t, "tree", "test", "../../examples/trees"); strings.Contains(answer,
		"FAIL") || strings.Count(answer, "\nok ") < 20 {
		t.Errorf("the tests of the examples:\n%s", answer)
	}
}

// The examples for the oracle pass their tests.
func TestOracleExamples(t *testing.T) {
	if answer := mustAnswer(t, "tree", "test", "../../examples/oracle"); strings.Contains(answer,
		"FAIL") || strings.Count(answer, "ok ") < 4 {
		t.Errorf("the tests of the examples:\n%s", answer)
	}
}
