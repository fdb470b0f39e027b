package sections

import (
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
)

func TestSplitNote(t *testing.T) {
	type part struct {
		Title string
		Line  int
		Text  string
	}
	for name, c := range map[string]struct {
		text string
		want []part
	}{
		"no heading": {"just text\n", []part{{"note", 1, "just text"}}},
		"nothing":    {"", nil},
		"blank":      {"\n \n", nil},
		"headings": {"# One\n\na\n\n## Two ##\nb\n# Three\n",
			[]part{{"One", 1, "a"}, {"One › Two", 5, "b"}, {"One › Three", 7, ""}}},
		"text first": {"\nbefore\n# One\na", []part{{"One", 2, "before"}, {"One", 3, "a"}}},
		"underlined": {"One\n===\na\n\nTwo\n---\nb\n",
			[]part{{"One", 1, "a"}, {"One › Two", 5, "b"}}},
		"levels": {"# A\n### B\nb\n## C\nc\n### D\nd",
			[]part{{"A", 1, ""}, {"A › B", 2, "b"}, {"A › C", 4, "c"}, {"A › C › D", 6, "d"}}},
		"front matter": {"---\ntitle: \"My note\"\ntags: [x]\n---\ntext\n## Two\nb",
			[]part{{"My note", 5, "text"}, {"My note › Two", 6, "b"}}},
		"a rule":   {"text\n\n---\nmore\n", []part{{"note", 1, "text\n\n---\nmore"}}},
		"no front": {"---\ntitle: x\n", []part{{"note", 1, "---\ntitle: x"}}},
		"code": {"# A\n```sh\n# no heading\n~~~\n```\n# B\n~~~\n# no\n~~~~\nb",
			[]part{{"A", 1, "```sh\n# no heading\n~~~\n```"}, {"A › B", 6, "~~~\n# no\n~~~~\nb"}}},
		"code, open": {"# A\n```\n# no", []part{{"A", 1, "```\n# no"}}},
		"no headings": {"#hash\n####### seven\n    # code\n",
			[]part{{"note", 1, "#hash\n####### seven\n    # code"}}},
		"CRLF, mark": {"\uFEFF# A\r\na\r\n", []part{{"A", 1, "a"}}},
		"empty":      {"#\na\n", []part{{"(no title)", 1, "a"}}},
	} {
		var got []part
		for _, s := range Split("dir/note.md", c.text) {
			got = append(got, part{s.FullTitle(), s.Line, s.Text})
		}
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

func TestFold(t *testing.T) {
	for _, alike := range [][]string{{"box", "boxes"}, {"cache", "caches"}, {"match", "matches"},
		{"process", "processes"}, {"tomato", "tomatoes"}, {"note", "notes"},
		{"policy", "policies"}, {"case", "cases"}, {"cafe", "café", "cafés", "cafe\u0301"},
		{"strasse", "straße"}, {"status"}, {"basis"}, {"use", "uses"}} {
		for _, word := range alike[1:] {
			if fold(word) != fold(alike[0]) {
				t.Errorf("%s is %s, %s is %s", alike[0], fold(alike[0]), word, fold(word))
			}
		}
	}
	for _, word := range []string{"status", "basis", "class", "as", "note"} {
		if fold(word) != word {
			t.Errorf("%s is %s", word, fold(word))
		}
	}
}

func TestParts(t *testing.T) {
	for in, want := range map[string][]string{
		"parseTurnSignal": {"parse", "turn", "signal"},
		"HTTPServer":      {"http", "server"},
		"x509Cert":        {"x509", "cert"},
		"ALL":             {"all"},
		"lower":           {"lower"},
		"ÄrgerÖl":         {"ärger", "öl"},
		"aB":              {"a", "b"},
	} {
		if diff := cmp.Diff(want, parts(in)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", in, diff)
		}
	}
	var got []string
	for word := range Words("snake_caseName, 東京 x2") {
		got = append(got, word)
	}
	if diff := cmp.Diff([]string{"snake", "case", "name", "東", "京", "x2"}, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func FuzzSections(f *testing.F) {
	f.Add("# A\n\ntext\n\nB\n===\n```\n# x\n```\n", "text b", 100)
	f.Add("---\ntitle: x\n---\n#\n", "x", 0)
	f.Fuzz(func(t *testing.T, text, query string, limit int) {
		text = strings.ToValidUTF8(text, "?")
		limit = max(0, min(limit, 2000))
		lines := strings.Count(text, "\n") + 1
		parts := Split("n.md", text)
		for _, s := range parts {
			if s.Line < 1 || s.Line > lines || s.Title == "" {
				t.Errorf("a section at line %d of %d: %q", s.Line, lines, s.Title)
			}
		}
		words := QueryWords(query)
		for _, e := range Build([]Note{{"n.md", parts}}).Rank(words) {
			body, line := e.Excerpt(words, limit)
			if len(body) > limit+len("…\n…") || line < 1 || line > lines ||
				!utf8.ValidString(body) {
				t.Errorf("%d bytes of %d at line %d of %d", len(body), limit, line, lines)
			}
		}
	})
}
