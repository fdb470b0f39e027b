// Package built builds signalbox for tests that run it as users do.
package built

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
)

// variable is an environment variable with the path of a program that is built already. make test
// builds one for all packages.
const variable = "SIGNALBOX_TEST_PROGRAM"

// Program puts signalbox into a folder, and returns its path there.
func Program(folder string) (string, error) {
	path := filepath.Join(folder, "signalbox")
	if runtime.GOOS == "windows" {
		path += ".exe"
	}
	if ready := os.Getenv(variable); ready != "" {
		content, err := os.ReadFile(ready) // other users cannot reach it in every checkout
		if err != nil {
			return "", fmt.Errorf("%s: %w", variable, err)
		}
		return path, os.WriteFile(path, content, 0o755)
	}
	// Without the tables for debuggers, which no test needs, linking is a third faster.
	if out, err := exec.Command("go", "build", "-ldflags=-s -w", "-o", path,
		"signalbox/cmd/signalbox").CombinedOutput(); err != nil {
		return "", fmt.Errorf("build signalbox: %w\n%s", err, out)
	}
	return path, nil
}
