package tax

import (
	"testing"
	"time"

	"pgregory.net/rapid"

	"signalbox/internal/testkit/property"
)

// TestLongTermFrom has our own examples; Rev. Rul. 66-7 has the rule for the last day of a month.
func TestLongTermFrom(t *testing.T) {
	for _, tt := range []struct{ bought, long string }{
		{"2023-06-15", "2024-06-16"},
		{"2023-02-28", "2024-03-01"},
		{"2024-02-29", "2025-03-01"},
		{"2024-02-28", "2025-03-01"},
		{"2023-12-31", "2025-01-01"},
		{"2023-02-27", "2024-02-28"},
	} {
		hold := day(t, tt.bought).AddDays(1)
		if got := LongTermFrom(hold).String(); got != tt.long {
			t.Errorf("bought %s: long-term from %s, want %s", tt.bought, got, tt.long)
		}
		from := day(t, tt.long)
		if longTerm(hold, from-1) || !longTerm(hold, from) {
			t.Errorf("bought %s: long-term on %s: %t, on %s: %t", tt.bought, from-1,
				longTerm(hold, from-1), from, longTerm(hold, from))
		}
	}
}

func TestDateMatchesCalendar(t *testing.T) {
	property.Check(t, func(t *rapid.T) {
		d := Date(rapid.Int32Range(1, 200000).Draw(t, "days"))
		back, err := ParseDate(d.String())
		if err != nil || back != d {
			t.Fatalf("%d is %s, which is %d: %v", d, d, back, err)
		}
		if want := d.Time().AddDate(0, 0,
			31).Format(time.DateOnly); d.AddDays(31).String() != want {
			t.Fatalf("31 days after %s: %s, want %s", d, d.AddDays(31), want)
		}
		n := Date(rapid.Int32Range(0, 800).Draw(t, "later"))
		if got, want := longTerm(d, d+n), d+n >= LongTermFrom(d); got != want {
			t.Fatalf("held from %s to %s: %t", d, d+n, got)
		}
	})
}

func TestDateCountsFrom1800(t *testing.T) {
	if d := day(t, "1800-01-01"); d != 1 {
		t.Errorf("1800-01-01 is %d", d)
	}
}

func TestParseDateRejects(t *testing.T) {
	for _, s := range []string{"", "2024-13-01", "2024-02-30", "01/02/2024", "0024-01-01",
		"1799-12-31", "2024-1-1"} {
		if d, err := ParseDate(s); err == nil {
			t.Errorf("ParseDate(%q) = %s, want an error", s, d)
		}
	}
}
