package text

import (
	"strings"
	"testing"
	"unicode"
)

// isIgnorable is the property Default_Ignorable_Code_Point, as the Unicode standard derives it.
func isIgnorable(r rune) bool {
	switch {
	case unicode.In(r, unicode.White_Space, unicode.Prepended_Concatenation_Mark), r >= 0xfff9 &&
		r <= 0xfffb, r >= 0x13430 && r <= 0x13440:
		return false
	}
	return unicode.In(r, unicode.Other_Default_Ignorable_Code_Point, unicode.Cf,
		unicode.Variation_Selector)
}

// Nothing that is invisible reaches a terminal or a page, and letters stay as they are.
func TestInvisibleCharactersAreEscaped(t *testing.T) {
	for _, r := range "\u3164\uffa0\u115f\u1160\u034f\u17b4\u17b5\u180b\u180f\u2065\u2800\u200c\u200d\u2060\ufe00\ufe0f\ufeff\U000e0020\U000e0100\U000e0fff\u2d7f\U0001107f\U00016fe4\U0001d159" {
		if !IsUnsafe(r) {
			t.Errorf("%U is not unsafe", r)
		}
	}
	escaped := 0
	for r := rune(0); r <= unicode.MaxRune; r++ {
		hidden := isIgnorable(r) ||
			strings.ContainsRune("\u2800\u2d7f\U0001107f\U00016fe4\U0001d159", r) ||
			unicode.In(r, unicode.Cc, unicode.Cf, unicode.Zl, unicode.Zp) && r != '\n' && r != '\t'
		if IsUnsafe(r) != hidden {
			t.Fatalf("IsUnsafe(%U) = %v", r, !hidden)
		}
		if !hidden {
			continue
		}
		escaped++
		one := string(r)
		var written strings.Builder
		e := NewEscaper(&written)
		e.Write([]byte(one))
		e.Close()
		for what, got := range map[string]string{"Printable": Printable(one),
			"PrintableLines": PrintableLines(one), "Escaper": written.String(),
			"PrintableJSON": string(PrintableJSON([]byte(one))),
			"OneLine":       OneLine("a" + one + "b"), "Visible": Visible(one)} {
			if strings.Contains(got, one) {
				t.Fatalf("%s(%U) = %q", what, r, got)
			}
		}
	}
	if escaped < 4000 { // most of them are reserved
		t.Errorf("only %d characters are escaped", escaped)
	}
	if got := Printable("a\u3164b\ufe0f\U000e0100 ❤"); got != `a\u3164b\ufe0f\U000e0100 ❤` {
		t.Errorf("got %s", got)
	}
}

const hiddenDiff = `diff --git a/auth.js b/auth.js
index 1..2 100644
--- a/auth.js
+++ b/auth.js
@@ -10,4 +10,5 @@ function f() {` + "\u200b" + `
 const a = 1;` + "\r" + `
-const b = 2;` + "\u3164" + `
+const b = "` + "\xe9" + `";
+const { timeout,` + "\u3164" + `} = req.query;` + "\u200d" + `
 
 }` + "\ufe0f" + `
\ No newline at end of file
diff --git a/old.txt b/old.txt
deleted file mode 100644
--- a/old.txt
+++ /dev/null
@@ -1 +0,0 @@
-x` + "\u2800" + `
diff --git a/x` + "\u034f" + `y b/x` + "\u034f" + `y
similarity index 100%
`

func TestHiddenInDiff(t *testing.T) {
	const want = `This diff has 5 lines with invisible characters, which can hide what the code does: auth.js:11 (removed) U+3164, auth.js:12 U+3164, auth.js:14 U+FE0F, old.txt:1 (removed) U+2800, x\u034fy:its name U+034F. signalbox shows them escaped; other programs may show nothing.`
	if got := hiddenInDiff(hiddenDiff); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	for _, diff := range []string{"",
		"diff --git a/a b/a\n--- a/a\n+++ b/a\n@@ -1 +1,2 @@\n-é 漢字\r\n+\t👍🏽 naïve\r\n+\xff\n",
		"no diff\n"} {
		if got := hiddenInDiff(diff); got != "" {
			t.Errorf("%q: %s", diff, got)
		}
	}
	// It does not matter how the diff is cut into writes, and when the notice is asked for.
	var s DiffScan
	for i := range len(hiddenDiff) {
		s.Write([]byte(hiddenDiff[i : i+1]))
	}
	if first, again := s.Notice(), s.Notice(); first != want || again != want {
		t.Errorf("byte by byte: %s\n%s", first, again)
	}
}

func TestHiddenInHugeDiff(t *testing.T) {
	var s DiffScan
	s.Write([]byte("diff --git a/a b/a\n--- a/a\n+++ b/a\n@@ -0,0 +1,1000 @@\n+"))
	for range 100 { // one long line
		s.Write([]byte(strings.Repeat("é", 10_000)))
	}
	s.Write([]byte("\u3164\n"))
	for range 999 {
		s.Write([]byte("+\u200b\u200b\n"))
	}
	got := s.Notice()
	if !strings.HasPrefix(got, "This diff has 1000 lines") ||
		!strings.Contains(got, ": a:1 U+3164, a:2 U+200B, ") ||
		!strings.Contains(got, "a:10 U+200B and 990 more.") {
		t.Errorf("got %s", got)
	}
	if cap(s.line) > 2*maxPiece+20_000 {
		t.Errorf("%d bytes are kept", cap(s.line))
	}
}

// hiddenInDiff returns the notice of a DiffScan for a whole diff.
func hiddenInDiff(diff string) string {
	var s DiffScan
	s.Write([]byte(diff)) // never fails
	return s.Notice()
}
