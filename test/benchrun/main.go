//go:build unix

// Command benchrun measures signalbox run, the whole program with real processes and real git: what a task costs in plans of
// different lengths, beside the same git commands and agents without signalbox, and how many agents run at once. It prints
// a table; a goal that is missed is printed as short.
package main

import (
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
)

func main() {
	tasks := flag.String("tasks", "100,300,1000", "lengths of the plans")
	agents := flag.Int("agents", 500, "agents to run at once; 0 is none")
	slots := flag.Int("slots", 5, "agents at once in the plans")
	flag.Parse()
	if err := measure(*tasks, *agents, *slots); err != nil {
		fmt.Fprintln(os.Stderr, "benchrun:", err)
		os.Exit(1)
	}
}

func measure(lengths string, agents, slots int) error {
	dir, err := os.MkdirTemp("", "benchrun-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	program := filepath.Join(dir, "signalbox")
	if output, err := exec.Command("go", "build", "-o", program, "./cmd/signalbox").CombinedOutput(); err != nil {
		return fmt.Errorf("build: %w: %s", err, output)
	}
	fmt.Printf("%s, %s/%s, %d cores\n\n", runtime.Version(), runtime.GOOS, runtime.GOARCH, runtime.NumCPU())
	if err := measureLengths(dir, program, lengths, slots); err != nil {
		return err
	}
	if agents > 0 {
		return measureAgents(dir, program, agents)
	}
	return nil
}

// measureLengths runs a plan of each length, and once the same work without signalbox.
func measureLengths(dir, program, lengths string, slots int) error {
	fmt.Printf("%-28s %10s %12s %12s %14s\n", "", "seconds", "ms a task", "CPU ms/task", "peak memory MB")
	var first, last result
	for i, text := range strings.Split(lengths, ",") {
		n, err := strconv.Atoi(strings.TrimSpace(text))
		if err != nil {
			return err
		}
		s, err := newSite(filepath.Join(dir, "plan"+text), program, atOnce, slots)
		if err != nil {
			return err
		}
		r, err := s.run(n)
		if err != nil {
			return err
		}
		r.print(fmt.Sprintf("signalbox run, %d tasks", n))
		if last = r; i == 0 {
			first = r
		}
		os.RemoveAll(s.dir)
	}
	bare, err := bareWork(filepath.Join(dir, "bare"), program, 50)
	if err != nil {
		return err
	}
	bare.print(fmt.Sprintf("bare git and agents, %d tasks", bare.tasks))
	fmt.Printf("\nCPU a task, longest plan to shortest: %.2f (goal: about 1)%s\n", last.cpuPerTask()/first.cpuPerTask(), short(last.cpuPerTask() > 1.25*first.cpuPerTask()))
	fmt.Printf("CPU a task, signalbox to bare: %.2f\n", last.cpuPerTask()/bare.cpuPerTask())
	fmt.Printf("peak memory, longest plan to shortest: %.2f (goal: flat)%s\n", last.memory/first.memory, short(last.memory > 3*first.memory))
	return nil
}

func short(missed bool) string {
	if missed {
		return "  short"
	}
	return ""
}
