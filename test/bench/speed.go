package main

import (
	"cmp"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"signalbox"
)

const (
	goalRipgrep = 1.3 // times ripgrep, for plain text
	goalJSON    = 300 // MB/s
)

// contestant is one way to scan the transcript. Its amount is in bytes.
type contestant struct {
	racer
	goal  float64 // MB/s; 0 means none
	plain bool    // compared with ripgrep
}

func newContestant(name string, size int64, run func() error) *contestant {
	return &contestant{racer: racer{name: name, amount: int(size), run: run}}
}

// scans are the inputs of our scanner. The rivals read the file of the first.
var scans = []struct {
	name   string
	format signalbox.Format
	every  int64
	goal   float64
}{
	{"signalbox, plain text", signalbox.FormatPlain, rare, 0},
	{"signalbox, plain text, a signal every 250 KB", signalbox.FormatPlain, often, 0},
	{"signalbox, claude stream", signalbox.FormatClaude, rare, goalJSON},
	{"signalbox, codex stream", signalbox.FormatCodex, rare, goalJSON},
	{"signalbox, gemini stream", signalbox.FormatGemini, rare, goalJSON},
	{"signalbox, opencode stream", signalbox.FormatOpencode, rare, goalJSON},
}

// transcriptFile is a file with the transcript in one format.
type transcriptFile struct {
	path    string
	format  signalbox.Format
	size    int64
	planted []planted
}

func writeTranscript(dir string, format signalbox.Format, size,
	every int64) (m transcriptFile, err error) {
	progress("writing %d MB as %s", size/megabyte, format)
	m = transcriptFile{path: filepath.Join(dir, fmt.Sprint(format, every)), format: format}
	f, err := os.Create(m.path)
	if err != nil {
		return m, err
	}
	defer func() { err = cmp.Or(err, f.Close()) }()
	blocks := newGenerator(seed, size, every)
	m.size, err = io.CopyBuffer(struct{ io.Writer }{f}, newStream(blocks, format),
		make([]byte, pieceSize))
	m.planted = blocks.planted
	return m, err
}

func compareSpeed(s settings) error {
	dir, err := os.MkdirTemp("", "signalbox-bench-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	contestants, ripgrep, err := contestantsIn(dir, s.transcript)
	if err != nil {
		return err
	}
	var racers []*racer
	for _, c := range contestants {
		racers = append(racers, &c.racer)
	}
	err = race("speed", s.rounds, racers...)
	printSpeed(contestants, ripgrep, s.rounds)
	return err
}

// contestantsIn writes the input files, and returns all contestants. The second result is ripgrep,
// or nil if it is not installed.
func contestantsIn(dir string, size int64) (all []*contestant, ripgrep *contestant, err error) {
	var files []transcriptFile
	for i, s := range scans {
		m, err := writeTranscript(dir, s.format, size, s.every)
		if err != nil {
			return nil, nil, err
		}
		files = append(files, m)
		c := newContestant(s.name, m.size, m.scan)
		c.goal, c.plain = s.goal, i == 0
		all = append(all, c)
	}
	plain := files[0]
	lines, err := plain.countLines()
	if err != nil {
		return nil, nil, err
	}
	fmt.Printf("\nTranscript: %d MB, %d lines of %.0f bytes on average, %d signals planted.\n",
		plain.size/megabyte,
		lines, float64(plain.size)/float64(lines), len(plain.planted))
	if ripgrep = newRipgrep(plain); ripgrep != nil {
		all = append(all, ripgrep)
	}
	regexps, err := newRegexps(plain)
	if err != nil {
		return nil, nil, err
	}
	walk := newContestant("bare walk over line ends", plain.size, func() error {
		_, err := plain.countLines()
		return err
	})
	return append(append(all, regexps...), walk), ripgrep, nil
}

func (m *transcriptFile) scan() error {
	f, err := os.Open(m.path)
	if err != nil {
		return err
	}
	defer f.Close()
	_, _, err = scan(f, m.format, &m.planted)
	return err
}

func printSpeed(contestants []*contestant, ripgrep *contestant, rounds int) {
	walk := contestants[len(contestants)-1]
	var t table
	t.row("contestant", "MB", "MB/s", "slowest–fastest", "× ripgrep", "× line walk", "goal")
	for _, c := range contestants {
		times := "–"
		if ripgrep != nil {
			times = fmt.Sprintf("%.2f", c.times(&ripgrep.racer))
		}
		cells := slices.Insert(c.cells(megabyte), 1, fmt.Sprint(c.amount/megabyte))
		t.row(append(cells, times, fmt.Sprintf("%.2f", c.times(&walk.racer)), c.goals(ripgrep))...)
	}
	if ripgrep == nil {
		t.row("ripgrep", "", "not installed", "", "", "", "")
	}
	t.print(fmt.Sprintf("Speed (median of %d interleaved rounds)", rounds))
}

func (c *contestant) goals(ripgrep *contestant) string {
	if c.err != nil {
		return "wrong result"
	}
	var goals []string
	if c.goal > 0 {
		goals = append(goals, formatGoal(fmt.Sprintf("≥ %.0f MB/s", c.goal),
			c.speed(megabyte) >= c.goal))
	}
	if c.plain && ripgrep != nil {
		goals = append(goals, formatGoal(fmt.Sprintf("≥ %.1f × ripgrep", goalRipgrep),
			c.times(&ripgrep.racer) >= goalRipgrep))
	}
	return strings.Join(goals, "; ")
}
