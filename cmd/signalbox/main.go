// Command signalbox runs AI agents, moves their work by the signals they send, and keeps a
// tamper-evident record. The commands parse flags and call packages; the logic is in the packages.
package main

import (
	"os"
	"os/signal"
	"syscall"

	"signalbox/internal/cli"
)

// version is set by the linker for releases. If it is empty, the version that Go recorded is used.
var version string

func main() { os.Exit(execute(newProgram())) }

// newProgram returns the program that the user started.
func newProgram() *cli.Program {
	// Turn SIGPIPE into a write error, so that the program ends quietly when the reader closes the
	// pipe. Ignoring the signal would also do that, but agents and checks would inherit it.
	signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE)
	return &cli.Program{Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr, Getenv: os.Getenv,
		Args: os.Args[1:], Version: version}
}
