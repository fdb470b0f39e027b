package progress

import (
	"fmt"
	"strings"
	"time"

	"signalbox/internal/text"
)

// formatDuration formats a duration: 1m38s, 2h05m.
func formatDuration(d time.Duration) string {
	d = max(d, 0).Truncate(time.Second)
	switch h, m, s := int(d.Hours()), int(d.Minutes())%60, int(d.Seconds())%60; {
	case h >= 48:
		return fmt.Sprintf("%dd%02dh", h/24, h%24)
	case h > 0:
		return fmt.Sprintf("%dh%02dm", h, m)
	case m > 0:
		return fmt.Sprintf("%dm%02ds", m, s)
	default:
		return fmt.Sprintf("%ds", s)
	}
}

// tokens formats a number of tokens: 950, 12.3k, 4.5M.
func tokens(n int64) string {
	switch {
	case n < 1000:
		return fmt.Sprintf("%d", n)
	case n < 999_950:
		return fmt.Sprintf("%.1fk", float64(n)/1e3)
	default:
		return fmt.Sprintf("%.1fM", float64(n)/1e6)
	}
}

// dollars formats a cost in millionths of a dollar.
func dollars(micros int64) string {
	if micros > 0 && micros < 10_000 {
		return fmt.Sprintf("$%.4f", float64(micros)/1e6)
	}
	return fmt.Sprintf("$%.2f", float64(micros)/1e6)
}

// nth returns 1st, 2nd, 3rd, 4th.
func nth(n int) string { return text.Ordinal(n) }

// attempt returns the number of an attempt for the end of a sentence, and nothing for the first.
func attempt(n int) string {
	if n <= 1 {
		return ""
	}
	return fmt.Sprintf(" (attempt %d)", n)
}

// times returns how often something happened for the end of a sentence, and nothing for the first time.
func times(n int) string {
	if n <= 1 {
		return ""
	}
	return fmt.Sprintf(" (%s time)", nth(n))
}

// count returns a number with its noun: 1 task, 2 tasks.
func count(n int, noun string) string { return text.Count(n, noun) }

// oneLine returns escaped text on one line, with spaces for line ends.
func oneLine(s string) string {
	return text.Printable(strings.TrimSpace(strings.NewReplacer("\r\n", " ", "\n", " ", "\r", " ", "\t", " ").Replace(s)))
}
