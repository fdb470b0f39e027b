// Command bench compares signalbox with other programs, in one run on one machine, and prints
// Markdown tables: package transcript beside ripgrep and Go's regexp, the ledger beside SQLite and
// SHA-256, behaviour trees beside another engine, whole runs beside the bare git commands, checks
// beside the same command by hand, the HTTP server beside a bare handler, and databases that
// several machines share beside the same without a journal. Progress goes to standard error. A
// missed goal is only reported, because a busy machine is not an error; a wrong result ends with
// exit status 1.
//
// Go benchmarks in the packages measure everything that has no rival.
// docs/explanation/performance.md explains the tables.
package main

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

const (
	megabyte = 1_000_000
	seed     = 2026
)

// settings are the sizes of the measurements; transcript, stream and line are in bytes.
type settings struct {
	transcript int64
	stream     int64
	line       int64
	rounds     int
	events     int    // of the long log
	tasks      []int  // lengths of the plans
	log        int    // bytes of a transcript that is shown
	workers    []int  // numbers of workers on one box
	boxes      []int  // numbers of boxes on one database
	ready      []int  // numbers of tasks that are ready to be merged
	dir        string // for logs and repositories; "" means the folder for temporary files
}

// part is one comparison.
type part struct {
	name string
	run  func(settings) error
}

var parts = []part{
	{"transcript", func(
		s settings) error {
		return errors.Join(compareSpeed(s), compareResident(s))
	}},
	{"record", compareRecord},
	{"tree", compareTrees},
	{"run", compareRuns},
	{"clean", compareClean},
	{"inspect", measureInspect},
	{"serve", measureServe},
	{"machines", compareMachines},
}

func main() {
	if len(os.Args) > 1 && os.Args[1] == childMode {
		exit(runTask(os.Args[2:]))
	}
	var names []string
	for _, p := range parts {
		names = append(names, p.name)
	}
	quick := flag.Bool("quick", false, "measure small inputs, to check that everything works")
	dir := flag.String("dir", "",
		"`folder` for logs and repositories, on the disk to measure; the default is the folder for temporary files")
	only := flag.String("only", "", "measure only one `part`: "+strings.Join(names, ", "))
	flag.Parse()
	if *only != "" && !slices.Contains(names, *only) || flag.NArg() > 0 {
		flag.Usage()
		os.Exit(2)
	}
	s := settings{transcript: 200 * megabyte, stream: 1000 * megabyte, line: 256 * megabyte, rounds: 5, events: 1_000_000, tasks: []int{100, 300, 1000}, log: 64 << 20, workers: []int{1, 2, 4, 8}, boxes: []int{1, 10, 50}, ready: []int{1, 10, 50}, dir: *dir}
	if *quick {
		s = settings{transcript: 20 * megabyte, stream: 20 * megabyte, line: 20 * megabyte,
			rounds: 3, events: minEvents, tasks: []int{20}, log: 4 << 20, workers: []int{1, 2},
			boxes: []int{3}, ready: []int{1, 3}, dir: *dir}
	}
	snapshots, err := makeSnapshotFolder(*dir)
	if err != nil {
		exit(err)
	}
	printMachine()
	var wrong []error
	for _, p := range parts {
		if *only == "" || *only == p.name {
			wrong = append(wrong, p.run(s))
		}
	}
	exit(errors.Join(append(wrong, os.RemoveAll(snapshots))...))
}

// inFolder calls f with a new folder for a part, on the disk to measure.
func (s settings) inFolder(part string, f func(dir string) error) error {
	dir, err := os.MkdirTemp(s.dir, "signalbox-bench-"+part+"-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	return f(dir)
}

// withProgram is inFolder with a program of signalbox that was built there.
func (s settings) withProgram(part string, f func(dir, program string) error) error {
	return s.inFolder(part, func(dir string) error {
		dir, err := filepath.Abs(dir)
		if err != nil {
			return err
		}
		program := filepath.Join(dir, "signalbox")
		// This module does not require what the program links, so the program's own must build it.
		root, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", "signalbox").Output()
		if err != nil {
			return fmt.Errorf("find the module of the program: %w", err)
		}
		if out, err := exec.Command("go", "-C", strings.TrimSpace(string(root)), "build", "-o",
			program, "./cmd/signalbox").CombinedOutput(); err != nil {
			return fmt.Errorf("build the program: %w: %s", err, out)
		}
		return f(dir, program)
	})
}

// section is a measurement of a part, in a folder of its own.
type section struct {
	name    string
	measure func(dir string) error
}

// measureAll measures the sections of a part. After a wrong result it continues with the next one.
func measureAll(dir string, sections []section) error {
	var wrong []error
	for _, c := range sections {
		progress("%s", c.name)
		folder, err := folderIn(dir, c.name)
		if err == nil {
			err = c.measure(folder)
		}
		if err != nil {
			wrong = append(wrong, fmt.Errorf("%s: %w", c.name, err))
		}
	}
	return errors.Join(wrong...)
}

func exit(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
	os.Exit(0)
}

// progress reports on standard error what is being measured.
func progress(format string, args ...any) {
	fmt.Fprintf(os.Stderr, "bench: "+format+"\n", args...)
}
