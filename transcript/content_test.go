package transcript_test

import (
	"bytes"
	"regexp"
	"runtime"
	"strings"
	"testing"
	"unicode/utf8"

	"pgregory.net/rapid"

	"signalbox"
	"signalbox/internal/testkit/property"
	"signalbox/transcript"
	"signalbox/transcript/internal/lines"
)

// contentOf returns the content of a reply in pieces. It overwrites each piece after the call.
func contentOf(t rapid.TB, pieces ...string) string {
	t.Helper()
	c := transcript.NewContentStream()
	var content strings.Builder
	take := func(text string) {
		if !utf8.ValidString(text) {
			t.Errorf("content %q cuts a rune", text)
		}
		content.WriteString(text)
	}
	for _, piece := range pieces {
		buf := []byte(piece)
		take(c.Push(buf))
		copy(buf, bytes.Repeat([]byte("#"), len(buf)))
	}
	take(c.Close())
	return content.String()
}

var liveTag = regexp.MustCompile(`(?i)<(/?signal(?:[\t-\r />]|$))`)

// plainContent is a simple version of Content.
func plainContent(text string) string {
	text = transcript.Strip(text)
	var out, fence = "", lines.Fence{}
	for i, line := range strings.SplitAfter(text, "\n") {
		bare := strings.TrimSuffix(line, "\n")
		if i == 0 {
			bare = strings.TrimPrefix(bare, "\uFEFF")
		}
		bare = bare[:min(len(bare), lines.MaxFenceLine+1)]
		opened, opens := lines.OpenFence([]byte(bare))
		switch {
		case fence.IsOpen() && fence.ClosedBy([]byte(bare)):
			fence = lines.Fence{}
		case fence.IsOpen():
		case opens:
			fence = opened
		default:
			line = liveTag.ReplaceAllString(line, "[$1")
		}
		out += line
	}
	return string([]rune(out))
}

// checkContent checks the contract of ContentStream for one way of cutting a text.
func checkContent(t rapid.TB, pieces ...string) {
	t.Helper()
	text := strings.Join(pieces, "")
	content := contentOf(t, pieces...)
	if want := plainContent(text); content != want {
		t.Errorf("%.300q\nbecomes %.300q\nwant    %.300q", pieces, content, want)
	}
	if whole := transcript.Content(text); content != whole {
		t.Errorf("%.300q\nin pieces becomes %.300q\nas a whole        %.300q", pieces, content,
			whole)
	}
	left, _ := scanOnce([]byte(content), plain)
	for _, s := range left {
		if s.Dialect == signalbox.DialectTurn && s.Refused != signalbox.ReasonFenced {
			t.Errorf("%.300q: content %.300q still has %q (%s)", pieces, content, s.Raw, s.Refused)
		}
	}
	if len(text) < 1<<16 && transcript.Content(content) != content {
		t.Errorf("%.300q: the content of content %.300q is another: %.300q", pieces, content,
			transcript.Content(content))
	}
	if !strings.Contains(strings.ToLower(text), "signal") && utf8.ValidString(text) &&
		len(text) < 1<<16 {
		if want := strings.TrimRight(text, lines.Space); content != want {
			t.Errorf("%.300q without a signal becomes %.300q", text, content)
		}
	}
}

func cutEvery(text string, n int) (pieces []string) {
	for len(text) > n {
		pieces, text = append(pieces, text[:n]), text[n:]
	}
	return append(pieces, text)
}

// drawReply draws a text of complete and incomplete tags and fences.
func drawReply(t *rapid.T) string {
	parts := []string{
		`<signal type="need_turn"><reason>r</reason></signal>`, `<SIGNAL type='x'/>`,
		`<signal type="`, `<signal>`, `</signal>`, "</SIGNAL >", "<signal\n>",
		`<signal type="stuck"><blocker>b</blocker></signal>`,
		`<signal type="need_turn"><reason>a < b & <i>c</i></reason></signal>`,
		"<sig", "nal", "<", "</", ">", "/", `"`, "'", "<signals>", "<signal", "</signal",
		"<signal-box>", "reason", "<reason>", "</reason>", "type=",
		"```", "~~~", "````", "```json", "``", "`", "~", "\n", "\n", "\r\n", "\n```\n", "\n~~~\n",
		" ", "   ", "    ", "\t",
		"a", "word", "é", "日本", "😀", "\uFEFF", "\u2028", "\xff", "\xe2\x82", "\xf0\x9f", "\x80",
		"\x00", "{", "}\n", "READY_FOR_REVIEW: t\n", `key="k"`,
		"---DELEGATION PROMPT START---\n", "---DELEGATION PROMPT END---\n",
	}
	return strings.Join(rapid.SliceOfN(rapid.SampledFrom(parts), 0, 24).Draw(t, "parts"), "")
}

