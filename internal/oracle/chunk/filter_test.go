package chunk_test

import (
	"bytes"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"signalbox"
	"signalbox/internal/oracle/chunk"
	"signalbox/transcript"
)

// filter returns the content and signals of a reply in pieces, and checks that every content is whole runes.
func filter(t rapid.TB, key string, pieces ...string) (string, []signalbox.Signal) {
	t.Helper()
	f := chunk.NewFilter(key)
	var content strings.Builder
	var signals []signalbox.Signal
	take := func(text string, found []signalbox.Signal) {
		if !utf8.ValidString(text) {
			t.Errorf("content %q cuts a rune", text)
		}
		content.WriteString(text)
		signals = append(signals, found...)
	}
	for _, piece := range pieces {
		take(f.Push([]byte(piece)))
	}
	take(f.Close())
	return content.String(), signals
}

// turns are the turn signals that transcript finds, whatever it says of them.
func turns(text, key string) (found []signalbox.Signal) {
	for s := range transcript.Signals(strings.NewReader(text), &transcript.Options{Format: transcript.FormatPlain, Key: key}) {
		if s.Dialect == signalbox.DialectTurn {
			found = append(found, s)
		}
	}
	return found
}

// checkPieces holds the contract for one way to cut a text.
func checkPieces(t rapid.TB, key string, pieces []string) {
	t.Helper()
	text := strings.Join(pieces, "")
	content, signals := filter(t, key, pieces...)
	if want := string([]rune(chunk.Harmless(transcript.Strip(text)))); content != want {
		t.Errorf("%q\nbecomes %q\nwant    %q", pieces, content, want)
	}
	if diff := cmp.Diff(turns(text, key), signals); diff != "" {
		t.Errorf("%q: signals (-transcript +filter):\n%s", pieces, diff)
	}
	for _, s := range turns(content, "") {
		if s.Refused != signalbox.ReasonFenced {
			t.Errorf("%q: content %q still has %q (%s)", pieces, content, s.Raw, s.Refused)
		}
	}
	if plain := !strings.Contains(strings.ToLower(text), "signal"); plain && utf8.ValidString(text) {
		if want := strings.TrimRight(text, " \t\r\n\v\f"); content != want {
			t.Errorf("%q without a signal becomes %q", text, content)
		}
	}
}

func cutEvery(text string, n int) (pieces []string) {
	for len(text) > n {
		pieces, text = append(pieces, text[:n]), text[n:]
	}
	return append(pieces, text)
}

// drawReply draws texts in which tags, fences and their halves meet in every way.
func drawReply(t *rapid.T) string {
	parts := []string{
		`<signal type="need_turn">`, `<SIGNAL confidence='0.4' type = 'stuck' >`, `<signal type="x"/>`, `<signal>`, "</signal>", "</Signal\n>",
		`<signal type="stuck"><blocker>b</blocker></signal>`, `<signal type="need_turn"><reason>a < b & <i>c</i></reason></signal>`,
		"<sig", "nal", "<", "</", ">", "/", `"`, "'", "<signals>", "<signal", "</signal", "<signal-box>", "reason", "<reason>", "</reason>", "type=",
		"```", "~~~", "````", "```json", "``", "`", "~", "\n", "\n", "\r\n", "\n```\n", "\n~~~\n", " ", "   ", "    ", "\t",
		"a", "word", "é", "日本", "😀", "\uFEFF", "\u2028", "\xff", "\xe2\x82", "\xf0\x9f", "\x80", "\x00", "{", "}\n", "READY_FOR_REVIEW: t\n", `key="k"`,
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

func TestEveryCutGivesTheSame(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text, key := drawReply(t), rapid.SampledFrom([]string{"", "k"}).Draw(t, "key")
		checkPieces(t, key, []string{text})
		checkPieces(t, key, cutEvery(text, 1))
		checkPieces(t, key, drawPieces(t, text))
	})
}

func TestEveryCutOfTheRecognitionKit(t *testing.T) {
	for _, text := range kit(t) {
		for _, n := range []int{1, 2, 7, 4096} {
			checkPieces(t, "", cutEvery(text, n))
		}
	}
}

