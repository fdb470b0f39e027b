package transcript_test

import (
	"bytes"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/rogpeppe/go-internal/txtar"
	"pgregory.net/rapid"

	"signalbox"
	"signalbox/internal/testkit/must"
	"signalbox/internal/testkit/property"
	"signalbox/transcript"
)

// scanOnce scans the input in one piece.
func scanOnce(input []byte, opts *transcript.Options) ([]signalbox.Signal, signalbox.StreamReport) {
	s := transcript.NewScanner(opts)
	got := append([]signalbox.Signal(nil), s.Push(input)...)
	return append(got, s.Close()...), s.Report()
}

// scanCuts scans the input in pieces of random sizes. It overwrites each piece after the call.
func scanCuts(input []byte, opts *transcript.Options,
	seed uint64) ([]signalbox.Signal, signalbox.StreamReport) {
	random := rand.New(rand.NewPCG(seed, 1))
	most := 1 + random.IntN(1<<random.IntN(14))
	s := transcript.NewScanner(opts)
	var got []signalbox.Signal
	buf := make([]byte, most)
	for len(input) > 0 {
		n := copy(buf[:1+random.IntN(most)], input)
		got = append(got, s.Push(buf[:n])...)
		clear(buf)
		input = input[n:]
	}
	got = append(got, s.Close()...)
	return got, s.Report()
}

func checkCuts(t interface{ Errorf(string, ...any) }, input []byte, opts *transcript.Options,
	seed uint64) {
	whole, wholeReport := scanOnce(input, opts)
	pieces, piecesReport := scanCuts(input, opts, seed)
	if !reflect.DeepEqual(whole, pieces) { // faster than cmp.Diff
		t.Errorf("signals depend on the cuts (-whole +pieces):\n%.2000s", cmp.Diff(whole, pieces))
	}
	if wholeReport != piecesReport {
		t.Errorf("report depends on the cuts:\nwhole  %+v\npieces %+v", wholeReport, piecesReport)
	}
	checkOrder(t, whole)
}

func checkOrder(t interface{ Errorf(string, ...any) }, signals []signalbox.Signal) {
	for i, s := range signals {
		if i > 0 && s.Offset < signals[i-1].Offset {
			t.Errorf("signal %d at %d comes after one at %d", i, s.Offset, signals[i-1].Offset)
		}
		if s.Taken() && s.Name == "" {
			t.Errorf("signal %d is taken and has no name: %+v", i, s)
		}
	}
}

// kitInputs returns the plain inputs of the recognition kit.
func kitInputs(f must.Test) (inputs []string) {
	files, err := filepath.Glob("../testdata/recognition/*.txtar")
	if err != nil || len(files) == 0 {
		f.Fatal("no recognition kit: ", err)
	}
	for _, file := range files {
		data, err := os.ReadFile(file)
		must.Succeed(f, err)
		for _, part := range txtar.Parse(data).Files {
			if strings.HasSuffix(part.Name, "/input") {
				inputs = append(inputs, string(part.Data))
			}
		}
	}
	return inputs
}

// FuzzCuts checks that the signals do not depend on how the input is cut.
func FuzzCuts(f *testing.F) {
	for i, input := range kitInputs(f) {
		f.Add([]byte(input), uint64(i), uint8(i), "")
		if strings.Contains(input, `{"type":"content",`) {
			f.Add([]byte(input), uint64(i),
				uint8(slices.Index(signalbox.Formats(), signalbox.FormatOracle)), "")
		}
	}
	f.Fuzz(func(t *testing.T, input []byte, seed uint64, format uint8, key string) {
		formats := signalbox.Formats()
		opts := &transcript.Options{Format: formats[int(format)%len(formats)], Key: key}
		checkCuts(t, input, opts, seed)
	})
}

