// Command signalbox hears AI agents, moves their work, and keeps the record. Subcommands parse flags and call packages;
// logic does not live here.
package main

import (
	"os"
	"os/signal"
	"syscall"
)

func main() {
	// A reader that went away is then a write error, which the program ends on quietly, and not a signal. Ignoring the signal
	// would do that too, but agents and checks would inherit it.
	signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE)
	p := program{stdin: os.Stdin, stdout: os.Stdout, stderr: os.Stderr, getenv: os.Getenv, args: os.Args[1:]}
	os.Exit(p.run())
}