func drawPieces(t *rapid.T, text string) (pieces []string) {
	for len(text) > 0 {
		n := min(rapid.IntRange(0, 9).Draw(t, "piece"), len(text))
		pieces, text = append(pieces, text[:n]), text[n:]
	}
	return pieces
}

func TestContentCuts(t *testing.T) {
	property.Check(t, func(t *rapid.T) {
		text := drawReply(t)
		checkContent(t, text)
		checkContent(t, cutEvery(text, 1)...)
		checkContent(t, drawPieces(t, text)...)
	})
	for _, text := range kitInputs(t) {
		for _, n := range []int{1, 2, 7, 4096} {
			checkContent(t, cutEvery(text, n)...)
		}
	}
}

// Texts around the limits of fence lines, blocks and white space that is held back.
func TestContentCutsAtTheLimits(t *testing.T) {
	const block = `<signal type="stuck"/>`
	check := func(text string) {
		t.Helper()
		checkContent(t, text)
		checkContent(t, cutEvery(text, transcript.MaxTurnBlock/4)...)
		checkContent(t, cutEvery(text, 97)...)
	}
	for n := -3; n <= 2; n++ {
		info := strings.Repeat("i", lines.MaxFenceLine-3+n)
		for _, end := range []string{"", "`", "x", "<signal>"} {
			check("```" + info + end + "\n" + block + "<signal>\n```\n<signal>")
			check("~~~\n~~~" + strings.Repeat(" ", len(info)) + end + "\n<signal>")
		}
		opener := `<signal type="x">`
		check(opener + strings.Repeat("b", transcript.MaxTurnBlock-len(opener)-len("</signal>")+n) +
			"</signal>")
	}
	check("a" + strings.Repeat(" \t", 40_000))
	check("a" + strings.Repeat(" ", 70_000) + "<signal")
}

func FuzzContent(f *testing.F) {
	for _, text := range kitInputs(f) {
		f.Add(text, uint8(1), uint8(3))
	}
	f.Fuzz(func(t *testing.T, text string, first, step uint8) {
		if len(text) > 64<<10 {
			return
		}
		at := min(int(first), len(text))
		checkContent(t, append([]string{text[:at]}, cutEvery(text[at:], int(step)+1)...)...)
	})
}

func TestContent(t *testing.T) {
	const block = `<signal type="need_turn"><reason>more</reason></signal>`
	for _, tt := range []struct{ name, reply, content string }{
		{"none", "All is well.\n", "All is well."},
		{"at the end", "Let me look.\n\n" + block + "\n", "Let me look."},
		{"in the middle", "a " + block + " b", "a  b"},
		{"upper case and attributes", `a <SIGNAL confidence="0.9" type='stuck'></SIGNAL >`, "a"},
		{"unknown type", `a <signal type="hungry"></signal> b`, "a  b"},
		{"fenced", "```\n" + block + "\n```\nb", "```\n" + block + "\n```\nb"},
		{"code span", "`" + block + "`", "`[signal" +
			block[len("<signal"):len(block)-len("</signal>")] + "[/signal>`"},
		{"no type", "a <signal>x</signal> b", "a [signal>x[/signal> b"},
		{"no type, no content", "a <signal/> b", "a [signal/> b"},
		{"only a closer", "a </Signal> b", "a [/Signal> b"},
		{"lines and form feeds", "a <signal\r\n b <signal\f c </signal\v",
			"a [signal\r\n b [signal\f c [/signal"},
		{"unterminated", `a <signal type="stuck"> and then`, `a [signal type="stuck"> and then`},
		{"cut in its name", "a <signal", "a [signal"},
		{"cut before its name", "a <sign", "a <sign"},
		{"nested", `<signal type="stuck"><blocker>` + block + `</blocker></signal>`,
			`[signal type="stuck"><blocker></blocker>[/signal>`},
		{"joined", `a <sig` + block + `nal type="stuck"></signal> b`,
			`a [signal type="stuck">[/signal> b`},
		{"a fence that begins where a block was", "<signal type=\"x\">\n</signal>```\n```\n" +
			block, "```\n```\n[" + block[1:len(block)-9] + "[/signal>"},
		{"a delegation prompt", "---DELEGATION PROMPT START---\n" + block + "<signal>",
			"---DELEGATION PROMPT START---\n[signal>"},
		{"another tag", "a <signals> and <signal-box>", "a <signals> and <signal-box>"},
		{"rune", "é日😀", "é日😀"},
		{"no UTF-8", "a\xffb\xe2\x82", "a\uFFFDb\uFFFD\uFFFD"},
		{"no UTF-8 beside a signal", "a\xffb" + block + "\xe2\x82", "a\uFFFDb\uFFFD\uFFFD"},
	} {
		if got := transcript.Content(tt.reply); got != tt.content {
			t.Errorf("%s: content %q, want %q", tt.name, got, tt.content)
		}
		checkContent(t, cutEvery(tt.reply, 1)...)
	}
}

