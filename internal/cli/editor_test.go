package cli

import "testing"

func TestWrittenText(t *testing.T) {
	for text, want := range map[string]string{
		editorText("x", "about"):                            "",
		"a\n" + editorText("x", "about"):                    "a",
		"# a\r\n\r\nb  \r\n" + editorText("x", ""):          "# a\n\nb",
		"a\n# comment\n#\nb":                                "a\nb",
		"  a\n" + scissors + " and more\nb":                 "  a",
		scissors + "\nb":                                    "",
		"a " + scissors + "\n" + editorText("x", "about\n"): "a " + scissors,
		"": "",
	} {
		if got := writtenText(text); got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
}
