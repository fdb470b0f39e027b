// Command benchoracle measures the oracle's conversations: real model clients and a scripted model server in a process of its
// own, over loopback, with sessions, journals and a ledger on the disk. It tells what a turn costs beside the model's own
// time, how soon the first words are passed on, and what a thousand conversations at once take. It prints tables; a goal
// that is missed is printed as short, and a wrong result is an error.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"runtime/pprof"
)

// settings are the command line.
type settings struct {
	rounds, many int
	dir, profile string
}

func main() {
	if len(os.Args) == 2 && os.Args[1] == serveMode {
		exit(serve(os.Stdin, os.Stdout))
	}
	var s settings
	flag.IntVar(&s.rounds, "rounds", 100, "conversations of four turns for each row")
	flag.IntVar(&s.many, "many", 1000, "conversations to have open at once; 0 is none")
	flag.StringVar(&s.dir, "dir", "", "folder to write to, on a disk; that for temporary files if it is empty")
	flag.StringVar(&s.profile, "profile", "", "file for a profile of the processor's time; for use with -only")
	only := flag.String("only", "", "measure one thing: turns, first or many")
	quick := flag.Bool("quick", false, "fewer of everything, to see that it works")
	flag.Parse()
	if *quick {
		s.rounds, s.many = min(s.rounds, 10), min(s.many, 100)
	}
	exit(run(s, *only))
}

func exit(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, "benchoracle:", err)
		os.Exit(1)
	}
	os.Exit(0)
}

func run(s settings, only string) error {
	parts := map[string]func(context.Context, settings) error{"turns": measureTurns, "first": measureFirst, "many": measureMany}
	if only == "" {
		return all(s)
	}
	part := parts[only]
	if part == nil {
		return fmt.Errorf("there is nothing called %q to measure: use turns, first or many", only)
	}
	if s.profile != "" {
		f, err := os.Create(s.profile)
		if err != nil {
			return err
		}
		defer f.Close()
		if err := pprof.StartCPUProfile(f); err != nil {
			return err
		}
		defer pprof.StopCPUProfile()
	}
	return part(context.Background(), s)
}

// all measures each part in a process of its own: the peak of a process never falls, and what one part left behind is no
// cost of the next.
func all(s settings) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	fmt.Printf("%s, %s/%s, %d cores\n", runtime.Version(), runtime.GOOS, runtime.GOARCH, runtime.NumCPU())
	var wrong []error
	for _, part := range []string{"turns", "first", "many"} {
		if part == "many" && s.many == 0 {
			continue
		}
		c := exec.Command(self, "-only", part, "-rounds", fmt.Sprint(s.rounds), "-many", fmt.Sprint(s.many), "-dir", s.dir)
		c.Stdout, c.Stderr = os.Stdout, os.Stderr
		if err := c.Run(); err != nil {
			wrong = append(wrong, fmt.Errorf("%s: %w", part, err))
		}
	}
	return errors.Join(wrong...)
}
