package agent

import (
	"os"
	"os/exec"
	"path/filepath"
)

// Executable returns the absolute path of this program, which runs the agents that are behaviour
// trees.
func Executable() (string, error) {
	if name, err := exec.LookPath(os.Args[0]); err == nil {
		return filepath.Abs(name)
	}
	return os.Executable()
}
