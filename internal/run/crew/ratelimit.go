package crew

import (
	"strconv"
	"strings"
	"time"

	"signalbox/internal/lazy"
	"signalbox/internal/text"

	"signalbox"
)

// rateLimit reports whether the agent's service refused to serve, and until when. Some programs
// have a field for it. From others it is read from the last error message, if that says until when.
func (l *listener) rateLimit(now time.Time) (until time.Time, limited bool) {
	if rateLimited(l.stream.RateLimit) {
		return l.stream.RateLimit.ResetsAt, true
	}
	for _, message := range []string{l.stream.Error, text.LastLine(l.errors.String())} {
		if until, limited := parseRateLimit(message, now); limited {
			return until, true
		}
	}
	return time.Time{}, false
}

func rateLimited(r signalbox.RateLimit) bool {
	return r.Status != "" && r.Status != "allowed" && r.Status != "allowed_warning"
}

var (
	limitWords = lazy.Regexp(`(?i)rate.?limit|usage limit|quota|too many requests|\b429\b`)
	limitTime  = lazy.Regexp(`\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)`)
	limitPause = lazy.Regexp(
		`(?i)\b(?:again|retry|resets?|wait)\s+(?:(?:in|after|for)\s+)?((?:\d+(?:\.\d+)?\s*(?:milliseconds?|ms|seconds?|secs?|s|minutes?|mins?|m|hours?|h|days?|d)\b[\s,]*)+)`)
	pausePart = lazy.Regexp(`(?i)(\d+(?:\.\d+)?)\s*(ms|milli|s|m|h|d)`)
)

// parseRateLimit finds a rate limit and its end in an error message. A message without a time is an
// ordinary failure.
func parseRateLimit(text string, now time.Time) (until time.Time, limited bool) {
	if !limitWords().MatchString(text) {
		return time.Time{}, false
	}
	if at, err := time.Parse(time.RFC3339, limitTime().FindString(text)); err == nil {
		return at, true
	}
	found := limitPause().FindStringSubmatch(text)
	if found == nil {
		return time.Time{}, false
	}
	for _, part := range pausePart().FindAllStringSubmatch(found[1], -1) {
		n, err := strconv.ParseFloat(part[1], 64)
		if err != nil {
			return time.Time{}, false
		}
		unit := map[string]time.Duration{"ms": time.Millisecond, "milli": time.Millisecond, "s": time.Second, "m": time.Minute, "h": time.Hour, "d": 24 * time.Hour}
		now = now.Add(time.Duration(n * float64(unit[strings.ToLower(part[2])])))
	}
	return now, true
}
