package assistants

import (
	"path/filepath"
	"strings"
	"testing"

	"signalbox/internal/cli"
	"signalbox/internal/testkit/must"
	"signalbox/internal/tree"
)

// The examples have no warnings, and use every kind of node.
func TestExamplesUseEveryKind(t *testing.T) {
	examples, err := filepath.Glob("../../../examples/trees/*.lua")
	must.Succeed(t, err)
	shown := map[tree.Kind]bool{}
	for _, example := range examples {
		if strings.HasSuffix(example, "_test.lua") {
			continue
		}
		file, err := readTree(t.Context(), &cli.Program{}, example)
		must.Succeed(t, err)
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
