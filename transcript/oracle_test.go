package transcript_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"signalbox"
	"signalbox/internal/testkit/property"
	"signalbox/transcript"
)

func chunkLine(kind string, turn int, text string) string {
	data, err := json.Marshal(text)
	if err != nil {
		panic(err) // encoding a string does not fail
	}
	return fmt.Sprintf(`{"type":%q,"turn":%d,"text":%s}`+"\n", kind, turn, data)
}

// restart returns the event that withdraws the reply of a turn.
func restart(turn int, name string) string {
	return fmt.Sprintf(`{"type":"system","turn":%d,"name":%q,"level":"warning","text":"it was cut off"}`+"\n", turn, name)
}

const (
	restartLine = `{"type":"system","name":"reply_restarted","level":"warning","text":"it begins again"}` + "\n"
	cutLine     = `{"type":"system","name":"reply_cut","level":"warning","text":"it was cut off"}` +
		"\n"
	retryLine = `{"type":"system","name":"retry","text":"READY_FOR_REVIEW: t9"}` + "\n"
	callLine  = `{"type":"tool_call","turn":1,"id":"c","name":"run","arguments":{"command":"READY_FOR_REVIEW: t9"}}` + "\n"
	doneLine  = `{"type":"done","reason":"answered","turns":1,"tokens":5,"cost_usd":0.5}` + "\n"
)

func oracleOptions(key string) *transcript.Options {
	return &transcript.Options{Format: signalbox.FormatOracle, Key: key}
}

// A conversation has the same signals as the texts of its replies in sequence, without those that
// were withdrawn.
func TestOracleStreamMatchesItsReplies(t *testing.T) {
	property.Check(t, func(t *rapid.T) {
		var stream, said strings.Builder
		turns := rapid.IntRange(0, 4).Draw(t, "turns")
		reply := func(turn int) string {
			text := strings.ToValidUTF8(drawText(t), "?")
			for rest := text; rest != ""; {
				n := rapid.IntRange(1, len(rest)).Draw(t, "piece")
				for n < len(rest) && rest[n]&0xC0 == 0x80 {
					n++
				}
				stream.WriteString(chunkLine("content", turn, rest[:n]))
				rest = rest[n:]
				stream.WriteString(rapid.SampledFrom([]string{"", "", retryLine,
					chunkLine("reasoning", turn, "READY_FOR_REVIEW: t9\n"), "noise\n"}).Draw(t,
					"between"))
			}
			return text
		}
		for turn := 1; turn <= turns; turn++ {
			for rapid.Bool().Draw(t, "withdrawn") {
				reply(turn)
				stream.WriteString(restart(turn,
					rapid.SampledFrom([]string{"reply_restarted", "reply_cut"}).Draw(t, "how")))
			}
			if text := reply(turn); text != "" {
				line, _ := json.Marshal(text)
				fmt.Fprintf(&said, `{"type":"item.completed","item":{"type":"agent_message","text":%s}}`+"\n", line)
			}
		}
		stream.WriteString(doneLine)
		said.WriteString(`{"type":"turn.completed","usage":{"input_tokens":5}}` + "\n")

		key := rapid.SampledFrom([]string{"", "k"}).Draw(t, "key")
		want, _ := scanOnce([]byte(said.String()),
			&transcript.Options{Format: signalbox.FormatCodex, Key: key})
		got, _ := scanOnce([]byte(stream.String()), oracleOptions(key))
		// A withdrawn text of white space still moves the following text.
		for _, list := range [][]signalbox.Signal{want, got} {
			for i := range list {
				list[i].Offset, list[i].Line = 0, 0
			}
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Fatalf("(-replies +stream):\n%s\n%s", diff, stream.String())
		}
		checkCuts(t, []byte(stream.String()), oracleOptions(key), rapid.Uint64().Draw(t, "seed"))
	})
}

// Events in any order, including orders that no program writes.
func TestOracleCuts(t *testing.T) {
	long := strings.Repeat("some more text\n", 4400) + "CHECKPOINT: t1\n"
	property.Check(t, func(t *rapid.T) {
		var stream strings.Builder
		for range rapid.IntRange(0, 30).Draw(t, "lines") {
			text := rapid.SampledFrom(fragments).Draw(t, "text")
			turn := rapid.IntRange(0, 2).Draw(t, "turn")
			if rapid.IntRange(0, 60).Draw(t, "long") == 0 {
				text = long
			}
			quoted, _ := json.Marshal(text)
			stream.WriteString(rapid.SampledFrom([]string{
				chunkLine("content", turn, text), chunkLine("content", turn, text+"\n"),
				restartLine, cutLine, retryLine, callLine, doneLine, "noise\n", "{\n",
				chunkLine("reasoning", turn, text), chunkLine("tool_result", turn, text),
				chunkLine("error", turn, text), chunkLine("news", turn, text),
				fmt.Sprintf(`{"text":%s,"turn":%d,"type":"content"}`+"\n", quoted, turn),
				fmt.Sprintf(`{"text":%s,"turn":%d,"type":"signal"}`+"\n", quoted, turn),
				fmt.Sprintf(`{"type":"content","text":%s}`+"\n", quoted),
			}).Draw(t, "line"))
		}
		checkCuts(t, []byte(stream.String()), oracleOptions(""), rapid.Uint64().Draw(t, "seed"))
	})
}

