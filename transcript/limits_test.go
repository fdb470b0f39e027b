package transcript_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"signalbox"
	"signalbox/transcript"
)

// padded returns before and after with as much padding between them as makes size bytes.
func padded(before, after string, size int) string {
	return before + strings.Repeat("x", size-len(before)-len(after)) + after
}

// Every size limit is inclusive, however the text is cut.
func TestSizeLimits(t *testing.T) {
	exit := func(size int) string {
		return padded(`{"protocol":"apm2_agent_exit","version":"1.0.0","phase_completed":"REVIEW","exit_reason":"completed","pr_url":"https://github.com/o/r/pull/1","evidence_bundle_ref":"evidence/`, `"}`, size)
	}
	notes := func(size int) string {
		object := `{"protocol":"apm2_agent_exit","version":"1.0.0","phase_completed":"REVIEW",` +
			"\n" + `"exit_reason":"completed"`
		return object + strings.Repeat(" ", size-len(object)-1) + "}"
	}
	for _, tt := range []struct {
		name  string
		limit int
		text  func(size int) string
	}{
		{"exit signal", 65536, notes},
		{"exit signal that is not valid", 65536, exit},
		{"line signal", 65536,
			func(size int) string { return padded("CHECKPOINT: t1 ", "", size) }},
		{"turn signal", 16384, func(size int) string {
			return padded(`<signal type="partial_answer"><missing>m</missing><other>`,
				`</other></signal>`, size)
		}},
	} {
		for _, size := range []int{tt.limit - 1, tt.limit, tt.limit + 1} {
			text := []byte(tt.text(size) + "\n")
			for _, piece := range []int{len(text), 1000, 1} {
				t.Run(fmt.Sprintf("%s of %d bytes in pieces of %d", tt.name, size, piece),
					func(t *testing.T) {
						signals := scanPieces(slices.Collect(slices.Chunk(text, piece)),
							plain)
						if len(signals) != 1 {
							t.Fatalf("%d signals", len(signals))
						}
						if tooLarge := signals[0].Refused == signalbox.ReasonTooLarge; tooLarge != (size > tt.limit) {
							t.Errorf("refused %q: %s", signals[0].Refused, signals[0].Detail)
						}
					})
			}
		}
	}
}

// A body is kept up to its limit. A longer one gets a remark, and its signal counts.
func TestBodyLimit(t *testing.T) {
	for _, size := range []int{transcript.MaxBody, transcript.MaxBody + 1} {
		text := "CHECKPOINT: t1\n" + padded("Summary: ", "", size)
		signals := scanPieces([][]byte{[]byte(text)},
			plain)
		if len(signals) == 0 || !signals[0].Taken() {
			t.Fatalf("%d bytes: %d signals", size, len(signals))
		}
		summary, _ := signals[0].Body["Summary"].(string)
		if want := transcript.MaxBody - len("Summary: "); len(summary) != want {
			t.Errorf("%d bytes: kept %d, want %d", size, len(summary), want)
		}
		if remarked := len(signals) == 2 &&
			signals[1].Refused == signalbox.ReasonTooLarge; remarked != (size > transcript.MaxBody) {
			t.Errorf("%d bytes: %d signals", size, len(signals))
		}
	}
}

// An exit signal in a fence that counts ends the body before the fence, even if the body has
// reached its limit meanwhile.
func TestFencedExitEndsFullBody(t *testing.T) {
	body := padded("Summary: ", "\n", transcript.MaxBody-60)
	text := "READY_FOR_REVIEW: t1\n" + body +
		"```json\n" + `{"protocol":"apm2_agent_exit","version":"1.0.0","phase_completed":"IMPLEMENTATION","exit_reason":"completed"}` + "\n```\n\n"
	for _, piece := range []int{len(text), 10} {
		signals := scanPieces(slices.Collect(slices.Chunk([]byte(text), piece)),
			plain)
		if len(signals) != 2 || !signals[0].Taken() || signals[1].Exit == nil {
			t.Fatalf("in pieces of %d: %d signals", piece, len(signals))
		}
		summary, _ := signals[0].Body["Summary"].(string)
		if want := strings.TrimSpace(strings.TrimPrefix(body, "Summary: ")); summary != want {
			t.Errorf("in pieces of %d: the body has %d bytes and ends in %q, want %d", piece,
				len(summary), summary[len(summary)-20:], len(want))
		}
	}
}