// kit returns files that are full of signals, good and bad.
func kit(t testing.TB) (texts []string) {
	const pattern = "../../../testdata/recognition/*.txtar"
	for _, glob := range []string{"strip", "fences", "turn-*"} {
		paths, err := filepath.Glob(strings.Replace(pattern, "*", glob, 1))
		if err != nil || len(paths) == 0 {
			t.Fatalf("no %s in %s: %v", glob, pattern, err)
		}
		for _, path := range paths {
			text, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			texts = append(texts, string(text))
		}
	}
	return texts
}

func FuzzFilter(f *testing.F) {
	for _, text := range kit(f) {
		for _, part := range strings.Split(text, "\n-- ") {
			f.Add(part, uint8(1), uint8(3))
		}
	}
	f.Fuzz(func(t *testing.T, text string, first, step uint8) {
		if len(text) > 64<<10 {
			return
		}
		at := min(int(first), len(text))
		checkPieces(t, "", append([]string{text[:at]}, cutEvery(text[at:], int(step)+1)...))
	})
}

func TestContent(t *testing.T) {
	const block = `<signal type="need_turn"><reason>more</reason></signal>`
	for _, tt := range []struct{ name, reply, content, signal string }{
		{"none", "All is well.\n", "All is well.", ""},
		{"at the end", "Let me look.\n\n" + block + "\n", "Let me look.", "need_turn"},
		{"in the middle", "a " + block + " b", "a  b", "need_turn"},
		{"upper case and attributes", `a <SIGNAL confidence="0.9" type='stuck'></SIGNAL >`, "a", "stuck"},
		{"unknown type", `a <signal type="hungry"></signal> b`, "a  b", ""},
		{"fenced", "```\n" + block + "\n```\nb", "```\n" + block + "\n```\nb", ""},
		{"fence within a line", "`" + block + "`", "``", "need_turn"},
		{"no type", "a <signal>x</signal> b", "a [signal>x[/signal> b", ""},
		{"no type, no content", "a <signal/> b", "a [signal/> b", ""},
		{"lines and form feeds", "a <signal\r\n b <signal\f c </signal\v", "a [signal\r\n b [signal\f c [/signal", ""},
		{"unterminated", `a <signal type="stuck"> and then`, `a [signal type="stuck"> and then`, ""},
		{"cut in its name", "a <signal", "a [signal", ""},
		{"cut before its name", "a <sign", "a <sign", ""},
		{"nested", `<signal type="stuck"><blocker>` + block + `</blocker></signal>`, `[signal type="stuck"><blocker></blocker>[/signal>`, "need_turn"},
		{"joined", `a <sig` + block + `nal type="stuck"></signal> b`, `a [signal type="stuck">[/signal> b`, "need_turn"},
		{"a fence that begins where a block was", "<signal type=\"x\">\n</signal>```\n```\n" + block, "```\n```\n[" + block[1:len(block)-9] + "[/signal>", ""},
		{"another tag", "a <signals> and <signal-box>", "a <signals> and <signal-box>", ""},
		{"rune", "é日😀", "é日😀", ""},
		{"no UTF-8", "a\xffb\xe2\x82", "a\uFFFDb\uFFFD\uFFFD", ""},
	} {
		content, signals := filter(t, "", cutEvery(tt.reply, 1)...)
		if content != tt.content {
			t.Errorf("%s: content %q, want %q", tt.name, content, tt.content)
		}
		name := ""
		for _, s := range signals {
			if s.Taken() {
				name += s.Name
			}
		}
		if name != tt.signal {
			t.Errorf("%s: signal %q, want %q", tt.name, name, tt.signal)
		}
		checkPieces(t, "", cutEvery(tt.reply, 1))
	}
}

// Harmless must see the fences that transcript sees: with blocks everywhere, it changes those that count as being
// outside of fences and no others.
func TestHarmlessKnowsTranscriptsFences(t *testing.T) {
	const block = `<signal type="stuck"/>`
	check := func(t rapid.TB, text string) {
		found := turns(text, "")
		if len(found) >= transcript.MaxSignals {
			t.Fatalf("too many to be listed")
		}
		want := []byte(text)
		for _, s := range found {
			if s.Refused != signalbox.ReasonFenced {
				want[s.Offset] = '['
			}
		}
		if got := chunk.Harmless(text); got != string(want) {
			t.Errorf("%.200q\nbecomes %.200q\nwant    %.200q", text, got, want)
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		text := ""
		for range rapid.IntRange(1, 8).Draw(t, "lines") {
			text += rapid.SampledFrom([]string{"", "", "", " ", "  ", "   ", "    ", "\t", "\uFEFF"}).Draw(t, "indent") +
				rapid.SampledFrom([]string{"```", "```", "````", "~~~", "~~~", "~~~~", "``", "~~", "x", ""}).Draw(t, "marks") +
				rapid.SampledFrom([]string{"", "", "", " ", "\r", "\v\f\t", "go", "`", "~", block, "\u00a0"}).Draw(t, "rest") + "\n" + block + "\n"
		}
		check(t, text)
	})
	for _, n := range []int{-2, -1, 0, 1, 2} {
		info := strings.Repeat("i", transcript.MaxTurnBlock-3+n)
		for _, end := range []string{"", "`", "x", " ", block} {
			check(t, "```"+info+end+"\n"+block+"\n```\n"+block)
			check(t, "~~~\n~~~"+strings.Repeat(" ", len(info))+end+"\n"+block)
		}
	}
}

