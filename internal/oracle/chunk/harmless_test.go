package chunk

import (
	"strings"
	"testing"

	"pgregory.net/rapid"

	"signalbox/transcript"
)

// The Filter gives harmless whole starts of lines, as StripStream lets go of them; it must not depend on that.
func TestHarmlessInPieces(t *testing.T) {
	check := func(t rapid.TB, text string, step int) {
		var out strings.Builder
		h := harmless{out: func(p []byte) { out.Write(p) }}
		for rest := text; rest != ""; {
			n := min(step, len(rest))
			h.write([]byte(rest[:n]))
			rest = rest[n:]
		}
		h.close()
		if want := Harmless(text); out.String() != want {
			t.Errorf("%.200q in pieces of %d becomes %.200q, want %.200q", text, step, out.String(), want)
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		parts := []string{"<signal>", "</SIGNAL >", "<sig", "\n```\n", "\n```", "~~~\n", "```", "`", " ", "\n", "x"}
		text := rapid.SampledFrom([]string{"", "\uFEFF```\n", "\uFEFF"}).Draw(t, "start") + strings.Join(rapid.SliceOfN(rapid.SampledFrom(parts), 0, 12).Draw(t, "parts"), "")
		check(t, text, rapid.IntRange(1, 4).Draw(t, "step"))
	})
	for n := range 4 {
		check(t, "```"+strings.Repeat("i", transcript.MaxTurnBlock-5+n)+"`\n<signal>", transcript.MaxTurnBlock/4)
	}
}
