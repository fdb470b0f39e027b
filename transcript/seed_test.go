package transcript_test

import (
	"regexp"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"signalbox"
	"signalbox/internal/testkit/property"
	"signalbox/transcript"
)

// pythonSpace is the class of characters that \s matches in Python.
const pythonSpace = `\t-\r\x{1c}-\x{20}\x{85}\x{a0}\x{1680}\x{2000}-\x{200a}\x{2028}\x{2029}\x{202f}\x{205f}\x{3000}`

// seedParse is the original parse_signal with Go regular expressions.
func seedParse(text string) (name, task string) {
	for _, row := range signalbox.LineSignals() {
		pattern := `(?m:^)` + regexp.QuoteMeta(row.Text)
		if row.Argument == signalbox.NoArgument {
			pattern += `(?m:$)`
		} else {
			pattern += `:[` + pythonSpace + `]*([^` + pythonSpace + `]+)`
		}
		if m := regexp.MustCompile(pattern).FindStringSubmatch(text); m != nil {
			return row.Name, strings.Join(m[1:], "")
		}
	}
	return signalbox.NameUnknown, ""
}

func TestResolveSeedMatchesPatterns(t *testing.T) {
	pool := append([]string{"READY_FOR_REVIEW:", "AUDIT_PASSED:", "CHECKPOINT:\n\n",
		"HEALTH_AUDIT: HEALTHY", "REMEDIATION_COMPLETE", "EXPERT_REQUEST", " ",
		"\u00a0", "\u2028", "\x1c", "x"}, fragments...)
	property.Check(t, func(t *rapid.T) {
		text := strings.ToValidUTF8(strings.Join(rapid.SliceOfN(rapid.SampledFrom(pool), 0,
			20).Draw(t, "parts"), ""), "?")
		name, task := seedParse(text)
		got, err := transcript.ResolveSeed(strings.NewReader(text),
			plain)
		if err != nil || got.Name != name || got.TaskID != task {
			t.Errorf("%q: %q %q (%v), want %q %q", text, got.Name, got.TaskID, err, name, task)
		}
	})
}
