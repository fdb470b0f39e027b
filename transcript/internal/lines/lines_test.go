package lines_test

import (
	"strings"
	"testing"

	"signalbox/transcript/internal/lines"
)

func TestWhiteSpace(t *testing.T) {
	for c := range 256 {
		if got, want := lines.IsSpace(byte(c)),
			strings.IndexByte(lines.Space, byte(c)) >= 0; got != want {
			t.Errorf("IsSpace(%#x) is %v, but in Space: %v", c, got, want)
		}
	}
	for text, want := range map[string]string{"": "", " a b \t\r": " a b", " \v\f\r\n": "",
		"a\u00a0": "a\u00a0"} {
		if got := string(lines.TrimEnd([]byte(text))); got != want {
			t.Errorf("TrimEnd(%q) = %q, want %q", text, got, want)
		}
		if got := lines.Blank([]byte(text)); got != (want == "") {
			t.Errorf("Blank(%q) is %v", text, got)
		}
	}
}

func TestExcerpt(t *testing.T) {
	long := strings.Repeat("x", 255)
	for text, want := range map[string]string{
		"é":              "é",
		"a\xff\xe2\x82b": "a\ufffd\ufffd\ufffdb",
		long + "y":       long + "y",
		long + "yz":      long + "y…",
		long + "éz":      long + "…", // not half of a rune
		long + "\xffyz":  long + "\ufffd…",
	} {
		if got := lines.Excerpt([]byte(text)); got != want {
			t.Errorf("Excerpt(%q) = %q, want %q", text, got, want)
		}
	}
}

func TestFences(t *testing.T) {
	for _, tt := range []struct {
		open   string
		json   bool
		closes []string
		inside []string
	}{
		{"```", true, []string{"```", "`````", "   ``` \t\r"},
			[]string{"``", "~~~", "``` x", "    ```", "x```", ""}},
		{"````json \r", true, []string{"````"}, []string{"```"}},
		{"  ~~~ a `b` ~", false, []string{"~~~"}, []string{"```"}},
	} {
		f, ok := lines.OpenFence([]byte(tt.open))
		if !ok || !f.IsOpen() || f.JSON != tt.json || f.Mark != strings.TrimLeft(tt.open, " ")[0] {
			t.Errorf("OpenFence(%q) = %+v, %v", tt.open, f, ok)
		}
		for _, line := range tt.closes {
			if !f.ClosedBy([]byte(line)) {
				t.Errorf("%q does not close %q", line, tt.open)
			}
		}
		for _, line := range tt.inside {
			if f.ClosedBy([]byte(line)) {
				t.Errorf("%q closes %q", line, tt.open)
			}
		}
	}
	for _, line := range []string{"", "``", "    ```", "\t```", "``` a`b", "x ```", "`` `"} {
		if f, ok := lines.OpenFence([]byte(line)); ok || f.IsOpen() {
			t.Errorf("OpenFence(%q) = %+v, %v", line, f, ok)
		}
	}
}

// The result does not depend on the cuts, and no text is lost.
func TestFencerAndRunes(t *testing.T) {
	const text = "\uFEFF```go\n<a>\n ~~~\n   ```` \r\né\n~~~ `\n```x\n~~~\n``` a`b\n``\n   \n    ```\n\xff日\n\x80```"
	const want = "|\uFEFF```go|<a>| ~~~|   ```` \r|" + "é" + "|~~~ `|```x|~~~|" + "``` a`b" + "``" +
		"   " + "    ```" + "\ufffd日" + "\ufffd```"
	for n := 1; n <= len(text); n++ {
		var got, runes []byte
		var shown lines.Runes
		fresh := true
		f := lines.NewFencer(func(p []byte, fenced bool) {
			if fenced && fresh {
				got = append(got, '|')
			}
			line := strings.TrimSuffix(string(p), "\n")
			got = append(got, line...)
			if fresh = len(line) < len(p); fenced && fresh {
				got = append(got, '|')
			}
			runes = shown.Append(runes, p)
		})
		for i := 0; i < len(text); i += n {
			f.Write([]byte(text[i:min(i+n, len(text))]))
		}
		f.EndLine()
		runes = shown.End(runes)
		if got := lines.Valid([]byte(strings.ReplaceAll(string(got), "||", "|"))); got != want {
			t.Errorf("in pieces of %d: %q\nwant %q", n, got, want)
		}
		if want := lines.Valid([]byte(text)); string(runes) != want {
			t.Errorf("in pieces of %d it is shown as %q, want %q", n, runes, want)
		}
	}
}
