// Command benchportfolio measures what the lots and the harvest of a large portfolio cost: time and memory, for histories
// of several shapes and sizes, beside the least that any program must do with the same rows, in the same run. Each
// figure comes from a process of its own, so that memory is that row's alone. It prints a table and the goals that were
// missed, on which it fails with -strict only: the machine may be busy.
package main

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"time"
)

// Goals. Time is for goalRows; memory is for each of them, whatever the number of rows.
const (
	goalRows   = 100_000
	goalTime   = time.Second
	goalMemory = 3000 // bytes a row
)

func main() {
	n := flag.Int("n", 0, "measure only this many transactions; 0: 10,000, 100,000 and 1,000,000")
	only := flag.String("only", "", "measure only shapes whose name contains this")
	child := flag.String("child", "", "measure this one shape and print JSON; for the program itself")
	profile := flag.String("cpuprofile", "", "with -child: write a CPU profile of building and harvesting to this file")
	strict := flag.Bool("strict", false, "fail if a goal is missed")
	flag.Parse()
	var err error
	if *child != "" {
		err = measureOne(*child, *n, *profile)
	} else {
		sizes := []int{10_000, goalRows, 10 * goalRows}
		if *n > 0 {
			sizes = []int{*n}
		}
		err = measureAll(sizes, *only, *strict)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "benchportfolio:", err)
		os.Exit(1)
	}
}

// figures are what a child process measures.
type figures struct {
	Build, Harvest, Peer  time.Duration
	Read, Convert         time.Duration // of the import only
	PeakMB                int
	Lots, Sales, Washes   int
	Candidates, TextBytes int
}

func (f figures) took() time.Duration { return f.Build + f.Harvest }

func perRow(d time.Duration, n int) float64 { return float64(d.Nanoseconds()) / float64(n) }

func measureAll(sizes []int, only string, strict bool) error {
	fmt.Printf("%s, %s/%s, %d cores. The peer is one pass over the same rows that sums quantity × price by ticker.\n\n", runtime.Version(), runtime.GOOS, runtime.GOARCH, runtime.NumCPU())
	fmt.Println("| history | rows | build ms | harvest ms | ns/row | × peer | × smallest | peak MB | lots | wash sales |")
	fmt.Println("|---|--:|--:|--:|--:|--:|--:|--:|--:|--:|")
	var missed []string
	for _, s := range shapes() {
		if !strings.Contains(s.name, only) {
			continue
		}
		smallest := 0.0
		for _, n := range sizes {
			f, err := measureChild(s.name, n)
			if err != nil {
				return err
			}
			if each := perRow(f.took(), n); smallest == 0 {
				smallest = each
			}
			fmt.Printf("| %s | %d | %d | %d | %.0f | %.1f | %.2f | %d | %d | %d |\n", s.name, n, f.Build.Milliseconds(), f.Harvest.Milliseconds(),
				perRow(f.took(), n), float64(f.took())/float64(max(f.Peer, 1)), perRow(f.took(), n)/smallest, f.PeakMB, f.Lots, f.Washes)
			missed = append(missed, f.misses(s.name, n)...)
		}
	}
	if err := measureImports(sizes, only); err != nil {
		return err
	}
	if len(missed) == 0 {
		fmt.Println("\nAll goals are met.")
		return nil
	}
	fmt.Printf("\nGoals missed:\n\n- %s\n", strings.Join(missed, "\n- "))
	if strict {
		return errors.New("goals were missed")
	}
	return nil
}

// misses lists the goals that a history misses.
func (f figures) misses(name string, n int) (list []string) {
	if n <= goalRows && f.took() > goalTime {
		list = append(list, fmt.Sprintf("%s, %d rows: %s, the goal is %s", name, n, f.took().Round(time.Millisecond), goalTime))
	}
	if most := max(goalMemory*n/1_000_000, 100); f.PeakMB > most {
		list = append(list, fmt.Sprintf("%s, %d rows: %d MB, the goal is %d MB", name, n, f.PeakMB, most))
	}
	return list
}

const importName = "own CSV, 500 tickers, fifo"

// measureImports prints what a user waits for, from the file's bytes to the answer.
func measureImports(sizes []int, only string) error {
	if !strings.Contains(importName, only) {
		return nil
	}
	fmt.Println("\n| import | rows | MB of text | read ms | convert ms | build ms | harvest ms | all ms | ns/row | × peer | peak MB |")
	fmt.Println("|---|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|")
	for _, n := range sizes {
		f, err := measureChild(importName, n)
		if err != nil {
			return err
		}
		all := f.Read + f.Convert + f.took()
		fmt.Printf("| %s | %d | %.1f | %d | %d | %d | %d | %d | %.0f | %.1f | %d |\n", importName, n, float64(f.TextBytes)/1e6, f.Read.Milliseconds(),
			f.Convert.Milliseconds(), f.Build.Milliseconds(), f.Harvest.Milliseconds(), all.Milliseconds(), perRow(all, n), float64(all)/float64(max(f.Peer, 1)), f.PeakMB)
	}
	return nil
}

func measureChild(name string, n int) (f figures, err error) {
	self, err := os.Executable()
	if err != nil {
		return f, fmt.Errorf("measure %s: %w", name, err)
	}
	cmd := exec.Command(self, "-child", name, "-n", strconv.Itoa(n))
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		return f, fmt.Errorf("measure %s with %d rows: %w", name, n, err)
	}
	if err := json.Unmarshal(out, &f); err != nil {
		return f, fmt.Errorf("measure %s with %d rows: %w", name, n, err)
	}
	return f, nil
}
