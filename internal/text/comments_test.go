package text

import (
	"strings"
	"testing"
)

func TestWithoutComments(t *testing.T) {
	for s, want := range map[string]string{
		"":                                    "",
		"a -- b --> c <! d":                   "a -- b --> c <! d",
		"a <!-- b --> c":                      "a  c",
		"<!-- a --><!-- b\n-->c":              "c",
		"a <!-- b":                            "a ",
		"<!--> a -->b":                        "b",
		"a<!-- --":                            "a",
		"<!<!-- a -->-- b --> c":              " c",
		"<<!-- a -->!-- b --> c":              " c",
		"<!<!-- a -->- x":                     "<!- x",
		"<!-- a <!-- b --> c -->":             " c -->",
		"<!<!-- a -->-- b <!-- c --> d --> e": " d --> e",
		"é<!-- é -->é":                        "éé",
	} {
		if got := WithoutComments(s); got != want {
			t.Errorf("%q: %q, want %q", s, got, want)
		}
	}
}

// TestWithoutCommentsTakesOnePass counts allocations: each further pass over the text would make at
// least one.
func TestWithoutCommentsTakesOnePass(t *testing.T) {
	const levels = 1 << 14
	nested := strings.Repeat("<!", levels) + strings.Repeat("-- -->", levels) + "end"
	for name, s := range map[string]string{"nested": nested,
		"in a row": strings.Repeat("<!-- x -->", levels), "open": strings.Repeat("<!--", levels)} {
		var got string
		if n := testing.AllocsPerRun(1, func() { got = WithoutComments(s) }); n > 3 {
			t.Errorf("%s: %v allocations for %d bytes", name, n, len(s))
		}
		if want := "end"; strings.Contains(got, "<!--") || name == "nested" && got != want {
			t.Errorf("%s: %.40q", name, got)
		}
	}
}
