package crew

import (
	"cmp"
	"strconv"
	"strings"
	"time"

	"signalbox/internal/lazy"
	"signalbox/internal/run/agent"
	"signalbox/internal/text"

	"signalbox"
)

// rateLimit reports whether the agent's service refused to serve, and until when. Some programs
// have a field for it. From others it is read from the last error message, if that says until when.
func (l *listener) rateLimit(now time.Time) (until time.Time, limited bool) {
	if rateLimited(l.stream.RateLimit) {
		return l.stream.RateLimit.ResetsAt, true
	}
	for _, message := range []string{l.stream.Error, text.LastLine(l.errors.String()),
		l.refusals.message} {
		if until, limited := parseRateLimit(message, now); limited {
			return until, true
		}
	}
	return time.Time{}, false
}

// retries are what a program repeats requests after, since it was heard of last.
type retries struct {
	message string    // the last one, "" if there is none
	since   time.Time // when its service first spoke of a rate limit; zero if it has not
}

// refusedTime is for how long a program may repeat requests because of a rate limit. Most limits of
// a minute end by then. It is far less than limits.silence, because another agent can work.
const refusedTime = time.Minute

// noteRefusal notes that the service refused a request at a time, which the program will repeat.
// The caller holds mu.
func (l *listener) noteRefusal(message string, at time.Time) {
	l.refusals.message = message
	again, limited := parseRateLimit(message, time.Now())
	if !limited && agent.Diagnose(l.formatNow(), 0, message) != agent.TroubleLimit {
		return
	}
	if l.refusals.since.IsZero() {
		l.refusals.since = at
	}
	if again.IsZero() {
		again = time.Now()
	}
	patience := cmp.Or(l.run.crew.opts.delays.refused, refusedTime)
	if again.Sub(l.refusals.since) >= patience {
		trySend(l.refused)
	}
}

// readRefusals looks at the log of a program that prints nothing when its service refuses its
// requests. The agent's tools can write to that log, so it counts only for what ends by itself.
func (l *listener) readRefusals(log *agent.Refusals) {
	l.mu.Lock()
	defer l.mu.Unlock()
	message, since, waits := log.Read(l.heard)
	if !waits {
		return
	}
	switch agent.Diagnose(l.formatNow(), 0, message) {
	case agent.TroubleLimit, agent.TroubleServer:
		l.noteRefusal(message, since)
	}
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
