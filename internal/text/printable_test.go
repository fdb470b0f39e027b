package text

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"pgregory.net/rapid"

	"signalbox/internal/testkit/must"
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
		if !utf8.ValidString(text) || strings.ContainsFunc(text, IsUnsafe) ||
			strings.Contains(text, "\n") {
			t.Fatalf("%q", text)
		}
	})
}

func TestPrintableJSONKeepsTheValue(t *testing.T) {
	alphabet := rapid.SampledFrom([]rune{'a', '"', '\\', '<', '\n', 0, 0x7f, 0x80, 0x9b, 0x200b,
		0x202e, 0x2066, 0xe0041, '漢', '👍'})
	property.Check(t, func(t *rapid.T) {
		want := string(rapid.SliceOf(alphabet).Draw(t, "text"))
		doc, err := json.Marshal(want)
		must.Succeed(t, err)
		doc = PrintableJSON(doc)
		var got string
		if err := json.Unmarshal(doc, &got); err != nil || got != want {
			t.Fatalf("%s: %q, %v; want %q", doc, got, err, want)
		}
		if strings.ContainsFunc(string(doc), unicode.IsControl) ||
			strings.ContainsAny(string(doc), "\u200b\u202e\u2066\U000e0041") {
			t.Fatalf("%q", doc)
		}
	})
}

func TestPrintableJSONReplacesInvalidBytes(t *testing.T) {
	if got := string(PrintableJSON([]byte("{\"a\":\"\x9b2J\"}"))); got != `{"a":"`+"\ufffd"+`2J"}` {
		t.Errorf("%q", got)
	}
}

func TestEscaper(t *testing.T) {
	for in, want := range map[string]string{
		"plain\tnaïve\n漢字 👍🏽 👨\u200d👩 a\u00a0b": "plain\tnaïve\n漢字 👍🏽 👨\\u200d👩 a\u00a0b",
		"\x1b]0;t\a\r\n\b\x00\x7f":              `\x1b]0;t\a\r` + "\n" + `\b\x00\x7f`,
		"\u009b2J \x9b2J \xc2":                  `\u009b2J \x9b2J \xc2`,
		"\u202e \u2066 \u200f \u061c \u200b":    `\u202e \u2066 \u200f \u061c \u200b`,
		"\u2028 \U000e0041 \ufeff":              `\u2028 \U000e0041 \ufeff`,
	} {
		var b strings.Builder
		e := NewEscaper(&b)
		e.Write([]byte(in))
		e.Close()
		if b.String() != want {
			t.Errorf("%q: %q, want %q", in, b.String(), want)
		}
	}
}

// It does not matter how the text is cut into writes.
func TestEscaperIsIndependentOfWrites(t *testing.T) {
	property.Check(t, func(t *rapid.T) {
		piece := rapid.OneOf(rapid.SampledFrom([]string{"a", "\x1b[2J", "\n", "\u009b", "漢", "👍",
			"\u202e", "\xc2", "\x9b", "\xe2\x80"}), rapid.String())
		in := []byte(strings.Join(rapid.SliceOf(piece).Draw(t, "pieces"), ""))
		var whole, parts bytes.Buffer
		e := NewEscaper(&whole)
		e.Write(in)
		e.Close()
		e = NewEscaper(&parts)
		for rest := in; len(rest) > 0; {
			n := rapid.IntRange(1, len(rest)).Draw(t, "write")
			if written, err := e.Write(rest[:n]); written != n || err != nil {
				t.Fatalf("%d, %v", written, err)
			}
			rest = rest[n:]
		}
		e.Close()
		if whole.String() != parts.String() || indexUnsafe(whole.Bytes()) >= 0 {
			t.Fatalf("%q: at once %q, in parts %q", in, whole.String(), parts.String())
		}
	})
}
