package picture

import (
	"encoding/xml"
	"io"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"signalbox/internal/testkit/must"
	"signalbox/internal/testkit/property"
)

// TestRender checks that a document is XML and that its texts are escaped.
func TestRender(t *testing.T) {
	style := Style("x", ".x .a{font-size:1px}\n",
		func(c Colors) string { return ".x .paper{fill:" + c.Paper + "}\n" })
	doc := Document{Class: "x", Width: 3, Height: 4, Title: `</title>"`, Description: "a < b & c",
		Style: style, Defs: "<defs></defs>\n"}
	var texts []string
	for d := xml.NewDecoder(strings.NewReader(doc.Render("<g/>\n"))); ; {
		token, err := d.Token()
		if err == io.EOF {
			break
		}
		must.Succeed(t, err)
		if text, ok := token.(xml.CharData); ok && strings.TrimSpace(string(text)) != "" {
			texts = append(texts, string(text))
		}
	}
	if len(texts) != 3 || texts[0] != doc.Title || texts[1] != doc.Description ||
		!strings.Contains(texts[2], "fill:#ffffff") || !strings.Contains(texts[2], "fill:#0d1117") {
		t.Errorf("texts %q", texts)
	}
}

// TestFit checks that text that is cut ends in an ellipsis, fits, and is cut no more than
// necessary.
func TestFit(t *testing.T) {
	property.Check(t, func(t *rapid.T) {
		s, limit := rapid.OneOf(rapid.String(),
			rapid.StringMatching(`[a-z \x{301}\x{65e5}\x{202e}]*`)).Draw(t, "text"),
			rapid.IntRange(1, 60).Draw(t, "limit")
		got, whole := Fit(s, limit, Columns), Fit(s, 1<<20, Columns)
		if n := Measure(got, Columns); n > limit {
			t.Errorf("%q has %d columns, want at most %d", got, n, limit)
		}
		if Measure(whole, Columns) <= limit {
			if got != whole {
				t.Errorf("%q was cut to %q although it fits", whole, got)
			}
			return
		}
		kept, ok := strings.CutSuffix(got, Ellipsis)
		if !ok || !strings.HasPrefix(whole, kept) {
			t.Errorf("%q was cut to %q", whole, got)
		}
		if tail := FitTail(s, limit); Measure(tail, Columns) > limit ||
			!strings.HasPrefix(tail, Ellipsis) {
			t.Errorf("the end of %q was cut to %q", whole, tail)
		}
	})
}

func TestFitCases(t *testing.T) {
	for _, test := range []struct {
		in    string
		limit int
		want  string
	}{
		{"", 3, ""},
		{"abc", 3, "abc"},
		{"abcd", 3, "ab…"},
		{"ab cd", 4, "ab…"},
		{"日本語", 6, "日本語"},
		{"日本語", 5, "日本…"},
		{"a\x1b[0mb", 20, `a\x1b[0mb`},
		{"a\u202eb", 20, `a\u202eb`},
		{"\xff", 20, "\ufffd"},
		{"e\u0301\u0301\u0301", 20, "e\u0301\u0301" + `\u0301`},
	} {
		if got := Fit(test.in, test.limit, Columns); got != test.want {
			t.Errorf("Fit(%q, %d) = %q, want %q", test.in, test.limit, got, test.want)
		}
	}
	if got, want := FitTail("root/a long way/leaf", 8), "…ay/leaf"; got != want {
		t.Errorf("FitTail = %q, want %q", got, want)
	}
	if got, want := FitASCII("é…", 20), `\u00e9\u2026`; got != want {
		t.Errorf("in ASCII %q, want %q", got, want)
	}
}