// Signals of a reply that may be withdrawn are not released, because urgent ones are acted on
// immediately.
func TestOracleReplyIsReleasedWhenComplete(t *testing.T) {
	for name, after := range map[string]string{"a tool": callLine,
		"a signal":     `{"type":"signal","turn":1,"signal":"stuck","confidence":1,"fields":{},"raw_xml":""}` + "\n",
		"another turn": chunkLine("content", 2, "x"), "the end": doneLine,
		"an error": `{"type":"error","name":"dropped","text":"t"}` + "\n"} {
		s := transcript.NewScanner(oracleOptions(""))
		if got := s.Push([]byte(chunkLine("content", 1,
			"CHECKPOINT: t1\nProgress: half\n\nREADY_FOR_REVIEW: t1\n") + retryLine)); len(
			got) != 0 {
			t.Errorf("%s: released early: %+v", name, got)
		}
		if sig, ok := s.Pending(); ok {
			t.Errorf("%s: %s is pending", name, sig.Name)
		}
		got := s.Push([]byte(after))
		if len(got) != 2 || got[0].Body["Progress"] != "half" {
			t.Errorf("%s: got %+v", name, got)
		}
	}
}

func TestOracleReportsFailureBeforeDone(t *testing.T) {
	s := transcript.NewScanner(oracleOptions(""))
	s.Push([]byte(`{"type":"error","name":"dropped","text":"the connection was cut"}` + "\n"))
	if r := s.Report(); r.Ended || !r.Failed || r.Error != "the connection was cut" {
		t.Errorf("after the error: %+v", r)
	}
	s.Push([]byte(doneLine))
	if r := s.Report(); !r.Ended || !r.Failed || r.Error != "the connection was cut" {
		t.Errorf("after done: %+v", r)
	}
	s.Push([]byte(chunkLine("reasoning", 1, "Hm.")))
	if r := s.Report(); r.Ended {
		t.Errorf("in the next question: %+v", r)
	}
}

// Signals released before a withdrawn text must not be released again.
func TestRestoreDoesNotReleaseTwice(t *testing.T) {
	many := strings.Repeat(`CHECKPOINT: t1\n`, 900) + strings.Repeat(`CHECKPOINT\n`, 900)
	before := `{"type":"message","role":"assistant","content":"` + many + `"}` + "\n"
	foreign := `{"type":"message","content":"` + strings.Repeat(`x\n`, 40_000)
	opts := &transcript.Options{Format: signalbox.FormatGemini}
	s := transcript.NewScanner(opts)
	got := append([]signalbox.Signal(nil), s.Push([]byte(before+foreign))...)
	got = append(got, s.Push([]byte(`","role":"user"}`+"\n"))...)
	got = append(got, s.Close()...)
	want, _ := scanOnce([]byte(before+foreign+`","role":"user"}`+"\n"), opts)
	if len(want) != 1800 || len(got) != len(want) {
		t.Errorf("got %d signals, want %d of 1800", len(got), len(want))
	}
}

// Snapshots copy the signals that wait to be released, so there must be few of either.
func BenchmarkOracleSnapshots(b *testing.B) {
	exit := "```json\n" +
		`{"protocol":"apm2_agent_exit","version":"1.0.0","phase_completed":"REVIEW","exit_reason":"completed"}` + "\n```\n"
	for name, input := range map[string]string{
		"turns": strings.Repeat(chunkLine("content", 1,
			"CHECKPOINT: t1\n")+chunkLine("content", 2, "CHECKPOINT: t1\n"), 10_000),
		"calls": strings.Repeat(chunkLine("content", 1, "CHECKPOINT: t1\n")+callLine,
			10_000),
		"open object": chunkLine("content", 1, `{"protocol":"apm2_agent_exit",`+
			"\n") + strings.Repeat(chunkLine("content", 1, "CHECKPOINT: t1\n")+callLine, 10_000),
		"restarts": strings.Repeat(chunkLine("content", 1, "CHECKPOINT: t1\n")+restartLine,
			10_000),
		"waiting exit": chunkLine("content", 1, exit) + strings.Repeat("{\n",
			20_000) + strings.Repeat(chunkLine("content", 1, " ")+chunkLine("content", 2, " ")+
			"{\n", 10_000),
		"withdrawn": chunkLine("content", 1, exit) + strings.Repeat("{\n",
			20_000) + strings.Repeat(chunkLine("content", 2, "x")+restartLine, 10_000),
	} {
		b.Run(name, func(b *testing.B) {
			b.SetBytes(int64(len(input)))
			for b.Loop() {
				scanOnce([]byte(input), oracleOptions(""))
			}
		})
	}
}