// fragments are parts of texts in which the dialects interfere with one another.
var fragments = []string{"READY_FOR_REVIEW: t1", "REVIEW_PASSED: t1 key:k", "CHECKPOINT: t1",
	"EXPERT_REQUEST", "**AUDIT_PASSED: t1**",
	"\n", "\n", "\n", "\n", "\r\n", "```", "```json", "~~~", "   ", " ", "\t", "{", "}", `"`, `\`,
	"<signal", "</signal>", ` type="stuck"`, ` key="k"`, ">",
	"/>", "<signal type=\"need_turn\"><reason>r</reason></signal>", "<reason>", "</reason>",
	"---DELEGATION PROMPT START---",
	"---DELEGATION PROMPT END---",
	`{"protocol":"apm2_agent_exit","version":"1.0.0","phase_completed":"REVIEW","exit_reason":"completed"}`,
	`"protocol":"apm2_agent_exit"`, `{"protocol":"apm2_agent_exit",`, "Files Modified:",
	"- a.go: text", "| a | b |", "\xff", "é", "🚦", "text", "\x00", "\v",
	"- ", "1. ", "> ", "✅ ", "`", ":", "FILE CONFLICT: \"a b\"", "file conflict: x",
	"HEALTH_AUDIT: HEALTHY", "SUB-TASK: a", "<", "S", "<think>", "</think>", "<Reasoning ",
	"REVIEW_PASSED: t1", "Summary:"}

func drawText(t *rapid.T) string {
	return strings.Join(rapid.SliceOfN(rapid.SampledFrom(fragments), 0, 60).Draw(t, "fragments"),
		"")
}

func TestCuts(t *testing.T) {
	property.Check(t, func(t *rapid.T) {
		key := rapid.SampledFrom([]string{"", "k"}).Draw(t, "key")
		checkCuts(t, []byte(drawText(t)), &transcript.Options{Format: signalbox.FormatPlain,
			Key: key}, rapid.Uint64().Draw(t, "seed"))
	})
}

// The limits of bodies, blocks and objects must not depend on the cuts either.
func TestCutsAtTheLimits(t *testing.T) {
	long := []string{strings.Repeat("x", 70_000), strings.Repeat("line of text\n", 6000),
		strings.Repeat("{\n", 40_000), strings.Repeat("<signal type=\"stuck\">\n", 900),
		strings.Repeat(" ", 17_000), strings.Repeat("` `` ", 3300), "`" +
			strings.Repeat("<signal type=\"stuck\"/>", 800), strings.Repeat("{\"a\":\"", 12_000),
		strings.Repeat("READY_FOR_REVIEW: t1\n", 1100)}
	pool := append(append([]string(nil), long...), fragments...)
	property.Check(t, func(t *rapid.T) {
		parts := rapid.SliceOfN(rapid.SampledFrom(pool), 0, 12).Draw(t, "parts")
		parts = append(parts, rapid.SliceOfN(rapid.SampledFrom(long), 0, 2).Draw(t, "long")...)
		parts = rapid.Permutation(parts).Draw(t, "order")
		checkCuts(t, []byte(strings.Join(parts, "")),
			plain, rapid.Uint64().Draw(t, "seed"))
	})
}

func TestCutsOfCaptures(t *testing.T) {
	for _, input := range kitInputs(t) {
		for seed := range uint64(3) {
			checkCuts(t, []byte(input), &transcript.Options{}, seed)
		}
	}
}

// A stray brace, quote, fence or tag must not hide a signal on a later line.
func TestStrayTextDoesNotHideSignals(t *testing.T) {
	property.Check(t, func(t *rapid.T) {
		noise := rapid.SliceOfN(rapid.Byte(), 0, 300).Draw(t, "noise")
		if bytes.Contains(noise, []byte("```")) || bytes.Contains(noise, []byte("~~~")) {
			t.Skip("a fence hides what follows, and should")
		}
		exit := `{"protocol":"apm2_agent_exit","version":"1.0.0","phase_completed":"REVIEW","exit_reason":"completed"}`
		text := string(noise) + "\nREADY_FOR_REVIEW: t1\n\n" + exit + "\n"
		var names []string
		got, _ := scanOnce([]byte(text), plain)
		for _, s := range got {
			if s.Taken() && s.Offset > int64(len(noise)) {
				names = append(names, s.Name)
			}
		}
		if diff := cmp.Diff([]string{"ready_for_review", "agent_exit"}, names); diff != "" {
			t.Errorf("after %q (-want +got):\n%s", noise, diff)
		}
	})
}

// A string that is open when an object is dropped must not swallow the next object.
func TestDroppedObjectDoesNotHideTheNext(t *testing.T) {
	exit := `{"protocol":"apm2_agent_exit","version":"1.0.0","phase_completed":"REVIEW","exit_reason":"completed"}`
	text := `{"a":"` + strings.Repeat("x", 100_000) + "\n" + exit + "\n"
	got, _ := scanOnce([]byte(text), plain)
	if len(got) != 1 || !got[0].Taken() || got[0].Name != "agent_exit" {
		t.Errorf("got %+v", got)
	}
}

// A block in a fence that cannot contain an exit signal is reported with all of its lines.
func TestFencedTurnSignalOfSeveralLines(t *testing.T) {
	block := "<signal type=\"stuck\">\n<attempted>[\"a\"]</attempted>\n<blocker>b</blocker>\n</signal>"
	signals, _ := scanOnce([]byte("```xml\n"+block+"\n```\n"),
		plain)
	if len(signals) != 1 || signals[0].Refused != signalbox.ReasonFenced ||
		signals[0].Raw != block {
		t.Errorf("got %+v", signals)
	}
}

// A remark after a fenced exit signal is not released before it, although the signal waits for the
// end of the turn.
func TestRemarkAfterFencedExit(t *testing.T) {
	stream := []string{
		`{"type":"item.completed","item":{"type":"agent_message","text":"` + "```json\\n" +
			`{\"protocol\":\"apm2_agent_exit\",\"version\":\"1.0.0\",\"phase_completed\":\"REVIEW\",\"exit_reason\":\"completed\"}` + "\\n```" + `"}}`,
		`{"type":"news"}`,
		`{"type":"turn.completed","usage":{}}`,
	}
	scanner := transcript.NewScanner(&transcript.Options{Format: signalbox.FormatCodex})
	var signals []signalbox.Signal
	for _, line := range stream {
		signals = append(signals, scanner.Push([]byte(line+"\n"))...)
	}
	signals = append(signals, scanner.Close()...)
	if len(signals) != 2 || signals[0].Exit == nil || signals[1].Refused != signalbox.ReasonDrift {
		t.Errorf("got %+v", signals)
	}
}
