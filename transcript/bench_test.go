package transcript_test

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"signalbox"
	"signalbox/transcript"
)

func scanAll(b *testing.B, text []byte) {
	b.Helper()
	s := transcript.NewScanner(&transcript.Options{Format: signalbox.FormatPlain})
	for rest := text; len(rest) > 0; {
		n := min(len(rest), 256<<10)
		s.Push(rest[:n])
		rest = rest[n:]
	}
	s.Close()
}

// BenchmarkScan scans text without signals. Its allocations must not grow with the text.
func BenchmarkScan(b *testing.B) {
	text := bytes.Repeat(
		[]byte("func main() {\n\tfmt.Println(\"hello\")\n}\n\nA paragraph of words on one line, as agents write them.\n- a list\n{\"json\": 1}\n"), 8000)
	b.SetBytes(int64(len(text)))
	b.ReportAllocs()
	for b.Loop() {
		scanAll(b, text)
	}
}

// BenchmarkHostile scans input that invites a scanner to look back or ahead again and again. The
// time is linear if 400 KB take four times as long as 100 KB.
func BenchmarkHostile(b *testing.B) {
	for _, c := range []struct{ name, piece string }{
		{"unclosed-signal", `<signal type="x">`},
		{"braces-in-one-line", "{"},
		{"brace-lines", "{\n"},
		{"nested-objects", "{\"a\":\n"},
		{"closers", "</signal>"},
		{"fences", "```\n"},
		{"near-misses", "**READY_FOR_REVIEW**: t1\nREADY_FOR_REVIEW - t1\nready_for_review: t1\n"},
		{"signals-in-tags", "<signal>READY_FOR_REVIEW: t1</signal>\n"},
		{"unclosed-fields", `<signal type="stuck"><attempted><blocker>`},
		{"closed-with-unclosed-fields", `<signal type="stuck">` +
			strings.Repeat("<attempted><blocker>", 800) + "</signal>\n"},
	} {
		for _, size := range []int{100_000, 400_000} {
			text := []byte(strings.Repeat(c.piece, size/len(c.piece)+1)[:size])
			b.Run(fmt.Sprintf("%s/%dKB", c.name, size/1000), func(b *testing.B) {
				b.SetBytes(int64(size))
				for b.Loop() {
					scanAll(b, text)
				}
			})
		}
	}
}

// BenchmarkNearMiss searches a whole text for near misses, which is linear, too.
func BenchmarkNearMiss(b *testing.B) {
	for _, piece := range []string{"I do not say REVIEW_PASSED: t1 ", "HEALTH_AUDIT ", "A_B ", "|",
		"<a ", "\x1b]",
		"{\"protocol\":\"apm2_agent_exit\" ", "REVIEW_PASSED ... ", "- "} {
		for _, size := range []int{100_000, 400_000} {
			text := []byte(strings.Repeat(piece, size/len(piece)+1)[:size])
			b.Run(fmt.Sprintf("%q/%dKB", piece, size/1000), func(b *testing.B) {
				s := transcript.NewScanner(&transcript.Options{Format: signalbox.FormatPlain,
					Excerpt: size})
				s.Push(text)
				s.Close()
				b.SetBytes(int64(size))
				for b.Loop() {
					s.NearMiss(signalbox.RoleCritic, "t1")
				}
			})
		}
	}
}
