package dashboard

import (
	"fmt"
	"html/template"
	"strconv"
	"strings"
	"time"

	"signalbox"
	"signalbox/brief"
	"signalbox/internal/core/rules"
	"signalbox/internal/portfolio/answer"
	"signalbox/internal/run/history"
	"signalbox/internal/run/inspect"
	"signalbox/internal/show"
	"signalbox/internal/text"
)

// functions returns the functions of the templates.
func functions(now func() time.Time) template.FuncMap {
	return template.FuncMap{
		"words":     text.PrintableLines,
		"line":      show.OneLine,
		"ago":       func(t time.Time) string { return ago(now(), t) },
		"clock":     func(t time.Time) string { return t.UTC().Format("15:04:05") },
		"stamp":     func(t time.Time) string { return t.UTC().Format(time.RFC3339) },
		"dollars":   show.Dollars,
		"tokens":    show.Tokens,
		"cost":      cost,
		"costOf":    history.Cost,
		"tokensOf":  history.Tokens,
		"took":      history.Took,
		"used":      used,
		"seconds":   func(s float64) string { return text.Duration(time.Duration(s * float64(time.Second))) },
		"short":     func(hash string) string { return hash[:min(7, len(hash))] },
		"lamp":      lamp,
		"standing":  standing,
		"condition": condition,
		"plural":    text.Count,
		"events":    func(n uint64) string { return text.Count(int(n), "event") },
		"title":     phaseTitle,
		"percent":   percent,
		"failure":   findFailure,
		"cash":      answer.Cash,
		"signed":    answer.Signed,
		"join":      strings.Join,
		"severity":  severityLamp,
		"fixed": func(places int, n *brief.Number) string {
			return strconv.FormatFloat(brief.Finite(float64(*n), 0), 'f', places, 64)
		},
		"price":  func(n *brief.Number) string { return priceText(brief.Finite(float64(*n), 0)) },
		"lotsOf": lotsOf,
		"add":    func(a, b int) int { return a + b },
	}
}

// ago returns how long ago a time was.
func ago(now, t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return text.Duration(now.Sub(t))
}

// lamp returns the colour of the lamp of a condition, as a class of the style sheet.
func lamp(c inspect.Condition) string {
	switch c {
	case inspect.Working, inspect.Parked:
		return "busy"
	case inspect.Asking, inspect.NeedsApproval, inspect.Blocked:
		return "ask"
	case inspect.InRemediation:
		return "bad"
	case inspect.Completed:
		return "good"
	}
	return "off"
}

// severityLamp returns the colour of the lamp of a flag.
func severityLamp(s brief.Severity) string {
	switch s {
	case brief.Error:
		return "bad"
	case brief.Warning:
		return "ask"
	case brief.Success:
		return "good"
	}
	return "working"
}

// standing returns the condition of the run in words.
func standing(s string) string {
	switch s {
	case string(rules.StandingWorking):
		return "running"
	case string(rules.StandingAsking):
		return "waits for you"
	case string(rules.StandingLimited):
		return "waits for a limit to end"
	case string(rules.StandingEmpty):
		return "no work yet"
	}
	return strings.ReplaceAll(s, "_", " ")
}

// condition returns what a task is doing, in words.
func condition(c inspect.Condition) string { return strings.ReplaceAll(string(c), "_", " ") }

// phaseTitle returns a phase in words.
func phaseTitle(p signalbox.Phase) string {
	s := strings.ToLower(strings.ReplaceAll(string(p), "_", " "))
	if s == "ci pending" {
		return "Checks"
	}
	return strings.ToUpper(s[:min(1, len(s))]) + s[min(1, len(s)):]
}

// percent returns how much of a limit is used, at most 100.
func percent(used, limit int64) string {
	if limit <= 0 {
		return ""
	}
	return fmt.Sprint(min(100, used*100/limit))
}

func itoa(n int) string { return strconv.Itoa(n) }

// cost formats a cost that may be unknown, wholly or in part.
func cost(u inspect.Usage) string {
	if u.CostMicros == 0 && u.UnknownCost > 0 {
		return "unknown"
	}
	return show.Sum(show.Dollars(u.CostMicros), u.UnknownCost)
}

// used formats a number of tokens that may be unknown, wholly or in part.
func used(u inspect.Usage) string {
	if u.Tokens == 0 && u.UnknownTokens > 0 {
		return "unknown"
	}
	return show.Sum(show.Tokens(u.Tokens), u.UnknownTokens)
}
