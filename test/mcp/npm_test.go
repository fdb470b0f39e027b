package mcp_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
)

// kit is the folder with the npm packages, and the Node program to run them.
type kit struct{ dir, node string }

// The programs in the folder of the kit. The inspector's launcher runs this one for --cli.
var (
	suite     = filepath.Join("node_modules", "@modelcontextprotocol", "conformance", "dist", "index.js")
	inspector = filepath.Join("node_modules", "@modelcontextprotocol", "inspector", "clients", "cli", "build", "index.js")
)

// The kit is installed once for all tests; TestMain removes it.
var (
	installOnce  sync.Once
	installed    kit
	installError error
)

// needKit installs the kit, once for all tests.
func needKit(t *testing.T) kit {
	t.Helper()
	installOnce.Do(func() { installed, installError = install() })
	if installError != nil {
		skipOrFail(t, "%v", installError)
	}
	return installed
}

// install runs npm ci in a temporary folder.
func install() (kit, error) {
	npm, err := exec.LookPath("npm")
	if err != nil {
		// Install npm if that is possible without a password, as for other tools.
		if out, needErr := exec.Command(filepath.Join("..", "..", "scripts", "need"), "npm").CombinedOutput(); needErr != nil {
			return kit{}, fmt.Errorf("npm is needed (https://nodejs.org, or apt-get install npm): %s", out)
		}
		if npm, err = exec.LookPath("npm"); err != nil {
			return kit{}, err
		}
	}
	dir, err := os.MkdirTemp("", "signalbox-mcp-")
	if err != nil {
		return kit{}, err
	}
	for _, name := range []string{"package.json", "package-lock.json"} {
		data, err := os.ReadFile(filepath.Join("testdata", name))
		if err == nil {
			err = os.WriteFile(filepath.Join(dir, name), data, 0o600)
		}
		if err != nil {
			return kit{dir: dir}, err
		}
	}
	// The packages do not need their install scripts.
	cmd := exec.Command(npm, "ci", "--ignore-scripts", "--no-audit", "--no-fund", "--prefer-offline", "--loglevel=error")
	cmd.Dir = dir
	if out, err := cmd.CombinedOutput(); err != nil {
		return kit{dir: dir}, fmt.Errorf("npm ci: %w: %s", err, out)
	}
	node, err := findNode(dir)
	return kit{dir, node}, err
}

// findNode returns the Node program in the folder, or else that of the system if it is new enough.
func findNode(dir string) (string, error) {
	for _, pattern := range []string{"node", "node.exe"} {
		if names, _ := filepath.Glob(filepath.Join(dir, "node_modules", "node-*", "bin", pattern)); len(names) > 0 {
			return names[0], nil
		}
	}
	node, err := exec.LookPath("node")
	if err != nil {
		return "", fmt.Errorf("npm has no Node for %s/%s: install Node 22 or newer", runtime.GOOS, runtime.GOARCH)
	}
	out, err := exec.Command(node, "-p", "parseInt(process.versions.node) >= 22").Output()
	if err != nil || strings.TrimSpace(string(out)) != "true" {
		return "", fmt.Errorf("%s is too old: install Node 22 or newer", node)
	}
	return node, nil
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

// run runs a program of the kit, with the kit's folder as its home directory, and returns its output.
func (k kit) run(t *testing.T, env []string, args ...string) (stdout, stderr string, err error) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), k.node, args...)
	cmd.Dir = k.dir
	var out, errors strings.Builder
	cmd.Stdout, cmd.Stderr = &out, &errors
	cmd.Env = append(os.Environ(), "PATH="+filepath.Dir(k.node)+string(filepath.ListSeparator)+os.Getenv("PATH"), "HOME="+k.dir, "USERPROFILE="+k.dir, "NO_COLOR=1")
	cmd.Env = append(cmd.Env, env...)
	err = cmd.Run()
	return out.String(), errors.String(), err
}
