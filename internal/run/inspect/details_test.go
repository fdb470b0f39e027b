package inspect

import (
	"strings"
	"testing"
	"unicode/utf8"
)

func TestBounded(t *testing.T) {
	for _, short := range []string{"", "one", strings.Repeat("a", maxText)} {
		if got := bounded(short); got != short {
			t.Errorf("a text of %d bytes became %d bytes", len(short), len(got))
		}
	}
	for _, long := range []string{strings.Repeat("a", maxText+1), strings.Repeat("é", maxText),
		"a" + strings.Repeat("😀", maxText)} {
		got := bounded(long)
		cut, marked := strings.CutSuffix(got, "…")
		if !marked || len(got) > maxText || len(got) < maxText-utf8.UTFMax ||
			!utf8.ValidString(got) || !strings.HasPrefix(long, cut) {
			t.Errorf("%.5s…: %d bytes, ending with %q", long, len(got), got[len(got)-8:])
		}
	}
	if got := bounded("a\xff"); got != "a\ufffd" {
		t.Errorf("invalid text became %q", got)
	}
}
