package crew

import (
	"regexp"
	"strconv"
	"strings"
	"time"

	"signalbox"
)

// limit is what the turn said about a limit of the agent's service. Some programs have a field for it; of others the last
// complaint says it, if it says until when.
func (h *hearer) limit(now time.Time) (until time.Time, limited bool) {
	if rateLimited(h.report.RateLimit) {
		return h.report.RateLimit.ResetsAt, true
	}
	for _, complaint := range []string{h.report.Error, lastLine(h.errors.String())} {
		if until, limited := limitIn(complaint, now); limited {
			return until, true
		}
	}
	return time.Time{}, false
}

func rateLimited(l signalbox.RateLimit) bool {
	return l.Status != "" && l.Status != "allowed" && l.Status != "allowed_warning"
}

var (
	limitWords = regexp.MustCompile(`(?i)rate.?limit|usage limit|quota|too many requests|\b429\b`)
	limitTime  = regexp.MustCompile(`\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)`)
	limitPause = regexp.MustCompile(`(?i)\b(?:again|retry|resets?|wait)\s+(?:(?:in|after|for)\s+)?((?:\d+(?:\.\d+)?\s*(?:milliseconds?|ms|seconds?|secs?|s|minutes?|mins?|m|hours?|h|days?|d)\b[\s,]*)+)`)
	pausePart  = regexp.MustCompile(`(?i)(\d+(?:\.\d+)?)\s*(ms|milli|s|m|h|d)`)
)

// limitIn finds in a complaint of a program that its service refuses to serve, and until when. Without a time it is a
// failure like others.
func limitIn(text string, now time.Time) (until time.Time, limited bool) {
	if !limitWords.MatchString(text) {
		return time.Time{}, false
	}
	if at, err := time.Parse(time.RFC3339, limitTime.FindString(text)); err == nil {
		return at, true
	}
	found := limitPause.FindStringSubmatch(text)
	if found == nil {
		return time.Time{}, false
	}
	for _, part := range pausePart.FindAllStringSubmatch(found[1], -1) {
		n, err := strconv.ParseFloat(part[1], 64)
		if err != nil {
			return time.Time{}, false
		}
		unit := map[string]time.Duration{"ms": time.Millisecond, "milli": time.Millisecond, "s": time.Second, "m": time.Minute, "h": time.Hour, "d": 24 * time.Hour}
		now = now.Add(time.Duration(n * float64(unit[strings.ToLower(part[2])])))
	}
	return now, true
}
