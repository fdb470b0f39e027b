// Command bench measures in one run, each figure beside its peer and its goal. Package transcript is set beside other
// ways to find signals on one generated transcript: speed, allocations, resident memory, and time on hostile input. The
// record is set beside SQLite, SHA-256 and the disk alone: appends, verification, hand-over between workers, and starts
// on a log of a million events. It prints Markdown on standard output, and progress on standard error. A goal that
// is missed is only reported; a wrong result (a signal lost or made up, an event missing) ends with exit status 1.
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
	events     int    // of the long log
	dir        string // where logs lie; "" is the folder for temporary files
	only       string // part that is measured; "" is all
}

// The parts.
const (
	partTranscript = "transcript"
	partRecord     = "record"
)

func main() {
	if len(os.Args) > 1 && os.Args[1] == residentMode {
		exit(measureResident(os.Args[2:]))
	}
	if len(os.Args) > 1 && os.Args[1] == recordMode {
		exit(runTask(os.Args[2:]))
	}
	size := flag.Int64("size", 200, "`MB` of the transcript that all contestants read")
	stream := flag.Int64("stream", 1000, "`MB` of the streams whose resident memory is measured")
	line := flag.Int64("line", 256, "`MB` of the single lines whose resident memory is measured")
	rounds := flag.Int("rounds", 5, "how often each contestant runs; the median counts")
	events := flag.Int("events", 1_000_000, "how many `events` the long log has, 20000 at least")
	dir := flag.String("dir", "", "`folder` for the logs, on the disk to be measured; \"\" is that for temporary files")
	only := flag.String("only", "", "measure only one `part`: "+partTranscript+" or "+partRecord)
	flag.Parse()
	known := *only == "" || *only == partTranscript || *only == partRecord
	if *size < 1 || *stream < 1 || *line < 1 || *rounds < 1 || *events < leastEvents || !known || flag.NArg() > 0 {
		flag.Usage()
		os.Exit(2)
	}
	exit(run(settings{*size * megabyte, *stream * megabyte, *line * megabyte, *rounds, *events, *dir, *only}))
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
	var wrong []error
	if s.only != partRecord {
		wrong = append(wrong, compareSpeed(s), countAllocations(s), compareResident(s), timeHostile())
	}
	if s.only != partTranscript {
		wrong = append(wrong, compareRecord(s))
	}
	return errors.Join(wrong...)
}

func progress(format string, args ...any) {
	fmt.Fprintf(os.Stderr, "bench: "+format+"\n", args...)
}
