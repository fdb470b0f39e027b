//go:build !unix

package main

import (
	"fmt"
	"os"
)

func main() {
	fmt.Fprintln(os.Stderr, "benchrun: agents run on Linux and macOS only")
	os.Exit(1)
}
