package text

import (
	"strings"
	"testing"
	"unicode/utf8"

	"pgregory.net/rapid"

	"signalbox/internal/testkit/property"
)

func TestShortening(t *testing.T) {
	for _, c := range []struct {
		name, got, want string
	}{
		{"whole", Truncate("abc", 3), "abc"},
		{"prefix", Truncate("abcd", 3), "abc"},
		{"prefix within a character", Truncate("aé", 2), "a"},
		{"negative limit", Truncate("abc", -1), ""},
		{"suffix", Tail("abcd", 3), "bcd"},
		{"suffix within a character", Tail("éa", 2), "a"},
		{"shortened", Shorten("abcd", 3), "ab…"},
		{"not shortened", Shorten("äöü", 3), "äöü"},
		{"one line", OneLine(" a\r\n\tb\x1bc\u202ed\xff "), "a b c d\ufffd"},
		{"empty", OneLine("\n"), ""},
	} {
		if c.got != c.want {
			t.Errorf("%s: %q, want %q", c.name, c.got, c.want)
		}
	}
}

func TestShorteningNeverCutsACharacter(t *testing.T) {
	property.Check(t, func(t *rapid.T) {
		s, limit := rapid.String().Draw(t, "s"), rapid.IntRange(1, 20).Draw(t, "limit")
		prefix, suffix, short := Truncate(s, limit), Tail(s, limit), Shorten(s, limit)
		switch {
		case !strings.HasPrefix(s, prefix), len(prefix) > limit,
			len(prefix) < min(len(s), limit-utf8.UTFMax+1), !utf8.ValidString(prefix):
			t.Fatalf("Truncate(%q, %d) = %q", s, limit, prefix)
		case !strings.HasSuffix(s, suffix), len(suffix) > limit,
			len(suffix) < min(len(s), limit-utf8.UTFMax+1), !utf8.ValidString(suffix):
			t.Fatalf("Tail(%q, %d) = %q", s, limit, suffix)
		case utf8.RuneCountInString(short) != min(limit, utf8.RuneCountInString(s)),
			!strings.HasPrefix(s, strings.TrimSuffix(short, "…")):
			t.Fatalf("Shorten(%q, %d) = %q", s, limit, short)
		}
	})
}

func TestCounting(t *testing.T) {
	for n, want := range map[int][2]string{0: {"0 tasks", "0th"}, 1: {"1 task", "1st"},
		2: {"2 tasks", "2nd"}, 3: {"3 tasks", "3rd"},
		11: {"11 tasks", "11th"}, 12: {"12 tasks", "12th"}, 21: {"21 tasks", "21st"},
		113: {"113 tasks", "113th"}} {
		if got := [2]string{Count(n, "task"), Ordinal(n)}; got != want {
			t.Errorf("%d: %q, want %q", n, got, want)
		}
	}
}

func TestJoinSome(t *testing.T) {
	for want, names := range map[string][]string{"": nil, "a": {"a"}, "a, b": {"a", "b"},
		"a, b and 1 more": {"a", "b", "c"}} {
		if got := JoinSome(names, 2); got != want {
			t.Errorf("%q: %q, want %q", names, got, want)
		}
	}
}

func TestGroup(t *testing.T) {
	for in, want := range map[string]string{
		"": "", "1": "1", "123": "123", "1234": "1,234", "-123": "-123",
		"-1234.5678": "-1,234.5678", "123456": "123,456", "0.5": "0.5",
	} {
		if got := Group(in); got != want {
			t.Errorf("Group(%q) = %q, want %q", in, got, want)
		}
	}
}

func FuzzGroup(f *testing.F) {
	for _, seed := range []string{"", "-1234.5", "1,234", "+12345678901234567890", "....", "é"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, number string) {
		got := Group(number)
		if without, want := strings.ReplaceAll(got, ",", ""),
			strings.ReplaceAll(number, ",", ""); without != want {
			t.Errorf("Group(%q) = %q lost something", number, got)
		}
	})
}

func TestWithArticle(t *testing.T) {
	for noun, want := range map[string]string{"agent": "an agent", "tree": "a tree", "": "a "} {
		if got := WithArticle(noun); got != want {
			t.Errorf("WithArticle(%q) = %q, want %q", noun, got, want)
		}
	}
}

func TestShellWord(t *testing.T) {
	for word, want := range map[string]string{"plans/sprint-2.md": "plans/sprint-2.md",
		"Wörter.md": "Wörter.md", "my plan.md": "'my plan.md'", "it's.md": `'it'\''s.md'`,
		"$(reboot).md": "'$(reboot).md'", "a\nb": "'a\nb'", "-x.md": "./-x.md", "": "''",
		"~/plan.md": "'~/plan.md'"} {
		if got := ShellWord(word); got != want {
			t.Errorf("%q: %s, want %s", word, got, want)
		}
	}
}
