package text

import (
	"encoding/json"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"pgregory.net/rapid"

	"signalbox/internal/testkit/property"
)

func TestPrintable(t *testing.T) {
	for in, want := range map[string]string{
		"plain, naïve 漢字 👍":      "plain, naïve 漢字 👍",
		"\x1b[2J\a":              `\x1b[2J\a`,
		"two\nhint: lines":       `two\nhint: lines`,
		"C1 \u009b31m":           `C1 \u009b31m`,
		"\u202eexe.txt":          `\u202eexe.txt`,
		"\xff\xfe":               `\xff\xfe`,
		"replacement \ufffd":     "replacement \ufffd",
		"DEL \x7f, tab \t, CR\r": `DEL \x7f, tab \t, CR\r`,
	} {
		if got := Printable(in); got != want {
			t.Errorf("Printable(%q) = %q, want %q", in, got, want)
		}
	}
}

func TestPrintableIsSafeForTerminals(t *testing.T) {
	property.Check(t, func(t *rapid.T) {
		text := Printable(string(rapid.SliceOf(rapid.Byte()).Draw(t, "bytes")))
		if !utf8.ValidString(text) || strings.ContainsFunc(text, isTerminalControl) || strings.Contains(text, "\n") {
			t.Fatalf("%q", text)
		}
	})
}

func TestPrintableJSONKeepsTheValue(t *testing.T) {
	alphabet := rapid.SampledFrom([]rune{'a', '"', '\\', '<', '\n', 0, 0x7f, 0x80, 0x9b, 0x202e, 0x2066, '漢', '👍'})
	property.Check(t, func(t *rapid.T) {
		want := string(rapid.SliceOf(alphabet).Draw(t, "text"))
		doc, err := json.Marshal(want)
		if err != nil {
			t.Fatal(err)
		}
		doc = PrintableJSON(doc)
		var got string
		if err := json.Unmarshal(doc, &got); err != nil || got != want {
			t.Fatalf("%s: %q, %v; want %q", doc, got, err, want)
		}
		if strings.ContainsFunc(string(doc), unicode.IsControl) || strings.ContainsAny(string(doc), "\u202e\u2066") {
			t.Fatalf("%q", doc)
		}
	})
}
