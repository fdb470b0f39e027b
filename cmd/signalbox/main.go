// Command signalbox runs AI agents, moves their work by the signals they send, and keeps a tamper-evident record. The commands parse flags
// and call packages; the logic is in the packages.
package main

import (
	"os"
	"os/signal"
	"syscall"
)

func main() { os.Exit(newProgram().run()) }

// newProgram returns the program that the user started.
func newProgram() *program {
	// Turn SIGPIPE into a write error, so that the program ends quietly when the reader closes the pipe. Ignoring the signal
	// would also do that, but agents and checks would inherit it.
	signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE)
	return &program{stdin: os.Stdin, stdout: os.Stdout, stderr: os.Stderr, getenv: os.Getenv, args: os.Args[1:]}
}