func TestTextIsReleasedAtOnce(t *testing.T) {
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
		f := chunk.NewFilter("")
		if got, _ := f.Push([]byte(tt.reply)); got != tt.released {
			t.Errorf("after %q released %q, want %q", tt.reply, got, tt.released)
		}
		f = chunk.NewFilter("")
		got := ""
		for i := range len(tt.reply) {
			text, _ := f.Push([]byte{tt.reply[i]})
			got += text
		}
		if got != tt.released {
			t.Errorf("after %q, byte by byte, released %q, want %q", tt.reply, got, tt.released)
		}
	}
}

func TestASignalIsToldWhenItsLineEnds(t *testing.T) {
	f := chunk.NewFilter("")
	f.Push([]byte(`text <signal type="stuck"><blocker>b</blocker></signal`))
	if _, signals := f.Push([]byte(">\n")); len(signals) == 0 || !signals[0].Taken() || signals[0].Name != "stuck" {
		t.Errorf("not told: %+v", signals)
	}
}

// What is held back stays small, however long a hostile reply goes on.
func TestHeldTextIsBounded(t *testing.T) {
	const most = 3*transcript.MaxTurnBlock + 16
	for name, unit := range map[string]string{
		"openers": `<signal type="x">`, "an opener without end": `<signal type="`, "halves": "<sig", "backticks": "`", "tildes": "~", "text": "abc",
		"fence starts": "\n```", "runes": "\xe6\x97", "closers": "</signal", "quotes": `<signal "`, "lines": "<signal\n",
	} {
		before := heap()
		f := chunk.NewFilter("")
		in, out := 0, 0
		for piece := strings.Repeat(unit, 1000/len(unit)); in < 4<<20; in += len(piece) {
			text, _ := f.Push([]byte(piece))
			out += len(strings.ReplaceAll(text, "\uFFFD", "?"))
			if held := in + len(piece) - out; held > most {
				t.Errorf("%s: %d bytes are held back after %d", name, held, in)
				break
			}
		}
		if kept := heap() - before; kept > 8<<20 {
			t.Errorf("%s: %d bytes are kept", name, kept)
		}
		f.Close()
	}
}

func heap() int64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

func BenchmarkFilter(b *testing.B) {
	prose := strings.Repeat("The function reads the file, and a < b holds for every line of it.\n", 1000)
	for name, text := range map[string]string{
		"prose":   prose,
		"openers": strings.Repeat(`<signal type="x">`, len(prose)/17),
		"fences":  strings.Repeat("```go\nx := 1\n```\n", len(prose)/17),
	} {
		for size, n := range map[string]int{"token": 5, "block": 4096} {
			b.Run(name+"/"+size, func(b *testing.B) {
				b.SetBytes(int64(len(text)))
				for b.Loop() {
					f := chunk.NewFilter("")
					for rest := []byte(text); len(rest) > 0; {
						k := min(n, len(rest))
						f.Push(rest[:k])
						rest = rest[k:]
					}
					f.Close()
				}
				b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(len(text)), "ns/byte")
			})
		}
	}
}

func TestPushKeepsNothingOfItsPiece(t *testing.T) {
	f := chunk.NewFilter("")
	piece := []byte(`a <signal type="stuck"><blocker>b`)
	f.Push(piece)
	copy(piece, bytes.Repeat([]byte("#"), len(piece)))
	_, signals := f.Push([]byte("</blocker></signal>\n"))
	if len(signals) == 0 || signals[0].Turn.Fields["blocker"] != "b" {
		t.Errorf("the signal changed with the caller's bytes: %+v", signals)
	}
}
