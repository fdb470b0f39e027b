package transcript

import (
	"strings"
	"testing"

	"signalbox"
)

// The excerpt has the agent's own text in every format, and none of the JSON around it.
func TestExcerpt(t *testing.T) {
	for format, stream := range map[signalbox.Format]string{
		signalbox.FormatPlain: "one\ntwo\n",
		signalbox.FormatClaude: `{"type":"system","subtype":"init","session_id":"s"}
{"type":"assistant","message":{"id":"m1","role":"assistant","content":[{"type":"text","text":"one"}]},"session_id":"s","parent_tool_use_id":null}
{"type":"assistant","message":{"id":"m2","role":"assistant","content":[{"type":"tool_use","id":"t","name":"Bash","input":{"command":"ls"}}]},"session_id":"s","parent_tool_use_id":null}
{"type":"assistant","message":{"id":"m3","role":"assistant","content":[{"type":"text","text":"two"}]},"session_id":"s","parent_tool_use_id":null}
`,
		signalbox.FormatCodex: `{"type":"thread.started","thread_id":"t"}
{"type":"item.completed","item":{"id":"i0","type":"agent_message","text":"one"}}
{"type":"item.completed","item":{"id":"i1","type":"command_execution","command":"ls","aggregated_output":"x","exit_code":0,"status":"completed"}}
{"type":"item.completed","item":{"id":"i2","type":"agent_message","text":"two"}}
`,
	} {
		for _, named := range []signalbox.Format{format, signalbox.FormatAuto} {
			s := NewScanner(&Options{Format: named, Excerpt: 100})
			for i := range len(stream) {
				s.Push([]byte{stream[i]})
			}
			s.Close()
			head, tail := s.Excerpt()
			if strings.TrimSpace(head) != "one\ntwo" || head != tail {
				t.Errorf("%s read as %s: %q, %q", format, named, head, tail)
			}
		}
	}
}

func TestExcerptIsBounded(t *testing.T) {
	s := NewScanner(&Options{Format: signalbox.FormatPlain, Excerpt: 4})
	for _, piece := range []string{"ab", "cdefghijklmnop", "q", "", "rs", "tuv", "wx", "yz"} {
		s.Push([]byte(piece))
	}
	s.Close()
	if head, tail := s.Excerpt(); head != "abcd" || tail != "wxyz" {
		t.Errorf("%q, %q", head, tail)
	}
	none := NewScanner(nil)
	none.Push([]byte("text\n"))
	none.Close()
	if head, tail := none.Excerpt(); head != "" || tail != "" {
		t.Errorf("%q, %q", head, tail)
	}
}

// Text that the agent program withdraws is withdrawn from the excerpt too.
func TestExcerptFollowsSnapshots(t *testing.T) {
	s := newTextScanner("")
	s.excerpt.size = 100
	s.Push([]byte("kept\n"))
	restore := s.Snapshot()
	s.Push([]byte("withdrawn\n"))
	restore()
	s.Push([]byte("more\n"))
	if head, tail := s.excerpt.text(); head != "kept\nmore\n" || tail != head {
		t.Errorf("%q, %q", head, tail)
	}
}

// RawOutput is all of the agent's own text, without what was withdrawn.
func TestRawOutput(t *testing.T) {
	oracle := `{"type":"content","turn":1,"text":"no"}
{"type":"system","turn":1,"name":"reply_restarted","level":"warning","text":"again"}
{"type":"content","turn":1,"text":"yes"}
{"type":"done","turns":1}
`
	for format, test := range map[signalbox.Format][2]string{
		signalbox.FormatPlain:  {"\xef\xbb\xbfone\ntwo\xff", "one\ntwo\ufffd"},
		signalbox.FormatOracle: {oracle, "yes"},
	} {
		s := NewScanner(&Options{Format: format, RawOutput: true})
		for i := range len(test[0]) {
			s.Push([]byte(test[0][i : i+1]))
		}
		s.Close()
		if got := s.RawOutput(); got != test[1] {
			t.Errorf("%s: %q, want %q", format, got, test[1])
		}
	}
}