func TestContentIsReturnedImmediately(t *testing.T) {
	for _, tt := range []struct{ reply, released string }{
		{"Hello, wor", "Hello, wor"},
		{"Hello <", "Hello"},
		{"a < b and c <sig", "a < b and c"},
		{"a <signals", "a <signals"},
		{`a <signal type="x"> b`, "a"},
		{`a <signal type="x"></signal> b`, "a  b"},
		{"a\n``", "a"},
		{"a\n`code` b", "a\n`code` b"},
		{"a\n```go\nx", "a\n```go\nx"},
		{"a </sig", "a "},
		{"a </b", "a </b"},
		{"日\xe6\x97", "日"},
		{"日\xe6\x97\xa5", "日日"},
		{"a\n   ", "a"},
	} {
		for _, n := range []int{len(tt.reply), 1} {
			c := transcript.NewContentStream()
			got := ""
			for _, piece := range cutEvery(tt.reply, n) {
				got += c.Push([]byte(piece))
			}
			if got != tt.released {
				t.Errorf("after %q, in pieces of %d, released %q, want %q", tt.reply, n, got,
					tt.released)
			}
		}
	}
}

// The text that is held back stays small for a hostile reply of any length.
func TestHeldContentIsBounded(t *testing.T) {
	const most = transcript.MaxTurnBlock + 2*lines.MaxFenceLine + 16
	for name, unit := range map[string]string{
		"openers": `<signal type="x">`, "an opener without end": `<signal type="`, "halves": "<sig",
		"backticks": "`", "tildes": "~", "text": "abc",
		"fence starts": "\n```", "runes": "\xe6\x97", "closers": "</signal", "quotes": `<signal "`,
		"lines": "<signal\n",
	} {
		before := heap()
		c := transcript.NewContentStream()
		in, out := 0, 0
		for piece := strings.Repeat(unit, 1000/len(unit)); in < 1<<19; in += len(piece) {
			out += len(strings.ReplaceAll(c.Push([]byte(piece)), "\uFFFD", "?"))
			if held := in + len(piece) - out; held > most {
				t.Errorf("%s: %d bytes are held back after %d", name, held, in)
				break
			}
		}
		if kept := heap() - before; kept > 1<<18 {
			t.Errorf("%s: %d bytes are kept", name, kept)
		}
		c.Close()
	}
}

// With more than linear time this would exceed the timeout of the test.
func TestContentTakesLinearTime(t *testing.T) {
	for _, unit := range []string{`<signal type="x">`, `<signal type="`, `<sig<signal type="x"/>`} {
		text := strings.Repeat(unit, (2<<20)/len(unit))
		if got := transcript.Content(text); strings.Contains(got, "<signal") {
			t.Errorf("%q, often: a tag is left", unit)
		}
	}
}

func heap() int64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

func TestContentAllocations(t *testing.T) {
	reply := strings.Repeat(
		"The function reads the file, and a < b holds for </b> every line.\n```go\nx := 1\n```\n",
		20)
	if n := testing.AllocsPerRun(20, func() { transcript.Content(reply) }); n > 0 {
		t.Errorf("Content of a reply without tags allocates %v times", n)
	}
	c := transcript.NewContentStream()
	for _, tt := range []struct {
		piece string
		want  float64
	}{
		// the returned text
		{reply, 1}, {" word", 1}, {"word ", 1}, {"word\n\n", 1}, {"```\n", 1}, {"a < b ", 1},
		{"日本", 1}, {"\xff\xff", 1},
		{"", 0}, {" ", 0}, {"\n", 0}, {"<signal type='x'>", 1},
	} {
		piece := []byte(tt.piece)
		if n := testing.AllocsPerRun(100, func() { c.Push(piece) }); n > tt.want {
			t.Errorf("Push(%.20q) allocates %v times, want %v", tt.piece, n, tt.want)
		}
	}
}

func BenchmarkContentStream(b *testing.B) {
	prose := strings.Repeat("The function reads the file, and a < b holds for every line of it.\n",
		1000)
	for name, text := range map[string]string{
		"prose":   prose,
		"openers": strings.Repeat(`<signal type="x">`, len(prose)/17),
		"fences":  strings.Repeat("```go\nx := 1\n```\n", len(prose)/17),
	} {
		for size, n := range map[string]int{"token": 5, "block": 4096} {
			b.Run(name+"/"+size, func(b *testing.B) {
				b.SetBytes(int64(len(text)))
				b.ReportAllocs()
				for b.Loop() {
					c := transcript.NewContentStream()
					for rest := []byte(text); len(rest) > 0; {
						k := min(n, len(rest))
						c.Push(rest[:k])
						rest = rest[k:]
					}
					c.Close()
				}
			})
		}
	}
}
