package render

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"signalbox"
	"signalbox/internal/run/inspect"
	"signalbox/internal/show"
	"signalbox/internal/testkit/must"
)

// transcriptOf prints a transcript that arrives in pieces of a size.
func transcriptOf(t *testing.T, output []byte, size int, o TranscriptOptions) string {
	t.Helper()
	var out strings.Builder
	p := NewTranscript(&out, o)
	for len(output) > 0 {
		n := min(size, len(output))
		if _, err := p.Write(output[:n]); err != nil {
			t.Fatal(err)
		}
		output = output[n:]
	}
	must.Succeed(t, p.Close())
	return out.String()
}

// Every format shows the same things, however the output is cut, and with the format named or
// detected.
func TestTranscriptOfEveryFormat(t *testing.T) {
	files, err := filepath.Glob("testdata/*.output")
	if err != nil || len(files) == 0 {
		t.Fatalf("no outputs: %v", err)
	}
	for _, file := range files {
		name := strings.TrimSuffix(filepath.Base(file), ".output")
		t.Run(name, func(t *testing.T) {
			output, err := os.ReadFile(file)
			must.Succeed(t, err)
			o := TranscriptOptions{Format: signalbox.Format(name), Role: signalbox.RoleDeveloper,
				Work: "T7", Name: "T7"}
			want := transcriptOf(t, output, len(output), o)
			compareGolden(t, "transcript-"+name, want)
			for _, size := range []int{1, 7, 1000} {
				if diff := cmp.Diff(want, transcriptOf(t, output, size, o)); diff != "" {
					t.Errorf("in pieces of %d (-whole +pieces):\n%s", size, diff)
				}
			}
			o.Format = signalbox.FormatAuto
			if diff := cmp.Diff(want, transcriptOf(t, output, len(output), o)); diff != "" {
				t.Errorf("with the format detected (-named +detected):\n%s", diff)
			}
			o.Paint = show.AnyBackground()
			if diff := cmp.Diff(want,
				stripStyles(transcriptOf(t, output, len(output), o))); diff != "" {
				t.Errorf("in colour (-plain +coloured):\n%s", diff)
			}
		})
	}
}

// The ledger has the last word about a signal.
func TestTranscriptMarksWhatTheLedgerAccepted(t *testing.T) {
	const output = "READY_FOR_REVIEW: T7\n\nNo.\n\nTASK_INCOMPLETE: T7\n"
	o := TranscriptOptions{Format: signalbox.FormatPlain, Role: signalbox.RoleDeveloper, Work: "T7",
		Name: "T7"}
	if got := transcriptOf(t, []byte(output), 5, o); !strings.Contains(got,
		"✔ READY_FOR_REVIEW: T7\n") || !strings.Contains(got, "✔ TASK_INCOMPLETE: T7\n") {
		t.Errorf("while it runs:\n%s", got)
	}
	o.Turn = &inspect.Turn{Signals: []inspect.Signal{{Dialect: signalbox.DialectLine, Name: "task_incomplete", Offset: int64(strings.Index(output, "TASK"))}}}
	if got := transcriptOf(t, []byte(output), 5, o); !strings.Contains(got,
		"✘ READY_FOR_REVIEW: T7  (does not count)\n") ||
		!strings.Contains(got, "✔ TASK_INCOMPLETE: T7\n") {
		t.Errorf("when it has ended:\n%s", got)
	}
	o = TranscriptOptions{Format: signalbox.FormatPlain, Role: signalbox.RoleCritic, Work: "T7", Name: "T7"}
	if got := transcriptOf(t, []byte(output), 5, o); !strings.Contains(got,
		"✘ READY_FOR_REVIEW: T7  (refused: out of role") {
		t.Errorf("of another role:\n%s", got)
	}
}

