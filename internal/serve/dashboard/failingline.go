package dashboard

import (
	"strings"

	"signalbox/internal/lazy"
)

// failingOutput is the output of a check that failed, with the line to look at first.
type failingOutput struct{ Before, Line, After string }

// failureWords matches lines that report a failure, and noFailure those that say that there was
// none.
var (
	failureWords = lazy.Regexp(
		`(?i)\b(error|errors|fail|fails|failed|failure|failures|fatal|panic|exception|traceback|assert\w*|not ok|undefined|cannot)\b|(?-i:\w+(Error|Exception)\b)|✗|✘|✕|×`)
	noFailure = lazy.Regexp(`(?i)\b(0|no) (error|fail|failed|failure|warning)`)
)

// findFailure returns the output of a check in three parts: the first line that reports a failure,
// or else the last line that is not blank, and what is around it.
func findFailure(output string) failingOutput {
	start, end := 0, 0 // of the line
	at := 0
	for line := range strings.Lines(output) {
		if strings.TrimSpace(line) != "" {
			start, end = at, at+len(line)
			if failureWords().MatchString(line) && !noFailure().MatchString(line) {
				break
			}
		}
		at += len(line)
	}
	end -= len(output[start:end]) - len(strings.TrimRight(output[start:end], "\r\n"))
	return failingOutput{output[:start], output[start:end], output[end:]}
}
