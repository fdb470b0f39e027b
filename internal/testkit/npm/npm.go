// Package npm installs npm packages for tests, in the versions that a package-lock.json pins, and
// runs their programs.
package npm

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

// Kit is what the tests of a package need from npm. The zero value is ready to use.
type Kit struct {
	once sync.Once
	err  error

	// Dir is the folder with the packages, and Node the program to run them. Need sets both.
	Dir, Node string
}

// Need installs the packages that testdata/package.json names, once for all tests. Without them,
// the test ends: it is skipped, but in CI, where that would go unnoticed, it fails. The tests must
// be in a folder two levels below the top of the repository.
func (k *Kit) Need(t *testing.T) {
	t.Helper()
	k.once.Do(func() { k.err = k.install() })
	if k.err != nil {
		SkipOrFail(t, "%v", k.err)
	}
}

// Remove removes the packages.
func (k *Kit) Remove() {
	if k.Dir != "" {
		os.RemoveAll(k.Dir)
	}
}

// install installs the packages in a temporary folder.
func (k *Kit) install() (err error) {
	if k.Dir, err = os.MkdirTemp("", "signalbox-npm-"); err != nil {
		return err
	}
	if err := ci(k.Dir, "testdata"); err != nil {
		return err
	}
	k.Node, err = findNode(k.Dir)
	return err
}

// pins are the files that determine the versions.
var pins = []string{"package.json", "package-lock.json"}

// ci runs npm ci in a folder, with the pins of another one. The packages do not need their install
// scripts.
func ci(dir, from string) error {
	npm, err := exec.LookPath("npm")
	if err != nil {
		// Install npm if that is possible without a password, as for other tools.
		need := filepath.Join("..", "..", "scripts", "need")
		if out, needErr := exec.Command(need, "npm").CombinedOutput(); needErr != nil {
			return fmt.Errorf("npm is needed (https://nodejs.org, or apt-get install npm): %s", out)
		}
		if npm, err = exec.LookPath("npm"); err != nil {
			return err
		}
	}
	for _, name := range pins {
		data, err := os.ReadFile(filepath.Join(from, name))
		if err == nil {
			err = os.WriteFile(filepath.Join(dir, name), data, 0o600)
		}
		if err != nil {
			return err
		}
	}
	cmd := exec.Command(npm, "ci", "--ignore-scripts", "--no-audit", "--no-fund",
		"--prefer-offline", "--loglevel=error")
	cmd.Dir = dir
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("npm ci: %w: %s", err, out)
	}
	return nil
}

// SkipOrFail ends a test that this machine cannot run. It skips the test, but in CI, where a
// skipped test would go unnoticed, it fails the test.
func SkipOrFail(t testing.TB, format string, args ...any) {
	t.Helper()
	if os.Getenv("CI") == "true" {
		t.Fatalf("this test must run in CI: "+format, args...)
	}
	t.Skipf(format, args...)
}

// findNode returns the Node program in the folder, or else that of the system if it is new enough.
func findNode(dir string) (string, error) {
	for _, pattern := range []string{"node", "node.exe"} {
		if names, _ := filepath.Glob(filepath.Join(dir, "node_modules", "node-*", "bin",
			pattern)); len(names) > 0 {
			return names[0], nil
		}
	}
	node, err := exec.LookPath("node")
	if err != nil {
		return "", fmt.Errorf("npm has no Node for %s/%s: install Node 22 or newer", runtime.GOOS,
			runtime.GOARCH)
	}
	out, err := exec.Command(node, "-p", "parseInt(process.versions.node) >= 22").Output()
	if err != nil || strings.TrimSpace(string(out)) != "true" {
		return "", fmt.Errorf("%s is too old: install Node 22 or newer", node)
	}
	return node, nil
}

// Run runs a program of the kit, which is a file for Node, with the kit's folder as its home
// directory, and returns its output.
func (k *Kit) Run(t *testing.T, env []string, args ...string) (stdout, stderr string, err error) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), k.Node, args...)
	cmd.Dir = k.Dir
	var out, errors strings.Builder
	cmd.Stdout, cmd.Stderr = &out, &errors
	cmd.Env = append(os.Environ(), "PATH="+
		filepath.Dir(k.Node)+string(filepath.ListSeparator)+os.Getenv("PATH"), "HOME="+k.Dir,
		"USERPROFILE="+k.Dir, "NO_COLOR=1")
	cmd.Env = append(cmd.Env, env...)
	err = cmd.Run()
	return out.String(), errors.String(), err
}