// A signal is shown once, with its mark, wherever it is in its message, whatever follows it, and
// however the output arrives.
func TestTranscriptShowsASignalOnce(t *testing.T) {
	quoted := func(format string, words string) string {
		return fmt.Sprintf(format, strings.ReplaceAll(words, "\n", `\n`)) + "\n"
	}
	programs := map[signalbox.Format]func(words ...string) string{
		signalbox.FormatPlain: func(words ...string) string { return strings.Join(words, "") },
		signalbox.FormatClaude: func(words ...string) (out string) {
			for _, w := range words {
				out += quoted(`{"type":"assistant","message":{"content":[{"type":"text","text":"%s"}]}}`, w)
			}
			return out + quoted(`{"type":"result","subtype":"success","result":"%s"}`,
				words[len(words)-1])
		},
		signalbox.FormatCodex: func(words ...string) (out string) {
			for _, w := range words {
				out += quoted(`{"type":"item.completed","item":{"type":"agent_message","text":"%s"}}`, w)
			}
			return out + `{"type":"turn.completed","usage":{}}` + "\n"
		},
		signalbox.FormatGemini: func(words ...string) (out string) {
			for _, w := range words {
				out += quoted(`{"type":"message","role":"assistant","content":"%s","delta":true}`, w)
			}
			return out + `{"type":"result","status":"success"}` + "\n"
		},
		signalbox.FormatOpencode: func(words ...string) (out string) {
			for _, w := range words {
				out += quoted(`{"type":"text","part":{"type":"text","text":"%s"}}`, w)
			}
			return out + `{"type":"step_finish","part":{"type":"step-finish","reason":"stop"}}` + "\n"
		},
	}
	for _, words := range [][]string{
		{"REVIEW_PASSED: T7"},
		{"REVIEW_PASSED: T7\n"},
		{"REVIEW_PASSED: T7\nFiles Reviewed: a.go\n"},
		{"REVIEW_FAILED: T7\nIssues Found:\n- a.go:1: no\n\nThat is all.\n"},
		{"REVIEW_PASSED: T7\nFiles Reviewed:\n- a.go\n", "CHECKPOINT: T7\n", "Done.\n"},
		{"REVIEW_PASSED: T7\n", "REVIEW_FAILED: T7\nIssues Found: no\n"},
		{"REVIEW_PASSED: T7 and more\nIt is good.\n\nREVIEW_FAILED: T7\n"},
		{"I look.\n", "REVIEW_PASSED: T7\nFiles ", "Reviewed: a\n", "CHECKPOINT: T7\n"},
		{"**REVIEW_PASSED: T7**\n", "REVIEW_PASSED: T7\n"},
	} {
		want := strings.Count(strings.Join(words, ""), ": T7")
		for format, write := range programs {
			output := []byte(write(words...))
			for _, size := range []int{1, 7, len(output)} {
				o := TranscriptOptions{Format: format, Role: signalbox.RoleCritic, Work: "T7",
					Name: "T7"}
				got := transcriptOf(t, output, size, o)
				marks, lines := 0, 0
				for line := range strings.Lines(got) {
					if strings.HasPrefix(line, "✔ ") || strings.HasPrefix(line, "✘ ") {
						marks++
					}
					if said, _, _ := strings.Cut(line, "  (refused"); strings.Contains(said, ": T7") {
						lines++
					}
				}
				if marks != want || lines != want {
					t.Errorf("%s in pieces of %d: %d marks, %d lines, want %d: %q\n%s", format, size,
						marks, lines, want, words, got)
				}
			}
		}
	}
}

