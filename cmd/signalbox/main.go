// Command signalbox hears AI agents: it finds the signals in what they wrote, strips them from text meant for
// people, and checks exit signals. Subcommands parse flags and call packages; logic does not live here.
package main

import (
	"os"
	"os/signal"
	"syscall"
)

func main() {
	// A reader that went away is then a write error, which the program ends on quietly, and not a signal.
	signal.Ignore(syscall.SIGPIPE)
	p := program{stdin: os.Stdin, stdout: os.Stdout, stderr: os.Stderr, getenv: os.Getenv, args: os.Args[1:]}
	os.Exit(p.run())
}
