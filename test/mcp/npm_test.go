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

// kit is the folder with the programs from npm, and the Node that runs them.
type kit struct{ dir, node string }

// suite and inspector are where the programs are in the folder. The inspector's own launcher starts this one for --cli.
var (
	suite     = filepath.Join("node_modules", "@modelcontextprotocol", "conformance", "dist", "index.js")
	inspector = filepath.Join("node_modules", "@modelcontextprotocol", "inspector", "cli", "build", "index.js")
)

// What is installed is there once for all tests, and TestMain removes it.
var (
	installOnce  sync.Once
	installed    kit
	installError error
)

// needKit installs the programs, once for all tests.
func needKit(t *testing.T) kit {
	t.Helper()
	installOnce.Do(func() { installed, installError = install() })
	if installError != nil {
		mayNotSkip(t, "%v", installError)
	}
	return installed
}

// install is npm ci in a folder of its own.
func install() (kit, error) {
	npm, err := exec.LookPath("npm")
	if err != nil {
		// It is installed where that is possible without asking, as other tools are.
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
	// No scripts of packages are run: nothing here needs them.
	cmd := exec.Command(npm, "ci", "--ignore-scripts", "--no-audit", "--no-fund", "--prefer-offline", "--loglevel=error")
	cmd.Dir = dir
	if out, err := cmd.CombinedOutput(); err != nil {
		return kit{dir: dir}, fmt.Errorf("npm ci: %w: %s", err, out)
	}
	node, err := findNode(dir)
	return kit{dir, node}, err
}

// findNode is the Node of the folder, else one of the system that is new enough.
func findNode(dir string) (string, error) {
	for _, pattern := range []string{"node", "node.exe"} {
		if names, _ := filepath.Glob(filepath.Join(dir, "node_modules", "node-*", "bin", pattern)); len(names) > 0 {
			return names[0], nil
		}
	}
	node, err := exec.LookPath("node")
	if err != nil {
		return "", fmt.Errorf("there is no Node for %s/%s at npm: install Node 22 or newer", runtime.GOOS, runtime.GOARCH)
	}
	out, err := exec.Command(node, "-p", "parseInt(process.versions.node) >= 22").Output()
	if err != nil || strings.TrimSpace(string(out)) != "true" {
		return "", fmt.Errorf("%s is too old: install Node 22 or newer", node)
	}
	return node, nil
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

// run runs a program of the kit and returns what it prints, and what it complains about. It has its home in the folder.
func (k kit) run(t *testing.T, env []string, args ...string) (stdout, stderr string, err error) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), k.node, args...)
	cmd.Dir = k.dir
	var out, complaints strings.Builder
	cmd.Stdout, cmd.Stderr = &out, &complaints
	cmd.Env = append(os.Environ(), "PATH="+filepath.Dir(k.node)+string(filepath.ListSeparator)+os.Getenv("PATH"), "HOME="+k.dir, "USERPROFILE="+k.dir, "NO_COLOR=1")
	cmd.Env = append(cmd.Env, env...)
	err = cmd.Run()
	return out.String(), complaints.String(), err
}