// A line of the output with words and a tool call shows them in order, with the mark of a signal.
func TestTranscriptKeepsTheOrder(t *testing.T) {
	const output = `{"type":"assistant","message":{"content":[{"type":"text","text":"I look.\nCHECKPOINT: T7"},{"type":"tool_use","name":"Bash","input":{"command":"ls"}},{"type":"text","text":"Done."}]}}` + "\n"
	o := TranscriptOptions{Format: signalbox.FormatClaude, Role: signalbox.RoleDeveloper,
		Work: "T7", Name: "T7"}
	got := transcriptOf(t, []byte(output+`{"type":"result","subtype":"success"}`+"\n"), 1000, o)
	if want := "I look.\n✔ CHECKPOINT: T7\n  ▸ Bash ls\nDone.\n"; got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

// A task of a second plan has another id than its agent knows.
func TestTranscriptKnowsTheNameInThePlan(t *testing.T) {
	o := TranscriptOptions{Format: signalbox.FormatPlain, Role: signalbox.RoleDeveloper,
		Work: "second.T7", Name: "T7"}
	if got := transcriptOf(t, []byte("READY_FOR_REVIEW: T7\n"), 100,
		o); got != "✔ READY_FOR_REVIEW: T7\n" {
		t.Errorf("%q", got)
	}
}

func TestTranscriptIsSafeForTerminals(t *testing.T) {
	evil := "\x1b]0;x\x07\x1b[31m\u202e\r"
	quoted := strings.Trim(fmt.Sprintf("%q", "\x1b[31m\u202e"), `"`)
	quoted = strings.ReplaceAll(quoted, `\x1b`, `\u001b`)
	for format, output := range map[signalbox.Format]string{
		signalbox.FormatPlain:  evil + "\nREADY_FOR_REVIEW: T7 " + evil + "\n",
		signalbox.FormatClaude: `{"type":"assistant","message":{"content":[{"type":"text","text":"` + quoted + `"},{"type":"tool_use","name":"` + quoted + `","input":{"command":"` + quoted + `"}}]}}` + "\n" + evil + "\n",
		signalbox.FormatCodex:  `{"type":"item.completed","item":{"type":"command_execution","aggregated_output":"` + quoted + `","exit_code":1}}` + "\n" + `{"type":"error","message":"` + quoted + `"}` + "\n",
	} {
		got := transcriptOf(t, []byte(output), 10, TranscriptOptions{Format: format})
		if got == "" || strings.ContainsAny(got, "\x1b\x07\r\u202e") {
			t.Errorf("%s: %q", format, got)
		}
	}
}

// A line that never ends is not kept in memory, and a signal after it is still found.
func TestTranscriptOfALongLine(t *testing.T) {
	result := func(n int) []byte {
		return []byte(`{"type":"user","message":{"content":[{"type":"tool_result","content":"` +
			strings.Repeat("x", n) + `"}]}}` + "\n")
	}
	const after = `{"type":"assistant","message":{"content":[{"type":"text","text":"READY_FOR_REVIEW: T7"}]}}` + "\n" + `{"type":"result","subtype":"success"}` + "\n"
	o := TranscriptOptions{Format: signalbox.FormatClaude, Role: signalbox.RoleDeveloper, Work: "T7", Name: "T7"}
	got := transcriptOf(t, append(result(5<<20), after...), 64<<10, o)
	if want := "  (a line of 5.2 MB is not shown: --raw)\n✔ READY_FOR_REVIEW: T7\n"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	o.Full = true
	got = transcriptOf(t, append(result(5<<20), after...), 64<<10, o)
	if want := "    " + strings.Repeat("x", 5<<20) + "\n✔ READY_FOR_REVIEW: T7\n"; got != want {
		t.Errorf("in full it has %d bytes, want %d", len(got), len(want))
	}
	// A plain line is cut.
	plain := transcriptOf(t, append(bytes.Repeat([]byte("y"), maxWords+10), '\n'), 4096,
		TranscriptOptions{Format: signalbox.FormatPlain})
	if want := strings.Repeat("y", maxWords) + "…\n"; plain != want {
		t.Errorf("a plain line has %d bytes, want %d", len(plain), len(want))
	}
}

// Nothing is left out of a full transcript.
func TestTranscriptInFull(t *testing.T) {
	long := strings.Repeat("word ", 100) + "end"
	stream := `{"type":"assistant","message":{"content":[{"type":"thinking","thinking":"one\ntwo"},` +
		`{"type":"tool_use","name":"Bash","input":{"command":"` + long + `"}}]}}` + "\n" +
		`{"type":"user","message":{"content":[{"type":"tool_result","content":"1\n2\n3\n4\n` +
		long + `"}]}}` + "\n"
	want := "  · one\n    two\n  ▸ Bash " + long + "\n    1\n    2\n    3\n    4\n    " + long + "\n"
	if got := transcriptOf(t, []byte(stream), 64, TranscriptOptions{Full: true,
		Format: signalbox.FormatClaude}); got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	words := strings.Repeat("y", 3*maxWords) + "\n"
	if got := transcriptOf(t, []byte(words), 4096, TranscriptOptions{Full: true,
		Format: signalbox.FormatPlain}); got != words {
		t.Errorf("a plain line has %d bytes, want %d", len(got), len(words))
	}
}

// The memory does not grow with the transcript.
func TestTranscriptNeedsLittleMemory(t *testing.T) {
	p := NewTranscript(io.Discard, TranscriptOptions{Format: signalbox.FormatClaude,
		Role: signalbox.RoleDeveloper, Work: "T7", Name: "T7"})
	line := []byte(`{"type":"assistant","message":{"content":[{"type":"text","text":"CHECKPOINT: T7\n\nsome words\n"},{"type":"tool_use","name":"Read","input":{"file_path":"auth.go"}}]}}` + "\n" +
		`{"type":"user","message":{"content":[{"type":"tool_result","content":"` +
		strings.Repeat("12 files\\n", 100) + `"}]}}` + "\n")
	inUse := func() uint64 {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	write := func(n int) {
		for range n {
			p.Write(line)
		}
	}
	write(2500)
	before := inUse()
	write(4000)
	if after := inUse(); after > before+(1<<20) {
		t.Errorf("%d bytes are in use after 2,500 messages, and %d after 6,500", before, after)
	}
	runtime.KeepAlive(p)
}
