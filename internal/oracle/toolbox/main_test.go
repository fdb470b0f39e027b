package toolbox

import (
	"fmt"
	"os"
	"testing"

	"signalbox/internal/process"
)

// TestMain runs the tests in a session of their own: another run of the tests on this machine must
// not end its commands.
func TestMain(m *testing.M) {
	os.Setenv(process.SessionVariable, fmt.Sprintf("test-%d", os.Getpid()))
	os.Exit(m.Run())
}
