// Package output collects what a program prints, and compares it with what a document shows.
package output

import (
	"path/filepath"
	"regexp"
	"strings"
)

// varies lists the parts of the output that vary between runs, with their replacements for
// comparison.
var varies = []struct {
	what *regexp.Regexp
	by   string
}{
	{regexp.MustCompile(`\d{4}-\d\d-\d\dT[\d:.]+Z`), "TIME"},
	{regexp.MustCompile(`l-[0-9a-f]{12}`), "LEASE"},
	{regexp.MustCompile(`run T-[0-9a-f]{12}`), "run RUN"},
	{regexp.MustCompile(`\d+ tokens, rehearsal, session O-[0-9a-f]{12}`), "COST and SESSION"},
	{regexp.MustCompile(`\+[0-9a-f]{8}\+\S{44}`), "+KEY"},
	{regexp.MustCompile(`box-[0-9a-f]{12}`), "BOX"},
	{regexp.MustCompile(`secret-[A-Z2-7]{52}`), "SECRET"},
	{regexp.MustCompile(`[0-9a-f]{64}`), "HASH"},
	{regexp.MustCompile(`signing key: .*/signalbox/keys/`), "signing key: HOME/"},
	{regexp.MustCompile(`(?m)^\d\d:\d\d:\d\d `), "CLOCK "},
	{regexp.MustCompile(`asked \d{4}-\d\d-\d\d \d\d:\d\d`), "asked DAY"},
	{regexp.MustCompile(`merged as [0-9a-f]{7}`), "merged as COMMIT"},
	{regexp.MustCompile(`\b(\d+\.)?\d+m?s\b`), "LONG"}, // 40ms, 1.2s, 38s
	{regexp.MustCompile(`\b\d+m\d\ds\b`), "LONG"},      // 2m05s
}

// Steady returns output with the parts that vary between runs replaced, such as times and
// identifiers.
func Steady(text string) string {
	text = filepath.ToSlash(text)
	for _, v := range varies {
		text = v.what.ReplaceAllString(text, v.by)
	}
	return strings.TrimSuffix(text, "\n")
}
