//go:build !linux && !darwin

package toolbox

import "testing"

func TestCommandUnsupported(t *testing.T) {
	fails(t, FromCommand("test", Command{Line: "echo 1"}), args{},
		"the command of the tool cannot be run", "Linux or macOS")
}
