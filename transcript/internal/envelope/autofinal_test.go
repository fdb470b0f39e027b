package envelope

import (
	"bytes"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"signalbox"
	"signalbox/internal/testkit/property"
)

// textSink records the agent's own text.
type textSink struct{ text []byte }

func (s *textSink) Push(p []byte)  { s.text = append(s.text, p...) }
func (s *textSink) StartMessage()  { s.text = append(s.text, "|"...) }
func (s *textSink) StartLine()     { s.text = append(s.text, "/"...) }
func (s *textSink) Pause()         {}
func (s *textSink) EndMessage()    {}
func (s *textSink) EndTurn()       {}
func (s *textSink) Commit()        {}
func (s *textSink) Skip(int)       {}
func (s *textSink) Locate([]Place) {}

func (s *textSink) Remark(signalbox.Reason, string, string) {}

func (s *textSink) Snapshot() (restore func()) {
	saved := bytes.Clone(s.text)
	return func() { s.text = saved }
}

// streamLines are lines of every format, and others.
var streamLines = []string{
	"Hello.", "", "  ", "REVIEW_PASSED: t1", "[1]", "{", `{"level":"info"}`, `{"type":"banner"}`,
	`{"type":"assistant"`,
	`{"protocol": "apm2_agent_exit"}`, "\u00a0", "```", "null",
	`{"type":"system","subtype":"init","session_id":"s"}`,
	`{"type":"assistant","message":{"id":"m","content":[{"type":"text","text":"claude"}]},"parent_tool_use_id":null,"session_id":"s"}`,
	`{"type":"assistant","message":{"id":"n","content":[{"type":"text","text":"other"}]},"parent_tool_use_id":null,"session_id":"t"}`,
	`{"type":"result","subtype":"success","is_error":false,"result":"claude","session_id":"s"}`,
	`{"type":"thread.started","thread_id":"x"}`, `{"type":"turn.started"}`,
	`{"type":"item.completed","item":{"id":"item_1","type":"agent_message","text":"codex"}}`,
	`{"type":"init","session_id":"s","model":"m"}`,
	`{"type":"message","role":"assistant","content":"gemini"}`,
	`{"type":"result","status":"success","stats":{}}`,
	`{"type":"step_start","sessionID":"s","part":{}}`,
	`{"type":"text","sessionID":"s","part":{"type":"text","text":"opencode"}}`,
	`{"type":"result","is_error":false,"subtype":"success","result":"both","status":"success","stats":{}}`,
}

// What an agent writes later does not change which of its earlier words count.
func TestLaterOutputChangesNothing(t *testing.T) {
	formats := append(signalbox.Formats()[:0:0], signalbox.FormatAuto, signalbox.FormatPlain,
		signalbox.FormatClaude,
		signalbox.FormatCodex, signalbox.FormatGemini, signalbox.FormatOpencode)
	property.Check(t, func(t *rapid.T) {
		drawn := rapid.SliceOfN(rapid.SampledFrom(streamLines), 1, 8)
		before := strings.Join(drawn.Draw(t, "before"), "\n") + "\n"
		after := strings.Join(drawn.Draw(t, "after"),
			rapid.SampledFrom([]string{"\n", "\r\n", "\n\n"}).Draw(t, "line end"))
		format := rapid.SampledFrom(formats).Draw(t, "format")

		out := &textSink{}
		source := New(format, out, false)
		source.Push([]byte(before))
		early, earlyReport := string(out.text), source.Report()
		for _, piece := range strings.SplitAfter(after,
			rapid.SampledFrom([]string{"", "\n", "t", "}"}).Draw(t, "cuts")) {
			source.Push([]byte(piece))
		}
		source.Close()
		if late := string(out.text); !strings.HasPrefix(late, early) {
			t.Fatalf("%s: after %q the text was %q, and after %q it is %q", format, before, early,
				after, late)
		}
		report := source.Report()
		if earlyReport.Format != report.Format && earlyReport.Format != signalbox.FormatAuto {
			t.Fatalf("%q is %s, and with %q it is %s", before, earlyReport.Format, after,
				report.Format)
		}
		if earlyReport.Mixed != "" && report.Mixed != earlyReport.Mixed {
			t.Fatalf("%q is mixed (%s), and with %q it is %q", before, earlyReport.Mixed, after,
				report.Mixed)
		}

		// The same text, whole.
		whole := &textSink{}
		once := New(format, whole, false)
		once.Push([]byte(before + after))
		once.Close()
		if string(whole.text) != string(out.text) || once.Report() != report {
			t.Fatalf("%s: in pieces %q is %q %+v, whole %q %+v", format, before+after, out.text,
				report, whole.text, once.Report())
		}
	})
}
