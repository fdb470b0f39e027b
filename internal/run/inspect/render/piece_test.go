package render

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"signalbox"
	"signalbox/internal/testkit/must"
	"signalbox/transcript"
)

// counting counts how much of a transcript is read.
type counting struct {
	*bytes.Reader
	read int
}

func (c *counting) ReadAt(p []byte, at int64) (int, error) {
	n, err := c.Reader.ReadAt(p, at)
	c.read += n
	return n, err
}

// located returns the signals of a transcript, with their places.
func located(output []byte, format signalbox.Format) (signals []signalbox.Signal) {
	s := transcript.NewScanner(&transcript.Options{Format: format, Locate: true})
	signals = append(signals, s.Push(output)...)
	return append(signals, s.Close()...)
}

// marks returns the signals that are shown.
func marks(signals []signalbox.Signal, o TranscriptOptions) []signalbox.Signal {
	var shown []signalbox.Signal
	for _, sig := range signals {
		if o.Judge(&sig) {
			shown = append(shown, sig)
		}
	}
	return shown
}

func viewOf(output []byte, raw bool, o TranscriptOptions) *View {
	return NewView(bytes.NewReader(output), int64(len(output)), marks(located(output, o.Format), o),
		raw, o)
}

// forward returns all pieces of a view from the start, and backward from the end.
func forward(t *testing.T, v *View) (pieces []Piece) {
	t.Helper()
	for at := int64(0); at < v.size; {
		p, err := v.After(at)
		if err != nil || p.From != at || p.To <= p.From {
			t.Fatalf("after %d: %d to %d, %v", at, p.From, p.To, err)
		}
		pieces = append(pieces, p)
		at = p.To
	}
	return pieces
}

func backward(t *testing.T, v *View) (pieces []Piece) {
	t.Helper()
	for at := v.size; at > 0; {
		p, err := v.Before(at)
		if err != nil || p.To != at || p.To <= p.From {
			t.Fatalf("before %d: %d to %d, %v", at, p.From, p.To, err)
		}
		pieces = append(pieces, p)
		at = p.From
	}
	slices.Reverse(pieces)
	return pieces
}

func linesOf(pieces []Piece) (lines []string) {
	for _, p := range pieces {
		for _, l := range p.Lines {
			lines = append(lines, Line{Kind: l.Kind, Indent: l.Indent, Text: l.Text + spansText(l),
				Note: l.Note}.format(TranscriptOptions{}.Paint))
		}
	}
	return lines
}

func spansText(l Line) (s string) {
	for _, span := range l.Spans {
		s += span.Text
	}
	return s
}

// TestPiecesAreTheTranscript checks that the pieces of every format have the lines that logs
// prints, in both directions.
func TestPiecesAreTheTranscript(t *testing.T) {
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
			v := viewOf(output, false, o)
			for direction, pieces := range map[string][]Piece{"forward": forward(t, v),
				"backward": backward(t, v)} {
				got := linesOf(pieces)
				if diff := cmp.Diff(withoutMarks(want),
					withoutMarks(strings.Join(got, "\n")+"\n")); diff != "" {
					t.Errorf("%s (-logs +pieces):\n%s", direction, diff)
				}
				if diff := cmp.Diff(marksIn(want), marksIn(strings.Join(got, "\n"))); diff != "" {
					t.Errorf("%s: marks (-logs +pieces):\n%s", direction, diff)
				}
			}
		})
	}
}

var mark = regexp.MustCompile(`(?m)^[✔✘] (.*?)(  \(.*\))?$`)

// withoutMarks returns the words of a transcript. The log learns of some signals only after it has
// printed them, and then prints them again.
func withoutMarks(printed string) string {
	var lines []string
	for line := range strings.Lines(printed) {
		if m := mark.FindStringSubmatch(strings.TrimSuffix(line, "\n")); m == nil {
			lines = append(lines, line)
		} else if plain := m[1] + "\n"; !slices.Contains(lines, plain) {
			lines = append(lines, plain)
		}
	}
	return strings.Join(lines, "")
}

func marksIn(printed string) []string {
	found := mark.FindAllString(printed, -1)
	slices.Sort(found)
	return found
}

// TestUnits checks that the units of a transcript are the same wherever reading starts, and that
// nothing is lost, for lines of every length and for every kind of bytes.
func TestUnits(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for round := range 60 {
		var b bytes.Buffer
		for b.Len() < 40<<10 {
			length := []int{0, 1, 30, 300, 4095, 4096, 4097, 8191, 8192, 20000}[random.IntN(10)]
			filler := []string{"x", "é", "漢", "🚂", "\x80", "\xff\xfe", "a漢"}[random.IntN(7)]
			b.WriteString(strings.Repeat(filler, length/len(filler)+1)[:length])
			if random.IntN(8) > 0 {
				b.WriteString([]string{"\n", "\r\n"}[random.IntN(2)])
			}
		}
		output := b.Bytes()
		v := viewOf(output, true, TranscriptOptions{Format: signalbox.FormatPlain})
		var bounds []int64
		for at := int64(0); at < v.size; {
			bounds = append(bounds, at)
			end, err := v.unitEnd(at)
			if err != nil || end <= at || end-at > 2*rawUnit {
				t.Fatalf("round %d: the unit at %d ends at %d: %v", round, at, end, err)
			}
			at = end
		}
		for range 300 {
			at := random.Int64N(v.size)
			i, found := slices.BinarySearch(bounds, at)
			if !found {
				i--
			}
			if start, err := v.unitStart(at); err != nil || start != bounds[i] {
				t.Fatalf("round %d: the unit at %d starts at %d, not at %d: %v", round, at, start,
					bounds[i], err)
			}
		}
		all := linesOf(forward(t, v))
		if diff := cmp.Diff(all, linesOf(backward(t, v))); diff != "" {
			t.Fatalf("round %d (-forward +backward):\n%.2000s", round, diff)
		}
	}
}

