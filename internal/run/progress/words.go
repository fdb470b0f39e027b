package progress

import (
	"time"

	"signalbox/internal/show"
	"signalbox/internal/text"
)

// formatDuration formats a duration: 1m38s, 2h05m.
func formatDuration(d time.Duration) string { return show.Duration(d) }

// tokens formats a number of tokens: 950, 12.3k, 4.5M.
func tokens(n int64) string { return show.Tokens(n) }

// dollars formats a cost in millionths of a dollar.
func dollars(micros int64) string { return show.Dollars(micros) }

// nth returns 1st, 2nd, 3rd, 4th.
func nth(n int) string { return text.Ordinal(n) }

// count returns a number with its noun: 1 task, 2 tasks.
func count(n int, noun string) string { return text.Count(n, noun) }

// oneLine returns escaped text on one line, with spaces for line ends.
func oneLine(s string) string { return show.OneLine(s) }
