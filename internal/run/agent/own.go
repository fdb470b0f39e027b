package agent

import (
	"os"
	"os/exec"
	"path/filepath"
)

// Own is the path of this very program, for agents that are played by it.
func Own() (string, error) {
	if name, err := exec.LookPath(os.Args[0]); err == nil {
		return filepath.Abs(name)
	}
	return os.Executable()
}
