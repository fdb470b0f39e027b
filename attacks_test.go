package signalbox_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestAttackTable checks that every test that docs/security.md names exists, so that no row promises a protection that nothing tests.
func TestAttackTable(t *testing.T) {
	text, err := os.ReadFile("docs/security.md")
	if err != nil {
		t.Fatal(err)
	}
	_, section, found := strings.Cut(string(text), "## 10. Attacks and what stops them\n")
	section, _, _ = strings.Cut(section, "\n## ")
	if !found {
		t.Fatal("docs/security.md has no table of attacks")
	}
	tests := declaredTests(t)
	rows := 0
	for line := range strings.Lines(section) {
		if !strings.HasPrefix(line, "| ") || strings.HasPrefix(line, "| attack ") || strings.HasPrefix(line, "|---") {
			continue
		}
		rows++
		cells := strings.Split(strings.Trim(strings.TrimSpace(line), "|"), " | ")
		names := regexp.MustCompile("`((?:Test|Fuzz)[A-Za-z0-9_/]+)`").FindAllStringSubmatch(cells[len(cells)-1], -1)
		if len(cells) != 3 || len(names) == 0 {
			t.Errorf("the row has %d cells and names %d tests: %s", len(cells), len(names), line)
		}
		for _, name := range names {
			if !tests[name[1]] {
				t.Errorf("there is no test %s", name[1])
			}
		}
	}
	if rows < 40 {
		t.Errorf("%d rows: the search for them is broken", rows)
	}
}

// declaredTests returns the names of all tests, and "TestScript/NAME" for each script.
func declaredTests(t *testing.T) map[string]bool {
	t.Helper()
	tests := map[string]bool{}
	declaration := regexp.MustCompile(`(?m)^func ((?:Test|Fuzz)\w+)\(`)
	err := filepath.WalkDir(".", func(path string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case strings.HasSuffix(path, "_test.go"):
			text, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			for _, name := range declaration.FindAllStringSubmatch(string(text), -1) {
				tests[name[1]] = true
			}
		case strings.HasSuffix(path, ".txtar") && filepath.Base(filepath.Dir(path)) == "script":
			tests["TestScript/"+strings.TrimSuffix(entry.Name(), ".txtar")] = true
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return tests
}
