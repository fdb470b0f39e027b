package envelope

import (
	"testing"
	"time"
)

func TestResetTime(t *testing.T) {
	want := time.Date(2026, 11, 15, 0, 37, 28, 0, time.UTC)
	for text, want := range map[string]time.Time{
		"1794703048":                want,
		"1794703048000":             want,
		"1794703048250":             want.Add(250 * time.Millisecond),
		"2026-11-15T00:37:28Z":      want,
		"2026-11-15T01:37:28+01:00": want,
		"2026-11-15T00:37:28.250Z":  want.Add(250 * time.Millisecond),
		"1":                         time.Unix(1, 0).UTC(),
		"253402300799999":           time.Date(9999, 12, 31, 23, 59, 59, 999e6, time.UTC),
		"253402300800000":           {},
		"9223372036854775808":       {},
		"0":                         {},
		"-1794703048":               {},
		"1794703048.5":              {},
		"1e9":                       {},
		"tomorrow":                  {},
		"2026-11-15 00:37:28":       {},
		"null":                      {},
		"":                          {},
	} {
		// Compared as values: the time must be in UTC too, because it is printed.
		if got := resetTime(text); got != want {
			t.Errorf("resetTime(%q) = %v, want %v", text, got, want)
		}
	}
}
