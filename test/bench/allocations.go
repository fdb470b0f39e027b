package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"runtime"

	"signalbox/transcript"
)

const (
	allocationSize = 64 * megabyte
	// Less than this is printed as 0.00.
	goalAllocations = 0.005
)

// countAllocations scans each transcript with and without signals: a signal is handed out and must be allocated,
// a line must not.
func countAllocations(s settings) error {
	var t table
	t.row("transcript", "lines", "signals", "allocations", "per line", "per signal", "goal")
	size := min(allocationSize, s.transcript)
	var wrong []error
	for _, format := range []transcript.Format{transcript.FormatPlain, transcript.FormatClaude} {
		for _, blocks := range []*generator{newGenerator(seed, size, never), newGenerator(seed, size, often)} {
			progress("allocations: %s", format)
			data, err := io.ReadAll(newStream(blocks, format))
			if err != nil {
				return err
			}
			l := listener{want: blocks.planted}
			allocations, err := allocationsOf(data, format, &l)
			if err != nil {
				return err
			}
			wrong = append(wrong, l.verdict())
			t.row(allocationRow(string(format), bytes.Count(data, []byte("\n")), len(blocks.planted), allocations)...)
		}
	}
	t.print("Allocations")
	return errors.Join(wrong...)
}

func allocationsOf(data []byte, format transcript.Format, l *listener) (uint64, error) {
	r := bytes.NewReader(data)
	buf := make([]byte, pieceSize)
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	_, err := listen(r, format, buf, l.take)
	runtime.ReadMemStats(&after)
	return after.Mallocs - before.Mallocs, err
}

func allocationRow(format string, lines, signals int, allocations uint64) []string {
	perLine := float64(allocations) / float64(lines)
	name, perSignal, goal := format+", with signals", "", ""
	if signals == 0 {
		name, goal = format+", no signals", verdict("0.00 per line", perLine < goalAllocations)
	} else {
		perSignal = fmt.Sprintf("%.0f", float64(allocations)/float64(signals))
	}
	return []string{name, fmt.Sprint(lines), fmt.Sprint(signals), fmt.Sprint(allocations), fmt.Sprintf("%.2f", perLine),
		perSignal, goal}
}
