package signalbox_test

import (
	"go/ast"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"signalbox/internal/testkit/must"
)

// TestAttackTable checks that every test that docs/reference/attacks.md names exists, so that no
// row promises a protection that nothing tests.
func TestAttackTable(t *testing.T) {
	text, err := os.ReadFile("docs/reference/attacks.md")
	must.Succeed(t, err)
	tests := declaredTests(t)
	// The matrix names what nothing stops, so some of its rows have no test.
	for _, table := range []struct {
		from, to, header   string
		cells, rows, fewer int
	}{
		{"# Attacks and what stops them\n", "\n## What can reach a reviewer\n", "| attack ", 3, 40, 0},
		{"\n## What can reach a reviewer\n", "\n## ", "| program ", 4, 40, 4},
	} {
		_, section, found := strings.Cut(string(text), table.from)
		section, _, _ = strings.Cut(section, table.to)
		if !found {
			t.Fatalf("docs/reference/attacks.md has no section %q", table.from)
		}
		rows, without := 0, 0
		for line := range strings.Lines(section) {
			if !strings.HasPrefix(line, "| ") || strings.HasPrefix(line, table.header) ||
				strings.HasPrefix(line, "|---") {
				continue
			}
			rows++
			cells := strings.Split(strings.Trim(strings.TrimSpace(line), "|"), " | ")
			names := regexp.MustCompile("`((?:Test|Fuzz)[A-Za-z0-9_/]+)`").FindAllStringSubmatch(
				cells[len(cells)-1], -1)
			if len(names) == 0 {
				without++
			}
			if len(cells) != table.cells || len(names) == 0 && without > table.fewer {
				t.Errorf("the row has %d cells and names %d tests: %s", len(cells), len(names),
					line)
			}
			for _, name := range names {
				if !tests[name[1]] {
					t.Errorf("there is no test %s", name[1])
				}
			}
		}
		if rows < table.rows {
			t.Errorf("%d rows in %q: the search for them is broken", rows, table.from)
		}
	}
}

// declaredTests returns the names of all tests, and "TestScript/NAME" for each script.
func declaredTests(t *testing.T) map[string]bool {
	t.Helper()
	tests := map[string]bool{}
	for _, s := range moduleSources(t) {
		for _, decl := range s.file.Decls {
			if f, ok := decl.(*ast.FuncDecl); ok && s.isTest() && f.Recv == nil {
				tests[f.Name.Name] = true
			}
		}
	}
	scripts, err := filepath.Glob("cmd/signalbox/testdata/script/*.txtar")
	if err != nil || len(scripts) == 0 {
		t.Fatalf("no scripts: %v", err)
	}
	for _, script := range scripts {
		tests["TestScript/"+strings.TrimSuffix(filepath.Base(script), ".txtar")] = true
	}
	return tests
}
