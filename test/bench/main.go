// Command bench measures package transcript beside other ways to find signals, all in one run on one generated
// transcript: speed, allocations, resident memory, and time on hostile input. It prints Markdown on standard
// output, each figure beside its goal, and progress on standard error. A goal that is missed is only reported; a
// wrong result (a signal lost or made up) ends with exit status 1.
//
// docs/performance.md explains the tables.
package main

import (
	"errors"
	"flag"
	"fmt"
	"os"
)

const (
	megabyte = 1_000_000
	seed     = 2026
)

// settings are the sizes in bytes of what is measured, and how often.
type settings struct {
	transcript int64
	stream     int64
	line       int64
	rounds     int
}

func main() {
	if len(os.Args) > 1 && os.Args[1] == residentMode {
		exit(measureResident(os.Args[2:]))
	}
	size := flag.Int64("size", 200, "`MB` of the transcript that all contestants read")
	stream := flag.Int64("stream", 1000, "`MB` of the streams whose resident memory is measured")
	line := flag.Int64("line", 256, "`MB` of the single lines whose resident memory is measured")
	rounds := flag.Int("rounds", 5, "how often each contestant runs; the median counts")
	flag.Parse()
	if *size < 1 || *stream < 1 || *line < 1 || *rounds < 1 || flag.NArg() > 0 {
		flag.Usage()
		os.Exit(2)
	}
	exit(run(settings{*size * megabyte, *stream * megabyte, *line * megabyte, *rounds}))
}

func exit(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
	os.Exit(0)
}

// run goes through all sections even if one has a wrong result, so that the tables are complete.
func run(s settings) error {
	printMachine()
	return errors.Join(compareSpeed(s), countAllocations(s), compareResident(s), timeHostile())
}

func progress(format string, args ...any) {
	fmt.Fprintf(os.Stderr, "bench: "+format+"\n", args...)
}
