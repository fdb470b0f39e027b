package crew

import (
	"strings"

	"signalbox/internal/lazy"
	"signalbox/internal/text"
)

const (
	// maxErrorLines and maxErrorBytes bound what is recorded of the standard error of a program
	// that crashed.
	maxErrorLines = 10
	maxErrorBytes = 900
)

// terminalControl is what colours text and moves the cursor.
var terminalControl = lazy.Regexp(`\x1b\[[0-9;:?]*[ -/]*[@-~]|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)`)

// noise are lines that say nothing without the program's source: frames of stacks, and rulers.
var noise = lazy.Regexp(
	`^(at |File ".*", line |goroutine \d+ \[|\S+\.go:\d+ \+0x|[^\pL\pN]*$|Node\.js v[\d.]+$)`)

// lastLines returns the end of a program's standard error for people: the last lines, without noise
// and repetitions.
func lastLines(errors string) string {
	var said, all []string
	for line := range strings.Lines(terminalControl().ReplaceAllString(errors, "")) {
		line = strings.TrimRight(line, "\r\n")
		line = line[strings.LastIndexByte(line, '\r')+1:] // what a progress bar shows last
		if line = text.OneLine(line); line == "" || len(all) > 0 && all[len(all)-1] == line {
			continue
		}
		if all = append(all, line); !noise().MatchString(line) {
			said = append(said, line)
		}
	}
	if len(said) == 0 {
		said = all
	}
	said = said[max(0, len(said)-maxErrorLines):]
	for len(said) > 1 && len(strings.Join(said, "\n")) > maxErrorBytes {
		said = said[1:]
	}
	return text.Truncate(strings.Join(said, "\n"), maxErrorBytes)
}
