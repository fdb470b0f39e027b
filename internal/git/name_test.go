package git

import "testing"

func TestFoldName(t *testing.T) {
	for _, same := range [][]string{
		{"claude.md", "CLAUDE.md", "Claude.MD", "cl\u200daude.md", "\ufeffCLAUDE.md",
			"\uff23LAUDE.md", "CLAUDE.md. ",
			"CLAUDE\ufe0f.md", "clau\u00adde.md", "\u3164claude.md", "CLAUDE\u2024md"},
		{"\u017fettings", "SETTINGS", "settings"},
		{"ma\u212aefile", "Makefile"},
		{"caf\u00e9", "cafe\u0301", "CAFE\u0301", "CAFE\u200c\u0301"},
		{"\ufb01le", "FILE"},
	} {
		for _, name := range same {
			if got, want := FoldName(name), FoldName(same[0]); got != want {
				t.Errorf("%+q becomes %+q, and %+q %+q", name, got, same[0], want)
			}
		}
	}
	for _, name := range []string{"claude", "claude.mdx", "claud\u00e9.md", "_claude.md"} {
		if FoldName(name) == FoldName("CLAUDE.md") {
			t.Errorf("%q counts as CLAUDE.md", name)
		}
	}
}

func TestFoldPath(t *testing.T) {
	for path, want := range map[string]string{
		"A/B/c": "a/b/c", "A. /.B": "a/.b", "": "", "x": "x", "A\uff0fB": "a\uff0fb",
		"A/\u017f": "a/s",
	} {
		if got := FoldPath(path); got != want {
			t.Errorf("%+q becomes %+q, want %+q", path, got, want)
		}
	}
}
