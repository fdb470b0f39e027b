package transcript_test

import (
	"bytes"
	"encoding/json"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/txtar"

	"signalbox"
	"signalbox/internal/testkit/must"
	"signalbox/transcript"
)

// TestLocate checks that the bytes at From and To are the signal, in every case of the kit.
// TestRecognitionKit checks that they do not depend on how the stream is cut.
func TestLocate(t *testing.T) {
	t.Parallel()
	paths, err := filepath.Glob(kitGlob)
	must.Succeed(t, err)
	located := map[string]int{}
	for _, path := range paths {
		archive, err := txtar.ParseFile(path)
		must.Succeed(t, err)
		for _, c := range kitCases(t, filepath.Base(path), archive) {
			o := c.options
			o.Locate = true
			for _, sig := range scanWhole(t, c.input, &o) {
				// a remark, or an excerpt
				if sig.Name == "" || len(sig.Raw) < 4 || strings.HasSuffix(sig.Raw, "…") {
					continue
				}
				found := readBack(t, c.input, sig)
				located[found]++
				if found == "" {
					t.Errorf("%s/%s: %q is at %d to %d: %.200q", path, c.name, sig.Raw, sig.From,
						sig.To, c.input[sig.From:sig.To])
				}
			}
		}
	}
	if located["as it is"] < 500 || located["in JSON"] < 40 || located["in several strings"] < 30 {
		t.Errorf("only these were found: %v", located)
	}
}

// readBack returns how a signal was found in the stream, "" if it is not there.
func readBack(t *testing.T, stream []byte, sig signalbox.Signal) string {
	t.Helper()
	if sig.From < 0 || sig.From >= sig.To || sig.To > int64(len(stream)) {
		t.Errorf("%q is at %d to %d of %d", sig.Raw, sig.From, sig.To, len(stream))
		return "nowhere"
	}
	raw := stream[sig.From:sig.To]
	if strings.ToValidUTF8(string(raw), "\uFFFD") == sig.Raw ||
		string([]rune(string(raw))) == sig.Raw {
		return "as it is"
	}
	var text string
	if json.Unmarshal([]byte(`"`+string(raw)+`"`), &text) == nil &&
		(text == sig.Raw || strings.TrimSpace(text) == strings.TrimSpace(sig.Raw)) {
		return "in JSON"
	}
	// It continues in another string of the stream.
	first, last := sig.Raw[:1], sig.Raw[len(sig.Raw)-1:]
	if bytes.HasPrefix(raw, []byte(first)) && bytes.HasSuffix(raw, []byte(last)) &&
		bytes.Contains(raw, []byte(`"`)) {
		return "in several strings"
	}
	return ""
}

// TestLocateEscapes checks places after characters of every length, and after every kind of escape
// sequence.
func TestLocateEscapes(t *testing.T) {
	const signal = "READY_FOR_REVIEW: T7"
	for _, before := range []string{"", "x\n", "Zürich — 漢字 🚂\r\n", `a \"quote\" and \\ and \/ \t` +
		"\n", `\u00e9\u6f22\ud83d\ude82` + "\n", `\ud83d lone` + "\n", "<&>\n\n\n"} {
		for format, around := range map[signalbox.Format][2]string{
			signalbox.FormatClaude:   {`{"type":"assistant","message":{"content":[{"type":"thinking","thinking":"READY_FOR_REVIEW: T7"},{"type":"text","text":"`, `"}]},"parent_tool_use_id":null}`},
			signalbox.FormatCodex:    {`  {"type":"item.completed","item":{"id":"i","type":"agent_message","text":"`, `"}}`},
			signalbox.FormatGemini:   {`{"type":"message","role":"assistant","content":"`, `"}`},
			signalbox.FormatOpencode: {`{"type":"text","sessionID":"s","part":{"type":"text","text":"`, `"}}`},
			signalbox.FormatPlain:    {"", ""},
		} {
			for _, start := range []string{"", "\ufeff", "\r\n"} {
				text := strings.NewReplacer("\r", `\r`, "\n", `\n`).Replace(before) + signal
				if format == signalbox.FormatPlain {
					text = before + signal
				}
				stream := start + around[0] + text + around[1] + "\r\n"
				want := int64(len(start + around[0] + text[:len(text)-len(signal)]))
				for _, named := range []signalbox.Format{format, signalbox.FormatAuto} {
					for size := 1; size <= len(stream); size += 6 {
						s := transcript.NewScanner(&transcript.Options{Format: named, Locate: true})
						var found []signalbox.Signal
						for rest := stream; rest != ""; rest = rest[min(size, len(rest)):] {
							found = append(found, s.Push([]byte(rest[:min(size, len(rest))]))...)
						}
						found = append(found, s.Close()...)
						ok := false
						for _, sig := range found {
							if sig.Taken() {
								ok = sig.From == want && sig.To == want+int64(len(signal))
							}
						}
						if !ok {
							t.Fatalf("%s, %q: want it at %d of %q, got %+v", named, before, want,
								stream, found)
						}
					}
				}
			}
		}
	}
}

// TestLocateRemarks checks that a remark has the place of the line that it is about.
func TestLocateRemarks(t *testing.T) {
	first, broken := `{"type":"turn.started"}`+"\r\n", `{"type":"item.completed","item":`
	for start, format := range map[string]signalbox.Format{"": signalbox.FormatCodex,
		"\ufeff": signalbox.FormatAuto} {
		from := int64(len(start + first))
		for _, sig := range scanWhole(t, []byte(start+first+broken+"\n"+first),
			&transcript.Options{Format: format, Locate: true}) {
			if sig.Refused == signalbox.ReasonMalformed &&
				(sig.From != from || sig.To != from+int64(len(broken))) {
				t.Errorf("%q: it is at %d to %d, not at %d: %+v", start, sig.From, sig.To, from,
					sig)
			}
		}
	}
}

// TestLocateIsOptional checks that no one gets places who did not ask for them.
func TestLocateIsOptional(t *testing.T) {
	for _, sig := range scanWhole(t, []byte("x\nREADY_FOR_REVIEW: T7\n"), &transcript.Options{}) {
		if sig.From != 0 || sig.To != 0 {
			t.Errorf("%+v", sig)
		}
	}
}