// TestPieceIsSmall checks that a piece of a huge transcript reads little of it, has few lines, and
// shows something, wherever it is.
func TestPieceIsSmall(t *testing.T) {
	message := strings.Repeat(`line of a long message\n`, 40_000)
	for name, output := range map[string]string{
		"short lines": strings.Repeat("a line of words\n", 500_000),
		"empty lines": strings.Repeat("\n", 4_000_000),
		"one line":    strings.Repeat("x", 8_000_000),
		"long lines":  strings.Repeat(strings.Repeat("y", 3_000_000)+"\n", 3),
		"JSON": strings.Repeat(
			`{"type":"item.completed","item":{"type":"command_execution","aggregated_output":"`+
				strings.Repeat("z", 500)+`","exit_code":0}}`+"\n", 12_000),
		"long message": strings.Repeat(
			`{"type":"item.completed","item":{"type":"agent_message","text":"`+message+`"}}`+"\n",
			8),
		"not UTF-8": strings.Repeat("\x80\xbf", 4_000_000),
	} {
		t.Run(name, func(t *testing.T) {
			r := &counting{Reader: bytes.NewReader([]byte(output))}
			size := int64(len(output))
			for _, raw := range []bool{false, true} {
				v := NewView(r, size, nil, raw, TranscriptOptions{Format: signalbox.FormatAuto})
				for _, at := range []int64{0, 1, size / 3, size / 2, size - 1, size} {
					for direction, piece := range map[string]func(int64) (Piece,
						error){"after": v.After, "before": v.Before} {
						r.read = 0
						p, err := piece(at)
						if err != nil || r.read > 8<<20 || len(p.Lines) > pieceLines+unitLines+1 {
							t.Errorf("raw %v, %s %d: %d bytes read, %d lines: %v", raw, direction,
								at, r.read, len(p.Lines), err)
						}
						if empty := direction == "after" && at == size || direction == "before" &&
							at <= 1; !empty && (p.To <= p.From || len(p.Lines) == 0) {
							t.Errorf("raw %v, %s %d: nothing: %d to %d", raw, direction, at, p.From,
								p.To)
						}
						if direction == "after" && (p.From > at || at < size && p.To <= at) {
							t.Errorf("raw %v: the piece from %d to %d does not have %d", raw,
								p.From, p.To, at)
						}
					}
				}
			}
		})
	}
}

// TestRawMarks checks that exactly the bytes of the signals are marked, in every format, after
// characters of every length and with CRLF.
func TestRawMarks(t *testing.T) {
	const said = "Zürich 漢字 🚂"
	for format, output := range map[signalbox.Format]string{
		signalbox.FormatPlain: said +
			"\r\nREADY_FOR_REVIEW: T7\r\n```\r\nREVIEW_PASSED: T7\r\n```\r\n",
		signalbox.FormatClaude: `{"type":"assistant","message":{"content":[{"type":"text","text":"` + said + `\r\nREADY_FOR_REVIEW: T7\r\n` + "```" + `\nREVIEW_PASSED: T7\n` + "```" + `"}]},"parent_tool_use_id":null}` + "\r\n",
		signalbox.FormatCodex: `{"type":"item.completed","item":{"type":"agent_message","text":"` +
			said + `\u00e9\nREADY_FOR_REVIEW: T7\n` + "```" + `\nREVIEW_PASSED: T7\n` + "```" +
			`"}}` + "\n",
	} {
		o := TranscriptOptions{Format: format, Role: signalbox.RoleDeveloper, Work: "T7",
			Name: "T7"}
		p, err := viewOf([]byte(output), true, o).After(0)
		must.Succeed(t, err)
		var marked []string
		for _, l := range p.Lines {
			for _, span := range l.Spans {
				if got := output[span.From:span.To]; got != span.Text &&
					!strings.Contains(got, "\r") {
					t.Errorf("%s: %d to %d is %q, not %q", format, span.From, span.To, got,
						span.Text)
				}
				if span.Kind != "" {
					marked = append(marked, fmt.Sprintf("%s %s %s", span.Kind, span.Text,
						span.Note))
				}
			}
		}
		want := []string{"accepted READY_FOR_REVIEW: T7 ",
			"refused REVIEW_PASSED: T7 refused: fenced"}
		if diff := cmp.Diff(want, marked); diff != "" {
			t.Errorf("%s (-want +got):\n%s", format, diff)
		}
	}
}

// A line that mentions a signal is not marked in place of the signal.
func TestTranscriptMarksTheSignalItself(t *testing.T) {
	const output = "I would say READY_FOR_REVIEW: T7 now.\nREADY_FOR_REVIEW: T7\n"
	o := TranscriptOptions{Format: signalbox.FormatCodex, Role: signalbox.RoleDeveloper, Work: "T7",
		Name: "T7"}
	line := `{"type":"item.completed","item":{"type":"agent_message","text":"` +
		strings.ReplaceAll(output, "\n", `\n`) + `"}}` + "\n"
	want := "I would say READY_FOR_REVIEW: T7 now.\n✔ READY_FOR_REVIEW: T7\n"
	if got := transcriptOf(t, []byte(line), 1000, o); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}
