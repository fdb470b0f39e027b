package hostile

import (
	"fmt"
	"os"
	"testing"

	"signalbox/internal/testkit/built"
)

// program is the path of signalbox, and programVariable names it for a test that runs again in
// another process.
var program string

const programVariable = "SIGNALBOX_HOSTILE_PROGRAM"

func TestMain(m *testing.M) {
	if len(os.Args) > 1 && parts[os.Args[1]] != nil {
		if err := parts[os.Args[1]](os.Args[2:]); err != nil {
			fmt.Fprintf(os.Stderr, "%s: %v\n", os.Args[1], err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(runTests(m))
}

// runTests builds signalbox and runs the tests.
func runTests(m *testing.M) int {
	if program = os.Getenv(programVariable); program != "" {
		return m.Run() // another process has built it
	}
	dir, err := os.MkdirTemp("", "signalbox-hostile-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	if err := os.Chmod(dir, 0o755); err != nil { // other users run it, too
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	if program, err = built.Program(dir); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return m.Run()
}

// isFull reports whether make fault runs the tests.
func isFull() bool { return os.Getenv("SIGNALBOX_FAULT") == "full" }
